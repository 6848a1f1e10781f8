//! `eq` and `lt`, from which the other comparisons follow.
//!
//! In: two or more values. Out: a truth, or Go's refusal of types that do not compare.
//! Integers compare with each other whatever their type; nothing else is converted.

use super::Env;
use crate::format::sprint;
use crate::runtime::{Fault, RuntimeResult, Value};
use std::rc::Rc;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BasicKind {
    Other,
    Bool,
    Complex,
    Int,
    Float,
    Str,
    Uint,
}

fn kind(value: &Value) -> BasicKind {
    match value {
        Value::Bool(_) => BasicKind::Bool,
        Value::Int(..) => BasicKind::Int,
        Value::Uint(..) => BasicKind::Uint,
        Value::Float(_) => BasicKind::Float,
        Value::Complex(..) => BasicKind::Complex,
        Value::Str(_) => BasicKind::Str,
        _ => BasicKind::Other,
    }
}

fn incompatible<T>(a: &Value, b: &Value) -> RuntimeResult<T> {
    Fault::go(format!(
        "incompatible types for comparison: {} and {}",
        a.type_name(),
        b.type_name()
    ))
}

/// Nil to Go's comparison: nothing, a nil interface, a nil map or slice.
fn is_nil(value: &Value) -> bool {
    match value {
        Value::Invalid | Value::Nil => true,
        Value::List(list) => list.nil,
        Value::Map(map) => map.nil,
        _ => false,
    }
}

/// Whether the first equals any of the others.
#[expect(clippy::float_cmp, reason = "Go compares floats exactly")]
pub(super) fn equal(env: &Env<'_>, args: &[Value]) -> RuntimeResult<bool> {
    let Some((first, others)) = args.split_first().filter(|(_, others)| !others.is_empty()) else {
        return Fault::go("missing argument for comparison");
    };
    for other in others {
        let truth = match (first, other) {
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::Int(a, _), Value::Int(b, _)) => a == b,
            (Value::Uint(a, _), Value::Uint(b, _)) => a == b,
            (Value::Float(a), Value::Float(b)) => a == b,
            (Value::Complex(a, c), Value::Complex(b, d)) => a == b && c == d,
            (Value::Str(a), Value::Str(b)) => a == b,
            (Value::Int(a, _), Value::Uint(b, _)) | (Value::Uint(b, _), Value::Int(a, _)) => {
                u64::try_from(*a).is_ok_and(|a| a == *b)
            }
            _ if kind(first) != kind(other) => {
                if !first.is_nil() && !other.is_nil() {
                    return incompatible(first, other);
                }
                false
            }
            _ => same_kind(env, first, other)?,
        };
        if truth {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Two values that are not scalars.
fn same_kind(env: &Env<'_>, a: &Value, b: &Value) -> RuntimeResult<bool> {
    if a.kind_name() != b.kind_name() && !a.is_nil() && !b.is_nil() {
        return Fault::go(format!(
            "non-comparable types {}, {}",
            a.type_name(),
            b.type_name()
        ));
    }
    if is_nil(a) || is_nil(b) {
        return Ok(is_nil(a) == is_nil(b));
    }
    Ok(match (a, b) {
        (Value::Time(a), Value::Time(b)) => a == b,
        (Value::Version(a), Value::Version(b)) => Rc::ptr_eq(a, b),
        (Value::BareVersion(a), Value::BareVersion(b)) => a == b,
        (_, Value::List(_) | Value::Map(_) | Value::Data(_)) => {
            let shown = String::from_utf8_lossy(&sprint(b, env.budget)?).into_owned();
            return Fault::go(format!("non-comparable type {shown}: {}", b.type_name()));
        }
        _ => false,
    })
}

/// Whether the first is below the second.
pub(super) fn less(args: &[Value]) -> RuntimeResult<bool> {
    let (Some(a), Some(b)) = (args.first(), args.get(1)) else {
        return Fault::go("missing argument for comparison");
    };
    if kind(a) == BasicKind::Other || kind(b) == BasicKind::Other {
        return Fault::go("invalid type for comparison");
    }
    Ok(match (a, b) {
        (Value::Float(a), Value::Float(b)) => a < b,
        (Value::Int(a, _), Value::Int(b, _)) => a < b,
        (Value::Uint(a, _), Value::Uint(b, _)) => a < b,
        (Value::Str(a), Value::Str(b)) => a < b,
        (Value::Int(a, _), Value::Uint(b, _)) => u64::try_from(*a).map_or(true, |a| a < *b),
        (Value::Uint(a, _), Value::Int(b, _)) => u64::try_from(*b).is_ok_and(|b| *a < b),
        _ if kind(a) != kind(b) => return incompatible(a, b),
        _ => return Fault::go("invalid type for comparison"),
    })
}
