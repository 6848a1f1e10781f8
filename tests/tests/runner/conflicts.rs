//! One site's state folder on two machines, with the real hub and agent: neither counts until someone chose one.

use std::fs;
use std::process::Command;

use outhaul_test_kit::folder;
use outhaul_tests::{Ran, program, run};
use serde_json::Value;

use super::system::SystemFixture;

fn hub(fixture: &SystemFixture, arguments: &[&str]) -> Ran {
    let mut command: Command = fixture.command(&program("outhaul-hub").unwrap());
    run(command.args(["--state", "hub"]).args(arguments)).unwrap()
}

fn result(fixture: &SystemFixture, arguments: &[&str]) -> Value {
    let ran = hub(fixture, &[arguments, &["--output", "json"]].concat());
    outhaul_tests::result(&ran.stdout)
}

/// A new stick goes from a machine to the hub and back; what the hub printed.
fn there_and_back(fixture: &SystemFixture, machine: &str) -> Ran {
    let _ = fs::remove_dir_all(fixture.path("stick"));
    fs::create_dir(fixture.path("stick")).unwrap();
    fixture.agent(machine, 0, &["export", "stick"]);
    let ran = hub(fixture, &["import", "stick"]);
    let mut command = fixture.command(&program("outhaul-agent").unwrap());
    let state = format!("sites/{machine}");
    run(command.args(["--state", &state, "import", "stick"])).unwrap();
    ran
}

fn hold(fixture: &SystemFixture, machine: &str, why: &str) {
    fixture.agent(machine, 0, &["hold", "--why", why]);
}

/// The hub's row of the one site.
fn row(fixture: &SystemFixture) -> Value {
    result(fixture, &["sites"])[0].clone()
}

fn at_gate(fixture: &SystemFixture) -> Value {
    let commit = "1".repeat(40);
    let decision = result(
        fixture,
        &["gate", "--environment", "dev", "--commit", &commit],
    );
    decision["sites"][0]["standing"].clone()
}

/// The digests that the message names: of the machine on record, and of the other.
fn digests(fixture: &SystemFixture) -> [String; 2] {
    let row = row(fixture);
    let text = row["conflict"].as_str().unwrap_or_else(|| panic!("{row}"));
    let mut found = text.split("--digest ").skip(1);
    let mut next = || {
        let rest = found.next().unwrap();
        rest.chars().take_while(char::is_ascii_hexdigit).collect()
    };
    [next(), next()]
}

fn choose(fixture: &SystemFixture, digest: &str) -> Ran {
    let choose = ["choose", "edge-1", "--digest", digest];
    let who = ["--by", "ann", "--reason", "looked at both"];
    hub(fixture, &[&choose[..], &who].concat())
}

/// Two machines with copies of one real state folder, of which each reported something of its own.
fn two_machines() -> SystemFixture {
    let fixture = SystemFixture::new();
    fixture.run(
        "outhaul",
        0,
        &["init", "control-plane", "--environments", "dev"],
    );
    fixture.fleet();
    fixture.site("edge-1", "dev", "edge");
    hold(&fixture, "edge-1", "before the copy");
    assert_eq!(there_and_back(&fixture, "edge-1").code, Some(0));
    folder::copy(&fixture.path("sites/edge-1"), &fixture.path("sites/copy"));
    assert_eq!(row(&fixture)["conflict"], Value::Null);
    assert_eq!(
        choose(&fixture, "00000000").code,
        Some(2),
        "there is nothing to choose"
    );
    hold(&fixture, "edge-1", "of the machine");
    hold(&fixture, "copy", "of the copy");
    assert_eq!(there_and_back(&fixture, "edge-1").code, Some(0));
    let refused = there_and_back(&fixture, "copy");
    assert_eq!(refused.code, Some(4), "{}", refused.everything());
    fixture
}

#[test]
fn two_machines_with_one_key_count_neither_until_the_one_on_record_is_chosen() {
    let fixture = two_machines();
    assert_eq!(row(&fixture)["verdict"], "conflict");
    assert_eq!(at_gate(&fixture), "conflict");
    let shown = hub(&fixture, &["sites"]);
    assert!(
        shown.stderr.contains("edge-1: CONFLICT: "),
        "{}",
        shown.everything()
    );
    // The copy begins a new numbering by the hub's answer: that ends nothing.
    for why in ["once more", "and once more"] {
        hold(&fixture, "copy", why);
    }
    let taken = there_and_back(&fixture, "copy");
    assert_eq!(taken.code, Some(0), "{}", taken.everything());
    assert_eq!(at_gate(&fixture), "conflict");
    let [on_record, other] = digests(&fixture);
    let before = row(&fixture)["newest_report"].as_u64().unwrap();
    let chosen = choose(&fixture, &on_record);
    assert_eq!(chosen.code, Some(0), "{}", chosen.everything());
    assert_eq!(row(&fixture)["conflict"], Value::Null);
    assert_ne!(at_gate(&fixture), "conflict");
    let machine = row(&fixture)["newest_report"].as_u64().unwrap();
    assert_ne!(machine, before, "the state is that of the chosen machine");
    // A wrong choice is replaced by another one; the new numbering of the other machine is on record, and counts at once.
    let replaced = choose(&fixture, &other);
    assert_eq!(replaced.code, Some(0));
    assert!(
        replaced.stderr.contains("it renumbered them"),
        "{}",
        replaced.everything()
    );
    assert_ne!(at_gate(&fixture), "conflict");
    assert_ne!(row(&fixture)["newest_report"], machine);
    assert_eq!(choose(&fixture, &on_record).code, Some(0));
    assert_eq!(row(&fixture)["newest_report"], machine);
    // What the copy reports from now on is kept and changes nothing; what the machine reports does.
    hold(&fixture, "copy", "and again");
    assert_eq!(there_and_back(&fixture, "copy").code, Some(0));
    assert_eq!(row(&fixture)["newest_report"], machine);
    // Until the machine reports, it may be the one that was switched off.
    assert_eq!(at_gate(&fixture), "conflict");
    let text = row(&fixture)["conflict"].to_string();
    assert!(
        text.contains("which is another one and has not reported since"),
        "{text}"
    );
    hold(&fixture, "edge-1", "goes on");
    assert_eq!(there_and_back(&fixture, "edge-1").code, Some(0));
    assert_ne!(at_gate(&fixture), "conflict");
    let after = row(&fixture);
    assert!(
        after["newest_report"].as_u64().unwrap() > machine,
        "{after}"
    );
    assert_eq!(after["conflict"], Value::Null);
    let acts = result(&fixture, &["approvals", "--all"]);
    assert_eq!(
        (&acts[0]["kind"], &acts[0]["by"]),
        (&"choose".into(), &"ann".into()),
        "{acts}"
    );
    // What people decided about it is part of what an auditor gets.
    result(&fixture, &["audit", "export", "gates.audit"]);
    let mut audit = fixture.command(&program("outhaul-audit").unwrap());
    let root = fixture.path("fleet/metadata/1.root.json");
    let audit = audit.args(["verify", "gates.audit", "--root"]).arg(root);
    let audited = run(audit).unwrap();
    assert_eq!(audited.code, Some(0), "{}", audited.everything());
}

#[test]
fn attack_a_site_restored_from_an_older_copy_is_chosen_after_it_numbered_its_reports_anew() {
    let fixture = two_machines();
    hold(&fixture, "copy", "renumbered");
    assert_eq!(there_and_back(&fixture, "copy").code, Some(0));
    assert_eq!(at_gate(&fixture), "conflict");
    let [_, other] = digests(&fixture);
    let chosen = choose(&fixture, &other);
    assert_eq!(chosen.code, Some(0), "{}", chosen.everything());
    let said = "it renumbered them as `";
    assert!(chosen.stderr.contains(said), "{}", chosen.everything());
    assert_ne!(at_gate(&fixture), "conflict");
    // The machine that was on record before goes on: nobody may take the site for it.
    let newest = row(&fixture)["newest_report"].clone();
    hold(&fixture, "edge-1", "is not switched off");
    assert_eq!(there_and_back(&fixture, "edge-1").code, Some(0));
    assert_eq!(row(&fixture)["newest_report"], newest);
    assert_eq!(at_gate(&fixture), "conflict");
    hold(&fixture, "copy", "goes on");
    assert_eq!(there_and_back(&fixture, "copy").code, Some(0));
    assert_ne!(at_gate(&fixture), "conflict");
    result(&fixture, &["audit", "export", "gates.audit"]);
    let mut audit = fixture.command(&program("outhaul-audit").unwrap());
    let root = fixture.path("fleet/metadata/1.root.json");
    let audit = audit.args(["verify", "gates.audit", "--root"]).arg(root);
    let audited = run(audit).unwrap();
    assert_eq!(audited.code, Some(0), "{}", audited.everything());
}

#[test]
fn the_other_machine_is_chosen_and_counts_from_its_next_reports() {
    let fixture = two_machines();
    let [_, other] = digests(&fixture);
    let chosen = choose(&fixture, &other);
    assert_eq!(chosen.code, Some(0), "{}", chosen.everything());
    assert!(
        chosen.stderr.contains("acknowledgement"),
        "{}",
        chosen.everything()
    );
    assert_eq!(
        at_gate(&fixture),
        "conflict",
        "what is on record is the other one's"
    );
    hold(&fixture, "copy", "chosen");
    assert_eq!(there_and_back(&fixture, "copy").code, Some(0));
    assert_eq!(row(&fixture)["conflict"], Value::Null);
    assert_ne!(at_gate(&fixture), "conflict");
    let newest = row(&fixture)["newest_report"].clone();
    hold(&fixture, "edge-1", "the bench goes on");
    assert_eq!(there_and_back(&fixture, "edge-1").code, Some(0));
    assert_eq!(row(&fixture)["newest_report"], newest);
}
