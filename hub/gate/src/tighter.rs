//! The tighter of two sets of rules, rule by rule.
//!
//! What comes in: the rules of a step that are on record, and those that a question brings. What goes out: rules that ask
//! for all that either asks for, and the names of what the question asked less for. Pure; it decides nothing.

use std::collections::BTreeSet;

use outhaul_bundle::hub_api::{
    ApprovalRule, CheckRule, ClosedTime, Day, GateRules, PartRule, PromotionWindow,
};

use crate::DEFAULT_MAX_AGE_HOURS;

/// Rules that ask for all that `recorded` and `asked` ask for, and what `asked` asks less for than `recorded`.
pub fn of(recorded: &GateRules, asked: &GateRules) -> (GateRules, Vec<&'static str>) {
    let mut less = Vec::new();
    let age = |rules: &GateRules| rules.max_age_hours.unwrap_or(DEFAULT_MAX_AGE_HOURS);
    let share = |rules: &GateRules| rules.quorum_percent.unwrap_or(100);
    if age(asked) > age(recorded) {
        less.push("max_age_hours");
    }
    if share(asked) < share(recorded) {
        less.push("quorum_percent");
    }
    if asked.webhook_evidence && !recorded.webhook_evidence {
        less.push("webhook_evidence");
    }
    let rules = GateRules {
        // What is absent is the default, and stays absent where that is the tighter one.
        max_age_hours: match age(asked) <= age(recorded) {
            true => asked.max_age_hours,
            false => recorded.max_age_hours,
        },
        quorum_percent: match share(asked) >= share(recorded) {
            true => asked.quorum_percent,
            false => recorded.quorum_percent,
        },
        min_sites: most(
            (recorded.min_sites, asked.min_sites),
            "min_sites",
            &mut less,
        ),
        soak_hours: most(
            (recorded.soak_hours, asked.soak_hours),
            "soak_hours",
            &mut less,
        ),
        approvals: approvals(recorded, asked, &mut less),
        checks: checks(recorded, asked, &mut less),
        closed: closed(recorded, asked, &mut less),
        windows: windows(recorded, asked, &mut less),
        webhook_evidence: asked.webhook_evidence && recorded.webhook_evidence,
        parts: parts(recorded, asked, &mut less),
    };
    (rules, less)
}

fn most(
    (recorded, asked): (Option<u32>, Option<u32>),
    name: &'static str,
    less: &mut Vec<&'static str>,
) -> Option<u32> {
    if asked < recorded {
        less.push(name);
    }
    asked.max(recorded)
}

fn approvals(
    recorded: &GateRules,
    asked: &GateRules,
    less: &mut Vec<&'static str>,
) -> Option<ApprovalRule> {
    let (Some(known), Some(new)) = (&recorded.approvals, &asked.approvals) else {
        if recorded.approvals.is_some() {
            less.push("approvals");
        }
        return recorded
            .approvals
            .clone()
            .or_else(|| asked.approvals.clone());
    };
    if implies(new, known) {
        return Some(new.clone());
    }
    less.push("approvals");
    Some(both(known, new))
}

/// Whether any `rule.needed` people of `rule.by` are enough for `other`, too.
fn implies(rule: &ApprovalRule, other: &ApprovalRule) -> bool {
    needed_for(other, &rule.by) <= u64::from(rule.needed)
}

/// How many people of `by` it takes so that there are always enough for `rule` among them.
fn needed_for(rule: &ApprovalRule, by: &BTreeSet<String>) -> u64 {
    let others = by.difference(&rule.by).count();
    u64::from(rule.needed).saturating_add(u64::try_from(others).unwrap_or(u64::MAX))
}

/// One rule that asks for all that both ask for. Those count whom both name, where they are enough; else those of one of the two, or of
/// both, and so many of them that each rule is met: of all whom either names there are always enough.
fn both(known: &ApprovalRule, new: &ApprovalRule) -> ApprovalRule {
    let groups = [
        known.by.intersection(&new.by).cloned().collect(),
        new.by.clone(),
        known.by.clone(),
        known.by.union(&new.by).cloned().collect(),
    ];
    let rule = |by: BTreeSet<String>| {
        let needed = needed_for(known, &by).max(needed_for(new, &by));
        let needed = u32::try_from(needed).ok()?;
        let rule = ApprovalRule { needed, by };
        rule.check().is_ok().then_some(rule)
    };
    // More people than a rule may name, or need: those on record, and as many as may be asked for.
    groups
        .into_iter()
        .find_map(rule)
        .unwrap_or_else(|| known.clone())
}

/// Each check once, with the least age and those whose outcomes count for both; where that is nobody, for the one on record.
fn checks(recorded: &GateRules, asked: &GateRules, less: &mut Vec<&'static str>) -> Vec<CheckRule> {
    let age = |rule: &CheckRule| rule.max_age_hours.unwrap_or(u32::MAX);
    let mut all = asked.checks.clone();
    let mut is_less = false;
    for known in &recorded.checks {
        let Some(new) = all.iter_mut().find(|new| new.name == known.name) else {
            is_less = true;
            all.push(known.clone());
            continue;
        };
        let is_wider = !known.by.is_empty() && (new.by.is_empty() || !new.by.is_subset(&known.by));
        is_less |= is_wider || age(new) > age(known);
        if age(new) > age(known) {
            new.max_age_hours = known.max_age_hours;
        }
        if is_wider {
            new.by.retain(|name| known.by.contains(name));
            if new.by.is_empty() {
                new.by.clone_from(&known.by);
            }
        }
    }
    if is_less {
        less.push("checks");
    }
    all
}

fn closed(
    recorded: &GateRules,
    asked: &GateRules,
    less: &mut Vec<&'static str>,
) -> Vec<ClosedTime> {
    let left: Vec<&ClosedTime> = recorded
        .closed
        .iter()
        .filter(|time| !asked.closed.contains(time))
        .collect();
    if !left.is_empty() {
        less.push("closed");
    }
    asked.closed.iter().chain(left).cloned().collect()
}

fn windows(
    recorded: &GateRules,
    asked: &GateRules,
    less: &mut Vec<&'static str>,
) -> Vec<PromotionWindow> {
    let within = |new: &PromotionWindow| is_within(new, &recorded.windows);
    if recorded.windows.is_empty()
        || (!asked.windows.is_empty() && asked.windows.iter().all(within))
    {
        return asked.windows.clone();
    }
    less.push("windows");
    let both = recorded.windows.iter().flat_map(|known| {
        let common = |new| in_both(known, new);
        asked.windows.iter().filter_map(common)
    });
    let both: Vec<PromotionWindow> = both.collect();
    // Without a common time those on record count: an empty list would be no rule at all.
    let rules = GateRules {
        windows: both,
        ..GateRules::default()
    };
    match rules.windows.is_empty() || rules.check().is_err() {
        true => recorded.windows.clone(),
        false => rules.windows,
    }
}

/// The time that both have; `None` where there is none.
fn in_both(one: &PromotionWindow, other: &PromotionWindow) -> Option<PromotionWindow> {
    let (first, second) = (one.minutes().ok()?, other.minutes().ok()?);
    let days = match (one.days.is_empty(), other.days.is_empty()) {
        (true, _) => other.days.clone(),
        (_, true) => one.days.clone(),
        _ => one.days.intersection(&other.days).copied().collect(),
    };
    let is_no_day = days.is_empty() && !(one.days.is_empty() && other.days.is_empty());
    if is_no_day || first.0.max(second.0) >= first.1.min(second.1) {
        return None;
    }
    let later = if first.0 >= second.0 { one } else { other };
    let earlier = if first.1 <= second.1 { one } else { other };
    Some(PromotionWindow {
        days,
        from: later.from.clone(),
        until: earlier.until.clone(),
    })
}

/// Whether all of its time is in these together, such as in two that adjoin.
fn is_within(new: &PromotionWindow, known: &[PromotionWindow]) -> bool {
    let Ok((from, until)) = new.minutes() else {
        return false;
    };
    let holds =
        |window: &PromotionWindow, day: &Day| window.days.is_empty() || window.days.contains(day);
    Day::ALL.iter().filter(|day| holds(new, day)).all(|day| {
        let of_day = known.iter().filter(|window| holds(window, day));
        let mut spans: Vec<_> = of_day.filter_map(|window| window.minutes().ok()).collect();
        spans.sort_unstable();
        let covered = spans.iter().fold(from, |at, span| match span.0 <= at {
            true => at.max(span.1),
            false => at,
        });
        covered >= until
    })
}

fn parts(recorded: &GateRules, asked: &GateRules, less: &mut Vec<&'static str>) -> Vec<PartRule> {
    let covers = |known: &PartRule, new: &PartRule| {
        (&new.cluster_type, &new.workload) == (&known.cluster_type, &known.workload)
            && new.quorum_percent.unwrap_or(100) >= known.quorum_percent.unwrap_or(100)
            && new.min_sites >= known.min_sites
            && new.soak_hours >= known.soak_hours
    };
    let left: Vec<&PartRule> = recorded
        .parts
        .iter()
        .filter(|known| !asked.parts.iter().any(|new| covers(known, new)))
        .collect();
    if !left.is_empty() {
        less.push("parts");
    }
    asked.parts.iter().chain(left).cloned().collect()
}

/// What a caller is answered that asks with looser rules than those on record, with the command of a person at the hub. `to` is the
/// environment that the step leads to, where it was named.
pub fn looser(less: &[&str], environment: &str, commit: &str, to: Option<&str>) -> Option<String> {
    if less.is_empty() {
        return None;
    }
    Some(format!(
        "these rules of the question ask for less than those on record, which count: {}; a person at the hub makes them looser with {}",
        less.join(", "),
        command(environment, commit, to, "FILE")
    ))
}

/// The command that puts other rules on record, also looser ones. `rules` is what follows `--rules`.
pub fn command(environment: &str, commit: &str, to: Option<&str>, rules: &str) -> String {
    let to = to.map_or_else(String::new, |to| format!(" --to {to}"));
    format!(
        "`outhaul-hub gate --environment {environment} --commit {commit}{to} --rules {rules} --record --by NAME --reason TEXT`"
    )
}

/// The command that removes the rules of a step from the record; without `to` those of each step.
pub fn removal(environment: &str, to: Option<&str>) -> String {
    let to = to.map_or_else(String::new, |to| format!(" --to {to}"));
    format!(
        "`outhaul-hub gate --environment {environment}{to} --remove-rules --by NAME --reason TEXT`"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn approved(needed: u32, by: &[&str]) -> ApprovalRule {
        ApprovalRule {
            needed,
            by: by.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    fn check(max_age_hours: Option<u32>, by: &[&str]) -> CheckRule {
        CheckRule {
            name: "scan".into(),
            max_age_hours,
            by: by.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    #[test]
    fn approvals_of_two_rules_are_as_many_as_each_of_them_needs() {
        for (known, new, counts) in [
            // The larger number of one, the fewer people of the other.
            ((2, "ann bob cid"), (3, "ann bob cid"), (3, "ann bob cid")),
            (
                (2, "ann bob cid"),
                (3, "ann bob cid dan"),
                (3, "ann bob cid dan"),
            ),
            ((2, "ann bob cid"), (2, "ann bob eve"), (2, "ann bob")),
            (
                (3, "ann bob cid dan"),
                (2, "ann bob"),
                (4, "ann bob cid dan"),
            ),
            ((2, "ann bob"), (3, "ann bob cid"), (3, "ann bob cid")),
            ((1, "ann bob"), (1, "ann eve"), (1, "ann")),
            ((1, "ann"), (1, "eve"), (2, "ann eve")),
            ((2, "ann bob"), (2, "bob eve"), (3, "ann bob eve")),
        ] {
            let rule = |(needed, by): (u32, &str)| {
                let by: Vec<&str> = by.split(' ').collect();
                approved(needed, &by)
            };
            let rules = |rule: ApprovalRule| GateRules {
                approvals: Some(rule),
                ..GateRules::default()
            };
            let (known, new, counts) = (rule(known), rule(new), rule(counts));
            counts.check().unwrap();
            assert!(implies(&counts, &known) && implies(&counts, &new));
            let (found, _) = of(&rules(known.clone()), &rules(new.clone()));
            assert_eq!(found.approvals, Some(counts), "{known:?} {new:?}");
        }
    }

    #[test]
    fn windows_of_two_rules_are_the_times_that_both_have() {
        let window = |days: &[Day], from: &str, until: &str| PromotionWindow {
            days: days.iter().copied().collect(),
            from: from.into(),
            until: until.into(),
        };
        let rules = |windows: Vec<PromotionWindow>| GateRules {
            windows,
            ..GateRules::default()
        };
        let recorded = rules(vec![window(&[Day::Mon, Day::Tue], "08:00", "17:00")]);
        let asked = rules(vec![
            window(&[], "09:00", "12:00"),
            window(&[Day::Tue, Day::Sat], "16:00", "20:00"),
        ]);
        let both = vec![
            window(&[Day::Mon, Day::Tue], "09:00", "12:00"),
            window(&[Day::Tue], "16:00", "17:00"),
        ];
        let (found, less) = of(&recorded, &asked);
        assert_eq!((found.windows, less), (both, vec!["windows"]));
        let adjoining = rules(vec![
            window(&[], "08:00", "12:00"),
            window(&[Day::Mon], "12:00", "17:00"),
        ]);
        for (day, less) in [(Day::Mon, vec![]), (Day::Tue, vec!["windows"])] {
            let asked = rules(vec![window(&[day], "10:00", "14:00")]);
            let (found, said) = of(&adjoining, &asked);
            assert_eq!(said, less, "{day:?}");
            assert_eq!(found.windows == asked.windows, day == Day::Mon);
        }
        let never = rules(vec![window(&[Day::Sun], "08:00", "17:00")]);
        assert_eq!(of(&recorded, &never).0.windows, recorded.windows);
    }

    #[test]
    fn each_rule_is_the_tighter_one_and_what_asks_for_less_is_named() {
        let recorded = GateRules {
            max_age_hours: Some(24),
            quorum_percent: Some(80),
            checks: vec![check(Some(24), &["ci", "ann"])],
            min_sites: Some(3),
            soak_hours: Some(12),
            approvals: Some(approved(2, &["ann", "bob", "cid"])),
            windows: vec![PromotionWindow {
                days: [].into(),
                from: "08:00".into(),
                until: "17:00".into(),
            }],
            ..GateRules::default()
        };
        let (rules, less) = of(&recorded, &GateRules::default());
        assert_eq!(rules.quorum_percent, None, "the default is all of them");
        let kept = GateRules {
            quorum_percent: Some(80),
            ..rules
        };
        assert_eq!(kept, recorded);
        assert_eq!(
            less,
            [
                "max_age_hours",
                "min_sites",
                "soak_hours",
                "approvals",
                "checks",
                "windows"
            ]
        );
        let tighter = GateRules {
            max_age_hours: Some(12),
            quorum_percent: Some(100),
            soak_hours: Some(24),
            approvals: Some(approved(2, &["ann", "bob"])),
            checks: vec![check(Some(1), &["ci"])],
            windows: vec![PromotionWindow {
                days: [].into(),
                from: "09:00".into(),
                until: "12:00".into(),
            }],
            ..recorded.clone()
        };
        assert_eq!(of(&recorded, &tighter), (tighter.clone(), vec![]));
        assert_eq!(of(&recorded, &recorded), (recorded.clone(), vec![]));
        assert_eq!(of(&tighter, &recorded).0, tighter);
        for (looser, counts) in [
            (check(None, &["ci"]), check(Some(24), &["ci"])),
            (check(Some(1), &[]), check(Some(1), &["ci", "ann"])),
            (check(Some(1), &["eve"]), check(Some(1), &["ci", "ann"])),
            (check(Some(1), &["ci", "eve"]), check(Some(1), &["ci"])),
        ] {
            let asked = GateRules {
                checks: vec![looser],
                ..recorded.clone()
            };
            let (rules, less) = of(&recorded, &asked);
            assert_eq!((rules.checks, less), (vec![counts], vec!["checks"]));
        }
    }
}
