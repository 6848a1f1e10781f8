//! Which keywords of JSON Schema hold schemas.
//!
//! What comes in: a keyword and its value. What goes out: how schemas lie in it. It knows drafts 4 to 7
//! and `$defs`; what a value means is for others.

use serde_json::{Map, Value};

/// The schemas that a keyword's value holds.
#[derive(Debug, Clone, Copy)]
pub(super) enum Holds<'v> {
    /// It is one itself.
    One(&'v Value),
    /// One after the other.
    List(&'v [Value]),
    /// By names that are not keywords.
    Named(&'v Map<String, Value>),
    /// None.
    Nothing,
}

/// What `value` of the keyword `key` holds.
pub(super) fn holds<'v>(key: &str, value: &'v Value) -> Holds<'v> {
    match (key, value) {
        (
            "properties" | "patternProperties" | "definitions" | "$defs" | "dependencies",
            Value::Object(named),
        ) => Holds::Named(named),
        ("allOf" | "anyOf" | "oneOf" | "items", Value::Array(list)) => Holds::List(list),
        (
            "not"
            | "if"
            | "then"
            | "else"
            | "contains"
            | "propertyNames"
            | "items"
            | "additionalItems"
            | "additionalProperties",
            schema,
        ) => Holds::One(schema),
        _ => Holds::Nothing,
    }
}
