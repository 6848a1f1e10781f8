//! Signed envelopes (DSSE): what a site sends home, and what a hub answers.
//!
//! What comes in: a payload with its type and a key, or bytes that an untrusted party carried. What goes out:
//! JSON text of one line, or a payload that one of the named keys signed. The signature covers the
//! type and the exact payload bytes, so nothing is encoded again before it is checked.
//! It never looks at a payload; the name of [`Envelope::unverified_payload`] states what it gives.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::key::{PublicKey, SigningKey};

mod line;

pub use line::{EnvelopeLine, next_line};

/// Largest envelope in bytes: 2 MiB, for a report of 1 MiB in base64.
pub const MAX_ENVELOPE_BYTES: usize = 2 * 1024 * 1024;
/// Most signatures on one envelope; each costs a check.
pub const MAX_SIGNATURES: usize = 16;

/// A payload with its type and signatures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    payload_type: String,
    payload: Vec<u8>,
    signatures: Vec<(String, Vec<u8>)>,
}

/// Why an envelope is not trusted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnvelopeError {
    /// Not an envelope.
    #[error("not a signed envelope: {problem}")]
    Malformed {
        /// What is wrong.
        problem: String,
    },
    /// No signature of any expected key.
    #[error("no signature by {expected} matches the content; it names {found}")]
    NotSigned {
        /// Ids of the keys that would do, shortened.
        expected: String,
        /// Ids that the envelope names, shortened.
        found: String,
    },
    /// A payload of another kind.
    #[error("a payload of type `{found}`, expected `{expected}`")]
    OtherType {
        /// The type asked for.
        expected: String,
        /// The type found.
        found: String,
    },
    /// Larger than [`MAX_ENVELOPE_BYTES`].
    #[error("an envelope of {bytes} bytes, the limit is {MAX_ENVELOPE_BYTES}")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
}

#[derive(Serialize, Deserialize)]
struct Wire {
    payload: String,
    #[serde(rename = "payloadType")]
    payload_type: String,
    signatures: Vec<WireSignature>,
}

#[derive(Serialize, Deserialize)]
struct WireSignature {
    #[serde(default)]
    keyid: String,
    sig: String,
}

impl Envelope {
    /// Signs `payload`.
    pub fn sign(payload_type: &str, payload: Vec<u8>, key: &SigningKey) -> Self {
        let signature = key.sign(&to_be_signed(payload_type, &payload));
        Self {
            payload_type: payload_type.to_owned(),
            payload,
            signatures: vec![(key.public().id(), signature.to_vec())],
        }
    }

    /// Adds the signature of another key over the same payload.
    #[must_use]
    pub fn countersigned(mut self, key: &SigningKey) -> Self {
        let signature = key.sign(&to_be_signed(&self.payload_type, &self.payload));
        self.signatures
            .push((key.public().id(), signature.to_vec()));
        self
    }

    /// The envelope as JSON, one line without a line end.
    pub fn to_json(&self) -> Vec<u8> {
        let signatures = self
            .signatures
            .iter()
            .map(|(keyid, signature)| WireSignature {
                keyid: keyid.clone(),
                sig: STANDARD.encode(signature),
            });
        let wire = Wire {
            payload: STANDARD.encode(&self.payload),
            payload_type: self.payload_type.clone(),
            signatures: signatures.collect(),
        };
        // Texts only: this cannot fail, and an empty line is refused by every reader.
        serde_json::to_vec(&wire).unwrap_or_default()
    }

    /// An envelope from JSON. Nothing is verified yet.
    ///
    /// # Errors
    /// [`EnvelopeError`] when it is too large or no envelope.
    pub fn from_json(bytes: &[u8]) -> Result<Self, EnvelopeError> {
        if bytes.len() > MAX_ENVELOPE_BYTES {
            return Err(EnvelopeError::TooLarge { bytes: bytes.len() });
        }
        let malformed = |problem: String| EnvelopeError::Malformed { problem };
        let wire: Wire = serde_json::from_slice(bytes).map_err(|e| malformed(e.to_string()))?;
        if wire.signatures.is_empty() || wire.signatures.len() > MAX_SIGNATURES {
            let count = wire.signatures.len();
            return Err(malformed(format!(
                "{count} signatures, 1 to {MAX_SIGNATURES} allowed"
            )));
        }
        let decode = |what: &str, text: &str| {
            STANDARD
                .decode(text)
                .map_err(|e| malformed(format!("{what} is not base64: {e}")))
        };
        let mut signatures = Vec::with_capacity(wire.signatures.len());
        for signature in wire.signatures {
            signatures.push((signature.keyid, decode("a signature", &signature.sig)?));
        }
        let payload = decode("the payload", &wire.payload)?;
        Ok(Self {
            payload_type: wire.payload_type,
            payload,
            signatures,
        })
    }

    /// The payload, when its type is `payload_type` and one of `keys` signed it.
    ///
    /// # Errors
    /// [`EnvelopeError`] when the type is another one or none of `keys` signed.
    pub fn verify(&self, payload_type: &str, keys: &[PublicKey]) -> Result<&[u8], EnvelopeError> {
        if self.payload_type != payload_type {
            return Err(EnvelopeError::OtherType {
                expected: payload_type.to_owned(),
                found: self.payload_type.chars().take(80).collect(),
            });
        }
        let signed = to_be_signed(&self.payload_type, &self.payload);
        // The key id is only a hint of the writer: each key is tried on each signature.
        let valid = |key: &PublicKey| {
            self.signatures
                .iter()
                .any(|(_, signature)| key.verify(&signed, signature).is_ok())
        };
        if keys.iter().any(valid) {
            return Ok(&self.payload);
        }
        let short = |id: &str| {
            id.chars()
                .filter(char::is_ascii_alphanumeric)
                .take(12)
                .collect()
        };
        let list = |ids: Vec<String>| match ids.len() {
            0 => "nobody".to_owned(),
            _ => ids.join(", "),
        };
        Err(EnvelopeError::NotSigned {
            expected: list(keys.iter().map(|key| short(&key.id())).collect()),
            found: list(self.signatures.iter().map(|(id, _)| short(id)).collect()),
        })
    }

    /// The payload as the carrier gave it, signed or not: for finding the key to look up.
    pub fn unverified_payload(&self) -> &[u8] {
        &self.payload
    }

    /// The payload's type as the carrier gave it.
    pub fn payload_type(&self) -> &str {
        &self.payload_type
    }
}

/// DSSE's pre-authentication encoding: lengths before contents, so that no two pairs are alike.
fn to_be_signed(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let mut bytes = format!(
        "DSSEv1 {} {payload_type} {} ",
        payload_type.len(),
        payload.len()
    )
    .into_bytes();
    bytes.extend_from_slice(payload);
    bytes
}

#[cfg(test)]
mod tests;
