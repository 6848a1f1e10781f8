//! Values: which of an assignment's values differ, from which line to which line.
//!
//! What comes in: the composed config of an assignment on both sides. What goes out: a [`ValueChange`]
//! for each value that differs, down to the key inside a map, with the container and line that decides
//! on each side. Assignments that change alike are reported once: thousands of them share one config.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use outhaul_kit::secrets;
use outhaul_seal::marker;
use serde::Serialize;
use serde_json::Value;

use super::phrases;
use outhaul_plane::compose::schema::to_json;
use outhaul_plane::compose::{Composed, Composition, Mode, Provenance, typing};
use outhaul_plane::schedule::AssignmentId;

/// One value that differs, and for whom.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ValueChange {
    /// The key; keys of maps inside it after dots.
    pub key: String,
    /// What it was; absent when it is new.
    pub before: Option<ValueAt>,
    /// What it is; absent when it is gone.
    pub after: Option<ValueAt>,
    /// The deployment targets that it changes for; `<target>@<site>` for the values of one site.
    pub targets: Vec<String>,
}

/// A value and who decides it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ValueAt {
    /// The value as JSON; `sealed` for one that only sites can read, and no secret in clear.
    pub value: String,
    /// The container that decides.
    pub container: String,
    /// Where: `file:line`.
    pub at: String,
}

pub(super) type Change = (String, Option<ValueAt>, Option<ValueAt>);

/// Differences by the two configs that they are between: thousands of assignments share few.
#[derive(Debug, Default)]
pub(super) struct ValueCache(BTreeMap<(usize, usize), Vec<Change>>);

impl ValueCache {
    pub(super) fn between(&mut self, before: &Arc<Composed>, after: &Arc<Composed>) -> &[Change] {
        // The same values may come from other places, so the version would not do.
        let key = (Arc::as_ptr(before).addr(), Arc::as_ptr(after).addr());
        self.0.entry(key).or_insert_with(|| {
            if before.version == after.version {
                Vec::new()
            } else {
                changes(before, after)
            }
        })
    }
}

/// The sites on which the assignment `id` has its own values that change, and how.
pub(super) fn own_of_sites(
    (before, base_before): (&Composition, &Arc<Composed>),
    (after, base_after): (&Composition, &Arc<Composed>),
    id: &AssignmentId,
    cache: &mut ValueCache,
) -> Vec<(String, Vec<Change>)> {
    let (old, new) = (by_site(before, id), by_site(after, id));
    let sites: BTreeSet<&String> = old.keys().chain(new.keys()).copied().collect();
    let mut own = Vec::new();
    for site in sites {
        let a = old.get(site).copied().unwrap_or(base_before);
        let b = new.get(site).copied().unwrap_or(base_after);
        if a.version != b.version {
            own.push((site.clone(), cache.between(a, b).to_vec()));
        }
    }
    own
}

fn by_site<'a>(
    composition: &'a Composition,
    id: &AssignmentId,
) -> BTreeMap<&'a String, &'a Arc<Composed>> {
    let overlays = composition.overlays.get(id).into_iter().flatten();
    overlays
        .flat_map(|overlay| overlay.sites.iter().map(|site| (site, &overlay.composed)))
        .collect()
}

/// Changes of one cluster type.
#[derive(Debug, Default)]
pub(super) struct Collected(BTreeMap<Change, Vec<String>>);

impl Collected {
    pub(super) fn add(&mut self, target: &str, changes: &[Change]) {
        for change in changes {
            self.0
                .entry(change.clone())
                .or_default()
                .push(target.to_owned());
        }
    }

    pub(super) fn finish(self) -> Vec<ValueChange> {
        self.0
            .into_iter()
            .map(|((key, before, after), targets)| ValueChange {
                key,
                before,
                after,
                targets,
            })
            .collect()
    }
}

pub(super) fn changes(before: &Composed, after: &Composed) -> Vec<Change> {
    let (old, new) = (leaves(before), leaves(after));
    let paths: BTreeSet<&Vec<String>> = old.keys().chain(new.keys()).collect();
    let mut changes = Vec::new();
    for path in paths {
        let (a, b) = (old.get(path), new.get(path));
        if a == b {
            continue;
        }
        changes.push((
            path.join("."),
            a.and_then(|value| place(before, path, value)),
            b.and_then(|value| place(after, path, value)),
        ));
    }
    changes
}

/// Every value by its path; maps are gone into, lists are values.
fn leaves(composed: &Composed) -> BTreeMap<Vec<String>, Value> {
    fn walk(path: &mut Vec<String>, value: Value, into: &mut BTreeMap<Vec<String>, Value>) {
        match value {
            Value::Object(map) if !map.is_empty() => {
                for (key, value) in map {
                    path.push(key);
                    walk(path, value, into);
                    path.pop();
                }
            }
            value => drop(into.insert(path.clone(), value)),
        }
    }
    let mut all = BTreeMap::new();
    let mut path = Vec::new();
    if let Value::Object(map) = to_json(&composed.values) {
        for (key, value) in map {
            path.push(key);
            walk(&mut path, value, &mut all);
            path.pop();
        }
    }
    all
}

fn place(composed: &Composed, path: &[String], value: &Value) -> Option<ValueAt> {
    let provenance = composed.provenance.get(path.first()?)?;
    let layer = deciding(provenance, path)?;
    let value = match value {
        Value::String(text) if text.trim_start().starts_with(marker::OPENING) => "sealed".into(),
        value if has_secret(path, value) => secrets::NOT_SHOWN.into(),
        value => phrases::value(&value.to_string()),
    };
    Some(ValueAt {
        value,
        container: layer.container.clone(),
        at: layer.location.file_line(),
    })
}

/// Whether a value at a path, or one in it, looks like a secret in clear: by its own key, or by that of a map that it stands in.
fn has_secret(path: &[String], value: &Value) -> bool {
    let Some((last, above)) = path.split_last() else {
        return false;
    };
    let holder = above.iter().rev().find(|key| secrets::holds(key));
    is_secret(holder.map_or("", String::as_str), last, value)
}

/// Whether the value of `key`, or one in it, is a secret by its key, or by that of the `holder` that it is below.
fn is_secret(holder: &str, key: &str, value: &Value) -> bool {
    let is_hidden = |text: &str| {
        [key, holder]
            .iter()
            .any(|key| secrets::is_hidden(key, text))
    };
    let holder = if secrets::holds(key) { key } else { holder };
    match value {
        Value::String(text) => is_hidden(text),
        Value::Number(number) => is_hidden(&number.to_string()),
        Value::Array(items) => items.iter().any(|item| is_secret(holder, key, item)),
        Value::Object(map) => map.iter().any(|(key, value)| is_secret(holder, key, value)),
        Value::Null | Value::Bool(_) => false,
    }
}

/// The last container that says something at `path`: merged maps have several.
fn deciding<'a>(
    provenance: &'a Provenance,
    path: &[String],
) -> Option<&'a outhaul_plane::compose::Layer> {
    let says = |layer: &&outhaul_plane::compose::Layer| {
        let mut value = to_json(&typing::typed(&layer.text, Mode::default()));
        for key in path.get(1..).unwrap_or_default() {
            value = match value {
                Value::Object(mut map) => match map.remove(key) {
                    Some(value) => value,
                    None => return false,
                },
                _ => return false,
            };
        }
        true
    };
    let layers = &provenance.layers;
    layers.iter().rev().find(says).or(layers.last())
}
