//! A signature in cosign's older form: "simple signing".
//!
//! What comes in: a layer whose annotation is the signature of its content. What goes out: which key made it, when the
//! content states the image's digest. Source: cosign's `specs/SIGNATURE_SPEC.md`.

use outhaul_bundle::Digest;
use serde::Deserialize;

use crate::{Layer, SignatureKey, by_key};

/// Media type of a payload in the older form.
pub const SIMPLE: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
const ANNOTATION: &str = "dev.cosignproject.cosign/signature";
const TYPE: &str = "cosign container image signature";

#[derive(Deserialize)]
struct Payload {
    critical: Critical,
}

#[derive(Deserialize)]
struct Critical {
    image: Image,
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
struct Image {
    #[serde(rename = "docker-manifest-digest")]
    digest: String,
}

/// The signature of a layer.
pub(crate) fn signature(layer: &Layer) -> Result<&str, String> {
    let signature = layer.annotations.get(ANNOTATION);
    let signature = signature.ok_or_else(|| format!("{} has no signature", layer.digest))?;
    Ok(signature)
}

/// Which of `keys` made `signature` of the content `bytes`, which states `image`.
pub(crate) fn by_keys(
    image: &Digest,
    (signature, bytes): (&str, &[u8]),
    keys: &[SignatureKey],
) -> Result<usize, String> {
    // Nothing is read of what nobody signed.
    let key = by_key(bytes, signature, keys)?;
    stated_image(image, bytes)?;
    Ok(key)
}

/// That a content states `image`.
pub(crate) fn stated_image(image: &Digest, bytes: &[u8]) -> Result<(), String> {
    let payload: Payload = serde_json::from_slice(bytes)
        .map_err(|error| format!("what is signed cannot be read: {error}"))?;
    let critical = payload.critical;
    if critical.kind != TYPE {
        return Err("what is signed is not a container image".to_owned());
    }
    match critical.image.digest == image.to_string() {
        true => Ok(()),
        false => Err("a signature is of another image".to_owned()),
    }
}
