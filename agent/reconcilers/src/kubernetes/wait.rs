//! Waiting for the cluster: for objects to be ready, for a kind to be known.
//!
//! What comes in: objects that were applied. What goes out: that they are ready, or what kept one from it. It
//! changes nothing but the annotation by which a controller is asked to look, and ends early when the agent is to
//! end.

use std::time::{Duration, Instant};

use outhaul_bundle::report::StepResult;
use outhaul_kit::heartbeat::Heartbeat;
use outhaul_kubernetes::{ClientError, Cluster, Health, Key, Object, Resource};
use serde_json::Value;

use super::Kubernetes;
use super::inspect::{self, InspectedObject};
use super::ownership::uid_of;
use crate::assignment::Desired;
use crate::error::ApplyError;
use crate::outcome::Stop;

/// Between two looks at what is not ready.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// The next request for a bundle whose requests begin with `base`, after the one that is there; `None` while
/// that one still waits for its answer.
fn next_request(base: &str, before: Option<&str>, answered: bool) -> Option<String> {
    let Some(rest) = before.and_then(|before| before.strip_prefix(base)) else {
        return Some(base.to_owned());
    };
    answered.then(|| {
        let count = rest.strip_prefix('-').and_then(|count| count.parse().ok());
        let next = count.unwrap_or(1_u64).saturating_add(1);
        format!("{base}-{next}")
    })
}

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
                if let Some(nothing) = self.controller.nothing_to_fetch_from() {
                    return Stop::Site(nothing);
                }
                let why = format!("not ready after {} s: {why}", patience.as_secs());
                Stop::Assignment(steps, why)
            }
            Unready::Silent(why) => Stop::Site(self.controller.not_responding(&why)),
        }
    }

    /// Asks the controller to look at each object now: what it fetches, or what it made, may be another, though
    /// nothing in the objects is. A request that is not answered yet stays as it is.
    pub(super) fn ask_for_attention<'a>(
        &self,
        cluster: &Cluster,
        desired: &Desired,
        objects: impl Iterator<Item = &'a Object>,
    ) -> Result<(), Stop> {
        let index = self.site.index(desired.generation)?.hex();
        let index = index.get(..12).unwrap_or_default();
        let value = format!("outhaul-bundle-{}-{index}", desired.generation);
        for object in objects {
            let key = &object.key;
            if self.controller.request(key).is_some()
                && let Some(resource) = inspect::resource(cluster, object)?
                && let Some(found) = cluster.get(&resource, key)?
            {
                self.request(cluster, &resource, key, &found, &value)?;
                for (key, found) in self.controller.made(cluster, key, uid_of(&found))? {
                    if let Some(resource) = cluster.resource_of(&key)? {
                        self.request(cluster, &resource, &key, &found, &value)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn request(
        &self,
        cluster: &Cluster,
        resource: &Resource,
        key: &Key,
        found: &Value,
        value: &str,
    ) -> Result<(), ClientError> {
        let Some(annotation) = self.controller.request(key) else {
            return Ok(());
        };
        let before = found["metadata"]["annotations"][annotation].as_str();
        let answered = self.controller.has_answered(found);
        if let Some(value) = next_request(value, before, answered) {
            cluster.annotate(resource, key, annotation, &value)?;
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

#[cfg(test)]
mod tests {
    use super::next_request;

    #[test]
    fn an_answered_request_is_made_anew_and_an_open_one_stays() {
        let next = |before, answered| next_request("outhaul-bundle-2-ab", before, answered);
        let is = |text: &str| Some(text.to_owned());
        assert_eq!(next(None, true), is("outhaul-bundle-2-ab"));
        assert_eq!(
            next(Some("outhaul-bundle-1-cd"), false),
            is("outhaul-bundle-2-ab")
        );
        assert_eq!(next(Some("outhaul-bundle-2-ab"), false), None);
        assert_eq!(
            next(Some("outhaul-bundle-2-ab"), true),
            is("outhaul-bundle-2-ab-2")
        );
        assert_eq!(
            next(Some("outhaul-bundle-2-ab-9"), true),
            is("outhaul-bundle-2-ab-10")
        );
    }
}
