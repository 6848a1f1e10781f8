//! What is news of a step, and with which code a pass ends.

use super::*;

fn event(outcome: StepOutcome) -> StepEvent {
    StepEvent {
        from: None,
        to: "dev".to_owned(),
        commit: None,
        outcome,
    }
}

fn moved_by(made: &str) -> StepOutcome {
    StepOutcome::Moved(StepMove {
        made: made.to_owned(),
        hooks: Vec::new(),
    })
}

fn failed_with(class: FailureClass) -> StepOutcome {
    let text = "p".to_owned();
    StepOutcome::Failed(StepProblem { class, text })
}

#[test]
fn what_is_wrong_is_no_outage_and_a_closed_gate_is_no_error() {
    use FailureClass::{Environment, Refused, Usage};
    let closed = StepOutcome::Closed(vec!["r".to_owned()]);
    for (outcomes, code) in [
        (vec![StepOutcome::Current, closed.clone()], 0),
        (vec![closed, failed_with(Environment)], 3),
        (vec![failed_with(Environment), failed_with(Refused)], 1),
        (vec![failed_with(Refused), failed_with(Usage)], 2),
    ] {
        let events: Vec<_> = outcomes.into_iter().map(event).collect();
        assert_eq!(exit_code(&events), code, "{events:?}");
    }
}

#[test]
fn an_outcome_is_always_an_object_with_its_state() {
    let json = |outcome: StepOutcome| serde_json::to_value(outcome).unwrap();
    for (outcome, expected) in [
        (StepOutcome::Current, r#"{"state":"current"}"#),
        (
            StepOutcome::Closed(vec!["r".to_owned()]),
            r#"{"state":"closed","reasons":["r"]}"#,
        ),
        (
            failed_with(FailureClass::Refused),
            r#"{"state":"failed","problem":"p"}"#,
        ),
        (
            moved_by("c"),
            r#"{"state":"moved","environment_commit":"c"}"#,
        ),
    ] {
        let expected: serde_json::Value = serde_json::from_str(expected).unwrap();
        assert_eq!(json(outcome), expected);
    }
}

#[test]
fn a_decision_is_news_once_and_again_when_it_changed() {
    let mut announced = Announced::default();
    let mut announce = |outcome| {
        let events = vec![event(outcome)];
        let pass = Pass {
            events,
            notes: vec!["a note".to_owned()],
        };
        announced.announce(pass).unwrap()
    };
    let first = announce(StepOutcome::Current);
    assert_eq!((first.events.len(), first.notes.len()), (1, 1));
    let second = announce(StepOutcome::Current);
    assert!(second.events.is_empty() && second.notes.is_empty());
    let moved = announce(moved_by("c"));
    assert!(moved.moved && moved.code == 0 && moved.events.len() == 1);
    let failed = announce(failed_with(FailureClass::Refused));
    assert!(failed.code == 1 && !failed.moved);
    assert_eq!(announce(StepOutcome::Current).events.len(), 1);
}

#[test]
fn what_to_do_is_said_with_what_is_wrong() {
    let error = PromoteError::NoOrder {
        environment: "moon".to_owned(),
    };
    let StepOutcome::Failed(problem) = failed(&error) else {
        unreachable!()
    };
    assert_eq!(problem.text, error.to_string());
    assert!(
        problem
            .text
            .contains("\nhelp: name it in a PromotionPolicy")
    );
    let said = Announced::default().problem(&error).unwrap();
    assert_eq!(said, problem.text);
}

#[test]
fn an_outage_is_news_once_until_a_pass_was_possible() {
    let mut announced = Announced::default();
    let outage = PromoteError::Circle {
        policies: "`a`".to_owned(),
    };
    assert!(announced.problem(&outage).is_some());
    assert!(announced.problem(&outage).is_none());
    assert!(announced.announce(Pass::default()).is_none());
    assert!(announced.problem(&outage).is_some());
}
