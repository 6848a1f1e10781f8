//! A signature without a key pair: by a certificate that a certificate authority gave to an identity for some minutes.
//!
//! What comes in: a Sigstore bundle, or a layer of cosign's older form, and a trusted root. What goes out: who signed this image and
//! when. Verified are, with `sigstore-verify`: the certificate up to an authority of the root at the time of the signature, that
//! it is in a log of certificates, the signature in a log or with a timestamp, and the signature itself; here, that what is signed is cosign's
//! statement of this very image. A log of either kind is asked for where the root names one. No connection is opened.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use outhaul_bundle::Digest;
use serde::Deserialize;
use serde_json::{Value, json};
use sigstore_verify::types::bundle::VerificationMaterialContent;
use sigstore_verify::types::{Artifact, Bundle, Sha256Hash, SignatureContent};
use sigstore_verify::{VerificationPolicy, VerificationResult};

use crate::simple::stated_image;
use crate::{Layer, TrustedRoot, bundle};

/// Most log entries, timestamps or certificates in one signature.
const MAX_PARTS: usize = 16;
/// Most characters of what a library or a signature says.
const MAX_SHOWN: usize = 400;
const CERTIFICATE: &str = "dev.sigstore.cosign/certificate";
const CHAIN: &str = "dev.sigstore.cosign/chain";
const LOGGED: &str = "dev.sigstore.cosign/bundle";
const TIMESTAMP: &str = "dev.sigstore.cosign/rfc3161timestamp";

/// Who signed an image, as a certificate authority of the trusted root says.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    /// Who knew the subject: the issuer of the token that the certificate was given for.
    pub issuer: String,
    /// Who signed: an address of mail, or a URL such as that of a workflow.
    pub subject: String,
    /// When, by a log or a timestamp authority: the earliest time that one of them says.
    pub at: Timestamp,
    /// Whether the signature is in a log; else only a timestamp authority knows of it.
    pub is_logged: bool,
}

/// Who signed `image` in the Sigstore bundle `bytes`.
pub(crate) fn of_bundle(
    image: &Digest,
    bytes: &[u8],
    root: &TrustedRoot,
) -> Result<Identity, String> {
    let bundle = parsed(bytes)?;
    let SignatureContent::DsseEnvelope(envelope) = &bundle.content else {
        return Err("a Sigstore bundle holds no statement".to_owned());
    };
    if envelope.payload_type != bundle::STATEMENT {
        return Err("a Sigstore bundle holds no statement".to_owned());
    }
    // Before the signature, because a statement of another image has its own words; nothing counts that is not signed, below.
    bundle::states(image, envelope.payload.as_bytes())?;
    let digest = Sha256Hash::from_hex(&image.hex()).map_err(|error| shown(&error))?;
    verified(Artifact::from(digest), &bundle, root)
}

/// Who signed `image` in a layer of the older form, whose content is `bytes`.
pub(crate) fn of_simple(
    image: &Digest,
    layer: &Layer,
    (signature, bytes): (&str, &[u8]),
    root: &TrustedRoot,
) -> Result<Identity, String> {
    let bundle = from_annotations(layer, signature, bytes)?;
    if root.has_log() && !bundle.has_inclusion_promise() {
        return Err("a signature is not in a log, and the trusted root names one".to_owned());
    }
    let identity = verified(Artifact::from(bytes), &bundle, root)?;
    stated_image(image, bytes)?;
    Ok(identity)
}

pub(crate) fn parsed(bytes: &[u8]) -> Result<Bundle, String> {
    let unread = |error: &dyn std::fmt::Display| {
        format!("a Sigstore bundle cannot be read: {}", shown(error))
    };
    let text = std::str::from_utf8(bytes).map_err(|error| unread(&error))?;
    let bundle = Bundle::from_json(text).map_err(|error| unread(&error))?;
    let material = &bundle.verification_material;
    let certificates = match &material.content {
        VerificationMaterialContent::X509CertificateChain { certificates } => certificates.len(),
        VerificationMaterialContent::Certificate(_) => 1,
        _ => return Err("a signature is by a key, and has no certificate".to_owned()),
    };
    let timestamps = &material.timestamp_verification_data.rfc3161_timestamps;
    let parts = [material.tlog_entries.len(), timestamps.len(), certificates];
    match parts.into_iter().all(|parts| parts <= MAX_PARTS) {
        true => Ok(bundle),
        false => Err(format!(
            "a Sigstore bundle has more than {MAX_PARTS} log entries, timestamps or certificates"
        )),
    }
}

pub(crate) fn verified(
    artifact: Artifact<'_>,
    bundle: &Bundle,
    root: &TrustedRoot,
) -> Result<Identity, String> {
    let mut policy = VerificationPolicy::any_identity();
    if !root.has_log() {
        // Then a timestamp is asked for: the library takes no signature without a time.
        policy = policy.skip_tlog_unsafe();
    }
    if !root.has_certificate_log() {
        policy = policy.skip_sct();
    }
    let verifier = &root.verifier;
    let held = outhaul_algorithms::for_sigstore(|| verifier.verify(artifact, bundle, &policy));
    let held = held.map_err(|error| format!("a signature does not hold: {}", shown(&error)))?;
    identity(&held, root)
}

fn identity(held: &VerificationResult, root: &TrustedRoot) -> Result<Identity, String> {
    // What the library returns says what it did: nothing follows from a check that was left out.
    let is_whole = held.certificate_verified()
        && (held.tlog_verified() || !root.has_log())
        && (held.sct_verified() || !root.has_certificate_log());
    let at = held.verified_timestamps().iter().min();
    match (held.issuer(), held.identity(), at) {
        (Some(issuer), Some(subject), Some(at)) if is_whole => Ok(Identity {
            issuer: issuer.to_owned(),
            subject: subject.as_str().to_owned(),
            at: *at,
            is_logged: held.tlog_verified(),
        }),
        (None, ..) => Err("a certificate does not say who issued its identity".to_owned()),
        (_, None, _) => Err("a certificate names no subject".to_owned()),
        _ => Err("a signature was not verified whole".to_owned()),
    }
}

/// What cosign writes into the annotation of a log entry.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Logged {
    signed_entry_timestamp: String,
    payload: LoggedPayload,
}

#[derive(Deserialize)]
struct LoggedPayload {
    body: String,
    #[serde(rename = "integratedTime")]
    integrated_time: i64,
    #[serde(rename = "logIndex")]
    log_index: i64,
    #[serde(rename = "logID")]
    log_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    kind: String,
    api_version: String,
}

#[derive(Deserialize)]
struct Timestamped {
    #[serde(rename = "SignedRFC3161Timestamp")]
    signed: String,
}

/// The same as a Sigstore bundle: the older form has its parts in annotations.
pub(crate) fn from_annotations(
    layer: &Layer,
    signature: &str,
    bytes: &[u8],
) -> Result<Bundle, String> {
    let annotation = |name: &str| layer.annotations.get(name).map(String::as_str);
    let Some(certificate) = annotation(CERTIFICATE) else {
        return Err("a signature is by a key, and has no certificate".to_owned());
    };
    let texts = [certificate, annotation(CHAIN).unwrap_or_default()];
    let certificates = texts.into_iter().flat_map(in_pem).take(MAX_PARTS + 1);
    let certificates: Vec<Value> = certificates
        .map(|body| json!({ "rawBytes": body }))
        .collect();
    let logged = annotation(LOGGED).map(log_entry).transpose()?;
    let timestamp = annotation(TIMESTAMP).map(|text| {
        serde_json::from_str::<Timestamped>(text)
            .map(|found| json!({ "signedTimestamp": found.signed }))
            .map_err(|error| format!("a timestamp cannot be read: {}", shown(&error)))
    });
    // An earlier version has the promise of a log alone; the one after it takes what is in no log.
    let version = if logged.is_some() { "0.1" } else { "0.2" };
    let digest = STANDARD.encode(Digest::of(bytes).as_bytes());
    let bundle = json!({
        "mediaType": format!("application/vnd.dev.sigstore.bundle+json;version={version}"),
        "verificationMaterial": {
            "x509CertificateChain": { "certificates": certificates },
            "tlogEntries": logged.into_iter().collect::<Vec<_>>(),
            "timestampVerificationData": {
                "rfc3161Timestamps": timestamp.transpose()?.into_iter().collect::<Vec<_>>(),
            },
        },
        "messageSignature": {
            "messageDigest": { "algorithm": "SHA2_256", "digest": digest },
            "signature": signature.trim(),
        },
    });
    parsed(bundle.to_string().as_bytes())
}

fn log_entry(text: &str) -> Result<Value, String> {
    let unread = |what: &dyn std::fmt::Display| {
        format!(
            "the log entry of a signature cannot be read: {}",
            shown(what)
        )
    };
    let logged: Logged = serde_json::from_str(text).map_err(|error| unread(&error))?;
    let payload = logged.payload;
    let body = STANDARD
        .decode(&payload.body)
        .map_err(|error| unread(&error))?;
    let entry: Entry = serde_json::from_slice(&body).map_err(|error| unread(&error))?;
    let log = Digest::from_hex(&payload.log_id).map_err(|_| unread(&"its log has no id"))?;
    Ok(json!({
        "logIndex": payload.log_index.to_string(),
        "logId": { "keyId": STANDARD.encode(log.as_bytes()) },
        "kindVersion": { "kind": entry.kind, "version": entry.api_version },
        "integratedTime": payload.integrated_time.to_string(),
        "inclusionPromise": { "signedEntryTimestamp": logged.signed_entry_timestamp },
        "canonicalizedBody": payload.body,
    }))
}

/// The bodies of the certificates in a text, without line breaks.
fn in_pem(text: &str) -> impl Iterator<Item = String> {
    let begun = text.split("-----BEGIN CERTIFICATE-----").skip(1);
    begun.filter_map(|rest| {
        let (body, _) = rest.split_once("-----END CERTIFICATE-----")?;
        Some(body.split_whitespace().collect())
    })
}

/// What a library says, in one line of a bounded length: it may quote what nobody verified.
pub(crate) fn shown(what: &dyn std::fmt::Display) -> String {
    let text = what.to_string();
    let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    plain.take(MAX_SHOWN).collect()
}
