//! Orders as the hub sees them: only what a bundle brought, only for the enrolment that it names.

use outhaul_bundle::report::{ENROLMENT_PAYLOAD_TYPE, EnrolmentRequest, ReportEvent};
use outhaul_signer::envelope::Envelope;
use outhaul_signer::key::SigningKey;
use outhaul_test_kit::plain::{FLEET, NEW, name, stream};
use outhaul_test_kit::{Site, TOKEN};
use proptest::prelude::*;

use crate::enrol::orders::*;
use crate::enrol::{self, EnrolError, Enrolled};
use crate::ingest::{Batch, Ingested, ingest};
use crate::store::{Carrier, Registration, RequestOrigin, Signed, Store};
use outhaul_bundle::{Digest, Instruction, Order};

struct Fixture {
    store: Store,
    site: Site,
}

impl Fixture {
    /// A hub at which `a` waits for approval.
    fn waiting() -> Self {
        let mut fixture = Self {
            store: crate::stored::empty(),
            site: Site::new("a", "dev", "drone"),
        };
        let request = fixture.site.request();
        assert_eq!(fixture.receive(&request).unwrap(), Enrolled::Waiting);
        fixture
    }

    /// A hub at which `a` is registered.
    fn registered() -> Self {
        let mut fixture = Self::waiting();
        let checked = enrol::check(&fixture.site.request(), FLEET).unwrap();
        let approved = fixture
            .store
            .write(|session| enrol::approve(session, &checked, false, 10));
        assert_eq!(approved.unwrap(), Enrolled::Registered);
        fixture
    }

    fn receive(&mut self, request: &[u8]) -> Result<Enrolled, EnrolError> {
        let checked = enrol::check(request, FLEET)?;
        self.store
            .write(|session| enrol::receive(session, &checked, RequestOrigin::FILE, 20))
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
    site.say(ReportEvent::OrderDone {
        number,
        what: what.to_owned(),
        message: String::new(),
        enrolment: Some(enrolment(token)),
    })
}

#[test]
fn an_approval_in_a_bundle_lets_the_waiting_site_in_whichever_comes_first() {
    let mut fixture = Fixture::waiting();
    let key = Digest::from_hex(&fixture.site.key.public().id()).unwrap();
    let stranger = Digest::of(b"another key");
    fixture.order(1, TOKEN, Instruction::Approve { key: stranger });
    assert_eq!(fixture.registration(), None);
    fixture.order(2, TOKEN, Instruction::Approve { key });
    assert!(fixture.registration().is_some());

    let mut late = Fixture {
        store: crate::stored::empty(),
        site: Site::new("a", "dev", "drone"),
    };
    let key = Digest::from_hex(&late.site.key.public().id()).unwrap();
    late.order(1, TOKEN, Instruction::Approve { key });
    let request = late.site.request();
    assert_eq!(late.receive(&request).unwrap(), Enrolled::Registered);
}

#[test]
fn a_revoked_site_s_reports_are_refused_from_then_on_and_an_old_order_revokes_nobody() {
    let mut fixture = Fixture::registered();
    fixture.order(1, "the token of an earlier kit", Instruction::Revoke);
    let line = fixture.site.active(1, NEW);
    assert_eq!(fixture.take(&line).accepted, 1);
    fixture.order(1, TOKEN, Instruction::Revoke);
    let line = fixture.site.active(2, NEW);
    let done = fixture.take(&line);
    assert_eq!((done.accepted, &*done.refused[0].rule), (0, "revoked"));
}

#[test]
fn an_ordered_new_key_that_the_old_one_vouches_for_needs_no_person() {
    let mut fixture = Fixture::registered();
    let next = SigningKey::generate().unwrap();
    fixture.order(1, TOKEN, Instruction::Rekey);
    let alone = fixture.rekey(&next, false);
    assert!(matches!(
        fixture.receive(&alone),
        Err(EnrolError::OtherKey { .. })
    ));
    let both = fixture.rekey(&next, true);
    assert_eq!(fixture.receive(&both).unwrap(), Enrolled::Rekeyed);
}

#[test]
fn a_new_key_without_an_order_waits_for_a_person() {
    let mut fixture = Fixture::registered();
    let next = SigningKey::generate().unwrap();
    let both = fixture.rekey(&next, true);
    assert_eq!(fixture.receive(&both).unwrap(), Enrolled::Waiting);
}

#[test]
fn after_a_new_key_the_old_one_signs_only_what_came_before() {
    let mut fixture = Fixture::registered();
    let next = SigningKey::generate().unwrap();
    let (first, second) = (fixture.site.started(), fixture.site.started());
    assert_eq!(fixture.take(&first).accepted, 1);
    fixture.order(1, TOKEN, Instruction::Rekey);
    let both = fixture.rekey(&next, true);
    fixture.receive(&both).unwrap();
    let report = fixture.site.report(ReportEvent::Started {
        agent_version: "0.1.0".to_owned(),
    });
    let later = fixture.site.report(ReportEvent::Started {
        agent_version: "0.1.0".to_owned(),
    });
    let by_old = fixture.site.sign(&later);
    fixture.site.key = next;
    let by_new = fixture.site.sign(&report);
    assert_eq!(fixture.take(&by_new).accepted, 1, "the epoch goes on");
    assert_eq!(fixture.take(&second).accepted, 1, "a late stick of before");
    let refused = fixture.take(&by_old);
    assert_eq!(refused.refused[0].rule, "epoch-key");
}

#[test]
fn a_site_that_reports_its_move_is_expected_in_its_new_stream_whichever_comes_first() {
    let to = stream("dev", "tractor");
    let what = Instruction::Move { to, first: 5 };
    for report_first in [false, true] {
        for named in [false, true] {
            let mut fixture = Fixture::registered();
            let report = if named {
                done(&mut fixture.site, TOKEN, 1, "move")
            } else {
                fixture.site.say(ReportEvent::OrderDone {
                    number: 1,
                    what: "move".to_owned(),
                    message: String::new(),
                    enrolment: None,
                })
            };
            if report_first {
                assert_eq!(fixture.take(&report).accepted, 1);
                assert_eq!(fixture.registration().unwrap().cluster_type, "drone");
                fixture.order(1, TOKEN, what.clone());
            } else {
                fixture.order(1, TOKEN, what.clone());
                assert_eq!(fixture.registration().unwrap().cluster_type, "drone");
                assert_eq!(fixture.take(&report).accepted, 1);
            }
            assert_eq!(fixture.registration().unwrap().cluster_type, "tractor");
            // A stick from before the move is read again.
            let request = fixture.site.request();
            assert_eq!(fixture.receive(&request).unwrap(), Enrolled::Already);
            assert_eq!(fixture.registration().unwrap().cluster_type, "tractor");
        }
    }
}

#[test]
fn a_move_that_an_earlier_enrolment_reported_moves_nobody() {
    let mut fixture = Fixture::registered();
    let to = stream("dev", "tractor");
    let report = done(&mut fixture.site, "an earlier kit", 1, "move");
    fixture.take(&report);
    fixture.order(1, TOKEN, Instruction::Move { to, first: 5 });
    assert_eq!(fixture.registration().unwrap().cluster_type, "drone");
}

#[test]
fn a_refused_order_moves_nobody() {
    let mut fixture = Fixture::registered();
    let to = stream("dev", "tractor");
    fixture.order(1, TOKEN, Instruction::Move { to, first: 5 });
    let report = fixture.site.say(ReportEvent::OrderRefused {
        number: 1,
        what: "move".to_owned(),
        message: String::new(),
        enrolment: Digest::of(TOKEN.as_bytes()),
    });
    assert_eq!(fixture.take(&report).accepted, 1);
    assert_eq!(fixture.registration().unwrap().cluster_type, "drone");
}

#[test]
fn a_request_for_a_new_key_that_comes_before_its_order_is_believed_when_the_order_comes() {
    let mut fixture = Fixture::registered();
    let next = SigningKey::generate().unwrap();
    let both = fixture.rekey(&next, true);
    assert_eq!(fixture.receive(&both).unwrap(), Enrolled::Waiting);
    fixture.order(1, TOKEN, Instruction::Rekey);
    assert_eq!(fixture.registration().unwrap().key_generation, 2);
    fixture.site.key = next;
    let line = fixture.site.started();
    assert_eq!(fixture.take(&line).accepted, 1);
}

#[test]
fn a_request_of_a_replaced_key_that_is_read_again_brings_it_not_back() {
    let mut fixture = Fixture::waiting();
    let first = fixture.site.request();
    let key = Digest::from_hex(&fixture.site.key.public().id()).unwrap();
    fixture.order(1, TOKEN, Instruction::Approve { key });
    fixture.order(2, TOKEN, Instruction::Rekey);
    let next = SigningKey::generate().unwrap();
    let both = rekey_by(&fixture.site, 2, &next);
    assert_eq!(fixture.receive(&both).unwrap(), Enrolled::Rekeyed);
    assert_eq!(fixture.receive(&first).unwrap(), Enrolled::Already);
    assert_eq!(fixture.registration().unwrap().key_generation, 2);
    fixture.site.key = next;
    let line = fixture.site.started();
    assert_eq!(fixture.take(&line).accepted, 1);
}

#[test]
fn a_revocation_holds_for_a_request_that_comes_after_it() {
    let mut fixture = Fixture {
        store: crate::stored::empty(),
        site: Site::new("a", "dev", "drone"),
    };
    let key = Digest::from_hex(&fixture.site.key.public().id()).unwrap();
    fixture.order(1, TOKEN, Instruction::Approve { key });
    fixture.order(2, TOKEN, Instruction::Revoke);
    let request = fixture.site.request();
    let refused = fixture.receive(&request);
    assert!(matches!(refused, Err(EnrolError::Revoked { .. })));
    assert_eq!(fixture.registration(), None);
    // Nor does the request that let it in once let it in again.
    let mut fixture = Fixture::registered();
    fixture.order(
        1,
        TOKEN,
        Instruction::Approve {
            key: Digest::from_hex(&fixture.site.key.public().id()).unwrap(),
        },
    );
    fixture.order(2, TOKEN, Instruction::Revoke);
    let request = fixture.site.request();
    let refused = fixture.receive(&request);
    assert!(matches!(refused, Err(EnrolError::Revoked { .. })));
}

#[test]
fn a_site_with_a_new_kit_and_its_old_key_obeys_the_orders_of_the_new_enrolment() {
    let mut fixture = Fixture::registered();
    let key = Digest::from_hex(&fixture.site.key.public().id()).unwrap();
    fixture.order(1, TOKEN, Instruction::Approve { key });
    fixture.order_with(2, 1, "a second kit", Instruction::Approve { key });
    fixture.order_with(3, 2, "a second kit", Instruction::Revoke);
    let line = fixture.site.started();
    assert_eq!(fixture.take(&line).refused[0].rule, "revoked");
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
        let mut fixture = Fixture::registered();
        let started = fixture.site.started();
        fixture.take(&started);
        let next = SigningKey::generate().unwrap();
        let first = fixture.site.request();
        let rekey = rekey_by(&fixture.site, 2, &next);
        let moved = |to: &str, first| Instruction::Move { to: stream("dev", to), first };
        let reports = [1, 3].map(|number| done(&mut fixture.site, TOKEN, number, "move"));
        for arrival in order {
            match arrival {
                Arrival::MoveOrder => fixture.order(1, TOKEN, moved("tractor", 5)),
                Arrival::RekeyOrder => fixture.order(2, TOKEN, Instruction::Rekey),
                Arrival::SecondMove => fixture.order(3, TOKEN, moved("press", 9)),
                Arrival::FirstRequestAgain => prop_assert_eq!(fixture.receive(&first).unwrap(), Enrolled::Already),
                Arrival::RekeyRequest => prop_assert!(fixture.receive(&rekey).is_ok()),
                Arrival::MoveDone => prop_assert_eq!(fixture.take(&reports[0]).accepted, 1),
                Arrival::SecondMoveDone => prop_assert_eq!(fixture.take(&reports[1]).accepted, 1),
            }
        }
        let end = fixture.registration().unwrap();
        prop_assert_eq!((&end.cluster_type[..], end.key_generation), ("press", 2));
        let keys = fixture.store.read(|session| session.site_keys("a")).unwrap();
        prop_assert_eq!(&keys[0].key_id, &next.public().id());
        prop_assert!(fixture.store.read(|session| session.pending_requests(9)).unwrap().is_empty());
    }
}
