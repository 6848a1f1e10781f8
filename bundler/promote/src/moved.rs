//! Whether a commit on an environment's branch does what a promotion does, and no more.
//!
//! What comes in: the branch, and a commit of it. What goes out: nothing when the commit has one parent, and between the two
//! the commit of the `BaseRepo` named `main` is the only difference, or there is none where it was that one already; else
//! what it does besides. And what of a base decides what ships ([`BasePlace`]): its commit and the path there; the same commit of
//! another repository has the same content.
//! It does not know who made a commit: whoever may push to the branch can make one that passes here.

use std::sync::Arc;

use outhaul_control::diagnostic::{Diagnostics, SourceFile};
use outhaul_control::kinds::{self, Object};
use outhaul_control::model::BaseRepo;
use outhaul_git::source::{self, OpenedSource, RecordedCommit, SourceError};
use outhaul_load::MAIN;

use super::{NamedFile, PromoteError, objects, objects_of};

/// The base of an environment, and the file that has it.
#[derive(Debug)]
pub(super) struct BaseFile {
    /// Its path in the repository.
    pub path: String,
    pub file: Arc<SourceFile>,
    pub base: BaseRepo,
}

/// Which content a base is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BasePlace {
    /// The commit that it pins; `None` where it follows a branch.
    pub commit: Option<String>,
    /// The path there, in one spelling: empty for all of it.
    pub path: String,
}

impl BaseFile {
    /// The commit that it pins.
    pub(super) fn pinned(&self) -> Option<&str> {
        self.base
            .commit
            .as_ref()
            .map(|commit| commit.value.as_str())
    }

    /// The content that it is.
    pub(super) fn place(&self) -> BasePlace {
        BasePlace {
            commit: self.pinned().map(str::to_owned),
            path: path_of(&self.base),
        }
    }
}

/// The text of a base's file with the base's commit replaced, or added below its branch. `None` when the result
/// would not read back as exactly that.
pub(super) fn with_commit(file: &Arc<SourceFile>, base: &BaseRepo, commit: &str) -> Option<String> {
    let mut text = file.text.clone();
    if let Some(old) = &base.commit {
        text.replace_range(old.location.span.clone(), commit);
    } else {
        let at = base.at.repo.location.span.start;
        let line_start = text.get(..at)?.rfind('\n').map_or(0, |newline| newline + 1);
        let line = text.get(line_start..)?;
        let indent = line.len() - line.trim_start_matches(' ').len();
        let end = line_start + line.find('\n').map_or(line.len(), |newline| newline + 1);
        let newline = if text.get(..end)?.ends_with('\n') {
            ""
        } else {
            "\n"
        };
        text.insert_str(
            end,
            &format!("{newline}{}commit: {commit}\n", " ".repeat(indent)),
        );
    }
    let mut findings = Diagnostics::new();
    let changed = Arc::new(SourceFile {
        name: file.name.clone(),
        text: text.clone(),
    });
    let same = |object: &Object| {
        matches!(object, Object::BaseRepo(read) if read.name == base.name
            && read.at.repo.value == base.at.repo.value
            && read.commit.as_ref().is_some_and(|spanned| spanned.value == commit))
    };
    let before = kinds::read_file(file, &mut findings).len();
    let after = kinds::read_file(&changed, &mut findings);
    (!findings.has_errors() && after.len() == before && after.iter().any(same)).then_some(text)
}

/// The path that a base has in its repository, in one spelling.
pub(super) fn path_of(base: &BaseRepo) -> String {
    let path = &base.at.path;
    source::normal_path(path).unwrap_or_else(|_| path.clone())
}

/// The `BaseRepo` named `main` below `root`.
///
/// # Errors
/// [`PromoteError`] when what is there cannot be read, or there are several: which of them is loaded is then decided by the names of files
/// and by `.sourceignore`.
pub(super) fn base_file(
    opened: &OpenedSource,
    root: &str,
) -> Result<Option<BaseFile>, PromoteError> {
    base_of(root, objects(opened, root)?)
}

/// The same of the one file at `path` in the repository; what stands in others is not read.
///
/// # Errors
/// As [`base_file`].
pub(super) fn base_in(
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
    let bases = all.into_iter().filter_map(|((path, file), object)| {
        let Object::BaseRepo(base) = object else {
            return None;
        };
        let path = match root.as_str() {
            "" => path,
            root => format!("{root}/{path}"),
        };
        (base.name == MAIN).then_some(BaseFile { path, file, base })
    });
    let mut bases = bases.collect::<Vec<_>>().into_iter();
    match (bases.next(), bases.next()) {
        (Some(first), Some(second)) => Err(PromoteError::SeveralBases {
            first: first.base.location.file_line(),
            second: second.base.location.file_line(),
        }),
        (first, _) => Ok(first),
    }
}

/// What `made` does besides moving the environment below `root` to `commit`, in words; `None` where it is such a move and no more.
///
/// # Errors
/// [`PromoteError`] when git fails. What cannot be read as a control plane is no promotion.
pub(super) fn besides_move(
    opened: &OpenedSource,
    root: &str,
    made: &RecordedCommit,
    commit: &str,
) -> Result<Option<String>, PromoteError> {
    let [parent] = made.parents.as_slice() else {
        return Ok(Some("it is a merge, or the first commit".to_owned()));
    };
    let after = opened.at_commit(&made.id);
    let changed = after.changed_files(parent)?;
    if changed.len() > 1 {
        return Ok(Some(format!(
            "it changes {} files, and a promotion only the one with the base",
            changed.len()
        )));
    }
    // Only the file that it changes is read: what was wrong in others then, or is by rules of now, makes it no other commit.
    let base = |opened: &OpenedSource| match changed.first() {
        Some(file) => base_in(opened, root, &file.path),
        None => base_file(opened, root),
    };
    let (before, now) = (read(base(&opened.at_commit(parent)))?, read(base(&after))?);
    let (BaseState::At(before), BaseState::At(now)) = (before, now) else {
        return Ok(Some(
            "it changes another file than the one with the base".to_owned(),
        ));
    };
    if now.pinned() != Some(commit) {
        return Ok(Some("it moves the base to another commit".to_owned()));
    }
    let text = with_commit(&before.file, &before.base, commit);
    let is_move = before.path == now.path && text.is_some_and(|text| text == now.file.text);
    if !is_move {
        return Ok(Some(
            "it changes more in that file than the commit of the base".to_owned(),
        ));
    }
    Ok(changed
        .iter()
        .any(|file| !file.is_content_only)
        .then(|| format!("it changes the mode of `{}`", now.path)))
}

/// What a commit has as its base.
#[derive(Debug)]
pub(super) enum BaseState {
    At(Box<BaseFile>),
    /// There is no `BaseRepo` named `main`.
    Missing,
    /// What is there is not a control plane.
    Unreadable,
}

/// What of an attempt to read a base is an answer; what git or the system refused is an error.
pub(super) fn read(
    found: Result<Option<BaseFile>, PromoteError>,
) -> Result<BaseState, PromoteError> {
    match found {
        // The environment's folder came later than the branch.
        Ok(None) | Err(PromoteError::Source(SourceError::NoSuchPath { .. })) => {
            Ok(BaseState::Missing)
        }
        Err(PromoteError::Source(error)) if !error.is_input() => Err(PromoteError::Source(error)),
        Err(_) => Ok(BaseState::Unreadable),
        Ok(Some(file)) => Ok(BaseState::At(Box::new(file))),
    }
}
