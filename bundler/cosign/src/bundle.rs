//! A signature in cosign's newer form: a Sigstore bundle with a statement in a DSSE envelope.
//!
//! What comes in: the bundle. What goes out: which key signed the statement, when it is cosign's
//! statement of a signature and its subject is the image; who signed without a key is `keyless`. Statements of other kinds (provenance, bills of materials) do not
//! count, whoever signed them. Source: `sigstore/protobuf-specs`, the DSSE protocol, in-toto's statement v1.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use outhaul_bundle::Digest;
pub(crate) use outhaul_kit::carried::STATEMENT;
use serde::Deserialize;
use std::collections::BTreeMap;

use crate::{SignatureKey, by_key};

/// Media type of a Sigstore bundle.
pub const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
const SIGNED: &str = "https://sigstore.dev/cosign/sign/v1";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Bundle {
    dsse_envelope: Envelope,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope {
    payload: String,
    payload_type: String,
    #[serde(default)]
    signatures: Vec<Signature>,
}

#[derive(Deserialize)]
struct Signature {
    sig: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Statement {
    predicate_type: String,
    subject: Vec<Subject>,
}

#[derive(Deserialize)]
struct Subject {
    digest: BTreeMap<String, String>,
}

/// Which of `keys` signed `image` in the Sigstore bundle `bytes`.
pub(crate) fn by_keys(
    image: &Digest,
    bytes: &[u8],
    keys: &[SignatureKey],
) -> Result<usize, String> {
    let bundle: Bundle = serde_json::from_slice(bytes)
        .map_err(|error| format!("a Sigstore bundle cannot be read: {error}"))?;
    let envelope = bundle.dsse_envelope;
    if envelope.payload_type != STATEMENT {
        return Err("a Sigstore bundle holds no statement".to_owned());
    }
    let payload = STANDARD
        .decode(&envelope.payload)
        .map_err(|_| "a statement is not base64".to_owned())?;
    let message = encoded(&envelope.payload_type, &payload);
    let made = envelope.signatures.iter();
    let made: Vec<_> = made.map(|one| by_key(&message, &one.sig, keys)).collect();
    let key = made.iter().find_map(|made| made.as_ref().ok());
    let Some(key) = key else {
        let why = made.into_iter().find_map(Result::err);
        return Err(why.unwrap_or_else(|| "a statement is not signed".to_owned()));
    };
    states(image, &payload)?;
    Ok(*key)
}

/// That a statement is cosign's of a signature, and its subject is `image`.
pub(crate) fn states(image: &Digest, payload: &[u8]) -> Result<(), String> {
    let statement: Statement = serde_json::from_slice(payload)
        .map_err(|error| format!("a signed statement cannot be read: {error}"))?;
    if statement.predicate_type != SIGNED {
        return Err("what is signed is another statement than that the image is signed".to_owned());
    }
    let is_it = |subject: &Subject| {
        subject
            .digest
            .get("sha256")
            .is_some_and(|hex| *hex == image.hex())
    };
    match statement.subject.iter().any(is_it) {
        true => Ok(()),
        false => Err("a signature is of another image".to_owned()),
    }
}

/// What a signature of an envelope is over: DSSE's pre-authentication encoding.
fn encoded(kind: &str, payload: &[u8]) -> Vec<u8> {
    let mut message = format!("DSSEv1 {} {kind} {} ", kind.len(), payload.len()).into_bytes();
    message.extend_from_slice(payload);
    message
}
