//! How fast a hub takes reports in, and how fast it tells the present of a large fleet.
//!
//! What comes in: made-up sites, each with a separate key, whose signed reports tell of 20 assignments. What goes
//! out: how fast reports are taken in, on both stores (`intake.rs`); the present of a fleet with a long history against one with none, and one page of it against
//! all; what a scrape of metrics costs with a hundred thousand sites, on both stores; and how long each page takes
//! there (`pages.rs`), those of explanations with as many on record as are kept (`explained.rs`).
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_precision_loss,
    reason = "a helper of a benchmark that fails ends it"
)]

use std::path::Path;
use std::time::{Duration, Instant};

use outhaul_bundle::Digest;
use outhaul_hub::Store;
use outhaul_hub::enrol;
use outhaul_hub::ingest::{Batch, ingest};
use outhaul_hub::record::{EnvironmentRecord, GateRequest, keep};
use outhaul_hub::store::{SitePage, StoreError};
use outhaul_hub::view::{Measured, Reading};
use outhaul_telemetry::{of_fleet, text};
use outhaul_test_kit::Site;
use outhaul_test_kit::plain::FLEET;
use outhaul_tests::postgres::Postgres;

mod explained;
mod intake;
mod pages;
mod site;

use site::{ASSIGNMENTS, report};

const SITES: usize = 1_000;
/// Reports of each site; a day of looks for drift, every 15 minutes, has 96.
const REPORTS: u64 = 20;
/// Lines in one batch, as an agent or a stick brings them.
const LINES: usize = 500;
const ROUNDS: usize = 5;

/// Sites of a scrape, in 200 streams of four environments; three reports of each, of which the last is at most 33 hours old. `i` counts.
const SCRAPED: u64 = 100_000;
/// When a scrape comes, milliseconds since 1970.
const NOW: i64 = 1_800_000_000_000;
const ROWS: &str = "
INSERT INTO bundles (role, number, environment, cluster_type, index_digest, index_size, base_commit, snapshot, recipients, reconciler,
        issued_ms, expires_ms, recorded_ms, signed_as)
    WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < 400)
    SELECT 'stream-' || CAST(i % 200 AS TEXT), 1 + i / 200, 'env-' || CAST(i % 4 AS TEXT), 'type-' || CAST(i % 200 AS TEXT),
           'sha256:DIGEST' || CAST(i / 200 AS TEXT), 1, 'c', '{}', '[]', 'folder', 0, 0, 0, 1 FROM n;
INSERT INTO sites (site, role, environment, cluster_type, key_generation, enrolled_ms)
    WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < 100000)
    SELECT 'site-' || CAST(100000 + i AS TEXT), 'stream-' || CAST(i % 200 AS TEXT), 'env-' || CAST(i % 4 AS TEXT),
           'type-' || CAST(i % 200 AS TEXT), 1, 0 FROM n;
INSERT INTO epochs (site, epoch, ordinal, key_generation, acked) SELECT site, 'e1', 1, 1, 3 FROM sites;
INSERT INTO site_keys (site, generation, key_id, public_key, enrolled_ms) SELECT site, 1, 'k' || site, 'p', 0 FROM sites;
INSERT INTO reports (site, epoch, number, digest, kind, envelope, via, received_ms, wall_ms, lower_bound_ms, clock_trusted)
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3)
    SELECT site, 'e1', i, 'sha256:DIGEST', 'generation', BLOB, 'http',
           1799880000000 + CAST(SUBSTR(site, 6) AS BIGINT) * 500 + i, 1000000, 0, 1 FROM sites CROSS JOIN n;
INSERT INTO assignment_sets (digest, assignment, status, config_version, message) VALUES ('good', 'app', 'compliant', 'v', ''),
    ('bad', 'app', 'failed', 'v', 'it broke');
INSERT INTO observations (site, epoch, number, role, bundle_number, index_digest, base_commit, snapshot_digest, state, running, message, assignments)
    SELECT r.site, 'e1', r.number, s.role, CASE WHEN s.site LIKE '%7' THEN 1 ELSE 2 END,
           'sha256:DIGEST' || CASE WHEN s.site LIKE '%7' THEN '0' ELSE '1' END, 'c', 's', 'active', 1, '',
           CASE WHEN s.site LIKE '%11' THEN 'bad' ELSE 'good' END FROM reports r JOIN sites s ON s.site = r.site;
INSERT INTO current_states (site, epoch, newest, running, attempt_left) SELECT site, 'e1', 3, 3, 0 FROM sites;
";

fn main() {
    // `cargo bench … -- ingest` measures ingest alone, `-- pages` the pages.
    let is_asked = |part: &str| std::env::args().any(|argument| argument == part);
    let only_ingest = is_asked("ingest");
    if is_asked("pages") {
        return pages::measure();
    }
    if !only_ingest {
        scrapes();
    }
    let folder = tempfile::tempdir().unwrap();
    let (mut sites, mut first, mut store) = intake::on_sqlite(folder.path());
    intake::on_postgres();
    if only_ingest {
        return;
    }
    let long = folder.path().join("long");
    let all = |store: &mut Store| least(|| drop(reading(store, SitePage::ALL)));
    let (none, history) = (all(&mut first), all(&mut store));
    println!(
        "the present of {SITES} sites × {ASSIGNMENTS} assignments: {:.1} ms with {REPORTS} reports of each, {:.1} ms \
         with one; ratio {:.2}",
        milliseconds(history),
        milliseconds(none),
        history.as_secs_f64() / none.as_secs_f64()
    );
    let page = SitePage {
        limit: 50,
        offset: SITES as u64 / 2,
        ..SitePage::ALL
    };
    let some = least(|| drop(reading(&mut store, page)));
    decisions(&mut store, &long.join("hub.db"), &mut sites[0]);
    println!(
        "50 of these sites: {:.1} ms; ratio to all {:.3}",
        milliseconds(some),
        some.as_secs_f64() / history.as_secs_f64()
    );
    pages::measure();
}

/// What a scrape of metrics costs, on both stores.
fn scrapes() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::create(folder.path()).unwrap();
    let rows = |blob: &str| {
        let digest = Digest::of(b"index").hex();
        ROWS.replace("DIGEST", &digest[1..]).replace("BLOB", blob)
    };
    let db = rusqlite::Connection::open(folder.path().join("hub.db")).unwrap();
    db.execute_batch(&rows("zeroblob(2200)")).unwrap();
    scrape("SQLite", &mut store);
    let Some(server) = Postgres::start(&[]) else {
        println!("PostgreSQL is not installed: scrapes of it are not measured");
        return;
    };
    let address = server.database();
    let mut store = Store::on_server(&address.parse().unwrap()).unwrap();
    let name = address
        .split('?')
        .next()
        .and_then(|text| text.rsplit('/').next());
    let text = rows("decode(repeat('00', 2200), 'hex')");
    server.sql(name.unwrap(), &format!("{text} ANALYZE;"));
    scrape("PostgreSQL", &mut store);
}

fn scrape(name: &str, store: &mut Store) {
    let take = |store: &mut Store| -> Measured {
        let measured = store.read(|session| Measured::take(session, NOW));
        measured.unwrap_or_else(|error: StoreError| panic!("{error}"))
    };
    let counted = take(store);
    assert_eq!(counted.sites.values().sum::<u64>(), SCRAPED);
    let reading = least(|| drop(take(store)));
    let mut size = 0;
    let scrape = least(|| size = text(&of_fleet(&counted, NOW)).len());
    let start = Instant::now();
    let mut listed = 0;
    Reading::in_parts(store, NOW, |reading| listed += reading.site_rows(NOW).len()).unwrap();
    let list = start.elapsed();
    assert_eq!(listed as u64, SCRAPED);
    println!(
        "{name}: a scrape of {SCRAPED} sites, {size} bytes, of numbers that were read: {:.1} ms (aim 200); reading them, which \
         it does not wait for: {:.0} ms; the sites as rows, which numbers were made of before: {:.0} ms; ratio {:.3}",
        milliseconds(scrape),
        milliseconds(reading),
        milliseconds(list),
        reading.as_secs_f64() / list.as_secs_f64()
    );
}

/// A gate is asked about all sites, one site reports, and it is asked again: how long it takes and what is kept.
fn decisions(store: &mut Store, path: &Path, site: &mut Site) {
    let asked = GateRequest {
        environment: "dev".to_owned(),
        commit: "1111111111111111111111111111111111111111".to_owned(),
        ..GateRequest::default()
    };
    let bytes = || {
        let db = rusqlite::Connection::open(path).unwrap();
        let text =
            "SELECT COALESCE(SUM(LENGTH(decision)), 0) + (SELECT COALESCE(SUM(LENGTH(body)), 0)
                      FROM evidence_blocks) + 80 * (SELECT COUNT(*) FROM decision_evidence)
                      FROM gate_decisions";
        db.query_row(text, [], |row| row.get::<_, i64>(0)).unwrap()
    };
    let ask = |store: &mut Store| {
        let start = Instant::now();
        let decision = store
            .write(|session| {
                let question = asked.question(session, 2_000).unwrap();
                let decision = EnvironmentRecord::read(session, &question)?.decide(&question);
                keep(session, (&question, &decision), None, "bench", 2_000)?;
                Ok::<_, StoreError>(decision)
            })
            .unwrap();
        (
            start.elapsed(),
            serde_json::to_vec(&decision).unwrap().len(),
        )
    };
    let (took, whole) = ask(store);
    let first = bytes();
    take(store, &[report(site)]);
    ask(store);
    println!(
        "a gate over {SITES} sites: {:.1} ms; the answer has {whole} bytes, the first decision keeps {first}, one after \
         a report of one site {} more",
        milliseconds(took),
        bytes() - first
    );
}

fn milliseconds(took: Duration) -> f64 {
    took.as_secs_f64() * 1e3
}

fn least(mut work: impl FnMut()) -> Duration {
    let round = |_| {
        let start = Instant::now();
        work();
        start.elapsed()
    };
    (0..ROUNDS).map(round).min().unwrap()
}

fn reading(store: &mut Store, page: SitePage<'_>) -> Reading {
    let reading = store.read(|session| Reading::of(session, page, 2_000));
    let reading: Reading = reading.unwrap_or_else(|error: StoreError| {
        panic!("{error}");
    });
    assert!(!reading.site_rows(2_000).is_empty());
    reading
}

fn enrol_all(store: &mut Store, sites: &[Site]) {
    store
        .write(|session| {
            for site in sites {
                let checked = enrol::check(&site.request(), FLEET).unwrap();
                enrol::approve(session, &checked, false, 10).unwrap();
            }
            Ok::<_, StoreError>(())
        })
        .unwrap();
}

fn take(store: &mut Store, lines: &[Vec<u8>]) {
    let batch = Batch {
        fleet: FLEET,
        via: "bench",
        received_ms: 1_000,
    };
    for part in lines.chunks(LINES) {
        let done = ingest(store, part.concat().as_slice(), &batch).unwrap();
        assert_eq!(done.accepted, part.len() as u64);
    }
}
