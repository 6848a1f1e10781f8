//! What a program may answer, and what is refused.
//!
//! What comes in: answers as programs print them. What goes out: a value, or what is wrong. No program runs.
use super::*;

fn refused(verb: HookVerb, answer: &str) -> String {
    HookAnswer::read(verb, answer.as_bytes()).unwrap_err()
}

fn planned(items: &str) -> Result<Vec<HookItem>, String> {
    let answer = format!("{{\"protocol\":\"{PROTOCOL}\",\"status\":\"ok\",\"items\":[{items}]}}");
    HookAnswer::read(HookVerb::Plan, answer.as_bytes())
        .unwrap()
        .planned()
}

#[test]
fn an_answer_that_does_not_hold_to_the_contract_is_refused_with_what_is_wrong() {
    let reported = refused(HookVerb::Ready, " \n");
    assert!(
        reported.contains("answered nothing to `ready`"),
        "{reported}"
    );
    let reported = refused(HookVerb::Plan, "I am not JSON");
    assert!(
        reported.contains("not understood") && reported.contains("line 1"),
        "{reported}"
    );
    let reported = refused(
        HookVerb::Plan,
        r#"{"protocol":"outhaul.dev/hook/v9","news":1}"#,
    );
    assert!(
        reported.contains("`outhaul.dev/hook/v9`") && reported.contains(PROTOCOL),
        "{reported}"
    );
    let with = |rest: &str| format!("{{\"protocol\":\"{PROTOCOL}\",{rest}}}");
    let reported = refused(HookVerb::Plan, &with("\"status\":\"ok\",\"news\":1"));
    assert!(reported.contains("unknown field `news`"), "{reported}");
    let reported = refused(HookVerb::Apply, &with("\"status\":\"drifted\""));
    assert!(
        reported.contains("a status that this verb does not have"),
        "{reported}"
    );
    let reported = refused(
        HookVerb::Apply,
        &with("\"status\":\"ok\",\"items\":[{\"item\":\"a\"}]"),
    );
    assert!(reported.contains("named by `plan`"), "{reported}");
    let step = "{\"item\":\"a\",\"status\":\"ok\"}";
    let many = vec![step; MAX_ITEMS + 1].join(",");
    let reported = refused(
        HookVerb::Apply,
        &with(&format!("\"status\":\"ok\",\"steps\":[{many}]")),
    );
    assert!(reported.contains("more than 1000"), "{reported}");
}

/// As a program wrote it that did not look at what its steps came to.
#[test]
fn a_verdict_that_its_steps_deny_is_refused_and_a_removal_is_reported_item_by_item() {
    let steps = r#""steps":[{"item":"a","status":"ok"},
                {"item":"b","status":"failed","message":"the step says no"}]"#;
    let read = |verb, status: &str| {
        let answer = format!("{{\"protocol\":\"{PROTOCOL}\",\"status\":\"{status}\",{steps}}}");
        HookAnswer::read(verb, answer.as_bytes()).unwrap()
    };
    for verb in [HookVerb::Apply, HookVerb::Observe, HookVerb::Health] {
        let reported = read(verb, "ok").agrees(verb).unwrap_err();
        let word = verb.as_str();
        assert_eq!(
            reported,
            format!("its answer to `{word}` is `ok`, but its step `b` failed (the step says no)")
        );
    }
    assert_eq!(
        read(HookVerb::Apply, "failed").agrees(HookVerb::Apply),
        Ok(())
    );
    assert_eq!(
        read(HookVerb::Remove, "ok").agrees(HookVerb::Remove),
        Ok(())
    );
}

#[test]
fn an_item_has_a_name_that_leads_nowhere_else() {
    for name in ["web", "namespace/app", "solution/web-1.2:3"] {
        assert_eq!(
            planned(&format!("{{\"item\":\"{name}\"}}")).unwrap()[0].item,
            name
        );
    }
    let long = "n".repeat(MAX_NAME_BYTES + 1);
    for name in [
        "",
        "/etc/passwd",
        "a/../b",
        "..",
        "a//b",
        "./a",
        "a\\\\b",
        "a\\nb",
        &long,
    ] {
        let reported = planned(&format!("{{\"item\":\"{name}\"}}")).unwrap_err();
        assert!(
            reported.contains("a name that no item may have"),
            "{name}: {reported}"
        );
    }
    let reported = planned("{\"item\":\"a\"},{\"item\":\"b\"},{\"item\":\"a\"}").unwrap_err();
    assert!(reported.contains("`a` twice"), "{reported}");
    assert!(planned("").unwrap_err().contains("names no item"));
}
