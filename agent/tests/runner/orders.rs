//! Signed orders: approve, rekey, move, revoke. Each is done once, told home, and never stops what runs.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Output;

use outhaul_bundle::Instruction;
use outhaul_bundle::digest::Digest;
use outhaul_bundle::report::{ENROLMENT_PAYLOAD_TYPE, EnrolmentRequest, PAYLOAD_TYPE};
use outhaul_signer::{Envelope, PublicKey};
use outhaul_test_kit::{Centre, Draft};
use outhaul_tests::Checked as _;
use serde_json::Value;

use crate::site::{Site, assert_reports, code, stderr, stdout, tree};

const SIGKILL: i32 = 9;

/// The instants of an order, as `OUTHAUL_CUT` names them.
const ORDER_INSTANTS: [&str; 4] = [
    "order-key-made",
    "order-floors-raised",
    "order-committed",
    "old-seal-key-kept",
];

/// A site on which bundle 1 runs.
pub fn running(centre: &Centre) -> Site {
    let site = Site::new(centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("one")));
    site
}

fn hello(greeting: &str) -> Draft {
    Draft::hello(greeting)
}

/// The request as it lies on a stick, checked by the key that it is about.
pub fn request(site: &Site) -> Option<(EnrolmentRequest, Envelope)> {
    let stick = tempfile::tempdir().unwrap();
    let output = site.run(&["export", stick.path().to_str().unwrap()]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let path = stick.path().join("requests/drone-7.request");
    let envelope = Envelope::from_json(&fs::read(path).ok()?).unwrap();
    let request: EnrolmentRequest = serde_json::from_slice(envelope.unverified_payload()).unwrap();
    let key = PublicKey::from_pem(&request.public_key).unwrap();
    assert!(envelope.verify(ENROLMENT_PAYLOAD_TYPE, &[key]).is_ok());
    Some((request, envelope))
}

fn key_of(site: &Site) -> Digest {
    Digest::from_hex(site.status()["key"].as_str().unwrap()).unwrap()
}

/// What each waiting report tells, with the id of the key that signed it.
fn signed_story(site: &Site, keys: &[PublicKey]) -> Vec<(usize, String)> {
    let stick = tempfile::tempdir().unwrap();
    site.ok(&["export", stick.path().to_str().unwrap()]);
    let mut printed = Vec::new();
    for bytes in tree(&stick.path().join("reports")).values() {
        for line in bytes.split(|b| *b == b'\n').filter(|line| !line.is_empty()) {
            let envelope = Envelope::from_json(line).unwrap();
            let signed = |key: &PublicKey| {
                envelope
                    .verify(PAYLOAD_TYPE, std::slice::from_ref(key))
                    .is_ok()
            };
            let by = keys.iter().position(signed).unwrap();
            let report: Value = serde_json::from_slice(envelope.unverified_payload()).unwrap();
            printed.push((by, report["event"]["kind"].as_str().unwrap().to_owned()));
        }
    }
    printed
}

fn import_cut(site: &Site, file: &Path, cut: &str) -> Output {
    let mut command = site.command(&["import", file.to_str().unwrap()]);
    command.env("OUTHAUL_CUT", cut).checked().unwrap()
}

#[test]
fn a_site_is_requested_until_the_approval_of_its_key_comes_with_a_bundle() {
    let centre = Centre::new();
    let site = running(&centre);
    assert_eq!(site.status()["enrolment"], "requested");
    let (asked, _) = request(&site).unwrap();
    assert!(asked.seal_key.starts_with("age1"), "{}", asked.seal_key);
    let key = key_of(&site);
    assert_eq!(
        PublicKey::from_pem(&asked.public_key).unwrap().id(),
        key.hex()
    );
    let approve = Instruction::Approve { key };
    let bundle = centre.publish(&hello("two").order("drone-7", 1, approve));
    site.take(&bundle);
    assert_eq!(site.status()["enrolment"], "approved");
    assert_eq!(site.applied()["hello/manifest.yaml"], b"greeting: two\n");
    assert!(
        site.event_log().contains(&"order approve".to_owned()),
        "{:?}",
        site.event_log()
    );
}

#[test]
fn an_approval_of_another_key_under_the_site_s_name_is_reported_loudly() {
    let centre = Centre::new();
    let site = running(&centre);
    let key = Digest::of(b"an impostor's");
    let bundle = centre.publish(&hello("two").order("drone-7", 1, Instruction::Approve { key }));
    let output = site.import(&bundle);
    assert_reports(
        &output,
        0,
        &["approved under this site's name", "tell the centre"],
    );
    assert_eq!(site.status()["enrolment"], "other-key-approved");
    let shown = stdout(&site.run(&["status"]));
    assert!(shown.contains("ANOTHER KEY"), "{shown}");
    assert!(
        site.event_log()
            .contains(&"order approve refused".to_owned())
    );
}

#[test]
fn orders_for_other_sites_and_earlier_enrolments_are_not_looked_at() {
    let centre = Centre::new();
    let site = running(&centre);
    let draft = hello("two")
        .order("drone-8", 1, Instruction::Revoke)
        .order_of_kit("drone-7", "another token", 1, Instruction::Revoke);
    site.take(&centre.publish(&draft));
    assert_eq!(site.status()["orders_done"], 0);
    assert_eq!(site.active(), Some(2));
}

#[test]
fn a_revoked_site_goes_on_with_what_runs_and_takes_nothing_new() {
    let centre = Centre::new();
    let site = running(&centre);
    let applied = site.applied();
    let revoke = |greeting: &str| hello(greeting).order("drone-7", 1, Instruction::Revoke);
    let output = site.import(&centre.publish(&revoke("two")));
    assert_reports(&output, 0, &["order `revoke`"]);
    assert!(
        stdout(&output).contains("installs nothing new"),
        "{}",
        stdout(&output)
    );
    assert_eq!(site.status()["enrolment"], "revoked");
    let third = centre.publish(&revoke("three"));
    assert_reports(
        &site.import(&third),
        4,
        &[
            "revoked by order 1",
            "the running bundle is not affected",
            "help:",
        ],
    );
    assert_eq!(site.active(), Some(1));
    assert_eq!(site.applied(), applied);
    let event_log = site.event_log();
    assert_eq!(
        event_log
            .iter()
            .filter(|printed| *printed == "order revoke")
            .count(),
        1,
        "{event_log:?}"
    );
    assert_eq!(event_log.last().unwrap(), "refusal revoked");
}

#[test]
fn a_new_kit_is_the_way_back_with_a_new_key() {
    let centre = Centre::new();
    let site = running(&centre);
    let key = key_of(&site);
    let revoke = |draft: Draft| draft.order("drone-7", 1, Instruction::Revoke);
    site.ok(&[
        "import",
        centre.publish(&revoke(hello("two"))).to_str().unwrap(),
    ]);
    let kit = centre.kit_with("drone-7", "a second token", |_| ());
    site.ok(&["enrol", kit.to_str().unwrap()]);
    assert_ne!(key_of(&site), key);
    assert_eq!(site.status()["enrolment"], "requested");
    // The old order still travels: it is for the enrolment before.
    site.take(&centre.publish(&revoke(hello("three"))));
    assert_eq!(site.active(), Some(3));
}

#[test]
fn a_bundle_that_waited_for_a_person_is_not_applied_after_a_revocation() {
    let centre = Centre::new();
    let site = running(&centre);
    site.ok(&["hold", "--why", "harvest"]);
    site.ok(&["import", centre.publish(&hello("two")).to_str().unwrap()]);
    assert_eq!(site.state_of(2), "gated");
    let revoke = hello("three").order("drone-7", 1, Instruction::Revoke);
    site.ok(&["import", centre.publish(&revoke).to_str().unwrap()]);
    assert_eq!(site.state_of(2), "superseded");
    assert_eq!(site.applied()["hello/manifest.yaml"], b"greeting: one\n");
}

#[test]
fn a_rekeyed_site_asks_with_both_keys_and_signs_with_the_new_one() {
    let centre = Centre::new();
    let site = running(&centre);
    let (asked, _) = request(&site).unwrap();
    let old = PublicKey::from_pem(&asked.public_key).unwrap();
    let bundle = centre.publish(&hello("two").order("drone-7", 1, Instruction::Rekey));
    site.take(&bundle);
    let (asked, envelope) = request(&site).unwrap();
    let new = PublicKey::from_pem(&asked.public_key).unwrap();
    assert_ne!(new.id(), old.id());
    assert_eq!(asked.order, Some(1));
    assert!(
        envelope
            .verify(ENROLMENT_PAYLOAD_TYPE, std::slice::from_ref(&old))
            .is_ok()
    );
    assert_eq!(key_of(&site).hex(), new.id());
    // The order itself is reported under the old key, all after it under the new one.
    let event_log = signed_story(&site, &[old, new]);
    let at = event_log
        .iter()
        .position(|(_, kind)| kind == "order_done")
        .unwrap();
    assert!(
        event_log[..=at].iter().all(|(by, _)| *by == 0),
        "{event_log:?}"
    );
    assert!(
        at + 1 < event_log.len() && event_log[at + 1..].iter().all(|(by, _)| *by == 1),
        "{event_log:?}"
    );
    assert_eq!(site.active(), Some(2));
}

#[test]
fn a_moved_site_takes_the_new_stream_from_the_ordered_number_on_and_the_old_one_no_more() {
    let centre = Centre::new();
    let site = running(&centre);
    let early = centre.publish(&hello("early").cluster_type("tractor"));
    let to = centre.stream("dev", "tractor");
    let order = Instruction::Move { to, first: 2 };
    let moved = centre.publish(&hello("two").order("drone-7", 1, order));
    let output = site.import(&moved);
    assert_reports(&output, 0, &["order `move`"]);
    assert!(stdout(&output).contains("it follows dev/tractor from bundle 2 on"));
    assert_eq!(site.status()["cluster_type"], "tractor");
    assert_eq!(site.applied()["hello/manifest.yaml"], b"greeting: one\n");
    assert_eq!(code(&site.import(&early)), 4);
    site.take(&centre.publish(&hello("tractor").cluster_type("tractor")));
    assert_eq!(
        site.applied()["hello/manifest.yaml"],
        b"greeting: tractor\n"
    );
    let drones = centre.publish(&hello("drones"));
    assert_reports(
        &site.import(&drones),
        4,
        &["this stick is for dev/drone, this site is dev/tractor"],
    );
    assert!(site.event_log().contains(&"order move".to_owned()));
    assert_eq!(site.active(), Some(2));
}

/// A run of `outhaul bundle` signs a fleet's streams one after the other; the order may come with the last.
#[test]
fn a_moved_site_takes_the_new_stream_though_it_was_signed_before_the_order() {
    let centre = Centre::new();
    let site = running(&centre);
    let alone = site.copy();
    centre.publish(&hello("early").cluster_type("tractor"));
    let tractors = centre.publish(&hello("tractor").cluster_type("tractor"));
    let to = centre.stream("dev", "tractor");
    let order = Instruction::Move { to, first: 2 };
    let drones = centre.publish(&hello("two").order("drone-7", 1, order));

    // One after the other: the order, then the stream.
    alone.ok(&["import", drones.to_str().unwrap()]);
    alone.take(&tractors);
    assert_eq!(alone.active(), Some(2));

    // Both on one stick, which is imported once.
    let stick = tempfile::tempdir().unwrap();
    for bundle in [&tractors, &drones] {
        fs::copy(bundle, stick.path().join(bundle.file_name().unwrap())).unwrap();
    }
    let output = site.import(stick.path());
    assert_reports(
        &output,
        0,
        &["bundle 2 brought an order: it follows dev/tractor"],
    );
    assert!(
        stdout(&output).contains("bundle 2 is active"),
        "{}",
        stdout(&output)
    );
    assert!(!stderr(&output).contains("skipped"), "{}", stderr(&output));
    assert_eq!(
        site.applied()["hello/manifest.yaml"],
        b"greeting: tractor\n"
    );
}

#[test]
fn an_order_to_move_back_in_time_is_refused_and_reported() {
    let centre = Centre::new();
    let site = running(&centre);
    centre.publish(&hello("early").cluster_type("tractor"));
    let order = Instruction::Move {
        to: centre.stream("dev", "tractor"),
        first: 1,
    };
    let output = site.import(&centre.publish(&hello("two").order("drone-7", 1, order)));
    assert_reports(&output, 0, &["begins at bundle 1, this site has seen 1"]);
    assert_eq!(site.status()["cluster_type"], "drone");
    assert_eq!(site.active(), Some(2));
}

#[test]
fn a_bundle_with_a_forged_order_is_refused_and_the_order_not_done() {
    let centre = Centre::new();
    let site = running(&centre);
    let bundle = centre.publish(&hello("two").order("drone-8", 1, Instruction::Revoke));
    let mut bytes = fs::read(&bundle).unwrap();
    let at = bytes.windows(8).position(|w| w == b"\"drone-8").unwrap();
    bytes[at + 7] = b'7';
    let forged = bundle.with_file_name("forged.outhaul");
    fs::write(&forged, bytes).unwrap();
    assert_reports(&site.import(&forged), 4, &["refused, nothing was changed"]);
    assert_eq!(site.status()["enrolment"], "requested");
    assert_eq!(site.status()["orders_done"], 0);
}

/// What a site is after its orders, whatever happened on the way.
fn end(site: &Site) -> (Value, Vec<String>, [usize; 4]) {
    let mut status = site.status();
    for moving in [
        "clock",
        "next",
        "time_lower_bound",
        "key",
        "observed_ms",
        "media",
        "refusals",
    ] {
        status[moving] = Value::Null;
    }
    let asked = request(site).unwrap().0;
    assert_eq!(
        PublicKey::from_pem(&asked.public_key).unwrap().id(),
        key_of(site).hex()
    );
    let named = |folder: &str, start: &str| {
        let files = fs::read_dir(site.state().join(folder)).unwrap();
        let names = files.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with(start)).count()
    };
    // The keys in use, those that wait to be, and those that were.
    let keys = [
        named("", "site.key"),
        named("", "site.age"),
        named("identities", "site.age"),
        named("identities", "before-"),
    ];
    let event_log = site.ok(&["status"])["reports_last"].to_string();
    (status, vec![event_log], keys)
}

#[test]
fn a_cut_at_any_instant_of_an_order_changes_nothing_about_its_end() {
    let centre = Centre::new();
    let before = running(&centre);
    centre.publish(&hello("early").cluster_type("tractor"));
    let to = centre.stream("dev", "tractor");
    let orders: [(&str, Instruction); 3] = [
        ("rekey", Instruction::Rekey),
        ("move", Instruction::Move { to, first: 2 }),
        ("revoke", Instruction::Revoke),
    ];
    for (name, what) in orders {
        let bundle: PathBuf = centre.publish(&hello(name).order("drone-7", 1, what));
        let whole = before.copy();
        let done = whole.import(&bundle);
        assert_eq!(code(&done), 0, "{name}: {}", stderr(&done));
        let expected = end(&whole);
        let former = usize::from(name == "rekey");
        assert_eq!(expected.2, [1, 0, 1, former], "{name}: keys left over");
        for instant in ORDER_INSTANTS {
            let site = before.copy();
            let cut = import_cut(&site, &bundle, instant);
            if cut.status.signal() != Some(SIGKILL) {
                let only_for_keys = ["order-key-made", "old-seal-key-kept"];
                assert!(
                    name != "rekey" && only_for_keys.contains(&instant),
                    "{name} {instant}"
                );
                continue;
            }
            let again = site.import(&bundle);
            // Once the order is done, the same bundle is one for a site of another standing.
            let expected_code = match (name, instant) {
                ("move" | "revoke", "order-committed") => 4,
                _ => 0,
            };
            assert_eq!(
                code(&again),
                expected_code,
                "{name} {instant}: {}",
                stderr(&again)
            );
            let mut found = end(&site);
            if expected_code == 4 {
                // The refusal of the second import is reported as well.
                for key in ["reports_last", "reports_waiting"] {
                    found.0[key] = expected.0[key].clone();
                }
                found.1.clone_from(&expected.1);
            }
            assert_eq!(found, expected, "{name} {instant}");
        }
    }
}
