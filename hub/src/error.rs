//! Everything that can go wrong, with the exit code and the way out, in one table.
//!
//! What comes in: the errors of each stage. What goes out: for people, the chain of causes and a
//! `help:` line; for programs, an exit code: 1 refused, 2 usage or configuration, 3 environment, 4
//! trust, 5 internal. It never hides a cause.

use std::io;

use outhaul_kalypso::ObjectsError;
use outhaul_kit::failure::{Classified, FailureClass};
use outhaul_place::PlaceRefused;
use outhaul_signer::clock::Implausible;
use outhaul_signer::durable::FileError;
use outhaul_signer::key::KeyError;

use crate::desired::DesiredError;
use crate::enrol::EnrolError;
use crate::ingest::IngestError;
use crate::state::StateError;
use crate::store::BackupError;
use crate::store::StoreError;
use crate::view::table::TableError;

/// Why a command ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HubError {
    /// A backup is none, or is not restored.
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// A bundle could not be read.
    #[error("bundle `{file}`")]
    Bundle {
        /// Its file.
        file: String,
        /// Why.
        source: Box<DesiredError>,
    },
    /// How old a report is cannot be told by this machine's clock.
    #[error("{problem}; the age of reports cannot be determined with it, and none was removed")]
    Clock {
        /// By how much it is off.
        problem: Implausible,
    },
    /// Old reports were removed until it failed; each transaction was whole.
    #[error("not every old report that may go was removed")]
    Removal {
        /// Why it failed.
        source: Box<HubError>,
        /// How many are gone.
        reports: u64,
        /// Under which number that is on record.
        number: i64,
    },
    /// A request was refused.
    #[error("request `{file}`")]
    Enrol {
        /// Its file.
        file: String,
        /// Why.
        source: Box<EnrolError>,
    },
    /// A rule does not allow it; nothing was changed.
    #[error("{problem}")]
    Refused {
        /// What the rule says.
        problem: String,
        /// What to do.
        help: String,
    },
    /// A file failed.
    #[error(transparent)]
    File(#[from] FileError),
    /// Some of several paths cannot be imported, so none was.
    #[error("not every path can be imported, so none of them was:{lines}")]
    Paths {
        /// One line per path.
        lines: String,
        /// The kind of the worst of them.
        class: FailureClass,
    },
    /// The place that was named is no place for what the hub writes.
    #[error(transparent)]
    Place(#[from] PlaceRefused),
    /// Reports could not be read or kept.
    #[error(transparent)]
    Ingest(#[from] IngestError),
    /// The page cannot be made: a defect of this program.
    #[error("the page cannot be rendered")]
    Page(#[from] minijinja::Error),
    /// The server cannot serve.
    #[error("cannot {doing}")]
    Serve {
        /// What was tried.
        doing: String,
        /// What the system says.
        source: io::Error,
    },
    /// The state folder cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The list cannot be written as a table: a defect of this program.
    #[error("the list cannot be written as CSV")]
    Table(#[from] TableError),
    /// The TLS certificate or key cannot be used.
    #[error("the TLS certificate and key cannot be used: {problem}")]
    Tls {
        /// Why.
        problem: String,
    },
    /// The command line asks for something that does not fit.
    #[error("{problem}")]
    Usage {
        /// What does not fit.
        problem: String,
        /// What to do.
        help: String,
    },
}

impl HubError {
    /// Whether the store cannot be written: a full disk, a file system that is read-only or fails.
    pub fn is_unwritable(&self) -> bool {
        match self {
            Self::Store(error)
            | Self::State(StateError::Store(error))
            | Self::Ingest(IngestError::Store(error)) => error.is_unwritable(),
            Self::Removal { source, .. } => source.is_unwritable(),
            _ => false,
        }
    }

    /// Whether the database is damaged.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Store(error)
            | Self::State(StateError::Store(error))
            | Self::Ingest(IngestError::Store(error)) => error.is_damage(),
            Self::Removal { source, .. } => source.is_damage(),
            _ => false,
        }
    }

    /// Whether the database's server cannot be reached or went away.
    pub fn is_gone(&self) -> bool {
        match self {
            Self::Store(error)
            | Self::State(StateError::Store(error))
            | Self::Ingest(IngestError::Store(error)) => error.is_gone(),
            Self::Removal { source, .. } => source.is_gone(),
            _ => false,
        }
    }
}

impl From<ObjectsError> for HubError {
    fn from(error: ObjectsError) -> Self {
        match error {
            ObjectsError::Refused { problem, help } => Self::Refused { problem, help },
            ObjectsError::File(error) => Self::File(error),
        }
    }
}

impl Classified for HubError {
    fn class(&self) -> FailureClass {
        match self {
            Self::Refused { .. } => FailureClass::Refused,
            Self::Paths { class, .. } => *class,
            Self::Place(error) => error.class(),
            Self::Removal { source, .. } => source.class(),
            Self::Backup(error) => error.class(),
            Self::Usage { .. } | Self::Tls { .. } => FailureClass::Usage,
            Self::Bundle { source, .. } if !source.is_environment() => FailureClass::Trust,
            Self::Enrol { source, .. } => match source.as_ref() {
                EnrolError::Malformed { .. } => FailureClass::Usage,
                EnrolError::Store(error) => error.class(),
                _ => FailureClass::Trust,
            },
            Self::State(error) => state_class(error),
            Self::Store(error) | Self::Ingest(IngestError::Store(error)) => error.class(),
            Self::Page(_) | Self::Table(_) => FailureClass::Internal,
            Self::Bundle { .. }
            | Self::Clock { .. }
            | Self::File(_)
            | Self::Ingest(_)
            | Self::Serve { .. } => FailureClass::Environment,
        }
    }

    fn help(&self) -> Option<String> {
        let text = match self {
            Self::Usage { help, .. } | Self::Refused { help, .. } => help.as_str(),
            Self::Backup(error) => return error.help(),
            Self::Removal {
                source,
                reports,
                number,
            } => {
                let gone = match reports {
                    1 => "1 report was".to_owned(),
                    more => format!("{more} reports were"),
                };
                let why = source.help().map(|help| format!(": {help}"));
                return Some(format!(
                    "{gone} removed before that, number {number} on record; the same command continues with the others{}",
                    why.unwrap_or_default()
                ));
            }
            Self::Clock { .. } => {
                "set this machine's clock, and repeat the command; if the fleet signed a wrong time, import a bundle that was \
                 signed after it was corrected"
            }
            Self::Paths { .. } => {
                "correct or leave out the paths that cannot be read, and repeat the command"
            }
            Self::Tls { .. } => {
                "`--tls-cert` is a PEM file with the chain, `--tls-key` its PEM key"
            }
            Self::Enrol { source, .. } => match source.as_ref() {
                EnrolError::OtherKey { .. } | EnrolError::OtherStream { .. } => {
                    "ask the site's people whether they set it up again; if they did, repeat with \
                     `--replace`"
                }
                EnrolError::KitUsed { .. } => {
                    "whoever wrote this request has the site's kit: ask the site's people; a machine that \
                     was set up again gets a new kit (`outhaul site enrol` at the centre); nothing was \
                     changed"
                }
                EnrolError::Proof(_) | EnrolError::TokenShown => {
                    "enrol the machine again with its kit and this version of the agent, and bring the \
                     new request; nothing was changed"
                }
                EnrolError::KeyOfOther { .. } => {
                    "every machine makes its own key: the state folder of that site's machine was copied. Set this \
                     machine up again with its own kit, and see which of the two is to stay"
                }
                EnrolError::Revoked { .. } => "repeat with `--replace` to let it in again",
                EnrolError::Store(error) => return error.help(),
                other => other
                    .help()
                    .unwrap_or("make a new request on the site; nothing was changed"),
            },
            Self::State(StateError::Locked { .. }) => {
                "other commands work beside it; stop it first for `serve` or `compact`"
            }
            Self::State(StateError::Lost { .. }) => {
                "bring the database back: `outhaul-hub restore BACKUP --state DIR` (docs/runbooks/hub-lost.md). To begin with \
                 nothing, `outhaul-hub init … --begin-empty`: every site has to be registered again"
            }
            Self::State(StateError::Joins { .. }) => {
                "to run one more process of that hub, bring its `hub.key` into this folder (or as the credential) and repeat; a hub of \
                 its own needs a database of its own"
            }
            Self::State(StateError::OtherFleet { .. }) => {
                "name an empty database, or the root metadata of that fleet"
            }
            Self::State(StateError::OtherDatabase { .. }) => {
                "`outhaul-hub move --to ADDRESS` moves a hub from its file to a server"
            }
            Self::State(StateError::Replaced { .. }) | Self::Store(StoreError::Replaced { .. }) => {
                "sites keep what was not acknowledged and send it again. See what is at that path now, bring the database \
                 back where it is gone (`outhaul-hub restore FILE`), and start the hub again"
            }
            Self::State(StateError::Unfinished { .. }) => "run `outhaul-hub init` again",
            Self::State(StateError::OtherKey { .. }) => {
                "sites accept acknowledgements of the key in their kits only: bring that key back, as \
                 `hub.key` or as the credential; nothing was changed"
            }
            Self::State(StateError::Key(KeyError::File(error))) if error.is_missing() => {
                "what is on record is safe: bring `hub.key` back from a backup of the hub's folder, or as the \
                 credential; sites take acknowledgements of that key only"
            }
            Self::State(StateError::NotFirstRoot { .. }) => {
                "take `1.root.json` from the fleet folder's metadata"
            }
            Self::State(StateError::Store(error))
            | Self::Store(error)
            | Self::Ingest(IngestError::Store(error)) => return error.help(),
            Self::File(error) | Self::State(StateError::File(error)) => {
                return Some(format!("what is on record is safe; {}", error.help()));
            }
            _ => return None,
        };
        Some(text.to_owned())
    }
}

fn state_class(error: &StateError) -> FailureClass {
    match error {
        StateError::Key(error) => error.class(),
        StateError::Clock { .. }
        | StateError::File(_)
        | StateError::Lock { .. }
        | StateError::Replaced { .. }
        | StateError::Locked { .. } => FailureClass::Environment,
        StateError::Joins { .. }
        | StateError::Lost { .. }
        | StateError::OtherDatabase { .. }
        | StateError::OtherFleet { .. }
        | StateError::NotFirstRoot { .. }
        | StateError::Unfinished { .. } => FailureClass::Usage,
        StateError::OtherKey { .. } | StateError::Root(_) => FailureClass::Trust,
        StateError::KeyNotOpen | StateError::Name { .. } => FailureClass::Internal,
        StateError::Store(error) => error.class(),
    }
}
