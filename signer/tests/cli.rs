//! The program as a person uses it: a fleet with keys in two places, from nothing to a changed root.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use outhaul_signer::Fleet;
use outhaul_tests::Checked as _;
use serde_json::Value;

use crate::fleet::sign;

const NOW: &str = "2026-06-01T00:00:00Z";

fn signer(folder: &Path, line: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_outhaul-signer"))
        .current_dir(folder)
        .env_remove("OUTHAUL_PASSPHRASE")
        .env_remove("CREDENTIALS_DIRECTORY")
        .args([
            "--passphrase-file",
            "pass",
            "--output",
            "json",
            "--now",
            NOW,
        ])
        .args(line.split(' '))
        .checked()
        .unwrap()
}

#[track_caller]
pub fn run(folder: &Path, code: i32, line: &str) -> Value {
    let output = signer(folder, line);
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{line}: {printed}");
    match outhaul_tests::result(&String::from_utf8(output.stdout).unwrap()) {
        Value::Null => Value::String(printed),
        result => result,
    }
}

pub fn folder_with_passphrase() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pass");
    fs::write(&path, "correct horse battery staple\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    dir
}

#[test]
fn a_hub_that_no_agent_could_ask_is_refused_where_it_is_typed_and_nothing_is_made() {
    let dir = folder_with_passphrase();
    for (url, said) in [
        ("hub.example", "is not a URL that starts with https://"),
        (
            "http://hub.example",
            "is not a URL that starts with https://",
        ),
        (
            "https://hub.example:99999",
            "is not a URL with a port from 1 to 65535",
        ),
        (
            "https://hub.example/login",
            "is the address of a page, and not of a hub",
        ),
        ("", "it is empty: write where the hub is"),
    ] {
        let text = run(dir.path(), 2, &format!("init fleet --hub-url {url}"));
        assert!(text.as_str().unwrap().contains(said), "{text}");
        assert!(!dir.path().join("fleet").exists());
    }
    run(dir.path(), 0, "init fleet --hub-url https://hub.example");
    let fleet = Fleet::open(&dir.path().join("fleet")).unwrap();
    assert_eq!(fleet.hub_url(), "https://hub.example");
}

#[test]
fn two_people_in_two_places_change_the_root() {
    let dir = folder_with_passphrase();
    let at = dir.path();
    let made = run(at, 0, "init fleet");
    let fleet = Fleet::open(&at.join("fleet")).unwrap();
    assert_eq!(made["fleet"], fleet.id());
    let vault = run(at, 0, "key vault");
    run(at, 0, "root fleet add-key vault.pub");
    // The first key alone raises the threshold; from then on both are needed. The new root itself
    // must be signed by both: by its own rule.
    assert_eq!(run(at, 1, "root fleet threshold 2")["state"], "waiting");
    let request = "fleet/requests/3.root.json.request";
    fs::copy(at.join("fleet/metadata/1.root.json"), at.join("mine.json")).unwrap();
    let countersign = format!("countersign {request} --root mine.json");
    let shown = run(at, 0, &format!("{countersign} --show"));
    assert_eq!(shown["signed"]["roles"]["root"]["threshold"], 2);
    // Nobody is at this terminal, and a script has to name what it signs.
    let asked = run(at, 2, &format!("{countersign} --key vault.pem"));
    let digest = shown["digest"].as_str().unwrap();
    assert!(asked.as_str().unwrap().contains(digest), "{asked}");
    for other in ["0".repeat(64), digest[..15].to_owned()] {
        run(
            at,
            1,
            &format!("{countersign} --key vault.pem --digest {other}"),
        );
    }
    let answer = run(
        at,
        0,
        &format!("{countersign} --key vault.pem --digest {digest}"),
    );
    assert_eq!(answer["key"], vault["id"]);
    assert_eq!(run(at, 0, "root fleet finish")["version"], 3);
    let status = run(at, 0, "status fleet");
    assert_eq!(
        (
            &status["roles"][0]["threshold"],
            &status["roles"][0]["version"]
        ),
        (&2.into(), &3.into())
    );
    assert_eq!(run(at, 1, "rotate fleet online")["state"], "waiting");
}

/// A stand-in for a hardware module that is a real signer: OpenSSL holds the key, and no file that
/// `outhaul-signer` reads has its private half.
#[test]
fn a_root_key_that_a_program_holds_signs_the_root_and_nobody_else_s_answer_counts() {
    if !outhaul_tests::available_or_skip("openssl") {
        return;
    }
    let dir = folder_with_passphrase();
    let at = dir.path();
    let openssl = |line: &str| {
        let mut command = Command::new("openssl");
        let status = command.current_dir(at).args(line.split(' ')).status();
        assert!(
            status.is_ok_and(|status| status.success()),
            "openssl {line}"
        );
    };
    for key in ["module", "thief"] {
        openssl(&format!("genpkey -algorithm ed25519 -out {key}.key"));
        openssl(&format!("pkey -in {key}.key -pubout -out {key}.pub"));
        let program = at.join(key);
        let script = format!(
            "#!/bin/sh\nset -e\nt=$(mktemp)\ncat > \"$t\"\nopenssl pkeyutl -sign -rawin -inkey \
             '{}/{key}.key' -in \"$t\"\nrm \"$t\"\n",
            at.display()
        );
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    }
    run(at, 0, "init fleet");
    run(at, 0, "root fleet add-key module.pub");
    assert_eq!(run(at, 1, "root fleet threshold 2")["state"], "waiting");
    let request = "fleet/requests/3.root.json.request";
    let root = "--root fleet/metadata/1.root.json";
    let shown = run(at, 0, &format!("countersign {request} {root} --show"));
    let digest = shown["digest"].as_str().unwrap().to_owned();
    let by = |program: &str| {
        format!(
            "countersign {request} {root} --digest {digest} --signer-command ./{program} --public-key \
             module.pub"
        )
    };
    // A program with signatures that are not those of the key that it is named for.
    run(at, 1, &by("thief"));
    assert_eq!(run(at, 1, "root fleet finish")["state"], "waiting");
    run(at, 0, &by("module"));
    assert_eq!(run(at, 0, "root fleet finish")["version"], 3);
    assert_eq!(run(at, 0, "status fleet")["roles"][0]["threshold"], 2);
}

#[test]
fn a_published_stream_is_checked_and_its_key_revoked() {
    let dir = folder_with_passphrase();
    let at = dir.path();
    run(at, 0, "init fleet");
    let fleet = Fleet::open(&at.join("fleet")).unwrap();
    let role = fleet.role("dev", "drone");
    fleet.commit(&sign(&fleet, "dev", 1).unwrap()).unwrap();
    let check = format!("verify-metadata fleet/metadata --role {role}");
    assert_eq!(run(at, 0, &check)["number"], 1);
    run(at, 0, &format!("revoke fleet {role}"));
    assert_eq!(run(at, 0, &check)["number"], 1);
    run(at, 0, "rotate fleet all");
    assert_eq!(run(at, 0, &check)["versions"]["root"], 2);
    let printed = run(
        at,
        4,
        "verify-metadata fleet/metadata --role s-0000000000000000",
    );
    assert!(
        printed.as_str().unwrap().contains("s-0000000000000000"),
        "{printed}"
    );
}

#[test]
fn what_goes_wrong_has_its_exit_code_and_says_what_to_do() {
    let dir = folder_with_passphrase();
    let at = dir.path();
    run(at, 0, "init fleet");
    for (code, line, words) in [
        (2, "init fleet", "is a fleet already"),
        (2, "status nowhere", "outhaul-signer init"),
        (
            2,
            "init other --root-keys 2 --root-threshold 3",
            "threshold",
        ),
        (2, "root fleet threshold 9", "threshold"),
        (2, "root fleet finish", "no change"),
        (2, "--passphrase-file", "value is required"),
        (3, "root fleet add-key missing.pub", "missing.pub"),
        (
            3,
            "countersign missing.request --root pass --show",
            "missing.request",
        ),
        (
            1,
            "countersign pass --root pass --show",
            "not a signing request",
        ),
        (2, "countersign pass --show", "--root"),
    ] {
        let printed = run(at, code, line);
        assert!(
            printed.as_str().unwrap().contains(words),
            "{line}: {printed}"
        );
    }
    fs::write(at.join("pass"), "wrong\n").unwrap();
    let printed = run(at, 4, "rotate fleet online");
    assert!(
        printed
            .as_str()
            .unwrap()
            .contains("passphrase does not open"),
        "{printed}"
    );
    let bare = Command::new(env!("CARGO_BIN_EXE_outhaul-signer"))
        .current_dir(at)
        .env_remove("OUTHAUL_PASSPHRASE")
        .env_remove("CREDENTIALS_DIRECTORY")
        .args(["rotate", "fleet", "online"])
        .checked()
        .unwrap();
    assert_eq!(bare.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&bare.stderr).contains("--passphrase-file"));
}

#[test]
fn every_command_shows_an_example() {
    let all = "countersign init key passphrase revoke root rotate status stream verify-metadata";
    for command in all.split(' ') {
        let output = Command::new(env!("CARGO_BIN_EXE_outhaul-signer"))
            .args([command, "--help"])
            .checked()
            .unwrap();
        let help = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(help.contains("Example:"), "{command}: {help}");
    }
}
