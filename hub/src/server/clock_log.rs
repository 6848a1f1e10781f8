//! The log says once when this machine's clock becomes odd while the hub serves, and once when it is right again.
//!
//! What comes in: what is odd about the clock, looked at every minute and by whoever asks for the hub's health. What goes out: lines of
//! the log. It sets no clock, and nothing waits for it.

use std::sync::{Mutex, PoisonError};

use crate::clock::Odd;

/// What of the clock is in the log.
#[derive(Debug, Default)]
pub(super) struct ClockLog(Mutex<Option<ClockOddity>>);

/// What is odd about a clock. The sentence about it has the time in it, and differs each time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClockOddity {
    /// Before an entry on record.
    Behind,
    /// Nothing is signed with it.
    Implausible,
}

impl ClockLog {
    /// Says what changed since the last look.
    pub(super) fn look(&self, odd: Option<&Odd>) {
        let now = odd.map(|odd| match odd.is_implausible {
            true => ClockOddity::Implausible,
            false => ClockOddity::Behind,
        });
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *said, now);
        match odd {
            _ if before == now => {}
            Some(odd) if odd.is_implausible => {
                tracing::error!("{}: nothing is signed with it", odd.text);
            }
            Some(odd) => tracing::warn!("{}", odd.text),
            None => tracing::info!("this machine's clock is right again"),
        }
    }
}
