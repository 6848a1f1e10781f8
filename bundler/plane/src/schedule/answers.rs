//! What the programs of policies answered, as a value that the schedule is a function of.
//!
//! What comes in: checked answers by policy, from whoever asked the programs (`outhaul-load`). What goes out: the
//! answer to one policy. It asks nobody and keeps nothing between two schedules.

use std::collections::BTreeMap;

use outhaul_control::model::SchedulingPolicy;

/// The answers of external schedulers, by policy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SchedulerAnswers(BTreeMap<String, SchedulerAnswer>);

/// What the program of one policy answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SchedulerAnswer {
    /// What it chose, with its reasons; checked: candidates only, nothing twice.
    Chosen(BTreeMap<ChosenPair, String>),
    /// It gave no answer that can be used.
    Fault {
        /// What happened.
        message: String,
        /// What to do next.
        help: String,
        /// Whether the machine is at fault (a missing program), not what someone wrote.
        environment: bool,
    },
}

/// A deployment target and a cluster type.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChosenPair {
    /// The target's full name.
    pub target: String,
    /// The cluster type's name.
    pub cluster_type: String,
}

impl SchedulerAnswers {
    /// From answers by policy.
    pub fn new(by_policy: BTreeMap<String, SchedulerAnswer>) -> Self {
        Self(by_policy)
    }

    /// The answer to `policy`; `None` when it names no scheduler or no program was asked.
    pub fn of(&self, policy: &SchedulingPolicy) -> Option<&SchedulerAnswer> {
        policy.placement.scheduler.as_ref()?;
        self.0.get(&policy.name)
    }

    /// Whether no program was asked.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
