//! What is done to sites at the hub's command line: on record, and with the nearest name where one is wrong.

use std::fs;
use std::path::Path;

use outhaul_audit::Recomputed;
use outhaul_bundle::report::ComplianceStatus as C;
use outhaul_test_kit::plain::NEW;
use outhaul_test_kit::{Site, TOKEN};

use crate::audited::{audited, exported};
use crate::bad_input::fails;
use crate::gate_rules::{gate, report, world};
use crate::program::{Hub, stderr};
use crate::retention::now_ms;

/// What is on record of sites, the oldest first: action and detail.
fn acts(hub: &Hub) -> Vec<(String, String)> {
    let access = hub.json(&["audit", "access"]);
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let entries = access.as_array().unwrap().iter().rev();
    let entries = entries.map(|one| (text(&one["action"]), text(&one["detail"])));
    entries
        .filter(|(action, _)| action.starts_with("site "))
        .collect()
}

#[test]
fn what_is_done_to_sites_is_on_record() {
    let (hub, centre, sites) = world(&["drone-1"]);
    let again = hub.path("drone-1.request");
    hub.add(&again, &sites[0]);
    hub.json(&["site", "revoke", "drone-1"]);
    let stream = centre.stream("dev", "drone");
    let new = centre.site("drone-1", &stream);
    fs::write(&again, new.request_with("another kit")).unwrap();
    let fingerprint = new.key.public().id();
    let request = again.to_str().unwrap();
    let add = ["site", "add", request, "--fingerprint", &fingerprint];
    // Refused: nothing is put on record of it.
    assert_ne!(hub.run(&add).status.code(), Some(0));
    hub.json(&[&add[..], &["--replace"]].concat());
    let kit = "9f".repeat(32);
    hub.json(&["site", "expect", "drone-2", "--kit", &kit]);
    hub.json(&["site", "reject", "--network"]);

    let found = acts(&hub);
    let actions: Vec<_> = found.iter().map(|(action, _)| action.as_str()).collect();
    let expected = [
        "site add",
        "site revoke",
        "site add --replace",
        "site expect",
        "site reject --network",
    ];
    assert_eq!(actions, expected, "{found:?}");
    let of = |key: &Site| format!("`drone-1` of dev/drone, key {}", key.key.public().id());
    assert_eq!(found[0].1, of(&sites[0]));
    assert_eq!(found[1].1, "`drone-1`");
    assert_eq!(found[2].1, of(&new));
    assert_eq!(found[3].1, format!("`drone-2` with kit {kit}"));
}

#[test]
fn attack_a_revoked_site_does_not_come_back_by_its_old_kit_key_or_reports() {
    let (hub, centre, mut sites) = world(&["drone-1"]);
    report(&hub, &centre, &mut sites[0], C::Compliant);
    let gate = || gate(&hub, "{}");
    assert_eq!(gate().0, 0);
    let stolen = &mut sites[0];
    let late = hub.path("late.reports");
    fs::write(&late, stolen.active(1, NEW)).unwrap();
    hub.json(&["site", "revoke", "drone-1"]);
    let used = stolen.enrolment(TOKEN).hex();
    let words =
        format!("the kit {used} was used: site `drone-1` was enrolled with it, and is revoked");
    let help = "make a new kit at the centre";
    let expect = ["site", "expect", "drone-1", "--kit", &used];
    fails(&hub, &expect, 2, &[&words, help]);
    let import = |file: &Path| hub.run(&["import", file.to_str().unwrap()]);
    // The old key with a new kit, which whoever has the machine may have as well.
    let kit = stolen.enrolment("another kit").hex();
    let told = stderr(&hub.run(&["site", "expect", "drone-1", "--kit", &kit]));
    assert!(told.contains("site `drone-1` is revoked (since "), "{told}");
    let request = hub.path("again.request");
    fs::write(&request, stolen.request_with("another kit")).unwrap();
    let refused = stderr(&import(&request));
    assert!(
        refused.contains("was taken from site `drone-1`"),
        "{refused}"
    );
    let mut new = centre.site("drone-1", &stolen.stream);
    fs::write(&request, new.request_with("another kit")).unwrap();
    assert_eq!(import(&request).status.code(), Some(0));
    let found = acts(&hub);
    let (action, detail) = found.last().unwrap();
    let key = new.key.public().id();
    assert_eq!(action, "site registered");
    assert_eq!(
        *detail,
        format!("`drone-1` of dev/drone, new key {key}, kit {kit}")
    );
    // Neither what was received before counts, nor what the old key signed and comes later.
    let (status, answer) = gate();
    assert_eq!(
        (status, &answer["verdict"]),
        (1, &"closed".into()),
        "{answer}"
    );
    assert_eq!(answer["sites"][0]["standing"], "never_reported", "{answer}");
    assert_eq!(import(&late).status.code(), Some(4));
    assert_eq!(gate().0, 1);
    new.forget("e2");
    report(&hub, &centre, &mut new, C::Compliant);
    assert_eq!(gate().0, 0);
    let lines = exported(&hub, "a");
    let audit = audited(&centre, &lines);
    assert_eq!(audit.problems, []);
    let again = &audit.decisions[1..];
    let same = |one: &outhaul_audit::CheckedDecision| one.outcome == Recomputed::AsRecorded;
    assert!(again.len() > 1 && again.iter().all(same), "{again:?}");
}

#[test]
fn a_name_that_no_site_has_is_answered_with_the_nearest() {
    let (hub, _, _) = world(&["drone-1", "tractor-7"]);
    let near = [
        "no site `drone-l` is registered",
        "did you mean `drone-1`?",
        "nothing was changed",
    ];
    let reason = ["--by", "ann", "--reason", "r"];
    let waive = ["waive", "--site", "drone-l", "--until", "2h"];
    for asked in [
        &["site", "revoke", "drone-l"][..],
        &["faults", "drone-l"],
        &[&waive[..], &reason].concat(),
        &[&["choose", "drone-l", "--digest", "4be1c0b2"][..], &reason].concat(),
    ] {
        fails(&hub, asked, 2, &near);
    }
    hub.json(&["site", "revoke", "drone-1"]);
    let again = ["site `drone-1` is revoked already"];
    fails(&hub, &["site", "revoke", "drone-1"], 2, &again);
    let far = ["no site `submarine` is registered", "sites` lists them"];
    fails(&hub, &["site", "revoke", "submarine"], 2, &far);
    assert_eq!(acts(&hub).len(), 3);
}

#[test]
fn attack_reports_dated_2099_are_taken_named_and_never_fresh() {
    let (hub, centre, mut sites) = world(&["ahead", "untrusted"]);
    for (site, trusted) in sites.iter_mut().zip([true, false]) {
        site.at.wall_ms = 4_070_908_800_000;
        site.at.trusted = trusted;
        report(&hub, &centre, site, C::Compliant);
    }
    let (rc, decision) = gate(&hub, "{}");
    let standing = |at: usize| decision["sites"][at]["standing"].as_str().unwrap();
    assert_eq!(
        (rc, standing(0), standing(1)),
        (1, "future_dated", "confirmed"),
        "{decision}"
    );
    let why = decision["reasons"][0].as_str().unwrap();
    assert!(
        why.starts_with("future-dated: site `ahead` dated its newest report 2099-01-01T00:00:00Z"),
        "{why}"
    );
    let listed = hub.json(&["sites"]);
    assert_eq!(
        (&listed[0]["verdict"], &listed[1]["verdict"]),
        (&"future-dated".into(), &"ok".into())
    );
    assert!(listed[1]["future_dated"].is_null(), "{listed}");
    let said = stderr(&hub.run(&["sites"]));
    assert!(
        said.contains("ahead: future-dated: it dated its newest report 2099-"),
        "{said}"
    );
    assert_eq!(said.matches("future-dated").count(), 1, "{said}");
    let audit = audited(&centre, &exported(&hub, "one.audit"));
    assert_eq!(audit.decisions[0].outcome, Recomputed::AsRecorded);
    // Its clock is right again: so is what it says.
    sites[0].at.wall_ms = now_ms();
    report(&hub, &centre, &mut sites[0], C::Compliant);
    assert_eq!(gate(&hub, "{}").0, 0);
}

#[test]
fn a_fingerprint_that_is_too_short_is_said_to_be_and_advice_names_the_folder() {
    let (hub, centre, _) = world(&["drone-1"]);
    let other = centre.site("drone-2", &centre.stream("dev", "drone"));
    let request = hub.path("drone-2.request");
    fs::write(&request, other.request()).unwrap();
    let imported = hub.run(&["import", request.to_str().unwrap()]);
    let command = format!(
        "`outhaul-hub --state {} site add drone-2 --fingerprint ",
        hub.state().display()
    );
    assert!(
        stderr(&imported).contains(&command),
        "{}",
        stderr(&imported)
    );
    let id = other.key.public().id();
    let short = &id[..12];
    for named in ["drone-2", request.to_str().unwrap()] {
        let words = format!(
            "the fingerprint `{short}` has 12 digits, and 16 are the fewest that name a key"
        );
        fails(
            &hub,
            &["site", "add", named, "--fingerprint", short],
            2,
            &[&words, &id],
        );
    }
    hub.json(&["site", "add", "drone-2", "--fingerprint", &id[..16]]);
    let listed = hub.json(&["sites"]);
    assert_eq!(listed[1]["key"], &id[..16]);
}
