//! The start of the program in use, the trial of a new one, and the way back.
//!
//! What comes in: the agent's state folder, this process's arguments and version. What goes out: another program in the place of this
//! process, or nothing, when this one is to go on. A trial runs in a process of its own, under this one's eyes: however it
//! ends, this process is there to go back. Only the owner of the state folder starts what lies in it.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use outhaul_kit::durable::{self, FileError};

use crate::choice::{self, Start};
use crate::install::check;
use crate::memory::{self, MemoryError};
use crate::slots::{self, Program, Slots};

/// Set for a program that was started out of a slot: its version.
pub const IN_SLOT: &str = "OUTHAUL_AGENT_SLOT";
/// The packaged program, which starts the others.
pub const LAUNCHER: &str = "OUTHAUL_AGENT_LAUNCHER";
/// The argument by which a program is tried.
pub const TRIAL: &str = "trial";
/// The exit code of a program that found nothing wrong with itself and a host that cannot be asked now.
pub const NOT_NOW: i32 = 3;
/// How long a trial may take.
const LONGEST: Duration = Duration::from_secs(600);
/// How often it is looked at.
const PAUSE: Duration = Duration::from_millis(100);
/// How much of what a tried program says is remembered, in bytes.
const MAX_SAID: u64 = 4096;

/// Why nothing can be started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The disk.
    #[error(transparent)]
    File(#[from] FileError),
    /// The database.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

/// What this process is to the slots.
#[expect(missing_debug_implementations, reason = "a function has none")]
pub struct Launcher<'a> {
    /// The agent's state folder.
    pub state: &'a Path,
    /// The database in it.
    pub database: &'a Path,
    /// The version of this program.
    pub version: &'a str,
    /// The arguments of this process, without the program.
    pub arguments: &'a [OsString],
    /// Whether this is the service: only that tries something new.
    pub is_service: bool,
    /// Called now and then while a trial runs.
    pub beat: &'a dyn Fn(),
    /// Called with what happened, a sentence each.
    pub say: &'a dyn Fn(&str),
    /// Called at each instant with its name.
    pub cut: &'a dyn Fn(&'static str),
}

impl Launcher<'_> {
    /// Starts the program that is to run, in the place of this process. Returns when this one is to go on.
    ///
    /// # Errors
    /// [`LaunchError`] of the disk: this program goes on then, too.
    pub fn start(&self) -> Result<(), LaunchError> {
        if let Some(folder) = self.of_others() {
            (self.say)(&format!(
                "no other agent is started out of `{}`: `{folder}` is not this user's alone; look at what is in it, then `chown {user} \
                 {typed}` and `chmod go-w {typed}`",
                outhaul_kit::text::path(self.state),
                folder = outhaul_kit::text::path(&folder),
                typed = outhaul_kit::text::quoted(&folder),
                user = user(),
            ));
            return Ok(());
        }
        loop {
            let mut slots = Slots::read(self.state)?;
            let start = choice::start(&slots, self.version);
            match start {
                Start::Trial(program) if self.is_service => {
                    if !self.attempt(&mut slots, &program)? {
                        return self.committed(&slots);
                    }
                }
                Start::GiveUp(program, why) if self.is_service => {
                    self.back(&mut slots, &program, &why)?;
                }
                Start::Packaged => {
                    memory::forget(self.state)?;
                    return Ok(());
                }
                Start::Committed(_) => {
                    memory::forget(self.state)?;
                    return self.committed(&slots);
                }
                // A command beside the service uses what is in use.
                Start::Trial(_) | Start::GiveUp(..) => return self.committed(&slots),
            }
        }
    }

    /// The folder of the slots, or the one above it, that is not this user's alone: nobody starts what another one may write.
    fn of_others(&self) -> Option<PathBuf> {
        let all = [self.state.to_owned(), slots::folder(self.state)];
        all.into_iter().find(|path| {
            let found = fs::symlink_metadata(path);
            !found.is_ok_and(|found| {
                let own = found.is_dir() && found.uid() == user();
                own && found.mode() & 0o022 == 0
            })
        })
    }

    /// Starts the program in use, where there is one that is newer than this.
    fn committed(&self, slots: &Slots) -> Result<(), LaunchError> {
        let without = Slots {
            trial: None,
            ..slots.clone()
        };
        let Start::Committed(program) = choice::start(&without, self.version) else {
            return Ok(());
        };
        let why = match check(self.state, &program) {
            Ok(()) => {
                let path = slots::program(self.state, program.slot);
                let mut command = Command::new(&path);
                command.args(self.arguments).env(IN_SLOT, &program.version);
                command.env(LAUNCHER, own_path());
                let error = command.exec();
                format!("`{}` does not start: {error}", path.display())
            }
            Err(why) => why,
        };
        let mut slots = Slots::read(self.state)?;
        slots.fail(&program, &why);
        slots.write(self.state)?;
        (self.say)(&format!(
            "agent {} is not used any more: {why}",
            program.version
        ));
        Ok(())
    }

    /// One attempt; `false` when the host could not be asked and it is to be tried later.
    fn attempt(&self, slots: &mut Slots, program: &Program) -> Result<bool, LaunchError> {
        memory::keep(self.state, self.database)?;
        if let Some(trial) = &mut slots.trial {
            trial.attempts += 1;
            trial.why.clear();
        }
        slots.write(self.state)?;
        (self.cut)("trial-begun");
        (self.say)(&format!(
            "agent {} of bundle {} is tried",
            program.version, program.bundle
        ));
        let ended = match check(self.state, program) {
            Ok(()) => self.run(program),
            Err(why) => Ended::Failed(why),
        };
        match ended {
            Ended::Passed => {
                slots.trial = None;
                slots.committed = Some(program.clone());
                slots.write(self.state)?;
                (self.cut)("trial-passed");
                memory::forget(self.state)?;
                (self.say)(&format!(
                    "agent {} passed its trial and is used from now on",
                    program.version
                ));
                Ok(true)
            }
            Ended::NotNow(why) => {
                (self.say)(&format!(
                    "agent {} could not be tried now: {why}",
                    program.version
                ));
                if let Some(trial) = &mut slots.trial {
                    trial.why = why;
                }
                slots.write(self.state)?;
                if memory::put_back(self.state, self.database)? {
                    (self.say)("the database is as it was before the trial");
                }
                Ok(false)
            }
            Ended::Failed(why) => {
                self.back(slots, program, &why)?;
                Ok(true)
            }
        }
    }

    /// The program is not used; everything is as it was before.
    fn back(&self, slots: &mut Slots, program: &Program, why: &str) -> Result<(), LaunchError> {
        // First the memory: until the program counts as failed, a power cut repeats this.
        let restored = memory::put_back(self.state, self.database)?;
        slots.fail(program, why);
        slots.write(self.state)?;
        (self.cut)("trial-failed");
        let memory = if restored {
            "; the database is as it was before"
        } else {
            ""
        };
        (self.say)(&format!(
            "agent {} is not used: {why}{memory}",
            program.version
        ));
        Ok(())
    }

    fn run(&self, program: &Program) -> Ended {
        let path = slots::program(self.state, program.slot);
        let said = slots::folder(self.state).join("trial.log");
        let log = match File::create(&said).and_then(|file| Ok((file.try_clone()?, file))) {
            Ok(log) => log,
            Err(error) => return Ended::NotNow(format!("`{}`: {error}", said.display())),
        };
        let mut command = Command::new(&path);
        command
            .arg("--state")
            .arg(self.state)
            .arg(TRIAL)
            .env(IN_SLOT, &program.version)
            .env_remove("NOTIFY_SOCKET")
            .env_remove("WATCHDOG_USEC")
            .stdin(Stdio::null())
            .stdout(log.0)
            .stderr(log.1);
        let mut child = match outhaul_kit::program::start(&mut command) {
            Ok(child) => child,
            Err(error) => {
                return Ended::Failed(format!("`{}` does not start: {error}", path.display()));
            }
        };
        let until = Instant::now() + LONGEST;
        let status = loop {
            (self.beat)();
            match child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) if Instant::now() < until => std::thread::sleep(PAUSE),
                Ok(None) | Err(_) => {
                    let _ = child.kill();
                    let _ = child.wait();
                    let seconds = LONGEST.as_secs();
                    return Ended::Failed(format!("it did not finish within {seconds} s"));
                }
            }
        };
        ended(status, &excerpt(&said))
    }
}

/// How a trial ended.
#[derive(Debug, PartialEq, Eq)]
enum Ended {
    Passed,
    NotNow(String),
    Failed(String),
}

fn ended(status: ExitStatus, said: &str) -> Ended {
    let said = match said {
        "" => String::new(),
        said => format!(": {said}"),
    };
    match status.code() {
        Some(0) => Ended::Passed,
        Some(NOT_NOW) => Ended::NotNow(format!("this host cannot be checked now{said}")),
        _ => Ended::Failed(format!("its trial ended with {status}{said}")),
    }
}

/// The last line that a tried program said.
fn excerpt(path: &Path) -> String {
    let mut text = Vec::new();
    let read = durable::open_file(path).and_then(|file| file.take(MAX_SAID).read_to_end(&mut text));
    let text = String::from_utf8_lossy(&text);
    let errors = text.lines().find(|line| line.starts_with("error: "));
    let line = errors
        .or_else(|| text.lines().last())
        .filter(|_| read.is_ok());
    outhaul_kit::text::printable(line.unwrap_or_default()).into_owned()
}

/// This program's own path, unless it was started out of a slot.
fn own_path() -> PathBuf {
    match std::env::var_os(LAUNCHER) {
        Some(path) => path.into(),
        None => std::env::current_exe().unwrap_or_else(|_| "/usr/bin/outhaul-agent".into()),
    }
}

/// The user of this process.
fn user() -> u32 {
    fs::metadata("/proc/self").map_or(u32::MAX, |found| found.uid())
}

/// Starts the packaged program again in the place of this process: it looks at the slots again.
///
/// # Errors
/// What the system says when it cannot be started.
pub fn again(arguments: &[OsString]) -> std::io::Error {
    let mut command = Command::new(own_path());
    command
        .args(arguments)
        .env_remove(IN_SLOT)
        .env_remove(LAUNCHER);
    command.exec()
}
