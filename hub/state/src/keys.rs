//! Where the hub's key comes from: a systemd credential, or the state folder, encrypted or not.
//!
//! What comes in: paths, a passphrase file. What goes out: the key. A file that others can read is refused.
//! Neither the key nor a passphrase is ever printed.

use outhaul_signer::key::MAX_KEY_BYTES;
use std::env;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use outhaul_signer::durable;
use outhaul_signer::key::{KeyError, Secret, SigningKey};

/// The systemd credential that is the key itself.
pub const KEY_CREDENTIAL: &str = "outhaul-hub.key";
/// The systemd credential with the passphrase of the key in the state folder.
pub const PASSPHRASE_CREDENTIAL: &str = "outhaul-hub.passphrase";
/// The environment variable with that passphrase.
pub const PASSPHRASE_VARIABLE: &str = "OUTHAUL_HUB_PASSPHRASE";

/// Where the systemd credential that is the key lies; `None` without one.
pub fn credential() -> Option<PathBuf> {
    env::var_os("CREDENTIALS_DIRECTORY")
        .map(|folder| PathBuf::from(folder).join(KEY_CREDENTIAL))
        .filter(|path| path.is_file())
}

/// The key: from the credential when there is one, else from `path`.
pub(super) fn load(path: &Path, passphrase: Option<&Path>) -> Result<SigningKey, KeyError> {
    if let Some(credential) = credential() {
        return SigningKey::load_plain(&credential);
    }
    if !is_encrypted(path)? {
        return SigningKey::load_plain(path);
    }
    let secret = Secret::from_sources(passphrase, &[PASSPHRASE_VARIABLE], PASSPHRASE_CREDENTIAL)?;
    SigningKey::load(path, &secret)
}

/// The key in `path`, with this passphrase where it needs one.
pub(super) fn open(path: &Path, secret: Option<Secret>) -> Result<SigningKey, KeyError> {
    match secret {
        Some(secret) if is_encrypted(path)? => SigningKey::load(path, &secret),
        _ => SigningKey::load_plain(path),
    }
}

/// Writes the key, encrypted when there is a passphrase.
pub(super) fn save(key: &SigningKey, path: &Path, secret: Option<&Secret>) -> Result<(), KeyError> {
    match secret {
        Some(secret) => key.save(path, secret),
        None => key.save_plain(path),
    }
}

/// A key that others can read is not secret: nothing is done beside it, also where nothing is signed.
pub(super) fn refuse_open_to_others(path: &Path) -> Result<(), KeyError> {
    let open = path
        .metadata()
        .is_ok_and(|metadata| metadata.permissions().mode() & 0o077 != 0);
    if open {
        // Says so, with the way out.
        load(path, None)?;
    }
    Ok(())
}

fn is_encrypted(path: &Path) -> Result<bool, KeyError> {
    let bytes = durable::read(path, MAX_KEY_BYTES)?;
    Ok(bytes.starts_with(b"-----BEGIN ENCRYPTED PRIVATE KEY-----"))
}
