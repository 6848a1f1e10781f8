//! Reads arguments whose types the engine has already checked.
//!
//! In: the argument list of a call. Out: Rust values. A type that cannot occur yields an
//! empty value rather than a panic.

use super::Env;
use crate::gotime::Time;
use crate::runtime::{Elem, Fault, Key, Map, RuntimeResult, Text, UintKind, Value};
use std::rc::Rc;
use std::sync::Arc;

/// A `string` argument.
pub(crate) fn string(args: &[Value], at: usize) -> &[u8] {
    match args.get(at) {
        Some(Value::Str(text)) => text,
        _ => &[],
    }
}

/// A `string` argument as UTF-8; bytes that are not become U+FFFD.
pub(crate) fn utf8(args: &[Value], at: usize) -> String {
    String::from_utf8_lossy(string(args, at)).into_owned()
}

/// An `int` argument.
pub(crate) fn number(args: &[Value], at: usize) -> i64 {
    match args.get(at) {
        Some(Value::Int(number, _)) => *number,
        _ => 0,
    }
}

/// A `float64` argument.
pub(crate) fn float(args: &[Value], at: usize) -> f64 {
    match args.get(at) {
        Some(Value::Float(number)) => *number,
        _ => 0.0,
    }
}

/// A `bool` argument.
pub(crate) fn boolean(args: &[Value], at: usize) -> bool {
    matches!(args.get(at), Some(Value::Bool(true)))
}

/// A `time.Time` argument.
pub(crate) fn time(args: &[Value], at: usize) -> Time {
    match args.get(at) {
        Some(Value::Time(time)) => (**time).clone(),
        _ => Time::zero(),
    }
}

/// A `map[string]interface{}` argument.
pub(crate) fn dict(args: &[Value], at: usize) -> RuntimeResult<&Rc<Map>> {
    match args.get(at) {
        Some(Value::Map(map)) => Ok(map),
        _ => Fault::go("reflect: call of a map function on a value that is not a map"),
    }
}

/// Any argument.
pub(crate) fn any(args: &[Value], at: usize) -> Value {
    args.get(at).cloned().unwrap_or(Value::Nil)
}

/// A string key.
pub(crate) fn key(args: &[Value], at: usize) -> Key {
    match args.get(at) {
        Some(Value::Str(text)) => Key::Str(text.clone()),
        _ => Key::Str(Arc::from(&b""[..])),
    }
}

/// The items of a slice argument; anything else is the panic of the sprig function.
pub(crate) fn list_of(args: &[Value], at: usize, complaint: &str) -> RuntimeResult<Vec<Value>> {
    match args.get(at) {
        Some(Value::List(list)) => Ok(list.to_vec()),
        None | Some(Value::Nil | Value::Invalid) => {
            Fault::go("runtime error: invalid memory address or nil pointer dereference")
        }
        Some(other) => Fault::go(format!("{complaint} {}", other.kind_name())),
    }
}

/// sprig's `strslice`: strings of a list's items, without its nils; one string of anything else.
pub(crate) fn strings_of(env: &Env<'_>, value: &Value) -> RuntimeResult<Vec<Text>> {
    let list = match value {
        Value::Nil | Value::Invalid => return Ok(Vec::new()),
        Value::List(list) => list,
        other => return Ok(vec![crate::format::string_of(other, env.budget)?]),
    };
    let mut out = Vec::with_capacity(list.len());
    for item in list.to_vec() {
        if list.elem != Elem::Any || !item.is_nil() {
            out.push(crate::format::string_of(&item, env.budget)?);
        }
    }
    Ok(out)
}

/// sprig's `toInt64`.
#[expect(
    clippy::cast_possible_truncation,
    reason = "Go converts floats to int64 as amd64 does"
)]
pub(crate) fn to_int64(value: &Value) -> i64 {
    match value {
        Value::Str(text) => std::str::from_utf8(text)
            .ok()
            .and_then(|text| crate::gonum::parse_int(text, 10).ok())
            .unwrap_or(0),
        Value::Int(number, _) => *number,
        Value::Uint(number, UintKind::Uint64 | UintKind::Uint8) => {
            i64::try_from(*number).unwrap_or(i64::MAX)
        }
        // On amd64 a float outside of the range, and NaN, becomes the smallest integer.
        Value::Float(number) if number.is_nan() || number.abs() >= 9.223_372_036_854_776e18 => {
            i64::MIN
        }
        Value::Float(number) => *number as i64,
        Value::Bool(flag) => i64::from(*flag),
        _ => 0,
    }
}

/// sprig's `toFloat64`.
#[expect(clippy::cast_precision_loss, reason = "Go rounds, too")]
pub(crate) fn to_float64(value: &Value) -> f64 {
    match value {
        Value::Str(text) => std::str::from_utf8(text)
            .ok()
            .and_then(|text| crate::gonum::parse_float(text).ok())
            .unwrap_or(0.0),
        Value::Int(number, _) => *number as f64,
        Value::Uint(number, _) => *number as f64,
        Value::Float(number) => *number,
        Value::Bool(flag) => f64::from(u8::from(*flag)),
        _ => 0.0,
    }
}
