//! Records of sites: who is approved, what is ordered, and what counts as carried out.

use outhaul_bundle::report::{ENROLMENT_PAYLOAD_TYPE, EnrolmentRequest, PAYLOAD_TYPE, ReportEvent};
use outhaul_signer::{Envelope, PublicKey, SigningKey};
use outhaul_test_kit::{Centre, Site};

use super::*;

struct SitesFixture {
    centre: Centre,
    site: Site,
}

impl SitesFixture {
    fn new() -> Self {
        let centre = Centre::new();
        let site = centre.site("drone-7", &centre.stream("dev", "drone"));
        let fixture = Self { centre, site };
        let stream = fixture.stream("drone");
        let name = "drone-7".parse().unwrap();
        let kit = fixture.kit("token");
        fixture.sites().enrolled(&name, stream, kit).unwrap();
        fixture
    }

    fn sites(&self) -> Sites<'_> {
        Sites::of(&self.centre.fleet)
    }

    fn stream(&self, cluster_type: &str) -> Stream {
        self.centre.stream("dev", cluster_type)
    }

    /// The id of the kit with this token.
    fn kit(&self, token: &str) -> Digest {
        self.site.enrolment(token)
    }

    fn approve(&self, request: &Envelope) -> Result<(SiteRecord, PublicKey), SiteError> {
        let candidate = self.sites().candidate(&request.to_json())?;
        let key = candidate.key.clone();
        candidate.named(&key.id()).unwrap();
        Ok((self.sites().approve(candidate)?, key))
    }

    fn request(&self, key: &SigningKey, token: &str, order: Option<u64>) -> Envelope {
        let mut request = EnrolmentRequest {
            public_key: key.public().to_pem(),
            seal_key: "age1site".to_owned(),
            order,
            ..self.site.asks(token)
        };
        if order.is_some() {
            request.kit = String::new();
        }
        let payload = serde_json::to_vec(&request).unwrap();
        let signed = Envelope::sign(ENROLMENT_PAYLOAD_TYPE, payload, key);
        match order {
            Some(_) => signed,
            None => signed.countersigned(&self.site.kit(token)),
        }
    }

    fn done(&self, number: u64, key: &SigningKey) -> Vec<u8> {
        self.signed_report(
            key,
            ReportEvent::OrderDone {
                number,
                what: "x".to_owned(),
                message: String::new(),
                enrolment: None,
            },
        )
    }

    fn signed_report(&self, key: &SigningKey, event: ReportEvent) -> Vec<u8> {
        let stream = self.stream("drone");
        let report = self.centre.site("drone-7", &stream).report(event);
        Envelope::sign(PAYLOAD_TYPE, report.to_bytes(), key).to_json()
    }

    fn kinds(&self, cluster_type: &str) -> Vec<(u64, &'static str)> {
        let role = self.stream(cluster_type).role;
        let orders = self.sites().orders_for(role.as_str()).unwrap();
        orders.iter().map(|o| (o.number, o.what.as_str())).collect()
    }
}

#[test]
fn an_approved_key_travels_with_the_stream_until_the_site_says_so() {
    let fixture = SitesFixture::new();
    let request = fixture.request(&fixture.site.key, "token", None);
    let (site, key) = fixture.approve(&request).unwrap();
    assert_eq!(
        (key.id(), &site.seal_key[..]),
        (fixture.site.key.public().id(), "age1site")
    );
    assert_eq!(fixture.kinds("drone"), [(1, "approve")]);
    assert!(fixture.kinds("tractor").is_empty());
    // A stream without orders is not among them: a fleet learns of its streams only with their first bundles.
    let roles = ["drone", "tractor"].map(|name| fixture.stream(name).role);
    let orders = fixture
        .sites()
        .orders_of(roles.iter().map(Name::as_str))
        .unwrap();
    let with_orders: Vec<&str> = orders.iter().map(|(role, _)| *role).collect();
    assert_eq!(with_orders, [roles[0].as_str()]);
    let stranger = SigningKey::generate().unwrap();
    let close = |key: &SigningKey| fixture.sites().close_order(&fixture.done(1, key)).unwrap();
    assert!(matches!(close(&stranger), OrderLine::UnknownKey(_)));
    assert_eq!(fixture.kinds("drone"), [(1, "approve")]);
    assert!(matches!(close(&fixture.site.key), OrderLine::Closed(_)));
    assert!(fixture.kinds("drone").is_empty());
}

#[test]
fn a_request_that_proves_another_kit_or_none_is_refused() {
    let fixture = SitesFixture::new();
    let refused = |request: &Envelope, says: &str| {
        let error = fixture.approve(request).unwrap_err();
        assert!(
            error.is_trust() && error.to_string().contains(says),
            "{error}"
        );
    };
    let other = fixture.request(&fixture.site.key, "stolen", None);
    refused(&other, "proves another kit");
    // The id of the kit is not secret: naming it proves nothing.
    let kit = fixture.site.kit("token");
    let mut request: EnrolmentRequest = serde_json::from_slice(other.unverified_payload()).unwrap();
    request.kit = kit.public().to_hex();
    let payload = serde_json::to_vec(&request).unwrap();
    let named = Envelope::sign(ENROLMENT_PAYLOAD_TYPE, payload, &fixture.site.key);
    refused(&named, "not signed by the key of the kit");
    assert!(fixture.kinds("drone").is_empty());
}

#[test]
fn a_kit_admits_one_key_and_one_key_to_seal_for() {
    let fixture = SitesFixture::new();
    let first = fixture.request(&fixture.site.key, "token", None);
    fixture.approve(&first).unwrap();
    let before = fixture.sites().one("drone-7").unwrap();
    // Whoever has a copy of the kit.
    let thief = SigningKey::generate().unwrap();
    let error = fixture
        .approve(&fixture.request(&thief, "token", None))
        .unwrap_err();
    assert!(matches!(error, SiteError::KitUsed { .. }), "{error}");
    assert!(error.to_string().contains(&thief.public().id()), "{error}");
    let mut request: EnrolmentRequest = serde_json::from_slice(first.unverified_payload()).unwrap();
    request.seal_key = "age1thief".to_owned();
    let payload = serde_json::to_vec(&request).unwrap();
    let kit = fixture.site.kit("token");
    let sealed =
        Envelope::sign(ENROLMENT_PAYLOAD_TYPE, payload, &fixture.site.key).countersigned(&kit);
    let error = fixture.approve(&sealed).unwrap_err();
    assert!(matches!(error, SiteError::KitUsed { .. }), "{error}");
    // The same request again changes nothing either.
    fixture.approve(&first).unwrap();
    assert_eq!(fixture.sites().one("drone-7").unwrap(), before);
}

#[test]
fn the_person_who_approves_names_the_key() {
    let fixture = SitesFixture::new();
    let request = fixture.request(&fixture.site.key, "token", None).to_json();
    let candidate = fixture.sites().candidate(&request).unwrap();
    let id = fixture.site.key.public().id();
    candidate.named(&id).unwrap();
    candidate.named(&id[..16].to_uppercase()).unwrap();
    let other = SigningKey::generate().unwrap().public().id();
    for wrong in [&other, &format!("{id}0")] {
        let error = candidate.named(wrong).unwrap_err();
        assert!(
            matches!(error, SiteError::OtherFingerprint { .. }),
            "{wrong}"
        );
    }
    // Too little is no other key, and no matter of trust.
    for short in ["", &id[..15]] {
        let error = candidate.named(short).unwrap_err();
        assert!(
            matches!(error, SiteError::ShortFingerprint { .. }),
            "{short}"
        );
        assert!(!error.is_trust());
    }
}

#[test]
fn a_key_is_replaced_only_when_the_key_before_signed_as_well() {
    let fixture = SitesFixture::new();
    let first = fixture.request(&fixture.site.key, "token", None);
    fixture.approve(&first).unwrap();
    let next = SigningKey::generate().unwrap();
    let alone = fixture.request(&next, "", Some(2));
    assert!(fixture.approve(&alone).unwrap_err().is_trust());
    let both = alone.countersigned(&fixture.site.key);
    let (site, key) = fixture.approve(&both).unwrap();
    assert_eq!((key.id(), site.public_keys.len()), (next.public().id(), 2));
}

#[test]
fn a_move_travels_with_both_streams_and_the_new_one_counts_on_above_the_old_one() {
    let fixture = SitesFixture::new();
    fixture
        .centre
        .fleet
        .begin_at(fixture.stream("drone").role.as_str(), 8)
        .unwrap();
    let site = fixture
        .sites()
        .relocate("drone-7", fixture.stream("tractor"))
        .unwrap();
    let Instruction::Move { first, .. } = site.orders[0].what else {
        panic!("{site:?}");
    };
    assert_eq!(first, 8);
    let tractor = fixture.stream("tractor").role;
    assert_eq!(
        fixture.centre.fleet.next_number(tractor.as_str()).unwrap(),
        8
    );
    assert_eq!(fixture.kinds("drone"), [(1, "move")]);
    assert_eq!(fixture.kinds("tractor"), [(1, "move")]);
}

#[test]
fn a_new_kit_voids_what_was_ordered_before_but_the_machine_before_stays_revoked() {
    let fixture = SitesFixture::new();
    let to = fixture.stream("tractor");
    fixture.sites().relocate("drone-7", to).unwrap();
    fixture.sites().revoke("drone-7").unwrap();
    assert_eq!(fixture.kinds("drone"), [(1, "move"), (2, "revoke")]);
    let name = "drone-7".parse().unwrap();
    fixture
        .sites()
        .enrolled(&name, fixture.stream("drone"), fixture.kit("second"))
        .unwrap();
    // In both streams: which of them the machine before follows is not known.
    for stream in ["drone", "tractor"] {
        assert_eq!(fixture.kinds(stream), [(2, "revoke")], "{stream}");
    }
    let record = fixture.sites().one("drone-7").unwrap();
    assert_eq!(record.revoked_by(), None);
    let earlier = &record.earlier[0].revocations[0];
    assert_ne!(earlier.enrolment, record.enrolment);
    // Once more: those of before go on.
    fixture.sites().revoke("drone-7").unwrap();
    fixture
        .sites()
        .enrolled(&name, fixture.stream("drone"), fixture.kit("third"))
        .unwrap();
    assert_eq!(fixture.kinds("drone"), [(1, "revoke"), (2, "revoke")]);
}

#[test]
fn no_revoked_machine_is_forgotten_for_another_one() {
    let fixture = SitesFixture::new();
    let name = "drone-7".parse().unwrap();
    let again = |number: usize| {
        fixture.sites().revoke("drone-7").unwrap();
        let kit = fixture.kit(&format!("kit {number}"));
        fixture
            .sites()
            .enrolled(&name, fixture.stream("drone"), kit)
    };
    for number in 0..MAX_EARLIER {
        again(number).unwrap();
    }
    let before = fixture.sites().one("drone-7").unwrap();
    let refused = again(MAX_EARLIER).unwrap_err();
    assert!(
        matches!(refused, SiteError::ManyRevoked { .. }),
        "{refused}"
    );
    let after = fixture.sites().one("drone-7").unwrap();
    assert_eq!(after.earlier.len(), MAX_EARLIER);
    assert_eq!(after.enrolment, before.enrolment);
}

#[test]
fn a_site_that_nobody_enrolled_gets_no_orders() {
    let error = SitesFixture::new().sites().revoke("drone-8").unwrap_err();
    assert!(matches!(error, SiteError::Unknown { known, .. } if known == ["drone-7"]));
}

#[test]
fn a_new_key_is_ordered_only_when_there_is_one_that_can_vouch_for_it() {
    let fixture = SitesFixture::new();
    let error = fixture.sites().rekey("drone-7").unwrap_err();
    assert!(matches!(error, SiteError::Unapproved { .. }), "{error}");
    assert!(fixture.kinds("drone").is_empty());
    let first = fixture.request(&fixture.site.key, "token", None);
    fixture.approve(&first).unwrap();
    fixture.sites().rekey("drone-7").unwrap();
    assert_eq!(fixture.kinds("drone"), [(1, "approve"), (2, "rekey")]);
}

#[test]
fn an_order_that_the_site_refuses_travels_no_longer_and_a_refused_move_moves_nobody() {
    let fixture = SitesFixture::new();
    let first = fixture.request(&fixture.site.key, "token", None);
    fixture.approve(&first).unwrap();
    let to = fixture.stream("tractor");
    fixture.sites().relocate("drone-7", to).unwrap();
    let refused = |token: &str| {
        let event = ReportEvent::OrderRefused {
            number: 2,
            what: "move".to_owned(),
            message: "too low".to_owned(),
            enrolment: fixture.kit(token),
        };
        fixture.signed_report(&fixture.site.key, event)
    };
    let earlier = fixture
        .sites()
        .close_order(&refused("an earlier kit"))
        .unwrap();
    assert_eq!(earlier, OrderLine::Other);
    let OrderLine::Closed(closed) = fixture.sites().close_order(&refused("token")).unwrap() else {
        panic!("an approved key signed it");
    };
    assert_eq!(closed.refused.as_deref(), Some("too low"));
    assert_eq!(fixture.kinds("drone"), [(1, "approve")]);
    let site = fixture.sites().one("drone-7").unwrap();
    assert_eq!(site.stream, fixture.stream("drone"));
}

#[test]
fn the_record_of_a_site_is_read_once_for_all_lines_of_its_reports() {
    let fixture = SitesFixture::new();
    let request = fixture.request(&fixture.site.key, "token", None);
    fixture.approve(&request).unwrap();
    let stranger = SigningKey::generate().unwrap();
    let mut seen = Seen::default();
    let mut line = |key: &SigningKey| {
        let line = fixture.done(1, key);
        fixture.sites().note_running(&line, &mut seen).unwrap()
    };
    assert_eq!(line(&fixture.site.key), ReportLine::Known);
    let name: Name = "drone-7".parse().unwrap();
    std::fs::remove_file(fixture.sites().path(&name)).unwrap();
    assert_eq!(
        line(&fixture.site.key),
        ReportLine::Known,
        "it was read before"
    );
    assert_eq!(
        line(&stranger),
        ReportLine::Unsigned,
        "and verifies all the same"
    );
    // Who looks again finds none.
    let again = fixture
        .sites()
        .note_running(&fixture.done(1, &fixture.site.key), &mut Seen::default());
    assert_eq!(again.unwrap(), ReportLine::Foreign);
}

#[test]
fn a_request_without_a_fingerprint_approves_nothing_and_says_what_to_compare() {
    let fixture = SitesFixture::new();
    let request = fixture.request(&fixture.site.key, "token", None).to_json();
    let id = fixture.site.key.public().id();
    let unnamed = fixture.sites().approve_request(&request, None).unwrap_err();
    assert!(matches!(&unnamed, SiteError::Unnamed { found, .. } if *found == id));
    let other = SigningKey::generate().unwrap().public().id();
    let wrong = fixture.sites().approve_request(&request, Some(&other));
    assert!(matches!(wrong, Err(SiteError::OtherFingerprint { .. })));
    assert!(fixture.kinds("drone").is_empty());
    fixture.sites().revoke("drone-7").unwrap();
    let done = fixture
        .sites()
        .approve_request(&request, Some(&id))
        .unwrap();
    assert_eq!((done.known, done.revoked_by), (false, Some(1)));
    let again = fixture
        .sites()
        .approve_request(&request, Some(&id))
        .unwrap();
    assert!(again.known);
    assert_eq!(fixture.kinds("drone"), [(1, "revoke"), (2, "approve")]);
}

#[test]
fn what_was_closed_before_a_record_that_cannot_be_read_is_not_kept_silent() {
    let fixture = SitesFixture::new();
    let request = fixture.request(&fixture.site.key, "token", None);
    fixture.approve(&request).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, line: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, line).unwrap();
        path
    };
    let other = fixture
        .centre
        .site("drone-8", &fixture.stream("drone"))
        .started();
    let order = file("a.reports", &fixture.done(1, &fixture.site.key));
    let event = ReportEvent::OrderDone {
        number: 1,
        what: "x".to_owned(),
        message: String::new(),
        enrolment: None,
    };
    let mut damaged = fixture.centre.site("drone-8", &fixture.stream("drone"));
    let damaged = file("b.reports", &damaged.say(event));
    let path = fixture.sites().path(&"drone-8".parse().unwrap());
    std::fs::write(path, b"{").unwrap();
    let gone = folder.path().join("c.reports");
    let alone = fixture.sites().close_orders(std::slice::from_ref(&damaged));
    assert!(matches!(alone.stopped, Some(SiteError::Record { .. })));
    let files = [gone, file("d.reports", &other), order, damaged];
    let done = fixture.sites().close_orders(&files);
    assert_eq!((done.closed.len(), done.unread.len()), (1, 1));
    assert!(matches!(done.stopped, Some(SiteError::Closing(_))));
    assert!(!done.needs_person());
    assert!(fixture.sites().one("drone-7").unwrap().orders.is_empty());
}

#[test]
fn a_report_of_an_unknown_key_or_of_a_refusal_is_left_for_somebody() {
    let fixture = SitesFixture::new();
    let request = fixture.request(&fixture.site.key, "token", None);
    fixture.approve(&request).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.reports");
    let close = |line: &[u8]| {
        std::fs::write(&path, line).unwrap();
        fixture.sites().close_orders(std::slice::from_ref(&path))
    };
    assert!(close(&fixture.done(1, &SigningKey::generate().unwrap())).needs_person());
    let event = ReportEvent::OrderRefused {
        number: 1,
        what: "approve".to_owned(),
        message: "no".to_owned(),
        enrolment: fixture.kit("token"),
    };
    assert!(close(&fixture.signed_report(&fixture.site.key, event)).needs_person());
}

#[test]
fn lines_that_are_no_reports_are_counted_and_those_after_them_close_orders() {
    let fixture = SitesFixture::new();
    let request = fixture.request(&fixture.site.key, "token", None);
    fixture.approve(&request).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.reports");
    let order = fixture.done(1, &fixture.site.key);
    // A blank line is none, and an envelope of something else is no report.
    let lines = [&b"{}\n\n"[..], &request.to_json(), b"\n", &order].concat();
    std::fs::write(&path, lines).unwrap();
    let done = fixture.sites().close_orders(std::slice::from_ref(&path));
    assert_eq!(done.closed.len(), 1);
    assert_eq!(done.no_reports, [(path, 2)]);
}
