//! What a controller leaves out when it writes a whole object back: what is empty or `false`, and means the same when it is
//! not there.
//!
//! What comes in: a value, and the fields that mean something when they are empty. What goes out: the value without the others.
//! It is pure.

use serde_json::Value;

/// Takes what is empty or `false` out of `value`, but not the fields that are called as in `kept`.
pub fn leave_out_empty(value: &mut Value, kept: &[&str]) {
    match value {
        Value::Object(fields) => {
            fields
                .values_mut()
                .for_each(|value| leave_out_empty(value, kept));
            fields.retain(|name, value| kept.contains(&name.as_str()) || !is_empty(value));
        }
        Value::Array(all) => all
            .iter_mut()
            .for_each(|value| leave_out_empty(value, kept)),
        _ => {}
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(all) => all.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(true) | Value::Number(_) => false,
    }
}
