//! Signing at a distance: a small file asks for a signature, a small file brings it.
//!
//! What comes in: the exact bytes to be signed and the keys that would do. What goes out: a request that a
//! person carries to the machine of another key, and the answer that comes back. Whoever answers sees what
//! is signed: [`SigningRequest::summary`] is read from the very bytes, not from words beside them.

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
pub const MAX_BYTES: usize = 8 * 1024 * 1024;

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
    /// The keys whose signatures count, by id.
    pub keys: std::collections::BTreeMap<String, Key>,
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
    #[error("key {key} is none of those asked for ({wanted})")]
    OtherKey {
        /// The key, shortened.
        key: String,
        /// The keys that would do, shortened.
        wanted: String,
    },
    /// The answer's signature does not hold.
    #[error("the signature of key {key} does not hold")]
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
        }
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
            return Err(malformed(format!("its format is `{}`", request.format)));
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
            return Err(malformed(format!("its payload is no {kind} metadata")));
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
                problem: format!("its payload is no base64: {error}"),
            })
    }

    /// The metadata to sign, as a value to show.
    ///
    /// # Errors
    /// [`RequestError::Malformed`].
    pub fn value(&self) -> Result<Value, RequestError> {
        parse(&self.payload_bytes()?, "signing request")
    }

    /// What would be signed, in lines for the person who decides.
    ///
    /// # Errors
    /// [`RequestError::Malformed`].
    pub fn summary(&self) -> Result<String, RequestError> {
        let value = self.value()?;
        let text = |key: &str| value[key].to_string().trim_matches('"').to_owned();
        let mut lines = vec![
            format!("fleet    {}", self.fleet),
            format!("role     {}", self.role),
            format!("version  {}", text("version")),
            format!("expires  {}", text("expires")),
            format!("digest   {}", digest(&self.payload_bytes()?)),
        ];
        for (path, target) in value["targets"].as_object().into_iter().flatten() {
            lines.push(format!("target   {path} {}", target["hashes"]["sha256"]));
            lines.push(format!("         {}", target["custom"]));
        }
        for (role, keys) in value["roles"].as_object().into_iter().flatten() {
            let count = keys["keyids"].as_array().map_or(0, Vec::len);
            lines.push(format!("{role:<9}{} of {count} keys", keys["threshold"]));
        }
        Ok(lines.join("\n"))
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
        PublicKey::from_hex(public).map_err(|_| other())
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

fn short(text: &str) -> String {
    text.chars()
        .filter(char::is_ascii_alphanumeric)
        .take(12)
        .collect()
}

#[cfg(test)]
#[path = "request/tests.rs"]
mod tests;
