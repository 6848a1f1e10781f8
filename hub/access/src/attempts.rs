//! How often somebody may fail to show a token that holds.
//!
//! What comes in: the network that tried, and when. What goes out: whether it may try now, or how long it has to wait. The
//! memory is bounded: of very many networks those are forgotten that failed longest ago. What succeeds is never counted.

use std::collections::BTreeMap;
use std::net::IpAddr;

/// Failures of one network within [`WINDOW_MS`] after which it has to wait.
pub const MAX_FAILED: usize = 10;
/// How long a failure counts, in milliseconds.
pub const WINDOW_MS: i64 = 10 * 60 * 1000;
/// Networks that are remembered.
const MAX_NETWORKS: usize = 10_000;

/// Failures of late.
#[derive(Debug, Default)]
pub struct Attempts {
    /// When each network failed, the oldest first.
    failed: BTreeMap<IpAddr, Vec<i64>>,
}

impl Attempts {
    /// Whether `network` may try at `now_ms`.
    ///
    /// # Errors
    /// The milliseconds after which it may.
    pub fn may_try(&self, network: IpAddr, now_ms: i64) -> Result<(), i64> {
        let Some(times) = self.failed.get(&network) else {
            return Ok(());
        };
        // A clock that was set back must not lock anybody out for longer than the window.
        let counts = |at: &&i64| (**at - now_ms).abs() < WINDOW_MS;
        let counted: Vec<i64> = times.iter().filter(counts).copied().collect();
        match counted.first() {
            Some(oldest) if counted.len() >= MAX_FAILED => {
                Err((oldest + WINDOW_MS - now_ms).clamp(1, WINDOW_MS))
            }
            _ => Ok(()),
        }
    }

    /// Remembers that `network` failed.
    pub fn failed(&mut self, network: IpAddr, now_ms: i64) {
        let times = self.failed.entry(network).or_default();
        times.retain(|at| (*at - now_ms).abs() < WINDOW_MS);
        times.push(now_ms);
        if times.len() > MAX_FAILED {
            times.remove(0);
        }
        if self.failed.len() > MAX_NETWORKS {
            let longest_ago = self
                .failed
                .iter()
                .min_by_key(|(_, times)| times.last().copied());
            if let Some(network) = longest_ago.map(|(network, _)| *network) {
                self.failed.remove(&network);
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
    use super::*;

    const ONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    #[test]
    fn who_fails_too_often_waits_and_nobody_else_does() {
        let mut attempts = Attempts::default();
        for at in 0..MAX_FAILED as i64 {
            assert_eq!(attempts.may_try(ONE, at), Ok(()));
            attempts.failed(ONE, at);
        }
        assert_eq!(attempts.may_try(ONE, 20), Err(WINDOW_MS - 20));
        assert_eq!(attempts.may_try(OTHER, 20), Ok(()));
        assert_eq!(
            attempts.may_try(ONE, WINDOW_MS),
            Ok(()),
            "the oldest counts no more"
        );
    }

    #[test]
    fn a_clock_that_is_set_back_locks_nobody_out_for_good() {
        let mut attempts = Attempts::default();
        let later = 10 * WINDOW_MS;
        for _ in 0..MAX_FAILED {
            attempts.failed(ONE, later);
        }
        assert!(attempts.may_try(ONE, later).is_err());
        assert_eq!(attempts.may_try(ONE, 0), Ok(()));
    }

    #[test]
    fn the_memory_is_bounded() {
        let mut attempts = Attempts::default();
        for number in 0..MAX_NETWORKS as u32 + 50 {
            attempts.failed(IpAddr::from(number.to_be_bytes()), i64::from(number));
        }
        assert_eq!(attempts.failed.len(), MAX_NETWORKS);
    }
}
