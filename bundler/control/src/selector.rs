//! Label selectors, as Kubernetes means them.
//!
//! What comes in: `matchLabels` and `matchExpressions`. What goes out: whether labels match, and if
//! not, which requirement failed. All requirements must hold; none at all matches everything;
//! `NotIn` and `DoesNotExist` match what lacks the key. A selector that Kubernetes would refuse is
//! refused here too, with the same reason.

use outhaul_kit::bounds::{MAX_DNS_LABEL_BYTES, MAX_DNS_NAME_BYTES};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::diagnostic::Location;

/// A selector that was checked.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Selector {
    /// What must hold, in the order in which it is written.
    pub requirements: Vec<Requirement>,
}

/// One thing that must hold.
#[derive(Debug, Clone, PartialEq)]
pub struct Requirement {
    key: String,
    operator: Operator,
    values: BTreeSet<String>,
    /// Where it is written, when it comes from a file.
    pub location: Option<Location>,
}

/// What a requirement asks of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// The label equals the one value (`matchLabels`).
    Equals,
    /// The label is one of the values.
    In,
    /// The label is absent or none of the values.
    NotIn,
    /// The label is there.
    Exists,
    /// The label is not there.
    DoesNotExist,
}

impl Operator {
    /// Every operator as people write it in `matchExpressions`.
    pub const NAMES: [&'static str; 4] = ["In", "NotIn", "Exists", "DoesNotExist"];

    /// The operator of that name.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "In" => Some(Self::In),
            "NotIn" => Some(Self::NotIn),
            "Exists" => Some(Self::Exists),
            "DoesNotExist" => Some(Self::DoesNotExist),
            _ => None,
        }
    }
}

/// Why something is not a selector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// Not a qualified name.
    #[error("`{key}` is not a label's name: {reason}")]
    Key {
        /// What was written.
        key: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// Not a label's value.
    #[error("`{value}` is not a label's value: {reason}")]
    Value {
        /// What was written.
        value: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// `In` and `NotIn` need values.
    #[error("operator `{operator}` needs at least one value")]
    NoValues {
        /// The operator.
        operator: &'static str,
    },
    /// `Exists` and `DoesNotExist` take none.
    #[error("operator `{operator}` takes no values")]
    Values {
        /// The operator.
        operator: &'static str,
    },
}

impl Requirement {
    /// A requirement that Kubernetes would accept.
    ///
    /// # Errors
    /// [`SelectorError`] when the key, a value or their number is not allowed.
    pub fn new(
        key: &str,
        operator: Operator,
        values: impl IntoIterator<Item = String>,
    ) -> Result<Self, SelectorError> {
        check_key(key)?;
        let values: BTreeSet<String> = values.into_iter().collect();
        match operator {
            Operator::In if values.is_empty() => {
                return Err(SelectorError::NoValues { operator: "In" });
            }
            Operator::NotIn if values.is_empty() => {
                return Err(SelectorError::NoValues { operator: "NotIn" });
            }
            Operator::Exists if !values.is_empty() => {
                return Err(SelectorError::Values { operator: "Exists" });
            }
            Operator::DoesNotExist if !values.is_empty() => {
                return Err(SelectorError::Values {
                    operator: "DoesNotExist",
                });
            }
            _ => {}
        }
        values.iter().try_for_each(|value| check_value(value))?;
        Ok(Self {
            key: key.into(),
            operator,
            values,
            location: None,
        })
    }

    /// The key that it is about.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The values that it names.
    pub fn values(&self) -> impl Iterator<Item = &str> {
        self.values.iter().map(String::as_str)
    }

    /// What it asks.
    pub fn operator(&self) -> Operator {
        self.operator
    }

    /// Whether `labels` meet it.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        match self.operator {
            Operator::Equals | Operator::In => value.is_some_and(|v| self.values.contains(v)),
            Operator::NotIn => value.is_none_or(|v| !self.values.contains(v)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = || {
            self.values
                .iter()
                .map(String::as_str)
                .collect::<Vec<_>>()
                .join(", ")
        };
        match self.operator {
            Operator::Equals => write!(f, "{} = {}", self.key, quoted(&values())),
            Operator::In => write!(f, "{} in ({})", self.key, values()),
            Operator::NotIn => write!(f, "{} not in ({})", self.key, values()),
            Operator::Exists => write!(f, "{} exists", self.key),
            Operator::DoesNotExist => write!(f, "{} does not exist", self.key),
        }
    }
}

fn quoted(value: &str) -> String {
    if value.is_empty() {
        "\"\"".into()
    } else {
        value.into()
    }
}

impl Selector {
    /// Whether `labels` meet every requirement.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.requirements
            .iter()
            .all(|requirement| requirement.matches(labels))
    }

    /// The requirements that `labels` do not meet.
    pub fn failing<'a>(
        &'a self,
        labels: &'a BTreeMap<String, String>,
    ) -> impl Iterator<Item = &'a Requirement> {
        self.requirements
            .iter()
            .filter(|requirement| !requirement.matches(labels))
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.requirements.is_empty() {
            return f.write_str("anything");
        }
        let texts: Vec<String> = self.requirements.iter().map(ToString::to_string).collect();
        f.write_str(&texts.join(" and "))
    }
}

/// A qualified name: an optional DNS prefix and `/`, then at most 63 characters.
fn check_key(key: &str) -> Result<(), SelectorError> {
    let fail = |reason| {
        Err(SelectorError::Key {
            key: key.into(),
            reason,
        })
    };
    let name = match key.split_once('/') {
        Some((prefix, name)) => {
            if prefix.is_empty()
                || prefix.len() > MAX_DNS_NAME_BYTES
                || !prefix.split('.').all(is_dns_label)
            {
                return fail("the part before `/` must be a DNS name in lower case");
            }
            name
        }
        None => key,
    };
    if name.is_empty() || name.len() > MAX_DNS_LABEL_BYTES {
        return fail("it must have 1 to 63 characters");
    }
    if !is_word(name) {
        return fail(
            "only letters, digits, `-`, `_`, `.` are allowed, first and last a letter or digit",
        );
    }
    Ok(())
}

/// A label's value: empty, or at most 63 characters of a word.
fn check_value(value: &str) -> Result<(), SelectorError> {
    let fail = |reason| {
        Err(SelectorError::Value {
            value: value.into(),
            reason,
        })
    };
    if value.len() > MAX_DNS_LABEL_BYTES {
        return fail("it must have at most 63 characters");
    }
    if !value.is_empty() && !is_word(value) {
        return fail(
            "only letters, digits, `-`, `_`, `.` are allowed, first and last a letter or digit",
        );
    }
    Ok(())
}

fn is_word(text: &str) -> bool {
    let bytes = text.as_bytes();
    let edge = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    edge(bytes.first())
        && edge(bytes.last())
        && bytes
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

fn is_dns_label(text: &str) -> bool {
    let bytes = text.as_bytes();
    let edge = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    edge(bytes.first())
        && edge(bytes.last())
        && bytes
            .iter()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
}

#[cfg(test)]
mod tests;
