//! Lists: any slice goes in, `[]interface{}` comes out.
//!
//! In: lists and items. Out: new lists; the argument is never changed.
//! What is not a list is a panic in sprig and an error here, in sprig's words.

use crate::functions::args::{any, list_of};
use crate::functions::{Env, Function, Ty};
use crate::runtime::{Elem, Fault, List, RuntimeResult, Value, deep_equal};

const A: Ty = Ty::Any;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::variadic("list", &[], A, |env, args| built(env, args.to_vec())),
    Function::variadic("tuple", &[], A, |env, args| built(env, args.to_vec())),
    Function::new("append", &[A, A], push),
    Function::new("push", &[A, A], push),
    Function::new("prepend", &[A, A], |env, args| {
        let items = items(env, args, 0, "Cannot prepend on type")?;
        built(env, std::iter::once(any(args, 1)).chain(items).collect())
    }),
    Function::new("first", &[A], |env, args| {
        let items = items(env, args, 0, "Cannot find first on type")?;
        Ok(items.into_iter().next().unwrap_or(Value::Nil))
    }),
    Function::new("last", &[A], |env, args| {
        let items = items(env, args, 0, "Cannot find last on type")?;
        Ok(items.into_iter().next_back().unwrap_or(Value::Nil))
    }),
    Function::new("rest", &[A], |env, args| {
        let items = items(env, args, 0, "Cannot find rest on type")?;
        Ok(part(items.get(1..)))
    }),
    Function::new("initial", &[A], |env, args| {
        let items = items(env, args, 0, "Cannot find initial on type")?;
        Ok(part(items.split_last().map(|(_, before)| before)))
    }),
    Function::new("reverse", &[A], |env, args| {
        let mut items = items(env, args, 0, "Cannot find reverse on type")?;
        items.reverse();
        Ok(List::value(Elem::Any, items))
    }),
    Function::new("uniq", &[A], |env, args| {
        let mut kept: Vec<Value> = Vec::new();
        for item in items(env, args, 0, "Cannot find uniq on type")? {
            if !contains(env, &kept, &item)? {
                kept.push(item);
            }
        }
        Ok(List::value(Elem::Any, kept))
    }),
    Function::variadic("without", &[A], A, |env, args| {
        let mut kept = Vec::new();
        for item in items(env, args, 0, "Cannot find without on type")? {
            if !contains(env, args.get(1..).unwrap_or(&[]), &item)? {
                kept.push(item);
            }
        }
        Ok(List::value(Elem::Any, kept))
    }),
    Function::new("has", &[A, A], |env, args| {
        if any(args, 1).is_nil() {
            return Ok(Value::Bool(false));
        }
        let items = items(env, args, 1, "Cannot find has on type")?;
        Ok(Value::Bool(contains(env, &items, &any(args, 0))?))
    }),
    Function::variadic("slice", &[A], A, slice),
    Function::variadic("concat", &[], A, |env, args| {
        let mut all = Vec::new();
        for at in 0..args.len() {
            let complaint = "Cannot concat type";
            match args.get(at) {
                Some(Value::List(_) | Value::Nil | Value::Invalid) | None => {
                    all.extend(items(env, args, at, complaint)?);
                }
                Some(other) => {
                    let kind = other.kind_name();
                    return Fault::go(format!("{complaint} {kind} as list"));
                }
            }
        }
        if all.is_empty() {
            return Ok(List::nil_value(Elem::Any));
        }
        Ok(List::value(Elem::Any, all))
    }),
];

/// The items of a list argument, charged.
pub(super) fn items(
    env: &Env<'_>,
    args: &[Value],
    at: usize,
    complaint: &str,
) -> RuntimeResult<Vec<Value>> {
    if let Some(Value::List(list)) = args.get(at) {
        env.budget.values(list.len())?;
    }
    list_of(args, at, complaint)
}

fn built(env: &Env<'_>, items: Vec<Value>) -> RuntimeResult<Value> {
    env.budget.values(items.len())?;
    Ok(List::value(Elem::Any, items))
}

/// A part of a list; nothing of an empty list is a nil slice.
fn part(items: Option<&[Value]>) -> Value {
    match items {
        Some(items) => List::value(Elem::Any, items.to_vec()),
        None => List::nil_value(Elem::Any),
    }
}

fn push(env: &Env<'_>, args: &[Value]) -> RuntimeResult<Value> {
    let mut items = items(env, args, 0, "Cannot push on type")?;
    items.push(any(args, 1));
    built(env, items)
}

fn contains(env: &Env<'_>, items: &[Value], wanted: &Value) -> RuntimeResult<bool> {
    for item in items {
        if deep_equal(wanted, item, env.budget, 0)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn slice(env: &Env<'_>, args: &[Value]) -> RuntimeResult<Value> {
    let list = match any(args, 0) {
        Value::List(list) => list,
        other => {
            let complaint = "list should be type of slice or array but";
            return list_of(&[other], 0, complaint).map(|_| Value::Nil);
        }
    };
    let items = items(env, args, 0, "")?;
    if items.is_empty() {
        return Ok(Value::Nil);
    }
    let index = |at: usize, missing: usize| match args.get(at) {
        None => Some(missing),
        Some(value) => usize::try_from(crate::functions::args::to_int64(value)).ok(),
    };
    let range = index(1, 0).zip(index(2, items.len()));
    match range.and_then(|(start, end)| items.get(start..end)) {
        Some(part) => Ok(List::value(list.elem, part.to_vec())),
        None => Fault::go("reflect.Value.Slice: slice index out of bounds"),
    }
}
