//! Keys that were replaced go, once nothing here is sealed for them any more.
//!
//! What comes in: the folder of keys, and what the kept generations have sealed. What goes out: only the keys that are
//! needed. A key stays until a bundle sealed for the new one is active and nothing kept needs the old one.

use std::path::{Path, PathBuf};

use outhaul_bundle::Index;
use outhaul_bundle::name::Name;
use outhaul_seal::marker::{self, Syntax};
use outhaul_seal::{Identities, Identity};

use crate::agent::Agent;
use crate::durable;
use crate::error::AgentError;
use crate::generation;
use crate::secrets::own::{FORMER, OWN_KEY};
use crate::secrets::{SecretError, place, text_with_markers};
use crate::state::{self, StateError, generations, key};
use crate::state_folder::StateFolder;

/// Files of the keys that were replaced.
fn former(folder: &Path) -> Vec<PathBuf> {
    let mut files = durable::list(folder).unwrap_or_default();
    files.retain(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(FORMER) && name.ends_with(".age")
    });
    files
}

/// The keys in `folder` without the former ones.
fn present(folder: &Path) -> Result<Identities, SecretError> {
    let mut keys = Vec::new();
    for path in durable::list(folder).unwrap_or_default() {
        if path.extension().is_some_and(|end| end == "age") && !former(folder).contains(&path) {
            keys.push(Identity::load(&path)?);
        }
    }
    Ok(Identities::new(keys))
}

/// Each sealed thing of a generation: whether some keys open it.
fn opened(
    state_folder: &StateFolder,
    index: &Index,
    site: &Name,
    keys: &Identities,
) -> Result<Vec<bool>, SecretError> {
    let mut found = Vec::new();
    for blob in index.blobs.iter().filter(|blob| blob.sealed.is_some()) {
        let path = state_folder.blobs().join(blob.digest.hex());
        // A head is enough to know for whom it is.
        let file = durable::open(&path)?;
        found.push(outhaul_seal::reader(file, keys).is_ok());
    }
    for desired in generation::desired(state_folder, index, site) {
        for (_, path, shown) in desired.files() {
            if let Some(text) = text_with_markers(&path)? {
                let here = place(&desired.binding());
                let opened = marker::unseal_values(&text, keys, Syntax::of_file(&shown), &here);
                found.push(opened.is_ok_and(|opened| !opened.values.is_empty()));
            }
        }
    }
    Ok(found)
}

/// Forgets keys that were replaced, once a bundle sealed for the new one is active and nothing that is
/// kept on disk needs them.
///
/// # Errors
/// [`AgentError`] of the store or the disk.
pub(super) fn forget(agent: &Agent) -> Result<(), AgentError> {
    let folder = agent.state_folder.identities();
    let former = former(&folder);
    if former.is_empty() {
        return Ok(());
    }
    let keys = |result: Result<Identities, SecretError>| result.map_err(StateError::from);
    let own = Identity::load(&folder.join(OWN_KEY)).map_err(SecretError::from);
    let own = keys(own.map(|own| Identities::new(vec![own])))?;
    let present = keys(present(&folder))?;
    let all = keys(Identities::load_folder(&folder).map_err(SecretError::from))?;
    let db = agent.store.read();
    let active: Option<u64> = state::meta(db, key::ACTIVE)?;
    let mut active_is_sealed_for_own = false;
    for row in generations::all(db)?.into_iter().filter(|row| row.whole) {
        let index =
            generation::read_index(&agent.state_folder, row.number, &row.index, &agent.limits)?
                .for_site(&agent.site.name);
        let by = |keys: &Identities| {
            opened(&agent.state_folder, &index, &agent.site.name, keys).map_err(StateError::from)
        };
        if by(&present)? != by(&all)? {
            return Ok(());
        }
        if Some(row.number) == active {
            active_is_sealed_for_own = by(&own)?.contains(&true);
        }
    }
    if active_is_sealed_for_own {
        for path in former {
            durable::remove_file(&path)?;
            tracing::info!(
                "`{}` is forgotten: nothing here is sealed for it any more",
                path.file_name().unwrap_or_default().to_string_lossy()
            );
        }
    }
    Ok(())
}
