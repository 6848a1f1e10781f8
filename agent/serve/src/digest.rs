//! Digests as registries write them: `sha256:` and 64 lower-case hexadecimal digits.
//!
//! What comes in: text of a request or a manifest, or bytes to be hashed. What goes out: a [`Digest`], whose
//! text can only be one file name. Other algorithms are named as such and never served.
//!
//! `outhaul_bundle::Digest` is not used here: this program does not depend on the bundle's formats, and answers text that no bundle has.

use std::fmt;

use sha2::{Digest as _, Sha256};

/// Why a text is not a digest that can be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DigestError {
    /// It does not follow the grammar of digests.
    #[error("not a digest: expected `sha256:` and 64 lower-case hexadecimal digits")]
    Malformed,
    /// A digest by another algorithm.
    #[error("digests other than sha256 are not served")]
    Algorithm,
}

/// A SHA-256 digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Reads a digest.
    ///
    /// # Errors
    /// [`DigestError`] for anything else.
    pub fn parse(text: &str) -> Result<Self, DigestError> {
        let (algorithm, encoded) = text.split_once(':').ok_or(DigestError::Malformed)?;
        if algorithm != "sha256" {
            let part = |part: &str| {
                !part.is_empty()
                    && part
                        .bytes()
                        .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
            };
            let known = algorithm.split(['+', '.', '_', '-']).all(part);
            let plain = |b: u8| b.is_ascii_alphanumeric() || b"=_-".contains(&b);
            let is_digest = known && !encoded.is_empty() && encoded.bytes().all(plain);
            return Err(match is_digest {
                true => DigestError::Algorithm,
                false => DigestError::Malformed,
            });
        }
        let lower = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        if encoded.len() != 64 || !encoded.bytes().all(lower) {
            return Err(DigestError::Malformed);
        }
        let mut bytes = [0; 32];
        hex::decode_to_slice(encoded, &mut bytes).map_err(|_| DigestError::Malformed)?;
        Ok(Self(bytes))
    }

    /// The 64 digits: the name of a blob's file.
    pub fn hex(&self) -> String {
        hex::encode(self.0)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

/// Hashes what passes.
#[derive(Debug, Clone, Default)]
pub struct Hasher(Sha256);

impl Hasher {
    /// Takes more bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of all of them.
    pub fn finish(self) -> Digest {
        Digest(self.0.finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_spelling_of_a_digest_is_read_and_nothing_that_could_be_a_path() {
        let digest = Digest::of(b"");
        assert_eq!(Digest::parse(&digest.to_string()), Ok(digest));
        let upper = format!("sha256:{}", digest.hex().to_uppercase());
        for text in [
            upper.as_str(),
            "sha256:",
            "sha256:../../../etc/passwd",
            "sha256",
            "",
            ":",
            "SHA256:00",
            "../sha256:00",
        ] {
            assert_eq!(Digest::parse(text), Err(DigestError::Malformed), "{text}");
        }
        let other = format!("sha512:{}", "0".repeat(128));
        assert_eq!(Digest::parse(&other), Err(DigestError::Algorithm));
    }
}
