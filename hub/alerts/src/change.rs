//! Changes: what is known now beside what was known before.
//!
//! What comes in: [`Condition`]s, each with a status of one word, and the statuses of the look before. What goes out:
//! [`Change`]s, and what is to be remembered. What looks the same is no change; what is seen for the first time is one
//! where its kind says so. It is pure.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What an alert is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AlertKind {
    /// A site: how it does.
    Site,
    /// A gate for one commit: whether it is open.
    Gate,
    /// Something that was refused, by rule and site.
    Refusal,
    /// A key that waits for approval.
    Request,
    /// A person's decision: an approval, a waiver, a deferral, a hold.
    Act,
    /// The hub itself: whether it can look.
    Hub,
}

impl AlertKind {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Site,
        Self::Gate,
        Self::Refusal,
        Self::Request,
        Self::Act,
        Self::Hub,
    ];

    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Site => "site",
            Self::Gate => "gate",
            Self::Refusal => "refusal",
            Self::Request => "request",
            Self::Act => "act",
            Self::Hub => "hub",
        }
    }

    /// The kind that is written so.
    pub fn named(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

/// How urgent a change is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Someone should look.
    Bad,
    /// It is well again, or may go on.
    Good,
    /// Good to know.
    Note,
}

impl Severity {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bad => "bad",
            Self::Good => "good",
            Self::Note => "note",
        }
    }
}

/// The statuses of a site that need someone. Others (`behind`, `busy`, `never`, `unknown`) are what a site passes through.
pub const BAD: [&str; 8] = [
    "conflict",
    "drifted",
    "failed",
    "future-dated",
    "other-content",
    "rejected",
    "reverted",
    "stale",
];

/// The status of an environment whose gates cannot be told, and of a hub that cannot look.
pub const UNREADABLE: &str = "unreadable";
/// The status of what can be told: a change only after [`UNREADABLE`].
pub const READABLE: &str = "readable";

/// One thing as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// What it is.
    pub kind: AlertKind,
    /// What distinguishes it from others of its kind, for ever.
    pub key: String,
    /// What people call it.
    pub subject: String,
    /// Its environment, where it has one.
    pub environment: Option<String>,
    /// One word.
    pub status: String,
    /// A sentence.
    pub message: String,
}

impl Condition {
    /// Its name among all, as it is remembered.
    pub fn name(&self) -> String {
        format!("{}:{}", self.kind.as_str(), self.key)
    }
}

/// What changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// As it is now.
    pub now: Condition,
    /// What it was; empty where it is new.
    pub was: String,
    /// How urgent it is.
    pub severity: Severity,
}

/// What was known at the last look, by name; `None` before the first.
pub type LastSeen = Option<BTreeMap<String, String>>;

/// What changed since `before`, and what is to be known at the next look. At the first look only what needs someone is a change,
/// sites and gates that cannot be told: what people did before alerts were set up is no news.
pub fn changes(before: &LastSeen, now: &[Condition]) -> (Vec<Change>, BTreeMap<String, String>) {
    let mut found = Vec::new();
    let mut known = BTreeMap::new();
    for condition in now {
        let name = condition.name();
        let status = comparable(condition);
        let was = before.as_ref().and_then(|before| before.get(&name));
        let severity = match was {
            Some(was) if *was == status => None,
            _ => severity(condition, &status, was, before.is_none()),
        };
        if let Some(severity) = severity {
            found.push(Change {
                now: Condition {
                    status: shown(condition, &status),
                    ..condition.clone()
                },
                was: was.map_or_else(String::new, |was| shown(condition, was)),
                severity,
            });
        }
        known.insert(name, status);
    }
    (found, known)
}

/// What is compared: of a site, whether it needs someone, and for what.
fn comparable(condition: &Condition) -> String {
    let needs_nobody =
        condition.kind == AlertKind::Site && !BAD.contains(&condition.status.as_str());
    match needs_nobody {
        true => "ok".to_owned(),
        false => condition.status.clone(),
    }
}

/// What people see of a status that is compared: of a refusal, the day is only for comparing.
fn shown(condition: &Condition, status: &str) -> String {
    match condition.kind {
        AlertKind::Refusal => "refused".to_owned(),
        _ => status.to_owned(),
    }
}

fn severity(
    condition: &Condition,
    status: &str,
    was: Option<&String>,
    is_first_look: bool,
) -> Option<Severity> {
    match condition.kind {
        AlertKind::Site if status != "ok" => Some(Severity::Bad),
        AlertKind::Site => was.map(|_| Severity::Good),
        // Until that is mended nothing of it is announced: also at the first look.
        AlertKind::Gate | AlertKind::Hub if status == UNREADABLE => Some(Severity::Bad),
        AlertKind::Gate | AlertKind::Hub if status == READABLE => was.map(|_| Severity::Good),
        _ if is_first_look => None,
        AlertKind::Gate if status == "open" => Some(Severity::Good),
        // A gate for a new commit is closed until sites confirm it: that is no news.
        AlertKind::Gate => was.map(|_| Severity::Bad),
        AlertKind::Refusal => Some(Severity::Bad),
        AlertKind::Request | AlertKind::Act | AlertKind::Hub => Some(Severity::Note),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn one(kind: AlertKind, key: &str, status: &str) -> Condition {
        Condition {
            kind,
            key: key.to_owned(),
            subject: key.to_owned(),
            environment: None,
            status: status.to_owned(),
            message: String::new(),
        }
    }

    fn announced(before: &LastSeen, now: &[Condition]) -> Vec<(String, String, &'static str)> {
        let (found, _) = changes(before, now);
        let one = |change: Change| (change.was, change.now.status, change.severity.as_str());
        found.into_iter().map(one).collect()
    }

    fn after(now: &[Condition]) -> BTreeMap<String, String> {
        changes(&None, now).1
    }

    #[test]
    fn a_site_that_needs_somebody_is_announced_once_and_when_it_is_well_again() {
        let well = [one(AlertKind::Site, "press-7", "busy")];
        assert!(announced(&None, &well).is_empty());
        let stale = [one(AlertKind::Site, "press-7", "stale")];
        let expected =
            |was: &str, status: &str, severity| vec![(was.to_owned(), status.to_owned(), severity)];
        assert_eq!(announced(&None, &stale), expected("", "stale", "bad"));
        assert_eq!(
            announced(&Some(after(&well)), &stale),
            expected("ok", "stale", "bad")
        );
        assert!(announced(&Some(after(&stale)), &stale).is_empty());
        let failed = [one(AlertKind::Site, "press-7", "failed")];
        assert_eq!(
            announced(&Some(after(&stale)), &failed),
            expected("stale", "failed", "bad")
        );
        assert_eq!(
            announced(&Some(after(&failed)), &well),
            expected("failed", "ok", "good")
        );
    }

    #[test]
    fn a_gate_is_announced_when_it_opens_and_when_an_open_one_closes() {
        let (open, closed) = (
            one(AlertKind::Gate, "dev@1", "open"),
            one(AlertKind::Gate, "dev@1", "closed"),
        );
        let looked = Some(BTreeMap::new());
        assert!(announced(&looked, std::slice::from_ref(&closed)).is_empty());
        assert_eq!(announced(&looked, std::slice::from_ref(&open)).len(), 1);
        let was_open = Some(after(std::slice::from_ref(&open)));
        assert_eq!(announced(&was_open, &[closed])[0].2, "bad");
        assert!(
            announced(&None, &[open]).is_empty(),
            "at the first look it is no news"
        );
    }

    #[test]
    fn gates_that_cannot_be_told_are_announced_once_and_when_they_can_be_told_again() {
        let readable = [one(AlertKind::Gate, "dev", READABLE)];
        assert!(announced(&None, &readable).is_empty());
        assert!(announced(&Some(BTreeMap::new()), &readable).is_empty());
        let unreadable = [one(AlertKind::Gate, "dev", UNREADABLE)];
        let expected = [(String::new(), UNREADABLE.to_owned(), "bad")];
        assert_eq!(announced(&None, &unreadable), expected);
        assert_eq!(announced(&Some(BTreeMap::new()), &unreadable), expected);
        assert!(announced(&Some(after(&unreadable)), &unreadable).is_empty());
        let was =
            |status: &str, now: &str, severity| vec![(status.to_owned(), now.to_owned(), severity)];
        assert_eq!(
            announced(&Some(after(&readable)), &unreadable),
            was(READABLE, UNREADABLE, "bad")
        );
        assert_eq!(
            announced(&Some(after(&unreadable)), &readable),
            was(UNREADABLE, READABLE, "good")
        );
    }

    #[test]
    fn a_refusal_that_goes_on_is_announced_once_a_day() {
        let monday = [one(AlertKind::Refusal, "revoked/press-7", "20418")];
        let tuesday = [one(AlertKind::Refusal, "revoked/press-7", "20419")];
        assert!(announced(&Some(after(&monday)), &monday).is_empty());
        let again = announced(&Some(after(&monday)), &tuesday);
        assert_eq!(again, [("refused".to_owned(), "refused".to_owned(), "bad")]);
    }

    proptest! {
        /// Looking twice at the same is no change, and what is remembered does not depend on the order.
        #[test]
        fn the_same_is_no_change(statuses in prop::collection::btree_map("[a-z]{1,3}", "(ok|failed|stale|busy)", 0..8)) {
            let mut now: Vec<Condition> =
                statuses.iter().map(|(key, status)| one(AlertKind::Site, key, status)).collect();
            let (_, known) = changes(&None, &now);
            prop_assert!(changes(&Some(known.clone()), &now).0.is_empty());
            now.reverse();
            prop_assert_eq!(changes(&None, &now).1, known);
        }
    }
}
