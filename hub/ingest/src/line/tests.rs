//! Who may report for a site without an agent.

use outhaul_bundle::report::{ClusterEvent, ClusterState, WebhookEvidence, WebhookSender};
use outhaul_enrol as enrol;
use outhaul_store::{Store, WebhookSite};
use outhaul_test_kit::Site;
use outhaul_test_kit::plain::{FLEET, NEW};

use super::*;
use crate::{Batch, Ingested, Intake, take_in};

fn take(store: &mut Store, line: &[u8], intake: Intake) -> Ingested {
    let batch = Batch {
        fleet: FLEET,
        via: "webhook",
        received_ms: 100,
    };
    take_in(store, line, &batch, intake).unwrap()
}

fn registered_by_webhook(store: &mut Store, site: &Site) {
    let webhook = WebhookSite {
        site: site.name.clone(),
        sender: "flux".to_owned(),
        salt: "1".to_owned(),
        settings: String::new(),
        shown: String::new(),
        registered_ms: 20,
        registered_by: "test".to_owned(),
    };
    let request = enrol::check(&site.request(), FLEET).unwrap();
    let registered = store.write(|session| {
        enrol::approve(session, &request, true, 20).unwrap();
        session.put_webhook_site(&webhook)
    });
    registered.unwrap();
}

fn synced(site: &Site, webhook: Option<WebhookEvidence>) -> ReportEvent {
    ReportEvent::Cluster(Box::new(ClusterEvent {
        stream: site.stream.clone(),
        reconciler: "flux".to_owned(),
        repository: "r".to_owned(),
        commit: None,
        snapshot: None,
        state: ClusterState::Synced,
        assignments: Vec::new(),
        message: String::new(),
        webhook,
    }))
}

fn mark() -> WebhookEvidence {
    WebhookEvidence {
        sender: WebhookSender::Flux,
        body: Digest::of(b"{}"),
        objects: Vec::new(),
        foreign_events: 0,
        foreign: Vec::new(),
    }
}

#[test]
fn attack_nobody_but_the_hub_reports_for_a_site_without_an_agent() {
    let mut agent = Site::new("a", "dev", "drone");
    let mut store = Store::in_memory().unwrap();
    let request = enrol::check(&agent.request(), FLEET).unwrap();
    store
        .write(|session| enrol::approve(session, &request, false, 10))
        .unwrap();
    let first = agent.active(1, NEW);
    assert_eq!(take(&mut store, &first, Intake::new(None)).accepted, 1);
    let mut hub = Site::new("a", "dev", "drone");
    hub.forget("webhook-1");
    registered_by_webhook(&mut store, &hub);

    // The agent's key still exists on that machine: its own numbering goes no further.
    let refused = |store: &mut Store, line: &[u8], intake: Intake| {
        let done = take(store, line, intake);
        assert_eq!(done.accepted, 0);
        done.refused[0].rule.to_string()
    };
    let second = agent.active(2, NEW);
    assert_eq!(
        refused(&mut store, &second, Intake::new(None)),
        "retired-key"
    );
    // Not even with the key that the hub has, and not with a mark that anybody may write.
    for event in [synced(&hub, None), synced(&hub, Some(mark()))] {
        let report = hub.report(event);
        let line = hub.sign(&report);
        assert_eq!(
            refused(&mut store, &line, Intake::new(None)),
            "webhook-site"
        );
        hub.forget("webhook-1");
    }
    // And the hub marks what it makes.
    let report = hub.report(synced(&hub, None));
    let line = hub.sign(&report);
    assert_eq!(
        refused(&mut store, &line, Intake::of_webhooks()),
        "webhook-site"
    );
    hub.forget("webhook-1");
    let report = hub.report(synced(&hub, Some(mark())));
    let line = hub.sign(&report);
    assert_eq!(take(&mut store, &line, Intake::of_webhooks()).accepted, 1);
    // What is on record stays known.
    for known in [&line, &first] {
        assert_eq!(take(&mut store, known, Intake::new(None)).duplicates, 1);
    }
    // With an agent it is a site like any other.
    let mut again = Site::new("a", "dev", "drone");
    again.forget("e2");
    let request = enrol::check(&again.request(), FLEET).unwrap();
    store
        .write(|session| enrol::approve(session, &request, true, 30))
        .unwrap();
    assert_eq!(
        take(&mut store, &again.active(1, NEW), Intake::new(None)).accepted,
        1
    );
}
