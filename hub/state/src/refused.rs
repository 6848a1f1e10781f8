//! What a state folder is refused for before anything is made in it.
//!
//! What comes in: a folder, the address that was asked for, and root metadata. What goes out: why they cannot be used, or the
//! fleet's id. It writes nothing.

use std::path::Path;

use outhaul_bundle::Digest;

use super::{StateError, lost};
use outhaul_store::{Address, Located};

/// A folder whose database is elsewhere keeps it: what is in there would be forgotten.
pub(super) fn refuse_other_database(
    folder: &Path,
    asked: &Address,
    was_begun: bool,
) -> Result<(), StateError> {
    let found = match Located::of(folder)? {
        Located::Server(found) if found == *asked || was_begun => return Ok(()),
        Located::Server(found) => format!("`{found}`"),
        Located::File(_) if was_begun || !lost::has_database(folder) => return Ok(()),
        Located::File(path) => format!("the file `{}`", path.display()),
    };
    Err(StateError::OtherDatabase {
        folder: folder.to_owned(),
        found,
        asked: asked.to_string(),
    })
}

/// A folder with a hub's files and no database is not an empty folder.
pub(super) fn refuse_lost(folder: &Path) -> Result<(), StateError> {
    let remains = lost::remains(folder)?;
    if remains.is_empty() {
        return Ok(());
    }
    Err(StateError::Lost {
        folder: folder.to_owned(),
        beside: lost::named(&remains),
    })
}

/// The first 16 hexadecimal digits of the digest of a fleet's first root metadata.
pub(super) fn fleet_id(root: &[u8]) -> Result<String, StateError> {
    let value: serde_json::Value = serde_json::from_slice(root).unwrap_or_default();
    let version = &value["signed"]["version"];
    if version.as_u64() != Some(1) {
        return Err(StateError::NotFirstRoot {
            found: version.to_string(),
        });
    }
    Ok(Digest::of(root).hex()[..16].to_owned())
}
