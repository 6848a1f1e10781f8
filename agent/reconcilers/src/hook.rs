//! The hook reconciler: any other reconciler, as a program that the site's owner names.
//!
//! What comes in: an assignment. What goes out: what the program made of it, with an inventory row for each
//! thing that it named, committed before it acts. It is given six verbs as JSON (`docs/hooks.md`); what it
//! says is bounded and checked, and a program that breaks the contract is a failure with a name. Only what the
//! inventory lists is ever given to it for removal. No sealed value leaves in what it says.

use std::cell::OnceCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use outhaul_bundle::report::{AssignmentResult, ComplianceStatus, StepResult};
use outhaul_kit::heartbeat::Heartbeat;

use crate::assignment::Desired;
use crate::context::ReconcilerContext;
use crate::error::ApplyError;
use crate::inventory::{Item, Ledger};
use crate::outcome::{Stop, failed, of_assignment, result, step};
use crate::reconciler::Reconciler;
use crate::settings::HookConfig;

mod contract;
mod interpreter;
mod members;
mod program;
mod question;
mod runnable;

pub use program::{Changeable, LOOK_FIRST, changeable_by_others, startable, started};
pub use runnable::{NotRunnable, runnable};

use contract::{AssignmentDescription, HookAnswer, HookStatus, HookVerb, Message, StepStatus};
use program::HookReply;

/// The name under which a site takes streams of any kind with its program.
pub const KIND: &str = "hook";
/// Between two questions about what is not healthy yet.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// Between two looks at whether the agent is to stop.
const TICK: Duration = Duration::from_millis(50);

/// The reconciler.
#[derive(Debug)]
pub struct Hook {
    /// What the stream is rendered for, or [`KIND`].
    name: String,
    config: HookConfig,
    site: Rc<dyn ReconcilerContext>,
    ready: OnceCell<()>,
}

impl Hook {
    /// A reconciler called `name`, with the site's settings.
    pub fn new(name: &str, config: &HookConfig, site: Rc<dyn ReconcilerContext>) -> Self {
        Self {
            name: name.to_owned(),
            config: config.clone(),
            site,
            ready: OnceCell::new(),
        }
    }

    fn apply_or_stop(
        &self,
        desired: &Desired,
        recorded: &[Item],
        ledger: &mut dyn Ledger,
        heartbeat: &Heartbeat,
    ) -> Result<AssignmentResult, Stop> {
        // Whoever is broken altogether is this host's trouble, not the bundle's.
        self.ask_whether_ready(heartbeat)?;
        let plan = self.ask_about(HookVerb::Plan, desired, recorded, None, heartbeat)?;
        if plan.status == HookStatus::Failed {
            return Ok(verdict(desired, &plan));
        }
        let planned = plan
            .planned()
            .map_err(|how| Stop::failed(self.broken(&how)))?;
        let name = desired.assignment.name.as_str();
        let mut wanted = Vec::new();
        for planned in planned {
            if let Some(other) = ledger.other_holder(&self.name, name, &planned.item)? {
                return Err(Stop::failed(format!(
                    "the hook for `{}` wants the item `{}`, which belongs to the assignment `{other}`; nothing \
                     of `{name}` was applied",
                    self.name, planned.item
                )));
            }
            let known = recorded.iter().find(|known| known.item == planned.item);
            wanted.push(Item {
                before: known.map_or_else(String::new, |known| known.digest.clone()),
                ..Item::intent(&self.name, desired, planned.item, planned.digest)
            });
        }
        ledger.intend(&wanted)?;
        ledger.passed("inventory-intended");
        let done = self.ask_about(HookVerb::Apply, desired, recorded, Some(&wanted), heartbeat)?;
        ledger.passed("hook-applied");
        let mut found = verdict(desired, &done);
        if found.status != ComplianceStatus::Compliant {
            return Ok(found);
        }
        let is_wanted = |item: &&Item| wanted.iter().any(|new| new.item == item.item);
        let gone: Vec<Item> = recorded
            .iter()
            .filter(|item| !is_wanted(item))
            .cloned()
            .collect();
        if !gone.is_empty() {
            let steps = self.take_away(name, &gone, ledger, heartbeat)?;
            if let Some(left) = steps.iter().find(|step| step.status != "removed") {
                found.message = format!("`{}` was left behind: {}", left.name, left.message);
            }
            found.steps.extend(steps);
        }
        ledger.confirm(&self.name, name)?;
        Ok(result(desired, found.status, &found.message, found.steps))
    }

    /// Has these removed, and records in the ledger which were.
    fn take_away(
        &self,
        assignment: &str,
        items: &[Item],
        ledger: &mut dyn Ledger,
        heartbeat: &Heartbeat,
    ) -> Result<Vec<StepResult>, ApplyError> {
        let description = AssignmentDescription {
            name: assignment,
            generation: items.iter().map(|item| item.generation).max().unwrap_or(0),
            desired: None,
        };
        let message = Message {
            items: Some(contract::items(items)),
            ..self.message(HookVerb::Remove, Some(&description))
        };
        let all_failed = |why: &str| Ok(vec![step(assignment, "failed", why)]);
        let said = self.ask(&message, heartbeat)?;
        ledger.passed("hook-removed");
        let answer = match said {
            HookReply::Broken(how) => return all_failed(&self.broken(&how)),
            HookReply::Answer(answer, words) => match self.without(*answer, &words, &[]) {
                Ok(answer) => answer,
                Err(Stop::Site(error)) => return Err(error),
                Err(Stop::Assignment(_, how)) => return all_failed(&how),
            },
        };
        let given = |name: &str| items.iter().any(|item| item.item == name);
        if let Some(foreign) = answer.steps.iter().find(|step| !given(&step.item)) {
            let how = format!("it removed `{}`, which it was not given", foreign.item);
            return all_failed(&self.broken(&how));
        }
        let (mut removed, mut left, mut steps) = (Vec::new(), Vec::new(), Vec::new());
        for item in items {
            let found = answer.steps.iter().find(|step| step.item == item.item);
            match found.map(|step| step.status) {
                Some(StepStatus::Removed) => removed.push(item.clone()),
                Some(StepStatus::Left) => left.push(item.clone().left()),
                _ => {
                    let why = found.map_or("", |step| step.message.as_str());
                    let why = match why {
                        "" if answer.status == HookStatus::Failed => &answer.message,
                        "" => "the hook did not say that it removed it",
                        why => why,
                    };
                    steps.push(step(&item.item, "failed", why));
                    continue;
                }
            }
            steps.extend(found.map(contract::HookStep::to_result));
        }
        ledger.forget(&removed)?;
        ledger.intend(&left)?;
        Ok(steps)
    }
}

/// What an answer says of an assignment.
fn verdict(desired: &Desired, answer: &HookAnswer) -> AssignmentResult {
    let status = match answer.status {
        HookStatus::Ok | HookStatus::None => ComplianceStatus::Compliant,
        HookStatus::Drifted => ComplianceStatus::Drifted,
        HookStatus::Waiting => ComplianceStatus::InProgress,
        HookStatus::Failed | HookStatus::Unable => ComplianceStatus::Failed,
    };
    let steps = answer
        .steps
        .iter()
        .map(contract::HookStep::to_result)
        .collect();
    result(desired, status, &answer.message, steps)
}

impl Reconciler for Hook {
    fn kind(&self) -> &str {
        &self.name
    }

    fn ready(&self) -> Result<(), ApplyError> {
        self.ask_whether_ready(&Heartbeat::default())
    }

    fn runs_again(&self) -> bool {
        true
    }

    fn apply(
        &self,
        desired: &Desired,
        recorded: &[Item],
        ledger: &mut dyn Ledger,
        heartbeat: &Heartbeat,
    ) -> Result<AssignmentResult, ApplyError> {
        let done = self.apply_or_stop(desired, recorded, ledger, heartbeat);
        of_assignment(desired, done)
    }

    fn observe(
        &self,
        desired: &Desired,
        recorded: &[Item],
        heartbeat: &Heartbeat,
    ) -> Result<AssignmentResult, ApplyError> {
        let found = self.ask_about(HookVerb::Observe, desired, recorded, None, heartbeat);
        of_assignment(desired, found.map(|answer| verdict(desired, &answer)))
    }

    /// Asks until the program does not say `waiting` any more, or the time is up.
    fn health(
        &self,
        desired: &Desired,
        recorded: &[Item],
        heartbeat: &Heartbeat,
    ) -> Result<Option<AssignmentResult>, ApplyError> {
        let start = Instant::now();
        loop {
            let found = match self.ask_about(HookVerb::Health, desired, recorded, None, heartbeat) {
                Ok(answer) if answer.status == HookStatus::None => return Ok(None),
                Ok(answer) => verdict(desired, &answer),
                Err(stop) => return of_assignment(desired, Err(stop)).map(Some),
            };
            if found.status != ComplianceStatus::InProgress {
                return Ok(Some(found));
            }
            if start.elapsed() > Duration::from_secs(self.config.wait_s) {
                let message = format!(
                    "not ready after {} s: {}",
                    self.config.wait_s, found.message
                );
                return Ok(Some(failed(desired, &message, found.steps)));
            }
            let asked = Instant::now();
            while asked.elapsed() < ASK_AGAIN {
                if heartbeat.is_cancelled() {
                    return Err(ApplyError::Stopped);
                }
                heartbeat.beat();
                std::thread::sleep(TICK);
            }
        }
    }

    fn health_waits(&self) -> bool {
        true
    }

    fn remove(
        &self,
        _instead: u64,
        assignment: &str,
        recorded: &[Item],
        ledger: &mut dyn Ledger,
        heartbeat: &Heartbeat,
    ) -> Result<Vec<StepResult>, ApplyError> {
        self.take_away(assignment, recorded, ledger, heartbeat)
    }
}
