//! Values of charts as JSON: how they are read from YAML, and how Helm lays one file of them over another.
//!
//! What comes in: a node of YAML, or two values. What goes out: one value. It is pure.

use outhaul_control::yaml::{Node, YamlValue};
use serde_json::Value as Json;

/// A value as JSON, with numbers as Helm has them: `1.10` without quotes is 1.1.
pub(crate) fn json(node: &Node) -> Json {
    match &node.value {
        YamlValue::Null => Json::Null,
        YamlValue::Bool(value) => Json::Bool(*value),
        YamlValue::String(text) => Json::String(text.clone()),
        YamlValue::Number(text) => {
            let whole = text.parse::<i64>().ok().map(Json::from);
            let number = whole.or_else(|| text.parse::<f64>().ok().map(Json::from));
            // Infinite, or written to another base: a text is shown as it is.
            number
                .filter(Json::is_number)
                .unwrap_or_else(|| Json::String(text.clone()))
        }
        YamlValue::Sequence(items) => items.iter().map(json).collect(),
        YamlValue::Mapping(entries) => entries
            .iter()
            .map(|entry| (entry.key.clone(), json(&entry.value)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
    }
}

/// `base` with `over` in its place, as Helm does it: maps key by key, nothing in the place of what is `null`.
pub(crate) fn merged(base: Json, over: &Json) -> Json {
    match (base, over) {
        (base, Json::Null) => base,
        (Json::Object(mut base), Json::Object(over)) => {
            for (key, value) in over {
                if value.is_null() {
                    base.remove(key);
                    continue;
                }
                let before = base.remove(key).unwrap_or_default();
                base.insert(key.clone(), merged(before, value));
            }
            Json::Object(base)
        }
        (_, over) => over.clone(),
    }
}
