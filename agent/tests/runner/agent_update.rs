//! The agent replaces itself by a program that a bundle brought: it is tried, used, or given up.
//!
//! What comes in: real programs. The newer agent is this one with other bytes at its end, which no loader reads: another digest,
//! the same behaviour, the version that was signed. The broken ones are programs of this machine that are no agent, and one for
//! another architecture. `run --once` is what a timer calls; the power is cut at every instant of the way.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;

use outhaul_bundle::report::ReportEvent;
use outhaul_test_kit::{Centre, Draft};
use outhaul_tests::Checked as _;
use serde_json::Value;

use crate::site::{Site, assert_reports, code, stderr, stdout};

/// This agent as another build.
fn newer() -> Vec<u8> {
    let mut bytes = fs::read(env!("CARGO_BIN_EXE_outhaul-agent")).unwrap();
    bytes.extend(b"another build");
    bytes
}

/// A program of this machine that is no agent.
fn no_agent() -> Vec<u8> {
    fs::read("/bin/false").unwrap()
}

/// A site on which a bundle is active that brings an agent.
fn site(version: &'static str, program: Vec<u8>) -> (Centre, Site) {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    // As `systemd` makes it.
    fs::set_permissions(site.state(), fs::Permissions::from_mode(0o700)).unwrap();
    site.take(&centre.publish(&Draft::hello("one").agent(version, program)));
    (centre, site)
}

fn agent(site: &Site) -> Value {
    site.status()["agent"].clone()
}

fn started(site: &Site) -> Vec<String> {
    let reports = site.reports().into_iter();
    let started = reports.filter_map(|report| match report.event {
        ReportEvent::Started { agent_version } => Some(agent_version),
        _ => None,
    });
    started.collect()
}

fn refused(site: &Site) -> Vec<String> {
    let reports = site.reports().into_iter();
    let refused = reports.filter_map(|report| match report.event {
        ReportEvent::Refusal {
            source,
            rule,
            message,
        } => Some(format!("{rule}: {source}: {message}")),
        _ => None,
    });
    refused.collect()
}

#[test]
fn a_newer_agent_is_tried_used_and_reported_and_a_rollback_keeps_it() {
    let (centre, site) = site("9.9.0", newer());
    assert_eq!(agent(&site)["version"], env!("CARGO_PKG_VERSION"));
    site.ok(&["run", "--once"]);
    assert_eq!(agent(&site)["waits"], "9.9.0", "{}", agent(&site));
    let next = site.run(&["run", "--once"]);
    assert_eq!(code(&next), 0, "{}", stderr(&next));
    assert!(
        stderr(&next).contains("agent 9.9.0 passed its trial"),
        "{}",
        stderr(&next)
    );
    let now = agent(&site);
    assert_eq!(
        (now["version"].as_str(), now["bundle"].as_u64()),
        (Some("9.9.0"), Some(1)),
        "{now}"
    );
    assert!(
        started(&site).contains(&"9.9.0".to_owned()),
        "{:?}",
        started(&site)
    );
    assert_eq!(refused(&site), Vec::<String>::new());
    // Other bundles come and go; the agent stays.
    site.take(&centre.publish(&Draft::hello("two")));
    site.ok(&["rollback", "--who", "ann"]);
    site.ok(&["run", "--once"]);
    assert_eq!(agent(&site)["version"], "9.9.0");
    // A plan mentions one that is newer, and none that is older.
    let newest = centre.publish(&Draft::hello("newest").agent("9.9.1", no_agent()));
    let planned = stdout(&site.run(&["plan", newest.to_str().unwrap()]));
    let line =
        "  agent: 9.9.1 is tried once the bundle is active, and used if it passes; 9.9.0 runs now";
    assert!(planned.contains(line), "{planned}");
    let older = centre.publish(&Draft::hello("three").agent("9.8.0", no_agent()));
    let planned = stdout(&site.run(&["plan", older.to_str().unwrap()]));
    assert!(!planned.contains("agent:"), "{planned}");
    // An older one that a bundle brings takes nothing back.
    site.take(&older);
    site.ok(&["run", "--once"]);
    assert_eq!(agent(&site)["waits"], Value::Null);
    // The program in use is damaged: the packaged one goes on, and says so.
    let slots = site.state().join("agent");
    fs::write(slots.join("a/outhaul-agent"), b"\x7fELF, once").unwrap();
    let next = site.run(&["run", "--once"]);
    assert!(
        stderr(&next).contains("agent 9.9.0 is not used any more"),
        "{}",
        stderr(&next)
    );
    assert_eq!(agent(&site)["version"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn an_agent_that_does_not_work_is_given_up_once_and_what_runs_goes_on() {
    let (centre, site) = site("9.9.0", no_agent());
    site.ok(&["run", "--once"]);
    site.ok(&["run", "--once"]);
    let now = agent(&site);
    assert_eq!(now["version"], env!("CARGO_PKG_VERSION"), "{now}");
    assert!(
        now["failed"][1]
            .as_str()
            .unwrap()
            .contains("its trial ended with"),
        "{now}"
    );
    site.ok(&["run", "--once"]);
    let reported = refused(&site);
    assert_eq!(reported.len(), 1, "{reported:?}");
    assert!(
        reported[0].starts_with("agent-update: agent 9.9.0 of bundle 1: its trial ended with"),
        "{reported:?}"
    );
    assert_eq!(site.active(), Some(1));
    // A newer one is tried.
    site.take(&centre.publish(&Draft::hello("two").agent("9.9.1", newer())));
    site.ok(&["run", "--once"]);
    site.ok(&["run", "--once"]);
    assert_eq!(agent(&site)["version"], "9.9.1");
}

#[test]
fn an_agent_for_another_architecture_is_refused_before_it_is_written() {
    let mut other = newer();
    // The machine in its header: 183 is aarch64, 62 x86_64.
    other[18] = if cfg!(target_arch = "x86_64") {
        183
    } else {
        62
    };
    let (_centre, site) = site("9.9.0", other);
    let once = site.run(&["run", "--once"]);
    assert_eq!(code(&once), 0, "{}", stderr(&once));
    assert!(!site.state().join("agent/a").exists());
    let reported = refused(&site);
    assert!(reported[0].contains("and this machine is"), "{reported:?}");
    site.ok(&["run", "--once"]);
    assert_eq!(refused(&site).len(), 1);
    assert_eq!(agent(&site)["version"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn under_a_hold_no_agent_is_replaced() {
    let (_centre, site) = site("9.9.0", newer());
    site.ok(&["hold", "--who", "ann", "--why", "harvest"]);
    site.ok(&["run", "--once"]);
    assert_eq!(agent(&site)["waits"], Value::Null);
    site.ok(&["hold", "--release", "--who", "ann"]);
    site.ok(&["run", "--once"]);
    assert_eq!(agent(&site)["waits"], "9.9.0");
}

#[test]
fn a_state_folder_that_others_may_write_starts_no_program_out_of_it() {
    let (_centre, site) = site("9.9.0", newer());
    site.ok(&["run", "--once"]);
    fs::set_permissions(site.state(), fs::Permissions::from_mode(0o777)).unwrap();
    let said = site.run(&["run", "--once"]);
    assert_reports(
        &said,
        0,
        &["no other agent is started out of `", "`chmod go-w "],
    );
    // Whoever closes the folder did not look into it.
    assert_eq!(agent(&site)["version"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn after_a_power_cut_at_any_instant_the_new_agent_is_used_or_the_old_one_goes_on() {
    for (program, ends) in [(newer(), "9.9.0"), (no_agent(), env!("CARGO_PKG_VERSION"))] {
        let (_centre, before) = site("9.9.0", program);
        let instants = [
            "slot-written",
            "trial-wanted",
            "trial-begun",
            "trial-passed",
            "trial-failed",
        ];
        let mut cuts = 0;
        for instant in instants {
            let site = before.copy();
            for _ in 0..2 {
                let mut once = site.command(&["run", "--once"]);
                let cut = once.env("OUTHAUL_CUT", instant).checked().unwrap();
                if cut.status.signal().is_some() {
                    cuts += 1;
                    break;
                }
            }
            for _ in 0..3 {
                site.ok(&["run", "--once"]);
            }
            assert_eq!(agent(&site)["version"], ends, "{instant}");
            assert_eq!(site.active(), Some(1));
            assert!(
                !site.state().join("agent/before-trial.db").exists(),
                "{instant}"
            );
        }
        assert_eq!(cuts, 4);
    }
}
