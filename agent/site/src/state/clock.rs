//! What is accepted of the machine's clocks.
//!
//! What comes in: the stored lower bound, and one reading of all [`Clocks`] (that since boot, which also counts while
//! the machine sleeps, and the wall clock). What goes out: a [`ClockReading`] for reports and for the verifier.
//! The rules are the signer's [`LowerBound`]: times that the fleet's metadata signed and the boot clock
//! raise it, a hub's word within its slack, the wall clock never.

use jiff::Timestamp;
use outhaul_bundle::report::SiteTime;
use outhaul_signer::clock::BootReading;
use outhaul_signer::{Acceptance, LowerBound, TimePolicy};
use rusqlite::Connection;

use crate::state::{self, StateError};

/// What all clocks of a machine say at one moment.
#[derive(Debug, Clone)]
pub struct Clocks {
    /// The clock that counts since boot, suspended time included; `None` when the boot has no id.
    pub boot: Option<BootReading>,
    /// The wall clock.
    pub wall: Timestamp,
    /// Whether something trustworthy set the wall clock.
    pub wall_trusted: bool,
}

/// One reading of all clocks, with the bound carried to it.
#[derive(Debug, Clone)]
pub struct ClockReading {
    /// It is certainly not earlier than this.
    pub bound: LowerBound,
    /// What the wall clock says.
    pub wall: Timestamp,
    /// Whether something trustworthy set the wall clock.
    pub wall_trusted: bool,
    /// How long this boot has lasted; `None` where the system does not distinguish boots.
    pub boot: Option<BootReading>,
}

/// The stored bound, carried to what the clocks say now; stores nothing.
///
/// # Errors
/// [`StateError`] when the bound cannot be read.
pub fn now(db: &Connection, clocks: Clocks) -> Result<ClockReading, StateError> {
    let stored: Option<LowerBound> = state::meta(db, state::key::CLOCK)?;
    let mut bound = stored.unwrap_or_else(|| LowerBound::new(Timestamp::UNIX_EPOCH));
    if let Some(boot) = clocks.boot.clone() {
        bound.advance(boot);
    }
    Ok(ClockReading {
        bound,
        wall: clocks.wall,
        wall_trusted: clocks.wall_trusted,
        boot: clocks.boot,
    })
}

impl ClockReading {
    /// Stores the bound.
    ///
    /// # Errors
    /// [`StateError`]
    pub fn store(&self, db: &Connection) -> Result<(), StateError> {
        state::set_meta(db, state::key::CLOCK, Some(&self.bound))
    }

    /// Stores the bound, raised to the time that accepted metadata signed; or begun again there, when the
    /// fleet took away the key by which time was trusted so far.
    ///
    /// # Errors
    /// [`StateError`]
    pub fn accept(&mut self, db: &Connection, accepted: &Acceptance) -> Result<(), StateError> {
        if accepted.time_restarts {
            self.bound.restart(accepted.signed_at);
        } else {
            self.bound.raise(accepted.signed_at);
        }
        self.store(db)
    }

    /// Stores the bound, raised to what a hub signed, within the slack.
    ///
    /// # Errors
    /// [`StateError`]
    pub fn accept_hub_time(&mut self, db: &Connection, hub_time_ms: i64) -> Result<(), StateError> {
        if let Ok(at) = Timestamp::from_millisecond(hub_time_ms) {
            self.bound.raise_by_hub(at);
        }
        self.store(db)
    }

    /// What a report says of time.
    pub fn site_time(&self) -> SiteTime {
        SiteTime {
            wall_ms: self.wall.as_millisecond(),
            lower_bound_ms: self.bound.at().as_millisecond(),
            trusted: self.wall_trusted,
        }
    }

    /// What the verifier knows of time.
    pub fn policy(&self) -> TimePolicy {
        TimePolicy {
            lower_bound: self.bound.at(),
            wall: self.wall,
            wall_trusted: self.wall_trusted,
        }
    }

    /// Milliseconds since 1970 by the wall clock, for the journal.
    pub fn wall_ms(&self) -> i64 {
        self.wall.as_millisecond()
    }
}
