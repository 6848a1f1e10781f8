//! Schedulers: real programs, written by each test.

use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use super::*;
use outhaul_control::ControlPlane;
use outhaul_plane::schedule::{Schedule, schedule};

use outhaul_test_planes::shorthand::plane;

const PLANE: &str = "
kind: ClusterType a {zone: north}
kind: ClusterType b {zone: north}
kind: ClusterType c {zone: south}
kind: ClusterType off {zone: south, old: 'yes'}
policy: p {} {matchExpressions: [{key: old, operator: DoesNotExist}]} {scheduler: cost, maxClusterTypes: 2, spread: {label: zone}}
policy: q {} {matchLabels: {zone: south}} {}
target: t {}
target: u {}
";

struct Program {
    folder: tempfile::TempDir,
    schedulers: Schedulers,
}

/// A shell script in the place of a scheduler. `$0.in` is where it may keep its question.
fn program(script: &str) -> Program {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cost");
    // Written by another process: a file that this one has open for writing, even in another thread that
    // is about to start a program, cannot be executed.
    let mut writer = Command::new("sh")
        .args(["-c", "cat > \"$0\" && chmod +x \"$0\""])
        .arg(&path)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let text = format!("#!/bin/sh\n{script}\n");
    let mut stdin = writer.stdin.take().unwrap();
    stdin.write_all(text.as_bytes()).unwrap();
    drop(stdin);
    assert!(writer.wait().unwrap().success());
    let schedulers = Schedulers::parse(&[format!("cost={}", path.display())]).unwrap();
    Program { folder, schedulers }
}

fn asked(script: &str) -> (ControlPlane, SchedulerAnswers) {
    let plane = plane(PLANE);
    let program = program(script);
    let answers = ask_within(&plane, &program.schedulers, Duration::from_secs(60));
    (plane, answers)
}

/// What was answered to policy `p`.
fn to_p<'a>(plane: &ControlPlane, answers: &'a SchedulerAnswers) -> &'a SchedulerAnswer {
    answers.of(&plane.policies["p"]).unwrap()
}

fn pairs(schedule: &Schedule, policy: &str) -> Vec<String> {
    let of = schedule
        .assignments
        .iter()
        .filter(|(_, a)| a.policies.iter().any(|p| p == policy));
    of.map(|(id, _)| id.to_string()).collect()
}

fn fault(script: &str) -> String {
    let (plane, answers) = asked(script);
    let schedule = schedule(&plane, &answers);
    // Whatever one policy's program does, the others' assignments stand.
    assert_eq!(pairs(&schedule, "q"), ["c/t", "c/u", "off/t", "off/u"]);
    assert_eq!(pairs(&schedule, "p"), [""; 0]);
    // What it may have meant is undecided, not removed, except where another policy decides.
    let undecided: Vec<String> = schedule.undecided.keys().map(ToString::to_string).collect();
    assert_eq!(undecided, ["a/t", "a/u", "b/t", "b/u"]);
    let [finding] = schedule.failures["p"].iter().collect::<Vec<_>>()[..] else {
        panic!("{schedule:?}")
    };
    let (message, help) = (&finding.message, finding.help.as_deref());
    format!("{message}\n  help: {}", help.unwrap())
}

#[test]
fn what_a_program_chooses_is_what_is_assigned() {
    let answer = r#"{"assignments": [{"target": "t", "clusterType": "b", "reason": "cheapest\u001b[2J"},
        {"target": "t", "clusterType": "c"}, {"target": "u", "clusterType": "a"}]}"#;
    let (plane, answers) = asked(&format!("cat >/dev/null; echo '{answer}'"));
    let schedule = schedule(&plane, &answers);
    assert_eq!(pairs(&schedule, "p"), ["a/u", "b/t", "c/t"]);
    let verdicts = outhaul_plane::schedule::explain::explain(
        &plane,
        &answers,
        &plane.targets["t"],
        plane.cluster_types.get("b"),
    );
    let weight = verdicts[0].weight.as_ref().unwrap();
    assert_eq!(weight.said.as_deref(), Some("cheapest [2J"));
    // Both policies chose this one.
    let both = &schedule.assignments;
    let shared = both.iter().find(|(id, _)| id.to_string() == "c/t").unwrap();
    assert_eq!(shared.1.policies, ["p", "q"]);
}

#[test]
fn a_program_gets_the_candidates_with_their_labels_and_the_limits() {
    let plane = plane(PLANE);
    let program = program(r#"cat > "$0.in"; echo '{"assignments": []}'"#);
    let answers = ask(&plane, &program.schedulers);
    assert_eq!(
        to_p(&plane, &answers),
        &SchedulerAnswer::Chosen(BTreeMap::new())
    );
    let question = fs::read(program.folder.path().join("cost.in")).unwrap();
    let question: Value = serde_json::from_slice(&question).unwrap();
    insta::assert_json_snapshot!(question);
}

#[test]
fn every_wrong_answer_is_that_policys_failure_alone() {
    let say = |json: &str| fault(&format!("cat >/dev/null; echo '{json}'"));
    let one = |pairs: &str| say(&format!(r#"{{"assignments": [{pairs}]}}"#));
    let pair =
        |target: &str, name: &str| format!(r#"{{"target": "{target}", "clusterType": "{name}"}}"#);
    let all = [
        say("nonsense"),
        say(r#"{"assignments": [], "more": 1}"#),
        one(&pair("tt", "a")),
        one(&pair("t", "z")),
        one(&pair("t", "off")),
        one(&format!("{}, {}", pair("t", "a"), pair("t", "a"))),
        one(&format!("{}, {}", pair("t", "a"), pair("t", "b"))),
        fault("echo 'no licence' >&2; exit 3"),
        fault("kill -9 $$"),
        fault("head -c 17000000 /dev/zero"),
    ];
    let text = all.join("\n");
    let parts = text.split('`').map(|part| match part.ends_with("/cost") {
        true => "PROGRAM",
        false => part,
    });
    let parts: Vec<&str> = parts.collect();
    insta::assert_snapshot!(parts.join("`"));
}

#[test]
fn a_program_that_never_answers_is_stopped_with_all_that_it_started() {
    let program = program("sleep 600 & echo $! > \"$0.pid\"; wait");
    let plane = plane(PLANE);
    let answers = ask_within(&plane, &program.schedulers, Duration::from_secs(2));
    let SchedulerAnswer::Fault { message, .. } = to_p(&plane, &answers) else {
        panic!("{answers:?}")
    };
    assert!(
        message.ends_with("it gave no answer in 2 s and was stopped"),
        "{message}"
    );
    let pid = fs::read_to_string(program.folder.path().join("cost.pid")).unwrap();
    // The kernel takes a moment to end what was killed; without the kill this would wait ten minutes.
    let alive = || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        !stat.is_empty() && !stat.contains(") Z ")
    };
    while alive() {
        std::thread::yield_now();
    }
}

#[test]
fn without_a_program_the_policy_fails_and_says_who_can_name_one() {
    let plane = plane(PLANE);
    let none = ask(&plane, &Schedulers::default());
    assert!(none.is_empty());
    let schedule = schedule(&plane, &none);
    let finding = schedule.failures["p"].iter().next().unwrap();
    assert_eq!(
        finding.help.as_deref().unwrap(),
        "who runs outhaul names it: `--scheduler cost=PROGRAM`; a control plane cannot"
    );
    let missing = Schedulers::parse(&["cost=/nowhere/at/all".to_owned()]).unwrap();
    let answers = ask(&plane, &missing);
    assert!(
        matches!(
            to_p(&plane, &answers),
            SchedulerAnswer::Fault {
                environment: true,
                ..
            }
        ),
        "{answers:?}"
    );
    for wrong in ["cost", "=x", "cost="] {
        assert!(Schedulers::parse(&[wrong.to_owned()]).is_err(), "{wrong}");
    }
}
