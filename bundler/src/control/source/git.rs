//! The `git` program, typed: fetch one commit, list its tree, read its files.
//!
//! What comes in: a URL or a local repository, and a [`Reference`]. What goes out: a commit id, and
//! trees of files read from git's own store. Nothing is ever checked out, so no hook, filter or
//! attribute of a foreign repository takes effect; git asks no questions; names that look like
//! options or programs are refused before git sees them.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Reference, SourceError, Tree, TreeFile, TreeLimits};

/// A repository on this machine: bare, a mirror, or a working copy whose files are not looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    folder: PathBuf,
}

/// Whether `dir` itself (not a folder above it) is a git repository.
pub fn is_repository(dir: &Path) -> bool {
    dir.join(".git").exists()
        || (dir.join("HEAD").is_file() && dir.join("objects").is_dir() && dir.join("refs").is_dir())
}

/// Whether `text` is the full id of a commit.
pub fn is_commit_id(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Brings `reference` of `url` into the bare repository `folder`, and says which commit it is. A
/// commit that is there already needs no network.
pub(super) fn fetch(
    url: &str,
    reference: &Reference,
    folder: &Path,
) -> Result<(Repository, String), SourceError> {
    check_url(url)?;
    let repository = Repository::at(folder);
    if let Reference::Commit { id, .. } = reference
        && is_repository(folder)
        && repository.has_commit(id)?
    {
        return Ok((repository, id.clone()));
    }
    if !is_repository(folder) {
        std::fs::create_dir_all(folder).map_err(|error| SourceError::Unreadable {
            path: folder.to_owned(),
            error,
        })?;
        repository.run(&["init", "--quiet", "--bare"])?;
    }
    let attempts: Vec<(String, bool)> = match reference {
        Reference::Head => vec![("HEAD".into(), true)],
        Reference::Branch(name) => vec![(format!("refs/heads/{name}"), true)],
        Reference::Tag(name) => vec![(format!("refs/tags/{name}"), true)],
        // Not every server gives out a bare commit; then the branch it lies on is fetched whole.
        Reference::Commit { id, near } => std::iter::once((id.clone(), true))
            .chain(
                near.iter()
                    .map(|branch| (format!("refs/heads/{branch}"), false)),
            )
            .chain([("refs/heads/*:refs/outhaul/*".to_owned(), false)])
            .collect(),
    };
    let mut last = String::new();
    for (refspec, shallow) in attempts {
        let mut arguments = vec!["fetch", "--quiet", "--no-tags", "--force"];
        if shallow {
            arguments.extend(["--depth", "1"]);
        } else if folder.join("shallow").exists() {
            arguments.push("--unshallow");
        }
        arguments.extend(["--", url, &refspec]);
        match repository.try_run(&arguments)? {
            Ok(_) => {}
            Err(message) => {
                let missing = message.contains("couldn't find remote ref")
                    || message.contains("not our ref")
                    || message.contains("unadvertised object");
                last = message;
                if missing {
                    continue;
                }
                return Err(SourceError::Unreachable {
                    url: url.into(),
                    message: first_line(&last),
                });
            }
        }
        match reference {
            Reference::Commit { id, .. } => {
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
        url: url.into(),
        reference: reference.clone(),
    })
}

pub(crate) fn check_url(url: &str) -> Result<(), SourceError> {
    let scheme_ok = match url.split_once("://") {
        Some((scheme, _)) => matches!(scheme, "https" | "http" | "ssh" | "git" | "file"),
        // `user@host:path`; `ext::…` and its like run programs.
        None => url.contains(':') && !url.contains("::"),
    };
    if url.starts_with('-') || url.contains(char::is_control) || !scheme_ok {
        return Err(SourceError::BadUrl { url: url.into() });
    }
    Ok(())
}

impl Repository {
    /// The repository in `folder`.
    pub fn at(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
        }
    }

    /// Where it lies.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The commit that `reference` names here. A branch that only a clone's `origin` has counts.
    ///
    /// # Errors
    /// [`SourceError::NoSuchReference`], named after `url`, when there is none.
    pub fn resolve(&self, url: &str, reference: &Reference) -> Result<String, SourceError> {
        let candidates = match reference {
            Reference::Head => vec!["HEAD".to_owned()],
            Reference::Branch(name) => {
                vec![
                    format!("refs/heads/{name}"),
                    format!("refs/remotes/origin/{name}"),
                ]
            }
            Reference::Tag(name) => vec![format!("refs/tags/{name}")],
            Reference::Commit { id, .. } => vec![id.clone()],
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
        }
        Err(SourceError::NoSuchReference {
            url: url.into(),
            reference: reference.clone(),
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
            let branch = Reference::Branch(revision.to_owned());
            match self.resolve(url, &branch) {
                Err(SourceError::NoSuchReference { .. }) => {}
                found => return found,
            }
        }
        let id = revision.to_owned();
        self.resolve(url, &Reference::Commit { id, near: None })
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
        remote: Option<&str>,
    ) -> Result<Vec<String>, SourceError> {
        if let Some(url) = remote.filter(|_| self.folder.join("shallow").exists()) {
            let depth = format!("--depth={}", max.max(1));
            let fetched =
                self.try_run(&["fetch", "--quiet", "--no-tags", &depth, "--", url, commit])?;
            if let Err(message) = fetched {
                tracing::debug!(url, message, "no history");
            }
        }
        let count = format!("--max-count={max}");
        let listed = self.run(&["rev-list", &count, "--end-of-options", commit])?;
        Ok(text(&listed).lines().map(str::to_owned).collect())
    }

    /// The files below `path` of `commit` that `wanted` accepts; `None` when that is no folder.
    pub(super) fn tree(
        &self,
        commit: &str,
        path: &str,
        wanted: &dyn Fn(&str) -> bool,
        limits: &TreeLimits,
    ) -> Result<Option<Tree>, SourceError> {
        let root = format!("{commit}:{path}");
        let arguments = ["ls-tree", "-r", "-z", "-l", "--full-tree", &root];
        let Ok(listing) = self.try_run(&arguments)? else {
            return Ok(None);
        };
        let mut tree = Tree::default();
        let mut entries = Vec::new();
        let mut total = 0u64;
        for line in listing.split(|b| *b == 0).filter(|line| !line.is_empty()) {
            let entry = parse_entry(line)?;
            let is_wanted = wanted(&entry.path);
            if entry.mode != "100644" && entry.mode != "100755" {
                tree.skipped.push(entry.path);
                continue;
            }
            if !is_wanted {
                continue;
            }
            total = total.saturating_add(entry.size);
            if entry.size > limits.max_file_bytes {
                let what = format!("`{}`", entry.path);
                return Err(SourceError::TooLarge {
                    what,
                    limit: limits.max_file_bytes,
                    unit: "bytes",
                });
            }
            if total > limits.max_total_bytes || entries.len() >= limits.max_files {
                let what = format!("tree `{root}`");
                return Err(SourceError::TooLarge {
                    what,
                    limit: limits.max_total_bytes,
                    unit: "bytes",
                });
            }
            entries.push(entry);
        }
        tree.files = self.read(entries)?;
        tree.files.sort_by(|a, b| a.path.cmp(&b.path));
        tree.skipped.sort();
        Ok(Some(tree))
    }

    /// Reads every entry through one `cat-file --batch`.
    fn read(&self, entries: Vec<Entry>) -> Result<Vec<TreeFile>, SourceError> {
        let broken = |message: String| SourceError::Git { message };
        if entries.is_empty() {
            return Ok(Vec::new());
        }
        let mut child = self
            .command(&["cat-file", "--batch"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| broken(error.to_string()))?;
        let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(broken("no pipe to `git cat-file`".into()));
        };
        let mut output = BufReader::new(output);
        let mut files = Vec::with_capacity(entries.len());
        for entry in entries {
            // One question, one answer: neither pipe can fill up while the other waits.
            writeln!(input, "{}", entry.id)
                .and_then(|()| input.flush())
                .map_err(|error| broken(format!("cat-file: {error}")))?;
            let mut header = String::new();
            output
                .read_line(&mut header)
                .map_err(|error| broken(format!("cat-file: {error}")))?;
            let expected = format!("{} blob {}\n", entry.id, entry.size);
            if header != expected {
                return Err(broken(format!(
                    "`{}` cannot be read: {}",
                    entry.path,
                    header.trim()
                )));
            }
            let mut bytes = vec![0; usize::try_from(entry.size).unwrap_or(usize::MAX)];
            let mut newline = [0];
            output
                .read_exact(&mut bytes)
                .and_then(|()| output.read_exact(&mut newline))
                .map_err(|error| broken(format!("cat-file: {error}")))?;
            files.push(TreeFile {
                path: entry.path,
                bytes,
                executable: entry.mode == "100755",
            });
        }
        drop(input);
        let status = child.wait().map_err(|error| broken(error.to_string()))?;
        if !status.success() {
            return Err(broken(format!("`git cat-file` ended with {status}")));
        }
        Ok(files)
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
        let output = self
            .command(arguments)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| SourceError::Git {
                message: format!("cannot start the `git` program: {error}"),
            })?;
        if output.status.success() {
            return Ok(Ok(output.stdout));
        }
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        // A mirror owned by somebody else is a matter of the machine, not of a missing branch.
        if message.contains("dubious ownership") {
            return Err(SourceError::Git {
                message: first_line(&message),
            });
        }
        Ok(Err(message))
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = plain();
        command.arg("-C").arg(&self.folder).args(arguments);
        command
    }
}

/// The `git` program as every part of Outhaul starts it: of no repository yet, asking nothing, running
/// no hook and no foreign helper.
pub(crate) fn plain() -> Command {
    let mut command = Command::new("git");
    for name in [
        "GIT_DIR",
        "GIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_OBJECT_DIRECTORY",
    ] {
        command.env_remove(name);
    }
    command
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("LC_ALL", "C")
        .args(["-c", "core.hooksPath=/dev/null"])
        .args(["-c", "protocol.ext.allow=never", "-c", "gc.auto=0"])
        // A server that says nothing for half a minute is not there.
        .args(["-c", "http.lowSpeedLimit=1", "-c", "http.lowSpeedTime=30"]);
    command
}

struct Entry {
    mode: String,
    id: String,
    size: u64,
    path: String,
}

/// `<mode> SP <type> SP <id> SP+ <size> TAB <path>`.
fn parse_entry(line: &[u8]) -> Result<Entry, SourceError> {
    let line = String::from_utf8_lossy(line);
    let broken = || SourceError::Git {
        message: format!("cannot read the tree entry `{line}`"),
    };
    let (head, path) = line.split_once('\t').ok_or_else(broken)?;
    let fields: Vec<&str> = head.split_whitespace().collect();
    let [mode, _kind, id, size] = fields.as_slice() else {
        return Err(broken());
    };
    // Submodules have `-` for a size.
    let size = size.parse().unwrap_or(0);
    Ok(Entry {
        mode: (*mode).into(),
        id: (*id).into(),
        size,
        path: path.into(),
    })
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
