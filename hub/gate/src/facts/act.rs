//! What people and programs decide or state about gates, entry by entry.
//!
//! What comes in: the parts of an entry. What goes out: the entry with its digest in the chain, and what it is about. Whether
//! it counts is decided elsewhere.

use outhaul_bundle::Digest;
use outhaul_bundle::hub_api::{CheckOutcome, CheckRequest};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// What kind of decision it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActKind {
    /// A person approves the promotion of a commit.
    Approve,
    /// Someone states what came of a check of a commit.
    Check,
    /// A person chooses which of two machines with one key is the site.
    Choose,
    /// A person states that the hub's clock was ahead when decisions on record were made.
    Clock,
    /// A site is expected later, by a deadline.
    Defer,
    /// Nothing is promoted from an environment, until it is withdrawn or ends.
    Hold,
    /// A person states that the signed text of a report on record is lost.
    Lost,
    /// Gates go on without a site, until a moment.
    Waive,
    /// An earlier entry holds no more.
    Withdraw,
}

impl ActKind {
    /// Every kind.
    pub const ALL: [Self; 9] = [
        Self::Approve,
        Self::Check,
        Self::Choose,
        Self::Clock,
        Self::Defer,
        Self::Hold,
        Self::Lost,
        Self::Waive,
        Self::Withdraw,
    ];

    /// `approve`, `check`, `choose`, `clock`, `defer`, `hold`, `lost`, `waive` or `withdraw`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Check => "check",
            Self::Choose => "choose",
            Self::Clock => "clock",
            Self::Defer => "defer",
            Self::Hold => "hold",
            Self::Lost => "lost",
            Self::Waive => "waive",
            Self::Withdraw => "withdraw",
        }
    }
}

/// One entry on record: what a person decided, or what a person or a program stated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Act {
    /// Its number.
    pub id: i64,
    /// What kind.
    pub kind: ActKind,
    /// The environment, of an approval, a hold or a check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
    /// The base commit, of an approval, a check, or a hold of one commit only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The site, of a waiver, deferral or choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
    /// When it ends, milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_ms: Option<i64>,
    /// The number of the entry that it withdraws.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withdraws: Option<i64>,
    /// The report of the machine that is the site, of a choice; the number of the newest decision whose time does not count, of an
    /// entry about the clock; number and digest of the report, of an entry about a text that is lost; the name of a check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen: Option<String>,
    /// The numbering that is the site's from then on, of a choice; absent where that machine has yet to begin one. That of the report, of an
    /// entry about a text that is lost. The outcome of a check, with the digest of what it rests on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<String>,
    /// Why.
    pub reason: String,
    /// Who decided.
    pub by: String,
    /// When, milliseconds since 1970.
    pub at_ms: i64,
}

impl Act {
    /// An entry that is not recorded yet.
    pub fn new(kind: ActKind, by: &str, reason: &str, at_ms: i64) -> Self {
        Self {
            id: 0,
            kind,
            environment: None,
            commit: None,
            site: None,
            until_ms: None,
            withdraws: None,
            chosen: None,
            epoch: None,
            reason: reason.to_owned(),
            by: by.to_owned(),
            at_ms,
        }
    }

    /// The report whose signed text it states to be lost: site, numbering and number.
    pub fn lost_report(&self) -> Option<(&str, &str, u64)> {
        let number = self.chosen.as_deref()?.split_once(' ')?.0.parse().ok()?;
        let lost = (self.site.as_deref()?, self.epoch.as_deref()?, number);
        (self.kind == ActKind::Lost).then_some(lost)
    }

    /// What it states of a report whose signed text is lost, in a sentence's part; empty of any other entry.
    pub fn lost_sentence(&self) -> String {
        self.lost_report()
            .map_or_else(String::new, |(site, _, number)| {
                format!(
                    "the signed text of report {number} of site `{site}` is lost, as {} states in entry {}: {}",
                    self.by, self.id, self.reason
                )
            })
    }

    /// The check whose outcome it states.
    pub fn stated_check(&self) -> Option<StatedCheck<'_>> {
        let outcome = self.epoch.as_deref()?;
        let (word, digest) = match outcome.split_once(' ') {
            Some((word, digest)) => (word, Some(digest)),
            None => (outcome, None),
        };
        let stated = StatedCheck {
            name: self.chosen.as_deref()?,
            outcome: CheckOutcome::from_word(word)?,
            digest,
        };
        (self.kind == ActKind::Check).then_some(stated)
    }

    /// The outcome of a check, as it goes on record; whether it [holds](CheckRequest::check) is asked before.
    pub fn of_check(sent: &CheckRequest, by: &str, at_ms: i64) -> Self {
        let word = sent.outcome.as_str();
        Self {
            environment: Some(sent.environment.clone()),
            commit: Some(sent.commit.clone()),
            chosen: Some(sent.name.clone()),
            epoch: Some(match &sent.digest {
                Some(digest) => format!("{word} {digest}"),
                None => word.to_owned(),
            }),
            ..Self::new(ActKind::Check, by, &sent.detail, at_ms)
        }
    }

    /// What was decided or stated, without who and why.
    pub fn sentence(&self) -> String {
        let until = self.until_ms.map_or_else(String::new, |ms| {
            format!(" until {}", crate::time::rfc3339(ms))
        });
        let site = self.site.as_deref().unwrap_or_default();
        let environment = self.environment.as_deref().unwrap_or_default();
        match self.kind {
            ActKind::Approve => format!(
                "base {} of `{environment}` is approved{until}",
                crate::short(self.commit.as_deref().unwrap_or_default())
            ),
            ActKind::Check => format!(
                "check `{}` of base {} of `{environment}` {}",
                self.chosen.as_deref().unwrap_or_default(),
                crate::short(self.commit.as_deref().unwrap_or_default()),
                self.stated_check()
                    .map_or("unknown", |check| check.outcome.as_str())
            ),
            ActKind::Choose => format!(
                "the machine of report {} is site `{site}`",
                crate::short(self.chosen.as_deref().unwrap_or_default())
            ),
            ActKind::Clock => format!(
                "the clock was ahead until decision {}",
                self.chosen.as_deref().unwrap_or_default()
            ),
            ActKind::Defer => format!("site `{site}` is deferred{until}"),
            ActKind::Hold => match &self.commit {
                Some(commit) => format!(
                    "promotions of base {} from `{environment}` are held{until}",
                    crate::short(commit)
                ),
                None => format!("promotions from `{environment}` are held{until}"),
            },
            ActKind::Lost => format!(
                "the signed text of report {} of site `{site}` is lost",
                self.lost_report().map_or(0, |(_, _, number)| number)
            ),
            ActKind::Waive => format!("site `{site}` is waived{until}"),
            ActKind::Withdraw => format!("{} is withdrawn", self.withdraws.unwrap_or_default()),
        }
    }

    /// When it ends, milliseconds since 1970; the beginning of time where nobody said.
    pub fn until_ms(&self) -> i64 {
        self.until_ms.unwrap_or(0)
    }

    /// The digest of the entry in its chain.
    pub fn digest(&self, previous: &str) -> String {
        Digest::of(json!([previous, self]).to_string().as_bytes()).to_string()
    }
}

/// The outcome of a check, as an entry states it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatedCheck<'a> {
    /// The check's name.
    pub name: &'a str,
    /// What came of it.
    pub outcome: CheckOutcome,
    /// The digest of what it rests on, where one was given.
    pub digest: Option<&'a str>,
}
