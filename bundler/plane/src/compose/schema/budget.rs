//! How much work a schema is for one config, before a validator does it.
//!
//! What comes in: a schema's document and the values to check. What goes out: nothing, or why it is not
//! tried: a few definitions that name one another twice are more steps than there is time for, and a
//! definition that names itself never ends. The steps are those of a validator that remembers nothing;
//! they are counted by one that remembers every pair of a schema and a value, so that counting is quick.

use std::collections::HashMap;

use serde_json::Value;

use super::keywords::{Holds, holds};

/// Steps that one schema may take for one config: a hundred times what a large one needs.
const MAX_STEPS: u64 = 1_000_000;
/// Pairs of a schema and a value that are looked at.
const MAX_PAIRS: usize = 500_000;
/// How deep schemas may lie in one another, references followed.
const MAX_DEPTH: usize = 200;

/// Whether `document` may be used on `values`.
///
/// # Errors
/// Why not, for people.
pub(super) fn check(document: &Value, values: &Value) -> Result<(), String> {
    // Without references it is no more work than it is long.
    if !refers(document) {
        return Ok(());
    }
    let mut counting = Counting {
        root: document,
        done: HashMap::new(),
    };
    let steps = counting.steps(document, values, 0)?;
    if steps > MAX_STEPS {
        return Err(format!(
            "it would take more than {MAX_STEPS} steps to check: its definitions multiply each other"
        ));
    }
    Ok(())
}

fn refers(schema: &Value) -> bool {
    match schema {
        Value::Object(map) => map.contains_key("$ref") || map.values().any(refers),
        Value::Array(list) => list.iter().any(refers),
        _ => false,
    }
}

struct Counting<'v> {
    root: &'v Value,
    /// Steps of a schema for a value, both by address; `None` while they are counted.
    done: HashMap<(*const Value, *const Value), Option<u64>>,
}

impl<'v> Counting<'v> {
    fn steps(&mut self, schema: &'v Value, value: &'v Value, depth: usize) -> Result<u64, String> {
        let Value::Object(map) = schema else {
            return Ok(1);
        };
        let key = (std::ptr::from_ref(schema), std::ptr::from_ref(value));
        match self.done.get(&key) {
            Some(Some(steps)) => return Ok(*steps),
            Some(None) => return Err("a definition refers to itself without end".to_owned()),
            None => {}
        }
        if depth >= MAX_DEPTH || self.done.len() >= MAX_PAIRS {
            return Err("its definitions lie too deep in one another".to_owned());
        }
        self.done.insert(key, None);
        let mut steps = 1u64;
        for (word, inner) in map {
            let more = self.word(word, inner, value, depth + 1)?;
            steps = steps.saturating_add(more);
        }
        self.done.insert(key, Some(steps));
        Ok(steps)
    }

    fn word(
        &mut self,
        word: &str,
        inner: &'v Value,
        value: &'v Value,
        depth: usize,
    ) -> Result<u64, String> {
        if word == "$ref" {
            let Some(name) = inner.as_str() else {
                return Ok(1);
            };
            let target = self.target(name).ok_or_else(|| {
                format!("`$ref` leads to `{name}`, which is not a definition of this schema")
            })?;
            return self.steps(target, value, depth);
        }
        // Definitions are work only where something refers to them.
        if matches!(word, "definitions" | "$defs") {
            return Ok(1);
        }
        let values: Vec<&'v Value> = match (word, value) {
            ("allOf" | "anyOf" | "oneOf" | "not" | "if" | "then" | "else" | "dependencies", _) => {
                vec![value]
            }
            ("propertyNames", Value::Object(map)) => map.keys().map(|_| self.root).collect(),
            (_, Value::Object(map)) => map.values().collect(),
            (_, Value::Array(list)) => list.iter().collect(),
            _ => Vec::new(),
        };
        let schemas: Vec<(Option<&str>, &'v Value)> = match holds(word, inner) {
            Holds::One(one) => vec![(None, one)],
            Holds::List(list) => list.iter().map(|one| (None, one)).collect(),
            Holds::Named(named) => named
                .iter()
                .map(|(name, one)| (Some(name.as_str()), one))
                .collect(),
            Holds::Nothing => return Ok(1),
        };
        let mut steps = 1u64;
        for (name, schema) in schemas {
            let only = match (word, name, value) {
                ("properties", Some(name), Value::Object(map)) => Some(map.get(name)),
                _ => None,
            };
            let few: Vec<&'v Value> = match only {
                Some(one) => one.into_iter().collect(),
                None => values.clone(),
            };
            for one in few {
                steps = steps.saturating_add(self.steps(schema, one, depth)?);
            }
        }
        Ok(steps)
    }

    /// What a reference names: a place in this document, or a part of it with that name.
    fn target(&self, name: &str) -> Option<&'v Value> {
        let (base, part) = name.split_once('#').unwrap_or((name, ""));
        let from = match base {
            "" => self.root,
            base => named(self.root, &|id| {
                let id = id.trim_end_matches('#');
                id == base || id.ends_with(&format!("/{base}"))
            })?,
        };
        match part {
            "" => Some(from),
            path if path.starts_with('/') => from.pointer(&decoded(path)),
            anchor => named(from, &|id| {
                id.rsplit_once('#').is_some_and(|(_, part)| part == anchor)
            }),
        }
    }
}

/// The part of `schema` whose `$id` is meant.
fn named<'v>(schema: &'v Value, meant: &dyn Fn(&str) -> bool) -> Option<&'v Value> {
    match schema {
        Value::Object(map) => {
            let id = map.get("$id").or_else(|| map.get("id"));
            if id.and_then(Value::as_str).is_some_and(meant) {
                return Some(schema);
            }
            map.values().find_map(|inner| named(inner, meant))
        }
        Value::Array(list) => list.iter().find_map(|inner| named(inner, meant)),
        _ => None,
    }
}

/// `%25` and its like, decoded.
fn decoded(path: &str) -> String {
    String::from_utf8_lossy(&outhaul_kit::percent::decoded(path)).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// `levels` definitions, each of which names the next one twice.
    fn doubled(levels: usize) -> Value {
        let mut definitions = serde_json::Map::new();
        for level in 0..levels {
            let next = json!({"$ref": format!("#/definitions/d{}", level + 1)});
            definitions.insert(format!("d{level}"), json!({"allOf": [next, next]}));
        }
        definitions.insert(format!("d{levels}"), json!({"type": "object"}));
        json!({"$ref": "#/definitions/d0", "definitions": definitions})
    }

    #[test]
    fn definitions_that_multiply_are_refused_before_they_are_followed() {
        check(&doubled(8), &json!({"a": 1})).unwrap();
        let said = check(&doubled(30), &json!({"a": 1})).unwrap_err();
        assert!(said.contains("steps"), "{said}");
    }

    #[test]
    fn recursion_ends_with_the_values_or_is_refused() {
        let tree = json!({"properties": {"a": {"$ref": "#"}, "b": {"type": "string"}}});
        let values = json!({"a": {"a": {"a": {"b": "x"}}}});
        check(&tree, &values).unwrap();
        for endless in [
            json!({"allOf": [{"$ref": "#"}]}),
            json!({"$ref": "#/definitions/a", "definitions": {"a": {"$ref": "#/definitions/b"},
                "b": {"anyOf": [{"$ref": "#/definitions/a"}]}}}),
        ] {
            let said = check(&endless, &values).unwrap_err();
            assert!(said.contains("without end"), "{said}");
        }
        // Twice at each level, through the values: as many steps as the doubled definitions.
        let twice = json!({"properties": {"a": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}});
        let deep = (0..40).fold(json!("x"), |inner, _| json!({"a": inner}));
        check(&twice, &deep).unwrap_err();
    }

    #[test]
    fn references_are_found_as_validators_find_them() {
        let schema = json!({"$id": "https://example.org/s.json", "properties": {
            "a": {"$ref": "s.json#/definitions/x~1y%25"}, "b": {"$ref": "#name"}},
            "definitions": {"x/y%": {"type": "string"}, "n": {"$id": "#name"}}});
        check(&schema, &json!({"a": "1", "b": 2})).unwrap();
        let said = check(&json!({"$ref": "https://example.org/x"}), &json!({})).unwrap_err();
        assert!(said.contains("https://example.org/x"), "{said}");
    }
}
