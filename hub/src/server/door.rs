//! A way into the hub at which strangers may try: who failed often of late waits.
//!
//! What comes in: networks that try, and when. What goes out: whether one may, or the answer that says how long it has to wait. Each way
//! counts for itself: what is wrong at one keeps nobody out at another. It puts nothing on record.

use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use outhaul_access::{MAX_FAILED, Recent, WINDOW_MS};

use super::problem::Problem;

/// One way in.
#[derive(Debug)]
pub(super) struct Door {
    /// What fails there, for messages.
    what: &'static str,
    attempts: Mutex<Recent<IpAddr>>,
}

impl Door {
    /// A door at which nobody failed yet.
    pub(super) fn new(what: &'static str) -> Self {
        let attempts = Mutex::new(Recent::new(MAX_FAILED, WINDOW_MS));
        Self { what, attempts }
    }

    fn attempts(&self) -> MutexGuard<'_, Recent<IpAddr>> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a network may try once more.
    ///
    /// # Errors
    /// [`Problem`] with how long it has to wait, where it failed too often.
    pub(super) fn may_try(&self, network: IpAddr, now_ms: i64) -> Result<(), Problem> {
        self.attempts().may(&network, now_ms).map_err(|wait_ms| {
            let what = self.what;
            Problem::wait(wait_ms, |seconds| {
                format!(
                    "{MAX_FAILED} {what} came from your network lately: try again in {seconds} seconds"
                )
            })
        })
    }

    /// Remembers that a network failed.
    pub(super) fn failed(&self, network: IpAddr, now_ms: i64) {
        self.attempts().did(network, now_ms);
    }
}
