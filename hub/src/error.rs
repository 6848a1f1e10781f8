//! Everything that can go wrong, with the exit code and the way out, in one table.
//!
//! What comes in: the errors of each stage. What goes out: for people, the chain of causes and a
//! `help:` line; for programs, an exit code: 1 refused, 2 usage or configuration, 3 environment, 4
//! trust, 5 internal. It never hides a cause.

use std::io;

use outhaul_kalypso::ObjectsError;
use outhaul_kit::failure::{Classified, FailureClass};
use outhaul_signer::clock::Implausible;
use outhaul_signer::durable::FileError;
use outhaul_signer::key::KeyError;

use crate::backup_error::BackupError;
use crate::desired::DesiredError;
use crate::enrol::EnrolError;
use crate::ingest::IngestError;
use crate::state::StateError;
use crate::store::{AddressError, CORRUPT_HELP, ServerError, StoreError, Trouble};

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
    #[error("{problem}; how old reports are cannot be told by it, and none was removed")]
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
    /// Reports could not be read or kept.
    #[error(transparent)]
    Ingest(#[from] IngestError),
    /// The page cannot be made: a defect of this program.
    #[error("the page cannot be made")]
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
            Self::Removal { source, .. } => source.class(),
            Self::Backup(error) => error.class(),
            Self::Usage { .. } | Self::Tls { .. } => FailureClass::Usage,
            Self::Bundle { source, .. } if !source.is_environment() => FailureClass::Trust,
            Self::Enrol { source, .. } => match source.as_ref() {
                EnrolError::Malformed { .. } => FailureClass::Usage,
                EnrolError::Store(error) => store_class(error),
                _ => FailureClass::Trust,
            },
            Self::State(error) => state_class(error),
            Self::Store(error) | Self::Ingest(IngestError::Store(error)) => store_class(error),
            Self::Page(_) => FailureClass::Internal,
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
                    "{gone} removed before that, number {number} on record; the same command goes on with the others{}",
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
                    "ask the site's people whether they set it up anew; if they did, repeat with \
                     `--replace`"
                }
                EnrolError::KitUsed { .. } => {
                    "whoever wrote this request has the site's kit: ask the site's people; a machine that \
                     was set up anew gets a new kit (`outhaul site enrol` at the centre); nothing was \
                     changed"
                }
                EnrolError::Proof(_) | EnrolError::TokenShown => {
                    "enrol the machine again with its kit and this version of the agent, and bring the \
                     new request; nothing was changed"
                }
                EnrolError::KeyOfOther { .. } => {
                    "every machine makes its own key: the state folder of that site's machine was copied. Set this \
                     machine up anew with its own kit, and see which of the two is to stay"
                }
                EnrolError::Revoked { .. } => "repeat with `--replace` to let it in again",
                EnrolError::Store(error) => return store_help(error),
                _ => "make a new request on the site; nothing was changed",
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
                 back where it is gone (`outhaul-hub restore`), and start the hub again"
            }
            Self::State(StateError::Unfinished { .. }) => "run `outhaul-hub init` again",
            Self::State(StateError::OtherKey { .. }) => {
                "sites take acknowledgements of the key in their kits only: bring that key back, as \
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
            | Self::Ingest(IngestError::Store(error)) => return store_help(error),
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
        StateError::Store(error) => store_class(error),
    }
}

fn store_class(error: &StoreError) -> FailureClass {
    match error {
        StoreError::Exists { .. }
        | StoreError::Missing { .. }
        | StoreError::Newer { .. }
        | StoreError::NotEmpty { .. } => FailureClass::Usage,
        StoreError::Server { source, .. } => server_class(source),
        _ if error.trouble() == Some(Trouble::Denied) => FailureClass::Usage,
        StoreError::Unsound { .. } => FailureClass::Trust,
        StoreError::Corrupt { .. } => FailureClass::Internal,
        // Of a full disk, a server that went away, and whatever else a newer store may say.
        _ => FailureClass::Environment,
    }
}

/// An address or a password is configuration; the rest is what is around.
fn server_class(error: &ServerError) -> FailureClass {
    match error {
        ServerError::Address(_) => FailureClass::Usage,
        ServerError::Failed(error) if error.trouble() == Trouble::Denied => FailureClass::Usage,
        _ => FailureClass::Environment,
    }
}

fn store_help(error: &StoreError) -> Option<String> {
    let text = match error {
        StoreError::Exists { .. } => "nothing was changed; use it as it is, or name another folder",
        StoreError::Missing { .. } => {
            "make a hub with `outhaul-hub init --state DIR --root 1.root.json`"
        }
        StoreError::Newer { .. } => "use the newer `outhaul-hub` that wrote it",
        StoreError::Open { .. } | StoreError::Sql { .. } if error.is_damage() => {
            "the database is damaged: move it away, and bring the hub back from a backup (`outhaul-hub restore`); its next \
             acknowledgements make the sites report again what runs"
        }
        StoreError::Open { .. } | StoreError::Sql { .. } if error.is_busy() => {
            "another program works on the hub's database: wait for it, or end it, and repeat the command"
        }
        StoreError::Open { .. } | StoreError::Sql { .. } => {
            "nothing of this command is half-written; check free space and permissions, then repeat it"
        }
        StoreError::Server { source, .. } => return Some(server_help(source).to_owned()),
        _ if error.trouble() == Some(Trouble::Denied) => {
            "the hub's user has to own the database: `ALTER DATABASE NAME OWNER TO USER`"
        }
        StoreError::NotEmpty { .. } => {
            "name an empty database; neither it nor this hub was changed"
        }
        StoreError::Differs { .. } => {
            "nothing was kept of what was written there, and this hub is as it was: see the server's log, and repeat the command"
        }
        StoreError::File(error) => {
            return Some(format!("what is on record is safe; {}", error.help()));
        }
        StoreError::Replaced { .. } => {
            "the hub's database was moved or replaced while this command ran: repeat it; nothing of it is half-written"
        }
        StoreError::Private { .. } => {
            "run the command as the user who owns the hub's state folder; nothing was changed"
        }
        StoreError::Unsound { .. } => "take another backup; nothing of this one is used",
        StoreError::Corrupt { .. } => CORRUPT_HELP,
        _ => return None,
    };
    Some(text.to_owned())
}

/// What to do about a server that cannot be used.
fn server_help(error: &ServerError) -> &'static str {
    match error {
        ServerError::Address(AddressError::Password) => {
            "leave it out: the password comes from `$PGPASSWORD`, from a file (`?passfile=FILE`, `$PGPASSFILE`, `~/.pgpass`) or \
             from the systemd credential `outhaul-hub.database-password`"
        }
        ServerError::Address(AddressError::Secret(_)) => {
            "the file has lines of `host:port:database:user:password` and the mode 0600"
        }
        ServerError::Address(AddressError::Authorities { .. }) => {
            "`sslrootcert=FILE` in the address names a PEM file with the authority of the server's certificate"
        }
        ServerError::Address(_) => {
            "such as `postgres://outhaul@db.example/outhaul`, or `postgres:///outhaul?host=/run/postgresql`"
        }
        ServerError::Old { .. } => "upgrade the server",
        ServerError::Replica => {
            "name the server that it follows, or all of them: \
             `postgres://outhaul@ONE,OTHER/outhaul?target_session_attrs=read-write`"
        }
        ServerError::Encoding { .. } => {
            "make the database with `CREATE DATABASE … ENCODING 'UTF8'`"
        }
        ServerError::Failed(error) => match error.trouble() {
            Trouble::Denied => {
                "see the user in the address and the password in `$PGPASSWORD`, `?passfile=FILE`, `~/.pgpass` or the systemd \
                 credential `outhaul-hub.database-password`"
            }
            _ => {
                "see whether the server runs and answers at that address; sites keep \
                 what was not acknowledged"
            }
        },
        _ => "see the server's log",
    }
}
