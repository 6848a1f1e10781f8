//! The machine that the agent runs on: its clocks, its disk, its network, its reconcilers.
//!
//! What comes in: questions. What goes out: what the system says. It is the only place of the agent that reads a
//! clock, and decides nothing.

use std::collections::BTreeSet;
use std::path::Path;

use jiff::Timestamp;
use outhaul_bundle::Index;
use outhaul_containerd::settings::Settings;
use outhaul_containerd::{ContainerdError, ImportResult};
use outhaul_kit::durable::{self, FileError};
use outhaul_kit::heartbeat::Heartbeat;
use outhaul_reconcilers::{ApplyError, Reconciler, hook};
use outhaul_signer::clock::BootReading;

use crate::error::AgentError;
use crate::facilities::{Facilities, Server};
use crate::http::ServerClient;
use outhaul_asking::Answered;
use outhaul_asking::settings::AskConfig;
use outhaul_settings::apply;
use outhaul_settings::config::{AgentConfig, ClockConfig};
use outhaul_site::state::clock::Clocks;
use outhaul_site::state_folder::StateFolder;

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The machine that the agent runs on.
#[derive(Debug)]
pub struct Host;

impl Facilities for Host {
    fn clocks(&self, config: &ClockConfig) -> Clocks {
        let boot = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let since_boot_ms = boot
            .tv_sec
            .saturating_mul(1000)
            .saturating_add(boot.tv_nsec / 1_000_000);
        let boot_id = std::fs::read_to_string(BOOT_ID)
            .unwrap_or_default()
            .trim()
            .to_owned();
        #[expect(
            clippy::disallowed_methods,
            reason = "the one place in the agent that reads the wall clock"
        )]
        let wall = Timestamp::now();
        Clocks {
            boot: (!boot_id.is_empty()).then(|| BootReading {
                boot_id,
                since_boot_ms: u64::try_from(since_boot_ms).unwrap_or(0),
            }),
            wall,
            wall_trusted: config.synchronized.exists(),
        }
    }

    fn free_bytes(&self, folder: &Path) -> Result<u64, FileError> {
        durable::free_bytes(folder)
    }

    fn server(
        &self,
        base: &str,
        ca: Option<&Path>,
        pem: &str,
    ) -> Result<Box<dyn Server>, AgentError> {
        Ok(Box::new(ServerClient::new(base, ca, pem)?))
    }

    fn ask(
        &self,
        one: &AskConfig,
        config: &AgentConfig,
        state_folder: &StateFolder,
        heartbeat: &Heartbeat,
    ) -> Answered {
        let locks = state_folder.root().join("asked");
        outhaul_asking::ask(one, &config.kubernetes, &locks, heartbeat)
    }

    fn can_ask(&self, one: &AskConfig, config: &AgentConfig) -> Result<(), ApplyError> {
        outhaul_asking::can_ask(one, &config.kubernetes)
    }

    fn files(&self, folder: &Path) -> Result<Vec<(String, String)>, FileError> {
        outhaul_asking::files(folder)
    }

    fn bring_images(
        &self,
        index: &Index,
        layout: &Path,
        config: &AgentConfig,
        heartbeat: &Heartbeat,
    ) -> Result<ImportResult, ContainerdError> {
        let work = layout.parent().unwrap_or(layout);
        let settings = with_safe_ctr(config)?;
        outhaul_containerd::bring(&settings, index, (layout, work), heartbeat)
    }

    fn release_images(
        &self,
        kept: &BTreeSet<String>,
        config: &AgentConfig,
    ) -> Result<(), ContainerdError> {
        outhaul_containerd::release(&with_safe_ctr(config)?, kept)
    }

    fn reconciler(
        &self,
        kind: &str,
        config: &AgentConfig,
        state_folder: &StateFolder,
    ) -> Result<Box<dyn Reconciler>, ApplyError> {
        apply::reconciler(kind, config, state_folder)
    }
}

/// The settings with the file of `ctr`, which runs with this agent's rights: it is held to what every program of a reconciler is.
fn with_safe_ctr(config: &AgentConfig) -> Result<Settings, ContainerdError> {
    let mut settings = config.containerd.clone();
    match hook::started(&settings.ctr, None) {
        Ok(Some(found)) => settings.ctr = found,
        // That it is not there, its start says.
        Ok(None) => {}
        Err(error) => {
            return Err(ContainerdError::Program {
                problem: error.to_string(),
                help: error.help(),
            });
        }
    }
    Ok(settings)
}
