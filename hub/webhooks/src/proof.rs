//! Whether a request shows the secret of its site, before anything of its body is read.
//!
//! What comes in: the header that the sender sets, and the bytes of the body. What goes out: yes or no, in a time that does not depend
//! on how much of it is right. Flux signs the body; Argo CD cannot, and shows the secret itself, so that it needs TLS.

use hmac::{Hmac, KeyInit as _, Mac as _};
use outhaul_bundle::report::WebhookSender;
use sha2::Sha256;

/// The header with the signature of Flux's `generic-hmac`: `sha256=` and 64 hexadecimal digits.
pub const SIGNATURE_HEADER: &str = "x-signature";

/// Whether `shown` proves that whoever sent `body` has `secret`. Of Flux `shown` is [`SIGNATURE_HEADER`], of Argo CD the value of
/// `Authorization`.
pub fn is_proven(sender: WebhookSender, secret: &str, shown: &str, body: &[u8]) -> bool {
    match sender {
        WebhookSender::Flux => {
            let given = shown.strip_prefix("sha256=").and_then(unhex);
            let own = Hmac::<Sha256>::new_from_slice(secret.as_bytes());
            let (Some(given), Ok(own)) = (given, own) else {
                return false;
            };
            own.chain_update(body).verify_slice(&given).is_ok()
        }
        WebhookSender::Argocd => {
            let Some(given) = shown.strip_prefix("Bearer ") else {
                return false;
            };
            // Both through the same function, so that what is compared does not depend on where they differ.
            let of = |text: &str| {
                let mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).ok()?;
                Some(mac.chain_update(text.as_bytes()))
            };
            match (of(given), of(secret)) {
                (Some(given), Some(own)) => {
                    own.verify_slice(&given.finalize().into_bytes()).is_ok()
                }
                _ => false,
            }
        }
    }
}

/// 32 bytes of 64 hexadecimal digits.
fn unhex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0u8; 32];
    hex::decode_to_slice(text, &mut bytes).ok().map(|()| bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `printf '{}' | openssl dgst -sha256 -hmac secret`.
    const SIGNED: &str = "sha256=77325902caca812dc259733aacd046b73817372c777b8d95b402647474516e13";

    #[test]
    fn a_signature_of_the_body_is_a_proof_and_nothing_else_is() {
        let flux =
            |secret, shown: &str, body: &[u8]| is_proven(WebhookSender::Flux, secret, shown, body);
        assert!(flux("secret", SIGNED, b"{}"));
        assert!(!flux("secret", SIGNED, b"{} "));
        assert!(!flux("another", SIGNED, b"{}"));
        for wrong in ["", "sha256=", "sha1=00", &SIGNED[7..], &SIGNED[..70]] {
            assert!(!flux("secret", wrong, b"{}"), "{wrong}");
        }
        let argocd = |shown| is_proven(WebhookSender::Argocd, "secret", shown, b"{}");
        assert!(argocd("Bearer secret"));
        for wrong in [
            "",
            "secret",
            "Bearer ",
            "Bearer secre",
            "Bearer secrets",
            SIGNED,
        ] {
            assert!(!argocd(wrong), "{wrong}");
        }
    }
}
