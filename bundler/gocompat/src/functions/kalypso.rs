//! Kalypso's own four functions, and Outhaul's one.
//!
//! In: any value. Out: YAML text, a hash, a string without its quotes.
//! `literal` exists only in the default mode: it keeps `{{` out of re-evaluation, so that
//! Prometheus or Jinja text can pass through (defect 11).

use super::args::any;
use super::sprig::trim_space;
use super::{Body, Env, Function, Ty};
use crate::runtime::{Elem, Map, MapType, RuntimeResult, Value, text};
use crate::{hash, yaml};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("toYaml", &[Ty::Any], |env, args| {
        Ok(text(trimmed(&yaml::marshal(&any(args, 0), env.budget)?)))
    }),
    Function::new("stringify", &[Ty::Any], |env, args| {
        Ok(text(stringify_value(&any(args, 0), env)?))
    }),
    Function::new("hash", &[Ty::Any], |env, args| {
        Ok(text(hash::decimal(&any(args, 0), env.budget)?))
    }),
    Function::new("unquote", &[Ty::Any], unquote),
    Function {
        name: "literal",
        params: &[Ty::Text],
        rest: None,
        body: Body::Call(literal),
        own: true,
    },
];

/// What stands for `{{` until all rounds are done. No UTF-8 text contains it.
const MARK: &[u8] = b"\xff{\xff";

fn trimmed(yaml: &[u8]) -> &[u8] {
    yaml.strip_suffix(b"\n").unwrap_or(yaml)
}

/// `stringify`: a string map's lists and string maps become YAML text, then all is YAML.
pub(crate) fn stringify_value(value: &Value, env: &Env<'_>) -> RuntimeResult<Vec<u8>> {
    let prepared = match value {
        Value::Map(map) if map.kind == MapType::StrAny => {
            let mut entries = std::collections::BTreeMap::new();
            for (key, item) in map.to_vec() {
                let flat = match &item {
                    Value::List(list) if list.elem == Elem::Any => {
                        text(yaml::marshal(&item, env.budget)?)
                    }
                    Value::Map(inner) if inner.kind == MapType::StrAny => {
                        text(yaml::marshal(&item, env.budget)?)
                    }
                    _ => item,
                };
                entries.insert(key, flat);
            }
            Map::value(MapType::StrAny, entries)
        }
        other => other.clone(),
    };
    let out = yaml::marshal(&prepared, env.budget)?;
    Ok(trimmed(&out).to_vec())
}

/// Compat: all double quotes at the ends go, then all single ones, as Go's `strings.Trim` does.
/// Default: one balanced pair goes (defect 8).
fn unquote(env: &Env<'_>, args: &[Value]) -> RuntimeResult<Value> {
    let Value::Str(string) = any(args, 0) else {
        return Ok(text(""));
    };
    let bytes = trim_space(&string);
    if env.compat {
        return Ok(text(trim_byte(trim_byte(bytes, b'"'), b'\'')));
    }
    Ok(text(match bytes {
        [b'"', inner @ .., b'"'] | [b'\'', inner @ .., b'\''] => inner,
        other => other,
    }))
}

fn trim_byte(mut bytes: &[u8], byte: u8) -> &[u8] {
    while let Some(rest) = bytes.strip_prefix(&[byte]) {
        bytes = rest;
    }
    while let Some(rest) = bytes.strip_suffix(&[byte]) {
        bytes = rest;
    }
    bytes
}

fn literal(env: &Env<'_>, args: &[Value]) -> RuntimeResult<Value> {
    let bytes = super::string(args, 0);
    env.budget.bytes(bytes.len() * 2)?;
    let mut out = Vec::with_capacity(bytes.len());
    for (at, byte) in bytes.iter().enumerate() {
        if *byte == b'{' && (bytes.get(at + 1) == Some(&b'{') || out.ends_with(MARK)) {
            out.extend_from_slice(MARK);
        } else {
            out.push(*byte);
        }
    }
    Ok(text(out))
}

/// Puts the braces of `literal` back.
pub(crate) fn restore_literals(text: Vec<u8>) -> Vec<u8> {
    if !text.contains(&0xff) {
        return text;
    }
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_slice();
    while let Some(first) = rest.first() {
        if let Some(tail) = rest.strip_prefix(MARK) {
            out.push(b'{');
            rest = tail;
        } else {
            out.push(*first);
            rest = &rest[1..];
        }
    }
    out
}
