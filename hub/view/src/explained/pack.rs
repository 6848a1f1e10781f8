//! A document in the parts in which it is kept: what pages of all of it need, and what is for one cluster type.
//!
//! What comes in: a document that was checked. What goes out: JSON texts, compressed, or that they
//! would be too large: that is known before anything is copied. A page of one assignment reads one cluster type's part only,
//! and one of the platform reads no value.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use outhaul_bundle::Digest;
use outhaul_bundle::hub_api::{
    AssignmentExplanation, Entities, ExplanationError, MAX_EXPLANATION_TEXT_BYTES, PairVerdict,
    PlatformExplanation, SetValue,
};
use outhaul_store::{NewExplanation, PackedExplanation, StoreError};
use serde::{Deserialize, Serialize};

/// What pages of all of it need.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Head {
    pub(super) entities: Entities,
    pub(super) pairs: Vec<HeadPair>,
    /// What assignments have a part of besides: `config/NAME` and `schema/NAME`, each list once.
    pub(super) uses: Vec<BTreeSet<String>>,
}

/// One assignment.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct HeadPair {
    pub(super) cluster_type: String,
    pub(super) target: String,
    pub(super) policies: Vec<String>,
    /// A place in [`Head::uses`].
    pub(super) uses: usize,
}

/// What is for one cluster type.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Part {
    pub(super) assignments: Vec<AssignmentExplanation>,
    pub(super) not_assigned: Vec<PairVerdict>,
    pub(super) left_out: bool,
    pub(super) configs: Vec<Vec<SetValue>>,
}

/// What is for one cluster type, before it is written.
#[derive(Debug, Default, Serialize)]
struct PartText<'a> {
    assignments: Vec<AssignmentExplanation>,
    not_assigned: Vec<&'a PairVerdict>,
    left_out: bool,
    configs: Vec<&'a [SetValue]>,
}

/// The document in its parts, compressed, with its digest; or that its parts together are too large.
///
/// # Errors
/// [`StoreError`] when there is no memory for it.
pub fn packed(
    document: &PlatformExplanation,
) -> Result<Result<PackedExplanation, ExplanationError>, StoreError> {
    if copied_bytes(document)? > MAX_EXPLANATION_TEXT_BYTES as u64 {
        return Ok(Err(ExplanationError::TooLargeInParts));
    }
    let whole = {
        let bytes = text(document)?;
        NewExplanation {
            digest: Digest::of(&bytes).to_string(),
            environment: document.environment.clone(),
            snapshot: document.snapshot.clone(),
            assignments: document.assignments.len() as u64,
            bytes: bytes.len() as u64,
        }
    };
    let Some(mut packed) = PackedExplanation::of(whole, &text(&head(document))?)? else {
        return Ok(Err(ExplanationError::TooLargeInParts));
    };
    for (name, part) in by_cluster_type(document) {
        if !packed.add_part(name, &text(&part)?)? {
            return Ok(Err(ExplanationError::TooLargeInParts));
        }
    }
    Ok(Ok(packed))
}

fn text<T: Serialize>(value: &T) -> Result<Vec<u8>, StoreError> {
    serde_json::to_vec(value).map_err(|_| unwritable())
}

fn unwritable() -> StoreError {
    StoreError::Corrupt {
        what: "an explanation that cannot be written".to_owned(),
    }
}

/// What is in several parts, or listed for several assignments, in bytes of all copies: counted before anything is copied, because a
/// small document can name one large config for every cluster type.
fn copied_bytes(document: &PlatformExplanation) -> Result<u64, StoreError> {
    let mut of_config = Vec::with_capacity(document.configs.len());
    for config in &document.configs {
        let mut size = Size(0);
        serde_json::to_writer(&mut size, config).map_err(|_| unwritable())?;
        // As many as `head` looks at, with what a name is written in.
        let names = containers(config);
        let names: u64 = names.iter().map(|name| name.len() as u64 + 16).sum();
        of_config.push((size.0, names));
    }
    let mut parts: HashSet<(&str, usize)> = HashSet::new();
    let mut sum: u64 = 0;
    for one in &document.assignments {
        for place in places_of(one) {
            let (bytes, names) = of_config.get(place).copied().unwrap_or_default();
            sum = sum.saturating_add(names);
            if parts.insert((&one.cluster_type, place)) {
                sum = sum.saturating_add(bytes);
            }
        }
    }
    Ok(sum)
}

/// Counts what is written.
struct Size(u64);

impl std::io::Write for Size {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 = self.0.saturating_add(bytes.len() as u64);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The places of the configs of an assignment, each once.
fn places_of(one: &AssignmentExplanation) -> BTreeSet<usize> {
    one.configs().collect()
}

fn head(document: &PlatformExplanation) -> Head {
    let of_config: Vec<BTreeSet<&str>> =
        document.configs.iter().map(|one| containers(one)).collect();
    let mut uses: Vec<BTreeSet<String>> = Vec::new();
    let mut places: HashMap<BTreeSet<String>, usize> = HashMap::new();
    let mut pairs = Vec::with_capacity(document.assignments.len());
    for one in &document.assignments {
        let places_of_it = places_of(one);
        let configs = places_of_it.iter();
        let configs = configs.filter_map(|place| of_config.get(*place)).flatten();
        let mut used: BTreeSet<String> = configs.map(|name| format!("config/{name}")).collect();
        used.extend(one.schemas.iter().map(|name| format!("schema/{name}")));
        let place = match places.get(&used) {
            Some(place) => *place,
            None => {
                uses.push(used.clone());
                places.insert(used, uses.len() - 1);
                uses.len() - 1
            }
        };
        pairs.push(HeadPair {
            cluster_type: one.cluster_type.clone(),
            target: one.target.clone(),
            policies: one.policies.clone(),
            uses: place,
        });
    }
    pairs.sort_by(|a, b| (&a.cluster_type, &a.target).cmp(&(&b.cluster_type, &b.target)));
    Head {
        entities: document.entities.clone(),
        pairs,
        uses,
    }
}

/// The containers that set a value of a config.
fn containers(config: &[SetValue]) -> BTreeSet<&str> {
    let layers = config.iter().flat_map(|value| &value.layers);
    layers.map(|layer| layer.container.as_str()).collect()
}

fn by_cluster_type(document: &PlatformExplanation) -> BTreeMap<&str, PartText<'_>> {
    let mut parts: BTreeMap<&str, PartText<'_>> = BTreeMap::new();
    for one in &document.entities.cluster_types {
        let left_out = document.not_assigned_left_out > 0;
        let part = PartText {
            left_out,
            ..PartText::default()
        };
        parts.insert(&one.name, part);
    }
    // Configs have other places in a part.
    let mut places: HashMap<(&str, usize), usize> = HashMap::new();
    for one in &document.assignments {
        let name = one.cluster_type.as_str();
        let part = parts.entry(name).or_default();
        let mut place = |config: usize| {
            *places.entry((name, config)).or_insert_with(|| {
                let values = document.configs.get(config);
                part.configs.push(values.map_or(&[][..], Vec::as_slice));
                part.configs.len() - 1
            })
        };
        let mut kept = one.clone();
        kept.config = one.config.map(&mut place);
        for overlay in &mut kept.overlays {
            overlay.config = place(overlay.config);
        }
        part.assignments.push(kept);
    }
    for one in &document.not_assigned {
        let part = parts.entry(&one.cluster_type).or_default();
        part.not_assigned.push(one);
    }
    parts
}

#[cfg(test)]
mod tests;
