//! Schemas as Kalypso checks them, for `--compat`.
//!
//! What comes in: a config and the text of a schema. What goes out: the lines that Kalypso would write
//! into its issue, in the same order. Its coercion is kept, defect 6 included: top-level texts become
//! numbers wherever they look like one, whatever the schema says, and nothing below them does. What the
//! validator understands are drafts 4, 6 and 7 together. It fetches nothing.

use outhaul_gocompat::{GoValue, texts};
use serde_json::Value;

mod document;
mod format;
mod number;
mod outcome;
mod scalars;
mod validate;

pub(super) use document::Draft;
pub(super) use format::KNOWN as FORMATS;

/// What Kalypso's validator says of `values`: nothing, or one line for each violation.
///
/// # Errors
/// Why the schema is none, or why the values cannot be checked.
pub fn errors(values: &GoValue, schema: &str) -> Result<Vec<String>, String> {
    let document: Value = serde_json::from_str(schema).map_err(|error| error.to_string())?;
    let schema = document::check(&document)?;
    let values = coerced(values)?;
    let lines = validate::validate(&schema, &values)?;
    Ok(lines
        .into_iter()
        .map(|(field, message)| format!("- {field}: {message}\n"))
        .collect())
}

/// The draft of a document, if it is a schema at all to Kalypso's validator.
///
/// # Errors
/// Why it is not one.
pub(super) fn draft(document: &Value) -> Result<Draft, String> {
    document::check(document).map(|schema| schema.draft)
}

/// Whether `text` is of the format `name`, as Kalypso's validator understands it.
pub(super) fn is_format(name: &str, text: &str) -> bool {
    format::holds(name, text)
}

fn coerced(values: &GoValue) -> Result<Value, String> {
    let GoValue::Map(map) = values else {
        return plain(values);
    };
    let entry = |(key, value): (&GoValue, &GoValue)| {
        let value = match value {
            GoValue::Str(text) => match number::coerce(text)? {
                Some(number) => number,
                None => Value::String(text.to_string()),
            },
            other => plain(other)?,
        };
        Ok((name(key)?, value))
    };
    map.iter()
        .map(entry)
        .collect::<Result<_, String>>()
        .map(Value::Object)
}

/// As JSON, which has neither infinity nor NaN.
fn plain(value: &GoValue) -> Result<Value, String> {
    Ok(match value {
        GoValue::Float(number) => number::of(*number)?,
        GoValue::List(items) => Value::Array(items.iter().map(plain).collect::<Result<_, _>>()?),
        GoValue::Map(map) => {
            let entry = |(key, value): (&GoValue, &GoValue)| Ok((name(key)?, plain(value)?));
            Value::Object(map.iter().map(entry).collect::<Result<_, String>>()?)
        }
        other => super::to_json(other),
    })
}

/// A key as JSON.
///
/// # Errors
/// For null, infinity and NaN, which cannot be one.
fn name(key: &GoValue) -> Result<String, String> {
    match key {
        GoValue::Str(text) => Ok(text.to_string()),
        GoValue::Float(number) if number.is_finite() => Ok(texts::json_number(*number)),
        GoValue::Float(number) => number::of(*number).map(|number| number.to_string()),
        GoValue::Null => Err("unsupported key: null".to_owned()),
        other => Ok(super::to_json(other).to_string()),
    }
}

#[cfg(test)]
mod tests;
