//! What people met who tried `outhaul blame` without knowing the code.
//!
//! What comes in: a bundle that was well and that someone left, a report that says nothing, a site whose machine fails, an assignment that a
//! policy takes away, a merge. What must come out: nobody's commit is called the cause where nothing says so, and what is taken back is
//! what matters to the site.

use std::fs;

use serde_json::{Value, json};

use super::super::system::SystemFixture;
use super::{blame, commit, first, promote, replace, scene, set, ship, told};

fn kinds(answer: &Value) -> Vec<&str> {
    let causes = answer["faults"][0]["blame"]["causes"].as_array().unwrap();
    causes
        .iter()
        .map(|cause| cause["kind"].as_str().unwrap())
        .collect()
}

/// What the site asks from now on.
fn asks(fixture: &SystemFixture, says: &str) {
    let script = format!("#!/bin/sh\n{says}\nexit 1\n");
    fs::write(fixture.path("check.sh"), script).unwrap();
}

fn harmless(fixture: &SystemFixture, key: &str) -> String {
    commit(fixture, "main", "harmless", |dir| {
        set(dir, "configs/common.yaml", key, "ok-new");
    })
}

#[test]
fn a_bundle_that_was_well_until_somebody_left_it_is_nobodys_commit() {
    let fixture = scene();
    harmless(&fixture, "K1");
    promote(&fixture);
    ship(&fixture, 0);
    let left = ["rollback", "--who", "ann", "--why", "the till is needed"];
    fixture.agent("edge-1", 0, &left);
    fixture.home("edge-1");
    let answer = blame(&fixture, &[]);
    assert_eq!(kinds(&answer)[0], "rollback", "{answer:#}");
    assert!(!kinds(&answer).contains(&"commit"), "{answer:#}");
    let fault = &answer["faults"][0]["fault"];
    assert_eq!(fault["good"]["bundle"], fault["bad"]["bundle"], "{fault:#}");
}

#[test]
fn a_report_that_says_nothing_leaves_equal_shares_and_nothing_is_taken_back_unnamed() {
    let fixture = scene();
    harmless(&fixture, "K1");
    let second = harmless(&fixture, "K2");
    promote(&fixture);
    asks(&fixture, "");
    ship(&fixture, 1);
    let answer = blame(&fixture, &[]);
    let causes = answer["faults"][0]["blame"]["causes"].as_array().unwrap();
    assert_eq!(
        causes[0]["confidence"], causes[1]["confidence"],
        "{causes:#?}"
    );
    let told = told(&fixture, 1, "--undo");
    assert!(
        told.contains("nothing says which one to take back"),
        "{told}"
    );
    assert!(told.contains("--commit ID"), "{told}");
    let named = second[..12].to_uppercase();
    let answer = blame(&fixture, &["--undo", "--commit", &named]);
    assert_eq!(answer["undone"]["undo"]["onto"], "main", "{answer:#}");
}

#[test]
fn a_machine_that_fails_makes_no_commit_certain() {
    let fixture = scene();
    harmless(&fixture, "K1");
    promote(&fixture);
    asks(&fixture, "echo disk of the till is full >&2");
    ship(&fixture, 1);
    let answer = blame(&fixture, &[]);
    let causes = answer["faults"][0]["blame"]["causes"].as_array().unwrap();
    assert!(
        causes[0]["confidence"].as_u64().unwrap() <= 60,
        "{causes:#?}"
    );
    let site = causes.iter().find(|cause| cause["kind"] == "site").unwrap();
    assert!(site["confidence"].as_u64().unwrap() >= 30, "{causes:#?}");
}

#[test]
fn a_merge_is_taken_back_where_it_matters_and_says_what_it_is() {
    let fixture = scene();
    let git = |words: &[&str]| fixture.git("control-plane", words);
    git(&["branch", "topic", "main"]);
    commit(&fixture, "topic", "shorter names", |dir| {
        let name = "{{ key | variable }}=";
        let other = "{{ key | variable | replace(\"IRON\", \"\") }}=";
        replace(dir, "templates/env-file.yaml", name, other);
    });
    commit(&fixture, "topic", "words", |dir| {
        fs::write(dir.join("README.md"), "other words\n").unwrap();
    });
    git(&["checkout", "--quiet", "main"]);
    git(&["merge", "--quiet", "--no-ff", "-m", "Merge topic", "topic"]);
    git(&["checkout", "--quiet", "--detach"]);
    promote(&fixture);
    ship(&fixture, 1);
    let answer = blame(&fixture, &["--undo"]);
    assert_eq!(
        first(&answer)["commit"]["subject"],
        "Merge topic",
        "{answer:#}"
    );
    assert_eq!(first(&answer)["commit"]["is_merge"], true);
    let undo = &answer["undone"]["undo"];
    assert_eq!(
        undo["paths"],
        json!(["templates/env-file.yaml"]),
        "{undo:#}"
    );
    assert_eq!(undo["left"], json!(["README.md"]), "{undo:#}");
}

#[test]
fn what_a_site_writes_makes_no_lines_of_its_own() {
    let fixture = scene();
    harmless(&fixture, "K1");
    promote(&fixture);
    asks(
        &fixture,
        "printf 'one\\n  99 %%  commit 000000000000: forged\\n' >&2",
    );
    ship(&fixture, 1);
    blame(&fixture, &[]);
    let told = told(&fixture, 0, "");
    assert!(
        !told.lines().any(|line| line.starts_with("  99 %")),
        "{told}"
    );
}

#[test]
fn an_assignment_that_a_policy_takes_away_is_told_with_the_policy() {
    let fixture = scene();
    let bad = commit(&fixture, "dev", "for another team", |dir| {
        replace(
            dir,
            "scheduling/hello-team.yaml",
            "workspace: hello-team",
            "workspace: other-team",
        );
    });
    let keys = "--fleet fleet --passphrase-file passphrase --out stick";
    let keys: Vec<&str> = keys.split(' ').collect();
    let stopped = fixture.plane(1, "bundle", "dev", &keys).everything();
    let lines = stopped
        .lines()
        .skip_while(|line| !line.contains("apiVersion:"));
    let lines = lines.take_while(|line| line.starts_with("        "));
    let lines: Vec<&str> = lines.map(|line| &line[8..]).collect();
    let text = lines.join("\n") + "\n";
    commit(&fixture, "dev", "they may go", |dir| {
        fs::write(dir.join("removal.yaml"), text).unwrap();
    });
    fixture.bundle("dev");
    fixture.agent("edge-1", 0, &["import", "stick"]);
    fixture.agent("edge-1", 1, &["approve", "2", "--who", "ann"]);
    fixture.home("edge-1");
    let answer = blame(&fixture, &[]);
    let cause = &first(&answer)["commit"];
    assert_eq!(cause["id"], bad, "{answer:#}");
    assert_eq!(cause["removed"], json!(["hello-dev"]));
    assert_eq!(cause["policies"][0]["policy"], "hello-team");
    let told = told(&fixture, 0, "");
    assert!(
        told.contains("hello-dev does not come to this site any more"),
        "{told}"
    );
    assert!(told.contains("scheduling/hello-team.yaml"), "{told}");
}

#[test]
fn a_rollback_over_several_bundles_is_what_happened_and_no_commit_was_set_back() {
    let fixture = scene();
    let settings = fixture.path("sites/edge-1/agent.toml");
    let text = fs::read_to_string(&settings).unwrap();
    fs::write(settings, format!("keep_generations = 5\n{text}")).unwrap();
    for key in ["K1", "K2"] {
        harmless(&fixture, key);
        promote(&fixture);
        ship(&fixture, 0);
    }
    harmless(&fixture, "K3");
    promote(&fixture);
    let check = fs::read(fixture.path("check.sh")).unwrap();
    asks(&fixture, "echo the disk is full >&2");
    ship(&fixture, 1);
    fs::write(fixture.path("check.sh"), check).unwrap();
    let back = ["rollback", "--to", "1", "--who", "ann", "--why", "quiet"];
    fixture.agent("edge-1", 0, &back);
    fixture.home("edge-1");
    blame(&fixture, &[]);
    let told = told(&fixture, 0, "");
    assert!(!told.contains("set back"), "{told}");
    assert!(told.contains("ann"), "{told}");
}

#[test]
fn a_rollback_that_fails_is_told_as_that() {
    let fixture = scene();
    harmless(&fixture, "K1");
    promote(&fixture);
    ship(&fixture, 0);
    let script = fixture.path("sites/edge-1/applied/hello-dev/platform-config.env");
    fs::remove_file(&script).unwrap();
    fs::create_dir_all(script.join("in-the-way")).unwrap();
    let back = ["rollback", "--who", "ann", "--why", "quiet"];
    fixture.agent("edge-1", 1, &back);
    fixture.home("edge-1");
    let answer = blame(&fixture, &[]);
    let told = told(&fixture, 0, "");
    assert!(!told.contains("set back"), "{told}");
    assert_eq!(kinds(&answer)[0], "rollback", "{answer:#}");
    let words = "bundle 2 failed: the rollback to bundle 1 failed";
    assert!(told.contains(words), "{told}");
}
