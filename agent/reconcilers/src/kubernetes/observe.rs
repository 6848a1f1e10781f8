//! Looking at what was applied: whether it is as it was applied, and how it does.
//!
//! What comes in: an assignment's objects and the inventory. What goes out: one verdict on the assignment, with a step
//! for each object that has something to say. It changes nothing but the annotation by which a controller is asked to
//! look, so that one that has stopped is noticed at the next look.

use outhaul_bundle::report::{AssignmentResult, ComplianceStatus, StepResult};
use outhaul_kit::heartbeat::Heartbeat;
use outhaul_kubernetes::Health;

use super::inspect::{self, InspectedObject, ObjectState};
use super::objects::DesiredObjects;
use super::ownership::Owner;
use super::{Kubernetes, redacted_result};
use crate::assignment::Desired;
use crate::inventory::Item;
use crate::outcome::{Stop, step};

/// What was seen of the objects of one assignment.
#[derive(Debug, Default)]
pub(crate) struct ObjectsSeen {
    count: usize,
    drifted: Vec<StepResult>,
    sick: Vec<StepResult>,
    late: Vec<StepResult>,
    well: Vec<StepResult>,
}

impl ObjectsSeen {
    /// One more object.
    pub(crate) fn add(&mut self, name: String, state: ObjectState) {
        self.count += 1;
        match state {
            ObjectState::Drifted(why) | ObjectState::ChangedBeneath(why) => {
                self.drifted.push(step(name, "changed", why));
            }
            ObjectState::AsApplied(Health::Ready, words) => {
                if !words.is_empty() {
                    self.well.push(step(name, "ok", words));
                }
            }
            ObjectState::AsApplied(Health::Waiting(why) | Health::Silent(why), _) => {
                self.late.push(step(name, "skipped", why));
            }
            ObjectState::AsApplied(Health::Failed(why) | Health::Failing(why), _) => {
                self.sick.push(step(name, "failed", why));
            }
        }
    }

    /// The verdict on all of them, as what was `done` with them: `applied`, `deployed`.
    pub(crate) fn verdict(mut self, done: &str) -> (ComplianceStatus, String, Vec<StepResult>) {
        let count = self.count;
        if !self.drifted.is_empty() {
            let message = format!(
                "{} of {count} objects are not as {done}",
                self.drifted.len()
            );
            (ComplianceStatus::Drifted, message, self.drifted)
        } else if let Some(first) = self.sick.first() {
            let message = format!("`{}`: {}", first.name, first.message);
            (ComplianceStatus::Failed, message, self.sick)
        } else if let Some(first) = self.late.first() {
            let message = format!("not ready: `{}`: {}", first.name, first.message);
            (ComplianceStatus::InProgress, message, self.late)
        } else {
            let mut steps = vec![step(format!("{count} objects"), "ok", "")];
            steps.append(&mut self.well);
            (ComplianceStatus::Compliant, String::new(), steps)
        }
    }
}

impl Kubernetes {
    pub(super) fn observe_all(
        &self,
        desired: &Desired,
        mut all: DesiredObjects,
        recorded: &[Item],
        ask: bool,
        heartbeat: &Heartbeat,
    ) -> Result<AssignmentResult, Stop> {
        let cluster = self.cluster()?;
        let owner = Owner::of(desired);
        inspect::prepare(&cluster, &*self.controller, &mut all, &owner)?;
        let mut seen = ObjectsSeen::default();
        for wanted in &all.objects {
            heartbeat.beat();
            let key = &wanted.object.key;
            let mark = inspect::mark_of(recorded, key);
            // What someone changed beneath says nothing about a bundle that has just been applied.
            let controller = &*self.controller;
            let state = inspect::drift(&cluster, controller, wanted, mark.as_ref(), ask)?;
            seen.add(key.to_string(), state);
        }
        // A controller that has stopped says for ever what it said last: whether it answers is seen at the next look.
        if ask {
            let objects = all.objects.iter().map(|wanted| &wanted.object);
            self.ask_for_attention(&cluster, desired, objects)?;
        }
        let (status, message, steps) = seen.verdict("applied");
        Ok(redacted_result(desired, &all, status, &message, steps))
    }

    pub(super) fn health_all(
        &self,
        desired: &Desired,
        mut all: DesiredObjects,
        recorded: &[Item],
        heartbeat: &Heartbeat,
    ) -> Result<AssignmentResult, Stop> {
        let cluster = self.cluster()?;
        let owner = Owner::of(desired);
        inspect::prepare(&cluster, &*self.controller, &mut all, &owner)?;
        let patience = self.patience(&all);
        let objects: Vec<InspectedObject> =
            all.objects.drain(..).map(InspectedObject::unseen).collect();
        match self.wait(&cluster, objects.iter(), patience, heartbeat)? {
            Ok(()) => Ok(self.with_read(desired, |all| {
                self.observe_all(desired, all, recorded, false, heartbeat)
            })?),
            Err(why) => Err(self.unready(why, Vec::new(), patience)),
        }
    }
}
