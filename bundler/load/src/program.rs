//! Programs that whoever runs outhaul names, and one run of one of them: bytes in, bytes out, within a time and a size.
//!
//! What comes in: texts `NAME=PROGRAM`; then a program without arguments, what it reads, how long it may take. What goes out: what
//! it wrote on its standard output, or a [`ProgramFault`]. It and all that it started are stopped when the time
//! is up or its output is too large. What it writes is not looked at here.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use outhaul_kit::group;

/// The most that a program may answer: 20,000 assignments with their reasons fit in easily.
const MAX_OUTPUT: u64 = 16 << 20;
/// What is kept of what it says on standard error.
const MAX_STDERR: u64 = 4 << 10;
/// How often it is asked whether it ended, once it has closed its output.
const PAUSE: Duration = Duration::from_millis(5);

/// The longest text of a program that is kept, in characters.
const MAX_TEXT: usize = 200;

/// Programs by the name that a control plane calls them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Programs(BTreeMap<String, PathBuf>);

impl Programs {
    /// From texts of the form `NAME=PROGRAM`.
    ///
    /// # Errors
    /// The first text that is not of this form, or names one again.
    pub fn parse(given: &[String]) -> Result<Self, String> {
        let mut programs = BTreeMap::new();
        for text in given {
            let pair = text.split_once('=');
            let Some((name, program)) = pair.filter(|(a, b)| !a.is_empty() && !b.is_empty()) else {
                return Err(text.clone());
            };
            let before = programs.insert(name.to_owned(), PathBuf::from(program));
            if before.is_some() {
                return Err(text.clone());
            }
        }
        Ok(Self(programs))
    }

    /// The program of that name.
    pub fn get(&self, name: &str) -> Option<&Path> {
        self.0.get(name).map(PathBuf::as_path)
    }

    /// The names.
    pub fn names(&self) -> Vec<&str> {
        self.0.keys().map(String::as_str).collect()
    }

    /// Whether no program is named.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Why a program gave no answer.
#[derive(Debug)]
pub enum ProgramFault {
    /// It ended with a failure.
    Failed {
        /// How it ended.
        status: ExitStatus,
        /// The beginning of what it wrote on its standard error.
        stderr: String,
        /// What it wrote on its standard output.
        stdout: Vec<u8>,
    },
    /// It could not be started or spoken to.
    Start(io::Error),
    /// It wrote too much.
    TooMuch {
        /// The most that it may write, in bytes.
        limit: u64,
    },
    /// It took too long.
    TooSlow {
        /// The time that it had.
        limit: Duration,
    },
}

/// A program's text as one short line, without what would steer a terminal.
pub fn shown(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(MAX_TEXT)
        .collect()
}

/// The last line of a program's text that is not empty, as [`shown`].
pub fn last_line(text: &str) -> Option<String> {
    let last = text.lines().rev().find(|line| !line.trim().is_empty());
    last.map(|line| shown(line.trim()))
}

impl ProgramFault {
    /// What happened, without the program's path: it is for who runs it, and this may end up in git.
    pub fn sentence(&self) -> String {
        match self {
            Self::Failed { status, stderr, .. } => match last_line(stderr) {
                Some(last) => format!("{status}: {last}"),
                None => status.to_string(),
            },
            Self::Start(error) => shown(&format!("it cannot be started: {error}")),
            Self::TooMuch { limit } => format!("it wrote more than {limit} bytes and was stopped"),
            Self::TooSlow { limit } => {
                format!(
                    "it did not end within {} minutes and was stopped",
                    limit.as_secs() / 60
                )
            }
        }
    }
}

/// Runs a program once.
///
/// # Errors
/// [`ProgramFault`]; it and what it started were stopped.
pub fn run(program: &Path, input: &[u8], limit: Duration) -> Result<Vec<u8>, ProgramFault> {
    let until = Instant::now() + limit;
    let mut child = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A group of its own, so that what it starts can be stopped with it.
        .process_group(0)
        .spawn()
        .map_err(ProgramFault::Start)?;
    let outcome = converse(&mut child, input, until, limit);
    if outcome.is_err() {
        stop(&mut child);
    }
    outcome
}

fn converse(
    child: &mut Child,
    input: &[u8],
    until: Instant,
    limit: Duration,
) -> Result<Vec<u8>, ProgramFault> {
    let gone = || ProgramFault::Start(io::Error::other("its standard streams are closed"));
    let mut stdin = child.stdin.take().ok_or_else(gone)?;
    let stdout = child.stdout.take().ok_or_else(gone)?;
    let stderr = child.stderr.take().ok_or_else(gone)?;
    let input = input.to_vec();
    // Threads, because it may write before it has read all. None is joined: a grandchild that keeps a
    // stream open must not hold us up; each ends with the streams.
    thread::spawn(move || {
        // It need not read what it does not want to know.
        let _ = stdin.write_all(&input);
    });
    let answers = reader(stdout, MAX_OUTPUT + 1);
    let complaints = reader(stderr, MAX_STDERR);
    let left = || until.saturating_duration_since(Instant::now());
    let output = match answers.recv_timeout(left()) {
        Ok(read) => read.map_err(ProgramFault::Start)?,
        Err(RecvTimeoutError::Timeout) => return Err(ProgramFault::TooSlow { limit }),
        Err(RecvTimeoutError::Disconnected) => return Err(gone()),
    };
    if output.len() as u64 > MAX_OUTPUT {
        return Err(ProgramFault::TooMuch { limit: MAX_OUTPUT });
    }
    let status = loop {
        match child.try_wait().map_err(ProgramFault::Start)? {
            Some(status) => break status,
            None if left().is_zero() => return Err(ProgramFault::TooSlow { limit }),
            None => thread::sleep(PAUSE),
        }
    };
    if status.success() {
        return Ok(output);
    }
    let stderr = complaints.recv_timeout(left()).ok().and_then(Result::ok);
    let stderr = String::from_utf8_lossy(&stderr.unwrap_or_default()).into_owned();
    Err(ProgramFault::Failed {
        status,
        stderr,
        stdout: output,
    })
}

/// Reads at most `most` bytes in a separate thread.
fn reader(mut from: impl Read + Send + 'static, most: u64) -> mpsc::Receiver<io::Result<Vec<u8>>> {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = from.by_ref().take(most).read_to_end(&mut bytes);
        // Nobody listens any more when the time was up.
        let _ = send.send(read.map(|_| bytes));
    });
    receive
}

/// Ends it and all that it started; whoever ended already is not an error.
fn stop(child: &mut Child) {
    if let Ok(None) = child.try_wait() {
        group::kill(child);
    }
    let _ = child.kill();
    let _ = child.wait();
}
