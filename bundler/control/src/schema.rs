//! JSON Schemas (draft 2020-12) of every kind that a control plane may hold, for editors and programs.
//!
//! What comes in: nothing, or a kind. What goes out: one schema for files that hold any objects, one for
//! each kind, and the same as text for people. They come from the descriptions in `control::kinds`, from which
//! the readers take names and bounds, too; what a reader checks beyond them is held to the schema by tests,
//! field by field. Nothing here reads a control plane.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::kinds::{self, KALYPSO, KALYPSO_INTERNAL, OUTHAUL};

pub mod print;

pub use crate::kinds::KindSchema;

/// The dialect that all of them are in.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";
/// The name of the file for any object.
pub const ALL_FILE: &str = "outhaul.schema.json";

/// Every kind, Kalypso's first, each group sorted by name.
pub fn kinds() -> Vec<KindSchema> {
    kinds::all().cloned().collect()
}

impl KindSchema {
    /// Names its definition and its file: `outhaul.SchedulingPolicy`.
    pub fn id(&self) -> String {
        let group = match self.api_version {
            KALYPSO => "kalypso",
            OUTHAUL => "outhaul",
            other => other,
        };
        format!("{group}.{}", self.name)
    }

    /// Its schema as a separate document.
    pub fn document(&self) -> Value {
        let mut document = Map::new();
        document.insert("$schema".into(), DIALECT.into());
        document.insert(
            "title".into(),
            format!("{} ({})", self.name, self.api_version).into(),
        );
        if let Value::Object(schema) = self.schema() {
            document.extend(schema.clone());
        }
        Value::Object(document)
    }
}

/// One schema for objects of all of `kinds`: which one holds is decided by `apiVersion` and `kind`, and
/// every other Kubernetes object is left alone.
pub fn combined(kinds: &[KindSchema]) -> Value {
    let mut definitions = Map::new();
    let mut rules = Vec::new();
    let mut names: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for kind in kinds {
        definitions.insert(kind.id(), kind.schema().clone());
        if kind.api_version != "v1" {
            names.entry(kind.api_version).or_default().push(kind.name);
        }
        rules.push(
            json!({"if": condition(kind), "then": {"$ref": format!("#/$defs/{}", kind.id())}}),
        );
    }
    for (api_version, mut names) in names {
        // Kalypso makes these itself; in a control plane they are ignored with a warning.
        if api_version == KALYPSO {
            names.extend(KALYPSO_INTERNAL);
        }
        rules.push(json!({
            "if": {"type": "object", "properties": {"apiVersion": {"const": api_version}}, "required": ["apiVersion"]},
            "then": {"properties": {"kind": {"enum": names}}, "required": ["kind"]},
        }));
    }
    rules.push(json!({
        "if": {"type": "object", "properties": {"kind": {"const": "List"}, "items": {"type": "array"}}, "required": ["kind", "items"]},
        "then": {"properties": {"items": {"items": {"$ref": "#"}}}},
    }));
    json!({
        "$schema": DIALECT,
        "title": "Outhaul control plane",
        "description": "One object of a control plane: of Kalypso's group, of Outhaul's, or any other of Kubernetes.",
        "type": ["object", "null"],
        "properties": {
            "apiVersion": {"description": "The group and version, such as outhaul.dev/v1alpha1."},
            "kind": {"description": "What the object is."},
        },
        "allOf": rules,
        "$defs": definitions,
    })
}

/// Which objects a kind's schema is for.
fn condition(kind: &KindSchema) -> Value {
    let mut condition = json!({
        "type": "object",
        "properties": {"apiVersion": {"const": kind.api_version}, "kind": {"const": kind.name}},
        "required": ["apiVersion", "kind"],
    });
    if kind.api_version == "v1" {
        // Only what is meant for us is held to our rules.
        condition["required"] = json!(["apiVersion", "kind", "metadata"]);
        condition["properties"]["metadata"] = json!({
            "anyOf": [
                {
                    "properties": {"labels": {"required": ["platform-config"]}},
                    "required": ["labels"],
                },
                {
                    "properties": {"name": {"pattern": "^azure-app-config"}},
                    "required": ["name"],
                },
            ],
        });
    }
    condition
}

/// Every file to write: one for any object, and one for each kind.
pub fn files() -> BTreeMap<String, Value> {
    let kinds = kinds();
    let mut files: BTreeMap<String, Value> = kinds
        .iter()
        .map(|kind| (format!("{}.schema.json", kind.id()), kind.document()))
        .collect();
    files.insert(ALL_FILE.to_owned(), combined(&kinds));
    files
}

#[cfg(test)]
mod tests;
