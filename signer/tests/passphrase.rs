//! `outhaul-signer passphrase`: every key of a fleet, or one file, under another passphrase, or as before.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use outhaul_signer::{Fleet, Secret, SigningKey};
use outhaul_test_kit::folder::{Tree, files};

use crate::cli::{folder_with_passphrase, run};

const OLD: &str = "correct horse battery staple";
const NEW: &str = "a quite different passphrase";

fn write(folder: &Path, name: &str, passphrase: &str) {
    let path = folder.join(name);
    fs::write(&path, format!("{passphrase}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
}

/// The private keys of the fleet, as they lie there.
fn keys(folder: &Path) -> Tree {
    let mut keys = files(&folder.join("fleet/keys"));
    keys.retain(|name, _| name.ends_with(".pem"));
    keys
}

#[track_caller]
fn opens(path: &Path, passphrase: &str, expected: bool) {
    let opened = SigningKey::load(path, &Secret::new(passphrase.to_owned()));
    assert_eq!(opened.is_ok(), expected, "{}", path.display());
}

#[test]
fn every_key_of_a_fleet_gets_the_new_passphrase_and_the_old_one_opens_none() {
    let dir = folder_with_passphrase();
    let at = dir.path();
    run(at, 0, "init fleet --root-keys 2 --root-threshold 2");
    write(at, "new", NEW);
    let before = keys(at);
    assert_eq!(before.len(), 4, "two root keys, targets, online");
    let printed = run(at, 0, "passphrase fleet --new-passphrase-file new");
    assert_eq!(
        printed["keys"].as_array().unwrap().len(),
        before.len(),
        "{printed}"
    );
    for (name, bytes) in keys(at) {
        assert_ne!(bytes, before[&name], "{name}");
        let path = at.join("fleet/keys").join(&name);
        opens(&path, NEW, true);
        opens(&path, OLD, false);
        let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{name}");
    }
    // The fleet signs with it, and with nothing else.
    let refused = run(at, 4, "rotate fleet online");
    assert!(
        refused.as_str().unwrap().contains("passphrase"),
        "{refused}"
    );
    write(at, "pass", NEW);
    run(at, 0, "rotate fleet online");
    assert!(Fleet::open(&at.join("fleet")).unwrap().status().is_ok());
}

#[test]
fn a_wrong_old_or_a_weak_new_passphrase_changes_no_key() {
    let dir = folder_with_passphrase();
    let at = dir.path();
    run(at, 0, "init fleet");
    write(at, "new", NEW);
    let before = keys(at);
    for weak in ["short", "aaaaaaaaaaaaaaaaaaaa", "12345678901234567890"] {
        write(at, "weak", weak);
        let refused = run(at, 2, "passphrase fleet --new-passphrase-file weak");
        assert!(!refused.as_str().unwrap().contains(weak), "{refused}");
        assert_eq!(keys(at), before, "{weak}");
    }
    write(at, "pass", "not the passphrase at all");
    run(at, 4, "passphrase fleet --new-passphrase-file new");
    assert_eq!(keys(at), before);
    // One key that does not open keeps all as they are: no fleet under two passphrases.
    write(at, "pass", OLD);
    let other = SigningKey::generate().unwrap();
    let online = at.join("fleet/keys/online.pem");
    let path = if online.is_file() {
        online
    } else {
        let name = before.keys().next_back().unwrap();
        at.join("fleet/keys").join(name)
    };
    other
        .save(&path, &Secret::new("someone else's passphrase".to_owned()))
        .unwrap();
    let before = keys(at);
    run(at, 4, "passphrase fleet --new-passphrase-file new");
    assert_eq!(keys(at), before);
}

#[test]
fn one_key_file_elsewhere_gets_it_and_an_empty_folder_is_reported() {
    let dir = folder_with_passphrase();
    let at = dir.path();
    run(at, 0, "key vault");
    write(at, "new", NEW);
    run(at, 0, "passphrase vault.pem --new-passphrase-file new");
    opens(&at.join("vault.pem"), NEW, true);
    opens(&at.join("vault.pem"), OLD, false);
    run(at, 0, "init fleet");
    for (name, _) in keys(at) {
        fs::remove_file(at.join("fleet/keys").join(name)).unwrap();
    }
    let printed = run(at, 2, "passphrase fleet --new-passphrase-file new");
    assert!(
        printed.as_str().unwrap().contains("no private key here"),
        "{printed}"
    );
}
