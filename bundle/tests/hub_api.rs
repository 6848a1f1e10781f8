//! What a real hub answered is read by the types that both sides use, and nothing of it is lost.

use outhaul_bundle::hub_api::{
    Enrolled, ErrorAnswer, GateAnswer, GateQuery, GateVerdict, RecordedBundle, ReportsAnswer,
    RequestAnswer, SiteStatus,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The answer, typed; written again it is the recorded one.
#[track_caller]
fn read<T: Serialize + DeserializeOwned>(recorded: &str) -> T {
    let typed: T = serde_json::from_str(recorded).unwrap();
    let again = serde_json::to_value(&typed).unwrap();
    let first: serde_json::Value = serde_json::from_str(recorded).unwrap();
    assert_eq!(again, first);
    typed
}

#[test]
fn the_answers_of_a_hub_are_read_whole() {
    let open: GateAnswer = read(include_str!("hub_api/gate-open.json"));
    assert_eq!(open.decision.verdict, GateVerdict::Open);
    assert_eq!(open.decision.sites[0].standing, SiteStatus::Confirmed);
    assert_eq!(open.decision.evidence.len(), 1);
    let closed: GateAnswer = read(include_str!("hub_api/gate-closed.json"));
    assert_eq!(closed.decision.verdict, GateVerdict::Closed);
    assert!(!closed.decision.reasons.is_empty());
    let reports: ReportsAnswer = read(include_str!("hub_api/reports.json"));
    assert_eq!((reports.accepted, reports.acks.len()), (1, 1));
    assert_eq!(reports.refused[0].line, 1);
    let request: RequestAnswer = read(include_str!("hub_api/request.json"));
    assert_eq!(request.result, Enrolled::Already);
    let recorded: RecordedBundle = read(include_str!("hub_api/bundle.json"));
    assert!(recorded.new);
    let refused: ErrorAnswer = read(include_str!("hub_api/refused.json"));
    assert!(refused.rule.is_some());
}

#[test]
fn a_status_that_this_program_does_not_know_is_no_success() {
    let known = include_str!("hub_api/gate-open.json");
    let newer = known.replace(
        "\"standing\": \"confirmed\"",
        "\"standing\": \"quarantined\"",
    );
    assert_ne!(known, newer);
    let answer: GateAnswer = serde_json::from_str(&newer).unwrap();
    let status = answer.decision.sites[0].standing;
    assert_eq!(status, SiteStatus::Unknown);
    assert!(status.is_missing() && !status.always_closes());
}

#[test]
fn a_question_says_only_what_was_asked() {
    let mut query = GateQuery {
        environment: "dev".into(),
        commit: "45523f7016cb0ab7a4a34133d2addc78e5b838f6".into(),
        max_age_hours: None,
        quorum_percent: None,
        to: None,
        rules: None,
    };
    let path = "/api/v1/gate?environment=dev&commit=45523f7016cb0ab7a4a34133d2addc78e5b838f6";
    assert_eq!(query.path(), path);
    query.max_age_hours = Some(24);
    query.quorum_percent = Some(90);
    assert_eq!(
        query.path(),
        format!("{path}&max_age_hours=24&quorum_percent=90")
    );
}
