//! The commit that an environment is to be moved to: found, loaded and rendered before anything moves.
//!
//! What comes in: what a person typed as the commit, and the environment. What goes out: the commit's
//! full id, or every finding that the environment would have at it and has not at the one that it is at.
//! It writes nothing but fetched objects.

use super::{Chain, Link, PromoteError};
use outhaul_control::diagnostic::Diagnostics;
use outhaul_git::source::git::Repository;
use outhaul_git::source::{self, GitReference, SourceError};
use outhaul_kit::commit_id::typed_commit_id;
use outhaul_load::pipeline::{self, Platform};
use outhaul_load::scheduler::Schedulers;
use outhaul_load::{LoadRequest, Origin};
use outhaul_plane::compose::Mode;

impl Chain<'_> {
    /// The full id of what `text` names in the repository that `link` is based on: a commit's id, a
    /// branch or a tag, on this machine also the beginning of an id.
    ///
    /// # Errors
    /// [`PromoteError::NoCommit`] when it names nothing there.
    pub fn resolve(&self, link: &Link, text: &str) -> Result<String, PromoteError> {
        let at = &link.base.at;
        let sources = self.base_sources(link);
        let no_commit = |why: &'static str| PromoteError::NoCommit {
            text: text.to_owned(),
            repo: at.repo.value.clone(),
            why,
        };
        if text == "HEAD" || text.starts_with(['-', '@']) || text.starts_with("HEAD") {
            return Err(no_commit("`HEAD` is whatever is checked out somewhere"));
        }
        let near = Some(at.branch.clone());
        let mut wanted = vec![
            GitReference::Branch(text.to_owned()),
            GitReference::Tag(text.to_owned()),
        ];
        if let Some(id) = typed_commit_id(text) {
            wanted = vec![GitReference::Commit { id, near }];
        }
        for reference in wanted {
            match source::open(&at.repo.value, &reference, &sources, self.cache) {
                // A plain folder counts as any commit; a promotion needs one that exists.
                Ok(opened) if opened.repository_folder().is_some() => return Ok(opened.commit),
                Ok(_) => {
                    return Err(no_commit("a plain folder has no commits"));
                }
                Err(SourceError::NoSuchReference { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let short = text.len() >= 7 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let head = source::open(&at.repo.value, &GitReference::Head, &sources, self.cache);
        if short
            && let Ok(head) = head
            && head.remote().is_none()
            && let Some(folder) = head.repository_folder()
            && let Ok(id) = Repository::at(folder).revision(&at.repo.value, text)
        {
            return Ok(id);
        }
        if self.is_shallow(link)? {
            return Err(PromoteError::NotInShallow {
                text: text.to_owned(),
                repo: at.repo.value.clone(),
            });
        }
        Err(no_commit("it has no such commit, branch or tag"))
    }

    /// Loads and renders `link`'s environment with `commit` as its base, and refuses what it would break.
    ///
    /// # Errors
    /// [`PromoteError::Candidate`] with every finding.
    pub fn check(&self, link: &Link, commit: &str) -> Result<(), PromoteError> {
        let environment = &link.environment.name;
        let refused = |findings: Diagnostics| PromoteError::Candidate {
            commit: commit.to_owned(),
            environment: environment.clone(),
            findings,
        };
        let next = self.platform(environment, Some(commit)).map_err(refused)?;
        if next.rendering.failures.is_empty() {
            return Ok(());
        }
        // What is broken already keeps no other change back.
        let now = self.platform(environment, None).ok();
        let is_new = |id: &&outhaul_plane::schedule::AssignmentId| {
            let known = |now: &Platform| {
                now.rendering.failures.contains_key(*id)
                    || now.rendering.undecided.contains_key(*id)
            };
            !now.as_ref().is_some_and(known)
        };
        let broken = next.rendering.failures.keys().filter(is_new);
        let mut findings = Diagnostics::new();
        for id in broken {
            findings.extend(
                next.rendering
                    .failures
                    .get(id)
                    .cloned()
                    .into_iter()
                    .flatten(),
            );
        }
        if findings.is_empty() {
            return Ok(());
        }
        findings.sort();
        Err(refused(findings))
    }

    /// Loads `link`'s environment at `commit`, where it is already.
    ///
    /// # Errors
    /// [`PromoteError::Broken`] with every finding.
    pub(super) fn loads(&self, link: &Link, commit: &str) -> Result<(), PromoteError> {
        let environment = &link.environment.name;
        let broken = |findings| PromoteError::Broken {
            environment: environment.clone(),
            commit: commit.to_owned(),
            findings,
        };
        self.platform(environment, Some(commit))
            .map(drop)
            .map_err(broken)
    }

    fn platform(&self, environment: &str, commit: Option<&str>) -> Result<Platform, Diagnostics> {
        let mut sources = self.sources.clone();
        if let Some(commit) = commit {
            sources.pin(outhaul_load::PROMOTED, "", commit);
        }
        let request = LoadRequest {
            environment: environment.to_owned(),
            from: Origin::Repository {
                url: self.url.to_owned(),
                branch: self.branch.clone(),
            },
            sources,
            cache: self.cache.clone(),
            schedulers: Schedulers::default(),
        };
        pipeline::run_whole(&request, Mode::default(), None)
    }
}
