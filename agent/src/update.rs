//! The agent that an active bundle brings: put into a slot, tried at the next start, and reported.
//!
//! What comes in: the active bundle's signed index, and what is in the slots. What goes out: a slot with the program, the wish to be
//! started again, one report for each program that failed here. Nothing is replaced under a hold or while work is
//! unfinished. How a program is tried and given up is the business of the crate `update`.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use outhaul_bundle::Index;
use outhaul_bundle::report::ReportEvent;
use outhaul_kit::heartbeat::Heartbeat;
use outhaul_reconcilers::shortened;
use outhaul_update::choice::{self, MAX_ATTEMPTS, ReleaseChoice};
use outhaul_update::install::{self, InstallError, NewProgram};
use outhaul_update::launch::{self, IN_SLOT, Launcher};
use outhaul_update::slots::Slots;
use serde::Serialize;

use crate::agent::Agent;
use crate::cut;
use crate::error::AgentError;
use crate::generation;
use crate::machine::Work;
use crate::runner::{self, observe};
use crate::state::{self, StateError, key, outbox};
use crate::state_folder::StateFolder;

/// How long a host that could not be asked is left alone before the next attempt.
const PAUSE: Duration = Duration::from_secs(3600);

/// The version of this program: as it was signed, when it was started out of a slot.
pub fn version() -> String {
    std::env::var(IN_SLOT).unwrap_or_else(|_| env!("CARGO_PKG_VERSION").to_owned())
}

/// Starts the program that is to run, in the place of this process; returns when this one is to go on. `alive` is called
/// while a program is tried.
pub fn launch(state: &Path, is_service: bool, alive: &dyn Fn(&Heartbeat), say: &dyn Fn(&str)) {
    if std::env::var_os(IN_SLOT).is_some() {
        return;
    }
    let state_folder = StateFolder::new(state);
    if !outhaul_update::slots::folder(state).is_dir() {
        return;
    }
    // A service that runs already is not disturbed.
    let is_service = is_service && state_folder.lock().is_ok();
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let heartbeat = Heartbeat::default();
    let launcher = Launcher {
        state,
        database: &state_folder.database(),
        version: env!("CARGO_PKG_VERSION"),
        arguments: &arguments,
        is_service,
        beat: &|| alive(&heartbeat),
        say,
        cut: &cut::here,
    };
    if let Err(error) = launcher.start() {
        say(&format!("the packaged agent goes on: {error}"));
    }
}

/// Starts the packaged program again, which looks at the slots again. Returns only when that fails.
pub fn again() -> AgentError {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let error = launch::again(&arguments);
    AgentError::Unreadable {
        source_name: "starting the agent again".to_owned(),
        problem: error.to_string(),
    }
}

/// What becomes of the agent that a bundle brings, in a sentence; `None`: it brings none, or none that is newer.
///
/// # Errors
/// [`AgentError`] when the slots cannot be read.
pub fn planned(agent: &Agent, index: &Index) -> Result<Option<String>, AgentError> {
    let Some(release) = &index.agent else {
        return Ok(None);
    };
    let slots = Slots::read(agent.state_folder.root())?;
    let (new, running) = (&release.version, version());
    let architecture = std::env::consts::ARCH;
    Ok(
        match choice::wanted(&slots, &running, release, architecture) {
            ReleaseChoice::No => None,
            ReleaseChoice::OtherMachines => Some(format!(
                "{new} has no program for {architecture}; {running} goes on"
            )),
            ReleaseChoice::Failed(why) => Some(format!(
                "{new} failed here before and is not tried again: {why}"
            )),
            ReleaseChoice::Waits | ReleaseChoice::Install(_) => Some(format!(
                "{new} is tried once the bundle is active, and used if it passes; {running} runs now"
            )),
        },
    )
}

/// Looks whether the active bundle brings a newer agent, and puts it into a slot. Says whether this process is to be started
/// again for it; `uptime`: how long it has run.
///
/// # Errors
/// [`AgentError`] of the memory or the disk.
pub fn look(agent: &mut Agent, uptime: Duration) -> Result<bool, AgentError> {
    let site = runner::site_now(agent.store.read())?;
    let Some(active) = site
        .active
        .filter(|_| site.work == Work::Idle && !site.hold)
    else {
        return Ok(false);
    };
    // An index that cannot be read is reported by what needs it.
    let index = runner::index_of(agent, active.number).ok();
    let Some(release) = index.and_then(|index| index.agent) else {
        return Ok(false);
    };
    let root = agent.state_folder.root().to_owned();
    let slots = Slots::read(&root)?;
    let architecture = std::env::consts::ARCH;
    let content = match choice::wanted(&slots, &version(), &release, architecture) {
        ReleaseChoice::No | ReleaseChoice::OtherMachines | ReleaseChoice::Failed(_) => {
            return Ok(false);
        }
        ReleaseChoice::Waits => {
            let attempts = slots.trial.map_or(0, |trial| trial.attempts);
            return Ok(attempts == 0 || (attempts < MAX_ATTEMPTS && uptime > PAUSE));
        }
        ReleaseChoice::Install(content) => content,
    };
    agent.check_space(content.size)?;
    let file = agent
        .state_folder
        .generation(active.number)
        .join(generation::AGENT);
    let new = NewProgram {
        file: &file,
        content,
        version: &release.version,
        bundle: active.number,
        architecture,
    };
    match install::install(&root, new, &cut::here) {
        Ok(()) => {
            let (version, bundle) = (&release.version, active.number);
            tracing::info!(
                "agent {version} of bundle {bundle} is installed in a slot: its trial begins"
            );
            Ok(true)
        }
        Err(error @ InstallError::Unfit { .. }) => {
            tracing::warn!("{error}; this agent goes on");
            report(agent)?;
            Ok(false)
        }
        // What looks for damage puts it back from the stored copy.
        Err(error @ InstallError::Damaged { .. }) => {
            tracing::warn!("{error}; this agent goes on");
            Ok(false)
        }
        Err(InstallError::File(error)) => Err(error.into()),
    }
}

/// Reports each program that failed here, once.
///
/// # Errors
/// [`AgentError`] of the memory or the disk.
pub fn report(agent: &mut Agent) -> Result<(), AgentError> {
    let failed = Slots::read(agent.state_folder.root())?.failed;
    let reported: Vec<String> =
        state::meta(agent.store.read(), key::AGENTS_REPORTED)?.unwrap_or_default();
    let digests: Vec<String> = failed.iter().map(|one| one.digest.to_string()).collect();
    if digests == reported {
        return Ok(());
    }
    agent
        .commit(|db, author| {
            for one in failed
                .iter()
                .filter(|one| !reported.contains(&one.digest.to_string()))
            {
                let event = ReportEvent::Refusal {
                    source: format!("agent {} of bundle {}", one.version, one.bundle),
                    rule: "agent-update".to_owned(),
                    message: shortened(&format!("{}; agent {} goes on", one.why, version())),
                };
                outbox::queue(db, author, event)?;
            }
            state::set_meta(db, key::AGENTS_REPORTED, Some(&digests))
        })
        .map_err(|error: StateError| error.into())
}

/// The full cycle by which a new agent shows that it works here: the memory is opened, brought to its schema and read, the active
/// bundle is compared with this host, and a report of it is queued. Nothing is taken in, sent or applied.
///
/// # Errors
/// Whatever does not work; the caller of this process goes back then.
pub fn trial(state: &Path) -> Result<(), AgentError> {
    let mut agent = Agent::exclusive(state)?;
    let site = runner::site_now(agent.store.read())?;
    if let Some(active) = site.active {
        let index = runner::index_of(&agent, active.number)?;
        agent.reconcilers(&index)?.ready()?;
    }
    observe::compare(&mut agent)?;
    let agent_version = version();
    crate::report::queue(&mut agent, ReportEvent::Started { agent_version })?;
    Ok(())
}

/// Which agent runs, and what is in the slots.
#[derive(Debug, Serialize)]
pub struct AgentStatus {
    /// The version that runs.
    pub version: String,
    /// The bundle that brought it; absent for the packaged one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bundle: Option<u64>,
    /// A version that is to be tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits: Option<String>,
    /// What failed here last: the version, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<(String, String)>,
}

impl AgentStatus {
    /// What is known now; a file that cannot be read says nothing.
    pub fn of(state_folder: &StateFolder) -> Self {
        let slots = Slots::read(state_folder.root()).unwrap_or_default();
        let version = version();
        let own = slots
            .committed
            .filter(|committed| committed.version == version);
        Self {
            bundle: own.map(|committed| committed.bundle),
            waits: slots.trial.map(|trial| trial.program.version),
            failed: slots
                .failed
                .last()
                .map(|one| (one.version.clone(), one.why.clone())),
            version,
        }
    }

    /// One sentence, where there is more to say than the version that was installed.
    pub fn sentence(&self) -> Option<String> {
        if self.bundle.is_none() && self.waits.is_none() && self.failed.is_none() {
            return None;
        }
        let mut text = match self.bundle {
            Some(bundle) => format!("agent: {} of bundle {bundle}", self.version),
            None => format!("agent: {}, as installed", self.version),
        };
        if let Some(waits) = &self.waits {
            text = format!("{text}; {waits} is tried when the service starts again");
        }
        if let Some((version, why)) = &self.failed {
            text = format!("{text}; {version} was not used: {why}");
        }
        Some(text)
    }
}
