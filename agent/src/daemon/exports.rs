//! Reports onto places that stay: what is on each already, and when it is written to again.
//!
//! What comes in: the watched places that are there, the outbox, and the time. What goes out: newer reports and the
//! enrolment request on each place that has a folder for them, with pauses in between, and after a failure
//! growing ones that end early when the place shows that someone did something about it. A place that is gone is
//! forgotten: what comes back is written to from the first waiting report on.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use outhaul_kit::media::{Marks, Media};
use outhaul_kit::text;
use rustix::fs::{StatVfsMountFlags, statvfs};

use crate::agent::Agent;
use crate::error::AgentError;
use crate::intake::visit;
use crate::report::OnMedium;

/// Shortest pause between two times that something is written to a place.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
/// Longest pause between two attempts while they fail.
const MAX_PAUSE: Duration = Duration::from_secs(3600);
/// How many places are named in one line.
const MAX_NAMED: usize = 3;

/// What is on the places that are there.
#[derive(Debug, Default)]
pub struct Exports {
    places: BTreeMap<PathBuf, ExportFolder>,
}

/// One place.
#[derive(Debug)]
struct ExportFolder {
    there: OnMedium,
    attempts: Attempts<Condition>,
    /// What kept reports away, as it was last logged.
    problem: Option<String>,
}

/// What a person changes on a place to which nothing could be written.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Condition {
    /// Room for everyone, in blocks.
    free: u64,
    read_only: bool,
    /// The folder for reports.
    folder: Option<Marks>,
}

/// When something is tried again.
#[derive(Debug)]
struct Attempts<C> {
    /// Not before this.
    next: Instant,
    /// After failures: the pause that is under way, when it began, and how things stood then.
    failed: Option<(Duration, Instant, C)>,
}

impl<C: PartialEq> Attempts<C> {
    fn new(now: Instant) -> Self {
        Self {
            next: now,
            failed: None,
        }
    }

    /// Whether it is time; after a failure also when `condition` is another one than then.
    fn is_due(&self, now: Instant, condition: impl FnOnce() -> C) -> bool {
        if now >= self.next {
            return true;
        }
        self.failed
            .as_ref()
            .is_some_and(|(_, began, before)| now >= *began + FIRST_PAUSE && condition() != *before)
    }

    fn worked(&mut self, now: Instant) {
        self.failed = None;
        self.next = now + FIRST_PAUSE;
    }

    fn failed(&mut self, now: Instant, condition: C) {
        let longer = |(pause, ..): &(Duration, Instant, C)| pause.saturating_mul(2).min(MAX_PAUSE);
        let pause = self.failed.as_ref().map_or(FIRST_PAUSE, longer);
        self.failed = Some((pause, now, condition));
        self.next = now + pause;
    }
}

impl Exports {
    /// Reads a place that changed and writes to it; what of it could not be written is tried again later.
    ///
    /// # Errors
    /// As [`visit::visit`]; it was logged already.
    pub fn visit(
        &mut self,
        agent: &mut Agent,
        path: &Path,
        now: Instant,
    ) -> Result<(), AgentError> {
        let place = self.place(path, now);
        let visited = visit::visit(agent, path, &mut place.there);
        match &visited {
            Err(error @ AgentError::Export(_)) => {
                place.problem = Some(error.to_string());
                place.attempts.failed(now, condition(path));
            }
            _ => place.problem = None,
        }
        visited
    }

    /// Writes what is newer to the places that are still there, where it is time.
    ///
    /// # Errors
    /// [`AgentError`] of the store; [`AgentError::Stopped`].
    pub fn write_newer(
        &mut self,
        agent: &mut Agent,
        places: &[PathBuf],
        now: Instant,
    ) -> Result<(), AgentError> {
        self.places.retain(|path, _| places.contains(path));
        if !agent.config.export_to_media {
            return Ok(());
        }
        for path in places {
            let place = self.place(path, now);
            if !place.attempts.is_due(now, || condition(path)) {
                continue;
            }
            let shown = text::path(path);
            match visit::write_newer(agent, path, &mut place.there) {
                Err(error @ (AgentError::State(_) | AgentError::Stopped)) => return Err(error),
                // Nothing to write is no reason to wait for what comes.
                Ok(None) => {}
                Ok(Some(done)) => {
                    let count = done.reports + done.former;
                    tracing::info!("`{shown}`: {count} newer reports written");
                    place.attempts.worked(now);
                    place.problem = None;
                }
                Err(error) => {
                    let problem = Some(error.to_string());
                    if problem != place.problem {
                        tracing::warn!("`{shown}`: newer reports were not written: {error}");
                        place.problem = problem;
                    }
                    place.attempts.failed(now, condition(path));
                }
            }
        }
        Ok(())
    }

    /// What is on which place, for one line; `None` when there is nothing to say.
    pub fn sentence(&self) -> Option<String> {
        let mut parts = Vec::new();
        for (path, place) in &self.places {
            let path = text::path(path);
            match (&place.problem, place.there.last()) {
                (Some(_), _) => parts.push(format!("reports cannot be written to `{path}`")),
                (None, 0) => {}
                (None, last) => parts.push(format!("reports up to {last} are on `{path}`")),
            }
        }
        parts.truncate(MAX_NAMED);
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    fn place(&mut self, path: &Path, now: Instant) -> &mut ExportFolder {
        self.places
            .entry(path.to_owned())
            .or_insert_with(|| ExportFolder {
                there: OnMedium::default(),
                attempts: Attempts::new(now),
                problem: None,
            })
    }
}

fn condition(path: &Path) -> Condition {
    let system = statvfs(path).ok();
    Condition {
        free: system.as_ref().map_or(0, |system| system.f_bavail),
        read_only: system.is_some_and(|system| system.f_flag.contains(StatVfsMountFlags::RDONLY)),
        folder: Media::open(path)
            .ok()
            .and_then(|media| media.marks(Path::new("reports"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn a_place_that_cannot_be_written_to_is_tried_with_pauses_from_ten_seconds_to_an_hour() {
        let mut now = Instant::now();
        let mut attempts = Attempts::new(now);
        assert!(attempts.is_due(now, || 0));
        let mut pauses = Vec::new();
        for _ in 0..12 {
            attempts.failed(now, 0);
            let pause = attempts.next - now;
            let just_before = pause.saturating_sub(Duration::from_millis(1));
            assert!(!attempts.is_due(now + just_before, || 0));
            now += pause;
            assert!(attempts.is_due(now, || 0));
            pauses.push(pause.as_secs());
        }
        assert_eq!(
            pauses,
            [10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600, 3600]
        );
        // What was written begins again.
        attempts.worked(now);
        assert!(!attempts.is_due(now + Duration::from_secs(9), || 0));
        assert!(attempts.is_due(now + Duration::from_secs(10), || 0));
        attempts.failed(now, 0);
        assert_eq!(attempts.next - now, FIRST_PAUSE);
    }

    #[test]
    fn what_somebody_did_about_it_ends_the_pause() {
        let now = Instant::now();
        let mut attempts = Attempts::new(now);
        for _ in 0..20 {
            attempts.failed(now, "full");
        }
        let soon = now + FIRST_PAUSE;
        assert!(!attempts.is_due(soon, || "full"));
        assert!(attempts.is_due(soon, || "free"));
        // A stick that someone else copies to all the time is not hammered.
        assert!(!attempts.is_due(now + Duration::from_secs(1), || "free"));
        assert!(attempts.is_due(now + HOUR, || "full"));
    }
}
