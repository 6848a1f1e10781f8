//! A site whose state folder was restored from a backup, with the real hub and agent, by stick.
//!
//! (A centre or hub that was restored: `docs/runbooks/centre-restored.md`, typed by `documents.rs`.)
//! What must come out: the hub has every report that anybody wrote, none twice, none lost; the site says
//! what happened and is heard again.

use std::fs;
use std::process::Command;

use outhaul_test_kit::folder;
use outhaul_tests::{Ran, program, run};

use super::system::SystemFixture;

fn hub(fixture: &SystemFixture, arguments: &[&str]) -> Ran {
    let mut command: Command = fixture.command(&program("outhaul-hub").unwrap());
    run(command.args(["--state", "hub"]).args(arguments)).unwrap()
}

/// A new stick goes to the hub and back: what the hub said, and what the site said.
fn there_and_back(fixture: &SystemFixture, site: &str) -> (Ran, Ran) {
    let _ = fs::remove_dir_all(fixture.path("stick"));
    fs::create_dir(fixture.path("stick")).unwrap();
    fixture.agent(site, 0, &["export", "stick"]);
    let reported = hub(fixture, &["import", "stick"]);
    // Something else lies on it, too, which is skipped.
    let request = format!("sites/{site}/{site}.request");
    fs::copy(fixture.path(&request), fixture.path("stick/old.outhaul")).unwrap();
    let mut command = fixture.command(&program("outhaul-agent").unwrap());
    let state = format!("sites/{site}");
    let back = run(command.args(["--state", &state, "import", "stick"])).unwrap();
    assert_eq!(back.code, Some(0), "{}", back.everything());
    assert!(back.stderr.contains("skipped"), "{}", back.everything());
    assert!(!back.stderr.contains("error:"), "{}", back.everything());
    (reported, back)
}

fn status(fixture: &SystemFixture, site: &str) -> serde_json::Value {
    let reported = fixture.agent(site, 0, &["--output", "json", "status"]);
    outhaul_tests::result(&reported.stdout)
}

#[test]
fn a_site_restored_from_a_backup_is_heard_again_and_no_report_is_lost() {
    for kit in [false, true] {
        let fixture = SystemFixture::new();
        let init = ["init", "control-plane", "--environments", "dev"];
        fixture.run("outhaul", 0, &init);
        fixture.fleet();
        fixture.site("edge-1", "dev", "edge");
        let say = |why: &str| fixture.agent("edge-1", 0, &["hold", "--why", why]);
        say("before the backup");
        assert_eq!(there_and_back(&fixture, "edge-1").0.code, Some(0));
        folder::copy(&fixture.path("sites/edge-1"), &fixture.path("backup"));
        for why in ["after it", "and again"] {
            say(why);
        }
        assert_eq!(there_and_back(&fixture, "edge-1").0.code, Some(0));
        let before = status(&fixture, "edge-1");
        assert_eq!(before["reports_waiting"], 0, "{before}");

        // The disk dies; the backup comes back, and goes its own way.
        fs::remove_dir_all(fixture.path("sites/edge-1")).unwrap();
        fs::rename(fixture.path("backup"), fixture.path("sites/edge-1")).unwrap();
        if kit {
            let out = ["--fleet", "fleet", "--out", "again.kit"];
            let stream = ["--environment", "dev", "--cluster-type", "edge"];
            let enrol = ["site", "enrol", "edge-1", "--again"];
            let plane = ["--control-plane", "control-plane"];
            fixture.run("outhaul", 0, &[&enrol[..], &out, &stream, &plane].concat());
            let reported = fixture.agent("edge-1", 0, &["--output", "json", "enrol", "again.kit"]);
            let reported = outhaul_tests::result(&reported.stdout);
            let request = reported["request"].as_str().unwrap();
            let status = status(&fixture, "edge-1");
            let key = status["key"].as_str().unwrap();
            let add = ["site", "add", "--replace", "--fingerprint", key, request];
            let added = hub(&fixture, &add);
            assert_eq!(added.code, Some(0), "{}", added.everything());
        }
        for why in ["restored", "still restored", "really"] {
            say(why);
        }
        let (refused, back) = there_and_back(&fixture, "edge-1");
        let again = "reports are renumbered";
        assert!(back.stderr.contains(again), "{}", back.everything());
        assert!(
            refused.everything().contains("exchanged"),
            "{}",
            refused.everything()
        );
        let reported = status(&fixture, "edge-1");
        assert!(
            reported["renumbered"]
                .as_str()
                .unwrap()
                .contains("restored"),
            "{reported}"
        );
        let (accepted, _) = there_and_back(&fixture, "edge-1");
        assert_eq!(accepted.code, Some(0), "{}", accepted.everything());
        let reported = status(&fixture, "edge-1");
        assert_eq!(reported["reports_waiting"], 0, "{reported}");
        // The new numbering has the word of it and all that waited.
        let waited = 3 + i64::from(kit);
        assert_eq!(
            reported["reports_last"].as_i64(),
            Some(1 + waited),
            "{reported}"
        );
    }
}
