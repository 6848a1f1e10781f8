//! What of a build could not be followed, and what follows from it.
//!
//! What comes in: what it is, and where. What goes out: a finding. It decides about no severity.

use outhaul_control::diagnostic::{Diagnostic, Location};

/// What a gap in a build means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Means {
    /// No site can build it, with a network or without.
    Broken,
    /// A site without a network cannot build it.
    Unreachable,
    /// Which images are built is not known.
    Images,
    /// It builds, and nothing is in it.
    Nothing,
    /// A manifest is not read, and what it needs is not known.
    Unread,
    /// The templates of a chart that lies there are not read.
    Templates,
}

/// What of a build could not be followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// What follows from it.
    pub means: Means,
    /// What it is.
    pub message: String,
    /// Where it is written.
    pub at: Location,
    /// What to do.
    pub help: &'static str,
}

impl Gap {
    /// As a finding, of a severity as `new` makes them.
    pub fn finding(&self, new: fn(&'static str, String) -> Diagnostic) -> Diagnostic {
        let code = match self.means {
            Means::Broken => "kustomization-broken",
            Means::Unreachable | Means::Images => "kustomization-not-followed",
            Means::Nothing => "kustomization-empty",
            Means::Unread => "manifest-not-read",
            Means::Templates => "chart-images-unknown",
        };
        new(code, self.message.clone()).at(&self.at).help(self.help)
    }
}
