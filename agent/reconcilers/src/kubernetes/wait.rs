//! Waiting for the cluster: for objects to be ready, for a kind to be known.
//!
//! What comes in: objects that were applied. What goes out: that they are ready, or what kept one from it. It
//! changes nothing but the annotation by which a controller is asked to look, and ends early when the agent is to
//! end.

use std::time::{Duration, Instant};

use outhaul_bundle::report::StepResult;
use outhaul_kit::heartbeat::Heartbeat;
use outhaul_kubernetes::{Cluster, Health, Resource};

use super::Kubernetes;
use super::inspect::{self, InspectedObject};
use crate::assignment::Desired;
use crate::error::ApplyError;
use crate::outcome::Stop;

/// Between two looks at what is not ready.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// What kept an object from being ready in time.
pub enum Unready {
    /// It will not be ready.
    Failed(String),
    /// It is not ready yet.
    Late(String),
    /// Nobody who should has looked at it.
    Silent(String),
}

impl Kubernetes {
    /// Waits until `objects` are ready.
    pub(super) fn wait<'a>(
        &self,
        cluster: &Cluster,
        objects: impl Iterator<Item = &'a InspectedObject> + Clone,
        patience: Duration,
        heartbeat: &Heartbeat,
    ) -> Result<Result<(), Unready>, ApplyError> {
        let until = Instant::now().checked_add(patience);
        loop {
            let (mut waiting, mut silent) = (None, None);
            for looked in objects.clone() {
                heartbeat.beat();
                let key = &looked.object.key;
                let found =
                    inspect::resource(cluster, &looked.object).and_then(
                        |resource| match resource {
                            Some(resource) => cluster.get(&resource, key),
                            None => Ok(None),
                        },
                    );
                let verdict = match found? {
                    Some(found) => self.controller.health(cluster, key, &found)?,
                    None => Health::Waiting("it is not there".into()),
                };
                match verdict {
                    Health::Ready => {}
                    Health::Waiting(why) | Health::Failing(why) => {
                        waiting = waiting.or(Some(format!("`{key}`: {why}")));
                    }
                    Health::Silent(why) => silent = silent.or(Some(format!("`{key}`: {why}"))),
                    Health::Failed(why) => {
                        return Ok(Err(Unready::Failed(format!("`{key}`: {why}"))));
                    }
                }
            }
            let unready = match (silent, waiting) {
                (None, None) => return Ok(Ok(())),
                // Who says nothing is the reason for whatever waits for it.
                (Some(why), _) => Unready::Silent(why),
                (None, Some(why)) => Unready::Late(why),
            };
            if heartbeat.is_cancelled() {
                return Err(ApplyError::Stopped);
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                return Ok(Err(unready));
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// Why not all is ready, as the assignment's fault or the site's.
    pub(super) fn unready(&self, why: Unready, steps: Vec<StepResult>, patience: Duration) -> Stop {
        match why {
            Unready::Failed(why) => Stop::Assignment(steps, why),
            Unready::Late(why) => {
                let why = format!("not ready after {} s: {why}", patience.as_secs());
                Stop::Assignment(steps, why)
            }
            Unready::Silent(why) => Stop::Site(self.controller.not_responding(&why)),
        }
    }

    /// Asks the controller to look at each object now: what it fetches may be another, though nothing in the
    /// objects is. The same for the same bundle.
    pub(super) fn ask_for_attention(
        &self,
        cluster: &Cluster,
        desired: &Desired,
        looked: &[InspectedObject],
    ) -> Result<(), Stop> {
        let index = self.site.index(desired.generation)?.hex();
        let index = index.get(..12).unwrap_or_default();
        let value = format!("outhaul-bundle-{}-{index}", desired.generation);
        for one in looked {
            if let Some(annotation) = self.controller.request(&one.object.key)
                && let Some(resource) = inspect::resource(cluster, &one.object)?
            {
                cluster.annotate(&resource, &one.object.key, annotation, &value)?;
            }
        }
        Ok(())
    }

    /// Where the API has an object's kind; one that was just defined may take a moment to be there.
    pub(super) fn resource(
        &self,
        cluster: &Cluster,
        looked: &InspectedObject,
        patience: Duration,
        heartbeat: &Heartbeat,
    ) -> Result<Option<Resource>, ApplyError> {
        let until = Instant::now().checked_add(patience);
        loop {
            let found = inspect::resource(cluster, &looked.object)?;
            if found.is_some() || until.is_some_and(|until| Instant::now() >= until) {
                return Ok(found);
            }
            if heartbeat.is_cancelled() {
                return Err(ApplyError::Stopped);
            }
            heartbeat.beat();
            std::thread::sleep(LOOK_AGAIN);
            cluster.forget_kinds();
        }
    }
}
