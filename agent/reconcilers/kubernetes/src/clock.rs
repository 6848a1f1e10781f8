//! This machine's clock.
//!
//! What comes in: nothing. What goes out: the time that it shows, which may be wrong. It decides nothing.

use jiff::Timestamp;

/// The time by this machine's clock.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place of this crate that reads the clock"
)]
pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}
