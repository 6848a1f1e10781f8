//! Whether a request shows the secret of its site, before anything of its body is read.
//!
//! What comes in: the header that the sender sets, and the bytes of the body. What goes out: yes or no, in a time that depends neither on
//! how much of it is right nor on whether there is such a site. Flux signs the body; Argo CD cannot, and shows the secret itself, so that
//! it needs TLS.

use hmac::{Hmac, KeyInit as _, Mac as _};
use outhaul_bundle::report::WebhookSender;
use outhaul_signer::webhook::WebhookSecrets;
use outhaul_store::WebhookSite;
use sha2::Sha256;

/// The header with the signature of Flux's `generic-hmac`: `sha256=` and 64 hexadecimal digits.
const SIGNATURE_HEADER: &str = "x-signature";

/// What stands for the salt of a site that is not registered: no registration has it.
const NO_SALT: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// The header in which `sender` shows that it has the secret of its site.
pub fn proof_header(sender: WebhookSender) -> &'static str {
    match sender {
        WebhookSender::Flux => SIGNATURE_HEADER,
        WebhookSender::Argocd => "authorization",
    }
}

/// A request that claims to be of a site's cluster.
#[derive(Debug, Clone, Copy)]
pub struct Claim<'a> {
    /// The fleet.
    pub fleet: &'a str,
    /// The site that it names.
    pub site: &'a str,
    /// As whom it was sent.
    pub sender: WebhookSender,
    /// The value of [`proof_header`], empty where there is none.
    pub shown: &'a str,
    /// Its body.
    pub body: &'a [u8],
}

impl Claim<'_> {
    /// Whether it shows the secret of `registered`. Where there is no such site the same work is done, with a secret that nobody has, so
    /// that the time of the answer names no site.
    pub fn is_proven(&self, secrets: &WebhookSecrets, registered: Option<&WebhookSite>) -> bool {
        let salt = registered.map_or(NO_SALT, |site| &site.salt);
        let secret = secrets.secret(self.fleet, self.site, salt);
        let holds = is_proven(self.sender, &secret, self.shown, self.body);
        let is_of =
            |site: &WebhookSite| site.site == self.site && site.sender == self.sender.as_str();
        registered.is_some_and(is_of) & holds
    }
}

/// Whether `shown`, the value of the header that [`proof_header`] names, proves that whoever sent `body` has `secret`.
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
    fn attack_a_site_that_is_not_registered_has_no_secret_that_proves() {
        let key = outhaul_signer::key::SigningKey::generate().unwrap();
        let secrets = WebhookSecrets::of(&key);
        let site = |sender: &str| WebhookSite {
            site: "a".to_owned(),
            sender: sender.to_owned(),
            salt: "s".to_owned(),
            settings: String::new(),
            shown: String::new(),
            registered_ms: 0,
            registered_by: String::new(),
        };
        let claim = |shown: &str, registered: Option<&WebhookSite>| {
            let claim = Claim {
                fleet: "f",
                site: "a",
                sender: WebhookSender::Argocd,
                shown,
                body: b"{}",
            };
            claim.is_proven(&secrets, registered)
        };
        let shown = |salt| format!("Bearer {}", *secrets.secret("f", "a", salt));
        assert!(claim(&shown("s"), Some(&site("argocd"))));
        assert!(!claim(&shown("s"), Some(&site("flux"))));
        assert!(!claim(&shown("s"), None));
        // Not even who knew the hub's key would pass for a site that is not there.
        assert!(!claim(&shown(NO_SALT), None));
    }

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
