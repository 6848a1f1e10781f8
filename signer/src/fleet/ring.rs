//! The keys in a fleet's folder: which are there, and which of them may sign a role.
//!
//! What comes in: `keys/<role>-<id>.pem` with its public half in `.pub`. What goes out: opened keys, by id.
//! The public half lies beside the private one, so that which key is where is known without a
//! passphrase. A private key is opened only to sign, and must be the one that its `.pub` names.

use std::fs;
use std::path::{Path, PathBuf};

use super::FleetError;
use crate::durable::{self, FileError, PUBLIC_MODE};
use crate::key::{Cost, KeyError, MAX_KEY_BYTES, PublicKey, Secret, SigningKey};
use crate::metadata::RoleKeys;

/// A fleet's key folder.
#[derive(Debug, Clone)]
pub struct Ring {
    folder: PathBuf,
}

/// One key of a fleet's folder.
#[derive(Debug, Clone)]
pub struct KeyEntry {
    /// The public half.
    pub public: PublicKey,
    /// The file of the private half.
    pub private: PathBuf,
    /// Whether the private half is here.
    pub present: bool,
}

impl Ring {
    pub(crate) fn of(fleet: &Path) -> Self {
        Self {
            folder: fleet.join("keys"),
        }
    }

    /// Where the keys are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Makes a key for `role`, encrypted with `secret`. The public half is written last: a key without
    /// it does not count.
    ///
    /// # Errors
    /// [`FleetError`] when it cannot be made or written.
    pub fn make(&self, role: &str, secret: &Secret) -> Result<SigningKey, FleetError> {
        let key = SigningKey::generate()?;
        let public = key.public();
        let name = format!("{role}-{}", public.short_id());
        let cost = if role == "root" {
            Cost::root()
        } else {
            Cost::daily()
        };
        key.save_at(&self.folder.join(format!("{name}.pem")), secret, cost)?;
        let path = self.folder.join(format!("{name}.pub"));
        durable::write(&path, public.to_pem().as_bytes(), PUBLIC_MODE)?;
        Ok(key)
    }

    /// Every key of which the public half is here, sorted by file name.
    ///
    /// # Errors
    /// [`FleetError`] when the folder cannot be read or a `.pub` is not a key.
    pub fn entries(&self) -> Result<Vec<KeyEntry>, FleetError> {
        let failed = |source| FileError {
            doing: "list",
            path: self.folder.clone(),
            source,
        };
        let mut paths = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.extension().is_some_and(|extension| extension == "pub") {
                paths.push(path);
            }
        }
        paths.sort_unstable();
        paths.into_iter().map(|path| entry_of(&path)).collect()
    }

    /// The keys made for `role`, by file name.
    pub(crate) fn made_for(&self, role: &str) -> Result<Vec<KeyEntry>, FleetError> {
        let prefix = format!("{role}-");
        let mut entries = self.entries()?;
        entries.retain(|entry| {
            let name = entry.private.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with(&prefix))
        });
        Ok(entries)
    }

    /// Opens those keys of `keys` that are here, at most as many as needed.
    pub(crate) fn available(
        &self,
        keys: &RoleKeys,
        secret: &Secret,
    ) -> Result<Vec<SigningKey>, FleetError> {
        let mut opened: Vec<SigningKey> = Vec::new();
        for entry in self.entries()? {
            let wanted = entry.present && keys.keyids.contains(&entry.public.id());
            // A key that lies here twice is one key.
            let again = opened.iter().any(|key| key.public() == entry.public);
            if wanted && !again && opened.len() < keys.threshold {
                opened.push(entry.open(secret)?);
            }
        }
        Ok(opened)
    }

    /// Opens enough keys to sign for `role`.
    pub(crate) fn signers(
        &self,
        role: &str,
        keys: &RoleKeys,
        secret: &Secret,
    ) -> Result<Vec<SigningKey>, FleetError> {
        let opened = self.available(keys, secret)?;
        if opened.len() >= keys.threshold.max(1) {
            return Ok(opened);
        }
        let short = |id: &String| id.chars().take(12).collect::<String>();
        Err(FleetError::MissingKeys {
            role: role.to_owned(),
            threshold: keys.threshold,
            found: opened.len(),
            keys: keys.keyids.iter().map(short).collect::<Vec<_>>().join(", "),
            folder: self.folder.clone(),
        })
    }
}

impl KeyEntry {
    /// Opens the private half.
    ///
    /// # Errors
    /// [`KeyError`] when it is not here, does not open, or is not the half that belongs to the public one.
    pub fn open(&self, secret: &Secret) -> Result<SigningKey, KeyError> {
        let key = SigningKey::load(&self.private, secret)?;
        if key.public() == self.public {
            return Ok(key);
        }
        Err(KeyError::NotAKey {
            what: format!("`{}`", self.private.display()),
            expected: "the private half of the `.pub` beside it",
        })
    }
}

fn entry_of(path: &Path) -> Result<KeyEntry, FleetError> {
    let bytes = durable::read(path, MAX_KEY_BYTES)?;
    let public =
        PublicKey::from_pem(&String::from_utf8_lossy(&bytes)).map_err(|_| KeyError::NotAKey {
            what: format!("`{}`", path.display()),
            expected: "a public key in PEM",
        })?;
    let private = path.with_extension("pem");
    let present = private.is_file();
    Ok(KeyEntry {
        public,
        private,
        present,
    })
}
