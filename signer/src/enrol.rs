//! The kit: the one file that makes a machine a site.
//!
//! What comes in: what the centre knows of a new site, or bytes of a stick. What goes out: JSON text, or
//! a [`Kit`] of which the root metadata was checked to be signed by its own keys. The kit is the one moment of
//! trust on first use: after it no file of this kind changes what a site accepts. A request proves
//! that its site has the kit ([`proven_kit`]) without showing the kit's token.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::envelope::{Envelope, EnvelopeError};
use crate::key::{KeyError, PublicKey, SigningKey};
use crate::metadata::{Root, parse_own};
use crate::review::fleet_id;
use crate::trust::walk::Walk;
use crate::trust::{TrustError, TrustedMetadata};

/// The format's name; a reader refuses any other.
pub const FORMAT: &str = "outhaul.dev/kit/v1";
/// Fewest digits of a fingerprint that name a key.
pub const MIN_FINGERPRINT_DIGITS: usize = 16;
/// Largest kit in bytes: root metadata is the only part that grows.
pub const MAX_KIT_BYTES: usize = 1024 * 1024;

/// What a new site is given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kit {
    /// Always [`FORMAT`].
    pub format: String,
    /// The fleet's id: the first 16 hexadecimal digits of its first root metadata's digest.
    pub fleet: String,
    /// The site's name.
    pub site: String,
    /// The stream that it follows.
    pub stream: KitStream,
    /// The fleet's newest root metadata, as text, byte for byte.
    pub root: String,
    /// The versions before it, version 1 first: they lead from the root that the fleet's id is the digest of
    /// to the newest. Empty while that is version 1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier_roots: Vec<String>,
    /// Where the hub is; empty for a site that only sees sticks.
    #[serde(default)]
    pub hub_url: String,
    /// The hub's public key, SPKI PEM; empty when there is no hub yet.
    #[serde(default)]
    pub hub_key: String,
    /// The certificate authority of the hub and the repository over HTTPS, PEM; empty for
    /// the authorities of the system.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hub_ca: String,
    /// The secret from which [`Kit::key`] is derived. It never leaves the kit.
    pub token: String,
}

/// The stream of a kit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KitStream {
    /// The opaque name of the signing role.
    pub role: String,
    /// The environment.
    pub environment: String,
    /// The cluster type.
    pub cluster_type: String,
}

/// Why bytes are not a kit that a site can be made from.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KitError {
    /// The hub's key is not a key.
    #[error("the kit's hub key cannot be used")]
    HubKey {
        /// Why.
        source: KeyError,
    },
    /// Not JSON of the right shape.
    #[error("not a kit: {problem}")]
    Malformed {
        /// What is wrong.
        problem: String,
    },
    /// A later root without the versions that lead to it.
    #[error(
        "the kit has root version {version} and {count} of the versions before it, so that its fleet cannot \
         be reported\nhelp: have the kit made again: `outhaul site enrol` puts them in"
    )]
    NoChain {
        /// The newest version.
        version: u64,
        /// How many earlier ones there are.
        count: u64,
    },
    /// First root metadata that is not the named fleet's.
    #[error("the kit names fleet {expected}, its root metadata is of fleet {found}")]
    OtherFleet {
        /// The fleet that the kit names.
        expected: String,
        /// The fleet that the metadata belongs to.
        found: String,
    },
    /// The root metadata does not hold.
    #[error("the kit's root metadata cannot be trusted")]
    Root {
        /// Why.
        source: TrustError,
    },
    /// Larger than [`MAX_KIT_BYTES`].
    #[error("a kit of {bytes} bytes, the limit is {MAX_KIT_BYTES}")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// Another format.
    #[error("a kit of format `{found}`, this program reads `{FORMAT}`")]
    UnknownFormat {
        /// The format found.
        found: String,
    },
}

impl Kit {
    /// The kit as JSON text.
    pub fn to_bytes(&self) -> Vec<u8> {
        // Texts only: there is nothing that cannot be written.
        let mut bytes = serde_json::to_vec_pretty(self).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }

    /// A kit from bytes, with its root metadata and keys checked.
    ///
    /// # Errors
    /// [`KitError`] when it is too large, no kit, or what it brings cannot be trusted.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, KitError> {
        #[derive(Deserialize)]
        struct Header {
            format: String,
        }
        if bytes.len() > MAX_KIT_BYTES {
            return Err(KitError::TooLarge { bytes: bytes.len() });
        }
        let malformed = |error: serde_json::Error| KitError::Malformed {
            problem: error.to_string(),
        };
        let header: Header = serde_json::from_slice(bytes).map_err(malformed)?;
        if header.format != FORMAT {
            return Err(KitError::UnknownFormat {
                found: header.format,
            });
        }
        let kit: Self = serde_json::from_slice(bytes).map_err(malformed)?;
        kit.trusted()?;
        kit.refuse_other_fleet()?;
        kit.hub()?;
        Ok(kit)
    }

    /// The fleet's id is a digest of its first root, which must lead to the newest.
    fn refuse_other_fleet(&self) -> Result<(), KitError> {
        let newest: Result<Root, _> = parse_own(self.root.as_bytes());
        let version = newest.map_or(0, |root| root.version);
        let first = self.earlier_roots.first().unwrap_or(&self.root);
        let found = fleet_id(first.as_bytes());
        let count = self.earlier_roots.len() as u64;
        if count.saturating_add(1) != version {
            return Err(KitError::NoChain { version, count });
        }
        if found != self.fleet {
            return Err(KitError::OtherFleet {
                expected: self.fleet.clone(),
                found,
            });
        }
        let later = self.earlier_roots.iter().skip(1).chain([&self.root]);
        let later: BTreeMap<String, Vec<u8>> = (2_u64..)
            .zip(later)
            .map(|(version, text)| (format!("{version}.root.json"), text.clone().into_bytes()))
            .collect();
        let chain = Walk::from_root(first.as_bytes()).and_then(|mut walk| {
            if count > 0 {
                walk.update_root(&later, &mut |_| {})?;
            }
            Ok(walk.set().root_bytes() == self.root.as_bytes())
        });
        match chain {
            Ok(true) => Ok(()),
            Ok(false) => Err(KitError::NoChain { version, count }),
            Err(source) => Err(KitError::Root { source }),
        }
    }

    /// The metadata that a site of this kit starts from.
    ///
    /// # Errors
    /// [`KitError::Root`] when the root metadata is not signed by its own keys.
    pub fn trusted(&self) -> Result<TrustedMetadata, KitError> {
        TrustedMetadata::enrol(self.root.as_bytes()).map_err(|source| KitError::Root { source })
    }

    /// The key that proves possession of this kit: it signs the site's enrolment request beside the
    /// site's own key.
    pub fn key(&self) -> SigningKey {
        kit_key(&self.fleet, &self.site, &self.token)
    }

    /// The kit's id: the id of the public half of [`Kit::key`], 64 hexadecimal digits. It is not secret.
    pub fn id(&self) -> String {
        self.key().public().id()
    }

    /// The hub's key, when the kit names one.
    ///
    /// # Errors
    /// [`KitError::HubKey`].
    pub fn hub(&self) -> Result<Option<PublicKey>, KitError> {
        if self.hub_key.is_empty() {
            return Ok(None);
        }
        PublicKey::from_pem(&self.hub_key)
            .map(Some)
            .map_err(|source| KitError::HubKey { source })
    }
}

/// The key of the kit with this token. It is bound to the fleet and the site: the same token in another
/// kit makes another key.
pub fn kit_key(fleet: &str, site: &str, token: &str) -> SigningKey {
    let mut digest = Sha256::new();
    digest.update(b"outhaul.dev/kit-key/v1");
    for part in [fleet, site, token] {
        // Lengths before contents, so that no two triples are alike.
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part.as_bytes());
    }
    let seed = zeroize::Zeroizing::new(<[u8; 32]>::from(digest.finalize()));
    SigningKey::from_seed(&seed)
}

/// Why a request does not prove that its site has a kit.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProofError {
    /// It names no kit, or what it names is not a key.
    #[error("it names no kit")]
    NoKit,
    /// The kit's key did not sign it.
    #[error("it is not signed by the key of the kit that it names")]
    NotSigned(#[source] EnvelopeError),
}

/// The id of the kit that a request proves to have: `kit` is the public key that it names, which must
/// have signed the envelope.
///
/// # Errors
/// [`ProofError`].
pub fn proven_kit(
    envelope: &Envelope,
    payload_type: &str,
    kit: &str,
) -> Result<String, ProofError> {
    let key = PublicKey::from_hex(kit).map_err(|_| ProofError::NoKit)?;
    envelope
        .verify(payload_type, std::slice::from_ref(&key))
        .map_err(ProofError::NotSigned)?;
    Ok(key.id())
}

/// A new one-time token: 32 hexadecimal digits.
///
/// # Errors
/// [`KeyError::NoRandomness`].
pub fn new_token() -> Result<String, KeyError> {
    let mut bytes = [0u8; 16];
    crate::key::random(&mut bytes)?;
    Ok(hex::encode(bytes))
}

#[cfg(test)]
mod tests;
