//! The newest outcome of a check decides, whoever stated it in time; anything else closes the gate.

use std::collections::BTreeMap;

use outhaul_bundle::hub_api::{CheckRequest, GateRules};

use super::*;
use crate::EDITION;
use crate::facts::Restored;

const NOW: i64 = 1_000 * HOUR_MS;

fn question() -> GateQuestion {
    GateQuestion {
        acts: None,
        environment: "dev".into(),
        commit: "c1".into(),
        to: None,
        now_ms: NOW,
        rules: GateRules {
            checks: vec![CheckRule {
                name: "scan".into(),
                max_age_hours: Some(24),
                by: ["ci".to_owned()].into(),
            }],
            ..GateRules::default()
        },
        edition: EDITION,
    }
}

fn stated(id: i64, outcome: CheckOutcome, by: &str, at_ms: i64) -> Act {
    let sent = CheckRequest {
        environment: "dev".into(),
        commit: "c1".into(),
        name: "scan".into(),
        outcome,
        detail: "report 7".into(),
        digest: Some("sha256:aa".into()),
    };
    Act {
        id,
        ..Act::of_check(&sent, by, at_ms)
    }
}

fn asked_with(acts: &[Act], restored: Option<Restored>) -> RuleVerdict {
    let (wanted, well_since) = (BTreeMap::new(), BTreeMap::new());
    let facts = Facts {
        sites: &[],
        bundles: &[],
        wanted: &wanted,
        acts,
        well_since: &well_since,
        restored,
        later: None,
    };
    let mut found = asked(&question(), &facts);
    assert_eq!(found.len(), 1);
    found.remove(0)
}

fn ask(acts: &[Act]) -> RuleVerdict {
    asked_with(acts, None)
}

use CheckOutcome::{Failed, Passed};

#[test]
fn it_is_closed_until_the_check_passed_and_shows_what_it_rests_on() {
    let none = ask(&[]);
    assert!(!none.met && none.evidence.is_empty());
    let opens = none.opens.unwrap();
    assert!(opens.contains("outhaul-hub check --environment dev --commit c1 --name scan"));
    let passed = ask(&[stated(3, Passed, "ci", NOW)]);
    assert!(passed.met && passed.opens.is_none(), "{passed:?}");
    assert_eq!(passed.rule, "check:scan");
    assert!(passed.evidence[0].starts_with("check 3 by ci, "));
    assert!(passed.evidence[0].ends_with("passed (sha256:aa): report 7"));
}

#[test]
fn an_outcome_under_a_mistyped_name_is_named_where_the_right_one_is_missing() {
    let mistyped = Act {
        chosen: Some("scna".to_owned()),
        ..stated(1, Passed, "ci", NOW)
    };
    let found = ask(std::slice::from_ref(&mistyped));
    let says = "no outcome is on record; there are outcomes of `scna`, which no rule asks for";
    assert_eq!((found.met, found.found.as_str()), (false, says));
    let of_another = Act {
        commit: Some("c2".to_owned()),
        ..mistyped
    };
    assert_eq!(ask(&[of_another]).found, "no outcome is on record");
}

#[test]
fn the_newest_outcome_decides_whichever_it_is() {
    let (good, bad) = (stated(1, Passed, "ci", NOW), stated(2, Failed, "ci", NOW));
    let found = ask(&[good, bad.clone()]);
    assert!(
        !found.met && found.found.starts_with("failed at "),
        "{found:?}"
    );
    assert!(found.evidence[0].contains("failed"));
    assert!(ask(&[bad, stated(3, Passed, "ci", NOW)]).met);
}

#[test]
fn outcomes_of_others_commits_environments_and_checks_do_not_count() {
    let good = stated(1, Passed, "ci", NOW);
    let others = [
        Act {
            by: "eve".into(),
            ..good.clone()
        },
        Act {
            commit: Some("c2".into()),
            ..good.clone()
        },
        Act {
            environment: Some("stage".into()),
            ..good.clone()
        },
        Act {
            chosen: Some("smoke".into()),
            ..good.clone()
        },
        Act {
            kind: ActKind::Approve,
            ..good.clone()
        },
        Act {
            epoch: Some("skipped".into()),
            ..good.clone()
        },
    ];
    for other in others {
        let found = ask(std::slice::from_ref(&other));
        assert!(!found.met, "{other:?}: {found:?}");
    }
    let eve = Act {
        id: 2,
        by: "eve".into(),
        ..stated(2, Failed, "eve", NOW)
    };
    let found = ask(&[good, eve]);
    assert!(found.met && found.found.ends_with("not counted: outcomes by `eve`"));
}

#[test]
fn what_is_too_old_dated_after_now_or_from_before_a_restore_closes() {
    let aged = |age_ms| ask(&[stated(1, Passed, "ci", NOW - age_ms)]);
    assert!(aged(24 * HOUR_MS).met);
    assert!(aged(24 * HOUR_MS + 1).found.contains("too old"));
    assert!(aged(-1).found.contains("after now"));
    let restored = Restored {
        at_ms: NOW - 5,
        backup_ms: 0,
    };
    let at = |at_ms| asked_with(&[stated(1, Passed, "ci", at_ms)], Some(restored));
    assert!(!at(NOW - 5).met && at(NOW - 4).met);
}
