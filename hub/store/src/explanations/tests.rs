//! What is refused for its size, and what of a copy that somebody wrote is not believed.

use super::*;
use crate::Store;
use outhaul_bundle::index::Source;

fn packed(digest: &str) -> PackedExplanation {
    let source = |name: &str| Source {
        name: name.to_owned(),
        repo: String::new(),
        commit: "a".repeat(40),
    };
    let document = NewExplanation {
        digest: digest.to_owned(),
        environment: "dev".to_owned(),
        snapshot: Snapshot::of(source("dev"), source("main"), Vec::new()),
        assignments: 1,
        bytes: 9,
    };
    let mut packed = PackedExplanation::of(document, b"{}").unwrap().unwrap();
    assert!(packed.add_part("drone", b"{\"a\":1}").unwrap());
    packed
}

#[test]
fn one_that_there_is_no_room_for_changes_nothing() {
    let mut store = Store::in_memory().unwrap();
    let put = |store: &mut Store, digest: &str| {
        let packed = packed(digest);
        store
            .write(|session| session.put_explanation(&packed, "ann", 5))
            .unwrap()
    };
    let (new, removed) = (true, 0);
    assert_eq!(put(&mut store, "a"), PutExplanation::Kept { new, removed });
    let full = to_sql(MAX_EXPLANATIONS_BYTES);
    store
        .write(|session| {
            let text = "UPDATE explanations SET kept_bytes = $1";
            session.db.execute(text, params![full])?;
            Ok::<_, StoreError>(())
        })
        .unwrap();
    assert_eq!(put(&mut store, "b"), PutExplanation::Full);
    let rows = store
        .read(|session| session.explanations("dev", 9))
        .unwrap();
    assert_eq!(rows.len(), 1);
    // One that is there needs no room.
    let new = false;
    assert_eq!(put(&mut store, "a"), PutExplanation::Kept { new, removed });
}

#[test]
fn a_size_that_somebody_wrote_into_a_copy_reserves_no_memory() {
    let mut store = Store::in_memory().unwrap();
    let packed = packed("a");
    let part = |store: &mut Store| store.read(|session| session.explanation_part(1, "drone"));
    store
        .write(|session| session.put_explanation(&packed, "ann", 5))
        .unwrap();
    assert_eq!(part(&mut store).unwrap().unwrap(), b"{\"a\":1}");
    for bytes in [i64::MAX, 6, 8, -1] {
        store
            .write(|session| {
                let text = "UPDATE explanation_parts SET bytes = $1";
                session.db.execute(text, params![bytes])?;
                Ok::<_, StoreError>(())
            })
            .unwrap();
        assert!(part(&mut store).is_err(), "{bytes}");
    }
}
