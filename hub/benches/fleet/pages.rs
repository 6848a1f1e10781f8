//! How long each page takes with 100,000 sites, on both stores.
//!
//! What comes in: a made-up fleet, half of it in one stream, each stream with the bundles of a long time; rows as the hub itself
//! writes them. What goes out: the time of each page as the program answers it over HTTP.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use outhaul_bundle::index::{Assignment, File, Stream};
use outhaul_bundle::{Digest, Index};
use outhaul_hub::Store;
use outhaul_hub::store::{Signed, StoreError};
use outhaul_test_kit::Centre;
use outhaul_test_kit::plain::{self, OLD, name};
use outhaul_tests::postgres::Postgres;

use super::{ASSIGNMENTS, explained, least, milliseconds};

/// Streams besides the large one, half of them of each environment.
const STREAMS: u64 = 100;
/// Bundles of the large stream, and of each other.
const MANY: u64 = 60;
const FEW: u64 = 5;
/// Files of an assignment.
const FILES: usize = 40;

/// 100,000 sites, of which one reported 2,000 times. `i` counts them: those below 50,000 follow the large stream.
const ROWS: &str = "
INSERT INTO sites (site, role, environment, cluster_type, key_generation, enrolled_ms)
    WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < 100000)
    SELECT 'site-' || CAST(100000 + i AS TEXT), 's-' || k, CASE WHEN k = '0' OR CAST(k AS BIGINT) > 50 THEN 'dev' ELSE 'stage' END,
           CASE WHEN k = '0' THEN 't-0' ELSE 't-' || CAST((CAST(k AS BIGINT) - 1) % 50 AS TEXT) END, 1, 0
      FROM (SELECT i, CASE WHEN i < 50000 THEN '0' ELSE CAST(1 + i % 100 AS TEXT) END AS k FROM n) AS s;
INSERT INTO site_keys (site, generation, key_id, public_key, enrolled_ms) SELECT site, 1, 'k', '', 0 FROM sites;
INSERT INTO epochs (site, epoch, ordinal, key_generation, acked) SELECT site, 'e', 1, 1, 1 FROM sites;
INSERT INTO reports (site, epoch, number, digest, kind, envelope, via, received_ms, wall_ms, lower_bound_ms, clock_trusted)
    SELECT site, 'e', 1, 'd', 'generation', BLOB, 'bench', 1000000, 1000000, 0, 1 FROM sites;
INSERT INTO observations (site, epoch, number, role, bundle_number, index_digest, base_commit, snapshot_digest, state, running, message, assignments)
    SELECT s.site, 'e', 1, s.role, b.number, b.index_digest, b.base_commit, 's', 'active', 1, '', 'set'
      FROM sites s JOIN bundles b ON b.role = s.role AND b.number = (CASE WHEN s.role = 's-0' THEN 60 ELSE 5 END) - CAST(SUBSTR(s.site, 10, 1) AS BIGINT) % 5;
INSERT INTO assignment_sets (digest, assignment, status, config_version, message)
    WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < 20)
    SELECT 'set', 'workload-' || SUBSTR(CAST(100 + i AS TEXT), 2), 'compliant', 'c', '' FROM n;
INSERT INTO current_states (site, epoch, newest, running, attempt_left) SELECT site, 'e', 1, 1, 0 FROM sites;
INSERT INTO reports (site, epoch, number, digest, kind, envelope, via, received_ms, wall_ms, lower_bound_ms, clock_trusted)
    WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
    SELECT 'site-100000', 'e', i, 'd', 'observation', BLOB, 'bench', 1000000, 1000000, 0, 1 FROM n;
INSERT INTO observations (site, epoch, number, role, bundle_number, index_digest, base_commit, snapshot_digest, state, running, message, assignments)
    SELECT r.site, 'e', r.number, 's-0', b.number, b.index_digest, b.base_commit, 's', 'active', 1, CAST(r.number AS TEXT), 'set'
      FROM reports r JOIN bundles b ON b.role = 's-0' AND b.number = 55 + r.number % 2 WHERE r.number > 1;
UPDATE current_states SET newest = 2000, running = 2000 WHERE site = 'site-100000';
";

/// The pages: what each is of, and its address.
const PAGES: [(&str, &str); 20] = [
    ("the fleet", "/"),
    ("sites that need attention", "/sites?state=attention"),
    ("sites by a part of their name", "/sites?q=99"),
    ("one site", "/sites/site-100000"),
    ("environments", "/environments"),
    ("one environment", "/environments/dev"),
    ("decisions", "/decisions"),
    ("bundles of all streams", "/bundles"),
    (
        "50 bundles of one stream",
        "/bundles?environment=dev&cluster_type=t-0",
    ),
    (
        "the next ones",
        "/bundles?environment=dev&cluster_type=t-0&before=11",
    ),
    ("one bundle, and who runs it", "/bundles/dev/t-0/60"),
    (
        "one bundle, and who is behind, far down",
        "/bundles/dev/t-0/60?state=behind&after=site-149900",
    ),
    (
        "one bundle, and who never reported",
        "/bundles/dev/t-0/60?state=never",
    ),
    (
        "one assignment at a site",
        "/sites/site-100000/assignments/workload-07",
    ),
    ("two environments compared", "/compare?from=dev&to=stage"),
    ("100 bundles for programs", "/api/v1/bundles?limit=100"),
    ("platforms", "/platform"),
    ("one platform", "/platform/dev"),
    ("one cluster type of it", "/platform/dev/cluster-type/t-0"),
    (
        "one assignment explained",
        "/explain/dev/t-0/workload-07-functional",
    ),
];

pub(super) fn measure() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("hub");
    let centre = Centre::new();
    init(&centre, &state, &[]);
    let mut store = Store::open(&state).unwrap();
    fill(&mut store, |text| {
        let db = rusqlite::Connection::open(state.join("hub.db")).unwrap();
        db.execute_batch(&text.replace("BLOB", "x''")).unwrap();
    });
    explained::measure("SQLite", &mut store);
    drop(store);
    ask("SQLite", &state);
    let Some(server) = Postgres::start(&[]) else {
        println!("PostgreSQL is not installed: the pages are not measured on it");
        return;
    };
    let address = server.database();
    let state = folder.path().join("on-server");
    init(&centre, &state, &["--database", &address]);
    let name = address
        .split('?')
        .next()
        .and_then(|text| text.rsplit('/').next())
        .unwrap()
        .to_owned();
    let mut store = Store::on_server(&address.parse().unwrap()).unwrap();
    fill(&mut store, |text| {
        server.sql(&name, &text.replace("BLOB", "''::bytea"));
    });
    server.sql(&name, "ANALYZE;");
    explained::measure("PostgreSQL", &mut store);
    drop(store);
    ask("PostgreSQL", &state);
}

fn hub(state: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_outhaul-hub"));
    command.arg("--state").arg(state);
    command
}

fn init(centre: &Centre, state: &Path, more: &[&str]) {
    let mut command = hub(state);
    command
        .args(["init", "--plain-key", "a bench", "--root"])
        .arg(centre.root());
    let done = command.args(more).output().unwrap();
    assert!(done.status.success(), "{done:?}");
}

/// Bundles as the hub records them, then sites and reports as rows.
fn fill(store: &mut Store, run: impl FnOnce(&str)) {
    store
        .write(|session| {
            for stream in 0..=STREAMS {
                let (kind, environment) = match stream {
                    0 => (0, "dev"),
                    // The first of stage is of the large stream's type.
                    other => ((other - 1) % 50, if other > 50 { "dev" } else { "stage" }),
                };
                let bundles = if stream == 0 { MANY } else { FEW };
                for number in 1..=bundles {
                    // The large stream has its type for itself.
                    let kind = if stream == 51 { 50 } else { kind };
                    let index = index(stream, environment, kind, number);
                    let content = plain::content(&index);
                    let signed = Signed {
                        issued_ms: 1,
                        signed_as: number,
                        expires_ms: i64::MAX / 2,
                    };
                    session.add_bundle(&index, content, signed, 1)?;
                    let role = index.stream.role.as_str();
                    session.keep_metadata(
                        (role, number),
                        &BTreeMap::new(),
                        &index.to_bytes(),
                        1,
                    )?;
                }
            }
            Ok::<_, StoreError>(())
        })
        .unwrap();
    run(ROWS);
    store
        .write(|session| {
            session.keep_all_stream_sites()?;
            Ok::<_, StoreError>(())
        })
        .unwrap();
}

/// 20 assignments of 40 files, of which each bundle changes one of each assignment.
fn index(stream: u64, environment: &str, kind: u64, number: u64) -> Index {
    let file = |assignment: usize, at: usize| {
        let changed = if at == 0 { number } else { 0 };
        let text = format!("{stream} {assignment} {at} {changed}");
        File {
            path: format!("manifests/part-{at}/resource.yaml")
                .parse()
                .unwrap(),
            content: Digest::of(text.as_bytes()),
            size: 1_000,
            executable: false,
        }
    };
    let stream_of_it = Stream {
        role: name(&format!("s-{stream}")),
        ..plain::stream(environment, &format!("t-{kind}"))
    };
    let like = plain::index(&stream_of_it, number, OLD);
    let assignment = |at: usize| Assignment {
        name: name(&format!("workload-{at:02}")),
        workload: format!("workload-{at:02}"),
        workspace: "team".to_owned(),
        policies: vec!["all".to_owned()],
        config_version: Digest::of(format!("{stream} {number}").as_bytes()),
        files: (0..FILES).map(|file_at| file(at, file_at)).collect(),
        ..like.assignments[0].clone()
    };
    Index {
        assignments: (0..ASSIGNMENTS).map(assignment).collect(),
        ..like
    }
}

struct Served(Child, String);

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn ask(store: &str, state: &Path) {
    let mut command = hub(state);
    command.args(["serve", "--listen", "127.0.0.1:0", "--open-reading"]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut url = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut url)
        .unwrap();
    let address = url
        .trim()
        .trim_start_matches("http://")
        .trim_end_matches('/')
        .to_owned();
    let served = Served(child, address);
    println!("{store}, 100,000 sites, half of them in one stream (aim 200 ms for each page):");
    // `-- pages /compare` measures what begins so alone.
    let mut arguments = std::env::args().skip(1);
    let named = arguments.find(|argument| argument.starts_with('/'));
    let is_named = |path: &str| named.as_ref().is_none_or(|begin| path.starts_with(begin));
    for (what, path) in PAGES.into_iter().filter(|(_, path)| is_named(path)) {
        let mut bytes = 0;
        let took = least(|| {
            let mut stream = TcpStream::connect(&served.1).unwrap();
            write!(stream, "GET {path} HTTP/1.0\r\nHost: hub\r\n\r\n").unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            assert!(
                answer.starts_with("HTTP/1.0 200") || answer.starts_with("HTTP/1.1 200"),
                "{path}: {answer}"
            );
            bytes = answer.len();
        });
        println!(
            "  {what}: {:.0} ms, {} kB",
            milliseconds(took),
            bytes / 1000
        );
    }
}
