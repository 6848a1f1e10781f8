//! Why nothing is written to a place.
//!
//! What comes in: the place as it was named, and what lies there. What goes out: the sentence for the person, with what to name instead.
//! It reads nothing.

use std::path::{Path, PathBuf};

use outhaul_kit::failure::{Classified, FailureClass};
use outhaul_kit::text;

/// Why nothing is written to a place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub enum PlaceRefused {
    /// It is no place for what Outhaul writes.
    Place(#[from] NoPlace),
    /// The stick that it is named for is not mounted.
    Parent(#[from] NoParent),
}

impl Classified for PlaceRefused {
    fn class(&self) -> FailureClass {
        FailureClass::Usage
    }
}

/// A path that is no place for what Outhaul writes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{}` is {what}, where Outhaul writes nothing\nhelp: name {instead}",
    text::path(named)
)]
pub struct NoPlace {
    named: PathBuf,
    what: String,
    instead: String,
}

impl NoPlace {
    /// `named` is `what`, and `instead` is what to name.
    pub fn new(named: &Path, what: String, instead: &str) -> Self {
        Self {
            named: named.to_owned(),
            what,
            instead: instead.to_owned(),
        }
    }

    /// `named` lies in the control plane in `above`.
    pub fn in_control_plane(named: &Path, above: &Path) -> Self {
        let what = format!("in the control plane in `{}`", text::path(above));
        Self::new(named, what, "a place outside it")
    }

    /// The same about `named`, which a person wrote and which leads to the place.
    #[must_use]
    pub fn about(self, named: &Path) -> Self {
        Self {
            named: named.to_owned(),
            ..self
        }
    }
}

/// A folder on a stick that is not mounted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{}` does not exist, and nothing is mounted there: it would be a folder on this machine's own disk\nhelp: see that the stick is mounted (`findmnt`), or make that folder if it is meant",
    text::path(folder)
)]
pub struct NoParent {
    pub(crate) folder: PathBuf,
}
