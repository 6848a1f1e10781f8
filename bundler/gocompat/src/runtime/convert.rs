//! From decoded data to the engine's values.
//!
//! In: [`TemplateView`] and [`GoValue`]s, which are trees of bounded depth.
//! Out: fresh values, shared with nothing, so that a template may change them.

use super::{Data, Elem, IntKind, Key, List, Map, Text, UintKind, Value, int, text};
use crate::data::TemplateView;
use crate::gotime::Time;
use crate::value::{FloatKey, GoMap, GoValue};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use super::MapType;

/// The engine's value of a decoded one.
pub(crate) fn from_go(value: &GoValue) -> Value {
    match value {
        GoValue::Null => Value::Nil,
        GoValue::Bool(flag) => Value::Bool(*flag),
        GoValue::Int(number) => int(*number),
        GoValue::Uint(number) => Value::Uint(*number, UintKind::Uint64),
        GoValue::Float(number) => Value::Float(*number),
        GoValue::Str(string) => Value::Str(Arc::clone(string).into()),
        GoValue::Bytes(bytes) => text(bytes),
        GoValue::Time(string) => Time::from_rfc3339(string)
            .map_or_else(|| text(string), |time| Value::Time(Rc::new(time))),
        GoValue::List(items) => List::value(Elem::Any, items.iter().map(from_go).collect()),
        GoValue::Map(map) => from_map(map),
    }
}

fn from_map(map: &GoMap) -> Value {
    let entries = map
        .entries
        .iter()
        .map(|(key, value)| (key_of(key), from_go(value)))
        .collect();
    Map::value(map.kind.into(), entries)
}

fn key_of(key: &GoValue) -> Key {
    match key {
        GoValue::Str(string) => Key::Str(Arc::clone(string).into()),
        GoValue::Bytes(bytes) => Key::Str(shared(bytes)),
        GoValue::Int(number) => Key::Int(*number, IntKind::Int),
        GoValue::Uint(number) => Key::Uint(*number, UintKind::Uint64),
        GoValue::Float(number) => Key::Float(FloatKey(*number)),
        GoValue::Bool(flag) => Key::Bool(*flag),
        GoValue::Time(string) => {
            Time::from_rfc3339(string).map_or_else(|| Key::str(string), Key::Time)
        }
        GoValue::Null | GoValue::List(_) | GoValue::Map(_) => Key::Nil,
    }
}

fn shared(bytes: &[u8]) -> Text {
    Arc::from(bytes)
}

fn string_map(map: Option<&BTreeMap<String, String>>) -> Value {
    match map {
        None => Map::nil_value(MapType::StrStr),
        Some(map) => {
            let entries = map
                .iter()
                .map(|(key, value)| (Key::str(key), text(value)))
                .collect();
            Map::value(MapType::StrStr, entries)
        }
    }
}

/// The struct behind `.`; a field at a position that is not `wanted` is left out, because nothing
/// reads it.
pub(crate) fn root(data: &TemplateView<'_>, wanted: impl Fn(usize) -> bool) -> Value {
    let named = |at: usize, name: &str| {
        if wanted(at) {
            text(name)
        } else {
            Value::Invalid
        }
    };
    let map = |at: usize, map| {
        if wanted(at) {
            string_map(map)
        } else {
            Value::Invalid
        }
    };
    let config = match data.config_data {
        _ if !wanted(8) => Value::Invalid,
        GoValue::Map(map) => from_map(map),
        _ => Map::nil_value(MapType::StrAny),
    };
    let fields = [
        named(0, data.deployment_target_name),
        named(1, data.namespace),
        named(2, data.environment),
        named(3, data.workspace),
        named(4, data.workload),
        map(5, data.labels),
        map(6, data.manifests),
        named(7, data.cluster_type),
        config,
    ];
    Value::Data(Rc::new(Data { fields }))
}
