//! The clock of this machine, for the age of a hub's answer.
//!
//! What goes out: milliseconds since 1970, in UTC. Nothing else in this crate reads a clock of the wall.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970; 0 on a machine whose clock is before that.
pub(super) fn now_ms() -> i64 {
    #[expect(
        clippy::disallowed_methods,
        reason = "the clock module of this crate: an answer of a hub must be of now"
    )]
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    })
}
