//! An error of the centre as a person reads it: what a command prints and what the service logs are made here, once.
//!
//! What comes in: an error that classifies itself, or findings. What goes out: [`Shown`], the lines and the kind of failure. It prints
//! nothing, and decides nothing: each error has its sentence and its help where its rule is.

use std::error::Error;

use outhaul_control::Diagnostics;
use outhaul_kit::failure::{Classified, FailureClass};
use outhaul_record::guard::Removal;

use crate::stream::ProduceError;

/// An error in lines.
#[derive(Debug, Clone)]
pub struct Shown {
    /// The kind of failure.
    pub class: FailureClass,
    /// The findings that the first line has, where findings are what is wrong.
    pub findings: Option<Diagnostics>,
    /// `error:` with every cause, one line for each thing that is wrong, then the `help:` lines. A line may contain line breaks.
    pub lines: Vec<String>,
}

impl Shown {
    /// An error with its causes and its help.
    pub fn of(error: &(impl Classified + 'static)) -> Self {
        let shown = Self {
            class: error.class(),
            findings: None,
            lines: lines(error),
        };
        error.help().into_iter().fold(shown, Self::help)
    }

    /// Findings about the control plane, each with its place.
    pub fn findings(findings: &Diagnostics) -> Self {
        Self {
            class: findings.class().unwrap_or(FailureClass::Refused),
            findings: Some(findings.clone()),
            lines: vec![findings.render(false).trim_end().to_owned()],
        }
    }

    /// Findings about assignments: others of the same control plane may be sound, so that it is a refusal and no mistake of usage.
    pub fn broken(findings: &Diagnostics) -> Self {
        Self {
            class: FailureClass::Refused,
            ..Self::findings(findings)
        }
    }

    /// A refusal whose text has the `error:` and `help:` lines already.
    pub fn explained(text: &str) -> Self {
        Self {
            class: FailureClass::Refused,
            findings: None,
            lines: text.lines().map(str::to_owned).collect(),
        }
    }

    /// Adds what to do next.
    #[must_use]
    pub fn help(mut self, help: impl AsRef<str>) -> Self {
        self.lines.push(format!("help: {}", help.as_ref()));
        self
    }

    /// All of it, for a log that names the failure itself: without `error:` before the first line.
    pub fn text(&self) -> String {
        let text = self.lines.join("\n");
        match text.strip_prefix("error: ") {
            Some(rest) => rest.to_owned(),
            None => text,
        }
    }
}

impl From<&ProduceError> for Shown {
    fn from(error: &ProduceError) -> Self {
        match error {
            ProduceError::Removals { removals } => {
                let texts: Vec<_> = removals.iter().map(Removal::explain).collect();
                Self::explained(&texts.join("\n"))
            }
            ProduceError::Strict(findings) => {
                (error.help().into_iter()).fold(Self::broken(findings), Self::help)
            }
            ProduceError::Contradiction(findings) => {
                (error.help().into_iter()).fold(Self::findings(findings), Self::help)
            }
            error => {
                // What failed after other streams has its causes in the error of its stream.
                let cause = match error {
                    ProduceError::After { error, .. } => &**error,
                    error => error,
                };
                let mut lines = lines(cause);
                let details = error.details().iter();
                lines.splice(1..1, details.map(|detail| format!("  - {detail}")));
                let shown = Self {
                    class: error.class(),
                    findings: None,
                    lines,
                };
                error.help().into_iter().fold(shown, Self::help)
            }
        }
    }
}

/// An error with all of its causes in one line that begins with `error:`, and below it the help that they bring. Further lines of a cause
/// are indented below it; what is repeated is left out.
pub fn lines(error: &dyn Error) -> Vec<String> {
    let mut message = Vec::new();
    let mut help = Vec::new();
    let mut next = Some(error);
    while let Some(cause) = next {
        for (at, line) in cause.to_string().lines().enumerate() {
            // Help comes last, whichever cause it is from; what is repeated is said once.
            if line.trim_start().starts_with("help:") {
                help.push(line.trim().to_owned());
            } else if at == 0 {
                if !message.iter().any(|said: &String| said.contains(line)) {
                    message.push(line.to_owned());
                }
            } else if let Some(last) = message.last_mut() {
                last.push_str("\n  ");
                last.push_str(line.trim());
            }
        }
        next = cause.source();
    }
    help.dedup();
    let mut lines = vec![format!("error: {}", message.join(": "))];
    lines.extend(help);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collect::CollectError;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot write\nhelp: free some space")]
    struct Outer(#[source] Inner);

    #[derive(Debug, thiserror::Error)]
    #[error("no space left")]
    struct Inner;

    #[test]
    fn causes_stand_in_one_line_and_help_comes_last() {
        assert_eq!(
            lines(&Outer(Inner)),
            [
                "error: cannot write: no space left",
                "help: free some space",
            ]
        );
    }

    fn damaged() -> ProduceError {
        ProduceError::Damaged {
            copies: vec!["a is damaged".to_owned(), "b is damaged".to_owned()],
        }
    }

    fn after(error: ProduceError) -> ProduceError {
        ProduceError::After {
            production: Box::default(),
            error: Box::new(error),
        }
    }

    #[test]
    fn each_thing_that_is_wrong_stands_between_the_error_and_its_help() {
        let shown = Shown::from(&damaged());
        let [error, first, second, help] = &*shown.lines else {
            panic!("{:?}", shown.lines);
        };
        assert!(error.starts_with("error: 2 contents"), "{error}");
        assert_eq!([first, second], ["  - a is damaged", "  - b is damaged"]);
        assert!(help.starts_with("help: run it again"), "{help}");
        assert!(shown.text().starts_with("2 contents"), "{}", shown.text());
        assert_eq!(shown.class, FailureClass::Environment);
    }

    #[test]
    fn a_stream_that_fails_after_others_has_its_causes_and_says_what_was_made() {
        let alone = Shown::from(&damaged());
        let later = Shown::from(&after(damaged()));
        assert_eq!((later.lines, later.class), (alone.lines, alone.class));

        let gone = || {
            ProduceError::from(CollectError::Gone {
                assignment: "press".to_owned(),
            })
        };
        let (alone, later) = (Shown::from(&gone()), Shown::from(&after(gone())));
        assert_eq!(alone.lines[0], later.lines[0]);
        assert_eq!(alone.lines[1..], ["help: nothing was written"]);
        assert_eq!(
            later.lines[1..],
            ["help: of this stream nothing was written; those before it were made"]
        );
    }
}
