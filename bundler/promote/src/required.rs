//! What ships an environment asks first: may this base commit be here?
//!
//! What comes in: a loaded environment and the request that loaded it, and the override of whoever asks. What goes
//! out: the [`Passage`] that brought its base commit here, or a refusal with the way through the gate. The evidence
//! is looked for in the history of the environment's own branch, where `promote` wrote it, and among the overrides
//! that the fleet keeps; one that counts is kept there before anything is signed. It moves nothing.

use std::path::Path;

use outhaul_bundle::index::Snapshot;

use super::lineage::{Branch, Lineage};
use super::order::{ChainPlace, PromotionOrder};
use super::overrides::{self, OverrideError};
use super::record::Passage;
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
        "environment `{environment}` is at base commit {commit}, and no record shows that it came there through the gate of {before}{}",
        problem.as_ref().map(|problem| format!(": {problem}")).unwrap_or_default()
    )]
    NoEvidence {
        /// The environment.
        environment: String,
        /// Its base commit.
        commit: String,
        /// What is before it.
        before: String,
        /// What its branch has instead, where it has a history.
        problem: Option<String>,
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
                "promote it with `outhaul promote --to {environment} --hub URL` (with `--commit` and `--backwards`, where it went back), or \
                 go past the gate with `--override-gate REASON --override-by NAME`, which is recorded; nothing was written"
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
/// counts when there is nothing else; one that `fleet` keeps for the same move counts before it, and `given` is kept there when it
/// is what counts.
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
    let (environment, commit) = (&request.environment, &snapshot.base.commit);
    let (before, lineage) = looked_up(request, plane, snapshot)?;
    if before == ChainPlace::First {
        return Ok(Passage::First);
    }
    if let Some(found) = lineage.as_ref().and_then(|lineage| lineage.passage.clone()) {
        return Ok(found);
    }
    // It was given for this move to the commit, not for each one to come.
    let moved_by = lineage.as_ref().map(|lineage| lineage.moved_by.as_str());
    let mut earlier = None;
    if let Some(fleet) = fleet {
        if let Some(known) = overrides::find(fleet, environment, commit, moved_by)? {
            return Ok(Passage::Override(known));
        }
        if let Some(given) = given {
            overrides::keep(fleet, environment, commit, moved_by, given)?;
        } else {
            earlier = overrides::newest(fleet, environment, commit)?;
        }
    }
    if let Some(given) = given {
        return Ok(Passage::Override(given.clone()));
    }
    let mut problem = lineage.and_then(|lineage| lineage.problem);
    if let (Some((_, made_by)), Some(problem)) = (earlier, &mut problem) {
        problem.push_str(match made_by {
            Some(_) => "; an override that the fleet keeps was given for an earlier move there, and does not count for this one",
            None => "; an override that the fleet keeps was given before the move was recorded with it: give it again, once",
        });
    }
    Err(match before {
        ChainPlace::After(names, _) => ShipRefusal::NoEvidence {
            environment: environment.clone(),
            commit: commit.clone(),
            before: quoted(&names),
            problem,
        },
        _ => ShipRefusal::Promote(PromoteError::NoOrder {
            environment: environment.clone(),
        }),
    })
}

/// Where the environment is in the chain, and how its base came to where it is; that of two folders has no history.
fn looked_up(
    request: &LoadRequest,
    plane: &ControlPlane,
    snapshot: &Snapshot,
) -> Result<(ChainPlace, Option<Lineage>), ShipRefusal> {
    let environment = &request.environment;
    Ok(match &request.from {
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
                _ => Some(on_branch(&chain, environment, snapshot)?),
            };
            (before, found)
        }
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
) -> Result<Lineage, PromoteError> {
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
    let branch = Branch {
        environment,
        root: &at.path,
        may_come: &|from| chain.may_come(from, environment),
    };
    branch.lineage(&opened, &snapshot.base.commit)
}
