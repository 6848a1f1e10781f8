//! The site's own key for what is sealed for it: made at enrolment, made again by order.
//!
//! What comes in: the state folder, and in the memory which key is in use. What goes out: its public
//! half. A key that was replaced stays beside the new one and opens what is on its way or on disk, until
//! a bundle sealed for the new one is active and nothing that is kept needs the old one any more. A
//! power cut between two renames is finished at the next start; no key is lost to one.

use std::path::Path;

use outhaul_seal::{Identity, SealError};
use rusqlite::Connection;

use super::{SecretError, Secrets};
use crate::cut;
use crate::durable;
use crate::state::{self, StateError, key};
use crate::state_folder::StateFolder;

/// The site's own key in its folder of keys; those of streams lie beside it.
pub const OWN_KEY: &str = "site.age";
/// How the names of its former keys begin.
pub const FORMER: &str = "before-";

impl Secrets {
    /// The text of the site's own public key (`age1…`), for whoever seals at the centre. Makes the key when
    /// there is none.
    ///
    /// # Errors
    /// [`SecretError`] when it cannot be read or written.
    pub fn own_public_key(folder: &Path) -> Result<String, SecretError> {
        let path = folder.join(OWN_KEY);
        if !path.exists() {
            std::fs::create_dir_all(folder).map_err(durable::at("create", folder))?;
            Identity::generate().save(&path)?;
        }
        public(&path)
    }

    /// Whether the site's own key is in its place.
    pub fn has_own_key(folder: &Path) -> bool {
        folder.join(OWN_KEY).exists()
    }

    /// The public half of the site's next key: made now, or by an attempt that was cut off.
    ///
    /// # Errors
    /// [`SecretError`] when it cannot be read or written.
    pub fn next_public_key(state_folder: &StateFolder) -> Result<String, SecretError> {
        let path = state_folder.next_seal_key();
        if !path.exists() {
            Identity::generate().save(&path)?;
        }
        public(&path)
    }
}

impl From<SecretError> for StateError {
    /// A key file that cannot be read or written is the disk's matter; one that is gone or damaged the
    /// key's.
    fn from(error: SecretError) -> Self {
        match error {
            SecretError::Keys(SealError::File(error)) if !error.is_missing() => Self::File(error),
            SecretError::File(error) => Self::File(error),
            other @ SecretError::Keys(_) => Self::Key {
                problem: other.to_string(),
            },
        }
    }
}

fn public(path: &Path) -> Result<String, SecretError> {
    Ok(Identity::load(path)?.recipient().to_string())
}

/// Gives the key that the memory names its place, if a power cut kept it from there. The one before
/// stays, under a separate name.
///
/// # Errors
/// [`StateError::Key`] when a key cannot be written. One that is lost is not an error: what is not sealed
/// goes on.
pub fn finish(state_folder: &StateFolder, db: &Connection) -> Result<(), StateError> {
    let Some(wanted) = state::meta::<String>(db, key::SEAL_KEY)? else {
        return Ok(());
    };
    let own = state_folder.identities().join(OWN_KEY);
    let next = state_folder.next_seal_key();
    let is_wanted = |path: &Path| public(path).is_ok_and(|found| found == wanted);
    if is_wanted(&own) {
        return Ok(());
    }
    if is_wanted(&next) {
        if let Ok(old) = Identity::load(&own) {
            let path = state_folder
                .identities()
                .join(format!("{FORMER}{}.age", old.recipient().id()));
            old.save(&path).map_err(SecretError::from)?;
            cut::here("old-seal-key-kept");
        }
        // Another process may have been faster: what counts is the key that is there now.
        let renamed = durable::rename(&next, &own);
        if !is_wanted(&own) {
            renamed?;
        }
    }
    if !is_wanted(&own) {
        tracing::warn!(
            "the key that opens what is sealed for this site ({wanted:.12}…) is not in `{}`; restore it \
             from a backup, or ask the centre for a `rekey`",
            state_folder.identities().display()
        );
    }
    Ok(())
}
