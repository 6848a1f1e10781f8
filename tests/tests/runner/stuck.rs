//! What an operator met with a stick in the hand: damaged or foreign acknowledgements, names that a FAT stick
//! changed, files without content, and requests that never came back.
//!
//! What must come out: each is named as what it is, with an exit code other than 0 and the way out, and what
//! is whole travels all the same. All of it with the real programs.

use std::fs;
use std::path::Path;

use super::system::SystemFixture;

/// A hub and two sites, with a report each.
fn fixture() -> SystemFixture {
    let fixture = SystemFixture::new();
    let init = ["init", "control-plane", "--environments", "dev"];
    fixture.run("outhaul", 0, &init);
    fixture.fleet();
    for site in ["edge-1", "edge-2"] {
        fixture.site(site, "dev", "edge");
    }
    fixture
}

fn hub(fixture: &SystemFixture, code: i32, folder: &str) -> String {
    let ran = fixture.run("outhaul-hub", code, &["--state", "hub", "import", folder]);
    ran.everything()
}

fn waiting(fixture: &SystemFixture, site: &str) -> u64 {
    let reported = fixture.agent(site, 0, &["--output", "json", "status"]);
    let reported = outhaul_tests::result(&reported.stdout);
    reported["reports_waiting"].as_u64().unwrap()
}

#[track_caller]
fn has(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "`{word}` is not in: {text}");
    }
}

#[test]
fn damaged_and_foreign_acknowledgements_are_named_and_leave_the_reports_here() {
    let fixture = fixture();
    fixture.home("edge-1");
    let own = fixture.path("stick/acks/edge-1.acks");
    let good = fs::read(&own).unwrap();
    let mut flipped = good.clone();
    flipped[good.len() / 2] ^= 1;
    let damaged = [flipped, good[..100].to_vec(), Vec::new(), vec![0x93; 500]];
    for bytes in damaged {
        fs::write(&own, &bytes).unwrap();
        let reported = fixture
            .agent("edge-1", 4, &["import", "stick"])
            .everything();
        has(
            &reported,
            &["acks/edge-1.acks", "help: at the hub", "outhaul-hub acks"],
        );
        assert!(!reported.contains("known already"), "{reported}");
        assert!(waiting(&fixture, "edge-1") > 0, "{reported}");
    }
    fs::copy(&own, fixture.path("stick/acks/edge-2.acks")).unwrap();
    fs::write(fixture.path("stick/acks/edge-2.acks"), &good).unwrap();
    let reported = fixture
        .agent("edge-2", 4, &["import", "stick"])
        .everything();
    has(
        &reported,
        &["they are for site edge-1, this site is edge-2"],
    );

    // The whole file again: each refusal above was a report more, the first ones leave.
    fs::write(&own, &good).unwrap();
    let reported = fixture
        .agent("edge-1", 0, &["import", "stick"])
        .everything();
    has(&reported, &["the hub acknowledged"]);
}

#[test]
fn names_that_a_fat_stick_changed_are_read_by_hub_and_site() {
    let fixture = fixture();
    fixture.agent("edge-1", 0, &["export", "stick"]);
    fixture.agent("edge-2", 0, &["export", "stick"]);
    let reports = fixture.path("stick/reports");
    for entry in fs::read_dir(&reports).unwrap() {
        let path = entry.unwrap().path();
        let site = path.file_name().unwrap().to_str().unwrap();
        let name = match site.starts_with("edge-1") {
            true => "EDGE-1~1.REP",
            false => "X.REPORTS",
        };
        fs::rename(&path, reports.join(name)).unwrap();
    }
    has(&hub(&fixture, 0, "stick"), &["2 reports imported"]);
    let acks = fixture.path("stick/acks");
    fs::rename(acks.join("edge-1.acks"), acks.join("EDGE-1.ACKS")).unwrap();
    fs::rename(&acks, fixture.path("stick/ACKS")).unwrap();
    let reported = fixture
        .agent("edge-1", 0, &["import", "stick"])
        .everything();
    has(&reported, &["the hub acknowledged 1 reports"]);
    assert_eq!(waiting(&fixture, "edge-1"), 0);
}

#[test]
fn an_empty_stick_and_an_empty_file_of_reports_are_findings_at_the_hub() {
    let fixture = fixture();
    fs::create_dir_all(fixture.path("empty/reports")).unwrap();
    has(
        &hub(&fixture, 1, "empty"),
        &["error: nothing to import was found", "help: "],
    );
    fs::write(fixture.path("empty/reports/edge-1-1-4.reports"), "").unwrap();
    has(
        &hub(&fixture, 1, "empty"),
        &["edge-1-1-4.reports", "it is empty", "all of it was refused"],
    );
}

#[test]
fn after_an_order_for_a_new_key_the_request_travels_until_the_centre_knows_the_key() {
    let fixture = fixture();
    let key = || -> String {
        let reported = fixture.agent("edge-1", 0, &["--output", "json", "status"]);
        let reported = outhaul_tests::result(&reported.stdout);
        reported["key"].as_str().unwrap().to_owned()
    };
    let approve = |request: &Path| {
        let approve = [
            "site",
            "approve",
            request.to_str().unwrap(),
            "--fleet",
            "fleet",
        ];
        let named = ["--fingerprint", &key()];
        fixture
            .run("outhaul", 0, &[&approve[..], &named].concat())
            .everything()
    };
    let order = |what: &str| {
        fixture.run("outhaul", 0, &["site", what, "edge-1", "--fleet", "fleet"]);
        let keys = ["--fleet", "fleet", "--passphrase-file", "passphrase"];
        let more = ["--out", "stick", "--renew"];
        fixture.plane(0, "bundle", "dev", &[&keys[..], &more].concat());
        fixture.carry("edge-1");
    };
    let close = |code: i32| {
        let mut arguments = vec![
            "site".to_owned(),
            "close-orders".into(),
            "--fleet".into(),
            "fleet".into(),
        ];
        for entry in fs::read_dir(fixture.path("stick/reports")).unwrap() {
            arguments.push(entry.unwrap().path().to_str().unwrap().to_owned());
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        fixture.run("outhaul", code, &arguments).everything()
    };
    let wipe = || {
        fs::remove_dir_all(fixture.path("stick")).unwrap();
        fs::create_dir(fixture.path("stick")).unwrap();
    };
    let request = fixture.path("stick/requests/edge-1.request");

    // The hub alone knows the first key: the request goes on travelling.
    fixture.home("edge-1");
    fixture.carry("edge-1");
    wipe();
    fixture.agent("edge-1", 0, &["export", "stick"]);
    approve(&request);
    order("rekey");
    fixture.home("edge-1");
    fixture.carry("edge-1");
    wipe();
    fixture.agent("edge-1", 0, &["hold", "--why", "harvest"]);
    fixture.agent("edge-1", 0, &["export", "stick"]);
    assert!(
        request.is_file(),
        "the centre does not know the new key yet"
    );

    // What the new key signs closes nothing until then, and is named.
    let new = fixture.path("new.request");
    fs::copy(&request, &new).unwrap();
    order("revoke");
    fixture.agent("edge-1", 0, &["export", "stick"]);
    has(
        &close(1),
        &[
            "no approved key of `edge-1` signed that report",
            "help: ",
            "outhaul site approve",
        ],
    );
    has(&approve(&new), &["stays revoked by order"]);
    has(&close(0), &["is done: revoke; every bundle repeats it"]);
}
