//! A gate that someone went past: who, and why.
//!
//! What comes in: two texts. What goes out: an [`Override`], which goes with whatever is shipped on its
//! strength: a commit's message, a pull request, the fleet's folder. It checks nothing.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Longest name or reason, in characters.
const MAX_TEXT: usize = 300;

/// Who goes past a gate, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Override {
    /// Who.
    pub by: String,
    /// Why.
    pub reason: String,
}

/// A name or a reason that cannot be kept.
#[derive(Debug, thiserror::Error)]
#[error(
    "{what} of a gate override is {problem}\nhelp: write one line of 1 to {MAX_TEXT} characters; nothing was changed"
)]
pub struct BadOverride {
    what: &'static str,
    problem: &'static str,
}

impl Override {
    /// An override, when both texts say something in one line.
    ///
    /// # Errors
    /// [`BadOverride`]
    pub fn new(by: &str, reason: &str) -> Result<Self, BadOverride> {
        for (what, text) in [("the author", by), ("the reason", reason)] {
            let problem = if text.trim().is_empty() {
                "empty"
            } else if text.chars().any(char::is_control) {
                "not one line of text"
            } else if text.chars().count() > MAX_TEXT {
                "too long"
            } else {
                continue;
            };
            return Err(BadOverride { what, problem });
        }
        Ok(Self {
            by: by.trim().to_owned(),
            reason: reason.trim().to_owned(),
        })
    }
}

impl fmt::Display for Override {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gate overridden by {}: {}", self.by, self.reason)
    }
}
