//! What a platform branch holds, as far as it matters for what is to be there.
//!
//! What comes in: the copy of a repository, a commit, a path and what is desired. What goes out: a
//! [`BranchFiles`] to plan from, or a refusal of a branch that is a control plane's. It changes nothing.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use outhaul_control::diagnostic::{Diagnostics, SourceFile};
use outhaul_control::kinds::{self, Object};
use outhaul_git::source::{self, SourceError, TreeLimits};
use outhaul_git::store::BranchStore;

use super::plan::{self, BranchFiles};
use super::{Desired, PublishError, RECORD_PATH};
use outhaul_record::record::Record;

/// What `commit` holds below `root`, as far as it matters for `desired`.
pub(super) fn read(
    store: &BranchStore,
    commit: &str,
    root: &str,
    desired: &Desired<'_>,
) -> Result<BranchFiles, PublishError> {
    let opened = store.at(commit)?;
    let only = |wanted: &dyn Fn(&str) -> bool| match opened.tree(root, wanted, &LIMITS) {
        Err(SourceError::NoSuchPath { .. }) => Ok(source::Tree::default()),
        other => other,
    };
    let mut there = BranchFiles::default();
    let record = only(&|path| path == RECORD_PATH)?.files.pop();
    // Its content is verified where the plan is made.
    let known = record.as_ref();
    let known = known.and_then(|file| Record::parse(&file.bytes).ok());
    if known.is_none() {
        refuse_control_plane(&opened)?;
    }
    let owned = known.map(|record| record.files).unwrap_or_default();
    there.record = record.map(|file| file.bytes);
    let others = RefCell::new(BTreeSet::new());
    let found = only(&|path| {
        let matters = owned.contains_key(path)
            || desired.tree.contains_key(path)
            || (desired.adopt && plan::is_kalypsos(path));
        if !matters && path != RECORD_PATH {
            others.borrow_mut().insert(path.to_owned());
        }
        matters
    })?;
    there.others = others.into_inner();
    there.others.extend(found.skipped);
    let programs = found.files.iter().filter(|file| file.executable);
    there.executable = programs.map(|file| file.path.clone()).collect();
    let files = found.files.into_iter();
    there.files = files.map(|file| (file.path, file.bytes)).collect();
    root_is_free(&opened, root)?;
    Ok(there)
}

/// Refuses a branch that a control plane is read from, by what it holds: the same branch may be reached by many URLs, and in a clone.
fn refuse_control_plane(opened: &source::OpenedSource) -> Result<(), PublishError> {
    let is_yaml = |path: &str| path.ends_with(".yaml") || path.ends_with(".yml");
    let tree = match opened.tree("", &is_yaml, &LIMITS) {
        // No program reads a control plane that large: it is someone's platform.
        Err(SourceError::TooLarge { .. }) => return Ok(()),
        tree => tree?,
    };
    for file in tree.files {
        let Ok(text) = String::from_utf8(file.bytes) else {
            continue;
        };
        // Nothing else is parsed: it may be a large platform that someone else rendered.
        if !MARKS.iter().any(|mark| text.contains(mark)) {
            continue;
        }
        let name = file.path.clone();
        let source = Arc::new(SourceFile { name, text });
        let objects = kinds::read_file_without_sites(&source, &mut Diagnostics::new());
        let of_plane = objects.into_iter().find(|object| {
            matches!(
                object,
                Object::BaseRepo(_) | Object::ClusterType(_) | Object::Environment(_)
            )
        });
        if let Some(object) = of_plane {
            return Err(PublishError::ControlPlane {
                path: file.path,
                what: format!("{} `{}`", object.kind(), object.name()),
            });
        }
    }
    Ok(())
}

/// The kinds that a control plane cannot do without, as its files name them.
const MARKS: [&str; 3] = ["BaseRepo", "ClusterType", "Environment"];

/// A file of someone else must not stand where the published folder would be.
fn root_is_free(opened: &source::OpenedSource, root: &str) -> Result<(), PublishError> {
    let ends = root.match_indices('/').map(|(end, _)| end);
    let parents: Vec<&str> = ends.chain([root.len()]).map(|end| &root[..end]).collect();
    if root.is_empty() {
        return Ok(());
    }
    let taken = RefCell::new(None);
    opened.tree(
        "",
        &|path| {
            if parents.contains(&path) {
                *taken.borrow_mut() = Some(path.to_owned());
            }
            false
        },
        &LIMITS,
    )?;
    match taken.into_inner() {
        None => Ok(()),
        Some(path) => Err(plan::PlanError::Foreign { path, count: 1 }.into()),
    }
}

/// For platform repositories: what they hold is rendered, and read back whole.
const LIMITS: TreeLimits = TreeLimits {
    max_file_bytes: 64 << 20,
    max_total_bytes: 1 << 30,
    max_files: 500_000,
};
