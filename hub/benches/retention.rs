//! What it takes to remove old reports: how long, how large the store is before and after, and what ingest and reads cost meanwhile.
//!
//! What comes in: made-up sites, each with a key, that reported once a day for 200 days, and decisions of a gate in between. What goes
//! out: on SQLite and PostgreSQL, the time of a removal of everything older than 30 days, the size of the store before and
//! after it, and in the same run how fast reports are taken in and a page of sites is read beside it against alone. A number as
//! argument is how many sites there are.
#![expect(
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    reason = "a helper of a benchmark that fails ends it"
)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use outhaul_hub::Store;
use outhaul_hub::enrol;
use outhaul_hub::ingest::{Batch, ingest};
use outhaul_hub::record::{EnvironmentRecord, GateRequest, keep};
use outhaul_hub::retention::{self, Rule};
use outhaul_hub::store::{Address, SitePage, StoreError};
use outhaul_hub::view::Reading;
use outhaul_test_kit::Site;
use outhaul_test_kit::plain::FLEET;
use outhaul_tests::postgres::Postgres;

#[path = "fleet/site.rs"]
mod site;

use site::{ASSIGNMENTS, numbered, report};

/// Sites, where no number is given.
const SITES: usize = 1_000;
/// Sites on the page that is read.
const PAGE: usize = 50;
/// One report a day.
const REPORTS: i64 = 200;
const KEPT_DAYS: u32 = 30;
/// Days from one decision of the gate that is put on record to the next.
const DECIDED_EVERY: i64 = 20;
/// Lines in one batch, as an agent brings them.
const LINES: usize = 50;
/// Reports that are taken in beside a removal, and alone.
const MORE: usize = 4_000;
const DAY_MS: i64 = 24 * 60 * 60 * 1000;
const NOW: i64 = 1_800_000_000_000;

/// `cargo bench … -- 100` measures with a hundred sites.
fn count_of_sites() -> usize {
    let given = std::env::args().find_map(|argument| argument.parse().ok());
    given.unwrap_or(SITES).max(PAGE)
}

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::create(folder.path()).unwrap();
    measure("SQLite", &mut store, || Store::open(folder.path()).unwrap());
    let before = size(&mut store);
    let start = Instant::now();
    store.compact().unwrap();
    println!(
        "SQLite: the file of {} MB is made one of {} MB in {:.1} s",
        megabytes(before),
        megabytes(size(&mut store)),
        start.elapsed().as_secs_f64()
    );
    drop(store);
    let Some(server) = Postgres::start(&[]) else {
        println!("PostgreSQL is not installed: it is not measured");
        return;
    };
    let address: Address = server.database().parse().unwrap();
    let mut store = Store::on_server(&address).unwrap();
    measure("PostgreSQL", &mut store, || {
        Store::on_server(&address).unwrap()
    });
}

fn measure(name: &str, store: &mut Store, another: impl Fn() -> Store) {
    let count = count_of_sites();
    let mut sites: Vec<Site> = (0..count).map(numbered).collect();
    store
        .write(|session| {
            for site in &sites {
                let checked = enrol::check(&site.request(), FLEET).unwrap();
                enrol::approve(session, &checked, false, 10).unwrap();
            }
            Ok::<_, StoreError>(())
        })
        .unwrap();
    for day in 0..REPORTS {
        let lines: Vec<Vec<u8>> = sites.iter_mut().map(report).collect();
        let at_ms = NOW - (REPORTS - day) * DAY_MS;
        take(store, &lines, 1_000, at_ms);
        if day % DECIDED_EVERY == 0 {
            decide(store, at_ms + 1);
        }
    }
    let before = size(store);
    let alone = rate(store, &more(&mut sites));
    let read_alone = pages(store, Duration::from_secs(2));
    let lines = more(&mut sites);
    let (mut removing, mut reading) = (another(), another());
    let done = AtomicBool::new(false);
    let rule = Rule {
        pause: Duration::from_millis(20),
        ..Rule::by_hand(KEPT_DAYS, "bench")
    };
    let (removed, took, beside, read_beside) = std::thread::scope(|scope| {
        let removal = scope.spawn(|| {
            let start = Instant::now();
            let removed = retention::remove(&mut removing, &rule, NOW, false, &|| false);
            done.store(true, Ordering::Relaxed);
            (removed.unwrap(), start.elapsed())
        });
        let reader = scope.spawn(|| pages_until(&mut reading, &done));
        let beside = rate(store, &lines);
        let (removed, took) = removal.join().unwrap();
        (removed, took, beside, reader.join().unwrap())
    });
    println!(
        "{name}: {count} sites × {REPORTS} reports of {ASSIGNMENTS} assignments, {} MB: {} reports ({} MB of envelopes) removed in \
         {:.1} s beside ingest, {:.0}/s; kept although as old: {:?}",
        megabytes(before),
        removed.reports,
        megabytes(removed.bytes),
        took.as_secs_f64(),
        removed.reports as f64 / took.as_secs_f64(),
        removed.kept
    );
    println!(
        "{name}: ingest beside it {beside:.0}/s, alone {alone:.0}/s, ratio {:.2}; 50 sites read beside it in {:.2} ms (slowest \
         {:.1}), alone {:.2} ms",
        beside / alone,
        read_beside.0,
        read_beside.1,
        read_alone.0
    );
    let full = size(store);
    // As many as fit into the space that is free now.
    for day in 0..50 {
        let lines: Vec<Vec<u8>> = sites.iter_mut().map(report).collect();
        take(store, &lines, 1_000, NOW + day * DAY_MS);
    }
    println!(
        "{name}: {} MB after it, {} MB after {} more reports",
        megabytes(full),
        megabytes(size(store)),
        50 * count
    );
    let again = Instant::now();
    let second = retention::remove(store, &rule, NOW, false, &|| false).unwrap();
    assert_eq!(second.reports, 0, "{second:?}");
    println!(
        "{name}: another removal, which finds none, takes {:.1} s",
        again.elapsed().as_secs_f64()
    );
}

/// The next reports of the sites in turn.
fn more(sites: &mut [Site]) -> Vec<Vec<u8>> {
    let length = sites.len();
    (0..MORE)
        .map(|at| report(&mut sites[at % length]))
        .collect()
}

fn take(store: &mut Store, lines: &[Vec<u8>], at_once: usize, received_ms: i64) {
    let batch = Batch {
        fleet: FLEET,
        via: "bench",
        received_ms,
    };
    for part in lines.chunks(at_once) {
        let done = ingest(store, part.concat().as_slice(), &batch).unwrap();
        assert_eq!(done.accepted, part.len() as u64);
    }
}

/// Reports that are taken in per second.
fn rate(store: &mut Store, lines: &[Vec<u8>]) -> f64 {
    let start = Instant::now();
    take(store, lines, LINES, NOW);
    lines.len() as f64 / start.elapsed().as_secs_f64()
}

/// A gate is asked, and its answer is put on record.
fn decide(store: &mut Store, at_ms: i64) {
    let asked = GateRequest {
        environment: "dev".to_owned(),
        commit: "1111111111111111111111111111111111111111".to_owned(),
        ..GateRequest::default()
    };
    store
        .write(|session| {
            let question = asked.question(session, at_ms).unwrap();
            let decision = EnvironmentRecord::read(session, &question)?.decide(&question);
            keep(session, (&question, &decision), None, "bench", at_ms)?;
            Ok::<_, StoreError>(())
        })
        .unwrap();
}

/// Mean and slowest time of a page of sites, in milliseconds.
fn pages(store: &mut Store, during: Duration) -> (f64, f64) {
    let start = Instant::now();
    read_while(store, || start.elapsed() < during)
}

fn pages_until(store: &mut Store, done: &AtomicBool) -> (f64, f64) {
    read_while(store, || !done.load(Ordering::Relaxed))
}

fn read_while(store: &mut Store, goes_on: impl Fn() -> bool) -> (f64, f64) {
    let page = SitePage {
        limit: PAGE as u64,
        offset: (count_of_sites() - PAGE) as u64 / 2,
        ..SitePage::ALL
    };
    let (mut count, mut sum, mut slowest) = (0_u32, 0.0, 0.0_f64);
    while goes_on() {
        let start = Instant::now();
        let reading = store.read(|session| Reading::of(session, page, NOW));
        let reading: Reading = reading.unwrap_or_else(|error: StoreError| unreadable(&error));
        assert_eq!(reading.site_rows(NOW).len(), PAGE);
        let took = start.elapsed().as_secs_f64() * 1e3;
        (count, sum, slowest) = (count + 1, sum + took, slowest.max(took));
        std::thread::sleep(Duration::from_millis(5));
    }
    (sum / f64::from(count.max(1)), slowest)
}

#[expect(clippy::panic, reason = "it ends the benchmark")]
fn unreadable(error: &StoreError) -> Reading {
    panic!("{error}")
}

#[expect(
    clippy::redundant_closure_for_method_calls,
    reason = "a method of `Session<'a>` named by its path is not general enough over 'a"
)]
fn size(store: &mut Store) -> u64 {
    store.read(|session| session.size_bytes()).unwrap()
}

fn megabytes(bytes: u64) -> u64 {
    bytes / 1_000_000
}
