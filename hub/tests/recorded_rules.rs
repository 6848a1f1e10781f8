//! Rules on record of a step with the real program: they are made looser by a person who gives name and reason, and no record of them keeps
//! other questions from being asked.

use crate::access::token;
use crate::gate_rules::{report, rule, world};
use crate::http::exchange;
use crate::program::{Hub, Server, code, stderr};
use outhaul_bundle::report::ComplianceStatus as C;
use outhaul_test_kit::plain::NEW;
use serde_json::{Value, json};

/// A typed gate question: exit code, decision, messages.
fn ask(hub: &Hub, more: &[&str]) -> (i32, Value, String) {
    let asked = ["gate", "--environment", "dev", "--commit", NEW];
    let output = hub.run(&[&asked[..], more, &["--output", "json"]].concat());
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let decision = match text.is_empty() {
        true => Value::Null,
        false => outhaul_tests::result(&text),
    };
    (code(&output), decision, stderr(&output))
}

const WHO: [&str; 4] = ["--by", "ann", "--reason", "line 3 has two sites"];

#[test]
fn rules_on_record_are_made_looser_only_by_who_says_who_and_why() {
    let (hub, centre, mut sites) = world(&["drone-1"]);
    report(&hub, &centre, &mut sites[0], C::Compliant);
    let strict = r#"{"min_sites": 2, "soak_hours": 1}"#;
    let to = ["--to", "stage", "--rules", strict, "--record"];
    let (closed, _, said) = ask(&hub, &to);
    assert!(
        closed == 1 && said.contains("the step from `dev` to `stage`: none became"),
        "{said}"
    );
    for rules in ["{}", r#"{"soak_hours": 1}"#] {
        let looser = ["--to", "stage", "--rules", rules, "--record"];
        let (refused, _, said) = ask(&hub, &looser);
        assert!(
            refused == 2
                && said.contains("ask for less than those on record for the step from `dev` to `stage`: min_sites")
                && said.contains(r#""min_sites":2"#)
                && said.contains("`--by NAME --reason TEXT`"),
            "{said}"
        );
    }
    assert_eq!(ask(&hub, &[]).0, 1, "they are still on record");
    // Stricter ones need nobody's word.
    let stricter = r#"{"min_sites": 3, "soak_hours": 1}"#;
    assert_eq!(
        ask(&hub, &["--to", "stage", "--rules", stricter, "--record"]).0,
        1
    );
    let looser = ["--to", "stage", "--rules", "{}", "--record"];
    let (open, _, said) = ask(&hub, &[&looser[..], &WHO].concat());
    assert!(
        open == 0 && said.contains("which asks for less: min_sites, soak_hours"),
        "{said}"
    );
    let log = hub.json(&["audit", "access"]);
    let entry = log
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["action"] == "gate rules loosened");
    let entry = entry.unwrap_or_else(|| panic!("{log}"));
    let detail = entry["detail"].as_str().unwrap();
    assert!(
        entry["who"] == "ann" && detail.contains(r#""min_sites":3"#) && detail.ends_with(WHO[3]),
        "{entry}"
    );
    let decisions = hub.json(&["decisions"]);
    assert_eq!(
        decisions[0]["asked_by"], "ann (command line)",
        "{decisions}"
    );
    assert_eq!(ask(&hub, &[]).0, 0);
    // A name alone, and a reason without rules, are refused.
    for wrong in [&looser[..], &looser[..4]].map(|words| [words, &WHO[..2]].concat()) {
        assert_eq!(ask(&hub, &wrong).0, 2, "{wrong:?}");
    }
}

#[test]
fn rules_without_a_step_keep_no_question_from_an_answer_and_apply_to_each_step() {
    let (hub, centre, mut sites) = world(&["drone-1"]);
    report(&hub, &centre, &mut sites[0], C::Compliant);
    // Nobody named the step; then one is on record.
    let two = r#"{"min_sites": 2}"#;
    assert_eq!(ask(&hub, &["--rules", two, "--record"]).0, 1);
    // A step of which nothing is on record is decided by them, and its rules cannot be removed.
    let record = token(&hub, "ci", "record");
    let server = hub.serve(&[]);
    let answer = over_http(&server, &record, "&to=stage");
    assert_eq!(rule(&answer, "min-sites")["met"], false, "{answer}");
    drop(server);
    let remove = [
        "gate",
        "--environment",
        "dev",
        "--to",
        "stage",
        "--remove-rules",
    ];
    let none = hub.run(&[&remove[..], &WHO].concat());
    assert!(
        code(&none) == 2 && stderr(&none).contains("leave `--to` out"),
        "{}",
        stderr(&none)
    );
    assert_eq!(
        ask(&hub, &["--to", "stage", "--rules", "{}", "--record"]).0,
        1
    );
    let (closed, decision, said) = ask(&hub, &[]);
    assert_eq!((closed, &decision["to"]), (1, &json!("stage")), "{said}");
    assert_eq!(rule(&decision, "min-sites")["met"], false);
    let command = format!(
        " gate --environment dev --commit {NEW} --rules FILE --record --by NAME --reason TEXT` changes them"
    );
    assert!(said.contains(&command), "{said}");
    // The way out, as it is printed.
    let (open, _, said) = ask(&hub, &[&["--rules", "{}", "--record"][..], &WHO].concat());
    assert!(open == 0 && said.contains("each step from `dev`"), "{said}");
    let (open, decision, said) = ask(&hub, &[]);
    assert_eq!((open, &decision["to"]), (0, &json!("stage")), "{said}");
    assert!(!said.contains("changes them"), "{said}");
}

#[test]
fn rules_without_a_step_are_put_on_record_beside_steps_too_and_a_note_names_those_of_now() {
    let (hub, centre, mut sites) = world(&["drone-1"]);
    report(&hub, &centre, &mut sites[0], C::Compliant);
    assert_eq!(
        ask(&hub, &["--to", "stage", "--rules", "{}", "--record"]).0,
        0
    );
    let (closed, _, said) = ask(&hub, &["--rules", r#"{"min_sites": 2}"#, "--record"]);
    assert!(
        closed == 1
            && said.contains("each step from `dev`: none became")
            && said.contains(r#"apply to each step from `dev`, too: {"min_sites":2}"#),
        "{said}"
    );
    let (closed, decision, _) = ask(&hub, &["--to", "stage"]);
    assert_eq!(
        (closed, &rule(&decision, "min-sites")["met"]),
        (1, &false.into())
    );
    let loosened = ["--rules", "{}", "--record"];
    let (open, _, said) = ask(&hub, &[&loosened[..], &WHO].concat());
    assert!(open == 0 && !said.contains("apply to each step"), "{said}");
    // The same once more changes nothing, and says so of the name and the reason.
    let (_, _, said) = ask(&hub, &[&loosened[..], &WHO].concat());
    let same = "no change: these rules are on record for each step from `dev` already, so that the name and the reason are not recorded";
    assert!(said.contains(same), "{said}");
    // A step to an environment of which nothing came in yet can have rules.
    assert_eq!(
        ask(&hub, &["--to", "prod", "--rules", "{}", "--record"]).0,
        0
    );
    let (refused, _, said) = ask(&hub, &[]);
    assert!(
        refused == 2
            && said.contains("rules are on record for the steps from `dev` to `prod`, `stage`")
            && said.contains("with `--to`"),
        "{said}"
    );
}

#[test]
fn a_mistyped_step_on_record_blocks_no_other_and_its_rules_are_removed_by_who_says_who_and_why() {
    let (hub, centre, mut sites) = world(&["drone-1"]);
    report(&hub, &centre, &mut sites[0], C::Compliant);
    let rules = ["--rules", r#"{"min_sites": 2}"#, "--record"];
    let removal = " gate --environment dev --to stagee --remove-rules --by NAME --reason TEXT`";
    let (closed, _, said) = ask(&hub, &[&["--to", "stagee"][..], &rules].concat());
    assert!(
        closed == 1
            && said.contains("nothing came in of an environment `stagee` yet; `")
            && said.contains(removal),
        "{said}"
    );
    // Of a name near an environment that the hub knows none.
    let (refused, _, said) = ask(&hub, &[&["--to", "deb"][..], &rules].concat());
    assert!(
        refused == 2 && said.contains("did you mean `dev`?"),
        "{said}"
    );
    // The right one: for a question without rules there are none, a pipeline's brings them, and so does a person.
    let (refused, _, said) = ask(&hub, &["--to", "stage"]);
    assert!(
        refused == 2 && said.contains("did you mean `stagee`?") && said.contains(removal),
        "{said}"
    );
    let record = token(&hub, "ci", "record");
    let server = hub.serve(&[]);
    let answer = over_http(
        &server,
        &record,
        "&to=stage&rules=%7B%22min_sites%22%3A1%7D",
    );
    assert_eq!(answer["verdict"], "open", "{answer}");
    let (_, _, said) = ask(&hub, &[&["--to", "stage"][..], &rules].concat());
    assert!(
        said.contains("rules are on record for the step to `stagee`: did you mean it? `"),
        "{said}"
    );
    let (refused, _, said) = ask(&hub, &[]);
    assert!(refused == 2 && said.contains("--remove-rules"), "{said}");
    // Without a name nothing is removed, nor of a step that has none.
    let remove = |more: &[&str]| {
        let asked = ["gate", "--environment", "dev", "--remove-rules"];
        hub.run(&[&asked[..], more].concat())
    };
    assert_eq!(code(&remove(&["--to", "stagee"])), 2);
    let none = remove(&[&["--to", "stag"][..], &WHO].concat());
    assert!(
        code(&none) == 2 && stderr(&none).contains("did you mean `stage"),
        "{}",
        stderr(&none)
    );
    let none = remove(&WHO);
    assert!(
        code(&none) == 2
            && stderr(&none)
                .contains("no rules from `dev` that were recorded without a step are on record"),
        "{}",
        stderr(&none)
    );
    assert_eq!(ask(&hub, &[]).0, 2, "both are on record still");
    let removed = remove(&[&["--to", "stagee"][..], &WHO].concat());
    assert_eq!(code(&removed), 0, "{}", stderr(&removed));
    let text = String::from_utf8(removed.stdout).unwrap();
    let change =
        r#"rules on record for the step from `dev` to `stagee`: {"min_sites":2} became none"#;
    assert!(text.contains(change), "{text}");
    let (closed, decision, said) = ask(&hub, &[]);
    assert_eq!((closed, &decision["to"]), (1, &json!("stage")), "{said}");
    let log = hub.json(&["audit", "access"]);
    let mut entries = log.as_array().unwrap().iter();
    let entry = entries.find(|one| one["detail"].as_str().unwrap().contains("became none"));
    let entry = entry.unwrap_or_else(|| panic!("{log}"));
    assert!(
        entry["who"] == "ann" && entry["action"] == "gate rules loosened",
        "{entry}"
    );
}

#[test]
fn rules_that_are_tried_and_are_looser_say_what_puts_them_on_record() {
    let (hub, _, _) = world(&["drone-1"]);
    let (_, _, said) = ask(&hub, &["--rules", r#"{"min_sites": 2}"#]);
    assert!(said.ends_with("`--record` puts both on record\n"), "{said}");
    ask(&hub, &["--rules", r#"{"min_sites": 2}"#, "--record"]);
    let (_, _, said) = ask(&hub, &["--rules", "{}"]);
    assert!(
        said.contains("on record, with `--by NAME --reason TEXT`, as these rules ask for less"),
        "{said}"
    );
}

/// A question of a pipeline, percent-encoded: the answer.
fn over_http(server: &Server, token: &str, more: &str) -> Value {
    let path = format!("/api/v1/gate?environment=dev&commit={NEW}{more}");
    let head = format!("Authorization: Bearer {token}\r\n");
    let stream = std::net::TcpStream::connect(server.address()).unwrap();
    let (status, text) = exchange(stream, &format!("GET {path}"), &head, b"");
    assert_eq!(status, 200, "{text}");
    serde_json::from_str(&text).unwrap()
}

#[test]
fn a_question_of_a_pipeline_records_the_rules_of_its_step_and_not_those_of_each() {
    let (hub, centre, mut sites) = world(&["drone-1"]);
    report(&hub, &centre, &mut sites[0], C::Compliant);
    let record = token(&hub, "ci", "record");
    let server = hub.serve(&[]);
    let two = r#"{"min_sites": 2}"#;
    assert_eq!(ask(&hub, &["--rules", two, "--record"]).0, 1);
    let one = "&to=stage&rules=%7B%22min_sites%22%3A1%7D";
    let answer = over_http(&server, &record, one);
    assert_eq!(answer["verdict"], "closed", "{answer}");
    let said = answer["rules_on_record"].as_str().unwrap();
    assert!(said.contains("min_sites"), "{said}");
    // Those of each step are made looser: nothing of them is left at the step.
    let looser = ["--rules", r#"{"min_sites": 1}"#, "--record"];
    assert_eq!(ask(&hub, &[&looser[..], &WHO].concat()).0, 0);
    let answer = over_http(&server, &record, one);
    assert_eq!(answer["verdict"], "open", "{answer}");
    // What is on record of the step itself still counts.
    let three = "&to=stage&rules=%7B%22min_sites%22%3A3%7D";
    assert_eq!(over_http(&server, &record, three)["verdict"], "closed");
    assert_eq!(over_http(&server, &record, one)["verdict"], "closed");
}

#[test]
fn a_pipeline_that_names_no_step_beside_steps_on_record_is_answered_and_told() {
    let (hub, centre, mut sites) = world(&["drone-1"]);
    report(&hub, &centre, &mut sites[0], C::Compliant);
    let record = token(&hub, "ci", "record");
    let server = hub.serve(&[]);
    let to = ["--to", "stage", "--rules", "{}", "--record"];
    assert_eq!(ask(&hub, &to).0, 0);
    let answer = over_http(&server, &record, "&rules=%7B%22min_sites%22%3A2%7D");
    assert_eq!(answer["verdict"], "closed", "{answer}");
    let said = answer["rules_on_record"].as_str().unwrap();
    assert!(
        said.contains(
            "are not put on record: rules are on record for the steps from `dev` to `stage`"
        ),
        "{said}"
    );
    assert_eq!(ask(&hub, &to[..2]).0, 0, "they are not on record");
}
