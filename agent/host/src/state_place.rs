//! Where a site, or its apply helper, may begin: in no folder that is somebody else's.
//!
//! What comes in: the folder that a person named. What goes out: a refusal, or nothing. It reads names and the beginnings of small files,
//! writes nothing and changes no rights: closing the folder of somebody else to others would keep its owner out.

use std::path::Path;

use crate::error::AgentError;
use outhaul_kit::belongs::{Owner, owner_of};
use outhaul_place::refuse_own_folder;

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

/// Refuses `folder` for the apply helper of the agent in `agent`: as [`refuse`] does, and the agent's own.
///
/// # Errors
/// [`AgentError::Place`], and [`AgentError::Usage`] for the agent's folder.
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
    refuse(folder)
}
