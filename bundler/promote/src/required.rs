//! What ships an environment asks first: may this base commit be here?
//!
//! What comes in: a loaded environment and the request that loaded it, and the override of whoever asks. What goes
//! out: the [`Passage`] that brought its base commit here, or a refusal with the way through the gate. The evidence
//! is looked for in the history of the environment's own branch, where `promote` wrote it, and among the overrides
//! that the fleet keeps; one that counts is kept there before anything is signed. It moves nothing.

use std::path::Path;

use outhaul_bundle::index::Snapshot;

use super::order::{ChainPlace, PromotionOrder};
use super::overrides::{self, OverrideError};
use super::record::{self, Passage};
use super::{Chain, PromoteError, quoted};
use outhaul_control::ControlPlane;
use outhaul_control::overriding::Override;
use outhaul_git::source::{self, GitReference, SourceError};
use outhaul_kit::failure::{Classified, FailureClass};
use outhaul_load::{LoadRequest, Origin};

/// A base commit that no gate let in. Nothing was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShipRefusal {
    /// There is no evidence.
    #[error(
        "environment `{environment}` is at base commit {commit}, and no record shows that it came there through the gate of {before}"
    )]
    NoEvidence {
        /// The environment.
        environment: String,
        /// Its base commit.
        commit: String,
        /// What is before it.
        before: String,
    },
    /// The chain or the branch cannot be read.
    #[error(transparent)]
    Promote(#[from] PromoteError),
    /// The overrides that the fleet keeps cannot be read or written.
    #[error(transparent)]
    Record(#[from] OverrideError),
}

impl Classified for ShipRefusal {
    fn class(&self) -> FailureClass {
        match self {
            Self::NoEvidence { .. } => FailureClass::Refused,
            Self::Promote(error) => error.class(),
            Self::Record(_) => FailureClass::Environment,
        }
    }

    fn help(&self) -> Option<String> {
        let help = match self {
            Self::NoEvidence { environment, .. } => format!(
                "promote it with `outhaul promote --to {environment} --hub URL`, or go past the gate with \
                 `--override-gate REASON --override-by NAME`, which is recorded; nothing was written"
            ),
            Self::Promote(error) => match error.help() {
                Some(help) => format!("{help}; nothing was written"),
                None => "nothing was written".to_owned(),
            },
            Self::Record(_) => "nothing was written".to_owned(),
        };
        Some(help)
    }
}

/// The evidence on which `snapshot`'s base commit is in its environment. `given` is the override of whoever asks, which
/// counts when there is nothing else; one that `fleet` keeps counts before it, and `given` is kept there when it is
/// what counts.
///
/// # Errors
/// [`ShipRefusal`]
pub fn passage(
    request: &LoadRequest,
    plane: &ControlPlane,
    snapshot: &Snapshot,
    fleet: Option<&Path>,
    given: Option<&Override>,
) -> Result<Passage, ShipRefusal> {
    let (environment, base) = (&request.environment, &snapshot.base.commit);
    let known = match fleet {
        Some(fleet) => overrides::find(fleet, environment, base)?,
        None => None,
    };
    let found = evidence(request, plane, snapshot, known.as_ref().or(given))?;
    if let (Some(fleet), None, Passage::Override(used)) = (fleet, &known, &found)
        && Some(used) == given
    {
        overrides::keep(fleet, environment, base, used)?;
    }
    Ok(found)
}

/// What there is on the branch, or else `given`.
fn evidence(
    request: &LoadRequest,
    plane: &ControlPlane,
    snapshot: &Snapshot,
    given: Option<&Override>,
) -> Result<Passage, ShipRefusal> {
    let environment = &request.environment;
    let commit = &snapshot.base.commit;
    let (before, found) = match &request.from {
        Origin::Folders { base_dir, .. } => {
            let order = order_beside(request, plane, snapshot, base_dir.as_deref())?;
            // Two folders without a list of environments are one environment.
            let before = match order.is_empty() {
                true => ChainPlace::First,
                false => order.before(environment).clone(),
            };
            (before, None)
        }
        Origin::Repository { url, branch } => {
            let (sources, cache) = (request.sources.clone(), &request.cache);
            let chain = Chain::on_branch(url, branch.clone(), sources, cache)?;
            let before = chain.before(environment).clone();
            let found = match before {
                ChainPlace::First => None,
                _ => on_branch(&chain, environment, snapshot)?,
            };
            (before, found)
        }
    };
    if before == ChainPlace::First {
        return Ok(Passage::First);
    }
    if let Some(found) = found.or_else(|| given.cloned().map(Passage::Override)) {
        return Ok(found);
    }
    Err(match before {
        ChainPlace::After(names, _) => ShipRefusal::NoEvidence {
            environment: environment.clone(),
            commit: commit.clone(),
            before: quoted(&names),
        },
        _ => ShipRefusal::Promote(PromoteError::NoOrder {
            environment: environment.clone(),
        }),
    })
}

/// The chain that the base of two folders lists: in the folder that it is mapped to, or in its repository.
fn order_beside(
    request: &LoadRequest,
    plane: &ControlPlane,
    snapshot: &Snapshot,
    base_dir: Option<&Path>,
) -> Result<PromotionOrder, PromoteError> {
    let opened = match (base_dir, plane.base_repos.get("main")) {
        (Some(dir), _) => source::open_plain(dir, "", None)?,
        (None, Some(base)) => {
            let reference = GitReference::Commit {
                id: snapshot.base.commit.clone(),
                near: Some(base.at.branch.clone()),
            };
            source::open(
                &base.at.repo.value,
                &reference,
                &request.sources,
                &request.cache,
            )?
        }
        (None, None) => return Ok(PromotionOrder::default()),
    };
    match super::listed(&opened) {
        Ok((environments, policies)) => Ok(PromotionOrder::of(&environments, &policies)),
        Err(PromoteError::Source(SourceError::NoSuchPath { .. })) => Ok(PromotionOrder::default()),
        Err(error) => Err(error),
    }
}

/// What the branch says, from the commit that was loaded.
fn on_branch(
    chain: &Chain<'_>,
    environment: &str,
    snapshot: &Snapshot,
) -> Result<Option<Passage>, PromoteError> {
    let at = &chain.environment(environment)?.control_plane;
    let mut sources = chain.sources.clone();
    if Path::new(chain.url).is_dir() {
        sources.insert_default(&at.repo.value, Path::new(chain.url));
    }
    let reference = GitReference::Commit {
        id: snapshot.environment.commit.clone(),
        near: Some(at.branch.clone()),
    };
    let opened = source::open(&at.repo.value, &reference, &sources, chain.cache)?;
    let moved = (environment, at.path.as_str());
    record::find(&opened, moved, &snapshot.base.commit, &|from| {
        chain.may_come(from, environment)
    })
}
