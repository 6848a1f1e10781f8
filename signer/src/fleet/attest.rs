//! Statements: what a fleet states about its own bundles, signed with the key that publishes them.
//!
//! What comes in: a fleet and its passphrase, or metadata that a site trusts. What goes out: a
//! [`StatementSigner`], or the keys with which a signature makes a statement the fleet's. It is the key of the
//! timestamp role: the one that every publication needs. Statements inform; what a site installs is
//! decided by the metadata alone.

use std::collections::BTreeMap;
use std::fmt;

use super::{Fleet, FleetError};
use crate::envelope::Envelope;
use crate::key::{PublicKey, Secret, SigningKey};
use crate::metadata::{self, Root};
use crate::trust::walk::Walk;
use crate::trust::{TrustError, TrustedMetadata};

/// The role with the keys that sign statements.
const ROLE: &str = "timestamp";

/// Signs statements. Its key is opened once, because that takes a while by design.
pub struct StatementSigner(SigningKey);

impl StatementSigner {
    /// An envelope around `payload`.
    pub fn sign(&self, payload_type: &str, payload: Vec<u8>) -> Envelope {
        Envelope::sign(payload_type, payload, &self.0)
    }

    /// The signature over a digest, in another form than an envelope.
    pub(crate) fn sign_digest(&self, digest: &[u8]) -> [u8; 64] {
        self.0.sign(digest)
    }

    /// The key's public half.
    pub(crate) fn public_bytes(&self) -> [u8; 32] {
        self.0.public().to_bytes()
    }
}

impl fmt::Debug for StatementSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StatementSigner({})", self.0.public().short_id())
    }
}

impl Fleet {
    /// What signs this fleet's statements.
    ///
    /// # Errors
    /// [`FleetError`] when the online key is not here or `secret` does not open it.
    pub fn statement_signer(&self, secret: &Secret) -> Result<StatementSigner, FleetError> {
        let published = self.published()?;
        let keys = &published.root.roles[ROLE];
        let mut signers = self.ring().signers(ROLE, keys, secret)?;
        Ok(StatementSigner(signers.swap_remove(0)))
    }

    /// The keys that sign this fleet's statements now, by the chain of its root metadata: a key that was taken away is none of them.
    ///
    /// # Errors
    /// [`FleetError`] when the root metadata cannot be read, or a link of its chain does not hold.
    pub fn statement_keys(&self) -> Result<Vec<PublicKey>, FleetError> {
        let broken = |error: TrustError| FleetError::Damaged {
            folder: self.folder().to_owned(),
            problem: error.to_string(),
        };
        let roots = self.published_roots()?.into_iter();
        let roots: BTreeMap<String, Vec<u8>> = roots
            .map(|(name, text)| (name, text.into_bytes()))
            .collect();
        let mut walk = Walk::from_root(&self.root_bytes()?).map_err(broken)?;
        walk.update_root(&roots, &mut |_| {}).map_err(broken)?;
        Ok(statement_keys(&walk.trusted()))
    }
}

/// The keys that sign statements, by root metadata that was verified. None when it is damaged.
pub fn statement_keys(trusted: &TrustedMetadata) -> Vec<PublicKey> {
    let root = trusted.0.get("root.json");
    let root = root.and_then(|bytes| metadata::parse_own::<Root>(bytes).ok());
    let Some(root) = root else { return Vec::new() };
    let ids = root.roles.get(ROLE).map(|role| role.keyids.clone());
    let keys = ids
        .unwrap_or_default()
        .into_iter()
        .filter_map(|id| root.keys.get(&id)?.keyval.get("public").cloned());
    keys.filter_map(|hex| PublicKey::from_hex(&hex).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::InitOptions;

    #[test]
    fn a_statement_is_the_fleets_own_and_nobody_elses() {
        let now = "2026-11-21T00:00:00Z".parse().unwrap();
        let dirs = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let secret = Secret::new("a passphrase for tests".to_owned());
        let fleets = dirs
            .each_ref()
            .map(|dir| Fleet::init(dir.path(), InitOptions::new(secret.clone(), now)).unwrap());
        let keys = fleets.each_ref().map(|fleet| {
            statement_keys(&TrustedMetadata::enrol(&fleet.root_bytes().unwrap()).unwrap())
        });
        let signer = fleets[0].statement_signer(&secret).unwrap();
        let envelope = signer.sign("text/plain", b"stated".to_vec());
        assert_eq!(envelope.verify("text/plain", &keys[0]).unwrap(), b"stated");
        assert!(envelope.verify("text/plain", &keys[1]).is_err());
        assert!(statement_keys(&TrustedMetadata::default()).is_empty());
        // The same statement has the same bytes: an unchanged bundle stays unchanged.
        let again = signer.sign("text/plain", b"stated".to_vec());
        assert_eq!(again.to_json(), envelope.to_json());
    }
}
