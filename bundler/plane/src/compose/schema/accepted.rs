//! A schema that Kalypso takes, as the validator library takes it.
//!
//! What comes in: a document that was found to be a schema, and its draft. What goes out: one that means
//! the same by JSON Schema's own meta schema, which is stricter about words that say nothing (an empty
//! `allOf`, `"examples": 5`) and knows no mixture of drafts. Values are not its business.

use serde_json::{Map, Value};

use super::compat::Draft;
use super::keywords::{Holds, holds};

/// Words for people and programs, about which nothing is checked.
const REMARKS: &[&str] = &[
    "$comment",
    "contentEncoding",
    "contentMediaType",
    "default",
    "examples",
    "readOnly",
    "writeOnly",
];

/// `schema`, without what would be refused and says nothing.
pub(super) fn accepted(schema: &Value, draft: Draft) -> Value {
    match schema {
        Value::Object(map) => Value::Object(object(map, draft)),
        other => other.clone(),
    }
}

fn object(map: &Map<String, Value>, draft: Draft) -> Map<String, Value> {
    // Beside a reference only what others refer to has a meaning.
    let alone = map.contains_key("$ref");
    let mut out = Map::new();
    for (key, value) in map {
        let key = key.as_str();
        let known = match key {
            "$schema" => false,
            "const" | "contains" | "propertyNames" => draft >= Draft::Six,
            "if" | "then" | "else" => draft >= Draft::Seven,
            "enum" | "type" | "allOf" | "anyOf" | "oneOf" => {
                value.as_array().is_none_or(|list| !list.is_empty())
            }
            "exclusiveMinimum" | "exclusiveMaximum" => !value.is_boolean(),
            "$ref" | "$id" | "id" | "definitions" | "$defs" => true,
            _ => !REMARKS.contains(&key),
        };
        let referred = matches!(key, "$ref" | "$id" | "definitions" | "$defs");
        if known && (!alone || referred) {
            out.insert(key.to_owned(), inner(key, value, draft));
        }
    }
    for (sharp, bound) in [
        ("exclusiveMinimum", "minimum"),
        ("exclusiveMaximum", "maximum"),
    ] {
        if map.get(sharp) == Some(&Value::Bool(true))
            && let Some(value) = out.remove(bound)
        {
            out.insert(sharp.to_owned(), value);
        }
    }
    out
}

fn inner(key: &str, value: &Value, draft: Draft) -> Value {
    match holds(key, value) {
        Holds::One(schema) => accepted(schema, draft),
        Holds::List(list) => list.iter().map(|schema| accepted(schema, draft)).collect(),
        Holds::Named(named) => named
            .iter()
            .map(|(name, schema)| (name.clone(), accepted(schema, draft)))
            .collect::<Map<_, _>>()
            .into(),
        Holds::Nothing => value.clone(),
    }
}
