//! What a platform branch holds, as far as it matters for what is to be there.
//!
//! What comes in: the copy of a repository, a commit, a path and what is desired. What goes out: a
//! [`BranchFiles`] to plan from. It decides nothing and changes nothing.

use std::cell::RefCell;
use std::collections::BTreeSet;

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
    let files = found.files.into_iter();
    there.files = files.map(|file| (file.path, file.bytes)).collect();
    root_is_free(&opened, root)?;
    Ok(there)
}

/// A file of somebody else must not stand where the published folder would be.
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
