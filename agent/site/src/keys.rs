//! The keys of this site: which one it signs with, and those that take its place.
//!
//! What comes in: the state folder, and in the memory which keys are in use. What goes out: the key to sign with; a
//! change that a power cut interrupted is finished. A new key is in use from the commit on that names it. No key
//! leaves the state folder.

use std::io;
use std::path::Path;

use outhaul_signer::SigningKey;
use rusqlite::Connection;

use crate::secrets::{Secrets, own};
use crate::state::{self, StateError, key};
use crate::state_folder::StateFolder;

/// Most ids of this site's own earlier keys that are remembered.
const MAX_FORMER_KEYS: usize = 16;

/// The keys that take the place of those in use: the one that signs, and the public half of the one that
/// opens what is sealed.
#[derive(Debug)]
pub struct NextKeys {
    /// The one that signs.
    pub signing: SigningKey,
    /// The public half of the one that opens what is sealed.
    pub seal: String,
}

impl NextKeys {
    /// Made now, or by an attempt that was cut off.
    ///
    /// # Errors
    /// [`StateError::Key`] when they cannot be read or written.
    pub fn make(state_folder: &StateFolder) -> Result<Self, StateError> {
        let seal = Secrets::next_public_key(state_folder)?;
        Ok(Self {
            signing: next_key(state_folder)?,
            seal,
        })
    }

    /// A new key that signs, where the one in use is lost; what opens what is sealed stays.
    ///
    /// # Errors
    /// As [`NextKeys::make`].
    pub fn for_lost(state_folder: &StateFolder) -> Result<Self, StateError> {
        let seal = Secrets::own_public_key(&state_folder.identities())?;
        Ok(Self {
            signing: next_key(state_folder)?,
            seal,
        })
    }

    /// From the commit of this on, they are the keys in use; `before` is the id of the key that signed until then, where it is known.
    ///
    /// # Errors
    /// [`StateError`] of the database.
    pub fn put_in_use(&self, db: &Connection, before: Option<String>) -> Result<(), StateError> {
        let mut former: Vec<String> = state::meta(db, key::FORMER_KEYS)?.unwrap_or_default();
        former.extend(before);
        // Long out of use: nobody asks for them any more.
        former.drain(..former.len().saturating_sub(MAX_FORMER_KEYS));
        state::set_meta(db, key::FORMER_KEYS, Some(&former))?;
        state::set_meta(db, key::KEY_ID, Some(&self.signing.public().id()))?;
        state::set_meta(db, key::SEAL_KEY, Some(&self.seal))
    }
}

/// Whether the key that this site signs with is lost: another one in its place is not, since someone may need it.
pub fn is_lost(state_folder: &StateFolder, db: &Connection) -> bool {
    let in_use = key_in_use(state_folder, db);
    matches!(in_use, Err(StateError::Key { .. })) && is_missing(&state_folder.key())
}

fn is_missing(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// The id of the key that lies in the folder, where it can be read.
pub fn id_in(state_folder: &StateFolder) -> Option<String> {
    let key = SigningKey::load_plain(&state_folder.key()).ok()?;
    Some(key.public().id())
}

fn unusable(problem: String) -> StateError {
    StateError::Key { problem }
}

/// The key that this site signs with; a change that a power cut interrupted is finished.
///
/// # Errors
/// [`StateError::Key`] when it is not there.
pub fn key_in_use(state_folder: &StateFolder, db: &Connection) -> Result<SigningKey, StateError> {
    own::finish(state_folder, db)?;
    let load = || SigningKey::load_plain(&state_folder.key());
    let wanted: Option<String> = state::meta(db, key::KEY_ID)?;
    let key = load();
    let Some(wanted) = wanted else {
        return key.map_err(StateError::from);
    };
    if let Ok(key) = key
        && key.public().id() == wanted
    {
        return Ok(key);
    }
    let next = SigningKey::load_plain(&state_folder.next_key());
    if next.is_ok_and(|next| next.public().id() == wanted) {
        crate::durable::rename(&state_folder.next_key(), &state_folder.key())?;
    }
    // Another process may have been faster: what counts is the key that is there now.
    let key = load()?;
    if key.public().id() == wanted {
        return Ok(key);
    }
    Err(unusable(format!(
        "`{}` is the key {:.12}, and the database of this site signs with {wanted:.12}: one of the two is another site's, or an older copy",
        state_folder.key().display(),
        key.public().id()
    )))
}

/// Notes which key the database signs with, where it does not say so: from now on no other one is taken for it.
///
/// # Errors
/// [`StateError`] of the database.
pub fn bind(db: &Connection, signing: &SigningKey) -> Result<(), StateError> {
    match state::meta::<String>(db, key::KEY_ID)? {
        Some(_) => Ok(()),
        None => state::set_meta(db, key::KEY_ID, Some(&signing.public().id())),
    }
}

fn next_key(state_folder: &StateFolder) -> Result<SigningKey, StateError> {
    let path = state_folder.next_key();
    if path.exists() {
        return Ok(SigningKey::load_plain(&path)?);
    }
    let key = SigningKey::generate()?;
    key.save_plain(&path)?;
    Ok(key)
}
