//! Why a fleet's folder cannot do what was asked.
//!
//! What comes in: a situation with its data. What goes out: the message for the person in front of the machine.
//! It decides nothing.

use std::path::PathBuf;

use outhaul_kit::failure::{Classified, FailureClass};

use crate::durable::FileError;
use crate::key::KeyError;
use crate::metadata::MetadataError;
use crate::trust::TrustError;

/// Why a fleet's folder cannot do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FleetError {
    /// A second signature is still needed.
    #[error(
        "stream `{role}` needs {threshold} signatures and has {found}; the request is \
         `{}`\nhelp: {}", request.display(), missing_signature(role, *threshold)
    )]
    CountersignatureNeeded {
        /// The stream's role.
        role: String,
        /// Signatures needed.
        threshold: usize,
        /// Signatures there.
        found: usize,
        /// The request's file.
        request: PathBuf,
    },
    /// There is a fleet already.
    #[error("`{}` is a fleet already; nothing was changed", folder.display())]
    Exists {
        /// The folder.
        folder: PathBuf,
    },
    /// A file cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The index differs from the request.
    #[error("the index is not what it is to be signed as: {problem}")]
    Index {
        /// What contradicts what.
        problem: String,
    },
    /// A key cannot be used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// Metadata cannot be encoded, signed or read back.
    #[error("`{file}`")]
    Metadata {
        /// The file.
        file: String,
        /// Why.
        source: MetadataError,
    },
    /// The private key of a role is not in this folder.
    #[error(
        "{role} metadata needs {threshold} of the keys {keys}; {found} in `{}`\nhelp: bring the missing \
         key's `.pem` and `.pub`, or sign where it is", folder.display()
    )]
    MissingKeys {
        /// The role.
        role: String,
        /// Signatures needed.
        threshold: usize,
        /// Keys found.
        found: usize,
        /// Ids of the keys that would do.
        keys: String,
        /// Where keys are looked for.
        folder: PathBuf,
    },
    /// Not a fleet.
    #[error("`{}` is not a fleet: {problem}\nhelp: `outhaul key init` or `outhaul-signer init` makes one", folder.display())]
    NotAFleet {
        /// The folder.
        folder: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A fleet of which the own files cannot be understood.
    #[error(
        "the fleet in `{}` is damaged: {problem}\nhelp: bring the whole folder back from its backup, then \
         `outhaul-signer restored {}`; make no new fleet, no site would accept it",
        folder.display(),
        folder.display()
    )]
    Damaged {
        /// The folder.
        folder: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// What it signed so far is not known any more.
    #[error(
        "the fleet in `{}` does not know any more what it signed: {problem}; nothing was signed\nhelp: put \
         `marks.json` back from the newest backup; where there is none, move away what is left of it and run \
         `outhaul-signer restored {}`, which leaves out numbers that may have been used",
        folder.display(),
        folder.display()
    )]
    Forgotten {
        /// The folder.
        folder: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A number that was signed for other content before.
    #[error("number {number} of stream `{role}` was signed before; the next one is {next}")]
    NumberUsed {
        /// The stream's role.
        role: String,
        /// The number asked for.
        number: u64,
        /// The number to use.
        next: u64,
    },
    /// An option out of its range.
    #[error("{problem}")]
    Option {
        /// What is wrong with it.
        problem: String,
    },
    /// Something else was published in between.
    #[error(
        "the fleet published version {published} since this was signed on top of version {base}; \
         nothing was changed\nhelp: sign the bundle again; sign, write and commit one stream at a time"
    )]
    Raced {
        /// The timestamp version published now.
        published: u64,
        /// The one signed on.
        base: u64,
    },
    /// What was just signed would be refused by a site.
    #[error("what was signed would not be accepted on site; nothing was published")]
    WouldBeRefused {
        /// The site's refusal.
        source: TrustError,
    },
}

/// What to do when a stream's signatures are not all here.
fn missing_signature(role: &str, threshold: usize) -> String {
    match threshold {
        1 => format!(
            "the stream's key is not in `keys` here: restore it from a backup, or, if it is lost, give the \
             stream a new one: `outhaul-signer revoke FLEET {role}`; then sign again"
        ),
        _ => format!(
            "`outhaul-signer countersign` the request with another key of the stream, put the answer beside \
             it, and sign again; a key that is lost is replaced by `outhaul-signer stream` or \
             `outhaul-signer revoke FLEET {role}`"
        ),
    }
}

impl Classified for FleetError {
    fn class(&self) -> FailureClass {
        match self {
            Self::File(_) | Self::Damaged { .. } | Self::Forgotten { .. } => {
                FailureClass::Environment
            }
            Self::CountersignatureNeeded { .. } | Self::Raced { .. } => FailureClass::Refused,
            Self::WouldBeRefused { .. } | Self::MissingKeys { .. } => FailureClass::Trust,
            Self::Key(error) => error.class(),
            _ => FailureClass::Usage,
        }
    }
}
