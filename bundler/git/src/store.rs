//! The copy of one remote repository on this machine, to commit in and push from, without a checkout.
//!
//! What comes in: a URL, a branch, and edits by path. What goes out: what the branch holds, a commit, and
//! the push of it, which fails when the branch is no longer where it was read. It decides nothing about
//! what is committed.

use std::collections::BTreeMap;
use std::path::Path;

use crate::address::Address;
use crate::import::{self, Change, NewCommit};
use crate::program::{Credential, Git, ProgramError};
use crate::source::{self, Cache, GitReference, OpenedSource, SourceError, git};

/// Where branches were, in the copy.
const SEEN: &str = "refs/outhaul/seen/";

/// Why the copy could not be made, read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The branch's name would not survive git.
    #[error(
        "`{branch}` cannot be the name of a branch\nhelp: give a name without spaces, `..` or `~`, and none that git uses \
         itself (`HEAD`, `@`, `refs/…`)"
    )]
    BadBranch {
        /// The name.
        branch: String,
    },
    /// The program failed here.
    #[error(transparent)]
    Git(#[from] ProgramError),
    /// The cache folder cannot be made.
    #[error("cannot keep a copy of `{url}` here: {problem}")]
    Folder {
        /// The repository.
        url: String,
        /// What is wrong.
        problem: String,
    },
    /// The repository cannot be read.
    #[error("the platform repository cannot be read")]
    Source(#[from] SourceError),
}

/// The copy.
#[derive(Debug)]
pub struct BranchStore {
    /// What git is given: the URL, or an absolute folder.
    url: String,
    git: Git,
}

impl BranchStore {
    /// A copy of `url` in `cache`; nothing is fetched yet.
    ///
    /// # Errors
    /// [`StoreError`] for what is not a URL, and when there is no place for it.
    pub fn open(
        url: &str,
        cache: &Cache,
        credential: Option<Credential>,
    ) -> Result<Self, StoreError> {
        let local = Path::new(url.strip_prefix("file://").unwrap_or(url));
        let url = if local.is_dir() {
            let absolute = std::path::absolute(local).map_err(|error| SourceError::Unreadable {
                path: local.to_owned(),
                error,
            })?;
            absolute.to_string_lossy().into_owned()
        } else {
            Address::parse(url).map_err(SourceError::from)?.canonical()
        };
        // A token goes to the server that it was given for, and to no other.
        let credential = credential.filter(|credential| url.starts_with(&credential.url));
        let folder = cache.repository(&format!("{url}#publish"));
        if !git::is_repository(&folder) {
            std::fs::create_dir_all(&folder).map_err(|error| StoreError::Folder {
                url: url.clone(),
                problem: format!("`{}`: {error}", folder.display()),
            })?;
            Git::at(&folder).text(&["init", "--quiet", "--bare"])?;
        }
        let git = Git {
            credential,
            ..Git::at(&folder)
        };
        Ok(Self { url, git })
    }

    /// Whether git takes `branch` as a branch's name.
    ///
    /// # Errors
    /// [`StoreError::BadBranch`] when it does not.
    pub fn check_branch(&self, branch: &str) -> Result<(), StoreError> {
        let name = format!("refs/heads/{branch}");
        // Names that git itself means something else by: `HEAD`, `FETCH_HEAD`, `@`, a whole ref, an id of a commit.
        let is_other = branch == "@"
            || branch.starts_with("refs/")
            || branch == "HEAD"
            || branch.ends_with("_HEAD")
            || (branch.len() >= 40 && branch.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let is_good = !is_other
            && !branch.starts_with('-')
            && self.git.text(&["check-ref-format", &name]).is_ok();
        is_good.then_some(()).ok_or_else(|| StoreError::BadBranch {
            branch: branch.to_owned(),
        })
    }

    /// The newest commit of `branch`, brought here; `None` when there is no such branch.
    ///
    /// # Errors
    /// [`StoreError`] when the repository cannot be reached.
    pub fn fetch(&self, branch: &str) -> Result<Option<String>, StoreError> {
        let name = format!("refs/heads/{branch}");
        let asked = ["ls-remote", "--heads", "--", &self.url, &name];
        let listing = self
            .git
            .text(&asked)
            .map_err(|error| unreachable(&self.url, error))?;
        let tip = listing.lines().find_map(|line| {
            let (commit, found) = line.split_once('\t')?;
            (found == name).then(|| commit.to_owned())
        });
        let Some(tip) = tip else { return Ok(None) };
        let has = format!("{tip}^{{tree}}");
        if self.git.text(&["cat-file", "-e", &has]).is_err() {
            let fetch = ["fetch", "--quiet", "--no-tags", "--depth", "1", "--"];
            let arguments: Vec<&str> = fetch
                .into_iter()
                .chain([self.url.as_str(), &name])
                .collect();
            self.git
                .text(&arguments)
                .map_err(|error| unreachable(&self.url, error))?;
            let tip = self.git.text(&["rev-parse", "FETCH_HEAD^{commit}"])?;
            self.remember(branch, &tip);
            return Ok(Some(tip));
        }
        self.remember(branch, &tip);
        Ok(Some(tip))
    }

    /// Where `branch` was when it was last fetched or pushed from here; `None` when it never was, or this copy is a new one.
    pub fn last_seen(&self, branch: &str) -> Option<String> {
        let name = format!("{SEEN}{branch}");
        self.git
            .text(&["rev-parse", "--verify", "--quiet", &name])
            .ok()
    }

    /// Keeps where `branch` is. Without that a person is not told later that it is gone, and nothing else is missing.
    fn remember(&self, branch: &str, commit: &str) {
        let name = format!("{SEEN}{branch}");
        drop(self.git.text(&["update-ref", &name, commit]));
    }

    /// `commit`, which was fetched, to read from.
    ///
    /// # Errors
    /// [`SourceError`] when it is not here.
    pub fn at(&self, commit: &str) -> Result<OpenedSource, SourceError> {
        let reference = GitReference::Commit {
            id: commit.to_owned(),
            near: None,
        };
        source::open_folder(&self.git.folder, &self.url, &reference)
    }

    /// A commit on top of `parent`, not yet pushed. An edit without content removes the file.
    ///
    /// # Errors
    /// [`StoreError::Git`] when git says no.
    pub fn commit(
        &self,
        parent: Option<&str>,
        edits: &BTreeMap<String, Option<Vec<u8>>>,
        message: &str,
    ) -> Result<String, StoreError> {
        self.commit_changes(
            parent,
            edits.iter().map(|(path, new)| {
                let change = new.as_ref().map_or(Change::Remove, |bytes| Change::Write {
                    bytes,
                    executable: false,
                });
                (path.as_str(), change)
            }),
            message,
        )
    }

    /// As [`BranchStore::commit`], where files may be programs.
    ///
    /// # Errors
    /// As [`BranchStore::commit`].
    pub fn commit_changes<'c>(
        &self,
        parent: Option<&str>,
        changes: impl Iterator<Item = (&'c str, Change<'c>)> + Clone,
        message: &str,
    ) -> Result<String, StoreError> {
        let (author, committer) = (
            self.git.text(&["var", "GIT_AUTHOR_IDENT"])?,
            self.git.text(&["var", "GIT_COMMITTER_IDENT"])?,
        );
        let commit = NewCommit {
            reference: None,
            author: Some(&author),
            committer: &committer,
            parent,
            message,
        };
        Ok(import::commit(&self.git, &commit, changes)?)
    }

    /// Moves `branch` from `from` (`None`: it must not exist) to `commit`.
    ///
    /// # Errors
    /// [`ProgramError`] with what git said; see [`crate::branch::was_overtaken`].
    pub fn push(&self, branch: &str, from: Option<&str>, commit: &str) -> Result<(), ProgramError> {
        // Moves nothing but what was read: a branch that is elsewhere by now stays there.
        let from = from.unwrap_or_default();
        let lease = format!("--force-with-lease=refs/heads/{branch}:{from}");
        self.send(&lease, &format!("{commit}:refs/heads/{branch}"))?;
        self.remember(branch, commit);
        Ok(())
    }

    /// Removes `branch`, when it still is at `from`.
    ///
    /// # Errors
    /// As [`BranchStore::push`].
    pub fn remove(&self, branch: &str, from: &str) -> Result<(), ProgramError> {
        let lease = format!("--force-with-lease=refs/heads/{branch}:{from}");
        self.send(&lease, &format!(":refs/heads/{branch}"))?;
        drop(
            self.git
                .text(&["update-ref", "-d", &format!("{SEEN}{branch}")]),
        );
        Ok(())
    }

    fn send(&self, lease: &str, target: &str) -> Result<(), ProgramError> {
        self.git
            .text(&["push", "--quiet", lease, "--", &self.url, target])
            .map(drop)
    }

    /// `commit` as git keeps it: `tree`, `parent`, who, an empty line, the message. Asked for this
    /// way because a shallow copy shows other commands that it has no parent.
    ///
    /// # Errors
    /// [`ProgramError`] when it is not here.
    pub fn raw(&self, commit: &str) -> Result<String, ProgramError> {
        self.git.text(&["cat-file", "commit", commit])
    }
}

/// What a person reads when git could not talk to the server.
pub fn unreachable(url: &str, error: ProgramError) -> SourceError {
    let line = error
        .message
        .lines()
        .find(|line| line.contains("fatal:") || line.contains("error:"))
        .or_else(|| error.message.lines().next())
        .unwrap_or("no message")
        .trim_start_matches("fatal: ")
        .trim_start_matches("error: ")
        .to_owned();
    SourceError::Unreachable {
        url: url.to_owned(),
        message: line,
    }
}
