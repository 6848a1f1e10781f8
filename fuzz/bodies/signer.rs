//! What fuzzing does with foreign bytes that claim to be an envelope, a kit, a signing request, a
//! freshness slip or a metadata file.
//!
//! What comes in: any bytes. What goes out: nothing; no body may panic. Metadata is tried twice: as it
//! is, and signed by keys that the site trusts, so that what lies behind the signature check is reached.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use outhaul_signer::metadata::{self, Key, MetaFile, Signs};
use outhaul_signer::request::{SigningAnswer, SigningRequest};
use outhaul_signer::review;
use outhaul_signer::slip::{self, Slip};
use outhaul_signer::trust::{self, TrustedMetadata};
use outhaul_signer::{Envelope, Kit, SigningKey, TimePolicy};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

const ROLE: &str = "s-0011223344556677";
const NOW: &str = "2026-06-01T00:00:00Z";
const EXPIRES: &str = "2027-06-01T00:00:00Z";

/// Parses an envelope; what is accepted must survive a round trip, and none of it counts as signed.
pub fn envelope(bytes: &[u8]) {
    if let Ok(envelope) = Envelope::from_json(bytes) {
        let again = Envelope::from_json(&envelope.to_json());
        assert!(
            again.is_ok_and(|again| again.unverified_payload() == envelope.unverified_payload())
        );
        assert!(envelope.verify(envelope.payload_type(), &[]).is_err());
    }
}

/// Parses an enrolment kit.
pub fn kit(bytes: &[u8]) {
    if let Ok(kit) = Kit::from_bytes(bytes) {
        assert!(Kit::from_bytes(&kit.to_bytes()).is_ok());
    }
}

/// Parses what a signer on a machine that is never online is asked, and what it answers.
pub fn request(bytes: &[u8]) {
    if let Ok(request) = SigningRequest::from_bytes(bytes) {
        request.payload_bytes().ok();
        if let (Some(fleet), Ok(now)) = (fleet(), NOW.parse()) {
            review::review(&request, &fleet.root, None, now).ok();
        }
    }
    SigningAnswer::from_bytes(bytes).ok();
}

/// Parses a freshness slip: as a file, as text, and as the inside of a file whose checksum is right, so
/// that what lies behind the checksum is reached. What is accepted has this one spelling.
pub fn slip(bytes: &[u8]) {
    for file in [bytes.to_vec(), with_checksum(bytes)] {
        if let Ok(slip) = Slip::from_bytes(&file) {
            assert!(Slip::from_bytes(&slip.to_bytes()).is_ok_and(|again| again == slip));
            assert!(Slip::from_text(&slip.to_text()).is_ok_and(|again| again == slip));
        }
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        Slip::from_text(text).ok();
    }
}

/// A slip of the fleet that [`metadata`] bends.
pub fn right_slip() -> Option<Slip> {
    let files: Vec<_> = publish(fleet()?, None)?.into_iter().collect();
    Slip::new("00112233aabbccdd", ROLE, &files, 0).ok()
}

fn with_checksum(body: &[u8]) -> Vec<u8> {
    let mut file = [&slip::MAGIC[..], body].concat();
    let digest = Sha256::digest(&file);
    file.extend_from_slice(&digest[..4]);
    file
}

/// Takes the first byte's choice of a metadata file to consist of the other bytes, or to have them
/// signed as its content.
pub fn metadata(bytes: &[u8]) {
    let Some((choice, content)) = bytes.split_first() else {
        return;
    };
    TrustedMetadata::enrol(content).ok();
    let Some(fleet) = fleet() else { return };
    let Ok(trusted) = TrustedMetadata::enrol(&fleet.root) else {
        return;
    };
    let bent = Bent {
        file: choice % 5,
        raw: choice & 0x80 != 0,
        content,
    };
    let Some(files) = publish(fleet, Some(&bent)) else {
        return;
    };
    let (Ok(lower_bound), Ok(wall)) = (NOW.parse(), NOW.parse()) else {
        return;
    };
    let now = TimePolicy {
        lower_bound,
        wall,
        wall_trusted: false,
    };
    trust::verify(&trusted, &BTreeMap::new(), &files, ROLE, now).ok();
}

/// Whether the fleet that [`metadata`] bends is accepted when it is not bent.
pub fn unbent_metadata_is_accepted() -> bool {
    let accepted = || {
        let fleet = fleet()?;
        let trusted = TrustedMetadata::enrol(&fleet.root).ok()?;
        let files = publish(fleet, None)?;
        let now = NOW.parse().ok()?;
        let now = TimePolicy {
            lower_bound: now,
            wall: now,
            wall_trusted: false,
        };
        trust::verify(&trusted, &BTreeMap::new(), &files, ROLE, now).ok()
    };
    accepted().is_some()
}

/// A fleet whose one key signs everything.
struct Fleet {
    key: SigningKey,
    root: Vec<u8>,
}

/// Which file is other than it should be.
struct Bent<'a> {
    file: u8,
    /// The content is the file; otherwise it is what the fleet signs.
    raw: bool,
    content: &'a [u8],
}

fn fleet() -> Option<&'static Fleet> {
    static FLEET: OnceLock<Option<Fleet>> = OnceLock::new();
    let make = || {
        let key = SigningKey::generate().ok()?;
        let signed = metadata::signed_bytes(&root(&key, 1)).ok()?;
        let root = metadata::assemble(&signed, &[metadata::sign_one(&signed, &key).ok()?]).ok()?;
        Some(Fleet { key, root })
    };
    FLEET.get_or_init(make).as_ref()
}

fn root(key: &SigningKey, version: u64) -> Value {
    let id = Signs::public(key).id();
    let role = json!({ "keyids": [&id], "threshold": 1 });
    json!({
        "_type": "root", "spec_version": metadata::SPEC_VERSION, "version": version,
        "expires": EXPIRES, "consistent_snapshot": true,
        "keys": { &id: Key::new(&Signs::public(key)) },
        "roles": { "root": &role, "targets": &role, "snapshot": &role, "timestamp": &role },
    })
}

/// All files, from the stream up to the timestamp: each pins the one before as it came out.
fn publish(fleet: &Fleet, bent: Option<&Bent<'_>>) -> Option<BTreeMap<String, Vec<u8>>> {
    let file = |number: u8, right: Value| -> Option<Vec<u8>> {
        let bent = bent.filter(|bent| bent.file == number);
        let signed = match bent {
            Some(bent) if bent.raw => return Some(bent.content.to_vec()),
            Some(bent) => bent.content.to_vec(),
            None => metadata::signed_bytes(&right).ok()?,
        };
        let signature = metadata::sign_one(&signed, &fleet.key).ok()?;
        metadata::assemble(&signed, &[signature]).ok()
    };
    let signed = |kind: &str, rest: Value| {
        let mut value = json!({
            "_type": kind, "spec_version": metadata::SPEC_VERSION, "version": 1, "expires": EXPIRES,
        });
        if let (Value::Object(value), Value::Object(rest)) = (&mut value, rest) {
            value.extend(rest);
        }
        value
    };
    let key = Signs::public(&fleet.key);
    let index = json!({
        "length": 1, "hashes": metadata::sha256_of(b"x"),
        "custom": {
            "number": 1, "issued": NOW, "environment": "dev", "cluster_type": "drone",
        },
    });
    let index_path = format!("{ROLE}/index.json");
    let stream = file(
        0,
        signed("targets", json!({ "targets": { index_path: index } })),
    )?;
    let delegated = json!({
        "name": ROLE, "keyids": [key.id()], "threshold": 1, "terminating": true,
        "paths": [format!("{ROLE}/*")],
    });
    let delegations = json!({ "keys": { key.id(): Key::new(&key) }, "roles": [delegated] });
    let targets = file(
        1,
        signed(
            "targets",
            json!({ "targets": {}, "delegations": delegations }),
        ),
    )?;
    let pins = json!({
        "targets.json": MetaFile::of(1, &targets), format!("{ROLE}.json"): MetaFile::of(1, &stream),
    });
    let snapshot = file(2, signed("snapshot", json!({ "meta": pins })))?;
    let pin = json!({ "snapshot.json": MetaFile::of(1, &snapshot) });
    let timestamp = file(
        3,
        signed("timestamp", json!({ "issued": NOW, "meta": pin })),
    )?;
    let mut files = BTreeMap::from([
        ("1.root.json".to_owned(), fleet.root.clone()),
        ("timestamp.json".to_owned(), timestamp),
        ("1.snapshot.json".to_owned(), snapshot),
        ("1.targets.json".to_owned(), targets),
        (format!("1.{ROLE}.json"), stream),
    ]);
    if bent.is_some_and(|bent| bent.file == 4) {
        files.insert("2.root.json".to_owned(), file(4, root(&fleet.key, 2))?);
    }
    Some(files)
}
