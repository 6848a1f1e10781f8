//! The repository as the subcommands see it: its root, its files, the programs that are run on it.
//!
//! What comes in: nothing but the place where this program was compiled from. What goes out: paths
//! relative to the root, and the output of programs, or an error that names the program.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The repository's root: the folder above this crate's.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// Every file that git knows or would take, relative to the root, sorted.
pub fn files() -> Result<Vec<String>> {
    let list = output(
        "git",
        [
            "ls-files",
            "--cached",
            "--others",
            "--exclude-standard",
            "-z",
        ],
    )?;
    let mut files: Vec<String> = list
        .split('\0')
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect();
    files.sort_unstable();
    files.dedup();
    // A file that was deleted and not yet committed is still listed.
    let root = root();
    files.retain(|name| root.join(name).is_file());
    Ok(files)
}

/// The text of a file of the repository, or nothing if it is not text.
pub fn text(name: &str) -> Result<Option<String>> {
    let bytes = std::fs::read(root().join(name)).with_context(|| format!("cannot read {name}"))?;
    Ok(String::from_utf8(bytes).ok())
}

/// What a program prints, run at the root; an error if it fails.
pub fn output<S: AsRef<OsStr>>(
    program: &str,
    arguments: impl IntoIterator<Item = S>,
) -> Result<String> {
    let done = Command::new(program)
        .args(arguments)
        .current_dir(root())
        .output()
        .with_context(|| format!("cannot run `{program}`: is it installed?"))?;
    if !done.status.success() {
        bail!(
            "`{program}` failed: {}",
            String::from_utf8_lossy(&done.stderr).trim()
        );
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

/// The `cargo` that runs us.
pub fn cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}

/// `cargo build` at the root. The variables with which cargo describes this program's own package are not passed on: build scripts that look
/// at it (ring's does) would run again.
pub fn cargo_build() -> Command {
    let mut build = Command::new(cargo());
    build.arg("build").current_dir(root());
    for (name, _) in std::env::vars_os() {
        let of_package = name.to_str().is_some_and(|name| {
            name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
        });
        if of_package {
            build.env_remove(name);
        }
    }
    build
}

/// Names of the crates that `package` is built from, itself included; development tools are not.
pub fn normal_dependencies(package: &str) -> Result<std::collections::BTreeSet<String>> {
    let arguments = [
        "tree",
        "--locked",
        "--package",
        package,
        "--edges",
        "normal",
        "--prefix",
        "none",
    ];
    let tree = output(&cargo(), arguments.into_iter().chain(["--format", "{p}"]))?;
    // A line is `name v1.2.3 (where it comes from)`.
    let named = tree.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        Some(format!("{} {}", words.next()?, words.next()?))
    });
    Ok(named.collect())
}

/// What of a source is not its tests: all before the module `tests`, which is the last of a file.
pub fn code(text: &str) -> &str {
    let tests = text.find("#[cfg(test)]\nmod tests");
    tests.map_or(text, |at| &text[..at])
}
