//! What is refused for its size, and what of a copy that someone wrote is not believed.

use super::*;
use crate::Store;
use outhaul_bundle::index::Source;

fn source(name: &str) -> Source {
    Source {
        name: name.to_owned(),
        repo: String::new(),
        commit: "a".repeat(40),
    }
}

fn packed_of(digest: &str, environment: &str, workloads: &[&str]) -> PackedExplanation {
    let workloads = workloads.iter().map(|name| source(name)).collect();
    let document = NewExplanation {
        digest: digest.to_owned(),
        environment: environment.to_owned(),
        snapshot: Snapshot::of(source("dev"), source("main"), workloads),
        assignments: 1,
        bytes: 9,
    };
    let mut packed = PackedExplanation::of(document, b"{}").unwrap().unwrap();
    assert!(packed.add_part("drone", b"{\"a\":1}").unwrap());
    packed
}

fn packed(digest: &str) -> PackedExplanation {
    packed_of(digest, "dev", &[])
}

/// Whoever has scope ingest.
fn ingest(name: &str) -> Sender<'_> {
    let is_admin = false;
    Sender { name, is_admin }
}

fn put_by(store: &mut Store, packed: &PackedExplanation, by: &str) -> PutExplanation {
    let done = store.write(|session| session.put_explanation(packed, ingest(by), 5));
    done.unwrap()
}

fn put_by_admin(store: &mut Store, packed: &PackedExplanation) -> PutExplanation {
    let (name, is_admin) = ("ops", true);
    let done = store.write(|session| session.put_explanation(packed, Sender { name, is_admin }, 5));
    done.unwrap()
}

/// Lets the hub know environment `dev`, by a site.
fn know_dev(store: &mut Store) {
    let site =
        "INSERT INTO sites (site, role, environment, cluster_type, key_generation, enrolled_ms)
         VALUES ('a', 'r', 'dev', 'drone', 1, 1)";
    let insert = |session: &Session<'_>| Ok::<_, StoreError>(session.db.execute(site, params![])?);
    store.write(|session| insert(session)).unwrap();
}

fn digests(store: &mut Store) -> Vec<String> {
    let text = format!("{COLUMNS} {NEWEST}");
    let rows = store.read(|session| session.explanations_where(&text, params![]));
    rows.unwrap().into_iter().map(|row| row.digest).collect()
}

fn add_token(store: &mut Store, name: &str) {
    let token = crate::Token {
        name: name.to_owned(),
        scopes: "ingest".to_owned(),
        added_ms: 1,
        added_by: "a test".to_owned(),
        expires_ms: None,
        revoked_ms: None,
    };
    let added = store.write(|session| session.add_token(&token, name, true));
    assert!(added.unwrap());
}

fn kept(new: bool, removed: u64) -> PutExplanation {
    PutExplanation::Kept { new, removed }
}

fn set_kept_bytes(store: &mut Store, bytes: u64) {
    let set = |session: &Session<'_>| {
        let text = "UPDATE explanations SET kept_bytes = $1";
        session.db.execute(text, params![to_sql(bytes)])?;
        Ok::<_, StoreError>(())
    };
    store.write(|session| set(session)).unwrap();
}

#[test]
fn what_is_kept_uncompressed_counts_for_the_room_that_it_takes() {
    let small = packed("a").kept_bytes;
    let long = "w".repeat(500);
    let large = packed_of("b", "dev", &[&long]);
    assert!(large.kept_bytes >= small + 500, "{large:?}");
}

#[test]
fn of_more_environments_than_are_listed_none_is_kept() {
    let mut store = Store::in_memory().unwrap();
    for at in 0..MAX_EXPLAINED_ENVIRONMENTS {
        let name = format!("env-{at}");
        let packed = packed_of(&name, &name, &[]);
        assert_eq!(put_by(&mut store, &packed, "ann"), kept(true, 0));
    }
    let one_more = packed_of("x", "one-more", &[]);
    assert_eq!(
        put_by(&mut store, &one_more, "ann"),
        PutExplanation::FullOfEnvironments
    );
    let known = packed_of("y", "env-7", &[]);
    assert_eq!(put_by(&mut store, &known, "ann"), kept(true, 0));
}

#[test]
fn nobody_removes_what_somebody_else_says_of_a_snapshot() {
    let mut store = Store::in_memory().unwrap();
    assert_eq!(put_by(&mut store, &packed("true"), "centre"), kept(true, 0));
    for digest in ["a", "b"] {
        assert_eq!(put_by(&mut store, &packed(digest), "eve"), kept(true, 0));
    }
    // The oldest of the same sender makes room.
    assert_eq!(put_by(&mut store, &packed("c"), "eve"), kept(true, 1));
    let full = put_by(&mut store, &packed("d"), "ann");
    assert!(
        matches!(&full, PutExplanation::FullOfContents(same) if same.len() == 3),
        "{full:?}"
    );
    let digest = packed("a").document.snapshot.digest.to_string();
    let rows = store
        .read(|session| session.contents_of("dev", &digest))
        .unwrap();
    let digests: Vec<&str> = rows.iter().map(|row| row.digest.as_str()).collect();
    assert_eq!(digests, ["c", "b", "true"]);
}

#[test]
fn what_gives_way_makes_room_first() {
    let mut store = Store::in_memory().unwrap();
    for digest in ["a", "b", "c"] {
        put_by(&mut store, &packed(digest), "ann");
    }
    set_kept_bytes(&mut store, MAX_EXPLANATIONS_BYTES / 3);
    // One of the three goes, so that there is room for a fourth.
    assert_eq!(put_by(&mut store, &packed("d"), "ann"), kept(true, 1));
    assert_eq!(
        put_by(&mut store, &packed_of("e", "prod", &[]), "ann"),
        kept(true, 0)
    );
}

#[test]
fn what_was_sent_while_the_clock_was_ahead_comes_after_what_was_sent_later() {
    let mut store = Store::in_memory().unwrap();
    for (digest, now_ms) in [("ahead", 900), ("now", 5)] {
        store
            .write(|session| session.put_explanation(&packed(digest), ingest("ann"), now_ms))
            .unwrap();
    }
    let rows = store
        .read(|session| session.explanations("dev", 9))
        .unwrap();
    let found: Vec<_> = rows
        .iter()
        .map(|row| (row.digest.as_str(), row.last_received_ms))
        .collect();
    assert_eq!(found, [("now", 5), ("ahead", 900)]);
}

#[test]
fn one_that_misses_a_registration_does_not_hide_the_whole_one() {
    let mut store = Store::in_memory().unwrap();
    put_by(&mut store, &packed_of("whole", "dev", &["a", "b"]), "ann");
    put_by(&mut store, &packed_of("part", "dev", &["a"]), "ann");
    let bundle = packed_of("", "dev", &["a", "b", "payload"])
        .document
        .snapshot;
    let rows = store
        .read(|session| session.explanations_of("dev", &bundle))
        .unwrap();
    let digests: Vec<&str> = rows.iter().map(|row| row.digest.as_str()).collect();
    assert_eq!(digests, ["whole", "part"]);
}

#[test]
fn one_that_there_is_no_room_for_changes_nothing() {
    let mut store = Store::in_memory().unwrap();
    let put = |store: &mut Store, digest: &str| {
        let packed = packed(digest);
        store
            .write(|session| session.put_explanation(&packed, ingest("ann"), 5))
            .unwrap()
    };
    let (new, removed) = (true, 0);
    assert_eq!(put(&mut store, "a"), PutExplanation::Kept { new, removed });
    set_kept_bytes(&mut store, MAX_EXPLANATIONS_BYTES);
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
        .write(|session| session.put_explanation(&packed, ingest("ann"), 5))
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

#[test]
fn an_admin_has_room_where_others_sent_all_contents_and_the_oldest_of_theirs_goes() {
    let mut store = Store::in_memory().unwrap();
    for digest in ["a", "b", "c"] {
        put_by(&mut store, &packed(digest), "eve");
    }
    assert_eq!(put_by_admin(&mut store, &packed("true")), kept(true, 1));
    assert_eq!(digests(&mut store), ["true", "c", "b"]);
    // Their own goes before that of others.
    assert_eq!(put_by_admin(&mut store, &packed("truer")), kept(true, 1));
    assert_eq!(digests(&mut store), ["truer", "c", "b"]);
}

#[test]
fn an_admin_has_room_in_a_store_that_is_full_of_bytes_or_environments() {
    let mut store = Store::in_memory().unwrap();
    for at in 0..MAX_EXPLAINED_ENVIRONMENTS {
        let name = format!("env-{at}");
        put_by(&mut store, &packed_of(&name, &name, &[]), "eve");
    }
    let one_more = packed_of("x", "one-more", &[]);
    assert_eq!(put_by_admin(&mut store, &one_more), kept(true, 1));
    assert!(!digests(&mut store).contains(&"env-0".to_owned()));
    let share = MAX_EXPLANATIONS_BYTES / MAX_EXPLAINED_ENVIRONMENTS as u64;
    set_kept_bytes(&mut store, share);
    let more = packed_of("y", "one-more", &["camera"]);
    assert_eq!(put_by(&mut store, &more, "ann"), PutExplanation::Full);
    assert_eq!(put_by_admin(&mut store, &more), kept(true, 1));
    assert!(!digests(&mut store).contains(&"env-1".to_owned()));
}

#[test]
fn what_a_revoked_token_sent_gives_way_to_anybody() {
    let mut store = Store::in_memory().unwrap();
    add_token(&mut store, "eve");
    add_token(&mut store, "centre");
    for digest in ["a", "b", "c"] {
        put_by(&mut store, &packed(digest), "eve");
    }
    let refused = put_by(&mut store, &packed("true"), "centre");
    assert!(
        matches!(refused, PutExplanation::FullOfContents(_)),
        "{refused:?}"
    );
    // What someone else sent as well stays.
    put_by(&mut store, &packed("a"), "centre");
    for digest in ["b", "c"] {
        put_by(&mut store, &packed(digest), "eve");
    }
    store
        .write(|session| session.revoke_token("eve", 9))
        .unwrap();
    assert_eq!(put_by(&mut store, &packed("true"), "centre"), kept(true, 1));
    assert_eq!(digests(&mut store), ["true", "c", "a"]);
}

#[test]
fn one_is_removed_by_its_digest_with_its_parts() {
    let mut store = Store::in_memory().unwrap();
    put_by(&mut store, &packed("a"), "eve");
    let mut remove = || store.write(|session| session.remove_explanation("a"));
    assert_eq!(remove().unwrap().unwrap().sent_by, "eve");
    assert_eq!(remove().unwrap(), None);
    let part = store.read(|session| session.explanation_part(1, "drone"));
    assert_eq!(part.unwrap(), None);
}

#[test]
fn an_environment_that_the_hub_knows_has_room_before_those_that_it_does_not_know() {
    let mut store = Store::in_memory().unwrap();
    know_dev(&mut store);
    for at in 0..MAX_EXPLAINED_ENVIRONMENTS {
        let name = format!("env-{at}");
        put_by(&mut store, &packed_of(&name, &name, &[]), "eve");
    }
    let unknown = packed_of("x", "one-more", &[]);
    assert_eq!(
        put_by(&mut store, &unknown, "ann"),
        PutExplanation::FullOfEnvironments
    );
    assert_eq!(put_by(&mut store, &packed("true"), "ann"), kept(true, 1));
    let left = digests(&mut store);
    assert!(left.contains(&"true".to_owned()) && !left.contains(&"env-0".to_owned()));
    // The same where they take all bytes.
    set_kept_bytes(
        &mut store,
        MAX_EXPLANATIONS_BYTES / MAX_EXPLAINED_ENVIRONMENTS as u64,
    );
    let more = packed_of("y", "dev", &["camera"]);
    assert_eq!(put_by(&mut store, &more, "ann"), kept(true, 1));
    assert!(!digests(&mut store).contains(&"env-1".to_owned()));
}

#[test]
fn an_admin_has_room_where_environments_that_the_hub_knows_take_all_bytes() {
    let mut store = Store::in_memory().unwrap();
    know_dev(&mut store);
    put_by(&mut store, &packed("a"), "eve");
    set_kept_bytes(&mut store, MAX_EXPLANATIONS_BYTES);
    let other = packed_of("true", "dev", &["camera"]);
    assert_eq!(put_by(&mut store, &other, "ann"), PutExplanation::Full);
    assert_eq!(put_by_admin(&mut store, &other), kept(true, 1));
    assert_eq!(digests(&mut store), ["true"]);
}

/// A bundle of `dev` that is the newest of its stream: it needs each explanation of some of its sources.
fn need_all(store: &mut Store, workloads: &[&str]) {
    let snapshot = packed_of("x", "dev", workloads).document.snapshot;
    let snapshot = serde_json::to_string(&snapshot).unwrap();
    let bundle = "INSERT INTO bundles (role, number, environment, cluster_type, index_digest, index_size, base_commit, snapshot, recipients,
            reconciler, issued_ms, expires_ms, recorded_ms) VALUES ('r', 1, 'dev', 'drone', 'd', 1, 'c', $1, '[]', 'folder', 1, 1, 1)";
    let insert = |session: &Session<'_>| {
        session.db.execute(bundle, params![snapshot])?;
        Ok::<_, StoreError>(())
    };
    store.write(|session| insert(session)).unwrap();
}

#[test]
fn attack_one_token_does_not_take_the_places_of_another() {
    let mut store = Store::in_memory().unwrap();
    let names: Vec<String> = (0..=260).map(|at| format!("bob-{at}")).collect();
    let mut workloads: Vec<&str> = names.iter().map(String::as_str).collect();
    workloads.extend(["of-old", "of-ann"]);
    need_all(&mut store, &workloads);
    for token in ["ann", "bob", "old"] {
        add_token(&mut store, token);
    }
    for (digest, by) in [("of-old", "old"), ("of-ann", "ann")] {
        put_by(&mut store, &packed_of(digest, "dev", &[digest]), by);
    }
    let send = |store: &mut Store, at: usize| {
        let name = &*names[at];
        put_by(store, &packed_of(name, "dev", &[name]), "bob")
    };
    for at in 0..198 {
        assert_eq!(send(&mut store, at), kept(true, 0), "{at}");
    }
    // All of them are needed: from here on the oldest of whoever has most places goes.
    for at in 198..260 {
        assert_eq!(send(&mut store, at), kept(true, 1), "{at}");
    }
    let found = digests(&mut store);
    assert_eq!(found.len(), 200);
    for (digest, is_there) in [
        ("of-ann", true),
        ("of-old", true),
        ("bob-61", false),
        ("bob-62", true),
    ] {
        assert_eq!(found.iter().any(|one| one == digest), is_there, "{digest}");
    }
    // What a token sent that was revoked since is needed as well, and goes first.
    let revoked = store.write(|session| session.revoke_token("old", 9));
    assert!(revoked.unwrap());
    assert_eq!(send(&mut store, 260), kept(true, 1));
    let found = digests(&mut store);
    assert!(!found.iter().any(|one| one == "of-old"));
    assert!(found.iter().any(|one| one == "bob-62"));
}
