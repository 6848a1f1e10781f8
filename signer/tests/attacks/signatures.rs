//! Signed by the wrong ones, by too few, or by nobody; and by another fleet.

use outhaul_signer::SigningKey;
use outhaul_signer::metadata::{self, MetaFile, Signs};
use outhaul_test_kit::bent::{Centre, ROLE, Site, keys};
use serde_json::Value;

use super::{bend, site_with};

#[test]
fn unsigned_metadata() {
    let centre = Centre::new();
    let site = Site::enrolled(&centre);
    let mut files = centre.bundle(ROLE);
    bend(&mut files, "timestamp.json", |value| {
        value["signatures"] = Value::Array(vec![]);
    });
    site.refuse(&files, "signature");
}

#[test]
fn arbitrary_key_signs() {
    let mut centre = Centre::new();
    let site = Site::enrolled(&centre);
    centre.timestamp_key = keys(1).remove(0);
    centre.publish_timestamp();
    site.refuse(&centre.bundle(ROLE), "signature");
}

#[test]
fn signature_of_another_role_s_key() {
    let mut centre = Centre::new();
    let site = Site::enrolled(&centre);
    let bytes = metadata::sign(&centre.timestamp, &[&centre.snapshot_key]).unwrap();
    centre.files.insert("timestamp.json".into(), bytes);
    site.refuse(&centre.bundle(ROLE), "signature");
}

#[test]
fn the_other_stream_s_key_signs_this_stream() {
    let mut centre = Centre::new();
    let site = Site::enrolled(&centre);
    let evil = metadata::sign(&centre.streams[ROLE], &[&centre.stream_keys[1]]).unwrap();
    centre
        .snapshot
        .meta
        .insert(format!("{ROLE}.json"), MetaFile::of(1, &evil));
    centre.files.insert(format!("1.{ROLE}.json"), evil);
    centre.publish_snapshot();
    site.refuse(&centre.bundle(ROLE), "signature");
}

#[test]
fn threshold_met_by_one_key_that_signs_twice() {
    let mut centre = Centre::new();
    let site = Site::enrolled(&centre);
    let key = &centre.root_keys[0];
    let mut root = centre.root.clone();
    root.version = 2;
    let signed = metadata::signed_bytes(&root).unwrap();
    let one = metadata::sign_one(&signed, key).unwrap();
    let list = serde_json::to_string(&[&one, &one]).unwrap();
    let text = String::from_utf8(signed).unwrap();
    let file = format!("{{\"signatures\":{list},\"signed\":{text}}}");
    centre.files.insert("2.root.json".into(), file.into_bytes());
    site.refuse(&centre.bundle(ROLE), "root-chain");
}

/// Publishes the next root as a signer that knows line ends in texts would: they are signed as they are, and
/// shipped escaped. Two characters that no key has stand for them until then.
fn publish_with_line_ends(centre: &mut Centre) {
    const PLACES: [(char, &str, &str); 2] = [('\u{e000}', "\n", "\\n"), ('\u{e001}', "\r", "\\r")];
    for key in centre.root.keys.values_mut() {
        for text in key.keyval.values_mut() {
            for (place, raw, _) in PLACES {
                *text = text.replace(raw, &place.to_string());
            }
        }
    }
    centre.root.version += 1;
    let text = String::from_utf8(metadata::signed_bytes(&centre.root).unwrap()).unwrap();
    let written = |escaped: bool| {
        PLACES
            .iter()
            .fold(text.clone(), |text, (place, raw, name)| {
                text.replace(*place, if escaped { name } else { raw })
            })
    };
    let keys = centre.root_keys.iter();
    let signatures: Vec<_> = keys
        .map(|key| metadata::sign_one(written(false).as_bytes(), key).unwrap())
        .collect();
    let bytes = metadata::assemble(written(true).as_bytes(), &signatures).unwrap();
    let file = format!("{}.root.json", centre.root.version);
    centre.files.insert(file, bytes);
}

/// One key, listed a second time in each spelling that a verifier could read as another key.
#[test]
fn threshold_met_by_one_key_under_two_ids() {
    let spellings: [fn(&outhaul_signer::PublicKey) -> String; 6] = [
        outhaul_signer::PublicKey::to_hex,
        |key| key.to_hex().to_uppercase(),
        |key| format!(" {}\n", key.to_hex()),
        outhaul_signer::PublicKey::to_pem,
        |key| format!("\n{}\n \n", key.to_pem()),
        |key| key.to_pem().replace('\n', "\r\n"),
    ];
    for spelled in spellings {
        let mut centre = Centre::new();
        let site = site_with(&centre);
        let twin = spelled(&centre.root_keys[0].public());
        let mut key = metadata::Key::new(&centre.root_keys[0].public());
        key.keyval.insert("public".to_owned(), twin.clone());
        centre.root.keys.insert("f".repeat(64), key);
        let role = centre.root.roles.get_mut("root").unwrap();
        role.keyids.push("f".repeat(64));
        publish_with_line_ends(&mut centre);
        let refusal = site.refuse(&centre.bundle(ROLE), "malformed");
        assert!(
            refusal.to_string().contains("one key under two ids"),
            "{twin:?}: {refusal}"
        );
    }
}

/// A kind of key that TUF has and Outhaul has not is named, not taken for a bad signature.
#[test]
fn a_root_of_rsa_keys_is_refused_by_the_name_of_the_kind() {
    let mut centre = Centre::new();
    let site = site_with(&centre);
    centre.publish_root();
    let mut files = centre.bundle(ROLE);
    bend(&mut files, "2.root.json", |value| {
        for key in value["signed"]["keys"]
            .as_object_mut()
            .unwrap()
            .values_mut()
        {
            key["keytype"] = "rsa".into();
            key["scheme"] = "rsassa-pss-sha256".into();
        }
    });
    let refusal = site.refuse(&files, "malformed").to_string();
    assert!(
        refusal.contains("`rsa` with `rsassa-pss-sha256` is not supported"),
        "{refusal}"
    );
    let first = files.remove("2.root.json").unwrap();
    let refusal = outhaul_signer::TrustedMetadata::enrol(&first).unwrap_err();
    assert!(
        refusal.to_string().contains("rsassa-pss-sha256"),
        "{refusal}"
    );
}

#[test]
fn threshold_of_zero() {
    let mut centre = Centre::new();
    let site = site_with(&centre);
    centre.targets.delegations.as_mut().unwrap().roles[0].threshold = 0;
    centre.publish_targets();
    centre.publish();
    site.refuse(&centre.bundle(ROLE), "malformed");
}

#[test]
fn root_signed_by_fewer_than_the_threshold() {
    let mut centre = Centre::new();
    let site = Site::enrolled(&centre);
    let [one, ..] = <[SigningKey; 3]>::try_from(std::mem::take(&mut centre.root_keys)).unwrap();
    centre.publish_root_signed_by(&[&one]);
    site.refuse(&centre.bundle(ROLE), "root-chain");
}

#[test]
fn root_signed_by_the_new_keys_alone() {
    let mut centre = Centre::new();
    let site = Site::enrolled(&centre);
    centre.root_keys = keys(3);
    centre.assign_keys();
    centre.publish_root();
    site.refuse(&centre.bundle(ROLE), "root-chain");
}

#[test]
fn root_chain_with_a_gap() {
    let mut centre = Centre::new();
    let site = Site::enrolled(&centre);
    [centre.timestamp_key] = keys(1).try_into().unwrap();
    centre.publish_root();
    centre.assign_keys();
    centre.publish_root();
    centre.publish();
    let mut files = centre.bundle(ROLE);
    files.remove("2.root.json");
    site.refuse(&files, "signature");
    let third = files.remove("3.root.json").unwrap();
    files.insert("2.root.json".into(), third);
    site.refuse(&files, "root-chain");
}

#[test]
fn foreign_fleet() {
    let (ours, theirs) = (Centre::new(), Centre::new());
    let refusal = Site::enrolled(&ours).refuse(&theirs.bundle(ROLE), "foreign-fleet");
    assert!(refusal.to_string().contains("another fleet"), "{refusal}");
}

#[test]
fn foreign_fleet_s_lower_metadata_under_our_root() {
    let (ours, theirs) = (Centre::new(), Centre::new());
    let mut files = theirs.bundle(ROLE);
    files.insert("1.root.json".into(), ours.files["1.root.json"].clone());
    Site::enrolled(&ours).refuse(&files, "signature");
}

#[test]
fn a_key_held_elsewhere_signs_alike() {
    struct Elsewhere(SigningKey);
    impl Signs for Elsewhere {
        fn public(&self) -> outhaul_signer::PublicKey {
            self.0.public()
        }
        fn signature(&self, bytes: &[u8]) -> Result<[u8; 64], outhaul_signer::KeyError> {
            Ok(self.0.sign(bytes))
        }
    }
    let mut centre = Centre::new();
    let site = Site::enrolled(&centre);
    let key = std::mem::replace(&mut centre.timestamp_key, keys(1).remove(0));
    let bytes = metadata::sign(&centre.timestamp, &[&Elsewhere(key)]).unwrap();
    centre.files.insert("timestamp.json".into(), bytes);
    site.check(&centre.bundle(ROLE)).unwrap();
}
