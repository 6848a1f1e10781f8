//! What is kept of each site's present state is what all of history gives.

use outhaul_bundle::report::{
    ClusterState, ComplianceStatus as C, GenerationState as G, ReportEvent, RevertedFrom,
};
use outhaul_gate::audit::AuditLine;
use outhaul_gate::facts::SiteState;
use outhaul_gate::fold::SeenReport;
use outhaul_test_kit::Site;
use outhaul_test_kit::plain::{self, FLEET, NEW, OLD};
use proptest::prelude::*;

use super::{state, store_with};
use crate::ingest::{Batch, ingest};
use crate::store::{Store, StoreError};

/// One step of a site's life, for the histories below.
#[derive(Debug, Clone)]
pub(super) enum Step {
    Runs(u64, G, C),
    Leaves {
        from: u64,
        to: u64,
    },
    Shows {
        base: &'static str,
        state: ClusterState,
        status: C,
    },
    Loses(u64),
    Starts,
}

pub(super) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let states = prop_oneof![
        Just(G::Received),
        Just(G::Staged),
        Just(G::Applying),
        Just(G::Active),
        Just(G::Failed),
        Just(G::Rejected),
        Just(G::Superseded),
        Just(G::Reverted),
    ];
    let step = prop_oneof![
        6 => (1..5u64, states).prop_map(|(bundle, state)| Step::Runs(bundle, state, C::Compliant)),
        2 => (1..5u64, 1..5u64).prop_map(|(from, to)| Step::Leaves { from, to }),
        3 => (
            prop_oneof![Just(OLD), Just(NEW)],
            prop_oneof![
                Just(ClusterState::Synced),
                Just(ClusterState::Suspended),
                Just(ClusterState::Failing),
            ],
            prop_oneof![Just(C::Compliant), Just(C::Failed)],
        )
            .prop_map(|(base, state, status)| Step::Shows { base, state, status }),
        1 => (1..3u64).prop_map(Step::Loses),
        1 => Just(Step::Starts),
    ];
    proptest::collection::vec(step, 1..14)
}

pub(super) fn lines_of(site: &mut Site, steps: &[Step]) -> Vec<Vec<u8>> {
    let mut lines = Vec::new();
    for step in steps {
        let line = match step {
            Step::Runs(bundle, state, status) => site.state(*bundle, NEW, *state, *status),
            Step::Leaves { from, to } => {
                let index = plain::index(&site.stream, *from, NEW);
                let mut event = site.event(*to, OLD, G::Active, C::Compliant);
                event.reverted_from = Some(RevertedFrom {
                    number: *from,
                    index: outhaul_bundle::Digest::of(&index.to_bytes()),
                    decided_by: None,
                    reason: "it stopped".to_owned(),
                });
                site.say(ReportEvent::Generation(event))
            }
            Step::Shows {
                base,
                state,
                status,
            } => site.shows(base, *state, *status),
            // What was lost: numbers that never come.
            Step::Loses(count) => {
                let from = site.next;
                site.next += count;
                site.say(ReportEvent::Gap {
                    from,
                    to: from + count - 1,
                    reason: "the disk was full".to_owned(),
                })
            }
            Step::Starts => {
                site.forget(&format!("e{}", lines.len() + 2));
                site.active(1, OLD)
            }
        };
        lines.push(line);
    }
    lines
}

/// The reports as an export has them.
pub(super) fn seen(store: &mut Store) -> Vec<SeenReport> {
    let mut found = Vec::new();
    let mut take = |line: AuditLine| {
        if let AuditLine::Report {
            ordinal,
            via,
            received_ms,
            envelope,
            ..
        } = line
        {
            let envelope = outhaul_signer::Envelope::from_json(envelope.as_bytes()).unwrap();
            let payload = envelope.unverified_payload();
            found.push(SeenReport {
                ordinal,
                digest: outhaul_bundle::Digest::of(payload).to_string(),
                via,
                received_ms,
                report: outhaul_bundle::Report::from_bytes(payload).unwrap(),
            });
        }
        Ok::<_, StoreError>(())
    };
    store
        .read(|session| session.audit_lines(&mut take))
        .unwrap();
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// What is kept says after each batch what a fold over all of history says, also when it is worked out
    /// again, as for a store of before.
    #[test]
    fn what_is_kept_is_what_history_shows(
        (steps, order) in steps().prop_flat_map(|steps| {
            let places: Vec<usize> = (0..steps.len()).collect();
            (Just(steps), Just(places).prop_shuffle())
        }),
        at_once in 1..5usize,
    ) {
        let mut site = Site::new("a", "dev", "drone");
        let mut store = store_with(&[&site]);
        let lines = lines_of(&mut site, &steps);
        for part in order.chunks(at_once) {
            let part: Vec<_> = part.iter().map(|at| lines[*at].clone()).collect();
            let batch = Batch { fleet: FLEET, via: "test", received_ms: 100 };
            ingest(&mut store, part.concat().as_slice(), &batch).unwrap();
            let (kept, reported) = store
                .read(|session| {
                    Ok::<_, StoreError>((session.site_states()?, session.site_states_from_history()?))
                })
                .unwrap();
            prop_assert_eq!(&kept, &reported);
            super::stream_sites::assert_places(&mut store, "s-dev-drone", 1..=4);
            // The verifier of an audit export comes to the same from the signed reports alone.
            let mut folded = SiteState {
                newest: None,
                running: None,
                attempt: None,
                missing: Vec::new(),
                declared_lost: Vec::new(),
                ..kept[0].clone()
            };
            let (seen, none) = (seen(&mut store), outhaul_gate::fold::Removed::default());
            outhaul_gate::fold::present(&mut folded, &seen, &none, 100);
            if let (Some(folded), Some(kept)) = (&mut folded.newest, &kept[0].newest) {
                // No decision needs it.
                folded.acked = kept.acked;
            }
            prop_assert_eq!(&folded, &kept[0]);
            for enough_ms in [0, 100] {
                let since = store.read(|session| session.well_since(&kept[0], 1, enough_ms)).unwrap();
                let again = outhaul_gate::fold::well_since(&folded, (&seen, &none), 1, (enough_ms, 100), None);
                prop_assert_eq!(since, again);
            }
        }
        let kept = state(&mut store, "a");
        store.connection().execute_batch("DELETE FROM current_states").unwrap();
        store.write(|session| session.keep_all_current()).unwrap();
        prop_assert_eq!(state(&mut store, "a"), kept);
    }
}
