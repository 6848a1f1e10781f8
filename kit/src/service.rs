//! Word to systemd: that a service is ready, how it is, that it lives, that it ends.
//!
//! What comes in: states, and the [`Heartbeat`] of the work. What goes out: messages to the service manager, where there
//! is one. Its watchdog is fed only while the work moves, so that a service that hangs is restarted.

use std::time::Duration;

use crate::heartbeat::Heartbeat;

pub use sd_notify::NotifyState;

/// How often someone who is not watched looks at the pulse.
const UNWATCHED: Duration = Duration::from_secs(3600);

/// Notifies the service manager.
pub fn notify(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!(%error, "cannot notify systemd");
    }
}

/// The service manager's watchdog.
#[derive(Debug)]
pub struct Watchdog {
    period: Option<Duration>,
    beats: u64,
}

impl Watchdog {
    /// As the service manager set it, if it did.
    pub fn of_service() -> Self {
        Self {
            period: sd_notify::watchdog_enabled(),
            beats: 0,
        }
    }

    /// The longest time without a heartbeat, if there is one.
    pub fn period(&self) -> Option<Duration> {
        self.period
    }

    /// How often [`Watchdog::feed`] is to be called.
    pub fn interval(&self) -> Duration {
        self.period.map_or(UNWATCHED, |period| period / 3)
    }

    /// Feeds it when the work has moved since the last time.
    pub fn feed(&mut self, heartbeat: &Heartbeat) {
        let now = heartbeat.beats();
        if self.period.is_some() && now != self.beats {
            self.beats = now;
            notify(NotifyState::Watchdog);
        }
    }
}
