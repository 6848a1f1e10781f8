//! Keys: made, kept and used, and the passphrase that guards them at rest.
//!
//! What comes in: random bytes of the system, or a PEM file. What goes out: signatures and public keys.
//! A private key rests as PKCS#8 PEM encrypted with scrypt and AES-256, readable by its owner only; a file
//! that others may read is refused, not repaired. Secrets are wiped from memory when they are dropped,
//! never printed, and a key that is made is made from the system's randomness alone.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use ed25519_dalek::pkcs8::{KeypairBytes, spki};
use ed25519_dalek::{Signature, Signer as _, VerifyingKey};
use outhaul_kit::failure::{Classified, FailureClass};
use pkcs8::{DecodePrivateKey as _, EncodePrivateKey as _, LineEnding};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use spki::{DecodePublicKey as _, EncodePublicKey as _};
use zeroize::Zeroizing;

use crate::durable::{self, FileError, SECRET_MODE};

mod encrypted;
mod prompt;
mod secret;

pub use encrypted::Cost;
pub use outhaul_kit::bounds::MAX_KEY_BYTES;
pub use secret::Secret;

/// Why a key or a passphrase cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The system has no randomness to give.
    #[error("the system gives no random bytes: {reason}")]
    NoRandomness {
        /// The error of the system.
        reason: String,
    },
    /// Not a key of the expected form.
    #[error("{what} is not {expected}")]
    NotAKey {
        /// The file, or what was read.
        what: String,
        /// For example `an Ed25519 key as encrypted PKCS#8 PEM`.
        expected: &'static str,
    },
    /// A passphrase that is too easy to guess to guard a new key.
    #[error(
        "the passphrase {problem}\nhelp: use four or more random words, or 15 random characters or more"
    )]
    WeakPassphrase {
        /// What is wrong with it; nothing of the passphrase itself.
        problem: &'static str,
    },
    /// No passphrase was found.
    #[error("no passphrase: {tried}")]
    NoPassphrase {
        /// Where it was looked for.
        tried: String,
    },
    /// Others may read a file that holds a secret.
    #[error(
        "`{}` can be read by others (mode {mode:04o})\nhelp: `chmod 600 {}`; if others had access, \
         rotate the key", path.display(), path.display()
    )]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// Someone else owns the file, and can put another passphrase into it.
    #[error(
        "`{}` belongs to another user (number {owner}): whoever that is can read and change it\nhelp: make one that belongs \
         to the user that runs this command, or to root, with mode 0600", path.display()
    )]
    OfAnother {
        /// The file.
        path: PathBuf,
        /// The number of its owner.
        owner: u32,
    },
    /// The passphrase does not open the key, or the file is damaged.
    #[error(
        "the passphrase does not open `{}` (or the file is damaged)\nhelp: give the passphrase that this key was \
         made with: `--passphrase-file FILE`, or type it again; a key that no passphrase opens comes back from its \
         backup, or is replaced", path.display()
    )]
    WrongPassphrase {
        /// The file.
        path: PathBuf,
    },
    /// The program that holds a key does not sign.
    #[error("`{}` does not sign: {reason}", program.display())]
    Program {
        /// The program.
        program: PathBuf,
        /// What went wrong.
        reason: String,
    },
    /// A signature that does not hold.
    #[error("the signature is not of key {key}")]
    BadSignature {
        /// The key's id, shortened.
        key: String,
    },
}

impl Classified for KeyError {
    fn class(&self) -> FailureClass {
        match self {
            Self::File(_) | Self::NoRandomness { .. } | Self::Program { .. } => {
                FailureClass::Environment
            }
            Self::NoPassphrase { .. } | Self::WeakPassphrase { .. } => FailureClass::Usage,
            Self::NotAKey { .. }
            | Self::Exposed { .. }
            | Self::OfAnother { .. }
            | Self::WrongPassphrase { .. }
            | Self::BadSignature { .. } => FailureClass::Trust,
        }
    }
}

/// A private Ed25519 key. Wiped when dropped.
pub struct SigningKey(ed25519_dalek::SigningKey);

impl SigningKey {
    /// A new key from the system's randomness.
    ///
    /// # Errors
    /// [`KeyError::NoRandomness`].
    pub fn generate() -> Result<Self, KeyError> {
        let mut seed = Zeroizing::new([0u8; 32]);
        random(&mut *seed)?;
        Ok(Self(ed25519_dalek::SigningKey::from_bytes(&seed)))
    }

    /// The key of a seed that the caller derived from a secret.
    pub(crate) fn from_seed(seed: &[u8; 32]) -> Self {
        Self(ed25519_dalek::SigningKey::from_bytes(seed))
    }

    /// A key from `path`: PKCS#8 PEM, encrypted with `secret`.
    ///
    /// # Errors
    /// [`KeyError`] when the file is missing, can be read by others, is not a key, or `secret` is wrong.
    pub fn load(path: &Path, secret: &Secret) -> Result<Self, KeyError> {
        let pem = read_secret_file(path)?;
        let (label, der) = pkcs8::SecretDocument::from_pem(&pem)
            .map_err(|_| not_a_key(path, "an Ed25519 key as encrypted PKCS#8 PEM"))?;
        if label != "ENCRYPTED PRIVATE KEY" {
            return Err(not_a_key(
                path,
                "an encrypted key (`BEGIN ENCRYPTED PRIVATE KEY`)",
            ));
        }
        let opened = encrypted::decrypt(der.as_bytes(), secret);
        let key = opened.and_then(|opened| KeypairBytes::from_pkcs8_der(opened.as_bytes()).ok());
        let key = key.ok_or_else(|| KeyError::WrongPassphrase {
            path: path.to_owned(),
        })?;
        Ok(Self(ed25519_dalek::SigningKey::from_bytes(&key.secret_key)))
    }

    /// Writes the key to `path`, encrypted with `secret` as strongly as a root key, for its owner only, durably.
    ///
    /// # Errors
    /// [`KeyError`] when it cannot be encrypted or written.
    pub fn save(&self, path: &Path, secret: &Secret) -> Result<(), KeyError> {
        self.save_at(path, secret, Cost::root())
    }

    /// As [`SigningKey::save`], as strongly as `cost` sets.
    ///
    /// # Errors
    /// [`KeyError`] when it cannot be encrypted or written.
    pub fn save_at(&self, path: &Path, secret: &Secret, cost: Cost) -> Result<(), KeyError> {
        let plain = self
            .keypair()
            .to_pkcs8_der()
            .map_err(|_| not_a_key(path, "a key that can be written"))?;
        let pem = encrypted::encrypt(plain.as_bytes(), secret, cost)?;
        Ok(durable::write(path, pem.as_bytes(), SECRET_MODE)?)
    }

    /// Whether the encrypted key in `path` rests weaker than a new one of `cost` would.
    ///
    /// # Errors
    /// [`KeyError`] when it cannot be read or is not an encrypted key.
    pub fn is_weaker(path: &Path, cost: Cost) -> Result<bool, KeyError> {
        let pem = read_secret_file(path)?;
        let (_, der) = pkcs8::SecretDocument::from_pem(&pem)
            .map_err(|_| not_a_key(path, "an Ed25519 key as encrypted PKCS#8 PEM"))?;
        Ok(encrypted::cost_of(der.as_bytes()).is_none_or(|found| found < cost))
    }

    /// A key from `path` that is not encrypted: a site's own, in the folder that only its agent reads.
    ///
    /// # Errors
    /// [`KeyError`] when the file is missing, can be read by others, or is not a key.
    pub fn load_plain(path: &Path) -> Result<Self, KeyError> {
        let pem = read_secret_file(path)?;
        let key = KeypairBytes::from_pkcs8_pem(&pem)
            .map_err(|_| not_a_key(path, "an Ed25519 key as PKCS#8 PEM"))?;
        Ok(Self(ed25519_dalek::SigningKey::from_bytes(&key.secret_key)))
    }

    /// Writes the key to `path`, not encrypted, for its owner only, durably.
    ///
    /// # Errors
    /// [`KeyError`] when it cannot be written.
    pub fn save_plain(&self, path: &Path) -> Result<(), KeyError> {
        let pem = self
            .keypair()
            .to_pkcs8_pem(LineEnding::LF)
            .map_err(|_| not_a_key(path, "a key that can be written"))?;
        Ok(durable::write(path, pem.as_bytes(), SECRET_MODE)?)
    }

    /// The public half.
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key())
    }

    /// The signature over `bytes`.
    pub fn sign(&self, bytes: &[u8]) -> [u8; 64] {
        self.0.sign(bytes).to_bytes()
    }

    /// The seed alone: the older form of PKCS#8 that every tool reads.
    fn keypair(&self) -> KeypairBytes {
        KeypairBytes {
            secret_key: self.0.to_bytes(),
            public_key: None,
        }
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.public().short_id())
    }
}

/// A public Ed25519 key.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey(VerifyingKey);

impl PublicKey {
    /// A key from SPKI PEM text.
    ///
    /// # Errors
    /// [`KeyError::NotAKey`].
    pub fn from_pem(pem: &str) -> Result<Self, KeyError> {
        let no_key = || KeyError::NotAKey {
            what: "the text".to_owned(),
            expected: "an Ed25519 public key in PEM (`BEGIN PUBLIC KEY`)",
        };
        if pem.len() as u64 > MAX_KEY_BYTES {
            return Err(no_key());
        }
        let key = VerifyingKey::from_public_key_pem(pem.trim()).map_err(|_| no_key())?;
        // A key of small order would accept signatures that nobody made.
        if key.is_weak() {
            Err(no_key())
        } else {
            Ok(Self(key))
        }
    }

    /// A key from 64 hexadecimal digits, as TUF metadata has it.
    ///
    /// # Errors
    /// [`KeyError::NotAKey`].
    pub fn from_hex(text: &str) -> Result<Self, KeyError> {
        let no_key = || KeyError::NotAKey {
            what: format!("`{}`", text.chars().take(80).collect::<String>()),
            expected: "an Ed25519 public key in hexadecimal",
        };
        let mut bytes = [0u8; 32];
        hex::decode_to_slice(text, &mut bytes).map_err(|_| no_key())?;
        let key = VerifyingKey::from_bytes(&bytes).map_err(|_| no_key())?;
        if key.is_weak() {
            Err(no_key())
        } else {
            Ok(Self(key))
        }
    }

    /// SPKI PEM text.
    pub fn to_pem(&self) -> String {
        // 32 fixed bytes in a fixed frame: the encoder has nothing to refuse.
        self.0.to_public_key_pem(LineEnding::LF).unwrap_or_default()
    }

    /// Its 32 bytes.
    pub fn to_bytes(&self) -> [u8; 32] {
        self.0.to_bytes()
    }

    /// 64 hexadecimal digits.
    pub fn to_hex(&self) -> String {
        hex::encode(self.0.as_bytes())
    }

    /// The key's id: SHA-256 of its canonical TUF key object, 64 hexadecimal digits.
    pub fn id(&self) -> String {
        let object = json!({
            "keytype": "ed25519",
            "keyval": {"public": self.to_hex()},
            "scheme": "ed25519",
        });
        // Hexadecimal texts only: there is nothing that the canonical form refuses.
        hex::encode(Sha256::digest(
            crate::canonical::to_bytes(&object).unwrap_or_default(),
        ))
    }

    /// The first 12 digits of the id, for people.
    pub fn short_id(&self) -> String {
        self.id().chars().take(12).collect()
    }

    /// Whether `signature` over `bytes` is this key's, by the strict rule (one signature per key and
    /// message, no keys of small order).
    ///
    /// # Errors
    /// [`KeyError::BadSignature`].
    pub fn verify(&self, bytes: &[u8], signature: &[u8]) -> Result<(), KeyError> {
        let bad = || KeyError::BadSignature {
            key: self.short_id(),
        };
        let signature = Signature::from_slice(signature).map_err(|_| bad())?;
        self.0.verify_strict(bytes, &signature).map_err(|_| bad())
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({})", self.short_id())
    }
}

/// Fills `bytes` from the system's randomness.
///
/// # Errors
/// [`KeyError::NoRandomness`].
pub fn random(bytes: &mut [u8]) -> Result<(), KeyError> {
    getrandom::fill(bytes).map_err(|error| KeyError::NoRandomness {
        reason: error.to_string(),
    })
}

fn not_a_key(path: &Path, expected: &'static str) -> KeyError {
    KeyError::NotAKey {
        what: format!("`{}`", path.display()),
        expected,
    }
}

/// The text of a file that only its owner can read. The check is on the file that is then read.
pub(crate) fn read_secret_file(path: &Path) -> Result<Zeroizing<String>, KeyError> {
    refuse_exposed(path)?;
    let bytes = Zeroizing::new(durable::read(path, MAX_KEY_BYTES)?);
    let text = str::from_utf8(&bytes).map_err(|_| not_a_key(path, "text"))?;
    Ok(Zeroizing::new(text.to_owned()))
}

/// Refuses a regular file that group or others can read.
fn refuse_exposed(path: &Path) -> Result<(), KeyError> {
    let metadata = fs::metadata(path).map_err(|source: io::Error| FileError {
        doing: "look at",
        path: path.to_owned(),
        source,
    })?;
    let mode = metadata.permissions().mode() & 0o777;
    if metadata.is_file() && mode & 0o077 != 0 {
        return Err(KeyError::Exposed {
            path: path.to_owned(),
            mode,
        });
    }
    Ok(())
}

/// Refuses a regular file that belongs neither to who runs this program nor to root.
fn refuse_of_another(path: &Path, runs: u32) -> Result<(), KeyError> {
    let metadata = fs::metadata(path).map_err(|source: io::Error| FileError {
        doing: "look at",
        path: path.to_owned(),
        source,
    })?;
    let owner = metadata.uid();
    if metadata.is_file() && owner != runs && owner != 0 {
        return Err(KeyError::OfAnother {
            path: path.to_owned(),
            owner,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
