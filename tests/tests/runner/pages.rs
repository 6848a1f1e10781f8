//! The hub's pages over a served hub with the reports of a real agent: every link is followed, every header is looked at,
//! and axe-core looks at each page in a real browser.
//!
//! What comes in: a fleet of one site that reports, one that never did, and a decision on record. What goes out: nothing.
//! The browser is asked for nothing but files of this test.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;

use outhaul_tests::{available_or_skip, run_expecting, skipped};

use crate::system::{Hub, KEYS, SystemFixture};

/// The exit code of a closed gate.
const REFUSED: i32 = 1;
/// Pages that are fetched at most: the fleet of the test has far fewer.
const MOST: usize = 400;

/// Two environments beside each other.
const COMPARED: &str = "/compare?from=dev&to=stage";

/// Why an assignment is at a site, as its page leads there.
const EXPLAINED: &str = "/explain/dev/edge/hello-dev?site=edge-1";

/// Of a package that a page shows as it is written.
const ADVISORY: &str = r#"{"id":"DSA-1","modified":"2026-11-20T00:00:00Z","upstream":["CVE-1"],"summary":"apt <script>alert(1)</script>",
    "affected":[{"package":{"ecosystem":"Debian:12","name":"apt"},"ranges":[{"type":"ECOSYSTEM","events":[{"introduced":"0"}]}]},
    {"package":{"ecosystem":"npm","name":"left-pad"},"versions":["1"]}]}"#;

/// Addresses that nothing is at, with the status and what the page says.
const WRONG: &[(&str, u16, &str)] = &[
    ("/sites/nobody", 404, "No site <code>nobody</code>"),
    ("/environments/nowhere", 404, "<code>nowhere</code>"),
    ("/sites?stat=ok", 400, "<code>stat</code>"),
    ("/sites?state=fine", 400, "<code>state</code> is one of"),
    ("/sites/edge-1?before=x", 400, "<code>before</code>"),
    ("/platform/stage", 404, "<code>stage</code>"),
    ("/platform/dev/%3Cscript%3E", 404, "is not a kind"),
    (
        "/platform/dev/target/hello-de",
        404,
        "did you mean <code>hello-dev</code>",
    ),
    ("/platform/dev/target/x?from=y", 400, "cannot be read"),
    ("/explain/dev/edge/%ff", 400, "is not UTF-8 text"),
    ("/explain/%3Cscript%3E/edge/x", 404, "&lt;script&gt;"),
    ("/advisories/none", 404, "No advisory <code>none</code>"),
    (
        "/advisories/DSA-1?verdict=x",
        400,
        "<code>verdict</code> is affected",
    ),
    ("/decisions?before=x", 400, "cannot be read"),
    ("/sites/%ff", 400, "is not UTF-8 text"),
    ("/environments/%ff", 400, "is not UTF-8 text"),
    (
        "/bundles/dev/edg/1",
        404,
        "did you mean <code>dev / edge</code>",
    ),
    ("/bundles/dev/edge/9", 404, "the newest is 2"),
    ("/bundles/dev/edge/x", 404, "is not the number"),
    ("/bundles/dev/edge/1?state=fine", 400, "is one of runs"),
    ("/bundles/dev/%ff/1", 400, "is not UTF-8 text"),
    ("/bundles/dev/%3Cscript%3E/1", 404, "&lt;script&gt;"),
    (
        "/sites/edge-1/assignments/hello-de",
        404,
        "did you mean <code>hello-dev</code>",
    ),
    (
        "/sites/nobody/assignments/x",
        404,
        "No site <code>nobody</code>",
    ),
    (
        "/compare?from=dev&to=stag",
        404,
        "did you mean <code>stage</code>",
    ),
    ("/compare?from=dev", 400, "are needed both"),
    ("/sites/%3Cscript%3E", 404, "&lt;script&gt;"),
];

fn fixture() -> SystemFixture {
    let fixture = SystemFixture::new();
    fixture.run(
        "outhaul",
        0,
        &["init", "control-plane", "--environments", "dev,stage"],
    );
    fixture.fleet();
    fixture.site("edge-1", "dev", "edge");
    fixture.site("edge-2", "dev", "edge");
    fixture.site("edge-3", "stage", "edge");
    fixture.bundle("dev");
    fixture.carry("edge-1");
    fixture.home("edge-1");
    // A second bundle, which no site took yet, and one of the other environment.
    fixture.on_branch("control-plane", "hello", |folder| {
        fs::write(folder.join("manifests/dev/hello.sh"), "echo again\n").unwrap();
        fs::write(folder.join("manifests/dev/more.txt"), "more\n").unwrap();
    });
    fixture.bundle("dev");
    let past = [
        "--override-gate",
        "a test",
        "--override-by",
        "ann",
        "--out",
        "stick",
    ];
    fixture.plane(0, "bundle", "stage", &[&KEYS[..], &past].concat());
    fixture.run("outhaul-hub", 0, &["--state", "hub", "import", "stick"]);
    // Not well: someone changed a file there.
    let applied = fixture.path("sites/edge-1/applied/hello-dev/payload/hello.sh");
    fs::write(applied, "by hand\n").unwrap();
    fixture.agent("edge-1", 3, &["run", "--once"]);
    fixture.home("edge-1");
    // What the second bundle was rendered from, which no site runs.
    let explained = fixture.plane(0, "explain", "dev", &["--whole", "--output", "json"]);
    fs::write(fixture.path("dev.json"), explained.stdout).unwrap();
    let import = [
        "import",
        "explanation",
        "dev.json",
        "--by",
        "ann",
        "--state",
        "hub",
    ];
    fixture.run("outhaul-hub", 0, &import);
    fs::write(fixture.path("dsa.json"), ADVISORY).unwrap();
    let import = [
        "advisories",
        "import",
        "dsa.json",
        "--by",
        "ann",
        "--state",
        "hub",
    ];
    fixture.run("outhaul-hub", 0, &import);
    let shown = ["inspect", "stick/dev-edge-1.outhaul", "--output", "json"];
    let shown = outhaul_tests::result(&fixture.run("outhaul", 0, &shown).stdout);
    let commit = shown["index"]["snapshot"]["base"]["commit"]
        .as_str()
        .unwrap();
    let at = ["--state", "hub", "gate", "--environment", "dev", "--commit"];
    let rules = r#"{"soak_hours": 24, "approvals": {"needed": 1, "by": ["alice"]}}"#;
    let step = [commit, "--to", "stage", "--rules", rules, "--record"];
    // `edge-2` never reported.
    fixture.run("outhaul-hub", REFUSED, &[&at[..], &step].concat());
    fixture
}

/// The status, the head and the body of an answer.
#[track_caller]
pub(crate) fn get(hub: &Hub, path: &str) -> (u16, String, String) {
    let address = hub.url.trim_start_matches("http://").trim_end_matches('/');
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_lowercase(), body.to_owned())
}

/// Every address that a page names, as a browser would ask for it.
fn links(html: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for place in ["href=\"", "action=\"", "src=\""] {
        for rest in html.split(place).skip(1) {
            let link = rest
                .split('"')
                .next()
                .unwrap()
                .replace("&amp;", "&")
                .replace("&#x2f;", "/");
            let link = link.split('#').next().unwrap().to_owned();
            if !link.is_empty() && link != "data:," {
                found.insert(link);
            }
        }
    }
    found
}

/// Every page that is reached from the fleet's, by its address.
fn crawled(hub: &Hub) -> BTreeMap<String, String> {
    let mut pages = BTreeMap::new();
    let mut asked = BTreeSet::new();
    let mut waiting = vec!["/".to_owned()];
    while let Some(path) = waiting.pop() {
        if !asked.insert(path.clone()) {
            continue;
        }
        assert!(asked.len() <= MOST, "{asked:?}");
        let (status, head, body) = get(hub, &path);
        assert_eq!(status, 200, "{path}: {body}");
        if !head.contains("content-type: text/html") {
            continue;
        }
        for link in links(&body) {
            assert!(
                link.starts_with('/') && !link.starts_with("//"),
                "{path}: {link}"
            );
            waiting.push(link);
        }
        pages.insert(path, body);
    }
    pages
}

#[test]
fn no_page_links_to_what_the_hub_does_not_serve_and_none_runs_anything() {
    let fixture = fixture();
    let hub = fixture.serve();
    let pages = crawled(&hub);
    for path in [
        "/",
        "/sites",
        "/sites/edge-1",
        "/sites/edge-2",
        "/sites/edge-1/assignments/hello-dev",
        "/bundles",
        "/bundles/dev/edge/1",
        "/bundles/dev/edge/2",
        "/bundles/stage/edge/1",
        "/compare",
        COMPARED,
        "/environments",
        "/environments/dev",
        "/environments/stage",
        "/decisions",
        "/advisories",
        "/advisories/DSA-1",
        "/platform",
        "/platform/dev",
        "/platform/dev/policy",
        "/platform/dev/target/hello-dev",
        "/explain/dev/edge/hello-dev",
        EXPLAINED,
    ] {
        assert!(pages.contains_key(path), "{path}: {:?}", pages.keys());
    }
    for (path, html) in &pages {
        assert!(html.contains("as of <time"), "{path}");
        assert!(!html.contains("<script"), "{path}");
    }
    let site = &pages["/sites/edge-1"];
    assert!(site.contains("bundle 1"), "{site}");
    assert!(site.contains("the agent started, version"), "{site}");
    assert!(
        pages["/sites/edge-2"].contains("never reported"),
        "{}",
        pages["/sites/edge-2"]
    );
    let second = &pages["/bundles/dev/edge/2"];
    assert!(second.contains("more.txt"), "{second}");
    let explained = &pages[EXPLAINED];
    for text in [
        "none on record",
        "desired",
        "same version named",
        "not signed by the fleet",
    ] {
        assert!(explained.contains(text), "{text}: {explained}");
    }
    let assignment = &pages["/sites/edge-1/assignments/hello-dev"];
    for text in ["drifted", "more.txt", "outhaul inspect --files"] {
        assert!(assignment.contains(text), "{text}: {assignment}");
    }
    for (path, expected, text) in WRONG {
        let (status, head, body) = get(&hub, path);
        assert_eq!(status, *expected, "{path}: {body}");
        assert!(body.contains(text), "{path}: {body}");
        assert_headers(path, &head);
    }
    for path in pages.keys() {
        assert_headers(path, &get(&hub, path).1);
    }
}

#[track_caller]
fn assert_headers(path: &str, head: &str) {
    for header in [
        "content-type: text/html",
        "x-content-type-options: nosniff",
        "x-frame-options: deny",
        "frame-ancestors 'none'",
        "default-src 'none'",
        "base-uri 'none'",
        "form-action 'self'",
        "cache-control: no-store",
    ] {
        assert!(head.contains(header), "{path}: {header}: {head}");
    }
    assert!(!head.contains("script-src"), "{path}: {head}");
}

/// `axe.min.js`; without it the calling test is skipped.
#[track_caller]
fn axe_or_skip() -> Option<PathBuf> {
    let file = std::env::var_os("OUTHAUL_AXE").map(PathBuf::from);
    let found = file.filter(|file| file.is_file());
    if found.is_none() {
        skipped("OUTHAUL_AXE does not name axe.min.js; `npm install axe-core` brings one");
    }
    found
}

/// Runs axe-core, and puts what it found into the page.
const RUN: &str = "<script src=\"axe.min.js\"></script><script>
axe.run(document).then(found => {
  const bad = found.violations.filter(one => one.impact === 'serious' || one.impact === 'critical')
    .map(one => one.id + ': ' + one.nodes.map(node => node.html).join(' '));
  const out = document.createElement('pre');
  out.id = 'axe-found';
  out.textContent = 'axe passed ' + found.passes.length + ', serious ' + bad.length + '\\n' + bad.join('\\n') + '\\nend of axe';
  document.body.replaceChildren(out);
});</script></body>";

#[test]
fn axe_core_finds_nothing_serious_on_any_page_light_or_dark() {
    if !available_or_skip("chromium") {
        return;
    }
    let Some(axe) = axe_or_skip() else { return };
    let fixture = fixture();
    let hub = fixture.serve();
    fs::copy(axe, fixture.path("axe.min.js")).unwrap();
    let pages = crawled(&hub);
    let (mut looked_at, mut kinds) = (0, BTreeSet::new());
    for (number, (path, html)) in pages.iter().enumerate() {
        // One page of each kind is enough of those that differ by a parameter only.
        if path.contains('?') && path != COMPARED && path != EXPLAINED {
            continue;
        }
        let kind = path
            .strip_prefix("/platform/dev/")
            .and_then(|rest| rest.split_once('/'));
        if kind.is_some_and(|(kind, _)| !kinds.insert(kind.to_owned())) {
            continue;
        }
        let file = fixture.path(&format!("page-{number}.html"));
        fs::write(&file, html.replace("</body>", RUN)).unwrap();
        for (colours, scheme) in [("light", "1"), ("dark", "0")] {
            let mut browser = Command::new("chromium");
            browser.args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--virtual-time-budget=60000",
                "--window-size=1200,900",
                &format!("--blink-settings=preferredColorScheme={scheme}"),
                &format!("--user-data-dir={}", fixture.path("browser").display()),
                "--dump-dom",
                &format!("file://{}", file.display()),
            ]);
            let ran = run_expecting(&mut browser, 0).unwrap();
            let (_, found) = ran
                .stdout
                .split_once("<pre id=\"axe-found\">")
                .unwrap_or_else(|| panic!("{path} {colours}: {}", ran.everything()));
            let (found, _) = found.split_once("end of axe").unwrap();
            assert!(found.contains(", serious 0\n"), "{path} {colours}: {found}");
            looked_at += 1;
        }
    }
    assert!(looked_at >= 30, "{looked_at} pages");
}
