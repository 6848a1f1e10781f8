//! Why a bundle stands as it does on this site.
//!
//! What comes in: what an event says of a bundle: why it waits, failed or runs, what a look at its health found, what keeps its work from
//! going on. What goes out: the same, part by part, and one sentence of all. It decides nothing.

use std::fmt;

/// The parts of what is said of a bundle; an empty one is not said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Note {
    /// Why it waits, failed, or was left, or what was decided about it.
    pub why: String,
    /// What was found so far while its health is checked.
    pub health: String,
    /// What keeps the work on it from going on: something on this host, not the bundle.
    pub blocked: String,
}

impl Note {
    /// Only why.
    pub fn new(why: impl Into<String>) -> Self {
        Self {
            why: why.into(),
            ..Self::default()
        }
    }

    /// Without what keeps the work from going on.
    #[must_use]
    pub fn unblocked(&self) -> Self {
        Self {
            blocked: String::new(),
            ..self.clone()
        }
    }

    /// Whether a look at its health that found `found` changes nothing: it found the same before, and nothing has kept it from looking since.
    pub fn is_as_looked_at(&self, found: &str) -> bool {
        !self.is_blocked() && self.health == found
    }

    /// Whether something keeps the work on the bundle from going on.
    pub fn is_blocked(&self) -> bool {
        !self.blocked.is_empty()
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut between = "";
        for (begin, part) in [
            ("", &self.why),
            ("", &self.health),
            ("it cannot go on: ", &self.blocked),
        ] {
            if !part.is_empty() {
                write!(f, "{between}{begin}{part}")?;
                between = "; ";
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_that_are_there_make_one_sentence() {
        let note = |why: &str, health: &str, blocked: &str| Note {
            why: why.to_owned(),
            health: health.to_owned(),
            blocked: blocked.to_owned(),
        };
        assert_eq!(Note::default().to_string(), "");
        assert_eq!(
            note("", "", "no space").to_string(),
            "it cannot go on: no space"
        );
        let whole = note("rolled back by ann", "healthy so far", "no space");
        let expected = "rolled back by ann; healthy so far; it cannot go on: no space";
        assert_eq!(whole.to_string(), expected);
        assert!(!whole.is_as_looked_at("healthy so far"), "it was blocked");
        assert!(whole.unblocked().is_as_looked_at("healthy so far"));
        assert!(!whole.unblocked().is_as_looked_at("healthy until ten"));
        assert_eq!(
            whole.unblocked().to_string(),
            "rolled back by ann; healthy so far"
        );
    }
}
