//! When the site looks at what a generation keeps on disk, and has it put back.
//!
//! What comes in: the agent with its clock, and an index. What goes out: what was found and put back, in a sentence; what
//! is missing or damaged is known by [`outhaul_content::intact`]. It asks for nothing from outside: a content that is
//! damaged in both places is for an import of the same bundle.

use std::time::{Duration, SystemTime};

use outhaul_bundle::Index;
pub use outhaul_content::intact::*;

use crate::agent::Agent;
use crate::error::AgentError;
use crate::generation;

/// How closely a look on a schedule has to look, by the site's clock. A look at times and sizes is enough for as long as
/// the settings say (`drift_read_s`): a disk can lose bytes without a trace.
///
/// # Errors
/// [`AgentError`] of the clock.
pub fn due(agent: &Agent, number: u64) -> Result<Look, AgentError> {
    let now = agent.clock_reading()?.wall_ms();
    let now = SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(now).unwrap_or(0));
    let is_recent = checked(&agent.state_folder, number)
        // One from the future is of another clock.
        .and_then(|at| now.duration_since(at).ok())
        .is_some_and(|ago| ago < agent.config.drift_read());
    Ok(match is_recent {
        true => Look::Changed,
        false => Look::Every,
    })
}

/// Looks at a generation and puts back what is missing or damaged. Returns a sentence about it, or nothing.
///
/// # Errors
/// [`GenerationError::Lost`]; [`AgentError`] of the disk.
pub fn mend(agent: &Agent, index: &Index, look: Look) -> Result<String, AgentError> {
    let found = damages(&agent.state_folder, index, look);
    mend_found(agent, index, look, &found)
}

/// The same, when what is damaged is known.
///
/// # Errors
/// As [`mend`].
pub fn mend_found(
    agent: &Agent,
    index: &Index,
    look: Look,
    found: &[Damage],
) -> Result<String, AgentError> {
    if !found.is_empty() {
        put_back(&agent.state_folder, index, &agent.limits, found)?;
    }
    if look == Look::Every {
        generation::mark(&agent.state_folder.generation(index.number))?;
    }
    Ok(match found.is_empty() {
        true => String::new(),
        false => format!("put back: {}", sentence(index.number, found)),
    })
}
