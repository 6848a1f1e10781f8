//! Bundles that wait: for what, and who goes on with them.
//!
//! What comes in: the memory, and whether the service runs. What goes out: one entry for each bundle that is here and not
//! applied. That the service applies something is said only while it runs. It changes nothing.

use crate::advice::NO_SERVICE;
use crate::agent::Agent;
use crate::attention::{Attention, AttentionKind};
use crate::error::AgentError;
use crate::machine::State;
use crate::machine::approval::Obstacle;
use crate::runner;
use crate::runner::held::{self, Lacking};
use crate::state::{self, Hold, generations, key};

/// What waits now.
///
/// # Errors
/// [`AgentError`] of the store.
pub(super) fn waiting(agent: &Agent) -> Result<Vec<Attention>, AgentError> {
    let db = agent.store.read();
    let is_held = state::meta::<Hold>(db, key::HOLD)?.is_some();
    let lacking = held::lacking(agent)?;
    let lacking = lacking.first().map_or_else(String::new, Lacking::help);
    let service = agent.state_folder.service_runs();
    let waiting = generations::all(db)?
        .into_iter()
        .filter(|generation| matches!(generation.state, State::Gated | State::Staged));
    Ok(waiting
        .map(|generation| {
            let number = generation.number;
            // What stands now, and not what stood at the last look; without the bundle's index that is not known.
            let standing = runner::index_of(agent, number)
                .and_then(|index| runner::approval::standing(agent, &index));
            let known = standing.is_ok();
            let standing = standing.unwrap_or_default();
            let notes: Vec<&str> = standing.iter().map(|(_, note)| note.as_str()).collect();
            let is_staged = generation.state == State::Staged;
            let message = match (known, notes.is_empty()) {
                (true, true) if is_staged => format!(
                    "bundle {number} is here whole, and is not applied yet: its import was interrupted"
                ),
                (true, false) => format!("bundle {number} waits: {}", notes.join("; ")),
                (true, true) => format!(
                    "bundle {number} may be applied now; at the last look it waited: {}",
                    generation.note
                ),
                (false, _) => format!("bundle {number} waits: {}", generation.note),
            };
            let now = format!("`outhaul-agent approve {number}` applies it now");
            let lacks = standing
                .iter()
                .any(|(obstacle, _)| *obstacle == Obstacle::HeldContent);
            // As after a saved database was put back into an empty folder.
            let is_gone = !agent.state_folder.generation(number).is_dir();
            let (what, help) = match standing.first().map(|(obstacle, _)| *obstacle) {
                _ if is_gone => (
                    AttentionKind::Approval,
                    format!(
                        "import bundle {number} again first (`outhaul-agent import FOLDER`), because its files are not on this machine any more, or a newer \
                         bundle; then, where it still waits, `outhaul-agent approve {number}` lets it through"
                    ),
                ),
                // How it ends is said for each assignment.
                _ if lacks => (
                    AttentionKind::HeldContent,
                    match standing.iter().any(|(obstacle, _)| obstacle.is_lifted_by_approval()) {
                        true => format!("{lacking}; then `outhaul-agent approve {number}` applies it"),
                        false => lacking.clone(),
                    },
                ),
                _ if is_held => (
                    AttentionKind::Hold,
                    format!(
                        "`outhaul-agent hold --release` ends the hold; then the service applies it where it runs, or `outhaul-agent apply`; where it \
                         waits for something else, `status` shows for what, and \
                         `outhaul-agent approve {number}` applies it"
                    ),
                ),
                Some(Obstacle::Delay) => (AttentionKind::Delay, later(number, service)),
                Some(Obstacle::Wave) => (AttentionKind::Wave, later(number, service)),
                Some(Obstacle::Values) => (
                    AttentionKind::Values,
                    format!("`outhaul-agent values` shows what may be set; {now}, with the centre's value"),
                ),
                Some(Obstacle::Window) => (AttentionKind::Window, later(number, service)),
                None if known => (AttentionKind::Due, due(service)),
                // A person lifts all others. Without its index what stands before it is not known, and it says what stood there.
                _ => (
                    AttentionKind::Approval,
                    format!(
                        "`outhaul-agent approve {number}` lets it through; the running bundle is not affected"
                    ),
                ),
            };
            Attention::of_site(what, message, help)
        })
        .collect())
}

/// What is to be done about a bundle whose time has not come.
fn later(number: u64, service: bool) -> String {
    let now = format!("`outhaul-agent approve {number}` applies it now");
    match service {
        true => format!("no action needed: the service applies it then; {now}"),
        false => {
            format!("`outhaul-agent apply` applies it when that is over; {now}; {NO_SERVICE}")
        }
    }
}

/// What is to be done about a bundle for which nothing is waited any more.
fn due(service: bool) -> String {
    match service {
        true => "no action needed: the service applies it within the minute, or `outhaul-agent apply` now".to_owned(),
        false => format!("`outhaul-agent apply` applies it; {NO_SERVICE}"),
    }
}
