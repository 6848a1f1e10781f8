//! sprig v2.22: every function of its text function map that is a pure function.
//!
//! In: checked arguments. Out: what sprig's function returns, panics included (they are
//! errors of the template). Groups follow what the functions are about.

use super::Function;

mod defaults;
mod dicts;
mod encoding;
mod lists;
mod merge;
mod numbers;
mod paths;
pub(crate) mod patterns;
mod strings;
mod times;
pub(crate) mod urls;
mod versions;
mod words;

pub(super) use strings::trim_space;

pub(super) const GROUPS: &[&[Function]] = &[
    defaults::FUNCTIONS,
    dicts::FUNCTIONS,
    encoding::FUNCTIONS,
    lists::FUNCTIONS,
    numbers::FUNCTIONS,
    paths::FUNCTIONS,
    patterns::FUNCTIONS,
    strings::FUNCTIONS,
    times::FUNCTIONS,
    urls::FUNCTIONS,
    versions::FUNCTIONS,
    words::FUNCTIONS,
];
