//! What Jinja templates can do with a value: write it so that its reader gets the very same value.
//!
//! What comes in: values, as templates have them. What goes out: filters (`quote`, `to_yaml`,
//! `to_json`, `text`, `shell`, `property`, `dns_label`, `label_value`, `config_key`, `variable`), the
//! test `sealed`, and the function `fail`. Each either writes what its format reads back as the same
//! value or refuses with a sentence; none reaches the clock, the network or the machine.

use outhaul_kit::bounds::MAX_DNS_LABEL_BYTES;
use std::fmt::Write as _;

use minijinja::{Error, ErrorKind, Value};
use outhaul_bundle::Digest;
use outhaul_gocompat as go;
use outhaul_seal::marker::properties;

use super::jinja_value::from_jinja;

/// Hexadecimal digits that distinguish shortened names.
const DIGITS: usize = 8;
/// How a sealed value begins.
const SEALED: &str = outhaul_seal::marker::OPENING;

/// Adds all of them.
pub(super) fn add(environment: &mut minijinja::Environment<'static>) {
    environment.add_filter("quote", |value: &Value| quoted(&text(value)?));
    environment.add_filter("to_yaml", |value: &Value| {
        let text = go::to_yaml(&from_jinja(value));
        text.strip_suffix('\n').map(str::to_owned).unwrap_or(text)
    });
    environment.add_filter("to_json", |value: &Value| json(value));
    environment.add_filter("text", |value: &Value| text(value));
    environment.add_filter("shell", |value: &Value| shell(&text(value)?));
    environment.add_filter("property", |value: &Value| {
        Ok::<_, Error>(properties::escaped(&text(value)?, false).to_string())
    });
    environment.add_filter("property_key", |value: &Value| {
        Ok::<_, Error>(properties::escaped(&text(value)?, true).to_string())
    });
    environment.add_filter("dns_label", |value: &Value| dns_label(&text(value)?));
    environment.add_filter("label_value", |value: &Value| label_value(&text(value)?));
    environment.add_filter("config_key", |value: &Value| config_key(&text(value)?));
    environment.add_filter("variable", |value: &Value| variable(&text(value)?));
    environment.add_test("sealed", |value: &Value| {
        text(value).is_ok_and(|text| text.contains(SEALED))
    });
    environment.add_function("fail", |message: String| Err::<(), _>(refused(message)));
}

fn refused(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}

/// A text as it is; anything else as JSON, which every YAML reader reads, too.
fn text(value: &Value) -> Result<String, Error> {
    if value.is_undefined() {
        return Err(Error::from(ErrorKind::UndefinedError));
    }
    match value.as_str() {
        Some(text) => Ok(text.to_owned()),
        None => serde_json::to_string(value).map_err(|error| refused(error.to_string())),
    }
}

fn json(value: &Value) -> Result<String, Error> {
    if value.is_undefined() {
        return Err(Error::from(ErrorKind::UndefinedError));
    }
    let text = serde_json::to_string(value).map_err(|error| refused(error.to_string()))?;
    Ok(printable(&text))
}

/// As a JSON string, which is a YAML scalar in double quotes.
fn quoted(text: &str) -> Result<String, Error> {
    serde_json::to_string(text)
        .map(|json| printable(&json))
        .map_err(|error| refused(error.to_string()))
}

/// JSON with escapes for what JSON takes as it is and YAML does not, or takes for a line's end.
fn printable(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '\u{7f}'..='\u{9f}'
            | '\u{2028}'
            | '\u{2029}'
            | '\u{feff}'
            | '\u{fffe}'
            | '\u{ffff}' => push_unit(&mut out, c as u32),
            c => out.push(c),
        }
    }
    out
}

fn push_unit(out: &mut String, unit: u32) {
    // Writing to a text cannot fail.
    let _ = write!(out, "\\u{unit:04x}");
}

/// For the right side of `NAME=` in a file that both a POSIX shell and systemd's `EnvironmentFile=`
/// read: line ends are kept, nothing is expanded.
fn shell(text: &str) -> Result<String, Error> {
    if text.contains('\0') {
        return Err(refused(
            "a value with a NUL character cannot be written for a shell",
        ));
    }
    // A sealed value is filled in on site, where only what ends the quotes can do harm.
    if text.starts_with(SEALED) && text.ends_with(']') {
        return Ok(format!("'{text}'"));
    }
    let mut out = String::from("\"");
    for c in text.chars() {
        if matches!(c, '"' | '\\' | '$' | '`') {
            out.push('\\');
        }
        out.push(c);
    }
    out.push('"');
    Ok(out)
}

/// The name of a namespace or of an object: a name that is too long is cut, and keeps a part of its
/// digest, so that two long names stay two.
fn dns_label(name: &str) -> Result<String, Error> {
    let inner = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-';
    let edge = |b: Option<&u8>| b.is_some_and(|b| *b != b'-');
    let bytes = name.as_bytes();
    if !bytes.iter().all(inner) || !edge(bytes.first()) || !edge(bytes.last()) {
        return Err(refused(format!(
            "`{name}` cannot be a name in Kubernetes, which allows lower-case letters, digits and `-` \
             here, first and last a letter or digit; rename the workload, the target, the cluster type \
             or the environment"
        )));
    }
    Ok(short(name))
}

/// The value of a label.
fn label_value(value: &str) -> Result<String, Error> {
    let edge = |b: Option<&u8>| b.is_none_or(u8::is_ascii_alphanumeric);
    let inner = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    let bytes = value.as_bytes();
    if !bytes.iter().all(inner) || !edge(bytes.first()) || !edge(bytes.last()) {
        return Err(refused(format!(
            "`{value}` cannot be the value of a label in Kubernetes, which allows letters, digits, `-`, \
             `_` and `.`, first and last a letter or digit"
        )));
    }
    Ok(short(value))
}

fn short(name: &str) -> String {
    if name.len() <= MAX_DNS_LABEL_BYTES {
        return name.to_owned();
    }
    let digest = Digest::of(name.as_bytes()).to_string();
    let hex = digest.rsplit(':').next().unwrap_or_default();
    let kept: String = name
        .chars()
        .take(MAX_DNS_LABEL_BYTES - DIGITS - 1)
        .collect();
    let kept = kept.trim_end_matches(['-', '.', '_']);
    format!("{kept}-{}", hex.get(..DIGITS).unwrap_or(hex))
}

/// How a message about a key ends that the config must not have.
const RENAME: &str = "rename it in the config";

/// The key that a message of a filter refuses; `None` for other messages.
pub(super) fn refused_key(message: &str) -> Option<&str> {
    let (before, _) = message.strip_suffix(RENAME)?.split_once("` cannot be ")?;
    Some(before.rsplit('`').next().unwrap_or(before))
}

/// A key of the data of a `ConfigMap` or `Secret`.
fn config_key(key: &str) -> Result<String, Error> {
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    if key.is_empty()
        || key.len() > 253
        || !key.bytes().all(inner)
        || key == "."
        || key.starts_with("..")
    {
        return Err(refused(format!(
            "`{key}` cannot be a key of a ConfigMap or Secret, which allows letters, digits, `-`, `_` and \
             `.`, at most 253; {RENAME}"
        )));
    }
    Ok(key.to_owned())
}

/// The name of a variable.
fn variable(name: &str) -> Result<String, Error> {
    let inner = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) || !name.bytes().all(inner)
    {
        return Err(refused(format!(
            "`{name}` cannot be the name of a variable, which allows letters, digits and `_`, first no \
             digit; {RENAME}"
        )));
    }
    Ok(name.to_owned())
}

#[cfg(test)]
mod tests;
