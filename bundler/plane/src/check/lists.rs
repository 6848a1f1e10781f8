//! Lists: items of two containers of which nobody can say whether they are one item.
//!
//! What comes in: composed configs with where each value came from. What goes out: a warning where maps
//! without a `name` are in both of two lists that are put together, which Kalypso takes for one item (its
//! defect 5), and where one value is in both. What a composition policy declares for the key's lists, to
//! append or to replace, is not reported. It changes nothing.

use std::collections::BTreeSet;

use outhaul_gocompat::GoValue;
use outhaul_kit::secrets;

use crate::compose::merge::{self, Arrays};
use crate::compose::{self, Composition, Layer, Mode, schema, typing};
use outhaul_control::ControlPlane;
use outhaul_control::diagnostic::{Diagnostic, Diagnostics};

/// Most repeated values that are named in one finding.
const MAX_NAMED: usize = 3;

/// A lint about two lists at one path.
#[derive(Debug, Default, PartialEq)]
struct ListLint {
    path: String,
    /// Maps without a name are in both.
    unnamed: bool,
    /// Values that are in both, as JSON.
    repeated: Vec<String>,
}

/// Adds the lints, once for each key and two containers.
pub(super) fn lints(
    composition: &Composition,
    plane: &ControlPlane,
    mode: Mode,
    findings: &mut Diagnostics,
) {
    let mut seen = BTreeSet::new();
    for composed in composition.assignments.values() {
        for (key, provenance) in &composed.provenance {
            for pair in provenance.layers.windows(2) {
                let [first, second] = pair else { continue };
                let containers = (key, &first.container, &second.container);
                if !second.merged || !seen.insert(containers) {
                    continue;
                }
                let arrays = compose::arrays(plane, key, mode);
                let values = [first, second].map(|layer| typing::typed(&layer.text, mode));
                let mut found = Vec::new();
                compare(&values[0], &values[1], arrays, key, &mut found);
                for lint in found {
                    add_finding(&lint, first, second, arrays, findings);
                }
            }
        }
    }
}

fn compare(
    first: &GoValue,
    second: &GoValue,
    arrays: Arrays,
    path: &str,
    found: &mut Vec<ListLint>,
) {
    match (first, second) {
        (GoValue::Map(first), GoValue::Map(second)) => {
            for (key, value) in first.iter() {
                if let Some(other) = second.entries.get(key) {
                    let path = format!("{path}.{}", value_text(key));
                    compare(value, other, arrays, &path, found);
                }
            }
        }
        (GoValue::List(first), GoValue::List(second)) => {
            if matches!(arrays, Arrays::Append | Arrays::Replace) {
                return;
            }
            let unnamed = |items: &[GoValue]| {
                let nameless = |item: &GoValue| {
                    matches!(item, GoValue::Map(_)) && !merge::same_item(item, item, Arrays::ByName)
                };
                items.iter().any(nameless)
            };
            let repeated = second
                .iter()
                .filter(|item| !item.is_container() && first.contains(item))
                .map(|item| item_text(path, item));
            let lint = ListLint {
                path: path.to_owned(),
                unnamed: unnamed(first) && unnamed(second),
                repeated: repeated.collect(),
            };
            if lint.unnamed || !lint.repeated.is_empty() {
                found.push(lint);
            }
            for (at, item) in first.iter().enumerate() {
                let same = |other: &&GoValue| merge::same_item(item, other, Arrays::ByName);
                for other in second.iter().filter(same) {
                    compare(item, other, arrays, &format!("{path}[{at}]"), found);
                }
            }
        }
        _ => {}
    }
}

/// An item of the list at `path` for people; nothing of one that is a secret.
fn item_text(path: &str, item: &GoValue) -> String {
    let text = value_text(item);
    let mut keys = path.split(['.', '[']);
    match keys.any(|key| secrets::is_in_clear(key, &text)) {
        true => "a secret".to_owned(),
        false => text,
    }
}

/// A value for people; nothing of one that is sealed.
fn value_text(value: &GoValue) -> String {
    match value {
        GoValue::Str(text) if outhaul_seal::marker::may_have_markers(text.as_bytes()) => {
            "sealed".to_owned()
        }
        GoValue::Str(text) => secrets::without_tokens(text),
        other => schema::to_json(other).to_string(),
    }
}

fn add_finding(
    lint: &ListLint,
    first: &Layer,
    second: &Layer,
    arrays: Arrays,
    findings: &mut Diagnostics,
) {
    let (path, one, other) = (&lint.path, &first.container, &second.container);
    let add = |code, message: String, help: &str, findings: &mut Diagnostics| {
        findings.push(
            Diagnostic::warning(code, message)
                .at(&second.location)
                .label("this list")
                .related(&first.location, "comes after this one")
                .help(help),
        );
    };
    if lint.unnamed {
        let what = format!("`{path}` has items without a `name` in `{one}` and in `{other}`");
        let (then, help) = match arrays {
            Arrays::AsKalypso => (
                "each of them is merged into all of the others",
                "give them names; without `--compat` they stay apart",
            ),
            _ => (
                "they stay apart, where Kalypso merges them all",
                "give those that are to be one item the same `name`, or declare `append` or `replace` for \
                 this key in a composition policy",
            ),
        };
        add("unnamed-items", format!("{what}: {then}"), help, findings);
    }
    if !lint.repeated.is_empty() {
        let mut named: Vec<_> = lint
            .repeated
            .iter()
            .take(MAX_NAMED)
            .map(|v| format!("`{v}`"))
            .collect();
        if lint.repeated.len() > MAX_NAMED {
            named.push(format!("{} more", lint.repeated.len() - MAX_NAMED));
        }
        let message = format!(
            "`{path}` has {} twice: from `{one}` and from `{other}`",
            named.join(", ")
        );
        let help = "remove it from one of them, or declare `append` or `replace` for this key in a composition \
                    policy";
        add("repeated-items", message, help, findings);
    }
}
