//! Parity that was kept before a medium is read, set aside for as long as that takes.
//!
//! What comes in: an import that begins, and its end. What goes out: where what the medium brought made nothing of what was signed, the
//! parity that was here before, as it was: a forged parity part does not make a site let go of right ones. It survives a power cut in
//! between, and reads no medium.

use crate::agent::Agent;
use crate::blobs::Blobs;
use crate::cut;
use crate::error::AgentError;
use crate::incomplete::{KeptParity, incomplete};

use super::parity::{remove_files, store};

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

/// Puts back what was set aside where the medium left no parity; the other parity that it left replaces it.
pub(super) fn end(agent: &mut Agent) -> Result<(), AgentError> {
    let Some(mut bundle) = changeable(agent)? else {
        return Ok(());
    };
    let Some(older) = bundle.set_aside.take() else {
        return Ok(());
    };
    let blobs = Blobs::new(&agent.state_folder);
    let replaced = match &bundle.parity {
        None => {
            bundle.parity = Some(KeptParity {
                is_doubted: true,
                ..older
            });
            None
        }
        Some(kept) => Some((older, kept.clone())),
    };
    store(agent, Some(&bundle))?;
    cut::here("parity-put-back");
    match replaced {
        Some((older, kept)) => remove_files(&blobs, &older, Some(&kept)),
        None => Ok(()),
    }
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

fn changeable(agent: &Agent) -> Result<Option<crate::incomplete::IncompleteBundle>, AgentError> {
    match agent.rehearsal {
        Some(_) => Ok(None),
        None => Ok(incomplete(agent.store.read(), &agent.site)?),
    }
}
