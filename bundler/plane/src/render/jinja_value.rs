//! Values on their way into and out of Jinja.
//!
//! What comes in: a value as configs have it, or one that a template made. What goes out: the same on the
//! other side. It renders nothing.

use std::sync::Arc;

use outhaul_gocompat as go;
use outhaul_gocompat::GoValue;

/// A value as templates get it.
pub(super) fn to_jinja(value: &GoValue) -> minijinja::Value {
    use minijinja::Value;
    match value {
        GoValue::Null => Value::from(()),
        GoValue::Bool(truth) => Value::from(*truth),
        GoValue::Int(number) => Value::from(*number),
        GoValue::Uint(number) => Value::from(*number),
        GoValue::Float(number) => Value::from(*number),
        GoValue::Str(text) => Value::from(Arc::clone(text)),
        GoValue::Time(text) => Value::from(text.clone()),
        GoValue::Bytes(bytes) => Value::from_bytes(bytes.clone()),
        GoValue::List(items) => items.iter().map(to_jinja).collect(),
        GoValue::Map(map) => Value::from_pairs(
            map.iter()
                .map(|(key, value)| (to_jinja(key), to_jinja(value))),
        ),
    }
}

/// A value that a template made, as the rest of the program has it.
pub(super) fn from_jinja(value: &minijinja::Value) -> GoValue {
    use minijinja::value::ValueKind;
    match value.kind() {
        ValueKind::Bool => GoValue::Bool(value.is_true()),
        ValueKind::Number => match (
            value.is_integer(),
            value.as_i64(),
            value.to_string().parse(),
        ) {
            (true, Some(number), _) => GoValue::Int(number),
            (_, _, Ok(number)) => GoValue::Float(number),
            _ => GoValue::from(value.to_string()),
        },
        ValueKind::Undefined | ValueKind::None => GoValue::Null,
        ValueKind::Seq | ValueKind::Iterable => GoValue::List(
            value
                .try_iter()
                .into_iter()
                .flatten()
                .map(|v| from_jinja(&v))
                .collect(),
        ),
        ValueKind::Map => {
            let mut map = go::GoMap::default();
            for key in value.try_iter().into_iter().flatten() {
                let item = value.get_item(&key).unwrap_or_default();
                map.insert(key.to_string(), from_jinja(&item));
            }
            GoValue::Map(map)
        }
        _ => GoValue::from(value.to_string()),
    }
}
