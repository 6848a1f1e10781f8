//! Repositories that a site serves to its own reconciler: which commits of which, and one pack of each.
//!
//! What comes in: what rendered files ask for, and repositories opened at a commit. What goes out: a pack of
//! each repository in the spool, and its refs, under the URL that the files name. What was opened for a sound
//! assignment wins over what one that is kept had. It resolves nothing itself and writes nothing but the spool.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use outhaul_bundle::index::Content;
use outhaul_bundle::index::served::Repository;
use outhaul_git::source::git::{Packed, Repository as Local};
use outhaul_git::source::{GitReference, OpenedSource, SourceError, TreeLimits, normal_url};
use outhaul_plane::render::RenderedAssignment;

use super::CollectError;
use crate::assemble::Spool;
use outhaul_needs::{Need, Needs, Revision};

/// The branch that a clone without a branch gets, where nothing says which it is.
const DEFAULT: &str = "refs/heads/main";
/// The same, where that name is another commit's.
const OTHER_DEFAULT: &str = "refs/heads/outhaul-default";

/// A repository that a rendered file names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RepositoryReference {
    pub(super) url: String,
    pub(super) revision: Revision,
}

/// The git repositories that the rendered files of an assignment name, each once.
pub(super) fn asked(assignment: &RenderedAssignment) -> BTreeSet<RepositoryReference> {
    let overlays = assignment.overlays.iter().flat_map(|one| &one.files);
    let files = assignment.files.iter().chain(overlays);
    let needs = files.flat_map(|(name, bytes)| Needs::of(name, bytes).all);
    let asked = needs.filter_map(|(need, _)| match need {
        Need::Repository(url, revision) => Some(RepositoryReference { url, revision }),
        Need::Image(_)
        | Need::Artifact { .. }
        | Need::Chart { .. }
        | Need::Source(_)
        | Need::Unknown(_) => None,
    });
    asked.collect()
}

impl RepositoryReference {
    /// Whether it is the repository at `url`.
    pub(super) fn is(&self, url: &str) -> bool {
        normal_url(&self.url) == normal_url(url)
    }

    /// Whether `opened`, which was opened at `branch`, is what is asked for.
    pub(super) fn is_at(&self, branch: Option<&str>, opened: &OpenedSource) -> bool {
        match &self.revision {
            Revision::Head => branch.is_none(),
            Revision::Branch(name) | Revision::Named(name) => branch == Some(name),
            Revision::Commit(id, _) => *id == opened.commit,
            Revision::Tag(_) | Revision::Other(_) => false,
        }
    }

    /// The ways in which it can be opened, each with the ref that it is then; none where it is a range of
    /// versions.
    pub(super) fn references(&self) -> Vec<(GitReference, Ref)> {
        let branch = |name: &String| {
            let named = Ref::Named(format!("refs/heads/{name}"));
            (GitReference::Branch(name.clone()), named)
        };
        let tag = |name: &String| {
            let named = Ref::Named(format!("refs/tags/{name}"));
            (GitReference::Tag(name.clone()), named)
        };
        match &self.revision {
            Revision::Head => vec![(GitReference::Head, Ref::Default)],
            Revision::Branch(name) => vec![branch(name)],
            Revision::Tag(name) => vec![tag(name)],
            Revision::Named(name) => vec![branch(name), tag(name)],
            Revision::Commit(id, near) => {
                let (id, near) = (id.clone(), near.clone());
                let branch = near.as_ref().map(|name| format!("refs/heads/{name}"));
                let at = Ref::Commit(id.clone(), branch);
                vec![(GitReference::Commit { id, near }, at)]
            }
            Revision::Other(_) => Vec::new(),
        }
    }
}

/// What a commit is served as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ref {
    /// What a clone without a branch gets.
    Default,
    /// A ref, by its whole name.
    Named(String),
    /// Exactly this commit; the ref that it is asked for on, by its whole name.
    Commit(String, Option<String>),
}

/// What of one repository is served.
#[derive(Debug)]
struct ServedRepository {
    url: String,
    /// The names of assignments that ask for it.
    by: BTreeSet<String>,
    refs: BTreeMap<String, OpenedSource>,
    default: Option<OpenedSource>,
    /// Whether all files of it must be there: nobody looked at a folder of it before.
    whole: bool,
}

/// What is served, while it is collected.
#[derive(Debug, Default)]
pub(super) struct Serving {
    wanted: BTreeMap<String, ServedRepository>,
}

impl Serving {
    /// Serves `opened` as `at` of `url`, unless that is another commit already.
    pub(super) fn add(&mut self, by: &str, url: &str, at: Ref, opened: &OpenedSource, whole: bool) {
        let wanted = self
            .wanted
            .entry(normal_url(url))
            .or_insert_with(|| ServedRepository {
                url: url.to_owned(),
                by: BTreeSet::new(),
                refs: BTreeMap::new(),
                default: None,
                whole: false,
            });
        // However it is written, the bytes are the same.
        if *url < *wanted.url {
            url.clone_into(&mut wanted.url);
        }
        wanted.by.insert(by.to_owned());
        wanted.whole |= whole;
        match at {
            Ref::Default => {
                wanted.default.get_or_insert_with(|| opened.clone());
            }
            Ref::Named(name) => {
                wanted.refs.entry(name).or_insert_with(|| opened.clone());
            }
            // Several commits of one repository may be asked for: each is there, under a separate name where the
            // branch is another one.
            Ref::Commit(id, branch) => {
                let is_free = |name: &String| {
                    let there = wanted.refs.get(name);
                    there.is_none_or(|there| there.commit == opened.commit)
                };
                let own = || format!("refs/heads/outhaul-{id}");
                let name = branch.filter(is_free).unwrap_or_else(own);
                wanted.refs.entry(name).or_insert_with(|| opened.clone());
            }
        }
    }

    /// Packs each repository into the spool.
    ///
    /// # Errors
    /// [`CollectError`] of the first that cannot travel whole.
    pub(super) fn pack(self, spool: &mut Spool) -> Result<Vec<Repository>, CollectError> {
        let wanted = self.wanted.into_values();
        wanted.map(|wanted| wanted.pack(spool)).collect()
    }
}

/// Refuses a repository whose files are not all in it.
pub(super) fn no_holes(assignment: &str, url: &str, packed: &Packed) -> Result<(), CollectError> {
    let submodule = packed.submodules.first().map(|path| (path, "a submodule"));
    let pointer = packed.pointers.first();
    let pointer = pointer.map(|path| (path, "a pointer of Git LFS"));
    match submodule.or(pointer) {
        None => Ok(()),
        Some((path, what)) => Err(CollectError::Foreign {
            assignment: assignment.to_owned(),
            url: url.to_owned(),
            path: path.clone(),
            what,
        }),
    }
}

impl ServedRepository {
    fn pack(mut self, spool: &mut Spool) -> Result<Repository, CollectError> {
        let by = self.by.first().cloned().unwrap_or_default();
        let head = self.head();
        let mut folders = BTreeSet::new();
        folders.extend(
            self.refs
                .values()
                .filter_map(OpenedSource::repository_folder),
        );
        let mut folders = folders.into_iter();
        // Another folder may have the commits that this one lacks.
        let Some(folder) = folders.next() else {
            return Err(CollectError::Commitless {
                assignment: by,
                url: self.url,
            });
        };
        let failed = |source: SourceError| CollectError::Source {
            assignment: by.clone(),
            source: Arc::new(source),
        };
        let local = Local::at(folder).with(folders).map_err(failed)?;
        let refs = self.refs.iter();
        let refs: BTreeMap<String, String> = refs
            .map(|(name, opened)| (name.clone(), opened.commit.clone()))
            .collect();
        let commits: BTreeSet<&String> = refs.values().collect();
        let commits: Vec<String> = commits.into_iter().cloned().collect();
        let mut packed = Ok(Packed::default());
        let written = spool.add_with(|out| {
            packed = local.pack(&commits, &TreeLimits::PAYLOAD, out);
            packed
                .as_ref()
                .map(drop)
                .map_err(|error| std::io::Error::other(error.to_string()))
        });
        let packed = packed.map_err(failed)?;
        let (digest, size) = written?;
        if self.whole {
            no_holes(&by, &self.url, &packed)?;
        }
        Ok(Repository {
            url: self.url,
            refs,
            head,
            shallow: packed.shallow.into_iter().collect(),
            pack: Content { digest, size },
        })
    }

    /// The ref that HEAD is; it is among the refs then.
    fn head(&mut self) -> String {
        if let Some(default) = self.default.take() {
            let same = |(_, opened): &(&String, &OpenedSource)| opened.commit == default.commit;
            let branches = self.refs.iter();
            let mut branches = branches.filter(|(name, _)| name.starts_with("refs/heads/"));
            if let Some((name, _)) = branches.find(same) {
                return name.clone();
            }
            let name = match self.refs.contains_key(DEFAULT) {
                true => OTHER_DEFAULT,
                false => DEFAULT,
            };
            self.refs.insert(name.to_owned(), default);
            return name.to_owned();
        }
        let usual = [DEFAULT, "refs/heads/master"];
        let usual = usual.iter().find(|name| self.refs.contains_key(**name));
        let first = || self.refs.keys().next().cloned().unwrap_or_default();
        usual.map_or_else(first, |name| (*name).to_owned())
    }
}
