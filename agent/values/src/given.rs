//! The values that a site keeps: by assignment and key, each with who gave it, why and when.
//!
//! What comes in: a key, a value and its author. What goes out: the same, as it is stored. It outlives bundles; which bundle
//! takes which value is checked apart.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Most values of one site, of all assignments together: all of them fit into one report.
pub const MAX_VALUES: usize = 512;

/// One value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GivenValue {
    /// The value.
    pub value: String,
    /// Who gave it, as they named themselves.
    pub who: String,
    /// Why; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// When, milliseconds since 1970 by this machine's clock.
    pub at_ms: i64,
}

/// All values of a site, by assignment and key.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GivenValues(BTreeMap<String, BTreeMap<String, GivenValue>>);

impl GivenValues {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.values().map(BTreeMap::len).sum()
    }

    /// Those of one assignment.
    pub fn of(&self, assignment: &str) -> impl Iterator<Item = (&str, &GivenValue)> {
        let all = self.0.get(assignment).into_iter().flatten();
        all.map(|(key, given)| (key.as_str(), given))
    }

    /// All of them: assignment, key, value.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str, &GivenValue)> {
        self.0.iter().flat_map(|(assignment, values)| {
            let values = values.iter();
            values.map(move |(key, given)| (assignment.as_str(), key.as_str(), given))
        })
    }

    /// Keeps a value; returns the one that it replaces.
    pub fn set(&mut self, assignment: &str, key: &str, given: GivenValue) -> Option<GivenValue> {
        let values = self.0.entry(assignment.to_owned()).or_default();
        values.insert(key.to_owned(), given)
    }

    /// Forgets a value; returns it.
    pub fn unset(&mut self, assignment: &str, key: &str) -> Option<GivenValue> {
        let values = self.0.get_mut(assignment)?;
        let gone = values.remove(key);
        if values.is_empty() {
            self.0.remove(assignment);
        }
        gone
    }
}
