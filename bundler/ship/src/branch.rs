//! The platform GitOps repository: a rendered environment becomes one commit on a branch.
//!
//! What comes in: the tree of a [`outhaul_plane::Rendering`] with its snapshot, and a repository's URL, branch
//! and path. What goes out: one commit that makes the branch hold exactly the tree and whatever other
//! people have there, or none when it does already. Which files are Outhaul's stands in the branch
//! itself ([`outhaul_record::record`]), because a clone has nothing beside it. Nobody else's file is overwritten or
//! removed, nobody's commit is lost: when the branch moves meanwhile, it is read again.

use std::collections::BTreeMap;
use std::path::Path;

use outhaul_bundle::index::Snapshot;

use crate::destination::{self, Committed, Destination};
use outhaul_control::model::Transport;
use outhaul_control::overriding::Override;
use outhaul_control::{ControlPlane, Diagnostics};
use outhaul_git::address::{Address, AddressError};
use outhaul_git::branch::was_overtaken;
use outhaul_git::program::{Credential, ProgramError};
use outhaul_git::source::{self, Cache, GitReference, SourceError, SourceMap};
use outhaul_git::store::{BranchStore, StoreError, unreachable};
use outhaul_load::pipeline::Platform;
use outhaul_plane::delivery;
use outhaul_plane::schedule::AssignmentId;
use outhaul_record::guard::Removal;
use outhaul_record::plan::{DesiredContent, Plan};

pub mod forge;
pub mod message;
pub mod plan;
pub mod proposal;
mod there;

use plan::{CommitChanges, OnRecord, PlanError};

/// Where the record lies, below the published path.
const RECORD_PATH: &str = ".outhaul/platform.json";
/// How often a branch that others push to is read again.
const ATTEMPTS: usize = 3;

/// Where a rendered environment goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BranchTarget {
    /// The repository, by any URL that git pushes to, or a folder here.
    pub url: String,
    /// The branch that sites or their reconcilers follow.
    pub branch: String,
    /// The path below its root; empty for the root.
    pub path: String,
}

/// Where an environment goes, as far as someone chose.
#[derive(Debug, Clone, Copy, Default)]
pub struct TargetChoice<'a> {
    /// The repository's URL.
    pub to: Option<&'a str>,
    /// Or the name of a `GitOpsRepo`.
    pub gitops_repo: Option<&'a str>,
    /// The branch, instead of the `GitOpsRepo`'s or the one called like the environment.
    pub branch: Option<&'a str>,
    /// The path, instead of the `GitOpsRepo`'s or the root.
    pub path: Option<&'a str>,
}

impl BranchTarget {
    /// Where the environment of `plane` goes: where someone said, or else to its only `GitOpsRepo`.
    ///
    /// # Errors
    /// [`TargetError`] when it cannot be known where.
    pub fn of(plane: &ControlPlane, said: TargetChoice<'_>) -> Result<Self, TargetError> {
        let repos = &plane.gitops_repos;
        let at = match (said.to, said.gitops_repo, repos.len()) {
            (None, Some(name), _) => repos.get(name),
            (None, None, 1) => repos.values().next(),
            (Some(_), _, _) | (None, None, _) => None,
        };
        let (url, branch, path) = match (said.to, at.map(|repo| &repo.at)) {
            (Some(url), _) => (url, plane.environment.as_str(), ""),
            (None, Some(at)) => (at.repo.value.as_str(), at.branch.as_str(), at.path.as_str()),
            (None, None) => return Err(TargetError::of(plane, said.gitops_repo)),
        };
        Ok(Self {
            url: url.to_owned(),
            branch: said.branch.unwrap_or(branch).to_owned(),
            path: said.path.unwrap_or(path).to_owned(),
        })
    }
}

/// Why it is not known where an environment goes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// The control plane does not say.
    #[error(
        "environment `{environment}` has no GitOpsRepo\nhelp: add one to its branch, or give `--to URL` (for `outhaul \
         serve`: `to`)"
    )]
    None {
        /// The environment.
        environment: String,
    },
    /// It says several.
    #[error(
        "environment `{environment}` has several GitOpsRepos\nhelp: give `--gitops-repo NAME` (for `outhaul serve`: \
         `gitops_repo`): {known}"
    )]
    Several {
        /// The environment.
        environment: String,
        /// Their names.
        known: String,
    },
    /// There is none of that name.
    #[error(
        "there is no GitOpsRepo `{name}`\nhelp: give `--gitops-repo NAME` (for `outhaul serve`: `gitops_repo`): {known}"
    )]
    Unknown {
        /// The name.
        name: String,
        /// The names that there are.
        known: String,
    },
}

impl TargetError {
    fn of(plane: &ControlPlane, asked: Option<&str>) -> Self {
        let known: Vec<_> = plane
            .gitops_repos
            .keys()
            .map(|name| format!("`{name}`"))
            .collect();
        let (environment, known) = (plane.environment.clone(), known.join(", "));
        match asked {
            _ if known.is_empty() => Self::None { environment },
            Some(name) => Self::Unknown {
                name: name.to_owned(),
                known,
            },
            None => Self::Several { environment, known },
        }
    }
}

/// What is to be there.
#[derive(Debug, Clone, Copy)]
pub struct Desired<'a> {
    /// The environment.
    pub environment: &'a str,
    /// Path and content, as [`outhaul_plane::Rendering::tree`] gives it.
    pub tree: &'a BTreeMap<String, Vec<u8>>,
    /// What it was rendered from.
    pub snapshot: &'a Snapshot,
    /// The promoted commit.
    pub promoted: Option<&'a str>,
    /// What could not be rendered, and why: what the branch has of it stays.
    pub failures: &'a BTreeMap<AssignmentId, Diagnostics>,
    /// What no scheduler decided on, and why: likewise.
    pub undecided: &'a BTreeMap<AssignmentId, Diagnostics>,
    /// Where removals are acknowledged.
    pub control_plane: &'a ControlPlane,
    /// What Kalypso wrote there counts as Outhaul's from now on.
    pub adopt: bool,
    /// Who went past the gate before the environment, when someone did.
    pub overridden: Option<&'a Override>,
}

/// The files of `platform` that travel by git: not those of cluster types that travel by bundle alone.
///
/// # Errors
/// The findings when two delivery policies contradict each other, and where what must be encrypted would go to the branch.
pub fn tree(platform: &Platform) -> Result<BTreeMap<String, Vec<u8>>, Diagnostics> {
    let mut tree = platform.rendering.tree();
    for cluster_type in platform.control_plane.cluster_types.values() {
        let delivery = delivery::of(&platform.control_plane, cluster_type)?;
        if let Some(finding) = delivery::clear_in_git(&delivery, &cluster_type.name) {
            return Err(finding.into());
        }
        let transport = delivery.transport;
        if transport.is_some_and(|transport| transport.value == Transport::Bundle) {
            let folder = format!("{}/", cluster_type.name);
            tree.retain(|path, _| !path.starts_with(&folder));
        }
    }
    Ok(tree)
}

impl<'a> Desired<'a> {
    /// What `platform` renders to, whose files are `tree`.
    pub fn of(platform: &'a Platform, tree: &'a BTreeMap<String, Vec<u8>>, adopt: bool) -> Self {
        let rendering = &platform.rendering;
        Self {
            environment: &rendering.environment,
            tree,
            snapshot: &rendering.snapshot,
            promoted: rendering.promoted_commit.as_deref(),
            failures: &rendering.failures,
            undecided: &rendering.undecided,
            control_plane: &platform.control_plane,
            adopt,
            overridden: None,
        }
    }
}

/// Why nothing was published. The branch is as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PublishError {
    /// The branch is checked out in a repository with a working copy.
    #[error(
        "branch `{branch}` is checked out in `{url}`, whose files would then seem to be reverted\nhelp: \
         push to a bare repository, or check out another branch there"
    )]
    CheckedOut {
        /// The repository.
        url: String,
        /// The branch.
        branch: String,
    },
    /// It is a branch of a control plane.
    #[error(
        "the branch holds a control plane, `{path}` has its {what}: what is published there would be read as a part of it\nhelp: name \
         another branch with `--branch` or another repository with `--to` (for `outhaul serve`: `branch`, `to`)"
    )]
    ControlPlane {
        /// The file that shows it.
        path: String,
        /// What is in it.
        what: String,
    },
    /// The program failed here, or there is no place for a copy.
    #[error(transparent)]
    Store(StoreError),
    /// Others push faster than it is read.
    #[error(
        "branch `{branch}` of `{url}` moved {ATTEMPTS} times while it was written; nothing was changed\nhelp: run \
         the command again"
    )]
    Moved {
        /// The repository.
        url: String,
        /// The branch.
        branch: String,
    },
    /// What is there does not allow it.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The server said no to the push.
    #[error(
        "`{url}` refuses the push to `{branch}`: {message}\nhelp: check that you may push there; where the branch is \
         protected, use `--pull-request`"
    )]
    Refused {
        /// The repository.
        url: String,
        /// The branch.
        branch: String,
        /// What it said.
        message: String,
    },
    /// Someone else's commit on the branch that a pull request is made from.
    #[error(
        "the newest commit of `{branch}` in `{url}` is not Outhaul's ({commit}); it was left alone\nhelp: merge or \
         close its pull request and delete the branch, and run the command again"
    )]
    Taken {
        /// The repository.
        url: String,
        /// The branch.
        branch: String,
        /// The commit.
        commit: String,
    },
    /// The branch cannot be read.
    #[error("the platform repository cannot be read")]
    Source(#[from] SourceError),
}

impl From<StoreError> for PublishError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Source(error) => Self::Source(error),
            other => Self::Store(other),
        }
    }
}

impl From<ProgramError> for PublishError {
    fn from(error: ProgramError) -> Self {
        Self::Store(error.into())
    }
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedBranch {
    /// The branch's newest commit; `None` when it has none and there is nothing to write.
    pub commit: Option<String>,
    /// Whether that commit was made now.
    pub changed: bool,
    /// What was, or would have been, different.
    pub plan: CommitChanges,
}

/// A platform repository that is written to.
#[derive(Debug)]
pub struct PlatformRepository {
    target: BranchTarget,
    store: BranchStore,
}

/// What git is given for the platform repository `url`: the folder that it is mapped to, or the URL, which
/// may be on this machine only when it was `typed` by who runs outhaul.
///
/// # Errors
/// [`PublishError::Source`] when it may not be opened.
pub fn where_to(
    url: &str,
    reference: &GitReference,
    typed: bool,
    sources: &SourceMap,
) -> Result<String, PublishError> {
    if let Some(folder) = sources.resolve(url, reference) {
        return Ok(folder.to_string_lossy().into_owned());
    }
    let is_path = matches!(Address::parse(url), Err(AddressError::Local { .. }));
    if !typed {
        sources.permitted(url)?;
    } else if is_path && !Path::new(url).is_dir() {
        return Err(source::no_folder(Path::new(url)).into());
    }
    Ok(url.to_owned())
}

impl PlatformRepository {
    /// Prepares a copy of `target` in `cache`; nothing is fetched yet.
    ///
    /// # Errors
    /// [`PublishError`] for a URL, branch or path that cannot be one.
    pub fn open(
        target: BranchTarget,
        cache: &Cache,
        credential: Option<Credential>,
    ) -> Result<Self, PublishError> {
        let target = BranchTarget {
            path: source::normal_path(&target.path)?,
            ..target
        };
        if target.path.contains(char::is_control) || target.path.starts_with('"') {
            return Err(SourceError::EscapingPath { path: target.path }.into());
        }
        let store = BranchStore::open(&target.url, cache, credential)?;
        store.check_branch(&target.branch)?;
        Ok(Self { target, store })
    }

    /// Where it goes.
    pub fn target(&self) -> &BranchTarget {
        &self.target
    }

    /// The newest commit of the branch; `None` where there is no such branch.
    ///
    /// # Errors
    /// [`PublishError`] when the repository cannot be reached.
    pub fn tip(&self) -> Result<Option<String>, PublishError> {
        Ok(self.store.fetch(&self.target.branch)?)
    }

    /// Makes the branch hold `desired`, by one commit, when it does not yet.
    ///
    /// # Errors
    /// [`PublishError`]; the branch is then as it was.
    pub fn publish(&self, desired: &Desired<'_>) -> Result<PublishedBranch, PublishError> {
        destination::ship(Branch {
            repository: self,
            desired,
            tip: None,
        })
    }

    /// What the branch holds at `tip`.
    fn on_record(
        &self,
        tip: Option<&str>,
        desired: &Desired<'_>,
    ) -> Result<OnRecord, PublishError> {
        let path = &self.target.path;
        let there = match tip {
            Some(commit) => there::read(&self.store, commit, path, desired)?,
            None => plan::BranchFiles::default(),
        };
        Ok(OnRecord::of(path, there, desired)?)
    }

    fn moved(&self, branch: &str) -> PublishError {
        PublishError::Moved {
            url: self.target.url.clone(),
            branch: branch.to_owned(),
        }
    }

    fn refused(&self, branch: &str, error: ProgramError) -> PublishError {
        let (url, branch) = (self.target.url.clone(), branch.to_owned());
        if error.message.contains("checked out branch") {
            return PublishError::CheckedOut { url, branch };
        }
        if error.message.contains("rejected") {
            let lines = error.message.lines().map(str::trim);
            let said: Vec<_> = lines
                .filter(|line| line.starts_with("remote:") || line.contains("rejected"))
                .collect();
            let message = said.join("; ");
            return PublishError::Refused {
                url,
                branch,
                message,
            };
        }
        unreachable(&url, error).into()
    }
}

/// A branch that is pushed to.
struct Branch<'a> {
    repository: &'a PlatformRepository,
    desired: &'a Desired<'a>,
    /// Its newest commit, when it was read.
    tip: Option<String>,
}

impl Destination for Branch<'_> {
    type Shipped = OnRecord;
    type Done = PublishedBranch;
    type Error = PublishError;

    const ATTEMPTS: usize = ATTEMPTS;

    fn wanted(&self) -> DesiredContent<'_> {
        self.desired.wanted()
    }

    fn read(&mut self) -> Result<OnRecord, PublishError> {
        let repository = self.repository;
        self.tip = repository.store.fetch(&repository.target.branch)?;
        repository.on_record(self.tip.as_deref(), self.desired)
    }

    fn all_broken(&self) -> Option<PublishError> {
        Some(PlanError::AllBroken.into())
    }

    fn commit(
        &mut self,
        on_record: OnRecord,
        plan: Plan<()>,
    ) -> Result<Committed<PublishedBranch, PublishError>, PublishError> {
        let PlatformRepository { target, store } = self.repository;
        let mut plan = plan::changes(&target.path, &on_record, self.desired, plan.isolation)?;
        let tip = self.tip.take();
        if tip.is_none() {
            plan.gone_from = store.last_seen(&target.branch);
        }
        if plan.is_empty() {
            return Ok(Committed::Done(PublishedBranch {
                commit: tip,
                changed: false,
                plan,
            }));
        }
        let message = message::commit(self.desired, &plan);
        let made = store.commit(tip.as_deref(), &plan.edits, &message)?;
        match store.push(&target.branch, tip.as_deref(), &made) {
            Ok(()) => Ok(Committed::Done(PublishedBranch {
                commit: Some(made),
                changed: true,
                plan,
            })),
            Err(error) if was_overtaken(&error.message) => {
                let branch = &target.branch;
                tracing::info!(branch, "someone else pushed meanwhile; reading it again");
                Ok(Committed::Overtaken(self.repository.moved(branch)))
            }
            Err(error) => Err(self.repository.refused(&target.branch, error)),
        }
    }
}

impl From<Removal> for PublishError {
    fn from(removal: Removal) -> Self {
        PlanError::from(removal).into()
    }
}

#[cfg(test)]
mod tests;
