//! Making desired state real: one trait, one file per reconciler.
//!
//! What comes in: an assignment that was verified and unpacked, and the inventory. What goes out: each
//! assignment's own result with its steps. A reconciler tells the [`Ledger`] what it is about to put on
//! this host before it does, and removes nothing that the ledger did not hand it. An assignment that
//! fails is a result, not an error; errors are for a host on which nothing can be applied at all.

use outhaul_bundle::report::{AssignmentResult, ComplianceStatus, StepResult};

use crate::config::{Config, ReconcilerChoice};
use crate::generation::Desired;
use crate::home::Home;
use crate::pulse::Pulse;
use crate::state::StateError;
use crate::state::inventory::Item;

pub mod ansible;
pub mod folder;
mod hook;
#[cfg(feature = "kubernetes")]
pub mod kubernetes;
mod remote;
mod watched;

/// A reconciler.
pub trait Reconciler {
    /// Its name in the index and the inventory.
    fn kind(&self) -> &str;

    /// Whether this host has what it needs: asked before a bundle is accepted.
    ///
    /// # Errors
    /// [`ApplyError`] names what is missing.
    fn ready(&self) -> Result<(), ApplyError> {
        Ok(())
    }

    /// Asked about one assignment of a bundle that has to wait: what can be verified or fetched for it now.
    /// Nothing on the host is changed.
    ///
    /// # Errors
    /// [`ApplyError`] names what will keep it from being applied.
    fn prepare(&self, _desired: &Desired, _pulse: &Pulse) -> Result<(), ApplyError> {
        Ok(())
    }

    /// What applying `desired` would do, by what is recorded: nothing on the host is read or changed.
    fn plan(&self, desired: &Desired, recorded: &[Item]) -> Vec<Change>;

    /// What the inventory will list of an assignment that is applied.
    fn items(&self, desired: &Desired) -> Vec<Item>;

    /// Applies one assignment. `recorded` is what the inventory has of it. Doing it twice is doing it once.
    ///
    /// # Errors
    /// [`ApplyError`] when this host cannot apply anything of this kind, or the ledger failed.
    fn apply(
        &self,
        desired: &Desired,
        recorded: &[Item],
        ledger: &mut dyn Ledger,
        pulse: &Pulse,
    ) -> Result<AssignmentResult, ApplyError>;

    /// Compares one assignment with the host and changes nothing.
    ///
    /// # Errors
    /// As [`Reconciler::apply`].
    fn observe(
        &self,
        desired: &Desired,
        recorded: &[Item],
        pulse: &Pulse,
    ) -> Result<AssignmentResult, ApplyError>;

    /// The verdict on an assignment that was just applied, where looking is cheap and certain.
    /// `None`: the result of applying is the verdict.
    ///
    /// # Errors
    /// As [`Reconciler::apply`].
    fn health(
        &self,
        _desired: &Desired,
        _recorded: &[Item],
        _pulse: &Pulse,
    ) -> Result<Option<AssignmentResult>, ApplyError> {
        Ok(None)
    }

    /// Whether [`Reconciler::health`] waits for what is not ready: who only wants to know how things stand
    /// observes instead.
    fn health_waits(&self) -> bool {
        false
    }

    /// Removes what is recorded of an assignment that is no longer wanted, and tells the ledger. `instead`
    /// is the bundle that does not have it.
    ///
    /// # Errors
    /// As [`Reconciler::apply`].
    fn remove(
        &self,
        instead: u64,
        assignment: &str,
        recorded: &[Item],
        ledger: &mut dyn Ledger,
        pulse: &Pulse,
    ) -> Result<Vec<StepResult>, ApplyError>;
}

/// The inventory, as a reconciler writes it.
pub trait Ledger {
    /// These are about to be put on the host; durable before the call returns.
    ///
    /// # Errors
    /// [`StateError`]
    fn intend(&mut self, items: &[Item]) -> Result<(), StateError>;

    /// All that was intended for the assignment is done.
    ///
    /// # Errors
    /// [`StateError`]
    fn confirm(&mut self, kind: &str, assignment: &str) -> Result<(), StateError>;

    /// The other assignment that has an item, if one has.
    ///
    /// # Errors
    /// [`StateError`]
    fn other_holder(
        &self,
        kind: &str,
        assignment: &str,
        item: &str,
    ) -> Result<Option<String>, StateError>;

    /// These were removed from the host.
    ///
    /// # Errors
    /// [`StateError`]
    fn forget(&mut self, items: &[Item]) -> Result<(), StateError>;
}

/// One thing that would change.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Change {
    /// `add`, `change`, `remove`, `run`.
    pub action: &'static str,
    /// The file or playbook.
    pub item: String,
}

/// Why nothing of a kind can be applied on this host.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The memory.
    #[error(transparent)]
    State(#[from] StateError),
    /// Files.
    #[error(transparent)]
    File(#[from] crate::durable::FileError),
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
    #[cfg_attr(
        not(feature = "kubernetes"),
        expect(dead_code, reason = "only the Kubernetes reconciler asks a server")
    )]
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
    /// The hook program is not to be used, or cannot do it.
    #[error("{problem}")]
    Hook {
        /// What is the matter.
        problem: String,
        /// What to do next.
        help: String,
    },
    /// A program that an agent started which is gone.
    #[error("an earlier run of `{program}`, which outlived its agent, is still at work")]
    Busy {
        /// Its name.
        program: String,
    },
    /// The agent was asked to stop while it waited.
    #[error("stopped on request")]
    Stopped,
    /// A program that is not there or does not start.
    #[error("cannot start `{program}`: {problem}")]
    Program {
        /// Its name.
        program: String,
        /// What the system said.
        problem: String,
    },
}

impl ApplyError {
    /// Without what was opened for the work: what a server says may quote it.
    #[cfg(feature = "kubernetes")]
    pub fn without(self, values: &[zeroize::Zeroizing<String>]) -> Self {
        use crate::secrets::struck_out;

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
            Self::State(error) => error.help(),
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
            Self::Cluster { help, .. } | Self::Helper { help, .. } | Self::Hook { help, .. } => {
                help.clone()
            }
            Self::Busy { .. } => {
                "wait until it has ended, or end it; the agent tries again by itself".into()
            }
            Self::Stopped => String::new(),
            Self::Program { .. } => {
                "install ansible-core on this host, or set `ansible.playbook_program` (and \
                 `ansible.python`) in agent.toml; then repeat the command"
                    .into()
            }
        }
    }
}

/// The reconciler for a stream that is rendered for `kind`.
///
/// A folder or a hook may take what is rendered for another reconciler: it hands the files on.
///
/// # Errors
/// [`ApplyError::Unknown`] and [`ApplyError::Mismatch`].
pub fn reconciler(
    kind: &str,
    config: &Config,
    home: &Home,
) -> Result<Box<dyn Reconciler>, ApplyError> {
    let ansible =
        || -> Box<dyn Reconciler> { Box::new(ansible::Ansible::new(&config.ansible, home)) };
    let folder = || -> Box<dyn Reconciler> { Box::new(folder::Folder::of(config, home)) };
    let hook =
        |name: &str| -> Box<dyn Reconciler> { Box::new(hook::Hook::new(name, &config.hook, home)) };
    let local: Box<dyn Reconciler> = match (&config.reconciler, kind) {
        (ReconcilerChoice::Folder, _) | (ReconcilerChoice::Auto, "folder") => folder(),
        (ReconcilerChoice::Auto | ReconcilerChoice::Ansible, "ansible") => ansible(),
        #[cfg(feature = "kubernetes")]
        (ReconcilerChoice::Auto | ReconcilerChoice::Kubernetes, kubernetes::KIND) => {
            Box::new(kubernetes::Kubernetes::new(&config.kubernetes, home))
        }
        (ReconcilerChoice::Hook, _) => hook(hook::KIND),
        (ReconcilerChoice::Named(name), kind) if name.as_str() == kind => hook(kind),
        (
            site @ (ReconcilerChoice::Ansible
            | ReconcilerChoice::Kubernetes
            | ReconcilerChoice::Named(_)),
            stream,
        ) => {
            let (stream, site) = (stream.to_owned(), site.as_str().to_owned());
            return Err(ApplyError::Mismatch { stream, site });
        }
        (ReconcilerChoice::Auto, other) if config.hook.program.is_some() => hook(other),
        (ReconcilerChoice::Auto, other) => {
            return Err(ApplyError::Unknown {
                kind: other.to_owned(),
            });
        }
    };
    match &config.apply.helper {
        None => Ok(local),
        Some(socket) => Ok(Box::new(remote::Remote::new(
            local,
            socket.clone(),
            &config.apply,
            home,
        ))),
    }
}

/// The reconciler that made an item of the inventory, whatever the site is set to now.
///
/// # Errors
/// [`ApplyError::Unknown`] for one that this agent does not have.
pub fn reconciler_of(
    kind: &str,
    config: &Config,
    home: &Home,
) -> Result<Box<dyn Reconciler>, ApplyError> {
    let own = [folder::KIND, ansible::KIND, "kubernetes", hook::KIND];
    let choice = match &config.reconciler {
        // What another hook made is not given to this one.
        named @ ReconcilerChoice::Named(_) if !own.contains(&kind) => named.clone(),
        _ => ReconcilerChoice::Auto,
    };
    let config = Config {
        reconciler: choice,
        ..config.clone()
    };
    reconciler(kind, &config, home)
}

/// Longest text of one message in a report, in bytes.
const MAX_MESSAGE_BYTES: usize = 500;
/// Most steps that an assignment's result lists.
const MAX_STEPS: usize = 100;

/// A result in the size that a report can carry: the telling steps first to stay, each text bounded.
pub fn result(
    desired: &Desired,
    status: ComplianceStatus,
    message: &str,
    mut steps: Vec<StepResult>,
) -> AssignmentResult {
    if steps.len() > MAX_STEPS {
        let quiet = |step: &StepResult| matches!(step.status.as_str(), "ok" | "skipped");
        let mut surplus = steps.len() - MAX_STEPS;
        steps.retain(|step| {
            let drop = surplus > 0 && quiet(step);
            surplus -= usize::from(drop);
            !drop
        });
        steps.truncate(MAX_STEPS);
    }
    for step in &mut steps {
        step.name = shortened(&step.name);
        step.message = shortened(&step.message);
    }
    AssignmentResult {
        name: desired.assignment.name.clone(),
        status,
        config_version: desired.assignment.config_version,
        message: shortened(message),
        steps,
    }
}

/// A step of a result.
pub fn step(name: impl Into<String>, status: &str, message: impl Into<String>) -> StepResult {
    StepResult {
        name: name.into(),
        status: status.to_owned(),
        message: message.into(),
    }
}

/// At most [`MAX_MESSAGE_BYTES`], with `…` where something was left out.
pub fn shortened(text: &str) -> String {
    let text = text.trim();
    if text.len() <= MAX_MESSAGE_BYTES {
        return text.to_owned();
    }
    let mut end = MAX_MESSAGE_BYTES;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &text[..end])
}
