//! What a site shows after events in any order, and which of them are refused.

use outhaul_bundle::Digest;
use outhaul_test_kit::plain::{self, NEW};

use super::*;

const NOW: i64 = 1_790_000_000_000;
const PLATFORM: &str = "Kustomization/flux-system/platform";
const EXTRA: &str = "HelmRelease/ingress/nginx";

fn settings() -> WebhookSettings {
    WebhookSettings {
        stream: plain::stream("dev", "drone"),
        repository: "https://git.example/platform".to_owned(),
        record: "https://git.example/{commit}".to_owned(),
        ca: None,
        objects: [format!("{PLATFORM}=drone"), EXTRA.to_owned()]
            .iter()
            .map(|text| text.parse().unwrap())
            .collect(),
        silence_hours: 24,
    }
}

fn event(object: &str, status: ObjectStatus, second: i64) -> WebhookEvent {
    let at_ms = NOW + second * 1000;
    WebhookEvent {
        site: "a".to_owned(),
        object: object.to_owned(),
        status,
        goes_on: false,
        commit: (object == PLATFORM).then(|| NEW.to_owned()),
        repository: None,
        message: format!("{status:?}"),
        at_ms,
        body: Digest::of(format!("{object} {status:?} {at_ms}").as_bytes()),
    }
}

fn record(environment: &str, names: &[&str]) -> KnownRecord {
    KnownRecord {
        commit: NEW.to_owned(),
        environment: environment.to_owned(),
        snapshot: plain::snapshot(NEW),
        assignments: names.iter().map(|name| (*name).to_owned()).collect(),
    }
}

fn cluster(shown: &Shown, record: &KnownRecord, now_ms: i64) -> ClusterEvent {
    let last = event(PLATFORM, ObjectStatus::Ready, 0);
    shown.cluster(
        WebhookSender::Flux,
        &settings(),
        &last,
        Ok(Some(record)),
        now_ms,
    )
}

/// The state after events, and each one's change.
fn after(events: &[WebhookEvent]) -> (ClusterEvent, Vec<Change>) {
    let mut shown = Shown::default();
    let changes = events.iter().map(|one| shown.take(&settings(), one));
    let changes = changes.collect();
    let known = record("dev", &["camera-functional", "maps-uat"]);
    (cluster(&shown, &known, NOW), changes)
}

use ObjectStatus::{Failed, InProgress, Ready};

#[test]
fn a_site_is_in_sync_when_each_object_is_ready_and_not_before() {
    let (made, _) = after(&[event(PLATFORM, Ready, 0)]);
    assert_eq!(made.state, ClusterState::InProgress);
    assert!(
        made.message.contains("nginx: no event of it came"),
        "{}",
        made.message
    );
    let (made, _) = after(&[event(PLATFORM, Ready, 0), event(EXTRA, Ready, 0)]);
    assert_eq!(
        (made.state, made.commit.as_deref()),
        (ClusterState::Synced, Some(NEW))
    );
    assert_eq!(made.base_commit(), NEW);
    assert!(
        made.assignments
            .iter()
            .all(|one| one.status == ComplianceStatus::Compliant)
    );
    assert_eq!(made.assignments.len(), 2);
    let (made, _) = after(&[event(PLATFORM, Ready, 0), event(EXTRA, Failed, 0)]);
    assert_eq!(made.state, ClusterState::Failing);
    let (made, _) = after(&[event(EXTRA, Ready, 0)]);
    assert_eq!(made.state, ClusterState::InProgress);
    assert!(
        made.message.contains("no object states a commit"),
        "{}",
        made.message
    );
}

#[test]
fn the_newest_event_counts_once_and_a_failure_wins_its_second() {
    let ready = event(PLATFORM, Ready, 5);
    let (_, changes) = after(&[ready.clone(), ready.clone(), event(PLATFORM, Failed, 4)]);
    assert_eq!(changes, [Change::Object, Change::Known, Change::Known]);
    for both in [
        [event(PLATFORM, Failed, 5), ready.clone()],
        [ready.clone(), event(PLATFORM, Failed, 5)],
    ] {
        assert_eq!(after(&both).0.state, ClusterState::Failing);
    }
    // Also at another commit, or where the failure names none.
    let mut other = event(PLATFORM, Failed, 5);
    for commit in [Some("9".repeat(40)), None] {
        other.commit = commit;
        for both in [
            [other.clone(), ready.clone()],
            [ready.clone(), other.clone()],
        ] {
            let made = after(&both).0;
            assert!(made.state >= ClusterState::Failing, "{:?}", made.state);
            assert_eq!(made.webhook.unwrap().objects[0].status, Failed);
        }
    }
    // A late "under way" of the same second does not take success back; one of later does.
    let of_same = event(PLATFORM, InProgress, 5);
    let others = event(EXTRA, Ready, 0);
    let (made, _) = after(&[others.clone(), ready.clone(), of_same]);
    assert_eq!(made.state, ClusterState::Synced);
    let (made, _) = after(&[
        others.clone(),
        ready.clone(),
        event(PLATFORM, InProgress, 6),
    ]);
    assert_eq!(made.state, ClusterState::InProgress);
    let mut goes_on = event(PLATFORM, InProgress, 6);
    goes_on.goes_on = true;
    let (made, _) = after(&[others.clone(), ready.clone(), goes_on.clone()]);
    assert_eq!(made.state, ClusterState::Synced);
    goes_on.commit = Some("9".repeat(40));
    assert_ne!(
        after(&[others, ready, goes_on]).0.state,
        ClusterState::Synced
    );
}

#[test]
fn a_foreign_object_is_named_and_counted_and_changes_nothing() {
    let foreign = event("Kustomization/flux-system/other", Failed, 9);
    let mut elsewhere = event(PLATFORM, Failed, 9);
    elsewhere.repository = Some("https://git.example/another".to_owned());
    let ready = [event(PLATFORM, Ready, 0), event(EXTRA, Ready, 0)];
    let (made, changes) = after(&[&ready[..], &[foreign, elsewhere]].concat());
    assert_eq!(changes[2..], [Change::Foreign, Change::Foreign]);
    assert_eq!(made.state, ClusterState::Synced);
    let evidence = made.webhook.unwrap();
    assert_eq!(evidence.foreign_events, 2);
    assert_eq!(
        evidence.foreign,
        ["Kustomization/flux-system/other", PLATFORM]
    );
    let mut shown = Shown::default();
    for number in 0..100 {
        let name = format!("Kustomization/x/{number}");
        shown.take(&settings(), &event(&name, Failed, number));
    }
    assert_eq!(
        (shown.foreign_events, shown.foreign.len()),
        (100, MAX_FOREIGN)
    );
}

#[test]
fn what_is_silent_at_several_commits_or_of_another_environment_is_not_in_sync() {
    let mut shown = Shown::default();
    shown.take(&settings(), &event(PLATFORM, Ready, 0));
    shown.take(&settings(), &event(EXTRA, Ready, 0));
    let known = record("dev", &["camera-functional"]);
    let state = |shown: &Shown, record: &KnownRecord, now_ms| cluster(shown, record, now_ms).state;
    assert_eq!(
        state(&shown, &known, NOW + 24 * HOUR_MS),
        ClusterState::Synced
    );
    assert_eq!(
        state(&shown, &known, NOW + 25 * HOUR_MS),
        ClusterState::Stale
    );
    // Of a release there are no events while nothing is done to it.
    let mut release = shown.clone();
    release.take(&settings(), &event(PLATFORM, Ready, 25 * 3600));
    assert_eq!(
        state(&release, &known, NOW + 25 * HOUR_MS),
        ClusterState::Synced
    );
    assert_eq!(
        state(&shown, &record("stage", &["a"]), NOW),
        ClusterState::Absent
    );
    assert_eq!(
        state(&shown, &record("dev", &[]), NOW),
        ClusterState::Absent
    );
    assert_eq!(
        state(&shown, &record("dev", &["../x"]), NOW),
        ClusterState::Failing
    );
    let last = event(PLATFORM, Ready, 0);
    let made = shown.cluster(WebhookSender::Flux, &settings(), &last, Err("gone"), NOW);
    assert_eq!(
        (made.state, made.snapshot),
        (ClusterState::Unreachable, None)
    );
    let mut other = event(EXTRA, Ready, 7);
    other.commit = Some("9".repeat(40));
    shown.take(&settings(), &other);
    assert_eq!(state(&shown, &known, NOW), ClusterState::OtherRevision);
    // What no registered object applies has failed.
    let mut narrow = settings();
    narrow.objects[0].path = Some("drone/camera-functional".to_owned());
    let mut shown = Shown::default();
    shown.take(&narrow, &event(PLATFORM, Ready, 0));
    shown.take(&narrow, &event(EXTRA, Ready, 0));
    let known = record("dev", &["camera-functional", "maps-uat"]);
    let made = shown.cluster(WebhookSender::Flux, &narrow, &last, Ok(Some(&known)), NOW);
    let status: Vec<_> = made.assignments.iter().map(|one| one.status).collect();
    assert_eq!(
        status,
        [ComplianceStatus::Compliant, ComplianceStatus::Failed]
    );
}

#[test]
fn events_of_another_site_or_another_time_are_refused() {
    let one = event(PLATFORM, Ready, 0);
    let rule = |site: &str, now_ms| check(site, &one, now_ms).map_err(|refused| refused.rule);
    assert_eq!(rule("a", NOW), Ok(()));
    assert_eq!(rule("b", NOW), Err("other-site"));
    assert_eq!(rule("a", NOW + LATE_MS), Ok(()));
    assert_eq!(rule("a", NOW + LATE_MS + 1), Err("old"));
    assert_eq!(rule("a", NOW - AHEAD_MS), Ok(()));
    assert_eq!(rule("a", NOW - AHEAD_MS - 1), Err("future"));
    // An hour ahead would keep out what is true for an hour.
    assert_eq!(rule("a", NOW - HOUR_MS), Err("future"));
}

#[test]
fn what_does_not_fit_into_a_report_is_a_failure_with_its_commit() {
    let (mut made, _) = after(&[event(PLATFORM, Ready, 0), event(EXTRA, Ready, 0)]);
    without_details(&mut made);
    assert_eq!(
        (made.state, made.snapshot.is_none(), made.assignments.len()),
        (ClusterState::Failing, true, 0)
    );
    assert_eq!(made.base_commit(), NEW);
    assert!(
        made.message.contains("more than a report"),
        "{}",
        made.message
    );
}

#[test]
fn what_is_kept_reads_back() {
    let mut shown = Shown::default();
    shown.take(&settings(), &event(PLATFORM, Failed, 0));
    shown.record = Some(record("dev", &["a"]));
    let text = serde_json::to_string(&shown).unwrap();
    assert_eq!(Shown::from_text(&text).unwrap(), shown);
    assert_eq!(Shown::from_text("").unwrap(), Shown::default());
}
