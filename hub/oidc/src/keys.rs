//! The keys that a provider publishes (RFC 7517), as far as the hub verifies with them.
//!
//! What comes in: JSON. What goes out: [`Keys`]. A key of a kind that is not known, for another use, or that is not whole is left
//! out: providers publish such beside the ones that they sign with. A symmetric key is never one.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents,
    UnparsedPublicKey,
};
use serde::Deserialize;
use serde_json::Value;

use crate::algorithm::Algorithm;
use crate::error::LoginError;

/// Most keys of a provider that are looked at.
const MAX_KEYS: usize = 100;

/// A provider's keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Keys(Vec<Key>);

/// One key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Key {
    id: Option<String>,
    public: Public,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Public {
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
    P256(Vec<u8>),
    Ed25519(Vec<u8>),
}

#[derive(Debug, Deserialize)]
struct Set {
    keys: Vec<Value>,
}

#[derive(Debug, Deserialize)]
struct JwkJson {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    key_ops: Option<Vec<String>>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl Keys {
    /// Reads what a provider publishes.
    ///
    /// # Errors
    /// [`LoginError::Provider`] when it is no set of keys, or too large a one.
    pub fn parse(json: &[u8]) -> Result<Self, LoginError> {
        let wrong = |problem: String| LoginError::Provider(format!("its keys: {problem}"));
        let set: Set = serde_json::from_slice(json).map_err(|error| wrong(error.to_string()))?;
        if set.keys.len() > MAX_KEYS {
            return Err(wrong(format!("there are more than {MAX_KEYS}")));
        }
        let read = |value| Key::of(serde_json::from_value(value).ok()?);
        Ok(Self(set.keys.into_iter().filter_map(read).collect()))
    }

    /// Those that may have made a signature of this kind; where the token names one, only it.
    pub(crate) fn for_head(
        &self,
        id: Option<&str>,
        algorithm: Algorithm,
    ) -> impl Iterator<Item = &Key> {
        self.0.iter().filter(move |key| {
            key.algorithm() == algorithm && id.is_none_or(|id| key.id.as_deref() == Some(id))
        })
    }
}

impl Key {
    fn of(written: JwkJson) -> Option<Self> {
        let bytes = |text: &Option<String>| URL_SAFE_NO_PAD.decode(text.as_ref()?).ok();
        let public = match (written.kty.as_str(), written.crv.as_deref()) {
            ("RSA", _) => Public::Rsa {
                modulus: bytes(&written.n)?,
                exponent: bytes(&written.e)?,
            },
            ("EC", Some("P-256")) => {
                let (x, y) = (bytes(&written.x)?, bytes(&written.y)?);
                let is_whole = x.len() == 32 && y.len() == 32;
                is_whole.then(|| Public::P256([&[4], &x[..], &y[..]].concat()))?
            }
            ("OKP", Some("Ed25519")) => Public::Ed25519(bytes(&written.x)?),
            _ => return None,
        };
        let key = Self {
            id: written.kid,
            public,
        };
        let verifies = |all: &Vec<String>| all.iter().any(|one| one == "verify");
        let is_for_this = written.usage.is_none_or(|usage| usage == "sig")
            && written.key_ops.as_ref().is_none_or(verifies)
            && written
                .alg
                .as_deref()
                .is_none_or(|name| key.algorithm().is_named(name));
        is_for_this.then_some(key)
    }

    fn algorithm(&self) -> Algorithm {
        match self.public {
            Public::Rsa { .. } => Algorithm::Rs256,
            Public::P256(_) => Algorithm::Es256,
            Public::Ed25519(_) => Algorithm::EdDsa,
        }
    }

    /// Whether this key made `signature` of `text`, with this algorithm.
    pub(crate) fn verifies(&self, algorithm: Algorithm, text: &[u8], signature: &[u8]) -> bool {
        let verified = match (&self.public, algorithm) {
            (Public::Rsa { modulus, exponent }, Algorithm::Rs256) => {
                // Big-endian without leading zeros is what the library takes; some providers write one.
                let n = modulus.strip_prefix(&[0]).unwrap_or(modulus);
                RsaPublicKeyComponents { n, e: exponent }.verify(
                    &RSA_PKCS1_2048_8192_SHA256,
                    text,
                    signature,
                )
            }
            (Public::P256(point), Algorithm::Es256) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(text, signature)
            }
            (Public::Ed25519(bytes), Algorithm::EdDsa) => {
                UnparsedPublicKey::new(&ED25519, bytes).verify(text, signature)
            }
            _ => return false,
        };
        verified.is_ok()
    }
}
