//! The signature and digest algorithms behind the libraries that verify metadata and images: one choice for the process.
//!
//! What comes in: key, message and signature bytes of those libraries. What goes out: yes or no. Ed25519 by its strict rule and SHA-2
//! are always there. With the feature `p256`, ECDSA on P-256 as well, which repositories of other tools use; Outhaul's own fleets
//! never do. With the feature `sigstore`, what certificates, logs and timestamps are signed with, but only inside of
//! `for_sigstore`: the trust in a fleet's metadata stays what it is. It signs nothing and generates no key.

#[cfg(feature = "sigstore")]
mod sigstore;

use std::sync::Once;

use sha2::{Digest, Sha256, Sha384, Sha512};
use sigstore_crypto::provider::{CryptoProvider, HashContext, install_default_provider};
use sigstore_crypto::{Error, SigningScheme};
use sigstore_types::HashAlgorithm;

#[cfg(feature = "sigstore")]
pub use sigstore::for_sigstore;

/// Makes the libraries use this crate. They keep their choice in one place for the whole process; a second call does nothing.
pub fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Already set by a program that embeds this library: then its choice stands.
        let _ = install_default_provider(&Provider);
    });
}

#[derive(Debug)]
struct Provider;

struct Hash<D>(D);

impl<D: Digest + Send> HashContext for Hash<D> {
    fn update(&mut self, data: &[u8]) {
        Digest::update(&mut self.0, data);
    }

    fn finalize(self: Box<Self>) -> Vec<u8> {
        self.0.finalize().to_vec()
    }
}

impl CryptoProvider for Provider {
    fn hash(&self, algorithm: HashAlgorithm) -> Result<Box<dyn HashContext>, Error> {
        match algorithm {
            HashAlgorithm::Sha2256 => Ok(Box::new(Hash(Sha256::new()))),
            HashAlgorithm::Sha2384 => Ok(Box::new(Hash(Sha384::new()))),
            HashAlgorithm::Sha2512 => Ok(Box::new(Hash(Sha512::new()))),
            other => Err(Error::UnsupportedAlgorithm(format!("{other:?}"))),
        }
    }

    fn verify_raw(
        &self,
        scheme: SigningScheme,
        key: &[u8],
        data: &[u8],
        signature: &[u8],
    ) -> Result<(), Error> {
        match scheme {
            SigningScheme::Ed25519 => ed25519(key, data, signature),
            #[cfg(feature = "p256")]
            SigningScheme::EcdsaP256Sha256 => p256_sha256(key, data, signature),
            #[cfg(feature = "sigstore")]
            other => sigstore::message(other, key, data, signature),
            #[cfg(not(feature = "sigstore"))]
            other => Err(unsupported(other)),
        }
    }

    fn verify_prehashed(
        &self,
        scheme: SigningScheme,
        key: &[u8],
        digest: &[u8],
        signature: &[u8],
    ) -> Result<(), Error> {
        #[cfg(feature = "sigstore")]
        return sigstore::digest(scheme, key, digest, signature);
        // TUF signs messages, never digests.
        #[cfg(not(feature = "sigstore"))]
        {
            let _ = (key, digest, signature);
            Err(over_a_digest(scheme))
        }
    }
}

fn unsupported(scheme: SigningScheme) -> Error {
    Error::UnsupportedAlgorithm(scheme.name().to_owned())
}

fn over_a_digest(scheme: SigningScheme) -> Error {
    Error::UnsupportedAlgorithm(format!("{} over a digest", scheme.name()))
}

fn ed25519(key: &[u8], data: &[u8], signature: &[u8]) -> Result<(), Error> {
    let refused = |_| Error::Verification("Ed25519".to_owned());
    let key: &[u8; 32] = key
        .try_into()
        .map_err(|_| Error::InvalidKey("not 32 bytes".to_owned()))?;
    let key = ed25519_dalek::VerifyingKey::from_bytes(key).map_err(refused)?;
    let signature = ed25519_dalek::Signature::from_slice(signature).map_err(refused)?;
    key.verify_strict(data, &signature).map_err(refused)
}

#[cfg(feature = "p256")]
fn p256_sha256(key: &[u8], data: &[u8], signature: &[u8]) -> Result<(), Error> {
    use p256::ecdsa::signature::Verifier as _;
    use p256::ecdsa::{Signature, VerifyingKey};

    let refused = |_| Error::Verification("ECDSA P-256".to_owned());
    let key = VerifyingKey::from_sec1_bytes(key).map_err(refused)?;
    let signature = Signature::from_der(signature).map_err(refused)?;
    key.verify(data, &signature).map_err(refused)
}
