//! How often a hook before the move is run for one commit, and what is said where its outcome changes nothing.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use outhaul_bundle::hub_api::{GateAnswer, RuleVerdict};
use outhaul_control::diagnostic::{Diagnostics, SourceFile};
use outhaul_control::kinds::{self, Object};

use super::*;

const POLICY: &str = "apiVersion: outhaul.dev/v1alpha1\nkind: PromotionPolicy\nmetadata: {name: p}\nspec:\n  from: dev\n  to: stage\n  \
     checks:\n    - {name: scan, by: [centre]}\n  hooks:\n    before:\n      - {name: scan}\n";

fn policy() -> PromotionPolicy {
    let (name, text) = ("p.yaml".to_owned(), POLICY.to_owned());
    let mut findings = Diagnostics::new();
    let objects = kinds::read_file(&Arc::new(SourceFile { name, text }), &mut findings);
    let found = objects.into_iter().find_map(|object| match object {
        Object::Promotion(policy) => Some(policy),
        _ => None,
    });
    found.unwrap_or_else(|| panic!("{}", findings.render(false)))
}

/// A gate that only the check keeps closed.
fn closed(policy: &PromotionPolicy) -> Decision {
    let text = include_str!("../../../../bundle/tests/hub_api/gate-open.json");
    let GateAnswer { mut decision, .. } = serde_json::from_str(text).unwrap();
    decision.verdict = GateVerdict::Closed;
    decision.reasons = vec!["no outcome".to_owned()];
    decision.rules = vec![RuleVerdict {
        rule: policy.rules.checks[0].rule(),
        needs: String::new(),
        met: false,
        found: String::new(),
        opens: None,
        evidence: Vec::new(),
    }];
    decision
}

/// A hook's program that counts how often it was run, and ends with this code.
struct Counted {
    folder: tempfile::TempDir,
    programs: HookPrograms,
}

impl Counted {
    fn new(code: u8) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("scan");
        let count = folder.path().join("count");
        let text = format!(
            "#!/bin/sh\ncat > /dev/null\necho run >> {}\necho 3 images\necho 2 findings >&2\nexit {code}\n",
            count.display()
        );
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        let programs = HookPrograms::parse(&[format!("scan={}", file.display())]).unwrap();
        Self { folder, programs }
    }

    fn runs(&self) -> usize {
        let count = fs::read_to_string(self.folder.path().join("count"));
        count.unwrap_or_default().lines().count()
    }

    fn step<'a>(&'a self, policy: &'a PromotionPolicy, commit: &'a str, hub: bool) -> HookStep<'a> {
        HookStep {
            policy,
            programs: &self.programs,
            commit,
            hub: hub.then_some(HubConnection {
                url: "http://127.0.0.1:9",
                authority: None,
            }),
        }
    }
}

#[test]
fn a_hook_that_passed_is_not_run_again_while_the_gate_does_not_count_it() {
    let (policy, made) = (policy(), Counted::new(0));
    let mut decision = closed(&policy);
    let step = made.step(&policy, "a", false);
    assert!(step.would_open(&decision));
    assert_eq!(step.not_counted(&decision), None);
    for _ in 0..2 {
        step.before(Some(&decision)).unwrap();
    }
    assert_eq!(made.runs(), 1);
    let said = step.not_counted(&decision).unwrap();
    assert!(said.contains("of hook `scan` it is on record"), "{said}");
    // At another commit, and where the gate opened meanwhile, it is.
    let other = made.step(&policy, "b", false);
    assert_eq!(other.not_counted(&decision), None);
    other.before(Some(&decision)).unwrap();
    assert_eq!(made.runs(), 2);
    decision.verdict = GateVerdict::Open;
    other.before(Some(&decision)).unwrap();
    assert_eq!(made.runs(), 3);
}

#[test]
fn what_a_hook_reported_is_kept_where_its_outcome_cannot_be_put_on_record() {
    for (code, words) in [(0, "passed (3 images)"), (3, "2 findings)")] {
        let (policy, made) = (policy(), Counted::new(code));
        let decision = closed(&policy);
        let step = made.step(&policy, "a", true);
        for _ in 0..2 {
            let error = step.before(Some(&decision)).unwrap_err();
            let text = error.to_string();
            assert!(
                text.contains(words) && text.contains("not put on record"),
                "{text}"
            );
            assert!(text.contains("--scope record --scope check"), "{text}");
            assert!(!text.contains("ingest"), "{text}");
        }
        assert_eq!(made.runs(), 1, "only the hub is asked again");
        assert_eq!(step.not_counted(&decision), None);
    }
}

#[test]
fn a_hook_that_cannot_be_started_is_no_failed_check() {
    let policy = policy();
    let mut made = Counted::new(0);
    made.programs = HookPrograms::parse(&["scan=/nonexist".to_owned()]).unwrap();
    let decision = closed(&policy);
    // A hub that nobody can reach: nothing is sent to it, and no token is asked for.
    let step = made.step(&policy, "a", true);
    let error = step.before(Some(&decision)).unwrap_err();
    assert!(
        matches!(error, PromoteError::HookNotStarted { .. }),
        "{error:?}"
    );
    let text = error.to_string();
    assert!(
        text.starts_with("hook `scan` was not run: `/nonexist`: it cannot be started")
            && text.contains("no outcome of this hook was put on record")
            && !text.contains("token"),
        "{text}"
    );
    assert!(step.last(&policy.hooks.before[0]).is_none());
}

#[test]
fn each_hook_has_one_program() {
    let parse = |texts: &[&str]| {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        HookPrograms::parse(&texts).unwrap_err().to_string()
    };
    let twice = parse(&["scan=A", "scan=B"]);
    assert!(
        twice.starts_with("`scan` has two programs, `A` and `B`"),
        "{twice}"
    );
    let none = parse(&["scan"]);
    assert!(none.starts_with("`scan` does not name a program"), "{none}");
}

#[test]
fn a_hub_that_does_not_answer_is_not_said_to_lack_a_token() {
    let (policy, made) = (policy(), Counted::new(0));
    let step = made.step(&policy, "a", true);
    let done = HookRun {
        hook: "scan".to_owned(),
        moment: HookPhase::Before,
        result: HookResult::Failed,
        message: "2 findings".to_owned(),
    };
    let text = |error: &GateError| step.not_stated(&done, error).to_string();
    let silent = text(&GateError::NoAnswer {
        hub: "h".to_owned(),
        problem: "p".to_owned(),
    });
    assert!(
        silent.contains("failed (2 findings)")
            && silent.contains("see that the hub runs")
            && !silent.contains("token"),
        "{silent}"
    );
}
