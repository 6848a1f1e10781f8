//! Why a file cannot be audited at all.
//!
//! What comes in: reading and root metadata. What goes out: the sentence for the person, with what to do next.

use outhaul_kit::durable::FileError;
use outhaul_kit::failure::{Classified, FailureClass};
use outhaul_signer::key::KeyError;
use outhaul_signer::trust::TrustError;

/// Why a file cannot be audited.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuditError {
    /// It cannot be read.
    #[error("the export cannot be read")]
    Read(#[from] std::io::Error),
    /// A file that was named cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// Its first line is not that of an export.
    #[error(
        "this is not an audit export: {problem}\nhelp: `outhaul-hub audit export FILE` writes one"
    )]
    NotAnExport {
        /// Why not.
        problem: String,
    },
    /// A line is too long.
    #[error("line {line} is longer than any line of an export")]
    TooLong {
        /// Its number.
        line: u64,
    },
    /// The hub's key that was named is none.
    #[error(transparent)]
    GivenKey(KeyError),
    /// The hub's key is none.
    #[error("the hub's key in the export cannot be read")]
    Key(#[from] KeyError),
    /// The root metadata does not hold.
    #[error(
        "the root metadata is not valid\nhelp: take `1.root.json` of the fleet folder's metadata"
    )]
    Root(#[source] TrustError),
}

impl Classified for AuditError {
    fn class(&self) -> FailureClass {
        match self {
            Self::Read(_) | Self::File(_) => FailureClass::Environment,
            Self::NotAnExport { .. } | Self::TooLong { .. } => FailureClass::Usage,
            Self::GivenKey(_) | Self::Key(_) | Self::Root(_) => FailureClass::Trust,
        }
    }

    fn help(&self) -> Option<String> {
        match self {
            Self::File(error) => Some(error.help()),
            _ => None,
        }
    }
}
