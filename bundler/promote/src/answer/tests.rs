//! Answers that are not to the question: one test per attack.

use super::*;
use outhaul_bundle::hub_api::{ApprovalRule, CheckRule, ClosedTime, GateAnswer, RuleVerdict};

const AT: &str = "2026-11-22T16:13:39Z";

/// What a hub answered, as if it had been asked for `stage`.
fn recorded() -> Decision {
    let text = include_str!("../../../../bundle/tests/hub_api/gate-open.json");
    let GateAnswer { mut decision, .. } = serde_json::from_str(text).unwrap();
    decision.to = Some("stage".to_owned());
    // It was recorded when hubs listed no rules.
    decision.rules = with_base(&[]);
    decision
}

/// The rules that each answer has, and these.
fn with_base(names: &[&str]) -> Vec<RuleVerdict> {
    let all = BASE_RULES.iter().chain(names);
    all.map(|name| verdict(name, true)).collect()
}

fn verdict(name: &str, met: bool) -> RuleVerdict {
    RuleVerdict {
        rule: name.to_owned(),
        needs: String::new(),
        met,
        found: String::new(),
        opens: None,
        evidence: Vec::new(),
    }
}

/// What is wrong with the recorded answer after `bend`, where `rules` were asked for.
fn of(rules: Option<&GateRules>, bend: impl FnOnce(&mut Decision)) -> Result<(), String> {
    let commit = recorded().commit;
    let question = Question {
        environment: "dev",
        commit: &commit,
        to: Some("stage"),
        max_age_hours: Some(72),
        rules,
    };
    let mut answer = recorded();
    bend(&mut answer);
    check(&question, &answer, time_ms(AT).unwrap() + 60_000)
}

#[track_caller]
fn refused(says: &str, bend: impl FnOnce(&mut Decision)) {
    let problem = of(Some(&GateRules::default()), bend).unwrap_err();
    assert!(problem.contains(says), "{problem}");
}

#[test]
fn what_a_hub_answered_counts() {
    of(None, |_| {}).unwrap();
    of(Some(&GateRules::default()), |_| {}).unwrap();
    // A closed gate needs no more than that it is the one that was asked.
    let closed = |answer: &mut Decision| {
        answer.verdict = GateVerdict::Closed;
        answer.edition = 9;
        answer.reasons.push("no".to_owned());
    };
    of(None, closed).unwrap();
}

#[test]
fn attack_an_answer_about_another_step_is_refused() {
    refused("about the environment `prod`", |a| {
        a.environment = "prod".into();
    });
    refused("about the commit", |a| a.commit = "3".repeat(40));
    refused("target environment `prod`", |a| a.to = Some("prod".into()));
    refused("target environment ``", |a| a.to = None);
    refused("about the commit", |a| {
        a.verdict = GateVerdict::Closed;
        a.commit = "3".repeat(40);
    });
}

#[test]
fn attack_an_old_answer_given_again_is_refused() {
    for at in [
        "2026-11-22T16:03:39Z",
        "2026-11-22T16:25:39Z",
        "2019-11-22T16:13:39Z",
        "now",
        "",
    ] {
        refused("is not now", |a| a.decided_at = at.into());
    }
    of(None, |a| a.decided_at = "2026-11-22T16:05:39Z".into()).unwrap();
}

#[test]
fn attack_an_answer_that_contradicts_itself_is_refused() {
    refused("a rule that is not met: soak", |a| {
        a.rules.push(verdict("soak", false));
    });
    refused("a reason against it", |a| {
        a.reasons = vec!["stale: x".into()];
    });
    refused("a site that closes it", |a| {
        a.sites[0].standing = SiteStatus::Failed;
    });
    refused("counts 1 of 1 sites, and lists 0 of 1", |a| {
        a.sites[0].standing = SiteStatus::Stale;
    });
    refused("counts 1 of 1 sites, and lists 0 of 1", |a| {
        a.sites[0].standing = SiteStatus::Unknown;
    });
    refused("counts 0 of 0 sites", |a| (a.counted, a.confirmed) = (0, 0));
    refused("no site confirms", |a| {
        (a.counted, a.confirmed) = (0, 0);
        a.sites.clear();
    });
    refused("counts 5 of 5 sites", |a| (a.counted, a.confirmed) = (5, 5));
    refused("1 of 2 sites confirm, where 100 % must", |a| {
        let mut other = a.sites[0].clone();
        (other.site, other.standing) = ("drone-2".into(), SiteStatus::Stale);
        a.sites.push(other);
        a.counted = 2;
    });
    refused("lists a site twice", |a| {
        a.sites.push(a.sites[0].clone());
        (a.counted, a.confirmed) = (2, 2);
    });
    refused("names 0 reports", |a| a.evidence.clear());
}

#[test]
fn attack_evidence_that_does_not_support_the_answer_is_refused() {
    refused("is `failed`, which closes", |a| {
        a.evidence[0].state = "failed".into();
    });
    refused("names 0 reports", |a| {
        a.evidence[0].state = "applying".into();
    });
    refused("report 0 of site", |a| a.evidence[0].report = 0);
    refused("is not a digest", |a| {
        a.evidence[0].digest = "sha256:d6".into();
    });
    refused("two reports of site `drone-1`", |a| {
        a.evidence.push(a.evidence[0].clone());
    });
    refused("`drone-9`, which it does not list", |a| {
        let mut other = a.evidence[0].clone();
        other.site = "drone-9".into();
        a.evidence.push(other);
    });
    refused("names 0 reports", |a| {
        let mut other = a.sites[0].clone();
        (other.site, other.standing) = ("drone-9".into(), SiteStatus::Waived);
        a.evidence[0].site = "drone-9".into();
        a.sites.push(other);
    });
    for (bundle, runs, needs) in [
        (2, Some(1), Some(1)),
        (1, Some(1), Some(2)),
        (1, None, Some(1)),
        (1, Some(1), None),
        (1, Some(1), Some(0)),
    ] {
        refused("confirms by a report of bundle", |a| {
            a.evidence[0].bundle = bundle;
            (a.sites[0].bundle, a.sites[0].needs) = (runs, needs);
        });
    }
    for at in ["2026-11-19T16:13:37Z", "2026-11-22T16:33:39Z", "now", ""] {
        refused("reported last at", |a| {
            a.sites[0].last_seen = Some(at.into());
        });
        refused("confirms by a report that came at", |a| {
            a.evidence[0].received_at = at.into();
        });
    }
    refused("reported last at ``", |a| a.sites[0].last_seen = None);
    of(None, |a| {
        a.evidence[0].received_at = "2026-11-19T16:13:39Z".into();
    })
    .unwrap();
}

#[test]
fn attack_an_answer_without_the_rules_that_every_gate_has_is_refused() {
    for name in BASE_RULES {
        refused(&format!("does not list the rule `{name}`"), |a| {
            a.rules.retain(|rule| rule.rule != name);
        });
    }
}

#[test]
fn attack_where_nothing_is_asked_for_an_answer_is_no_looser_than_what_counts_then() {
    let commit = recorded().commit;
    let question = Question {
        environment: "dev",
        commit: &commit,
        to: Some("stage"),
        max_age_hours: None,
        rules: Some(&GateRules::default()),
    };
    let of = |bend: fn(&mut Decision)| {
        let mut answer = recorded();
        bend(&mut answer);
        check(&question, &answer, time_ms(AT).unwrap())
    };
    of(|_| {}).unwrap();
    let problem = of(|a| a.max_age_hours = 73).unwrap_err();
    assert!(problem.contains("of 72 at most"), "{problem}");
    let problem = of(|a| a.quorum_percent = 99).unwrap_err();
    assert!(problem.contains("100 % was asked for"), "{problem}");
}

#[test]
fn attack_an_answer_of_an_unknown_edition_is_refused() {
    for edition in [0, GATE_EDITIONS.end() + 1] {
        refused("edition", |a| a.edition = edition);
    }
}

#[test]
fn attack_an_answer_by_looser_rules_is_refused() {
    refused("of 72 at most", |a| a.max_age_hours = 73);
    refused("of 72 at most", |a| a.max_age_hours = -1);
    let rules = GateRules {
        quorum_percent: Some(90),
        ..GateRules::default()
    };
    of(Some(&rules), |_| {}).unwrap();
    of(Some(&rules), |a| a.quorum_percent = 80).unwrap_err();
    let all = GateRules {
        min_sites: Some(1),
        soak_hours: Some(1),
        approvals: Some(ApprovalRule {
            needed: 1,
            by: BTreeSet::from(["ann".to_owned()]),
        }),
        parts: vec![PartRule {
            cluster_type: Some("drone".into()),
            ..PartRule::default()
        }],
        ..GateRules::default()
    };
    let names = ["min-sites", "soak", "approvals", "part"];
    let answered = |without: &'static str| {
        of(Some(&all), move |a| {
            let given = names.into_iter().filter(|name| *name != without);
            a.rules = with_base(&given.collect::<Vec<_>>());
            for rule in a.rules.iter_mut().filter(|rule| rule.rule == "approvals") {
                rule.evidence.push("approval 1 by ann".to_owned());
            }
        })
    };
    answered("").unwrap();
    for name in names {
        let problem = answered(name).unwrap_err();
        assert!(problem.contains(&format!("`{name}`")), "{problem}");
    }
    let bare = |a: &mut Decision| a.rules = with_base(&names);
    assert!(of(Some(&all), bare).unwrap_err().contains("0 approvals"));
    let checks = GateRules {
        checks: vec![CheckRule {
            name: "scan".into(),
            max_age_hours: None,
            by: BTreeSet::new(),
        }],
        ..GateRules::default()
    };
    let other = of(Some(&checks), |a| a.rules = with_base(&["check:other"])).unwrap_err();
    assert!(other.contains("`check:scan`"), "{other}");
    let bare = of(Some(&checks), |a| a.rules = with_base(&["check:scan"])).unwrap_err();
    assert!(bare.contains("has no outcome of check `scan`"), "{bare}");
    let whole = |a: &mut Decision| {
        a.rules = with_base(&["check:scan"]);
        let rules = a.rules.iter_mut().filter(|rule| rule.rule == "check:scan");
        rules.for_each(|rule| rule.evidence.push("check 1 by ci".to_owned()));
    };
    of(Some(&checks), whole).unwrap();
    let closed = ClosedTime {
        from: "2026-11-22".into(),
        until: "2026-11-23".into(),
        reason: String::new(),
    };
    let rules = GateRules {
        closed: vec![closed],
        ..GateRules::default()
    };
    let problem = of(Some(&rules), |a| {
        a.rules = with_base(&["closed-times"]);
    })
    .unwrap_err();
    assert!(problem.contains("a closed time"), "{problem}");
    for part in [
        PartRule {
            cluster_type: Some("press".into()),
            ..PartRule::default()
        },
        PartRule {
            cluster_type: Some("drone".into()),
            min_sites: Some(2),
            ..PartRule::default()
        },
    ] {
        let rules = GateRules {
            parts: vec![part],
            ..GateRules::default()
        };
        let met = |a: &mut Decision| {
            a.rules = with_base(&["part", "part-min-sites"]);
        };
        assert!(
            of(Some(&rules), met)
                .unwrap_err()
                .contains("sites of cluster type")
        );
    }
}
