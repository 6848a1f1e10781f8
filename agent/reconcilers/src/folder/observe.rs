//! What a folder holds, compared with what was applied.
//!
//! What comes in: an assignment, and the marks of the look before. What goes out: the assignment's result, with a step for each
//! file that differs. A file that is as its mark says is not read. It changes nothing in the target.

use outhaul_bundle::report::{AssignmentResult, ComplianceStatus, StepResult};
use outhaul_kit::durable::FileError;
use outhaul_kit::heartbeat::Heartbeat;

use super::beneath::PathState;
use super::{DesiredFile, Folder, open, wanted};
use crate::assignment::Desired;
use crate::error::ApplyError;
use crate::marks::Marks;
use crate::outcome::{failed, result, step};
use crate::sealed::SealedError;

impl Folder {
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
        let message = format!("{} of {count} files are not as applied", drifted.len());
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
            if known.is_some_and(|(stamp, executable)| {
                executable == file.executable && marks.knows(&path, &file.content, &stamp)
            }) {
                continue;
            }
            open(&mut file, &path, keys.as_ref(), desired)?;
            let size = file.size_in_target();
            let found = target.as_ref().map(|target| target.look(&path, Some(size)));
            match problem(found, &file) {
                Some(message) => drifted.push(step(&path, "changed", message)),
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

/// What is wrong with a file that was looked at; `None`: nothing.
fn problem(found: Option<Result<PathState, FileError>>, file: &DesiredFile) -> Option<String> {
    match found {
        Some(Ok(PathState::File(digest, executable))) if digest == file.in_target() => {
            (executable != file.executable).then(|| "its mode was changed".to_owned())
        }
        Some(Ok(PathState::File(digest, _))) => Some(format!("it was changed: {}", digest.short())),
        Some(Ok(PathState::OfSize(found))) => {
            let size = file.size_in_target();
            Some(format!(
                "it was changed: {found} bytes, and {size} were applied"
            ))
        }
        Some(Ok(PathState::Nothing)) | None => Some("it was removed".to_owned()),
        Some(Ok(PathState::Other)) => {
            Some("it was replaced by something that is not a file".to_owned())
        }
        Some(Err(error)) => Some(error.to_string()),
    }
}
