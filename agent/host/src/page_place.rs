//! Where a page may be written that a person asked for: not over what is someone else's, and not into a site's own folder.
//!
//! What comes in: the place, the site's folder, and what an earlier page begins with. What goes out: a refusal, or nothing. It writes
//! nothing, and reads the beginning of a file.

use std::io::Read as _;
use std::path::Path;

use crate::error::AgentError;
use outhaul_kit::belongs::{Owner, owner_of};
use outhaul_kit::durable::{self, at};
use outhaul_kit::text;

/// Most bytes of a file that are looked at.
const PREFIX_BYTES: u64 = 16 << 10;

/// Refuses `path` in the folder `state`, and where something is that is no page, which `is_own` tells by its beginning.
///
/// # Errors
/// [`AgentError::Usage`], [`AgentError::Place`], and [`AgentError::File`] where what is there cannot be read.
pub fn refuse(path: &Path, state: &Path, is_own: impl Fn(&str) -> bool) -> Result<(), AgentError> {
    let refused = |what: &str| {
        Err(AgentError::Usage {
            message: format!(
                "no page is written to `{}`: {what}; nothing was changed",
                path.display()
            ),
            help: "name a file that is not there, or that an earlier `--page` wrote".into(),
        })
    };
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new(".")).canonicalize();
    if let (Ok(folder), Ok(state)) = (folder, state.canonicalize())
        && folder.starts_with(&state)
    {
        return refused("this is the site's own folder");
    }
    if let Some((owner, above)) = owner_of(path, &Owner::ALL) {
        let above = text::path(&above);
        return refused(&format!("it would lie in {}, `{above}`", owner.name()));
    }
    outhaul_place::refuse_folder_of(path)?;
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.is_file() => return refused("it is not a regular file"),
        Ok(_) => {}
        Err(_) => return Ok(()),
    }
    let mut start = Vec::new();
    let file = durable::open(path)?;
    file.take(PREFIX_BYTES)
        .read_to_end(&mut start)
        .map_err(at("read", path))?;
    match is_own(&String::from_utf8_lossy(&start)) {
        true => Ok(()),
        false => refused("it holds something else"),
    }
}
