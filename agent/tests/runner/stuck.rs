//! No site gets stuck: a rollback that fails, a target that is wrong, folders and files that are gone.
//!
//! Each test is a site on which something went wrong, what a person sees of it, and the way out.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use outhaul_bundle::report::{ComplianceStatus, GenerationState, ReportEvent};
use outhaul_test_kit::{Centre, Draft, Load};
use outhaul_tests::Checked as _;

use crate::site::{Site, assert_reports, described, stderr, stdout};

/// A site on which bundle 2 runs, which left out a file of bundle 1.
fn site_with_two() -> (Centre, Site) {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let load = |content: &str| Load::new("hello").file("manifest.yaml", content);
    site.take(&centre.publish(&Draft::new([load("one\n").file("only-one.yaml", "1")])));
    site.take(&centre.publish(&Draft::new([load("two\n")])));
    (centre, site)
}

/// A foreign folder where a file of bundle 1 goes.
fn obstacle(site: &Site) -> PathBuf {
    let folder = site.state().join("applied/hello/only-one.yaml");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("diary.txt"), "someone's").unwrap();
    folder
}

fn last_report(site: &Site) -> ReportEvent {
    site.reports().pop().unwrap().event
}

#[test]
fn a_rollback_that_fails_says_so_and_the_bundle_that_ran_goes_on() {
    let (centre, site) = site_with_two();
    let folder = obstacle(&site);
    let words = [
        "the rollback to bundle 1 failed",
        "only-one.yaml",
        "not Outhaul's",
        "now bundle 2 is active",
        "help:",
    ];
    assert_reports(&site.run(&["rollback", "--who", "ann"]), 1, &words);
    assert_eq!(site.state_of(2), "active");
    assert_eq!(site.applied()["hello/manifest.yaml"], b"two\n");
    assert_eq!(fs::read(folder.join("diary.txt")).unwrap(), b"someone's");
    // What is reported is what runs, and why.
    let ReportEvent::Generation(printed) = last_report(&site) else {
        panic!("{:?}", last_report(&site))
    };
    assert_eq!(
        (printed.number, printed.state),
        (2, GenerationState::Active)
    );
    assert!(
        printed.message.contains("the rollback to bundle 1 failed"),
        "{}",
        printed.message
    );
    // The order does not stand: nothing goes back automatically later.
    fs::remove_dir_all(&folder).unwrap();
    assert_reports(&site.run(&["run", "--once"]), 0, &[]);
    assert_eq!(site.active(), Some(2));
    // A second try works once the obstacle is gone, and so does every newer bundle.
    assert_eq!(site.ok(&["rollback"])["active"], 1);
    site.take(&centre.publish(&Draft::hello("three")));
}

#[test]
fn a_newer_bundle_becomes_active_while_the_obstacle_to_a_rollback_still_lies_there() {
    let (centre, site) = site_with_two();
    obstacle(&site);
    assert_reports(
        &site.run(&["rollback"]),
        1,
        &["rollback to bundle 1 failed"],
    );
    let load = Load::new("hello").file("manifest.yaml", "three\n");
    site.take(&centre.publish(&Draft::new([load])));
    assert_eq!(site.state_of(2), "superseded");
}

#[test]
fn a_site_that_an_earlier_agent_left_with_a_failed_active_bundle_takes_a_newer_one() {
    let (centre, site) = site_with_two();
    // What the agent before this one wrote: the active bundle failed, the order stands.
    let database = rusqlite::Connection::open(site.state().join("agent.db")).unwrap();
    database
        .execute_batch(
            "UPDATE generation SET state = 'failed' WHERE number = 2;
             INSERT INTO meta (name, value) VALUES ('rollback', '\"ann\"');",
        )
        .unwrap();
    drop(database);
    let printed = stdout(&site.run(&["status"]));
    assert!(
        printed.contains("to do: ") && printed.contains("outhaul-agent apply"),
        "{printed}"
    );
    site.take(&centre.publish(&Draft::hello("three")));
    assert_eq!(site.active(), Some(3));
}

#[test]
fn when_going_back_and_forth_both_fail_status_says_what_to_do_and_apply_repairs() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let load = |content: &str| Load::new("hello").file("manifest.yaml", content);
    site.take(&centre.publish(&Draft::new([load("one\n")])));
    site.take(&centre.publish(&Draft::new([load("two\n")])));
    // A folder in the way of a file that both have.
    let file = site.state().join("applied/hello/manifest.yaml");
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    let words = [
        "the rollback to bundle 1 failed",
        "applying bundle 2 again failed",
        "bundle 2 is only partly applied",
        "outhaul-agent apply",
    ];
    assert_reports(&site.run(&["rollback"]), 1, &words);
    assert_eq!(site.state_of(2), "failed");
    let ReportEvent::Generation(printed) = last_report(&site) else {
        panic!("{:?}", last_report(&site))
    };
    assert_eq!(
        (printed.number, printed.state),
        (2, GenerationState::Failed)
    );
    let printed = stdout(&site.run(&["status"]));
    assert!(
        printed.contains("to do: ") && printed.contains("outhaul-agent apply"),
        "{printed}"
    );
    assert_reports(&site.run(&["apply"]), 1, &["only partly applied", "help:"]);
    fs::remove_dir(&file).unwrap();
    let repaired = site.ok(&["apply", "--who", "ann"]);
    assert_eq!(repaired["active"], 2);
    assert_eq!(fs::read(&file).unwrap(), b"two\n");
    assert_eq!(site.state_of(2), "active");
    assert!(site.status().get("to_do").is_none());
    let ReportEvent::Generation(printed) = last_report(&site) else {
        panic!("{:?}", last_report(&site))
    };
    assert_eq!(
        (printed.number, printed.state),
        (2, GenerationState::Active)
    );
}

#[test]
fn a_broken_site_is_tried_again_by_the_service_and_by_a_newer_bundle() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let load = |content: &str| Load::new("hello").file("manifest.yaml", content);
    site.take(&centre.publish(&Draft::new([load("one\n")])));
    site.take(&centre.publish(&Draft::new([load("two\n")])));
    let file = site.state().join("applied/hello/manifest.yaml");
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert_reports(&site.run(&["rollback"]), 1, &[]);
    let by_bundle = site.copy();
    fs::remove_dir(by_bundle.state().join("applied/hello/manifest.yaml")).unwrap();
    by_bundle.take(&centre.publish(&Draft::new([load("three\n")])));
    assert_eq!(by_bundle.applied()["hello/manifest.yaml"], b"three\n");
    fs::remove_dir(&file).unwrap();
    assert_reports(&site.run(&["run", "--once"]), 0, &[]);
    assert_eq!(site.state_of(2), "active");
    assert_eq!(fs::read(&file).unwrap(), b"two\n");
}

#[test]
fn rollback_after_a_hold_was_released_does_not_install_what_waited() {
    let (centre, site) = site_with_two();
    site.ok(&["hold", "--why", "harvest"]);
    let third = centre.publish(&Draft::new([
        Load::new("hello").file("manifest.yaml", "three\n")
    ]));
    assert_eq!(
        site.ok(&["import", third.to_str().unwrap()])["state"],
        "gated"
    );
    site.ok(&["hold", "--release"]);
    assert_eq!(site.ok(&["rollback", "--who", "ann"])["active"], 1);
    assert_eq!(site.applied()["hello/manifest.yaml"], b"one\n");
    let printed: Vec<String> = site.event_log();
    assert!(!printed.contains(&"3 applying".to_owned()), "{printed:?}");
    // It waits for a person now, also for the service and for the same stick.
    assert_reports(&site.run(&["run", "--once"]), 0, &[]);
    assert_reports(&site.import(&third), 0, &[]);
    assert_eq!(
        (site.active(), site.state_of(3).as_str()),
        (Some(1), "gated")
    );
    let status = stdout(&site.run(&["status"]));
    assert!(
        status.contains(
            "a rollback was ordered after it came; approve it with `outhaul-agent approve 3`"
        ),
        "{status}"
    );
    site.ok(&["approve", "3"]);
    assert_eq!(site.active(), Some(3));
}

#[test]
fn rollback_of_a_bundle_that_was_cut_off_goes_back_to_the_one_that_ran() {
    let (centre, site) = site_with_two();
    let third = centre.publish(&Draft::new([
        Load::new("hello").file("manifest.yaml", "three\n")
    ]));
    let cut = site
        .command(&["import", third.to_str().unwrap()])
        .env("OUTHAUL_CUT", "file-written")
        .checked()
        .unwrap();
    assert_eq!(cut.status.code(), None);
    assert_eq!(site.applied()["hello/manifest.yaml"], b"three\n");
    assert_eq!(site.ok(&["rollback", "--who", "ann"])["active"], 2);
    assert_eq!(site.applied()["hello/manifest.yaml"], b"two\n");
    assert_eq!(site.state_of(3), "reverted");
}

#[test]
fn a_wrong_target_refuses_the_bundle_and_names_the_setting() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let file = site.folder.path().join("a-file");
    fs::write(&file, "no folder").unwrap();
    site.configure(&format!(
        "[folder]\ntarget = \"{}/below\"\n",
        file.display()
    ));
    let bundle = centre.publish(&Draft::hello("one"));
    let words = ["a-file/below", "`target` under `[folder]`", "agent.toml"];
    assert_reports(&site.import(&bundle), 3, &words);
    assert_eq!(site.status()["generations"].as_array().unwrap().len(), 0);
    site.configure("");
    site.take(&bundle);
}

#[test]
fn a_target_that_goes_wrong_while_applying_is_reported_as_failed_and_blocks_nothing() {
    let (centre, site) = site_with_two();
    let third = centre.publish(&Draft::new([
        Load::new("hello").file("manifest.yaml", "three\n")
    ]));
    let cut = site
        .command(&["import", third.to_str().unwrap()])
        .env("OUTHAUL_CUT", "applying-committed")
        .checked()
        .unwrap();
    assert_eq!(cut.status.code(), None);
    let file = site.folder.path().join("a-file");
    fs::write(&file, "no folder").unwrap();
    site.configure(&format!(
        "[folder]\ntarget = \"{}/below\"\n",
        file.display()
    ));
    let words = [
        "bundle 3 cannot go on",
        "a-file/below",
        "outhaul-agent apply",
    ];
    assert_reports(&site.run(&["apply"]), 3, &words);
    assert_reports(&site.run(&["apply"]), 3, &words);
    // The hub hears of it once, as a failure and not as work that goes on.
    let failed = |printed: &&String| *printed == "3 failed";
    assert_eq!(
        site.event_log().iter().filter(failed).count(),
        1,
        "{:?}",
        site.event_log()
    );
    // Looking for drift meanwhile says nothing of a bundle that is half replaced.
    assert_reports(&site.run(&["run", "--once"]), 3, &["a-file/below"]);
    assert!(!site.event_log().contains(&"2 observed".to_owned()));
    let status = stdout(&site.run(&["status"]));
    assert!(
        status.contains("to do: ") && status.contains("a-file/below"),
        "{status}"
    );
    // Put right, a newer bundle is taken; so is going on.
    let other = site.copy();
    other.configure("");
    assert_eq!(other.ok(&["apply"])["active"], 3);
    site.configure("");
    site.take(&centre.publish(&Draft::hello("four")));
}

#[test]
fn a_newer_bundle_does_not_wait_for_work_that_cannot_go_on() {
    let (centre, site) = site_with_two();
    let playbook = Load::new("hello").file("reconciler.yaml", "[]\n");
    let third = centre.publish(&Draft::new([playbook]).ansible());
    site.configure("[ansible]\nplaybook_program = \"/bin/true\"\n");
    let cut = site
        .command(&["import", third.to_str().unwrap()])
        .env("OUTHAUL_CUT", "applying-committed")
        .checked()
        .unwrap();
    assert_eq!(cut.status.code(), None);
    // One that anybody may change is not started, and the way out is not to install another.
    let open = site.folder.path().join("open-playbook");
    fs::write(&open, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    site.configure(&format!("[ansible]\nplaybook_program = {open:?}\n"));
    let refused = site.run(&["apply"]);
    assert_reports(&refused, 3, &["it is not started", "`chmod go-w "]);
    site.configure("[ansible]\nplaybook_program = \"/nowhere/ansible-playbook\"\n");
    let fourth = Load::new("hello").file("manifest.yaml", "four\n");
    let output = site.import(&centre.publish(&Draft::new([fourth])));
    assert_reports(
        &output,
        0,
        &["bundle 3 cannot go on", "/nowhere/ansible-playbook"],
    );
    assert_eq!(site.active(), Some(4));
    assert_eq!(site.state_of(3), "superseded");
}

#[test]
fn a_folder_of_a_waiting_bundle_that_is_gone_blocks_no_newer_one() {
    let (centre, site) = site_with_two();
    site.ok(&["hold"]);
    let third = centre.publish(&Draft::hello("three"));
    assert_eq!(
        site.ok(&["import", third.to_str().unwrap()])["state"],
        "gated"
    );
    fs::remove_dir_all(site.state().join("generations/3")).unwrap();
    site.ok(&["hold", "--release"]);
    let again = site.copy();
    // The same stick brings it back, a newer one takes its place.
    again.take(&third);
    site.take(&centre.publish(&Draft::hello("four")));
    assert!(
        site.event_log().contains(&"3 rejected".to_owned()),
        "{:?}",
        site.event_log()
    );
}

#[test]
fn folders_of_older_bundles_that_are_gone_block_no_newer_one() {
    let (centre, site) = site_with_two();
    fs::remove_dir_all(site.state().join("generations/1")).unwrap();
    let words = ["bundle 1 is not whole on disk", "nothing to go back to"];
    assert_reports(&site.run(&["rollback"]), 1, &words);
    fs::remove_dir_all(site.state().join("generations/2")).unwrap();
    // What runs cannot be compared any more, and that is reported.
    assert_reports(&site.run(&["run", "--once"]), 0, &[]);
    let ReportEvent::Observation(found) = last_report(&site) else {
        panic!("{:?}", last_report(&site))
    };
    assert!(
        found.message.contains("import it again"),
        "{}",
        found.message
    );
    assert_eq!(found.assignments[0].status, ComplianceStatus::Failed);
    let status = stdout(&site.run(&["status"]));
    assert!(status.contains("import bundle 2 again"), "{status}");
    assert_reports(
        &site.run(&["apply"]),
        1,
        &["cannot be applied again", "newer bundle"],
    );
    site.take(&centre.publish(&Draft::hello("three")));
    let active = site.active();
    assert_eq!(active, Some(3));
}

#[test]
fn the_same_bundle_brings_back_its_folder_that_is_gone() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let bundle = centre.publish(&Draft::hello("one"));
    site.take(&bundle);
    fs::remove_dir_all(site.state().join("generations/1")).unwrap();
    fs::remove_file(site.state().join("applied/hello/manifest.yaml")).unwrap();
    site.take(&bundle);
    assert_eq!(site.applied()["hello/manifest.yaml"], b"greeting: one\n");
    assert!(site.state().join("generations/1/index.json").exists());
}

#[test]
fn apply_puts_back_files_that_were_deleted_by_hand() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    assert_reports(
        &site.run(&["apply"]),
        1,
        &["no bundle is active", "nothing was changed"],
    );
    site.take(&centre.publish(&Draft::hello("one")));
    let file = site.state().join("applied/hello/manifest.yaml");
    fs::remove_file(&file).unwrap();
    fs::write(
        site.state().join("applied/hello/payload/notes.txt"),
        "scribble",
    )
    .unwrap();
    assert_reports(&site.run(&["run", "--once"]), 0, &[]);
    assert!(!file.exists(), "the stream says: report only");
    let status = stdout(&site.run(&["status"]));
    assert!(
        status.contains("`outhaul-agent apply` corrects it now"),
        "{status}"
    );
    // Also under a hold: nothing new is installed by it.
    site.ok(&["hold"]);
    let output = site.run(&["apply", "--who", "ann"]);
    assert_reports(&output, 0, &[]);
    assert!(
        stdout(&output).contains("bundle 1 is applied and active: applied again by ann"),
        "{}",
        stdout(&output)
    );
    assert_eq!(fs::read(&file).unwrap(), b"greeting: one\n");
    assert_eq!(site.applied()["hello/payload/notes.txt"], b"read me\n");
    assert_eq!(site.status()["assignments"][0]["status"], "compliant");
    let printed = site.event_log();
    let decided = printed
        .iter()
        .rposition(|printed| printed == "decision apply")
        .unwrap();
    assert_eq!(printed[decided + 1..], ["1 active"]);
}

#[test]
fn drift_is_corrected_where_the_stream_says_so() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("one").correct_drift()));
    let file = site.state().join("applied/hello/manifest.yaml");
    fs::remove_file(&file).unwrap();
    let held = site.copy();
    assert_reports(&site.run(&["run", "--once"]), 0, &[]);
    assert_eq!(fs::read(&file).unwrap(), b"greeting: one\n");
    let messages: Vec<_> = site
        .reports()
        .into_iter()
        .filter_map(|report| match report.event {
            ReportEvent::Observation(found) => Some(found.message),
            _ => None,
        })
        .collect();
    let expected = [
        "drift was found and is being corrected",
        "drift was corrected",
    ];
    assert_eq!(messages, expected);
    // Under a hold it is only reported.
    held.ok(&["hold"]);
    assert_reports(&held.run(&["run", "--once"]), 0, &[]);
    assert!(!held.applied().contains_key("hello/manifest.yaml"));
    assert_eq!(described(&last_report(&held)), "1 observed");
}

#[test]
fn a_first_bundle_that_fails_can_be_tried_again_and_blocks_no_newer_one() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let foreign = site.state().join("applied/hello");
    fs::create_dir_all(foreign.join("manifest.yaml")).unwrap();
    let bundle = centre.publish(&Draft::hello("one"));
    let output = site.import(&bundle);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let newer = site.copy();
    fs::remove_dir_all(newer.state().join("applied/hello")).unwrap();
    newer.take(&centre.publish(&Draft::hello("two")));
    fs::remove_dir_all(&foreign).unwrap();
    site.ok(&["approve", "1"]);
    site.take(&bundle);
}
