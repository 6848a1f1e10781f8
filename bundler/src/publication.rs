//! Publication: a rendered environment to its branch of the platform repository, pushed or as a pull request.
//!
//! What comes in: a rendered platform and where it is to go, from a command line or the service's configuration. What
//! goes out: what was committed or proposed, or why not. It joins the steps of `outhaul-ship` with the forges of
//! `outhaul-remote`, decides nothing that they decide, and prints nothing.

use std::path::Path;

use outhaul_bundle::index::Snapshot;
use outhaul_control::Diagnostics;
use outhaul_control::overriding::Override;
use outhaul_git::source::GitReference;
use outhaul_load::pipeline::Platform;
use outhaul_load::{LoadRequest, since};
use outhaul_remote::forge::access::credential;
use outhaul_remote::forge::{self, Access, ForgeError, ForgeKind};
use outhaul_ship::branch::plan::{CommitChanges, PlanError};
use outhaul_ship::branch::proposal::{ProposalAction, ProposeError, Proposed};
use outhaul_ship::branch::{
    self, BranchTarget, Desired, PlatformRepository, PublishError, TargetChoice, TargetError,
};
use zeroize::Zeroizing;

/// Where and how an environment is published.
pub struct Publication<'a> {
    /// Where it goes, as far as somebody chose.
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
    let choice = publication.target;
    let target = BranchTarget::of(&platform.control_plane, choice)?;
    let reference = GitReference::Branch(target.branch.clone());
    let is_given = choice.to.is_some();
    let url = branch::where_to(&target.url, &reference, is_given, &platform.sources)
        .map_err(not_published)?;
    let kind = publication
        .forge
        .or_else(|| ForgeKind::of_host(&target.url));
    let credential = credential(&url, kind, publication.token.as_ref());
    let reached = BranchTarget {
        url,
        ..target.clone()
    };
    let repository =
        PlatformRepository::open(reached, &platform.cache, credential).map_err(not_published)?;
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
