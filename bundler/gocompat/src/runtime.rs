//! The engine's own values: mutable, shared by reference as in Go, alive for one rendering.
//!
//! In: [`crate::GoValue`]s and the results of functions. Out: what the printers, writers and the
//! hash walk over. Maps and lists are references (`set` through one name is seen through
//! every other), and every value knows the Go type that `%T` prints.
//! Values never outlive their rendering and never reach another thread.

use crate::gotime::Time;
use crate::semver::Version;
use crate::value::{FloatKey, MapKind};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

mod budget;
mod convert;
mod graph;

pub(crate) use budget::{Budget, Fault, RuntimeResult};
pub(crate) use convert::{from_go, root};
pub(crate) use graph::{deep_copy, deep_equal, reaches};

/// A Go string: bytes, usually UTF-8.
pub(crate) type Text = Arc<[u8]>;

/// Which Go integer type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum IntKind {
    Int,
    Int64,
    Month,
    Weekday,
}

/// Which Go unsigned type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum UintKind {
    Uint64,
    Uint8,
}

/// One Go value during a rendering.
#[derive(Clone, Default)]
pub(crate) enum Value {
    /// Go's zero `reflect.Value`: nothing at all. Prints as `<no value>`.
    #[default]
    Invalid,
    /// A nil `interface{}`.
    Nil,
    Bool(bool),
    Int(i64, IntKind),
    Uint(u64, UintKind),
    Float(f64),
    Complex(f64, f64),
    Str(Text),
    List(Rc<List>),
    Map(Rc<Map>),
    Data(Rc<Data>),
    Time(Rc<Time>),
    Version(Rc<Version>),
    /// `semver.Version` by value, as `IncMinor` returns it: no pointer, no methods.
    BareVersion(Rc<Version>),
}

/// Element type of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Elem {
    Any,
    Str,
    Int,
}

/// A slice.
pub(crate) struct List {
    pub elem: Elem,
    /// `nil` slice: same as an empty one, except to JSON.
    pub nil: bool,
    pub items: RefCell<Vec<Value>>,
}

/// Go type of a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MapType {
    StrStr,
    StrAny,
    AnyAny,
}

/// A map key; the order is that in which Go prints and ranges.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    Nil,
    Str(Text),
    Uint(u64, UintKind),
    Int(i64, IntKind),
    Float(FloatKey),
    Bool(bool),
    Time(Time),
}

impl Key {
    /// Whether Go finds the entry of this key again: NaN is equal to nothing, and gives nil.
    pub(crate) fn is_found(&self) -> bool {
        !matches!(self, Self::Float(number) if number.0.is_nan())
    }
}

/// A map.
pub(crate) struct Map {
    pub kind: MapType,
    /// `nil` map: reads as an empty one, cannot be written.
    pub nil: bool,
    pub entries: RefCell<BTreeMap<Key, Value>>,
}

/// Kalypso's `dataType`: the struct behind `.`.
pub(crate) struct Data {
    pub fields: [Value; 9],
}

/// Names of the fields of [`Data`], in Go's order.
pub(crate) const FIELDS: [&str; 9] = [
    "DeploymentTargetName",
    "Namespace",
    "Environment",
    "Workspace",
    "Workload",
    "Labels",
    "Manifests",
    "ClusterType",
    "ConfigData",
];

impl Data {
    pub fn field(&self, name: &[u8]) -> Option<&Value> {
        let at = FIELDS.iter().position(|field| field.as_bytes() == name)?;
        self.fields.get(at)
    }
}

impl List {
    pub fn value(elem: Elem, items: Vec<Value>) -> Value {
        Value::List(Rc::new(Self {
            elem,
            nil: false,
            items: RefCell::new(items),
        }))
    }

    pub fn nil_value(elem: Elem) -> Value {
        Value::List(Rc::new(Self {
            elem,
            nil: true,
            items: RefCell::default(),
        }))
    }

    pub fn len(&self) -> usize {
        self.items.borrow().len()
    }

    /// A snapshot of the items.
    pub fn to_vec(&self) -> Vec<Value> {
        self.items.borrow().clone()
    }
}

impl Map {
    pub fn value(kind: MapType, entries: BTreeMap<Key, Value>) -> Value {
        Value::Map(Rc::new(Self {
            kind,
            nil: false,
            entries: RefCell::new(entries),
        }))
    }

    pub fn nil_value(kind: MapType) -> Value {
        Value::Map(Rc::new(Self {
            kind,
            nil: true,
            entries: RefCell::default(),
        }))
    }

    pub fn len(&self) -> usize {
        self.entries.borrow().len()
    }

    pub fn get(&self, key: &Key) -> Option<Value> {
        self.entries.borrow().get(key).cloned()
    }

    /// A snapshot of the entries, in printing order.
    pub fn to_vec(&self) -> Vec<(Key, Value)> {
        self.entries
            .borrow()
            .iter()
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect()
    }
}

impl Key {
    /// The key as a value.
    pub fn to_value(&self) -> Value {
        match self {
            Self::Nil => Value::Nil,
            Self::Str(text) => Value::Str(text.clone()),
            Self::Int(number, kind) => Value::Int(*number, *kind),
            Self::Uint(number, kind) => Value::Uint(*number, *kind),
            Self::Float(number) => Value::Float(number.0),
            Self::Bool(flag) => Value::Bool(*flag),
            Self::Time(time) => Value::Time(Rc::new(time.clone())),
        }
    }

    pub fn str(text: &str) -> Self {
        Self::Str(Arc::from(text.as_bytes()))
    }
}

/// Text from anything that is bytes.
pub(crate) fn text(bytes: impl AsRef<[u8]>) -> Value {
    Value::Str(Arc::from(bytes.as_ref()))
}

/// A Go `int`.
pub(crate) fn int(number: i64) -> Value {
    Value::Int(number, IntKind::Int)
}

/// A Go `int64`.
pub(crate) fn int64(number: i64) -> Value {
    Value::Int(number, IntKind::Int64)
}

impl Value {
    /// Whether Go sees a nil `interface{}` or nothing.
    pub fn is_nil(&self) -> bool {
        matches!(self, Self::Invalid | Self::Nil)
    }

    /// The key that this value is in a `map[interface{}]interface{}`; `None` when unhashable.
    pub fn to_key(&self) -> Option<Key> {
        Some(match self {
            Self::Invalid | Self::Nil => Key::Nil,
            Self::Bool(flag) => Key::Bool(*flag),
            Self::Int(number, kind) => Key::Int(*number, *kind),
            Self::Uint(number, kind) => Key::Uint(*number, *kind),
            Self::Float(number) => Key::Float(FloatKey(*number)),
            Self::Str(text) => Key::Str(text.clone()),
            Self::Time(time) => Key::Time((**time).clone()),
            _ => return None,
        })
    }

    /// Whether there are values below it.
    fn holds_values(&self) -> bool {
        matches!(self, Self::List(_) | Self::Map(_) | Self::Data(_))
    }

    /// What `%T` prints.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Invalid | Self::Nil => "<nil>",
            Self::Bool(_) => "bool",
            Self::Int(_, IntKind::Int) => "int",
            Self::Int(_, IntKind::Int64) => "int64",
            Self::Int(_, IntKind::Month) => "time.Month",
            Self::Int(_, IntKind::Weekday) => "time.Weekday",
            Self::Uint(_, UintKind::Uint64) => "uint64",
            Self::Uint(_, UintKind::Uint8) => "uint8",
            Self::Float(_) => "float64",
            Self::Complex(..) => "complex128",
            Self::Str(_) => "string",
            Self::List(list) => match list.elem {
                Elem::Any => "[]interface {}",
                Elem::Str => "[]string",
                Elem::Int => "[]int",
            },
            Self::Map(map) => match map.kind {
                MapType::StrStr => "map[string]string",
                MapType::StrAny => "map[string]interface {}",
                MapType::AnyAny => "map[interface {}]interface {}",
            },
            Self::Data(_) => "scheduler.dataType",
            Self::Time(_) => "time.Time",
            Self::Version(_) => "*semver.Version",
            Self::BareVersion(_) => "semver.Version",
        }
    }

    /// What `reflect.Kind` prints.
    pub fn kind_name(&self) -> &'static str {
        match self {
            Self::Invalid | Self::Nil => "invalid",
            Self::Int(_, IntKind::Int | IntKind::Month | IntKind::Weekday) => "int",
            Self::List(_) => "slice",
            Self::Map(_) => "map",
            Self::Data(_) | Self::Time(_) | Self::BareVersion(_) => "struct",
            Self::Version(_) => "ptr",
            other => other.type_name(),
        }
    }

    /// Go's truth: not the zero value, not empty. Structs are always true.
    pub fn truth(&self) -> bool {
        match self {
            Self::Invalid | Self::Nil => false,
            Self::Bool(flag) => *flag,
            Self::Int(number, _) => *number != 0,
            Self::Uint(number, _) => *number != 0,
            Self::Float(number) => *number != 0.0,
            Self::Complex(re, im) => *re != 0.0 || *im != 0.0,
            Self::Str(text) => !text.is_empty(),
            Self::List(list) => list.len() > 0,
            Self::Map(map) => map.len() > 0,
            Self::Data(_) | Self::Time(_) | Self::Version(_) | Self::BareVersion(_) => true,
        }
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "<{}>", self.type_name())
    }
}

impl Drop for List {
    fn drop(&mut self) {
        graph::release(std::mem::take(self.items.get_mut()));
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        let entries = self.entries.get_mut();
        // Most configs are flat, and need no list of what is to be dropped next.
        if entries.values().any(Value::holds_values) {
            graph::release(std::mem::take(entries).into_values().collect());
        }
    }
}

impl From<MapKind> for MapType {
    fn from(kind: MapKind) -> Self {
        match kind {
            MapKind::Str => Self::StrAny,
            MapKind::Any => Self::AnyAny,
        }
    }
}
