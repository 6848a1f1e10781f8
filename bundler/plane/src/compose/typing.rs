//! Typing: what the text of one config value is.
//!
//! What comes in: the text of a `ConfigMap`'s key. What goes out: a list or a map when it is YAML of
//! one, and otherwise the text itself, untouched: a config's numbers and booleans stay text, because
//! that is what a `ConfigMap` holds. A text in single quotes is always text.

use std::sync::Arc;

use outhaul_gocompat::{Decoder, GoMap, GoValue, MapKind, decode_yaml};

use super::Mode;
use outhaul_control::diagnostic::SourceFile;
use outhaul_control::yaml::{self, Node, YamlValue};

/// The typed value of `text`.
pub fn typed(text: &str, mode: Mode) -> GoValue {
    let trimmed = text.trim_matches(is_go_space);
    if trimmed.starts_with('\'') && trimmed.ends_with('\'') {
        if mode.compat {
            // Kalypso strips every quote, and takes a single one for a pair (its defect 8).
            return GoValue::from(trimmed.trim_matches('\''));
        }
        if let Some(inner) = trimmed
            .strip_prefix('\'')
            .and_then(|t| t.strip_suffix('\''))
        {
            return GoValue::from(inner);
        }
    }
    if !may_be_container(text) {
        return GoValue::from(text);
    }
    match decode_yaml(text, Decoder::V2) {
        Ok(value) if value.is_container() => {
            if mode.compat {
                return value;
            }
            // Kalypso reads YAML 1.1, where `yes` and `off` are booleans (its defect 7).
            with_core_schema(text).unwrap_or(value)
        }
        _ => GoValue::from(text),
    }
}

/// Whether YAML could find a list or a map in the text: a bracket, or one of `:`, `-`, `?` with nothing
/// or white space behind it. It says yes too often, and never no where there is one.
fn may_be_container(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.iter().enumerate().any(|(at, byte)| match byte {
        b'[' | b'{' => true,
        b':' | b'-' | b'?' => bytes
            .get(at + 1)
            .is_none_or(|next| next.is_ascii_whitespace() || *next == 0 || !next.is_ascii()),
        _ => false,
    })
}

/// What Go's `TrimSpace` trims: Unicode's white space.
fn is_go_space(c: char) -> bool {
    c.is_whitespace()
}

/// The same document by YAML 1.2's core schema; `None` when it is none of that.
fn with_core_schema(text: &str) -> Option<GoValue> {
    let file = Arc::new(SourceFile {
        name: String::new(),
        text: text.to_owned(),
    });
    let documents = yaml::parse(&file).ok()?;
    documents
        .first()
        .map(value_of)
        .filter(GoValue::is_container)
}

/// Maps are of the type that Kalypso's templates see, so that its functions treat them alike.
fn value_of(node: &Node) -> GoValue {
    match &node.value {
        YamlValue::Null => GoValue::Null,
        YamlValue::Bool(value) => GoValue::Bool(*value),
        YamlValue::Number(text) => number(text),
        YamlValue::String(text) => GoValue::from(text.as_str()),
        YamlValue::Sequence(items) => GoValue::List(items.iter().map(value_of).collect()),
        YamlValue::Mapping(entries) => {
            let mut map = GoMap::new(MapKind::Any);
            for entry in entries {
                let key = match decode_yaml(&entry.key, Decoder::V2) {
                    Ok(key @ (GoValue::Int(_) | GoValue::Uint(_) | GoValue::Float(_))) => key,
                    _ => GoValue::from(entry.key.as_str()),
                };
                map.entries.insert(key, value_of(&entry.value));
            }
            GoValue::Map(map)
        }
    }
}

fn number(text: &str) -> GoValue {
    match decode_yaml(text, Decoder::V2) {
        Ok(value) => value,
        Err(_) => GoValue::from(text),
    }
}

/// One text for equal values and different texts for different ones: what a config's version is a
/// digest of.
pub fn canonical(value: &GoValue) -> String {
    let mut text = String::with_capacity(1024);
    write(value, &mut text);
    text
}

/// Without the machinery of formats: it is written for every key and value of every config.
fn count(mut number: usize, out: &mut String) {
    let mut power = 1;
    while number / power >= 10 {
        power *= 10;
    }
    while power > 0 {
        let digit = u8::try_from(number / power).unwrap_or_default();
        out.push(char::from(b'0' + digit));
        number %= power;
        power /= 10;
    }
}

fn write(value: &GoValue, out: &mut String) {
    match value {
        GoValue::Null => out.push('n'),
        GoValue::Bool(value) => out.push_str(if *value { "t" } else { "f" }),
        GoValue::Int(number) => out.push_str(&format!("i{number}")),
        GoValue::Uint(number) => out.push_str(&format!("i{number}")),
        GoValue::Float(number) => out.push_str(&format!("d{number:?}")),
        GoValue::Str(text) => {
            out.push('s');
            count(text.len(), out);
            out.push(':');
            out.push_str(text);
        }
        GoValue::Time(text) => out.push_str(&format!("z{}:{text}", text.len())),
        GoValue::Bytes(bytes) => out.push_str(&format!("b{}", hex::encode(bytes))),
        GoValue::List(items) => {
            out.push_str(&format!("l{}[", items.len()));
            for item in items {
                write(item, out);
                out.push(',');
            }
            out.push(']');
        }
        GoValue::Map(map) => {
            out.push_str(&format!("m{}{{", map.len()));
            for (key, value) in map.iter() {
                write(key, out);
                out.push('=');
                write(value, out);
                out.push(',');
            }
            out.push('}');
        }
    }
}
