//! `CompositionPolicy` as a value: which config container wins, and what becomes of lists.
//!
//! What comes in: what the loader typed. What goes out: plain data that `compose` reads. An
//! environment has at most one; without it everything is composed as Kalypso composes: by name, lists
//! by the names of their items, and the later container wins.

use std::collections::BTreeMap;

use super::Spanned;
use crate::diagnostic::Location;

/// The label that gives a container its priority under [`Precedence::Priority`]: an integer, 0 when
/// it is absent. It says nothing about where a container applies.
pub const PRIORITY_LABEL: &str = "outhaul.dev/priority";

/// How an environment's containers are composed.
#[derive(Debug, Clone, PartialEq)]
pub struct CompositionPolicy {
    /// Its name.
    pub name: String,
    /// Which of two containers wins.
    pub precedence: Precedence,
    /// Names of containers, the weakest first: their priorities are 1, 2, 3 …
    pub priorities: Vec<Spanned<String>>,
    /// What becomes of lists; absent means by the names of their items.
    pub arrays: Option<ArrayRule>,
    /// The same for single keys.
    pub arrays_by_key: BTreeMap<String, ArrayRule>,
    /// What two containers of equal precedence that contradict each other mean.
    pub conflicts: Conflicts,
    /// Conflicts that are meant: there the later name wins.
    pub allowed: Vec<AllowedConflict>,
    /// Where it is written.
    pub location: Location,
}

/// Which of two containers wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Precedence {
    /// The later name: Kalypso's rule.
    #[default]
    Name,
    /// The higher priority.
    Priority,
    /// The one for which more labels had to match.
    Specificity,
}

impl Precedence {
    /// Every word for it.
    pub const NAMES: [&str; 3] = ["name", "priority", "specificity"];

    /// From the word that people write.
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "name" => Self::Name,
            "priority" => Self::Priority,
            "specificity" => Self::Specificity,
            _ => return None,
        })
    }

    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Priority => "priority",
            Self::Specificity => "specificity",
        }
    }
}

/// What becomes of a list that two containers set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ArrayRule {
    /// The later one's items come after the earlier one's.
    Append,
    /// Items with one `name` are one item; all others are appended.
    #[default]
    ByName,
    /// The later one is all there is.
    Replace,
}

impl ArrayRule {
    /// Every word for it.
    pub const NAMES: [&str; 3] = ["append", "by-name", "replace"];

    /// From the word that people write.
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "append" => Self::Append,
            "by-name" => Self::ByName,
            "replace" => Self::Replace,
            _ => return None,
        })
    }
}

/// What a conflict means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conflicts {
    /// An error of every assignment that it reaches.
    Error,
    /// The later name wins.
    LaterWins,
}

impl Conflicts {
    /// Every word for it.
    pub const NAMES: [&str; 2] = ["error", "later-wins"];

    /// From the word that people write.
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "error" => Self::Error,
            "later-wins" => Self::LaterWins,
            _ => return None,
        })
    }
}

/// A conflict that is meant.
#[derive(Debug, Clone, PartialEq)]
pub struct AllowedConflict {
    /// The key.
    pub key: String,
    /// Between these containers only; empty means between any.
    pub containers: Vec<Spanned<String>>,
}

impl CompositionPolicy {
    /// Whether `first` and `second` may contradict each other about `key`.
    pub fn allows(&self, key: &str, first: &str, second: &str) -> bool {
        self.conflicts == Conflicts::LaterWins
            || self.allowed.iter().any(|allowed| {
                let named = |container: &str| {
                    allowed.containers.is_empty()
                        || allowed.containers.iter().any(|c| c.value == container)
                };
                allowed.key == key && named(first) && named(second)
            })
    }
}
