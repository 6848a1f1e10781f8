//! What is newest, where clocks alone do not tell.

use super::*;
use crate::fake::{self, FLEET, NEW, OLD};
use crate::store::{Signed, Store};

/// Signed times are whole seconds: of two streams' bundles of one second, the order of signing tells which
/// commit is the newest, not the number that each stream counts for itself.
#[test]
fn of_two_streams_bundles_signed_within_one_second_the_later_one_tells_the_newest_commit() {
    let mut store = Store::in_memory().unwrap();
    for (cluster_type, number, commit, signed_as) in
        [("drone", 7, OLD, 20), ("tractor", 1, NEW, 21)]
    {
        let index = fake::index(&fake::stream("dev", cluster_type), number, commit);
        let signed = Signed {
            issued_ms: 1_000,
            signed_as,
            expires_ms: 9_000,
        };
        store
            .write(|session| session.add_bundle(&index, fake::content(&index), signed, 1_500))
            .unwrap();
    }
    let reading = store.read(|session| Reading::take(session, 2_000)).unwrap();
    let fleet = reading.view(FLEET, 2_000);
    let commits: Vec<_> = fleet.gates.iter().map(|gate| &gate.commit[..]).collect();
    assert_eq!(commits, [NEW]);
}
