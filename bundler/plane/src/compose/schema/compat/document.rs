//! Whether a document is a schema at all, by the rules of Kalypso's validator.
//!
//! What comes in: a JSON document. What goes out: its [`Schema`], or the first thing that is wrong with
//! it. The rules are not those of JSON Schema's meta schema: some are laxer, some (`2.0` is not a length,
//! `exclusiveMinimum: true` needs a `minimum`) are stricter, and each draft has its own. It fetches
//! nothing: a reference to another document is an error.

use std::collections::BTreeSet;

use outhaul_gocompat::texts;
use serde_json::{Map, Value};

use super::outcome::text_of;
use outhaul_kit::suggest::did_you_mean;

const TYPES: &[&str] = &[
    "array", "boolean", "integer", "number", "null", "object", "string",
];
const MAX_SCHEMA_DEPTH: usize = 64;

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
        // What is not a pointer is skipped, and the whole document stays.
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
            Some(_) => return Err("`$schema` must be a string".into()),
        },
        _ => return Err("a schema is a JSON object".into()),
    };
    let mut walk = Walk {
        schema: Schema {
            root: document,
            draft,
        },
        followed: BTreeSet::new(),
        path: Vec::new(),
    };
    match walk.any(document) {
        Ok(()) => Ok(walk.schema),
        Err(problem) if walk.path.is_empty() => Err(problem),
        Err(problem) => Err(format!("{problem}, in `/{}`", walk.path.join("/"))),
    }
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
    if depth > MAX_SCHEMA_DEPTH {
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
    /// Where it is; at the end of a failed walk, where that failed.
    path: Vec<String>,
}

impl<'d> Walk<'d> {
    fn any(&mut self, schema: &'d Value) -> Result<(), String> {
        if self.path.len() > 2 * MAX_SCHEMA_DEPTH {
            return Err("schema is nested too deeply".into());
        }
        match schema {
            Value::Bool(_) if self.schema.draft >= Draft::Six => Ok(()),
            Value::Object(map) => self.object(map),
            _ => Err("a schema must stand here: an object, or a boolean since draft 6".into()),
        }
    }

    fn enter(&mut self, steps: &[&str], schema: &'d Value) -> Result<(), String> {
        let escaped = steps
            .iter()
            .map(|s| s.replace('~', "~0").replace('/', "~1"));
        let before = self.path.len();
        self.path.extend(escaped);
        self.any(schema)?;
        self.path.truncate(before);
        Ok(())
    }

    fn object(&mut self, map: &'d Map<String, Value>) -> Result<(), String> {
        let id = id_key(map, self.schema.draft);
        expect(map, id, "a URL", |id| {
            id.as_str().is_some_and(|id| texts::url(id).is_some())
        })?;
        self.named(map, "definitions")?;
        for key in ["title", "description"] {
            expect(map, key, "a string", Value::is_string)?;
        }
        match map.get("$ref") {
            None => {}
            // All that stands beside a reference means nothing.
            Some(Value::String(reference)) => return self.follow(reference),
            Some(_) => return Err("`$ref` must be a string".into()),
        }
        keywords(map, self.schema.draft)?;
        self.inner(map)
    }

    fn follow(&mut self, reference: &'d str) -> Result<(), String> {
        if !self.followed.insert(reference) {
            return Ok(());
        }
        match self.schema.target(reference) {
            Some(target @ (Value::Object(_) | Value::Bool(_))) => self.enter(&["$ref"], target),
            Some(_) => Err(format!("`{reference}` is not a schema")),
            None => Err(format!("`{reference}` is not in the schema")),
        }
    }

    /// A map whose values are schemas.
    fn named(&mut self, map: &'d Map<String, Value>, key: &str) -> Result<(), String> {
        expect(map, key, "an object", Value::is_object)?;
        let inner = map.get(key).and_then(Value::as_object);
        inner
            .into_iter()
            .flatten()
            .try_for_each(|(name, inner)| self.enter(&[key, name], inner))
    }

    fn list(&mut self, key: &str, list: &'d [Value]) -> Result<(), String> {
        list.iter()
            .enumerate()
            .try_for_each(|(at, inner)| self.enter(&[key, &at.to_string()], inner))
    }

    fn inner(&mut self, map: &'d Map<String, Value>) -> Result<(), String> {
        self.named(map, "properties")?;
        self.named(map, "patternProperties")?;
        self.dependencies(map)?;
        for key in ["allOf", "anyOf", "oneOf"] {
            expect(map, key, "an array", Value::is_array)?;
            if let Some(Value::Array(list)) = map.get(key) {
                self.list(key, list)?;
            }
        }
        // Here a boolean is not a schema, and good in every draft.
        for key in ["additionalProperties", "additionalItems"] {
            if let Some(inner) = map.get(key).filter(|inner| !inner.is_boolean()) {
                self.enter(&[key], inner)?;
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
                self.enter(&[key], inner)?;
            }
        }
        match map.get("items") {
            Some(Value::Array(items)) => self.list("items", items),
            Some(inner) => self.enter(&["items"], inner),
            None => Ok(()),
        }
    }

    fn dependencies(&mut self, map: &'d Map<String, Value>) -> Result<(), String> {
        expect(map, "dependencies", "an object", Value::is_object)?;
        let all = map.get("dependencies").and_then(Value::as_object);
        for (name, inner) in all.into_iter().flatten() {
            match inner {
                Value::Array(names) if names.iter().all(Value::is_string) => {}
                Value::Array(_) => return Err("a dependency must be an array of strings".into()),
                inner => self.enter(&["dependencies", name], inner)?,
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
                return Err(format!("`{key}` must be a number in this draft"));
            }
            Some(Value::Bool(_)) if map.contains_key(other) => {}
            Some(Value::Bool(_)) => {
                return Err(format!("`{key}` cannot be used without `{other}`"));
            }
            Some(_) => return Err(format!("`{key}` must be a boolean in this draft")),
        }
    }
    for (low, high) in [
        ("minLength", Some("maxLength")),
        ("minProperties", Some("maxProperties")),
        // Of these two the greater is not looked for.
        ("minItems", None),
        ("maxItems", None),
    ] {
        let least = length(map, low)?;
        let most = high.map_or(Ok(None), |high| length(map, high))?;
        if least.zip(most).is_some_and(|(least, most)| least > most) {
            return Err(format!("`{low}` is greater than its maximum"));
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
    let names: Vec<&Value> = match map.get("type") {
        None => return Ok(()),
        Some(Value::Array(items)) => items.iter().collect(),
        Some(single) => vec![single],
    };
    for (at, name) in names.iter().enumerate() {
        let Some(text) = name.as_str() else {
            return Err("`type` must be the name of a type, or an array of names".into());
        };
        if !TYPES.contains(&text) {
            let help = did_you_mean(text, TYPES);
            return Err(format!("`{text}` is not a type ({help})"));
        }
        if names[..at].contains(name) {
            return Err(format!("type `{text}` is there twice"));
        }
    }
    Ok(())
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
        Some(value) if !sound(value) => Err(format!("`{key}` must be {what}")),
        _ => Ok(()),
    }
}
