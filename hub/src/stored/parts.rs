//! Envelopes of reports on a server lie in parts by when they were received: made ahead, by any process, and dropped whole.

mod copied;

use std::cell::{Cell, RefCell};
use std::sync::Barrier;
use std::time::Duration;

use super::*;
use crate::retention::{self, Rule};
use crate::store::PART_MS;
use crate::time::DAY_MS;

/// A server's store, and its address.
fn on_server() -> Option<(Store, String)> {
    let address = postgres::shared_or_skip()?.database();
    Some((open(&address), address))
}

fn open(address: &str) -> Store {
    Store::on_server(&address.parse().unwrap()).unwrap()
}

fn register(store: &mut Store, site: &Site) {
    let checked = enrol::check(&site.request(), FLEET).unwrap();
    let done = store.write(|session| enrol::approve(session, &checked, false, 10));
    assert_eq!(done.unwrap(), Enrolled::Registered);
}

fn looks(site: &mut Site, count: usize) -> Vec<Vec<u8>> {
    let event = site.event(1, NEW, G::Active, C::Compliant);
    (0..count)
        .map(|_| site.say(ReportEvent::Observation(event.clone())))
        .collect()
}

fn number(store: &Store, text: &str) -> i64 {
    let found = store
        .connection()
        .query_row(text, [], |row| row.get::<_, Option<i64>>(0));
    found.unwrap().unwrap_or(-1)
}

/// Numbers of the reports of a site on record, each of which has the envelope that was sent.
fn readable(store: &mut Store, site: &str, sent: &[Vec<u8>]) -> Vec<u64> {
    let all = store.read(|session| session.timeline(site, None, 10_000));
    let mut numbers = Vec::new();
    for one in all.unwrap() {
        let line = &sent[usize::try_from(one.number).unwrap() - 1];
        assert_eq!(one.envelope.trim_ascii_end(), line.trim_ascii_end());
        numbers.push(one.number);
    }
    numbers
}

#[test]
fn an_old_part_is_dropped_whole_and_what_is_kept_of_it_stays_readable() {
    let Some((mut store, address)) = on_server() else {
        return;
    };
    let mut site = Site::new("a", "dev", "drone");
    register(&mut store, &site);
    let mut lines = looks(&mut site, 60);
    take(&mut store, &lines[..40], 1_000);
    take(&mut store, &lines[40..], PART_MS + 1_000);
    let is_there = |store: &Store, part: i64| {
        let text = format!(
            "SELECT COUNT(*) FROM pg_class WHERE oid = to_regclass('report_envelopes_{part}')"
        );
        number(store, &text) == 1
    };
    // Also the next one, before anything is received in it.
    assert!((0..=2).all(|part| is_there(&store, part)));
    assert_eq!(
        number(&store, "SELECT COUNT(*) FROM report_envelopes_0"),
        40
    );
    assert_eq!(
        number(&store, "SELECT SUM(LENGTH(envelope)) FROM reports"),
        0
    );
    let new = looks(&mut site, 5);
    let now_ms = PART_MS + 9 * DAY_MS;
    take(&mut store, &new, now_ms);
    lines.extend(new);
    assert_eq!(readable(&mut store, "a", &lines).len(), 65);

    // Someone reads a long list: the part stays for the next time, and everyone goes on.
    let reader = open(&address);
    reader
        .connection()
        .execute_batch("BEGIN; SELECT COUNT(*) FROM report_envelopes")
        .unwrap();
    let rule = Rule::by_hand(9, "ann");
    let done = retention::remove(&mut store, &rule, now_ms, false, &|| false).unwrap();
    // The first, which began the numbering, and the newest of the old ones stay.
    assert_eq!((done.reports, is_there(&store, 0)), (38, true));
    reader.connection().execute_batch("COMMIT").unwrap();
    for (is_stopped, expected) in [(true, 0), (false, 1)] {
        let done = store.drop_parts_before(now_ms - 9 * DAY_MS, Duration::ZERO, &|| is_stopped);
        assert_eq!(done.unwrap().dropped, expected);
    }
    assert!(!is_there(&store, 0) && is_there(&store, 1));
    let numbers = readable(&mut store, "a", &lines);
    assert_eq!(numbers.len(), 27);
    assert_eq!(numbers.last(), Some(&1));
    let count = "SELECT COUNT(*) FROM report_envelopes";
    assert_eq!(
        number(&store, count),
        27,
        "nothing is left of what was removed"
    );
    assert_eq!(number(&store, &format!("{count}_staying")), 2);
    // Within a part reports are removed one by one.
    let later_ms = PART_MS + 12 * DAY_MS;
    take(&mut store, &looks(&mut site, 1), later_ms);
    let done = retention::remove(&mut store, &rule, later_ms, false, &|| false).unwrap();
    assert!(done.reports > 15, "{done:?}");
    let left = number(&store, "SELECT COUNT(*) FROM reports");
    assert_eq!(number(&store, count), left);
    assert!(is_there(&store, 1));
}

/// Removes reports 2 to 9 of site `a`: their envelopes wait for the drop of the first part, where that can be.
fn remove_some(store: &mut Store) {
    let done = store.write(|session| {
        let removal = session.begin_removal(("ann", "old"), PART_MS, PART_MS)?;
        session.remove_reports(("a", "e1"), (2, 9), (removal, PART_MS, PART_MS))
    });
    assert_eq!(done.unwrap().0, 8);
}

const ENVELOPES: &str = "SELECT COUNT(*) FROM report_envelopes";
const IN_PARTS: &str = "SELECT COUNT(*) FROM reports WHERE part IS NOT NULL";

#[test]
fn a_user_whose_tables_are_somebody_elses_removes_row_by_row_and_drops_no_part() {
    let Some((mut owner, address)) = on_server() else {
        return;
    };
    let mut site = Site::new("a", "dev", "drone");
    register(&mut owner, &site);
    let mut lines = looks(&mut site, 40);
    take(&mut owner, &lines, 1_000);
    remove_some(&mut owner);
    assert_eq!(number(&owner, ENVELOPES), 40);
    owner
        .connection()
        .execute_batch(
            "CREATE ROLE clerk LOGIN; GRANT USAGE ON SCHEMA public TO clerk;
             GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO clerk",
        )
        .unwrap();
    let mut clerk = open(&address.replace("outhaul@", "clerk@"));
    // Into the part that is there, then into the rows of reports.
    let now_ms = 2 * PART_MS + 10 * DAY_MS;
    for received_ms in [PART_MS + 1_000, now_ms] {
        let new = looks(&mut site, 20);
        take(&mut clerk, &new, received_ms);
        lines.extend(new);
    }
    let rows = "SELECT COUNT(*) FROM reports WHERE part IS NULL";
    assert_eq!((number(&clerk, IN_PARTS), number(&clerk, rows)), (52, 20));
    let rule = Rule::by_hand(9, "ann");
    let rounds = [
        ("", 50),
        ("ALTER TABLE report_envelopes_0 OWNER TO clerk", 0),
        // The table is this user's, and its parts of before are not.
        (
            "ALTER TABLE report_envelopes_0 OWNER TO outhaul; ALTER TABLE report_envelopes OWNER TO clerk;
             GRANT CREATE ON SCHEMA public TO clerk",
            0,
        ),
    ];
    for (round, (text, removed)) in rounds.into_iter().enumerate() {
        owner.connection().execute_batch(text).unwrap();
        let done = retention::remove(&mut clerk, &rule, now_ms, false, &|| false).unwrap();
        // It is known to whoever asked for it: no part is dropped, where one would be.
        assert_eq!(
            (done.reports, done.foreign_parts),
            (removed, 2),
            "round {round}"
        );
        assert_eq!(readable(&mut clerk, "a", &lines).len(), 22, "round {round}");
        // Also those that waited for a drop before.
        assert_eq!(
            (number(&owner, ENVELOPES), number(&owner, IN_PARTS)),
            (2, 2)
        );
    }
    let parts =
        "SELECT COUNT(*) FROM pg_inherits WHERE inhparent = to_regclass('report_envelopes')";
    assert_eq!(number(&owner, parts), 2, "none was dropped or made");
    // Whoever may drop them does it later, and loses nothing.
    let dropped = owner.drop_parts_before(2 * PART_MS, Duration::ZERO, &|| false);
    assert_eq!(dropped.unwrap().dropped, 2);
    assert_eq!(readable(&mut owner, "a", &lines).len(), 22);
}

#[test]
fn a_part_that_another_process_drops_meanwhile_is_dropped_once() {
    let Some((mut store, address)) = on_server() else {
        return;
    };
    let mut site = Site::new("a", "dev", "drone");
    register(&mut store, &site);
    let lines = looks(&mut site, 3);
    take(&mut store, &lines, 1_000);
    let other = RefCell::new(open(&address));
    let dropped_by_other = Cell::new(0);
    // Asked once it is known which parts are old, before the first of them is looked at.
    let stop = || {
        let dropped = other
            .borrow_mut()
            .drop_parts_before(PART_MS, Duration::ZERO, &|| false);
        dropped_by_other.set(dropped_by_other.get() + dropped.unwrap().dropped);
        false
    };
    let dropped = store.drop_parts_before(PART_MS, Duration::ZERO, &stop);
    assert_eq!((dropped.unwrap().dropped, dropped_by_other.get()), (0, 1));
    assert_eq!(readable(&mut store, "a", &lines).len(), 3);
}

#[test]
fn others_write_between_two_transactions_of_a_drop() {
    let Some((mut store, address)) = on_server() else {
        return;
    };
    let mut site = Site::new("a", "dev", "drone");
    register(&mut store, &site);
    let lines = looks(&mut site, 3);
    take(&mut store, &lines[..1], 1_000);
    let now_ms = PART_MS + 9 * DAY_MS;
    take(&mut store, &lines[1..2], now_ms);
    let other = RefCell::new(open(&address));
    let written = Cell::new(0);
    // Asked before each transaction: one moves the envelope that stays, the next drops its part.
    let between = || {
        let mut other = other.borrow_mut();
        let text = "SELECT COUNT(*) FROM pg_class WHERE relname = 'report_envelopes_staying'";
        if number(&other, text) == 1 && written.get() == 0 {
            written.set(take(&mut other, &lines[2..], now_ms).accepted);
        }
        false
    };
    let done = retention::remove(
        &mut store,
        &Rule::by_hand(9, "ann"),
        now_ms,
        false,
        &between,
    );
    assert_eq!((done.unwrap().reports, written.get()), (0, 1));
    assert_eq!(number(&store, &format!("{ENVELOPES}_staying")), 1);
    assert_eq!(number(&store, ENVELOPES), 3);
}

#[test]
fn a_part_that_several_processes_need_at_once_is_made_once_and_nothing_is_lost() {
    let Some((mut store, address)) = on_server() else {
        return;
    };
    let mut sites: Vec<Site> = (0..6)
        .map(|at| Site::new(&format!("s{at}"), "dev", "drone"))
        .collect();
    for site in &sites {
        register(&mut store, site);
    }
    let begin = Barrier::new(sites.len());
    std::thread::scope(|scope| {
        for site in &mut sites {
            let (begin, address) = (&begin, &address);
            scope.spawn(move || {
                let mut store = open(address);
                for part in 0..4 {
                    let lines = looks(site, 3);
                    begin.wait();
                    let done = take(&mut store, &lines, part * PART_MS);
                    assert_eq!(done.accepted, 3);
                }
            });
        }
    });
    for text in ["reports", "report_envelopes"] {
        let count = number(&store, &format!("SELECT COUNT(*) FROM {text}"));
        assert_eq!(count, 6 * 4 * 3, "{text}");
    }
    for part in 0..4 {
        let text = format!("SELECT COUNT(*) FROM report_envelopes_{part}");
        assert_eq!(number(&store, &text), 18);
    }
}

/// Makes of a store what the program of before, which knew no parts, had.
fn as_before(store: &Store) {
    store
        .connection()
        .execute_batch(
            "UPDATE reports SET envelope = (SELECT v.envelope FROM report_envelopes v
                    WHERE v.part = reports.part AND v.site = reports.site AND v.epoch = reports.epoch AND v.number = reports.number)
               WHERE part IS NOT NULL;
             ALTER TABLE observations DROP COLUMN environment_commit;
             ALTER TABLE observations DROP COLUMN webhook;
             DROP TABLE webhook_sites;
             ALTER TABLE reports DROP COLUMN part;
             DROP TABLE report_envelopes;
             DROP INDEX sites_by_environment;
             DROP INDEX gate_decisions_by_time;
             DROP INDEX gate_acts_by_kind;
             DELETE FROM migrations WHERE version >= 25",
        )
        .unwrap();
}

/// A store of before is opened, and goes on.
fn goes_on(mut store: Store, again: impl Fn() -> Store) {
    let mut site = Site::new("a", "dev", "drone");
    register(&mut store, &site);
    let mut lines = looks(&mut site, 30);
    take(&mut store, &lines, 1_000);
    as_before(&store);
    drop(store);
    let mut store = again();
    let newest = i64::try_from(Store::newest_version()).unwrap();
    assert_eq!(
        number(&store, "SELECT MAX(version) FROM migrations"),
        newest
    );
    assert_eq!(readable(&mut store, "a", &lines).len(), 30);
    let new = looks(&mut site, 10);
    let now_ms = 40 * DAY_MS;
    take(&mut store, &new, now_ms);
    lines.extend(new);
    assert_eq!(readable(&mut store, "a", &lines).len(), 40);
    let states = store
        .read(|session| Ok::<_, StoreError>((session.site_states()?, session.environments()?)));
    assert_eq!(states.unwrap().1, ["dev"]);
    let rule = Rule::by_hand(7, "ann");
    let done = retention::remove(&mut store, &rule, now_ms, false, &|| false).unwrap();
    assert_eq!(done.reports, 28);
    assert_eq!(readable(&mut store, "a", &lines).len(), 12);
}

#[test]
fn reports_of_a_store_of_before_stay_readable_and_new_ones_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let file = Store::create(folder.path()).unwrap();
    goes_on(file, || Store::open(folder.path()).unwrap());
    if let Some((store, address)) = on_server() {
        goes_on(store, || open(&address));
    }
}
