//! A store of before: its waivers stay, and its refusals are one row per transport, site and rule.

use super::*;
use crate::store::{ActKind, FILE_NAME};

/// The tables of a store of before: after these waivers became entries beside approvals and deferrals.
const OLDER: [&str; 9] = [
    include_str!("../../store/src/migrations/0001_first.sql"),
    include_str!("../../store/src/migrations/0002_overlays.sql"),
    include_str!("../../store/src/migrations/0003_orders.sql"),
    include_str!("../../store/src/migrations/0004_signing_order.sql"),
    include_str!("../../store/src/migrations/0005_order_outcomes.sql"),
    include_str!("../../store/src/migrations/0006_siege.sql"),
    include_str!("../../store/src/migrations/0007_signers.sql"),
    include_str!("../../store/src/migrations/0008_sites_of_assignments.sql"),
    include_str!("../../store/src/migrations/0009_current_states.sql"),
];

#[test]
fn waivers_of_before_still_hold_and_refusals_of_before_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let db = rusqlite::Connection::open(folder.path().join(FILE_NAME)).unwrap();
    db.execute_batch("CREATE TABLE migrations (version BIGINT PRIMARY KEY)")
        .unwrap();
    for (at, text) in OLDER.iter().enumerate() {
        db.execute_batch(text).unwrap();
        db.execute(
            "INSERT INTO migrations VALUES ($1)",
            [i64::try_from(at + 1).unwrap()],
        )
        .unwrap();
    }
    // As the program of before wrote them.
    db.execute_batch(
        "INSERT INTO waivers (id, site, until_ms, reason, granted_by, granted_ms)
         VALUES (1, 'a', 900, 'in dock', 'alice', 5), (2, 'b', 100, 'gone', 'bob', 6);
         INSERT INTO refusals (id, at_ms, source, site, rule, message) VALUES
            (1, 10, 'http', 'a', 'revoked', 'm'), (2, 20, 'http', 'a', 'revoked', 'm'),
            (3, 30, 'x.reports', 'a', 'revoked', 'm'), (4, 40, 'http', NULL, 'malformed', 'm'),
            (5, 50, 'http', 'a', 'revoked', 'last');",
    )
    .unwrap();
    drop(db);
    let mut store = Store::open(folder.path()).unwrap();
    let acts = store.read(|session| session.acts_in_force(500)).unwrap();
    assert_eq!(acts.len(), 1);
    assert_eq!(
        (acts[0].kind, acts[0].site.as_deref(), &*acts[0].by),
        (ActKind::Waive, Some("a"), "alice")
    );
    let all = store.read(|session| session.acts(9)).unwrap();
    assert_eq!(all.len(), 2, "the one that ended stays on record");
    let rows = store.read(|session| session.refusals(9)).unwrap();
    let rows: Vec<_> = rows
        .iter()
        .map(|row| {
            (
                &*row.source,
                &*row.rule,
                row.times,
                row.first_ms,
                &*row.message,
            )
        })
        .collect();
    assert_eq!(
        rows,
        [
            ("http", "revoked", 3, 10, "last"),
            ("http", "malformed", 1, 40, "m"),
            ("x.reports", "revoked", 1, 30, "m"),
        ]
    );
}

/// Decisions share the blocks of sites that did not change, and what only forgotten ones rest on goes with them.
#[test]
fn a_decision_keeps_digests_and_shares_what_did_not_change() {
    let mut store = crate::stored::empty();
    let past = |at_ms, verdict: &str| crate::store::PastDecision {
        id: 0,
        at_ms,
        environment: "dev".into(),
        commit: "c".into(),
        verdict: verdict.into(),
        asked_by: "t".into(),
        to: None,
    };
    let lines = |changed: usize| -> Vec<String> {
        let line = |at: usize| {
            format!(
                "site-{at:04}\tconfirmed\te1\t{}\tsha256:x\n",
                u8::from(at == changed)
            )
        };
        (0..1_000).map(line).collect()
    };
    let text = r#"{"verdict": "open", "environment": "dev", "commit": "c", "decided_at": "1970-01-01T00:00:00Z", "max_age_hours": 72,
        "quorum_percent": 100, "counted": 0, "confirmed": 0, "reasons": [], "notes": [], "sites": [], "evidence": []}"#;
    let blocks = |store: &Store| -> i64 {
        let text = "SELECT COUNT(*) FROM evidence_blocks";
        store
            .connection()
            .query_row(text, [], |row| row.get(0))
            .unwrap()
    };
    let mut add = |at: usize, verdict| {
        store
            .write(|session| {
                session.add_decision(&past(1, verdict), &format!("{at}"), text, &lines(at))
            })
            .unwrap();
        blocks(&store)
    };
    assert_eq!(add(0, "open"), 16);
    assert_eq!(
        add(999, "closed"),
        18,
        "the first block and the last one changed"
    );
    for at in 1..=1_010 {
        add(at % 1_000, "closed");
    }
    // Blocks: as they are without a change, and at most one changed for each site.
    assert!(blocks(&store) <= 16 + 1_000, "{}", blocks(&store));
    let uses =
        "SELECT (SELECT SUM(uses) FROM evidence_blocks) = (SELECT COUNT(*) FROM decision_evidence)";
    assert!(
        store
            .connection()
            .query_row(uses, [], |row| row.get::<_, bool>(0))
            .unwrap()
    );
    let kept = store.read(|session| session.decisions(9_999)).unwrap();
    assert_eq!(kept.len(), 1_001);
    let (_, found) = store.read(|session| session.decision(1)).unwrap().unwrap();
    assert_eq!(found.len(), 1_000);
    store
        .connection()
        .execute_batch("UPDATE evidence_blocks SET body = body || 'x'")
        .unwrap();
    let damaged = store.read(|session| session.decision(1));
    assert!(matches!(damaged, Err(StoreError::Corrupt { .. })));
}
