//! Validation in the order, and with the words, of Kalypso's validator.
//!
//! What comes in: a checked schema and values. What goes out: pairs of field and message. Alternatives
//! report the branch that fitted best, by the same score: each step that held counts one, each
//! violation takes two. Depth and regular expressions are bounded.

use serde_json::{Map, Value};

use super::document::{Draft, Schema};
use super::outcome::{ValidationResult, text_of};
use super::scalars::{bounds, common, count, string, wrong_type};
use outhaul_gocompat::texts::Regex;

const MAX_DEPTH: usize = 128;

/// Field and message of each violation.
///
/// # Errors
/// When the schema refers to what is not in it, or is endless.
pub(super) fn validate(
    schema: &Schema<'_>,
    values: &Value,
) -> Result<Vec<(String, String)>, String> {
    let mut run = Run {
        schema,
        problem: None,
    };
    let outcome = run.sub(schema.root, values, "(root)", 0);
    match run.problem {
        Some(problem) => Err(problem),
        None => Ok(outcome.errors),
    }
}

struct Run<'s> {
    schema: &'s Schema<'s>,
    problem: Option<String>,
}

/// The best failed branch of an alternative.
fn better(best: &mut Option<ValidationResult>, outcome: ValidationResult) {
    if best.as_ref().is_none_or(|best| outcome.score > best.score) {
        *best = Some(outcome);
    }
}

fn below(at: &str, key: impl std::fmt::Display) -> String {
    format!("{at}.{key}")
}

impl<'s> Run<'s> {
    fn sub(
        &mut self,
        schema: &'s Value,
        value: &Value,
        at: &str,
        depth: usize,
    ) -> ValidationResult {
        let mut out = ValidationResult::default();
        self.recurse(schema, value, at, depth, &mut out);
        out
    }

    fn recurse(
        &mut self,
        schema: &'s Value,
        value: &Value,
        at: &str,
        depth: usize,
        out: &mut ValidationResult,
    ) {
        if depth > MAX_DEPTH {
            self.problem = Some("schema refers to itself without end".into());
            return;
        }
        let schema = match schema {
            Value::Bool(true) => return,
            Value::Object(map) => map,
            _ => return out.add(at, "False always fails validation"),
        };
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            match self.schema.target(reference) {
                Some(target) => self.recurse(target, value, at, depth + 1, out),
                None => self.problem = Some(format!("`{reference}` is not in the schema")),
            }
            return;
        }
        if let Some(message) = wrong_type(schema, value) {
            return out.add(at, message);
        }
        self.combinations(schema, value, at, depth, out);
        match value {
            Value::Array(items) => {
                self.array(schema, items, at, depth, out);
                common(schema, value, at, self.schema.draft, out);
            }
            Value::Object(map) => {
                self.object(schema, map, at, depth, out);
                common(schema, value, at, self.schema.draft, out);
                let properties = schema.get("properties").and_then(Value::as_object);
                for (key, declared) in properties.into_iter().flatten() {
                    if let Some(inner) = map.get(key) {
                        self.recurse(declared, inner, &below(at, key), depth + 1, out);
                    }
                }
            }
            _ => {
                if let Value::Number(number) = value {
                    bounds(schema, number, at, out);
                }
                common(schema, value, at, self.schema.draft, out);
                if let Value::String(text) = value {
                    string(schema, text, at, out);
                }
            }
        }
        out.score += 1;
    }

    /// A keyword that earlier drafts do not have.
    fn since(&self, draft: Draft, schema: &'s Map<String, Value>, key: &str) -> Option<&'s Value> {
        schema.get(key).filter(|_| self.schema.draft >= draft)
    }

    fn combinations(
        &mut self,
        schema: &'s Map<String, Value>,
        value: &Value,
        at: &str,
        depth: usize,
        out: &mut ValidationResult,
    ) {
        // An empty list asks for nothing, as if the keyword were not there.
        let branches = |key: &str| {
            let listed = schema.get(key).and_then(Value::as_array);
            listed.filter(|listed| !listed.is_empty())
        };
        if let Some(any_of) = branches("anyOf") {
            let (mut valid, mut best) = (false, None);
            for branch in any_of {
                let outcome = self.sub(branch, value, at, depth + 1);
                if outcome.valid() {
                    valid = true;
                    break;
                }
                better(&mut best, outcome);
            }
            if !valid {
                out.add(at, "Must validate at least one schema (anyOf)");
                if let Some(best) = best {
                    out.merge(best);
                }
            }
        }
        if let Some(one_of) = branches("oneOf") {
            let (mut valid, mut best) = (0, None);
            for branch in one_of {
                let outcome = self.sub(branch, value, at, depth + 1);
                match outcome.valid() {
                    true => valid += 1,
                    false if valid == 0 => better(&mut best, outcome),
                    false => {}
                }
            }
            if valid != 1 {
                out.add(at, "Must validate one and only one schema (oneOf)");
                if valid == 0
                    && let Some(best) = best
                {
                    out.merge(best);
                }
            }
        }
        if let Some(all_of) = branches("allOf") {
            let mut valid = 0;
            for branch in all_of {
                let outcome = self.sub(branch, value, at, depth + 1);
                valid += usize::from(outcome.valid());
                out.merge(outcome);
            }
            if valid != all_of.len() {
                out.add(at, "Must validate all the schemas (allOf)");
            }
        }
        if let Some(not) = schema.get("not")
            && self.sub(not, value, at, depth + 1).valid()
        {
            out.add(at, "Must not validate the schema (not)");
        }
        self.dependencies(schema, value, at, depth, out);
        if let Some(condition) = self.since(Draft::Seven, schema, "if") {
            let holds = self.sub(condition, value, at, depth + 1).valid();
            let (branch, message) = match holds {
                true => ("then", "Must validate \"then\" as \"if\" was valid"),
                false => ("else", "Must validate \"else\" as \"if\" was not valid"),
            };
            if let Some(branch) = schema.get(branch) {
                let outcome = self.sub(branch, value, at, depth + 1);
                if !outcome.valid() {
                    out.add(at, message);
                    out.merge(outcome);
                }
            }
        }
        out.score += 1;
    }

    fn dependencies(
        &mut self,
        schema: &'s Map<String, Value>,
        value: &Value,
        at: &str,
        depth: usize,
        out: &mut ValidationResult,
    ) {
        let (Some(map), Some(all)) = (
            value.as_object(),
            schema.get("dependencies").and_then(Value::as_object),
        ) else {
            return;
        };
        for key in map.keys() {
            match all.get(key) {
                Some(Value::Array(needed)) => {
                    for needed in needed.iter().filter_map(Value::as_str) {
                        if !map.contains_key(needed) {
                            out.add(at, format!("Has a dependency on {needed}"));
                        }
                    }
                }
                Some(schema) => self.recurse(schema, value, at, depth + 1, out),
                None => {}
            }
        }
    }

    fn array(
        &mut self,
        schema: &'s Map<String, Value>,
        items: &[Value],
        at: &str,
        depth: usize,
        out: &mut ValidationResult,
    ) {
        match schema.get("items") {
            Some(Value::Array(each)) if !each.is_empty() => {
                for (position, item) in items.iter().enumerate() {
                    let declared = each.get(position).or_else(|| schema.get("additionalItems"));
                    match declared {
                        Some(Value::Bool(false)) if position >= each.len() => {
                            out.add(at, "No additional items allowed on array");
                            break;
                        }
                        Some(declared) => {
                            out.merge(self.sub(declared, item, &below(at, position), depth + 1));
                        }
                        None => {}
                    }
                }
            }
            Some(Value::Array(_)) | None => {}
            Some(single) => {
                for (position, item) in items.iter().enumerate() {
                    out.merge(self.sub(single, item, &below(at, position), depth + 1));
                }
            }
        }
        if let Some(min) = count(schema, "minItems").filter(|min| items.len() < *min) {
            out.add(at, format!("Array must have at least {min} items"));
        }
        if let Some(max) = count(schema, "maxItems").filter(|max| items.len() > *max) {
            out.add(at, format!("Array must have at most {max} items"));
        }
        if schema.get("uniqueItems") == Some(&Value::Bool(true)) {
            let texts: Vec<String> = items.iter().map(text_of).collect();
            for (j, text) in texts.iter().enumerate() {
                if let Some(i) = texts[..j].iter().rposition(|other| other == text) {
                    out.add(at, format!("array items[{i},{j}] must be unique"));
                }
            }
        }
        if let Some(contains) = self.since(Draft::Six, schema, "contains") {
            let mut best = None;
            let found = items.iter().enumerate().any(|(position, item)| {
                let outcome = self.sub(contains, item, &below(at, position), depth + 1);
                let valid = outcome.valid();
                if !valid {
                    better(&mut best, outcome);
                }
                valid
            });
            if !found {
                out.add(at, "At least one of the items must match");
                if let Some(best) = best {
                    out.merge(best);
                }
            }
        }
        out.score += 1;
    }

    fn object(
        &mut self,
        schema: &'s Map<String, Value>,
        map: &Map<String, Value>,
        at: &str,
        depth: usize,
        out: &mut ValidationResult,
    ) {
        if let Some(min) = count(schema, "minProperties").filter(|min| map.len() < *min) {
            out.add(at, format!("Must have at least {min} properties"));
        }
        if let Some(max) = count(schema, "maxProperties").filter(|max| map.len() > *max) {
            out.add(at, format!("Must have at most {max} properties"));
        }
        let required = schema.get("required").and_then(Value::as_array);
        for key in required.into_iter().flatten().filter_map(Value::as_str) {
            if map.contains_key(key) {
                out.score += 1;
            } else {
                out.add(at, format!("{key} is required"));
            }
        }
        let properties = schema.get("properties").and_then(Value::as_object);
        let patterns = schema.get("patternProperties").and_then(Value::as_object);
        for (key, value) in map {
            let mut described = properties.is_some_and(|properties| properties.contains_key(key));
            let mut fits = false;
            for (pattern, declared) in patterns.into_iter().flatten() {
                if Regex::new(pattern).is_some_and(|pattern| pattern.is_match(key)) {
                    fits = true;
                    out.merge(self.sub(declared, value, &below(at, key), depth + 1));
                }
            }
            out.score += i64::from(fits);
            described |= fits;
            match schema.get("additionalProperties").filter(|_| !described) {
                Some(Value::Bool(false)) => {
                    out.add(at, format!("Additional property {key} is not allowed"));
                }
                Some(declared) => out.merge(self.sub(declared, value, &below(at, key), depth + 1)),
                None => {}
            }
        }
        if let Some(names) = self.since(Draft::Six, schema, "propertyNames") {
            for key in map.keys() {
                let outcome = self.sub(names, &Value::String(key.clone()), at, depth + 1);
                if !outcome.valid() {
                    out.add(at, format!("Property name of \"{key}\" does not match"));
                    out.merge(outcome);
                }
            }
        }
        out.score += 1;
    }
}
