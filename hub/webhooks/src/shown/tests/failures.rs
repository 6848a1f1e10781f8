//! What ends a failure, and what hides none.
//!
//! What comes in: events of which one is a failure, and records that cannot be read or are of something else. What must come out: a
//! cluster that fails until the same object succeeds, the reason of the failure first.

use super::*;

#[test]
fn a_failure_ends_with_a_success_of_the_same_object_alone() {
    let failed = [event(PLATFORM, Failed, 1), event(EXTRA, Failed, 1)];
    let mut of_other = event(PLATFORM, InProgress, 2);
    of_other.commit = Some("9".repeat(40));
    for more in [
        event(PLATFORM, InProgress, 2),
        of_other,
        event(EXTRA, Ready, 2),
    ] {
        let (made, changes) = after(&[&failed[..], &[more]].concat());
        assert_eq!(changes[2], Change::Object);
        assert_eq!(made.state, ClusterState::Failing, "{}", made.message);
        assert!(
            made.message.starts_with(&format!("{PLATFORM}: Failed")),
            "{}",
            made.message
        );
    }
    // Controllers state both in one second: that they began, and that they succeeded.
    let well = [
        event(PLATFORM, InProgress, 2),
        event(PLATFORM, Ready, 2),
        event(EXTRA, Ready, 2),
    ];
    let (made, _) = after(&[&failed[..], &well].concat());
    assert_eq!(made.state, ClusterState::Synced, "{}", made.message);
}

#[test]
fn a_failure_that_came_late_says_so_and_a_new_event_replaces_it() {
    let events = [event(PLATFORM, Ready, 9), event(PLATFORM, Failed, 4)];
    let (made, _) = after(&events);
    let words = "this failure came late, and is 5 s older than an event that came before it";
    let command = "`flux reconcile kustomization platform -n flux-system`";
    for part in [words, command, "Failed"] {
        assert!(made.message.contains(part), "{part}: {}", made.message);
    }
    assert_eq!(made.state, ClusterState::Failing);
    // One in order has the controller's words alone.
    let (made, _) = after(&[event(PLATFORM, Ready, 4), event(PLATFORM, Failed, 9)]);
    assert!(!made.message.contains("late"), "{}", made.message);
    let (made, _) = after(&[&events[..], &[event(PLATFORM, Ready, 10)]].concat());
    assert_eq!(made.webhook.unwrap().objects[0].status, Ready);
}

#[test]
fn a_failure_stays_one_whatever_is_not_known_besides_and_its_reason_comes_first() {
    let mut shown = Shown::default();
    shown.take(&settings(), &event(EXTRA, InProgress, 0), LATER);
    shown.take(&settings(), &event(PLATFORM, Failed, 0), LATER);
    let known = record("dev", &["camera-functional"]);
    let (foreign, empty) = (record("stage", &["a"]), record("dev", &[]));
    let invalid = record("dev", &["../x"]);
    let unknown = Compared::Unknown("no bundle".to_owned());
    let last = event(PLATFORM, Failed, 0);
    for (record, besides) in [
        (Err("gone"), "cannot be read: gone"),
        (Ok(None), "was not read"),
        (Ok(Some((&foreign, &Compared::Same))), "environment `stage`"),
        (Ok(Some((&empty, &Compared::Same))), "holds nothing"),
        (Ok(Some((&invalid, &Compared::Same))), "not a valid name"),
        (Ok(Some((&known, &unknown))), "no bundle"),
    ] {
        let made = shown.cluster(WebhookSender::Flux, &settings(), &last, record, NOW);
        assert_eq!(made.state, ClusterState::Failing, "{besides}");
        let message = &made.message;
        assert!(
            message.starts_with(&format!("{PLATFORM}: Failed; "))
                && message.contains("nginx: InProgress")
                && message.contains(besides),
            "{besides}: {message}"
        );
    }
    // Of several commits too.
    let mut other = event(EXTRA, Ready, 7);
    other.commit = Some("9".repeat(40));
    shown.take(&settings(), &other, LATER);
    let made = cluster(&shown, &known, NOW);
    assert_eq!(made.state, ClusterState::Failing);
    assert!(
        made.message
            .starts_with(&format!("{PLATFORM}: Failed; several"))
    );
}
