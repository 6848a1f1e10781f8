//! One run of a program: bytes in, bytes out, within a time and a size.
//!
//! What comes in: a command, what it reads, and its limits. What goes out: what it wrote on its standard output, or a
//! [`ProgramFault`]. It and all that it started are stopped when the time is up, its output is too large, or this process is
//! stopped; what it started and left running is stopped when it ends. What it writes is not looked at here.

use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use crate::{group, interrupt};

/// Where programs are looked for that run with no environment of the one that starts them.
pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// The end of what it says on standard error, in bytes: so much is kept.
const MAX_STDERR: usize = 64 << 10;
/// How often it is asked whether it ended, once it has closed its output.
const PAUSE: Duration = Duration::from_millis(5);
/// The longest text of a program that is kept, in characters.
const MAX_TEXT: usize = 200;

/// What a program may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// How long it may take.
    pub time: Duration,
    /// The most that it may write on its standard output, in bytes.
    pub output: u64,
    /// Whether it may ask a person at the terminal: its standard error is ours then, and only it is stopped, not what it
    /// started.
    pub asks: bool,
}

/// Why a program gave no answer.
#[derive(Debug)]
pub enum ProgramFault {
    /// It ended with a failure.
    Failed {
        /// How it ended.
        status: ExitStatus,
        /// The last 64 KiB of what it wrote on its standard error.
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
    /// Whether it ended by itself, so that its failure is what it has to say. One that was stopped, killed or could not be
    /// started said nothing.
    pub fn is_answer(&self) -> bool {
        matches!(self, Self::Failed { status, .. } if status.code().is_some())
    }

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
                let time = match limit.as_secs() {
                    seconds if seconds < 120 => format!("{seconds} s"),
                    seconds => format!("{} minutes", seconds / 60),
                };
                format!("it did not end within {time} and was stopped")
            }
        }
    }
}

/// How long a program's file may be open for writing, and how often it is looked at.
const BUSY: Duration = Duration::from_secs(2);
const BUSY_LOOK: Duration = Duration::from_millis(5);

/// Starts `command`. A file that was just written cannot be started while anybody has it open for writing: a program that another thread
/// is starting has a copy of every open file until it is the other program. That is waited for.
///
/// # Errors
/// [`io::Error`] when it cannot be started.
pub fn start(command: &mut Command) -> io::Result<Child> {
    let until = Instant::now() + BUSY;
    loop {
        match command.spawn() {
            Err(error)
                if error.kind() == io::ErrorKind::ExecutableFileBusy && Instant::now() < until =>
            {
                std::thread::sleep(BUSY_LOOK);
            }
            started => return started,
        }
    }
}

/// Runs `command` once, which gets `input` on its standard input.
///
/// # Errors
/// [`ProgramFault`]; it and what it started were stopped.
pub fn run(command: &mut Command, input: &[u8], limits: &Limits) -> Result<Vec<u8>, ProgramFault> {
    let until = Instant::now() + limits.time;
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if limits.asks {
        // A group of its own could not read from the terminal.
        command.stderr(Stdio::inherit());
    } else {
        // So that what it starts can be stopped with it.
        command.process_group(0);
    }
    let mut child = start(command).map_err(ProgramFault::Start)?;
    let mut started = (!limits.asks).then(|| interrupt::started(&child));
    let outcome = converse(&mut child, input, until, limits, &mut started);
    if outcome.is_err() {
        stop(&mut child, started);
    }
    outcome
}

fn converse(
    child: &mut Child,
    input: &[u8],
    until: Instant,
    limits: &Limits,
    started: &mut Option<interrupt::Started>,
) -> Result<Vec<u8>, ProgramFault> {
    let gone = || ProgramFault::Start(io::Error::other("its standard streams are closed"));
    let mut stdin = child.stdin.take().ok_or_else(gone)?;
    let stdout = child.stdout.take().ok_or_else(gone)?;
    let input = input.to_vec();
    // Threads, because it may write before it has read all. None is joined: a grandchild that keeps a
    // stream open must not hold us up; each ends with the streams.
    thread::spawn(move || {
        // It need not read what it does not want to know.
        let _ = stdin.write_all(&input);
    });
    let answers = reader(stdout, limits.output + 1);
    let complaints = child.stderr.take().map(end_of);
    let left = || until.saturating_duration_since(Instant::now());
    let output = match answers.recv_timeout(left()) {
        Ok(read) => read.map_err(ProgramFault::Start)?,
        Err(RecvTimeoutError::Timeout) => return Err(ProgramFault::TooSlow { limit: limits.time }),
        Err(RecvTimeoutError::Disconnected) => return Err(gone()),
    };
    if output.len() as u64 > limits.output {
        return Err(ProgramFault::TooMuch {
            limit: limits.output,
        });
    }
    while !group::has_ended(child).map_err(ProgramFault::Start)? {
        if left().is_zero() {
            return Err(ProgramFault::TooSlow { limit: limits.time });
        }
        thread::sleep(PAUSE);
    }
    // What it left running would hold its standard error open. Once its status is taken its number may be another's: from
    // then on nothing is sent to its group.
    if started.is_some() {
        group::kill(child);
    }
    drop(started.take());
    let status = child.wait().map_err(ProgramFault::Start)?;
    if status.success() {
        return Ok(output);
    }
    let stderr = complaints.and_then(|said| said.recv_timeout(left()).ok());
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

/// Reads all of it in a separate thread, so that a program never waits for us, and keeps the last [`MAX_STDERR`] bytes.
fn end_of(mut from: impl Read + Send + 'static) -> mpsc::Receiver<Vec<u8>> {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        let mut kept = Vec::new();
        let mut buffer = [0; 8192];
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            kept.extend_from_slice(&buffer[..read]);
            kept.drain(..kept.len().saturating_sub(MAX_STDERR));
        }
        // Nobody listens any more when the time was up.
        let _ = send.send(kept);
    });
    receive
}

/// Ends it and, where its group is its own and its status was not taken yet, all that it started; whoever ended already is
/// not an error.
fn stop(child: &mut Child, started: Option<interrupt::Started>) {
    if started.is_some() {
        group::kill(child);
    }
    drop(started);
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, input: &[u8], limits: &Limits) -> Result<Vec<u8>, ProgramFault> {
        run(Command::new("sh").args(["-c", script]), input, limits)
    }

    const LIMITS: Limits = Limits {
        time: Duration::from_secs(60),
        output: 1000,
        asks: false,
    };

    #[test]
    fn what_a_program_writes_comes_back_and_what_it_complains_of_with_how_it_ended() {
        assert_eq!(shell("cat", b"text", &LIMITS).unwrap(), b"text");
        let fault = shell("echo first >&2; echo why >&2; exit 3", b"", &LIMITS).unwrap_err();
        assert_eq!(fault.sentence(), "exit status: 3: why");
    }

    #[test]
    fn one_whose_file_is_still_open_for_writing_is_started_when_it_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        let copied = Command::new("cp").arg("/bin/true").arg(&path).status();
        assert!(copied.unwrap().success());
        let open = std::fs::File::options().write(true).open(&path).unwrap();
        assert_eq!(
            Command::new(&path).spawn().unwrap_err().kind(),
            io::ErrorKind::ExecutableFileBusy
        );
        let (closes, closed) = mpsc::channel();
        let closing = thread::spawn(move || {
            closed.recv().unwrap();
            drop(open);
        });
        closes.send(()).unwrap();
        assert!(
            start(&mut Command::new(&path))
                .unwrap()
                .wait()
                .unwrap()
                .success()
        );
        closing.join().unwrap();
    }

    #[test]
    fn one_that_complains_at_length_is_not_ended_by_it_and_its_last_line_is_shown() {
        let much = "yes complaint | head -c 1000000 >&2; echo the end >&2";
        assert_eq!(
            shell(&format!("{much}; echo done"), b"", &LIMITS).unwrap(),
            b"done\n"
        );
        let fault = shell(&format!("{much}; exit 3"), b"", &LIMITS).unwrap_err();
        assert_eq!(fault.sentence(), "exit status: 3: the end");
        assert!(fault.is_answer());
        let fault = shell("kill -9 $$", b"", &LIMITS).unwrap_err();
        assert!(!fault.is_answer(), "{fault:?}");
    }

    #[test]
    fn what_a_program_left_running_ends_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let number = folder.path().join("number");
        let script = format!(
            "sleep 600 >/dev/null & echo $! >{}; exit 1",
            number.display()
        );
        let begun = Instant::now();
        let fault = shell(&script, b"", &LIMITS).unwrap_err();
        assert!(fault.is_answer(), "{fault:?}");
        // It kept standard error open, and nobody waited for it.
        assert!(begun.elapsed() < Duration::from_secs(30));
        let number = std::fs::read_to_string(number).unwrap();
        let status = format!("/proc/{}/stat", number.trim());
        let is_gone = || match std::fs::read_to_string(&status) {
            Ok(stat) => stat.contains(") Z "),
            Err(_) => true,
        };
        while !is_gone() {
            assert!(begun.elapsed() < Duration::from_secs(60));
            thread::sleep(PAUSE);
        }
    }

    #[test]
    fn one_that_takes_too_long_or_writes_too_much_is_stopped_also_one_that_asks_a_person() {
        for asks in [false, true] {
            let time = Duration::from_millis(200);
            let slow = Limits {
                time,
                asks,
                ..LIMITS
            };
            let begun = Instant::now();
            let fault = shell("exec sleep 60", b"", &slow).unwrap_err();
            assert!(matches!(fault, ProgramFault::TooSlow { .. }), "{fault:?}");
            assert!(begun.elapsed() < Duration::from_secs(30));
            let limits = Limits { asks, ..LIMITS };
            let fault = shell("exec yes", b"", &limits).unwrap_err();
            assert!(matches!(fault, ProgramFault::TooMuch { .. }), "{fault:?}");
        }
    }
}
