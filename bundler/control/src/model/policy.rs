//! What a scheduling policy asks: whom, where, of that which and how many, and on which sites.
//!
//! What comes in: typed fields of either group's `SchedulingPolicy`, and taints. What goes out: plain
//! data that the schedule is a function of. Kalypso's policies have the default [`Placement`], which
//! takes every cluster type that is selected and that no taint keeps away. Nothing here decides.

use std::fmt;

use super::super::diagnostic::Location;
use super::super::selector::Selector;
use super::Spanned;

/// A rule that maps deployment targets to cluster types.
#[derive(Debug, Clone, PartialEq)]
pub struct SchedulingPolicy {
    /// Its name.
    pub name: String,
    /// The workspace whose targets it means; empty or absent means any.
    pub workspace: Option<Spanned<String>>,
    /// Which targets.
    pub targets: Selector,
    /// Which cluster types.
    pub cluster_types: Selector,
    /// What our own group adds; nothing in Kalypso's.
    pub placement: Placement,
    /// Where it is written.
    pub location: Location,
}

/// Which of the selected cluster types a policy takes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Placement {
    /// At least one of these must match; none at all asks nothing.
    pub required: Vec<Spanned<Selector>>,
    /// What speaks for a cluster type.
    pub preferred: Vec<Preference>,
    /// The most cluster types that it takes, at least 1.
    pub max_cluster_types: Option<Spanned<u32>>,
    /// How they are to be spread.
    pub spread: Option<Spread>,
    /// The taints that do not keep it away.
    pub tolerations: Vec<Toleration>,
    /// Which sites of the cluster types that it takes; without it all of them.
    pub sites: Option<Spanned<Selector>>,
    /// The name of a program that chooses instead.
    pub scheduler: Option<Spanned<String>>,
}

/// What speaks for a cluster type, and how much.
#[derive(Debug, Clone, PartialEq)]
pub struct Preference {
    /// How much, 1 to 100; the weights of all that match are added.
    pub weight: u32,
    /// For which cluster types.
    pub selector: Selector,
    /// Where it is written.
    pub location: Location,
}

/// At most so many cluster types with the same value of one label.
#[derive(Debug, Clone, PartialEq)]
pub struct Spread {
    /// The label's name.
    pub label: Spanned<String>,
    /// The most cluster types that share a value, at least 1.
    pub max_per_value: u32,
}

/// Keeps policies away from cluster types.
#[derive(Debug, Clone, PartialEq)]
pub struct Taint {
    /// Its name.
    pub name: String,
    /// Which cluster types it is on.
    pub cluster_types: Selector,
    /// Its key.
    pub key: String,
    /// Its value; may be empty.
    pub value: String,
    /// How it keeps them away.
    pub effect: Effect,
    /// Where it is written.
    pub location: Location,
}

impl fmt::Display for Taint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.key)?;
        if !self.value.is_empty() {
            write!(f, "={}", self.value)?;
        }
        write!(f, ":{}", self.effect.as_str())
    }
}

/// How a taint keeps policies away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// Nothing runs there that does not tolerate it.
    NoSchedule,
    /// It is taken last by policies that limit how many they take.
    PreferNoSchedule,
}

impl Effect {
    /// Every effect.
    pub const ALL: [Self; 2] = [Self::NoSchedule, Self::PreferNoSchedule];

    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoSchedule => "NoSchedule",
            Self::PreferNoSchedule => "PreferNoSchedule",
        }
    }
}

/// Which taints do not keep a policy away.
#[derive(Debug, Clone, PartialEq)]
pub struct Toleration {
    /// The key; without one every key.
    pub key: Option<String>,
    /// The value that must be equal; without one any value.
    pub value: Option<String>,
    /// The effect; without one every effect.
    pub effect: Option<Effect>,
    /// Where it is written.
    pub location: Location,
}

impl Toleration {
    /// Whether it tolerates `taint`.
    pub fn tolerates(&self, taint: &Taint) -> bool {
        self.key.as_ref().is_none_or(|key| *key == taint.key)
            && self
                .value
                .as_ref()
                .is_none_or(|value| *value == taint.value)
            && self.effect.is_none_or(|effect| effect == taint.effect)
    }
}
