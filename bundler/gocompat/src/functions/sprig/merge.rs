//! `merge` and `mergeOverwrite`: mergo v0.3.13 on maps.
//!
//! In: a destination and sources. Out: the destination, changed in place, sharing nested
//! maps with its sources as in Go. mergo's habits stay: an empty value counts as missing,
//! and a map never replaces a non-empty scalar, not even with overwriting.

use crate::functions::Env;
use crate::functions::args::dict;
use crate::runtime::{Fault, Key, List, Map, MapType, RuntimeResult, Value, reaches, text};
use std::collections::BTreeMap;
use std::rc::Rc;

/// What merging one level can end with besides success.
enum Stop {
    /// mergo returns an error, which sprig turns into an empty string.
    Silent,
    Fault(Fault),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

pub(super) fn merge(env: &Env<'_>, args: &[Value], overwrite: bool) -> RuntimeResult<Value> {
    let mut target = Rc::clone(dict(args, 0)?);
    for at in 1..args.len() {
        let source = dict(args, at)?;
        if target.nil && !source.nil {
            let fresh = Map::value(MapType::StrAny, BTreeMap::new());
            if let Value::Map(map) = fresh {
                target = map;
            }
        }
        match level(env, &target, source, overwrite, 0) {
            Ok(()) => {}
            Err(Stop::Silent) => return Ok(text("")),
            Err(Stop::Fault(fault)) => return Err(fault),
        }
    }
    Ok(Value::Map(target))
}

fn is_empty(value: Option<&Value>) -> bool {
    match value {
        None => true,
        Some(Value::Version(_) | Value::BareVersion(_) | Value::Time(_) | Value::Data(_)) => false,
        Some(other) => !other.truth(),
    }
}

fn level(
    env: &Env<'_>,
    target: &Rc<Map>,
    source: &Rc<Map>,
    overwrite: bool,
    depth: usize,
) -> Result<(), Stop> {
    env.budget.visit(depth)?;
    if Rc::ptr_eq(target, source) || target.nil {
        return Ok(());
    }
    for (key, value) in source.to_vec() {
        env.budget.steps(1)?;
        let key = fitting_key(target, source, key)?;
        let old = target.get(&key);
        if value.is_nil() {
            if overwrite {
                put(env, target, key, value)?;
            }
            continue;
        }
        let nested = match &value {
            Value::Map(inner) => {
                below(env, old.as_ref(), inner, overwrite, depth)?;
                true
            }
            Value::Version(_) | Value::BareVersion(_) | Value::Time(_) | Value::Data(_) => {
                if let Some(Value::Map(_)) = old
                    && overwrite
                {
                    return Err(unaddressable());
                }
                false
            }
            Value::List(list) => {
                let list = list_result(target, old.as_ref(), &value, list, overwrite);
                put(env, target, key.clone(), list)?;
                true
            }
            _ => false,
        };
        if !is_empty(old.as_ref()) && nested {
            continue;
        }
        if overwrite || is_empty(old.as_ref()) {
            put(env, target, key, value)?;
        }
    }
    Ok(())
}

fn unaddressable() -> Stop {
    let message = "reflect: reflect.Value.Set using unaddressable value";
    Stop::Fault(Fault::Go(message.to_owned()))
}

/// What mergo writes for a list before it looks at the old value again.
fn list_result(
    target: &Map,
    old: Option<&Value>,
    new: &Value,
    list: &List,
    overwrite: bool,
) -> Value {
    if overwrite || target.len() == 0 {
        return new.clone();
    }
    match old {
        None | Some(Value::Nil | Value::Invalid) => List::value(list.elem, Vec::new()),
        Some(old) => old.clone(),
    }
}

/// Merges a map into what stands at its place.
fn below(
    env: &Env<'_>,
    old: Option<&Value>,
    inner: &Rc<Map>,
    overwrite: bool,
    depth: usize,
) -> Result<(), Stop> {
    match old {
        Some(Value::Map(old)) => level(env, old, inner, overwrite, depth + 1),
        // mergo cannot merge a map into a pointer; it says so only when it may not overwrite.
        Some(Value::Version(_)) if !overwrite => Err(Stop::Silent),
        _ => Ok(()),
    }
}

/// Go looks a key up by its static type; only a string fits a string map.
fn fitting_key(target: &Map, source: &Map, key: Key) -> Result<Key, Stop> {
    if target.kind == MapType::AnyAny || source.kind != MapType::AnyAny {
        return Ok(key);
    }
    let message =
        "reflect.Value.MapIndex: value of type interface {} is not assignable to type string";
    Err(Stop::Fault(Fault::Go(message.to_owned())))
}

fn put(env: &Env<'_>, target: &Rc<Map>, key: Key, value: Value) -> Result<(), Stop> {
    if target.kind == MapType::StrStr && !matches!(value, Value::Str(_)) {
        let message = "reflect.Value.SetMapIndex: value of type interface {} is not assignable to type string";
        return Err(Stop::Fault(Fault::Go(message.to_owned())));
    }
    if matches!(value, Value::List(_) | Value::Map(_)) && reaches(&value, target, env.budget)? {
        let message = "the map would contain itself";
        return Err(Stop::Fault(Fault::Go(message.to_owned())));
    }
    env.budget.values(2)?;
    target.entries.borrow_mut().insert(key, value);
    Ok(())
}
