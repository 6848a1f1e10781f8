//! Bodies of events that a site sent: each counts once, as long as it would not be too old by its own date.
//!
//! What comes in: the digest of a body and its date. What goes out: whether it is known. None is forgotten before its date refuses it, so
//! that what was captured cannot be sent again; what has no room is not taken. Pure: the hub's time is an argument.

use outhaul_bundle::Digest;
use serde::{Deserialize, Serialize};

/// Most bodies that are remembered of one site: more than may come in the time for which an event counts.
pub(crate) const MAX_SEEN: usize = 8_192;
/// Hexadecimal digits of a body's digest that are kept.
const DIGITS: usize = 32;

/// Bodies of one site.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Seen(Vec<(String, i64)>);

impl Seen {
    /// Whether a body came already.
    pub(crate) fn has(&self, body: &Digest) -> bool {
        let key = key(body);
        self.0.iter().any(|(known, _)| *known == key)
    }

    /// Whether one more has room, once those that are dated before `from_ms` are forgotten.
    pub(crate) fn has_room(&self, from_ms: i64) -> bool {
        self.0.len() < MAX_SEEN || self.0.iter().any(|(_, at_ms)| *at_ms < from_ms)
    }

    /// Remembers a body, and forgets those that are dated before `from_ms`. Without room for it nothing is remembered.
    pub(crate) fn add(&mut self, body: &Digest, at_ms: i64, from_ms: i64) {
        self.0.retain(|(_, at_ms)| *at_ms >= from_ms);
        if self.0.len() < MAX_SEEN {
            self.0.push((key(body), at_ms));
        }
    }
}

fn key(body: &Digest) -> String {
    body.hex().chars().take(DIGITS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(number: usize) -> Digest {
        Digest::of(number.to_string().as_bytes())
    }

    #[test]
    fn attack_no_number_of_bodies_makes_one_count_again() {
        let mut seen = Seen::default();
        for number in 0..MAX_SEEN {
            assert!(!seen.has(&body(number)) && seen.has_room(0));
            seen.add(&body(number), 5, 0);
        }
        assert!(seen.has(&body(0)) && seen.has(&body(MAX_SEEN - 1)));
        assert!(!seen.has_room(5));
        seen.add(&body(MAX_SEEN), 5, 5);
        assert!(seen.has(&body(0)) && !seen.has(&body(MAX_SEEN)));
        // Once their date refuses them, they make room.
        assert!(seen.has_room(6));
        seen.add(&body(MAX_SEEN), 9, 6);
        assert!(!seen.has(&body(0)) && seen.has(&body(MAX_SEEN)));
    }
}
