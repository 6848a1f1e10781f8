//! One pair of cluster type and target: why it is assigned or not, and its values, for the bundle that runs and the one that is desired.
//!
//! What comes in: the store, a pair, perhaps a site of it and one document on record. What goes out: plain values for the page and the
//! API. The version of the config is compared with that in the signed index of the bundle; nothing else of an explanation is proven.

use outhaul_bundle::hub_api::{
    AssignmentExplanation, ExplanationAnswer, ExplanationRow, PairVerdict, SetValue,
};
use outhaul_bundle::index::Snapshot;
use outhaul_bundle::name::Name;
use outhaul_gate::time::rfc3339;
use outhaul_store::{BundleOnRecord, Session, SitePage, StoreError, StoredExplanation};
use serde::Serialize;

use super::pack::Part;
use super::shown::{
    AssignedShown, Places, PolicyShown, ValueShown, assigned_shown, policy_shown, value_shown,
};
use super::{asked_for, explanation_row, others_of, read};
use crate::indexes::Indexes;
use crate::{Reading, newest_for};

/// Text of indexes that is read for the page, in bytes.
const INDEX_BYTES: u64 = 16 * 1024 * 1024;
/// Bundles that run in a stream and are listed: those that most sites run.
const RUNNING_LISTED: usize = 3;
/// Values shown.
const VALUES_SHOWN: usize = 500;

/// Which pair.
#[derive(Debug, Clone, Copy)]
pub struct ExplainAsked<'a> {
    /// The environment.
    pub environment: &'a str,
    /// The cluster type.
    pub cluster_type: &'a str,
    /// The deployment target.
    pub target: &'a str,
    /// A site of the cluster type; empty for none.
    pub site: &'a str,
    /// Digest of the document; empty for that of the bundle that runs, else of the desired one, else the newest.
    pub digest: &'a str,
}

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
    /// Digest of the explanation that was sent last; `None` where none is on record.
    pub explanation: Option<String>,
    /// The version of the pair's config in its signed index; `None` where that is not known, or it does not have the assignment.
    pub config_version: Option<String>,
    /// Why it is not known.
    pub unknown: Option<String>,
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
    /// Each policy of the assignment with sentences; the nearest where it is not assigned.
    pub policies: Vec<PolicyShown>,
    /// Why the pair is in neither list.
    pub unknown: Option<String>,
    /// The version of its config, at the site where one was named.
    pub config_version: Option<String>,
    /// Bundles whose signed index has this version, and those that have another one.
    pub same_config: Vec<u64>,
    /// Those that have another.
    pub other_config: Vec<u64>,
    /// The values, cut.
    pub values: Vec<ValueShown>,
    /// How many more values there are.
    pub more_values: usize,
}

impl ExplainView {
    /// Reads one pair; `None` where the hub knows nothing of its environment.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn of(
        session: &Session<'_>,
        asked: &ExplainAsked<'_>,
        now_ms: i64,
    ) -> Result<Option<Self>, StoreError> {
        let is_known = session
            .environments()?
            .iter()
            .any(|name| name == asked.environment)
            || !session.explanations(asked.environment, 1)?.is_empty();
        if !is_known {
            return Ok(None);
        }
        let found = match asked.site {
            "" => of_stream(session, asked)?,
            site => of_site(session, site, asked, now_ms)?,
        };
        let mut indexes = Indexes::new(session, INDEX_BYTES);
        let mut bundles = Vec::new();
        for (bundle, is_desired, running) in &found {
            let explanations = session.explanations_of(asked.environment, &bundle.snapshot)?;
            let (config_version, unknown) = signed_config(&mut indexes, bundle, asked)?;
            bundles.push(ExplainedBundle {
                number: bundle.number,
                base_commit: bundle.snapshot.base.commit.clone(),
                environment_commit: bundle.snapshot.environment.commit.clone(),
                is_desired: *is_desired,
                running: *running,
                explanation: explanations.first().map(|one| one.digest.clone()),
                config_version,
                unknown,
            });
        }
        let stored = match asked.digest {
            "" => by_bundles(session, asked.environment, &bundles)?,
            digest => asked_for(session, asked.environment, digest)?,
        };
        let shown = match stored {
            None => None,
            Some(stored) => {
                let of_snapshot: Vec<&Snapshot> = found
                    .iter()
                    .map(|(bundle, _, _)| &bundle.snapshot)
                    .collect();
                Some(shown(session, &stored, asked, &bundles, &of_snapshot)?)
            }
        };
        Ok(Some(Self {
            environment: asked.environment.to_owned(),
            cluster_type: asked.cluster_type.to_owned(),
            target: asked.target.to_owned(),
            site: asked.site.to_owned(),
            bundles,
            shown,
            read_at: rfc3339(now_ms),
        }))
    }
}

/// A bundle, whether it is desired, and how many run it.
type Found = (BundleOnRecord, bool, u64);

/// The newest bundles of the pair's streams, and those that most sites run.
fn of_stream(session: &Session<'_>, asked: &ExplainAsked<'_>) -> Result<Vec<Found>, StoreError> {
    let mut found: Vec<Found> = Vec::new();
    let streams = session.streams_on_record()?;
    let streams = streams.iter().filter(|one| {
        (one.environment.as_str(), one.cluster_type.as_str())
            == (asked.environment, asked.cluster_type)
    });
    for stream in streams.take(RUNNING_LISTED) {
        let running = session.running_in_stream(&stream.role)?;
        let mut numbers: Vec<(u64, String)> = Vec::new();
        for (number, index, _) in running.iter().take(RUNNING_LISTED) {
            numbers.push((*number, index.clone()));
        }
        if let Some(newest) = session.bundle_on_record(&stream.role, stream.newest)? {
            let sites = running
                .iter()
                .find(|(number, index, _)| (*number, index) == (newest.number, &newest.index));
            found.push((newest, true, sites.map_or(0, |(_, _, sites)| *sites)));
        }
        for (number, index) in numbers {
            let Some(bundle) = session.bundle_on_record(&stream.role, number)? else {
                continue;
            };
            let is_listed = found
                .iter()
                .any(|(known, _, _)| (&known.role, known.number) == (&bundle.role, number));
            if bundle.index == index && !is_listed {
                let sites = running
                    .iter()
                    .find(|one| (one.0, &one.1) == (number, &index));
                found.push((bundle, false, sites.map_or(0, |(_, _, sites)| *sites)));
            }
        }
    }
    Ok(found)
}

/// The bundle that a site runs, and the one that it should run.
fn of_site(
    session: &Session<'_>,
    site: &str,
    asked: &ExplainAsked<'_>,
    now_ms: i64,
) -> Result<Vec<Found>, StoreError> {
    let reading = Reading::of(session, SitePage::named(site), now_ms)?;
    let Some(state) = reading.sites.first().filter(|one| {
        (
            one.site.as_str(),
            one.environment.as_str(),
            one.cluster_type.as_str(),
        ) == (site, asked.environment, asked.cluster_type)
    }) else {
        return Ok(Vec::new());
    };
    let mut found: Vec<Found> = Vec::new();
    if let Some(running) = state.running.as_ref().filter(|one| one.bundle > 0) {
        let bundle = session.bundle_on_record(&running.role, running.bundle)?;
        found.extend(
            bundle
                .filter(|bundle| bundle.index == running.index)
                .map(|bundle| (bundle, false, 1)),
        );
    }
    if let Some(desired) = newest_for(&reading.bundles, state) {
        let same =
            |one: &&mut Found| (&one.0.role, one.0.number) == (&desired.role, desired.number);
        match found.iter_mut().find(same) {
            Some(one) => one.1 = true,
            None => found.extend(
                session
                    .bundle_on_record(&desired.role, desired.number)?
                    .map(|bundle| (bundle, true, 0)),
            ),
        }
    }
    Ok(found)
}

/// The version of the pair's config in the signed index of a bundle, or why it is not known.
fn signed_config(
    indexes: &mut Indexes<'_, '_>,
    bundle: &BundleOnRecord,
    asked: &ExplainAsked<'_>,
) -> Result<(Option<String>, Option<String>), StoreError> {
    let index = match indexes.of(bundle)? {
        Ok(index) => index,
        Err(why) => return Ok((None, Some(why))),
    };
    let named = index
        .assignments
        .iter()
        .find(|one| one.name.as_str() == asked.target);
    let Some(named) = named else {
        let why = format!("bundle {} does not have this assignment", bundle.number);
        return Ok((None, Some(why)));
    };
    let version = match asked.site.parse::<Name>() {
        Ok(site) => named.for_site(&site).config_version,
        Err(_) => named.config_version,
    };
    Ok((Some(version.to_string()), None))
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
    stored: &StoredExplanation,
    asked: &ExplainAsked<'_>,
    bundles: &[ExplainedBundle],
    snapshots: &[&Snapshot],
) -> Result<ShownExplanation, StoreError> {
    let found = OfPair::read(session, stored, asked)?;
    let snapshot = session.explanation_snapshot(stored.id)?;
    let places = Places::of(&snapshot);
    let of_it = bundles.iter().zip(snapshots);
    let of_it: Vec<&ExplainedBundle> = of_it
        .filter(|(_, bundle)| bundle.is_of(&snapshot))
        .map(|(bundle, _)| bundle)
        .collect();
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
    Ok(ShownExplanation {
        row: explanation_row(stored),
        others: others_of(session, stored)?,
        bundles: of_it.iter().map(|bundle| bundle.number).collect(),
        places: places.legend(),
        policies: verdicts
            .chain(nearest)
            .map(|one| policy_shown(one, &places))
            .collect(),
        same_config: compared(true),
        other_config: compared(false),
        values: found
            .values
            .iter()
            .take(VALUES_SHOWN)
            .map(|value| value_shown(value, &places))
            .collect(),
        more_values: found.values.len().saturating_sub(VALUES_SHOWN),
        unknown: found.unknown,
        config_version: found.config_version,
        assignment: found.assignment.as_ref().map(assigned_shown),
    })
}

/// What a document says of a pair.
struct OfPair {
    assignment: Option<AssignmentExplanation>,
    not_assigned: Option<PairVerdict>,
    values: Vec<SetValue>,
    config_version: Option<String>,
    unknown: Option<String>,
}

impl OfPair {
    fn read(
        session: &Session<'_>,
        stored: &StoredExplanation,
        asked: &ExplainAsked<'_>,
    ) -> Result<Self, StoreError> {
        let text = session.explanation_part(stored.id, asked.cluster_type)?;
        let is_unknown = text.is_none();
        let mut part: Part = match text {
            Some(text) => read(&text)?,
            None => Part::default(),
        };
        let assignment = part
            .assignments
            .into_iter()
            .find(|one| one.target == asked.target);
        let not_assigned = part
            .not_assigned
            .into_iter()
            .find(|one| one.target == asked.target);
        let overlay = assignment.as_ref().and_then(|one| {
            let mut overlays = one.overlays.iter();
            overlays.find(|overlay| overlay.sites.contains(asked.site))
        });
        let (place, config_version) = match (overlay, &assignment) {
            (Some(overlay), _) => (Some(overlay.config), Some(overlay.config_version.clone())),
            (None, Some(one)) => (one.config, one.config_version.clone()),
            (None, None) => (None, None),
        };
        let values = place.and_then(|place| {
            let there = place < part.configs.len();
            there.then(|| part.configs.swap_remove(place))
        });
        let unknown = match (&assignment, &not_assigned) {
            (None, None) if is_unknown => Some(format!(
                "the control plane had no cluster type `{}` then",
                asked.cluster_type
            )),
            (None, None) if part.left_out => Some(
                "it is not assigned, or there is no such target; there are too many pairs that are not assigned to keep why: \
                 ask `outhaul explain` where the control plane is"
                    .to_owned(),
            ),
            (None, None) => Some(format!(
                "the control plane had no deployment target `{}` of this environment then",
                asked.target
            )),
            _ => None,
        };
        Ok(Self {
            assignment,
            not_assigned,
            values: values.unwrap_or_default(),
            config_version,
            unknown,
        })
    }
}

/// The answer for programs: what one document says of a pair; `None` where none of what was asked for is on record, or it knows no such
/// pair.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn explanation_answer(
    session: &Session<'_>,
    asked: &ExplainAsked<'_>,
) -> Result<Option<ExplanationAnswer>, StoreError> {
    let Some(stored) = asked_for(session, asked.environment, asked.digest)? else {
        return Ok(None);
    };
    let found = OfPair::read(session, &stored, asked)?;
    if found.assignment.is_none() && found.not_assigned.is_none() {
        return Ok(None);
    }
    Ok(Some(ExplanationAnswer {
        explanation: explanation_row(&stored),
        snapshot: session.explanation_snapshot(stored.id)?,
        assignment: found.assignment,
        not_assigned: found.not_assigned,
        values: found.values,
    }))
}
