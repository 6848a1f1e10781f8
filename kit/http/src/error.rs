//! Why a request has no answer.
//!
//! What comes in: errors of TLS, connections and bodies. What goes out: [`HttpError`], with the URL and the problem apart, so
//! that each program words its own message. A status is not an error: the caller decides what an answer means.

use std::io;
use std::path::PathBuf;

use outhaul_kit::durable::FileError;

use crate::body::Stalled;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// A file with certificate authorities that cannot be read.
    #[error(transparent)]
    AuthorityFile(#[from] FileError),
    /// A certificate authority that is not one.
    #[error("`{}` holds no certificate", path.display())]
    NoCertificate {
        /// The file, or the name of where the text is from.
        path: PathBuf,
    },
    /// The client's own certificate.
    #[error("the client's certificate holds no certificate")]
    IdentityCertificate,
    /// The client's own key.
    #[error("the client's key is not a private key")]
    IdentityKey,
    /// A URL that may not be used.
    #[error("the URL cannot be used: give {expected}")]
    Url {
        /// What is expected instead. The URL is not here: it may hold a password.
        expected: &'static str,
    },
    /// An address that leads to this machine or its link, where the request asked for others only.
    #[error("`{url}` leads to {host}, {what}")]
    Inside {
        /// The URL.
        url: String,
        /// The host, with its address where the name does not say it.
        host: String,
        /// What the address is.
        what: &'static str,
    },
    /// The certificate that the server shows is not trusted: of another authority, for another name, or not for this day.
    #[error("`{url}`: {problem}")]
    Certificate {
        /// The URL.
        url: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Nothing listens there.
    #[error("`{url}`: {problem}")]
    Refused {
        /// The URL.
        url: String,
        /// What the system said.
        problem: String,
    },
    /// There was no connection, so that nothing of the request was sent.
    #[error("`{url}`: {problem}")]
    NotSent {
        /// The URL.
        url: String,
        /// What happened.
        problem: String,
    },
    /// The connection broke off, it took too long, or the answer is larger than its bound: the server may have the request.
    #[error("`{url}`: {problem}")]
    Failed {
        /// The URL.
        url: String,
        /// What happened.
        problem: String,
    },
}

impl HttpError {
    /// What happened, without the URL.
    pub fn problem(&self) -> String {
        match self {
            Self::Certificate { problem, .. }
            | Self::Refused { problem, .. }
            | Self::NotSent { problem, .. }
            | Self::Failed { problem, .. } => problem.clone(),
            other => other.to_string(),
        }
    }

    /// Whether the server may have got the request, and done what it asks for.
    pub fn may_be_sent(&self) -> bool {
        matches!(self, Self::Failed { .. })
    }
}

/// Whether a body's reader ended because the time for it was over, or because nothing more came.
pub fn is_timeout(error: &io::Error) -> bool {
    let Some(inner) = error.get_ref() else {
        return false;
    };
    matches!(inner.downcast_ref(), Some(ureq::Error::Timeout(_))) || inner.is::<Stalled>()
}
