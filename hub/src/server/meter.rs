//! The numbers of the fleet, for metrics: when they are read, and by whom.
//!
//! What comes in: whoever asks for them. What goes out: numbers of now, or of before. They are read by one reader at a time, on a
//! connection of its own, so that scrapes and pushes keep no page waiting, and whoever comes meanwhile gets the same.

use std::sync::{Arc, Mutex, PoisonError};

use outhaul_telemetry::PushCounts;

use crate::clock;
use crate::error::HubError;
use crate::store::Store;
use crate::time;
use crate::view::Measured;

/// What is read within this time is read whenever it is asked for; of what takes longer, the next reading begins after so many
/// times as long, so that a large fleet that is scraped often does not keep a processor busy.
const QUICK_MS: i64 = 100;
const REST: i64 = 10;
/// The oldest numbers that are answered with. Beyond it a scrape waits, and fails where the store does.
const OLDEST_MS: i64 = 5 * 60 * 1000;

/// What is measured, and on which connection.
#[derive(Debug)]
pub(super) struct Meter {
    store: Mutex<Store>,
    last: Mutex<Option<Arc<Numbers>>>,
    started_ms: i64,
    /// Pushes since the start; `None` where there are none.
    pushes: Mutex<Option<PushCounts>>,
}

/// The numbers of the fleet, and of the clock, as they were read together.
#[derive(Debug)]
pub(super) struct Numbers {
    pub(super) fleet: Measured,
    pub(super) clock_plausible: bool,
    pub(super) took_ms: i64,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Meter {
    pub(super) fn new(store: Store) -> Self {
        Self {
            store: Mutex::new(store),
            last: Mutex::default(),
            started_ms: time::now_ms(),
            pushes: Mutex::default(),
        }
    }

    /// When the process started, milliseconds since 1970.
    pub(super) fn started_ms(&self) -> i64 {
        self.started_ms
    }

    /// Pushes since the start; `None` where there are none.
    pub(super) fn pushes(&self) -> Option<PushCounts> {
        *lock(&self.pushes)
    }

    /// Changes the counts of pushes, which are there from the first change on.
    pub(super) fn count_pushes(&self, change: impl FnOnce(&mut PushCounts)) {
        change(lock(&self.pushes).get_or_insert_default());
    }

    /// The numbers, read now, or by someone else while this waited.
    pub(super) fn read(&self) -> Result<Arc<Numbers>, HubError> {
        let asked_ms = time::now_ms();
        let mut store = lock(&self.store);
        let now_ms = time::now_ms();
        if let Some(last) = self.last(now_ms)
            && last.took_ms > QUICK_MS
            && now_ms.saturating_sub(last.fleet.read_ms) < last.took_ms.saturating_mul(REST)
        {
            return Ok(last);
        }
        if now_ms > asked_ms
            && let Some(last) = self.last(now_ms)
            && last.fleet.read_ms.saturating_add(last.took_ms) > asked_ms
        {
            return Ok(last);
        }
        let fleet = store.read(|session| Measured::take(session, now_ms))?;
        let numbers = Arc::new(Numbers {
            fleet,
            clock_plausible: clock::problem(&mut store, now_ms)?.is_none(),
            took_ms: time::now_ms().saturating_sub(now_ms).max(0),
        });
        *lock(&self.last) = Some(Arc::clone(&numbers));
        Ok(numbers)
    }

    /// The numbers of before, unless they are too old. A clock that was set back makes them so.
    pub(super) fn last(&self, now_ms: i64) -> Option<Arc<Numbers>> {
        let last = lock(&self.last).clone()?;
        let age_ms = now_ms.saturating_sub(last.fleet.read_ms);
        (0..=OLDEST_MS).contains(&age_ms).then_some(last)
    }
}
