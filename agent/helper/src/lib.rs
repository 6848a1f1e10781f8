//! The apply helper: the half of the agent that may change this host, as a process per request.
//!
//! What comes in: a connection on a socket that systemd hands over, with one [`HelperRequest`]: a verb, a bundle
//! number, the digest of its signed index, an assignment. What goes out: one [`HelperAnswer`]. The helper has a
//! separate folder with the fleet's metadata, floors, inventory and copies; of the agent's folder, which
//! another user may write to, it reads what a signature accounts for, and nothing else. It takes no path,
//! no content and no command from anybody.

use std::path::{Path, PathBuf};

use outhaul_bundle::Limits;
use outhaul_kit::heartbeat::Heartbeat;
use outhaul_kit::media::Media;

use crate::config::AgentConfig;
use crate::error::AgentError;
use crate::state::{SiteIdentity, StateError, Store};
use crate::state_folder::{Lock, LockError, StateFolder};

mod accept;
mod act;
pub mod answer;
pub mod init;
mod plain;

use outhaul_content::{blobs, generation};
use outhaul_host::{error, facilities, host};
use outhaul_kit::durable;
use outhaul_settings::{apply, config, noted};
use outhaul_site::{cut, machine, state, state_folder};

/// Where the helper's folder lies unless another is named.
pub const DEFAULT_FOLDER: &str = "/var/lib/outhaul-apply";

/// The helper while it works on one request.
#[derive(Debug)]
struct Helper {
    state_folder: StateFolder,
    config: AgentConfig,
    store: Store,
    site: SiteIdentity,
    limits: Limits,
    heartbeat: Heartbeat,
    /// The agent's folder.
    agent: Media,
    _lock: Lock,
}

/// Why a request was not carried out.
#[derive(Debug)]
enum RequestFailure {
    /// It must not be: nothing was changed.
    Refused {
        /// A word for it: `signature`, `rollback`, `content` …
        rule: String,
        /// What was expected and found.
        message: String,
    },
    /// This host cannot do it now.
    Unable {
        /// What is missing.
        problem: String,
        /// What to do next.
        help: String,
    },
}

impl<E: Into<AgentError>> From<E> for RequestFailure {
    fn from(error: E) -> Self {
        let error = error.into();
        Self::Unable {
            problem: error.to_string(),
            help: error.help(),
        }
    }
}

fn refused(rule: &str, message: impl Into<String>) -> RequestFailure {
    RequestFailure::Refused {
        rule: rule.to_owned(),
        message: message.into(),
    }
}

impl Helper {
    /// Opens the helper's folder; no other request is worked on meanwhile.
    fn open(folder: &Path, agent: &Path, heartbeat: Heartbeat) -> Result<Self, RequestFailure> {
        let state_folder = StateFolder::new(folder);
        state_folder.check()?;
        if let Err(StateError::NotEnrolled { .. }) = state::check_enrolled(&state_folder) {
            return Err(not_set_up(folder, agent));
        }
        let lock = match state_folder.lock() {
            Err(LockError::Busy { holder, .. }) => {
                return Err(RequestFailure::Unable {
                    problem: format!(
                        "it is still at work on another request: {holder} works on it"
                    ),
                    help: "wait until that is done; the agent tries again automatically".into(),
                });
            }
            other => other?,
        };
        state_folder.create()?;
        let mut store = Store::open(&state_folder.database())?;
        store.work_under(lock.place()?);
        let site = match state::site(store.read()) {
            Err(StateError::NotEnrolled { .. }) => return Err(not_set_up(folder, agent)),
            other => other?,
        };
        // Before they are read, for a file that is put back meanwhile; and afterwards, for one that goes meanwhile.
        refuse_lost_settings(&state_folder, &mut store)?;
        let config = settings(&state_folder)?;
        refuse_lost_settings(&state_folder, &mut store)?;
        Ok(Self {
            state_folder,
            config,
            store,
            site,
            limits: Limits::default(),
            heartbeat,
            agent: Media::open(agent)?,
            _lock: lock,
        })
    }
}

fn not_set_up(folder: &Path, agent: &Path) -> RequestFailure {
    RequestFailure::Unable {
        problem: format!("the apply helper is not set up in `{}`", folder.display()),
        help: format!(
            "run `outhaul-agent --state {} apply-helper init --folder {}` as root",
            agent.display(),
            folder.display()
        ),
    }
}

/// Refuses to work by the default settings in place of those that are lost with the helper's own `agent.toml`.
fn refuse_lost_settings(
    state_folder: &StateFolder,
    store: &mut Store,
) -> Result<(), RequestFailure> {
    noted::note(state_folder, store);
    let Some(names) = noted::lost(state_folder, store.read())? else {
        return Ok(());
    };
    Err(RequestFailure::Unable {
        problem: format!(
            "{}: the apply helper does nothing by the default settings",
            noted::sentence(state_folder, &names)
        ),
        help: format!("{}, as root", noted::help(state_folder, None)),
    })
}

/// The helper's own `agent.toml`. It applies by itself, whatever stands there.
fn settings(state_folder: &StateFolder) -> Result<AgentConfig, AgentError> {
    let mut config = config::load(&state_folder.config())?;
    config.apply.helper = None;
    Ok(config)
}

/// Where a generation of the agent lies, below its folder.
fn generation(number: u64) -> PathBuf {
    Path::new("generations").join(number.to_string())
}
