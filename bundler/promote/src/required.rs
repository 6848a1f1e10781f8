//! What ships an environment asks first: may this base commit be here?
//!
//! What comes in: a loaded environment and the request that loaded it, and the override of whoever asks. What goes
//! out: the [`Passage`] that brought its base commit here, or a refusal with the way through the gate. The evidence
//! is looked for in the history of the environment's own branch, where `promote` wrote it, and among the overrides
//! that the fleet keeps; one that counts is kept there before anything is signed. It moves nothing.

use std::path::Path;

use outhaul_bundle::index::Snapshot;

use super::former::FormerGate;
use super::lineage::{Branch, Lineage};
use super::order::{ChainPlace, PromotionOrder};
use super::overrides::{self, OverrideError};
use super::policy::SiteRule;
use super::record::Passage;
use super::{Chain, PromoteError, quoted};
use outhaul_control::ControlPlane;
use outhaul_control::model::BaseRepo;
use outhaul_control::overriding::Override;
use outhaul_git::source::{self, GitReference, OpenedSource, SourceError};
use outhaul_kit::failure::{Classified, FailureClass};
use outhaul_load::{LoadRequest, MAIN, Origin};

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
        /// Where its path is none that a gate before it has seen, the one that it is to have.
        path: Option<Box<str>>,
    },
    /// A gate decided about it once, the chain has none before it now, and no promotion brought it to where it is.
    #[error(
        "environment `{environment}` is the first one now, and commit {made:.12} of its branch records that it was promoted {how}: it is at base \
         commit {commit}, and no record shows that such a promotion brought it there{}",
        problem.as_ref().map(|problem| format!(": {problem}")).unwrap_or_default()
    )]
    GateGone {
        /// The environment.
        environment: String,
        /// Its base commit.
        commit: String,
        /// The promotion on its branch.
        made: String,
        /// Through which gate.
        how: String,
        /// What its branch has instead.
        problem: Option<String>,
    },
    /// Another base than the one that is promoted.
    #[error(
        "environment `{environment}` comes after {before}, and no gate decides about its base `{base}` ({at}): {why}"
    )]
    OtherBase {
        /// The environment.
        environment: String,
        /// What is before it.
        before: String,
        /// The base.
        base: String,
        /// Where it is written.
        at: String,
        /// Why no gate does.
        why: String,
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
            Self::NoEvidence { .. } | Self::GateGone { .. } | Self::OtherBase { .. } => {
                FailureClass::Refused
            }
            Self::Promote(error) => error.class(),
            Self::Record(_) => FailureClass::Environment,
        }
    }

    fn help(&self) -> Option<String> {
        let help = match self {
            Self::NoEvidence {
                environment,
                path: Some(path),
                ..
            } => format!(
                "set the path of its base to `{path}`, or, if the other one is meant, promote it once past the gate, with `outhaul promote --to \
                 {environment} --override-gate REASON --override-by NAME`, which is recorded; nothing was written"
            ),
            Self::NoEvidence { environment, .. } => format!(
                "promote it with `outhaul promote --to {environment} --hub URL` (with `--commit` and `--backwards`, where it went back), or \
                 go past the gate with `--override-gate REASON --override-by NAME`, which is recorded; nothing was written"
            ),
            Self::GateGone { .. } => {
                "put the environment before it back into `.environments/` of the control plane, or go past the gate with `--override-gate REASON \
                 --override-by NAME`, which is recorded; nothing was written"
                    .to_owned()
            }
            Self::OtherBase { .. } => format!("{OTHER_BASE_HELP}; nothing was written"),
            Self::Promote(error) => match error.help() {
                Some(help) => format!("{help}; nothing was written"),
                None => "nothing was written".to_owned(),
            },
            Self::Record(_) => "nothing was written".to_owned(),
        };
        Some(help)
    }
}

/// What to do about a base that no gate decides about.
pub(super) const OTHER_BASE_HELP: &str = "write that BaseRepo, with the `commit` that is meant, into the content that the BaseRepo `main` names, and promote \
    the commit that has it there";

/// The bases that no promotion moves, each with why: what is promoted is the commit of `main`, and with it the bases that its content
/// pins.
pub(super) fn other_bases(plane: &ControlPlane) -> impl Iterator<Item = (&BaseRepo, String)> {
    let bases = plane.base_repos.values().filter(|base| base.name != MAIN);
    bases.filter_map(|base| {
        if plane.own_bases.contains(&base.name) {
            let why = "the environment itself names it, and only the commit of `main` is promoted";
            return Some((base, why.to_owned()));
        }
        let follows = || format!("it has no commit, and follows branch `{}`", base.at.branch);
        base.commit.is_none().then(|| (base, follows()))
    })
}

/// Why no gate decides about the base of `environment`, which comes after others: its path there is none of theirs, and no promotion brought
/// it. `None` where that is not so.
pub(super) fn unseen_path(
    chain: &Chain<'_>,
    environment: &str,
) -> Result<Option<PromoteError>, PromoteError> {
    let ChainPlace::After(names, _) = chain.before(environment) else {
        return Ok(None);
    };
    let link = chain.link(environment)?;
    let mut unseen = None;
    for from in names {
        match chain.refuse_unseen_path(&link, from) {
            Ok(_) => return Ok(None),
            Err(error @ PromoteError::UnseenPath { .. }) => unseen = unseen.or(Some(error)),
            Err(error) => return Err(error),
        }
    }
    Ok(unseen)
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
    let LookedUp {
        before,
        former,
        lineage,
        unseen,
    } = looked_up(request, plane, snapshot)?;
    let names = match (&before, &former) {
        (ChainPlace::First, None) => return Ok(Passage::First),
        (ChainPlace::First, Some(former)) => Some(format!("a gate ({})", former.how())),
        (ChainPlace::After(names, _), _) => Some(quoted(names)),
        (ChainPlace::Unknown, _) => None,
    };
    // No override was given for these: it is for one move of the one that is promoted.
    if let (Some((base, why)), Some(names)) = (other_bases(plane).next(), names) {
        return Err(ShipRefusal::OtherBase {
            environment: environment.clone(),
            before: names,
            base: base.name.clone(),
            at: base.location.file_line(),
            why,
        });
    }
    if let Some(found) = lineage
        .as_ref()
        .and_then(|found| found.promotion.clone().ok())
    {
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
    let mut problem = lineage.and_then(|lineage| lineage.promotion.err());
    if let (Some((_, made_by)), Some(problem)) = (earlier, &mut problem) {
        problem.push_str(match made_by {
            Some(_) => "; an override that the fleet keeps was given for an earlier move there, and does not count for this one",
            None => "; an override that the fleet keeps was given before the move was recorded with it: give it again, once",
        });
    }
    // No promotion through the gate is the way then.
    let path = match unseen {
        Some(PromoteError::UnseenPath { their_path, .. }) => Some(their_path),
        _ => None,
    };
    Err(match (before, former) {
        (ChainPlace::First, Some(former)) => ShipRefusal::GateGone {
            environment: environment.clone(),
            commit: commit.clone(),
            how: former.how(),
            made: former.made,
            problem,
        },
        (ChainPlace::After(names, _), _) => ShipRefusal::NoEvidence {
            environment: environment.clone(),
            commit: commit.clone(),
            before: quoted(&names),
            problem,
            path,
        },
        _ => ShipRefusal::Promote(PromoteError::NoOrder {
            environment: environment.clone(),
        }),
    })
}

/// What is known of an environment's base.
pub(super) struct LookedUp {
    /// Where the environment is in the chain.
    pub before: ChainPlace,
    /// For the first of the chain, the promotion through a gate that its branch records.
    pub former: Option<FormerGate>,
    /// How its base came to where it is: `None` where no gate is asked for, and for two folders, which have no history.
    pub lineage: Option<Lineage>,
    /// Why no gate would decide about it, where no promotion brought it there.
    pub unseen: Option<PromoteError>,
}

fn looked_up(
    request: &LoadRequest,
    plane: &ControlPlane,
    snapshot: &Snapshot,
) -> Result<LookedUp, ShipRefusal> {
    let environment = &request.environment;
    Ok(match &request.from {
        Origin::Folders { base_dir, .. } => {
            let order = order_beside(request, plane, snapshot, base_dir.as_deref())?;
            // Two folders without a list of environments are one environment.
            let before = match order.is_empty() {
                true => ChainPlace::First,
                false => order.before(environment).clone(),
            };
            LookedUp {
                before,
                former: None,
                lineage: None,
                unseen: None,
            }
        }
        Origin::Repository { url, branch } => {
            let (sources, cache) = (request.sources.clone(), &request.cache);
            let chain = Chain::on_branch(url, branch.clone(), sources, cache)?;
            looked_up_in(&chain, environment, snapshot)?
        }
    })
}

pub(super) fn looked_up_in(
    chain: &Chain<'_>,
    environment: &str,
    snapshot: &Snapshot,
) -> Result<LookedUp, ShipRefusal> {
    let before = chain.before(environment).clone();
    let opened = opened(chain, environment, snapshot)?;
    let own = chain.environment(environment)?;
    let former = match before {
        ChainPlace::First => chain.former_gate_at(own, &opened)?,
        _ => None,
    };
    let lineage = match (&before, &former) {
        (ChainPlace::First, None) => None,
        (_, former) => Some(on_branch(
            chain,
            (environment, former.as_ref()),
            &opened,
            snapshot,
        )?),
    };
    let is_open = lineage.as_ref().is_none_or(|found| found.promotion.is_ok());
    let unseen = match is_open {
        true => None,
        false => unseen_path(chain, environment)?,
    };
    Ok(LookedUp {
        before,
        former,
        lineage,
        unseen,
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

/// The branch of an environment at the commit that was loaded.
fn opened(
    chain: &Chain<'_>,
    environment: &str,
    snapshot: &Snapshot,
) -> Result<OpenedSource, PromoteError> {
    let at = &chain.environment(environment)?.control_plane;
    let sources = chain.environment_sources(&at.repo.value);
    let reference = GitReference::Commit {
        id: snapshot.environment.commit.clone(),
        near: Some(at.branch.clone()),
    };
    Ok(source::open(
        &at.repo.value,
        &reference,
        &sources,
        chain.cache,
    )?)
}

/// What that branch says. Of an environment with a `former` gate its name of then counts, and a step that the chain does not have any more.
fn on_branch(
    chain: &Chain<'_>,
    (environment, former): (&str, Option<&FormerGate>),
    opened: &OpenedSource,
    snapshot: &Snapshot,
) -> Result<Lineage, PromoteError> {
    let at = &chain.environment(environment)?.control_plane;
    let branch = Branch {
        environment: former.map_or(environment, |former| &former.environment),
        root: &at.path,
        gate: &|gate| {
            let rule = chain.rule_then(gate)?;
            Ok(rule.or_else(|| former.map(|_| SiteRule::OF_A_FORMER_GATE)))
        },
    };
    branch.lineage(opened, &snapshot.base.commit)
}
