//! Bundles and trusted roots that other programs wrote, recorded: those in the sources of the library that verifies them.
//!
//! What comes in: the folder of the library, as cargo knows it. What must come out: who signed, of what holds; and that what was changed, or lacks
//! something, does not. None of it is about an image, so that it is never a signature of one.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use jiff::Timestamp;
use sigstore_verify::types::{Artifact, Sha256Hash};

use super::*;
use crate::keyless::{from_annotations, of_bundle, of_simple, parsed, verified};
use crate::trusted_root::MAX_TRUSTED_ROOT_BYTES;

const WORKFLOWS: &str = "https://token.actions.githubusercontent.com";

fn folder() -> &'static PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let metadata = Command::new(env!("CARGO"))
            .args(["metadata", "--format-version", "1", "--offline", "--locked"])
            // What other platforms need was never downloaded here.
            .args([
                "--filter-platform",
                &format!("{}-unknown-linux-gnu", std::env::consts::ARCH),
            ])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .unwrap();
        let metadata: Value = serde_json::from_slice(&metadata.stdout).unwrap();
        let mut all = metadata["packages"].as_array().unwrap().iter();
        let library = all.find(|one| one["name"] == "sigstore-verify").unwrap();
        let manifest = PathBuf::from(library["manifest_path"].as_str().unwrap());
        manifest.with_file_name("test_data")
    })
}

fn recorded(name: &str) -> Vec<u8> {
    std::fs::read(folder().join(name)).unwrap()
}

fn json(name: &str) -> Value {
    serde_json::from_slice(&recorded(name)).unwrap()
}

fn root(name: &str) -> TrustedRoot {
    TrustedRoot::parse(&String::from_utf8(recorded(name)).unwrap()).unwrap()
}

fn public_good() -> TrustedRoot {
    root("trusted_roots/public-good.json")
}

const PACKAGE: &str = "54303491a8418fbed24344b513546182c29b43bf282ceb433af65e2299f9271f";
const ATTESTATION: &str = "bundles/conda-attestation.sigstore.json";

/// What is said of a promise that is not of the entry.
const PROMISE: &str = "SET verification failed";

/// Who signed the package in what is recorded as `bundle`.
fn signer(bundle: &Value, root: &TrustedRoot) -> Result<Identity, String> {
    let digest = Sha256Hash::from_hex(PACKAGE).unwrap();
    let bundle = parsed(bundle.to_string().as_bytes())?;
    verified(Artifact::from(digest), &bundle, root)
}

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

#[test]
fn what_sigstore_s_own_instance_signed_holds_and_is_no_signature_of_an_image() {
    let found = signer(&json(ATTESTATION), &public_good()).unwrap();
    assert_eq!(found.issuer, WORKFLOWS);
    assert!(
        found.subject.starts_with("https://github.com/"),
        "{found:?}"
    );
    assert_eq!(found.at, time("2025-09-01T12:13:59Z"));
    assert!(found.is_logged);
    let image: Digest = format!("sha256:{PACKAGE}").parse().unwrap();
    let refused = of_bundle(&image, &recorded(ATTESTATION), &public_good()).unwrap_err();
    assert!(refused.contains("another statement"), "{refused}");
    let refused = of_bundle(
        &image,
        &recorded("bundles/cosign-v3-blob.sigstore.json"),
        &public_good(),
    );
    assert!(refused.unwrap_err().contains("holds no statement"));
}

#[test]
fn attack_recorded_bundles_that_lack_something_or_were_changed_do_not_hold() {
    let blob = |name: &str, text: &[u8]| {
        let bundle = parsed(&recorded(name))?;
        verified(Artifact::from(text), &bundle, &public_good())
    };
    for (name, expected) in [
        (
            "bundles/bundle_v3_no_signed_time.txt.sigstore.json",
            "no verified timestamp",
        ),
        (
            "bundles/bundle_no_log_entry.txt.sigstore",
            "must have an inclusion promise",
        ),
        (
            "bundles/bundle_no_checkpoint.txt.sigstore",
            "has no checkpoint",
        ),
        (
            "bundles/bundle_invalid_version.txt.sigstore",
            "Invalid media type",
        ),
        (
            "bundles/bundle_no_cert_v1.txt.sigstore",
            "has no checkpoint",
        ),
        (
            "bundles/bundle_cve_2022_36056.txt.sigstore",
            "invalid inclusion promise: No log key valid",
        ),
        ("managed-key/bundle.sigstore.json", "is by a key"),
    ] {
        let refused = blob(name, b"text").expect_err(name);
        assert!(refused.contains(expected), "{name}: {refused}");
    }
    let entry = "/verificationMaterial/tlogEntries/0";
    for (at, value, expected) in [
        ("integratedTime", json!("1756728840"), PROMISE),
        ("logIndex", json!("1"), PROMISE),
        (
            "inclusionProof/logIndex",
            json!("1"),
            "expected 29 proof hashes",
        ),
        (
            "inclusionProof/hashes/0",
            json!("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="),
            "root hash mismatch",
        ),
        (
            "inclusionPromise/signedEntryTimestamp",
            json!("MEUCIQ=="),
            PROMISE,
        ),
        (
            "logId/keyId",
            json!("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="),
            "No log key valid",
        ),
    ] {
        let mut bundle = json(ATTESTATION);
        *bundle.pointer_mut(&format!("{entry}/{at}")).unwrap() = value;
        let refused = signer(&bundle, &public_good()).expect_err(at);
        assert!(refused.contains(expected), "{at}: {refused}");
    }
    let foreign = root("trusted_roots/scaffolding.json");
    let refused = signer(&json(ATTESTATION), &foreign).unwrap_err();
    assert!(refused.contains("No log key valid"), "{refused}");
}

/// What cosign's older form would have of a signature that is recorded as a bundle: its parts as annotations.
fn as_annotations(bundle: &Value) -> (Layer, String) {
    let entry = &bundle["verificationMaterial"]["tlogEntries"][0];
    let number = |value: &Value| value.as_str().unwrap().parse::<i64>().unwrap();
    let log = STANDARD
        .decode(entry["logId"]["keyId"].as_str().unwrap())
        .unwrap();
    let log = log.iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").unwrap();
        hex
    });
    let logged = json!({
        "SignedEntryTimestamp": entry["inclusionPromise"]["signedEntryTimestamp"],
        "Payload": {
            "body": entry["canonicalizedBody"], "integratedTime": number(&entry["integratedTime"]),
            "logIndex": number(&entry["logIndex"]), "logID": log,
        },
    });
    let certificate = bundle["verificationMaterial"]["certificate"]["rawBytes"].as_str();
    let layer = json!({
        "mediaType": SIMPLE, "digest": "", "size": 0,
        "annotations": {
            "dev.sigstore.cosign/bundle": logged.to_string(),
            "dev.sigstore.cosign/certificate": format!(
                "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", certificate.unwrap()
            ),
        },
    });
    let signature = bundle["messageSignature"]["signature"].as_str().unwrap();
    (serde_json::from_value(layer).unwrap(), signature.to_owned())
}

#[test]
fn the_older_form_holds_by_the_promise_of_a_log_and_states_an_image() {
    let name = "bundles/cosign-v3-blob.sigstore.json";
    let text = recorded("bundles/cosign-v3-blob.txt");
    let of = |bundle: &Value, text: &[u8]| {
        let (layer, signature) = as_annotations(bundle);
        let bundle = from_annotations(&layer, &signature, text)?;
        verified(Artifact::from(text), &bundle, &public_good())
    };
    let held = of(&json(name), &text).unwrap();
    assert!(held.is_logged, "{held:?}");
    assert_eq!(held.at, time("2025-12-03T18:36:43Z"));
    let refused = of(&json(name), b"another text").unwrap_err();
    assert!(
        refused.contains("does not hold: invalid signature"),
        "{refused}"
    );
    for (at, value) in [
        ("integratedTime", json!("1764787004")),
        ("logIndex", json!("1")),
        ("inclusionPromise/signedEntryTimestamp", json!("MEUCIQ==")),
    ] {
        let mut bundle = json(name);
        let at = format!("/verificationMaterial/tlogEntries/0/{at}");
        *bundle.pointer_mut(&at).unwrap() = value;
        let refused = of(&bundle, &text).expect_err(&at);
        assert!(
            refused.contains("SET verification failed"),
            "{at}: {refused}"
        );
    }
    // It holds, and what is signed is a text that states no image.
    let (layer, signature) = as_annotations(&json(name));
    let refused = of_simple(&image(), &layer, (&signature, &text), &public_good()).unwrap_err();
    assert!(
        refused.contains("what is signed cannot be read"),
        "{refused}"
    );
}

#[test]
fn a_root_is_old_when_nothing_in_it_is_new_or_the_last_of_a_kind_ends() {
    let whole = public_good().alarms(time("2025-01-01T00:00:00Z"));
    assert_eq!(
        whole,
        ["its last timestamp authority ended on 2024-04-13: what is signed since does not hold"]
    );
    let mut sound = json("trusted_roots/public-good.json");
    sound["timestampAuthorities"] = json!([]);
    let parsed = |root: &Value| TrustedRoot::parse(&root.to_string()).unwrap();
    let none: [&str; 0] = [];
    assert_eq!(parsed(&sound).alarms(time("2024-10-01T00:00:00Z")), none);
    let old = parsed(&sound).alarms(time("2024-10-20T00:00:00Z"));
    assert_eq!(
        old,
        ["nothing in it is newer than 2022-10-20, which is more than 730 days ago"]
    );
    // The certificates of the authorities end, whatever the file says.
    let ended = parsed(&sound)
        .alarms(time("2040-01-01T00:00:00Z"))
        .join("; ");
    assert!(
        ended.contains("its last certificate authority ended on 2031-10-05"),
        "{ended}"
    );
    let mut ends = sound.clone();
    ends["tlogs"][0]["publicKey"]["validFor"]["end"] = json!("2024-09-20T00:00:00Z");
    let ends = parsed(&ends);
    assert_eq!(ends.alarms(time("2024-08-20T00:00:00Z")), none);
    let soon = ends.alarms(time("2024-08-22T00:00:00Z"));
    assert_eq!(
        soon,
        ["its last log key ends on 2024-09-20: what is signed from then on will not hold"]
    );
    let over = ends.alarms(time("2024-09-20T00:00:00Z"));
    assert_eq!(
        over,
        ["its last log key ended on 2024-09-20: what is signed since does not hold"]
    );
}

#[test]
fn a_root_that_could_verify_nothing_is_refused() {
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut root = json("trusted_roots/public-good.json");
        change(&mut root);
        TrustedRoot::parse(&root.to_string())
            .unwrap_err()
            .to_string()
    };
    let too_large = format!("{{{}}}", " ".repeat(MAX_TRUSTED_ROOT_BYTES));
    for (found, expected) in [
        (
            TrustedRoot::parse("").unwrap_err().to_string(),
            "cannot be read",
        ),
        (
            TrustedRoot::parse(&too_large).unwrap_err().to_string(),
            "more than",
        ),
        (
            changed(&|root| root["mediaType"] = json!("text/plain")),
            "media type",
        ),
        (
            changed(&|root| root["certificateAuthorities"] = json!([])),
            "no certificate authority",
        ),
        (
            changed(&|root| {
                root["tlogs"] = json!([]);
                root["timestampAuthorities"] = json!([]);
            }),
            "neither a log nor a timestamp authority",
        ),
        (
            changed(&|root| root["tlogs"][0]["publicKey"]["rawBytes"] = json!("AAAA")),
            "cannot verify",
        ),
        (
            changed(&|root| {
                let one = root["tlogs"][0].clone();
                root["tlogs"] = json!(vec![one; 201]);
            }),
            "more than 200 entries",
        ),
    ] {
        assert!(found.contains(expected), "{found}");
    }
}
