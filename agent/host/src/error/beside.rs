//! Errors of a command that did something else as well: what it ends with must not speak for all that it did.
//!
//! What comes in: the error. What goes out: the same error and help, without "nothing was changed" and its like. It looks at nothing.

use super::{AgentError, left_alone};

/// How a message ends that says of the whole command what it left alone.
const LEFT_ALONE: &str = "nothing was changed";
/// The same, of what runs.
const NOT_TOUCHED: &str = "what runs was not touched";
/// The same, where a bundle could not be read.
const UNTOUCHED: &str = "what runs is untouched";

impl AgentError {
    /// The same, where the command that ends with it changed something else: other files of the medium were taken, or work went on
    /// that had waited.
    pub fn lines_beside_others(&self) -> Vec<String> {
        let mut lines = self.lines();
        if let Some(first) = lines.first_mut() {
            *first = format!("error: {}", self.beside_others());
        }
        lines
    }

    /// What happened, without what is said of all else that the command could have changed.
    pub fn beside_others(&self) -> String {
        match self {
            Self::Refused {
                source_name,
                rule,
                message,
                ..
            } if left_alone(rule) == LEFT_ALONE => {
                // What a reader says last is of what came of the file, which is said before, and of all that runs.
                let message = message
                    .strip_suffix(UNTOUCHED)
                    .map_or(message.as_str(), |found| {
                        found.rsplit_once("; ").map_or(found, |(what, _)| what)
                    });
                format!("`{source_name}` is refused and nothing of it is kept: {message}")
            }
            other => {
                let text = other.to_string();
                let of_all = [LEFT_ALONE, NOT_TOUCHED];
                let tail = of_all.iter().find_map(|of_all| text.strip_suffix(of_all));
                tail.and_then(|text| text.strip_suffix("; "))
                    .map_or(text.clone(), str::to_owned)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beside_others_no_error_speaks_for_all_of_the_command() {
        let refused = AgentError::refused("a.outhaul", "signature", "no valid signature");
        let space = AgentError::Space {
            folder: "/x".to_owned(),
            needed: 9,
            reserve: 1,
            free: 2,
            missing: 7,
            removable: Vec::new(),
        };
        let unreadable = AgentError::Unreadable {
            source_name: "a.outhaul".to_owned(),
            problem: "Input/output error".to_owned(),
        };
        for error in [refused, space, unreadable] {
            let (alone, beside) = (error.lines(), error.lines_beside_others());
            let of_all = |text: &str| text.contains(LEFT_ALONE) || text.contains(NOT_TOUCHED);
            assert!(of_all(&alone[0]) && !of_all(&beside[0]), "{beside:?}");
            assert_eq!(alone[1..], beside[1..], "the same way out");
        }
        for end in [
            "; it was thrown away, the bundle is refused and what runs is untouched",
            "; it is refused and what runs is untouched",
            "; what runs is untouched",
        ] {
            let cut = AgentError::refused("a.outhaul", "malformed", format!("it is cut off{end}"));
            assert!(
                !cut.beside_others().contains(UNTOUCHED),
                "{}",
                cut.beside_others()
            );
            let of_file = cut.beside_others();
            assert!(of_file.ends_with("is kept: it is cut off"), "{of_file}");
        }
        // Of these it was never said.
        let revoked = AgentError::refused("a.outhaul", "revoked", "this site is revoked");
        assert_eq!(revoked.lines(), revoked.lines_beside_others());
    }
}
