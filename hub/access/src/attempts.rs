//! How often someone may do something, such as fail to show a token that holds.
//!
//! What comes in: who did it, and when. What goes out: whether they may now, or how long they have to wait. The memory is bounded: of
//! very many those are forgotten who did it longest ago.

use std::collections::BTreeMap;

/// Failures of one network within [`WINDOW_MS`] after which it has to wait.
pub const MAX_FAILED: usize = 10;
/// How long a failure counts, in milliseconds.
pub const WINDOW_MS: i64 = 10 * 60 * 1000;
/// How many are remembered.
const MAX_REMEMBERED: usize = 10_000;

/// What each did of late.
#[derive(Debug)]
pub struct Recent<K> {
    most: usize,
    window_ms: i64,
    /// When each did it, the oldest first.
    times: BTreeMap<K, Vec<i64>>,
}

impl<K: Ord + Clone> Recent<K> {
    /// Nobody did anything yet; each may `most` times within so many milliseconds.
    pub fn new(most: usize, window_ms: i64) -> Self {
        Self {
            most,
            window_ms,
            times: BTreeMap::new(),
        }
    }

    /// Whether `who` may at `now_ms`.
    ///
    /// # Errors
    /// The milliseconds after which they may.
    pub fn may(&self, who: &K, now_ms: i64) -> Result<(), i64> {
        let Some(times) = self.times.get(who) else {
            return Ok(());
        };
        // A clock that was set back must not lock anybody out for longer than the window.
        let counts = |at: &&i64| (**at - now_ms).abs() < self.window_ms;
        let counted: Vec<i64> = times.iter().filter(counts).copied().collect();
        match counted.first() {
            Some(oldest) if counted.len() >= self.most => {
                Err((oldest + self.window_ms - now_ms).clamp(1, self.window_ms))
            }
            _ => Ok(()),
        }
    }

    /// Remembers that `who` did it.
    pub fn did(&mut self, who: K, now_ms: i64) {
        let times = self.times.entry(who).or_default();
        times.retain(|at| (*at - now_ms).abs() < self.window_ms);
        times.push(now_ms);
        if times.len() > self.most {
            times.remove(0);
        }
        if self.times.len() > MAX_REMEMBERED {
            let longest_ago = self.times.iter().min_by_key(|(_, times)| times.last());
            if let Some(who) = longest_ago.map(|(who, _)| who.clone()) {
                self.times.remove(&who);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        reason = "small numbers of a test"
    )]
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    const ONE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
    const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

    #[test]
    fn who_fails_too_often_waits_and_nobody_else_does() {
        let mut attempts = Recent::new(MAX_FAILED, WINDOW_MS);
        for at in 0..MAX_FAILED as i64 {
            assert_eq!(attempts.may(&ONE, at), Ok(()));
            attempts.did(ONE, at);
        }
        assert_eq!(attempts.may(&ONE, 20), Err(WINDOW_MS - 20));
        assert_eq!(attempts.may(&OTHER, 20), Ok(()));
        assert_eq!(
            attempts.may(&ONE, WINDOW_MS),
            Ok(()),
            "the oldest counts no more"
        );
    }

    #[test]
    fn a_clock_that_is_set_back_locks_nobody_out_for_good() {
        let mut attempts = Recent::new(MAX_FAILED, WINDOW_MS);
        let later = 10 * WINDOW_MS;
        for _ in 0..MAX_FAILED {
            attempts.did(ONE, later);
        }
        assert!(attempts.may(&ONE, later).is_err());
        assert_eq!(attempts.may(&ONE, 0), Ok(()));
    }

    #[test]
    fn the_memory_is_bounded() {
        let mut attempts = Recent::new(MAX_FAILED, WINDOW_MS);
        for number in 0..MAX_REMEMBERED as u32 + 50 {
            attempts.did(IpAddr::from(number.to_be_bytes()), i64::from(number));
        }
        assert_eq!(attempts.times.len(), MAX_REMEMBERED);
    }
}
