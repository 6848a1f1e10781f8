//! The hook program itself: whose file it is, and one run of it.
//!
//! What comes in: the site's settings and a message. What goes out: the program's answer, or how it broke the
//! contract. It gets a separate environment and nothing of the agent's; a program that anybody else may
//! change is not started.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use outhaul_kit::durable;
use outhaul_kit::heartbeat::Heartbeat;
use outhaul_kit::program::PATH;
use outhaul_kit::text::quoted;

use super::contract::{HookAnswer, HookStatus, HookVerb, MAX_ANSWER_BYTES, Message};
use super::interpreter::{self, Interpreter, MOST_INTERPRETERS};
use super::members;
use super::runnable::runnable;
use crate::error::ApplyError;
use crate::line;
use crate::settings::HookConfig;
use crate::watched::{self, RunEnd, RunError, RunLimits};

/// Longest time for saying whether it is ready, in seconds.
const READY_S: u64 = 30;
/// May be written by its group.
const BY_GROUP: u32 = 0o020;
/// May be written by everyone.
const BY_ANYBODY: u32 = 0o002;
/// As many links as the system follows.
const MOST_LINKS: usize = 40;
/// In a folder that everyone may write to, only its owner may replace a file.
const STICKY: u32 = 0o1000;

/// What the exit codes mean.
const FAILED: i32 = 1;
const NOT_UNDERSTOOD: i32 = 2;
const UNABLE: i32 = 3;

/// What a run came to.
#[derive(Debug)]
pub enum HookReply {
    /// An answer that holds to the contract, with the end of what was said on standard error.
    Answer(Box<HookAnswer>, String),
    /// It broke the contract: how.
    Broken(String),
}

/// Why it cannot be started.
fn unusable(problem: String, help: &str) -> ApplyError {
    ApplyError::Hook {
        problem,
        help: help.to_owned(),
    }
}

/// The program's file, which only root and this user may change.
///
/// # Errors
/// [`ApplyError::Hook`] says what is wrong with it.
pub fn checked(config: &HookConfig) -> Result<PathBuf, ApplyError> {
    let Some(set) = &config.program else {
        let problem = "agent.toml names no hook program".to_owned();
        return Err(unusable(
            problem,
            "set `program` under `[hook]` in agent.toml",
        ));
    };
    let shown = set.display();
    let program = fs::canonicalize(set).map_err(|error| {
        let help = "install the program, or correct `program` under `[hook]` in agent.toml";
        unusable(
            format!("the hook program `{shown}` cannot be found: {error}"),
            help,
        )
    })?;
    let found = fs::metadata(&program)
        .map_err(|error| unusable(format!("the hook program `{shown}`: {error}"), ""))?;
    if !found.is_file() || found.permissions().mode() & 0o111 == 0 {
        let problem = format!("the hook program `{shown}` is not a file that may be executed");
        return Err(unusable(
            problem,
            &format!(
                "`chmod 755 {}`, or name another under `[hook]`",
                quoted(&program)
            ),
        ));
    }
    let path = config.environment.get("PATH").map_or(PATH, String::as_str);
    // The system says of a script without its interpreter that the script is not there.
    if let Err(lacks) = runnable(&program, Some(path)) {
        let problem = format!(
            "the hook program `{shown}` would not start: {}",
            lacks.problem
        );
        return Err(unusable(problem, &lacks.way_out));
    }
    if let Some(Changeable { problem, way_out }) = changeable_by_others(set, Some(path)) {
        return Err(unusable(
            format!("the hook program `{shown}` is not started: {problem}"),
            &format!("{LOOK_FIRST}, then {way_out}"),
        ));
    }
    Ok(program)
}

/// What lets someone else than root and this user change a program, and the command that ends it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changeable {
    /// What, in a sentence.
    pub problem: String,
    /// What to do, with what to type in backquotes.
    pub way_out: String,
}

/// What lets someone else than root and this user change what is run when the program at `path` is started: a link or
/// folder on the way to it, and the interpreter of a script, included. `search` is where the program looks for others, without it this
/// process's own.
pub fn changeable_by_others(path: &Path, search: Option<&str>) -> Option<Changeable> {
    let mut scripts = vec![(path.to_owned(), 0)];
    while let Some((file, depth)) = scripts.pop() {
        let about = |found: Changeable| match depth {
            0 => found,
            _ => Changeable {
                problem: format!(
                    "the interpreter that its first line names: {}",
                    found.problem
                ),
                ..found
            },
        };
        if let Some(found) = file_changeable(&file) {
            return Some(about(found));
        }
        match interpreter::of(&file, search) {
            Interpreter::Itself => {}
            Interpreter::Files(files) if depth < MOST_INTERPRETERS => {
                scripts.extend(files.into_iter().map(|file| (file, depth + 1)));
            }
            Interpreter::Absent { env, .. } if depth < MOST_INTERPRETERS => {
                scripts.push((env, depth + 1));
            }
            // Whoever starts it says first why the system would not.
            Interpreter::CarriageReturn => {
                return Some(about(Changeable {
                    problem: format!(
                        "the first line of `{}` ends with a carriage return, and whose file that names was not looked at",
                        file.display()
                    ),
                    way_out: format!("`sed -i 's/\\r$//' {}`", quoted(&file)),
                }));
            }
            Interpreter::Files(_) | Interpreter::Absent { .. } => {
                return Some(about(Changeable {
                    problem: format!(
                        "`{}` has an interpreter that is itself a script, more than {MOST_INTERPRETERS} deep",
                        file.display()
                    ),
                    way_out: format!("name a program in the first line of {}", quoted(&file)),
                }));
            }
            Interpreter::Unknown(line) => {
                return Some(about(Changeable {
                    problem: format!(
                        "which program runs `{}` cannot be known from its first line `#!{line}`",
                        file.display()
                    ),
                    way_out: "write the interpreter's whole path there".to_owned(),
                }));
            }
        }
    }
    None
}

/// What lets someone else than root and this user change the file at `path`, a link or folder on the way to it
/// included.
fn file_changeable(path: &Path) -> Option<Changeable> {
    let mut at = std::path::absolute(path).ok()?;
    for _ in 0..MOST_LINKS {
        let (folder, name) = (at.parent()?, at.file_name()?);
        let real = fs::canonicalize(folder).ok()?;
        // As it is named, and where that really is.
        let folders = folder.ancestors().chain(real.ancestors());
        if let Some(found) = folders.into_iter().find_map(of_others) {
            return Some(found);
        }
        let named = real.join(name);
        let Ok(target) = fs::read_link(&named) else {
            return of_others(&named);
        };
        if let Some(found) = link_of_others(&named) {
            return Some(found);
        }
        at = real.join(target);
    }
    None
}

/// Whether a link belongs to someone else: in a folder in which everyone may make files, only its owner may replace it.
fn link_of_others(link: &Path) -> Option<Changeable> {
    let found = fs::symlink_metadata(link).ok()?;
    let own = rustix::process::geteuid().as_raw();
    (found.uid() != 0 && found.uid() != own).then(|| Changeable {
        problem: format!(
            "the link `{}` belongs to user {}, who is neither root nor the agent's user {own}",
            link.display(),
            found.uid()
        ),
        way_out: format!("`chown -h root {}`", quoted(link)),
    })
}

/// The file of a program that is started: one that is named without a folder is looked for as the system does, and is looked at as one
/// that is named by its path. `path` is where programs are looked for, without it this process's own.
///
/// # Errors
/// [`ApplyError::Program`] where others may change it; `None` where there is none.
pub fn started(program: &Path, path: Option<&str>) -> Result<Option<PathBuf>, ApplyError> {
    let Some(found) = watched::found(program, path) else {
        return Ok(None);
    };
    let Some(Changeable { problem, way_out }) = changeable_by_others(&found, path) else {
        return Ok(Some(found));
    };
    Err(ApplyError::Program {
        program: program.display().to_string(),
        problem: format!("it is not started: {problem}"),
        help: format!("{LOOK_FIRST}, then {way_out}; then repeat the command"),
    })
}

/// The same as [`started`], for a program that the system would start: it is of a kind that this machine knows, and its interpreter is there.
///
/// # Errors
/// [`ApplyError::Program`] where others may change it, or where it would not start; `None` where there is none.
pub fn startable(program: &Path, path: Option<&str>) -> Result<Option<PathBuf>, ApplyError> {
    let Some(found) = watched::found(program, path) else {
        return Ok(None);
    };
    match runnable(&found, path) {
        Ok(()) => started(program, path),
        Err(lacks) => Err(ApplyError::Program {
            program: program.display().to_string(),
            problem: format!("it would not start: {}", lacks.problem),
            help: format!("{}; then repeat the command", lacks.way_out),
        }),
    }
}

/// What comes before the command that ends it.
pub const LOOK_FIRST: &str =
    "anyone who can write it controls this host: look at what it is, and who may have changed it";

/// What lets someone else than root and this user change `path`.
fn of_others(path: &Path) -> Option<Changeable> {
    let shown = quoted(path);
    let found = match fs::metadata(path) {
        Ok(found) => found,
        // Nothing is started then; who may put something there, its folder says.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => {
            return Some(Changeable {
                problem: format!("`{}` cannot be read: {error}", path.display()),
                way_out: format!("`ls -ld {shown}`"),
            });
        }
    };
    let own = rustix::process::geteuid().as_raw();
    let (mut problems, mut commands) = (Vec::new(), Vec::new());
    let mut elsewhere = false;
    if found.uid() != 0 && found.uid() != own {
        problems.push(format!(
            "belongs to user {}, who is neither root nor the agent's user {own}",
            found.uid()
        ));
        // A folder may be someone's home, or a package manager's.
        match found.is_dir() {
            true => elsewhere = true,
            false => commands.push(format!("chown root {shown}")),
        }
    }
    let guarded = found.is_dir() && found.mode() & STICKY != 0;
    // The group that a user has alone gives nobody else a right.
    let by_others = found.mode() & BY_ANYBODY != 0
        || found.mode() & BY_GROUP != 0 && !members::is_private(found.gid(), own);
    if by_others && !guarded {
        let mode = found.mode() & 0o7777;
        problems.push(format!("may be written by others (mode {mode:o})"));
        commands.push(format!("chmod go-w {shown}"));
    }
    (!problems.is_empty()).then(|| Changeable {
        problem: format!("`{}` {}", path.display(), problems.join(", and ")),
        way_out: match elsewhere {
            true => "install the program in a folder of root, or name another one in agent.toml"
                .to_owned(),
            false => format!("`{}`", commands.join(" && ")),
        },
    })
}

/// Asks the program once. `home` is its own folder, which stays.
///
/// # Errors
/// [`ApplyError`] when this host cannot do it now.
pub fn ask(
    config: &HookConfig,
    home: &Path,
    message: &Message<'_>,
    heartbeat: &Heartbeat,
) -> Result<HookReply, ApplyError> {
    let program = checked(config)?;
    durable::make_folder(home)?;
    let mut command = Command::new(&program);
    command
        .current_dir(home)
        .env_clear()
        .env("PATH", PATH)
        .env("HOME", home)
        .env("LC_ALL", "C.UTF-8")
        .envs(&config.environment);
    let input = line::of(message);
    let seconds = match message.verb {
        HookVerb::Ready => READY_S.min(config.timeout_s),
        _ => config.timeout_s,
    };
    let bounds = RunLimits {
        input: input.as_bytes(),
        lock: &home.join(".request"),
        timeout: Duration::from_secs(seconds),
        kept: MAX_ANSWER_BYTES,
        no_more: true,
        whole: true,
    };
    let verb = message.verb;
    let ran = watched::run(command, &bounds, heartbeat).map_err(|lost| match lost {
        RunError::File(error) => error.into(),
        RunError::Program(error) => unusable(
            format!(
                "the hook program `{}` does not start: {error}",
                program.display()
            ),
            "see that its first line names an interpreter that is installed here",
        ),
    })?;
    let words = watched::output_tail(&ran.stderr);
    let with_words = |what: String| match words.as_str() {
        "" => what,
        words => format!("{what}: {words}"),
    };
    let broken = |what: String| Ok(HookReply::Broken(with_words(what)));
    let status = match ran.end {
        RunEnd::Stopped => return Err(ApplyError::Stopped),
        RunEnd::Busy => {
            return Err(ApplyError::Busy {
                program: program.display().to_string(),
            });
        }
        RunEnd::TooLong => {
            return broken(format!(
                "stopped while it was asked to `{}`, after {seconds} s, its time limit",
                verb.as_str()
            ));
        }
        RunEnd::TooMuch => {
            return broken(format!(
                "stopped while it was asked to `{}`: it printed more than {MAX_ANSWER_BYTES} bytes",
                verb.as_str()
            ));
        }
        RunEnd::Exited(status) => status,
    };
    let said = |what: &str| match words.as_str() {
        "" => format!(
            "it {what} at `{}` and wrote nothing to standard error",
            verb.as_str()
        ),
        words => words.to_owned(),
    };
    match status.code() {
        Some(0) => match HookAnswer::read(verb, &ran.stdout) {
            Ok(answer) => Ok(HookReply::Answer(Box::new(answer), words)),
            Err(problem) => broken(problem),
        },
        Some(FAILED) => {
            let answer = HookAnswer::only(HookStatus::Failed, said("failed"));
            Ok(HookReply::Answer(Box::new(answer), words))
        }
        Some(NOT_UNDERSTOOD) => broken(format!("it does not know `{}`", verb.as_str())),
        Some(UNABLE) => {
            let answer = HookAnswer::only(HookStatus::Unable, said("could not do it"));
            Ok(HookReply::Answer(Box::new(answer), words))
        }
        _ => broken(format!("it ended at `{}` with {status}", verb.as_str())),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn attack_a_link_in_a_folder_that_everybody_may_change_is_seen_between_others() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let mode = |name: &str, mode| {
            fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).unwrap();
        };
        for name in ["own", "open"] {
            fs::create_dir(at(name)).unwrap();
            mode(name, 0o755);
        }
        fs::write(at("own/program"), "#!/bin/sh\n").unwrap();
        mode("own/program", 0o755);
        symlink("../own/program", at("open/between")).unwrap();
        symlink(at("open/between"), at("own/first")).unwrap();
        assert_eq!(changeable_by_others(&at("own/first"), None), None);
        mode("open", 0o777);
        let found = changeable_by_others(&at("own/first"), None).unwrap();
        assert!(
            found.problem.contains("open` may be written by others"),
            "{found:?}"
        );
        assert!(found.way_out.starts_with("`chmod go-w "), "{found:?}");
        // Links that lead to each other are no program.
        symlink(at("own/b"), at("own/a")).unwrap();
        symlink(at("own/a"), at("own/b")).unwrap();
        assert_eq!(changeable_by_others(&at("own/a"), None), None);
    }

    #[test]
    fn attack_an_interpreter_that_others_may_change_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let write = |name: &str, text: String| {
            fs::write(at(name), text).unwrap();
            fs::set_permissions(at(name), fs::Permissions::from_mode(0o755)).unwrap();
        };
        write("python", "#!/bin/sh\n".to_owned());
        let search = folder.path().to_str();
        for line in [
            at("python").display().to_string(),
            "/usr/bin/env python".to_owned(),
        ] {
            write("program", format!("#!{line}\n"));
            write("outer", format!("#!{}\n", at("program").display()));
            for program in ["program", "outer"] {
                assert_eq!(changeable_by_others(&at(program), search), None);
            }
            fs::set_permissions(at("python"), fs::Permissions::from_mode(0o777)).unwrap();
            for program in ["program", "outer"] {
                let found = changeable_by_others(&at(program), search).unwrap();
                let words = "its first line names: `";
                assert!(found.problem.contains(words), "{found:?}");
                let words = "python` may be written by others (mode 777)";
                assert!(found.problem.contains(words), "{found:?}");
            }
            fs::set_permissions(at("python"), fs::Permissions::from_mode(0o755)).unwrap();
        }
        // One that starts itself has an end.
        write("program", format!("#!{}\n", at("program").display()));
        let found = changeable_by_others(&at("program"), search).unwrap();
        assert!(found.problem.contains("deep"), "{found:?}");
    }
}
