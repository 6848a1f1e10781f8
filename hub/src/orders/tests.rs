//! Orders as the hub sees them: only what a bundle brought, only for the enrolment that it names.

use outhaul_bundle::report::{EnrolmentRequest, Event};
use outhaul_signer::envelope::Envelope;
use outhaul_signer::key::SigningKey;
use proptest::prelude::*;

use super::*;
use crate::enrol;
use crate::fake::{FLEET, NEW, Site, TOKEN, name, stream};
use crate::ingest::{Batch, Ingested, ingest};
use crate::store::{Origin, Signed, Store};

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
            .write(|session| enrol::receive(session, &checked, Origin::FILE, 20))
    }

    fn order(&mut self, number: u64, token: &str, what: Instruction) {
        self.order_with(number, number, token, what);
    }

    /// An order that came with bundle `bundle`.
    fn order_with(&mut self, bundle: u64, number: u64, token: &str, what: Instruction) {
        let order = order(number, token, what);
        let carrier = Carrier {
            role: "s-dev-drone",
            number: bundle,
            signed: Signed {
                issued_ms: 30_000,
                signed_as: bundle,
                expires_ms: 90_000,
            },
        };
        self.store
            .write(|session| record(session, &[order], &carrier, FLEET, 30))
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
        request.kit = String::new();
        request.order = Some(1);
        let payload = serde_json::to_vec(&request).unwrap();
        let mut envelope = Envelope::sign(ENROLMENT_PAYLOAD_TYPE, payload, next);
        if both {
            envelope = envelope.countersigned(&self.site.key);
        }
        envelope.to_json()
    }
}

/// What an enrolment of `a` with the kit of this token is known by.
fn enrolment(token: &str) -> Digest {
    Site::new("a", "dev", "drone").enrolment(token)
}

fn order(number: u64, token: &str, what: Instruction) -> Order {
    Order {
        site: name("a"),
        number,
        enrolment: enrolment(token),
        what,
    }
}

fn done(site: &mut Site, token: &str, number: u64, what: &str) -> Vec<u8> {
    site.say(Event::OrderDone {
        number,
        what: what.to_owned(),
        message: String::new(),
        enrolment: Some(enrolment(token)),
    })
}

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
    assert_eq!((done.accepted, &*done.refused[0].rule), (0, "revoked"));
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
    let later = scene.site.report(Event::Started {
        agent_version: "0.1.0".to_owned(),
    });
    let by_old = scene.site.sign(&later);
    scene.site.key = next;
    let by_new = scene.site.sign(&report);
    assert_eq!(scene.take(&by_new).accepted, 1, "the epoch goes on");
    assert_eq!(scene.take(&second).accepted, 1, "a late stick of before");
    let refused = scene.take(&by_old);
    assert_eq!(refused.refused[0].rule, "epoch-key");
}

#[test]
fn a_site_that_reports_its_move_is_expected_in_its_new_stream_whichever_comes_first() {
    let to = stream("dev", "tractor");
    let what = Instruction::Move { to, first: 5 };
    for report_first in [false, true] {
        for named in [false, true] {
            let mut scene = Scene::registered();
            let report = if named {
                done(&mut scene.site, TOKEN, 1, "move")
            } else {
                scene.site.say(Event::OrderDone {
                    number: 1,
                    what: "move".to_owned(),
                    message: String::new(),
                    enrolment: None,
                })
            };
            if report_first {
                assert_eq!(scene.take(&report).accepted, 1);
                assert_eq!(scene.registration().unwrap().cluster_type, "drone");
                scene.order(1, TOKEN, what.clone());
            } else {
                scene.order(1, TOKEN, what.clone());
                assert_eq!(scene.registration().unwrap().cluster_type, "drone");
                assert_eq!(scene.take(&report).accepted, 1);
            }
            assert_eq!(scene.registration().unwrap().cluster_type, "tractor");
            // A stick from before the move is read again.
            let request = scene.site.request();
            assert_eq!(scene.receive(&request).unwrap(), Enrolled::Already);
            assert_eq!(scene.registration().unwrap().cluster_type, "tractor");
        }
    }
}

#[test]
fn a_move_that_an_earlier_enrolment_reported_moves_nobody() {
    let mut scene = Scene::registered();
    let to = stream("dev", "tractor");
    let report = done(&mut scene.site, "an earlier kit", 1, "move");
    scene.take(&report);
    scene.order(1, TOKEN, Instruction::Move { to, first: 5 });
    assert_eq!(scene.registration().unwrap().cluster_type, "drone");
}

#[test]
fn a_refused_order_moves_nobody() {
    let mut scene = Scene::registered();
    let to = stream("dev", "tractor");
    scene.order(1, TOKEN, Instruction::Move { to, first: 5 });
    let report = scene.site.say(Event::OrderRefused {
        number: 1,
        what: "move".to_owned(),
        message: String::new(),
        enrolment: Digest::of(TOKEN.as_bytes()),
    });
    assert_eq!(scene.take(&report).accepted, 1);
    assert_eq!(scene.registration().unwrap().cluster_type, "drone");
}

#[test]
fn a_request_for_a_new_key_that_comes_before_its_order_is_believed_when_the_order_comes() {
    let mut scene = Scene::registered();
    let next = SigningKey::generate().unwrap();
    let both = scene.rekey(&next, true);
    assert_eq!(scene.receive(&both).unwrap(), Enrolled::Waiting);
    scene.order(1, TOKEN, Instruction::Rekey);
    assert_eq!(scene.registration().unwrap().key_generation, 2);
    scene.site.key = next;
    let line = scene.site.started();
    assert_eq!(scene.take(&line).accepted, 1);
}

#[test]
fn a_request_of_a_replaced_key_that_is_read_again_brings_it_not_back() {
    let mut scene = Scene::waiting();
    let first = scene.site.request();
    let key = Digest::from_hex(&scene.site.key.public().id()).unwrap();
    scene.order(1, TOKEN, Instruction::Approve { key });
    scene.order(2, TOKEN, Instruction::Rekey);
    let next = SigningKey::generate().unwrap();
    let both = rekey_by(&scene.site, 2, &next);
    assert_eq!(scene.receive(&both).unwrap(), Enrolled::Rekeyed);
    assert_eq!(scene.receive(&first).unwrap(), Enrolled::Already);
    assert_eq!(scene.registration().unwrap().key_generation, 2);
    scene.site.key = next;
    let line = scene.site.started();
    assert_eq!(scene.take(&line).accepted, 1);
}

#[test]
fn a_revocation_holds_for_a_request_that_comes_after_it() {
    let mut scene = Scene {
        store: Store::in_memory().unwrap(),
        site: Site::new("a", "dev", "drone"),
    };
    let key = Digest::from_hex(&scene.site.key.public().id()).unwrap();
    scene.order(1, TOKEN, Instruction::Approve { key });
    scene.order(2, TOKEN, Instruction::Revoke);
    let request = scene.site.request();
    let refused = scene.receive(&request);
    assert!(matches!(refused, Err(EnrolError::Revoked { .. })));
    assert_eq!(scene.registration(), None);
    // Nor does the request that let it in once let it in again.
    let mut scene = Scene::registered();
    scene.order(
        1,
        TOKEN,
        Instruction::Approve {
            key: Digest::from_hex(&scene.site.key.public().id()).unwrap(),
        },
    );
    scene.order(2, TOKEN, Instruction::Revoke);
    let request = scene.site.request();
    let refused = scene.receive(&request);
    assert!(matches!(refused, Err(EnrolError::Revoked { .. })));
}

#[test]
fn a_site_with_a_new_kit_and_its_old_key_obeys_the_orders_of_the_new_enrolment() {
    let mut scene = Scene::registered();
    let key = Digest::from_hex(&scene.site.key.public().id()).unwrap();
    scene.order(1, TOKEN, Instruction::Approve { key });
    scene.order_with(2, 1, "a second kit", Instruction::Approve { key });
    scene.order_with(3, 2, "a second kit", Instruction::Revoke);
    let line = scene.site.started();
    assert_eq!(scene.take(&line).refused[0].rule, "revoked");
}

/// A request for `next` by order `number`, signed by the site's present key as well.
fn rekey_by(site: &Site, number: u64, next: &SigningKey) -> Vec<u8> {
    let envelope = Envelope::from_json(&site.request()).unwrap();
    let mut request: EnrolmentRequest =
        serde_json::from_slice(envelope.unverified_payload()).unwrap();
    request.public_key = next.public().to_pem();
    request.kit = String::new();
    request.order = Some(number);
    let payload = serde_json::to_vec(&request).unwrap();
    Envelope::sign(ENROLMENT_PAYLOAD_TYPE, payload, next)
        .countersigned(&site.key)
        .to_json()
}

/// What can reach a hub about one site that it knows: in whatever order, the end is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arrival {
    FirstRequestAgain,
    MoveOrder,
    MoveDone,
    RekeyOrder,
    RekeyRequest,
    SecondMove,
    SecondMoveDone,
}

proptest! {
    #[test]
    fn orders_requests_and_reports_have_the_same_end_in_any_order_of_arrival(
        order in Just(Vec::from([
            Arrival::FirstRequestAgain, Arrival::MoveOrder, Arrival::MoveDone, Arrival::RekeyOrder,
            Arrival::RekeyRequest, Arrival::SecondMove, Arrival::SecondMoveDone,
        ])).prop_shuffle(),
    ) {
        let mut scene = Scene::registered();
        let started = scene.site.started();
        scene.take(&started);
        let next = SigningKey::generate().unwrap();
        let first = scene.site.request();
        let rekey = rekey_by(&scene.site, 2, &next);
        let moved = |to: &str, first| Instruction::Move { to: stream("dev", to), first };
        let reports = [1, 3].map(|number| done(&mut scene.site, TOKEN, number, "move"));
        for arrival in order {
            match arrival {
                Arrival::MoveOrder => scene.order(1, TOKEN, moved("tractor", 5)),
                Arrival::RekeyOrder => scene.order(2, TOKEN, Instruction::Rekey),
                Arrival::SecondMove => scene.order(3, TOKEN, moved("press", 9)),
                Arrival::FirstRequestAgain => prop_assert_eq!(scene.receive(&first).unwrap(), Enrolled::Already),
                Arrival::RekeyRequest => prop_assert!(scene.receive(&rekey).is_ok()),
                Arrival::MoveDone => prop_assert_eq!(scene.take(&reports[0]).accepted, 1),
                Arrival::SecondMoveDone => prop_assert_eq!(scene.take(&reports[1]).accepted, 1),
            }
        }
        let end = scene.registration().unwrap();
        prop_assert_eq!((&end.cluster_type[..], end.key_generation), ("press", 2));
        let keys = scene.store.read(|session| session.site_keys("a")).unwrap();
        prop_assert_eq!(&keys[0].key_id, &next.public().id());
        prop_assert!(scene.store.read(|session| session.pending_requests(9)).unwrap().is_empty());
    }
}
