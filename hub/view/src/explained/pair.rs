//! One pair of cluster type and target: why it is assigned or not, and its values, for the bundle that runs and the one that is desired.
//!
//! What comes in: the store, a pair, perhaps a site of it and one document on record. What goes out: plain values for the page and the
//! API. The assignment and the version of its config are compared with the signed index of the bundle; nothing else of an explanation
//! is proven.

use std::collections::BTreeSet;

use outhaul_bundle::hub_api::{ExplanationAnswer, ExplanationRow};
use outhaul_bundle::index::Snapshot;
use outhaul_gate::time::rfc3339;
use outhaul_store::{Session, StoreError, StoredExplanation};
use serde::Serialize;

use super::asked::ExplainAsked;
use super::of_bundles::{RelevantBundle, Signed, is_site_of, of_site, of_stream, signed};
use super::of_pair::OfPair;
use super::shown::{
    AssignedShown, LISTED, Places, PolicyShown, ValueShown, assigned_shown, overlay_sites,
    policy_shown, value_shown, with_room,
};
use super::{asked_for, explanation_row, others_of};
use crate::indexes::{FOR_ONE_BYTES, Indexes};

/// Values shown.
const VALUES_SHOWN: usize = 500;

/// What a page shows of a pair.
#[derive(Debug, Clone, Serialize)]
pub struct ExplainView {
    /// The environment.
    pub environment: String,
    /// The cluster type.
    pub cluster_type: String,
    /// The deployment target.
    pub target: String,
    /// The site; empty for none.
    pub site: String,
    /// Whether a site or a bundle of the environment is known, so that it has a page.
    pub has_environment: bool,
    /// The bundles of the stream that matter here: that is desired, and those that run.
    pub bundles: Vec<ExplainedBundle>,
    /// The explanation; `None` where none of what was asked for is on record.
    pub shown: Option<ShownExplanation>,
    /// When this was read, RFC 3339.
    pub read_at: String,
}

/// A bundle of the stream, and the explanation of what it was rendered from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExplainedBundle {
    /// Its number.
    pub number: u64,
    /// Its base commit.
    pub base_commit: String,
    /// The commit of the environment's own repository.
    pub environment_commit: String,
    /// Whether it is what should run.
    pub is_desired: bool,
    /// Sites that run it; of one site, 1 where it runs it.
    pub running: u64,
    /// Digest of the explanation of most of its sources; `None` where none is on record.
    pub explanation: Option<String>,
    /// Whether the explanation that is shown is of the snapshot that it was rendered from.
    pub is_shown: bool,
    /// Sources that it has and the explanation that is shown does not have.
    pub more_sources: usize,
    /// The version of the pair's config in its signed index; `None` where that is not known, or it does not have the assignment.
    pub config_version: Option<String>,
    /// Whether its signed index has the assignment, at the site where one was named; `None` where that is not known.
    pub has_assignment: Option<bool>,
    /// Why the version is not known.
    pub unknown: Option<String>,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExplainUnknown {
    /// The hub knows nothing of the environment.
    Environment,
    /// No site of this name is of the environment and the cluster type.
    Site,
    /// None of the environment is on record.
    Explanation,
    /// None of this digest is on record of the environment; others are.
    Digest,
    /// The one on record knows no such pair; why, as a sentence.
    Pair(String),
}

/// An explanation of a pair.
#[derive(Debug, Clone, Serialize)]
pub struct ShownExplanation {
    /// The document.
    pub row: ExplanationRow,
    /// Documents of the same snapshot with other content.
    pub others: Vec<ExplanationRow>,
    /// The numbers of the listed bundles that were rendered from its snapshot.
    pub bundles: Vec<u64>,
    /// Short names of repositories in places, and what they stand for.
    pub places: Vec<(String, String)>,
    /// The assignment.
    pub assignment: Option<AssignedShown>,
    /// Whether it is assigned, and not to the site that was named.
    pub is_elsewhere: bool,
    /// Bundles of the snapshot whose signed index does not have what the explanation says is assigned here.
    pub lacks: Vec<u64>,
    /// Those that have what it says is not assigned here.
    pub has: Vec<u64>,
    /// Where something lacks in the explanation: bundles that have more sources than it, and how many.
    pub more_sources: Vec<(u64, usize)>,
    /// Each policy of the assignment with sentences; the nearest where it is not assigned.
    pub policies: Vec<PolicyShown>,
    /// Why the pair is in neither list.
    pub unknown: Option<String>,
    /// The version of its config, at the site where one was named.
    pub config_version: Option<String>,
    /// Bundles whose signed index names this version. Nothing says that the values are those of it.
    pub same_config: Vec<u64>,
    /// Those that have another.
    pub other_config: Vec<u64>,
    /// The values, cut.
    pub values: Vec<ValueShown>,
    /// How many more values there are.
    pub more_values: usize,
}

impl ExplainView {
    /// Reads one pair, or why there is no answer.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn of(
        session: &Session<'_>,
        asked: &ExplainAsked<'_>,
        now_ms: i64,
    ) -> Result<Result<Self, ExplainUnknown>, StoreError> {
        let mut environments = session.environments()?.into_iter();
        let has_environment = environments.any(|name| name == asked.environment);
        if !has_environment && session.explanations(asked.environment, 1)?.is_empty() {
            return Ok(Err(ExplainUnknown::Environment));
        }
        if !asked.site.is_empty() && !is_site_of(session, asked.site, asked)? {
            return Ok(Err(ExplainUnknown::Site));
        }
        let found = match asked.site {
            "" => of_stream(session, asked)?,
            _ => of_site(session, asked, now_ms)?,
        };
        let mut indexes = Indexes::new(session, FOR_ONE_BYTES);
        let mut bundles = Vec::new();
        for one in &found {
            bundles.push(explained_bundle(session, &mut indexes, one, asked)?);
        }
        let stored = match asked.digest {
            "" => by_bundles(session, asked.environment, &bundles)?,
            digest => asked_for(session, asked.environment, digest)?,
        };
        let shown = match stored {
            None => None,
            Some(stored) => {
                let snapshot = session.explanation_snapshot(stored.id)?;
                for (bundle, found) in bundles.iter_mut().zip(&found) {
                    let rendered = &found.bundle.snapshot;
                    bundle.is_shown = rendered.is_of(&snapshot);
                    let (all, told) = (rendered.workloads.len(), snapshot.workloads.len());
                    bundle.more_sources = all.saturating_sub(told);
                }
                Some(shown(session, (&stored, &snapshot), asked, &bundles)?)
            }
        };
        Ok(Ok(Self {
            environment: asked.environment.to_owned(),
            cluster_type: asked.cluster_type.to_owned(),
            target: asked.target.to_owned(),
            site: asked.site.to_owned(),
            has_environment,
            bundles,
            shown,
            read_at: rfc3339(now_ms),
        }))
    }
}

fn explained_bundle(
    session: &Session<'_>,
    indexes: &mut Indexes<'_, '_>,
    found: &RelevantBundle,
    asked: &ExplainAsked<'_>,
) -> Result<ExplainedBundle, StoreError> {
    let bundle = &found.bundle;
    let explanations = session.explanations_of(asked.environment, &bundle.snapshot)?;
    let (config_version, has_assignment, unknown) = match signed(indexes, bundle, asked)? {
        Signed::Has(version) => (Some(version), Some(true), None),
        Signed::Lacks(why) => (None, Some(false), Some(why)),
        Signed::Unknown(why) => (None, None, Some(why)),
    };
    Ok(ExplainedBundle {
        number: bundle.number,
        base_commit: bundle.snapshot.base.commit.clone(),
        environment_commit: bundle.snapshot.environment.commit.clone(),
        is_desired: found.is_desired,
        running: found.running,
        explanation: explanations.first().map(|one| one.digest.clone()),
        is_shown: false,
        more_sources: 0,
        config_version,
        has_assignment,
        unknown,
    })
}

/// The document of the first bundle that runs, else of the desired one, else the newest of the environment.
fn by_bundles(
    session: &Session<'_>,
    environment: &str,
    bundles: &[ExplainedBundle],
) -> Result<Option<StoredExplanation>, StoreError> {
    let runs = bundles.iter().filter(|one| one.running > 0);
    let first = runs
        .chain(bundles.iter().filter(|one| one.is_desired))
        .find_map(|one| one.explanation.as_deref());
    asked_for(session, environment, first.unwrap_or_default())
}

fn shown(
    session: &Session<'_>,
    (stored, snapshot): (&StoredExplanation, &Snapshot),
    asked: &ExplainAsked<'_>,
    bundles: &[ExplainedBundle],
) -> Result<ShownExplanation, StoreError> {
    let found = OfPair::read(session, stored, asked)?;
    let places = Places::of(snapshot);
    let of_it: Vec<&ExplainedBundle> = bundles.iter().filter(|one| one.is_shown).collect();
    let is_assigned = found.is_assigned();
    let with = |has: bool| -> Vec<u64> {
        let all = of_it.iter().filter(|one| one.has_assignment == Some(has));
        let contradict = all.filter(|_| has != is_assigned);
        contradict.map(|one| one.number).collect()
    };
    let compared = |same: bool| -> Vec<u64> {
        let versions = of_it.iter().filter(|bundle| {
            let both = bundle
                .config_version
                .as_ref()
                .zip(found.config_version.as_ref());
            both.is_some_and(|(signed, told)| (signed == told) == same)
        });
        versions.map(|bundle| bundle.number).collect()
    };
    let verdicts = found.assignment.iter().flat_map(|one| &one.verdicts);
    let nearest = found
        .not_assigned
        .iter()
        .filter_map(|one| one.nearest.as_ref());
    let verdicts: Vec<_> = verdicts.chain(nearest).collect();
    let said = verdicts.iter().map(|one| policy_shown(one, &places));
    let policies = with_room(said, LISTED);
    let all = found.values.iter();
    let values = with_room(all.map(|value| value_shown(value, &places)), VALUES_SHOWN);
    let mut known = BTreeSet::new();
    for site in found.assignment.iter().flat_map(overlay_sites) {
        if is_site_of(session, site, asked)? {
            known.insert(site.clone());
        }
    }
    let mut assignment = (found.assignment.as_ref()).map(|one| assigned_shown(one, &known));
    if let Some(one) = &mut assignment {
        let left_out = verdicts.len() - policies.len();
        one.more_verdicts = one.more_verdicts.saturating_add(left_out);
    }
    let has = with(true);
    // Payloads are sources of every bundle: only of what the explanation lacks are they a reason.
    let is_lacking = found.unknown.is_some() || !has.is_empty();
    Ok(ShownExplanation {
        row: explanation_row(stored),
        others: others_of(session, stored)?,
        bundles: of_it.iter().map(|bundle| bundle.number).collect(),
        places: places.legend(),
        policies,
        is_elsewhere: found.is_elsewhere,
        lacks: with(false),
        has,
        more_sources: (of_it
            .iter()
            .filter(|one| is_lacking && one.more_sources > 0))
        .map(|one| (one.number, one.more_sources))
        .collect(),
        same_config: compared(true),
        other_config: compared(false),
        more_values: found.values.len() - values.len(),
        values,
        unknown: found.unknown,
        config_version: found.config_version,
        assignment,
    })
}

/// The answer for programs: what one document says of a pair, or why there is none.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn explanation_answer(
    session: &Session<'_>,
    asked: &ExplainAsked<'_>,
) -> Result<Result<ExplanationAnswer, ExplainUnknown>, StoreError> {
    let Some(stored) = asked_for(session, asked.environment, asked.digest)? else {
        let is_known = !session.explanations(asked.environment, 1)?.is_empty();
        return Ok(Err(match is_known {
            true => ExplainUnknown::Digest,
            false => ExplainUnknown::Explanation,
        }));
    };
    if !asked.site.is_empty() && !is_site_of(session, asked.site, asked)? {
        return Ok(Err(ExplainUnknown::Site));
    }
    let found = OfPair::read(session, &stored, asked)?;
    if let Some(why) = found.unknown {
        return Ok(Err(ExplainUnknown::Pair(why)));
    }
    Ok(Ok(ExplanationAnswer {
        explanation: explanation_row(&stored),
        snapshot: session.explanation_snapshot(stored.id)?,
        assignment: found.assignment,
        not_assigned: found.not_assigned,
        values: found.values,
    }))
}
