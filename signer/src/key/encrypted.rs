//! A private key at rest: PKCS#8, AES-256, and a key that scrypt derives from the passphrase.
//!
//! What comes in: a key's DER and a passphrase, or an encrypted file of any strength that was ever written.
//! What goes out: PEM, or the DER. The strength is written in the file itself, so that it can rise and older
//! files still open. Keys that one passphrase guards share one salt: then a run derives once, however many
//! keys it opens, and whoever guesses the passphrase of one has that of all anyway. It writes no file.

use aes::Aes256;
use cbc::cipher::block_padding::Pkcs7;
use cbc::cipher::{BlockModeDecrypt as _, BlockModeEncrypt as _, KeyIvInit as _};
use pkcs8::pkcs5::EncryptionScheme;
use pkcs8::pkcs5::pbes2::{self, Kdf, ScryptParams};
use pkcs8::pkcs5::scrypt::Params;
use pkcs8::{EncryptedPrivateKeyInfo, EncryptedPrivateKeyInfoRef, LineEnding, SecretDocument};
use zeroize::Zeroizing;

use super::{KeyError, Secret, random};

/// scrypt's block size and parallelism: as everyone has them.
const R: u32 = 8;
const P: u32 = 1;
/// The highest cost that is computed: 1 GiB of memory. A file that asks for more is not one of ours.
const MAX_LOG_N: u8 = 20;
const BLOCK: usize = 16;

/// How hard a passphrase is to guess from a file: scrypt's N is 2 to this power; r is 8, p is 1.
///
/// OWASP asks for 2^17 at least (Password Storage Cheat Sheet), which takes 128 MiB and some 0.3 s for each
/// guess; root keys get 2^18. Builds with debug assertions, which are never released, use 2^10: their tests
/// make hundreds of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cost(u8);

impl Cost {
    /// What released programs use for root keys.
    const RELEASED_ROOT: Self = Self(18);
    /// What released programs use for the others.
    const RELEASED: Self = Self(17);
    const TESTS: Self = Self(10);

    /// For root keys, and keys that are made by themselves.
    pub const fn root() -> Self {
        if cfg!(debug_assertions) {
            Self::TESTS
        } else {
            Self::RELEASED_ROOT
        }
    }

    /// For keys that sign every day.
    pub const fn daily() -> Self {
        if cfg!(debug_assertions) {
            Self::TESTS
        } else {
            Self::RELEASED
        }
    }

    fn params(self) -> Option<Params> {
        Params::new(self.0, R, P).ok()
    }
}

/// PEM of the key `der`, encrypted with `secret`.
pub(super) fn encrypt(
    der: &[u8],
    secret: &Secret,
    cost: Cost,
) -> Result<Zeroizing<String>, KeyError> {
    let failed = |reason: &str| KeyError::NoRandomness {
        reason: reason.to_owned(),
    };
    let params = cost.params().ok_or_else(|| failed("scrypt"))?;
    let salt = if let Some(salt) = secret.salt_of(&params) {
        salt
    } else {
        let mut salt = [0u8; 16];
        random(&mut salt)?;
        salt.to_vec()
    };
    let mut iv = [0u8; BLOCK];
    random(&mut iv)?;
    let key = secret.derived(&salt, &params);
    let key = key.ok_or_else(|| failed("scrypt"))?;
    let mut buffer = Zeroizing::new(vec![0u8; der.len() + BLOCK]);
    buffer[..der.len()].copy_from_slice(der);
    let encrypted = cbc::Encryptor::<Aes256>::new((&*key).into(), (&iv).into())
        .encrypt_padded::<Pkcs7>(&mut buffer, der.len())
        .map_err(|_| failed("AES"))?;
    let kdf = ScryptParams::from_params_and_salt(params, &salt).map_err(|_| failed("scrypt"))?;
    let scheme = pbes2::Parameters {
        kdf: Kdf::Scrypt(kdf),
        encryption: pbes2::EncryptionScheme::Aes256Cbc { iv },
    };
    let data = pkcs8::der::asn1::OctetStringRef::new(encrypted).map_err(|_| failed("DER"))?;
    let info = EncryptedPrivateKeyInfo {
        encryption_algorithm: EncryptionScheme::Pbes2(scheme),
        encrypted_data: data,
    };
    let document = SecretDocument::try_from(info).map_err(|_| failed("DER"))?;
    document
        .to_pem("ENCRYPTED PRIVATE KEY", LineEnding::LF)
        .map_err(|_| failed("PEM"))
}

/// The key in `der`, an encrypted PKCS#8 document; `None` when `secret` does not open it.
pub(super) fn decrypt(der: &[u8], secret: &Secret) -> Option<SecretDocument> {
    let info = EncryptedPrivateKeyInfoRef::try_from(der).ok()?;
    if let EncryptionScheme::Pbes2(pbes2::Parameters {
        kdf: Kdf::Scrypt(kdf),
        encryption: pbes2::EncryptionScheme::Aes256Cbc { iv },
    }) = &info.encryption_algorithm
    {
        let bounded = kdf.cost_parameter.is_power_of_two()
            && kdf.cost_parameter.trailing_zeros() <= u32::from(MAX_LOG_N)
            && kdf.block_size <= 16
            && kdf.parallelization <= 4;
        let params = bounded.then(|| Params::try_from(kdf).ok()).flatten()?;
        let key = secret.derived(kdf.salt.as_ref(), &params)?;
        let mut buffer = Zeroizing::new(info.encrypted_data.as_ref().to_vec());
        let plain = cbc::Decryptor::<Aes256>::new((&*key).into(), iv.into())
            .decrypt_padded::<Pkcs7>(&mut buffer)
            .ok()?;
        return SecretDocument::try_from(plain).ok();
    }
    // Written by another tool, such as OpenSSL with PBKDF2.
    info.decrypt(secret.bytes()).ok()
}

/// How hard the file `der` makes it to guess; `None` when it is not one of ours.
pub(super) fn cost_of(der: &[u8]) -> Option<Cost> {
    let info = EncryptedPrivateKeyInfoRef::try_from(der).ok()?;
    match &info.encryption_algorithm {
        EncryptionScheme::Pbes2(pbes2::Parameters {
            kdf: Kdf::Scrypt(kdf),
            ..
        }) => u8::try_from(kdf.cost_parameter.trailing_zeros())
            .ok()
            .map(Cost),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use ed25519_dalek::pkcs8::EncodePrivateKey as _;

    use super::*;
    use crate::key::SigningKey;

    fn der(pem: &str) -> SecretDocument {
        SecretDocument::from_pem(pem).unwrap().1
    }

    #[test]
    fn released_programs_use_what_guidance_asks_for_and_older_files_still_open() {
        assert_eq!((Cost::RELEASED, Cost::RELEASED_ROOT), (Cost(17), Cost(18)));
        assert!(Cost::root() >= Cost::daily());
        let key = SigningKey::generate().unwrap();
        let plain = key.keypair().to_pkcs8_der().unwrap();
        let secret = Secret::new("a passphrase for tests".to_owned());
        // As released programs write it; and as earlier ones did, with 2^14.
        let now = encrypt(plain.as_bytes(), &secret, Cost::RELEASED).unwrap();
        assert_eq!(cost_of(der(&now).as_bytes()), Some(Cost(17)));
        let before = key.keypair();
        let before = before
            .to_pkcs8_encrypted_pem(secret.bytes(), LineEnding::LF)
            .unwrap();
        assert_eq!(cost_of(der(&before).as_bytes()), Some(Cost(14)));
        for file in [now, before] {
            let file = der(&file);
            let opened = decrypt(file.as_bytes(), &secret).unwrap();
            assert_eq!(opened.as_bytes(), plain.as_bytes());
            let wrong = Secret::new("another passphrase".to_owned());
            assert!(decrypt(file.as_bytes(), &wrong).is_none());
        }
    }

    #[test]
    fn keys_of_one_passphrase_are_opened_by_one_derivation() {
        let secret = Secret::new("a passphrase for tests".to_owned());
        let key = |secret: &Secret| encrypt(b"0\x00", secret, Cost::TESTS).unwrap();
        let files: Vec<_> = (0..20).map(|_| key(&secret)).collect();
        assert_eq!(secret.derivations(), 1);
        // No two files are alike all the same.
        let different: std::collections::BTreeSet<_> =
            files.iter().map(|file| file.as_str()).collect();
        assert_eq!(different.len(), files.len());
        let again = Secret::new("a passphrase for tests".to_owned());
        for file in &files {
            assert!(decrypt(der(file).as_bytes(), &again).is_some());
        }
        assert_eq!(again.derivations(), 1);
    }
}
