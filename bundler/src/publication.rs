//! Publication: a rendered environment to its branch of the platform repository, pushed or as a pull request.
//!
//! What comes in: a rendered platform and where it is to go, from a command line or the service's configuration. What
//! goes out: what was committed or proposed, or why not. It joins the steps of `outhaul-ship` with the forges of
//! `outhaul-remote`, decides nothing that they decide, and prints nothing.

use std::path::Path;

use outhaul_bundle::index::Snapshot;
use outhaul_control::overriding::Override;
use outhaul_control::{ControlPlane, Diagnostics};
use outhaul_git::source::{Cache, GitReference, SourceMap, local_folder, normal_url};
use outhaul_kit::failure::{Classified, FailureClass};
use outhaul_kit::url_secrets::without_secrets;
use outhaul_load::pipeline::Platform;
use outhaul_load::{LoadRequest, Origin, since};
use outhaul_remote::forge::access::credential;
use outhaul_remote::forge::{self, Access, ForgeError, ForgeKind};
use outhaul_ship::branch::plan::{CommitChanges, PlanError};
use outhaul_ship::branch::proposal::{ProposalAction, ProposeError, Proposed};
use outhaul_ship::branch::{
    self, BranchTarget, Desired, PlatformRepository, PublishError, TargetChoice, TargetError,
};
use outhaul_ship::shown::Shown;
use zeroize::Zeroizing;

/// Where and how an environment is published.
pub struct Publication<'a> {
    /// Where it goes, as far as someone chose.
    pub target: TargetChoice<'a>,
    /// Whether what Kalypso wrote there counts as Outhaul's.
    pub adopt: bool,
    /// Who went past the gate before the environment.
    pub overridden: Option<&'a Override>,
    /// Which forge the repository is on; without it by its host.
    pub forge: Option<ForgeKind>,
    /// The forge's token.
    pub token: Option<Zeroizing<String>>,
    /// How a pull request is opened; without it the branch is pushed.
    pub pull_request: Option<PullRequestOptions<'a>>,
}

impl std::fmt::Debug for Publication<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Never the token.
        write!(f, "Publication({:?})", self.target)
    }
}

/// What a pull request needs besides a forge and a token.
#[derive(Debug, Clone, Copy)]
pub struct PullRequestOptions<'a> {
    /// The forge's API, instead of the usual one.
    pub api: Option<&'a str>,
    /// The project, instead of what the repository's URL says.
    pub project: Option<&'a str>,
    /// The certificate of a private authority.
    pub authority: Option<&'a Path>,
}

/// What was published.
#[derive(Debug)]
pub struct Publishing {
    /// Where it went, as it was named.
    pub target: BranchTarget,
    /// What is different.
    pub plan: CommitChanges,
    /// The branch's commit.
    pub commit: Option<String>,
    /// Whether anything was done.
    pub changed: bool,
    /// The pull request, when one was asked for.
    pub proposed: Option<Proposed>,
}

/// Why nothing was published.
#[derive(Debug, thiserror::Error)]
pub enum PublicationError {
    /// Every assignment is broken, and nothing good is there.
    #[error("{error}")]
    AllBroken {
        /// What is wrong with them.
        findings: Diagnostics,
        /// The sentence.
        error: Box<PublishError>,
    },
    /// The delivery policies contradict each other.
    #[error("{0}")]
    Findings(Diagnostics),
    /// The forge is of no use.
    #[error(transparent)]
    Forge(#[from] ForgeError),
    /// The branch or the pull request could not be written.
    #[error(transparent)]
    Propose(#[from] ProposeError<ForgeError>),
    /// It is not known where to.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// It would go to a branch that the control plane is read from.
    #[error(transparent)]
    Own(#[from] OwnBranch),
}

impl From<&PublicationError> for Shown {
    fn from(error: &PublicationError) -> Self {
        match error {
            PublicationError::Propose(ProposeError::Publish(PublishError::Plan(
                PlanError::Removal(removal),
            ))) => Self::explained(&removal.explain_with("the branch is as it was")),
            PublicationError::AllBroken { findings, error } => {
                Self::broken(findings).help(error.to_string())
            }
            PublicationError::Findings(findings) => Self::findings(findings),
            PublicationError::Forge(error) => Self::of(error),
            PublicationError::Propose(error) => Self::of(error),
            PublicationError::Target(error) => Self::of(error),
            PublicationError::Own(error) => Self::of(error),
        }
    }
}

/// A branch of the control plane is no place for what is made of it.
#[derive(Debug, thiserror::Error)]
#[error(
    "branch `{branch}` of `{url}` is one that the control plane is read from: what is published there would be read as a part of it\nhelp: \
     name another branch with `--branch` or another repository with `--to` (for `outhaul serve`: `branch`, `to`)"
)]
pub struct OwnBranch {
    url: String,
    branch: String,
}

impl Classified for OwnBranch {
    fn class(&self) -> FailureClass {
        FailureClass::Usage
    }
}

/// Refuses `target`, reached at `url`, when the control plane of `request` is read from that branch.
fn refuse_own_branch(
    (plane, sources): (&ControlPlane, &SourceMap),
    request: &LoadRequest,
    (target, url): (&BranchTarget, &str),
) -> Result<(), OwnBranch> {
    let repository = |url: &str, branch: &str| {
        let reference = GitReference::Branch(branch.to_owned());
        let mapped = sources.resolve(url, &reference);
        match mapped.or_else(|| local_folder(url)) {
            Some(folder) => {
                let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
                let root = folder.parent().filter(|_| folder.ends_with(".git"));
                root.unwrap_or(&folder).to_string_lossy().into_owned()
            }
            None => normal_url(url),
        }
    };
    let branch = target.branch.as_str();
    let goes_to = repository(url, branch);
    let bases = plane.base_repos.values().map(|one| &one.at);
    let mut read: Vec<_> = bases.cloned().collect();
    let mut is_own = false;
    if let Origin::Repository {
        url,
        branch: listed,
    } = &request.from
        && repository(url, branch) == goes_to
    {
        // What was read a moment ago is read again, and only here.
        let environments = outhaul_load::declared(request).unwrap_or_default();
        read.extend(environments.into_iter().map(|one| one.control_plane));
        // Under whatever URL its own objects name it.
        is_own = listed.as_deref().unwrap_or("main") == branch
            || read.iter().any(|at| at.branch == branch);
    }
    is_own |= read
        .iter()
        .any(|at| at.branch == branch && repository(&at.repo.value, branch) == goes_to);
    match is_own {
        false => Ok(()),
        true => Err(OwnBranch {
            url: without_secrets(&target.url),
            branch: target.branch.clone(),
        }),
    }
}

/// The newest commit of the branch that `publication` goes to; `None` where there is no such branch.
///
/// # Errors
/// [`PublicationError`] when it cannot be reached.
pub fn tip(
    plane: &ControlPlane,
    request: &LoadRequest,
    publication: &Publication<'_>,
) -> Result<Option<String>, PublicationError> {
    let read = (&request.sources, &request.cache);
    let (_, repository, _) = opened(plane, read, request, publication)?;
    let tip = repository.tip().map_err(ProposeError::from)?;
    Ok(tip)
}

/// The platform repository, with its target as it was named, and the forge that it is on.
fn opened(
    plane: &ControlPlane,
    (sources, cache): (&SourceMap, &Cache),
    request: &LoadRequest,
    publication: &Publication<'_>,
) -> Result<(BranchTarget, PlatformRepository, Option<ForgeKind>), PublicationError> {
    let choice = publication.target;
    let target = BranchTarget::of(plane, choice)?;
    let reference = GitReference::Branch(target.branch.clone());
    let is_given = choice.to.is_some();
    let url =
        branch::where_to(&target.url, &reference, is_given, sources).map_err(ProposeError::from)?;
    refuse_own_branch((plane, sources), request, (&target, &url))?;
    let kind = publication
        .forge
        .or_else(|| ForgeKind::of_host(&target.url));
    let credential = credential(&url, kind, publication.token.as_ref());
    let reached = BranchTarget {
        url,
        ..target.clone()
    };
    let repository =
        PlatformRepository::open(reached, cache, credential).map_err(ProposeError::from)?;
    Ok((target, repository, kind))
}

/// Publishes `platform`, which was loaded by `request`.
///
/// # Errors
/// [`PublicationError`]; the branch is as it was.
pub fn publish(
    platform: &Platform,
    request: &LoadRequest,
    publication: Publication<'_>,
) -> Result<Publishing, PublicationError> {
    let failed = |error: ProposeError<ForgeError>| match error {
        ProposeError::Publish(error @ PublishError::Plan(PlanError::AllBroken)) => {
            let findings = platform.broken();
            let error = Box::new(error);
            PublicationError::AllBroken { findings, error }
        }
        error => PublicationError::Propose(error),
    };
    let not_published = |error: PublishError| failed(error.into());
    let plane = &platform.control_plane;
    let read = (&platform.sources, &platform.cache);
    let (target, repository, kind) = opened(plane, read, request, &publication)?;
    let tree = branch::tree(platform).map_err(PublicationError::Findings)?;
    let desired = Desired {
        overridden: publication.overridden,
        ..Desired::of(platform, &tree, publication.adopt)
    };
    let Some(options) = publication.pull_request else {
        let done = repository.publish(&desired).map_err(not_published)?;
        return Ok(Publishing {
            target,
            plan: done.plan,
            commit: done.commit,
            changed: done.changed,
            proposed: None,
        });
    };
    let kind = kind.ok_or_else(|| ForgeError::Unnamed {
        url: target.url.clone(),
    })?;
    let token = publication.token.ok_or(ForgeError::NoToken)?;
    let forge = forge::connect(Access {
        kind,
        repository: &target.url,
        api: options.api,
        project: options.project,
        token,
        authority: options.authority,
    })?;
    let mode = platform.mode;
    let since = |before: &Snapshot| since::since(platform, request, mode, before);
    let done = repository
        .propose(&desired, forge.as_ref(), &since)
        .map_err(failed)?;
    Ok(Publishing {
        target,
        plan: done.plan.clone(),
        commit: done.commit.clone(),
        changed: matches!(done.done, ProposalAction::Opened | ProposalAction::Updated),
        proposed: Some(done),
    })
}
