//! The hub's clock, and how moments are written.
//!
//! What comes in: the system's clock. What goes out: milliseconds since 1970; what the gate makes of moments is
//! handed on. [`now_ms`] is the only place of this crate that reads a clock; all else gets the time.

use jiff::Timestamp;
#[cfg(test)]
pub use outhaul_gate::time::HOUR_MS;
pub use outhaul_gate::time::{DAY_MS, parse, rfc3339};

/// The hub's clock, milliseconds since 1970.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place in the hub that reads the clock"
)]
pub fn now_ms() -> i64 {
    Timestamp::now().as_millisecond()
}
