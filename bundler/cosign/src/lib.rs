//! Signatures of images, as cosign leaves them in a registry: by key pairs, and by identities.
//!
//! What comes in: public keys, and a trusted root with who may have signed; the digest of an image, and a manifest that may hold
//! signatures of it, with its blobs. What goes out: which key or who signed the image, or why nobody did who may. A signature counts when it states
//! this very digest; under which name the image lies is not part of it. It asks nobody. A signature by a key pair does not expire; one by
//! an identity holds when its certificate was valid at the time that a log or a timestamp authority says, and the library that
//! verifies it reads the clock for one thing: to refuse a time that is yet to come.

mod bundle;
mod key;
mod keyless;
mod simple;
mod trusted_root;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use outhaul_bundle::Digest;
use outhaul_bundle::index::Content;
use serde::Deserialize;
use std::collections::BTreeMap;

pub use bundle::BUNDLE;
pub use key::{KeyError, SignatureKey};
pub use keyless::Identity;
pub use simple::SIMPLE;
pub use trusted_root::{RootError, TrustedRoot};

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

/// Who may have signed.
#[derive(Clone, Copy)]
pub struct Trusted<'a> {
    /// Key pairs.
    pub keys: &'a [SignatureKey],
    /// Whoever has a certificate by this root, and is one of those for whom the function says nothing against.
    pub identities: Option<Identities<'a>>,
}

/// A trusted root, and who of those that it has certificates for may sign.
#[derive(Clone, Copy)]
pub struct Identities<'a> {
    /// The root.
    pub root: &'a TrustedRoot,
    /// Whether one may.
    pub may_sign: &'a dyn Fn(&Identity) -> bool,
}

impl std::fmt::Debug for Identities<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Identities")
    }
}

impl std::fmt::Debug for Trusted<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trusted")
            .field("keys", &self.keys.len())
            .field("identities", &self.identities)
            .finish()
    }
}

/// Who signed an image.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum SignedBy {
    /// The key at this place.
    Key(usize),
    /// An identity.
    Identity(Identity),
}

/// Who of `trusted` signed `image` in `manifest`; `blob` gives the manifest's contents.
///
/// # Errors
/// Why nobody did: a sentence for each signature, or one that there is none.
pub fn signed_by(
    image: &Digest,
    manifest: &[u8],
    blob: &dyn Fn(Content) -> Option<Vec<u8>>,
    trusted: &Trusted<'_>,
) -> Result<SignedBy, Vec<String>> {
    let manifest: Manifest = serde_json::from_slice(manifest)
        .map_err(|error| vec![format!("its manifest cannot be read: {error}")])?;
    let mut problems = Vec::new();
    for layer in manifest.layers.iter().take(MAX_SIGNATURES) {
        if !matches!(layer.media_type.as_str(), SIMPLE | BUNDLE) {
            continue;
        }
        match of_layer(image, layer, blob, trusted) {
            Ok(by) => return Ok(by),
            Err(more) => problems.extend(more),
        }
    }
    if problems.is_empty() {
        problems.push("it holds no signature".to_owned());
    }
    Err(problems)
}

fn of_layer(
    image: &Digest,
    layer: &Layer,
    blob: &dyn Fn(Content) -> Option<Vec<u8>>,
    trusted: &Trusted<'_>,
) -> Result<SignedBy, Vec<String>> {
    let one = |problem| vec![problem];
    let signature = match layer.media_type.as_str() {
        SIMPLE => Some(simple::signature(layer).map_err(one)?),
        _ => None,
    };
    let bytes = content(layer, blob).map_err(one)?;
    let mut problems = Vec::new();
    if !trusted.keys.is_empty() || trusted.identities.is_none() {
        let by = match signature {
            Some(signature) => simple::by_keys(image, (signature, &bytes), trusted.keys),
            None => bundle::by_keys(image, &bytes, trusted.keys),
        };
        match by {
            Ok(key) => return Ok(SignedBy::Key(key)),
            Err(problem) => problems.push(problem),
        }
    }
    if let Some(Identities { root, may_sign }) = trusted.identities {
        let by = match signature {
            Some(signature) => keyless::of_simple(image, layer, (signature, &bytes), root),
            None => keyless::of_bundle(image, &bytes, root),
        };
        match by {
            Ok(identity) if may_sign(&identity) => return Ok(SignedBy::Identity(identity)),
            Ok(other) => problems.push(format!(
                "it is signed by `{}` of `{}`, which is not one of the allowed identities",
                keyless::shown(&other.subject),
                keyless::shown(&other.issuer)
            )),
            Err(problem) => problems.push(problem),
        }
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
        false => Err(format!("{digest} does not match its digest")),
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
