//! How fast a hub takes reports in, durably, on both stores.
//!
//! What comes in: made-up sites whose signed reports tell of 20 assignments. What goes out: ingest (every signature checked, every
//! batch on the disk) against `INSERT … SELECT` of the same rows by the database alone, in one transaction that is as durable.

use std::path::Path;
use std::time::{Duration, Instant};

use outhaul_hub::Store;
use outhaul_tests::postgres::Postgres;

use super::site::{ASSIGNMENTS, numbered, report};
use super::{LINES, REPORTS, SITES, Site, enrol_all, take};

/// One row for each assignment of each report, as a table without sets would have it.
const FLAT: &str = "CREATE TABLE observed_assignments (site TEXT NOT NULL, epoch TEXT NOT NULL, number BIGINT NOT NULL,
     assignment TEXT NOT NULL, status TEXT NOT NULL, config_version TEXT NOT NULL, message TEXT NOT NULL,
     PRIMARY KEY (site, epoch, number, assignment))";
/// The rows of what was reported, which `INSERT … SELECT` writes into another file.
const TABLES: [&str; 3] = ["reports", "observations", "observed_assignments"];

/// On `SQLite`: the sites with their reports so far, one store with the first report of each, and one with all.
pub fn on_sqlite(folder: &Path) -> (Vec<Site>, Store, Store) {
    let mut sites: Vec<Site> = (0..SITES).map(numbered).collect();
    let new = |name: &str| {
        let folder = folder.join(name);
        std::fs::create_dir(&folder).unwrap();
        Store::create(&folder).unwrap()
    };
    let (mut first, mut store) = (new("short"), new("long"));
    let (one, more) = made(&mut sites);
    for store in [&mut first, &mut store] {
        enrol_all(store, &sites);
    }
    take(&mut first, &one);
    let ours = taken(&mut store, &one, &more);
    let theirs = bulk(&folder.join("long/hub.db"), &folder.join("peer.db"));
    show("SQLite", one.len() + more.len(), ours, theirs);
    (sites, first, store)
}

/// The same on PostgreSQL, which syncs what it commits.
pub fn on_postgres() {
    let settings = [("fsync", "on"), ("max_wal_size", "4GB")];
    let Some(server) = Postgres::start(&settings) else {
        println!("PostgreSQL is not installed: ingest into it is not measured");
        return;
    };
    let address = server.database();
    let mut store = Store::on_server(&address.parse().unwrap()).unwrap();
    let mut sites: Vec<Site> = (0..SITES).map(numbered).collect();
    let (one, more) = made(&mut sites);
    enrol_all(&mut store, &sites);
    let ours = taken(&mut store, &one, &more);
    let name = address
        .split('?')
        .next()
        .and_then(|text| text.rsplit('/').next())
        .unwrap();
    // With what the tables themselves ask for, and without the further indexes: like the file of `bulk`.
    let like = |table: &str| {
        format!(
            "CREATE TABLE peer.{table} (LIKE public.{table} INCLUDING DEFAULTS INCLUDING CONSTRAINTS,
                 PRIMARY KEY (site, epoch, number));"
        )
    };
    let like = ["reports", "observations"].map(like).concat();
    let flat = FLAT.replace("observed_assignments", "peer.observed_assignments");
    server.sql(name, &format!("CREATE SCHEMA peer; {like} {flat}"));
    let inserts =
        TABLES.map(|table| format!("INSERT INTO peer.{table} SELECT * FROM public.{table};"));
    let text = format!("BEGIN; {} COMMIT", inserts.concat());
    let start = Instant::now();
    server.sql(name, &text);
    show("PostgreSQL", one.len() + more.len(), ours, start.elapsed());
}

/// The first report of each site, and all that follow.
fn made(sites: &mut [Site]) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let mut round = || sites.iter_mut().map(report).collect::<Vec<_>>();
    let one = round();
    (one, (1..REPORTS).flat_map(|_| round()).collect())
}

fn taken(store: &mut Store, one: &[Vec<u8>], more: &[Vec<u8>]) -> Duration {
    let start = Instant::now();
    take(store, one);
    take(store, more);
    start.elapsed()
}

fn show(name: &str, count: usize, ours: Duration, theirs: Duration) {
    println!(
        "{name}: ingest, {count} reports of {ASSIGNMENTS} assignments, batches of {LINES}: {:.0}/s; INSERT … SELECT of the \
         same rows: {:.0}/s; ratio {:.2} (aim 0.30)",
        count as f64 / ours.as_secs_f64(),
        count as f64 / theirs.as_secs_f64(),
        theirs.as_secs_f64() / ours.as_secs_f64()
    );
}

/// The same rows, by `SQLite` alone: one transaction, as durable.
fn bulk(from: &Path, to: &Path) -> Duration {
    let db = rusqlite::Connection::open(to).unwrap();
    db.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
        .unwrap();
    db.execute("ATTACH DATABASE $1 AS hub", [from.to_str().unwrap()])
        .unwrap();
    for table in ["reports", "observations"] {
        let text = "SELECT sql FROM hub.sqlite_master WHERE type = 'table' AND name = $1";
        let text: String = db.query_row(text, [table], |row| row.get(0)).unwrap();
        db.execute_batch(&text).unwrap();
    }
    db.execute_batch(FLAT).unwrap();
    let start = Instant::now();
    let inserts =
        TABLES.map(|table| format!("INSERT INTO main.{table} SELECT * FROM hub.{table};"));
    db.execute_batch(&format!("BEGIN; {} COMMIT", inserts.concat()))
        .unwrap();
    start.elapsed()
}
