//! `run`: the agent as a service, or once for a timer.
//!
//! What comes in: an agent with the lock, and SIGTERM. What goes out: bundles taken from watched folders,
//! mounts and the repository, drift looked for, reports sent, and notifications to systemd that it is ready and
//! lives. One thread works ([`round`]); the other waits for signals and feeds the watchdog, but only
//! while the work moves. A stop ends the work between two actions, from where the next start goes on.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use outhaul_kit::service::{NotifyState, Watchdog, notify};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

use crate::agent::Agent;
use crate::calls::CommandResult;
use crate::error::AgentError;
use crate::update;
use outhaul_kit::heartbeat::Heartbeat;

mod exports;
mod outcome;
mod round;
mod unsaved;
mod watch;

use round::Round;

/// How often folders are looked at and decisions of people are picked up.
const LOOK: Duration = Duration::from_secs(2);

/// How long work that was asked to end may send no heartbeat.
const PATIENCE: Duration = Duration::from_secs(20);

/// Works until stopped.
///
/// # Errors
/// [`AgentError`] of the store.
pub fn run(agent: Agent) -> Result<u8, AgentError> {
    supervised(agent, work)
}

/// Works until everything that is due was done once, and says what came of it.
///
/// # Errors
/// [`AgentError`] of the store, before anything was done.
pub fn once(agent: Agent) -> Result<CommandResult, AgentError> {
    supervised(agent, |agent, _| {
        let begun = Instant::now();
        let mut round = Round::begin(agent)?;
        notify(NotifyState::Ready);
        let answer = round.answered(agent)?;
        if answer.exit == 0 {
            // It is tried when this is started the next time.
            update::look(agent, begun.elapsed())?;
        }
        Ok(answer)
    })
}

/// Has a thread work, while this one waits for signals and feeds the watchdog.
fn supervised<T: Send + 'static>(
    mut agent: Agent,
    work: fn(&mut Agent, &mpsc::Receiver<()>) -> Result<T, AgentError>,
) -> Result<T, AgentError> {
    let heartbeat = agent.heartbeat.clone();
    let (wake, woken) = mpsc::channel();
    let (finished, done) = oneshot::channel();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| system("start its event loop", &error))?;
    let worker = thread::Builder::new()
        .name("work".into())
        .spawn(move || {
            let result = work(&mut agent, &woken);
            let result = looked_at(&agent, result);
            // The shell may have ended first.
            let _ = finished.send(());
            result
        })
        .map_err(|error| system("start its working thread", &error))?;
    match runtime.block_on(shell(&heartbeat, &wake, done))? {
        Ended::Worked => worker.join().unwrap_or_else(|panic| Err(broken(&*panic))),
        // It waits for a device or a file system that does not answer, and cannot be asked. What it was
        // doing is resumed at the next start, as after a power cut.
        Ended::Hangs => Err(AgentError::Stopped),
    }
}

/// The result of the work, once the last look at the database is taken: one that was removed since the last round is saved now, or never.
fn looked_at<T>(agent: &Agent, result: Result<T, AgentError>) -> Result<T, AgentError> {
    match (result, agent.store.check_place()) {
        (result, Ok(())) => result,
        (Ok(_), Err(lost)) => Err(lost.into()),
        (Err(error), Err(lost)) => {
            let known = error.to_string();
            // A moved database explains whatever else failed.
            if known != lost.to_string() {
                tracing::warn!("{known}");
            }
            Err(lost.into())
        }
    }
}

/// The code of a service that is to be started again: another agent is in a slot.
pub const AGAIN: u8 = 86;

/// Feeds systemd's watchdog while something else than the service works.
pub fn alive(heartbeat: &Heartbeat) {
    // systemd waits no longer than its time to start; what is tried may take longer.
    notify(NotifyState::Ready);
    heartbeat.beat();
    Watchdog::of_service().feed(heartbeat);
}

/// How the work ended.
enum Ended {
    /// By itself, or because it was asked to.
    Worked,
    /// It was asked to end and sent no heartbeat any more.
    Hangs,
}

fn work(agent: &mut Agent, woken: &mpsc::Receiver<()>) -> Result<u8, AgentError> {
    let begun = Instant::now();
    let mut round = loop {
        match Round::begin(agent) {
            Err(error) => unsaved::wait(agent, woken, error)?,
            Ok(round) => break round,
        }
    };
    notify(NotifyState::Ready);
    while !agent.heartbeat.is_cancelled() {
        match round.go(agent) {
            // Asked to stop in the middle of work: the next start goes on with it.
            Err(AgentError::Stopped) => break,
            Err(error) => unsaved::wait(agent, woken, error)?,
            Ok(()) => {}
        }
        if update::look(agent, begun.elapsed()).unwrap_or_else(|error| {
            tracing::warn!("{error}");
            false
        }) {
            return Ok(AGAIN);
        }
        agent.heartbeat.beat();
        // A signal wakes it; otherwise it looks again after a while.
        let _ = woken.recv_timeout(LOOK);
    }
    Ok(0)
}

async fn shell(
    heartbeat: &Heartbeat,
    wake: &mpsc::Sender<()>,
    mut done: oneshot::Receiver<()>,
) -> Result<Ended, AgentError> {
    let mut terminate =
        signal(SignalKind::terminate()).map_err(|error| system("wait for signals", &error))?;
    let mut interrupt =
        signal(SignalKind::interrupt()).map_err(|error| system("wait for signals", &error))?;
    let mut watchdog = Watchdog::of_service();
    let mut tick = tokio::time::interval(watchdog.interval());
    let mut asked = None;
    loop {
        tokio::select! {
            _ = &mut done => return Ok(Ended::Worked),
            () = tokio::time::sleep(PATIENCE), if asked.is_some() => {
                let now = heartbeat.beats();
                if asked.replace(now) == Some(now) {
                    tracing::warn!(
                        "the action under way does not answer; the next start goes on with it"
                    );
                    return Ok(Ended::Hangs);
                }
                continue;
            }
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = tick.tick() => {
                watchdog.feed(heartbeat);
                continue;
            }
        }
        tracing::info!("stopping after the action that is under way");
        notify(NotifyState::Stopping);
        heartbeat.cancel();
        asked = Some(heartbeat.beats());
        // The worker may have ended already.
        let _ = wake.send(());
    }
}

/// The working thread ended in a panic: a defect, and nothing that anybody asked for.
fn broken(panic: &(dyn std::any::Any + Send)) -> AgentError {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    AgentError::Broken {
        problem: text.unwrap_or("no reason given").to_owned(),
    }
}

fn system(doing: &str, error: &std::io::Error) -> AgentError {
    AgentError::Unreadable {
        source_name: doing.to_owned(),
        problem: error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use outhaul_kit::failure::{Classified as _, FailureClass};

    use super::*;

    #[test]
    fn a_panic_of_the_worker_is_an_internal_error_and_not_a_stop() {
        let worker = thread::spawn(|| panic!("overflow when adding to {}", "an instant"));
        let error = broken(&*worker.join().unwrap_err());
        assert_eq!(error.class(), FailureClass::Internal);
        let reported = error.lines().join("\n");
        assert!(
            reported.contains("overflow when adding to an instant"),
            "{reported}"
        );
        assert!(!reported.contains("nothing is half done"), "{reported}");
        assert!(reported.contains("help: "), "{reported}");
    }
}
