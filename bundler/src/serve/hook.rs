//! Who may wake the service: a webhook's secret, and what forges send to show that they know it.
//!
//! What comes in: the secret's file, and a request's headers and body. What goes out: whether it is from
//! someone who knows the secret. What the body says is never read: a round finds by itself what changed.

use std::path::Path;

use axum::http::HeaderMap;
use hmac::{Hmac, KeyInit as _, Mac as _};
use outhaul_signer::durable;
use sha2::Sha256;
use zeroize::Zeroizing;

use super::ServeError;

/// Largest secret in bytes.
const MAX_BYTES: u64 = 4096;
/// Shortest secret in bytes: shorter ones can be guessed.
const MIN_BYTES: usize = 16;

/// The secret that a forge and this service share.
pub(super) struct HookSecret(Zeroizing<Vec<u8>>);

impl HookSecret {
    /// Reads it; one line end at its end is not part of it.
    pub fn read(path: &Path) -> Result<Self, ServeError> {
        let mut bytes = Zeroizing::new(durable::read(path, MAX_BYTES)?);
        while bytes
            .last()
            .is_some_and(|byte| matches!(byte, b'\n' | b'\r'))
        {
            bytes.pop();
        }
        if bytes.len() < MIN_BYTES {
            return Err(ServeError::Secret {
                path: path.to_owned(),
                problem: format!("it has {} bytes", bytes.len()),
            });
        }
        Ok(Self(bytes))
    }

    /// Whether the sender knows the secret: as GitHub and Gitea show it, or as GitLab does.
    pub fn knows(&self, headers: &HeaderMap, body: &[u8]) -> bool {
        let header = |name: &str| headers.get(name).map(axum::http::HeaderValue::as_bytes);
        let signed = header("x-hub-signature-256")
            .and_then(|value| value.strip_prefix(b"sha256="))
            .or_else(|| header("x-gitea-signature"));
        if let Some(given) = signed {
            return hex::decode(given).is_ok_and(|given| {
                proof(&self.0, body).is_some_and(|own| own.verify_slice(&given).is_ok())
            });
        }
        // GitLab sends the secret itself; both are hashed first, so that not even its length leaks.
        header("x-gitlab-token").is_some_and(|given| {
            match (proof(b"gitlab", given), proof(b"gitlab", &self.0)) {
                (Some(given), Some(own)) => given.verify(&own.finalize().into_bytes()).is_ok(),
                _ => false,
            }
        })
    }
}

/// The authentication code of `message` under `key`, to be compared in constant time.
fn proof(key: &[u8], message: &[u8]) -> Option<Hmac<Sha256>> {
    // A key of any length will do.
    let mut code = Hmac::new_from_slice(key).ok()?;
    code.update(message);
    Some(code)
}

/// Whether one header's value and a body show that their sender knows `secret`; for tests that guess.
pub fn knows_secret(secret: &[u8], name: &'static str, value: &[u8], body: &[u8]) -> bool {
    let Ok(value) = axum::http::HeaderValue::from_bytes(value) else {
        return false;
    };
    let headers = HeaderMap::from_iter([(axum::http::HeaderName::from_static(name), value)]);
    HookSecret(Zeroizing::new(secret.to_vec())).knows(&headers, body)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn knows(name: &'static str, value: &str, body: &[u8]) -> bool {
        let secret = HookSecret(Zeroizing::new(b"It's a Secret to Everybody".to_vec()));
        let mut headers = HeaderMap::new();
        headers.insert(name, value.parse().unwrap());
        secret.knows(&headers, body)
    }

    #[test]
    fn each_forge_shows_it_in_its_own_way() {
        let hex = proof(b"It's a Secret to Everybody", b"Hello, World!").unwrap();
        let hex = hex::encode(hex.finalize().into_bytes());
        // As GitHub's documentation has it.
        assert_eq!(
            hex,
            "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
        );
        let body = b"Hello, World!";
        assert!(knows("x-hub-signature-256", &format!("sha256={hex}"), body));
        assert!(knows("x-gitea-signature", &hex, body));
        assert!(knows("x-gitlab-token", "It's a Secret to Everybody", body));
        assert!(!knows("x-gitea-signature", &hex, b"Hello, World?"));
        assert!(!knows("x-hub-signature-256", &hex, body), "no `sha256=`");
        assert!(!knows("x-gitlab-token", "It's a Secret", body));
        assert!(!knows("x-other", &hex, body));
    }
}
