//! `cargo xtask man DIR`: man pages and completions of the programs.
//!
//! What comes in: a folder. What goes out: files in it, and their number on stderr; exit code 2 without
//! a folder, 3 when one cannot be written.

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(folder) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("error: no folder is named\nhelp: cargo xtask man DIR");
        return ExitCode::from(2);
    };
    match outhaul_manuals::write(&folder) {
        Ok(files) => {
            eprintln!("{files} files in `{}`", folder.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(3)
        }
    }
}
