//! The pages beside the fleet's, as text, and what hostile sites and people write into them.

use outhaul_bundle::report::{ComplianceStatus as C, GenerationState as G, ReportEvent};
use outhaul_test_kit::Site;
use outhaul_test_kit::plain::{FLEET, NEW, OLD};

use super::super::tests::{NOW, main_of, varied_store};
use super::{DecisionList, Shown, board, decisions, environments, problem, site, sites};
use crate::gate::GateRules;
use crate::gate::record::{EnvironmentRecord, GateRequest, keep};
use crate::ingest::{Batch, ingest};
use crate::store::{Act, ActKind, StepRules, Store, StoreError};
use crate::time::{HOUR_MS, rfc3339};
use crate::view::{
    Board, Environments, SiteList, SiteSearch, SiteView, TimelineBefore, TimelineRow,
};

/// What attackers write: markup, the end of an attribute, an address that runs, what turns text around.
const ATTACKS: [&str; 4] = [
    "<script>alert(1)</script>",
    "\" autofocus onfocus=\"alert(1)",
    "javascript:alert(1)",
    "' onmouseover='alert(1)\u{202e}",
];

fn take(store: &mut Store, lines: &[Vec<u8>]) {
    let batch = Batch {
        fleet: FLEET,
        via: "stick.reports",
        received_ms: NOW - HOUR_MS,
    };
    let done = ingest(store, lines.concat().as_slice(), &batch).unwrap();
    assert_eq!(done.accepted, lines.len() as u64, "{done:?}");
}

fn register(store: &mut Store, site: &Site) {
    let checked = crate::enrol::check(&site.request(), FLEET).unwrap();
    store
        .write(|session| crate::enrol::approve(session, &checked, false, NOW - 9 * HOUR_MS))
        .unwrap();
}

/// A fleet with steps on record, and a site that lost reports, some of them for good.
fn with_steps() -> Store {
    let mut store = varied_store();
    let mut gaps = Site::new("drone-gaps", "dev", "drone");
    register(&mut store, &gaps);
    let first = gaps.active(1, OLD);
    gaps.next = 4;
    let lost = gaps.say(ReportEvent::Gap {
        from: 2,
        to: 2,
        reason: "the store was damaged".to_owned(),
    });
    let decided = gaps.say(ReportEvent::Decision {
        what: "hold".to_owned(),
        who: "bob".to_owned(),
        number: Some(2),
        assignment: None,
        reason: Some("harvest".to_owned()),
    });
    let drifted = gaps.state(1, OLD, G::Active, C::Drifted);
    take(&mut store, &[first, lost, decided, drifted]);
    for (environment, to) in [("dev", "stage"), ("stage", "prod")] {
        let step = StepRules {
            environment: environment.to_owned(),
            to: to.to_owned(),
            rules: GateRules {
                soak_hours: Some(24),
                ..GateRules::default()
            },
            asked_by: "pipeline".to_owned(),
            at_ms: NOW - HOUR_MS,
        };
        store
            .write(|session| session.add_step_rules(&step))
            .unwrap();
    }
    let approval = Act {
        environment: Some("dev".to_owned()),
        commit: Some(NEW.to_owned()),
        ..Act::new(ActKind::Approve, "alice", "release 4", NOW - HOUR_MS)
    };
    store.write(|session| session.add_act(&approval)).unwrap();
    store
}

fn site_view(store: &mut Store, name: &str, before: Option<&str>) -> Option<SiteView> {
    let before = before.map(|text| text.parse::<TimelineBefore>().unwrap());
    store
        .read(|session| SiteView::of(session, name, before, NOW))
        .unwrap()
}

fn list(store: &mut Store, wanted: SiteSearch) -> SiteList {
    store
        .read(|session| SiteList::of(session, wanted, NOW))
        .unwrap()
}

fn board_of(store: &mut Store, name: &str) -> Option<Board> {
    store.read(|session| Board::of(session, name, NOW)).unwrap()
}

fn decision_list(store: &mut Store) -> DecisionList {
    let rows = store
        .read(|session| session.chained_decisions(i64::MAX, 50))
        .unwrap();
    DecisionList {
        rows,
        before: None,
        next: None,
        read_at: rfc3339(NOW),
    }
}

/// Every page of a store.
fn all(store: &mut Store) -> Vec<String> {
    let names: Vec<String> = store
        .read(|session| session.site_states())
        .unwrap()
        .into_iter()
        .map(|site| site.site)
        .collect();
    let mut pages = Vec::new();
    for name in names {
        pages.push(
            site(
                &site_view(store, &name, None).unwrap(),
                &[],
                &Shown::default(),
            )
            .unwrap(),
        );
    }
    pages.push(sites(&list(store, SiteSearch::default()), &Shown::default()).unwrap());
    for name in ["dev", "stage"] {
        if let Some(view) = board_of(store, name) {
            pages.push(board(&view, &Shown::default()).unwrap());
        }
    }
    let view = store
        .read(|session| Environments::take(session, NOW))
        .unwrap();
    pages.push(environments(&view, &Shown::default()).unwrap());
    pages.push(decisions(&decision_list(store), &Shown::default()).unwrap());
    pages.extend(super::super::bundles::tests::all(store));
    pages
}

fn record(store: &mut Store, commit: &str, who: &str) {
    store
        .write(|session| {
            let asked = GateRequest {
                environment: "dev".to_owned(),
                commit: commit.to_owned(),
                ..GateRequest::default()
            };
            let question = asked.question(session, NOW).unwrap();
            let decision = EnvironmentRecord::read(session, &question)?.decide(&question);
            keep(session, (&question, &decision), None, who, NOW)
        })
        .unwrap();
}

#[test]
fn a_site_that_drifted_and_one_that_lost_reports() {
    let mut store = with_steps();
    let view = site_view(&mut store, "drone-gaps", None).unwrap();
    // Keys are new in each run.
    let keys = vec![("[0-9a-f]{64}", "[key]")];
    insta::with_settings!({ filters => keys.clone() }, {
        insta::assert_snapshot!("site", main_of(&site(&view, &[], &Shown::default()).unwrap()));
    });
    let gaps: Vec<_> = view
        .timeline
        .iter()
        .filter_map(|row| match row {
            TimelineRow::Gap {
                from, to, declared, ..
            } => Some((*from, *to, *declared)),
            TimelineRow::Report { .. } | TimelineRow::Removed { .. } => None,
        })
        .collect();
    assert_eq!(gaps, [(3, 3, false), (2, 2, true)]);
    let never = site_view(&mut store, "drone-silent", None).unwrap();
    insta::with_settings!({ filters => keys }, {
        insta::assert_snapshot!("site-never", main_of(&site(&never, &[], &Shown::default()).unwrap()));
    });
    assert!(site_view(&mut store, "drone", None).is_none());
}

#[test]
fn each_environment_shows_what_its_gate_decides_and_looking_records_nothing() {
    let mut store = with_steps();
    let view = board_of(&mut store, "dev").unwrap();
    insta::assert_snapshot!(
        "environment",
        main_of(&board(&view, &Shown::default()).unwrap())
    );
    let all = store
        .read(|session| Environments::take(session, NOW))
        .unwrap();
    let order: Vec<_> = all
        .boards
        .iter()
        .map(|board| board.environment.as_str())
        .collect();
    assert_eq!(order, ["dev", "stage"]);
    insta::assert_snapshot!(
        "environments",
        main_of(&environments(&all, &Shown::default()).unwrap())
    );
    assert!(decision_list(&mut store).rows.is_empty());
    assert!(board_of(&mut store, "de").is_none());
    // The same as the API answers.
    let asked = GateRequest {
        environment: "dev".to_owned(),
        commit: NEW.to_owned(),
        to: Some("stage".to_owned()),
        ..GateRequest::default()
    };
    let decision = store.read(|session| {
        let question = asked.question(session, NOW).unwrap();
        Ok::<_, StoreError>(EnvironmentRecord::read(session, &question)?.decide(&question))
    });
    assert_eq!(view.steps[0].decision, decision.unwrap());
}

#[test]
fn decisions_come_with_the_digests_of_their_chain() {
    let mut store = with_steps();
    record(&mut store, OLD, "pipeline");
    record(&mut store, NEW, "command line");
    let list = decision_list(&mut store);
    assert_eq!(list.rows.len(), 2);
    let html = main_of(&decisions(&list, &Shown::default()).unwrap());
    for row in &list.rows {
        assert!(row.digest.starts_with("sha256:"), "{row:?}");
        assert!(html.contains(&row.digest), "{html}");
    }
    assert!(html.contains("outhaul-hub audit export"), "{html}");
    let earlier = store
        .read(|session| session.chained_decisions(2, 50))
        .unwrap();
    assert_eq!(earlier, list.rows[1..]);
}

#[test]
fn sites_are_found_by_name_environment_type_and_state() {
    let mut store = with_steps();
    let mut found = |wanted: SiteSearch| -> Vec<String> {
        let rows = list(&mut store, wanted).sites;
        rows.into_iter().map(|site| site.site).collect()
    };
    let q = |text: &str| SiteSearch {
        q: text.to_owned(),
        ..SiteSearch::default()
    };
    assert_eq!(found(q("gap")), ["drone-gaps"]);
    // What stands for other letters in the store is looked for as it is.
    assert_eq!(found(q("%")), [""; 0]);
    assert_eq!(found(q("_")), [""; 0]);
    let stage = SiteSearch {
        environment: "stage".to_owned(),
        ..SiteSearch::default()
    };
    assert_eq!(found(stage), ["shop-1"]);
    let of_type = SiteSearch {
        cluster_type: "drone".to_owned(),
        state: "drifted".to_owned(),
        ..SiteSearch::default()
    };
    assert_eq!(found(of_type), ["drone-drifted", "drone-gaps"]);
    let after = SiteSearch {
        after: "drone-silent".to_owned(),
        ..SiteSearch::default()
    };
    assert_eq!(found(after), ["drone-stale", "shop-1"]);
    let html = sites(&list(&mut store, q("drone")), &Shown::default()).unwrap();
    insta::assert_snapshot!("sites", main_of(&html));
}

#[test]
fn reports_and_sites_come_in_parts_and_none_is_left_out() {
    let mut store = crate::stored::empty();
    let mut one = Site::new("drone-000", "dev", "drone");
    register(&mut store, &one);
    let lines: Vec<Vec<u8>> = (0..120).map(|_| one.started()).collect();
    take(&mut store, &lines);
    let mut numbers = Vec::new();
    let mut before: Option<String> = None;
    for _ in 0..3 {
        let view = site_view(&mut store, "drone-000", before.as_deref()).unwrap();
        numbers.extend(view.timeline.iter().filter_map(|row| match row {
            TimelineRow::Report { number, .. } => Some(*number),
            TimelineRow::Gap { .. } | TimelineRow::Removed { .. } => None,
        }));
        before = view.more;
    }
    assert_eq!(before, None);
    assert!(numbers.iter().copied().eq((1..=120).rev()), "{numbers:?}");

    for number in 1..205 {
        register(
            &mut store,
            &Site::new(&format!("drone-{number:03}"), "dev", "drone"),
        );
    }
    for state in ["", "attention"] {
        let mut wanted = SiteSearch {
            state: state.to_owned(),
            ..SiteSearch::default()
        };
        let mut count = 0;
        for _ in 0..3 {
            let part = list(&mut store, wanted.clone());
            count += part.sites.len();
            wanted.after = part.next.unwrap_or_default();
        }
        assert_eq!((count, wanted.after.as_str()), (205, ""), "{state}");
    }
}

/// Writes `attack` wherever a site or a person can write, and shows every page.
#[track_caller]
fn attacked_with(attack: &str) -> Vec<String> {
    let mut store = varied_store();
    let mut hostile = Site::new("drone-hostile", "dev", "drone");
    register(&mut store, &hostile);
    super::super::bundles::tests::with_hostile_bundle(&mut store, attack);
    let mut event = hostile.event(2, NEW, G::Active, C::Drifted);
    event.message = attack.to_owned();
    event.assignments[0].message = attack.to_owned();
    let text = || attack.to_owned();
    let lines = [
        hostile.say(ReportEvent::Observation(event)),
        hostile.say(ReportEvent::Refusal {
            source: text(),
            rule: text(),
            message: text(),
        }),
        hostile.say(ReportEvent::Decision {
            what: text(),
            who: text(),
            number: None,
            assignment: None,
            reason: Some(text()),
        }),
        hostile.say(ReportEvent::Started {
            agent_version: text(),
        }),
    ];
    take(&mut store, &lines);
    for kind in [ActKind::Approve, ActKind::Defer] {
        let act = Act {
            environment: (kind == ActKind::Approve).then(|| "dev".to_owned()),
            commit: (kind == ActKind::Approve).then(text),
            site: (kind == ActKind::Defer).then(|| "drone-hostile".to_owned()),
            until_ms: Some(NOW + HOUR_MS),
            ..Act::new(kind, attack, attack, NOW - 1)
        };
        store.write(|session| session.add_act(&act)).unwrap();
    }
    record(&mut store, NEW, attack);
    let mut pages = all(&mut store);
    let wanted = SiteSearch {
        q: text(),
        environment: text(),
        cluster_type: text(),
        after: text(),
        ..SiteSearch::default()
    };
    pages.push(sites(&list(&mut store, wanted), &Shown::default()).unwrap());
    pages.push(problem("Not found", attack, "").unwrap());
    // It is there, as text: what was tried shows.
    let words = attack.trim_start_matches(['<', '"', '\'', ' ']);
    let word = words.split(['>', '=', ':']).next().unwrap();
    let shown = pages.iter().filter(|page| page.contains(word)).count();
    assert!(shown >= 5, "{shown} pages show `{word}`");
    pages
}

#[test]
fn markup_in_reports_names_and_reasons_stays_text() {
    for page in attacked_with(ATTACKS[0]) {
        assert!(!page.contains("<script"), "{page}");
        assert!(!page.contains("</script"), "{page}");
    }
}

#[test]
fn quotes_end_no_attribute() {
    for attack in [ATTACKS[1], ATTACKS[3]] {
        for page in attacked_with(attack) {
            assert!(!page.contains("\" autofocus"), "{page}");
            assert!(!page.contains("' onmouseover"), "{page}");
            assert!(!page.contains('\u{202e}'), "{page}");
        }
    }
}

#[test]
fn every_link_leads_to_this_hub_whatever_a_site_wrote() {
    for page in attacked_with(ATTACKS[2]) {
        for place in ["href=\"", "action=\"", "src=\""] {
            for link in page.split(place).skip(1) {
                let link = link.split('"').next().unwrap();
                let is_own = link.starts_with('/') && !link.starts_with("//");
                assert!(
                    is_own || link.starts_with('#') || link == "data:,",
                    "{link}"
                );
            }
        }
    }
}
