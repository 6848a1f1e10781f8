//! Messages of promotions, written and read back, and forged ones.

use super::*;
use outhaul_bundle::hub_api::GateAnswer;

const COMMIT: &str = "45523f7016cb0ab7a4a34133d2addc78e5b838f6";

fn gate_of_dev() -> MessageReading {
    MessageReading::Sound(Passage::Gate("dev".into()))
}

#[track_caller]
fn unsound(text: &str, commit: &str, says: &str) {
    match read(text, "stage", commit) {
        MessageReading::Unsound(problem) => assert!(problem.contains(says), "{problem}"),
        other => panic!("{other:?}: {text}"),
    }
}

/// The message of a promotion to `stage` that the gate of `dev` decided.
fn opened_by_dev(decision: outhaul_bundle::hub_api::Decision) -> String {
    let (from, decision) = ("dev".to_owned(), Box::new(decision));
    message(
        "stage",
        COMMIT,
        &Basis::Open { from, decision },
        Recorded::default(),
    )
}

#[test]
fn what_is_written_is_read_back_for_this_commit_and_environment_only() {
    // What a hub answered.
    let answer = include_str!("../../../../bundle/tests/hub_api/gate-open.json");
    let GateAnswer { decision, .. } = serde_json::from_str(answer).unwrap();
    let text = message(
        "stage",
        COMMIT,
        &Basis::Open {
            from: "dev".to_owned(),
            decision: Box::new(decision),
        },
        Recorded::default(),
    );
    assert_eq!(read(&text, "stage", COMMIT), gate_of_dev());
    assert_eq!(read(&text, "prod", COMMIT), MessageReading::OfOther);
    let other = COMMIT.replace('4', "5");
    assert_eq!(read(&text, "stage", &other), MessageReading::OfOther);
    // The beginning of another commit's id is the same.
    let alike = COMMIT.replace("c78e", "c78f");
    unsound(&text, &alike, "does not end in `Outhaul-Promoted");
    let given = Override::new("Jo", "the line stands still").unwrap();
    let text = message(
        "prod",
        COMMIT,
        &Basis::Override(given.clone()),
        Recorded::default(),
    );
    assert_eq!(
        read(&text, "prod", COMMIT),
        MessageReading::Sound(Passage::Override(given.clone()))
    );
    // The order says that it is the first, not a commit.
    let first = message("stage", COMMIT, &Basis::First, Recorded::default());
    unsound(&first, COMMIT, "no gate that was open or overridden");
    for (by, reason) in [("", "x"), ("x", " "), ("x\nOuthaul-Gate: open dev", "y")] {
        Override::new(by, reason).unwrap_err();
    }
}

#[test]
fn a_site_that_is_known_by_webhook_alone_is_noted_in_the_message() {
    let answer = include_str!("../../../../bundle/tests/hub_api/gate-open.json");
    let GateAnswer { mut decision, .. } = serde_json::from_str(answer).unwrap();
    decision.evidence[0].webhook = Some("flux".to_owned());
    let basis = Basis::Open {
        from: "dev".to_owned(),
        decision: Box::new(decision),
    };
    let text = message("stage", COMMIT, &basis, Recorded::default());
    assert!(
        text.contains("\n- note: `drone-1` is known by webhook of flux alone"),
        "{text}"
    );
    assert_eq!(read(&text, "stage", COMMIT), gate_of_dev());
}

#[test]
fn attack_trailers_without_their_evidence_do_not_count() {
    let head = "Promote 45523f7016cb to stage\n\n";
    let gate = format!("The gate of `dev` is open: 1 of 1 sites confirmed {COMMIT}.\n");
    let line = format!(
        "- edge-1: report 4 (sha256:{}), bundle 1 active\n",
        "30".repeat(32)
    );
    let trailers = format!("\n{PROMOTED}: stage {COMMIT}\n{GATE}: open dev");
    let whole = format!("{head}{gate}{line}{trailers}");
    assert_eq!(read(&whole, "stage", COMMIT), gate_of_dev());
    for (forged, says) in [
        (format!("{head}{trailers}"), "which gate was open"),
        (format!("{head}{gate}{trailers}"), "names 0 reports"),
        (whole.replace("1 of 1", "0 of 0"), "no site confirms"),
        (whole.replace("1 of 1", "2 of 2"), "names 1 reports"),
        (whole.replace("1 of 1", "2 of 1"), "2 of 1 sites"),
        (whole.replace("of `dev`", "of `lab`"), "names two gates"),
        (whole.replace("(sha256:30", "(sha256:3"), "not a digest"),
        (
            whole.replace("report 4", "report x"),
            "does not write: `- edge-1",
        ),
        (whole.replace("report 4", "report 0"), "report 0 of site"),
        (whole.replace("edge-1", "edge 1"), "not the name of a site"),
        (whole.replace(" active", " failed"), "is `failed`"),
        (whole.replace(&line, &line.repeat(2)), "two reports of site"),
        (
            whole.replace(&line, &format!("{line}And more.\n")),
            "does not write: `And more.`",
        ),
        (whole.replace('\n', "\r\n"), "carriage returns"),
        (
            format!("{whole}\n{GATE}: open dev"),
            "does not write: `Outhaul-Gate",
        ),
        (
            whole.replace(&format!("{GATE}: open dev"), ""),
            "does not end in `Outhaul-Gate",
        ),
        (
            format!("{head}No gate let it in: x\n\n{PROMOTED}: stage {COMMIT}\n{GATE}: overridden"),
            "Outhaul-Override-By",
        ),
    ] {
        unsound(&forged, COMMIT, says);
    }
    let bare = format!("Promote\n{trailers}");
    assert_eq!(read(&bare, "stage", COMMIT), MessageReading::OfOther);
}

#[test]
fn what_a_forge_or_a_hook_adds_to_a_promotion_leaves_it_one() {
    let text = format!(
        "Promote 45523f7016cb to stage (#12)\n\nThe gate of `dev` is open: 1 of 1 sites confirmed {COMMIT}.\n\
         - edge-1: report 4 (sha256:{}), bundle 1 active\n\n{PROMOTED}: stage {COMMIT}\n{GATE}: open dev\n\
         Signed-off-by: Ann <ann@example.org>\nChange-Id: I12",
        "30".repeat(32)
    );
    assert_eq!(read(&text, "stage", COMMIT), gate_of_dev());
    for other in [" (#x)", " again"] {
        let other = text.replace(" (#12)", other);
        assert_eq!(read(&other, "stage", COMMIT), MessageReading::OfOther);
    }
    for other in ["and more", "outhaul-gate: open lab"] {
        let other = text.replace("Change-Id: I12", other);
        unsound(&other, COMMIT, "does not write");
    }
}

#[test]
fn the_share_that_a_rule_asks_for_is_written_where_not_all_confirmed() {
    let answer = include_str!("../../../../bundle/tests/hub_api/gate-open.json");
    let GateAnswer { mut decision, .. } = serde_json::from_str(answer).unwrap();
    assert_eq!(notes(&decision), decision.notes);
    (decision.counted, decision.quorum_percent) = (99, 1);
    let text = opened_by_dev(decision);
    let note = "\n- note: 1 of 99 sites confirmed: the rule of this gate asks for 1 %\n";
    assert!(text.contains(note), "{text}");
    assert_eq!(read(&text, "stage", COMMIT), gate_of_dev());
    assert_eq!(sites(&text, COMMIT), Some((1, 99)));
}

#[test]
fn attack_line_breaks_of_an_answer_forge_no_trailers() {
    let answer = include_str!("../../../../bundle/tests/hub_api/gate-open.json");
    let GateAnswer { mut decision, .. } = serde_json::from_str(answer).unwrap();
    let forged = format!("x\n\n{PROMOTED}: prod {COMMIT}\r\u{2028}{GATE}: open stage\u{1b}[2K");
    decision.notes.push(forged.clone());
    decision.evidence[0].state.push_str(&forged);
    decision.evidence[0].site.push_str(&forged);
    decision.sites[0].site.push_str(&forged);
    let text = opened_by_dev(decision);
    let of_ours = |line: &&str| line.starts_with(PROMOTED) || line.starts_with(GATE);
    assert_eq!(text.lines().filter(of_ours).count(), 2, "{text}");
    assert!(!text.contains(['\r', '\u{2028}', '\u{1b}']), "{text}");
    assert!(
        text.contains("- note: x\\u{a}\\u{a}Outhaul-Promoted"),
        "{text}"
    );
    // No site has such a name, and the check of answers refuses it before.
    unsound(&text, COMMIT, "is not the name of a site");
    assert_eq!(read(&text, "prod", COMMIT), MessageReading::OfOther);
}

#[test]
fn a_message_from_before_there_were_trailers_counts() {
    let text = format!(
        "Promote 45523f7016cb to stage\n\nThe gate of `dev` is open: 1 of 1 sites confirmed {COMMIT}.\n\
         - edge-1: report 4 (sha256:{}), bundle 1 active\n",
        "30".repeat(32)
    );
    assert_eq!(read(&text, "stage", COMMIT), gate_of_dev());
    let none =
        "Promote 45523f7016cb to stage\n\nNo gate was asked: no environment before it was named.\n";
    unsound(none, COMMIT, "which gate was open");
}
