//! Defaults, emptiness, ternaries, JSON, and questions about types.
//!
//! In: any values. Out: one of them, a text, or a truth.

use crate::functions::args::{any, boolean, string, utf8};
use crate::functions::{Function, Ty};
use crate::json;
use crate::runtime::{Elem, Fault, List, Value, deep_copy, deep_equal, text};

const A: Ty = Ty::Any;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::variadic("default", &[A], A, |_, args| {
        Ok(if is_empty(&any(args, 1)) {
            any(args, 0)
        } else {
            any(args, 1)
        })
    }),
    Function::new("empty", &[A], |_, args| {
        Ok(Value::Bool(is_empty(&any(args, 0))))
    }),
    Function::variadic("coalesce", &[], A, |_, args| {
        Ok(args
            .iter()
            .find(|arg| !is_empty(arg))
            .cloned()
            .unwrap_or(Value::Nil))
    }),
    Function::new("compact", &[A], |env, args| {
        let mut items = super::lists::items(env, args, 0, "Cannot compact on type")?;
        items.retain(|item| !is_empty(item));
        Ok(List::value(Elem::Any, items))
    }),
    Function::new("deepCopy", &[A], |env, args| match any(args, 0) {
        Value::Nil | Value::Invalid => {
            Fault::go("reflect: call of reflect.Value.Type on zero Value")
        }
        other => deep_copy(&other, env.budget, 0),
    }),
    Function::new("toJson", &[A], |env, args| {
        Ok(text(
            json::marshal(&any(args, 0), false, env.budget)?.unwrap_or_default(),
        ))
    }),
    Function::new("toPrettyJson", &[A], |env, args| {
        Ok(text(
            json::marshal(&any(args, 0), true, env.budget)?.unwrap_or_default(),
        ))
    }),
    Function::new("ternary", &[A, A, Ty::Bool], |_, args| {
        Ok(any(args, usize::from(!boolean(args, 2))))
    }),
    Function::new("typeOf", &[A], |_, args| Ok(text(any(args, 0).type_name()))),
    Function::new("typeIs", &[Ty::Text, A], |_, args| {
        Ok(Value::Bool(
            string(args, 0) == any(args, 1).type_name().as_bytes(),
        ))
    }),
    Function::new("typeIsLike", &[Ty::Text, A], |_, args| {
        let value = any(args, 1);
        let name = value.type_name().as_bytes();
        let wanted = string(args, 0);
        Ok(Value::Bool(
            name == wanted || name.strip_prefix(b"*") == Some(wanted),
        ))
    }),
    Function::new("kindOf", &[A], |_, args| Ok(text(any(args, 0).kind_name()))),
    Function::new("kindIs", &[Ty::Text, A], |_, args| {
        Ok(Value::Bool(
            string(args, 0) == any(args, 1).kind_name().as_bytes(),
        ))
    }),
    Function::new("deepEqual", &[A, A], |env, args| {
        let (a, b) = (any(args, 0), any(args, 1));
        Ok(Value::Bool(deep_equal(&a, &b, env.budget, 0)?))
    }),
    Function::new("fail", &[Ty::Text], |_, args| Fault::go(utf8(args, 0))),
];

/// sprig's `empty`: Go's falsehood.
pub(super) fn is_empty(value: &Value) -> bool {
    !value.truth()
}
