//! What is asked of a hub and by whom: names that were mistyped, rules of a question, keys and reports that do not fit.

use std::fs;
use std::net::TcpStream;

use outhaul_bundle::hub_api::GateQuery;
use outhaul_bundle::report::ComplianceStatus as C;
use outhaul_test_kit::plain::NEW;
use serde_json::{Value, json};

use crate::access::ask;
use crate::gate_rules::{report, rule, world};
use crate::http::exchange;
use crate::program::{code, stderr};

#[test]
fn a_name_that_was_mistyped_is_refused_with_what_was_meant() {
    let (hub, centre, mut sites) = world(&["drone-1"]);
    report(&hub, &centre, &mut sites[0], C::Compliant);
    let ask = |more: &[&str]| {
        let output = hub.run(&[&["gate", "--commit", NEW], more].concat());
        (code(&output), stderr(&output))
    };
    let (refused, text) = ask(&["--environment", "dv"]);
    assert_eq!(refused, 2, "{text}");
    assert!(
        text.contains("knows no environment `dv`") && text.contains("did you mean `dev`?"),
        "{text}"
    );
    let (refused, text) = ask(&["--environment", "dev", "--to", "deb"]);
    assert_eq!(refused, 2, "{text}");
    assert!(text.contains("did you mean `dev`?"), "{text}");
    let approve = hub.run(&[
        "approve",
        "--environment",
        "dve",
        "--commit",
        NEW,
        "--by",
        "ann",
        "--reason",
        "r",
    ]);
    assert_eq!(code(&approve), 2, "{}", stderr(&approve));
    assert_eq!(hub.json(&["decisions"]), json!([]));
    // An import of several paths takes in all of them or none.
    let (file, typo) = (hub.path("1.outhaul"), hub.path("2.outhaul"));
    let import = ["import", file.to_str().unwrap(), typo.to_str().unwrap()];
    let output = hub.run(&import);
    let text = stderr(&output);
    assert_eq!(code(&output), 3, "{text}");
    assert!(text.contains("1.outhaul`: a file, can be read\n"), "{text}");
    assert!(text.contains("2.outhaul`: cannot "), "{text}");
}

#[test]
fn rules_in_a_question_are_a_what_if_until_they_are_put_on_record() {
    let (hub, centre, mut sites) = world(&["drone-1"]);
    report(&hub, &centre, &mut sites[0], C::Compliant);
    fs::write(hub.path("rules.json"), r#"{"min_sites": 2}"#).unwrap();
    let file = hub.path("rules.json");
    let asked = [
        "gate",
        "--environment",
        "dev",
        "--commit",
        NEW,
        "--output",
        "json",
    ];
    let ask = |more: &[&str]| {
        let output = hub.run(&[&asked[..], more].concat());
        let text = String::from_utf8(output.stdout.clone()).unwrap();
        (code(&output), outhaul_tests::result(&text))
    };
    let (closed, answer) = ask(&["--rules", file.to_str().unwrap()]);
    assert_eq!(
        (closed, &answer["what_if"], &answer["recorded"]),
        (1, &true.into(), &false.into())
    );
    assert_eq!(hub.json(&["decisions"]), json!([]));
    assert_eq!(ask(&[]).0, 0, "they are not on record");
    let (closed, answer) = ask(&["--rules", file.to_str().unwrap(), "--record"]);
    assert_eq!((closed, &answer["recorded"]), (1, &true.into()));
    assert_eq!(ask(&[]).0, 1);
    // Over the network they only tighten.
    let made = hub.json(&["caller", "add", "ci"]);
    let token = made["token"].as_str().unwrap();
    let server = hub.serve(&[]);
    let over_http = |rules: &str| {
        let query = GateQuery {
            environment: "dev".to_owned(),
            commit: NEW.to_owned(),
            max_age_hours: None,
            quorum_percent: None,
            to: None,
            rules: Some(rules.to_owned()),
        };
        let head = format!("GET {}", query.path());
        let stream = TcpStream::connect(server.address()).unwrap();
        let more = format!("Authorization: Bearer {token}\r\n");
        let (status, text) = exchange(stream, &head, &more, b"");
        assert_eq!(status, 200, "{text}");
        serde_json::from_str::<Value>(&text).unwrap()
    };
    let looser = over_http(r#"{"min_sites": 1}"#);
    assert_eq!(looser["verdict"], "closed", "{looser}");
    let text = looser["rules_on_record"].as_str().unwrap();
    assert!(
        text.contains("min_sites") && text.contains("--record"),
        "{text}"
    );
    let tighter = over_http(r#"{"min_sites": 3}"#);
    assert_eq!(tighter["rules_on_record"], Value::Null);
    assert!(
        rule(&tighter, "min-sites")["needs"]
            .as_str()
            .unwrap()
            .contains('3'),
        "{tighter}"
    );
}

#[test]
fn one_key_is_one_sites() {
    let (hub, centre, mut sites) = world(&["drone-1"]);
    let stream = centre.stream("dev", "drone");
    let mut copy = centre.site("drone-2", &stream);
    std::mem::swap(&mut copy.key, &mut sites[0].key);
    fs::write(hub.path("copy.request"), copy.request()).unwrap();
    let fingerprint = copy.key.public().id();
    let file = hub.path("copy.request");
    let file = file.to_str().unwrap();
    for arguments in [
        &["site", "add", file, "--fingerprint", &fingerprint][..],
        &["import", file],
    ] {
        let refused = hub.run(arguments);
        let text = stderr(&refused);
        assert_eq!(code(&refused), 4, "{text}");
        assert!(text.contains("is site `drone-1`'s"), "{text}");
    }
    assert_eq!(hub.json(&["sites"]).as_array().unwrap().len(), 1);
}

#[test]
fn reports_that_never_arrived_are_named_and_in_the_export() {
    let (hub, centre, mut sites) = world(&["drone-1"]);
    report(&hub, &centre, &mut sites[0], C::Compliant);
    for _ in 0..3 {
        sites[0].started();
    }
    report(&hub, &centre, &mut sites[0], C::Compliant);
    let shown = hub.run(&["sites"]);
    assert!(
        stderr(&shown).contains("drone-1: reports 2–4 never arrived"),
        "{}",
        stderr(&shown)
    );
    let file = hub.path("gates.audit");
    hub.json(&["audit", "export", file.to_str().unwrap()]);
    let root = fs::read(centre.root()).unwrap();
    let bytes = fs::read(&file).unwrap();
    let audit = outhaul_audit::audit(bytes.as_slice(), &root, None, &[]).unwrap();
    assert_eq!(audit.problems, []);
    assert_eq!(
        audit.missing[0].to_string(),
        "site `drone-1`: reports 2 to 4 never arrived"
    );
}

#[test]
fn a_list_asked_for_by_a_name_that_nothing_has_is_refused_with_those_that_exist() {
    let (hub, centre, mut sites) = world(&["drone-1"]);
    report(&hub, &centre, &mut sites[0], C::Compliant);
    let server = hub.serve(&[]);
    let asked = |path: &str| ask(&server, &format!("GET {path}"), "", "");
    for (list, is_page) in [
        ("/api/v1/bundles", false),
        ("/bundles", true),
        ("/sites", true),
    ] {
        for (query, what, name) in [
            ("environment=prd", "environment", "prd"),
            ("cluster_type=hst", "cluster_type", "hst"),
            ("environment=dev&cluster_type=hst", "cluster_type", "hst"),
        ] {
            let answer = asked(&format!("{list}?{query}"));
            assert_eq!(answer.status, 400, "{list}?{query}: {}", answer.body);
            let tick = |name: &str| match is_page {
                true => format!("<code>{name}</code>"),
                false => format!("`{name}`"),
            };
            let known = if what == "environment" {
                "dev"
            } else {
                "drone"
            };
            let words = format!("knows no {what} {}; it knows {}", tick(name), tick(known));
            assert!(answer.body.contains(&words), "{words}: {}", answer.body);
        }
        // An empty field of a form asks for nothing; an empty variable of a script would list everything.
        for query in ["?environment=", "?cluster_type="] {
            let expected = if is_page { 200 } else { 400 };
            assert_eq!(
                asked(&format!("{list}{query}")).status,
                expected,
                "{list}{query}"
            );
        }
        // What exists is a list, also where the two together are no stream; and nothing asked for is anything.
        for query in ["?environment=dev", "?cluster_type=drone", ""] {
            assert_eq!(
                asked(&format!("{list}{query}")).status,
                200,
                "{list}{query}"
            );
        }
    }
    for query in ["environment=&", "environment=dev&to=&"] {
        let answer = asked(&format!("/api/v1/gate?{query}commit={NEW}"));
        assert_eq!(answer.status, 400, "{query}: {}", answer.body);
        assert!(answer.body.contains("is empty"), "{}", answer.body);
    }
}
