//! A document in the parts in which it is kept: what pages of all of it need, and what is for one cluster type.
//!
//! What comes in: a document that was checked. What goes out: JSON texts. A page of one assignment reads one cluster type's part only,
//! and one of the platform reads no value.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use outhaul_bundle::Digest;
use outhaul_bundle::hub_api::{
    AssignmentExplanation, Entities, PairVerdict, PlatformExplanation, SetValue,
};
use outhaul_store::NewExplanation;
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

/// The document in its parts, with its digest.
///
/// # Errors
/// What serde says, which it does for no such document.
pub fn packed(document: &PlatformExplanation) -> Result<NewExplanation, serde_json::Error> {
    let bytes = serde_json::to_vec(document)?;
    let mut parts = Vec::new();
    for (name, part) in by_cluster_type(document) {
        parts.push((name.to_owned(), serde_json::to_vec(&part)?));
    }
    Ok(NewExplanation {
        digest: Digest::of(&bytes).to_string(),
        environment: document.environment.clone(),
        snapshot: document.snapshot.clone(),
        assignments: document.assignments.len() as u64,
        bytes: bytes.len() as u64,
        head: serde_json::to_vec(&head(document))?,
        parts,
    })
}

fn head(document: &PlatformExplanation) -> Head {
    let of_config: Vec<BTreeSet<&str>> =
        document.configs.iter().map(|one| containers(one)).collect();
    let mut uses: Vec<BTreeSet<String>> = Vec::new();
    let mut places: HashMap<BTreeSet<String>, usize> = HashMap::new();
    let mut pairs = Vec::with_capacity(document.assignments.len());
    for one in &document.assignments {
        let configs = one
            .config
            .iter()
            .chain(one.overlays.iter().map(|overlay| &overlay.config));
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

fn by_cluster_type(document: &PlatformExplanation) -> BTreeMap<&str, Part> {
    let mut parts: BTreeMap<&str, Part> = BTreeMap::new();
    for one in &document.entities.cluster_types {
        let left_out = document.not_assigned_left_out > 0;
        let part = Part {
            left_out,
            ..Part::default()
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
                part.configs.push(values.cloned().unwrap_or_default());
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
        part.not_assigned.push(one.clone());
    }
    parts
}
