//! The rules that ask for checks: per rule, whether the newest outcome that counts has passed and is not too old.
//!
//! What comes in: the question with its rules, and the outcomes on record. What goes out: a [`RuleVerdict`] per rule. The
//! newest outcome of a name decides, so that one that failed closes the gate although an earlier one passed. No outcome, one of
//! someone who is not named, and one that is dated after now close it, too. It reads no clock and no store.

use std::collections::BTreeSet;

use outhaul_bundle::hub_api::{CheckOutcome, CheckRule, RuleVerdict};

use crate::facts::{Act, ActKind, StatedCheck};
use crate::time::{self, HOUR_MS};
use crate::words;
use crate::{Facts, GateQuestion};

/// A verdict for each check that the question asks for.
pub(super) fn asked(question: &GateQuestion, facts: &Facts<'_>) -> Vec<RuleVerdict> {
    let rules = question.rules.checks.iter();
    rules.map(|rule| one(question, facts, rule)).collect()
}

fn one(question: &GateQuestion, facts: &Facts<'_>, rule: &CheckRule) -> RuleVerdict {
    let is_of_it = |act: &&Act| act.chosen.as_deref() == Some(rule.name.as_str());
    let of_it = || of_commit(question, facts).filter(is_of_it);
    let is_named = |act: &&Act| rule.by.is_empty() || rule.by.contains(&act.by);
    let newest = of_it().filter(is_named).max_by_key(|act| act.id);
    let others: BTreeSet<&str> = of_it()
        .filter(|act| !is_named(act))
        .map(|act| act.by.as_str())
        .collect();
    let state = newest.map_or(State::Missing, |act| State::of(question, rule, act));
    let mut found = match newest {
        None => format!("no outcome is on record{}", not_asked_for(question, facts)),
        Some(act) => state.sentence(act),
    };
    if !others.is_empty() {
        found.push_str(&format!("; not counted: outcomes by {}", quoted(&others)));
    }
    let met = state == State::Passed;
    RuleVerdict {
        rule: rule.rule(),
        needs: needs(question.edition, rule),
        met,
        found,
        opens: (!met).then(|| opens(question, rule)),
        evidence: newest.map(evidence).into_iter().collect(),
    }
}

/// The outcomes of all checks of the commit that count.
fn of_commit<'a>(question: &GateQuestion, facts: &Facts<'a>) -> impl Iterator<Item = &'a Act> {
    facts.acts.iter().filter(|act| {
        act.kind == ActKind::Check
            && facts.counts(act)
            && act.environment.as_deref() == Some(question.environment.as_str())
            && act.commit.as_deref() == Some(question.commit.as_str())
    })
}

/// The checks of the commit that have an outcome and that no rule asks for, such as one whose name was mistyped.
fn not_asked_for(question: &GateQuestion, facts: &Facts<'_>) -> String {
    let is_asked = |name: &str| question.rules.checks.iter().any(|rule| rule.name == name);
    let names: BTreeSet<&str> = of_commit(question, facts)
        .filter_map(|act| act.chosen.as_deref())
        .filter(|name| !is_asked(name))
        .collect();
    // What was decided before is recomputed as it was said.
    match names.is_empty() || question.edition < 5 {
        true => String::new(),
        false => format!(
            "; there are outcomes of {}, which no rule asks for",
            quoted(&names)
        ),
    }
}

/// Where the newest outcome stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Missing,
    Failed,
    Passed,
    TooOld,
    AfterNow,
}

impl State {
    fn of(question: &GateQuestion, rule: &CheckRule, act: &Act) -> Self {
        let age_ms = question.now_ms.saturating_sub(act.at_ms);
        let is_old = |hours: u32| age_ms > i64::from(hours) * HOUR_MS;
        match act.stated_check().map(|check| check.outcome) {
            None | Some(CheckOutcome::Failed) => Self::Failed,
            Some(CheckOutcome::Passed) if age_ms < 0 => Self::AfterNow,
            Some(CheckOutcome::Passed) if rule.max_age_hours.is_some_and(is_old) => Self::TooOld,
            Some(CheckOutcome::Passed) => Self::Passed,
        }
    }

    fn sentence(self, act: &Act) -> String {
        let at = time::rfc3339(act.at_ms);
        let text = match self {
            Self::Missing => String::new(),
            Self::Failed => format!("failed at {at}, as {} states", act.by),
            Self::Passed => format!("passed at {at}, as {} states", act.by),
            Self::TooOld => format!("passed at {at}, as {} states, which is too old", act.by),
            Self::AfterNow => format!(
                "passed at {at}, as {} states, which is after now by this hub's clock",
                act.by
            ),
        };
        match act.reason.as_str() {
            "" => text,
            detail => format!("{text}: {detail}"),
        }
    }
}

fn needs(edition: u32, rule: &CheckRule) -> String {
    let within = rule.max_age_hours.map_or_else(String::new, |hours| {
        format!(" in the {}", words::last_hours(edition, i64::from(hours)))
    });
    let by: BTreeSet<&str> = rule.by.iter().map(String::as_str).collect();
    let by = match by.is_empty() {
        true => String::new(),
        false => format!(", as one of {} states", quoted(&by)),
    };
    format!("check `{}` of the commit passed{within}{by}", rule.name)
}

fn opens(question: &GateQuestion, rule: &CheckRule) -> String {
    let by = rule.by.first().map_or("WHO", String::as_str);
    format!(
        "run the check and have its outcome put on record: POST /api/v1/checks, or `outhaul-hub check --environment {} --commit {} --name {} \
         --outcome passed --by {by}`",
        question.environment, question.commit, rule.name
    )
}

fn evidence(act: &Act) -> String {
    let stated = act.stated_check();
    let word = stated.map_or("unknown", |check| check.outcome.as_str());
    let digest = stated
        .and_then(|StatedCheck { digest, .. }| digest)
        .map_or_else(String::new, |digest| format!(" ({digest})"));
    let colon = if act.reason.is_empty() { "" } else { ": " };
    format!(
        "check {} by {}, {}: {word}{digest}{colon}{}",
        act.id,
        act.by,
        time::rfc3339(act.at_ms),
        act.reason
    )
}

fn quoted(names: &BTreeSet<&str>) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests;
