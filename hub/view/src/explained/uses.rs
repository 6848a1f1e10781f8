//! Where the entities of a platform are used: in which assignments, and by which other entities.
//!
//! What comes in: what is kept of a document, and an entity. What goes out: the places, in order of their names. It decides nothing.

use outhaul_bundle::hub_api::Entity;
use serde::Serialize;

use super::pack::{Head, HeadPair};
use super::shown::line;

/// Policies that are listed of one assignment.
const BY_SHOWN: usize = 5;

/// A place where an entity is used: an assignment, or another entity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Use {
    /// `assignment`, or the kind of the entity.
    pub kind: &'static str,
    /// The cluster type of the assignment; empty for an entity.
    pub cluster_type: String,
    /// The target, or the entity's name.
    pub name: String,
    /// The policies of the assignment, or what the entity has to do with it.
    pub by: Vec<String>,
    /// How many more there are.
    pub more_by: usize,
}

/// The same, borrowed: many are counted and few are shown.
pub(super) enum UsePlace<'a> {
    /// An assignment.
    Pair(&'a HeadPair),
    /// An entity, its kind, and what it has to do with it.
    Entity(&'static str, &'a Entity, &'a str),
}

impl Use {
    pub(super) fn of(place: &UsePlace<'_>) -> Self {
        match place {
            UsePlace::Pair(pair) => Self::assignment(pair),
            UsePlace::Entity(kind, entity, by) => Self {
                kind,
                cluster_type: String::new(),
                name: entity.name.clone(),
                by: vec![line(by)],
                more_by: 0,
            },
        }
    }

    pub(super) fn assignment(pair: &HeadPair) -> Self {
        Self {
            kind: "assignment",
            cluster_type: pair.cluster_type.clone(),
            name: pair.target.clone(),
            by: pair.policies.iter().take(BY_SHOWN).cloned().collect(),
            more_by: pair.policies.len().saturating_sub(BY_SHOWN),
        }
    }
}

/// Where an entity is used.
pub(super) fn uses<'a>(head: &'a Head, kind: &str, entity: &'a Entity) -> Vec<UsePlace<'a>> {
    let name = &entity.name;
    let pairs = |is: &dyn Fn(&HeadPair) -> bool| -> Vec<UsePlace<'a>> {
        let pairs = head.pairs.iter().filter(|pair| is(pair));
        pairs.map(UsePlace::Pair).collect()
    };
    let entities = &head.entities;
    match kind {
        "cluster-type" => pairs(&|pair| pair.cluster_type == *name),
        "target" => pairs(&|pair| pair.target == *name),
        "policy" => pairs(&|pair| pair.policies.contains(name)),
        "config" | "schema" => {
            let used = format!("{kind}/{name}");
            let has: Vec<bool> = head.uses.iter().map(|all| all.contains(&used)).collect();
            pairs(&|pair| has.get(pair.uses).copied().unwrap_or_default())
        }
        "workload" => {
            let of_it = entities
                .targets
                .iter()
                .filter(|target| target.facts.get("registration") == Some(name));
            of_it
                .map(|target| UsePlace::Entity("target", target, "a target of it"))
                .collect()
        }
        "template" => {
            let named = entities.cluster_types.iter().filter_map(|one| {
                let mut facts = one.facts.iter();
                let (fact, _) =
                    facts.find(|(fact, text)| fact.ends_with(" template") && *text == name)?;
                Some(UsePlace::Entity("cluster-type", one, fact))
            });
            named.collect()
        }
        "environment" => {
            let next = entities
                .environments
                .iter()
                .filter(|one| one.facts.get("after") == Some(name));
            next.map(|one| UsePlace::Entity("environment", one, "comes after it"))
                .collect()
        }
        _ => Vec::new(),
    }
}
