//! Dictionaries: `map[string]interface{}` and nothing else, as in sprig.
//!
//! In: maps, which are references. Out: the same map changed, or a new one.
//! `set` and `merge` refuse to make a map contain itself: Go lets them and dies later.

use super::merge::merge;
use super::strings::string_list;
use crate::format::string_of;
use crate::functions::args::{any, dict, key};
use crate::functions::{Env, Function, Ty};
use crate::runtime::{Elem, Fault, Key, List, Map, MapType, RuntimeResult, Value, reaches, text};
use std::collections::BTreeMap;

const D: Ty = Ty::Dict;
const T: Ty = Ty::Text;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::variadic("dict", &[], Ty::Any, |env, args| {
        env.budget.values(args.len().saturating_mul(2))?;
        let mut entries = BTreeMap::new();
        for pair in args.chunks(2) {
            let name = string_of(&pair[0], env.budget)?;
            let value = pair.get(1).cloned().unwrap_or_else(|| text(""));
            entries.insert(Key::Str(name), value);
        }
        Ok(Map::value(MapType::StrAny, entries))
    }),
    Function::new("set", &[D, T, Ty::Any], set),
    Function::new("unset", &[D, T], |_, args| {
        dict(args, 0)?.entries.borrow_mut().remove(&key(args, 1));
        Ok(any(args, 0))
    }),
    Function::new("hasKey", &[D, T], |_, args| {
        Ok(Value::Bool(dict(args, 0)?.get(&key(args, 1)).is_some()))
    }),
    Function::variadic("pluck", &[T], D, |_, args| {
        let mut items = Vec::new();
        for at in 1..args.len() {
            items.extend(dict(args, at)?.get(&key(args, 0)));
        }
        Ok(List::value(Elem::Any, items))
    }),
    Function::variadic("keys", &[], D, |env, args| {
        let mut keys = Vec::new();
        for at in 0..args.len() {
            let map = dict(args, at)?;
            env.budget.values(map.len())?;
            keys.extend(map.entries.borrow().keys().filter_map(|key| match key {
                Key::Str(text) => Some(text.clone()),
                _ => None,
            }));
        }
        Ok(string_list(keys))
    }),
    Function::new("values", &[D], |env, args| {
        let map = dict(args, 0)?;
        env.budget.values(map.len())?;
        let items = map.entries.borrow().values().cloned().collect();
        Ok(List::value(Elem::Any, items))
    }),
    Function::variadic("pick", &[D], T, |_, args| {
        let map = dict(args, 0)?;
        let mut entries = BTreeMap::new();
        for at in 1..args.len() {
            if let Some(value) = map.get(&key(args, at)) {
                entries.insert(key(args, at), value);
            }
        }
        Ok(Map::value(MapType::StrAny, entries))
    }),
    Function::variadic("omit", &[D], T, |env, args| {
        let map = dict(args, 0)?;
        env.budget.values(map.len().saturating_mul(2))?;
        let mut entries = map.entries.borrow().clone();
        for at in 1..args.len() {
            entries.remove(&key(args, at));
        }
        Ok(Map::value(MapType::StrAny, entries))
    }),
    Function::variadic("merge", &[D], D, |env, args| merge(env, args, false)),
    Function::variadic("mergeOverwrite", &[D], D, |env, args| {
        merge(env, args, true)
    }),
];

fn set(env: &Env<'_>, args: &[Value]) -> RuntimeResult<Value> {
    let map = dict(args, 0)?;
    if map.nil {
        return Fault::go("assignment to entry in nil map");
    }
    let value = any(args, 2);
    if matches!(value, Value::List(_) | Value::Map(_)) && reaches(&value, map, env.budget)? {
        return Fault::go("the map would contain itself");
    }
    env.budget.values(2)?;
    map.entries.borrow_mut().insert(key(args, 1), value);
    Ok(any(args, 0))
}
