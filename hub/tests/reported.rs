//! The reports of a site, asked for over HTTP: the very lines that it signed, the newest first, in parts.

use std::fs;

use outhaul_bundle::report::{ComplianceStatus, GenerationState, ReportEvent};
use outhaul_test_kit::Centre;
use outhaul_test_kit::plain::NEW;

use crate::http::{json, plain};
use crate::program::Hub;

#[test]
fn the_reports_of_a_site_are_answered_as_it_signed_them_in_parts() {
    let hub = Hub::new();
    let centre = Centre::new();
    hub.init(&centre.root());
    let stream = centre.stream("dev", "drone");
    let mut sites = ["drone-1", "drone-2"].map(|name| {
        let site = centre.site(name, &stream);
        let request = hub.path(&format!("{name}.request"));
        fs::write(&request, site.request()).unwrap();
        hub.add(&request, &site);
        site
    });
    let server = hub.serve(&[]);
    let address = server.address();
    let mut lines = Vec::new();
    for number in 1..=5 {
        let event = sites[0].event(
            number,
            NEW,
            GenerationState::Active,
            ComplianceStatus::Compliant,
        );
        let line = sites[0].say(ReportEvent::Generation(event));
        assert_eq!(
            json(address, "POST /api/v1/reports", &line).1["accepted"],
            1
        );
        lines.insert(0, String::from_utf8(line).unwrap().trim().to_owned());
    }
    let ask = |question: &str| {
        let (status, text) = plain(address, &format!("GET /api/v1/reports?{question}"), b"");
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        (status, lines)
    };
    assert_eq!(ask("site=drone-1"), (200, lines.clone()));
    assert_eq!(ask("site=drone-1&limit=2"), (200, lines[..2].to_vec()));
    assert_eq!(
        ask("site=drone-1&limit=2&before=4"),
        (200, lines[2..4].to_vec())
    );
    assert_eq!(
        ask("site=drone-1&limit=2&before=2"),
        (200, lines[4..].to_vec())
    );
    assert_eq!(ask("site=drone-1&before=1"), (200, Vec::new()));
    assert_eq!(ask("site=drone-2"), (200, Vec::new()));
    for (question, words) in [
        ("site=drone-9", "no site `drone-9`"),
        ("site=drone-1&limit=0", "limit is 1 to 1000"),
        ("site=drone-1&before=0", "before is the number of a report"),
        ("sit=drone-1", "sit"),
    ] {
        let (status, text) = ask(question);
        assert!(
            status == 400 && text.concat().contains(words),
            "{question}: {text:?}"
        );
    }
}

#[test]
fn faults_name_a_conflict_of_two_machines_with_one_key() {
    let hub = Hub::new();
    let centre = Centre::new();
    hub.init(&centre.root());
    let mut site = centre.site("drone-1", &centre.stream("dev", "drone"));
    let request = hub.path("r.request");
    fs::write(&request, site.request()).unwrap();
    hub.add(&request, &site);
    let told = || {
        let output = hub.run(&["faults", "drone-1"]);
        String::from_utf8(output.stdout).unwrap()
    };
    let report = hub.path("a.reports");
    fs::write(&report, site.started()).unwrap();
    hub.json(&["import", report.to_str().unwrap()]);
    assert!(!told().contains("CONFLICT"), "{}", told());
    // The machine with a copy of its state goes on by itself: another report of the same number.
    let epoch = site.epoch.clone();
    site.forget(&epoch);
    fs::write(&report, site.active(1, NEW)).unwrap();
    assert_ne!(
        hub.run(&["import", report.to_str().unwrap()]).status.code(),
        Some(0)
    );
    assert!(told().contains("drone-1: CONFLICT: "), "{}", told());
}
