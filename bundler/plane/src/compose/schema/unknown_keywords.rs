//! Unknown keywords of a schema: misspelt ones, and those of later drafts.
//!
//! What comes in: a document that is a schema. What goes out: each such keyword with the JSON pointer of the
//! object that contains it and a fix. A schema with `requird` is a good schema, and checks less than
//! its writer thinks; that is worth a warning and never an error. It checks no value.

use serde_json::{Map, Value};

use super::keywords::{Holds, holds};
use outhaul_kit::suggest::nearest;

/// The keywords that are checked or that are annotations.
const KNOWN: &[&str] = &[
    "$comment",
    "$defs",
    "$id",
    "$ref",
    "$schema",
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "contains",
    "contentEncoding",
    "contentMediaType",
    "default",
    "definitions",
    "dependencies",
    "deprecated",
    "description",
    "else",
    "enum",
    "examples",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "id",
    "if",
    "items",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "not",
    "oneOf",
    "pattern",
    "patternProperties",
    "properties",
    "propertyNames",
    "readOnly",
    "required",
    "then",
    "title",
    "type",
    "uniqueItems",
    "writeOnly",
];

/// Keywords that JSON Schema got after draft 7, and what says the same before.
const LATER: &[(&str, &str)] = &[
    ("$anchor", "`$id`"),
    ("$dynamicAnchor", "`$id`"),
    ("$dynamicRef", "`$ref`"),
    ("$recursiveRef", "`$ref`"),
    ("dependentRequired", "`dependencies`"),
    ("dependentSchemas", "`dependencies`"),
    ("maxContains", "`maxItems`"),
    ("minContains", "`contains`"),
    ("prefixItems", "`items` with a list"),
    ("unevaluatedItems", "`additionalItems`"),
    ("unevaluatedProperties", "`additionalProperties`"),
];

/// A word that checks nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownKeyword {
    /// The word.
    pub word: String,
    /// JSON pointer of the schema that it stands in; empty for the document itself.
    pub within: String,
    /// A way out, when there is one.
    pub help: Option<String>,
}

/// Every such word of `schema`, in the order of the document's keys.
pub(super) fn find(schema: &Value) -> Vec<UnknownKeyword> {
    let mut found = Vec::new();
    any(schema, "", &mut found);
    found
}

// The depth is that of a document that was found to be a schema.
fn any(schema: &Value, within: &str, found: &mut Vec<UnknownKeyword>) {
    let Value::Object(map) = schema else { return };
    for word in map.keys().filter(|word| !KNOWN.contains(&word.as_str())) {
        // `x-…` is what others agreed upon for their own words.
        if word.starts_with("x-") {
            continue;
        }
        let later = LATER.iter().find(|(later, _)| later == word);
        let help = match later {
            Some((_, instead)) => Some(format!("drafts 4, 6 and 7 are checked: use {instead}")),
            None => nearest(word, KNOWN).map(|near| format!("did you mean `{near}`?")),
        };
        found.push(UnknownKeyword {
            word: word.clone(),
            within: within.to_owned(),
            help,
        });
    }
    below(map, within, found);
}

fn below(map: &Map<String, Value>, within: &str, found: &mut Vec<UnknownKeyword>) {
    for (key, value) in map {
        let at = format!("{within}/{key}");
        match holds(key, value) {
            Holds::One(schema) => any(schema, &at, found),
            Holds::List(list) => {
                for (position, schema) in list.iter().enumerate() {
                    any(schema, &format!("{at}/{position}"), found);
                }
            }
            Holds::Named(named) => {
                for (name, schema) in named {
                    let name = name.replace('~', "~0").replace('/', "~1");
                    any(schema, &format!("{at}/{name}"), found);
                }
            }
            Holds::Nothing => {}
        }
    }
}
