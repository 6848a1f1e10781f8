//! A database that was removed and cannot be saved, or cannot be read: the service stays, because the file is gone with the last process that has it
//! open.
//!
//! What comes in: the error that ended a round. What goes out: the same error, once all that is in the database is saved or the service is asked to end;
//! nothing, where the database can be looked at again and is the same. Until then it tries again and again, and says so in the log, to systemd and in
//! the file `lock`, where `status` finds it. It does nothing else meanwhile.

use std::sync::mpsc;
use std::time::Duration;

use outhaul_kit::service::{NotifyState, notify};

use super::LOOK;
use crate::agent::Agent;
use crate::error::AgentError;
use crate::state::StateError;

/// How often the log has it again.
const SAID_AGAIN: u32 = 60;

/// Waits, where ending would lose what is in the database.
///
/// # Errors
/// `error`, where nothing is lost with this process, or it is asked to end; what came of saving, once it is saved.
pub(super) fn wait(
    agent: &Agent,
    woken: &mpsc::Receiver<()>,
    error: AgentError,
) -> Result<(), AgentError> {
    let AgentError::State(mut error) = error else {
        return Err(error);
    };
    // What else ended the round keeps nothing of the database from being saved.
    match agent.store.check_place() {
        Err(now) if problem(&now).is_some() => error = now,
        _ => return Err(error.into()),
    }
    let mut known = String::new();
    let mut times = 0;
    while !agent.heartbeat.is_cancelled() {
        let Some(problem) = problem(&error) else {
            break;
        };
        if problem != known || times % SAID_AGAIN == 0 {
            tracing::error!(
                "{problem}: the service stays, does nothing else, and tries it again every few seconds; {HELP}"
            );
            notify(NotifyState::Status(&problem));
            agent.note_unsaved(&problem);
            known = problem;
        }
        times += 1;
        agent.heartbeat.beat();
        let _ = woken.recv_timeout(pause(times));
        match agent.store.check_place() {
            Ok(()) => {
                tracing::info!("the database can be looked at again: the service goes on");
                agent.note_unsaved("");
                return Ok(());
            }
            Err(now) => error = now,
        }
    }
    Err(error.into())
}

/// What to do meanwhile.
const HELP: &str = "free some space on the file system of the state folder (`df -h` shows it), or let this service's user into the folder again, and leave the \
                    service running until `outhaul-agent status` names the saved database: what is in it is lost with this process";

/// Saving all of a database costs more than a look, and a full disk is rarely free again at once.
fn pause(times: u32) -> Duration {
    LOOK.saturating_mul(times.clamp(1, 5))
}

/// Why this process has to stay.
fn problem(error: &StateError) -> Option<String> {
    match error {
        StateError::File(file) if file.source.kind() == std::io::ErrorKind::PermissionDenied => {
            Some(format!("the database cannot be read ({file})"))
        }
        error => {
            let why = error.unsaved()?;
            Some(format!(
                "the database was removed and cannot be saved ({why})"
            ))
        }
    }
}
