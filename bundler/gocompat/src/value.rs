//! Values as Go's decoders type them, in a form that can be shared between threads.
//!
//! In: the YAML and JSON decoders of this crate, and the composition of platform config.
//! Out: the writers, the hash and the template engine, which turns these values into its
//! own mutable ones for the length of one rendering.
//!
//! The types that Go code can tell apart stay apart: `1` and `1.0`, and
//! `map[string]interface{}` and `map[interface{}]interface{}`. Nothing here normalises.

use std::collections::BTreeMap;
use std::sync::Arc;

mod key;

pub use key::FloatKey;

/// One Go value below `interface{}`.
#[derive(Debug, Clone, Default)]
pub enum GoValue {
    /// `nil`.
    #[default]
    Null,
    /// `bool`.
    Bool(bool),
    /// `int`.
    Int(i64),
    /// `uint64`; the decoders use it only for numbers above `i64::MAX`.
    Uint(u64),
    /// `float64`.
    Float(f64),
    /// `string`; shared, because many configs hold the same.
    Str(Arc<str>),
    /// `string` whose bytes are not UTF-8 (`!!binary` in YAML).
    Bytes(Vec<u8>),
    /// `time.Time`; only `yaml.v3` makes it. RFC 3339 with nanoseconds where they are not 0.
    Time(String),
    /// `[]interface{}`.
    List(Vec<GoValue>),
    /// A map; which Go type it has is part of the value.
    Map(GoMap),
}

/// Which Go map type a [`GoMap`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MapKind {
    /// `map[string]interface{}`: JSON, `yaml.v3`, and the top level of platform config.
    #[default]
    Str,
    /// `map[interface{}]interface{}`: everything that `yaml.v2` decodes.
    Any,
}

/// A Go map with its type; iterates in the order in which Go's `fmt` prints it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GoMap {
    /// The Go type.
    pub kind: MapKind,
    /// Keys are scalars: no list and no map.
    pub entries: BTreeMap<GoValue, GoValue>,
}

/// Whose reading of YAML: the same text means different things to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decoder {
    /// `gopkg.in/yaml.v2` into `interface{}`: YAML 1.1 booleans, untyped maps, dates stay text.
    V2,
    /// `gopkg.in/yaml.v3` into `interface{}`: YAML 1.2 booleans, typed maps, dates are times.
    V3,
    /// `yaml.v2` into `map[string]interface{}`: the top level typed, everything below as `V2`.
    Config,
}

impl GoMap {
    /// An empty map of the given Go type.
    pub fn new(kind: MapKind) -> Self {
        Self {
            kind,
            entries: BTreeMap::new(),
        }
    }

    /// The value under a string key.
    pub fn get(&self, key: &str) -> Option<&GoValue> {
        self.entries.get(&GoValue::from(key))
    }

    /// Sets the value under a string key and returns what was there.
    pub fn insert(&mut self, key: impl Into<Arc<str>>, value: GoValue) -> Option<GoValue> {
        self.entries.insert(GoValue::from(key.into()), value)
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Key and value pairs in Go's printing order.
    pub fn iter(&self) -> impl Iterator<Item = (&GoValue, &GoValue)> {
        self.entries.iter()
    }
}

impl GoValue {
    /// An empty `map[string]interface{}`.
    pub fn string_map() -> Self {
        Self::Map(GoMap::new(MapKind::Str))
    }

    /// The text of a string value.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Str(text) => Some(text),
            _ => None,
        }
    }

    /// The map, when it is one.
    pub fn as_map(&self) -> Option<&GoMap> {
        match self {
            Self::Map(map) => Some(map),
            _ => None,
        }
    }

    /// Whether it is a list or a map.
    pub fn is_container(&self) -> bool {
        matches!(self, Self::List(_) | Self::Map(_))
    }
}

impl From<&str> for GoValue {
    fn from(text: &str) -> Self {
        Self::Str(text.into())
    }
}

impl From<String> for GoValue {
    fn from(text: String) -> Self {
        Self::Str(text.into())
    }
}

impl From<Arc<str>> for GoValue {
    fn from(text: Arc<str>) -> Self {
        Self::Str(text)
    }
}
