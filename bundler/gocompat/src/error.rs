//! What can go wrong, with the place where it did.
//!
//! In: the engine, the decoders. Out: errors that name the line and the column of the
//! template or document, and, by default mode is stricter than Kalypso, the number
//! of the Kalypso defect that it does not reproduce.
//! Messages keep Go's wording where Go has one, so that they can be searched for.

use thiserror::Error;

/// What kind of template error it is, for those who decide by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TemplateErrorKind {
    /// The template does not parse.
    Parse,
    /// It parses, but running it failed.
    Execution,
    /// A value that is not there was read or printed (default mode only; Kalypso prints
    /// `<no value>`: its defect 12).
    Undefined,
    /// A function that needs a clock, randomness, the network or the host (refused in both modes).
    Refused,
    /// A limit was reached: steps, bytes, depth, or rounds of re-evaluation.
    Limit,
    /// The output is not valid UTF-8 (only [`crate::Template::render_bytes`] can give it).
    NotText,
}

/// Why a template could not be rendered, and where.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("template:{line}:{column}: {message}")]
pub struct TemplateError {
    /// What happened, in Go's words where Go fails too.
    pub message: String,
    /// Line in the template text of that round, from 1.
    pub line: usize,
    /// Byte column in that line, from 1.
    pub column: usize,
    /// The kind.
    pub kind: TemplateErrorKind,
    /// In which round of evaluation, from 1. From 2 on the text is the output of the round before.
    pub round: usize,
}

impl TemplateError {
    /// The number of the Kalypso defect that compat mode would have reproduced instead.
    pub fn defect(&self) -> Option<u8> {
        match self.kind {
            TemplateErrorKind::Undefined => Some(12),
            _ => None,
        }
    }
}

/// Why a YAML document could not be decoded.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("yaml: line {line}: {message}")]
pub struct YamlError {
    /// What is wrong.
    pub message: String,
    /// Line, from 1.
    pub line: usize,
    /// Column, from 1.
    pub column: usize,
}

/// Why a JSON document could not be decoded.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("json: line {line} column {column}: {message}")]
pub struct JsonError {
    /// What is wrong.
    pub message: String,
    /// Line, from 1.
    pub line: usize,
    /// Column, from 1.
    pub column: usize,
}
