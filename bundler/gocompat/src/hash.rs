//! Kalypso's `hash`: hashstructure v1 over FNV-1 with 64 bits.
//!
//! In: a value. Out: the hash in decimal, or nothing where hashstructure refuses the type.
//! Maps are the XOR of their entries' hashes and so independent of order; lists are not.
//! Integers hash by value and width, so `1` and `1.0` differ, and a `bool` is one byte.

use crate::gotime::Time;
use crate::runtime::{Budget, FIELDS, IntKind, Key, RuntimeResult, UintKind, Value};

const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0100_0000_01b3;

fn fnv(parts: &[&[u8]]) -> u64 {
    parts
        .iter()
        .flat_map(|part| part.iter())
        .fold(OFFSET, |hash, byte| {
            hash.wrapping_mul(PRIME) ^ u64::from(*byte)
        })
}

fn ordered(a: u64, b: u64) -> u64 {
    fnv(&[&a.to_le_bytes(), &b.to_le_bytes()])
}

/// The decimal hash; empty for what hashstructure does not hash.
pub(crate) fn decimal(value: &Value, budget: &Budget) -> RuntimeResult<String> {
    Ok(visit(value, budget, 0)?
        .map(|hash| hash.to_string())
        .unwrap_or_default())
}

fn visit(value: &Value, budget: &Budget, depth: usize) -> RuntimeResult<Option<u64>> {
    budget.visit(depth)?;
    Ok(Some(match value {
        // hashstructure takes a nil for the zero of `int`.
        Value::Invalid | Value::Nil => fnv(&[&0_i64.to_le_bytes()]),
        Value::Bool(flag) => fnv(&[&[u8::from(*flag)]]),
        Value::Int(number, IntKind::Int | IntKind::Int64 | IntKind::Month | IntKind::Weekday) => {
            fnv(&[&number.to_le_bytes()])
        }
        Value::Uint(number, UintKind::Uint64) => fnv(&[&number.to_le_bytes()]),
        Value::Uint(number, UintKind::Uint8) => fnv(&[&number.to_le_bytes()[..1]]),
        Value::Float(number) => fnv(&[&float_bits(*number).to_le_bytes()]),
        Value::Complex(..) => return Ok(None),
        Value::Str(text) => fnv(&[text]),
        Value::List(list) => {
            let mut hash = 0;
            for item in list.items.borrow().iter() {
                let Some(item) = visit(item, budget, depth + 1)? else {
                    return Ok(None);
                };
                hash = ordered(hash, item);
            }
            hash
        }
        Value::Map(map) => {
            let mut hash = 0;
            for (key, item) in map.entries.borrow().iter() {
                let item = if key.is_found() { item } else { &Value::Nil };
                let key = match key {
                    Key::Str(text) => fnv(&[text]),
                    other => match visit(&other.to_value(), budget, depth + 1)? {
                        Some(key) => key,
                        None => return Ok(None),
                    },
                };
                let Some(item) = visit(item, budget, depth + 1)? else {
                    return Ok(None);
                };
                hash ^= ordered(key, item);
            }
            hash
        }
        Value::Data(data) => {
            let mut hash = fnv(&[b"dataType"]);
            for (name, field) in FIELDS.iter().zip(&data.fields) {
                let Some(field) = visit(field, budget, depth + 1)? else {
                    return Ok(None);
                };
                hash ^= ordered(fnv(&[name.as_bytes()]), field);
            }
            hash
        }
        Value::Time(time) => fnv(&[&marshal_time(time)]),
        // No exported field: only the type's name counts.
        Value::Version(_) | Value::BareVersion(_) => fnv(&[b"Version"]),
    }))
}

/// The bits of a float. Go's NaN, which its parser of numbers gives, is not the one of Rust.
fn float_bits(number: f64) -> u64 {
    const NAN: u64 = 0x7ff8_0000_0000_0001;
    match number.is_nan() {
        true => NAN,
        false => number.to_bits(),
    }
}

/// `time.Time.MarshalBinary`, version 1: seconds since the year 1, nanoseconds, minutes of
/// the zone, where -1 is UTC.
fn marshal_time(time: &Time) -> Vec<u8> {
    let seconds = time.seconds.wrapping_sub(Time::zero().seconds);
    let utc = time.offset == 0 && time.zone == "UTC" && !time.local;
    let minutes = if utc {
        -1
    } else {
        i16::try_from(time.offset / 60).unwrap_or(0)
    };
    let mut out = vec![1];
    out.extend_from_slice(&seconds.to_be_bytes());
    out.extend_from_slice(&time.nanos.to_be_bytes());
    out.extend_from_slice(&minutes.to_be_bytes());
    let odd = i8::try_from(time.offset % 60).unwrap_or(0);
    if !utc && odd != 0 {
        out[0] = 2;
        out.push(odd.cast_unsigned());
    }
    out
}
