//! How the blobs of a copy travel: whole, as patches, or as archives in the place of layers; and why.
//!
//! What comes in: a choice. What goes out: its record, for people and programs. It decides nothing.

use outhaul_bundle::Digest;

use crate::Method;

/// What may travel in the place of a blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patching {
    /// Nothing.
    None,
    /// A patch that makes the blob.
    Exact,
    /// Also, of an image's layer, a patch that makes its archive: for sites that bring it into containerd.
    Twins,
}

/// How a blob that not every site has travels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Travels {
    /// What it holds, for people.
    pub name: String,
    /// The blob.
    pub blob: Digest,
    /// Its bytes.
    pub bytes: u64,
    /// How.
    pub how: How,
}

/// As a patch, or whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum How {
    /// As a patch.
    Patch {
        /// The patch's bytes.
        bytes: u64,
        /// How it was made.
        method: Method,
    },
    /// As a patch that makes the archive of the layer in its place.
    Twin {
        /// The patch's bytes.
        bytes: u64,
        /// Why no patch makes the layer itself.
        why: String,
    },
    /// Whole.
    Whole {
        /// Why.
        why: String,
    },
}
