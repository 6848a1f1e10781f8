//! Where a hub's database is: a file of its state folder, or a server that a file there names.
//!
//! What comes in: a state folder. What goes out: the file or the address. The address is kept in the folder, so that every command
//! finds the same database and none can get another one by mistake. It holds no password.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use outhaul_kit::durable;

use super::db::Address;
use super::{FILE_NAME, StoreError};

/// The file in the state folder that names a server.
pub const SERVER_FILE: &str = "hub.database";
/// Longest address, in bytes.
const MAX_BYTES: u64 = 4096;

/// Where a database is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "one for each open store")]
pub enum Located {
    /// A file.
    File(PathBuf),
    /// A server.
    Server(Address),
}

impl Located {
    /// Where the database of the hub in `folder` is, whether or not it is there.
    ///
    /// # Errors
    /// [`StoreError`] when the file that names a server cannot be read, or names none.
    pub fn of(folder: &Path) -> Result<Self, StoreError> {
        let file = folder.join(SERVER_FILE);
        let bytes = match durable::read_if_present(&file, MAX_BYTES) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Ok(Self::File(folder.join(FILE_NAME))),
            // A file where the folder should be: the database is not there, and its absence is reported.
            Err(error) if error.source.kind() == ErrorKind::NotADirectory => {
                return Ok(Self::File(folder.join(FILE_NAME)));
            }
            Err(error) => return Err(error.into()),
        };
        let text = String::from_utf8_lossy(&bytes);
        let address = text.trim().parse::<Address>().map_err(|source| {
            let source = source.into();
            StoreError::Server {
                address: file.display().to_string(),
                source,
            }
        })?;
        Ok(Self::Server(address))
    }

    /// From now on the database of the hub in `folder` is on this server.
    ///
    /// # Errors
    /// [`StoreError::File`]
    pub fn keep(folder: &Path, address: &Address) -> Result<(), StoreError> {
        let text = format!("{address}\n");
        Ok(durable::write(
            &folder.join(SERVER_FILE),
            text.as_bytes(),
            0o600,
        )?)
    }
}
