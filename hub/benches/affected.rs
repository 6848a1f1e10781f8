//! How long a hub takes to tell which of 100,000 sites an advisory is about, on both stores.
//!
//! What comes in: made-up sites in 200 streams, each of which runs a bundle with one image of 300 packages; rows as the hub itself
//! writes them. What goes out: the time of one answer with a page of sites, of the rows alone that name what each site
//! runs, and the ratio.
#![expect(
    clippy::unwrap_used,
    reason = "a helper of a benchmark that fails ends it"
)]

use std::time::{Duration, Instant};

use outhaul_affected::{Advisory, Materials};
use outhaul_bundle::Digest;
use outhaul_hub::Store;
use outhaul_hub::store::StoreError;
use outhaul_hub::view::affected::{self, SitesAsked};
use outhaul_tests::postgres::Postgres;

const SITES: u64 = 100_000;
const STREAMS: u64 = 200;
const PACKAGES: u64 = 300;
const ROUNDS: usize = 5;
/// Milliseconds since 1970, of all reports.
const NOW: i64 = 1_000_000;

/// Sites that report, each once. `i` counts them.
const ROWS: &str = "
INSERT INTO bundles (role, number, environment, cluster_type, index_digest, index_size, base_commit, snapshot, recipients, reconciler,
        issued_ms, expires_ms, recorded_ms, signed_as)
    WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < 200)
    SELECT 'stream-' || CAST(i AS TEXT), 1, 'dev', 'drone', 'sha256:' || 'DIGEST', 1, 'c', '{}', '[]', 'folder', 0, 0, 0, 1 FROM n;
INSERT INTO sites (site, role, environment, cluster_type, key_generation, enrolled_ms)
    WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < 100000)
    SELECT 'site-' || CAST(100000 + i AS TEXT), 'stream-' || CAST(i % 200 AS TEXT), 'dev', 'drone', 1, 0 FROM n;
INSERT INTO epochs (site, epoch, ordinal, key_generation, acked) SELECT site, 'e', 1, 1, 1 FROM sites;
INSERT INTO reports (site, epoch, number, digest, kind, envelope, via, received_ms, wall_ms, lower_bound_ms, clock_trusted)
    SELECT site, 'e', 1, 'd', 'generation', BLOB, 'bench', 1000000, 1000000, 0, 1 FROM sites;
INSERT INTO observations (site, epoch, number, role, bundle_number, index_digest, base_commit, snapshot_digest, state, running, message, assignments)
    SELECT site, 'e', 1, role, 1, 'sha256:' || 'DIGEST', 'c', 's', 'active', 1, '', '' FROM sites;
INSERT INTO current_states (site, epoch, newest, running, attempt_left) SELECT site, 'e', 1, 1, 0 FROM sites;
";

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::create(folder.path()).unwrap();
    let text = rows("x''");
    let path = folder.path().join("hub.db");
    rusqlite::Connection::open(&path)
        .unwrap()
        .execute_batch(&text)
        .unwrap();
    measure("SQLite", &mut store);
    let Some(server) = Postgres::start(&[]) else {
        println!("PostgreSQL is not installed: not measured");
        return;
    };
    let address = server.database();
    let mut store = Store::on_server(&address.parse().unwrap()).unwrap();
    let name = address
        .split('?')
        .next()
        .and_then(|text| text.rsplit('/').next());
    let name = name.unwrap().to_owned();
    server.sql(&name, &format!("{} ANALYZE;", rows("''::bytea")));
    measure("PostgreSQL", &mut store);
}

fn rows(blob: &str) -> String {
    let digest = Digest::of(b"index").hex();
    ROWS.replace("DIGEST", &digest).replace("BLOB", blob)
}

fn measure(name: &str, store: &mut Store) {
    fill(store);
    let asked = SitesAsked {
        limit: 100,
        ..SitesAsked::default()
    };
    let answer = least(|| {
        let found = store.read(|session| affected::of_advisory(session, "CVE-1", &asked, NOW));
        let found: Result<_, StoreError> = found;
        let found = found.unwrap().unwrap();
        assert_eq!(found.affected + found.unknown + found.not_affected, SITES);
        assert_eq!(found.affected, SITES / 2);
        assert_eq!(found.sites.len(), 100);
    });
    let running = least(|| {
        let count = store.read(|session| {
            let running = session.running_bundles()?;
            Ok::<_, StoreError>(running.len())
        });
        assert_eq!(count.unwrap() as u64, SITES);
    });
    println!(
        "{name}: which of {SITES} sites in {STREAMS} streams an advisory is about: {:.0} ms (aim 1,000); what each of them runs, \
         alone: {:.0} ms; ratio {:.2}",
        answer.as_secs_f64() * 1e3,
        running.as_secs_f64() * 1e3,
        answer.as_secs_f64() / running.as_secs_f64()
    );
}

/// Each stream's bundle has an image of its own; every second one is affected.
fn fill(store: &mut Store) {
    let advisory = r#"{"id":"DSA-1","modified":"","aliases":["CVE-1"],"affected":[{"package":{"ecosystem":"Debian:12","name":"source-7"},
        "ranges":[{"type":"ECOSYSTEM","events":[{"introduced":"0"},{"fixed":"2.0-1"}]}]}]}"#;
    let read = Advisory::read(advisory.as_bytes()).unwrap();
    store
        .write(|session| {
            session.put_advisory(&read, advisory, "bench", 0)?;
            for stream in 0..STREAMS {
                let (own, image) = bills(stream);
                let listed = [("sbom.cdx.json", own), ("image-a.cdx.json", image)]
                    .map(|(path, text)| (path.to_owned(), Digest::of(text.as_bytes()), text));
                for (_, digest, text) in &listed {
                    let materials = Materials::read(text.as_bytes()).unwrap();
                    session.keep_materials(digest, &materials, 0)?;
                }
                let listed = listed.map(|(path, digest, _)| (path, digest));
                session.list_materials(&format!("stream-{stream}"), 1, &listed)?;
            }
            Ok::<_, StoreError>(())
        })
        .unwrap();
}

fn bills(stream: u64) -> (String, String) {
    let own = format!(
        r#"{{"bomFormat":"CycloneDX","components":[{{"type":"container","name":"registry.example/app-{stream}","version":"1",
            "purl":"pkg:oci/app-{stream}","properties":[{{"name":"outhaul:sbom","value":"image-a.cdx.json"}}]}}]}}"#
    );
    let version = if stream.is_multiple_of(2) {
        "1.0-1"
    } else {
        "2.0-1"
    };
    let packages: Vec<String> = (0..PACKAGES)
        .map(|at| {
            format!(
                r#"{{"type":"library","name":"package-{at}","version":"{version}","purl":"pkg:deb/debian/package-{at}@{version}?distro=debian-12",
                    "properties":[{{"name":"outhaul:source","value":"source-{at} {version}"}}]}}"#
            )
        })
        .collect();
    let image = format!(
        r#"{{"bomFormat":"CycloneDX","metadata":{{"component":{{"type":"container","name":"app-{stream}"}}}},"components":[{}]}}"#,
        packages.join(",")
    );
    (own, image)
}

fn least(mut work: impl FnMut()) -> Duration {
    let round = |_| {
        let start = Instant::now();
        work();
        start.elapsed()
    };
    (0..ROUNDS).map(round).min().unwrap()
}
