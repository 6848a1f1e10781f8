//! Whether a commit on an environment's branch does what a promotion does, and no more.
//!
//! What comes in: the branch, and a commit of it. What goes out: yes when the commit has one parent, and between the two
//! the commit of the `BaseRepo` named `main` is the only difference, or there is none where it was that one already.
//! It does not know who made a commit: whoever may push to the branch can make one that passes here.

use std::sync::Arc;

use outhaul_control::diagnostic::SourceFile;
use outhaul_control::kinds::Object;
use outhaul_control::model::BaseRepo;
use outhaul_git::source::{self, OpenedSource, RecordedCommit};

use super::{NamedFile, PromoteError, objects, objects_of, with_commit};

/// The base of an environment, and the file that has it.
#[derive(Debug)]
pub(super) struct BaseFile {
    /// Its path in the repository.
    pub path: String,
    pub file: Arc<SourceFile>,
    pub base: BaseRepo,
}

/// The `BaseRepo` named `main` below `root`.
///
/// # Errors
/// [`PromoteError`] when what is there cannot be read.
pub(super) fn base_file(
    opened: &OpenedSource,
    root: &str,
) -> Result<Option<BaseFile>, PromoteError> {
    base_of(root, objects(opened, root)?)
}

/// The same of the one file at `path` in the repository; what stands in others is not read.
fn base_in(
    opened: &OpenedSource,
    root: &str,
    path: &str,
) -> Result<Option<BaseFile>, PromoteError> {
    let below = source::normal_path(root)?;
    let inner = match below.as_str() {
        "" => Some(path),
        below => path
            .strip_prefix(below)
            .and_then(|rest| rest.strip_prefix('/')),
    };
    match inner {
        Some(inner) => base_of(root, objects_of(opened, root, &|path| path == inner)?),
        None => Ok(None),
    }
}

fn base_of(root: &str, all: Vec<(NamedFile, Object)>) -> Result<Option<BaseFile>, PromoteError> {
    let root = source::normal_path(root)?;
    Ok(all.into_iter().find_map(|((path, file), object)| {
        let Object::BaseRepo(base) = object else {
            return None;
        };
        let path = match root.as_str() {
            "" => path,
            root => format!("{root}/{path}"),
        };
        (base.name == "main").then_some(BaseFile { path, file, base })
    }))
}

/// Whether `made` moves the environment below `root` to `commit` and does nothing else.
///
/// # Errors
/// [`PromoteError`] when git fails. What cannot be read as a control plane is no promotion.
pub(super) fn is_move(
    opened: &OpenedSource,
    root: &str,
    made: &RecordedCommit,
    commit: &str,
) -> Result<bool, PromoteError> {
    let [parent] = made.parents.as_slice() else {
        return Ok(false);
    };
    let after = opened.at_commit(&made.id);
    let changed = after.changed_since(parent, "")?;
    if changed.len() > 1 {
        return Ok(false);
    }
    // Only the file that it changes is read: what was wrong in others then, or is by rules of now, makes it no other commit.
    let base = |opened: &OpenedSource| match changed.first() {
        Some(path) => base_in(opened, root, path),
        None => base_file(opened, root),
    };
    let read = |opened: &OpenedSource| match base(opened) {
        Err(PromoteError::Source(error)) if !error.is_input() => Err(PromoteError::Source(error)),
        found => Ok(found.ok().flatten()),
    };
    let (Some(before), Some(now)) = (read(&opened.at_commit(parent))?, read(&after)?) else {
        return Ok(false);
    };
    let is_pinned = now
        .base
        .commit
        .as_ref()
        .is_some_and(|pinned| pinned.value == commit);
    let text = with_commit(&before.file, &before.base, commit);
    Ok(is_pinned
        && before.path == now.path
        && changed.iter().all(|path| *path == now.path)
        && text.is_some_and(|text| text == now.file.text))
}
