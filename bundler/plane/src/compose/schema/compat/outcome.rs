//! What came of a validation, and values as its words have them.
//!
//! What comes in: violations, one after another. What goes out: all of them, with the score by which the
//! best of several alternatives is chosen. It checks nothing.

use std::collections::BTreeSet;

use outhaul_gocompat::texts;
use serde_json::Value;

use super::number;

#[derive(Default)]
pub(super) struct ValidationResult {
    pub(super) errors: Vec<(String, String)>,
    pub(super) score: i64,
}

impl ValidationResult {
    pub(super) fn valid(&self) -> bool {
        self.errors.is_empty()
    }

    pub(super) fn add(&mut self, at: &str, message: impl Into<String>) {
        let field = at.strip_prefix("(root).").unwrap_or(at);
        self.errors.push((field.to_owned(), message.into()));
        self.score -= 2;
    }

    pub(super) fn merge(&mut self, other: ValidationResult) {
        self.errors.extend(other.errors);
        self.score += other.score;
    }
}

/// JSON text in which equal values are equal: numbers by value, keys sorted.
pub(super) fn text_of(value: &Value) -> String {
    match value {
        Value::Number(number) => texts::json_number(number::float(number)),
        Value::String(text) => texts::json_string(text),
        Value::Array(items) => {
            format!(
                "[{}]",
                items.iter().map(text_of).collect::<Vec<_>>().join(",")
            )
        }
        Value::Object(map) => {
            let keys: BTreeSet<&String> = map.keys().collect();
            let entry =
                |key: &&String| format!("{}:{}", texts::json_string(key), text_of(&map[*key]));
            format!(
                "{{{}}}",
                keys.iter().map(entry).collect::<Vec<_>>().join(",")
            )
        }
        other => other.to_string(),
    }
}
