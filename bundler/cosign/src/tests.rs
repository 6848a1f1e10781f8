//! Signatures that hold, and each way in which one does not.

use p256::ecdsa::signature::Signer as _;
use p256::ecdsa::{Signature, SigningKey};
use p256::pkcs8::EncodePublicKey as _;
use serde_json::{Value, json};

use super::*;

mod recorded;

fn key(number: u8) -> (SigningKey, SignatureKey) {
    let secret = SigningKey::from_slice(&[number; 32]).unwrap();
    let pem = secret
        .verifying_key()
        .to_public_key_pem(p256::pkcs8::LineEnding::LF)
        .unwrap();
    (secret, SignatureKey::parse(&pem).unwrap())
}

fn sign(key: &SigningKey, message: &[u8]) -> String {
    let signature: Signature = key.sign(message);
    STANDARD.encode(signature.to_der().as_bytes())
}

fn image() -> Digest {
    Digest::of(b"image")
}

/// A manifest with one layer of this content.
fn manifest(media_type: &str, bytes: &[u8], annotations: &Value) -> Vec<u8> {
    let layer = json!({
        "mediaType": media_type,
        "digest": Digest::of(bytes).to_string(),
        "size": bytes.len(),
        "annotations": annotations,
    });
    json!({ "layers": [layer] }).to_string().into_bytes()
}

fn simple(key: &SigningKey, digest: &str, kind: &str) -> (Vec<u8>, Vec<u8>) {
    let payload = json!({"critical": {
        "identity": {"docker-reference": "registry.example/press"},
        "image": {"docker-manifest-digest": digest},
        "type": kind,
    }, "optional": null});
    let payload = payload.to_string().into_bytes();
    let annotations = json!({ "dev.cosignproject.cosign/signature": sign(key, &payload) });
    (manifest(SIMPLE, &payload, &annotations), payload)
}

fn bundled(key: &SigningKey, digest: &str, predicate: &str) -> (Vec<u8>, Vec<u8>) {
    let statement = json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"digest": {"sha256": digest}}],
        "predicateType": predicate,
        "predicate": {},
    });
    let payload = statement.to_string().into_bytes();
    let kind = "application/vnd.in-toto+json";
    let mut message = format!("DSSEv1 28 {kind} {} ", payload.len()).into_bytes();
    message.extend_from_slice(&payload);
    let bundle = json!({
        "mediaType": BUNDLE,
        "verificationMaterial": {"publicKey": {"hint": "x"}},
        "dsseEnvelope": {
            "payload": STANDARD.encode(&payload),
            "payloadType": kind,
            "signatures": [{"sig": sign(key, &message)}],
        },
    });
    let bundle = bundle.to_string().into_bytes();
    (manifest(BUNDLE, &bundle, &json!({})), bundle)
}

fn verdict(
    (manifest, bytes): &(Vec<u8>, Vec<u8>),
    keys: &[SignatureKey],
) -> Result<usize, Vec<String>> {
    let blob = |_: Content| Some(bytes.clone());
    let trusted = Trusted {
        keys,
        identities: None,
    };
    match signed_by(&image(), manifest, &blob, &trusted)? {
        SignedBy::Key(key) => Ok(key),
        SignedBy::Identity(identity) => panic!("{identity:?}"),
    }
}

fn problem(signature: &(Vec<u8>, Vec<u8>), keys: &[SignatureKey]) -> String {
    verdict(signature, keys).unwrap_err().join("; ")
}

const TYPE: &str = "cosign container image signature";
const SIGNED: &str = "https://sigstore.dev/cosign/sign/v1";

#[test]
fn both_forms_hold_for_the_key_that_signed_and_for_no_other() {
    let ((secret, mine), (_, other)) = (key(7), key(8));
    let digest = image();
    let old = simple(&secret, &digest.to_string(), TYPE);
    let new = bundled(&secret, digest.hex().as_str(), SIGNED);
    for signature in [&old, &new] {
        assert_eq!(verdict(signature, &[other.clone(), mine.clone()]), Ok(1));
        let refused = problem(signature, std::slice::from_ref(&other));
        assert!(refused.contains("by none of the keys"), "{refused}");
        assert!(verdict(signature, &[]).is_err());
    }
}

#[test]
fn what_is_signed_must_be_this_image_and_nothing_else() {
    let (secret, key) = key(7);
    let keys = [key];
    let another = Digest::of(b"another");
    let (this, other) = (image(), another);
    for (signature, expected) in [
        (
            simple(&secret, &other.to_string(), TYPE),
            "of another image",
        ),
        (
            simple(&secret, &this.to_string(), "atomic container signature"),
            "not a container image",
        ),
        (
            bundled(&secret, other.hex().as_str(), SIGNED),
            "of another image",
        ),
        (
            bundled(
                &secret,
                this.hex().as_str(),
                "https://slsa.dev/provenance/v1",
            ),
            "another statement",
        ),
        (simple(&secret, "sha256:", TYPE), "of another image"),
    ] {
        let refused = problem(&signature, &keys);
        assert!(refused.contains(expected), "{refused}");
    }
    // A content that is not the one that the manifest names.
    let (manifest, _) = simple(&secret, &this.to_string(), TYPE);
    let refused = problem(&(manifest, b"{}".to_vec()), &keys);
    assert!(refused.contains("does not match its digest"), "{refused}");
    let image_itself = manifest_of_an_image();
    assert_eq!(problem(&image_itself, &keys), "it holds no signature");
}

fn manifest_of_an_image() -> (Vec<u8>, Vec<u8>) {
    let layer = "application/vnd.oci.image.layer.v1.tar+gzip";
    (manifest(layer, b"layer", &json!({})), b"layer".to_vec())
}

#[test]
fn only_keys_of_the_one_kind_are_keys() {
    for text in [
        "",
        "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n",
    ] {
        assert!(SignatureKey::parse(text).is_err(), "{text}");
    }
}
