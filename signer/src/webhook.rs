//! What a hub derives for a site that reports by webhook: the secret that its cluster sends with, and the key that signs its reports.
//!
//! What comes in: the hub's key, the fleet, the site and a random salt. What goes out: a secret and a key, which nobody stores. Neither
//! follows from the other: the cluster has the secret, and only the hub signs reports. Whoever has the database alone has neither;
//! whoever has the hub's key has both. Nothing is verified here.

use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use crate::key::SigningKey;

/// What the hub's key signs to derive secrets and keys, and nothing else signs.
const ROOT: &[u8] = b"outhaul.dev/webhook-secrets/v1";
const SECRET: &[u8] = b"outhaul.dev/webhook-secret/v1";
const KEY: &[u8] = b"outhaul.dev/webhook-key/v1";

/// What a hub derives the secrets of its sites and the keys of their reports from. It is as secret as the hub's key.
#[derive(Clone)]
pub struct WebhookSecrets(Zeroizing<String>);

impl std::fmt::Debug for WebhookSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("WebhookSecrets")
    }
}

impl WebhookSecrets {
    /// Those of the hub with this key.
    pub fn of(hub: &SigningKey) -> Self {
        // A signature of Ed25519 is the same each time, and nobody without the key can tell it.
        let signature = Zeroizing::new(hub.sign(ROOT));
        let digest = Zeroizing::new(<[u8; 32]>::from(Sha256::digest(*signature)));
        Self(Zeroizing::new(hex::encode(*digest)))
    }

    /// The secret of a site: 64 hexadecimal digits, the same for the same hub, fleet, site and salt.
    pub fn secret(&self, fleet: &str, site: &str, salt: &str) -> Zeroizing<String> {
        Zeroizing::new(hex::encode(*self.derived(SECRET, [fleet, site, salt])))
    }

    /// The key that signs what the hub makes of a site's webhooks. Whoever has the site's secret cannot derive it.
    pub fn report_key(&self, fleet: &str, site: &str, salt: &str) -> SigningKey {
        SigningKey::from_seed(&self.derived(KEY, [fleet, site, salt]))
    }

    fn derived(&self, purpose: &[u8], [fleet, site, salt]: [&str; 3]) -> Zeroizing<[u8; 32]> {
        let bytes = Zeroizing::new(framed(purpose, &[&self.0, fleet, site, salt]));
        Zeroizing::new(<[u8; 32]>::from(Sha256::digest(&*bytes)))
    }
}

/// Lengths before contents, so that no two lists are alike.
fn framed(purpose: &[u8], parts: &[&str]) -> Vec<u8> {
    let mut bytes = purpose.to_vec();
    for part in parts {
        bytes.extend_from_slice(&(part.len() as u64).to_be_bytes());
        bytes.extend_from_slice(part.as_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_hub_fleet_site_and_salt_has_a_secret_and_a_key_of_its_own() {
        let (hub, other) = (
            SigningKey::from_seed(&[1; 32]),
            SigningKey::from_seed(&[2; 32]),
        );
        let secret = |hub, fleet, site, salt| {
            let secrets = WebhookSecrets::of(hub);
            secrets.secret(fleet, site, salt).to_string()
        };
        let first = secret(&hub, "f", "a", "1");
        assert_eq!(first, secret(&hub, "f", "a", "1"));
        assert_eq!(first.len(), 64);
        for different in [
            secret(&other, "f", "a", "1"),
            secret(&hub, "g", "a", "1"),
            secret(&hub, "f", "b", "1"),
            secret(&hub, "f", "a", "2"),
            secret(&hub, "fa", "", "1"),
        ] {
            assert_ne!(first, different);
        }
        let key = |hub, fleet, site, salt| {
            let secrets = WebhookSecrets::of(hub);
            secrets.report_key(fleet, site, salt).public().id()
        };
        let first = key(&hub, "f", "a", "1");
        assert_eq!(first, key(&hub, "f", "a", "1"));
        for different in [
            key(&other, "f", "a", "1"),
            key(&hub, "g", "a", "1"),
            key(&hub, "f", "b", "1"),
            key(&hub, "f", "a", "2"),
        ] {
            assert_ne!(first, different);
        }
    }

    #[test]
    fn attack_the_secret_of_a_site_does_not_give_the_key_of_its_reports() {
        let secrets = WebhookSecrets::of(&SigningKey::from_seed(&[1; 32]));
        let secret = secrets.secret("f", "a", "1");
        let own = secrets.report_key("f", "a", "1").public().id();
        // All that a cluster has: its secret, as text and as bytes, with every name and purpose.
        let bytes: [u8; 32] = hex::decode(&*secret).unwrap().try_into().unwrap();
        let mut guesses = vec![bytes];
        for purpose in [ROOT, SECRET, KEY] {
            for parts in [
                &["f", "a", &*secret][..],
                &[&*secret, "f", "a", "1"],
                &["f", "a", "1"],
            ] {
                guesses.push(Sha256::digest(framed(purpose, parts)).into());
            }
        }
        for guess in guesses {
            assert_ne!(SigningKey::from_seed(&guess).public().id(), own);
        }
    }
}
