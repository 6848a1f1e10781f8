//! Bounds of the rules of a gate: how many entries a list has, and what a number is within.
//!
//! What comes in: a number with its name and bounds. What goes out: nothing, or what is wrong with it, in words.

use std::ops::RangeInclusive;

/// Most entries of one list of rules.
pub(super) const MAX_ENTRIES: usize = 100;

/// Refuses a number that is there and not in its range.
pub(super) fn within(
    what: &str,
    value: Option<u32>,
    range: &RangeInclusive<u32>,
) -> Result<(), String> {
    match value {
        Some(value) if !range.contains(&value) => Err(format!(
            "{what} is {} to {}, not {value}",
            range.start(),
            range.end()
        )),
        _ => Ok(()),
    }
}
