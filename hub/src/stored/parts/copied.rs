//! Copies and exports of a server hold the envelope of every report on record, whatever becomes of its part meanwhile.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use outhaul_test_kit::Centre;

use super::*;
use crate::audit;
use crate::state::Hub;

/// A server's store with 20 reports of site `a` in the first part, its address, and what was sent.
fn with_reports() -> Option<(Store, String, Vec<Vec<u8>>)> {
    let (mut store, address) = on_server()?;
    let lines = fill(&mut store);
    Some((store, address, lines))
}

fn fill(store: &mut Store) -> Vec<Vec<u8>> {
    let mut site = Site::new("a", "dev", "drone");
    register(store, &site);
    let lines = looks(&mut site, 20);
    take(store, &lines, 1_000);
    lines
}

fn drop_first(store: &mut Store) -> u64 {
    let dropped = store.drop_parts_before(PART_MS, Duration::ZERO, &|| false);
    dropped.unwrap().dropped
}

/// Copies a store into the file of a hub in `folder`.
fn copy(store: &Store, folder: &Path) -> Result<(), StoreError> {
    let path = folder.join(crate::store::FILE_NAME);
    File::create(&path).unwrap();
    store.copy_to(&path)
}

#[test]
fn a_part_that_would_be_dropped_while_a_copy_is_made_stays_and_the_copy_is_whole() {
    let Some((mut store, address, lines)) = with_reports() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    // The copy has begun once it waits for the first table.
    let holds = open(&address);
    holds
        .connection()
        .execute_batch("BEGIN; LOCK TABLE access_log IN ACCESS EXCLUSIVE MODE")
        .unwrap();
    let waits =
        "SELECT COUNT(*) FROM pg_locks WHERE NOT granted AND relation = to_regclass('access_log')
           AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    std::thread::scope(|scope| {
        let copied = scope.spawn(|| copy(&open(&address), folder.path()));
        while number(&store, waits) == 0 {
            assert!(!copied.is_finished(), "it waits for the first table");
            std::thread::sleep(Duration::from_millis(5));
        }
        let dropped = drop_first(&mut store);
        holds.connection().execute_batch("COMMIT").unwrap();
        copied.join().unwrap().unwrap();
        assert_eq!(dropped, 0);
    });
    let mut copy = Store::open(folder.path()).unwrap();
    assert_eq!(readable(&mut copy, "a", &lines).len(), 20);
    assert_eq!(drop_first(&mut store), 1);
    assert_eq!(readable(&mut store, "a", &lines).len(), 20);
}

/// Drops the first part when the first line of an export comes.
struct Dropping {
    store: Store,
    dropped: Option<u64>,
    bytes: usize,
}

impl Write for Dropping {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.dropped.is_none() {
            self.dropped = Some(drop_first(&mut self.store));
        }
        self.bytes += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A hub whose data is on a server, the address of that, and its folder.
fn hub_on_server() -> Option<(Hub, String, tempfile::TempDir)> {
    let address = postgres::shared_or_skip()?.database();
    let folder = tempfile::tempdir().unwrap();
    let root = std::fs::read(Centre::new().root()).unwrap();
    let on = address.parse().unwrap();
    let state = folder.path().join("hub");
    let hub = Hub::init(&state, &root, None, None, Some(&on)).unwrap();
    Some((hub, address, folder))
}

#[test]
fn a_part_that_would_be_dropped_during_an_export_stays_and_the_export_is_whole() {
    let Some((mut hub, address, _folder)) = hub_on_server() else {
        return;
    };
    let lines = fill(&mut hub.store);
    let mut out = Dropping {
        store: open(&address),
        dropped: None,
        bytes: 0,
    };
    let done = audit::export(&mut hub, &mut out).unwrap();
    assert_eq!((done.reports, out.dropped), (20, Some(0)));
    assert!(out.bytes > lines.concat().len());
    assert_eq!(drop_first(&mut out.store), 1);
}

#[test]
fn a_report_without_its_envelope_is_in_no_copy_or_export_that_passes_for_whole() {
    let Some((mut hub, _, folder)) = hub_on_server() else {
        return;
    };
    fill(&mut hub.store);
    hub.store
        .connection()
        .execute_batch("DELETE FROM report_envelopes WHERE number = 7")
        .unwrap();
    let copied = copy(&hub.store, folder.path()).unwrap_err().to_string();
    let exported = audit::export(&mut hub, std::io::sink()).unwrap_err();
    let missing = "the signed text of report 7 of site `a`, numbering `e1`, is missing or not whole in the database";
    assert_eq!((&*copied, &*exported.to_string()), (missing, missing));
}

#[test]
fn envelopes_that_wait_for_a_drop_are_in_no_copy() {
    let Some((mut store, _, lines)) = with_reports() else {
        return;
    };
    remove_some(&mut store);
    assert_eq!(number(&store, ENVELOPES), 20);
    let folder = tempfile::tempdir().unwrap();
    copy(&store, folder.path()).unwrap();
    let mut file = Store::open(folder.path()).unwrap();
    assert_eq!(number(&file, ENVELOPES), 12);
    assert_eq!(readable(&mut file, "a", &lines).len(), 12);
    // Nor does one go with a file that moves to a server.
    file.connection()
        .execute_batch("INSERT INTO report_envelopes VALUES (0, 'a', 'e1', 5, X'00')")
        .unwrap();
    let (mut other, address) = on_server().unwrap();
    for were_there in [false, true] {
        let moved = file.copy_to_server(&address.parse().unwrap(), Ok).unwrap();
        assert_eq!(moved.were_there, were_there);
    }
    assert_eq!(number(&other, ENVELOPES), 12);
    assert_eq!(readable(&mut other, "a", &lines).len(), 12);
}
