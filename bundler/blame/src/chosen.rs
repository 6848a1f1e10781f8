//! Which commit is taken back: the one that was named among those of the answer, or the likeliest.
//!
//! What comes in: the answers to a site's faults, and the id that someone named. What goes out: the commit, with the fault that it is
//! blamed for, or why it is none. Nothing is taken back while commits were not looked at. It is pure.

use outhaul_bundle::hub_api::SiteFault;
use outhaul_kit::failure::{Classified, FailureClass};
use outhaul_kit::format_count::format_count;

use crate::{Blame, CommitCause};

/// Fewest digits of an id by which a commit is named.
const MIN_DIGITS: usize = 4;

/// Why no commit is taken back.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChoiceError {
    /// Commits were not looked at: one of them may be likelier.
    #[error("of {} not all commits were searched", format_count(*faults, "fault", "faults"))]
    Incomplete {
        /// Of how many faults.
        faults: usize,
    },
    /// No commit is likelier than all else.
    #[error("no commit is likelier than every other cause, so nothing says which one to take back")]
    NoneLikeliest {
        /// Whether there are commits among the causes.
        has_commits: bool,
    },
    /// What was named is not one of them, or several.
    #[error("`{id}` is not one of the commits that are listed")]
    NotListed {
        /// What was named.
        id: String,
    },
}

impl Classified for ChoiceError {
    fn class(&self) -> FailureClass {
        match self {
            Self::Incomplete { .. } => FailureClass::Environment,
            Self::NoneLikeliest { .. } => FailureClass::Refused,
            Self::NotListed { .. } => FailureClass::Usage,
        }
    }

    fn help(&self) -> Option<String> {
        let help = match self {
            Self::Incomplete { .. } => {
                "give repositories that have the older commits, with `--control-plane` and `--source`, and run it again"
            }
            Self::NoneLikeliest { has_commits: true } => {
                "`--commit ID` takes one of those that are listed back"
            }
            Self::NoneLikeliest { has_commits: false } => return None,
            Self::NotListed { .. } => {
                "give at least four digits of the id of one of them; a commit that came with a merge is part of the merge"
            }
        };
        Some(help.to_owned())
    }
}

/// What can be taken back without anybody having named it.
#[derive(Debug, PartialEq)]
pub enum Offer<'a> {
    /// This commit, on top of this branch.
    Likeliest(&'a CommitCause, &'a str),
    /// One of several, which someone must name.
    OneOfThem,
    /// Nothing.
    Nothing,
}

/// Sees that all commits of `answers` could be looked at.
///
/// # Errors
/// [`ChoiceError::Incomplete`]
pub fn complete(answers: &[(&SiteFault, Blame)]) -> Result<(), ChoiceError> {
    let incomplete = answers.iter().map(|(_, blame)| blame);
    match incomplete
        .filter(|blame| blame.incomplete.is_some())
        .count()
    {
        0 => Ok(()),
        faults => Err(ChoiceError::Incomplete { faults }),
    }
}

/// The commit to take back: the one whose id begins with `named`, or the likeliest of the first fault that has one.
///
/// # Errors
/// [`ChoiceError`]
pub fn chosen<'b>(
    answers: &'b [(&'b SiteFault, Blame)],
    named: Option<&str>,
) -> Result<(&'b SiteFault, &'b CommitCause), ChoiceError> {
    complete(answers)?;
    let mut all = answers
        .iter()
        .flat_map(|(fault, blame)| blame.commits().map(move |commit| (*fault, commit)));
    let Some(id) = named.map(str::to_lowercase) else {
        let has_commits = all.next().is_some();
        return likeliest(answers).ok_or(ChoiceError::NoneLikeliest { has_commits });
    };
    let mut matching = all.filter(|(_, one)| id.len() >= MIN_DIGITS && one.id.starts_with(&id));
    match matching.next() {
        // One commit may be a cause of several faults.
        Some(first) if matching.all(|(_, other)| other.id == first.1.id) => Ok(first),
        _ => Err(ChoiceError::NotListed { id }),
    }
}

/// What can be taken back next.
pub fn offer<'a>(answers: &'a [(&SiteFault, Blame)]) -> Offer<'a> {
    let likeliest = answers.iter().find_map(|(_, blame)| blame.likeliest());
    let has_commits = |(_, blame): &(&SiteFault, Blame)| blame.commits().next().is_some();
    match likeliest.and_then(|commit| Some((commit, commit.branch.as_deref()?))) {
        Some((commit, branch)) => Offer::Likeliest(commit, branch),
        None if answers.iter().any(has_commits) => Offer::OneOfThem,
        None => Offer::Nothing,
    }
}

fn likeliest<'b>(
    answers: &'b [(&'b SiteFault, Blame)],
) -> Option<(&'b SiteFault, &'b CommitCause)> {
    let mut answers = answers.iter();
    answers.find_map(|(fault, blame)| Some((*fault, blame.likeliest()?)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use outhaul_bundle::hub_api::SiteFaults;

    use super::*;
    use crate::{Cause, CauseKind};

    fn fault() -> SiteFault {
        let faults: SiteFaults =
            serde_json::from_str(include_str!("../testdata/faults.json")).unwrap();
        faults.faults[0].clone()
    }

    fn cause(id: &str, confidence: u8) -> Cause {
        Cause {
            kind: CauseKind::Commit,
            confidence,
            text: String::new(),
            why: Vec::new(),
            commit: Some(CommitCause {
                id: id.repeat(10),
                before: "0".repeat(40),
                repo: String::new(),
                source: "main".to_owned(),
                names: BTreeSet::new(),
                branch: Some("main".to_owned()),
                is_merge: false,
                author: "T".to_owned(),
                at: String::new(),
                subject: String::new(),
                assignments: Vec::new(),
                removed: Vec::new(),
                policies: Vec::new(),
                values: Vec::new(),
                templates: Vec::new(),
                files: Vec::new(),
                paths: Vec::new(),
                lines: Vec::new(),
            }),
        }
    }

    fn blame(causes: Vec<Cause>) -> Blame {
        Blame {
            assignments: Vec::new(),
            causes,
            commits: Vec::new(),
            incomplete: None,
            notes: Vec::new(),
        }
    }

    fn id(chosen: Result<(&SiteFault, &CommitCause), ChoiceError>) -> Result<String, ChoiceError> {
        chosen.map(|(_, commit)| commit.id.get(..4).unwrap_or_default().to_owned())
    }

    #[test]
    fn the_likeliest_is_taken_back_unless_another_is_named() {
        let fault = fault();
        let answers = [
            (&fault, blame(vec![cause("aaaa", 40), cause("aabb", 40)])),
            (&fault, blame(vec![cause("cccc", 90), cause("aaaa", 10)])),
        ];
        let of = |named| id(chosen(&answers, named));
        assert_eq!(of(None), Ok("cccc".to_owned()));
        // A cause of both faults is one commit.
        assert_eq!(of(Some("AAAA")), Ok("aaaa".to_owned()));
        let not_listed = |id: &str| Err(ChoiceError::NotListed { id: id.to_owned() });
        for wrong in ["aa", "aab", "dddd"] {
            assert_eq!(of(Some(wrong)), not_listed(wrong));
        }
        let Offer::Likeliest(commit, "main") = offer(&answers) else {
            panic!("{:?}", offer(&answers));
        };
        assert_eq!(commit.short_id(), "cccccccccccc");
    }

    #[test]
    fn an_id_that_two_commits_begin_with_names_none() {
        let fault = fault();
        let answers = [(&fault, blame(vec![cause("aaaab", 40), cause("aaaac", 30)]))];
        let refused = chosen(&answers, Some("aaaa")).map(drop);
        let error = refused.unwrap_err();
        assert_eq!(error.class(), FailureClass::Usage, "{error}");
        assert_eq!(id(chosen(&answers, Some("aaaac"))), Ok("aaaa".to_owned()));
    }

    #[test]
    fn nothing_is_taken_back_where_nothing_is_likelier_or_not_all_was_looked_at() {
        let fault = fault();
        let equal = [(&fault, blame(vec![cause("aaaa", 40), cause("bbbb", 40)]))];
        let error = chosen(&equal, None).map(drop).unwrap_err();
        assert_eq!(error, ChoiceError::NoneLikeliest { has_commits: true });
        assert_eq!(error.class(), FailureClass::Refused);
        assert_eq!(offer(&equal), Offer::OneOfThem);
        let none = [(&fault, blame(Vec::new()))];
        let error = chosen(&none, None).map(drop).unwrap_err();
        assert_eq!(error, ChoiceError::NoneLikeliest { has_commits: false });
        assert_eq!(error.help(), None);
        assert_eq!(offer(&none), Offer::Nothing);
        let mut half = blame(vec![cause("aaaa", 90)]);
        half.incomplete = Some("a commit is gone".to_owned());
        let answers = [(&fault, half)];
        let error = chosen(&answers, Some("aaaa")).map(drop).unwrap_err();
        assert_eq!(error, ChoiceError::Incomplete { faults: 1 });
        assert_eq!(error.class(), FailureClass::Environment);
    }
}
