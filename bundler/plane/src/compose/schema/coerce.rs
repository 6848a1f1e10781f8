//! Coercion toward what a schema declares.
//!
//! What comes in: a config, whose scalars are text, and a schema. What goes out: the config with
//! numbers and booleans where the schema declares them and the text is one. Text stays text where the
//! schema allows text, so that a version `"11"` is never a number by accident.

use serde_json::{Map, Number, Value};

/// How deep references and combinations are followed.
const MAX_DEPTH: usize = 32;

/// `value` as `schema` declares it.
pub(super) fn toward(value: Value, schema: &Value) -> Value {
    convert(value, schema, schema, 0)
}

fn convert(value: Value, schema: &Value, root: &Value, depth: usize) -> Value {
    let Some(schema) = schema.as_object().filter(|_| depth < MAX_DEPTH) else {
        return value;
    };
    let mut value = match value {
        Value::String(text) => scalar(text, schema),
        other => other,
    };
    if let Some(target) = schema
        .get("$ref")
        .and_then(Value::as_str)
        .and_then(|r| resolve(r, root))
    {
        value = convert(value, target, root, depth + 1);
    }
    for keyword in ["allOf", "anyOf", "oneOf"] {
        for branch in schema
            .get(keyword)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            value = convert(value, branch, root, depth + 1);
        }
    }
    match value {
        Value::Object(map) => Value::Object(object(map, schema, root, depth)),
        Value::Array(items) => array(items, schema, root, depth),
        other => other,
    }
}

fn object(
    map: Map<String, Value>,
    schema: &Map<String, Value>,
    root: &Value,
    depth: usize,
) -> Map<String, Value> {
    let properties = schema.get("properties");
    let other = schema.get("additionalProperties");
    map.into_iter()
        .map(|(key, value)| {
            let declared = properties.and_then(|p| p.get(&key)).or(other);
            let value = match declared {
                Some(declared) => convert(value, declared, root, depth + 1),
                None => value,
            };
            (key, value)
        })
        .collect()
}

fn array(items: Vec<Value>, schema: &Map<String, Value>, root: &Value, depth: usize) -> Value {
    let declared = schema.get("items");
    items
        .into_iter()
        .enumerate()
        .map(|(at, item)| match declared {
            Some(Value::Array(each)) => match each.get(at) {
                Some(declared) => convert(item, declared, root, depth + 1),
                None => item,
            },
            Some(declared) => convert(item, declared, root, depth + 1),
            None => item,
        })
        .collect()
}

fn scalar(text: String, schema: &Map<String, Value>) -> Value {
    let types: Vec<&str> = match schema.get("type") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(many)) => many.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if types.contains(&"string") {
        return Value::String(text);
    }
    if types.contains(&"boolean") {
        match text.as_str() {
            "true" => return Value::Bool(true),
            "false" => return Value::Bool(false),
            _ => {}
        }
    }
    if types.contains(&"integer") || types.contains(&"number") {
        // Whole numbers as people write them (`+5`, `007`), and else JSON's own grammar: no `NaN`, no
        // white space.
        let digits = text.strip_prefix(['+', '-']).unwrap_or(&text);
        if digits.bytes().all(|b| b.is_ascii_digit())
            && let Ok(number) = text.parse::<i64>()
        {
            return Value::Number(number.into());
        }
        let bare = !text.contains(char::is_whitespace);
        if let Some(number) = serde_json::from_str::<Number>(&text).ok().filter(|_| bare) {
            return Value::Number(number);
        }
    }
    Value::String(text)
}

/// `#/definitions/x`, within the schema itself.
fn resolve<'s>(reference: &str, root: &'s Value) -> Option<&'s Value> {
    root.pointer(reference.strip_prefix('#')?)
}
