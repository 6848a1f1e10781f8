//! What lies on the hub's disk, and who can read it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use outhaul_test_kit::Centre;

use crate::program::{Hub, code, command, stderr};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn private(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

#[test]
fn the_state_is_for_its_owner_only_and_a_looser_one_is_tightened() {
    let hub = Hub::new();
    let centre = Centre::new();
    hub.init(&centre.root());
    let (folder, store) = (hub.state(), hub.state().join("hub.db"));
    assert_eq!((mode(&folder), mode(&store)), (0o700, 0o600));
    assert_eq!(mode(&folder.join("hub.key")), 0o600);
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&store, fs::Permissions::from_mode(0o644)).unwrap();
    let lock = folder.join("serve.lock");
    fs::write(&lock, "").unwrap();
    fs::set_permissions(&lock, fs::Permissions::from_mode(0o644)).unwrap();
    let server = hub.serve(&[]);
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
    assert_eq!(mode(&folder), 0o700);
    assert_eq!(server.stop(), 0);
}

#[test]
fn an_encrypted_key_signs_with_its_passphrase_or_as_a_credential_and_not_without() {
    let hub = Hub::new();
    let centre = Centre::new();
    let secret = hub.path("hub.passphrase");
    private(&secret, b"a passphrase of the tests\n");
    let (root, file) = (centre.root(), secret.to_str().unwrap());
    let made = hub.json(&[
        "init",
        "--root",
        root.to_str().unwrap(),
        "--passphrase-file",
        file,
    ]);
    assert_eq!(made["key_encrypted"], true);
    let key = fs::read_to_string(hub.state().join("hub.key")).unwrap();
    assert!(
        key.starts_with("-----BEGIN ENCRYPTED PRIVATE KEY-----"),
        "{key}"
    );
    // What signs nothing needs none.
    assert_eq!(hub.json(&["key"])["key_id"], made["key_id"]);
    hub.json(&["sites"]);
    let stick = hub.path("stick");
    fs::create_dir(&stick).unwrap();
    let acks = ["acks", stick.to_str().unwrap()];
    let without = hub.run(&acks);
    assert_eq!(code(&without), 2, "{}", stderr(&without));
    assert!(
        stderr(&without).contains("--passphrase-file"),
        "{}",
        stderr(&without)
    );
    private(&secret, b"another passphrase\n");
    let wrong = hub.run(&[&acks[..], &["--passphrase-file", file]].concat());
    assert_eq!(code(&wrong), 4, "{}", stderr(&wrong));
    assert!(
        !stderr(&wrong).contains("another passphrase"),
        "{}",
        stderr(&wrong)
    );
    private(&secret, b"a passphrase of the tests\n");
    hub.json(&[&acks[..], &["--passphrase-file", file]].concat());
    let credentials = hub.path("credentials");
    fs::create_dir(&credentials).unwrap();
    fs::copy(&secret, credentials.join("outhaul-hub.passphrase")).unwrap();
    let folder = credentials.to_str().unwrap();
    let server = hub.serve_in(&[], &[("CREDENTIALS_DIRECTORY", folder)]);
    assert!(server.url.starts_with("http://"), "it serves");
    assert_eq!(server.stop(), 0);
    // Another key would sign what no site takes.
    let other = outhaul_signer::SigningKey::generate().unwrap();
    other.save_plain(&hub.state().join("hub.key")).unwrap();
    let swapped = hub.run(&acks);
    assert_eq!(code(&swapped), 4, "{}", stderr(&swapped));
    assert!(
        stderr(&swapped).contains("this state was made with key"),
        "{}",
        stderr(&swapped)
    );
}

#[test]
fn a_plain_key_can_be_encrypted_later() {
    let hub = Hub::new();
    let centre = Centre::new();
    let root = centre.root();
    let init = ["init", "--root", root.to_str().unwrap()];
    let output = hub.run(&init);
    assert_eq!(code(&output), 2, "{}", stderr(&output));
    assert!(
        stderr(&output).contains("would rest unencrypted; nothing was made"),
        "{}",
        stderr(&output)
    );
    assert!(!hub.state().exists(), "nothing was made");
    let both = ["--plain-key", "a test", "--passphrase-file", "none"];
    assert_eq!(code(&hub.run(&[&init[..], &both].concat())), 2);
    assert_eq!(
        code(&hub.run(&[&init[..], &["--plain-key", " "]].concat())),
        2
    );
    let output = hub.run(&[&init[..], &["--plain-key", "a test of the plain key"]].concat());
    assert!(
        stderr(&output).contains("rests unencrypted"),
        "{}",
        stderr(&output)
    );
    let before = hub.json(&["key"]);
    let secret = hub.path("hub.passphrase");
    private(&secret, b"a passphrase of the tests\n");
    let file = secret.to_str().unwrap();
    assert_eq!(before["plain_key"], "a test of the plain key");
    let after = hub.json(&["key", "--encrypt", "--passphrase-file", file]);
    assert_eq!(before["public_key"], after["public_key"]);
    assert!(after["plain_key"].is_null(), "{after}");
    let key = fs::read_to_string(hub.state().join("hub.key")).unwrap();
    assert!(
        key.starts_with("-----BEGIN ENCRYPTED PRIVATE KEY-----"),
        "{key}"
    );
}

#[test]
fn a_key_that_is_a_credential_is_never_written() {
    let hub = Hub::new();
    let centre = Centre::new();
    let credentials = hub.path("credentials");
    fs::create_dir(&credentials).unwrap();
    let key = outhaul_signer::SigningKey::generate().unwrap();
    key.save_plain(&credentials.join("outhaul-hub.key"))
        .unwrap();
    let root = centre.root();
    let with = |arguments: &[&str]| {
        command()
            .env("CREDENTIALS_DIRECTORY", &credentials)
            .args(arguments)
            .arg("--state")
            .arg(hub.state())
            .output()
            .unwrap()
    };
    let made = with(&["init", "--root", root.to_str().unwrap()]);
    assert_eq!(code(&made), 0, "{}", stderr(&made));
    assert!(!hub.state().join("hub.key").exists());
    let printed = String::from_utf8(made.stdout).unwrap();
    assert_eq!(printed.trim(), key.public().to_pem().trim());
    let stick = hub.path("stick");
    fs::create_dir(&stick).unwrap();
    let signed = with(&["acks", stick.to_str().unwrap()]);
    assert_eq!(code(&signed), 0, "{}", stderr(&signed));
    let without = hub.run(&["acks", stick.to_str().unwrap()]);
    assert_eq!(code(&without), 3, "{}", stderr(&without));
}
