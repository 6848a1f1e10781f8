//! Imports that work: what is on disk afterwards, and what a second or a newer bundle changes.

use std::fs;

use outhaul_test_kit::{Centre, Draft, Load, noise};

use crate::site::{Site, assert_reports, stderr, stdout};

#[test]
fn a_good_bundle_is_applied_and_active() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let bundle = centre.publish(&Draft::hello("hi"));
    let taken = site.take(&bundle);
    assert_eq!(taken["number"], 1);
    let applied = site.applied();
    assert_eq!(applied["hello/manifest.yaml"], b"greeting: hi\n");
    assert_eq!(applied["hello/payload/image.tar.gz"], noise(100_000));
    assert_eq!(applied.len(), 3, "{:?}", applied.keys());
    let status = site.status();
    assert_eq!(status["active"], 1);
    assert_eq!(status["assignments"][0]["name"], "hello");
    assert_eq!(status["assignments"][0]["status"], "compliant");
    let printed = stdout(&site.run(&["status"]));
    assert!(printed.contains("active: bundle 1"), "{printed}");
}

#[test]
fn the_same_bundle_again_is_already_active_and_nothing_is_applied() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let bundle = centre.publish(&Draft::hello("hi"));
    site.take(&bundle);
    let reports = site.event_log();
    // Applying again would put it back.
    let file = site.state().join("applied/hello/manifest.yaml");
    fs::remove_file(&file).unwrap();
    let again = site.take(&bundle);
    assert!(
        again["message"]
            .as_str()
            .unwrap()
            .contains("already active"),
        "{again}"
    );
    assert!(!file.exists());
    assert_eq!(site.event_log(), reports);
}

#[test]
fn a_bundle_with_an_assignment_less_removes_exactly_its_files() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let load = |name: &str| {
        Load::new(name)
            .file("a.yaml", name)
            .file("deep/b.yaml", "b")
    };
    let all = ["one", "two", "three", "four"].map(load);
    site.take(&centre.publish(&Draft::new(all.clone())));
    let applied = site.state().join("applied");
    fs::write(applied.join("two/foreign.yaml"), "someone else's").unwrap();
    fs::write(applied.join("foreign.yaml"), "someone else's").unwrap();
    let taken = site.take(&centre.publish(&Draft::new(
        all.into_iter().filter(|load| load.name() != "two"),
    )));
    assert!(
        taken["message"].as_str().unwrap().contains("removed `two`"),
        "{taken}"
    );
    let names: Vec<_> = site.applied().into_keys().collect();
    let expected = [
        "foreign.yaml",
        "four/a.yaml",
        "four/deep/b.yaml",
        "one/a.yaml",
        "one/deep/b.yaml",
        "three/a.yaml",
        "three/deep/b.yaml",
        "two/foreign.yaml",
    ];
    assert_eq!(names, expected);
}

#[test]
fn a_file_of_somebody_else_in_the_way_stays_and_the_bundle_before_runs_again() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("hi")));
    let foreign = site.state().join("applied/hello/new.yaml");
    fs::write(&foreign, "someone else's").unwrap();
    let load = Load::new("hello")
        .file("manifest.yaml", "greeting: new\n")
        .file("new.yaml", "ours");
    let bundle = centre.publish(&Draft::new([load]));
    let output = site.import(&bundle);
    assert_reports(&output, 1, &["help:"]);
    assert!(
        stdout(&output).contains("not Outhaul's"),
        "{}",
        stdout(&output)
    );
    assert_eq!(fs::read(&foreign).unwrap(), b"someone else's");
    assert_eq!(site.applied()["hello/manifest.yaml"], b"greeting: hi\n");
    assert_eq!(site.active(), Some(1));
    assert_eq!(site.state_of(2), "reverted");
    // It is remembered, not tried again, until a person says so.
    assert_reports(&site.import(&bundle), 1, &["not tried again", "approve"]);
    fs::remove_file(&foreign).unwrap();
    site.ok(&["approve", "2"]);
    site.take(&bundle);
    assert_eq!(site.applied()["hello/new.yaml"], b"ours");
}

#[test]
fn plan_says_what_would_change_and_changes_nothing() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("hi")));
    let before = (site.applied(), site.event_log());
    let load = Load::new("hello").file("manifest.yaml", "greeting: new\n");
    let bundle = centre.publish(&Draft::new([load, Load::new("more").file("m.yaml", "m")]));
    let plan = site.ok(&["plan", bundle.to_str().unwrap()]);
    let changes = plan["assignments"][0]["changes"].as_array().unwrap();
    let printed: Vec<_> = changes
        .iter()
        .map(|c| format!("{} {}", c["action"], c["item"]))
        .collect();
    assert!(
        printed.contains(&"\"change\" \"hello/manifest.yaml\"".to_owned()),
        "{printed:?}"
    );
    assert!(
        printed.contains(&"\"remove\" \"hello/payload/notes.txt\"".to_owned()),
        "{printed:?}"
    );
    assert_eq!(plan["assignments"][1]["action"], "add");
    assert_eq!((site.applied(), site.event_log()), before);
}

#[test]
fn a_wrong_agent_toml_is_reported_with_its_place() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let bundle = centre.publish(&Draft::hello("hi"));
    site.configure("drift_s = 900\n[folder]\ntargte = \"/srv\"\n");
    for arguments in [
        &["status"][..],
        &["import", bundle.to_str().unwrap()],
        &["run", "--once"],
    ] {
        let output = site.run(arguments);
        assert_reports(
            &output,
            2,
            &["agent.toml:3:1", "targte", "nothing was changed"],
        );
    }
    site.configure("outbox_max = 1\n");
    assert_reports(
        &site.run(&["status"]),
        2,
        &["agent.toml", "outbox_max", "20 to 1000000"],
    );
    assert!(site.applied().is_empty());
}

#[test]
fn without_enough_space_nothing_is_changed() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let bundle = centre.publish(&Draft::hello("hi"));
    site.configure("min_free_mb = 1000000000\n");
    let output = site.import(&bundle);
    assert_reports(
        &output,
        3,
        &[
            "not enough space",
            "nothing was changed",
            " MiB, missing ",
            "help:",
        ],
    );
    assert!(site.applied().is_empty());
    assert_eq!(site.status()["generations"].as_array().unwrap().len(), 0);
    // The centre learns why this site stays behind.
    assert_eq!(site.event_log(), ["started", "refusal no-space"]);
    assert_eq!(site.status()["refusals"][0]["rule"], "no-space");
    // And with space it works, as if nothing had been.
    site.configure("");
    site.take(&bundle);
    assert!(site.status().get("refusals").is_none());
}

#[test]
fn a_command_before_enrolment_says_what_to_do() {
    let centre = Centre::new();
    let site = Site {
        name: "drone-7".to_owned(),
        folder: tempfile::tempdir().unwrap(),
    };
    let output = site.import(&centre.publish(&Draft::hello("hi")));
    assert!(stderr(&output).contains("enrol"), "{}", stderr(&output));
    assert_ne!(output.status.code(), Some(0));
}
