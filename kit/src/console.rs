//! The edge of a program: results on standard output, messages on standard error, and how it ends.
//!
//! What comes in: lines and values of a command, already without what would control a terminal. What goes
//! out: text, or with `--output json` one [`Envelope`] on standard output; messages in colour where a
//! person reads them; an exit code. A reader that has gone away (`| head`) ends nothing and is not an error:
//! the work goes on to its end, and its exit code holds. It decides nothing.

use std::cell::RefCell;
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use clap::Parser;
use serde_json::Value;

mod command;
mod envelope;
pub mod options;
mod output;
pub mod paint;
pub mod place;
pub mod progress;

pub use envelope::{API_VERSION, Envelope, ErrorObject};
pub use options::Options;
pub use output::{Output, failed};

/// What `--help` of every program ends with.
pub const GLOSSARY: &str = "Terms: docs/glossary.md";

/// How a program ends: 0 ok, 1 findings or refused, 2 usage or configuration, 3 environment, 4 trust,
/// 5 internal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Exit(u8);

impl Exit {
    /// It did what was asked.
    pub const SUCCESS: Self = Self(0);

    /// The process's exit code.
    pub fn code(self) -> u8 {
        self.0
    }
}

impl From<u8> for Exit {
    fn from(code: u8) -> Self {
        Self(code)
    }
}

/// What a command printed so far.
#[derive(Debug, Default)]
struct Session {
    command: String,
    json: bool,
    /// The envelope is out already: what comes now is printed on standard error only.
    done: bool,
    /// Envelopes of events are out: what ends the command is one more of them.
    events: bool,
    results: Vec<Value>,
    lines: Vec<String>,
    left_out: Option<u64>,
    findings: Vec<Value>,
    errors: Vec<ErrorObject>,
    /// Why standard output could not be written, other than that nobody reads it.
    unwritten: Option<io::Error>,
}

thread_local! {
    // A command prints from the thread that it began on.
    static SESSION: RefCell<Session> = RefCell::default();
}

fn with<T>(work: impl FnOnce(&mut Session) -> T) -> T {
    SESSION.with_borrow_mut(work)
}

/// Reads the command line. Its messages about usage, and `--help`, are printed already.
///
/// # Errors
/// The exit code, when there is nothing to do.
pub fn parse<C: Parser>(arguments: impl IntoIterator<Item = OsString>) -> Result<C, ExitCode> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    begin::<C>(&arguments);
    parse_with(arguments, |_| None)
}

/// What is known before the command line is parsed: also what fails before that has an envelope.
pub fn begin<C: Parser>(arguments: &[OsString]) {
    with(|session| {
        *session = Session {
            command: command::name(C::command(), arguments),
            json: command::asks_for_json(arguments),
            ..Session::default()
        };
    });
    progress::enable(!is_json());
    options::before_parsing(arguments);
}

/// As [`parse`], after [`begin`]; `help` adds what helps with an error.
///
/// # Errors
/// As [`parse`].
pub fn parse_with<C: Parser>(
    arguments: Vec<OsString>,
    help: impl FnOnce(&clap::Error) -> Option<String>,
) -> Result<C, ExitCode> {
    let error = match C::try_parse_from(arguments) {
        Ok(parsed) => return Ok(parsed),
        Err(error) => error,
    };
    let text = error.render().to_string();
    if !error.use_stderr() {
        out(text.trim_end());
        return Err(ending(Exit::SUCCESS));
    }
    let help = help(&error).map_or_else(String::new, |help| format!("\n{help}"));
    // It quotes what was typed, or what a script had from elsewhere.
    let text = crate::text::printable_lines(text.trim_end());
    let text = crate::url_secrets::without_secrets(&text);
    fail(2, &format!("{text}{help}"));
    Err(finish(Exit(2)))
}

/// Whether one JSON document was asked for.
pub fn is_json() -> bool {
    with(|session| session.json)
}

/// A line, or several, of data for people. With `--output json` it becomes part of the result.
pub fn data(text: &str) {
    let text = &*place::named(text);
    if is_json() {
        with(|session| session.lines.extend(text.lines().map(str::to_owned)));
    } else {
        out(text);
    }
}

/// A document that is printed as it is, such as a SARIF log, whatever else is asked for.
pub fn document(text: &str) {
    with(|session| session.done = true);
    out(text);
}

/// The result, as JSON.
pub fn result(value: Value) {
    with(|session| session.results.push(value));
}

/// One of many results of a command that goes on: an envelope in one line, at once. `code` is what the command
/// would end with for this event alone, and `errors` states why, as [`fail`] takes it; empty where `code` is 0.
pub fn event(value: Value, code: u8, errors: &str) {
    let envelope = Envelope {
        result: value,
        errors: ErrorObject::read(code, errors),
        ..with(|session| Envelope::new(&session.command, code))
    };
    out(&envelope.line());
    with(|session| {
        session.done = true;
        session.events = true;
    });
}

/// The result of a command that goes on, now: a server that is ready.
pub fn ready(value: Value) {
    result(value);
    if is_json() {
        envelope(Exit::SUCCESS);
    }
}

/// How many entries the list in the result leaves out, for the envelope; a message says so to people.
pub fn left_out(count: u64) {
    with(|session| session.left_out = Some(count).filter(|count| *count > 0));
}

/// A finding about what someone wrote, with its place, as JSON.
pub fn finding(value: Value) {
    with(|session| {
        if !session.findings.contains(&value) {
            session.findings.push(value);
        }
    });
}

/// A message on standard error. `--quiet` leaves out what is neither an error nor a warning.
pub fn message(text: &str) {
    if options::is_quiet() && !paint::matters(text) {
        return;
    }
    always(text);
}

/// A message that `--quiet` does not leave out: a question, or what is about to be signed.
pub fn always(text: &str) {
    progress::pause();
    let text = place::named(text);
    let painted = paint::message(&text, options::is_coloured_err());
    // Nothing can be printed when standard error is closed.
    let _ = writeln!(io::stderr().lock(), "{painted}");
}

/// A message for those who want to know more: with `--verbose`.
pub fn detail(text: &str) {
    if options::is_verbose() {
        always(text);
    }
}

/// Does one stage of a command. With `--verbose` it prints how long that took.
pub fn stage<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let done = work();
    if options::is_verbose() {
        let took = begun.elapsed();
        detail(&format!(
            "{what}: {}.{:03} s",
            took.as_secs(),
            took.subsec_millis()
        ));
    }
    done
}

/// How long someone else may take before a person is informed that it is waited for.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long after one such message the next one is printed.
const AGAIN: Duration = Duration::from_secs(30);

/// Does what waits for someone else. When that takes long, `says` is printed meanwhile, with how long it has been waited; then again every 30 s.
pub fn waiting<T>(says: &str, work: impl FnOnce() -> T) -> T {
    let (done, wait) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let begun = Instant::now();
            let mut patience = PATIENCE;
            while wait.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
                message(&format!("{says} ({} s so far)", begun.elapsed().as_secs()));
                patience = AGAIN;
            }
        });
        let result = work();
        drop(done);
        result
    })
}

/// An error with its help, in lines, on standard error and in the envelope.
pub fn fail(code: u8, text: &str) {
    always(text);
    note_failure(code, text);
}

/// An error that is printed already, or elsewhere, for the envelope.
pub fn note_failure(code: u8, text: &str) {
    let text = place::named(text);
    with(|session| session.errors.extend(ErrorObject::read(code, &text)));
}

/// Ends the program: prints the envelope, and reports when standard output could not be written.
pub fn finish(exit: Exit) -> ExitCode {
    let open = with(|session| session.json && !session.done);
    if open {
        envelope(exit);
    }
    // A command that printed events prints one more, with why it ended.
    let errors = with(|session| match session.events {
        true => std::mem::take(&mut session.errors),
        false => Vec::new(),
    });
    if !errors.is_empty() {
        let last = Envelope {
            errors,
            ..with(|session| Envelope::new(&session.command, exit.code()))
        };
        out(&last.line());
    }
    ending(exit)
}

fn envelope(exit: Exit) {
    let envelope = with(|session| {
        session.done = true;
        let mut results = std::mem::take(&mut session.results);
        let lines = std::mem::take(&mut session.lines);
        if results.is_empty() && !lines.is_empty() {
            results.push(serde_json::json!({ "lines": lines }));
        }
        Envelope {
            result: match results.len() {
                0 | 1 => results.pop().unwrap_or_default(),
                _ => Value::Array(results),
            },
            left_out: session.left_out.take(),
            findings: std::mem::take(&mut session.findings),
            errors: std::mem::take(&mut session.errors),
            ..Envelope::new(&session.command, exit.code())
        }
    });
    out(&envelope.document());
}

fn ending(exit: Exit) -> ExitCode {
    progress::pause();
    let flushed = io::stdout().lock().flush();
    note_unwritten(flushed);
    let Some(error) = with(|session| session.unwritten.take()) else {
        return ExitCode::from(exit.code());
    };
    always(&format!(
        "error: standard output could not be written whole: {error}\n\
         help: the work itself is done; free some space there, or print to a terminal"
    ));
    ExitCode::from(if exit == Exit::SUCCESS {
        3
    } else {
        exit.code()
    })
}

/// Text on standard output.
fn out(text: &str) {
    progress::pause();
    let written = writeln!(io::stdout().lock(), "{text}");
    note_unwritten(written);
}

/// Remembers why standard output cannot be written. A reader that went away is no reason.
fn note_unwritten(written: io::Result<()>) {
    if let Err(error) = written
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        with(|session| {
            session.unwritten.get_or_insert(error);
        });
    }
}

/// Standard error for a log: what cannot be written is nobody's error, and progress makes room for it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Log;

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        progress::pause();
        let text = String::from_utf8_lossy(bytes);
        // Who reads the log follows its advice, too.
        let text = place::named(&text);
        let clean = crate::text::printable_lines(&text);
        let _ = io::stderr().lock().write_all(clean.as_bytes());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
