//! A public key that images may be signed with.
//!
//! What comes in: PEM, as `cosign public-key` writes it. What goes out: a key that verifies. ECDSA on P-256 with SHA-256 is what
//! cosign's key pairs are; any other kind is refused by name.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use outhaul_bundle::Digest;
use p256::ecdsa::signature::Verifier as _;
use p256::ecdsa::{Signature, VerifyingKey};
use p256::pkcs8::{DecodePublicKey as _, EncodePublicKey as _};

/// A public key.
#[derive(Clone, PartialEq, Eq)]
pub struct SignatureKey(VerifyingKey);

/// Why a text is no such key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyError {
    found: &'static str,
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "it is {}, and not a public key for ECDSA on P-256 in PEM, which `cosign public-key` writes",
            self.found
        )
    }
}

impl std::error::Error for KeyError {}

impl fmt::Debug for SignatureKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SignatureKey")
    }
}

impl SignatureKey {
    /// The key in `pem`.
    ///
    /// # Errors
    /// [`KeyError`]
    pub fn parse(pem: &str) -> Result<Self, KeyError> {
        VerifyingKey::from_public_key_pem(pem.trim())
            .map(Self)
            .map_err(|_| KeyError { found: found(pem) })
    }

    /// SHA-256 of its DER form, as `openssl pkey -pubin -outform DER | sha256sum` prints it.
    pub fn fingerprint(&self) -> Digest {
        let der = self.0.to_public_key_der();
        // A key that was parsed can be written.
        Digest::of(der.as_ref().map_or(&[], |der| der.as_bytes()))
    }

    /// Whether `signature` (ASN.1 DER) over the SHA-256 of `message` is by this key.
    pub(crate) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        Signature::from_der(signature)
            .is_ok_and(|signature| self.0.verify(message, &signature).is_ok())
    }
}

/// What a text is that is no such key, by the names of algorithms in its DER.
fn found(pem: &str) -> &'static str {
    const KINDS: [(&[u8], &str); 6] = [
        (
            &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01],
            "a key for RSA",
        ),
        (&[0x2b, 0x65, 0x70], "a key for Ed25519"),
        (&[0x2b, 0x65, 0x6e], "a key for X25519"),
        (&[0x2b, 0x81, 0x04, 0x00, 0x22], "a key for ECDSA on P-384"),
        (&[0x2b, 0x81, 0x04, 0x00, 0x23], "a key for ECDSA on P-521"),
        (
            &[0x2b, 0x81, 0x04, 0x00, 0x0a],
            "a key for ECDSA on secp256k1",
        ),
    ];
    /// Algorithm and curve come before the key itself.
    const HEADER_BYTES: usize = 40;
    let pem = pem.trim();
    match () {
        () if pem.contains("PRIVATE KEY-----") => return "a private key",
        () if pem.starts_with("-----BEGIN CERTIFICATE") => return "a certificate",
        () if pem.starts_with("ssh-") || pem.starts_with("ecdsa-sha2-") => return "a key of SSH",
        () => {}
    }
    let lines = pem.lines().filter(|line| !line.starts_with("-----"));
    let body: String = lines
        .flat_map(|line| line.trim().chars())
        .take(4096)
        .collect();
    let der = STANDARD.decode(body).unwrap_or_default();
    let header = der.get(..HEADER_BYTES.min(der.len())).unwrap_or_default();
    let holds = |name: &[u8]| header.windows(name.len()).any(|part| part == name);
    let kind = KINDS.iter().find(|(name, _)| holds(name));
    kind.map_or("damaged", |(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::SignatureKey;

    fn refused(pem: &str) -> String {
        SignatureKey::parse(pem).unwrap_err().to_string()
    }

    #[test]
    fn attack_a_key_of_another_kind_is_none_and_is_named() {
        for (pem, expected) in [
            (include_str!("tests/keys/rsa.pem"), "a key for RSA"),
            (include_str!("tests/keys/ed25519.pem"), "a key for Ed25519"),
            (
                include_str!("tests/keys/p384.pem"),
                "a key for ECDSA on P-384",
            ),
            (
                "-----BEGIN PRIVATE KEY-----\nAA==\n-----END PRIVATE KEY-----",
                "a private key",
            ),
            (
                "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----",
                "a certificate",
            ),
            ("ssh-ed25519 AAAA me", "a key of SSH"),
            (
                "-----BEGIN PUBLIC KEY-----\nAA\n-----END PUBLIC KEY-----",
                "damaged",
            ),
            ("", "damaged"),
        ] {
            let found = refused(pem);
            assert!(found.starts_with(&format!("it is {expected},")), "{found}");
        }
        SignatureKey::parse(include_str!("tests/keys/p256.pem")).unwrap();
    }
}
