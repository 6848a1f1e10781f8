//! The rounds of removals beside a server: at once, then every six hours, and again soon after an error.
//!
//! What comes in: a state folder, and for how many days reports are kept. What goes out: removals, and lines of the log about them, each
//! lasting trouble once. It decides about no report.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::{LOOKED_AT, Rule, SERVER, remove};
use crate::error::HubError;
use crate::store::Store;
use crate::time;

/// How often the server removes, and when it tries again after an error.
const EVERY: (Duration, Duration) = (Duration::from_secs(6 * 3600), Duration::from_secs(600));
/// How often its thread looks whether it is to end.
const TICK: Duration = Duration::from_millis(500);

/// Removes beside a server, at once and then every six hours, until `stop`, or until the database was found to be damaged: what is to be
/// salvaged is only read.
///
/// # Errors
/// [`HubError`] when a connection to the store cannot be opened.
pub fn start(
    state: &Path,
    days: u32,
    stop: &Arc<AtomicBool>,
    damaged: &Arc<AtomicBool>,
) -> Result<(), HubError> {
    let mut store = Store::open(state)?;
    let rule = Rule {
        days,
        by: SERVER.to_owned(),
        how: SERVER,
        pause: Duration::from_millis(20),
        at_once: LOOKED_AT,
    };
    let (stop, damaged) = (Arc::clone(stop), Arc::clone(damaged));
    tracing::info!(days, "reports that are older are removed");
    let work = move || {
        let (mut is_clock_off, mut is_foreign) = (false, false);
        let ends = || stop.load(Ordering::Relaxed) || damaged.load(Ordering::Relaxed);
        while !ends() {
            let mut wait = EVERY.0;
            let done = remove(&mut store, &rule, time::now_ms(), false, &ends);
            let done = done.map_err(|failed| (failed.error, failed.done.reports));
            let was_off = std::mem::replace(
                &mut is_clock_off,
                matches!(done, Err((HubError::Clock { .. }, _))),
            );
            if let Ok(done) = &done {
                let was_foreign = std::mem::replace(&mut is_foreign, done.foreign_parts > 0);
                if is_foreign && !was_foreign {
                    tracing::warn!(
                        parts = done.foreign_parts,
                        "old partitions are not dropped, because the hub's database user does not own the tables; rows are removed one by one"
                    );
                }
            }
            match done {
                Ok(done) if done.reports > 0 => {
                    tracing::info!(
                        reports = done.reports,
                        sites = done.sites,
                        "old reports removed"
                    );
                }
                Ok(_) => {}
                Err((HubError::Clock { problem }, _)) => {
                    if !was_off {
                        tracing::error!(%problem, "no old report is removed until this machine's clock is set");
                    }
                    wait = EVERY.1;
                }
                Err((error, reports)) if error.is_damage() => {
                    damaged.store(true, Ordering::Relaxed);
                    tracing::error!(%error, reports, "the hub's database is damaged: no old report is removed any more");
                }
                Err((error, reports)) => {
                    tracing::error!(%error, reports, "cannot remove more old reports than that; it is tried again");
                    wait = EVERY.1;
                }
            }
            let mut waited = Duration::ZERO;
            while waited < wait && !ends() {
                std::thread::sleep(TICK);
                waited += TICK;
            }
        }
    };
    let started = std::thread::Builder::new()
        .name("retention".to_owned())
        .spawn(work);
    started.map(drop).map_err(|source| HubError::Serve {
        doing: "start the thread that removes old reports".to_owned(),
        source,
    })
}
