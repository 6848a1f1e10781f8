//! The shapes that fields have, as JSON Schema.
//!
//! What comes in: names, descriptions, limits. What goes out: schema values. What is optional may also be
//! written without a value (`labels:`), as the readers and Kubernetes take it.

use serde_json::{Map, Value, json};

use super::Kind;
use crate::kinds::metadata::KNOWN;

/// A name that Kubernetes and every file system take.
const NAME: &str = "^[a-z0-9]((\\.?[-a-z0-9])*\\.?[a-z0-9])?$";
/// A label's name: an optional DNS prefix and `/`, then at most 63 characters.
pub(super) const LABEL: &str = "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$";
/// A label's value: empty, or at most 63 characters of a word.
pub(super) const LABEL_VALUE: &str = "^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$";

/// One field of an object.
pub(super) struct Field {
    name: &'static str,
    about: &'static str,
    required: bool,
    shape: Value,
}

/// A field that must be there.
pub(super) fn must(name: &'static str, about: &'static str, shape: Value) -> Field {
    Field {
        name,
        about,
        required: true,
        shape,
    }
}

/// A field that may be left out.
pub(super) fn may(name: &'static str, about: &'static str, shape: Value) -> Field {
    Field {
        name,
        about,
        required: false,
        shape,
    }
}

/// A map with these fields and no others.
pub(super) fn object(fields: Vec<Field>) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for field in fields {
        let mut shape = field.shape;
        if field.required {
            required.push(field.name);
        } else {
            nullable(&mut shape);
        }
        if !field.about.is_empty() {
            shape["description"] = field.about.into();
        }
        properties.insert(field.name.into(), shape);
    }
    let mut made =
        json!({"type": "object", "properties": properties, "additionalProperties": false});
    if !required.is_empty() {
        made["required"] = json!(required);
    }
    made
}

/// `labels:` with nothing behind it is the same as no labels.
fn nullable(shape: &mut Value) {
    if let Some(Value::String(one)) = shape.get("type") {
        shape["type"] = json!([one, "null"]);
    }
    if let Some(Value::Array(all)) = shape.get_mut("enum") {
        all.push(Value::Null);
    }
}

/// An object of the control plane.
pub(super) fn kind(
    api_version: &'static str,
    name: &'static str,
    about: &'static str,
    labels: &'static str,
    spec: Value,
) -> Kind {
    let schema = object(vec![
        must(
            "apiVersion",
            "The group and version.",
            json!({"const": api_version}),
        ),
        must("kind", about, json!({"const": name})),
        must("metadata", "Name and labels.", metadata(labels)),
        must("spec", "What it says.", spec),
        may("status", "Ignored: Kubernetes' own.", json!({})),
    ]);
    Kind {
        api_version,
        name,
        about,
        schema: described(schema, about),
    }
}

/// `metadata`; what Kubernetes keeps there beside name and labels means nothing here.
pub(super) fn metadata(labels: &'static str) -> Value {
    let mut fields = vec![
        must(
            "name",
            "Its name: lower-case letters, digits, `-` and `.`.",
            name(),
        ),
        may("labels", labels, text_map()),
    ];
    let ignored = KNOWN
        .iter()
        .filter(|name| !matches!(**name, "name" | "labels"));
    fields.extend(ignored.map(|name| may(name, "Taken and ignored.", json!({}))));
    object(fields)
}

/// The same shape with a description.
pub(super) fn described(mut shape: Value, about: &str) -> Value {
    shape["description"] = about.into();
    shape
}

/// An object's name.
pub(super) fn name() -> Value {
    json!({"type": "string", "pattern": NAME, "maxLength": 253, "examples": ["one"]})
}

/// Text that says something.
pub(super) fn text(example: &str) -> Value {
    json!({"type": "string", "pattern": "\\S", "examples": [example]})
}

/// Text that may be empty.
pub(super) fn any_text(example: &str) -> Value {
    json!({"type": "string", "examples": [example]})
}

/// Text of a form.
pub(super) fn pattern(pattern: &str, example: &str) -> Value {
    json!({"type": "string", "pattern": pattern, "examples": [example]})
}

/// A map from text to text.
pub(super) fn text_map() -> Value {
    json!({"type": "object", "additionalProperties": {"type": "string"}})
}

/// One of these words.
pub(super) fn one_of(words: &[&str]) -> Value {
    json!({"type": "string", "enum": words})
}

/// A whole number.
pub(super) fn whole(least: u32, most: u32) -> Value {
    json!({"type": "integer", "minimum": least, "maximum": most, "examples": [most.min(50).max(least)]})
}

/// A list.
pub(super) fn list(item: Value) -> Value {
    json!({"type": "array", "items": item})
}

/// A list of at least one.
pub(super) fn some(item: Value) -> Value {
    json!({"type": "array", "items": item, "minItems": 1})
}

/// A place in a repository.
pub(super) fn place(of: &'static str) -> Vec<Field> {
    vec![
        must("repo", of, text("https://git.example.org/repository")),
        must("branch", "The branch.", text("main")),
        may(
            "path",
            "The folder below the repository's root; everything when left out.",
            any_text("."),
        ),
    ]
}

/// A section with nothing but a `labelSelector`.
pub(super) fn selected() -> Value {
    object(vec![may(
        "labelSelector",
        "Which labels it must have; without one, everything matches.",
        selector(),
    )])
}

/// Kubernetes' label selector.
pub(super) fn selector() -> Value {
    let value = json!({"type": "string", "pattern": LABEL_VALUE, "examples": ["north"]});
    let expression = object(vec![
        must("key", "The label's name.", pattern(LABEL, "zone")),
        must(
            "operator",
            "`In` and `NotIn` need values; `Exists` and `DoesNotExist` take none. `NotIn` and `DoesNotExist` match what lacks the label.",
            one_of(&["In", "NotIn", "Exists", "DoesNotExist"]),
        ),
        may(
            "values",
            "The values for `In` and `NotIn`.",
            list(value.clone()),
        ),
    ]);
    let needs_values = json!({
        "if": {"properties": {"operator": {"enum": ["In", "NotIn"]}}, "required": ["operator"]},
        "then": {"properties": {"values": {"type": "array", "minItems": 1}}, "required": ["values"]},
        "else": {"properties": {"values": {"maxItems": 0}}},
    });
    let mut expression = expression;
    expression["allOf"] = json!([needs_values]);
    let labels = json!({
        "type": "object",
        "propertyNames": {"pattern": LABEL},
        "additionalProperties": value,
    });
    object(vec![
        may("matchLabels", "Each label must have this value.", labels),
        may(
            "matchExpressions",
            "Each expression must hold.",
            list(expression),
        ),
    ])
}
