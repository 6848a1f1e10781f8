//! Why the server cannot start or load what it serves.
//!
//! What comes in: failures of files, settings and sockets. What goes out: messages for who stands in front of
//! the machine, each with an exit code. What a client is answered stands in `answer.rs`.

use std::io;
use std::path::PathBuf;

use outhaul_kit::durable::FileError;
use outhaul_kit::failure::{Classified, FailureClass};

/// Why nothing can be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The disk.
    #[error(transparent)]
    File(#[from] FileError),
    /// What is to be served is described wrongly.
    #[error("`{path}` cannot be used: {problem}")]
    Catalog {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The command line.
    #[error("{problem}")]
    Usage {
        /// What is wrong.
        problem: String,
        /// What to do.
        help: String,
    },
    /// Certificates.
    #[error("the site's certificates: `{path}`: {problem}")]
    Tls {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// containerd's configuration of hosts cannot be changed as it is.
    #[error("containerd cannot be given the mirror, and no `hosts.toml` was written: {}", problems.join("; "))]
    Hosts {
        /// Each file with what is wrong with it.
        problems: Vec<String>,
    },
    /// The record of what was changed of containerd's configuration.
    #[error("`{path}` cannot be used: {problem}")]
    Record {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The socket, or the program's own threads.
    #[error("cannot {doing}")]
    Start {
        /// What was tried.
        doing: String,
        /// Why not.
        source: io::Error,
    },
}

impl Classified for ServeError {
    fn class(&self) -> FailureClass {
        match self {
            Self::Usage { .. }
            | Self::Catalog { .. }
            | Self::Hosts { .. }
            | Self::Record { .. } => FailureClass::Usage,
            Self::File(_) | Self::Start { .. } => FailureClass::Environment,
            Self::Tls { .. } => FailureClass::Trust,
        }
    }

    fn help(&self) -> Option<String> {
        Some(match self {
            Self::Usage { help, .. } => help.clone(),
            Self::File(error) => error.help(),
            Self::Catalog { .. } => {
                "this file is written by the agent; restart it, or import the bundle again"
                    .to_owned()
            }
            Self::Tls { .. } => {
                "restore the folder, or remove it: a new authority is made, which all clients must be \
                 given again"
                    .to_owned()
            }
            Self::Hosts { .. } => "correct these files, and repeat the command".to_owned(),
            Self::Record { .. } => {
                "it was written by `outhaul-mirror enable`: bring the `hosts.toml.before-outhaul` files beside it back \
                 by hand, each as `hosts.toml`, and remove it"
                    .to_owned()
            }
            Self::Start { .. } => {
                "is another program listening there? `--listen` sets another address and port"
                    .to_owned()
            }
        })
    }
}
