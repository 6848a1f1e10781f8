//! A way into the hub at which strangers may try: who failed often of late waits.
//!
//! What comes in: networks that try, and when. What goes out: whether one may, or the answer that says how long it has to wait. Each way
//! counts for itself: what is wrong at one keeps nobody out at another. It puts nothing on record.

use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use axum::http::StatusCode;
use outhaul_access::{Attempts, MAX_FAILED};

use super::problem::Problem;

/// One way in.
#[derive(Debug)]
pub(super) struct Door {
    /// What fails there, for messages.
    what: &'static str,
    attempts: Mutex<Attempts>,
}

impl Door {
    /// A door at which nobody failed yet.
    pub(super) fn new(what: &'static str) -> Self {
        let attempts = Mutex::default();
        Self { what, attempts }
    }

    fn attempts(&self) -> MutexGuard<'_, Attempts> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a network may try once more.
    ///
    /// # Errors
    /// [`Problem`] with how long it has to wait, where it failed too often.
    pub(super) fn may_try(&self, network: IpAddr, now_ms: i64) -> Result<(), Problem> {
        self.attempts().may_try(network, now_ms).map_err(|wait_ms| {
            let seconds = wait_ms.div_euclid(1000) + 1;
            let what = self.what;
            let text = format!(
                "{MAX_FAILED} {what} came from your network lately: try again in {seconds} seconds"
            );
            Problem::new(StatusCode::TOO_MANY_REQUESTS, text)
        })
    }

    /// Remembers that a network failed.
    pub(super) fn failed(&self, network: IpAddr, now_ms: i64) {
        self.attempts().failed(network, now_ms);
    }
}
