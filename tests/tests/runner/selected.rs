//! A policy that selects sites: from the control plane to what the hub expects, with real agents.
//!
//! What comes in: a small control plane whose second policy names sites by a label. What must come out: the
//! selected site runs what it asks for, the others run the rest and say so, the gate expects it of nobody
//! else, and what would take it from sites stops first.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use outhaul_test_kit::folder::fill;
use serde_json::Value;

use super::system::{BASE_COMMIT, KEYS, SystemFixture, in_folders};

const SITES: [(&str, &str); 3] = [
    ("bench-1", "canary"),
    ("bench-2", "rest"),
    ("bench-3", "rest"),
];

fn policy(name: &str, purpose: &str, sites: &str) -> String {
    format!(
        "apiVersion: outhaul.dev/v1alpha1\nkind: SchedulingPolicy\nmetadata:\n  name: {name}\nspec:\n  \
         deploymentTargetSelector:\n    labelSelector:\n      matchLabels:\n        purpose: {purpose}\n  \
         clusterTypeSelector: {{}}\n{sites}"
    )
}

fn select(ring: &str) -> String {
    format!("  siteSelector:\n    labelSelector:\n      matchLabels:\n        ring: {ring}\n")
}

fn write(fixture: &SystemFixture, path: &str, text: &str) {
    let path = fixture.path(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// The trial goes to the sites of a ring; everything else everywhere.
fn fixture() -> SystemFixture {
    let fixture = SystemFixture::new();
    let kind = "apiVersion: scheduler.kalypso.io/v1alpha1\nkind:";
    write(
        &fixture,
        "dev/bench.yaml",
        &format!(
            "{kind} ClusterType\nmetadata:\n  name: bench\nspec:\n  reconciler: out\n  namespaceService: place\n"
        ),
    );
    for (name, ring) in SITES {
        let site = format!(
            "apiVersion: outhaul.dev/v1alpha1\nkind: Site\nmetadata:\n  name: {name}\nspec:\n  clusterType: \
             bench\n  ring: {ring}\n"
        );
        write(&fixture, &format!("dev/sites/{name}.yaml"), &site);
    }
    write(&fixture, "dev/policy.yaml", &policy("all", "light", ""));
    write(
        &fixture,
        "dev/trial.yaml",
        &policy("trial", "trial", &select("canary")),
    );
    write(
        &fixture,
        "main/lamp.yaml",
        &format!(
            "{kind} WorkloadRegistration\nmetadata:\n  name: lamp\nspec:\n  workload:\n    repo: \
             https://git.example/lamp\n    branch: main\n    path: .\n  workspace: light\n"
        ),
    );
    write(
        &fixture,
        "main/templates.yaml",
        "apiVersion: outhaul.dev/v1alpha1\nkind: Template\nmetadata:\n  name: out\nspec:\n  type: \
         reconciler\n  reconciler: folder\n  manifests:\n    - |\n      run: {{ DeploymentTargetName }}\n---\n\
         apiVersion: outhaul.dev/v1alpha1\nkind: Template\nmetadata:\n  name: place\nspec:\n  type: \
         namespace\n  manifests:\n    - |\n      name: place\n",
    );
    let targets = [("dim", "light"), ("new", "trial")].map(|(name, purpose)| {
        format!(
            "    - name: {name}\n      environment: dev\n      labels: {{purpose: {purpose}}}\n"
        )
    });
    write(
        &fixture,
        "lamp/workload.yaml",
        &format!(
            "{kind} Workload\nmetadata:\n  name: lamp\nspec:\n  deploymentTargets:\n{}",
            targets.concat()
        ),
    );
    fixture
}

fn outhaul(fixture: &SystemFixture, code: i32, command: &str, more: &[&str]) -> String {
    let at = in_folders(command, "dev", BASE_COMMIT);
    let ran = fixture.run("outhaul", code, &[&at[..], more].concat());
    format!("{}{}", ran.stdout, ran.stderr)
}

fn bundle(fixture: &SystemFixture, code: i32) -> String {
    let keys = [&KEYS[..], &["--out", "stick"]].concat();
    let made = outhaul(fixture, code, "bundle", &keys);
    if code == 0 {
        fixture.run("outhaul-hub", 0, &["--state", "hub", "import", "stick"]);
    }
    made
}

fn get(url: &str, path: &str) -> Value {
    let address = url.trim_start_matches("http://").trim_end_matches('/');
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"))
}

#[test]
fn one_site_of_three_gets_what_a_policy_selects_it_for_and_the_gate_asks_nobody_else() {
    let fixture = fixture();
    fixture.fleet();
    let checked = outhaul(&fixture, 0, "check", &[]);
    assert!(!checked.contains("selects-nothing"), "{checked}");
    let schedule = outhaul(&fixture, 0, "schedule", &[]);
    assert!(schedule.contains("trial; only on bench-1"), "{schedule}");

    bundle(&fixture, 0);
    let inspect = ["inspect", "stick/dev-bench-1.outhaul", "--fleet", "fleet"];
    let inspected = fixture.run("outhaul", 0, &inspect).stdout;
    assert!(inspected.contains("only for bench-1"), "{inspected}");
    let verify = ["stick/dev-bench-1.outhaul", "--fleet", "fleet"];
    outhaul(&fixture, 0, "verify", &verify);

    for (site, _) in SITES {
        fixture.site(site, "dev", "bench");
        fixture.carry(site);
        fixture.home(site);
        fixture.applied(site, "lamp-dim/reconciler.yaml");
    }
    fixture.applied("bench-1", "lamp-new/reconciler.yaml");
    assert!(!fixture.path("sites/bench-2/applied/lamp-new").exists());
    let status = fixture.agent("bench-2", 0, &["status"]).stdout;
    let reported = "lamp-new: for other sites, not for this one";
    assert!(status.contains(reported), "{status}");
    let commit = "1".repeat(40);
    let gate = [
        "--state",
        "hub",
        "gate",
        "--environment",
        "dev",
        "--commit",
        &commit,
    ];
    fixture.run("outhaul-hub", 0, &gate);

    let hub = fixture.serve();
    let rows = get(&hub.url, "/api/v1/assignments");
    let rows = rows
        .get("items")
        .unwrap_or(&rows)
        .as_array()
        .unwrap()
        .clone();
    let trial: Vec<&str> = rows
        .iter()
        .filter(|row| row["assignment"] == "lamp-new")
        .map(|row| row["site"].as_str().unwrap())
        .collect();
    assert_eq!(trial, ["bench-1"], "{rows:?}");
    assert_eq!(rows.len(), 4, "{rows:?}");
}

#[test]
fn another_site_is_distinguished_in_a_difference_and_a_slip_of_the_pen_is_found() {
    let fixture = fixture();
    outhaul(&fixture, 0, "render", &["--out", "before"]);
    let whole = "before/.sites/bench-1/bench/lamp-new/reconciler.yaml";
    assert!(fixture.path(whole).is_file());
    assert!(!fixture.path("before/bench/lamp-new").exists());
    outhaul(&fixture, 0, "render", &["--verify", "before"]);

    let printed = outhaul(&fixture, 0, "explain", &["lamp-new", "bench"]);
    assert!(
        printed.contains("only on sites with: ring = canary (dev/trial.yaml:12): 1 of 3, bench-1"),
        "{printed}"
    );
    let printed = outhaul(&fixture, 0, "explain", &["lamp-new", "--site", "bench-2"]);
    assert!(printed.contains("not assigned"), "{printed}");
    assert!(
        printed.contains("needs a site with ring = canary (dev/trial.yaml:14); it has ring = rest"),
        "{printed}"
    );
    let printed = outhaul(&fixture, 0, "explain", &["--site", "bench-2"]);
    assert!(
        printed.contains("`lamp-new` by `trial` is for other sites, not for this one"),
        "{printed}"
    );

    fill(&fixture.path("dev"), &fixture.path("dev-before"));
    write(
        &fixture,
        "dev/trial.yaml",
        &policy("trial", "trial", &select("rest")),
    );
    let commit = "1".repeat(40);
    let sides = ["diff", "dev-before", "dev", "--environment", "dev"];
    let base = ["--base-dir", "main", "--base-commit", &commit];
    let source = ["--source", "https://git.example/lamp=lamp"];
    let reported = fixture
        .run("outhaul", 1, &[&sides[..], &base, &source].concat())
        .stdout;
    assert!(
        reported.contains(
            "= lamp-new, now only for 2 sites; added on bench-2, bench-3; removed from bench-1"
        ),
        "{reported}"
    );

    write(
        &fixture,
        "dev/trial.yaml",
        &policy("trial", "trial", &select("canry")),
    );
    let checked = outhaul(&fixture, 0, "check", &[]);
    for part in [
        "policy `trial` selects no site",
        "dev/trial.yaml:14",
        "did you mean `canary`?",
    ] {
        assert!(checked.contains(part), "{part}: {checked}");
    }
    assert_eq!(checked.matches("warning[").count(), 1, "{checked}");
}

#[test]
fn what_would_take_it_from_sites_stops_like_any_removal() {
    let fixture = fixture();
    fixture.fleet();
    write(&fixture, "dev/trial.yaml", &policy("trial", "trial", ""));
    bundle(&fixture, 0);
    write(
        &fixture,
        "dev/trial.yaml",
        &policy("trial", "trial", &select("canary")),
    );
    let refused = bundle(&fixture, 1);
    assert!(
        refused.contains("- bench/lamp-new from 2 sites"),
        "{refused}"
    );
    // A site that is no longer there loses nothing.
    for site in ["bench-2", "bench-3"] {
        fs::remove_file(fixture.path(&format!("dev/sites/{site}.yaml"))).unwrap();
    }
    bundle(&fixture, 0);
}
