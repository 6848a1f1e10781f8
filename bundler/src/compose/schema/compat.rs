//! Coercion as Kalypso does it, for `--compat`.
//!
//! What comes in: a config as JSON. What goes out: its top-level texts as numbers wherever they look
//! like one, whatever the schema says (Kalypso's defect 6). Nothing below the top level is touched.

use serde_json::{Number, Value};

/// The config as Kalypso hands it to its validator.
pub fn coerced(values: Value) -> Value {
    match values {
        Value::Object(map) => {
            let number = |value| match value {
                Value::String(text) => number(&text).map_or(Value::String(text), Value::Number),
                other => other,
            };
            Value::Object(
                map.into_iter()
                    .map(|(key, value)| (key, number(value)))
                    .collect(),
            )
        }
        other => other,
    }
}

/// An integer, or else a fraction, as Go's `strconv` reads them. What is no JSON number stays text.
fn number(text: &str) -> Option<Number> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || digits.starts_with(['+', '-']) {
        return None;
    }
    if digits.bytes().all(|b| b.is_ascii_digit())
        && let Ok(integer) = text.parse::<i64>()
    {
        return Some(integer.into());
    }
    let plain = digits
        .bytes()
        .all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-'));
    let fraction: f64 = if plain {
        text.parse().ok()?
    } else {
        return None;
    };
    Number::from_f64(fraction)
}
