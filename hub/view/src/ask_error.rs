//! Why a question is not put to a gate, with what the person at the machine does next.
//!
//! What comes in: what is wrong, with its names. What goes out: the message and its help. It reads nothing.

use outhaul_gate::tighter;
use outhaul_store::StoreError;

/// Why a question cannot be put to the gate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// Steps with their own rules lead from the environment, and the question names none of them.
    #[error("rules are on record for the steps from `{environment}` to {known}; say which (`to`)")]
    WhichStep {
        /// The environment.
        environment: String,
        /// Where the steps lead.
        known: String,
    },
    /// An environment of that name is not known.
    #[error("this hub knows no environment `{name}`")]
    NoEnvironment {
        /// The name.
        name: String,
        /// What it could have been.
        help: String,
    },
    /// No rules are on record for that step.
    #[error("no rules are on record for the step from `{environment}` to `{to}`")]
    NoStep {
        /// The environment.
        environment: String,
        /// Where the step leads.
        to: String,
        /// What it could have been.
        help: String,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl AskError {
    /// What to do.
    pub fn help(&self) -> String {
        match self {
            Self::WhichStep { environment, .. } => format!(
                "name the step with `--to`; {} removes the rules of a step that is mistyped or no longer there",
                tighter::removal(environment, Some("STEP"))
            ),
            Self::NoEnvironment { help, .. } | Self::NoStep { help, .. } => help.clone(),
            Self::Store(_) => String::new(),
        }
    }
}
