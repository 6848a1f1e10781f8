//! Whether a document is a schema at all, by the rules of Kalypso's validator.
//!
//! What comes in: a JSON document. What goes out: its [`Schema`], or the first thing that is wrong with
//! it. The rules are not those of JSON Schema's meta schema: some are laxer, some (`2.0` is no length,
//! `exclusiveMinimum: true` needs a `minimum`) are stricter, and each draft has its own. It fetches
//! nothing: a reference to another document is an error.

use std::collections::BTreeSet;

use outhaul_gocompat::texts;
use serde_json::{Map, Value};

use super::scalars::text_of;

const TYPES: &[&str] = &[
    "array", "boolean", "integer", "number", "null", "object", "string",
];
const MAX_DEPTH: usize = 64;

/// Which draft `$schema` names. All that none names is a mixture of the three.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::compose::schema) enum Draft {
    Four,
    Six,
    Seven,
    Mixed,
}

/// A document that was found to be a schema.
#[derive(Debug)]
pub(super) struct Schema<'d> {
    pub(super) root: &'d Value,
    pub(super) draft: Draft,
}

impl<'d> Schema<'d> {
    /// What a reference in it means: a pointer into it, or a part with that identifier.
    pub(super) fn target(&self, reference: &str) -> Option<&'d Value> {
        if let Some(part) = identified(self.root, reference, 0) {
            return Some(part);
        }
        let (base, _) = reference.split_once('#').unwrap_or((reference, ""));
        let own = || id(self.root, self.draft).map(|own| own.trim_end_matches('#'));
        if !base.is_empty() && own() != Some(base) {
            return None;
        }
        let pointer = texts::url(reference)?.fragment;
        let pointer = String::from_utf8(pointer).ok()?;
        // What is no pointer is passed over, and the whole document stays.
        if pointer.starts_with('/') {
            self.root.pointer(&pointer)
        } else {
            Some(self.root)
        }
    }
}

/// Checks the whole document.
///
/// # Errors
/// What is wrong.
pub(super) fn check(document: &Value) -> Result<Schema<'_>, String> {
    let draft = match document {
        Value::Bool(_) => Draft::Mixed,
        Value::Object(map) => match map.get("$schema") {
            None => Draft::Mixed,
            Some(Value::String(url)) => draft(url),
            Some(_) => return Err("$schema must be of type string".into()),
        },
        _ => return Err("schema is invalid".into()),
    };
    let mut walk = Walk {
        schema: Schema {
            root: document,
            draft,
        },
        followed: BTreeSet::new(),
    };
    walk.any(document, 0)?;
    Ok(walk.schema)
}

fn draft(url: &str) -> Draft {
    match url.strip_suffix('#').unwrap_or(url) {
        "http://json-schema.org/draft-04/schema" => Draft::Four,
        "http://json-schema.org/draft-06/schema" => Draft::Six,
        "http://json-schema.org/draft-07/schema" => Draft::Seven,
        _ => Draft::Mixed,
    }
}

fn id_key(map: &Map<String, Value>, draft: Draft) -> &'static str {
    match draft {
        Draft::Four => "id",
        Draft::Mixed if map.contains_key("id") => "id",
        _ => "$id",
    }
}

fn id(schema: &Value, draft: Draft) -> Option<&str> {
    let map = schema.as_object()?;
    map.get(id_key(map, draft))?.as_str()
}

/// The part of a document whose identifier is `reference`.
fn identified<'d>(part: &'d Value, reference: &str, depth: usize) -> Option<&'d Value> {
    if depth > MAX_DEPTH {
        return None;
    }
    let inner = |part| identified(part, reference, depth + 1);
    match part {
        Value::Object(map) => {
            let own = ["id", "$id"].iter().find_map(|key| map.get(*key)?.as_str());
            if depth > 0 && own == Some(reference) {
                return Some(part);
            }
            map.values().find_map(inner)
        }
        Value::Array(items) => items.iter().find_map(inner),
        _ => None,
    }
}

struct Walk<'d> {
    schema: Schema<'d>,
    followed: BTreeSet<&'d str>,
}

impl<'d> Walk<'d> {
    fn any(&mut self, schema: &'d Value, depth: usize) -> Result<(), String> {
        if depth > MAX_DEPTH {
            return Err("schema is nested too deeply".into());
        }
        match schema {
            Value::Bool(_) if self.schema.draft >= Draft::Six => Ok(()),
            Value::Object(map) => self.object(map, depth + 1),
            _ => Err("expected: valid schema".into()),
        }
    }

    fn object(&mut self, map: &'d Map<String, Value>, depth: usize) -> Result<(), String> {
        let id = id_key(map, self.schema.draft);
        expect(map, id, "a URL", |id| {
            id.as_str().is_some_and(|id| texts::url(id).is_some())
        })?;
        self.named(map, "definitions", depth)?;
        for key in ["title", "description"] {
            expect(map, key, "a string", Value::is_string)?;
        }
        match map.get("$ref") {
            None => {}
            // All that stands beside a reference means nothing.
            Some(Value::String(reference)) => return self.follow(reference, depth),
            Some(_) => return Err("$ref must be a string".into()),
        }
        keywords(map, self.schema.draft)?;
        self.inner(map, depth)
    }

    fn follow(&mut self, reference: &'d str, depth: usize) -> Result<(), String> {
        if !self.followed.insert(reference) {
            return Ok(());
        }
        match self.schema.target(reference) {
            Some(target @ (Value::Object(_) | Value::Bool(_))) => self.any(target, depth),
            Some(_) => Err(format!("`{reference}` is no schema")),
            None => Err(format!("`{reference}` is not in the schema")),
        }
    }

    /// A map whose values are schemas.
    fn named(
        &mut self,
        map: &'d Map<String, Value>,
        key: &str,
        depth: usize,
    ) -> Result<(), String> {
        expect(map, key, "an object", Value::is_object)?;
        let inner = map.get(key).and_then(Value::as_object);
        inner
            .into_iter()
            .flatten()
            .try_for_each(|(_, inner)| self.any(inner, depth))
    }

    fn inner(&mut self, map: &'d Map<String, Value>, depth: usize) -> Result<(), String> {
        self.named(map, "properties", depth)?;
        self.named(map, "patternProperties", depth)?;
        self.dependencies(map, depth)?;
        for key in ["allOf", "anyOf", "oneOf"] {
            expect(map, key, "an array", Value::is_array)?;
            for inner in map.get(key).and_then(Value::as_array).into_iter().flatten() {
                self.any(inner, depth)?;
            }
        }
        // Here a boolean is no schema, and good in every draft.
        for key in ["additionalProperties", "additionalItems"] {
            if let Some(inner) = map.get(key).filter(|inner| !inner.is_boolean()) {
                self.any(inner, depth)?;
            }
        }
        for (key, since) in [
            ("not", Draft::Four),
            ("contains", Draft::Six),
            ("propertyNames", Draft::Six),
            ("if", Draft::Seven),
            ("then", Draft::Seven),
            ("else", Draft::Seven),
        ] {
            if let Some(inner) = map.get(key).filter(|_| self.schema.draft >= since) {
                self.any(inner, depth)?;
            }
        }
        match map.get("items") {
            Some(Value::Array(items)) => items.iter().try_for_each(|inner| self.any(inner, depth)),
            Some(inner) => self.any(inner, depth),
            None => Ok(()),
        }
    }

    fn dependencies(&mut self, map: &'d Map<String, Value>, depth: usize) -> Result<(), String> {
        expect(map, "dependencies", "an object", Value::is_object)?;
        let all = map.get("dependencies").and_then(Value::as_object);
        for (_, inner) in all.into_iter().flatten() {
            match inner {
                Value::Array(names) if names.iter().all(Value::is_string) => {}
                Value::Array(_) => return Err("a dependency must be an array of strings".into()),
                inner => self.any(inner, depth)?,
            }
        }
        Ok(())
    }
}

/// What one object says of values, other schemas left out.
fn keywords(map: &Map<String, Value>, draft: Draft) -> Result<(), String> {
    types(map)?;
    for key in ["minimum", "maximum"] {
        expect(map, key, "a number", Value::is_number)?;
    }
    expect(map, "multipleOf", "a number above 0", |v| {
        v.as_f64().is_some_and(|unit| unit > 0.0)
    })?;
    for (key, other) in [
        ("exclusiveMinimum", "minimum"),
        ("exclusiveMaximum", "maximum"),
    ] {
        match map.get(key) {
            None => {}
            Some(Value::Number(_)) if draft != Draft::Four => {}
            Some(Value::Bool(_)) if matches!(draft, Draft::Six | Draft::Seven) => {
                return Err(format!("{key} must be a number"));
            }
            Some(Value::Bool(_)) if map.contains_key(other) => {}
            Some(Value::Bool(_)) => return Err(format!("{key} cannot be used without {other}")),
            Some(_) => return Err(format!("{key} must be a boolean")),
        }
    }
    for (least, most) in [
        ("minLength", Some("maxLength")),
        ("minProperties", Some("maxProperties")),
        // Of these two the greater is not looked for.
        ("minItems", None),
        ("maxItems", None),
    ] {
        let least = length(map, least)?;
        let most = most.map_or(Ok(None), |most| length(map, most))?;
        if least.zip(most).is_some_and(|(least, most)| least > most) {
            return Err("a minimum is greater than its maximum".into());
        }
    }
    expect(map, "uniqueItems", "a boolean", Value::is_boolean)?;
    expect(map, "format", "a string", Value::is_string)?;
    let regex = |text: &str| texts::Regex::new(text).is_some();
    expect(map, "pattern", "a valid regex", |v| {
        v.as_str().is_some_and(regex)
    })?;
    expect(map, "patternProperties", "of valid regexes", |v| {
        v.as_object()
            .is_some_and(|map| map.keys().all(|key| regex(key)))
    })?;
    let unique = |texts: Vec<String>| texts.len() == texts.iter().collect::<BTreeSet<_>>().len();
    expect(map, "required", "an array of unique strings", |v| {
        let names = |v: &Value| v.as_str().map(str::to_owned);
        v.as_array()
            .and_then(|items| items.iter().map(names).collect::<Option<Vec<_>>>())
            .is_some_and(unique)
    })?;
    expect(map, "enum", "an array of unique values", |v| {
        v.as_array()
            .is_some_and(|items| unique(items.iter().map(text_of).collect()))
    })
}

fn types(map: &Map<String, Value>) -> Result<(), String> {
    let known = |value: &Value| value.as_str().is_some_and(|name| TYPES.contains(&name));
    expect(map, "type", "a type or an array of types", |value| {
        let Value::Array(items) = value else {
            return known(value);
        };
        let unique = |(at, item)| !items[..at].contains(item);
        items.iter().all(known) && items.iter().enumerate().all(unique)
    })
}

/// A count that is written as an integer.
fn length(map: &Map<String, Value>, key: &str) -> Result<Option<i64>, String> {
    expect(map, key, "an integer of at least 0", |v| {
        v.as_i64().is_some_and(|count| count >= 0)
    })?;
    Ok(map.get(key).and_then(Value::as_i64))
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
