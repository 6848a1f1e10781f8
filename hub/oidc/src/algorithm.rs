//! How tokens are signed, as far as the hub verifies: with three algorithms, each of a public key.
//!
//! What comes in: nothing. What goes out: their names. None of a shared secret is among them, and none without a signature.

/// How a token is signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// RSA with PKCS #1 and SHA-256.
    Rs256,
    /// ECDSA with P-256 and SHA-256.
    Es256,
    /// Ed25519, under the name of each of RFC 8037 and RFC 9864.
    EdDsa,
}

impl Algorithm {
    /// Every one that is verified.
    pub const ALL: [Self; 3] = [Self::Rs256, Self::Es256, Self::EdDsa];

    /// Whether a token, a key or a provider that writes `name` means this one. The name of RFC 9864 for Ed25519 says the same as
    /// `EdDSA` with a key of that curve, and the hub knows no other curve.
    pub fn is_named(self, name: &str) -> bool {
        name == self.name() || (self == Self::EdDsa && name == "Ed25519")
    }

    /// Its usual name, for messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Es256 => "ES256",
            Self::EdDsa => "EdDSA",
        }
    }
}
