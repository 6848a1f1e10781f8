//! A signature in cosign's older form: "simple signing".
//!
//! What comes in: a layer whose annotation is the signature of its content. What goes out: which key made it, when the
//! content states the image's digest. Source: cosign's `specs/SIGNATURE_SPEC.md`.

use outhaul_bundle::Digest;
use outhaul_bundle::index::Content;
use serde::Deserialize;

use crate::{Layer, SignatureKey, by_key, content};

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

pub(crate) fn verify(
    image: &Digest,
    layer: &Layer,
    blob: &dyn Fn(Content) -> Option<Vec<u8>>,
    keys: &[SignatureKey],
) -> Result<usize, String> {
    let signature = layer.annotations.get(ANNOTATION);
    let signature = signature.ok_or_else(|| format!("{} has no signature", layer.digest))?;
    let bytes = content(layer, blob)?;
    // Nothing is read of what nobody signed.
    let key = by_key(&bytes, signature, keys)?;
    let payload: Payload = serde_json::from_slice(&bytes)
        .map_err(|error| format!("what is signed cannot be read: {error}"))?;
    let critical = payload.critical;
    if critical.kind != TYPE {
        return Err("what is signed is not a container image".to_owned());
    }
    match critical.image.digest == image.to_string() {
        true => Ok(key),
        false => Err("a signature is of another image".to_owned()),
    }
}
