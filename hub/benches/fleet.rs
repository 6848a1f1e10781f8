//! How fast a hub takes reports in, and how fast it tells the present of a large fleet.
//!
//! What comes in: made-up sites, each with a separate key, whose signed reports tell of 20 assignments. What goes
//! out: durable ingest (every signature checked, every batch on the disk) against `INSERT … SELECT` of the same rows
//! by `SQLite` alone; the present of a fleet with a long history against one with none, and one page of it against
//! all.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_precision_loss,
    reason = "a helper of a benchmark that fails ends it"
)]

use std::path::Path;
use std::time::{Duration, Instant};

use outhaul_bundle::Digest;
use outhaul_bundle::index::{Snapshot, Source, Stream};
use outhaul_bundle::name::Name;
use outhaul_bundle::report::{
    self, AssignmentResult, ComplianceStatus, ENROLMENT_PAYLOAD_TYPE, EnrolmentRequest,
    GenerationEvent, GenerationState, PAYLOAD_TYPE, Report, ReportEvent, SiteTime,
};
use outhaul_hub::Store;
use outhaul_hub::enrol;
use outhaul_hub::ingest::{Batch, ingest};
use outhaul_hub::record::{Asked, Known, keep};
use outhaul_hub::store::{SitePage, StoreError};
use outhaul_hub::view::Reading;
use outhaul_signer::enrol::kit_key;
use outhaul_signer::envelope::Envelope;
use outhaul_signer::key::SigningKey;

const FLEET: &str = "0123456789abcdef";
const SITES: usize = 1_000;
const ASSIGNMENTS: usize = 20;
/// Reports of each site; a day of looks for drift, every 15 minutes, has 96.
const REPORTS: u64 = 20;
/// Lines in one batch, as an agent or a stick brings them.
const LINES: usize = 500;
const ROUNDS: usize = 5;

/// The tables of what was reported, which `INSERT … SELECT` fills in another file.
const TABLES: [&str; 3] = ["reports", "observations", "observed_assignments"];

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let mut sites: Vec<Site> = (0..SITES).map(Site::new).collect();
    let (short, long) = (folder.path().join("short"), folder.path().join("long"));
    let mut first = enrolled(&short, &sites);
    let one: Vec<Vec<u8>> = sites.iter_mut().map(Site::report).collect();
    take(&mut first, &one);
    let mut store = enrolled(&long, &sites);
    let more: Vec<Vec<u8>> = (1..REPORTS)
        .flat_map(|_| sites.iter_mut().map(Site::report).collect::<Vec<_>>())
        .collect();
    let start = Instant::now();
    take(&mut store, &one);
    take(&mut store, &more);
    let ours = start.elapsed();
    let count = one.len() + more.len();
    let theirs = bulk(&long.join("hub.db"), &folder.path().join("peer.db"));
    println!(
        "ingest, {count} reports of {ASSIGNMENTS} assignments, batches of {LINES}: {:.0}/s; INSERT … SELECT of the \
         same rows: {:.0}/s; ratio {:.2} (aim 0.30)",
        count as f64 / ours.as_secs_f64(),
        count as f64 / theirs.as_secs_f64(),
        theirs.as_secs_f64() / ours.as_secs_f64()
    );
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
}

/// A gate is asked about all sites, one site reports, and it is asked again: how long it takes and what is kept.
fn decisions(store: &mut Store, path: &Path, site: &mut Site) {
    let asked = Asked {
        environment: "dev".to_owned(),
        commit: "1111111111111111111111111111111111111111".to_owned(),
        ..Asked::default()
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
                let decision = Known::read(session, &question)?.decide(&question);
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
    take(store, &[site.report()]);
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

fn enrolled(folder: &Path, sites: &[Site]) -> Store {
    std::fs::create_dir(folder).unwrap();
    let mut store = Store::create(folder).unwrap();
    store
        .write(|session| {
            for site in sites {
                let checked = enrol::check(&site.request(), FLEET).unwrap();
                enrol::approve(session, &checked, false, 10).unwrap();
            }
            Ok::<_, StoreError>(())
        })
        .unwrap();
    store
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

/// The same rows, by `SQLite` alone: one transaction, as durable.
fn bulk(from: &Path, to: &Path) -> Duration {
    let db = rusqlite::Connection::open(to).unwrap();
    db.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
        .unwrap();
    db.execute("ATTACH DATABASE $1 AS hub", [from.to_str().unwrap()])
        .unwrap();
    for table in TABLES {
        let text = "SELECT sql FROM hub.sqlite_master WHERE type = 'table' AND name = $1";
        let text: String = db.query_row(text, [table], |row| row.get(0)).unwrap();
        db.execute_batch(&text).unwrap();
    }
    let start = Instant::now();
    let inserts =
        TABLES.map(|table| format!("INSERT INTO main.{table} SELECT * FROM hub.{table};"));
    db.execute_batch(&format!("BEGIN; {} COMMIT", inserts.concat()))
        .unwrap();
    start.elapsed()
}

struct Site {
    name: Name,
    key: SigningKey,
    next: u64,
    previous: Option<Digest>,
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn stream() -> Stream {
    Stream {
        role: name("s-dev-drone"),
        environment: name("dev"),
        cluster_type: name("drone"),
    }
}

fn snapshot() -> Snapshot {
    let source = |name: &str| Source {
        name: name.to_owned(),
        repo: format!("https://git.example/{name}"),
        commit: "1111111111111111111111111111111111111111".to_owned(),
    };
    Snapshot {
        environment: source("env"),
        base: source("main"),
        workloads: Vec::new(),
        digest: Digest::of(b"snapshot"),
    }
}

impl Site {
    fn new(number: usize) -> Self {
        Self {
            name: name(&format!("site-{number:05}")),
            key: SigningKey::generate().unwrap(),
            next: 1,
            previous: None,
        }
    }

    fn request(&self) -> Vec<u8> {
        let kit = kit_key(FLEET, self.name.as_str(), "one-time-token");
        let request = EnrolmentRequest {
            fleet: name(FLEET),
            site: self.name.clone(),
            stream: stream(),
            public_key: self.key.public().to_pem(),
            seal_key: String::new(),
            order: None,
            kit: kit.public().to_hex(),
        };
        let payload = serde_json::to_vec(&request).unwrap();
        Envelope::sign(ENROLMENT_PAYLOAD_TYPE, payload, &self.key)
            .countersigned(&kit)
            .to_json()
    }

    /// Says that bundle 1 is active and well, in one signed line.
    fn report(&mut self) -> Vec<u8> {
        let result = |number: usize| AssignmentResult {
            name: name(&format!("workload-{number:02}")),
            status: ComplianceStatus::Compliant,
            config_version: Digest::of(b"config"),
            message: String::new(),
            steps: Vec::new(),
        };
        let report = Report {
            format: report::FORMAT.to_owned(),
            fleet: name(FLEET),
            site: self.name.clone(),
            epoch: name("e1"),
            number: self.next,
            previous: self.previous,
            at: SiteTime {
                wall_ms: 1_000,
                lower_bound_ms: 500,
                trusted: false,
            },
            event: ReportEvent::Generation(GenerationEvent {
                stream: stream(),
                number: 1,
                index: Digest::of(b"index"),
                snapshot: snapshot(),
                state: GenerationState::Active,
                assignments: (0..ASSIGNMENTS).map(result).collect(),
                message: String::new(),
                reverted_from: None,
            }),
        };
        self.next += 1;
        self.previous = Some(Digest::of(&report.to_bytes()));
        let mut line = Envelope::sign(PAYLOAD_TYPE, report.to_bytes(), &self.key).to_json();
        line.retain(|byte| *byte != b'\n');
        line.push(b'\n');
        line
    }
}
