//! Numbers that cross the gap: bundles, orders, reports, metadata versions. One bound for all of them.
//!
//! What comes in: an integer that someone else wrote. What goes out: one that every reader, SQLite and
//! every JSON parser included, holds exactly; beyond it parsing fails. What some programs hold as u64 and
//! others as i64 or a double would compare differently in each of them.

use std::collections::BTreeMap;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// The largest number of a bundle, order, report or metadata version: 2^53 - 1, the largest integer that
/// all JSON readers agree about. One bundle a second reaches it in 285 million years.
pub const MAX_NUMBER: u64 = (1 << 53) - 1;

fn check<E: Error>(number: u64) -> Result<u64, E> {
    if number > MAX_NUMBER {
        return Err(E::custom(format_args!(
            "number {number} is out of range, the largest is {MAX_NUMBER}"
        )));
    }
    Ok(number)
}

/// For `#[serde(deserialize_with)]` on a number.
pub(crate) fn one<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    check(u64::deserialize(deserializer)?)
}

/// For `#[serde(deserialize_with)]` on a number that may be absent.
pub(crate) fn optional<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<u64>, D::Error> {
    Option::<u64>::deserialize(deserializer)?
        .map(check)
        .transpose()
}

/// For `#[serde(deserialize_with)]` on versions by name.
pub(crate) fn by_name<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, u64>, D::Error> {
    let numbers = BTreeMap::<String, u64>::deserialize(deserializer)?;
    numbers.values().try_for_each(|n| check(*n).map(drop))?;
    Ok(numbers)
}
