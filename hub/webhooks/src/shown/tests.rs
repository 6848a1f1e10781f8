//! What a site shows after events in any order, and which of them are refused.

use outhaul_bundle::Digest;
use outhaul_bundle::report::{ClusterEvent, ClusterState, ComplianceStatus, WebhookSender};
use outhaul_test_kit::plain::{self, NEW};

use super::*;
use crate::cluster::without_details;
use crate::record::Compared;

const NOW: i64 = 1_790_000_000_000;
/// When the events of these tests came, unless a test has its own time: none is dated ahead of it.
const SOON: i64 = NOW + 600_000;
/// The same of events that are dated further apart than one counts for.
const LATER: i64 = NOW + 48 * HOUR_MS;
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
        path: None,
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
        contents: names
            .iter()
            .map(|name| ((*name).to_owned(), Digest::of(b"")))
            .collect(),
        same_as: None,
        other_than: None,
    }
}

fn cluster(shown: &Shown, record: &KnownRecord, now_ms: i64) -> ClusterEvent {
    let last = event(PLATFORM, ObjectStatus::Ready, 0);
    shown.cluster(
        WebhookSender::Flux,
        &settings(),
        &last,
        Ok(Some((record, &Compared::Same))),
        now_ms,
    )
}

/// The state after events, and each one's change.
fn after(events: &[WebhookEvent]) -> (ClusterEvent, Vec<Change>) {
    let mut shown = Shown::default();
    let changes = events.iter().map(|one| shown.take(&settings(), one, SOON));
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
    assert_eq!(changes, [Change::Object, Change::Known, Change::Object]);
    // An older success changes nothing, and an older failure counts once.
    let late = event(PLATFORM, Failed, 4);
    let (made, changes) = after(&[late.clone(), ready.clone(), late, event(PLATFORM, Ready, 3)]);
    assert_eq!(changes[1..], [Change::Object, Change::Known, Change::Known]);
    assert_eq!(made.webhook.unwrap().objects[0].status, Ready);
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
fn attack_an_event_that_is_dated_ahead_keeps_out_no_event_that_comes_after_it() {
    let came = NOW + 60_000;
    // The cluster's clock is a minute behind the hub's, and one event is dated as far ahead as may be.
    let ahead = event(PLATFORM, Ready, 60 + 290);
    let failed = event(PLATFORM, Failed, 5);
    let mut shown = Shown::default();
    shown.take(&settings(), &event(EXTRA, Ready, 0), came);
    assert_eq!(shown.take(&settings(), &ahead, came), Change::Object);
    let known = record("dev", &["camera-functional"]);
    assert_eq!(cluster(&shown, &known, came).state, ClusterState::Synced);
    assert_eq!(
        shown.take(&settings(), &failed, came + 5_000),
        Change::Object
    );
    assert_eq!(cluster(&shown, &known, came).state, ClusterState::Failing);
    // Neither of the two counts again, and the next success does.
    for replayed in [&failed, &ahead] {
        let change = shown.take(&settings(), replayed, came + 200_000);
        assert_eq!(change, Change::Known);
    }
    let next = event(PLATFORM, Ready, 90);
    assert_eq!(
        shown.take(&settings(), &next, came + 31_000),
        Change::Object
    );
    assert_eq!(cluster(&shown, &known, came).state, ClusterState::Synced);
    // What is under way, dated by a clock that is right, comes after one that was dated ahead.
    let ahead = event(PLATFORM, Ready, 60 + 400);
    shown.take(&settings(), &ahead, came + 120_000);
    let busy = event(PLATFORM, InProgress, 60 + 121);
    assert_eq!(
        shown.take(&settings(), &busy, came + 122_000),
        Change::Object
    );
}

#[test]
fn attack_the_bodies_of_one_second_are_not_forgotten_by_their_number() {
    let mut shown = Shown::default();
    let of = |number: usize| {
        let mut one = event(PLATFORM, Ready, 5);
        one.body = Digest::of(number.to_string().as_bytes());
        one
    };
    for number in 0..100 {
        assert_eq!(shown.take(&settings(), &of(number), SOON), Change::Object);
    }
    for number in [0, 1, 67, 68, 99] {
        assert_eq!(shown.take(&settings(), &of(number), SOON), Change::Known);
    }
    assert_eq!(shown.object(PLATFORM).bodies.len(), MAX_BODIES);
}

#[test]
fn attack_a_registered_object_that_follows_something_else_takes_the_site_out_of_sync() {
    let ready = [event(PLATFORM, Ready, 0), event(EXTRA, Ready, 0)];
    let other = |repository: &str, path: &str| {
        let mut one = event(PLATFORM, Ready, 9);
        one.repository = (!repository.is_empty()).then(|| repository.to_owned());
        one.path = (!path.is_empty()).then(|| path.to_owned());
        let (made, changes) = after(&[&ready[..], &[one]].concat());
        assert_eq!(changes[2], Change::Object, "{repository} {path}");
        made
    };
    let made = other("https://git.example/another", "");
    assert_eq!(made.state, ClusterState::Failing);
    let says = "follows another repository, `https://git.example/another`, and this site was registered with `https://git.example/platform`";
    assert!(made.message.contains(says), "{}", made.message);
    assert_eq!(made.webhook.unwrap().foreign_events, 0);
    let made = other("https://git.example/platform", "drone/maps-uat");
    assert_eq!(made.state, ClusterState::Failing);
    let says = "applies `drone/maps-uat` of the repository, and was registered with `drone`";
    assert!(made.message.contains(says), "{}", made.message);
    for (same, path) in [
        ("https://GIT.example:443/platform.git/", "./drone/"),
        ("https://bot@git.example/platform", "drone"),
        ("https://git.example/platform/", ""),
    ] {
        assert_eq!(other(same, path).state, ClusterState::Synced, "{same}");
    }
}

#[test]
fn a_foreign_object_is_named_and_counted_and_changes_nothing() {
    let foreign = event("Kustomization/flux-system/other", Failed, 9);
    let ready = [event(PLATFORM, Ready, 0), event(EXTRA, Ready, 0)];
    let (made, changes) = after(&[&ready[..], &[foreign]].concat());
    assert_eq!(changes[2..], [Change::Foreign]);
    assert_eq!(made.state, ClusterState::Synced);
    let evidence = made.webhook.unwrap();
    assert_eq!(evidence.foreign_events, 1);
    assert_eq!(evidence.foreign, ["Kustomization/flux-system/other"]);
    let mut shown = Shown::default();
    for number in 0..100 {
        let name = format!("Kustomization/x/{number}");
        shown.take(&settings(), &event(&name, Failed, number), LATER);
    }
    assert_eq!(
        (shown.foreign_events, shown.foreign.len()),
        (100, MAX_FOREIGN)
    );
}

#[test]
fn what_is_silent_at_several_commits_or_of_another_environment_is_not_in_sync() {
    let mut shown = Shown::default();
    shown.take(&settings(), &event(PLATFORM, Ready, 0), LATER);
    shown.take(&settings(), &event(EXTRA, Ready, 0), LATER);
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
    release.take(&settings(), &event(PLATFORM, Ready, 25 * 3600), LATER);
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
    shown.take(&settings(), &other, LATER);
    assert_eq!(state(&shown, &known, NOW), ClusterState::OtherRevision);
    // What no registered object applies has failed.
    let mut narrow = settings();
    narrow.objects[0].path = Some("drone/camera-functional".to_owned());
    let mut shown = Shown::default();
    shown.take(&narrow, &event(PLATFORM, Ready, 0), LATER);
    shown.take(&narrow, &event(EXTRA, Ready, 0), LATER);
    let known = record("dev", &["camera-functional", "maps-uat"]);
    let made = shown.cluster(
        WebhookSender::Flux,
        &narrow,
        &last,
        Ok(Some((&known, &Compared::Same))),
        NOW,
    );
    let status: Vec<_> = made.assignments.iter().map(|one| one.status).collect();
    assert_eq!(
        status,
        [ComplianceStatus::Compliant, ComplianceStatus::Failed]
    );
    assert_eq!(made.state, ClusterState::Failing);
    assert!(
        made.message
            .contains("no registered object applies `drone/maps-uat`"),
        "{}",
        made.message
    );
    // What an object applies is nothing of the platform's.
    let mut beside = settings();
    let more = "Kustomization/flux-system/more=drone/none".parse();
    beside.objects.push(more.unwrap());
    shown.take(
        &beside,
        &event("Kustomization/flux-system/more", Ready, 0),
        LATER,
    );
    let made = shown.cluster(
        WebhookSender::Flux,
        &beside,
        &last,
        Ok(Some((&known, &Compared::Same))),
        NOW,
    );
    assert_eq!(made.state, ClusterState::Absent);
    assert!(
        made.message
            .contains("more applies `drone/none`, in which the commit holds nothing"),
        "{}",
        made.message
    );
}

#[test]
fn attack_a_record_that_is_not_of_a_signed_bundle_is_not_in_sync() {
    let mut shown = Shown::default();
    shown.take(&settings(), &event(PLATFORM, Ready, 0), LATER);
    shown.take(&settings(), &event(EXTRA, Ready, 0), LATER);
    let known = record("dev", &["camera-functional"]);
    let last = event(PLATFORM, Ready, 0);
    let made = |compared: Compared| {
        let record = Ok(Some((&known, &compared)));
        shown.cluster(WebhookSender::Flux, &settings(), &last, record, NOW)
    };
    let differs = made(Compared::Differs("other files".to_owned()));
    assert_eq!(
        (differs.state, differs.snapshot),
        (ClusterState::Failing, None)
    );
    assert!(
        differs
            .message
            .ends_with("not of what was signed: other files"),
        "{}",
        differs.message
    );
    let unknown = made(Compared::Unknown("no bundle".to_owned()));
    assert_eq!(
        (unknown.state, unknown.message.as_str()),
        (ClusterState::InProgress, "no bundle")
    );
}

#[test]
fn events_of_another_site_or_another_time_are_refused() {
    let one = event(PLATFORM, Ready, 0);
    let rule = |site: &str, now_ms| {
        let checked = check(site, one.clone(), now_ms).map(drop);
        checked.map_err(|refused| refused.rule)
    };
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
    shown.take(&settings(), &event(PLATFORM, Failed, 0), LATER);
    shown.record = Some(record("dev", &["a"]));
    let text = serde_json::to_string(&shown).unwrap();
    assert_eq!(Shown::from_text(&text).unwrap(), shown);
    assert_eq!(Shown::from_text("").unwrap(), Shown::default());
}

mod failures;
