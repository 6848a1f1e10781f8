//! A decision on record that is dated after the hub's clock: the clock was put back, or was ahead then.
//!
//! What comes in: decisions on record, and what people said of the clock. What goes out: the latest decision that is dated after now, and
//! the closed decision that follows. Every term of a gate is counted by the clock (waivers, windows, how old a report may be): one that was
//! put back would open again what had ended. Numbers say in which order decisions were made, so that who has the record comes to
//! the same. It reads no clock and sets none.

use outhaul_bundle::hub_api::{Decision, GateVerdict, RuleVerdict};

use crate::GateQuestion;
use crate::facts::{Act, ActKind};
use crate::time;

/// How far the clocks of machines that use one database may be apart.
pub const APART_MS: i64 = 5 * 60 * 1000;

/// A decision that is dated after now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaterDecision {
    /// Its number.
    pub id: i64,
    /// Its time, milliseconds since 1970.
    pub at_ms: i64,
}

/// The number up to which the times of decisions do not count, by what people said of the clock until now; 0 where nobody did. What was
/// said may be dated after now by as much as clocks may be apart: one that was corrected by some seconds after a person looked at it,
/// or that of another machine which uses the database, is the clock that was meant. Further ahead it was put back behind that as well.
/// Until edition 3 it had to be dated until now.
pub fn from<'a>(acts: impl Iterator<Item = &'a Act>, now_ms: i64, edition: u32) -> i64 {
    let is_by_now = |act: &&Act| match edition {
        ..=3 => act.at_ms <= now_ms,
        _ => !is_later(act.at_ms, now_ms),
    };
    let said = acts
        .filter(|act| act.kind == ActKind::Clock)
        .filter(is_by_now);
    let numbers = said.filter_map(|act| act.chosen.as_ref()?.parse().ok());
    numbers.max().unwrap_or(0)
}

/// The latest of the decisions above number `from` that is dated after now; of several of one time, the first.
pub fn found(
    decisions: impl Iterator<Item = LaterDecision>,
    from: i64,
    now_ms: i64,
) -> Option<LaterDecision> {
    decisions
        .filter(|one| one.id > from && is_later(one.at_ms, now_ms))
        .max_by_key(|one| (one.at_ms, std::cmp::Reverse(one.id)))
}

/// Whether a time on record lies after now, by more than clocks may be apart.
pub fn is_later(at_ms: i64, now_ms: i64) -> bool {
    at_ms > now_ms.saturating_add(APART_MS)
}

/// The decision of a gate whose hub cannot read all of its record. Nothing of what can be read is evidence.
pub fn damaged(question: &GateQuestion) -> Decision {
    let found = "the hub's database is damaged".to_owned();
    let opens = "bring the hub back from a backup (`outhaul-hub restore FILE`)".to_owned();
    closed_by(
        question,
        STORE,
        "a database that can be read",
        (found, opens),
    )
}

/// The decision of a gate whose time is not to be trusted. Nothing else is looked at: it would be as of a time that was before.
pub(crate) fn closed(question: &GateQuestion, later: LaterDecision) -> Decision {
    let (now, then) = (time::rfc3339(question.now_ms), time::rfc3339(later.at_ms));
    let found = format!(
        "the clock shows {now}, and decision {} on record is of {then}",
        later.id
    );
    let opens = format!(
        "put the clock of the hub's machine right; where it was ahead when decision {} was made and is right now, a person at the hub puts that \
         on record with `outhaul-hub clock`",
        later.id
    );
    let needs = "the hub's clock is not before a decision on record";
    closed_by(question, CLOCK, needs, (found, opens))
}

/// The rule of a gate that is closed for its hub's clock or database: no site was looked at, so that none is counted.
const WITHOUT_SITES: [(&str, &str); 2] =
    [(CLOCK, "the hub's clock"), (STORE, "the hub's database")];
const CLOCK: &str = "clock";
const STORE: &str = "store";

/// What kept a gate from looking at sites, where something did: `the hub's clock`. `first` is the first of its rules; such a decision has
/// no other, and counts no site.
pub fn instead_of_sites(first: Option<&str>) -> Option<&'static str> {
    let found = WITHOUT_SITES.iter().find(|(name, _)| Some(*name) == first);
    found.map(|(_, what)| *what)
}

/// How many sites confirm, in a sentence's part: `1 of 2 sites confirm`.
pub fn count_of(decision: &Decision) -> String {
    let first = decision.rules.first().map(|rule| rule.rule.as_str());
    match instead_of_sites(first) {
        Some(what) => format!("no site was counted, because of {what}"),
        None => format!(
            "{} of {} sites confirm",
            decision.confirmed, decision.counted
        ),
    }
}

/// A closed decision for one reason, without a look at any site.
fn closed_by(
    question: &GateQuestion,
    rule: &str,
    needs: &str,
    (found, opens): (String, String),
) -> Decision {
    Decision {
        verdict: GateVerdict::Closed,
        environment: question.environment.clone(),
        commit: question.commit.clone(),
        decided_at: time::rfc3339(question.now_ms),
        edition: question.edition,
        restored: None,
        max_age_hours: question.max_age_ms() / time::HOUR_MS,
        quorum_percent: question.quorum_percent(),
        to: question.to.clone(),
        reasons: vec![format!("{rule}: {found}; {opens}")],
        rules: vec![RuleVerdict {
            rule: rule.to_owned(),
            needs: needs.to_owned(),
            met: false,
            found,
            opens: Some(opens),
            evidence: Vec::new(),
        }],
        counted: 0,
        confirmed: 0,
        notes: Vec::new(),
        sites: Vec::new(),
        evidence: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_800_000_000_000;

    #[test]
    fn the_latest_decision_after_now_is_found_and_none_up_to_the_number_that_a_person_named() {
        let all = [
            (3, NOW + APART_MS),
            (4, NOW + 2 * time::DAY_MS),
            (5, NOW + 2 * time::DAY_MS),
            (6, NOW - 1),
        ];
        let all = || {
            all.into_iter()
                .map(|(id, at_ms)| LaterDecision { id, at_ms })
        };
        assert_eq!(found(all(), 0, NOW).map(|one| one.id), Some(4));
        assert_eq!(found(all(), 4, NOW).map(|one| one.id), Some(5));
        assert_eq!(found(all(), 5, NOW), None);
        assert_eq!(found(all(), 0, NOW - 1).map(|one| one.id), Some(4));
        let said = |at_ms| Act {
            chosen: Some("5".to_owned()),
            ..Act::new(ActKind::Clock, "ann", "the battery was empty", at_ms)
        };
        let from = |edition, act: &Act, now_ms| from([act].into_iter(), now_ms, edition);
        // The clock was put back behind it as well: by anything until edition 3, and by more than clocks may be apart since.
        for (edition, now_ms, number) in [
            (3, NOW, 5),
            (3, NOW - 1, 0),
            (4, NOW, 5),
            (4, NOW - 50_000, 5),
            (4, NOW - APART_MS, 5),
            (4, NOW - APART_MS - 1, 0),
        ] {
            let found = from(edition, &said(NOW), now_ms);
            assert_eq!(
                found,
                number,
                "edition {edition}, {} ms before",
                NOW - now_ms
            );
        }
        let other = Act {
            kind: ActKind::Choose,
            ..said(NOW)
        };
        assert_eq!(from(4, &other, NOW), 0);
    }
}
