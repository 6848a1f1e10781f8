//! A hub comes back from a backup: all of it is checked, then it gets its names.
//!
//! What comes in: a backup, and a folder in which no hub's database is. What goes out: a hub in which gates start from nothing, or
//! the folder as it was. The database is checked under another name and renamed last: what is interrupted is not a hub yet,
//! and the same command again makes it one.

use outhaul_signer::key::MAX_KEY_BYTES;
use std::fs;
use std::path::{Path, PathBuf};

use outhaul_gate::facts::Restored;
use outhaul_kit::belongs::Owner;
use outhaul_kit::durable::{self, FileError};
use outhaul_place::refuse_own_folder;
use outhaul_signer::key::{Secret, SigningKey};
use serde::Serialize;

use super::{OpenedBackup, is_encrypted};
use crate::error::HubError;
use crate::state::{KEY_FILE, PASSPHRASE_CREDENTIAL, PASSPHRASE_VARIABLE, StateError, lost};
use crate::store::BackupError;
use crate::store::{self, Address, Expected, Store, StoreError};
use crate::time;

/// The key until it was checked.
const KEY_RESTORING: &str = ".hub.key.restoring.tmp";
const SECRET_MODE: u32 = 0o600;

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Back {
    /// The fleet.
    pub fleet: String,
    /// When the backup was made, RFC 3339.
    pub made_at: String,
    /// When it was restored.
    pub restored_at: String,
    /// The digest of the backup's file.
    pub digest: String,
    /// Whether the key was in it.
    pub has_key: bool,
}

/// Restores the backup `from` into `state`. `expected` is the digest that was printed when it was made.
///
/// # Errors
/// [`HubError`] when anything does not hold, or a hub is there.
pub fn restore(
    from: &Path,
    state: &Path,
    expected: Option<&str>,
    passphrase: Option<&Path>,
    server: Option<&Address>,
    now_ms: i64,
) -> Result<Back, HubError> {
    refuse_own_folder(state, Owner::Hub)?;
    let mut backup = OpenedBackup::open(from)?;
    if let Some(expected) = expected.filter(|expected| *expected != backup.digest) {
        return Err(BackupError::OtherDigest {
            file: from.to_owned(),
            expected: expected.to_owned(),
            found: backup.digest.clone(),
        }
        .into());
    }
    if now_ms < backup.header.made_ms {
        return Err(BackupError::Clock {
            now: time::rfc3339(now_ms),
            made_at: backup.header.made_at.clone(),
        }
        .into());
    }
    // With a server named, the one that the folder named before is given up.
    let is_there = match server {
        Some(_) => lost::has_file(state),
        None => lost::has_database(state),
    };
    if is_there {
        let path = state.join(store::FILE_NAME);
        return Err(StoreError::Exists { path }.into());
    }
    let key_path = state.join(KEY_FILE);
    let key_there = durable::read_if_present(&key_path, MAX_KEY_BYTES)?;
    if key_there.is_some() && key_there != backup.key {
        return Err(BackupError::KeyThere { path: key_path }.into());
    }
    let secret = secret_for(backup.key.as_deref(), passphrase)?;
    let made = missing_folders(state);
    let done = put(&mut backup, state, secret.as_ref(), server, now_ms);
    if done.is_err() {
        // The error that counts is the one that is returned.
        let _ = clean_up(state, key_there.is_none(), &made);
    }
    done?;
    Ok(Back {
        fleet: backup.header.fleet,
        made_at: backup.header.made_at,
        restored_at: time::rfc3339(now_ms),
        digest: backup.digest,
        has_key: backup.key.is_some(),
    })
}

/// The passphrase of a key that needs one: the key is opened, so that nobody finds out later that it cannot be.
fn secret_for(key: Option<&[u8]>, passphrase: Option<&Path>) -> Result<Option<Secret>, HubError> {
    if !key.is_some_and(is_encrypted) {
        return Ok(None);
    }
    let secret = Secret::from_sources(passphrase, &[PASSPHRASE_VARIABLE], PASSPHRASE_CREDENTIAL);
    Ok(Some(secret.map_err(StateError::from)?))
}

fn put(
    backup: &mut OpenedBackup,
    state: &Path,
    secret: Option<&Secret>,
    server: Option<&Address>,
    now_ms: i64,
) -> Result<(), HubError> {
    durable::create_private_folder(state)?;
    // What an interrupted restore left, and the journal of a database that is gone, which must not be played into this one.
    lost::put_aside(state, now_ms)?;
    let restoring = state.join(lost::RESTORING);
    backup.copy_database(&restoring)?;
    let header = &backup.header;
    let expected = Expected {
        fleet: &header.fleet,
        hub_key: &header.hub_key,
        version: header.version,
    };
    Store::check_copy(&restoring, expected)?;
    if let Some(bytes) = &backup.key {
        check_key(bytes, state, secret, &header.hub_key)?;
    }
    let restored = Restored {
        at_ms: now_ms,
        backup_ms: header.made_ms,
    };
    Store::finish_restore(&restoring, restored, &backup.digest)?;
    if let Some(bytes) = &backup.key {
        durable::write(&state.join(KEY_FILE), bytes, SECRET_MODE)?;
    }
    match server {
        Some(address) => Store::finish_on_server(&restoring, state, address)?,
        None => durable::rename(&restoring, &state.join(store::FILE_NAME))?,
    }
    Ok(())
}

/// The key is one, opens, and is the hub's.
fn check_key(
    bytes: &[u8],
    state: &Path,
    secret: Option<&Secret>,
    hub_key: &str,
) -> Result<(), HubError> {
    let path = state.join(KEY_RESTORING);
    durable::write(&path, bytes, SECRET_MODE)?;
    let opened = match secret {
        Some(secret) => SigningKey::load(&path, secret),
        None => SigningKey::load_plain(&path),
    };
    durable::remove_file(&path)?;
    let key = opened.map_err(StateError::from)?;
    if key.public().to_pem() == hub_key {
        return Ok(());
    }
    Err(BackupError::Damaged {
        file: PathBuf::from(KEY_FILE),
        problem: "the key in it is not the one that it states".to_owned(),
    }
    .into())
}

/// The folders that would have to be made, the innermost first.
fn missing_folders(state: &Path) -> Vec<PathBuf> {
    let is_missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
    let missing = state.ancestors().take_while(is_missing);
    missing.map(Path::to_owned).collect()
}

/// Leaves nothing of what was tried.
fn clean_up(state: &Path, key_is_ours: bool, made: &[PathBuf]) -> Result<(), FileError> {
    lost::remove_restoring(state)?;
    durable::remove_file(&state.join(KEY_RESTORING))?;
    if key_is_ours {
        durable::remove_file(&state.join(KEY_FILE))?;
    }
    for folder in made {
        // One that is not empty is someone's.
        if fs::remove_dir(folder).is_err() {
            break;
        }
    }
    Ok(())
}
