//! What came of an assignment, in the size that a report can carry, and what would change.
//!
//! What comes in: a status, a message, steps. What goes out: an [`AssignmentResult`] whose texts and number of
//! steps are bounded, and [`Change`]s of a plan. It decides nothing.

use outhaul_bundle::report::{AssignmentResult, ComplianceStatus, StepResult};

use crate::assignment::Desired;
use crate::error::ApplyError;
use crate::sealed::SealedError;

/// One thing that would change.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Change {
    /// `add`, `change`, `remove`, `run`, or `apply` where nothing shows what was applied before.
    pub action: &'static str,
    /// The file or playbook.
    pub item: String,
}

/// Why the work on an assignment ended before its end.
#[derive(Debug)]
pub(crate) enum Stop {
    /// This host is the reason: nothing of this kind can be applied.
    Site(ApplyError),
    /// The assignment is: its steps so far, and why.
    Assignment(Vec<StepResult>, String),
}

impl Stop {
    /// The assignment is the reason.
    pub(crate) fn failed(why: impl Into<String>) -> Self {
        Self::Assignment(Vec::new(), why.into())
    }

    /// What is sealed cannot be opened: the disk is this host's trouble, anything else the assignment's.
    pub(crate) fn sealed(error: SealedError) -> Self {
        match error.of_the_disk() {
            Ok(error) => Self::Site(error.into()),
            Err(error) => Self::failed(error.to_string()),
        }
    }
}

impl<E: Into<ApplyError>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Site(error.into())
    }
}

/// What fails an assignment is its result; what this host lacks is an error.
pub(crate) fn of_assignment(
    desired: &Desired,
    done: Result<AssignmentResult, Stop>,
) -> Result<AssignmentResult, ApplyError> {
    match done {
        Ok(found) => Ok(found),
        Err(Stop::Site(error)) => Err(error),
        Err(Stop::Assignment(steps, why)) => Ok(failed(desired, &why, steps)),
    }
}

/// Longest text of one message in a report, in bytes.
const MAX_MESSAGE_BYTES: usize = 500;
/// Most steps that an assignment's result lists.
pub const MAX_STEPS: usize = 100;

/// Steps in the size that a report can carry: the telling ones first to stay, each text bounded.
pub fn bounded(mut steps: Vec<StepResult>) -> Vec<StepResult> {
    if steps.len() > MAX_STEPS {
        let quiet = |step: &StepResult| matches!(step.status.as_str(), "ok" | "skipped");
        let mut surplus = steps.len() - MAX_STEPS;
        steps.retain(|step| {
            let drop = surplus > 0 && quiet(step);
            surplus -= usize::from(drop);
            !drop
        });
        steps.truncate(MAX_STEPS);
    }
    for step in &mut steps {
        step.name = shortened(&step.name);
        step.message = shortened(&step.message);
    }
    steps
}

/// A result in the size that a report can carry.
pub fn result(
    desired: &Desired,
    status: ComplianceStatus,
    message: &str,
    steps: Vec<StepResult>,
) -> AssignmentResult {
    AssignmentResult {
        name: desired.assignment.name.clone(),
        status,
        config_version: desired.assignment.config_version,
        message: shortened(message),
        steps: bounded(steps),
    }
}

/// The result of an assignment that failed.
pub fn failed(desired: &Desired, message: &str, steps: Vec<StepResult>) -> AssignmentResult {
    result(desired, ComplianceStatus::Failed, message, steps)
}

/// Adds what is said of things that are well to the steps by which they were applied.
pub fn add_messages(result: &mut AssignmentResult, said: Vec<StepResult>) {
    for said in said.into_iter().filter(|said| !said.message.is_empty()) {
        let mut steps = result.steps.iter_mut();
        let Some(step) = steps.find(|step| step.name == said.name) else {
            continue;
        };
        step.message = match step.message.as_str() {
            "" => said.message,
            before if before.contains(&said.message) => continue,
            before => shortened(&format!("{before}; {}", said.message)),
        };
    }
}

/// Adds what was done later to a result, and what is to be said of it.
pub fn add_steps(result: &mut AssignmentResult, later: AssignmentResult) {
    let room = MAX_STEPS.saturating_sub(result.steps.len());
    result.steps.extend(later.steps.into_iter().take(room));
    if !later.message.is_empty() {
        result.message = later.message;
    }
}

/// A step of a result.
pub fn step(name: impl Into<String>, status: &str, message: impl Into<String>) -> StepResult {
    StepResult {
        name: name.into(),
        status: status.to_owned(),
        message: message.into(),
    }
}

/// At most [`MAX_MESSAGE_BYTES`], with `…` where something was left out.
pub fn shortened(text: &str) -> String {
    let text = text.trim();
    if text.len() <= MAX_MESSAGE_BYTES {
        return text.to_owned();
    }
    let mut end = MAX_MESSAGE_BYTES;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &text[..end])
}
