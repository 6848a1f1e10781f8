//! The gate: each reason closes it, and only proof opens it.

use std::collections::{BTreeMap, BTreeSet};

use outhaul_bundle::Digest;

use outhaul_gate::later::LaterDecision;
use outhaul_gate::*;
use outhaul_test_kit::plain::{self, NEW, OLD};

use super::GateVerdict::{Closed, Open};
use outhaul_gate::facts::Conflict;

use crate::store::{
    Act, ActKind, Attempt, DesiredAssignment, DesiredBundle, Newest, ObservedAssignment, Restored,
    Running, Signed, SiteState,
};
use crate::time::{self, HOUR_MS};

mod clocks;
mod laws;
mod observed;
mod places;
mod rules;

const NOW: i64 = 1_000 * HOUR_MS;
const ROLE: &str = "s-dev-drone";

/// What the hub knows, owned.
#[derive(Debug, Clone, Default)]
struct World {
    sites: Vec<SiteState>,
    bundles: Vec<DesiredBundle>,
    acts: Vec<Act>,
    well_since: BTreeMap<String, i64>,
    edition: Option<u32>,
    restored: Option<Restored>,
    later: Option<LaterDecision>,
}

impl World {
    /// Bundle 1 with the old base, 2 and 3 with the new one.
    fn new() -> Self {
        let bundles = vec![bundle(1, OLD), bundle(2, NEW), bundle(3, NEW)];
        Self {
            bundles,
            ..Self::default()
        }
    }

    fn with(mut self, sites: impl IntoIterator<Item = SiteState>) -> Self {
        self.sites.extend(sites);
        self
    }

    fn waive(self, site: &str, until_ms: i64) -> Self {
        self.excuse(ActKind::Waive, site, until_ms)
    }

    fn excuse(mut self, kind: ActKind, site: &str, until_ms: i64) -> Self {
        self.acts.push(Act {
            id: 1 + i64::try_from(self.acts.len()).unwrap(),
            site: Some(site.into()),
            until_ms: Some(until_ms),
            ..Act::new(kind, "alice", "in dock", 0)
        });
        self
    }

    fn ask(&self, commit: &str, quorum_percent: u8) -> Decision {
        let rules = GateRules {
            quorum_percent: Some(quorum_percent),
            ..GateRules::default()
        };
        self.ask_with(commit, rules)
    }

    fn ask_with(&self, commit: &str, rules: GateRules) -> Decision {
        let wanted = self
            .bundles
            .iter()
            .map(|b| ((b.role.clone(), b.number), desired(b.number)))
            .collect::<BTreeMap<_, _>>();
        let question = GateQuestion {
            acts: None,
            environment: "dev".into(),
            commit: commit.into(),
            to: None,
            now_ms: NOW,
            rules,
            edition: self.edition.unwrap_or(EDITION),
        };
        decide(
            &question,
            &Facts {
                sites: &self.sites,
                bundles: &self.bundles,
                wanted: &wanted,
                acts: &self.acts,
                well_since: &self.well_since,
                restored: self.restored,
                later: self.later,
            },
        )
    }

    /// The gate for the new commit is closed, and the first reason begins with `word`.
    #[track_caller]
    fn closed(&self, word: &str) -> Decision {
        let decision = self.ask(NEW, 100);
        assert_eq!(decision.verdict, Closed);
        assert!(
            decision.reasons[0].starts_with(&format!("{word}: ")),
            "{:?}",
            decision.reasons
        );
        decision
    }

    #[track_caller]
    fn open(&self) -> Decision {
        let decision = self.ask(NEW, 100);
        assert_eq!((decision.verdict, &decision.reasons), (Open, &vec![]));
        decision
    }
}

fn config(number: u64) -> BTreeMap<String, String> {
    BTreeMap::from([(
        "camera".to_owned(),
        plain::config(number, "camera").to_string(),
    )])
}

/// The site `special` is to have a separate config, and `canary` an assignment that no other has.
fn desired(number: u64) -> Vec<DesiredAssignment> {
    let one = |(assignment, config_version)| DesiredAssignment {
        assignment,
        workload: String::new(),
        workspace: String::new(),
        policies: Vec::new(),
        config_version,
        sites: None,
        own: BTreeMap::from([("special".to_owned(), digest(7))]),
    };
    let mut all: Vec<_> = config(number).into_iter().map(one).collect();
    all.push(DesiredAssignment {
        sites: Some(BTreeSet::from(["canary".to_owned()])),
        ..one(("trial".to_owned(), digest(8)))
    });
    all
}

fn digest(number: u64) -> String {
    Digest::of(format!("index {number}").as_bytes()).to_string()
}

fn bundle(number: u64, commit: &str) -> DesiredBundle {
    DesiredBundle {
        role: ROLE.into(),
        environment: "dev".into(),
        cluster_type: "drone".into(),
        number,
        index: digest(number),
        base_commit: commit.into(),
        environment_commit: format!("env-of-{number}"),
        recipients: BTreeSet::new(),
        taken_back: false,
        signed: Signed {
            issued_ms: 0,
            signed_as: number,
            expires_ms: NOW,
        },
    }
}

fn silent(name: &str) -> SiteState {
    SiteState {
        site: name.into(),
        role: ROLE.into(),
        environment: "dev".into(),
        cluster_type: "drone".into(),
        key_id: "k".into(),
        enrolled_ms: 0,
        revoked_ms: None,
        counts_from_ms: None,
        newest: None,
        running: None,
        attempt: None,
        missing: Vec::new(),
        declared_lost: Vec::new(),
        conflict: None,
    }
}

/// A site that reported an hour ago that bundle `number` is active and well.
fn well(name: &str, number: u64) -> SiteState {
    let received_ms = NOW - HOUR_MS;
    let assignments: BTreeMap<String, ObservedAssignment> = config(number)
        .into_iter()
        .map(|(name, config_version)| {
            let status = "compliant".to_owned();
            (
                name,
                ObservedAssignment {
                    status,
                    config_version,
                    message: String::new(),
                },
            )
        })
        .collect::<BTreeMap<_, _>>();
    SiteState {
        newest: Some(Newest {
            epoch: "e1".into(),
            number: 7,
            digest: format!("sha256:{name}"),
            via: "stick".into(),
            received_ms,
            wall_ms: 0,
            clock_trusted: false,
            acked: 7,
        }),
        running: Some(Running {
            report: 7,
            digest: format!("sha256:{name}"),
            received_ms,
            made_ms: received_ms,
            role: ROLE.into(),
            bundle: number,
            index: digest(number),
            base_commit: NEW.into(),
            environment_commit: None,
            state: "active".into(),
            message: String::new(),
            webhook: String::new(),
            assignments: assignments.into(),
        }),
        ..silent(name)
    }
}

fn edit(mut site: SiteState, change: impl FnOnce(&mut Newest, &mut Running)) -> SiteState {
    change(
        site.newest.as_mut().unwrap(),
        site.running.as_mut().unwrap(),
    );
    site
}

fn status(name: &str, status: &str) -> SiteState {
    edit(well(name, 2), |_, running| {
        running.assignments.get_mut("camera").unwrap().status = status.into();
    })
}

#[test]
fn an_assignment_for_some_sites_is_expected_of_nobody_else() {
    World::new().with([well("a", 2), well("b", 2)]).open();
    let decision = World::new().with([well("canary", 2)]).closed("unconfirmed");
    let reported = format!("{decision:?}");
    assert!(reported.contains("does not report `trial`"), "{reported}");
}

#[test]
fn closed_without_sites() {
    World::new().closed("no-sites");
    World::default().closed("no-sites");
}

#[test]
fn closed_when_nobody_or_somebody_never_reported() {
    World::new().with([silent("a")]).closed("never-reported");
    World::new()
        .with([well("a", 2), silent("b")])
        .closed("never-reported");
}

#[test]
fn closed_when_stale_by_the_hubs_own_clock() {
    let at = |age_ms: i64| edit(well("a", 2), |newest, _| newest.received_ms = NOW - age_ms);
    World::new().with([at(72 * HOUR_MS)]).open();
    World::new().with([at(72 * HOUR_MS + 1)]).closed("stale");
    World::new().with([at(-HOUR_MS)]).closed("stale");
}

#[test]
fn closed_when_failed_reverted_or_drifted_and_a_failure_does_not_grow_stale() {
    let state = |state: &str| edit(well("a", 2), |_, running| running.state = state.into());
    World::new().with([state("failed")]).closed("failed");
    World::new().with([state("reverted")]).closed("failed");
    World::new().with([status("a", "failed")]).closed("failed");
    World::new()
        .with([status("a", "drifted")])
        .closed("drifted");
    let old = edit(state("failed"), |newest, _| newest.received_ms = 0);
    World::new().with([old]).closed("failed");
}

#[test]
fn closed_while_at_work() {
    for state in ["applying", "soaking"] {
        let site = edit(well("a", 2), |_, running| running.state = state.into());
        World::new().with([site]).closed("in-progress");
    }
    World::new()
        .with([status("a", "in_progress")])
        .closed("in-progress");
}

#[test]
fn closed_when_behind_and_says_how_far_the_newer_one_came() {
    World::new().with([well("a", 1)]).closed("behind");
    let mut site = well("a", 1);
    let attempt = Attempt {
        report: 8,
        bundle: 2,
        state: "rejected".into(),
        message: "disk".into(),
        decided_by: None,
    };
    site.attempt = Some(attempt);
    let decision = World::new().with([site]).closed("behind");
    assert!(
        decision.reasons[0].contains("bundle 2 is rejected: disk"),
        "{:?}",
        decision.reasons
    );
}

#[test]
fn a_site_that_left_the_bundle_again_closes_at_any_quorum_and_for_ever() {
    let left = |bundle| {
        let mut site = well("a", 1);
        site.attempt = Some(Attempt {
            report: 8,
            bundle,
            state: "reverted".into(),
            message: "the printer stopped".into(),
            decided_by: Some("bob".into()),
        });
        site
    };
    let many = |first| std::iter::once(first).chain((0..9).map(|n| well(&format!("s{n}"), 2)));
    let mut world = World::new().with(many(left(2)));
    let decision = world.ask(NEW, 50);
    assert_eq!(decision.verdict, Closed);
    let reason = "runs bundle 1 again: bundle 2 is reverted by bob: the printer stopped";
    assert!(
        decision.reasons[0].contains(reason),
        "{:?}",
        decision.reasons
    );
    world.sites[0].newest.as_mut().unwrap().received_ms = 0;
    world.closed("failed");
}

#[test]
fn a_site_beyond_the_commit_counts() {
    let mut world = World::new().with([well("a", 4)]);
    world.bundles.push(bundle(4, "4444"));
    world.open();
}

#[test]
fn closed_when_the_commit_was_taken_back() {
    let mut world = World::new().with([well("a", 4)]);
    world.bundles.push(bundle(4, OLD));
    world.closed("withdrawn");
}

#[test]
fn closed_when_no_bundle_brings_the_commit_to_a_site() {
    let mut world = World::new().with([well("a", 3)]);
    world.bundles.truncate(1);
    world.bundles.push(bundle(3, "3333"));
    world.closed("not-desired");
    let mut world = World::new().with([well("a", 3)]);
    for bundle in &mut world.bundles {
        bundle.recipients.insert("someone-else".into());
    }
    world.closed("not-desired");
}

#[test]
fn what_a_key_that_was_taken_away_signed_confirms_nothing() {
    // A thief's bundle with a number beyond all others, and one that claims the commit under a low number.
    let mut world = World::new().with([well("a", 9)]);
    world.bundles.push(bundle(9, "4444"));
    world.open();
    world.bundles[3].taken_back = true;
    world.closed("signer-revoked");
    let mut world = World::new().with([well("a", 3)]);
    world.bundles[1].taken_back = true;
    assert_eq!(world.open().sites[0].needs, Some(3));
    world.bundles[2].taken_back = true;
    world.closed("signer-revoked");
    // A quorum goes over such a site as over one that is silent, and never counts it.
    let mut world = World::new().with([well("a", 3), well("b", 9)]);
    world.bundles.push(bundle(9, NEW));
    world.bundles[3].taken_back = true;
    let decision = world.ask(NEW, 50);
    assert_eq!((decision.verdict, decision.confirmed), (Open, 1));
    world.closed("signer-revoked");
}

#[test]
fn closed_when_a_site_runs_what_this_hub_does_not_know() {
    World::new()
        .with([edit(well("a", 2), |_, r| r.bundle = 9)])
        .closed("not-desired");
    World::new()
        .with([edit(well("a", 2), |_, r| r.index = digest(77))])
        .closed("other-content");
    World::new()
        .with([edit(well("a", 2), |_, r| r.role = "s-x".into())])
        .closed("other-stream");
}

#[test]
fn closed_when_an_assignment_is_passed_over_or_has_another_config() {
    let site = edit(well("a", 2), |_, running| running.assignments.clear());
    World::new().with([site]).closed("unconfirmed");
    let site = edit(well("a", 2), |_, running| {
        running
            .assignments
            .get_mut("camera")
            .unwrap()
            .config_version = digest(5);
    });
    World::new().with([site]).closed("unconfirmed");
}

#[test]
fn a_site_with_values_of_its_own_is_asked_for_those() {
    World::new()
        .with([well("special", 2)])
        .closed("unconfirmed");
    let own = edit(well("special", 2), |_, running| {
        running
            .assignments
            .get_mut("camera")
            .unwrap()
            .config_version = digest(7);
    });
    World::new().with([own, well("a", 2)]).open();
}

#[test]
fn closed_by_a_gap_after_the_state_and_not_by_one_before() {
    let gap = |missing: (u64, u64)| {
        let mut site = edit(well("a", 2), |newest, _| newest.number = 12);
        site.missing = vec![missing];
        World::new().with([site])
    };
    gap((9, 10)).closed("gap");
    gap((3, 5)).open();
}

#[test]
fn closed_when_a_site_has_not_reported_what_it_runs() {
    let mut site = well("a", 2);
    site.running = None;
    World::new().with([site]).closed("no-state");
}

#[test]
fn revoked_sites_and_other_environments_are_not_waited_for() {
    let mut gone = silent("gone");
    gone.revoked_ms = Some(1);
    let mut stage = silent("stage");
    stage.environment = "stage".into();
    let decision = World::new()
        .with([well("a", 2), gone.clone(), stage.clone()])
        .open();
    assert_eq!(decision.counted, 1);
    World::new().with([gone, stage]).closed("no-sites");
}

#[test]
fn the_fingerprint_ignores_the_clock_and_sees_the_evidence() {
    let world = World::new().with([well("a", 2)]);
    let first = world.ask(NEW, 100);
    let later = Decision {
        decided_at: "later".into(),
        ..first.clone()
    };
    assert_eq!(fingerprint(&first), fingerprint(&later));
    let other = World::new().with([edit(well("a", 2), |_, r| r.digest = "sha256:x".into())]);
    assert_ne!(fingerprint(&first), fingerprint(&other.ask(NEW, 100)));
}
