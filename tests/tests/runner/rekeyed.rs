//! A site that is enrolled again while an order for a new key is on its way, with the real programs, by stick.
//!
//! What must come out: the hub has every report, none refused, and nobody is accused; the centre knows the
//! key that the site signs with; the next bundle becomes active.

use std::fs;

use serde_json::Value;

use super::system::SystemFixture;

fn json(fixture: &SystemFixture, name: &str, arguments: &[&str]) -> Value {
    let ran = fixture.run(name, 0, &[&["--output", "json"], arguments].concat());
    outhaul_tests::result(&ran.stdout)
}

fn bundle(fixture: &SystemFixture) {
    let keys = ["--fleet", "fleet", "--passphrase-file", "passphrase"];
    let more = ["--out", "stick", "--renew"];
    fixture.plane(0, "bundle", "dev", &[&keys[..], &more].concat());
}

fn enrolled_anew(fixture: &SystemFixture) {
    let stream = ["--environment", "dev", "--cluster-type", "edge"];
    let out = ["--fleet", "fleet", "--out", "again.kit"];
    let enrol = ["site", "enrol", "edge-1", "--again"];
    fixture.run("outhaul", 0, &[&enrol[..], &out, &stream].concat());
    fixture.agent("edge-1", 0, &["enrol", "again.kit"]);
}

/// The order has reached the site (`made`: it made its new key), or is still on the stick.
fn enrolled_anew_with_an_order_pending(made: bool) {
    let fixture = SystemFixture::new();
    let init = ["init", "control-plane", "--environments", "dev"];
    fixture.run("outhaul", 0, &init);
    fixture.fleet();
    fixture.site("edge-1", "dev", "edge");
    bundle(&fixture);
    fixture.carry("edge-1");
    let rekey = ["site", "rekey", "edge-1", "--fleet", "fleet"];
    let request = "sites/edge-1/edge-1.request";
    let key = |at: &str| -> Value {
        let reported = fixture.agent("edge-1", 0, &["--output", "json", "status"]);
        let reported = outhaul_tests::result(&reported.stdout);
        reported[at].clone()
    };
    // The centre approves the first key: only an approved site can be ordered.
    let first = key("key");
    let approve = ["site", "approve", request, "--fleet", "fleet"];
    let named = ["--fingerprint", first.as_str().unwrap()];
    fixture.run("outhaul", 0, &[&approve[..], &named].concat());
    fixture.run("outhaul", 0, &rekey);
    bundle(&fixture);
    if made {
        fixture.carry("edge-1");
        assert_ne!(key("key"), first, "the order made a new key");
        enrolled_anew(&fixture);
    } else {
        enrolled_anew(&fixture);
        fixture.carry("edge-1");
        assert_eq!(
            key("key"),
            first,
            "an order for the enrolment before is none"
        );
    }
    bundle(&fixture);
    fixture.carry("edge-1");
    fixture.agent("edge-1", 0, &["export", "stick"]);

    // At home: whoever approves compares what the machine shows with what the request has.
    let own = key("key");
    let request = "stick/requests/edge-1.request";
    let named = ["--fingerprint", own.as_str().unwrap()];
    let approve = ["site", "approve", request, "--fleet", "fleet"];
    fixture.run("outhaul", 0, &[&approve[..], &named].concat());
    let add = ["--state", "hub", "site", "add", "--replace", request];
    fixture.run("outhaul-hub", 0, &[&add[..], &named].concat());
    let import = ["--state", "hub", "import", "stick"];
    let taken = fixture.run("outhaul-hub", 0, &import);
    assert!(
        !taken.everything().contains("refused"),
        "{}",
        taken.everything()
    );
    fixture.carry("edge-1");
    assert_eq!(key("reports_waiting"), 0, "made: {made}");
    assert_eq!(key("renumbered"), Value::Null, "nobody restored anything");
    let sites = json(&fixture, "outhaul-hub", &["--state", "hub", "sites"]);
    let site = &sites.as_array().or(sites["sites"].as_array()).unwrap()[0];
    assert_eq!(site["verdict"], "ok", "{sites}");

    fs::remove_dir_all(fixture.path("stick")).unwrap();
    fs::create_dir(fixture.path("stick")).unwrap();
    bundle(&fixture);
    fixture.carry("edge-1");
    assert_eq!(key("active"), 4);
    let status = fixture.agent("edge-1", 0, &["status"]).stdout;
    assert!(status.contains("enrolment: approved"), "{status}");
    fixture.home("edge-1");
}

#[test]
fn a_site_enrolled_anew_while_its_new_key_waits_for_approval_loses_no_report() {
    enrolled_anew_with_an_order_pending(true);
}

#[test]
fn a_site_enrolled_anew_before_the_order_for_a_new_key_arrives_loses_no_report() {
    enrolled_anew_with_an_order_pending(false);
}
