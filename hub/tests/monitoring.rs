//! Metrics, with a real Prometheus: what it scrapes and what is pushed to it, the dashboard and the alerting rules that are
//! checked in.
//!
//! What comes in: a hub whose sites report, and Prometheus. What goes out: what Prometheus says when it is asked for each expression,
//! beside what the hub's own API says.
#![expect(
    clippy::float_cmp,
    reason = "whole numbers, which Prometheus has as floating ones"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use outhaul_bundle::report::{ComplianceStatus as C, GenerationState as G, ReportEvent};
use outhaul_test_kit::plain::NEW;
use outhaul_tests::skipped;
use serde_json::Value;

use crate::access::{ask, bearer, token};
use crate::gate_rules::{APPROVED, approve, gate, report, world};
use crate::http;
use crate::program::{Hub, Server};
use crate::provider::free_port;

/// How long a busy machine may take.
const PATIENCE: Duration = Duration::from_secs(90);
const DASHBOARD: &str = include_str!("../grafana/outhaul.json");
const RULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/grafana/outhaul-rules.yaml");
/// The names of what is scraped, and of what is pushed.
const SCRAPED: &str = "hub";
const PUSHED: &str = "outhaul-hub";

/// The folder with Prometheus and its tool, where they are.
fn programs() -> Option<PathBuf> {
    let found = std::env::var_os("OUTHAUL_PROMETHEUS").map(PathBuf::from);
    if found.is_none() {
        skipped("Prometheus is not here: set OUTHAUL_PROMETHEUS (`.ci/programs/build prometheus`)");
    }
    found
}

/// Waits until what `look` sees is there.
#[track_caller]
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Result<T, String>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        match look() {
            Ok(seen) => return seen,
            Err(seen) => assert!(Instant::now() < until, "not seen: {what}: {seen}"),
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// A series: its labels, and its value.
type Series = (BTreeMap<String, String>, f64);

/// A running Prometheus; ended when dropped.
struct Prometheus {
    child: Child,
    port: u16,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Prometheus {
    /// Scrapes `hub` with a token, and takes pushes.
    fn start(programs: &Path, folder: &Path, port: u16, hub: &str, token: &str) -> Self {
        fs::create_dir_all(folder).unwrap();
        fs::write(folder.join("token"), token).unwrap();
        let config = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: [{RULES}]\nscrape_configs:\n- job_name: {SCRAPED}\n  \
             authorization: {{credentials_file: token}}\n  static_configs: [{{targets: ['{hub}']}}]\n"
        );
        let file = folder.join("prometheus.yml");
        fs::write(&file, config).unwrap();
        let mut child = Command::new(programs.join("prometheus"))
            .current_dir(folder)
            .arg(format!("--config.file={}", file.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                folder.join("data").display()
            ))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .arg("--web.enable-otlp-receiver")
            .stdout(Stdio::null())
            .stderr(fs::File::create(folder.join("log")).unwrap())
            .spawn()
            .unwrap();
        wait_for("Prometheus", || {
            assert!(child.try_wait().unwrap().is_none(), "Prometheus ended");
            TcpStream::connect(("127.0.0.1", port)).map_err(|error| error.to_string())
        });
        Self { child, port }
    }

    /// The rows of an expression now, each with its labels and its value; or why it is none.
    fn query(&self, expression: &str) -> Result<Vec<Series>, String> {
        let query = outhaul_bundle::hub_api::escaped(expression);
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        // Version 1.0, so that the answer comes in one piece.
        let text = format!("GET /api/v1/query?query={query} HTTP/1.0\r\nHost: prometheus\r\n\r\n");
        stream.write_all(text.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let body = answer.split_once("\r\n\r\n").ok_or("no answer")?.1;
        let body: Value =
            serde_json::from_str(body).map_err(|error| format!("{error}: {answer}"))?;
        let rows = body["data"]["result"].as_array();
        let rows = rows.ok_or_else(|| format!("{expression}: {}", body["error"]))?;
        Ok(rows
            .iter()
            .map(|row| {
                let labels = serde_json::from_value(row["metric"].clone()).unwrap();
                (labels, row["value"][1].as_str().unwrap().parse().unwrap())
            })
            .collect())
    }

    /// The one value of an expression.
    fn value(&self, expression: &str) -> Result<f64, String> {
        match self.query(expression)?.as_slice() {
            [(_, value)] => Ok(*value),
            rows => Err(format!("{expression}: {rows:?}")),
        }
    }
}

/// A hub with one more report for it: sites are well, failed and silent; a gate that is closed; a waiver, a refusal, a key that waits.
fn fleet() -> (Hub, Vec<u8>) {
    let (hub, centre, mut sites) = world(&["press-1", "press-2", "press-3", "press-4"]);
    for (site, status) in sites.iter_mut().zip([C::Compliant, C::Failed, C::Drifted]) {
        report(&hub, &centre, site, status);
    }
    approve(&hub, "ann");
    assert_eq!(gate(&hub, APPROVED).0, 1);
    let waiver = [
        "waive",
        "--site",
        "press-4",
        "--until",
        "3d",
        "--by",
        "ann",
        "--reason",
        "it is being built",
    ];
    hub.json(&waiver);
    let stranger = centre.site("press-5", &sites[0].stream);
    let file = hub.path("press-5.request");
    fs::write(&file, stranger.request()).unwrap();
    hub.json(&["import", file.to_str().unwrap()]);
    fs::write(hub.path("bad.reports"), "no report\n").unwrap();
    hub.run(&["import", hub.path("bad.reports").to_str().unwrap()]);
    let mut event = sites[0].event(1, NEW, G::Active, C::Compliant);
    let index = centre.plain_index(&sites[0].stream, 1, NEW);
    event.index = outhaul_bundle::Digest::of(&index.to_bytes());
    let more = sites[0].say(ReportEvent::Generation(event));
    (hub, more)
}

/// What a scrape gets, by name and labels.
pub fn scraped(server: &Server, token: &str) -> BTreeMap<(String, BTreeMap<String, String>), f64> {
    let more = if token.is_empty() {
        String::new()
    } else {
        bearer(token)
    };
    let answer = ask(server, "GET /metrics", &more, "");
    assert_eq!(answer.status, 200, "{}", answer.body);
    let lines = answer.body.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let (name, labels) = series.split_once('{').unwrap_or((series, ""));
            let pairs = labels
                .trim_end_matches('}')
                .split("\",")
                .filter(|pair| !pair.is_empty());
            let pair = |pair: &str| {
                let (label, value) = pair.split_once("=\"").unwrap();
                (label.to_owned(), value.trim_end_matches('"').to_owned())
            };
            (
                (name.to_owned(), pairs.map(pair).collect()),
                value.parse().unwrap(),
            )
        })
        .collect()
}

/// Expressions of the dashboard, by the titles of panels, with variables as Grafana would fill them.
fn expressions() -> Vec<(String, String)> {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut found = Vec::new();
    for panel in panels {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let text = target["expr"].as_str().unwrap();
            let filled = text
                .replace("$job", SCRAPED)
                .replace("$environment", ".*")
                .replace("$__rate_interval", "1m");
            assert!(!filled.replace("$1", "").contains('$'), "{filled}");
            found.push((panel["title"].as_str().unwrap().to_owned(), filled));
        }
    }
    found
}

/// The names of metrics that a text mentions.
fn names_in(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words
        .filter(|word| word.starts_with("outhaul_hub_") || word.starts_with("process_"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_panel_and_every_rule_says_in_prometheus_what_the_hub_says() {
    let Some(programs) = programs() else { return };
    let (hub, more) = fleet();
    let reader = token(&hub, "prometheus", "read");
    let port = free_port();
    let otlp = format!("http://127.0.0.1:{port}/api/v1/otlp");
    let server = hub.serve_in(&["--otlp", &otlp, "--otlp-seconds", "1"], &[]);
    let lines = [b"no report\n".to_vec(), more].concat();
    http::json(server.address(), "POST /api/v1/reports", &lines);
    let folder = hub.path("prometheus");
    let prometheus = Prometheus::start(&programs, &folder, port, server.address(), &reader);
    let of = |expression: &str| prometheus.value(expression);
    wait_for("a scrape", || {
        match of(&format!("up{{job=\"{SCRAPED}\"}}"))? {
            1.0 => Ok(()),
            _ => Err("it is refused".to_owned()),
        }
    });
    wait_for("two scrapes, for rates", || {
        match of(&format!("count_over_time(up{{job=\"{SCRAPED}\"}}[1m])"))? {
            count if count >= 3.0 => Ok(()),
            count => Err(count.to_string()),
        }
    });
    wait_for("a push", || {
        of(&format!("outhaul_hub_build_info{{job=\"{PUSHED}\"}}"))
    });

    // Each expression parses, and says something: this fleet has one of everything.
    for (panel, expression) in expressions() {
        let rows = prometheus
            .query(&expression)
            .unwrap_or_else(|why| panic!("{panel}: {why}"));
        assert!(!rows.is_empty(), "{panel}: {expression}: no row");
        assert!(
            rows.iter().all(|(_, value)| !value.is_nan()),
            "{panel}: {rows:?}"
        );
    }
    // What the hub's own API says.
    let listed = ask(&server, "GET /api/v1/sites", &bearer(&reader), "").body;
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let mut states: BTreeMap<String, f64> = BTreeMap::new();
    for row in listed.as_array().unwrap() {
        *states
            .entry(row["verdict"].as_str().unwrap().to_owned())
            .or_default() += 1.0;
    }
    assert_eq!(states.values().sum::<f64>(), 4.0, "{states:?}");
    let panel = |title: &str| {
        let all = expressions();
        let found = all.iter().find(|(panel, _)| panel == title);
        prometheus
            .query(&found.unwrap_or_else(|| panic!("{title}")).1)
            .unwrap()
    };
    let by_state = panel("Sites by state")
        .into_iter()
        .filter(|(_, value)| *value > 0.0);
    let by_state: BTreeMap<String, f64> = by_state
        .map(|(labels, value)| (labels["state"].clone(), value))
        .collect();
    assert_eq!(by_state, states);
    assert_eq!(states["failed"], 1.0);
    let one = |title: &str| match panel(title).as_slice() {
        [(_, value)] => *value,
        rows => panic!("{title}: {rows:?}"),
    };
    assert_eq!(one("Sites"), 4.0);
    assert_eq!(one("Need someone"), states["failed"] + states["drifted"]);
    assert_eq!(
        (one("Never reported"), one("Silent for three days")),
        (1.0, 0.0)
    );
    assert_eq!(one("On the newest bundle"), 0.75);
    assert_eq!(one("Enrolment requests that wait"), 1.0);
    assert_eq!(one("Gates"), 0.0);
    let closing: BTreeSet<String> = panel("What keeps gates closed")
        .into_iter()
        .map(|(labels, _)| labels["rule"].clone())
        .collect();
    let decision = hub.gate("dev", NEW).1;
    let unmet = decision["rules"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|rule| rule["met"] == false);
    let unmet: BTreeSet<String> = unmet
        .map(|rule| rule["rule"].as_str().unwrap().to_owned())
        .collect();
    assert!(
        closing.contains("approvals") && closing == unmet,
        "{closing:?} {unmet:?}"
    );
    assert_eq!(one("Newest bundle of each stream"), 1.0);
    let acts: BTreeMap<String, f64> = panel("Approvals, holds, waivers and deferrals in force")
        .into_iter()
        .map(|(labels, value)| {
            (
                format!("{} {}", labels["environment"], labels["kind"]),
                value,
            )
        })
        .collect();
    assert_eq!(
        acts,
        BTreeMap::from([
            ("dev approve".to_owned(), 1.0),
            ("dev waive".to_owned(), 1.0)
        ])
    );

    // Prometheus has read the rules, and each says what it should of this fleet.
    let alerts = |which: &str| prometheus.query(&format!("ALERTS{{job=\"{SCRAPED}\",{which}}}"));
    wait_for("an alert for each of two states", || {
        match alerts("alertname=\"OuthaulSitesNeedSomebody\"")?.len() {
            2 => Ok(()),
            count => Err(format!("{count} alerts")),
        }
    });
    // How full this machine's disk is, is not the fleet's.
    let others = "alertname!~\"OuthaulSitesNeedSomebody|OuthaulHubTakesNothingIn\"";
    assert_eq!(alerts(others).unwrap(), [], "nothing else is wrong here");
    pushed_is_scraped(&prometheus, &server, &reader);
}

/// What was pushed is what is scraped: the same series, and the same values of those that stand still.
fn pushed_is_scraped(prometheus: &Prometheus, server: &Server, reader: &str) {
    let moves = |name: &str| {
        name.starts_with("process_")
            || name.starts_with("outhaul_hub_otlp_")
            || name.ends_with("_age_seconds")
            || name.ends_with("_free_bytes")
            || [
                "outhaul_hub_fleet_read_duration_seconds",
                "outhaul_hub_fleet_read_timestamp_seconds",
                "outhaul_hub_longest_silence_seconds",
                "outhaul_hub_store_bytes",
            ]
            .contains(&name)
    };
    let mut instances = BTreeSet::new();
    wait_for("the same values", || {
        let here = scraped(server, reader);
        let mut there = BTreeMap::new();
        for (mut labels, value) in
            prometheus.query(&format!("{{job=\"{PUSHED}\",instance!=\"\"}}"))?
        {
            let name = labels.remove("__name__").unwrap();
            labels.remove("job");
            instances.insert(labels.remove("instance").unwrap());
            there.insert((name, labels), value);
        }
        // What says of which program the others are.
        there.retain(|(name, _), _| name != "target_info");
        let keys = |all: &BTreeMap<(String, BTreeMap<String, String>), f64>| -> BTreeSet<_> {
            all.keys().cloned().collect()
        };
        if keys(&here) != keys(&there) {
            let differ: Vec<_> = keys(&here)
                .symmetric_difference(&keys(&there))
                .cloned()
                .collect();
            return Err(format!("{differ:?}"));
        }
        let other = here
            .iter()
            .find(|(key, value)| !moves(&key.0) && there[key] != **value);
        other.map_or(Ok(()), |((name, labels), value)| {
            Err(format!("{name} {labels:?} {value}"))
        })
    });
    assert_eq!(instances.len(), 1, "{instances:?}");
    let info = prometheus
        .query(&format!("target_info{{job=\"{PUSHED}\"}}"))
        .unwrap();
    assert_eq!(info[0].0["service_version"], env!("CARGO_PKG_VERSION"));
    let state = fs::read_to_string(server.state().join("telemetry-instance")).unwrap();
    assert!(instances.contains(state.trim()), "{instances:?}");
}

#[test]
fn the_rules_are_rules_and_only_name_metrics_that_there_are() {
    let Some(programs) = programs() else { return };
    let checked = Command::new(programs.join("promtool"))
        .args(["check", "rules", "--lint=all", "--lint-fatal", RULES])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&checked.stdout);
    assert!(
        checked.status.success() && said.contains("6 rules found"),
        "{said}{}",
        String::from_utf8_lossy(&checked.stderr)
    );
    let (hub, _) = fleet();
    let reader = token(&hub, "prometheus", "read");
    let server = hub.serve_in(
        &["--otlp", "http://127.0.0.1:9/", "--otlp-seconds", "3600"],
        &[],
    );
    http::plain(server.address(), "POST /api/v1/reports", b"no report\n");
    // As other programs read them: each has HELP and TYPE, and a name by the conventions.
    let text = ask(&server, "GET /metrics", &bearer(&reader), "").body;
    let mut lint = Command::new(programs.join("promtool"))
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    lint.stdin
        .take()
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
    let lint = lint.wait_with_output().unwrap();
    assert!(
        lint.status.success(),
        "{}",
        String::from_utf8_lossy(&lint.stderr)
    );
    let there: BTreeSet<String> = scraped(&server, &reader)
        .into_keys()
        .map(|(name, _)| name)
        .collect();
    let rules = fs::read_to_string(RULES).unwrap();
    for (what, text) in [("the rules", rules.as_str()), ("the dashboard", DASHBOARD)] {
        let unknown: Vec<String> = names_in(text).difference(&there).cloned().collect();
        assert_eq!(unknown, Vec::<String>::new(), "{what}");
    }
    // The table of the documentation has each of them, and no other.
    let page = include_str!("../../docs/hub-metrics.md");
    let rows = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split(['`', '{']).next());
    let mut listed: BTreeSet<String> = rows
        .filter(|name| name.contains('_'))
        .map(str::to_owned)
        .collect();
    // This hub was never restored.
    assert!(listed.remove("outhaul_hub_restored_timestamp_seconds"));
    assert_eq!(listed, there);
}
