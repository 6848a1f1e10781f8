//! Who set which fields of an object, by what the server recorded of them.
//!
//! What comes in: an object with its `managedFields`. What goes out: the names of others, and what is ours. It is pure.

use serde_json::Value;

use crate::FIELD_MANAGER;

/// The managers other than ourselves that set fields of `object`, sorted.
pub fn other_managers(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"]
        .as_array()
        .map(Vec::as_slice);
    let mut names: Vec<String> = entries
        .unwrap_or_default()
        .iter()
        .filter(|entry| entry["subresource"].as_str().is_none_or(str::is_empty))
        .filter_map(|entry| entry["manager"].as_str())
        .filter(|manager| *manager != FIELD_MANAGER)
        .map(ToOwned::to_owned)
        .collect();
    names.sort();
    names.dedup();
    names
}

/// Whether we applied fields of `object`.
pub fn is_applied_by_us(object: &Value) -> bool {
    our_entry(object).is_some()
}

/// The fields of `object` that we applied and that nobody has set to another value since, as the server keeps them; null
/// when there are none.
pub fn applied_by_us(object: &Value) -> &Value {
    our_entry(object).map_or(&Value::Null, |entry| &entry["fieldsV1"])
}

fn our_entry(object: &Value) -> Option<&Value> {
    let entries = object["metadata"]["managedFields"].as_array()?;
    let ours = |entry: &&Value| entry["manager"] == FIELD_MANAGER && entry["operation"] == "Apply";
    entries.iter().find(ours)
}
