//! Where a site, or its apply helper, may begin: in no folder that is someone else's.
//!
//! What comes in: the folder that a person named. What goes out: a refusal, or nothing. It reads names and the beginnings of small files,
//! writes nothing and changes no rights: closing the folder of someone else to others would keep its owner out.

use std::path::Path;

use outhaul_kit::belongs::{Owner, owner_of};
use outhaul_kit::text;
use outhaul_place::refuse_own_folder;
use outhaul_site::state_folder::StateFolder;

use crate::error::AgentError;

/// How many of the names in a folder are shown.
const MAX_NAMED: usize = 5;

/// Refuses `state` as the folder of a new site, where it is, or lies in, what belongs to a fleet, a hub, another site, a control plane or a
/// repository. A folder in which a site is already is one, wherever it lies.
///
/// # Errors
/// [`AgentError::Place`]
pub fn refuse(state: &Path) -> Result<(), AgentError> {
    let state = outhaul_kit::belongs::resolved(state);
    match owner_of(&state, &[Owner::Site]) {
        Some((_, site)) if site == state => Ok(()),
        _ => Ok(refuse_own_folder(&state, Owner::Site)?),
    }
}

/// The same as [`refuse`], and a folder with something else in it than an agent's files and `kit`, which many copy there to enrol with it.
///
/// # Errors
/// [`AgentError::Place`]; [`AgentError::Usage`] for a folder with something else in it, [`AgentError::File`] for one that cannot be listed.
pub fn refuse_used(state: &Path, kit: Option<&Path>) -> Result<(), AgentError> {
    refuse(state)?;
    refuse_foreign(state, kit)
}

/// Refuses a folder that is someone's, though nothing in it tells whose: its rights would be changed, and the site's files mixed with theirs.
fn refuse_foreign(state: &Path, kit: Option<&Path>) -> Result<(), AgentError> {
    if !state.is_dir() {
        return Ok(());
    }
    let found = StateFolder::new(state).foreign(kit)?;
    if found.is_empty() {
        return Ok(());
    }
    let found: Vec<String> = found
        .iter()
        .map(|name| format!("`{}`", text::printable(name)))
        .collect();
    Err(AgentError::Usage {
        message: format!(
            "`{}` is not the folder of a site and is not empty: it has {}; nothing was changed",
            text::path(state),
            text::named(&found, MAX_NAMED)
        ),
        help: "name an empty folder, or one that is not there yet, such as `--state /var/lib/outhaul-agent`; where this one is to be the site's, \
               move what is named there elsewhere first"
            .into(),
    })
}

/// Refuses `folder` for the apply helper of the agent in `agent`: as [`refuse_used`] does, and the agent's own.
///
/// # Errors
/// As [`refuse_used`], and [`AgentError::Usage`] for the agent's folder.
pub fn refuse_helper(folder: &Path, agent: &Path) -> Result<(), AgentError> {
    let resolved = outhaul_kit::belongs::resolved;
    if resolved(folder) == resolved(agent) {
        return Err(AgentError::Usage {
            message: format!(
                "`{}` is the agent's own folder, and the apply helper needs another one",
                outhaul_kit::text::path(folder)
            ),
            help: "name one with `--folder`, such as `/var/lib/outhaul-apply`".into(),
        });
    }
    refuse_used(folder, None)
}
