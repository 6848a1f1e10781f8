//! The functions that Go's `text/template` itself brings.
//!
//! In: arguments as `reflect.Value`s. Out: Go's results and messages.
//! `slice` is missing on purpose: sprig's replaces it.

use super::args::string;
use super::compare::{equal, less};
use super::{Body, Env, Function, Ty};
use crate::format::{is_print, sprint_all, sprint_line, sprintf};
use crate::runtime::{Fault, Key, MapType, RuntimeResult, UintKind, Value, int, text};

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "and",
        params: &[Ty::Raw],
        rest: Some(Ty::Raw),
        body: Body::And,
        own: false,
    },
    Function {
        name: "or",
        params: &[Ty::Raw],
        rest: Some(Ty::Raw),
        body: Body::Or,
        own: false,
    },
    Function::new("not", &[Ty::Raw], |_, args| {
        Ok(Value::Bool(!args.first().is_some_and(Value::truth)))
    }),
    Function::variadic("call", &[Ty::Raw], Ty::Raw, |_, args| match args.first() {
        None | Some(Value::Invalid | Value::Nil) => Fault::go("call of nil"),
        Some(other) => Fault::go(format!("non-function of type {}", other.type_name())),
    }),
    Function::variadic("html", &[], Ty::Any, |env, args| escaped(env, args, html)),
    Function::variadic("js", &[], Ty::Any, |env, args| escaped(env, args, js)),
    Function::variadic("urlquery", &[], Ty::Any, |env, args| {
        escaped(env, args, url_query)
    }),
    Function::variadic("index", &[Ty::Raw], Ty::Raw, index),
    Function::new("len", &[Ty::Raw], length),
    Function::variadic("print", &[], Ty::Any, |env, args| {
        Ok(text(sprint_all(args, env.budget)?))
    }),
    Function::variadic("println", &[], Ty::Any, |env, args| {
        Ok(text(sprint_line(args, env.budget)?))
    }),
    Function::variadic("printf", &[Ty::Text], Ty::Any, |env, args| {
        env.budget.bytes(string(args, 0).len())?;
        Ok(text(sprintf(
            string(args, 0),
            args.get(1..).unwrap_or(&[]),
            env.budget,
        )?))
    }),
    Function::variadic("eq", &[Ty::Raw], Ty::Raw, |env, args| {
        Ok(Value::Bool(equal(env, args)?))
    }),
    Function::new("ne", &[Ty::Raw, Ty::Raw], |env, args| {
        Ok(Value::Bool(!equal(env, args)?))
    }),
    Function::new("lt", &[Ty::Raw, Ty::Raw], |_, args| {
        Ok(Value::Bool(less(args)?))
    }),
    Function::new("le", &[Ty::Raw, Ty::Raw], |env, args| {
        Ok(Value::Bool(less(args)? || equal(env, args)?))
    }),
    Function::new("gt", &[Ty::Raw, Ty::Raw], |env, args| {
        Ok(Value::Bool(!(less(args)? || equal(env, args)?)))
    }),
    Function::new("ge", &[Ty::Raw, Ty::Raw], |_, args| {
        Ok(Value::Bool(!less(args)?))
    }),
];

/// Joins the arguments as `print` does, with `<no value>` for what is missing, and escapes.
fn escaped(env: &Env<'_>, args: &[Value], escape: fn(&[u8]) -> Vec<u8>) -> RuntimeResult<Value> {
    let shown: Vec<Value> = args
        .iter()
        .map(|arg| {
            if arg.is_nil() {
                text("<no value>")
            } else {
                arg.clone()
            }
        })
        .collect();
    let joined = sprint_all(&shown, env.budget)?;
    env.budget.bytes(joined.len())?;
    Ok(text(escape(&joined)))
}

fn html(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            0 => out.extend_from_slice("\u{fffd}".as_bytes()),
            b'"' => out.extend_from_slice(b"&#34;"),
            b'\'' => out.extend_from_slice(b"&#39;"),
            b'&' => out.extend_from_slice(b"&amp;"),
            b'<' => out.extend_from_slice(b"&lt;"),
            b'>' => out.extend_from_slice(b"&gt;"),
            other => out.push(*other),
        }
    }
    out
}

fn js(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' | '\'' | '"' => out.extend_from_slice(format!("\\{c}").as_bytes()),
                '<' | '>' | '&' | '=' | '\0'..=' ' if c != ' ' => {
                    out.extend_from_slice(format!("\\u{:04X}", u32::from(c)).as_bytes());
                }
                _ if c.is_ascii() || is_print(c) => {
                    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                }
                _ => out.extend_from_slice(format!("\\u{:04X}", u32::from(c)).as_bytes()),
            }
        }
        // U+FFFD is printable, so Go copies the bad bytes as they are.
        out.extend_from_slice(chunk.invalid());
    }
    out
}

fn url_query(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b' ' => out.push(b'+'),
            b'-' | b'_' | b'.' | b'~' => out.push(*byte),
            _ if byte.is_ascii_alphanumeric() => out.push(*byte),
            _ => out.extend_from_slice(format!("%{byte:02X}").as_bytes()),
        }
    }
    out
}

fn length(_: &Env<'_>, args: &[Value]) -> RuntimeResult<Value> {
    let length = match args.first() {
        Some(Value::Str(text)) => text.len(),
        Some(Value::List(list)) => list.len(),
        Some(Value::Map(map)) => map.len(),
        None | Some(Value::Invalid) => {
            return Fault::go("reflect: call of reflect.Value.Type on zero Value");
        }
        Some(Value::Nil) => return Fault::go("len of nil pointer"),
        Some(Value::Version(_)) => return Fault::go("len of type semver.Version"),
        Some(other) => return Fault::go(format!("len of type {}", other.type_name())),
    };
    Ok(int(i64::try_from(length).unwrap_or(i64::MAX)))
}

fn index(_: &Env<'_>, args: &[Value]) -> RuntimeResult<Value> {
    let Some((item, indexes)) = args.split_first() else {
        return Fault::go("index of nothing");
    };
    if item.is_nil() {
        return Fault::go("index of untyped nil");
    }
    let mut item = item.clone();
    for index in indexes {
        item = match &item {
            Value::Nil | Value::Invalid => return Fault::go("index of nil pointer"),
            Value::Str(text) => {
                let at = position(index, text.len())?;
                match text.get(at) {
                    Some(byte) => Value::Uint(u64::from(*byte), UintKind::Uint8),
                    None => return Fault::go("reflect: string index out of range"),
                }
            }
            Value::List(list) => {
                let at = position(index, list.len())?;
                match list.items.borrow().get(at) {
                    Some(found) => found.clone(),
                    None => return Fault::go("reflect: slice index out of range"),
                }
            }
            Value::Map(map) => {
                let key = map_key(index, map.kind)?;
                let missing = match map.kind {
                    MapType::StrStr => text(""),
                    MapType::StrAny | MapType::AnyAny => Value::Nil,
                };
                map.get(&key).unwrap_or(missing)
            }
            other => {
                let name = other.type_name().trim_start_matches('*');
                return Fault::go(format!("can't index item of type {name}"));
            }
        };
    }
    Ok(item)
}

fn map_key(index: &Value, kind: MapType) -> RuntimeResult<Key> {
    if kind == MapType::AnyAny {
        return index.to_key().map_or_else(
            || {
                Fault::go(format!(
                    "runtime error: hash of unhashable type {}",
                    index.type_name()
                ))
            },
            Ok,
        );
    }
    match index {
        Value::Str(text) => Ok(Key::Str(text.clone())),
        Value::Invalid | Value::Nil => Fault::go("value is nil; should be of type string"),
        other => Fault::go(format!(
            "value has type {}; should be string",
            other.type_name()
        )),
    }
}

fn position(index: &Value, length: usize) -> RuntimeResult<usize> {
    let wanted = match index {
        Value::Int(number, _) => *number,
        Value::Uint(number, _) => number.cast_signed(),
        Value::Invalid | Value::Nil => return Fault::go("cannot index slice/array with nil"),
        other => {
            let name = other.type_name();
            return Fault::go(format!("cannot index slice/array with type {name}"));
        }
    };
    match usize::try_from(wanted) {
        Ok(at) if at <= length => Ok(at),
        _ => Fault::go(format!("index out of range: {wanted}")),
    }
}
