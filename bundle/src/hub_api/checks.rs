//! Checks: outcomes that someone states about a commit in an environment, such as of a scan or a smoke test.
//!
//! What comes in: what a pipeline, a hook or a person sends to a hub, and the rules that ask for checks. What goes out:
//! the same, checked. A hub keeps an outcome as it is stated, under the name of who sent it; nobody signs it. It decides
//! nothing.

use std::collections::BTreeSet;

use serde::{Deserialize, Deserializer, Serialize};

use super::MAX_AGE_HOURS;
use super::bounds::{MAX_ENTRIES, within};
use crate::digest::Digest;
use crate::name::Name;

/// Largest request with the outcome of a check, in bytes.
pub const MAX_CHECK_BYTES: usize = 16 * 1024;
/// Longest text about an outcome, in bytes.
pub const MAX_CHECK_DETAIL_BYTES: usize = 1024;

/// A check that must have passed for the very commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CheckRule {
    /// Its name.
    pub name: String,
    /// How old its outcome may be, in hours; any age when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_age_hours: Option<u32>,
    /// Whose outcomes count; everyone's whom the hub lets state one when left out. An empty list is refused where it is read: it may be
    /// meant as nobody.
    #[serde(
        default,
        skip_serializing_if = "BTreeSet::is_empty",
        deserialize_with = "someone"
    )]
    pub by: BTreeSet<String>,
}

fn someone<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeSet<String>, D::Error> {
    let by = BTreeSet::deserialize(from)?;
    match by.is_empty() {
        false => Ok(by),
        true => Err(serde::de::Error::custom(NOBODY)),
    }
}

/// What is wrong with an empty `by`.
const NOBODY: &str = "`by` of a check is an empty list: name who states its outcome, or leave `by` out to count everyone's whom the hub lets \
     state one";

impl CheckRule {
    /// The name of the rule in a decision: `check:scan`.
    pub fn rule(&self) -> String {
        format!("check:{}", self.name)
    }

    /// Whether a rule of this name in a decision is one about a check.
    pub fn is_name(rule: &str) -> bool {
        rule.starts_with("check:")
    }

    /// What is wrong with the check `name` when an empty list is written for [`CheckRule::by`].
    pub fn nobody(name: &str) -> String {
        format!("check `{name}`: {NOBODY}")
    }

    /// Checks name, age and people.
    ///
    /// # Errors
    /// The problem, in words.
    pub fn check(&self) -> Result<(), String> {
        name(&self.name)?;
        within("checks.max_age_hours", self.max_age_hours, &MAX_AGE_HOURS)?;
        if self.by.len() > MAX_ENTRIES || self.by.iter().any(|name| name.trim().is_empty()) {
            return Err(format!(
                "`by` of check `{}` names at most {MAX_ENTRIES}, none of them empty",
                self.name
            ));
        }
        Ok(())
    }

    /// Checks each, and that none is there twice.
    ///
    /// # Errors
    /// The first problem, in words.
    pub fn check_all(rules: &[Self]) -> Result<(), String> {
        let mut all = rules.iter().enumerate();
        all.try_for_each(|(at, rule)| rule.check_after(&rules[..at]))
    }

    /// Checks this one, and that none of those `before` it has its name.
    ///
    /// # Errors
    /// The problem, in words.
    pub fn check_after(&self, before: &[Self]) -> Result<(), String> {
        self.check()?;
        match before.iter().any(|one| one.name == self.name) {
            false => Ok(()),
            true => Err(format!("the check `{}` is in the list twice", self.name)),
        }
    }
}

/// What came of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum CheckOutcome {
    /// It found what it looks for; the gate is closed where a rule asks for it.
    Failed,
    /// It passed.
    Passed,
}

impl CheckOutcome {
    /// `failed` or `passed`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Passed => "passed",
        }
    }

    /// The outcome with this word.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Failed, Self::Passed]
            .into_iter()
            .find(|outcome| outcome.as_str() == word)
    }
}

/// The outcome of a check, as it is sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CheckRequest {
    /// The environment in which the commit was checked: the one whose gate asks for it.
    pub environment: String,
    /// The full id of the base commit.
    pub commit: String,
    /// The name of the check, as the rule has it.
    pub name: String,
    /// What came of it.
    pub outcome: CheckOutcome,
    /// One line about it, such as what failed; at most 1024 bytes.
    #[serde(default)]
    pub detail: String,
    /// The digest of what it rests on, such as the report of a scan: `sha256:` and 64 digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

impl CheckRequest {
    /// Checks names, text and digest; the hub checks the commit, and whether it knows the environment.
    ///
    /// # Errors
    /// The first problem, in words.
    pub fn check(&self) -> Result<(), String> {
        name(&self.name)?;
        let environment = self.environment.parse::<Name>();
        environment.map_err(|error| format!("`environment`: {error}"))?;
        if self.detail.len() > MAX_CHECK_DETAIL_BYTES {
            return Err(format!(
                "`detail` has {} bytes, {MAX_CHECK_DETAIL_BYTES} at most: name the digest of the whole text in `digest`",
                self.detail.len()
            ));
        }
        if self.detail.chars().any(char::is_control) {
            return Err("`detail` is one line of text, without control characters".to_owned());
        }
        match &self.digest {
            Some(digest) if digest.parse::<Digest>().is_err() => {
                Err("`digest` is `sha256:` and 64 hexadecimal digits".to_owned())
            }
            _ => Ok(()),
        }
    }
}

/// That the outcome of a check is on record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CheckAnswer {
    /// The number of the entry: the one on record where the same was stated within the minute before.
    pub id: i64,
    /// Under whose name.
    pub by: String,
    /// When it was stated, by the hub's clock.
    pub at: String,
    /// What should be known of it, such as that no bundle of the commit has come yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

fn name(text: &str) -> Result<(), String> {
    text.parse::<Name>()
        .map(drop)
        .map_err(|error| format!("the name of a check: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(name: &str) -> CheckRule {
        CheckRule {
            name: name.into(),
            max_age_hours: None,
            by: BTreeSet::new(),
        }
    }

    #[test]
    fn rules_for_checks_have_names_bounds_and_no_twins() {
        CheckRule::check_all(&[rule("scan"), rule("smoke-test")]).unwrap();
        CheckRule::check_all(&[rule("scan"), rule("scan")]).unwrap_err();
        rule("").check().unwrap_err();
        rule("two words").check().unwrap_err();
        let old = |hours| CheckRule {
            max_age_hours: Some(hours),
            ..rule("scan")
        };
        old(24).check().unwrap();
        old(0).check().unwrap_err();
        let nobody = CheckRule {
            by: [" ".to_owned()].into(),
            ..rule("scan")
        };
        nobody.check().unwrap_err();
    }

    #[test]
    fn an_empty_list_is_not_everybody() {
        let read = |text: &str| serde_json::from_str::<CheckRule>(text);
        assert_eq!(read(r#"{"name":"scan"}"#).unwrap(), rule("scan"));
        read(r#"{"name":"scan","by":["ci"]}"#).unwrap();
        let said = read(r#"{"name":"scan","by":[]}"#).unwrap_err().to_string();
        assert!(said.contains("leave `by` out"), "{said}");
    }

    #[test]
    fn an_outcome_is_one_bounded_line_with_a_whole_digest() {
        let sent = CheckRequest {
            environment: "dev".into(),
            commit: "a".repeat(40),
            name: "scan".into(),
            outcome: CheckOutcome::Passed,
            detail: "0 findings".into(),
            digest: Some(Digest::of(b"report").to_string()),
        };
        sent.check().unwrap();
        let wrong = [
            CheckRequest {
                name: "a b".into(),
                ..sent.clone()
            },
            CheckRequest {
                environment: "dev\u{1b}[2J".into(),
                ..sent.clone()
            },
            CheckRequest {
                environment: "x".repeat(16_000),
                ..sent.clone()
            },
            CheckRequest {
                detail: "x".repeat(MAX_CHECK_DETAIL_BYTES + 1),
                ..sent.clone()
            },
            CheckRequest {
                detail: "two\nlines".into(),
                ..sent.clone()
            },
            CheckRequest {
                digest: Some("sha256:12".into()),
                ..sent.clone()
            },
        ];
        for one in wrong {
            one.check().unwrap_err();
        }
        let unknown = r#"{"environment":"dev","commit":"x","name":"scan","outcome":"skipped"}"#;
        serde_json::from_str::<CheckRequest>(unknown).unwrap_err();
    }
}
