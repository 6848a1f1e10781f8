//! Kits: whole, changed on the way, of another fleet, and random bytes.

use proptest::prelude::*;

use super::*;
use crate::{Fleet, InitOptions, Secret, SigningKey};

fn kit() -> (tempfile::TempDir, Kit) {
    let dir = tempfile::tempdir().unwrap();
    let secret = Secret::new("a passphrase for tests".to_owned());
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    let fleet = Fleet::init(dir.path(), InitOptions::new(secret, now)).unwrap();
    let kit = Kit {
        format: FORMAT.to_owned(),
        fleet: fleet.id().to_owned(),
        site: "barn-7".to_owned(),
        stream: KitStream {
            role: fleet.role("dev", "drone"),
            environment: "dev".to_owned(),
            cluster_type: "drone".to_owned(),
        },
        earlier_roots: Vec::new(),
        root: String::from_utf8(fleet.root_bytes().unwrap()).unwrap(),
        hub_url: "https://hub.example".to_owned(),
        hub_key: SigningKey::generate().unwrap().public().to_pem(),
        hub_ca: String::new(),
        token: new_token().unwrap(),
    };
    (dir, kit)
}

#[test]
fn a_kit_round_trips_and_its_root_is_byte_for_byte_the_fleet_s() {
    let (dir, kit) = kit();
    let back = Kit::from_bytes(&kit.to_bytes()).unwrap();
    assert_eq!(back, kit);
    let root = std::fs::read(dir.path().join("metadata/1.root.json")).unwrap();
    assert_eq!(back.trusted().unwrap().0["root.json"], root);
    assert!(back.hub().unwrap().is_some());
    assert_eq!(back.token.len(), 32);
}

#[test]
fn a_kit_that_was_changed_on_the_way_is_refused() {
    let (_dir, kit) = kit();
    let mut root = kit.clone();
    root.root = kit.root.replace("\"threshold\":1", "\"threshold\":2");
    assert!(matches!(
        Kit::from_bytes(&root.to_bytes()),
        Err(KitError::Root { .. })
    ));
    let mut unsigned = kit.clone();
    unsigned.root = "{}".to_owned();
    assert!(matches!(
        Kit::from_bytes(&unsigned.to_bytes()),
        Err(KitError::Root { .. })
    ));
    let mut hub = kit.clone();
    hub.hub_key = "no key".to_owned();
    assert!(matches!(
        Kit::from_bytes(&hub.to_bytes()),
        Err(KitError::HubKey { .. })
    ));
    let mut newer = kit.clone();
    newer.format = "outhaul.dev/kit/v2".to_owned();
    let refusal = Kit::from_bytes(&newer.to_bytes()).unwrap_err();
    assert!(
        matches!(refusal, KitError::UnknownFormat { .. }),
        "{refusal}"
    );
    let mut other = kit;
    other.fleet = "0123456789abcdef".to_owned();
    assert!(matches!(
        Kit::from_bytes(&other.to_bytes()),
        Err(KitError::OtherFleet { .. })
    ));
    let large = vec![b' '; MAX_KIT_BYTES + 1];
    assert!(matches!(
        Kit::from_bytes(&large),
        Err(KitError::TooLarge { .. })
    ));
}

#[test]
fn a_kit_with_a_later_root_is_bound_to_its_fleet() {
    let (dir, mut kit) = kit();
    let fleet = Fleet::open(dir.path()).unwrap();
    let secret = Secret::new("a passphrase for tests".to_owned());
    let now = "2026-01-02T00:00:00Z".parse().unwrap();
    for _ in 0..2 {
        fleet
            .change_root(&[crate::ceremony::RootChange::Renew], now, &secret)
            .unwrap();
    }
    kit.earlier_roots = fleet.root_chain().unwrap();
    kit.root = kit.earlier_roots.pop().unwrap();
    assert_eq!(kit.earlier_roots.len(), 2);
    assert_eq!(Kit::from_bytes(&kit.to_bytes()).unwrap(), kit);
    // Another fleet's name on it; its beginning left out; its middle left out.
    let mut other = kit.clone();
    other.fleet = "0123456789abcdef".to_owned();
    let refusal = Kit::from_bytes(&other.to_bytes()).unwrap_err();
    assert!(matches!(refusal, KitError::OtherFleet { .. }), "{refusal}");
    for left in [0..0, 1..2, 0..1] {
        let mut cut = kit.clone();
        cut.earlier_roots = kit.earlier_roots[left].to_vec();
        let refusal = Kit::from_bytes(&cut.to_bytes()).unwrap_err();
        assert!(matches!(refusal, KitError::NoChain { .. }), "{refusal}");
    }
    let mut twice = kit.clone();
    twice.earlier_roots[1] = kit.earlier_roots[0].clone();
    assert!(Kit::from_bytes(&twice.to_bytes()).is_err());
}

proptest! {
    #[test]
    fn reading_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        drop(Kit::from_bytes(&bytes));
    }
}

#[test]
fn a_kit_is_proven_by_a_signature_and_never_by_its_token() {
    let (_dir, kit) = kit();
    let (own, other) = (kit.key(), SigningKey::generate().unwrap());
    let payload = b"a request".to_vec();
    let signed = Envelope::sign("t", payload.clone(), &other).countersigned(&own);
    let named = own.public().to_hex();
    assert_eq!(proven_kit(&signed, "t", &named).unwrap(), kit.id());
    let stranger = Envelope::sign("t", payload, &other);
    assert!(matches!(
        proven_kit(&stranger, "t", &named),
        Err(ProofError::NotSigned(_))
    ));
    assert!(matches!(
        proven_kit(&signed, "t", ""),
        Err(ProofError::NoKit)
    ));
    let text = String::from_utf8(signed.to_json()).unwrap();
    assert!(!text.contains(&kit.token));
}

#[test]
fn the_key_of_a_kit_is_bound_to_fleet_site_and_token() {
    let key = |fleet, site, token| kit_key(fleet, site, token).public().id();
    assert_eq!(key("f", "s", "t"), key("f", "s", "t"));
    for other in [key("g", "s", "t"), key("f", "r", "t"), key("f", "s", "u")] {
        assert_ne!(key("f", "s", "t"), other);
    }
    assert_ne!(key("ab", "c", "t"), key("a", "bc", "t"));
}
