//! Lists of a promotion policy: what is in one twice is a mistake, and which of the two is not ours to guess.
//!
//! What comes in: names as they are written, rules for parts. What goes out: what is wrong, as a sentence, or nothing. It reads nothing.

use outhaul_bundle::hub_api::PartRule;

use crate::model::Spanned;

/// What is wrong with a list of windows that has none: it may be meant as never.
pub(super) const NO_WINDOW: &str = "`windows` has no entry: leave it out where every time is meant";

/// A name that the list under `key` has twice. People whose names differ in capitals only are one person to who reads the list, and would be
/// two approvals.
pub(super) fn name_twice(key: &str, names: &[Spanned<String>]) -> Option<String> {
    names.iter().enumerate().find_map(|(at, name)| {
        let name = &name.value;
        let mut before = names.iter().take(at).map(|other| &other.value);
        let other = before.find(|other| other.to_lowercase() == name.to_lowercase())?;
        Some(match other == name {
            true => format!("`{name}` is in `{key}` twice"),
            false => {
                format!("`{other}` and `{name}` in `{key}` differ in capital letters only: keep one of them")
            }
        })
    })
}

/// That an earlier rule is for the same part of the sites.
pub(super) fn part_twice(before: &[PartRule], part: &PartRule) -> Option<String> {
    let of = |part: &PartRule| (part.cluster_type.clone(), part.workload.clone());
    let is_there = before.iter().any(|other| of(other) == of(part));
    is_there
        .then(|| "an earlier entry of `parts` is for the same sites: keep one of them".to_owned())
}
