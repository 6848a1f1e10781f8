//! Waiting for the cluster: for objects to be ready, for a kind to be known.
//!
//! What comes in: objects that were applied. What goes out: that they are ready, or what kept one from it. It
//! changes nothing, and ends early when the agent is to end.

use std::time::{Duration, Instant};

use outhaul_kit::pulse::Pulse;
use outhaul_kubernetes::{Cluster, Health, Resource, health};

use super::Kubernetes;
use super::look::{self, Looked};
use crate::error::ApplyError;

/// Between two looks at what is not ready.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// What kept an object from being ready in time.
pub enum Unready {
    /// It will not be ready.
    Failed(String),
    /// It is not ready yet.
    Late(String),
}

impl Kubernetes {
    /// Waits until `objects` are ready.
    pub(super) fn wait<'a>(
        &self,
        cluster: &Cluster,
        objects: impl Iterator<Item = &'a Looked> + Clone,
        patience: Duration,
        pulse: &Pulse,
    ) -> Result<Result<(), Unready>, ApplyError> {
        let until = Instant::now().checked_add(patience);
        loop {
            let mut waiting = None;
            for looked in objects.clone() {
                pulse.beat();
                let key = &looked.object.key;
                let found =
                    look::resource(cluster, &looked.object).and_then(|resource| match resource {
                        Some(resource) => cluster.get(&resource, key),
                        None => Ok(None),
                    });
                let verdict = match found? {
                    Some(found) => health::health(&found),
                    None => Health::Waiting("it is not there".into()),
                };
                match verdict {
                    Health::Ready => {}
                    Health::Waiting(why) => waiting = waiting.or(Some(format!("`{key}`: {why}"))),
                    Health::Failed(why) => {
                        return Ok(Err(Unready::Failed(format!("`{key}`: {why}"))));
                    }
                }
            }
            let Some(waiting) = waiting else {
                return Ok(Ok(()));
            };
            if pulse.stopping() {
                return Err(ApplyError::Stopped);
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                return Ok(Err(Unready::Late(waiting)));
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// Where the API has an object's kind; one that was just defined may take a moment to be there.
    pub(super) fn resource(
        &self,
        cluster: &Cluster,
        looked: &Looked,
        patience: Duration,
        pulse: &Pulse,
    ) -> Result<Option<Resource>, ApplyError> {
        let until = Instant::now().checked_add(patience);
        loop {
            let found = look::resource(cluster, &looked.object)?;
            if found.is_some() || until.is_some_and(|until| Instant::now() >= until) {
                return Ok(found);
            }
            if pulse.stopping() {
                return Err(ApplyError::Stopped);
            }
            pulse.beat();
            std::thread::sleep(LOOK_AGAIN);
            cluster.forget_kinds();
        }
    }
}
