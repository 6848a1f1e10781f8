//! A heartbeat from the working thread, and the request to stop.
//!
//! What comes in: beats from long work (copying, waiting for a playbook). What goes out: what the
//! service manager's watchdog is notified: it is fed only while the work moves, so that an agent that hangs
//! is restarted. It holds no work and cancels none: work looks at [`Heartbeat::stopping`] between actions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Shared between the working thread and the shell around it.
#[derive(Debug, Clone, Default)]
pub struct Heartbeat {
    beats: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

impl Heartbeat {
    /// Records that the work moves.
    pub fn beat(&self) {
        self.beats.fetch_add(1, Ordering::Relaxed);
    }

    /// How often the work has moved.
    pub fn beats(&self) -> u64 {
        self.beats.load(Ordering::Relaxed)
    }

    /// Asks the work to end after the action that it is in.
    pub fn cancel(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether the work was asked to end.
    pub fn is_cancelled(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}
