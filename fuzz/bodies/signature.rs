//! Foreign bytes as the signature of an image.
//!
//! What comes in: any bytes. What must hold: no panic, and nothing that no key signed is a signature: neither as a manifest nor as
//! what a manifest names, in both of cosign's forms, by key or by identity; and that no bytes are a trusted root by accident.

use outhaul_bundle::Digest;
use outhaul_bundle::index::Content;
use outhaul_cosign::{BUNDLE, Identities, SIMPLE, SignatureKey, Trusted, TrustedRoot, signed_by};
use sigstore_verify::trust_root::SIGSTORE_PRODUCTION_TRUSTED_ROOT;

/// A key of which nobody has the secret half at hand.
const KEY: &str = "-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEcQu5Xr+qcBh47FigZieDWkQK6IwB
dIVQJRY2rLFLyxlv1pCHvZU8aN9BnA4c8/hOzbWesM4phsvJ5bVubPziuA==
-----END PUBLIC KEY-----
";

/// Reads bytes as a signature; whether they hold as one, which must never be.
pub fn signature(bytes: &[u8]) -> bool {
    let keys: Vec<SignatureKey> = SignatureKey::parse(KEY).into_iter().collect();
    assert_eq!(keys.len(), 1);
    let text = String::from_utf8_lossy(bytes);
    assert!(SignatureKey::parse(&text).is_err() || text.trim() == KEY.trim());
    let root = TrustedRoot::parse(SIGSTORE_PRODUCTION_TRUSTED_ROOT).ok();
    assert!(root.is_some());
    // Only what is one can be one: no assertion, because a fuzzer may find it.
    let _ = TrustedRoot::parse(&text);
    let image = Digest::of(b"image");
    let blob = |_: Content| Some(bytes.to_vec());
    let of_layer = |media_type: &str| {
        let layer = serde_json::json!({
            "mediaType": media_type,
            "digest": Digest::of(bytes).to_string(),
            "size": bytes.len(),
            "annotations": {
                "dev.cosignproject.cosign/signature": text,
                "dev.sigstore.cosign/certificate": text,
                "dev.sigstore.cosign/chain": text,
                "dev.sigstore.cosign/bundle": text,
                "dev.sigstore.cosign/rfc3161timestamp": text,
            },
        });
        serde_json::json!({ "layers": [layer] })
            .to_string()
            .into_bytes()
    };
    let identities = root.as_ref().map(|root| Identities {
        root,
        may_sign: &|_| true,
    });
    let trusted = Trusted {
        keys: &keys,
        identities,
    };
    [bytes.to_vec(), of_layer(SIMPLE), of_layer(BUNDLE)]
        .iter()
        .any(|manifest| signed_by(&image, manifest, &blob, &trusted).is_ok())
}
