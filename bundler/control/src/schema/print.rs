//! A schema as people read it: one line for each field.
//!
//! What comes in: a [`KindSchema`]. What goes out: lines with each field's path, what it takes, and what it is
//! for; what Kubernetes keeps and nobody reads here is left out.

use serde_json::Value;

use super::KindSchema;

/// One field of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// `spec.preferred[].weight`.
    pub path: String,
    /// `whole number 1 to 100, required`.
    pub takes: String,
    /// What it is for.
    pub about: String,
}

/// Every field that means something.
pub fn lines(kind: &KindSchema) -> Vec<Line> {
    let mut lines = Vec::new();
    walk(kind.schema(), "", &mut lines);
    lines.retain(|line| !matches!(line.path.as_str(), "apiVersion" | "kind" | "status"));
    lines
}

fn walk(schema: &Value, path: &str, lines: &mut Vec<Line>) {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return;
    };
    let required = schema.get("required").and_then(Value::as_array);
    for (name, shape) in properties {
        let about = shape
            .get("description")
            .and_then(Value::as_str)
            .unwrap_or_default();
        // Taken because Kubernetes has it.
        if about.contains("gnored") {
            continue;
        }
        let path = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };
        let must = required.is_some_and(|all| all.iter().any(|one| one == name));
        let takes = takes(shape);
        lines.push(Line {
            path: path.clone(),
            takes: if must {
                format!("{takes}, required")
            } else {
                takes
            },
            about: about.to_owned(),
        });
        // One explanation of label selectors is enough.
        if name == "labelSelector" {
            continue;
        }
        walk(shape, &path, lines);
        if let Some(item) = shape.get("items") {
            walk(item, &format!("{path}[]"), lines);
        }
    }
}

fn takes(shape: &Value) -> String {
    if let Some(words) = shape.get("enum").and_then(Value::as_array) {
        let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
        return words.join(" | ");
    }
    let kind = match shape.get("type") {
        Some(Value::String(one)) => one.as_str(),
        Some(Value::Array(all)) => all.first().and_then(Value::as_str).unwrap_or_default(),
        _ => "",
    };
    let bound = |name: &str| shape.get(name).and_then(Value::as_u64);
    match kind {
        "string" => "text".to_owned(),
        "boolean" => "true | false".to_owned(),
        "number" => "number".to_owned(),
        "integer" => match (bound("minimum"), bound("maximum")) {
            (Some(least), Some(most)) => format!("whole number {least} to {most}"),
            _ => "whole number".to_owned(),
        },
        "array" => "list".to_owned(),
        _ if shape.get("properties").is_none() => "map of texts".to_owned(),
        _ => "map".to_owned(),
    }
}
