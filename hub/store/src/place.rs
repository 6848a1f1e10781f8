//! Where a hub's database is: a file of its state folder, or a server that a file there names.
//!
//! What comes in: a state folder. What goes out: the file or the address. The address is kept in the folder, so that every command
//! finds the same database and none can get another one by mistake. It holds no password.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use outhaul_kit::durable;
use outhaul_kit::suggest::nearest;

use super::db::Address;
use super::{FILE_NAME, StoreError};

/// The file in the state folder that names a server.
pub const SERVER_FILE: &str = "hub.database";
/// Longest address, in bytes.
const MAX_BYTES: u64 = 4096;
/// Entries of a folder that are looked at for a hub, and folders that are named.
const MAX_LOOKED: usize = 1_000;
const MAX_NEAR: usize = 3;

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

/// Folders with a hub's database beside `folder` or in it, for whoever mistyped it: those whose names are near first.
pub(crate) fn near(folder: &Path) -> Vec<PathBuf> {
    let name = |path: &Path| {
        let name = path.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    };
    // Of `hub`, the folder that it is in is `.`.
    let beside = folder
        .parent()
        .map(|parent| match parent.as_os_str().is_empty() {
            true => Path::new("."),
            false => parent,
        });
    let inside = [Some(folder), beside].into_iter().flatten();
    let entries = inside.filter_map(|one| fs::read_dir(one).ok());
    let entries = entries.flat_map(|entries| entries.take(MAX_LOOKED).flatten());
    let is_hub =
        |path: &PathBuf| path.join(FILE_NAME).is_file() || path.join(SERVER_FILE).is_file();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_hub).collect();
    let wanted = name(folder);
    found.sort_by_key(|path| {
        let is_near = nearest(&wanted, &[name(path)]).is_some();
        (!is_near, !path.starts_with(folder), path.clone())
    });
    found.dedup();
    found.truncate(MAX_NEAR);
    let shown = |path: PathBuf| match path.strip_prefix("./") {
        Ok(short) => short.to_owned(),
        Err(_) => path,
    };
    found.into_iter().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_with_a_hub_near_one_without_are_found_the_one_with_the_nearest_name_first() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name);
        for name in ["a-hub", "hub", "empty", "in/hub-2"] {
            fs::create_dir_all(place(name)).unwrap();
        }
        for name in ["a-hub/hub.database", "hub/hub.db", "in/hub-2/hub.db"] {
            fs::write(place(name), "x").unwrap();
        }
        let of = |name: &str| near(&place(name));
        assert_eq!(of("hubb"), [place("hub"), place("a-hub")]);
        assert_eq!(of("in"), [place("in/hub-2"), place("a-hub"), place("hub")]);
        assert!(of("nowhere/hub").is_empty());
        assert!(near(Path::new("/")).len() <= MAX_NEAR);
    }
}
