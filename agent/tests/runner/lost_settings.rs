//! A site whose `agent.toml` is gone: nothing is applied by the default settings, until the file is there again or the defaults are confirmed.
//!
//! What must come out: the place that the site was set to stays as it is, the default one stays empty, and both ways out work as they are printed.

use std::fs;
use std::path::PathBuf;

use outhaul_test_kit::{Centre, Draft};

use crate::service::{Service, log, until};
use crate::site::{Site, assert_reports, stderr, stdout, tree};
use crate::split::Split;
use crate::taken_away::{as_printed, path};

const WORDS: [&str; 2] = [
    "agent.toml` is gone, and this site has worked with one that sets `folder.target`",
    "no bundle is applied",
];

/// A site that writes into another folder than the default one, and whose settings are lost; with that folder.
fn lost(centre: &Centre) -> (Site, PathBuf) {
    let site = Site::new(centre, "drone-7");
    let target = site.folder.path().join("srv");
    site.configure(&format!("[folder]\ntarget = {target:?}\n"));
    site.take(&centre.publish(&Draft::hello("one")));
    fs::remove_file(site.state().join("agent.toml")).unwrap();
    (site, target)
}

#[test]
fn a_bundle_is_not_applied_by_the_default_settings_where_the_file_is_lost() {
    let centre = Centre::new();
    let (site, target) = lost(&centre);
    let before = tree(&target);
    let two = centre.publish(&Draft::hello("two"));
    for command in [&["import", path(&two)][..], &["plan", path(&two)]] {
        assert_reports(&site.run(command), 2, &WORDS);
    }
    let status = site.run(&["status"]);
    assert_reports(&status, 0, &[]);
    for words in WORDS {
        assert!(stdout(&status).contains(words), "{}", stdout(&status));
    }
    let mut service = Service::start(&site);
    until("it does not say so", || {
        let said = fs::read_to_string(log(&site)).unwrap();
        WORDS.iter().all(|words| said.contains(words))
    });
    // It was put back meanwhile: the service has the default settings until it is started again.
    site.configure(&format!("[folder]\ntarget = {target:?}\n"));
    let words = ["is not followed yet", "systemctl restart outhaul-agent"];
    assert_reports(&site.import(&two), 2, &words);
    assert!(service.terminate().success());
    assert_eq!(tree(&target), before);
    assert!(!site.state().join("applied").exists());
    site.take(&two);
    assert_ne!(tree(&target), before);
    assert!(!site.state().join("applied").exists());
}

#[test]
fn the_default_settings_are_followed_when_that_is_confirmed_as_printed() {
    let centre = Centre::new();
    let (site, target) = lost(&centre);
    let before = tree(&target);
    let two = centre.publish(&Draft::hello("two"));
    let said = stderr(&site.import(&two));
    assert!(as_printed(&said, "test -e ").status.success(), "{said}");
    site.take(&two);
    assert_eq!(
        site.applied()["hello/manifest.yaml"],
        b"greeting: two\n",
        "in the default place"
    );
    assert_eq!(tree(&target), before);
    let attention = site.status()["attention"].to_string();
    assert!(attention.contains("former-target"), "{attention}");
    // A file without settings has none to lose.
    fs::remove_file(site.state().join("agent.toml")).unwrap();
    site.take(&centre.publish(&Draft::hello("three")));
}

#[test]
fn a_bundle_that_waits_for_an_approval_is_not_applied_by_the_default_settings_beside_work_under_way()
 {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("one")));
    site.configure("[health]\nsoak_s = 3600\n");
    let two = centre.publish(&Draft::hello("two"));
    assert_eq!(site.ok(&["import", path(&two)])["state"], "soaking");
    site.configure("approval = \"always\"\n[health]\nsoak_s = 3600\n");
    let three = centre.publish(&Draft::hello("three"));
    assert_eq!(site.ok(&["import", path(&three)])["state"], "gated");
    fs::remove_file(site.state().join("agent.toml")).unwrap();
    for (command, code) in [(&["apply"][..], 2), (&["run", "--once"], 3)] {
        let words = ["one that sets `approval`", "no bundle is applied"];
        assert_reports(&site.run(command), code, &words);
        assert_eq!(site.applied()["hello/manifest.yaml"], b"greeting: two\n");
        assert_eq!(site.state_of(2), "soaking", "{command:?}");
        assert_eq!(site.state_of(3), "gated", "{command:?}");
    }
}

/// A site that asks for approvals and is to go back to bundle 1, which a power cut has interrupted.
fn interrupted(centre: &Centre) -> Site {
    let site = Site::new(centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("one")));
    site.take(&centre.publish(&Draft::hello("two")));
    site.configure(APPROVAL);
    let mut cut = site.command(&["rollback", "--who", "ann"]);
    assert!(
        !cut.env("OUTHAUL_CUT", "reverting-committed")
            .status()
            .unwrap()
            .success()
    );
    site
}

const APPROVAL: &str = "approval = \"always\"\n";

#[test]
fn no_decision_is_recorded_that_nobody_carries_out_without_the_settings() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("one")));
    site.take(&centre.publish(&Draft::hello("two")));
    site.configure(APPROVAL);
    let three = centre.publish(&Draft::hello("three"));
    assert_eq!(site.ok(&["import", path(&three)])["state"], "gated");
    fs::remove_file(site.state().join("agent.toml")).unwrap();
    let made = site.reports().len();
    for command in [
        &["approve", "3"][..],
        &["approve", "3", "--assignment", "hello"],
        &["apply"],
        &["rollback"],
        &["rollback", "--assignment", "hello"],
        &["hold", "--release", "--assignment", "hello"],
    ] {
        assert_reports(&site.run(command), 2, &["no decision is recorded"]);
    }
    assert_eq!(site.reports().len(), made);
    assert_eq!(site.state_of(3), "gated");
    assert_eq!(site.status()["unfinished"], serde_json::Value::Null);
    let help = site.status()["next"].to_string();
    assert!(
        !help.contains("outhaul-agent approve") && !help.contains("outhaul-agent apply"),
        "{help}"
    );
    site.configure(APPROVAL);
    site.ok(&["run", "--once"]);
    assert_eq!(site.state_of(3), "gated", "nobody has approved it");
    site.ok(&["approve", "3"]);
    assert_eq!(site.state_of(3), "active");
}

#[test]
fn what_was_said_of_the_lost_file_is_gone_when_it_is_there_and_the_printed_command_keeps_it() {
    let centre = Centre::new();
    let site = interrupted(&centre);
    let three = centre.publish(&Draft::hello("three"));
    fs::remove_file(site.state().join("agent.toml")).unwrap();
    let said = stderr(&site.import(&three));
    site.run(&["run", "--once"]);
    let gone = "is gone, and this site has worked with";
    assert!(stdout(&site.run(&["status"])).contains(gone));
    let held = stdout(&site.run(&["hold", "--who", "ann"]));
    assert!(
        held.contains("goes on when agent.toml is there again"),
        "{held}"
    );
    site.configure(APPROVAL);
    let status = stdout(&site.run(&["status"]));
    assert!(!status.contains(gone), "{status}");
    assert!(as_printed(&said, "test -e ").status.success(), "{said}");
    assert_eq!(
        fs::read_to_string(site.state().join("agent.toml")).unwrap(),
        APPROVAL
    );
}

#[test]
fn plan_names_unfinished_work_that_an_import_ends_first_and_what_that_changes() {
    let centre = Centre::new();
    let site = interrupted(&centre);
    let three = centre.publish(&Draft::hello("three"));
    let planned = site.ok(&["plan", path(&three)]);
    assert_eq!(planned["active"], 1, "{planned}");
    let unfinished = &planned["unfinished"];
    assert_eq!(unfinished["number"], 2, "{planned}");
    let changes = &unfinished["assignments"][0]["changes"][0];
    assert_eq!(changes["item"], "hello/manifest.yaml", "{planned}");
    assert_eq!(site.state_of(2), "reverting", "plan changes nothing");
    assert_eq!(site.applied()["hello/manifest.yaml"], b"greeting: two\n");
    let printed = stdout(&site.run(&["plan", path(&three)]));
    assert!(
        printed.contains("bundle 1 is applied in its place"),
        "{printed}"
    );
    assert_eq!(site.ok(&["import", path(&three)])["state"], "gated");
    assert_eq!(site.applied()["hello/manifest.yaml"], b"greeting: one\n");
    let planned = site.ok(&["plan", path(&centre.publish(&Draft::hello("four")))]);
    assert_eq!(planned["unfinished"], serde_json::Value::Null);
}

#[test]
fn a_plan_beside_a_service_names_the_target_that_it_writes_to_and_no_setting_of_the_lost_file() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let target = site.folder.path().join("srv");
    site.configure(&format!("[folder]\ntarget = {target:?}\n"));
    site.take(&centre.publish(&Draft::hello("one")));
    let mut service = Service::start(&site);
    service.wait_for("STATUS=bundle 1 is active");
    fs::remove_file(site.state().join("agent.toml")).unwrap();
    let planned = site.run(&["plan", path(&centre.publish(&Draft::hello("two")))]);
    let writes = format!("for `{}`, to which the service writes", target.display());
    assert_reports(&planned, 0, &[&writes]);
    for untrue in ["though `target` in agent.toml is", "from the restart on"] {
        assert!(!stderr(&planned).contains(untrue), "{}", stderr(&planned));
    }
    assert!(stdout(&planned).contains("change hello/manifest.yaml"));
    assert!(service.terminate().success());
}

#[test]
fn no_bundle_and_no_report_is_removed_by_the_default_settings() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.configure("keep_generations = 5\noutbox_max = 100000\n");
    for greeting in ["one", "two", "three"] {
        site.take(&centre.publish(&Draft::hello(greeting)));
    }
    let kept = || {
        let files = tree(&site.state().join("generations")).into_keys();
        files.collect::<Vec<_>>()
    };
    let before = kept();
    // More reports than are kept by default.
    let db = rusqlite::Connection::open(site.state().join("agent.db")).unwrap();
    db.execute_batch(
        "INSERT INTO outbox (number, class, envelope)
           WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
           SELECT (SELECT max(number) FROM outbox) + i, 'observation', (SELECT envelope FROM outbox LIMIT 1) FROM n;
         UPDATE meta SET value = json_set(value, '$.last', (SELECT max(number) FROM outbox)) WHERE name = 'outbox';",
    )
    .unwrap();
    let reports = || {
        db.query_row("SELECT count(*) FROM outbox", [], |row| {
            row.get::<_, i64>(0)
        })
        .unwrap()
    };
    let waiting = reports();
    assert!(waiting > 10_000, "{waiting}");
    fs::remove_file(site.state().join("agent.toml")).unwrap();
    site.run(&["run", "--once"]);
    site.ok(&["hold", "--who", "ann"]);
    assert_eq!(kept(), before);
    assert!(reports() > waiting, "{} {waiting}", reports());
    // Both are done by the default settings when those are meant.
    site.configure("");
    site.ok(&["run", "--once"]);
    assert!(reports() < waiting, "{} {waiting}", reports());
    assert_ne!(kept(), before);
}

#[test]
fn a_plan_beside_a_service_that_read_the_lost_file_says_that_it_is_by_the_default_settings() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("one")));
    site.configure("approval = \"always\"\n");
    let mut service = Service::start(&site);
    service.wait_for("STATUS=bundle 1 is active");
    let two = centre.publish(&Draft::hello("two"));
    let plan = || site.run(&["plan", path(&two)]);
    let words = "this plan is by the default settings";
    assert!(!stderr(&plan()).contains(words));
    fs::remove_file(site.state().join("agent.toml")).unwrap();
    let words = [
        "one that sets `approval`",
        "the service goes on with",
        words,
    ];
    assert_reports(&plan(), 0, &words);
    assert_eq!(site.ok(&["import", path(&two)])["state"], "gated");
    assert!(service.terminate().success());
}

#[test]
fn the_apply_helper_does_nothing_by_the_default_settings_in_place_of_lost_ones() {
    let centre = Centre::new();
    let split = Split::new(Site::new(&centre, "drone-7"));
    let settings = split.folder().join("agent.toml");
    let target = split.site.folder.path().join("srv");
    fs::write(&settings, format!("[folder]\ntarget = {target:?}\n")).unwrap();
    split.site.take(&centre.publish(&Draft::hello("one")));
    let before = tree(&target);
    assert!(!before.is_empty());
    fs::remove_file(&settings).unwrap();
    let two = centre.publish(&Draft::hello("two"));
    let refused = split.site.import(&two);
    let words = [
        "apply/agent.toml` is gone, and this site has worked with one that sets `folder.target`",
        "the apply helper does nothing by the default settings",
    ];
    assert_reports(&refused, 3, &words);
    assert_eq!(tree(&target), before);
    assert!(split.applied().is_empty());
    assert!(as_printed(&stderr(&refused), "test -e ").status.success());
    split.site.ok(&["import", path(&two)]);
    assert_eq!(split.applied()["hello/manifest.yaml"], b"greeting: two\n");
}
