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
/// Characters of a sentence, a label or a place.
const LINE_SHOWN: usize = 400;
/// Policies, sites, schemas and the like that are shown.
pub(super) const LISTED: usize = 50;
/// Labels, reasons, and containers of one value, that are shown.
const OF_ONE: usize = 20;
/// Bytes of values, and of what policies say, that are shown of one pair.
const BYTES_SHOWN: usize = 512 * 1024;
/// Sites of one group that are listed.
const SITES_OF_ONE: usize = 5;
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

    /// A text with the short names, cut. Each place is replaced once: what a name is replaced with is not looked at again.
    pub(super) fn short(&self, text: &str) -> String {
        let end = text.char_indices().nth(4 * LINE_SHOWN);
        let mut left = end.map_or(text, |(at, _)| &text[..at]);
        let mut short = String::new();
        while let Some(first) = left.chars().next() {
            let named = self.0.iter().find_map(|(name, long)| {
                let after = left.strip_prefix(long.as_str())?;
                after.starts_with(':').then_some((name, after))
            });
            match named {
                Some((name, after)) => {
                    short.push_str(name);
                    left = after;
                }
                None => {
                    short.push(first);
                    left = &left[first.len_utf8()..];
                }
            }
        }
        match end {
            Some(_) => line(&format!("{short}…")),
            None => line(&short),
        }
    }

    /// What the first of the short names stand for: the environment, the base, and those of workloads.
    pub(super) fn legend(&self) -> Vec<(String, String)> {
        let all = self.0.iter().take(LEGEND);
        all.map(|(name, long)| (name.clone(), line(long))).collect()
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
        targets: line(&verdict.targets),
        cluster_types: line(&verdict.cluster_types),
        sites: verdict.sites.as_deref().map(line),
        matches: verdict
            .matches
            .iter()
            .take(OF_ONE)
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
            .take(OF_ONE)
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
        key: line(&value.key),
        value: value
            .value
            .as_ref()
            .map(text)
            .map_or_else(String::new, |text| cut(&text)),
        set_in: value
            .layers
            .iter()
            .filter(|layer| layer.role != LayerRole::Overridden)
            .take(OF_ONE)
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
            .take(OF_ONE)
            .map(|layer| {
                [
                    layer.container.clone(),
                    places.short(&layer.at),
                    line(&layer.text),
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
    /// Groups of sites with another config: how many, and the first of them, each with whether the hub knows it.
    pub overlays: Vec<(usize, Vec<(String, bool)>)>,
    /// How many more groups there are.
    pub more_overlays: usize,
    /// What keeps it from being composed.
    pub problems: Vec<String>,
}

/// The sites that are listed of an assignment with another config.
pub(super) fn overlay_sites(one: &AssignmentExplanation) -> impl Iterator<Item = &String> {
    let overlays = one.overlays.iter().take(LISTED);
    overlays.flat_map(|overlay| overlay.sites.iter().take(SITES_OF_ONE))
}

/// An assignment, cut; `known`: the sites that have a page.
pub(super) fn assigned_shown(
    one: &AssignmentExplanation,
    known: &BTreeSet<String>,
) -> AssignedShown {
    let group = |sites: &BTreeSet<String>| {
        let first = sites.iter().take(SITES_OF_ONE);
        let first = first.map(|site| (site.clone(), known.contains(site)));
        (sites.len(), first.collect())
    };
    let overlays = one.overlays.iter().take(LISTED);
    AssignedShown {
        policies: one.policies.iter().take(LISTED).cloned().collect(),
        sites: (one.sites.as_ref())
            .map(|sites| (sites.len(), sites.iter().take(LISTED).cloned().collect())),
        more_verdicts: one.more_verdicts,
        schemas: one.schemas.iter().take(LISTED).cloned().collect(),
        overlays: overlays.map(|overlay| group(&overlay.sites)).collect(),
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
    cut_at(text, CHARS_SHOWN)
}

/// A text as a line has room for it.
pub(super) fn line(text: &str) -> String {
    cut_at(text, LINE_SHOWN)
}

fn cut_at(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((at, _)) => {
            let more = text[at..].chars().count();
            format!("{}… ({more} more characters)", &text[..at])
        }
    }
}

/// The first of what is to be shown, at most so many, as far as a page has room for them.
pub(super) fn with_room<T: Serialize>(all: impl Iterator<Item = T>, most: usize) -> Vec<T> {
    let mut left = BYTES_SHOWN;
    let mut shown = Vec::new();
    for one in all.take(most) {
        let bytes = serde_json::to_vec(&one).map_or(0, |text| text.len());
        let Some(rest) = left.checked_sub(bytes) else {
            break;
        };
        left = rest;
        shown.push(one);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(name: String, repo: &str) -> Source {
        Source {
            name,
            repo: repo.to_owned(),
            commit: String::new(),
        }
    }

    #[test]
    fn names_that_are_long_and_name_one_another_do_not_grow() {
        // Each name is the place of the next repository, many times.
        let next = |at: u8| format!("{}@:", char::from(b'a' + at)).repeat(100);
        let sources = (0..20).map(|at| {
            let repo = char::from(b'a' + at).to_string();
            source(next(at + 1), &repo)
        });
        let places = Places::of(&Snapshot::of(
            source("dev".to_owned(), "x"),
            source("main".to_owned(), "y"),
            sources.collect(),
        ));
        let short = places.short(&"a@:3 ".repeat(1_000));
        assert!(short.chars().count() < LINE_SHOWN + 40, "{}", short.len());
        assert_eq!(
            places.short("see x@:a.yaml:3, y@:b"),
            "see dev:a.yaml:3, main:b"
        );
    }

    #[test]
    fn what_many_policies_say_at_length_has_room_on_a_page() {
        let long = "é".repeat(100_000);
        let miss = Miss {
            rule: outhaul_bundle::hub_api::MissRule::Selector,
            of: long.clone(),
            requirement: long.clone(),
            found: long.clone(),
            at: long.clone(),
        };
        let verdict = PolicyVerdict {
            policy: "all".to_owned(),
            at: long.clone(),
            targets: long.clone(),
            cluster_types: long.clone(),
            sites: Some(long),
            weight: None,
            matches: Vec::new(),
            misses: vec![miss; 200],
        };
        let places = Places(Vec::new());
        let all = (0..1_000).map(|_| policy_shown(&verdict, &places));
        let shown = with_room(all, LISTED);
        assert!((1..=LISTED).contains(&shown.len()));
        let bytes = serde_json::to_vec(&shown).unwrap().len();
        assert!(bytes < BYTES_SHOWN + LISTED + 2, "{bytes}");
        assert_eq!(shown[0].misses.len(), OF_ONE);
    }
}
