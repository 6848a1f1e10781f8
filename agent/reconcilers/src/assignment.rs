//! An assignment as a reconciler gets it: what is wanted, and where its files lie.
//!
//! What comes in: what an index says of an assignment, and the folders that it was unpacked into. What goes
//! out: its files by path and by the name that messages use. It reads no file.

use std::collections::BTreeMap;
use std::path::PathBuf;

use outhaul_bundle::index::{self, Assignment, DriftPolicy};
use outhaul_bundle::name::Name;

use crate::sealed::Binding;

/// One assignment with the folders that it was unpacked into.
#[derive(Debug, Clone)]
pub struct Desired {
    /// The generation.
    pub generation: u64,
    /// What the index says of it.
    pub assignment: Assignment,
    /// The fleet that it comes from: what its sealed values must be bound to.
    pub fleet: Name,
    /// The environment, likewise.
    pub environment: Name,
    /// This site.
    pub site: Name,
    /// What the stream says about drift.
    pub drift: DriftPolicy,
    /// Folder of the rendered files.
    pub rendered: PathBuf,
    /// Folder of the payload; it may not exist when there is none.
    pub payload: PathBuf,
    /// The values of this site that its files hold, by key: what an apply helper gets of them.
    pub site_values: BTreeMap<String, String>,
}

impl Desired {
    /// What its sealed values must be bound to.
    pub fn binding(&self) -> Binding<'_> {
        Binding {
            fleet: self.fleet.as_str(),
            environment: self.environment.as_str(),
            workload: &self.assignment.workload,
        }
    }

    /// Every file with the path where it lies and the path under which it is named in messages.
    pub fn files(&self) -> impl Iterator<Item = (&index::File, PathBuf, String)> {
        let name = &self.assignment.name;
        let rendered = self.assignment.files.iter().map(move |file| {
            (
                file,
                self.rendered.join(file.path.as_str()),
                format!("{name}/{}", file.path),
            )
        });
        let payload = self.assignment.payload.iter().map(move |file| {
            let shown = format!("{name}/payload/{}", file.path);
            (file, self.payload.join(file.path.as_str()), shown)
        });
        rendered.chain(payload)
    }
}
