//! A gzip file as its text and the choices of the program that compressed it, and the same file again.
//!
//! What comes in: a gzip file (RFC 1952), or its text and corrections. What goes out: its text and corrections, or the file,
//! byte for byte. The choices that a known writer would make are predicted, so that corrections hold only what differs.
//! Memory does not grow with the file, apart from the corrections. It decides nothing about what travels, and what it makes of foreign
//! corrections is no more than bytes: whoever calls compares their digest.

mod bits;
mod corrections;
mod error;
mod inflate;
mod join;
mod predict;
mod split;
mod style;
mod text;
mod token;

pub use corrections::MAX_CORRECTION_BYTES;
pub use error::{JoinError, SplitError};
pub use join::Joiner;
pub use split::split;
pub use text::text;

#[cfg(test)]
mod tests;
