//! A public key that images may be signed with.
//!
//! What comes in: PEM, as `cosign public-key` writes it. What goes out: a key that verifies. ECDSA on P-256 with SHA-256 is what
//! cosign's key pairs are; any other kind is refused by name.

use std::fmt;

use p256::ecdsa::signature::Verifier as _;
use p256::ecdsa::{Signature, VerifyingKey};
use p256::pkcs8::DecodePublicKey as _;

/// A public key.
#[derive(Clone, PartialEq, Eq)]
pub struct SignatureKey(VerifyingKey);

/// Why a text is no such key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyError;

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "it is not a public key for ECDSA on P-256 in PEM, which `cosign public-key` writes",
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
            .map_err(|_| KeyError)
    }

    /// Whether `signature` (ASN.1 DER) over the SHA-256 of `message` is by this key.
    pub(crate) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        Signature::from_der(signature)
            .is_ok_and(|signature| self.0.verify(message, &signature).is_ok())
    }
}
