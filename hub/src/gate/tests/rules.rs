//! Each rule of a gate closes it until it is met, says what would open it, and opens nothing by itself.

use std::collections::BTreeSet;

use outhaul_bundle::hub_api::{
    ApprovalRule, CheckRule, ClosedTime, Day, PartRule, PromotionWindow, RuleVerdict,
};
use proptest::prelude::*;

use super::*;

/// The verdict of one rule, which is the only one that may be unmet.
#[track_caller]
fn one(decision: &Decision, rule: &str) -> RuleVerdict {
    let unmet: Vec<_> = decision.rules.iter().filter(|rule| !rule.met).collect();
    let open = decision.verdict == GateVerdict::Open;
    assert_eq!(unmet.is_empty(), open, "{decision:#?}");
    assert!(
        unmet
            .iter()
            .all(|unmet| unmet.rule == rule && unmet.opens.is_some()),
        "{unmet:?}"
    );
    let found = decision.rules.iter().find(|one| one.rule == rule);
    found.unwrap().clone()
}

fn two() -> World {
    World::new().with([well("a", 2), well("b", 3)])
}

#[test]
fn a_count_of_sites_is_needed_and_waivers_do_not_count() {
    let rules = |least| GateRules {
        min_sites: Some(least),
        ..GateRules::default()
    };
    assert!(one(&two().ask_with(NEW, rules(2)), "min-sites").met);
    assert!(!one(&two().ask_with(NEW, rules(3)), "min-sites").met);
    let waived = two().with([silent("c")]).waive("c", NOW + 1);
    assert!(!one(&waived.ask_with(NEW, rules(3)), "min-sites").met);
}

#[test]
fn sites_must_have_confirmed_for_long_enough() {
    let rules = GateRules {
        soak_hours: Some(24),
        ..GateRules::default()
    };
    let mut world = two();
    let found = one(&world.ask_with(NEW, rules.clone()), "soak");
    assert!(!found.met, "nothing is known of since when");
    let since = |age_ms| BTreeMap::from([("a".to_owned(), 0), ("b".to_owned(), NOW - age_ms)]);
    world.well_since = since(24 * HOUR_MS - 1);
    let found = one(&world.ask_with(NEW, rules.clone()), "soak");
    let at = time::rfc3339(NOW + 1);
    assert!(!found.met && found.opens.unwrap().contains(&at));
    world.well_since = since(24 * HOUR_MS);
    assert!(one(&world.ask_with(NEW, rules.clone()), "soak").met);
    // The share that must confirm must have confirmed for so long.
    world.well_since = since(0);
    let half = GateRules {
        quorum_percent: Some(50),
        ..rules
    };
    assert!(one(&world.ask_with(NEW, half), "soak").met);
}

fn approve(world: World, by: &str, commit: &str, until_ms: Option<i64>) -> World {
    let mut world = world;
    world.acts.push(Act {
        id: 1 + i64::try_from(world.acts.len()).unwrap(),
        environment: Some("dev".into()),
        commit: Some(commit.into()),
        until_ms,
        ..Act::new(ActKind::Approve, by, "looked at it", 0)
    });
    world
}

#[test]
fn so_many_of_the_people_named_must_approve_this_very_commit() {
    let rules = GateRules {
        approvals: Some(ApprovalRule {
            needed: 2,
            by: ["ann", "bob", "cid"].map(str::to_owned).into(),
        }),
        ..GateRules::default()
    };
    let ask = |world: &World| one(&world.ask_with(NEW, rules.clone()), "approvals");
    let found = ask(&two());
    assert!(!found.met);
    assert!(found.opens.unwrap().contains(&format!("--commit {NEW}")));
    // Twice the same person, someone else, another commit, one that ended: one approval counts.
    let mut world = approve(two(), "ann", NEW, None);
    for (by, commit, until_ms) in [
        ("ann", NEW, None),
        ("eve", NEW, None),
        ("bob", OLD, None),
        ("cid", NEW, Some(NOW)),
    ] {
        world = approve(world, by, commit, until_ms);
        let found = ask(&world);
        assert!(!found.met, "{by}: {found:?}");
    }
    let found = ask(&world);
    assert!(found.found.contains("not on the list: `eve`"), "{found:?}");
    let found = ask(&approve(world, "bob", NEW, Some(NOW + 1)));
    assert!(found.met);
    assert!(
        found.evidence.iter().any(|one| one.contains("by bob")),
        "{found:?}"
    );
}

#[test]
fn closed_times_and_windows_close_and_say_when_they_open() {
    let day = |at_ms: i64| time::rfc3339(at_ms);
    let closed = |from, until| GateRules {
        closed: vec![ClosedTime {
            from: day(from),
            until: day(until),
            reason: "stocktaking".into(),
        }],
        ..GateRules::default()
    };
    let found = one(
        &two().ask_with(NEW, closed(NOW, NOW + HOUR_MS)),
        "closed-times",
    );
    assert!(!found.met && found.found.contains("stocktaking"));
    assert!(found.opens.unwrap().contains(&day(NOW + HOUR_MS)));
    assert!(
        one(
            &two().ask_with(NEW, closed(NOW - HOUR_MS, NOW)),
            "closed-times"
        )
        .met
    );
    // 1,000 hours after 1970 began it was a Wednesday, 16:00.
    let window = |days: &[Day], from: &str, until: &str| GateRules {
        windows: vec![PromotionWindow {
            days: days.iter().copied().collect::<BTreeSet<_>>(),
            from: from.into(),
            until: until.into(),
        }],
        ..GateRules::default()
    };
    assert!(
        one(
            &two().ask_with(NEW, window(&[Day::Wed], "16:00", "17:00")),
            "windows"
        )
        .met
    );
    let found = one(
        &two().ask_with(NEW, window(&[Day::Thu], "08:00", "09:00")),
        "windows",
    );
    assert!(!found.met && found.opens.unwrap().contains(&day(NOW + 16 * HOUR_MS)));
    // What cannot be read is not an open time.
    let unreadable = two().ask_with(NEW, window(&[], "8", "9"));
    assert_eq!(unreadable.verdict, GateVerdict::Closed);
}

#[test]
fn a_part_of_the_sites_has_rules_of_its_own() {
    let part = |part: PartRule| GateRules {
        quorum_percent: Some(50),
        parts: vec![part],
        ..GateRules::default()
    };
    let of_type = |name: &str| PartRule {
        cluster_type: Some(name.into()),
        ..PartRule::default()
    };
    let mut ring = well("ring", 1);
    ring.cluster_type = "ring-0".into();
    let world = two().with([ring]);
    assert!(one(&world.ask_with(NEW, part(of_type("drone"))), "part").met);
    let found = one(&world.ask_with(NEW, part(of_type("ring-0"))), "part");
    assert!(!found.met && found.found.contains("`ring` (behind)"));
    let nobody = one(&world.ask_with(NEW, part(of_type("moon"))), "part");
    assert!(!nobody.met, "a part without sites proves nothing");
    let of_workload = PartRule {
        workload: Some("nothing".into()),
        ..PartRule::default()
    };
    let unknown = two().ask_with(NEW, part(of_workload.clone()));
    let unknown = one(&unknown, "part");
    assert!(!unknown.met);
    assert_eq!(unknown.found, "no site that counts runs workload `nothing`");
    let opens =
        "no site of `dev` runs workload `nothing`: correct the part in the promotion policy";
    assert_eq!(unknown.opens.as_deref(), Some(opens));
    // Decisions of before are recomputed as they were said.
    let mut before = two();
    before.edition = Some(4);
    let before = before.ask_with(NEW, part(of_workload));
    let before = one(&before, "part");
    assert_eq!(before.found, "no site that counts is of workload `nothing`");
    assert!(
        before
            .opens
            .as_deref()
            .unwrap()
            .starts_with("import the missing reports")
    );
}

#[test]
fn a_deferral_goes_over_what_is_missing_until_its_deadline_and_then_closes_at_any_share() {
    let defer = |world: World, site, until_ms| world.excuse(ActKind::Defer, site, until_ms);
    let world = two().with([silent("late")]);
    let decision = defer(world.clone(), "late", NOW + 1).open();
    assert_eq!(decision.counted, 2);
    assert!(decision.notes[0].contains("deferred until"), "{decision:?}");
    let over = defer(world.clone(), "late", NOW).ask(NEW, 50);
    assert_eq!(over.verdict, GateVerdict::Closed);
    assert!(over.reasons[0].starts_with("overdue: "), "{over:?}");
    // A later deferral replaces the earlier one; a site that confirms is not late.
    let later = defer(defer(world.clone(), "late", NOW), "late", NOW + 1);
    later.open();
    defer(two(), "a", NOW).open();
    // A failure is not something that comes later.
    let failed = two().with([status("bad", "failed")]);
    defer(failed, "bad", NOW + 1).closed("failed");
    defer(World::new().with([silent("late")]), "late", NOW + 1).closed("all-waived");
}

/// Edition 1 counted a waived site that confirmed: its decisions come out as they were.
#[test]
fn a_waived_site_never_counts_though_it_confirms() {
    let waived = two().waive("b", NOW + 1);
    let decision = waived.open();
    assert_eq!((decision.confirmed, decision.counted), (1, 1));
    assert_eq!(decision.sites[1].standing, SiteStatus::Waived);
    let of = |decision: &Decision| -> Vec<String> {
        let sites = decision.evidence.iter().map(|one| one.site.clone());
        sites.collect()
    };
    assert_eq!(of(&decision), ["a"]);
    let least = |count| GateRules {
        min_sites: Some(count),
        ..GateRules::default()
    };
    assert!(!one(&waived.ask_with(NEW, least(2)), "min-sites").met);
    // A share of two sites of which one is waived: the waived one neither adds nor takes away.
    let half = World::new().with([well("a", 3), well("b", 3), silent("c")]);
    assert_eq!(half.ask(NEW, 60).verdict, Open);
    assert_eq!(half.waive("b", NOW + 1).ask(NEW, 60).verdict, Closed);
    waived.clone().waive("a", NOW + 1).closed("all-waived");
    let before = World {
        edition: Some(1),
        ..waived
    };
    let decision = before.ask_with(NEW, least(2));
    assert_eq!((decision.verdict, decision.confirmed), (Open, 2));
    assert_eq!(
        (decision.edition, of(&decision)),
        (1, vec!["a".to_owned(), "b".to_owned()])
    );
}

fn met(decision: &Decision, rule: &str) -> bool {
    let found = decision.rules.iter().find(|one| one.rule == rule);
    found.unwrap().met
}

#[test]
fn without_a_bundle_of_the_commit_its_rule_is_not_met_also_without_a_site() {
    let nobody = World::new();
    assert!(met(&nobody.ask(NEW, 100), "commit"));
    let other = "9999999999999999999999999999999999999999";
    for world in [nobody.clone(), nobody.clone().with([well("a", 3)])] {
        let decision = world.ask(other, 100);
        assert_eq!(decision.verdict, Closed);
        assert!(!met(&decision, "commit"));
        assert!(
            decision
                .reasons
                .iter()
                .any(|reason| reason.starts_with("unknown-commit: "))
        );
    }
    let before = World {
        edition: Some(1),
        ..nobody
    };
    assert!(met(&before.ask(other, 100), "commit"));
}

/// Two machines with one key: neither counts, and no share of other sites goes over it.
#[test]
fn a_conflict_closes_at_any_share_until_somebody_chose() {
    let mut world = two();
    world.sites[1].conflict = Some(Conflict {
        epoch: "e1".into(),
        number: 7,
        digest: digest(90),
        on_record: digest(91),
        reason: "report 7 is on record with other content".into(),
        via: "stick".into(),
        received_ms: NOW,
    });
    let decision = world.closed("conflict");
    assert!(decision.reasons[0].contains("outhaul-hub choose b --digest "));
    assert_eq!(world.ask(NEW, 50).verdict, Closed);
    world.waive("b", NOW + 1).open();
}

#[test]
fn after_a_restore_nothing_from_before_counts() {
    let restored = |at_ms, backup_ms| World {
        restored: Some(Restored { at_ms, backup_ms }),
        ..two()
    };
    // Both reported an hour ago.
    restored(NOW - 2 * HOUR_MS, NOW - 3 * HOUR_MS).open();
    let decision = restored(NOW, NOW).closed("before-restore");
    assert!(decision.restored.is_some());
    assert!(
        decision
            .notes
            .iter()
            .any(|note| note.starts_with("restored: "))
    );
    // Received after it, and made before the backup: an old stick.
    restored(NOW - 2 * HOUR_MS, NOW).closed("before-restore");
    let mut excused = restored(NOW - 2 * HOUR_MS, NOW - 3 * HOUR_MS).with([silent("c")]);
    for kind in [ActKind::Waive, ActKind::Defer] {
        excused.acts.clear();
        excused
            .clone()
            .excuse(kind, "c", NOW + 1)
            .closed("never-reported");
        let mut again = excused.clone().excuse(kind, "c", NOW + 1);
        again.acts[0].at_ms = NOW - HOUR_MS;
        again.open();
    }
    // A deadline that passed before the loss is still over.
    excused
        .excuse(ActKind::Defer, "c", NOW - 1)
        .closed("overdue");
    let rules = GateRules {
        approvals: Some(ApprovalRule {
            needed: 1,
            by: BTreeSet::from(["ann".to_owned()]),
        }),
        ..GateRules::default()
    };
    let approved = approve(
        restored(NOW - 2 * HOUR_MS, NOW - 3 * HOUR_MS),
        "ann",
        NEW,
        None,
    );
    assert_eq!(approved.ask_with(NEW, rules.clone()).verdict, Closed);
    let never = World {
        restored: None,
        ..approved
    };
    assert_eq!(never.ask_with(NEW, rules).verdict, Open);
}

#[test]
fn a_waiver_lets_one_site_be_missed_until_it_ends() {
    let world = World::new().with([well("a", 2), silent("b")]);
    let decision = world.clone().waive("b", NOW + 1).open();
    assert_eq!((decision.counted, decision.notes.len()), (1, 1));
    assert!(
        decision.notes[0].contains("alice (in dock)"),
        "{:?}",
        decision.notes
    );
    world.clone().waive("b", NOW).closed("never-reported");
    World::new()
        .with([silent("b")])
        .waive("b", NOW + 1)
        .closed("all-waived");
}

#[test]
fn a_quorum_goes_without_the_silent_but_not_over_the_failed() {
    let world = World::new().with([well("a", 2), well("b", 2), well("c", 2), silent("d")]);
    assert_eq!(world.ask(NEW, 76).verdict, GateVerdict::Closed);
    let decision = world.ask(NEW, 75);
    assert_eq!(
        (decision.verdict, decision.notes.len()),
        (GateVerdict::Open, 1)
    );
    let failed = world.with([status("e", "failed")]);
    assert_eq!(failed.ask(NEW, 1).verdict, GateVerdict::Closed);
}

fn any_rules() -> impl Strategy<Value = GateRules> {
    let numbers = (
        proptest::option::of(1..100u8),
        proptest::option::of(0..5u32),
        proptest::option::of(0..50u32),
        proptest::option::of(0..3u32),
        any::<bool>(),
        any::<bool>(),
    );
    numbers.prop_map(
        |(quorum_percent, min_sites, soak_hours, needed, window, check)| GateRules {
            checks: Vec::from_iter(check.then(|| CheckRule {
                name: "scan".into(),
                max_age_hours: None,
                by: BTreeSet::new(),
            })),
            quorum_percent,
            min_sites,
            soak_hours,
            approvals: needed.map(|needed| ApprovalRule {
                needed,
                by: ["alice"].map(str::to_owned).into(),
            }),
            windows: Vec::from_iter(window.then(|| PromotionWindow {
                days: BTreeSet::new(),
                from: "00:00".into(),
                until: "12:00".into(),
            })),
            ..GateRules::default()
        },
    )
}

proptest! {
    /// No rule opens a gate that is closed without it.
    #[test]
    fn a_rule_only_closes(rules in any_rules(), well_at in 1..4u64, missing in any::<bool>()) {
        let mut world = World::new().with([well("a", well_at), well("b", 2)]);
        if missing {
            world = world.with([silent("c")]);
        }
        let share = rules.quorum_percent;
        let plain = world.ask(NEW, share.unwrap_or(100)).verdict;
        let ruled = world.ask_with(NEW, rules).verdict;
        prop_assert!(plain == GateVerdict::Open || ruled == GateVerdict::Closed);
    }
}
