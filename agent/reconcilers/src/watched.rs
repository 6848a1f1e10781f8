//! A program that a reconciler starts: watched, bounded, and ended whole.
//!
//! What comes in: a command, what it is to read, and its bounds. What goes out: how it ended and the end of
//! what it printed. It gets a process group of its own, which is ended as one when the time is over, when too
//! much is printed, or when the agent is to stop. What it reads lies in a file that stays locked as long as
//! anything of it lives: after an agent was killed, the next run waits for what it left behind. This module
//! understands nothing of what is printed.

use std::collections::VecDeque;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use outhaul_kit::durable::{FileError, at};
use outhaul_kit::group;
use outhaul_kit::heartbeat::Heartbeat;
use outhaul_kit::program;

/// How often the program is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// What it may take to end by itself when it is asked to.
const GRACE: Duration = Duration::from_secs(5);
/// How long someone who outlived it may keep its output open.
const DRAIN: Duration = Duration::from_secs(2);

/// The bounds of a run.
#[derive(Debug)]
pub struct RunLimits<'a> {
    /// What stands on its standard input.
    pub input: &'a [u8],
    /// The file that carries the input, and the lock.
    pub lock: &'a Path,
    /// Longest time.
    pub timeout: Duration,
    /// Bytes kept of each of its outputs: the end.
    pub kept: usize,
    /// Whether more than that on standard output ends it.
    pub no_more: bool,
    /// Whether what it left running of its group is ended with it.
    pub whole: bool,
}

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunEnd {
    /// By itself.
    Exited(ExitStatus),
    /// Its time was over.
    TooLong,
    /// It printed too much.
    TooMuch,
    /// The agent was asked to stop.
    Stopped,
    /// It was not started: what an earlier agent left behind is still at work.
    Busy,
}

/// What came of it.
#[derive(Debug)]
pub struct RunOutput {
    /// How it ended.
    pub end: RunEnd,
    /// The end of its standard output.
    pub stdout: Vec<u8>,
    /// The end of its standard error.
    pub stderr: Vec<u8>,
}

/// Why it was not started, or lost.
#[derive(Debug)]
pub enum RunError {
    /// The file with its input.
    File(FileError),
    /// The program itself.
    Program(io::Error),
}

impl RunOutput {
    fn without_output(end: RunEnd) -> Self {
        Self {
            end,
            stdout: Vec::new(),
            stderr: Vec::new(),
        }
    }
}

/// Runs `command` to its end, with heartbeats.
///
/// # Errors
/// [`RunError`] when it was not started, or lost.
pub fn run(
    mut command: Command,
    bounds: &RunLimits<'_>,
    heartbeat: &Heartbeat,
) -> Result<RunOutput, RunError> {
    let input = match input(bounds, heartbeat).map_err(RunError::File)? {
        Ok(input) => input,
        Err(end) => return Ok(RunOutput::without_output(end)),
    };
    let own = input.try_clone().map_err(RunError::Program)?;
    command
        .stdin(Stdio::from(own))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    let mut child = program::start(&mut command).map_err(RunError::Program)?;
    // It would keep the pipes and the file open.
    drop(command);
    let (stdout, stderr) = (
        Output::of(child.stdout.take(), bounds.kept),
        Output::of(child.stderr.take(), bounds.kept),
    );
    let end = watch(&mut child, bounds, &stdout, heartbeat);
    if end.is_err() || bounds.whole || !matches!(end, Ok(RunEnd::Exited(_))) {
        group::kill(&child);
    }
    let status = child.wait().map_err(RunError::Program)?;
    let end = match end.map_err(RunError::Program)? {
        // Whoever stops a service sends the signal to all of its processes.
        RunEnd::Exited(_) if heartbeat.is_cancelled() && !status.success() => RunEnd::Stopped,
        RunEnd::Exited(_) => RunEnd::Exited(status),
        other => other,
    };
    // Someone who outlives it does not keep the next run waiting.
    let _ = input.unlock();
    let ran = RunOutput {
        end,
        stdout: stdout.end(),
        stderr: stderr.end(),
    };
    match bounds.no_more && stdout.all() > bounds.kept as u64 {
        true if matches!(ran.end, RunEnd::Exited(_)) => Ok(RunOutput {
            end: RunEnd::TooMuch,
            ..ran
        }),
        _ => Ok(ran),
    }
}

/// The locked file with the input, at its beginning.
fn input(bounds: &RunLimits<'_>, heartbeat: &Heartbeat) -> Result<Result<File, RunEnd>, FileError> {
    let path = bounds.lock;
    let mut options = File::options();
    let mut writer = options
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(at("open", path))?;
    // The lock belongs to this opening of the file, which the program inherits.
    let input = File::open(path).map_err(at("open", path))?;
    let start = Instant::now();
    let mut reported = false;
    loop {
        match input.try_lock() {
            Ok(()) => break,
            Err(TryLockError::WouldBlock) if reported => {}
            Err(TryLockError::WouldBlock) => {
                tracing::warn!("{}", waits_for(&holders(path), bounds.timeout));
                reported = true;
            }
            Err(TryLockError::Error(error)) => return Err(at("lock", path)(error)),
        }
        if heartbeat.is_cancelled() {
            return Ok(Err(RunEnd::Stopped));
        }
        if start.elapsed() > bounds.timeout {
            return Ok(Err(RunEnd::Busy));
        }
        heartbeat.beat();
        thread::sleep(LOOK);
    }
    writer.set_len(0).map_err(at("write", path))?;
    writer.write_all(bounds.input).map_err(at("write", path))?;
    Ok(Ok(input))
}

/// Whom this waits for, for how long, and what ends the waiting.
fn waits_for(holders: &[u32], timeout: Duration) -> String {
    let ids: Vec<String> = holders.iter().map(u32::to_string).collect();
    let (who, end) = match ids.is_empty() {
        true => (String::new(), String::new()),
        false => (
            format!(" (process {})", ids.join(", ")),
            format!("; `kill {}` ends it", ids.join(" ")),
        ),
    };
    format!(
        "a program that an earlier run of the agent started{who} is still at work: this waits until it has ended, at \
         most {} s{end}",
        timeout.as_secs()
    )
}

/// The processes that have the file open, as far as this user may know; the agent itself is not one of them.
fn holders(path: &Path) -> Vec<u32> {
    let Ok(path) = path.canonicalize() else {
        return Vec::new();
    };
    let numbered = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let others = processes
        .filter_map(numbered)
        .filter(|id| *id != std::process::id());
    let mut found: Vec<u32> = others
        .filter(|id| {
            let open = fs::read_dir(format!("/proc/{id}/fd"));
            open.into_iter()
                .flatten()
                .flatten()
                .any(|open| fs::read_link(open.path()).is_ok_and(|target| target == path))
        })
        .collect();
    found.sort_unstable();
    found
}

/// Waits until it has ended, without taking its status: its group cannot become someone else's before.
fn watch(
    child: &mut Child,
    bounds: &RunLimits<'_>,
    stdout: &Output,
    heartbeat: &Heartbeat,
) -> io::Result<RunEnd> {
    let start = Instant::now();
    let mut asked: Option<Instant> = None;
    loop {
        if group::has_ended(child)? {
            // The status is taken when its group is gone.
            return Ok(match asked {
                Some(_) => RunEnd::Stopped,
                None => RunEnd::Exited(ExitStatus::default()),
            });
        }
        match asked {
            Some(since) if since.elapsed() > GRACE => return Ok(RunEnd::Stopped),
            None if heartbeat.is_cancelled() => {
                group::terminate(child);
                asked = Some(Instant::now());
            }
            None if start.elapsed() > bounds.timeout => return Ok(RunEnd::TooLong),
            None if bounds.no_more && stdout.all() > bounds.kept as u64 => {
                return Ok(RunEnd::TooMuch);
            }
            Some(_) | None => {}
        }
        heartbeat.beat();
        thread::sleep(LOOK);
    }
}

/// What a thread reads of a pipe, so that the program never blocks on it.
struct Output {
    kept: Arc<Mutex<OutputTail>>,
    closed: Receiver<()>,
}

#[derive(Default)]
struct OutputTail {
    end: VecDeque<u8>,
    all: u64,
}

impl Output {
    fn of(pipe: Option<impl Read + Send + 'static>, limit: usize) -> Self {
        let kept = Arc::new(Mutex::new(OutputTail::default()));
        let (open, closed) = channel();
        if let Some(pipe) = pipe {
            let kept = Arc::clone(&kept);
            thread::spawn(move || read(pipe, &kept, limit, open));
        }
        Self { kept, closed }
    }

    fn all(&self) -> u64 {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).all
    }

    /// What was kept when the pipe was closed, or when nobody waits for it any more.
    fn end(&self) -> Vec<u8> {
        let _ = self.closed.recv_timeout(DRAIN);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut kept.end).into()
    }
}

fn read(mut pipe: impl Read, kept: &Mutex<OutputTail>, limit: usize, open: Sender<()>) {
    let mut buffer = [0; 4096];
    loop {
        let count = match pipe.read(&mut buffer) {
            Ok(count @ 1..) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            _ => break,
        };
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.end.extend(buffer.get(..count).unwrap_or_default());
        kept.all = kept.all.saturating_add(count as u64);
        let surplus = kept.end.len().saturating_sub(limit);
        kept.end.drain(..surplus);
    }
    // Whoever waits learns that all is read.
    drop(open);
}

/// The file of a program: by its path, or in the folders of `path`, without which they are this process's own. As an absolute path,
/// since programs run in other folders.
pub fn found(program: &Path, path: Option<&str>) -> Option<PathBuf> {
    if program.components().count() > 1 {
        let program = std::path::absolute(program).ok()?;
        return program.is_file().then_some(program);
    }
    let path = path.map_or_else(|| std::env::var_os("PATH"), |path| Some(path.into()));
    std::env::split_paths(&path?)
        .filter_map(|folder| std::path::absolute(folder.join(program)).ok())
        .find(|file| is_executable(file))
}

/// Whether the system would start it: it goes on to the next folder otherwise.
fn is_executable(file: &Path) -> bool {
    file.metadata()
        .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// The last lines of what a program said, in one.
pub fn output_tail(bytes: &[u8]) -> String {
    const LINES: usize = 5;
    let text = String::from_utf8_lossy(bytes);
    let text = text.replace(|c: char| c.is_control() && c != '\n', " ");
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let from = lines.len().saturating_sub(LINES);
    lines.get(from..).unwrap_or_default().join("; ")
}

#[cfg(test)]
mod tests;
