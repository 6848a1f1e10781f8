//! Whether the system would start a program, without starting it.
//!
//! What comes in: a program's path, and where `env` looks for others. What goes out: nothing, or what lacks and what to do: the file or its
//! interpreter is not there or may not be executed, or the file is of no kind that this machine starts. It reads a bounded beginning of each file. Whose files they are, `program`
//! knows.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use outhaul_kit::text::quoted;

use super::interpreter::{self, Interpreter, MOST_INTERPRETERS};

/// The beginning of an ELF file that names its machine: 16 bytes of identity, the type, the machine.
const ELF_BEGINNING: usize = 20;
const ELF: &[u8] = b"\x7fELF";
/// ELF machines of which one kernel starts both: x86-64 and 386, 64-bit and 32-bit Arm, 64-bit and 32-bit Power.
const FAMILIES: [[u16; 2]; 3] = [[62, 3], [183, 40], [21, 20]];
/// Where the kernel lists what starts other kinds of files.
const OTHER_KINDS: &str = "/proc/sys/fs/binfmt_misc";
/// What always lies there, and is no kind.
const NO_KIND: [&str; 2] = ["register", "status"];

/// Why the system would not start a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotRunnable {
    /// What lacks, in a sentence.
    pub problem: String,
    /// What to do.
    pub way_out: String,
}

/// What the system starts for a program named by its path, whoever may change it: whether all of it is there, may be executed by this user, and is
/// of a kind that this machine starts. `search` is where `env` looks for an interpreter, without it this process's own path.
///
/// # Errors
/// [`NotRunnable`] names the first that lacks.
pub fn runnable(program: &Path, search: Option<&str>) -> Result<(), NotRunnable> {
    let mut files = vec![(program.to_owned(), 0)];
    while let Some((file, depth)) = files.pop() {
        look_at(&file).map_err(|problem| not_runnable(program, &file, depth, problem))?;
        if depth >= MOST_INTERPRETERS {
            continue;
        }
        match interpreter::of(&file, search) {
            Interpreter::Files(all) => files.extend(all.into_iter().map(|file| (file, depth + 1))),
            Interpreter::Absent { env, name } => {
                look_at(&env).map_err(|problem| not_runnable(program, &env, depth + 1, problem))?;
                return Err(not_runnable(
                    program,
                    &file,
                    depth,
                    Lacks::Interpreter(name),
                ));
            }
            Interpreter::CarriageReturn => {
                return Err(not_runnable(program, &file, depth, Lacks::LineEnds));
            }
            Interpreter::Itself => {
                has_known_kind(&file)
                    .map_err(|problem| not_runnable(program, &file, depth, problem))?;
            }
            Interpreter::Unknown(_) => {}
        }
    }
    Ok(())
}

/// What lacks of a file.
enum Lacks {
    Gone,
    Unseen(io::Error),
    NoFile,
    NoRight(io::Error),
    /// Neither a program nor a script.
    NoKind,
    /// A program for machines of another kind.
    OtherMachine,
    /// What `env` is to start.
    Interpreter(String),
    /// Line ends as Windows writes them.
    LineEnds,
}

fn look_at(file: &Path) -> Result<(), Lacks> {
    let found = fs::metadata(file).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Lacks::Gone,
        _ => Lacks::Unseen(error),
    })?;
    if !found.is_file() {
        return Err(Lacks::NoFile);
    }
    rustix::fs::access(file, rustix::fs::Access::EXEC_OK)
        .map_err(|error| Lacks::NoRight(error.into()))
}

fn not_runnable(program: &Path, file: &Path, depth: usize, lacks: Lacks) -> NotRunnable {
    let shown = file.display();
    let what = match depth {
        0 => format!("`{shown}`"),
        _ => format!("the interpreter of `{}`, `{shown}`,", program.display()),
    };
    let install = match depth {
        0 => "install the program".to_owned(),
        _ => format!(
            "install that interpreter, or name one that is there in the first line of {}",
            quoted(program)
        ),
    };
    let (problem, way_out) = match lacks {
        Lacks::Gone => ("is not there".to_owned(), install),
        Lacks::Unseen(error) => (
            format!("cannot be read: {error}"),
            format!("see why (`ls -ld {}`)", quoted(file)),
        ),
        Lacks::NoFile => ("is not a file".to_owned(), install),
        Lacks::NoRight(error) => (
            format!("cannot be executed: {error}"),
            format!("make it executable (`chmod 755 {}`)", quoted(file)),
        ),
        Lacks::NoKind => (
            "is neither a program nor a script whose first line names an interpreter (`#!/bin/sh`)".to_owned(),
            match depth {
                0 => "where it is a script, begin it with that line; else install the program".to_owned(),
                _ => install,
            },
        ),
        Lacks::OtherMachine => (
            "is a program for another kind of machine".to_owned(),
            match depth {
                0 => "install the program that was built for this machine (`uname -m` names its kind)".to_owned(),
                _ => install,
            },
        ),
        Lacks::Interpreter(name) => (
            format!("is to be run by `{name}`, as its first line says, and `env` finds no such program"),
            format!("install `{name}`, or name an interpreter that is there in the first line of {}", quoted(file)),
        ),
        Lacks::LineEnds => (
            "is a script with line ends of Windows (CRLF): the carriage return counts as a part of its first line, and the system starts no such \
             interpreter"
                .to_owned(),
            format!("give it the line ends of Linux (`sed -i 's/\\r$//' {}`)", quoted(file)),
        ),
    };
    NotRunnable {
        problem: format!("{what} {problem}"),
        way_out,
    }
}

/// Refuses a file that no kernel starts. One that this user may not read is not known, and neither is any where the kernel was given others
/// that start further kinds.
fn has_known_kind(file: &Path) -> Result<(), Lacks> {
    let Some(bytes) = beginning(file) else {
        return Ok(());
    };
    let lacks = match machine(&bytes) {
        None => Lacks::NoKind,
        Some(found) => match beginning(Path::new("/proc/self/exe"))
            .as_deref()
            .and_then(machine)
        {
            Some(own) if own != found && !is_family(own, found) => Lacks::OtherMachine,
            _ => return Ok(()),
        },
    };
    match starts_other_kinds() {
        true => Ok(()),
        false => Err(lacks),
    }
}

fn beginning(file: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(ELF_BEGINNING).ok()?;
    File::open(file)
        .ok()?
        .take(limit)
        .read_to_end(&mut bytes)
        .ok()?;
    Some(bytes)
}

/// The machine that an ELF file is for.
fn machine(bytes: &[u8]) -> Option<u16> {
    let rest = bytes.strip_prefix(ELF)?;
    let at: [u8; 2] = bytes.get(18..ELF_BEGINNING)?.try_into().ok()?;
    // The second byte after the name tells the order of bytes.
    match rest.get(1)? {
        1 => Some(u16::from_le_bytes(at)),
        2 => Some(u16::from_be_bytes(at)),
        _ => None,
    }
}

fn is_family(own: u16, found: u16) -> bool {
    FAMILIES
        .iter()
        .any(|family| family.contains(&own) && family.contains(&found))
}

/// Whether the kernel was given something that starts further kinds of files, such as an emulator.
fn starts_other_kinds() -> bool {
    let listed: Vec<PathBuf> =
        outhaul_kit::durable::list(Path::new(OTHER_KINDS)).unwrap_or_default();
    listed.iter().any(|path| {
        let name = path.file_name().unwrap_or_default();
        !NO_KIND.iter().any(|known| name == *known)
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn what_the_system_would_not_start_is_refused_with_what_lacks() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let write = |name: &str, bytes: &[u8]| {
            fs::write(at(name), bytes).unwrap();
            fs::set_permissions(at(name), fs::Permissions::from_mode(0o755)).unwrap();
        };
        let own = fs::read("/proc/self/exe").unwrap();
        let mut other = own[..4096].to_vec();
        // Of no family that this is tested on: IBM S/390, in the byte order of this machine.
        other[18..20].copy_from_slice(&match own[5] {
            1 => 22u16.to_le_bytes(),
            _ => 22u16.to_be_bytes(),
        });
        write("own", &own);
        write("script", b"#!/bin/sh\n");
        write("plain", b"exit 0\n");
        write("empty", b"");
        write("other", &other);
        write("lost", b"#!/nope\n");
        write(
            "of-plain",
            format!("#!{}\n", at("plain").display()).as_bytes(),
        );
        write("of-env", b"#!/usr/bin/env no-such-program\n");
        write("of-env-s", b"#!/usr/bin/env -S no-such-program -u\n");
        write("of-no-env", b"#!/no/env no-such-program\n");
        write("crlf", b"#!/bin/sh\r\nexit 0\r\n");
        write("crlf-env", b"#!/usr/bin/env sh\r\nexit 0\r\n");
        write(
            "of-of-env",
            format!("#!{}\n", at("of-env").display()).as_bytes(),
        );
        write("found", b"#!/usr/bin/env own\n");
        let search = folder.path().to_str();
        let runnable = |path: &Path| runnable(path, search);
        for name in ["own", "script", "found"] {
            assert_eq!(runnable(&at(name)), Ok(()), "{name}");
        }
        for (name, problem, way_out) in [
            (
                "plain",
                "neither a program nor a script",
                "begin it with that line",
            ),
            (
                "empty",
                "neither a program nor a script",
                "begin it with that line",
            ),
            ("other", "for another kind of machine", "`uname -m`"),
            (
                "of-plain",
                "neither a program nor a script",
                "in the first line of",
            ),
            ("lost", "the interpreter of", "install that interpreter"),
            ("gone", "is not there", "install the program"),
            (
                "of-env",
                "by `no-such-program`",
                "install `no-such-program`",
            ),
            (
                "of-env-s",
                "by `no-such-program`",
                "install `no-such-program`",
            ),
            (
                "of-of-env",
                "of-env`, is to be run by",
                "in the first line of",
            ),
            (
                "of-no-env",
                "no/env`, is not there",
                "install that interpreter",
            ),
            ("crlf", "line ends of Windows", "`sed -i 's/\\r$//' "),
            ("crlf-env", "line ends of Windows", "`sed -i 's/\\r$//' "),
        ] {
            let is_of_kind = ["plain", "empty", "other", "of-plain"].contains(&name);
            if is_of_kind && starts_other_kinds() {
                assert_eq!(runnable(&at(name)), Ok(()), "{name}");
                continue;
            }
            let found = runnable(&at(name)).unwrap_err();
            assert!(found.problem.contains(problem), "{found:?}");
            assert!(found.way_out.contains(way_out), "{found:?}");
        }
    }
}
