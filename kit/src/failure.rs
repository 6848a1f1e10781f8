//! What kind of failure an error is: which exit code a command ends with, and whether a service tries again.
//!
//! What comes in: the error of a stage, which classifies itself where its rule is. What goes out: its
//! [`FailureClass`], and what to do next. Nothing is printed here.

use std::error::Error;

use crate::text::chain;

/// The kind of a failure. As a number it is the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum FailureClass {
    /// Findings, or a rule that does not allow it.
    Refused = 1,
    /// Usage or configuration.
    Usage = 2,
    /// Disk, network, a missing program: it may pass.
    Environment = 3,
    /// Signature, number, recipient, expiry.
    Trust = 4,
    /// A fault of the program.
    Internal = 5,
}

impl FailureClass {
    /// The exit code of a command.
    pub fn code(self) -> u8 {
        self as u8
    }
}

/// An error that knows its kind.
pub trait Classified: Error {
    /// Its kind.
    fn class(&self) -> FailureClass;

    /// What to do next, where the message does not say so.
    fn help(&self) -> Option<String> {
        None
    }
}

/// An error with its causes, and below it what to do next. Some causes bring that themselves.
pub fn message(error: &(impl Classified + 'static)) -> String {
    let text = format!("error: {}", chain(error));
    match error.help().filter(|help| !help.is_empty()) {
        Some(help) if !text.contains("\nhelp:") => format!("{text}\nhelp: {help}"),
        _ => text,
    }
}
