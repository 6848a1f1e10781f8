//! The total order of values: the order in which Go's `fmt` walks a map's keys.
//!
//! In: two values. Out: their order, and equality that agrees with it.
//! Within a type the order is Go's: numbers by value, strings by bytes, `false` first.
//! Across types Go compares addresses of type descriptors, which a build fixes and no
//! document states; the rank below is that of Go 1.25 on amd64 as Kalypso is built.
//! Lists and maps are never keys in Go; they are ordered here only to be total.

use super::GoValue;
use std::cmp::Ordering;

/// A float as a map key: NaN sorts first and equals itself.
#[derive(Debug, Clone, Copy)]
pub struct FloatKey(pub f64);

/// Go's order of floats: NaN before every number, `-0` equal to `0`.
pub(crate) fn compare_floats(a: f64, b: f64) -> Ordering {
    match (a.is_nan(), b.is_nan()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
        (false, false) => a.partial_cmp(&b).unwrap_or(Ordering::Equal),
    }
}

impl PartialEq for FloatKey {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for FloatKey {}

impl PartialOrd for FloatKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for FloatKey {
    fn cmp(&self, other: &Self) -> Ordering {
        compare_floats(self.0, other.0)
    }
}

fn rank(value: &GoValue) -> u8 {
    match value {
        GoValue::Null => 0,
        GoValue::Str(_) | GoValue::Bytes(_) => 1,
        GoValue::Uint(_) => 2,
        GoValue::Int(_) => 3,
        GoValue::Float(_) => 4,
        GoValue::Bool(_) => 5,
        GoValue::Time(_) => 6,
        GoValue::List(_) => 7,
        GoValue::Map(_) => 8,
    }
}

fn bytes(value: &GoValue) -> &[u8] {
    match value {
        GoValue::Str(text) => text.as_bytes(),
        GoValue::Time(text) => text.as_bytes(),
        GoValue::Bytes(bytes) => bytes,
        _ => &[],
    }
}

impl Ord for GoValue {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => a.cmp(b),
            (Self::Int(a), Self::Int(b)) => a.cmp(b),
            (Self::Uint(a), Self::Uint(b)) => a.cmp(b),
            (Self::Float(a), Self::Float(b)) => compare_floats(*a, *b),
            (Self::List(a), Self::List(b)) => a.cmp(b),
            (Self::Map(a), Self::Map(b)) => (a.kind as u8)
                .cmp(&(b.kind as u8))
                .then_with(|| a.entries.cmp(&b.entries)),
            _ => rank(self)
                .cmp(&rank(other))
                .then_with(|| bytes(self).cmp(bytes(other))),
        }
    }
}

impl PartialOrd for GoValue {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for GoValue {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for GoValue {}
