//! One JSON message between processes: written with sorted keys on one line, and read within a bound.
//!
//! What comes in: a value, or a reader. What goes out: a line, or the bytes of one, of which no more than the
//! bound was ever kept. It understands no message.

use serde::Serialize;

/// `message` as a line of JSON, its keys sorted.
pub fn of(message: &impl Serialize) -> String {
    let mut line = serde_json::to_value(message)
        .unwrap_or_default()
        .to_string();
    line.push('\n');
    line
}
