//! What a folder holds, compared with what was applied.
//!
//! What comes in: an assignment, and the marks of the look before. What goes out: the assignment's result, with a step for each
//! file that differs. A file that is as its mark says is not read. It changes nothing in the target.

use std::path::Path;

use outhaul_bundle::report::{AssignmentResult, ComplianceStatus, StepResult};
use outhaul_kit::durable::FileError;
use outhaul_kit::heartbeat::Heartbeat;

use super::beneath::PathState;
use super::{DesiredFile, Folder, open, wanted};
use crate::assignment::Desired;
use crate::error::ApplyError;
use crate::inventory::Item;
use crate::marks::Marks;
use crate::outcome::{Change, failed, result, step};
use crate::sealed::SealedError;

impl Folder {
    /// Whether the target has an item of the inventory exactly as it was applied.
    pub fn is_as_recorded(&self, item: &Item) -> bool {
        let target = self.open_target(false).ok().flatten();
        let found = target.and_then(|target| target.look(&item.item, None).ok());
        matches!(found, Some(PathState::File(digest, _)) if digest.to_string() == item.digest)
    }

    /// What the inventory has as it is wanted, and what is not in the target.
    pub(super) fn absent_of(
        &self,
        desired: &Desired,
        recorded: &[Item],
    ) -> Result<Vec<Change>, ApplyError> {
        let target = self.open_target(false)?;
        let wanted = wanted(desired);
        let ours = recorded.iter().filter(|item| {
            let file = wanted.get(&item.item);
            file.is_some_and(|file| item.digest == file.content.to_string())
        });
        let mut absent = Vec::new();
        for item in ours {
            let is_absent = match target
                .as_ref()
                .map(|target| target.look(&item.item, Some(0)))
            {
                None | Some(Ok(PathState::Nothing)) => true,
                Some(Err(error)) if error.is_of_the_disk() => return Err(error.into()),
                // What else is there is not absent; what is in the way is named as such.
                Some(_) => false,
            };
            if is_absent {
                absent.push(Change {
                    action: "add",
                    item: item.item.clone(),
                });
            }
        }
        Ok(absent)
    }

    /// Compares one assignment with the target.
    pub(super) fn compare(
        &self,
        desired: &Desired,
        mut marks: Marks,
        heartbeat: &Heartbeat,
    ) -> Result<AssignmentResult, ApplyError> {
        let (count, drifted) = match self.differing(desired, &mut marks, heartbeat) {
            Ok(found) => found,
            Err(ObserveError::Sealed(error)) => {
                return Ok(failed(desired, &error.to_string(), Vec::new()));
            }
            Err(ObserveError::Apply(error)) => return Err(error),
        };
        marks.keep();
        if drifted.is_empty() {
            let steps = vec![step(format!("{count} files"), "ok", "")];
            return Ok(result(desired, ComplianceStatus::Compliant, "", steps));
        }
        let message = in_short(count, &drifted);
        Ok(result(
            desired,
            ComplianceStatus::Drifted,
            &message,
            drifted,
        ))
    }

    /// The files that are not as applied, with what is wrong with them. Those that are as their marks say are not read.
    fn differing(
        &self,
        desired: &Desired,
        marks: &mut Marks,
        heartbeat: &Heartbeat,
    ) -> Result<(usize, Vec<StepResult>), ObserveError> {
        let mut drifted = Vec::new();
        let wanted = wanted(desired);
        let count = wanted.len();
        let keys = self.site.keys()?;
        let target = self.open_target(false)?;
        for (path, mut file) in wanted {
            heartbeat.beat();
            // Only what has no sealed values has a mark: what they were is written nowhere.
            let known = target.as_ref().and_then(|target| target.stamp(&path));
            if known.is_some_and(|(stamp, mode)| {
                mode.is(file.mode()) && marks.knows(&path, &file.content, &stamp)
            }) {
                continue;
            }
            open(&mut file, &path, keys.as_ref(), desired)?;
            let size = file.size_in_target();
            let found = target.as_ref().map(|target| target.look(&path, Some(size)));
            let at = self.target.join(&path);
            match problem(found, &file, &at) {
                Some((status, message)) => drifted.push(step(&path, status, message)),
                None => {
                    if let (Some((stamp, _)), None) = (known, &file.opened) {
                        marks.record(&path, &file.content, &stamp);
                    }
                }
            }
        }
        Ok((count, drifted))
    }
}

/// Why files cannot be compared.
enum ObserveError {
    Sealed(SealedError),
    Apply(ApplyError),
}

impl From<SealedError> for ObserveError {
    fn from(error: SealedError) -> Self {
        Self::Sealed(error)
    }
}

impl From<ApplyError> for ObserveError {
    fn from(error: ApplyError) -> Self {
        Self::Apply(error)
    }
}

/// The step of a file that applying it again corrects.
const CHANGED: &str = "changed";

/// How many files the message names: the steps have all.
const MAX_NAMED: usize = 3;

/// How many files differ, and the first of them: first those that applying them again does not correct.
fn in_short(count: usize, drifted: &[StepResult]) -> String {
    let (corrected, stuck): (Vec<_>, Vec<_>) =
        drifted.iter().partition(|step| step.status == CHANGED);
    let first = stuck.iter().chain(&corrected).take(MAX_NAMED);
    let mut named: Vec<String> = first
        .map(|step| format!("`{}`: {}", step.name, step.message))
        .collect();
    if drifted.len() > MAX_NAMED {
        named.push(format!("{} more", drifted.len() - MAX_NAMED));
    }
    let (differ, named) = (drifted.len(), named.join("; "));
    format!("{differ} of {count} files are not as applied: {named}")
}

/// What is wrong with the file `at` a path that was looked at, and whether applying it again corrects that; `None`: nothing.
fn problem(
    found: Option<Result<PathState, FileError>>,
    file: &DesiredFile,
    at: &Path,
) -> Option<(&'static str, String)> {
    let wanted = file.mode();
    let other_mode = |mode| format!("its mode is {mode}, and {wanted:04o} was applied");
    let message = match found {
        Some(Ok(PathState::File(digest, mode))) if digest == file.in_target() => {
            if mode.is(wanted) {
                return None;
            }
            other_mode(mode)
        }
        Some(Ok(PathState::File(digest, _))) => format!("it was changed: {}", digest.short()),
        Some(Ok(PathState::OfSize(found))) => {
            let size = file.size_in_target();
            format!("it was changed: {found} bytes, and {size} were applied")
        }
        Some(Ok(PathState::Unreadable(mode))) => {
            format!("it cannot be read: {}", other_mode(mode))
        }
        Some(Ok(PathState::Nothing)) | None => "it is missing".to_owned(),
        Some(Ok(PathState::Other(what))) => {
            let message = format!(
                "{what} is in its place, which is not Outhaul's: move `{}` away",
                at.display()
            );
            return Some(("failed", message));
        }
        Some(Err(error)) => return Some(("failed", error.to_string())),
    };
    Some((CHANGED, message))
}
