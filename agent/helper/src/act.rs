//! What a request does: apply, observe, look at health, remove, each on what was accepted and by the helper's own
//! inventory.
//!
//! What comes in: a request that was understood. What goes out: its answer. An assignment is removed only
//! when the signed index that is named does not have it, and then what the inventory lists of it, and
//! nothing else. The reconciler is the one that the helper's own settings and the signed index name.

use outhaul_reconcilers::outcome::MAX_STEPS;
use std::collections::BTreeMap;

use outhaul_bundle::Index;
use outhaul_bundle::index::DriftPolicy;
use outhaul_bundle::report::ComplianceStatus;
use outhaul_reconcilers::marks::Marks;
use outhaul_reconcilers::outcome::result;
use outhaul_reconcilers::remote::protocol::{HelperAnswer, HelperRequest, HelperVerb, Remaining};
use outhaul_reconcilers::{Desired, Item, Phase, Reconciler, shortened};
use outhaul_values::file::{self, PutError};

use super::{Helper, RequestFailure, refused};
use crate::apply;
use crate::cut;
use crate::generation::{self, GenerationError};
use crate::state::StateError;
use crate::state::inventory;

impl Helper {
    /// Carries out one request.
    pub(super) fn perform(
        &mut self,
        request: &HelperRequest,
    ) -> Result<HelperAnswer, RequestFailure> {
        let index = self.accepted(request.number, &request.index)?;
        if request.verb == HelperVerb::Remove {
            return self.remove(&index, request);
        }
        let name = request.assignment.as_str();
        let all = generation::desired(&self.state_folder, &index, &self.site.name);
        let desired = all.into_iter().find(|d| d.assignment.name.as_str() == name);
        let Some(mut desired) = desired else {
            return Err(refused(
                "assignment",
                format!(
                    "bundle {} has no assignment `{name}` for this site",
                    index.number
                ),
            ));
        };
        // A person on site, or the stream itself, has it taken back; which bytes are applied, the index says.
        if request.verb == HelperVerb::Correct {
            desired.drift = DriftPolicy::Correct;
        }
        let assignment = &desired.assignment;
        let reconciler =
            apply::for_assignment(&index, assignment, &self.config, &self.state_folder)?;
        self.act(
            (request.verb, &request.values),
            reconciler.as_ref(),
            &desired,
        )
    }

    fn act(
        &mut self,
        (verb, values): (HelperVerb, &BTreeMap<String, String>),
        reconciler: &dyn Reconciler,
        desired: &Desired,
    ) -> Result<HelperAnswer, RequestFailure> {
        // A disk may lie, the helper's own, too: its copy is made again from the agent's.
        if let Err(torn) = self.check_copy(verb, desired) {
            crate::durable::remove_tree(&self.state_folder.generation(desired.generation))?;
            return Err(RequestFailure::Unable {
                problem: format!("the apply helper's copy is damaged: {torn}"),
                help: "check the disk; the next try copies it again".into(),
            });
        }
        // What the agent's half says this site set is used as far as the signed index allows it.
        let own = file::with_values(desired, values);
        let own = own.map_err(|problem| match problem {
            PutError::File(error) => error.into(),
            PutError::Value(error) => refused("values", error.to_string()),
        })?;
        let desired = &own;
        let name = desired.assignment.name.as_str();
        let recorded = self.recorded(reconciler.kind(), name)?;
        Ok(HelperAnswer::Result(match verb {
            HelperVerb::Apply | HelperVerb::Correct => {
                reconciler.ready()?;
                let result =
                    reconciler.apply(desired, &recorded, &mut self.store, &self.heartbeat)?;
                cut::here("helper-applied");
                let items = match reconciler.items(desired).is_empty() {
                    true => Some(self.recorded(reconciler.kind(), name)?),
                    false => None,
                };
                return Ok(HelperAnswer::Applied { result, items });
            }
            HelperVerb::Prune => {
                let pruned =
                    reconciler.prune(desired, &recorded, &mut self.store, &self.heartbeat)?;
                let nothing = || result(desired, ComplianceStatus::Compliant, "", Vec::new());
                let items = Some(self.recorded(reconciler.kind(), name)?);
                let result = pruned.unwrap_or_else(nothing);
                return Ok(HelperAnswer::Applied { result, items });
            }
            HelperVerb::Prepare => {
                reconciler.prepare(desired, &self.heartbeat)?;
                None
            }
            HelperVerb::Observe => Some(reconciler.observe(desired, &recorded, &self.heartbeat)?),
            HelperVerb::Health | HelperVerb::Remove => {
                reconciler.health(desired, &recorded, &self.heartbeat)?
            }
        }))
    }

    /// Compares the helper's copy with the index. To look at the host, what is as it was when it was read is not read again.
    fn check_copy(&self, verb: HelperVerb, desired: &Desired) -> Result<(), GenerationError> {
        if !matches!(verb, HelperVerb::Observe) {
            return generation::check(desired);
        }
        let mut marks = Marks::open(
            &generation::marks(&self.state_folder, desired.generation),
            &format!("contents-{}", desired.assignment.name),
            self.config.drift_read(),
        );
        generation::check_by(desired, &mut marks)?;
        marks.keep();
        Ok(())
    }

    fn recorded(&self, kind: &str, name: &str) -> Result<Vec<Item>, StateError> {
        let mut recorded = inventory::items(self.store.read(), Some(name))?;
        recorded.retain(|item| item.kind == kind);
        Ok(recorded)
    }

    fn remove(
        &mut self,
        index: &Index,
        request: &HelperRequest,
    ) -> Result<HelperAnswer, RequestFailure> {
        let name = request.assignment.as_str();
        if index.assignments.iter().any(|a| a.name.as_str() == name) {
            return Err(refused(
                "assignment",
                format!(
                    "bundle {} has the assignment `{name}`: it is not removed",
                    index.number
                ),
            ));
        }
        let mut kinds: BTreeMap<String, Vec<Item>> = BTreeMap::new();
        for item in inventory::present(self.store.read(), Some(name))? {
            kinds.entry(item.kind.clone()).or_default().push(item);
        }
        let mut steps = Vec::new();
        for (kind, items) in kinds {
            let settings = apply::for_items_of(&kind, &self.config);
            let reconciler = apply::reconciler(&kind, &settings, &self.state_folder)?;
            steps.extend(reconciler.remove(
                index.number,
                name,
                &items,
                &mut self.store,
                &self.heartbeat,
            )?);
        }
        cut::here("helper-removed");
        // What went wrong first.
        steps.sort_by_key(|step| !matches!(step.status.as_str(), "failed" | "skipped"));
        steps.truncate(MAX_STEPS);
        for step in &mut steps {
            step.name = shortened(&step.name);
            step.message = shortened(&step.message);
        }
        let rest = self.rest(name)?;
        Ok(HelperAnswer::Removed { steps, rest })
    }

    fn rest(&self, name: &str) -> Result<Remaining, StateError> {
        let items = inventory::items(self.store.read(), Some(name))?;
        Ok(match items.iter().any(|item| item.phase != Phase::Left) {
            true => Remaining::Some,
            false if items.is_empty() => Remaining::Nothing,
            false => Remaining::Left,
        })
    }
}
