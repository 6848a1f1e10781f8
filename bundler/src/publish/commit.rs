//! The copy of a platform repository on this machine: read, commit, push, without a checkout.
//!
//! What comes in: a URL, a branch, and the edits of a [`super::Plan`]. What goes out: what the branch
//! holds, a commit, and the push of it, which fails when the branch is no longer where it was read.
//! All edits go through one `git fast-import`, however many files. It decides nothing.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;

use super::plan::{self, There};
use super::record;
use super::{Credential, Desired, PublishError};
use crate::address::Address;
use crate::control::source::{self, Cache, Reference, SourceError, TreeLimits, git};
use crate::deliver::program::{Git, ProgramError};

/// Where commits are made before they are pushed. The name ends in the process and a number.
const SCRATCH: &str = "refs/outhaul/publish";

#[derive(Debug)]
pub(super) struct Store {
    /// What git is given: the URL, or an absolute folder.
    url: String,
    git: Git,
}

impl Store {
    pub fn open(
        url: &str,
        cache: &Cache,
        credential: Option<Credential>,
    ) -> Result<Self, PublishError> {
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
            std::fs::create_dir_all(&folder).map_err(|error| PublishError::Store {
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

    pub fn check_branch(&self, branch: &str) -> Result<(), PublishError> {
        let bad = |_| PublishError::BadBranch {
            branch: branch.to_owned(),
        };
        if branch.starts_with('-') {
            return Err(PublishError::BadBranch {
                branch: branch.to_owned(),
            });
        }
        let name = format!("refs/heads/{branch}");
        self.git
            .text(&["check-ref-format", &name])
            .map(drop)
            .map_err(bad)
    }

    /// The newest commit of `branch`, brought here; `None` when there is no such branch.
    pub fn fetch(&self, branch: &str) -> Result<Option<String>, PublishError> {
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
            return Ok(Some(self.git.text(&["rev-parse", "FETCH_HEAD^{commit}"])?));
        }
        Ok(Some(tip))
    }

    /// What `commit` holds below `root`, as far as it matters for `desired`.
    pub fn read(
        &self,
        commit: &str,
        root: &str,
        desired: &Desired<'_>,
    ) -> Result<There, PublishError> {
        let reference = Reference::Commit {
            id: commit.to_owned(),
            near: None,
        };
        let opened = source::open_folder(&self.git.folder, &self.url, &reference)?;
        let only = |wanted: &dyn Fn(&str) -> bool| match opened.tree(root, wanted, &LIMITS) {
            Err(SourceError::NoSuchPath { .. }) => Ok(source::Tree::default()),
            other => other,
        };
        let mut there = There::default();
        let record = only(&|path| path == record::PATH)?.files.pop();
        let owned: BTreeSet<String> = match &record {
            // Its content is judged where the plan is made.
            Some(file) => record::Record::parse(&file.bytes)
                .map(|record| record.files.into_keys().collect())
                .unwrap_or_default(),
            None => BTreeSet::new(),
        };
        there.record = record.map(|file| file.bytes);
        let others = RefCell::new(BTreeSet::new());
        let found = only(&|path| {
            let matters = owned.contains(path)
                || desired.tree.contains_key(path)
                || (desired.adopt && plan::is_kalypsos(path));
            if !matters && path != record::PATH {
                others.borrow_mut().insert(path.to_owned());
            }
            matters
        })?;
        there.others = others.into_inner();
        there.others.extend(found.skipped);
        let files = found.files.into_iter();
        there.files = files.map(|file| (file.path, file.bytes)).collect();
        self.root_is_free(&opened, root)?;
        Ok(there)
    }

    /// A file of somebody else must not stand where the published folder would be.
    fn root_is_free(&self, opened: &source::Opened, root: &str) -> Result<(), PublishError> {
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

    /// A commit on top of `parent`, not yet pushed.
    pub fn commit(
        &self,
        parent: Option<&str>,
        edits: &BTreeMap<String, Option<Vec<u8>>>,
        message: &str,
    ) -> Result<String, PublishError> {
        let (author, committer) = (
            self.git.text(&["var", "GIT_AUTHOR_IDENT"])?,
            self.git.text(&["var", "GIT_COMMITTER_IDENT"])?,
        );
        let scratch = format!("{SCRATCH}-{}-{:p}", std::process::id(), edits);
        let made = self
            .git
            .feed(&["fast-import", "--quiet", "--done", "--force"], |git| {
                writeln!(
                    git,
                    "commit {scratch}\nauthor {author}\ncommitter {committer}"
                )?;
                data(git, message.as_bytes())?;
                if let Some(parent) = parent {
                    writeln!(git, "from {parent}")?;
                }
                // What goes goes first: a file may become a folder.
                for path in edits
                    .iter()
                    .filter(|(_, new)| new.is_none())
                    .map(|(p, _)| p)
                {
                    writeln!(git, "D {}", quoted(path))?;
                }
                for (path, bytes) in edits {
                    if let Some(bytes) = bytes {
                        writeln!(git, "M 100644 inline {}", quoted(path))?;
                        data(git, bytes)?;
                    }
                }
                writeln!(git, "done")
            });
        let commit = made.and_then(|_| self.git.text(&["rev-parse", "--verify", &scratch]));
        let _ = self.git.text(&["update-ref", "-d", &scratch]);
        Ok(commit?)
    }

    /// Moves `branch` from `from` (`None`: it must not exist) to `commit`.
    pub fn push(&self, branch: &str, from: Option<&str>, commit: &str) -> Result<(), ProgramError> {
        // Moves nothing but what was read: a branch that is elsewhere by now stays there.
        let from = from.unwrap_or_default();
        let lease = format!("--force-with-lease=refs/heads/{branch}:{from}");
        let target = format!("{commit}:refs/heads/{branch}");
        let arguments = ["push", "--quiet", &lease, "--", &self.url, &target];
        self.git.text(&arguments).map(drop)
    }

    /// Removes `branch`, when it still is at `from`.
    pub fn remove(&self, branch: &str, from: &str) -> Result<(), ProgramError> {
        let lease = format!("--force-with-lease=refs/heads/{branch}:{from}");
        let target = format!(":refs/heads/{branch}");
        let arguments = ["push", "--quiet", &lease, "--", &self.url, &target];
        self.git.text(&arguments).map(drop)
    }

    /// `commit` as git keeps it: `tree`, `parent`, who, an empty line, the message. Asked for this
    /// way because a shallow copy tells other commands that it has no parent.
    pub fn raw(&self, commit: &str) -> Result<String, ProgramError> {
        self.git.text(&["cat-file", "commit", commit])
    }
}

/// For platform repositories: what they hold is rendered, and read back whole.
const LIMITS: TreeLimits = TreeLimits {
    max_file_bytes: 64 << 20,
    max_total_bytes: 1 << 30,
    max_files: 500_000,
};

/// A path as `fast-import` takes it, whatever is in it.
fn quoted(path: &str) -> String {
    let mut text = String::from('"');
    for character in path.chars() {
        match character {
            '"' | '\\' => text.extend(['\\', character]),
            '\n' => text.push_str("\\n"),
            other => text.push(other),
        }
    }
    text.push('"');
    text
}

fn data(git: &mut dyn Write, bytes: &[u8]) -> std::io::Result<()> {
    writeln!(git, "data {}", bytes.len())?;
    git.write_all(bytes)?;
    git.write_all(b"\n")
}

/// What a person reads when git could not talk to the server.
pub(super) fn unreachable(url: &str, error: ProgramError) -> PublishError {
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
    .into()
}
