//! The laws of the gate: what no set of sites, whatever they report, may make it say.

use proptest::prelude::*;

use super::*;

fn any_site() -> impl Strategy<Value = SiteState> {
    let number = 0..6u64;
    let state = prop_oneof![
        Just("active"),
        Just("failed"),
        Just("applying"),
        Just("reverted")
    ];
    let status = prop_oneof![
        Just("compliant"),
        Just("drifted"),
        Just("failed"),
        Just("in_progress")
    ];
    (0..12u8, number, state, status, 0..100i64, any::<bool>()).prop_map(
        |(id, number, state, status, age, reports)| {
            let site = format!("site-{id}");
            if !reports {
                return silent(&site);
            }
            edit(well(&site, number), |newest, running| {
                newest.received_ms = NOW - age * HOUR_MS;
                running.state = state.into();
                for assignment in running.assignments.values_mut() {
                    assignment.status = status.into();
                }
            })
        },
    )
}

fn any_world() -> impl Strategy<Value = World> {
    let sites = proptest::collection::vec(
        prop_oneof![
            any_site(),
            (0..12u8).prop_map(|id| { well(&format!("site-{id}"), 3) })
        ],
        0..6,
    );
    (sites, proptest::collection::vec(0..12u8, 0..3)).prop_map(|(sites, waived)| {
        let world = World::new().with(sites);
        waived.into_iter().fold(world, |world, id| {
            world.waive(&format!("site-{id}"), NOW + 1)
        })
    })
}

proptest! {
    /// A failing report, added or in place of another, never opens a closed gate.
    #[test]
    fn a_failing_report_never_opens(world in any_world(), quorum in 1..=100u8, at in 0..6usize) {
        let before = world.ask(NEW, quorum).verdict;
        let more = world.clone().with([status("new", "failed")]).ask(NEW, quorum).verdict;
        prop_assert_eq!(more, GateVerdict::Closed);
        let mut turned = world;
        if let Some(site) = turned.sites.get_mut(at) {
            *site = status(&site.site.clone(), "failed");
        }
        let after = turned.ask(NEW, quorum).verdict;
        prop_assert!(before == GateVerdict::Open || after == GateVerdict::Closed);
    }

    /// Without a site that confirms, nothing opens it: no quorum, no waiver.
    #[test]
    fn silence_never_opens(world in any_world(), quorum in 1..=100u8) {
        let mut silent_world = world;
        for site in &mut silent_world.sites {
            *site = silent(&site.site);
        }
        prop_assert_eq!(silent_world.ask(NEW, quorum).verdict, GateVerdict::Closed);
    }

    /// Open means that the share asked for has confirmed, and a closed gate always says why.
    #[test]
    fn open_is_proven_and_closed_is_explained(world in any_world(), quorum in 1..=100u8) {
        let decision = world.ask(NEW, quorum);
        if decision.verdict == GateVerdict::Open {
            prop_assert!(decision.confirmed * 100 >= decision.counted * usize::from(quorum));
            prop_assert!(decision.confirmed > 0);
        } else {
            prop_assert!(!decision.reasons.is_empty());
        }
    }

    /// A higher quorum never opens what a lower one closes.
    #[test]
    fn asking_for_more_never_opens(world in any_world(), low in 1..=100u8, high in 1..=100u8) {
        let (low, high) = (low.min(high), low.max(high));
        if world.ask(NEW, low).verdict == GateVerdict::Closed {
            prop_assert_eq!(world.ask(NEW, high).verdict, GateVerdict::Closed);
        }
    }
}
