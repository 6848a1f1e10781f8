//! The loop at the hub: bundles and requests in, reports home by stick and network, the gate opens.

use std::fs;

use outhaul_bundle::report::{ACK_PAYLOAD_TYPE, Ack, ComplianceStatus as C, GenerationState as G};
use outhaul_signer::envelope::Envelope;
use outhaul_signer::key::PublicKey;
use outhaul_test_kit::plain::{NEW, OLD};
use outhaul_test_kit::{Centre, Site};

use crate::program::{Hub, code, stderr};

/// Says that a bundle of the centre is active, with the digest of its real index.
fn active(centre: &Centre, site: &mut Site, number: u64, commit: &str, status: C) -> Vec<u8> {
    let mut event = site.event(number, commit, G::Active, status);
    let index = centre.plain_index(&site.stream, number, commit);
    event.index = outhaul_bundle::Digest::of(&index.to_bytes());
    site.say(outhaul_bundle::report::ReportEvent::Generation(event))
}

/// The rule of a decision's first reason.
fn first_word(decision: &serde_json::Value) -> &str {
    decision["reasons"][0]
        .as_str()
        .unwrap()
        .split(':')
        .next()
        .unwrap()
}

#[test]
fn a_stick_brings_everything_home_and_takes_the_acknowledgements_back() {
    let hub = Hub::new();
    let centre = Centre::new();
    hub.init(&centre.root());
    let stream = centre.stream("dev", "drone");
    let mut site = centre.site("drone-1", &stream);
    let stick = hub.path("stick");
    for folder in ["requests", "reports", "any/where"] {
        fs::create_dir_all(stick.join(folder)).unwrap();
    }
    // Named so that the older bundle sorts last.
    fs::write(
        stick.join("any/where/b.outhaul"),
        centre.bundle(&stream, 1, OLD),
    )
    .unwrap();
    fs::write(
        stick.join("any/where/a.outhaul"),
        centre.bundle(&stream, 2, NEW),
    )
    .unwrap();
    fs::write(stick.join("requests/drone-1.request"), site.request()).unwrap();
    let folder = stick.to_str().unwrap();

    let done = hub.json(&["import", folder]);
    assert_eq!(done["bundles"].as_array().unwrap().len(), 2);
    let fingerprint = site.key.public().id();
    let request = serde_json::json!({
        "site": "drone-1", "fingerprint": fingerprint, "result": "waiting",
    });
    assert_eq!(done["requests"], serde_json::json!([request]));
    let (closed, decision) = hub.gate("dev", NEW);
    assert_eq!((closed, &decision["verdict"]), (1, &"closed".into()));
    assert_eq!(first_word(&decision), "no-sites");

    // Such as the folder of its kit: a folder is not a request.
    fs::create_dir(hub.path("drone-1")).unwrap();
    let named = ["--fingerprint", &fingerprint[..16]];
    let added = hub.json(&[&["site", "add", "drone-1"], &named[..]].concat());
    assert_eq!(added["fingerprint"], fingerprint);
    let file = stick.join("requests/drone-1.request");
    let again = hub.json(&[&["site", "add", file.to_str().unwrap()], &named[..]].concat());
    assert_eq!(again["result"], "already");
    assert_eq!(first_word(&hub.gate("dev", NEW).1), "never-reported");

    let lines = [
        site.started(),
        active(&centre, &mut site, 1, OLD, C::Compliant),
    ]
    .concat();
    fs::write(stick.join("reports/drone-1-e1-1-2.reports"), lines).unwrap();
    let done = hub.json(&["import", folder]);
    assert_eq!(
        (&done["reports"], &done["acks"].as_array().unwrap().len()),
        (&2.into(), &1)
    );
    assert_eq!(first_word(&hub.gate("dev", NEW).1), "behind");
    assert_eq!(hub.gate("dev", OLD).0, 0);

    let line = active(&centre, &mut site, 2, NEW, C::Compliant);
    fs::write(stick.join("reports/drone-1-e1-3-3.reports"), line).unwrap();
    let done = hub.json(&["import", folder]);
    assert_eq!(
        (&done["reports"], &done["duplicates"]),
        (&1.into(), &2.into())
    );
    let (open, decision) = hub.gate("dev", NEW);
    assert_eq!((open, &decision["verdict"]), (0, &"open".into()));
    assert_eq!(decision["evidence"][0]["report"], 3);

    let pem = hub.run(&["key"]);
    let key = PublicKey::from_pem(&String::from_utf8(pem.stdout).unwrap()).unwrap();
    let acks = fs::read(stick.join("acks/drone-1.acks")).unwrap();
    let envelope = Envelope::from_json(acks.trim_ascii()).unwrap();
    let ack: Ack =
        serde_json::from_slice(envelope.verify(ACK_PAYLOAD_TYPE, &[key]).unwrap()).unwrap();
    assert_eq!((ack.site.as_str(), ack.number), ("drone-1", 3));

    // Drift closes it again; a waiver of that one site leaves nobody to confirm.
    let line = active(&centre, &mut site, 2, NEW, C::Drifted);
    fs::write(stick.join("reports/drone-1-e1-4-4.reports"), line).unwrap();
    hub.json(&["import", folder]);
    assert_eq!(first_word(&hub.gate("dev", NEW).1), "drifted");
    hub.json(&[
        "waive", "--site", "drone-1", "--until", "2h", "--reason", "r", "--by", "b",
    ]);
    assert_eq!(first_word(&hub.gate("dev", NEW).1), "all-waived");
}

#[test]
fn a_site_that_runs_what_a_thief_signed_confirms_nothing_once_the_key_is_revoked() {
    let hub = Hub::new();
    let centre = Centre::new();
    hub.init(&centre.root());
    let stream = centre.stream("dev", "drone");
    let mut site = centre.site("drone-1", &stream);
    let stick = hub.path("stick");
    fs::create_dir(&stick).unwrap();
    let import = |name: &str, bytes: Vec<u8>| {
        let path = stick.join(name);
        fs::write(&path, bytes).unwrap();
        hub.json(&["import", path.to_str().unwrap()])
    };
    import("1.outhaul", centre.bundle(&stream, 1, OLD));
    import("drone-1.request", site.request());
    let named = ["--fingerprint", &site.key.public().id()[..16]];
    hub.json(&[&["site", "add", "drone-1"], &named[..]].concat());

    // Signed with stolen keys: one under the fleet's next number, one far beyond.
    let thief = centre.thief();
    let stolen = |number| {
        let done = import(
            &format!("stolen-{number}.outhaul"),
            thief.bundle(&stream, number, NEW),
        );
        assert_eq!(done["bundles"][0]["new"], true, "{done}");
    };
    stolen(2);
    stolen(900);
    let lines = [
        site.started(),
        active(&centre, &mut site, 900, NEW, C::Compliant),
    ];
    import("drone-1.reports", lines.concat());
    // Nobody knows of the theft yet.
    let (open, decision) = hub.gate("dev", NEW);
    assert_eq!(
        (open, &decision["verdict"]),
        (0, &"open".into()),
        "{decision}"
    );

    // The fleet revokes the key. Its own bundle has the number that the thief used, and another content.
    centre.rotate_online_keys();
    centre.replace_stream_key("drone");
    let honest = "7777777777777777777777777777777777777777";
    let done = import("2.outhaul", centre.bundle(&stream, 2, honest));
    assert_eq!(done["bundles"][0]["new"], true, "{done}");
    for commit in [honest, NEW, OLD] {
        let (closed, decision) = hub.gate("dev", commit);
        assert_eq!(
            (closed, &decision["verdict"]),
            (1, &"closed".into()),
            "{commit}"
        );
        assert_eq!(decision["confirmed"], 0);
        assert_eq!(first_word(&decision), "signer-revoked", "{decision}");
    }
    // The site comes back to what the fleet signs.
    let back = active(&centre, &mut site, 2, honest, C::Compliant);
    import("drone-1-more.reports", back);
    let (open, decision) = hub.gate("dev", honest);
    assert_eq!(
        (open, &decision["verdict"]),
        (0, &"open".into()),
        "{decision}"
    );
    // The commit that only the thief's bundle claimed is nobody's.
    assert_eq!(hub.gate("dev", NEW).0, 1);
}

#[test]
fn bundles_that_are_not_of_this_fleet_or_were_touched_are_refused_with_code_4() {
    let hub = Hub::new();
    let centre = Centre::new();
    hub.init(&centre.root());
    let stream = centre.stream("dev", "drone");
    let foreign = Centre::new();
    let foreign_stream = foreign.stream("dev", "drone");
    let (first, second) = (
        centre.bundle(&stream, 1, OLD),
        centre.bundle(&stream, 2, NEW),
    );
    let touched = |inside: &[u8]| {
        let mut bytes = second.clone();
        let at = bytes
            .windows(inside.len())
            .position(|window| window == inside)
            .unwrap();
        bytes[at] ^= 1;
        bytes
    };
    let cases = [
        ("foreign", foreign.bundle(&foreign_stream, 1, NEW)),
        ("touched-metadata", touched(b"timestamp\",\"expires")),
        ("touched-index", touched(b"functional-test")),
        ("cut", second[..second.len() / 2].to_vec()),
        ("empty", Vec::new()),
    ];
    for (name, bytes) in cases {
        let file = hub.path(&format!("{name}.outhaul"));
        fs::write(&file, bytes).unwrap();
        let output = hub.run(&["import", file.to_str().unwrap()]);
        assert_eq!(code(&output), 4, "{name}: {}", stderr(&output));
        assert!(stderr(&output).contains("refused: "), "{name}");
    }
    let import = |bytes: &[u8]| {
        let file = hub.path("good.outhaul");
        fs::write(&file, bytes).unwrap();
        code(&hub.run(&["import", file.to_str().unwrap()]))
    };
    assert_eq!(
        (import(&second), import(&second)),
        (0, 0),
        "again is known, not refused"
    );
    assert_eq!(
        import(&first),
        4,
        "an older number that is not on record, after a newer one"
    );
}
