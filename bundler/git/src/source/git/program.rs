//! One run of the `git` program, within bounds.
//!
//! What comes in: a command, and how much it may print, how long it may take, and by how much it may let
//! a folder grow. What goes out: what it printed and how it ended, or which bound it met; it is ended
//! then. What it prints is not looked at here.

use std::io::Read;
use std::ops::{Deref, DerefMut};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use outhaul_kit::console::progress::{Meter, Unit};
use outhaul_kit::group;
use outhaul_kit::interrupt::{self, Started};
use rustix::process::{Pid, Resource, Rlimit, prlimit};

use super::super::SourceError;
use crate::terminal::plain as plain_text;

/// How often a folder is looked at that may not grow too much.
const LOOK: Duration = Duration::from_millis(250);
/// Memory that one git process may have, in bytes: repositories that people make need a tenth of it.
const MAX_MEMORY: u64 = 2 << 30;
/// What is kept of what it complains of, in bytes.
const MAX_COMPLAINT: u64 = 16 << 10;

/// What one run may use.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds<'a> {
    /// Bytes that it may print.
    pub max_output: u64,
    /// How long it may take.
    pub within: Duration,
    /// A folder that may grow by [`Bounds::max_growth`] bytes.
    pub watched: Option<&'a Path>,
    /// See [`Bounds::watched`].
    pub max_growth: u64,
}

impl Bounds<'_> {
    /// For reading what is here: small answers.
    pub const LOCAL: Self = Self {
        max_output: 16 << 20,
        within: Duration::from_secs(120),
        watched: None,
        max_growth: 0,
    };
    /// For fetching: as much as two payloads.
    pub const FETCH: Self = Self {
        max_output: 1 << 20,
        within: Duration::from_secs(600),
        watched: None,
        max_growth: 4 << 30,
    };
}

/// How it ended.
#[derive(Debug)]
pub(super) struct GitOutput {
    pub success: bool,
    pub stdout: Vec<u8>,
    /// What it complained of.
    pub message: String,
}

/// The `git` program as every part of Outhaul starts it: of no repository yet, asking nothing, running
/// no hook and no foreign helper, with no proxy but one that git's own configuration names, and blind to what a
/// repository puts in the place of its objects.
pub fn plain() -> Command {
    let mut command = Command::new("git");
    for name in [
        "GIT_DIR",
        "GIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_OBJECT_DIRECTORY",
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_COMMON_DIR",
        "GIT_NAMESPACE",
        "GIT_SHALLOW_FILE",
        "GIT_REPLACE_REF_BASE",
        "http_proxy",
        "https_proxy",
        "HTTPS_PROXY",
        "all_proxy",
        "ALL_PROXY",
    ] {
        command.env_remove(name);
    }
    command
        // An id means the object that has it: a repository may name others in its stead, in references that every
        // mirror brings along, and in a file.
        .env("GIT_NO_REPLACE_OBJECTS", "1")
        .env("GIT_GRAFT_FILE", "/dev/null")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_ALLOW_PROTOCOL", "https:ssh:http:git:file")
        .env("LC_ALL", "C")
        .args([
            "-c",
            "core.hooksPath=/dev/null",
            "-c",
            "core.fsmonitor=false",
        ])
        .args(["-c", "protocol.ext.allow=never", "-c", "gc.auto=0"])
        // A cache of commits, whose folders and parents git takes from there without a look at the commits.
        .args(["-c", "core.commitGraph=false"])
        // A pack is unpacked in little memory, whatever is in it.
        .args(["-c", "core.bigFileThreshold=64m", "-c", "pack.threads=1"])
        .args([
            "-c",
            "core.packedGitWindowSize=32m",
            "-c",
            "core.packedGitLimit=256m",
        ])
        .args(["-c", "core.deltaBaseCacheLimit=64m"])
        // A server that says nothing for half a minute is not there.
        .args(["-c", "http.lowSpeedLimit=1", "-c", "http.lowSpeedTime=30"]);
    command
}

/// Keeps `command` to the repository that it is for: git fetches what a repository lacks from where its settings say,
/// by a program that they name.
pub fn keep_local(command: &mut Command) {
    command
        .env("GIT_ALLOW_PROTOCOL", "none")
        .env("GIT_NO_LAZY_FETCH", "1");
}

/// A git that runs: it ends when this process is interrupted.
#[derive(Debug)]
pub(super) struct Running {
    child: Child,
    _started: Started,
}

impl Deref for Running {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.child
    }
}

impl DerefMut for Running {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.child
    }
}

/// Starts it with a limit on its memory, which what it starts has too.
pub(super) fn start(command: &mut Command) -> Result<Running, SourceError> {
    let child = command
        .stdout(Stdio::piped())
        // A group of its own, so that what it starts can be stopped with it.
        .process_group(0)
        .spawn()
        .map_err(|error| SourceError::Git {
            message: format!("cannot start the `git` program: {error}"),
        })?;
    let limit = Rlimit {
        current: Some(MAX_MEMORY),
        maximum: Some(MAX_MEMORY),
    };
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    // It may have ended already.
    let _ = pid.map(|pid| prlimit(Some(pid), Resource::As, limit));
    Ok(Running {
        _started: interrupt::started(&child),
        child,
    })
}

/// Runs `command` without input. `what` is what a bound's message calls it.
pub(super) fn run(
    mut command: Command,
    bounds: &Bounds<'_>,
    what: &str,
) -> Result<GitOutput, SourceError> {
    let until = Instant::now() + bounds.within;
    let before = bounds.watched.map_or(0, size);
    let mut child = start(command.stdin(Stdio::null()).stderr(Stdio::piped()))?;
    let stdout = child
        .stdout
        .take()
        .map(|from| reader(from, bounds.max_output.saturating_add(1)));
    let stderr = child.stderr.take().map(|from| reader(from, MAX_COMPLAINT));
    let (Some(stdout), Some(stderr)) = (stdout, stderr) else {
        stop(&mut child);
        return Err(SourceError::Git {
            message: "no pipe to the `git` program".into(),
        });
    };
    let too_large = |limit, unit| SourceError::TooLarge {
        what: format!("what git reads of `{what}`"),
        limit,
        unit,
    };
    let meter = bounds
        .watched
        .map(|_| Meter::new(&format!("fetching {}", plain_text(what)), Unit::Bytes, None));
    let output = loop {
        match stdout.recv_timeout(LOOK) {
            Ok(bytes) => break bytes,
            Err(RecvTimeoutError::Disconnected) => break Vec::new(),
            Err(RecvTimeoutError::Timeout) => {}
        }
        let grown = bounds.watched.map_or(0, size).saturating_sub(before);
        if let Some(meter) = &meter {
            meter.set(grown);
        }
        let error = if Instant::now() >= until {
            SourceError::Unreachable {
                url: what.to_owned(),
                message: format!("git did not end within {} s", bounds.within.as_secs()),
            }
        } else if bounds.watched.is_some() && grown > bounds.max_growth {
            too_large(bounds.max_growth, "bytes")
        } else {
            continue;
        };
        stop(&mut child);
        return Err(error);
    };
    if output.len() as u64 > bounds.max_output {
        stop(&mut child);
        return Err(too_large(bounds.max_output, "bytes"));
    }
    let status = child.wait().map_err(|error| SourceError::Git {
        message: error.to_string(),
    })?;
    // A process that git left behind may hold the pipe open.
    let complaint = stderr.recv_timeout(LOOK).unwrap_or_default();
    Ok(GitOutput {
        success: status.success(),
        stdout: output,
        message: String::from_utf8_lossy(&complaint).into_owned(),
    })
}

/// Ends it, with all that it started.
pub(super) fn stop(child: &mut Running) {
    group::kill(child);
    let _ = child.wait();
}

/// Reads at most `most` bytes in a separate thread, and lets go of the pipe then.
fn reader(from: impl Read + Send + 'static, most: u64) -> mpsc::Receiver<Vec<u8>> {
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = from.take(most).read_to_end(&mut bytes);
        let _ = send.send(bytes);
    });
    receive
}

/// Bytes of all files below `folder`, as far as they can be seen.
fn size(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(found) if found.is_dir() => size(&entry.path()),
            Ok(found) => found.len(),
            Err(_) => 0,
        })
        .fold(0, u64::saturating_add)
}
