//! Signatures of images by key pairs, as cosign leaves them in a registry.
//!
//! What comes in: public keys, the digest of an image, and a manifest that may hold signatures of it, with its blobs. What
//! goes out: which key signed the image, or why none did. A signature counts when it is by a key that was given and states this
//! very digest; under which name the image lies is not part of it. It asks nobody and reads no clock: a signature by a key pair
//! does not expire.

mod bundle;
mod key;
mod simple;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use outhaul_bundle::Digest;
use outhaul_bundle::index::Content;
use serde::Deserialize;
use std::collections::BTreeMap;

pub use bundle::BUNDLE;
pub use key::{KeyError, SignatureKey};
pub use simple::SIMPLE;

/// Most bytes that one signature and its manifest may have together.
pub const MAX_BYTES: u64 = 4 << 20;
/// Most signatures in one manifest.
const MAX_SIGNATURES: usize = 100;

/// A manifest, as far as signatures are concerned.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Manifest {
    #[serde(default)]
    layers: Vec<Layer>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Layer {
    #[serde(default)]
    media_type: String,
    digest: String,
    size: u64,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

/// The tag under which cosign puts signatures of the image `digest`, in its older form.
pub fn tag(digest: &Digest) -> String {
    format!("sha256-{}.sig", digest.hex())
}

/// The tag of the list of everything about the image `digest`, where a registry keeps none by itself.
pub fn list_tag(digest: &Digest) -> String {
    format!("sha256-{}", digest.hex())
}

/// Which of `keys`, by its place, signed `image` in `manifest`; `blob` gives the manifest's contents.
///
/// # Errors
/// Why none did: a sentence for each signature, or one that there is none.
pub fn signed_by(
    image: &Digest,
    manifest: &[u8],
    blob: &dyn Fn(Content) -> Option<Vec<u8>>,
    keys: &[SignatureKey],
) -> Result<usize, Vec<String>> {
    let manifest: Manifest = serde_json::from_slice(manifest)
        .map_err(|error| vec![format!("its manifest cannot be read: {error}")])?;
    let mut problems = Vec::new();
    for layer in manifest.layers.iter().take(MAX_SIGNATURES) {
        let verify = match layer.media_type.as_str() {
            SIMPLE => simple::verify,
            BUNDLE => bundle::verify,
            _ => continue,
        };
        match verify(image, layer, blob, keys) {
            Ok(key) => return Ok(key),
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() {
        problems.push("it holds no signature".to_owned());
    }
    Err(problems)
}

/// The content of a layer.
fn content(layer: &Layer, blob: &dyn Fn(Content) -> Option<Vec<u8>>) -> Result<Vec<u8>, String> {
    let digest: Digest = layer
        .digest
        .parse()
        .map_err(|_| "it names a content by something else than SHA-256".to_owned())?;
    let size = layer.size;
    if size > MAX_BYTES {
        return Err(format!("{digest} is larger than {MAX_BYTES} bytes"));
    }
    let bytes = blob(Content { digest, size }).ok_or_else(|| format!("{digest} is not here"))?;
    match Digest::of(&bytes) == digest {
        true => Ok(bytes),
        false => Err(format!("{digest} is not what its digest says")),
    }
}

/// Which of `keys` made `signature`, in base64, over `message`.
fn by_key(message: &[u8], signature: &str, keys: &[SignatureKey]) -> Result<usize, String> {
    let signature = STANDARD
        .decode(signature.trim())
        .map_err(|_| "a signature is not base64".to_owned())?;
    let made = keys
        .iter()
        .position(|key| key.verifies(message, &signature));
    made.ok_or_else(|| "a signature is by none of the keys, or of something else".to_owned())
}

#[cfg(test)]
mod tests;
