//! What one value by itself must be: its type, its bounds, its length, its form.
//!
//! What comes in: one schema object and one value. What goes out: violations, in the order and with the
//! words of Kalypso's validator, added to an outcome. It never looks at other schemas.

use serde_json::{Map, Number, Value};

use outhaul_gocompat::texts;

use super::document::Draft;
use super::outcome::{ValidationResult, text_of};
use super::{format, number};

pub(super) fn wrong_type(schema: &Map<String, Value>, value: &Value) -> Option<String> {
    let declared = schema.get("type")?;
    let types: Vec<&str> = match declared {
        Value::Array(types) => types.iter().filter_map(Value::as_str).collect(),
        single => single.as_str().into_iter().collect(),
    };
    let given = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number::is_whole(number) => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let holds = types.contains(&given) || (given == "integer" && types.contains(&"number"));
    if holds || types.is_empty() {
        return None;
    }
    let expected = if types.len() == 1 {
        types[0].to_owned()
    } else {
        format!("[{}]", types.join(","))
    };
    Some(format!(
        "Invalid type. Expected: {expected}, given: {given}"
    ))
}

pub(super) fn common(
    schema: &Map<String, Value>,
    value: &Value,
    at: &str,
    draft: Draft,
    out: &mut ValidationResult,
) {
    let field = at.strip_prefix("(root).").unwrap_or(at);
    let text = text_of(value);
    if let Some(expected) = schema
        .get("const")
        .filter(|_| draft >= Draft::Six)
        .map(text_of)
        .filter(|expected| *expected != text)
    {
        out.add(at, format!("{field} does not match: {expected}"));
    }
    if let Some(allowed) = schema
        .get("enum")
        .and_then(Value::as_array)
        .filter(|a| !a.is_empty())
    {
        let allowed: Vec<String> = allowed.iter().map(text_of).collect();
        if !allowed.contains(&text) {
            out.add(
                at,
                format!(
                    "{field} must be one of the following: {}",
                    allowed.join(", ")
                ),
            );
        }
    }
    out.score += 1;
}

pub(super) fn string(
    schema: &Map<String, Value>,
    text: &str,
    at: &str,
    out: &mut ValidationResult,
) {
    let length = text.chars().count();
    if let Some(min) = count(schema, "minLength").filter(|min| length < *min) {
        out.add(
            at,
            format!("String length must be greater than or equal to {min}"),
        );
    }
    if let Some(max) = count(schema, "maxLength").filter(|max| length > *max) {
        out.add(
            at,
            format!("String length must be less than or equal to {max}"),
        );
    }
    if let Some(pattern) = schema.get("pattern").and_then(Value::as_str)
        && !texts::Regex::new(pattern).is_some_and(|pattern| pattern.is_match(text))
    {
        out.add(at, format!("Does not match pattern '{pattern}'"));
    }
    if let Some(format) = schema.get("format").and_then(Value::as_str)
        && !format::holds(format, text)
    {
        out.add(at, format!("Does not match format '{format}'"));
    }
    out.score += 1;
}

pub(super) fn bounds(
    schema: &Map<String, Value>,
    value: &Number,
    at: &str,
    out: &mut ValidationResult,
) {
    let bound = |key: &str| match schema.get(key) {
        Some(Value::Number(bound)) => Some(bound),
        _ => None,
    };
    // In draft 4 `exclusive…` is a boolean that sharpens the other keyword.
    let sharp = |key: &str| schema.get(key) == Some(&Value::Bool(true));
    let number = number::float(value);
    if let Some(unit) = bound("multipleOf").filter(|unit| !number::is_multiple(value, unit)) {
        out.add(at, format!("Must be a multiple of {}", number::bound(unit)));
    }
    let (max, min) = (bound("maximum"), bound("minimum"));
    let below = bound("exclusiveMaximum").or(max.filter(|_| sharp("exclusiveMaximum")));
    let above = bound("exclusiveMinimum").or(min.filter(|_| sharp("exclusiveMinimum")));
    let max = max.filter(|_| !sharp("exclusiveMaximum"));
    let min = min.filter(|_| !sharp("exclusiveMinimum"));
    if let Some(max) = max.filter(|max| number > number::float(max)) {
        out.add(
            at,
            format!("Must be less than or equal to {}", number::bound(max)),
        );
    }
    if let Some(max) = below.filter(|max| number >= number::float(max)) {
        out.add(at, format!("Must be less than {}", number::bound(max)));
    }
    if let Some(min) = min.filter(|min| number < number::float(min)) {
        out.add(
            at,
            format!("Must be greater than or equal to {}", number::bound(min)),
        );
    }
    if let Some(min) = above.filter(|min| number <= number::float(min)) {
        out.add(at, format!("Must be greater than {}", number::bound(min)));
    }
    // Formats are of texts: no number is of any that is known.
    if let Some(format) = schema.get("format").and_then(Value::as_str)
        && format::is_known(format)
    {
        out.add(at, format!("Does not match format '{format}'"));
    }
    out.score += 1;
}

pub(super) fn count(schema: &Map<String, Value>, key: &str) -> Option<usize> {
    let value = schema.get(key)?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked when parsed"
    )]
    let count = value
        .as_u64()
        .or_else(|| value.as_f64().map(|n| n as u64))?;
    usize::try_from(count).ok()
}
