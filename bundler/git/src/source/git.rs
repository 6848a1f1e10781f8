//! The `git` program, typed: fetch one commit, list its tree, read its files.
//!
//! What comes in: a [`Remote`] or a local repository, and a [`GitReference`]. What goes out: a commit id,
//! and trees of files read from git's own store. Nothing is ever checked out, so no hook, filter or
//! attribute of a foreign repository takes effect; git asks no questions; what a repository holds is
//! counted while git lists it, and git is ended when it is too much.

use std::collections::BTreeMap;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{GitReference, SourceError};

mod packed;
mod program;
mod remote;
mod tree;

pub use packed::Packed;
use program::{Bounds, GitOutput};
pub use program::{keep_local, plain};
pub use remote::Remote;

/// A repository on this machine: bare, a mirror, or a working copy whose files are not looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    folder: PathBuf,
    /// Where objects are looked for besides: folders with objects.
    others: Vec<PathBuf>,
}

/// Whether `dir` itself (not a folder above it) is a git repository.
pub fn is_repository(dir: &Path) -> bool {
    dir.join(".git").exists()
        || (dir.join("HEAD").is_file() && dir.join("objects").is_dir() && dir.join("refs").is_dir())
}

/// Whether `name` can be that of a branch or tag: what git takes for an expression (`main~1`, `a:b`,
/// `main@{1 year ago}`, `*`) is none.
fn is_ref_name(name: &str) -> bool {
    let parts = name.split('/');
    let sound = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && !part.ends_with('.')
            && !part.ends_with(".lock")
    };
    !name.contains(|c: char| c.is_control() || " ~^:?*[\\".contains(c))
        && !name.contains("..")
        && !name.contains("@{")
        && parts.clone().all(sound)
}

impl GitReference {
    /// Nothing, or that `url` has no such branch or tag, because none can be called so.
    fn checked(&self, url: &str) -> Result<(), SourceError> {
        match self {
            Self::Branch(name) | Self::Tag(name) if !is_ref_name(name) => {
                Err(SourceError::NoSuchReference {
                    url: url.to_owned(),
                    reference: self.clone(),
                    known: Vec::new(),
                })
            }
            Self::Commit {
                near: Some(near), ..
            } if !is_ref_name(near) => Self::Branch(near.clone()).checked(url),
            _ => Ok(()),
        }
    }
}

/// Brings `reference` of `remote` into the bare repository `folder`, and says which commit it is. A
/// commit that is there already needs no network.
pub(super) fn fetch(
    remote: &Remote,
    reference: &GitReference,
    folder: &Path,
) -> Result<(Repository, String), SourceError> {
    let url = remote.shown();
    reference.checked(&url)?;
    let repository = Repository::at(folder);
    if let GitReference::Commit { id, .. } = reference
        && is_repository(folder)
        && repository.has_commit(id)?
    {
        return Ok((repository, id.clone()));
    }
    repository.init()?;
    let attempts: Vec<(String, bool)> = match reference {
        GitReference::Head => vec![("HEAD".into(), true)],
        GitReference::Branch(name) => vec![(format!("refs/heads/{name}"), true)],
        GitReference::Tag(name) => vec![(format!("refs/tags/{name}"), true)],
        // Not every server gives out a bare commit; then the branch it lies on is fetched whole.
        GitReference::Commit { id, near } => std::iter::once((id.clone(), true))
            .chain(
                near.iter()
                    .map(|branch| (format!("refs/heads/{branch}"), false)),
            )
            .chain([("refs/heads/*:refs/outhaul/*".to_owned(), false)])
            .collect(),
    };
    let mut last = String::new();
    for (refspec, shallow) in attempts {
        let mut arguments = vec!["--force"];
        if shallow {
            arguments.extend(["--depth", "1"]);
        } else if folder.join("shallow").exists() {
            arguments.push("--unshallow");
        }
        match repository.fetch_from(remote, &arguments, &refspec)? {
            Ok(()) => {}
            Err(message) => {
                let missing = message.contains("couldn't find remote ref")
                    || message.contains("not our ref")
                    || message.contains("unadvertised object");
                last = message;
                if missing {
                    continue;
                }
                return Err(SourceError::Unreachable {
                    url,
                    message: first_line(&last),
                });
            }
        }
        match reference {
            GitReference::Commit { id, .. } => {
                if repository.has_commit(id)? {
                    return Ok((repository, id.clone()));
                }
            }
            _ => {
                let commit = repository.run(&["rev-parse", "--verify", "FETCH_HEAD^{commit}"])?;
                return Ok((repository, text(&commit)));
            }
        }
    }
    tracing::debug!(url, message = last, "no such reference");
    Err(SourceError::NoSuchReference {
        url,
        reference: reference.clone(),
        known: Vec::new(),
    })
}

impl Repository {
    /// The repository in `folder`.
    pub fn at(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            others: Vec::new(),
        }
    }

    /// The same, which has the objects of `others`, too.
    ///
    /// # Errors
    /// [`SourceError`] when one of them is not a repository.
    pub fn with<'r>(
        mut self,
        others: impl IntoIterator<Item = &'r Path>,
    ) -> Result<Self, SourceError> {
        for other in others {
            let path = Self::at(other).run(&["rev-parse", "--git-path", "objects"])?;
            let path = other.join(text(&path));
            let absolute = std::path::absolute(&path);
            self.others.push(absolute.unwrap_or(path));
        }
        Ok(self)
    }

    /// Where it lies.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The commit that `reference` names here. A branch that only a clone's `origin` has counts.
    ///
    /// # Errors
    /// [`SourceError::NoSuchReference`], named after `url`, when there is none.
    pub fn resolve(&self, url: &str, reference: &GitReference) -> Result<String, SourceError> {
        reference.checked(url)?;
        let candidates = match reference {
            GitReference::Head => vec!["HEAD".to_owned()],
            GitReference::Branch(name) => {
                vec![
                    format!("refs/heads/{name}"),
                    format!("refs/remotes/origin/{name}"),
                ]
            }
            GitReference::Tag(name) => vec![format!("refs/tags/{name}")],
            GitReference::Commit { id, .. } => vec![id.clone()],
        };
        for candidate in candidates {
            let wanted = format!("{candidate}^{{commit}}");
            let arguments = [
                "rev-parse",
                "--quiet",
                "--verify",
                "--end-of-options",
                &wanted,
            ];
            if let Ok(output) = self.try_run(&arguments)? {
                return Ok(text(&output));
            }
            if let Some(message) = self.damage(&candidate)? {
                let what = format!("{reference} of repository `{url}`");
                return Err(SourceError::DamagedCommit { what, message });
            }
        }
        let heads = match reference {
            GitReference::Branch(_) => {
                self.try_run(&["for-each-ref", "refs/heads", "refs/remotes/origin"])?
            }
            _ => Ok(Vec::new()),
        };
        Err(SourceError::NoSuchReference {
            url: url.into(),
            reference: reference.clone(),
            known: branches(&heads.unwrap_or_default()),
        })
    }

    /// What is wrong with the commit that `name` leads to, where something is; `None` where nothing is called so.
    fn damage(&self, name: &str) -> Result<Option<String>, SourceError> {
        let commit = format!("{name}^{{commit}}");
        let read = self.try_run(&["rev-parse", "--verify", "--end-of-options", &commit])?;
        let Err(said) = read else { return Ok(None) };
        let named =
            self.try_run(&["rev-parse", "--verify", "--quiet", "--end-of-options", name])?;
        let named = named.ok().map(|id| text(&id)).filter(|id| !id.is_empty());
        // Of what is not there git says one line, and names no error.
        let error = said.lines().find_map(|line| line.strip_prefix("error: "));
        Ok(match (named, error) {
            (Some(id), Some(error)) => Some(format!("commit {id} is damaged ({error})")),
            (Some(id), None) if name.starts_with("refs/") => {
                Some(format!("commit {id}, which it names, is not there"))
            }
            _ => None,
        })
    }

    /// The commit that `revision` names here, in any way that git knows: a branch, `HEAD~1`, part of
    /// an id.
    ///
    /// # Errors
    /// [`SourceError::NoSuchReference`], named after `url`, when there is none.
    pub fn revision(&self, url: &str, revision: &str) -> Result<String, SourceError> {
        // In a clone there is a branch of this name on the other side, which is not meant.
        if revision != "HEAD" {
            let branch = GitReference::Branch(revision.to_owned());
            match self.resolve(url, &branch) {
                Err(SourceError::NoSuchReference { .. }) => {}
                found => return found,
            }
        }
        let id = revision.to_owned();
        self.resolve(url, &GitReference::Commit { id, near: None })
    }

    /// Whether `ancestor` is `commit` or one of those that it follows.
    ///
    /// # Errors
    /// [`SourceError::Git`] when git cannot be started.
    pub fn follows(&self, ancestor: &str, commit: &str) -> Result<bool, SourceError> {
        let arguments = [
            "merge-base",
            "--is-ancestor",
            "--end-of-options",
            ancestor,
            commit,
        ];
        Ok(self.try_run(&arguments)?.is_ok())
    }

    /// `commit` and those before it, the newest first, at most `max`. With `remote` what is not here yet
    /// is fetched from there, as far as the server gives it.
    pub(super) fn history(
        &self,
        commit: &str,
        max: usize,
        remote: Option<&Remote>,
    ) -> Result<Vec<String>, SourceError> {
        self.deepen(commit, max, remote)?;
        let count = format!("--max-count={max}");
        let listed = self.run(&["rev-list", &count, "--end-of-options", commit])?;
        Ok(text(&listed).lines().map(str::to_owned).collect())
    }

    /// Fetches `commit` and those before it, `max` deep, where not all are here. Returns what git complained of.
    pub(super) fn deepen(
        &self,
        commit: &str,
        max: usize,
        remote: Option<&Remote>,
    ) -> Result<Option<String>, SourceError> {
        let Some(remote) = remote.filter(|_| self.folder.join("shallow").exists()) else {
            return Ok(None);
        };
        let depth = format!("--depth={}", max.max(1));
        let Err(message) = self.fetch_from(remote, &[&depth], commit)? else {
            return Ok(None);
        };
        tracing::debug!(url = remote.shown(), message, "no history");
        Ok(Some(message))
    }

    /// A commit at which the history of `commit` ends here although others come before it.
    pub(super) fn ends_early(&self, commit: &str) -> Result<Option<String>, SourceError> {
        let ends = ["rev-list", "--max-parents=0", "--end-of-options", commit];
        let listed = text(&self.run(&ends)?);
        for id in listed.lines() {
            // What is kept of the commit has its parents also where a shallow copy hides them.
            let kept = text(&self.run(&["cat-file", "commit", id])?);
            let mut fields = kept.lines().take_while(|line| !line.is_empty());
            if fields.any(|line| line.starts_with("parent ")) {
                return Ok(Some(id.to_owned()));
            }
        }
        Ok(None)
    }

    /// Makes it when it is not there, as a bare repository.
    ///
    /// # Errors
    /// [`SourceError`] when the folder cannot be made, or git cannot.
    pub fn init(&self) -> Result<(), SourceError> {
        if is_repository(&self.folder) {
            return Ok(());
        }
        // What is private at its server is private here.
        let mut folder = std::fs::DirBuilder::new();
        folder.recursive(true).mode(0o700);
        let made = folder.create(&self.folder);
        made.map_err(|error| SourceError::Unreadable {
            path: self.folder.clone(),
            error,
        })?;
        self.run(&["init", "--quiet", "--bare"]).map(drop)
    }

    /// `git fetch` of `refspec`: nothing, or what git complained of.
    ///
    /// # Errors
    /// [`SourceError`] when git cannot be started.
    pub fn fetch_from(
        &self,
        remote: &Remote,
        options: &[&str],
        refspec: &str,
    ) -> Result<Result<(), String>, SourceError> {
        if let Some(problem) = remote.unresolved() {
            return Ok(Err(problem));
        }
        let mut command = plain();
        remote.confine(&mut command);
        command.arg("-C").arg(&self.folder);
        command.args(["fetch", "--quiet", "--no-tags", "--no-recurse-submodules"]);
        command.args(options).args(["--", remote.url(), refspec]);
        let bounds = Bounds {
            watched: Some(&self.folder),
            ..Bounds::FETCH
        };
        let ended = program::run(command, &bounds, &remote.shown())?;
        Ok(self.outcome_of(ended)?.map(drop))
    }

    fn has_commit(&self, id: &str) -> Result<bool, SourceError> {
        let wanted = format!("{id}^{{commit}}");
        Ok(self.try_run(&["cat-file", "-e", &wanted])?.is_ok())
    }

    /// Runs git, expecting success.
    pub(super) fn run(&self, arguments: &[&str]) -> Result<Vec<u8>, SourceError> {
        self.try_run(arguments)?
            .map_err(|message| SourceError::Git {
                message: format!(
                    "{}: {}",
                    arguments.first().unwrap_or(&""),
                    first_line(&message)
                ),
            })
    }

    /// Runs git: its output, or what it complained of.
    pub(super) fn try_run(
        &self,
        arguments: &[&str],
    ) -> Result<Result<Vec<u8>, String>, SourceError> {
        self.try_run_with(arguments, &BTreeMap::new())
    }

    /// The same, with these settings before the repository's own.
    pub(super) fn try_run_with(
        &self,
        arguments: &[&str],
        settings: &BTreeMap<String, &str>,
    ) -> Result<Result<Vec<u8>, String>, SourceError> {
        let what = self.folder.display().to_string();
        let mut command = self.command(arguments);
        if !settings.is_empty() {
            command.env("GIT_CONFIG_COUNT", settings.len().to_string());
        }
        for (at, (key, value)) in settings.iter().enumerate() {
            command
                .env(format!("GIT_CONFIG_KEY_{at}"), key)
                .env(format!("GIT_CONFIG_VALUE_{at}"), value);
        }
        self.outcome_of(program::run(command, &Bounds::LOCAL, &what)?)
    }

    fn outcome_of(&self, ended: GitOutput) -> Result<Result<Vec<u8>, String>, SourceError> {
        let GitOutput {
            success,
            stdout,
            message,
        } = ended;
        if success {
            return Ok(Ok(stdout));
        }
        // A mirror owned by someone else is a matter of the machine, not of a missing branch.
        if message.contains("dubious ownership") {
            return Err(SourceError::Git {
                message: first_line(&message),
            });
        }
        Ok(Err(message))
    }

    /// A command that reads this repository and nothing else, whatever its settings say.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = plain();
        keep_local(&mut command);
        if let Ok(others) = std::env::join_paths(&self.others)
            && !others.is_empty()
        {
            command.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", others);
        }
        command.arg("-C").arg(&self.folder).args(arguments);
        command
    }
}

/// Names of branches in what git lists: lines that end in a reference. At most 1,000.
fn branches(listing: &[u8]) -> Vec<String> {
    let listing = String::from_utf8_lossy(listing);
    let named = listing.lines().filter_map(|line| {
        let reference = line.split_whitespace().next_back()?;
        let name = reference
            .strip_prefix("refs/heads/")
            .or_else(|| reference.strip_prefix("refs/remotes/origin/"))?;
        (name != "HEAD").then(|| name.to_owned())
    });
    let named: std::collections::BTreeSet<String> = named.take(1000).collect();
    named.into_iter().collect()
}

pub(super) fn text(output: &[u8]) -> String {
    String::from_utf8_lossy(output).trim().to_owned()
}

/// The line that says what is wrong, without git's own prefix.
fn first_line(message: &str) -> String {
    let line = message
        .lines()
        .find(|line| line.starts_with("fatal:") || line.starts_with("error:"))
        .or_else(|| message.lines().next())
        .unwrap_or("no message");
    line.trim_start_matches("fatal: ")
        .trim_start_matches("error: ")
        .trim()
        .to_owned()
}
