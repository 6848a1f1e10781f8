//! Records of sites: who is approved, what is ordered, and what counts as carried out.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use jiff::Timestamp;
use outhaul_bundle::report::{
    ENROLMENT_PAYLOAD_TYPE, EnrolmentRequest, Event, FORMAT as REPORT, PAYLOAD_TYPE, Report,
    SiteTime,
};
use outhaul_signer::fleet::InitOptions;
use outhaul_signer::key::Secret;
use outhaul_signer::{Envelope, SigningKey};

use super::*;

struct Scene {
    fleet: Fleet,
    key: SigningKey,
    _folder: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let options = InitOptions::new(Secret::new("a passphrase for tests".to_owned()), now);
        let fleet = Fleet::init(&folder.path().join("fleet"), options).unwrap();
        let scene = Self {
            fleet,
            key: SigningKey::generate().unwrap(),
            _folder: folder,
        };
        let stream = scene.stream("drone");
        let name = "drone-7".parse().unwrap();
        scene.sites().enrolled(&name, stream, "token").unwrap();
        scene
    }

    fn sites(&self) -> Sites<'_> {
        Sites::of(&self.fleet)
    }

    fn stream(&self, cluster_type: &str) -> Stream {
        Stream {
            role: self.fleet.role("dev", cluster_type).parse().unwrap(),
            environment: "dev".parse().unwrap(),
            cluster_type: cluster_type.parse().unwrap(),
        }
    }

    fn request(&self, key: &SigningKey, token: &str, order: Option<u64>) -> Envelope {
        let request = EnrolmentRequest {
            fleet: self.fleet.id().parse().unwrap(),
            site: "drone-7".parse().unwrap(),
            stream: self.stream("drone"),
            public_key: key.public().to_pem(),
            token: token.to_owned(),
            seal_key: "age1site".to_owned(),
            order,
        };
        let payload = serde_json::to_vec(&request).unwrap();
        Envelope::sign(ENROLMENT_PAYLOAD_TYPE, payload, key)
    }

    fn done(&self, number: u64, key: &SigningKey) -> Vec<u8> {
        self.told(
            key,
            Event::OrderDone {
                number,
                what: "x".to_owned(),
                message: String::new(),
                enrolment: None,
            },
        )
    }

    fn told(&self, key: &SigningKey, event: Event) -> Vec<u8> {
        let report = Report {
            format: REPORT.to_owned(),
            fleet: self.fleet.id().parse().unwrap(),
            site: "drone-7".parse().unwrap(),
            epoch: "e".parse().unwrap(),
            number: 1,
            previous: None,
            at: SiteTime {
                wall_ms: 0,
                lower_bound_ms: 0,
                trusted: false,
            },
            event,
        };
        Envelope::sign(PAYLOAD_TYPE, report.to_bytes(), key).to_json()
    }

    fn kinds(&self, cluster_type: &str) -> Vec<(u64, &'static str)> {
        let role = self.stream(cluster_type).role;
        let orders = self.sites().orders_for(role.as_str()).unwrap();
        orders.iter().map(|o| (o.number, o.what.word())).collect()
    }
}

#[test]
fn an_approved_key_travels_with_the_stream_until_the_site_says_so() {
    let scene = Scene::new();
    let request = scene.request(&scene.key, "token", None).to_json();
    let (site, key) = scene.sites().approve(&request).unwrap();
    assert_eq!(
        (key.id(), &site.seal_key[..]),
        (scene.key.public().id(), "age1site")
    );
    assert_eq!(scene.kinds("drone"), [(1, "approve")]);
    assert!(scene.kinds("tractor").is_empty());
    let stranger = SigningKey::generate().unwrap();
    assert_eq!(
        scene.sites().settle(&scene.done(1, &stranger)).unwrap(),
        None
    );
    assert!(
        scene
            .sites()
            .settle(&scene.done(1, &scene.key))
            .unwrap()
            .is_some()
    );
    assert!(scene.kinds("drone").is_empty());
}

#[test]
fn a_request_with_another_kit_s_token_is_refused() {
    let scene = Scene::new();
    let request = scene.request(&scene.key, "stolen", None).to_json();
    let error = scene.sites().approve(&request).unwrap_err();
    assert!(
        error.is_trust() && error.to_string().contains("another token"),
        "{error}"
    );
}

#[test]
fn a_key_is_replaced_only_when_the_key_before_signed_as_well() {
    let scene = Scene::new();
    let first = scene.request(&scene.key, "token", None).to_json();
    scene.sites().approve(&first).unwrap();
    let next = SigningKey::generate().unwrap();
    let alone = scene.request(&next, "", Some(2));
    assert!(
        scene
            .sites()
            .approve(&alone.to_json())
            .unwrap_err()
            .is_trust()
    );
    let both = alone.countersigned(&scene.key);
    let (site, key) = scene.sites().approve(&both.to_json()).unwrap();
    assert_eq!((key.id(), site.public_keys.len()), (next.public().id(), 2));
}

#[test]
fn a_move_travels_with_both_streams_and_the_new_one_counts_on_above_the_old_one() {
    let scene = Scene::new();
    scene
        .fleet
        .begin_at(scene.stream("drone").role.as_str(), 8)
        .unwrap();
    let site = scene
        .sites()
        .relocate("drone-7", scene.stream("tractor"))
        .unwrap();
    let Instruction::Move { first, .. } = site.orders[0].what else {
        panic!("{site:?}");
    };
    assert_eq!(first, 8);
    let tractor = scene.stream("tractor").role;
    assert_eq!(scene.fleet.next_number(tractor.as_str()).unwrap(), 8);
    assert_eq!(scene.kinds("drone"), [(1, "move")]);
    assert_eq!(scene.kinds("tractor"), [(1, "move")]);
}

#[test]
fn a_new_kit_voids_what_was_ordered_before() {
    let scene = Scene::new();
    let to = scene.stream("tractor");
    scene.sites().relocate("drone-7", to).unwrap();
    scene.sites().revoke("drone-7").unwrap();
    assert_eq!(scene.kinds("drone"), [(1, "move"), (2, "revoke")]);
    let name = "drone-7".parse().unwrap();
    scene
        .sites()
        .enrolled(&name, scene.stream("drone"), "second")
        .unwrap();
    assert!(scene.kinds("drone").is_empty());
}

#[test]
fn a_site_that_nobody_enrolled_gets_no_orders() {
    let error = Scene::new().sites().revoke("drone-8").unwrap_err();
    assert!(matches!(error, SiteError::Unknown { known, .. } if known == ["drone-7"]));
}

#[test]
fn a_new_key_is_ordered_only_when_there_is_one_that_can_vouch_for_it() {
    let scene = Scene::new();
    let error = scene.sites().rekey("drone-7").unwrap_err();
    assert!(matches!(error, SiteError::Unapproved { .. }), "{error}");
    assert!(scene.kinds("drone").is_empty());
    let first = scene.request(&scene.key, "token", None).to_json();
    scene.sites().approve(&first).unwrap();
    scene.sites().rekey("drone-7").unwrap();
    assert_eq!(scene.kinds("drone"), [(1, "approve"), (2, "rekey")]);
}

#[test]
fn an_order_that_the_site_refuses_travels_no_longer_and_a_refused_move_moves_nobody() {
    let scene = Scene::new();
    let first = scene.request(&scene.key, "token", None).to_json();
    scene.sites().approve(&first).unwrap();
    let to = scene.stream("tractor");
    scene.sites().relocate("drone-7", to).unwrap();
    let refused = |token: &str| {
        let event = Event::OrderRefused {
            number: 2,
            what: "move".to_owned(),
            message: "too low".to_owned(),
            enrolment: Digest::of(token.as_bytes()),
        };
        scene.told(&scene.key, event)
    };
    let earlier = scene.sites().settle(&refused("an earlier kit")).unwrap();
    assert_eq!(earlier, None);
    let settled = scene.sites().settle(&refused("token")).unwrap().unwrap();
    assert_eq!(settled.refused.as_deref(), Some("too low"));
    assert_eq!(scene.kinds("drone"), [(1, "approve")]);
    let site = scene.sites().one("drone-7").unwrap();
    assert_eq!(site.stream, scene.stream("drone"));
}
