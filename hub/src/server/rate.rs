//! How often one caller may do what the hub keeps, so that no token, person or cluster fills the store.
//!
//! What comes in: the name of a token or person, or a site without an agent whose events come by webhook, and when. What goes out: whether they may, or the answer that says how long they have
//! to wait. Each name counts for itself, at each process for itself. It puts nothing on record.

use std::sync::{Mutex, MutexGuard, PoisonError};

use outhaul_access::Recent;

use super::problem::Problem;

/// For how long something counts, in milliseconds.
const MINUTE_MS: i64 = 60 * 1000;

/// Events of one kind that one site sends by webhook, in one minute.
const EVENTS_A_MINUTE: usize = 120;

/// How many events one site may send by webhook. Each kind has its own budget: no number of others keeps a failure out.
#[derive(Debug)]
pub(super) struct EventRates {
    /// Failures of objects that the site was registered with.
    pub(super) failures: Rate,
    /// What else these objects did.
    pub(super) registered: Rate,
    /// Events of other objects, and what is no event.
    pub(super) others: Rate,
}

impl EventRates {
    /// Nothing came yet.
    pub(super) fn new() -> Self {
        let rate = |what| Rate::new(EVENTS_A_MINUTE, what);
        Self {
            failures: rate("failures of registered objects"),
            registered: rate("events of registered objects"),
            others: rate("events of objects that it was not registered with"),
        }
    }
}

/// What one caller may do a number of times a minute.
#[derive(Debug)]
pub(super) struct Rate {
    most: usize,
    /// What it is, for messages.
    what: &'static str,
    done: Mutex<Recent<String>>,
}

impl Rate {
    /// Nobody did it yet; each may `most` times a minute.
    pub(super) fn new(most: usize, what: &'static str) -> Self {
        let done = Mutex::new(Recent::new(most, MINUTE_MS));
        Self { most, what, done }
    }

    fn done(&self) -> MutexGuard<'_, Recent<String>> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a caller may do it once more.
    ///
    /// # Errors
    /// [`Problem`] with how long they have to wait.
    pub(super) fn may(&self, who: &str, now_ms: i64) -> Result<(), Problem> {
        let done = self.done().may(&who.to_owned(), now_ms);
        done.map_err(|wait_ms| self.wait(who, wait_ms))
    }

    fn wait(&self, who: &str, wait_ms: i64) -> Problem {
        let exceeded = self.exceeded(who);
        Problem::wait(wait_ms, |seconds| {
            format!("{exceeded}: try again in {seconds} seconds")
        })
    }

    /// That a caller did as much as they may.
    pub(super) fn exceeded(&self, who: &str) -> String {
        let (most, what) = (self.most, self.what);
        format!("`{who}` has {most} {what} within a minute, and that is the most")
    }

    /// The same, remembered as done under one lock: of requests at once none goes beyond the limit.
    pub(super) fn spend(&self, who: &str, now_ms: i64) -> Result<(), Problem> {
        let (who, mut done) = (who.to_owned(), self.done());
        let may = done.may(&who, now_ms);
        may.map_err(|wait_ms| self.wait(&who, wait_ms))?;
        done.did(who, now_ms);
        Ok(())
    }

    /// Remembers that a caller did it.
    pub(super) fn did(&self, who: &str, now_ms: i64) {
        self.done().did(who.to_owned(), now_ms);
    }
}
