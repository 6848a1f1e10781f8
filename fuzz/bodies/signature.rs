//! Foreign bytes as the signature of an image.
//!
//! What comes in: any bytes. What must hold: no panic, and nothing that no key signed is a signature: neither as a manifest nor as
//! what a manifest names, in both of cosign's forms.

use outhaul_bundle::Digest;
use outhaul_bundle::index::Content;
use outhaul_cosign::{BUNDLE, SIMPLE, SignatureKey, signed_by};

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
    let image = Digest::of(b"image");
    let blob = |_: Content| Some(bytes.to_vec());
    let of_layer = |media_type: &str| {
        let layer = serde_json::json!({
            "mediaType": media_type,
            "digest": Digest::of(bytes).to_string(),
            "size": bytes.len(),
            "annotations": {"dev.cosignproject.cosign/signature": text},
        });
        serde_json::json!({ "layers": [layer] })
            .to_string()
            .into_bytes()
    };
    [bytes.to_vec(), of_layer(SIMPLE), of_layer(BUNDLE)]
        .iter()
        .any(|manifest| signed_by(&image, manifest, &blob, &keys).is_ok())
}
