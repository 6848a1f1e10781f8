//! The form of a result, and an error that ends a command: the same in every program.
//!
//! What comes in: `--output`, a result as text and as a value, an error that knows its kind. What goes out: lines or the
//! envelope, through [`super::data`], [`super::result`] and [`super::fail`]. It decides nothing.

use clap::ValueEnum;
use serde_json::Value;

use super::Exit;
use crate::failure::{self, Classified};
use crate::text::printable_lines;

/// How data is printed on standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Output {
    /// JSON, for programs
    Json,
    /// Text, for people
    #[default]
    Text,
}

impl Output {
    /// Prints a result: `text` for people, nothing when that is empty; `value` for programs.
    pub fn print(self, text: &str, value: impl FnOnce() -> Value) {
        match self {
            Self::Text if text.is_empty() => {}
            Self::Text => super::data(&printable_lines(text)),
            Self::Json => super::result(value()),
        }
    }
}

/// Prints an error with its causes and what to do next. Returns its exit code.
pub fn failed(error: &(impl Classified + 'static)) -> Exit {
    let code = error.class().code();
    super::fail(code, &printable_lines(&failure::message(error)));
    Exit::from(code)
}
