//! What the agent reaches outside its state folder: the clocks, the disk's free space, servers, programs that are asked, and reconcilers.
//!
//! What comes in: questions to this machine. What goes out: one trait, [`Facilities`], which `host` has for the
//! machine itself. Tests hand the agent another one, so that a clock, a hub or a full disk is as the test says. It
//! decides nothing: what a reading or an answer means is its caller's business.

use std::collections::BTreeSet;
use std::fmt;
use std::io::Read;
use std::path::Path;

use outhaul_bundle::Index;
pub use outhaul_containerd::{ContainerdError, ImportResult, names_of as image_names};
use outhaul_kit::durable::FileError;
use outhaul_kit::heartbeat::Heartbeat;
use outhaul_reconcilers::{ApplyError, Reconciler};

use crate::error::AgentError;
use outhaul_asking::Answered;
use outhaul_asking::settings::AskConfig;
use outhaul_settings::config::{AgentConfig, ClockConfig};
use outhaul_site::state::clock::Clocks;
use outhaul_site::state_folder::StateFolder;

/// How much of a large file is read through one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Span {
    /// What comes in a part of the time that a service may be silent.
    Part,
    /// All of it.
    Whole,
}

/// A repository or hub below one URL.
pub trait Server: fmt::Debug {
    /// The full URL of `path`.
    fn url(&self, path: &str) -> String;

    /// Fetches a small file whole; `None` when there is none.
    ///
    /// # Errors
    /// [`AgentError::Network`], also for more than `max_bytes`.
    fn get(&self, path: &str, max_bytes: u64) -> Result<Option<Vec<u8>>, AgentError>;

    /// Opens a large file from byte `offset` on. Returns the reader and where it really starts: 0 when
    /// the server does not do ranges.
    ///
    /// # Errors
    /// [`AgentError::Network`]
    fn open(&self, path: &str, offset: u64, span: Span)
    -> Result<(Box<dyn Read>, u64), AgentError>;

    /// Sends `body` and returns the answer of at most `max_bytes`.
    ///
    /// # Errors
    /// [`AgentError::Network`], also for any answer but 200.
    fn post(&self, path: &str, body: &[u8], max_bytes: u64) -> Result<Vec<u8>, AgentError>;
}

/// The machine around an agent.
pub trait Facilities: fmt::Debug + Send + Sync {
    /// Reads all clocks.
    fn clocks(&self, config: &ClockConfig) -> Clocks;

    /// Bytes that are free where `folder` is.
    ///
    /// # Errors
    /// [`FileError`] when that cannot be known.
    fn free_bytes(&self, folder: &Path) -> Result<u64, FileError>;

    /// What lies below the URL `base`. `ca` is a file with the authority to trust, else `pem` (from the kit) is it,
    /// else the system's.
    ///
    /// # Errors
    /// [`AgentError::Usage`] for a URL that may not be used, [`AgentError::File`] for the authority.
    fn server(
        &self,
        base: &str,
        ca: Option<&Path>,
        pem: &str,
    ) -> Result<Box<dyn Server>, AgentError>;

    /// Asks a program, a URL or the cluster of this site.
    fn ask(
        &self,
        one: &AskConfig,
        config: &AgentConfig,
        state_folder: &StateFolder,
        heartbeat: &Heartbeat,
    ) -> Answered;

    /// Whether this machine can ask it: a program is there and may be started, and what is needed to reach others can be read. Starts nothing.
    ///
    /// # Errors
    /// [`ApplyError::Program`], [`ApplyError::Health`]
    fn can_ask(&self, _one: &AskConfig, _config: &AgentConfig) -> Result<(), ApplyError> {
        Ok(())
    }

    /// The plain files of a folder, by name, each with the beginning of its text.
    ///
    /// # Errors
    /// [`FileError`]; a folder that is not there is empty.
    fn files(&self, folder: &Path) -> Result<Vec<(String, String)>, FileError>;

    /// Brings the images of a generation of which layers came as twins into this machine's containerd. `layout` is its image layout.
    ///
    /// # Errors
    /// [`ContainerdError`] where none could be tried, and no name in containerd that was not there before.
    fn bring_images(
        &self,
        _index: &Index,
        _layout: &Path,
        _config: &AgentConfig,
        _heartbeat: &Heartbeat,
    ) -> Result<ImportResult, ContainerdError> {
        Ok(ImportResult::default())
    }

    /// Lets the kubelet remove images that were brought and are not among `kept`.
    ///
    /// # Errors
    /// [`ContainerdError`]; they stay where they are.
    fn release_images(
        &self,
        _kept: &BTreeSet<String>,
        _config: &AgentConfig,
    ) -> Result<(), ContainerdError> {
        Ok(())
    }

    /// The reconciler for a stream that is rendered for `kind`.
    ///
    /// # Errors
    /// [`ApplyError`] when this site has none.
    fn reconciler(
        &self,
        kind: &str,
        config: &AgentConfig,
        state_folder: &StateFolder,
    ) -> Result<Box<dyn Reconciler>, ApplyError>;
}
