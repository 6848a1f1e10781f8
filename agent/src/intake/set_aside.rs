//! Parity that was kept before a medium is read, set aside for as long as that takes.
//!
//! What comes in: an import that begins, and its end. What goes out: the parity that was here before, and beside it what the medium brought
//! of the same set: neither a forged part, nor a damaged one, nor an import that is stopped makes a site let go of what it kept. It
//! survives a power cut in between, and reads no medium.

use crate::agent::Agent;
use crate::blobs::Blobs;
use crate::cut;
use crate::error::AgentError;
use crate::incomplete::{IncompleteBundle, KeptParity, incomplete};

use super::parity::{cut_of, remove_files, store};

/// Sets aside what is kept, before a medium is read.
pub(super) fn begin(agent: &mut Agent) -> Result<(), AgentError> {
    end(agent)?;
    let Some(mut bundle) = changeable(agent)? else {
        return Ok(());
    };
    if bundle.parity.is_none() {
        return Ok(());
    }
    bundle.set_aside.clone_from(&bundle.parity);
    store(agent, Some(&bundle))?;
    cut::here("parity-set-aside");
    Ok(())
}

/// Puts back what is set aside, with what the medium left of the same set. Of another set nothing stays: where that was to replace it,
/// nothing is set aside any more.
pub(super) fn end(agent: &mut Agent) -> Result<(), AgentError> {
    let Some(mut bundle) = changeable(agent)? else {
        return Ok(());
    };
    let Some(older) = bundle.set_aside.take() else {
        return Ok(());
    };
    let blobs = Blobs::new(&agent.state_folder);
    let brought = bundle.parity.take();
    // Parity that came first says how a bundle is cut until a part does: by the set that stays.
    if bundle.cut_by_parity
        && let Some(cut) = cut_of(agent, &bundle, &older.set)?
    {
        (bundle.parts, bundle.missing) = cut;
    }
    // What gave way to a part is not there any more.
    let is_there = |digest: &_| blobs.path(digest).exists();
    let both = older.joined(brought.as_ref(), is_there, bundle.missing.len());
    bundle.parity = Some(both.clone());
    store(agent, Some(&bundle))?;
    cut::here("parity-put-back");
    let mut gone = brought.iter().chain([&older]);
    gone.try_for_each(|parity| remove_files(&blobs, parity, Some(&both)))
}

/// What is set aside, for a try with what a medium brought.
pub(super) fn older(agent: &Agent) -> Result<Option<KeptParity>, AgentError> {
    Ok(incomplete(agent.store.read(), &agent.site)?.and_then(|bundle| bundle.set_aside))
}

/// Takes what is set aside for what is kept, or nothing.
pub(super) fn begin_try(agent: &mut Agent, with_older: bool) -> Result<(), AgentError> {
    super::parity::drop_kept(agent)?;
    let Some(mut bundle) = changeable(agent)?.filter(|_| with_older) else {
        return Ok(());
    };
    bundle.parity.clone_from(&bundle.set_aside);
    store(agent, Some(&bundle))
}

fn changeable(agent: &Agent) -> Result<Option<IncompleteBundle>, AgentError> {
    match agent.rehearsal {
        Some(_) => Ok(None),
        None => Ok(incomplete(agent.store.read(), &agent.site)?),
    }
}
