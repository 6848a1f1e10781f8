//! The last step of reading a medium: what is missing of a bundle is made again from parity, when there is enough.
//!
//! What comes in: what the medium was good for, after all its parts were taken. What goes out: the same, with what came of
//! the bundle that is whole now. It comes last, so that nothing is made again that the medium still has.

use outhaul_kit::media::Media;

use super::{Findings, open_bundle};
use crate::agent::Agent;
use crate::error::AgentError;
use crate::incomplete::incomplete;
use crate::intake::{self, ImportOutcome, parity, refusals};

/// Makes a bundle whole of which all that a medium has was taken, when its parity is enough. Returns what keeps everything else from
/// going on; a refusal is one of the findings.
pub(super) fn complete(
    agent: &mut Agent,
    media: &Media,
    findings: &mut Findings,
) -> Result<Option<AgentError>, AgentError> {
    let (Some(ImportOutcome::Incomplete { bundle, .. }), Some(taken)) =
        (&findings.outcome, &findings.taken)
    else {
        return Ok(None);
    };
    let path = taken.strip_prefix(media.path()).unwrap_or(taken);
    if agent.rehearsal.is_some() || !parity::is_enough(agent, bundle.number)? {
        return Ok(None);
    }
    let mut source = open_bundle(agent, media, path)?;
    match intake::try_accept(agent, &mut source) {
        Ok(outcome) => {
            findings.outcome = Some(outcome);
            findings.rebuilt = source.parts_rebuilt().to_vec();
        }
        Err(error @ AgentError::Refused { .. }) => {
            refusals::report_refusal(agent, &error)?;
            findings.refused.push(error);
            let left = incomplete(agent.store.read(), &agent.site)?;
            if let (Some(ImportOutcome::Incomplete { bundle, .. }), Some(left)) =
                (&mut findings.outcome, left)
            {
                *bundle = left;
            }
        }
        Err(other) => return Ok(Some(other)),
    }
    Ok(None)
}
