//! Compose: which values each assignment gets, and where each came from.
//!
//! What comes in: a [`ControlPlane`] and its [`Schedule`]. What goes out: a [`Composition`]: for each
//! assignment the merged platform config with the place of every key, or what is wrong with it. It is
//! pure, and one assignment's error never touches another.

use std::collections::BTreeMap;

use outhaul_bundle::Digest;
use outhaul_gocompat::GoValue;

use crate::control::ControlPlane;
use crate::control::diagnostic::{Diagnostics, Location};
use crate::schedule::{AssignmentId, Schedule};

/// How to treat the places where Kalypso's bytes were a defect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mode {
    /// Reproduce Kalypso where it is not a danger, rather than do the right thing.
    pub compat: bool,
}

/// The config of every assignment.
#[derive(Debug, Clone, Default)]
pub struct Composition {
    /// What was composed.
    pub assignments: BTreeMap<AssignmentId, Composed>,
    /// What could not be, and why.
    pub failures: BTreeMap<AssignmentId, Diagnostics>,
}

/// The platform config of one assignment.
#[derive(Debug, Clone)]
pub struct Composed {
    /// The values: always a `map[string]interface{}`.
    pub values: GoValue,
    /// Digest of the values: the config's version.
    pub version: Digest,
    /// Where each top-level key came from.
    pub provenance: BTreeMap<String, Provenance>,
}

/// Where one key's value came from.
#[derive(Debug, Clone, PartialEq)]
pub struct Provenance {
    /// Every container that set it, in order: the last one decides, or is merged over the others.
    pub layers: Vec<Layer>,
}

/// One container's value for a key.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    /// The container's name.
    pub container: String,
    /// The value as written.
    pub text: String,
    /// Where it is written.
    pub location: Location,
    /// Whether it was merged into what was there, rather than replacing it.
    pub merged: bool,
}

/// Composes the config of every assignment.
pub fn compose(control_plane: &ControlPlane, schedule: &Schedule, mode: Mode) -> Composition {
    let _ = (control_plane, schedule, mode);
    Composition::default()
}
