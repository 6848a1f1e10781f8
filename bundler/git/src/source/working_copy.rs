//! Working copies: what is edited in one, and reading it as it is.
//!
//! What comes in: a local folder with a git repository and a reference. What goes out: the files that are
//! edited and not committed, or, where someone asks for it, a source of the files as they are in place of
//! the commit that is checked out. A working copy is never changed, not even git's index of it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::git::{Repository, text};
use super::{GitReference, OpenedSource, SourceError, SourceMap, Storage, folder, open_folder};

/// Opens a local folder, or the working copy in it where that is asked for.
pub(super) fn open_here(
    dir: &Path,
    url: &str,
    reference: &GitReference,
    map: &SourceMap,
) -> Result<OpenedSource, SourceError> {
    let opened = open_folder(dir, url, reference)?;
    let Storage::Git(repository) = &opened.at else {
        return Ok(opened);
    };
    if !map.working_copies || !repository.has_checked_out(&opened.commit) {
        return Ok(opened);
    }
    let (digest, listing) = folder::open_files(dir, repository.files()?)?;
    Ok(OpenedSource {
        url: url.into(),
        commit: digest.to_string(),
        at: Storage::Folder(dir.to_owned(), Some(Arc::new(listing))),
        remote: None,
    })
}

impl OpenedSource {
    /// The files of the working copy that this was opened from whose content is not in its commit, when
    /// `reference` is what it has checked out; at most `max`, each with how many there are.
    pub fn uncommitted(
        &self,
        reference: &GitReference,
        max: usize,
    ) -> Option<(Vec<String>, usize)> {
        match &self.at {
            Storage::Git(repository) if self.remote.is_none() => {
                repository.uncommitted(reference, max)
            }
            _ => None,
        }
    }
}

impl Repository {
    /// Whether this is a working copy that has `commit` checked out.
    pub fn has_checked_out(&self, commit: &str) -> bool {
        let head = || self.try_run(&["rev-parse", "--verify", "HEAD^{commit}"]);
        self.folder().join(".git").exists()
            && head().is_ok_and(|head| head.is_ok_and(|head| text(&head) == commit))
    }

    /// The files of this working copy, new ones too; not those that git is to ignore.
    ///
    /// # Errors
    /// [`SourceError::Git`] when git fails.
    pub fn files(&self) -> Result<Vec<String>, SourceError> {
        let listed = self.run(&[
            "ls-files",
            "--cached",
            "--others",
            "--exclude-standard",
            "--deduplicate",
            "-z",
        ])?;
        let paths = listed.split(|b| *b == 0).filter(|path| !path.is_empty());
        Ok(paths
            .map(|path| String::from_utf8_lossy(path).into_owned())
            .collect())
    }

    /// The files of this working copy that differ from the commit that it has checked out, at most `max`,
    /// and how many they are; `None` when there are none, or `reference` is not what it has checked out.
    pub fn uncommitted(
        &self,
        reference: &GitReference,
        max: usize,
    ) -> Option<(Vec<String>, usize)> {
        if !self.folder().join(".git").exists() {
            return None;
        }
        let branch = || self.try_run(&["symbolic-ref", "--quiet", "--short", "HEAD"]);
        let checked_out = match reference {
            GitReference::Head => true,
            GitReference::Branch(name) => branch().ok()?.is_ok_and(|out| text(&out) == *name),
            GitReference::Tag(_) | GitReference::Commit { .. } => false,
        };
        if !checked_out {
            return None;
        }
        let arguments = ["status", "--porcelain", "-z", "--no-renames"];
        // It would otherwise write its index again: a working copy is never touched.
        let arguments = [&["--no-optional-locks"], &arguments[..]].concat();
        let settings = self.without_filters();
        let status = self.try_run_with(&arguments, &settings);
        let status = status.ok()?.ok()?;
        let lines: Vec<_> = status.split(|b| *b == 0).collect();
        let files = lines.iter().filter_map(|line| line.get(3..));
        let files: Vec<String> = files
            .map(|path| String::from_utf8_lossy(path).into_owned())
            .collect();
        let count = files.len();
        (count > 0).then(|| (files.into_iter().take(max).collect(), count))
    }

    /// Settings without the filters of files that the repository's own settings name, which git would run to compare a
    /// file that was changed: whoever made the folder wrote them. Those that the person's settings name, such as Git
    /// LFS, are theirs.
    fn without_filters(&self) -> BTreeMap<String, &'static str> {
        let arguments = [
            "config",
            "--show-scope",
            "--name-only",
            "-z",
            "--get-regexp",
            r"^filter\.",
        ];
        let Ok(Ok(listed)) = self.try_run(&arguments) else {
            return BTreeMap::new();
        };
        let listed = String::from_utf8_lossy(&listed).into_owned();
        let fields: Vec<&str> = listed.split('\0').collect();
        let own = fields
            .chunks_exact(2)
            .filter(|pair| !matches!(pair[0], "system" | "global" | "command"));
        let names = own.filter_map(|pair| Some(pair[1].rsplit_once('.')?.0));
        let empty = [("clean", ""), ("process", ""), ("required", "false")];
        names
            .flat_map(|name| empty.map(|(what, value)| (format!("{name}.{what}"), value)))
            .collect()
    }
}
