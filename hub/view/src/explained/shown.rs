//! What policies say of a pair and who set its values, as a page has room for it.
//!
//! What comes in: verdicts and values of an explanation, which anybody with a token may have written. What goes out: the same as
//! sentences and texts that are cut; whoever shows them escapes them.

use std::collections::BTreeSet;

use outhaul_bundle::hub_api::{
    AssignmentExplanation, LabelMatch, LayerRole, Miss, PolicyVerdict, SetValue, Weight,
};
use outhaul_bundle::index::{Snapshot, Source};
use serde::Serialize;

/// Characters of one value that are shown.
const CHARS_SHOWN: usize = 2_000;
/// Labels, and containers of one value, that are shown.
const LISTED: usize = 50;
/// Short names of repositories that are told.
const LEGEND: usize = 5;

/// Repositories by the short names that pages have for them in places, such as `dev:configs/a.yaml:8`.
pub(super) struct Places(Vec<(String, String)>);

impl Places {
    /// Those of a snapshot.
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        let sources = [&snapshot.environment, &snapshot.base].into_iter();
        let sources = sources.chain(&snapshot.workloads);
        let named = sources.filter(|source| !source.repo.is_empty() && !source.name.is_empty());
        let long = |source: &Source| {
            let commit = source.commit.get(..8).unwrap_or(&source.commit);
            format!("{}@{commit}", source.repo)
        };
        Self(
            named
                .take(LISTED)
                .map(|source| (source.name.clone(), long(source)))
                .collect(),
        )
    }

    /// A text with the short names.
    pub(super) fn short(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, long) in &self.0 {
            let long = format!("{long}:");
            if text.contains(&long) {
                text = text.replace(&long, &format!("{name}:"));
            }
        }
        text
    }

    /// What the first of the short names stand for: the environment, the base, and those of workloads.
    pub(super) fn legend(&self) -> Vec<(String, String)> {
        self.0.iter().take(LEGEND).cloned().collect()
    }
}

/// What a policy says of the pair.
#[derive(Debug, Clone, Serialize)]
pub struct PolicyShown {
    /// Its name.
    pub policy: String,
    /// Where it is written.
    pub at: String,
    /// Whether it chooses the pair.
    pub chooses: bool,
    /// What it asks of targets.
    pub targets: String,
    /// What it asks of cluster types.
    pub cluster_types: String,
    /// What it asks of sites.
    pub sites: Option<String>,
    /// The labels that matched: what is asked, what is there, and where it is asked.
    pub matches: Vec<[String; 4]>,
    /// Why it does not choose it.
    pub misses: Vec<String>,
    /// What it weighs.
    pub weight: Option<String>,
}

/// A value and who set it.
#[derive(Debug, Clone, Serialize)]
pub struct ValueShown {
    /// The key.
    pub key: String,
    /// The value as JSON, cut.
    pub value: String,
    /// Who set it, the one that counts first: in which way (empty where it decides), the container, and where.
    pub set_in: Vec<[String; 3]>,
    /// Whose value it replaced: the container, where, and the text, cut.
    pub overridden: Vec<[String; 3]>,
}

/// A verdict with sentences.
pub(super) fn policy_shown(verdict: &PolicyVerdict, places: &Places) -> PolicyShown {
    PolicyShown {
        policy: verdict.policy.clone(),
        at: places.short(&verdict.at),
        chooses: verdict.chooses(),
        targets: verdict.targets.clone(),
        cluster_types: verdict.cluster_types.clone(),
        sites: verdict.sites.clone(),
        matches: verdict
            .matches
            .iter()
            .take(LISTED)
            .map(|one| {
                let LabelMatch {
                    of,
                    requirement,
                    found,
                    at,
                } = one;
                [of, requirement, found, at].map(|text| places.short(text))
            })
            .collect(),
        misses: verdict
            .misses
            .iter()
            .map(|miss| places.short(&Miss::sentence(miss)))
            .collect(),
        weight: verdict
            .weight
            .as_ref()
            .map(|weight| places.short(&Weight::sentence(weight))),
    }
}

/// A value, cut.
pub(super) fn value_shown(value: &SetValue, places: &Places) -> ValueShown {
    let text = |value: &serde_json::Value| match value {
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    ValueShown {
        key: cut(&value.key),
        value: value
            .value
            .as_ref()
            .map(text)
            .map_or_else(String::new, |text| cut(&text)),
        set_in: value
            .layers
            .iter()
            .filter(|layer| layer.role != LayerRole::Overridden)
            .take(LISTED)
            .map(|layer| {
                let role = match layer.role {
                    LayerRole::Decides => "",
                    role => role.as_str(),
                };
                [
                    role.to_owned(),
                    layer.container.clone(),
                    places.short(&layer.at),
                ]
            })
            .collect(),
        overridden: value
            .layers
            .iter()
            .filter(|layer| layer.role == LayerRole::Overridden)
            .take(LISTED)
            .map(|layer| {
                [
                    layer.container.clone(),
                    places.short(&layer.at),
                    cut(&layer.text),
                ]
            })
            .collect(),
    }
}

/// An assignment, cut.
#[derive(Debug, Clone, Serialize)]
pub struct AssignedShown {
    /// The policies that put it there.
    pub policies: Vec<String>,
    /// How many sites it is for, where it is not for all, and the first of them.
    pub sites: Option<(usize, Vec<String>)>,
    /// How many more policies do not choose it than are told of.
    pub more_verdicts: usize,
    /// The schemas that check its config.
    pub schemas: Vec<String>,
    /// Groups of sites with another config: how many, and the first of them.
    pub overlays: Vec<(usize, Vec<String>)>,
    /// How many more groups there are.
    pub more_overlays: usize,
    /// What keeps it from being composed.
    pub problems: Vec<String>,
}

/// An assignment, cut.
pub(super) fn assigned_shown(one: &AssignmentExplanation) -> AssignedShown {
    let first = |sites: &BTreeSet<String>, most: usize| -> (usize, Vec<String>) {
        (sites.len(), sites.iter().take(most).cloned().collect())
    };
    let overlays = one.overlays.iter().take(LISTED);
    AssignedShown {
        policies: one.policies.iter().take(LISTED).cloned().collect(),
        sites: one.sites.as_ref().map(|sites| first(sites, LISTED)),
        more_verdicts: one.more_verdicts,
        schemas: one.schemas.iter().take(LISTED).cloned().collect(),
        overlays: overlays.map(|overlay| first(&overlay.sites, 5)).collect(),
        more_overlays: one.overlays.len().saturating_sub(LISTED),
        problems: one
            .problems
            .iter()
            .take(LISTED)
            .map(|one| cut(one))
            .collect(),
    }
}

/// A text as a page has room for it.
pub(super) fn cut(text: &str) -> String {
    match text.char_indices().nth(CHARS_SHOWN) {
        None => text.to_owned(),
        Some((at, _)) => {
            let more = text[at..].chars().count();
            format!("{}… ({more} more characters)", &text[..at])
        }
    }
}
