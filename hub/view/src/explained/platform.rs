//! The platform as it was read: its entities as lists, each with where it is used, and what is assigned as workloads, targets and cluster types.
//!
//! What comes in: the store, an environment, and from which place on. What goes out: plain values for the pages and the API, a bounded
//! number of each. It reads no value of a config. Changes are made in git, and nothing here makes one.

use std::collections::BTreeMap;

use outhaul_bundle::hub_api::{AssignedPair, Entities, Entity, ExplanationRow, PlatformAnswer};
use outhaul_bundle::index::{Snapshot, Source};
use outhaul_gate::time::rfc3339;
use outhaul_store::{Session, StoreError, StoredExplanation};
use serde::Serialize;

use super::pack::{Head, HeadPair};
use super::shown::{Places, line};
use super::uses::{Use, uses};
use super::{asked_for, explanation_row, others_of, read};
use crate::unknown_name;

/// Targets of one page of the graph, and cluster types that are listed of one.
const TARGETS_SHOWN: usize = 50;
const PLACES_SHOWN: usize = 20;
/// Entities of one page, and places where one is used.
const ENTITIES_SHOWN: usize = 100;
const USES_SHOWN: usize = 200;
/// Names that are compared with one that is not there.
const NAMES_COMPARED: usize = 1_000;
/// Labels, and facts, of an entity.
const FACTS_SHOWN: usize = 20;
/// Other documents that are listed.
const KNOWN_SHOWN: usize = 20;
/// Repositories that are listed.
const SOURCES_SHOWN: usize = 100;

/// What is asked for.
#[derive(Debug, Clone, Copy)]
pub struct PlatformAsked<'a> {
    /// The environment.
    pub environment: &'a str,
    /// Digest of the document; empty for the one that was sent last.
    pub digest: &'a str,
    /// The name after which the page begins; empty for the first page.
    pub after: &'a str,
}

/// The environments that were explained.
#[derive(Debug, Clone, Serialize)]
pub struct PlatformList {
    /// Of each the document that was sent last, how many are on record, and whether a site or a bundle of it is known.
    pub environments: Vec<(ExplanationRow, u64, bool)>,
    /// When this was read, RFC 3339.
    pub read_at: String,
}

/// What every page of one document says of it.
#[derive(Debug, Clone, Serialize)]
pub struct Origin {
    /// The document.
    pub row: ExplanationRow,
    /// Documents of the same snapshot with other content.
    pub others: Vec<ExplanationRow>,
    /// Short names of repositories in places, and what they stand for.
    pub places: Vec<(String, String)>,
    /// Whether a page was asked for by its digest: links keep it then.
    pub is_chosen: bool,
    /// Whether a site or a bundle of the environment is known, so that it has a page.
    pub has_environment: bool,
}

/// A platform.
#[derive(Debug, Clone, Serialize)]
pub struct PlatformView {
    /// The environment.
    pub environment: String,
    /// The document.
    pub origin: Origin,
    /// The repositories that were read.
    pub sources: Vec<Source>,
    /// How many more there are.
    pub more_sources: usize,
    /// Each kind, and how many there are of it.
    pub kinds: Vec<(&'static str, usize)>,
    /// Workloads with targets of this page.
    pub workloads: Vec<WorkloadPlaces>,
    /// The name after which this page begins.
    pub after: String,
    /// The name after which the next one begins.
    pub next: Option<String>,
    /// Other documents of the environment.
    pub known: Vec<ExplanationRow>,
    /// When this was read, RFC 3339.
    pub read_at: String,
}

/// A workload, and where its targets are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WorkloadPlaces {
    /// Its name.
    pub workload: String,
    /// The name of its registration, which is the entity.
    pub registration: String,
    /// The team.
    pub workspace: String,
    /// Its targets.
    pub targets: Vec<TargetPlaces>,
}

/// A target, and on which cluster types it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TargetPlaces {
    /// Its name.
    pub target: String,
    /// Where it is, and by which policies.
    pub places: Vec<Use>,
    /// How many more there are.
    pub more: usize,
}

/// Entities of one kind.
#[derive(Debug, Clone, Serialize)]
pub struct KindView {
    /// The environment.
    pub environment: String,
    /// The kind.
    pub kind: &'static str,
    /// The document.
    pub origin: Origin,
    /// Those of this page.
    pub entities: Vec<EntityShown>,
    /// How many there are in all.
    pub total: usize,
    /// The name after which this page begins.
    pub after: String,
    /// The name after which the next one begins.
    pub next: Option<String>,
    /// When this was read, RFC 3339.
    pub read_at: String,
}

/// An entity in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EntityShown {
    /// Its name.
    pub name: String,
    /// Where it is written.
    pub at: String,
    /// Its labels.
    pub labels: Vec<(String, String)>,
    /// What else it says.
    pub facts: Vec<(String, String)>,
    /// In how many places it is used.
    pub used: usize,
}

/// One entity.
#[derive(Debug, Clone, Serialize)]
pub struct EntityView {
    /// The environment.
    pub environment: String,
    /// The kind.
    pub kind: &'static str,
    /// The document.
    pub origin: Origin,
    /// The entity.
    pub entity: EntityShown,
    /// Of an environment and a cluster type, whether a site or a bundle of it is known, so that it has a page.
    pub is_known: bool,
    /// Where it is used, as many as are shown.
    pub uses: Vec<Use>,
    /// Place of the first of them, from 0.
    pub from: usize,
    /// Place of the first of the next page.
    pub next: Option<usize>,
    /// When this was read, RFC 3339.
    pub read_at: String,
}

/// The kind of this name.
pub fn kind_of(name: &str) -> Option<&'static str> {
    let entities = outhaul_bundle::hub_api::Entities::default();
    let mut kinds = entities.kinds().into_iter().map(|(kind, _)| kind);
    kinds.find(|kind| *kind == name)
}

impl PlatformList {
    /// Reads which environments were explained.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn of(session: &Session<'_>, now_ms: i64) -> Result<Self, StoreError> {
        let known = session.environments()?;
        let mut environments = Vec::new();
        for environment in session.explained_environments()?.iter().take(USES_SHOWN) {
            if let Some(newest) = session.explanations(environment, 1)?.pop() {
                let count = session.count_explanations(environment)?;
                environments.push((explanation_row(&newest), count, known.contains(environment)));
            }
        }
        Ok(Self {
            environments,
            read_at: rfc3339(now_ms),
        })
    }
}

/// A document, and what pages of all of it need.
struct OpenExplanation {
    stored: StoredExplanation,
    snapshot: Snapshot,
    head: Head,
    places: Places,
    origin: Origin,
}

impl OpenExplanation {
    fn of(session: &Session<'_>, asked: &PlatformAsked<'_>) -> Result<Option<Self>, StoreError> {
        let Some(stored) = asked_for(session, asked.environment, asked.digest)? else {
            return Ok(None);
        };
        let snapshot = session.explanation_snapshot(stored.id)?;
        let places = Places::of(&snapshot);
        Ok(Some(Self {
            head: read(&session.explanation_head(stored.id)?)?,
            origin: Origin {
                row: explanation_row(&stored),
                others: others_of(session, &stored)?,
                places: places.legend(),
                is_chosen: !asked.digest.is_empty(),
                has_environment: unknown_name(session, (asked.environment, ""))?.is_none(),
            },
            places,
            snapshot,
            stored,
        }))
    }
}

impl PlatformView {
    /// Reads a platform; `None` where no such document is on record.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn of(
        session: &Session<'_>,
        asked: &PlatformAsked<'_>,
        now_ms: i64,
    ) -> Result<Option<Self>, StoreError> {
        let Some(opened) = OpenExplanation::of(session, asked)? else {
            return Ok(None);
        };
        let OpenExplanation {
            stored,
            snapshot,
            head,
            origin,
            ..
        } = opened;
        let (targets, next) = page(&head.entities.targets, asked.after, TARGETS_SHOWN);
        let mut places: BTreeMap<&str, Vec<&HeadPair>> = BTreeMap::new();
        for pair in &head.pairs {
            places.entry(&pair.target).or_default().push(pair);
        }
        let mut workloads: Vec<WorkloadPlaces> = Vec::new();
        for target in &targets {
            let fact = |name: &str| {
                target
                    .facts
                    .get(name)
                    .map_or_else(String::new, |text| line(text))
            };
            let pairs = places
                .get(target.name.as_str())
                .map_or(&[][..], Vec::as_slice);
            let shown = TargetPlaces {
                target: target.name.clone(),
                places: pairs
                    .iter()
                    .take(PLACES_SHOWN)
                    .map(|pair| Use::assignment(pair))
                    .collect(),
                more: pairs.len().saturating_sub(PLACES_SHOWN),
            };
            let registration = fact("registration");
            match workloads.last_mut() {
                Some(last) if last.registration == registration => last.targets.push(shown),
                _ => workloads.push(WorkloadPlaces {
                    workload: fact("workload"),
                    registration,
                    workspace: fact("workspace"),
                    targets: vec![shown],
                }),
            }
        }
        let first = [snapshot.base.clone(), snapshot.environment.clone()].into_iter();
        let sources = first.chain(snapshot.workloads.iter().cloned());
        let known = session.explanations(asked.environment, KNOWN_SHOWN + 1)?;
        let known = known.iter().filter(|one| one.id != stored.id);
        let known = known.take(KNOWN_SHOWN);
        Ok(Some(Self {
            environment: asked.environment.to_owned(),
            origin,
            sources: sources.take(SOURCES_SHOWN).collect(),
            more_sources: (snapshot.workloads.len() + 2).saturating_sub(SOURCES_SHOWN),
            kinds: head
                .entities
                .kinds()
                .map(|(kind, all)| (kind, all.len()))
                .to_vec(),
            workloads,
            after: asked.after.to_owned(),
            next,
            known: known.map(explanation_row).collect(),
            read_at: rfc3339(now_ms),
        }))
    }
}

impl KindView {
    /// Reads the entities of a kind; `None` where no such document is on record.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn of(
        session: &Session<'_>,
        asked: &PlatformAsked<'_>,
        kind: &'static str,
        now_ms: i64,
    ) -> Result<Option<Self>, StoreError> {
        let Some(opened) = OpenExplanation::of(session, asked)? else {
            return Ok(None);
        };
        let OpenExplanation {
            head,
            places,
            origin,
            ..
        } = opened;
        let all = entities_of(&head, kind);
        let (entities, next) = page(all, asked.after, ENTITIES_SHOWN);
        Ok(Some(Self {
            environment: asked.environment.to_owned(),
            kind,
            origin,
            entities: entities
                .into_iter()
                .map(|entity| entity_shown(&places, entity, uses(&head, kind, entity).len()))
                .collect(),
            total: all.len(),
            after: asked.after.to_owned(),
            next,
            read_at: rfc3339(now_ms),
        }))
    }
}

impl EntityView {
    /// Reads one entity, used from a place on; the names that there are where there is none of this name, and `None` where no such
    /// document is on record.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn of(
        session: &Session<'_>,
        asked: &PlatformAsked<'_>,
        (kind, name): (&'static str, &str),
        from: usize,
        now_ms: i64,
    ) -> Result<Option<Result<Self, Vec<String>>>, StoreError> {
        let Some(opened) = OpenExplanation::of(session, asked)? else {
            return Ok(None);
        };
        let OpenExplanation {
            head,
            places,
            origin,
            ..
        } = opened;
        let all = entities_of(&head, kind);
        let Some(entity) = all.iter().find(|entity| entity.name == name) else {
            let names = all
                .iter()
                .take(NAMES_COMPARED)
                .map(|entity| entity.name.clone());
            return Ok(Some(Err(names.collect())));
        };
        let streams = match kind {
            "environment" => Some((name, "")),
            "cluster-type" => Some((asked.environment, name)),
            _ => None,
        };
        let is_known = match streams {
            Some(names) => unknown_name(session, names)?.is_none(),
            None => false,
        };
        let uses = uses(&head, kind, entity);
        let shown: Vec<Use> = uses
            .iter()
            .skip(from)
            .take(USES_SHOWN)
            .map(Use::of)
            .collect();
        let end = from.saturating_add(shown.len());
        Ok(Some(Ok(Self {
            environment: asked.environment.to_owned(),
            kind,
            origin,
            entity: entity_shown(&places, entity, uses.len()),
            is_known,
            uses: shown,
            from,
            next: (end < uses.len()).then_some(end),
            read_at: rfc3339(now_ms),
        })))
    }
}

/// Those after a name, by name, at most so many; and after which the next page begins.
fn page<'a>(all: &'a [Entity], after: &str, most: usize) -> (Vec<&'a Entity>, Option<String>) {
    let mut sorted: Vec<&Entity> = all.iter().filter(|one| one.name.as_str() > after).collect();
    sorted.sort_by(|a, b| a.name.cmp(&b.name));
    let is_more = sorted.len() > most;
    sorted.truncate(most);
    let next = sorted
        .last()
        .filter(|_| is_more)
        .map(|last| last.name.clone());
    (sorted, next)
}

fn entities_of<'a>(head: &'a Head, kind: &str) -> &'a [Entity] {
    let mut kinds = head.entities.kinds().into_iter();
    kinds
        .find(|(name, _)| *name == kind)
        .map_or(&[], |(_, all)| all.as_slice())
}

fn entity_shown(places: &Places, entity: &Entity, used: usize) -> EntityShown {
    let texts = |map: &BTreeMap<String, String>| -> Vec<(String, String)> {
        let all = map.iter().take(FACTS_SHOWN);
        all.map(|(name, text)| (line(name), line(text))).collect()
    };
    EntityShown {
        name: entity.name.clone(),
        at: places.short(&entity.at),
        labels: texts(&entity.labels),
        facts: texts(&entity.facts),
        used,
    }
}

/// The answer for programs; `None` where no such document is on record.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn platform_answer(
    session: &Session<'_>,
    asked: &PlatformAsked<'_>,
    (offset, limit): (usize, usize),
) -> Result<Option<PlatformAnswer>, StoreError> {
    let Some(opened) = OpenExplanation::of(session, asked)? else {
        return Ok(None);
    };
    let OpenExplanation {
        snapshot,
        head,
        origin,
        ..
    } = opened;
    let assignments_total = head.pairs.len() as u64;
    let pairs = head.pairs.into_iter().skip(offset).take(limit);
    Ok(Some(PlatformAnswer {
        explanation: origin.row,
        snapshot,
        // They are many, and the same for every part of the list.
        entities: match offset {
            0 => head.entities,
            _ => Entities::default(),
        },
        assignments: pairs
            .map(|pair| AssignedPair {
                cluster_type: pair.cluster_type,
                target: pair.target,
                policies: pair.policies,
            })
            .collect(),
        assignments_total,
    }))
}
