//! Keys at rest and in use: passphrases, modes, ids, weak keys, and signatures that do not hold.

use std::fs::Permissions;

use super::*;

fn secret(text: &str) -> Secret {
    Secret::new(text.to_owned())
}

#[test]
fn an_encrypted_key_opens_with_its_passphrase_only() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("root.pem");
    let key = SigningKey::generate().unwrap();
    key.save(&path, &secret("correct horse")).unwrap();
    assert!(
        fs::read_to_string(&path)
            .unwrap()
            .starts_with("-----BEGIN ENCRYPTED PRIVATE KEY")
    );
    let back = SigningKey::load(&path, &secret("correct horse")).unwrap();
    assert_eq!(back.public(), key.public());
    let refusal = SigningKey::load(&path, &secret("battery staple")).unwrap_err();
    assert!(
        matches!(refusal, KeyError::WrongPassphrase { .. }),
        "{refusal}"
    );
}

#[test]
fn a_key_that_others_can_read_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("site.pem");
    SigningKey::generate().unwrap().save_plain(&path).unwrap();
    assert!(SigningKey::load_plain(&path).is_ok());
    for mode in [0o640, 0o604, 0o660] {
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        let refusal = SigningKey::load_plain(&path).unwrap_err();
        assert!(
            matches!(refusal, KeyError::Exposed { .. }),
            "{mode:o}: {refusal}"
        );
        assert!(refusal.to_string().contains("chmod 600"));
    }
}

#[test]
fn a_plain_key_is_not_taken_for_an_encrypted_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("key.pem");
    SigningKey::generate().unwrap().save_plain(&path).unwrap();
    let refusal = SigningKey::load(&path, &secret("x")).unwrap_err();
    assert!(matches!(refusal, KeyError::NotAKey { .. }), "{refusal}");
}

#[test]
fn a_public_key_round_trips_and_its_id_is_the_tuf_key_id() {
    // Id computed with securesystemslib 1.4.0 for this key.
    let hex = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
    let key = PublicKey::from_hex(hex).unwrap();
    assert_eq!(PublicKey::from_pem(&key.to_pem()).unwrap(), key);
    assert_eq!(
        key.id(),
        "74c181c7ad8a0855d4b55e44d2ba87aabdddb196832571f15f92fece332e4916"
    );
}

#[test]
fn weak_keys_and_other_texts_are_no_keys() {
    let identity = format!("01{}", "00".repeat(31));
    for text in ["", "zz", &"00".repeat(32), &identity, &"00".repeat(33)] {
        assert!(PublicKey::from_hex(text).is_err(), "{text}");
    }
    assert!(PublicKey::from_pem("-----BEGIN PUBLIC KEY-----").is_err());
}

#[test]
fn a_signature_holds_for_its_message_only() {
    let key = SigningKey::generate().unwrap();
    let signature = key.sign(b"message");
    key.public().verify(b"message", &signature).unwrap();
    assert!(key.public().verify(b"Message", &signature).is_err());
    assert!(key.public().verify(b"message", &signature[..63]).is_err());
    assert!(
        SigningKey::generate()
            .unwrap()
            .public()
            .verify(b"message", &signature)
            .is_err()
    );
}

#[test]
fn a_passphrase_file_loses_one_line_end_and_must_be_private_and_not_empty() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("passphrase");
    durable::write(&path, b" two words \n", SECRET_MODE).unwrap();
    let found = Secret::from_sources(Some(&path), &[], "none").unwrap();
    assert_eq!(found.bytes(), b" two words ");
    assert_eq!(format!("{found:?}"), "Secret(…)");
    durable::write(&path, b"\n", SECRET_MODE).unwrap();
    let refusal = Secret::from_sources(Some(&path), &[], "none").unwrap_err();
    assert!(matches!(refusal, KeyError::NoPassphrase { .. }));
    durable::write(&path, b"x\n", 0o644).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    let refusal = Secret::from_sources(Some(&path), &[], "none").unwrap_err();
    assert!(matches!(refusal, KeyError::Exposed { .. }));
}

#[test]
fn attack_a_passphrase_file_of_another_owner_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("passphrase");
    durable::write(&path, b"a passphrase\n", SECRET_MODE).unwrap();
    let owner = std::os::unix::fs::MetadataExt::uid(&fs::metadata(&path).unwrap());
    refuse_of_another(&path, owner).unwrap();
    if owner == 0 {
        // Root reads what belongs to anybody; only its own counts.
        std::os::unix::fs::chown(&path, Some(65_534), None).unwrap();
        let refusal = Secret::from_sources(Some(&path), &[], "none").unwrap_err();
        assert!(
            matches!(refusal, KeyError::OfAnother { owner: 65_534, .. }),
            "{refusal}"
        );
        refuse_of_another(&path, 65_534).unwrap();
    } else {
        let refusal = refuse_of_another(&path, owner + 1).unwrap_err();
        assert!(matches!(refusal, KeyError::OfAnother { .. }), "{refusal}");
    }
}

#[test]
fn a_missing_passphrase_says_where_it_was_looked_for() {
    let refusal = Secret::from_sources(None, &["OUTHAUL_TEST_UNSET"], "none").unwrap_err();
    let text = refusal.to_string();
    assert!(
        text.contains("$OUTHAUL_TEST_UNSET") && text.contains("--passphrase-file"),
        "{text}"
    );
}
