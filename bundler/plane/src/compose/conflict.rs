//! Conflicts: two containers of equal precedence that say different things about one key.
//!
//! What comes in: the layers of one config, or all layers. What goes out: findings that name both
//! places, unless the composition policy allows the conflict or a stronger layer settles it. Only what
//! would be replaced is a conflict: maps are compared key by key, lists item by item where their items
//! have names. Without a policy nothing is a conflict: the later name wins, as it does in Kalypso.

use std::collections::BTreeMap;

use outhaul_gocompat::GoValue;

use super::layers::{LayerSetting, Layers};
use super::merge::{self, Arrays};
use super::{Mode, Rules, typing};
use crate::inputs::Inputs;
use outhaul_control::ControlPlane;
use outhaul_control::diagnostic::{Diagnostic, Diagnostics, Location};
use outhaul_control::model::CompositionPolicy;
use outhaul_control::model::composition::Conflicts;

/// Two containers with the same labels and the same precedence that contradict each other: whatever
/// one of them applies to, the other does, and only their names decide.
#[derive(Debug, Clone, PartialEq)]
pub struct Ambiguity {
    /// What both set: a key, or the path to a value inside it, such as `LIMITS.cpu`.
    pub path: String,
    /// The container that loses.
    pub loser: String,
    /// Where it sets the key.
    pub lost_at: Location,
    /// The container that wins because its name is later.
    pub winner: String,
    /// Where it sets the key.
    pub won_at: Location,
}

/// Every ambiguity of a control plane, in the order of precedence. What a composition policy allows is
/// none.
pub fn ambiguities(plane: &ControlPlane, mode: Mode) -> Vec<Ambiguity> {
    let plane = Inputs::of(plane);
    let layers = Layers::of(plane, mode);
    let rules = Rules::of(plane, mode);
    let policy = plane.composition;
    let mut found = Vec::new();
    for group in layers.alike() {
        for (key, settings) in by_key(&layers, &group) {
            for (at, (_, second)) in settings.iter().enumerate() {
                let clash = settings.iter().take(at).find_map(|(_, first)| {
                    let path = clash(first.value(), second.value(), rules.arrays(key))?;
                    let allowed = policy.is_some_and(|policy| {
                        policy.allows(key, first.container, second.container)
                    });
                    (!allowed).then_some((first, path))
                });
                if let Some((first, path)) = clash {
                    found.push(Ambiguity {
                        path: path_text(key, &path),
                        loser: first.container.to_owned(),
                        lost_at: first.text.location.clone(),
                        winner: second.container.to_owned(),
                        won_at: second.text.location.clone(),
                    });
                }
            }
        }
    }
    found
}

/// What two texts of one key do not agree on: the key, or the path to a value inside it; `None` when one
/// adds to the other and replaces nothing.
pub fn contradiction(
    plane: &ControlPlane,
    key: &str,
    first: &str,
    second: &str,
    mode: Mode,
) -> Option<String> {
    let [first, second] = [first, second].map(|text| typing::typed(text, mode));
    let path = clash(
        &first,
        &second,
        Rules::of(Inputs::of(plane), mode).arrays(key),
    )?;
    Some(path_text(key, &path))
}

/// Conflicts among the layers at `positions`, which make one config.
pub(super) fn conflicts(
    layers: &Layers<'_>,
    positions: &[usize],
    rules: &Rules<'_>,
) -> Diagnostics {
    let mut findings = Diagnostics::new();
    let Some(policy) = rules.policy.filter(|p| p.conflicts == Conflicts::Error) else {
        return findings;
    };
    for (key, settings) in by_key(layers, positions) {
        for (at, (rank, second)) in settings.iter().enumerate() {
            let equals = settings.iter().take(at).filter(|(other, _)| other == rank);
            let clash = equals
                .filter(|(_, first)| !policy.allows(key, first.container, second.container))
                .find_map(|(_, first)| {
                    let path = clash(first.value(), second.value(), rules.arrays(key))?;
                    let stronger = settings.iter().skip(at + 1);
                    let settled = stronger
                        .filter(|(other, _)| other > rank)
                        .any(|(_, setting)| settles(setting.value(), &path));
                    (!settled).then_some((first, path))
                });
            if let Some((first, path)) = clash {
                findings.push(conflict(policy, key, &path_text(key, &path), first, second));
            }
        }
    }
    findings
}

fn conflict(
    policy: &CompositionPolicy,
    key: &str,
    path: &str,
    first: &LayerSetting<'_>,
    second: &LayerSetting<'_>,
) -> Diagnostic {
    let who = if first.container == second.container {
        format!("twice by `{}`", first.container)
    } else {
        format!("by `{}` and by `{}`", first.container, second.container)
    };
    let message = format!("`{path}` is set {who}, with equal precedence");
    Diagnostic::error("conflict", message)
        .at(&second.text.location)
        .label("this")
        .related(&first.text.location, "contradicts this")
        .help(format!(
            "remove one, set the key in a stronger container, or declare that the later name wins: \
             `allowed: [{key}]` in composition policy `{}` ({})",
            policy.name,
            policy.location.file_line()
        ))
}

type ByKey<'l, 'a> = BTreeMap<&'a str, Vec<(i64, &'l LayerSetting<'a>)>>;

/// Who sets each key, in order of precedence; keys that one layer sets alone are left out.
fn by_key<'l, 'a>(layers: &'l Layers<'a>, positions: &[usize]) -> ByKey<'l, 'a> {
    let mut keys = ByKey::new();
    for at in positions {
        for setting in layers.settings(*at) {
            let rank = layers.rank(*at);
            keys.entry(setting.key).or_default().push((rank, setting));
        }
    }
    keys.retain(|_, settings| settings.len() > 1);
    keys
}

/// The path to the first value that two values of one key do not agree on.
fn clash(first: &GoValue, second: &GoValue, arrays: Arrays) -> Option<Vec<GoValue>> {
    match (first, second) {
        (GoValue::Map(first), GoValue::Map(second)) => second.iter().find_map(|(key, value)| {
            let mut path = clash(first.entries.get(key)?, value, arrays)?;
            path.insert(0, key.clone());
            Some(path)
        }),
        (GoValue::List(first), GoValue::List(second)) if arrays != Arrays::Replace => {
            second.iter().find_map(|item| {
                let same = |other: &&GoValue| {
                    arrays != Arrays::Append && merge::same_item(other, item, arrays)
                };
                let mut path = clash(first.iter().find(same)?, item, arrays)?;
                path.insert(0, item.as_map()?.get("name").cloned().unwrap_or_default());
                Some(path)
            })
        }
        _ => (typing::canonical(first) != typing::canonical(second)).then(Vec::new),
    }
}

/// Whether `value` replaces what lies at `path`.
fn settles(value: &GoValue, path: &[GoValue]) -> bool {
    let Some((key, rest)) = path.split_first() else {
        return true;
    };
    match value {
        GoValue::Map(map) => map.entries.get(key).is_some_and(|v| settles(v, rest)),
        GoValue::List(items) => items.iter().any(|item| {
            let name = item.as_map().and_then(|map| map.get("name"));
            name == Some(key) && settles(item, rest)
        }),
        // Anything else takes the place of the whole map or list.
        _ => true,
    }
}

fn path_text(key: &str, path: &[GoValue]) -> String {
    let mut text = key.to_owned();
    for part in path {
        text.push('.');
        match part {
            GoValue::Str(name) => text.push_str(name),
            other => text.push_str(&super::schema::to_json(other).to_string()),
        }
    }
    text
}

#[cfg(test)]
mod tests;
