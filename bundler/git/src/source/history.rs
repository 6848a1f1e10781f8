//! What came before the commit that a source is opened at.
//!
//! What comes in: an [`OpenedSource`] source and how far to look back. What goes out: commits, the newest
//! first, who made them, and the lines that changed. Only comparisons with the past need it: a render reads one commit.

use super::git::text;
use super::{OpenedSource, SourceError, Storage};

/// Largest text of changed lines that is read, in bytes.
const MAX_DIFF_BYTES: usize = 256 * 1024;

/// The depth by which git fetches all that there is.
const WHOLE_DEPTH: usize = 0x7fff_ffff;

/// One commit, as people know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitSummary {
    /// Its id.
    pub id: String,
    /// The commit before it on the same branch; `None` for a first one, and where the copy here ends.
    pub before: Option<String>,
    /// Whether it brings another branch in, and stands for all of it.
    pub is_merge: bool,
    /// Who wrote it.
    pub author: String,
    /// When, as ISO 8601.
    pub at: String,
    /// The first line of its message.
    pub subject: String,
}

/// One commit as it is kept: what it follows, and its whole message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedCommit {
    /// Its id.
    pub id: String,
    /// The commits that it follows; none where the copy here ends.
    pub parents: Vec<String>,
    /// Its message.
    pub message: String,
}

/// One file that differs between two commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedFile {
    /// Its path.
    pub path: String,
    /// Whether it is there in both, of one kind and with the same permissions: only its content differs.
    pub is_content_only: bool,
}

impl OpenedSource {
    /// The same repository at another of its commits.
    #[must_use]
    pub fn at_commit(&self, id: &str) -> Self {
        Self {
            commit: id.to_owned(),
            ..self.clone()
        }
    }

    /// Its commit and the ones before it on its line (of a merge, the branch that was merged into) after commit `after` that have a line of
    /// their message that matches `line`, a pattern of `git log --grep`, the newest first; of at most `max`. Empty for a plain folder.
    ///
    /// # Errors
    /// [`SourceError`] when git fails.
    pub fn recorded(
        &self,
        line: &str,
        after: Option<&str>,
        max: usize,
    ) -> Result<Vec<RecordedCommit>, SourceError> {
        let grep = format!("--grep={line}");
        let without = after.map(|after| format!("^{after}"));
        self.line(&["--first-parent", &grep], without.as_deref(), None, max)
    }

    /// The same of every commit before it, those of merged branches as well, however many there are; of those that match at most `max`.
    /// [`Self::missing_history`] says whether all were there to look at.
    ///
    /// # Errors
    /// [`SourceError`] when git fails.
    pub fn recorded_anywhere(
        &self,
        line: &str,
        max: usize,
    ) -> Result<Vec<RecordedCommit>, SourceError> {
        if let Storage::Git(repository) = &self.at {
            repository.deepen(&self.commit, WHOLE_DEPTH, self.remote())?;
        }
        let grep = format!("--grep={line}");
        self.logged(&[&grep], None, None, max)
    }

    /// Why not every commit before this one is here; `None` where all are, and for a plain folder.
    ///
    /// # Errors
    /// [`SourceError`] when git cannot be started.
    pub fn missing_history(&self) -> Result<Option<String>, SourceError> {
        let Storage::Git(repository) = &self.at else {
            return Ok(None);
        };
        if repository.ends_early(&self.commit)?.is_none() {
            return Ok(None);
        }
        let problem = repository.deepen(&self.commit, WHOLE_DEPTH, self.remote())?;
        let Some(end) = repository.ends_early(&self.commit)? else {
            return Ok(None);
        };
        let fetched = problem.map(|problem| format!(", and the rest was not fetched: {problem}"));
        Ok(Some(format!(
            "the copy of its history here ends at commit {end:.12}, which is not the first{}",
            fetched.unwrap_or_default()
        )))
    }

    /// Its commit and the ones before it on its line that change the file at `path` of the repository, the newest first; of at most
    /// `max`. Empty for a plain folder.
    ///
    /// # Errors
    /// [`SourceError`] when git fails.
    pub fn changes_of(&self, path: &str, max: usize) -> Result<Vec<RecordedCommit>, SourceError> {
        self.line(&["--first-parent"], None, Some(path), max)
    }

    fn line(
        &self,
        options: &[&str],
        without: Option<&str>,
        path: Option<&str>,
        max: usize,
    ) -> Result<Vec<RecordedCommit>, SourceError> {
        let Storage::Git(repository) = &self.at else {
            return Ok(Vec::new());
        };
        // Brings the history of what was fetched without it.
        repository.deepen(&self.commit, max, self.remote())?;
        self.logged(options, without, path, max)
    }

    /// The same of what is here.
    fn logged(
        &self,
        options: &[&str],
        without: Option<&str>,
        path: Option<&str>,
        max: usize,
    ) -> Result<Vec<RecordedCommit>, SourceError> {
        let Storage::Git(repository) = &self.at else {
            return Ok(Vec::new());
        };
        let most = format!("--max-count={max}");
        let format = "--format=%H%x00%P%x00%B%x00";
        // A path is one, and no pattern.
        let mut arguments = vec!["--literal-pathspecs", "log", &most, format];
        arguments.extend(options);
        arguments.extend(["--end-of-options", &self.commit]);
        arguments.extend(without);
        arguments.push("--");
        arguments.extend(path);
        let listed = repository.run(&arguments)?;
        let listed = String::from_utf8_lossy(&listed).into_owned();
        let fields: Vec<&str> = listed.split('\0').collect();
        let commits = fields.chunks_exact(3).map(|one| RecordedCommit {
            id: one[0].trim().to_owned(),
            parents: one[1].split_whitespace().map(str::to_owned).collect(),
            message: one[2].trim().to_owned(),
        });
        Ok(commits.collect())
    }

    /// The newest commit that comes before both of these; `None` where there is none, or history here does not show it, and for a
    /// plain folder.
    ///
    /// # Errors
    /// [`SourceError`] when git cannot be started.
    pub fn common_ancestor(&self, one: &str, other: &str) -> Result<Option<String>, SourceError> {
        let Storage::Git(repository) = &self.at else {
            return Ok(None);
        };
        let arguments = ["merge-base", "--end-of-options", one, other];
        Ok(repository.try_run(&arguments)?.ok().map(|id| text(&id)))
    }

    /// Its commit and those before it, the newest first, at most `max`; empty for a plain folder.
    ///
    /// # Errors
    /// [`SourceError`] when git fails.
    pub fn history(&self, max: usize) -> Result<Vec<String>, SourceError> {
        match &self.at {
            Storage::Folder(..) => Ok(Vec::new()),
            Storage::Git(repository) => repository.history(&self.commit, max, self.remote()),
        }
    }

    /// The commits of this branch after `older` up to the one that is opened, the newest first, at most `max`; a merge counts as
    /// one. Empty for a plain folder.
    ///
    /// # Errors
    /// [`SourceError`] when git fails, or has `older` no more.
    pub fn since(&self, older: &str, max: usize) -> Result<Vec<CommitSummary>, SourceError> {
        let Storage::Git(repository) = &self.at else {
            return Ok(Vec::new());
        };
        // What is fetched by commit has no history until it is asked for.
        repository.history(&self.commit, max, self.remote())?;
        let range = [format!("^{older}"), self.commit.clone()];
        let count = format!("--max-count={max}");
        let format = "--format=%H%x00%P%x00%an%x00%aI%x00%s%x00";
        let listed = repository.run(&[
            "log",
            "--first-parent",
            &count,
            format,
            "--end-of-options",
            &range[0],
            &range[1],
        ])?;
        let listed = text(&listed);
        let fields: Vec<&str> = listed.split('\0').map(str::trim_start).collect();
        let commits = fields.chunks_exact(5).map(|one| CommitSummary {
            id: one[0].to_owned(),
            before: one[1]
                .split(' ')
                .next()
                .filter(|id| !id.is_empty())
                .map(str::to_owned),
            is_merge: one[1].contains(' '),
            author: one[2].to_owned(),
            at: one[3].to_owned(),
            subject: one[4].to_owned(),
        });
        Ok(commits.collect())
    }

    /// What git knows the content below `path` by: equal where the content is; `None` where there is nothing, and for a plain
    /// folder.
    ///
    /// # Errors
    /// [`SourceError`] when git cannot be started.
    pub fn content_id(&self, path: &str) -> Result<Option<String>, SourceError> {
        let Storage::Git(repository) = &self.at else {
            return Ok(None);
        };
        let path = super::normal_path(path)?;
        let name = format!("{}:{path}", self.commit);
        let found = repository.try_run(&[
            "rev-parse",
            "--verify",
            "--quiet",
            "--end-of-options",
            &name,
        ])?;
        Ok(found.ok().map(|id| text(&id)))
    }

    /// The paths below `path` that differ from commit `older`, sorted; empty for a plain folder.
    ///
    /// # Errors
    /// [`SourceError`] when git fails.
    pub fn changed_since(&self, older: &str, path: &str) -> Result<Vec<String>, SourceError> {
        let listed = self.difference(older, path, &["--name-only", "-z"])?;
        let names = listed.split('\0').filter(|name| !name.is_empty());
        Ok(names.map(str::to_owned).collect())
    }

    /// The files that differ from commit `older`, and how; empty for a plain folder.
    ///
    /// # Errors
    /// [`SourceError`] when git fails.
    pub fn changed_files(&self, older: &str) -> Result<Vec<ChangedFile>, SourceError> {
        let listed = self.difference(older, "", &["--raw", "--no-abbrev", "-z"])?;
        let mut fields = listed.split('\0');
        let mut changed = Vec::new();
        // `:100644 100755 ID ID M`, then the path.
        while let (Some(what), Some(path)) = (fields.next(), fields.next()) {
            let modes: Vec<&str> = what.trim_start_matches(':').split(' ').collect();
            changed.push(ChangedFile {
                path: path.to_owned(),
                is_content_only: modes.first() == modes.get(1) && modes.last() == Some(&"M"),
            });
        }
        Ok(changed)
    }

    /// The lines below `path` that differ from commit `older`, with `+` or `-` before each; what is too long is cut.
    ///
    /// # Errors
    /// [`SourceError`] when git fails.
    pub fn lines_since(&self, older: &str, path: &str) -> Result<Vec<String>, SourceError> {
        let listed = self.difference(older, path, &["--unified=0"])?;
        let end = listed.len().min(MAX_DIFF_BYTES);
        let lines = listed.get(..end).unwrap_or_default().lines();
        let is_change = |line: &&str| {
            (line.starts_with('+') && !line.starts_with("+++"))
                || (line.starts_with('-') && !line.starts_with("---"))
        };
        Ok(lines.filter(is_change).map(str::to_owned).collect())
    }

    fn difference(&self, older: &str, path: &str, how: &[&str]) -> Result<String, SourceError> {
        let Storage::Git(repository) = &self.at else {
            return Ok(String::new());
        };
        let path = super::normal_path(path)?;
        let path = match path.as_str() {
            "" => ".",
            path => path,
        };
        let fixed = ["diff", "--no-ext-diff", "--no-textconv", "--no-renames"];
        let range = ["--end-of-options", older, &self.commit, "--", path];
        let arguments: Vec<&str> = fixed.iter().chain(how).chain(&range).copied().collect();
        Ok(String::from_utf8_lossy(&repository.run(&arguments)?).into_owned())
    }
}
