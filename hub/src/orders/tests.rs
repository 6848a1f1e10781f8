//! Orders as the hub sees them: only what a bundle brought, only for the enrolment that it names.

use outhaul_bundle::report::{EnrolmentRequest, Event};
use outhaul_signer::envelope::Envelope;
use outhaul_signer::key::SigningKey;

use super::*;
use crate::fake::{FLEET, NEW, Site, name, stream};
use crate::ingest::{Batch, Ingested, ingest};
use crate::store::Store;

struct Scene {
    store: Store,
    site: Site,
}

impl Scene {
    /// A hub at which `a` waits for approval.
    fn waiting() -> Self {
        let mut scene = Self {
            store: Store::in_memory().unwrap(),
            site: Site::new("a", "dev", "drone"),
        };
        let request = scene.site.request();
        assert_eq!(scene.receive(&request).unwrap(), Enrolled::Waiting);
        scene
    }

    /// A hub at which `a` is registered.
    fn registered() -> Self {
        let mut scene = Self::waiting();
        let checked = enrol::check(&scene.site.request(), FLEET).unwrap();
        let approved = scene
            .store
            .write(|session| enrol::approve(session, &checked, false, 10));
        assert_eq!(approved.unwrap(), Enrolled::Registered);
        scene
    }

    fn receive(&mut self, request: &[u8]) -> Result<Enrolled, EnrolError> {
        let checked = enrol::check(request, FLEET)?;
        self.store
            .write(|session| enrol::receive(session, &checked, 20))
    }

    fn order(&mut self, number: u64, token: &str, what: Instruction) {
        let order = Order {
            site: name("a"),
            number,
            enrolment: Digest::of(token.as_bytes()),
            what,
        };
        self.store
            .write(|session| record(session, &[order], FLEET, 30))
            .unwrap();
    }

    fn take(&mut self, line: &[u8]) -> Ingested {
        let batch = Batch {
            fleet: FLEET,
            via: "stick.reports",
            received_ms: 100,
        };
        ingest(&mut self.store, line, &batch).unwrap()
    }

    fn registration(&mut self) -> Option<Registration> {
        self.store.read(|session| session.site("a")).unwrap()
    }

    /// A request for a new key by order 1, signed by it and, if so, by the present key.
    fn rekey(&self, next: &SigningKey, both: bool) -> Vec<u8> {
        let envelope = Envelope::from_json(&self.site.request()).unwrap();
        let mut request: EnrolmentRequest =
            serde_json::from_slice(envelope.unverified_payload()).unwrap();
        request.public_key = next.public().to_pem();
        request.token = String::new();
        request.order = Some(1);
        let payload = serde_json::to_vec(&request).unwrap();
        let mut envelope = Envelope::sign(ENROLMENT_PAYLOAD_TYPE, payload, next);
        if both {
            envelope = envelope.countersigned(&self.site.key);
        }
        envelope.to_json()
    }
}

const TOKEN: &str = "one-time-token";

#[test]
fn an_approval_in_a_bundle_lets_the_waiting_site_in_whichever_comes_first() {
    let mut scene = Scene::waiting();
    let key = Digest::from_hex(&scene.site.key.public().id()).unwrap();
    let stranger = Digest::of(b"another key");
    scene.order(1, TOKEN, Instruction::Approve { key: stranger });
    assert_eq!(scene.registration(), None);
    scene.order(2, TOKEN, Instruction::Approve { key });
    assert!(scene.registration().is_some());

    let mut late = Scene {
        store: Store::in_memory().unwrap(),
        site: Site::new("a", "dev", "drone"),
    };
    let key = Digest::from_hex(&late.site.key.public().id()).unwrap();
    late.order(1, TOKEN, Instruction::Approve { key });
    let request = late.site.request();
    assert_eq!(late.receive(&request).unwrap(), Enrolled::Registered);
}

#[test]
fn a_revoked_site_s_reports_are_refused_from_then_on_and_an_old_order_revokes_nobody() {
    let mut scene = Scene::registered();
    scene.order(1, "the token of an earlier kit", Instruction::Revoke);
    let line = scene.site.active(1, NEW);
    assert_eq!(scene.take(&line).accepted, 1);
    scene.order(1, TOKEN, Instruction::Revoke);
    let line = scene.site.active(2, NEW);
    let done = scene.take(&line);
    assert_eq!((done.accepted, done.refused[0].rule), (0, "revoked"));
}

#[test]
fn an_ordered_new_key_that_the_old_one_vouches_for_needs_no_person() {
    let mut scene = Scene::registered();
    let next = SigningKey::generate().unwrap();
    scene.order(1, TOKEN, Instruction::Rekey);
    let alone = scene.rekey(&next, false);
    assert!(matches!(
        scene.receive(&alone),
        Err(EnrolError::OtherKey { .. })
    ));
    let both = scene.rekey(&next, true);
    assert_eq!(scene.receive(&both).unwrap(), Enrolled::Rekeyed);
}

#[test]
fn a_new_key_without_an_order_waits_for_a_person() {
    let mut scene = Scene::registered();
    let next = SigningKey::generate().unwrap();
    let both = scene.rekey(&next, true);
    assert_eq!(scene.receive(&both).unwrap(), Enrolled::Waiting);
}

#[test]
fn after_a_new_key_the_old_one_signs_only_what_came_before() {
    let mut scene = Scene::registered();
    let next = SigningKey::generate().unwrap();
    let (first, second) = (scene.site.started(), scene.site.started());
    assert_eq!(scene.take(&first).accepted, 1);
    scene.order(1, TOKEN, Instruction::Rekey);
    let both = scene.rekey(&next, true);
    scene.receive(&both).unwrap();
    let report = scene.site.report(Event::Started {
        agent_version: "0.1.0".to_owned(),
    });
    let by_old = scene.site.sign(&report);
    scene.site.key = next;
    let by_new = scene.site.sign(&report);
    assert_eq!(scene.take(&by_new).accepted, 1, "the epoch goes on");
    assert_eq!(scene.take(&second).accepted, 1, "a late stick of before");
    let refused = scene.take(&by_old);
    assert_eq!(refused.refused[0].rule, "epoch-key");
}

#[test]
fn a_site_that_reports_its_move_is_expected_in_its_new_stream() {
    let mut scene = Scene::registered();
    let to = stream("dev", "tractor");
    let moved = |site: &mut Site| {
        site.say(Event::OrderDone {
            number: 1,
            what: "move".to_owned(),
            message: String::new(),
        })
    };
    let unordered = moved(&mut scene.site);
    scene.take(&unordered);
    assert_eq!(scene.registration().unwrap().cluster_type, "drone");
    scene.order(1, TOKEN, Instruction::Move { to, first: 5 });
    let ordered = moved(&mut scene.site);
    assert_eq!(scene.take(&ordered).accepted, 1);
    assert_eq!(scene.registration().unwrap().cluster_type, "tractor");
}
