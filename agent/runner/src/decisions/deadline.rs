//! Holds that end at a deadline.
//!
//! What comes in: the hold, the clocks, and what `agent.toml` says happens at a deadline. What goes out: the hold is over,
//! reported as the agent's doing; or a person is asked, and the bundle that waits says so. A deadline ends early on
//! no clock: a machine without a source of time counts how long it has run.

use jiff::SignedDuration;

use super::{Decision, Transition, because, decision};
use crate::agent::Agent;
use crate::error::AgentError;
use crate::machine::Event;
use crate::state::{self, Hold, key, outbox};
use outhaul_asking::settings::AtDeadline;
use outhaul_site::stored;

/// How much of the time that the machine runs may be forgotten when the power goes.
const FORGOTTEN: SignedDuration = SignedDuration::from_secs(60);
/// Who ends a hold whose deadline passed, as it is reported.
const WHO: &str = "the agent: the deadline passed";

/// Counts the time, and ends a hold whose deadline has passed where that is set.
///
/// # Errors
/// [`AgentError`] of the store.
pub fn look(agent: &mut Agent) -> Result<(), AgentError> {
    let db = agent.store.read();
    let Some(mut hold) = state::meta::<Hold>(db, key::HOLD)? else {
        return Ok(());
    };
    let reading = agent.clock_reading()?;
    let Some(deadline) = &mut hold.until else {
        return Ok(());
    };
    let counted = deadline.ran();
    if !deadline.has_passed(&reading) {
        if deadline.ran() - counted >= FORGOTTEN {
            // It is the same hold, with the time that has passed.
            agent.commit(|db, _| stored::count_hold_on(db, &hold))?;
        }
        return Ok(());
    }
    if agent.config.at_deadline == AtDeadline::Ask {
        return Ok(());
    }
    let why = hold.sentence();
    let over = Transition::decided(Event::Released, "", Decision::Release);
    crate::transition_with(agent, &over, |db, author| {
        let event = because(decision("release", WHO, None), &why);
        outbox::queue(db, author, event).map(|_| ())
    })?;
    Ok(())
}
