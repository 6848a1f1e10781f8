//! Whether a document is a schema at all, by the rules of Kalypso's validator.
//!
//! What comes in: a JSON document. What goes out: nothing, or the first thing that is wrong with it.
//! It is laxer than JSON Schema's own meta schema in the same places as the original.

use serde_json::{Map, Value};

const TYPES: &[&str] = &[
    "array", "boolean", "integer", "number", "null", "object", "string",
];
const MAX_DEPTH: usize = 64;

/// Checks the whole document.
///
/// # Errors
/// What is wrong.
pub(super) fn check(schema: &Value) -> Result<(), String> {
    walk(schema, 0)
}

fn walk(schema: &Value, depth: usize) -> Result<(), String> {
    if depth > MAX_DEPTH {
        return Err("schema is nested too deeply".into());
    }
    let map = match schema {
        Value::Bool(_) => return Ok(()),
        Value::Object(map) => map,
        _ => return Err("schema is invalid".into()),
    };
    kind(map)?;
    for key in ["minimum", "maximum", "multipleOf"] {
        expect(map, key, "a number", Value::is_number)?;
    }
    for key in ["exclusiveMinimum", "exclusiveMaximum"] {
        expect(map, key, "a number or boolean", |v| {
            v.is_number() || v.is_boolean()
        })?;
    }
    for key in [
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "minProperties",
        "maxProperties",
    ] {
        let whole = |v: &Value| {
            v.as_u64().is_some() || v.as_f64().is_some_and(|n| n >= 0.0 && n.fract() == 0.0)
        };
        expect(map, key, "a whole number of at least 0", whole)?;
    }
    expect(map, "uniqueItems", "a boolean", Value::is_boolean)?;
    for key in ["pattern", "format", "title", "description", "$ref"] {
        expect(map, key, "text", Value::is_string)?;
    }
    expect(map, "required", "an array", |v| {
        v.as_array()
            .is_some_and(|items| items.iter().all(Value::is_string))
    })?;
    expect(map, "enum", "an array", Value::is_array)?;
    if let Some(pattern) = map.get("pattern").and_then(Value::as_str) {
        regex::Regex::new(pattern).map_err(|_| "pattern must be a valid regex".to_owned())?;
    }
    for key in [
        "properties",
        "patternProperties",
        "definitions",
        "dependencies",
    ] {
        expect(map, key, "an object", Value::is_object)?;
        for (name, inner) in map
            .get(key)
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            if key == "patternProperties" {
                regex::Regex::new(name).map_err(|_| format!("`{name}` must be a valid regex"))?;
            }
            if key != "dependencies" || !inner.is_array() {
                walk(inner, depth + 1)?;
            }
        }
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        expect(map, key, "an array", |v| {
            v.as_array().is_some_and(|items| !items.is_empty())
        })?;
        for inner in map.get(key).and_then(Value::as_array).into_iter().flatten() {
            walk(inner, depth + 1)?;
        }
    }
    for key in [
        "not",
        "if",
        "then",
        "else",
        "contains",
        "propertyNames",
        "additionalProperties",
        "additionalItems",
    ] {
        if let Some(inner) = map.get(key) {
            walk(inner, depth + 1)?;
        }
    }
    match map.get("items") {
        Some(Value::Array(items)) => items.iter().try_for_each(|inner| walk(inner, depth + 1)),
        Some(inner) => walk(inner, depth + 1),
        None => Ok(()),
    }
}

fn kind(map: &Map<String, Value>) -> Result<(), String> {
    let known = |value: &Value| value.as_str().is_some_and(|name| TYPES.contains(&name));
    expect(
        map,
        "type",
        "a type or an array of types",
        |value| match value {
            Value::Array(items) => items.iter().all(known),
            other => known(other),
        },
    )
}

fn expect(
    map: &Map<String, Value>,
    key: &str,
    what: &str,
    sound: impl Fn(&Value) -> bool,
) -> Result<(), String> {
    match map.get(key) {
        Some(value) if !sound(value) => Err(format!("{key} must be {what}")),
        _ => Ok(()),
    }
}
