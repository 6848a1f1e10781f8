//! A rendering becomes what lies in a folder: sound, kept or left out, and never too little.
//!
//! What comes in: a [`Rendering`], what of the last result is reused as it is, and the folder with that
//! result. What goes out: the folder with the new one, and what became of the broken assignments. The
//! last good files of a broken assignment are those that the record lists, as long as nobody changed
//! them. It writes all of it or nothing.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use outhaul_bundle::Digest;

use super::remembered::Remembered;
use super::write::{Tree, TreeContent, write};
use super::{FolderChanges, OutputError, absolute, read_file};
use crate::destination::{self, Committed, Destination};
use outhaul_control::ControlPlane;
use outhaul_plane::render::{DiskCache, Rendering, SITES, assignment_of};
use outhaul_plane::schedule::AssignmentId;
use outhaul_record::guard;
use outhaul_record::isolation::Isolation;
use outhaul_record::plan::{DesiredContent, Plan, Shipped};
use outhaul_record::record::Record;

/// Files by path.
type Files = BTreeMap<String, Vec<u8>>;

/// What became of a result.
#[derive(Debug)]
pub struct WrittenRendering {
    /// What writing changed.
    pub changes: FolderChanges,
    /// How many files there are now.
    pub files: usize,
    /// How many assignments there are now, the kept ones among them.
    pub assignments: usize,
    /// What became of the broken ones.
    pub isolation: Isolation<()>,
}

/// What is to be in a folder, besides what was rendered now.
#[derive(Debug)]
pub struct ReusedOutput<'a> {
    /// What was found in the folder.
    pub before: &'a Remembered,
    /// Assignments that stay as they were found, as `<cluster type>/<target>`.
    pub reused: &'a BTreeSet<String>,
    /// What the next run may know.
    pub cache: DiskCache,
}

/// Writes what was rendered and what is reused into `folder`, broken assignments as they last were.
///
/// # Errors
/// [`OutputError`]; the folder is then as it was.
pub fn write_rendering(
    folder: &Path,
    control_plane: &ControlPlane,
    rendering: &Rendering,
    rest: ReusedOutput<'_>,
) -> Result<WrittenRendering, OutputError> {
    let folder = &absolute(folder)?;
    destination::ship(Folder {
        path: folder,
        control_plane,
        rendering,
        rest,
    })
}

/// A folder, and what is to be in it.
struct Folder<'a> {
    path: &'a Path,
    control_plane: &'a ControlPlane,
    rendering: &'a Rendering,
    rest: ReusedOutput<'a>,
}

impl<'a> Destination for Folder<'a> {
    type Shipped = Recorded<'a>;
    type Done = WrittenRendering;
    type Error = OutputError;

    fn wanted(&self) -> DesiredContent<'_> {
        let mut sound = self.rendering.assignments();
        sound.extend(self.rest.reused.iter().cloned());
        DesiredContent {
            control_plane: self.control_plane,
            what: format!("environment `{}`", self.rendering.environment),
            sound,
            failures: self.rendering.failures.iter().collect(),
            undecided: self.rendering.undecided.iter().collect(),
            max_removal_percent: guard::max_percent(self.control_plane),
        }
    }

    /// It was read before anything was rendered, so that only what changed is.
    fn read(&mut self) -> Result<Recorded<'a>, OutputError> {
        Ok(Recorded {
            folder: self.path,
            record: self.rest.before.record.as_ref(),
        })
    }

    fn all_broken(&self) -> Option<OutputError> {
        Some(OutputError::AllBroken)
    }

    fn commit(
        &mut self,
        shipped: Recorded<'a>,
        plan: Plan<Files>,
    ) -> Result<Committed<WrittenRendering, OutputError>, OutputError> {
        let ReusedOutput {
            before,
            reused,
            ref mut cache,
        } = self.rest;
        let mut tree: Tree<'_> = self
            .rendering
            .files()
            .map(|(path, bytes)| (path, TreeContent::Bytes(Cow::Borrowed(bytes))))
            .collect();
        let files = shipped.record.iter().flat_map(|record| &record.files);
        let is_taken = |path: &str| assignment_of(path).is_some_and(|of| reused.contains(of));
        tree.extend(
            files
                .filter(|(path, _)| is_taken(path))
                .map(|(path, digest)| (path.clone(), TreeContent::Taken(*digest))),
        );
        for (_, files) in plan.isolation.kept.values() {
            for (path, bytes) in files {
                tree.insert(path.clone(), TreeContent::Bytes(Cow::Borrowed(bytes)));
            }
        }
        let kept = plan.isolation.recorded();
        let Rendering {
            environment,
            snapshot,
            promoted_commit,
            ..
        } = self.rendering;
        let record = Record::new(environment, snapshot, promoted_commit.as_deref(), kept);
        let written = write(self.path, &tree, record, before)?;
        before.replace(
            self.path,
            std::mem::take(cache),
            written.record,
            written.seen,
        );
        Ok(Committed::Done(WrittenRendering {
            changes: written.changes,
            files: tree.len(),
            assignments: plan.after.len(),
            isolation: plan.isolation.without_content(),
        }))
    }
}

/// What the record beside a folder says.
struct Recorded<'a> {
    folder: &'a Path,
    record: Option<&'a Record>,
}

impl Shipped for Recorded<'_> {
    type Content = Files;

    fn record(&self) -> Option<&Record> {
        self.record
    }

    /// Its files as they lie there, when they are what the record says.
    fn last(&mut self, id: &AssignmentId) -> Result<(Digest, Files), String> {
        let (name, none) = (&id.to_string(), "it has no last good output");
        let record = self.record.ok_or(none)?;
        let mut content = Files::new();
        let of_sites = record.files_of(SITES.trim_end_matches('/'));
        let of_sites = of_sites.filter(|(path, _)| assignment_of(path) == Some(name));
        for (path, digest) in record.files_of(name).chain(of_sites) {
            match read_file(&self.folder.join(path)) {
                Ok(bytes) if Digest::of(&bytes) == *digest => {
                    content.insert(path.clone(), bytes);
                }
                _ => return Err(format!("its last good file `{path}` was changed")),
            }
        }
        match content.is_empty() {
            true => Err(none.to_owned()),
            false => Ok((record.origin(name), content)),
        }
    }
}
