//! Why nothing of a kind can be applied on this host, and what helps.
//!
//! What comes in: the errors of files, of the inventory, of programs and servers. What goes out: one
//! [`ApplyError`] with a sentence for the person in front of the machine. What is wrong with an assignment is a
//! result and none of these.

use outhaul_kit::durable::FileError;

use crate::inventory::LedgerError;
#[cfg(feature = "kubernetes")]
use crate::sealed::struck_out;

/// Why nothing of a kind can be applied on this host.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The inventory.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// Files.
    #[error(transparent)]
    File(#[from] FileError),
    /// The folder into which this site's files are written.
    #[error("this site's files cannot be written to `{}`: {source}", path.display())]
    Target {
        /// The folder.
        path: std::path::PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The stream names a reconciler that this agent does not have.
    #[error("this stream is for the reconciler `{kind}`, which this agent does not have")]
    Unknown {
        /// Its name.
        kind: String,
    },
    /// The site's owner chose another reconciler than the stream is rendered for.
    #[error(
        "this stream is rendered for `{stream}`, but agent.toml sets `reconciler = \"{site}\"`"
    )]
    Mismatch {
        /// What the stream is rendered for.
        stream: String,
        /// What the site is set to.
        site: String,
    },
    /// The cluster's API server cannot be asked, or refuses for a reason of this site.
    #[error("{problem}")]
    Cluster {
        /// What happened, in the server's own words where it said something.
        problem: String,
        /// What to do next.
        help: String,
    },
    /// The apply helper does not answer, or cannot do it.
    #[error("{problem}")]
    Helper {
        /// What is the matter.
        problem: String,
        /// What to do next.
        help: String,
    },
    /// Images cannot be brought into this machine's containerd.
    #[error("{problem}")]
    Images {
        /// What is the matter.
        problem: String,
        /// What to do next.
        help: String,
    },
    /// The hook program is not to be used, or cannot do it.
    #[error("{problem}")]
    Hook {
        /// What is the matter.
        problem: String,
        /// What to do next.
        help: String,
    },
    /// The settings by which this site worked are lost.
    #[error("{problem}")]
    Settings {
        /// What is the matter.
        problem: String,
        /// What to do next.
        help: String,
    },
    /// What counts as this site's health cannot be checked at all, which says nothing of that health.
    #[error("this site's health cannot be checked: `{name}`: {problem}")]
    Health {
        /// What is asked, as agent.toml names it.
        name: String,
        /// Why it cannot be asked.
        problem: String,
        /// What to do next.
        help: String,
    },
    /// A program that an agent started which is gone.
    #[error("an earlier run of `{program}`, started by an earlier agent, is still running")]
    Busy {
        /// Its name.
        program: String,
    },
    /// The agent was asked to stop while it waited.
    #[error("stopped on request")]
    Stopped,
    /// The site's file with the password of vaults, which others may change, or which is a program that would not start.
    #[error("`vault_password_file` `{}` is not used: {problem}", path.display())]
    Vault {
        /// The file.
        path: std::path::PathBuf,
        /// Who may change it, or what lacks.
        problem: String,
        /// What to do next.
        help: String,
    },
    /// A program that is not there or does not start.
    #[error("cannot start `{program}`: {problem}")]
    Program {
        /// Its name.
        program: String,
        /// What the system said.
        problem: String,
        /// What to do next.
        help: String,
    },
}

impl ApplyError {
    /// Without what was opened for the work: what a server says may quote it.
    #[cfg(feature = "kubernetes")]
    #[must_use]
    pub fn without(self, values: &[zeroize::Zeroizing<String>]) -> Self {
        match self {
            Self::Cluster { problem, help } => Self::Cluster {
                problem: struck_out(&problem, values),
                help: struck_out(&help, values),
            },
            other => other,
        }
    }

    /// What to do next.
    pub fn help(&self) -> String {
        match self {
            Self::Ledger(error) => error.help.clone(),
            Self::File(error) => error.help(),
            Self::Target { .. } => {
                "correct `target` under `[folder]` in agent.toml, or let the agent write to that folder".into()
            }
            Self::Unknown { .. } => {
                "name a program for it under `[hook]` in agent.toml, or ask the centre for a stream that this \
                 site can apply"
                    .into()
            }
            Self::Mismatch { .. } => {
                "set `reconciler` in agent.toml to `auto`, or ask the centre for a stream that this \
                 site can apply"
                    .into()
            }
            Self::Cluster { help, .. }
            | Self::Helper { help, .. }
            | Self::Hook { help, .. }
            | Self::Images { help, .. }
            | Self::Health { help, .. }
            | Self::Settings { help, .. }
            | Self::Program { help, .. }
            | Self::Vault { help, .. } => help.clone(),
            Self::Busy { .. } => {
                "wait until it has ended, or end it; the agent tries again automatically".into()
            }
            Self::Stopped => String::new(),
        }
    }
}
