//! Signing at a distance: a small file asks for a signature, a small file brings it.
//!
//! What comes in: the exact bytes to be signed and the keys that would do. What goes out: a request that a
//! person carries to the machine of another key, and the answer that comes back. What the signature would
//! make count is shown by [`crate::review`], from the very bytes, before anybody answers.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::canonical;
use crate::key::PublicKey;
use crate::metadata::{self, Key, MetadataError, MetadataSignature, Signs};

/// A request's format; another is refused.
pub const REQUEST_FORMAT: &str = "outhaul.dev/signing-request/v1";
/// An answer's format; another is refused.
pub const ANSWER_FORMAT: &str = "outhaul.dev/signing-answer/v1";
/// Largest request or answer in bytes.
pub const MAX_BYTES: usize = 16 * 1024 * 1024;
/// Largest index that a request brings along, in bytes.
const MAX_INDEX_BYTES: usize = 4 * 1024 * 1024;

/// "Please sign these bytes."
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SigningRequest {
    /// Always [`REQUEST_FORMAT`].
    pub format: String,
    /// The fleet's id.
    pub fleet: String,
    /// The metadata's role: `root` or a stream's.
    pub role: String,
    /// The canonical bytes to sign, base64.
    pub payload: String,
    /// The keys with signatures that count, by id.
    pub keys: std::collections::BTreeMap<String, Key>,
    /// What the fleet has published, by file name: what the co-signer's root must lead to.
    #[serde(default, skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    pub published: std::collections::BTreeMap<String, String>,
    /// The index of the bundle that is to be signed, base64; without it only its digest can be shown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub index: String,
}

/// "Here is my signature."
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SigningAnswer {
    /// Always [`ANSWER_FORMAT`].
    pub format: String,
    /// SHA-256 of the payload that was signed, hexadecimal.
    pub payload_sha256: String,
    /// The signature.
    pub signature: MetadataSignature,
}

/// Why a request or an answer cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// Not a request or answer.
    #[error("not a {expected}: {problem}")]
    Malformed {
        /// `signing request` or `signing answer`.
        expected: &'static str,
        /// What is wrong.
        problem: String,
    },
    /// It cannot be signed.
    #[error("cannot sign")]
    Metadata(#[from] MetadataError),
    /// The answer is to another request.
    #[error("the answer is to another request: it signs {found}…, this asks for {expected}…")]
    OtherPayload {
        /// First digits of the digest asked for.
        expected: String,
        /// First digits of the digest answered.
        found: String,
    },
    /// A key that this request does not ask for.
    #[error("key {key} is not one of those asked for ({wanted})")]
    OtherKey {
        /// The key, shortened.
        key: String,
        /// The keys that would do, shortened.
        wanted: String,
    },
    /// The answer's signature does not hold.
    #[error("the signature of key {key} is not valid")]
    BadSignature {
        /// The key, shortened.
        key: String,
    },
}

impl SigningRequest {
    /// Asks for signatures over `payload` by any of `keys`.
    pub fn new(
        fleet: &str,
        role: &str,
        payload: &[u8],
        keys: std::collections::BTreeMap<String, Key>,
    ) -> Self {
        Self {
            format: REQUEST_FORMAT.to_owned(),
            fleet: fleet.to_owned(),
            role: role.to_owned(),
            payload: STANDARD.encode(payload),
            keys,
            published: std::collections::BTreeMap::new(),
            index: String::new(),
        }
    }

    /// Brings along what the fleet has published, for those who have an older root only.
    #[must_use]
    pub fn with_published(mut self, published: std::collections::BTreeMap<String, String>) -> Self {
        self.published = published;
        self
    }

    /// Brings along the index of the bundle, unless it is too large for a request.
    #[must_use]
    pub fn with_index(mut self, bytes: &[u8]) -> Self {
        if bytes.len() <= MAX_INDEX_BYTES {
            self.index = STANDARD.encode(bytes);
        }
        self
    }

    /// The published files that it brings along.
    pub fn published_bytes(&self) -> std::collections::BTreeMap<String, Vec<u8>> {
        let files = self.published.iter();
        files
            .map(|(name, text)| (name.clone(), text.clone().into_bytes()))
            .collect()
    }

    /// The bundle's index, when it brings it along.
    ///
    /// # Errors
    /// [`RequestError::Malformed`].
    pub fn index_bytes(&self) -> Result<Option<Vec<u8>>, RequestError> {
        if self.index.is_empty() {
            return Ok(None);
        }
        STANDARD.decode(&self.index).map(Some).map_err(|error| {
            let problem = format!("its index is not base64: {error}");
            let expected = "signing request";
            RequestError::Malformed { expected, problem }
        })
    }

    /// SHA-256 of the bytes to sign, 64 hexadecimal digits.
    ///
    /// # Errors
    /// [`RequestError::Malformed`].
    pub fn digest(&self) -> Result<String, RequestError> {
        Ok(digest(&self.payload_bytes()?))
    }

    /// The file's bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        pretty(self)
    }

    /// A request from bytes, bounded; its payload is checked to be canonical metadata.
    ///
    /// # Errors
    /// [`RequestError::Malformed`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, RequestError> {
        let expected = "signing request";
        let malformed = |problem: String| RequestError::Malformed { expected, problem };
        let request: Self = parse(bytes, expected)?;
        if request.format != REQUEST_FORMAT {
            return Err(malformed("its format is another one".to_owned()));
        }
        let hexadecimal = |text: &str| {
            text.len() == 16 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
        };
        let stream = request.role.strip_prefix("s-").is_some_and(hexadecimal);
        if !hexadecimal(&request.fleet) || !(stream || request.role == "root") {
            return Err(malformed(
                "its fleet or role is not a valid name".to_owned(),
            ));
        }
        // Only what is read back the same is signed: no second meaning in the bytes.
        let value = request.value()?;
        let again = canonical::to_bytes(&value).map_err(|error| malformed(error.to_string()))?;
        if again != request.payload_bytes()? {
            return Err(malformed("its payload is not canonical".to_owned()));
        }
        let kind = if request.role == "root" {
            "root"
        } else {
            "targets"
        };
        if value["_type"] != kind {
            return Err(malformed(format!("its payload is not {kind} metadata")));
        }
        Ok(request)
    }

    /// The bytes to sign.
    ///
    /// # Errors
    /// [`RequestError::Malformed`].
    pub fn payload_bytes(&self) -> Result<Vec<u8>, RequestError> {
        STANDARD
            .decode(&self.payload)
            .map_err(|error| RequestError::Malformed {
                expected: "signing request",
                problem: format!("its payload is not base64: {error}"),
            })
    }

    /// The metadata to sign, as a value to show.
    ///
    /// # Errors
    /// [`RequestError::Malformed`].
    pub fn value(&self) -> Result<Value, RequestError> {
        parse(&self.payload_bytes()?, "signing request")
    }

    /// Answers with the signature of `signer`.
    ///
    /// # Errors
    /// [`RequestError::OtherKey`] when the request does not ask for this key.
    pub fn answer(&self, signer: &dyn Signs) -> Result<SigningAnswer, RequestError> {
        let key = signer.public();
        self.key(&key.id())?;
        let payload = self.payload_bytes()?;
        Ok(SigningAnswer {
            format: ANSWER_FORMAT.to_owned(),
            payload_sha256: digest(&payload),
            signature: metadata::sign_one(&payload, signer)?,
        })
    }

    /// The signature of `answer`, when it is one of a key asked for, over these bytes.
    ///
    /// # Errors
    /// [`RequestError`].
    pub fn accept(&self, answer: &SigningAnswer) -> Result<MetadataSignature, RequestError> {
        let payload = self.payload_bytes()?;
        let expected = digest(&payload);
        if answer.payload_sha256 != expected {
            let (expected, found) = (short(&expected), short(&answer.payload_sha256));
            return Err(RequestError::OtherPayload { expected, found });
        }
        let key = self.key(&answer.signature.keyid)?;
        let bad = || RequestError::BadSignature {
            key: short(&answer.signature.keyid),
        };
        let signature = hex::decode(&answer.signature.sig).map_err(|_| bad())?;
        key.verify(&payload, &signature).map_err(|_| bad())?;
        Ok(answer.signature.clone())
    }

    /// The key of this id, when its signature is asked for and it matches its id.
    fn key(&self, id: &str) -> Result<PublicKey, RequestError> {
        let wanted = || {
            self.keys
                .keys()
                .map(|id| short(id))
                .collect::<Vec<_>>()
                .join(", ")
        };
        let other = || RequestError::OtherKey {
            key: short(id),
            wanted: wanted(),
        };
        let key = self.keys.get(id).ok_or_else(other)?;
        let public = key.keyval.get("public").map_or("", String::as_str);
        let key = PublicKey::from_hex(public).map_err(|_| other())?;
        if key.id() == id {
            Ok(key)
        } else {
            Err(other())
        }
    }
}

impl SigningAnswer {
    /// The file's bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        pretty(self)
    }

    /// An answer from bytes, bounded.
    ///
    /// # Errors
    /// [`RequestError::Malformed`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, RequestError> {
        let answer: Self = parse(bytes, "signing answer")?;
        if answer.format == ANSWER_FORMAT {
            return Ok(answer);
        }
        let problem = format!("its format is `{}`", answer.format);
        Err(RequestError::Malformed {
            expected: "signing answer",
            problem,
        })
    }
}

fn parse<T: serde::de::DeserializeOwned>(
    bytes: &[u8],
    expected: &'static str,
) -> Result<T, RequestError> {
    let malformed = |problem: String| RequestError::Malformed { expected, problem };
    if bytes.len() > MAX_BYTES {
        return Err(malformed(format!("{} bytes are too many", bytes.len())));
    }
    serde_json::from_slice(bytes).map_err(|error| malformed(error.to_string()))
}

fn pretty<T: Serialize>(value: &T) -> Vec<u8> {
    // Texts only: there is nothing that cannot be written.
    let mut bytes = serde_json::to_vec_pretty(value).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

fn digest(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

pub(crate) fn short(text: &str) -> String {
    text.chars()
        .filter(char::is_ascii_alphanumeric)
        .take(12)
        .collect()
}

#[cfg(test)]
mod tests;
