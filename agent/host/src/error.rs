//! Everything that can go wrong, in one place for the program's edge: message, help, exit code.
//!
//! What comes in: the errors of the stages. What goes out: for a person, what happened and what to do
//! next; for a script, the exit code of the table in the design (1 refused, 2 usage, 3 environment,
//! 4 trust, 5 internal). It adds no cause of its own.

use std::path::{Path, PathBuf};

use outhaul_bundle::{Parity, ReadError, Volume};
use outhaul_reconcilers::ApplyError;
use outhaul_site::backup::BackupError;

use outhaul_content::content_error::GenerationError;
use outhaul_kit::durable::FileError;
use outhaul_kit::failure::{Classified, FailureClass};
use outhaul_place::PlaceRefused;
use outhaul_settings::config::ConfigError;
use outhaul_site::state::StateError;
use outhaul_site::state_folder::LockError;

mod beside;
mod rules;
mod ways;

use rules::{is_of_findings, left_alone, refusal_help};
use ways::{is_denied, rights_help, space_help, without_repeat};

/// The rule by which content is refused that failed here before.
pub const FAILED_BEFORE: &str = "failed-before";

/// How far a fault of this host reaches, which someone can mend on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostFault {
    /// Nothing that is worked on can go on: that is put on record, and a newer bundle does not wait for it.
    AllWork,
    /// What the command was for does not happen; other work goes on.
    OneCommand,
}

/// Why a command ended without its result.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// `agent.toml`.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The memory.
    #[error(transparent)]
    State(#[from] StateError),
    /// A file.
    #[error(transparent)]
    File(#[from] FileError),
    /// A folder or file that was named is no place for what is to be written.
    #[error(transparent)]
    Place(#[from] PlaceRefused),
    /// A generation on disk.
    #[error(transparent)]
    Generation(#[from] GenerationError),
    /// The reconciler.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// Work on a bundle cannot go on, for a reason of this host.
    #[error("the work on bundle {number} cannot go on: {problem}; {running}")]
    Blocked {
        /// The bundle.
        number: u64,
        /// What the host lacks.
        problem: String,
        /// What runs meanwhile.
        running: String,
        /// What puts it right.
        help: String,
    },
    /// A bundle was refused; nothing was changed.
    #[error("`{source_name}` is refused, {}: {message}", left_alone(rule))]
    Refused {
        /// The file or URL, without this machine's folders.
        source_name: String,
        /// The rule that refused it: `signature`, `rollback`, `recipient` …
        rule: String,
        /// What was expected and found.
        message: String,
        /// The bundle, where its content failed here before ([`FAILED_BEFORE`]).
        failed: Option<u64>,
    },
    /// The stick or the link failed while a bundle was read.
    #[error("`{source_name}` cannot be read: {problem}; what runs was not touched")]
    Unreadable {
        /// The file or URL.
        source_name: String,
        /// What the system said.
        problem: String,
    },
    /// Reports could not be written onto a stick.
    #[error("{0}; every report that the hub has not acknowledged is still here")]
    Export(#[source] FileError),
    /// What lies on a stick or in a folder may not be read by the user who runs this.
    #[error("{0}; nothing of it was imported")]
    NotReadable(#[source] FileError),
    /// Not enough space.
    #[error(
        "not enough space in `{folder}`: needed {needed} MiB ({}), free {free} MiB, missing {missing} MiB; nothing was changed",
        ways::needed_for(*reserve)
    )]
    Space {
        /// The state folder.
        folder: String,
        /// MiB needed.
        needed: u64,
        /// MiB of the reserve in it.
        reserve: u64,
        /// MiB free.
        free: u64,
        /// MiB missing.
        missing: u64,
        /// What of the agent's own may be removed by hand.
        removable: Vec<PathBuf>,
    },
    /// Nothing there to work on.
    #[error("{message}")]
    Nothing {
        /// What was looked for, and where.
        message: String,
        /// What to do next.
        help: String,
    },
    /// What was ordered was tried and did not work.
    #[error("{message}")]
    Failed {
        /// What failed, and what runs now.
        message: String,
        /// What to do next.
        help: String,
    },
    /// A command that does not fit.
    #[error("{message}")]
    Usage {
        /// What does not fit.
        message: String,
        /// What to do next.
        help: String,
    },
    /// Files of the state folder are another user's.
    #[error("{message}")]
    Owner {
        /// Which, whose they are, and their mode.
        message: String,
        /// What gives them to the right user.
        help: String,
    },
    /// The hub or repository cannot be reached or answered with an error.
    #[error("{url}: {problem}")]
    Network {
        /// The URL.
        url: String,
        /// What happened.
        problem: String,
    },
    /// As much came of the repository today as the settings let in.
    #[error(
        "{url}: {bytes} bytes came today (UTC), which is all of `repository.max_mib_per_day`; what came is kept, and it goes on from there tomorrow"
    )]
    AllOfToday {
        /// The URL.
        url: String,
        /// How many bytes came.
        bytes: u64,
    },
    /// The hub gave no answer to what was sent: nobody is there, or it takes too long.
    #[error("the hub does not answer: {url}: {problem}")]
    NoAnswer {
        /// The URL.
        url: String,
        /// What happened.
        problem: String,
    },
    /// The server has metadata of a bundle, and not all that the bundle consists of.
    #[error("the bundle of {url} cannot be completed: `{missing}` is not there")]
    Incomplete {
        /// The server.
        url: String,
        /// What is missing.
        missing: String,
    },
    /// The agent was asked to stop in the middle; it goes on from there at the next start.
    #[error(
        "stopped on request; work that was begun on this host goes on with the next command or start, and \
         `outhaul-agent status` shows the progress"
    )]
    Stopped,
    /// A defect of the agent itself ended the work.
    #[error(
        "internal error: the work ended in the middle of an action ({problem}); it is recorded how far it came, and \
         it goes on from there at the next start"
    )]
    Broken {
        /// What the program said.
        problem: String,
    },
}

impl From<BackupError> for AgentError {
    fn from(error: BackupError) -> Self {
        Self::from_backup("the backup", error)
    }
}

impl From<LockError> for AgentError {
    fn from(error: LockError) -> Self {
        Self::State(error.into())
    }
}

impl Classified for AgentError {
    fn class(&self) -> FailureClass {
        match self {
            Self::Refused { rule, .. } if is_of_findings(rule) => FailureClass::Refused,
            Self::Refused { .. } => FailureClass::Trust,
            Self::Nothing { .. } | Self::Failed { .. } => FailureClass::Refused,
            Self::Config(ConfigError::File(_) | ConfigError::Dangling { .. }) => {
                FailureClass::Environment
            }
            Self::Config(_)
            | Self::Usage { .. }
            | Self::Place(_)
            | Self::Apply(
                ApplyError::Unknown { .. }
                | ApplyError::Mismatch { .. }
                | ApplyError::Settings { .. },
            ) => FailureClass::Usage,
            Self::State(error) => error.class(),
            Self::Generation(GenerationError::Changed { .. } | GenerationError::Index { .. })
            | Self::Broken { .. } => FailureClass::Internal,
            _ => FailureClass::Environment,
        }
    }

    fn help(&self) -> Option<String> {
        Some(self.help()).filter(|help| !help.is_empty())
    }
}

impl AgentError {
    /// A refusal.
    pub fn refused(source_name: &str, rule: &str, message: impl Into<String>) -> Self {
        Self::Refused {
            source_name: source_name.to_owned(),
            rule: rule.to_owned(),
            message: message.into(),
            failed: None,
        }
    }

    /// The refusal of a bundle whose content failed here before, and why.
    pub fn failed_before(source_name: &str, number: u64, why: &str) -> Self {
        Self::Refused {
            source_name: source_name.to_owned(),
            rule: FAILED_BEFORE.to_owned(),
            message: format!("bundle {number} is not tried again on this site: {why}"),
            failed: Some(number),
        }
    }

    /// Whether it is the refusal of this bundle, because its content failed here before.
    pub fn is_of_failed(&self, number: u64) -> bool {
        matches!(self, Self::Refused { failed, .. } if *failed == Some(number))
    }

    /// Whether it is a refusal by this rule.
    pub fn is_refused_by(&self, wanted: &str) -> bool {
        matches!(self, Self::Refused { rule, .. } if rule == wanted)
    }

    /// What a part alone would do cannot be tried.
    pub fn part_not_planned(name: &str, volume: &Volume) -> Self {
        Self::Usage {
            message: format!(
                "`{name}` is part {} of {} of a bundle, and only a whole bundle can be planned; nothing was changed",
                volume.part(),
                volume.parts()
            ),
            help: "`import` keeps each part and applies nothing before all are here; after `outhaul-agent hold` it applies \
                   nothing then either"
                .to_owned(),
        }
    }

    /// What a parity part alone would do cannot be tried.
    pub fn parity_not_planned(name: &str, parity: &Parity) -> Self {
        Self::Usage {
            message: format!(
                "`{name}` is parity part {} of {} of a bundle, and only a whole bundle can be planned; nothing was changed",
                parity.part(),
                parity.of()
            ),
            help: "`import` keeps it while parts are missing, and makes those again as soon as there is enough".to_owned(),
        }
    }

    /// The same, where it is about rights to what was to be read at `path`: those of another user's state are no way out.
    #[must_use]
    pub fn while_reading(self, path: &Path) -> Self {
        match self {
            Self::File(error) if is_denied(&error) && error.path.starts_with(path) => {
                Self::NotReadable(error)
            }
            other => other,
        }
    }

    /// What a backup said: the file's fault, or this machine's.
    pub fn from_backup(source_name: &str, error: BackupError) -> Self {
        match (error.rule(), error) {
            (Some(rule), error) => Self::refused(source_name, rule, error.to_string()),
            (None, BackupError::State(error)) => Self::State(*error),
            (None, BackupError::File(error)) => Self::File(error),
            (None, other) => Self::Usage {
                message: other.to_string(),
                help: other.help(),
            },
        }
    }

    /// What reading a bundle said: the bundle's fault, the disk's or the stick's.
    pub fn from_read(source_name: &str, error: &ReadError) -> Self {
        if error.is_environment() {
            let problem = error.on_site();
            Self::Unreadable {
                source_name: source_name.to_owned(),
                problem,
            }
        } else {
            Self::refused(source_name, error.rule(), error.on_site())
        }
    }

    /// The error and its help, as lines for stderr.
    pub fn lines(&self) -> Vec<String> {
        let help = self.help();
        let help = (!help.is_empty()).then(|| format!("help: {help}"));
        std::iter::once(format!("error: {self}"))
            .chain(help)
            .collect()
    }

    /// Whether the cause is this host, and how far it reaches; `None` where it is a bundle, a link, or what someone typed.
    pub fn host_fault(&self) -> Option<HostFault> {
        match self {
            Self::Apply(ApplyError::Stopped) => None,
            // Where the record itself fails, it cannot take up that work waits.
            Self::Apply(ApplyError::Ledger(_))
            | Self::Space { .. }
            | Self::Generation(_)
            | Self::NotReadable(_)
            | Self::Unreadable { .. } => Some(HostFault::OneCommand),
            Self::Apply(_) | Self::File(_) => Some(HostFault::AllWork),
            _ => None,
        }
    }

    /// The help without "then repeat the command", for where something else comes after it.
    pub fn help_without_repeat(&self) -> String {
        without_repeat(&self.help()).to_owned()
    }

    /// What to do next; may be empty.
    pub fn help(&self) -> String {
        match self {
            Self::Config(ConfigError::Dangling { .. }) => "put the file there, or mount what it lies on, and repeat the command; where the default settings are meant from now on, put a file without settings in the place of the link".into(),
            Self::Config(_) => "correct agent.toml; nothing was changed".into(),
            Self::State(error) => error.help(),
            Self::Export(error) if is_denied(error) => rights_help(error, "write to", "export to a folder of that user, and copy it to the stick as root"),
            Self::NotReadable(error) => rights_help(error, "read", "copy it as root to a folder that this user may read, and import it from there"),
            Self::File(error)
            | Self::Export(error)
            | Self::Generation(GenerationError::File(error)) => error.help(),
            Self::Generation(GenerationError::Lost { number, .. }) => format!(
                "the disk may be failing: check it, then import bundle {number} again, or a newer bundle"
            ),
            Self::Generation(_) => {
                "the disk may be failing: check it, then import the bundle again".into()
            }
            Self::Apply(error) => error.help(),
            Self::Blocked { help, .. } => {
                let help = without_repeat(help);
                format!("{help}; then run `outhaul-agent apply`, or leave it to the service where it runs")
            }
            Self::Refused { rule, .. } => refusal_help(rule).into(),
            Self::Unreadable { .. } => {
                "check the stick or the link and repeat the command; a half-copied bundle does no harm"
                    .into()
            }
            Self::Space {
                folder,
                removable,
                reserve,
                ..
            } => space_help(folder, removable, *reserve),
            Self::Nothing { help, .. }
            | Self::Failed { help, .. }
            | Self::Owner { help, .. }
            | Self::Usage { help, .. } => help.clone(),
            Self::NoAnswer { .. } | Self::Network { .. } | Self::AllOfToday { .. } => {
                "nothing is lost: it goes on with the next `outhaul-agent run --once`, or by the service where it runs; a stick \
                 does the same (`outhaul-agent export FOLDER` for reports, `outhaul-agent import FOLDER` for bundles)"
                    .into()
            }
            Self::Incomplete { .. } => {
                "ask the person who fills the repository to copy it again, `blobs` before `metadata`; it goes on with the next \
                 `outhaul-agent run --once`, or by the service where it runs"
                    .into()
            }
            // The refusal of a place has its help in it.
            Self::Stopped | Self::Place(_) => String::new(),
            Self::Broken { .. } => {
                "report this defect with the service's log; if it comes again at each start, keep the bundle under \
                 way for the report and ask the centre for another"
                    .into()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_of_the_bundle_that_failed_whatever_its_words_say() {
        let refused = AgentError::failed_before("a.outhaul", 12, "its health failed");
        assert!(refused.is_of_failed(12) && !refused.is_of_failed(1));
        assert!(refused.is_refused_by(FAILED_BEFORE));
        let other = AgentError::refused("a.outhaul", FAILED_BEFORE, "bundle 12 of another");
        assert!(!other.is_of_failed(12));
    }
}
