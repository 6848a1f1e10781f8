//! Looking at what was applied: whether it is as it was applied, and how it does.
//!
//! What comes in: an assignment's objects and the inventory. What goes out: one verdict on the assignment, with a step
//! for each object that has something to say. It changes nothing but the annotation by which a controller is asked to
//! look, so that one that has stopped is noticed at the next look.

use outhaul_bundle::report::{AssignmentResult, ComplianceStatus};
use outhaul_kit::heartbeat::Heartbeat;
use outhaul_kubernetes::Health;

use super::inspect::{self, InspectedObject};
use super::objects::DesiredObjects;
use super::ownership::Owner;
use super::{Kubernetes, redacted_result};
use crate::assignment::Desired;
use crate::inventory::Item;
use crate::outcome::{Stop, step};

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
        let (mut drifted, mut sick, mut late) = (Vec::new(), Vec::new(), Vec::new());
        let mut well = Vec::new();
        for wanted in &all.objects {
            heartbeat.beat();
            let key = &wanted.object.key;
            let mark = inspect::mark_of(recorded, key);
            match inspect::drift(&cluster, &*self.controller, wanted, mark.as_ref())? {
                inspect::ObjectState::Drifted(why) => {
                    drifted.push(step(key.to_string(), "changed", why));
                }
                inspect::ObjectState::AsApplied(Health::Ready, words) => {
                    if !words.is_empty() {
                        well.push(step(key.to_string(), "ok", words));
                    }
                }
                inspect::ObjectState::AsApplied(Health::Waiting(why) | Health::Silent(why), _) => {
                    late.push(step(key.to_string(), "skipped", why));
                }
                inspect::ObjectState::AsApplied(Health::Failed(why) | Health::Failing(why), _) => {
                    sick.push(step(key.to_string(), "failed", why));
                }
            }
        }
        // A controller that has stopped says for ever what it said last: whether it answers is seen at the next look.
        if ask {
            let objects = all.objects.iter().map(|wanted| &wanted.object);
            self.ask_for_attention(&cluster, desired, objects)?;
        }
        let all_of_them = all.objects.len();
        let (status, message, steps) = if !drifted.is_empty() {
            let message = format!(
                "{} of {all_of_them} objects are not as applied",
                drifted.len()
            );
            (ComplianceStatus::Drifted, message, drifted)
        } else if let Some(first) = sick.first() {
            let message = format!("`{}`: {}", first.name, first.message);
            (ComplianceStatus::Failed, message, sick)
        } else if let Some(first) = late.first() {
            let message = format!("not ready: `{}`: {}", first.name, first.message);
            (ComplianceStatus::InProgress, message, late)
        } else {
            let mut steps = vec![step(format!("{all_of_them} objects"), "ok", "")];
            steps.append(&mut well);
            (ComplianceStatus::Compliant, String::new(), steps)
        };
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
