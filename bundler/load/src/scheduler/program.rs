//! One run of a foreign program: bytes in, bytes out, within a time and a size.
//!
//! What comes in: a program without arguments, what it reads, how long it may take. What goes out: what
//! it wrote on its standard output, or a [`SchedulerFault`]. It and all that it started are stopped when the time
//! is up or its output is too large. What it writes is not looked at here.

use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
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

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum SchedulerFault {
    /// There is one, and it is wrong.
    Answer { message: String, help: String },
    /// It ended with a failure.
    Failed { status: ExitStatus, stderr: String },
    /// It could not be started or spoken to.
    Start(io::Error),
    /// It wrote too much.
    TooMuch { limit: u64 },
    /// It took too long.
    TooSlow { limit: Duration },
}

pub(super) fn run(
    program: &Path,
    input: &[u8],
    limit: Duration,
) -> Result<Vec<u8>, SchedulerFault> {
    let until = Instant::now() + limit;
    let mut child = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A group of its own, so that what it starts can be stopped with it.
        .process_group(0)
        .spawn()
        .map_err(SchedulerFault::Start)?;
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
) -> Result<Vec<u8>, SchedulerFault> {
    let gone = || SchedulerFault::Start(io::Error::other("its standard streams are closed"));
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
        Ok(read) => read.map_err(SchedulerFault::Start)?,
        Err(RecvTimeoutError::Timeout) => return Err(SchedulerFault::TooSlow { limit }),
        Err(RecvTimeoutError::Disconnected) => return Err(gone()),
    };
    if output.len() as u64 > MAX_OUTPUT {
        return Err(SchedulerFault::TooMuch { limit: MAX_OUTPUT });
    }
    let status = loop {
        match child.try_wait().map_err(SchedulerFault::Start)? {
            Some(status) => break status,
            None if left().is_zero() => return Err(SchedulerFault::TooSlow { limit }),
            None => thread::sleep(PAUSE),
        }
    };
    if status.success() {
        return Ok(output);
    }
    let stderr = complaints.recv_timeout(left()).ok().and_then(Result::ok);
    let stderr = String::from_utf8_lossy(&stderr.unwrap_or_default()).into_owned();
    Err(SchedulerFault::Failed { status, stderr })
}

/// Reads at most `most` bytes in a thread of its own.
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

/// Ends it and all that it started; whoever ended already is no error.
fn stop(child: &mut Child) {
    if let Ok(None) = child.try_wait() {
        group::kill(child);
    }
    let _ = child.kill();
    let _ = child.wait();
}
