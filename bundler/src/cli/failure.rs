//! An error on its way to the person: the message with its causes, and the exit code.
//!
//! What comes in: any error of a stage, with the code that fits it. What goes out: `error:` with every
//! cause, then the `help:` lines, on standard error. It decides nothing: who makes a [`Failure`] says
//! which code it is.

use std::error::Error;
use std::sync::OnceLock;

use outhaul_kit::console::{self, Exit};
use outhaul_signer::durable::FileError;

use super::in_envelope;
use outhaul_control::Diagnostics;
use outhaul_control::diagnostic::Severity;
use outhaul_git::terminal;
use outhaul_kit::failure::Classified;
use outhaul_kit::format_count::format_count;
use outhaul_ship::shown::{self, Shown};

/// A findings or refusal: exit code 1.
pub const REFUSED: u8 = 1;
/// Usage or configuration: exit code 2.
pub const USAGE: u8 = 2;
/// Disk, network, a missing program: exit code 3.
pub const ENVIRONMENT: u8 = 3;
/// Signature, number, recipient, expiry: exit code 4.
pub const TRUST: u8 = 4;
/// A fault of the program: exit code 5.
pub const INTERNAL: u8 = 5;

/// Where settings that were not typed came from, one line each.
static USED: OnceLock<Vec<String>> = OnceLock::new();

/// Has every later failure of usage, environment or trust say where settings came from. Once, before anything
/// runs.
pub(super) fn note_settings(lines: Vec<String>) {
    USED.set(lines).ok();
}

/// Says with `--verbose` which settings were not typed.
pub(super) fn say_settings() {
    for line in USED.get().into_iter().flatten() {
        console::detail(&terminal::plain(&format!("note: settings {line}")));
    }
}

/// What went wrong, for a person, and the exit code.
#[derive(Debug)]
pub struct Failure {
    code: u8,
    lines: Vec<String>,
    /// What `lines` begins with, when it is findings.
    findings: Option<Diagnostics>,
}

impl From<Shown> for Failure {
    fn from(shown: Shown) -> Self {
        Self {
            code: shown.class.code(),
            lines: shown.lines,
            findings: shown.findings,
        }
    }
}

impl Failure {
    /// A failure from an error and all of its causes.
    pub fn new(code: u8, error: &dyn Error) -> Self {
        Self {
            code,
            lines: shown::lines(error),
            findings: None,
        }
    }

    /// A failure from an error that knows its kind.
    pub fn of(error: &(impl Classified + 'static)) -> Self {
        Shown::of(error).into()
    }

    /// A failure from findings, of the kind that their error has.
    pub fn classed(findings: &Diagnostics, error: &impl Classified) -> Self {
        Self {
            code: error.class().code(),
            ..Self::findings(findings)
        }
    }

    /// A failure from a file that a person named, with what helps against it.
    pub fn file(error: &FileError) -> Self {
        Self::new(ENVIRONMENT, error).help(error.help())
    }

    /// A failure from a sentence.
    pub fn say(code: u8, message: impl Into<String>) -> Self {
        Self {
            code,
            lines: vec![format!("error: {}", message.into())],
            findings: None,
        }
    }

    /// A failure from findings about the control plane, each with its place.
    pub fn findings(findings: &Diagnostics) -> Self {
        Shown::findings(findings).into()
    }

    /// A failure from findings about assignments: others of the same control plane may be sound, so
    /// that it is a refusal and no mistake of usage.
    pub fn broken(findings: &Diagnostics) -> Self {
        Shown::broken(findings).into()
    }

    /// The same, when nothing was written: disk or network alone are not a refusal then.
    #[must_use]
    pub fn nothing_written(mut self, findings: &Diagnostics) -> Self {
        self.code = findings.refusal().code();
        self
    }

    /// A refusal that explains itself in several lines.
    pub fn explained(text: &str) -> Self {
        Shown::explained(text).into()
    }

    /// Adds an error below what was said.
    #[must_use]
    pub fn and(mut self, error: &dyn Error) -> Self {
        self.lines.extend(Self::new(self.code, error).lines);
        self
    }

    /// Adds one reason below the message.
    #[must_use]
    pub fn because(mut self, reason: &str) -> Self {
        self.lines.push(format!("  - {reason}"));
        self
    }

    /// Adds what to do next.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.lines.push(format!("help: {}", help.into()));
        self
    }

    /// The exit code.
    pub fn code(&self) -> u8 {
        self.code
    }

    /// Prints it and gives its exit code.
    pub fn report(&self) -> Exit {
        // What was not typed is easily overlooked; findings name their files themselves.
        let used = match self.code {
            REFUSED => &[],
            _ => USED.get().map_or(&[][..], Vec::as_slice),
        };
        let used = used.iter().map(|line| format!("note: settings {line}"));
        let lines: Vec<String> = self.lines.iter().cloned().chain(used).collect();
        let clean: Vec<_> = lines.iter().map(|line| terminal::plain(line)).collect();
        let Some(findings) = &self.findings else {
            console::fail(self.code, &clean.join("\n"));
            return Exit::from(self.code);
        };
        console::always(&clean.join("\n"));
        in_envelope(findings);
        let found = format_count(findings.count(Severity::Error), "error", "errors");
        let mut lines = vec![format!(
            "error: {found} in the control plane, see `findings`"
        )];
        lines.extend(clean.iter().skip(1).map(ToString::to_string));
        console::note_failure(self.code, &lines.join("\n"));
        Exit::from(self.code)
    }
}
