//! What the system starts when it starts a script: the program that its first line names.
//!
//! What comes in: a file, and where `env` looks for programs. What goes out: the interpreter's file, that there is none, or that the line
//! cannot be followed. It reads a bounded beginning of the file, starts nothing, and says nothing about whose file it is.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::watched;

/// How much of a file is read for its first line; the system itself reads 256 bytes.
const MAX_LINE_BYTES: u64 = 4096;

/// Interpreters that are scripts themselves: as many as the system starts.
pub(super) const MOST_INTERPRETERS: usize = 5;

/// What a file is started with.
#[derive(Debug, PartialEq, Eq)]
pub enum Interpreter {
    /// It is no script, or cannot be executed or read: nothing but the file itself is started.
    Itself,
    /// These files, the first by the system and the second by `env`.
    Files(Vec<PathBuf>),
    /// `env` is started, and finds no program of this name.
    Absent {
        /// The file of `env`.
        env: PathBuf,
        /// What it looks for.
        name: String,
    },
    /// The first line ends with a carriage return, which the system takes for a part of the name or of the argument.
    CarriageReturn,
    /// Which program it names cannot be known: its first line.
    Unknown(String),
}

/// What starts `program`. `path` is where `env` looks, without it this process's own.
pub fn of(program: &Path, path: Option<&str>) -> Interpreter {
    let Some(line) = first_line(program) else {
        return Interpreter::Itself;
    };
    if line.ends_with('\r') {
        return Interpreter::CarriageReturn;
    }
    let (named, argument) = match line.split_once([' ', '\t']) {
        Some((named, argument)) => (named, argument.trim_matches([' ', '\t'])),
        None => (line.as_str(), ""),
    };
    let named = Path::new(named);
    if !named.is_absolute() {
        return Interpreter::Unknown(line);
    }
    let env = named.to_owned();
    if env.file_name().is_none_or(|name| name != "env") {
        return Interpreter::Files(vec![env]);
    }
    let Some(name) = of_env(argument) else {
        return Interpreter::Unknown(line);
    };
    match watched::found(Path::new(name), path) {
        Some(found) => Interpreter::Files(vec![env, found]),
        None => Interpreter::Absent {
            env,
            name: name.to_owned(),
        },
    }
}

/// What follows `#!` in the first line of a file that may be executed.
fn first_line(program: &Path) -> Option<String> {
    let file = File::open(program).ok()?;
    let found = file.metadata().ok()?;
    if !found.is_file() || found.permissions().mode() & 0o111 == 0 {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(MAX_LINE_BYTES).read_to_end(&mut bytes).ok()?;
    let line = bytes.strip_prefix(b"#!")?;
    let line = line
        .split(|byte| matches!(byte, b'\n' | 0))
        .next()
        .unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let line = line.trim_matches([' ', '\t']);
    (!line.is_empty()).then(|| line.to_owned())
}

/// The program that `env` starts: its only argument, or with `-S` the first word that sets no variable.
fn of_env(argument: &str) -> Option<&str> {
    let name = match argument.strip_prefix("-S") {
        None => argument,
        Some(words) => words
            .split_ascii_whitespace()
            .find(|word| !word.contains('='))?,
    };
    let other_path = argument.contains("PATH=");
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._+-".contains(c);
    let known = !name.is_empty() && !name.starts_with('-') && name.chars().all(plain);
    (known && !other_path && (!name.contains('/') || name.starts_with('/'))).then_some(name)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_program_that_a_first_line_names_is_found_or_said_to_be_unknown() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let write = |name: &str, bytes: &[u8]| {
            fs::write(at(name), bytes).unwrap();
            fs::set_permissions(at(name), fs::Permissions::from_mode(0o755)).unwrap();
        };
        write("python9", b"\x7fELF");
        let path = folder.path().to_str().unwrap().to_owned();
        let of = |text: &str| {
            write("script", text.as_bytes());
            super::of(&at("script"), Some(&path))
        };
        let files = |names: &[&str]| {
            Interpreter::Files(names.iter().map(|name| folder.path().join(name)).collect())
        };
        assert_eq!(super::of(&at("python9"), None), Interpreter::Itself);
        assert_eq!(of("echo\n"), Interpreter::Itself);
        assert_eq!(of("#! /bin/sh -e\necho\n"), files(&["/bin/sh"]));
        let env = files(&["/usr/bin/env", "python9"]);
        assert_eq!(of("#!/usr/bin/env python9\n"), env);
        assert_eq!(of("#!/usr/bin/env -S LANG=C python9 -u\n"), env);
        for none in [
            "no-such-program",
            "-S no-such-program -u",
            "/no/such/program",
        ] {
            let found = of(&format!("#!/usr/bin/env {none}\n"));
            let name = none.trim_start_matches("-S ").trim_end_matches(" -u");
            let env = "/usr/bin/env".into();
            let name = name.to_owned();
            assert_eq!(found, Interpreter::Absent { env, name });
        }
        for line in ["/bin/sh", "/bin/sh -e", "/usr/bin/env python9"] {
            let found = of(&format!("#!{line}\r\necho\r\n"));
            assert_eq!(found, Interpreter::CarriageReturn, "{line}");
        }
        for unknown in [
            "venv/bin/python",
            "/usr/bin/env -i python9",
            "/usr/bin/env -S PATH=/tmp python9",
            "/usr/bin/env ./python9",
        ] {
            let found = of(&format!("#!{unknown}\n"));
            assert_eq!(found, Interpreter::Unknown(unknown.to_owned()));
        }
        // Nothing starts what may not be executed.
        fs::set_permissions(at("script"), fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(super::of(&at("script"), None), Interpreter::Itself);
    }
}
