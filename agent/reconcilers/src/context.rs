//! What a reconciler gets from the site around it.
//!
//! What comes in: nothing. What goes out: a trait that the agent implements for its state folder: folders of a
//! reconciler's own, opened values, and what was applied earlier. Tests implement it for a temporary folder.

use std::fmt;
use std::path::PathBuf;

use outhaul_bundle::Digest;
use outhaul_kit::durable::FileError;

use crate::assignment::Desired;
use crate::sealed::{Keys, SealedError};

/// What the site around a reconciler does for it.
pub trait ReconcilerContext: fmt::Debug {
    /// The keys that open what is sealed for this site, as they are now.
    ///
    /// # Errors
    /// [`SealedError`] when they cannot be read.
    fn keys(&self) -> Result<Box<dyn Keys>, SealedError>;

    /// An assignment of a generation that is still kept, as `site` got it.
    fn earlier(&self, generation: u64, assignment: &str, site: &str) -> Option<Desired>;

    /// Digest of the signed index of a generation.
    ///
    /// # Errors
    /// [`FileError`] when it cannot be read.
    fn index(&self, generation: u64) -> Result<Digest, FileError>;

    /// The folder of what is kept to remove an assignment after its generation is gone.
    fn kept(&self, assignment: &str) -> PathBuf;

    /// The folder for marks of what was applied of a generation; it goes with the generation.
    fn marks(&self, generation: u64) -> PathBuf;

    /// Ansible's own folders.
    fn ansible(&self) -> PathBuf;

    /// The folder of a hook program's own, where it starts and what it may keep.
    fn hook(&self, name: &str) -> PathBuf;
}
