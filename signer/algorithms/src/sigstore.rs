//! What certificates, logs and timestamps of Sigstore are signed with: ECDSA on P-256 and P-384, and RSA.
//!
//! What comes in: key, message or digest, signature. What goes out: yes or no; always no outside of [`for_sigstore`], because the
//! same provider serves the metadata of fleets, which is signed with Ed25519 alone.

use std::cell::Cell;

use ring::signature::{self, UnparsedPublicKey, VerificationAlgorithm};
use sigstore_crypto::{Error, SigningScheme};

use crate::{over_a_digest, unsupported};

thread_local! {
    static IS_OPEN: Cell<bool> = const { Cell::new(false) };
}

/// Does something for which the algorithms of Sigstore are there, on this thread and until it ends.
pub fn for_sigstore<T>(verify: impl FnOnce() -> T) -> T {
    /// Closes again, also where a panic ends what is done.
    struct Open(bool);
    impl Drop for Open {
        fn drop(&mut self) {
            IS_OPEN.set(self.0);
        }
    }
    crate::install();
    let _open = Open(IS_OPEN.replace(true));
    verify()
}

/// Whether `signature` over a whole message holds.
pub(crate) fn message(
    scheme: SigningScheme,
    key: &[u8],
    data: &[u8],
    signature: &[u8],
) -> Result<(), Error> {
    let algorithm: &dyn VerificationAlgorithm = match scheme {
        _ if !IS_OPEN.get() => return Err(unsupported(scheme)),
        SigningScheme::EcdsaP256Sha256 => &signature::ECDSA_P256_SHA256_ASN1,
        SigningScheme::EcdsaP256Sha384 => &signature::ECDSA_P256_SHA384_ASN1,
        SigningScheme::EcdsaP384Sha256 => &signature::ECDSA_P384_SHA256_ASN1,
        SigningScheme::EcdsaP384Sha384 => &signature::ECDSA_P384_SHA384_ASN1,
        SigningScheme::RsaPkcs1Sha256 => &signature::RSA_PKCS1_2048_8192_SHA256,
        SigningScheme::RsaPkcs1Sha384 => &signature::RSA_PKCS1_2048_8192_SHA384,
        SigningScheme::RsaPkcs1Sha512 => &signature::RSA_PKCS1_2048_8192_SHA512,
        SigningScheme::RsaPssSha256 => &signature::RSA_PSS_2048_8192_SHA256,
        SigningScheme::RsaPssSha384 => &signature::RSA_PSS_2048_8192_SHA384,
        SigningScheme::RsaPssSha512 => &signature::RSA_PSS_2048_8192_SHA512,
        other => return Err(unsupported(other)),
    };
    UnparsedPublicKey::new(algorithm, key)
        .verify(data, signature)
        .map_err(|_| Error::Verification(scheme.name().to_owned()))
}

/// Whether `signature` over a digest holds: what signs images is ECDSA on P-256 with SHA-256.
pub(crate) fn digest(
    scheme: SigningScheme,
    key: &[u8],
    digest: &[u8],
    signature: &[u8],
) -> Result<(), Error> {
    use p256::ecdsa::signature::hazmat::PrehashVerifier as _;
    use p256::ecdsa::{Signature, VerifyingKey};

    if !IS_OPEN.get() || scheme != SigningScheme::EcdsaP256Sha256 {
        return Err(over_a_digest(scheme));
    }
    let refused = |_| Error::Verification(scheme.name().to_owned());
    let key = VerifyingKey::from_sec1_bytes(key).map_err(refused)?;
    let signature = Signature::from_der(signature).map_err(refused)?;
    key.verify_prehash(digest, &signature).map_err(refused)
}

#[cfg(test)]
mod tests {
    use p256::ecdsa::signature::Signer as _;
    use p256::ecdsa::{Signature, SigningKey};
    use sigstore_crypto::provider::CryptoProvider as _;

    use super::*;
    use crate::Provider;

    #[test]
    fn what_sigstore_signs_with_is_there_for_sigstore_alone_and_a_fleet_trusts_as_before() {
        let secret = SigningKey::from_slice(&[7; 32]).unwrap();
        let key = secret.verifying_key().to_sec1_point(false);
        let signature: Signature = secret.sign(b"message");
        let signature = signature.to_der();
        let scheme = SigningScheme::EcdsaP256Sha256;
        let holds = |data: &[u8]| {
            Provider
                .verify_raw(scheme, key.as_bytes(), data, signature.as_bytes())
                .is_ok()
        };
        let of_digest = || {
            let digest = Provider.sha256(b"message");
            Provider
                .verify_prehashed(scheme, key.as_bytes(), &digest, signature.as_bytes())
                .is_ok()
        };
        crate::install();
        let of_a_fleet = cfg!(feature = "p256");
        assert_eq!((holds(b"message"), of_digest()), (of_a_fleet, false));
        for_sigstore(|| {
            assert_eq!((holds(b"message"), of_digest()), (true, true));
            assert!(!holds(b"another"));
            // Other threads verify metadata meanwhile.
            let elsewhere = std::thread::scope(|scope| scope.spawn(of_digest).join().unwrap());
            assert!(!elsewhere);
        });
        let ended = std::panic::catch_unwind(|| for_sigstore(|| panic!("as a library may")));
        assert!(ended.is_err());
        assert_eq!((holds(b"message"), of_digest()), (of_a_fleet, false));
    }

    #[test]
    fn ed25519_is_verified_by_its_strict_rule_for_both() {
        // A key of small order, for which one signature holds over every message by the lax rule.
        let mut key = [0; 32];
        key[0] = 1;
        let mut signature = [0; 64];
        signature[0] = 1;
        let lax = || {
            Provider
                .verify_raw(SigningScheme::Ed25519, &key, b"any", &signature)
                .is_ok()
        };
        assert!(!lax());
        assert!(!for_sigstore(lax));
    }
}
