//! The folder reconciler: files written where k3s, Quadlet or a script watches.
//!
//! What comes in: an assignment. What goes out: `<target>/<assignment>/<rendered file>` and
//! `<target>/<assignment>/payload/<payload file>`, each whole or untouched, with an inventory row
//! committed before. It overwrites and removes only files of the inventory; a file of someone else in
//! the way is a failed result that names it. It follows no link below the target.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use outhaul_bundle::Digest;
use outhaul_bundle::report::{AssignmentResult, ComplianceStatus, StepResult};
use rustix::fs::Access;
use zeroize::Zeroizing;

use outhaul_kit::durable::FileError;
use outhaul_kit::heartbeat::Heartbeat;

use crate::assignment::Desired;
use crate::context::ReconcilerContext;
use crate::error::ApplyError;
use crate::inventory::{Item, Ledger};
use crate::marks::{FULL_READ, Marks};
use crate::outcome::{Change, failed, result, step};
use crate::reconciler::Reconciler;
use crate::sealed::{Keys, SealedError};

mod beneath;
mod observe;
mod writing;

use beneath::{Beneath, PathState};
use writing::Writing;

/// Its name in the index and the inventory.
pub const KIND: &str = "folder";

/// The reconciler.
#[derive(Debug)]
pub struct Folder {
    target: PathBuf,
    site: Rc<dyn ReconcilerContext>,
    full_read: Duration,
}

/// One file to be.
struct DesiredFile {
    content: Digest,
    size: u64,
    executable: bool,
    from: PathBuf,
    /// The content with its sealed values opened; it exists only in memory and in the target.
    opened: Option<Zeroizing<String>>,
}

impl DesiredFile {
    /// Digest of what the target is to hold.
    fn in_target(&self) -> Digest {
        self.opened
            .as_ref()
            .map_or(self.content, |text| Digest::of(text.as_bytes()))
    }

    /// Its size in bytes.
    fn size_in_target(&self) -> u64 {
        self.opened
            .as_ref()
            .map_or(self.size, |text| text.len() as u64)
    }

    fn mode(&self) -> u32 {
        match (self.opened.is_some(), self.executable) {
            (true, true) => 0o700,
            (true, false) => 0o600,
            (false, true) => 0o755,
            (false, false) => 0o644,
        }
    }
}

impl Folder {
    /// A reconciler that writes below `target`.
    pub fn new(target: PathBuf, site: Rc<dyn ReconcilerContext>) -> Self {
        Self {
            target,
            site,
            full_read: FULL_READ,
        }
    }

    /// The same, which reads every byte after so long, whatever the file system says of a file.
    #[must_use]
    pub fn reading_all_every(self, full_read: Duration) -> Self {
        Self { full_read, ..self }
    }

    fn open_target(&self, create: bool) -> Result<Option<Beneath>, ApplyError> {
        Beneath::open(&self.target, create).map_err(|error| self.unusable(error.source))
    }

    fn unusable(&self, source: std::io::Error) -> ApplyError {
        ApplyError::Target {
            path: self.target.clone(),
            source,
        }
    }

    /// The files of an assignment that are in the target, as items of the inventory: first those with exactly
    /// the content that it wants, which an earlier state folder of this agent must have written, then those with
    /// another one.
    pub fn known_again(&self, desired: &Desired) -> (Vec<Item>, Vec<Item>) {
        let (Ok(wanted), Ok(Some(target))) = (self.opened(desired), self.open_target(false)) else {
            return Default::default();
        };
        let (mut same, mut changed) = (Vec::new(), Vec::new());
        for (path, file) in wanted {
            let found = match target.look(&path, Some(file.size_in_target())) {
                Ok(PathState::File(digest, _)) if digest == file.in_target() => &mut same,
                Ok(PathState::File(..) | PathState::OfSize(_) | PathState::Unreadable(_)) => {
                    &mut changed
                }
                _ => continue,
            };
            let item = Item::intent(KIND, desired, path, file.content.to_string());
            found.push(item.applied());
        }
        (same, changed)
    }

    /// The path of an item of the inventory on this host.
    pub fn path_of(&self, item: &Item) -> PathBuf {
        self.target.join(&item.item)
    }

    /// What is wanted, with sealed values opened.
    fn opened(&self, desired: &Desired) -> Result<BTreeMap<String, DesiredFile>, SealedError> {
        let mut wanted = wanted(desired);
        let keys = self.site.keys()?;
        for (shown, file) in &mut wanted {
            open(file, shown, keys.as_ref(), desired)?;
        }
        Ok(wanted)
    }
}

/// What is at the place of a wanted file.
enum Looked {
    /// The wanted file.
    Same,
    /// Nothing, or something that this agent may write over.
    Other,
    /// Someone else's.
    InTheWay(PathState),
}

fn look(
    target: &Beneath,
    (path, file): (&str, &DesiredFile),
    ours: &BTreeMap<&str, &Item>,
) -> Result<Looked, FileError> {
    let found = target.look(path, Some(file.size_in_target()))?;
    Ok(match found {
        PathState::File(digest, mode) if digest == file.in_target() && mode.is(file.mode()) => {
            Looked::Same
        }
        PathState::Nothing => Looked::Other,
        PathState::File(..) | PathState::OfSize(_) | PathState::Unreadable(_)
            if ours.contains_key(path) =>
        {
            Looked::Other
        }
        other => Looked::InTheWay(other),
    })
}

/// The name of the marks of an assignment.
fn marks_of(desired: &Desired) -> String {
    format!("folder-{}", desired.assignment.name)
}

/// Opens the sealed values of a file, where it has some.
fn open(
    file: &mut DesiredFile,
    shown: &str,
    keys: &dyn Keys,
    desired: &Desired,
) -> Result<(), SealedError> {
    let opened = keys.open_file(&file.from, shown, &desired.binding())?;
    file.opened = opened.map(|opened| opened.text);
    Ok(())
}

fn wanted(desired: &Desired) -> BTreeMap<String, DesiredFile> {
    let one = |(file, from, shown): (&outhaul_bundle::index::File, PathBuf, String)| {
        (
            shown,
            DesiredFile {
                content: file.content,
                size: file.size,
                executable: file.executable,
                from,
                opened: None,
            },
        )
    };
    desired.files().map(one).collect()
}

impl Reconciler for Folder {
    fn kind(&self) -> &'static str {
        KIND
    }

    /// The target is writable, or can be made: the nearest folder that exists says so.
    fn ready(&self) -> Result<(), ApplyError> {
        let mut nearest = self.target.as_path();
        while let (false, Some(parent)) = (nearest.exists(), nearest.parent()) {
            nearest = parent;
        }
        if nearest.as_os_str().is_empty() {
            nearest = Path::new(".");
        }
        if !nearest.is_dir() {
            return Err(self.unusable(std::io::ErrorKind::NotADirectory.into()));
        }
        rustix::fs::access(nearest, Access::WRITE_OK | Access::EXEC_OK)
            .map_err(|error| self.unusable(error.into()))
    }

    fn plan(&self, desired: &Desired, recorded: &[Item]) -> Vec<Change> {
        let wanted = wanted(desired);
        let known: BTreeMap<&str, &Item> = recorded
            .iter()
            .map(|item| (item.item.as_str(), item))
            .collect();
        let mut changes = Vec::new();
        for (path, file) in &wanted {
            let action = match known.get(path.as_str()) {
                None => "add",
                Some(item) if item.digest != file.content.to_string() => "change",
                Some(_) => continue,
            };
            changes.push(Change {
                action,
                item: path.clone(),
            });
        }
        let gone = known.keys().filter(|path| !wanted.contains_key(**path));
        changes.extend(gone.map(|path| Change {
            action: "remove",
            item: (*path).to_owned(),
        }));
        changes
    }

    fn plans_every_file(&self) -> bool {
        true
    }

    fn in_the_way(&self, desired: &Desired, recorded: &[Item]) -> Result<Vec<String>, ApplyError> {
        let Some(target) = self.open_target(false)? else {
            return Ok(Vec::new());
        };
        let ours: BTreeMap<&str, &Item> = recorded
            .iter()
            .map(|item| (item.item.as_str(), item))
            .collect();
        let mut found = Vec::new();
        for (path, file) in &wanted(desired) {
            match look(&target, (path, file), &ours) {
                Ok(Looked::InTheWay(other)) => {
                    let (what, kind) = foreign(&self.target.join(path), other);
                    found.push(format!("{what}{kind}; move it away first"));
                }
                Ok(Looked::Same | Looked::Other) => {}
                Err(error) if error.is_of_the_disk() => return Err(error.into()),
                Err(error) => found.push(error.to_string()),
            }
        }
        Ok(found)
    }

    fn absent(&self, desired: &Desired, recorded: &[Item]) -> Result<Vec<Change>, ApplyError> {
        self.absent_of(desired, recorded)
    }

    fn items(&self, desired: &Desired) -> Vec<Item> {
        let wanted = wanted(desired).into_iter();
        wanted
            .map(|(item, file)| Item::intent(KIND, desired, item, file.content.to_string()))
            .collect()
    }

    fn apply(
        &self,
        desired: &Desired,
        recorded: &[Item],
        ledger: &mut dyn Ledger,
        heartbeat: &Heartbeat,
    ) -> Result<AssignmentResult, ApplyError> {
        let assignment = desired.assignment.name.as_str();
        let wanted = match self.opened(desired).map_err(SealedError::of_the_disk) {
            Ok(wanted) => wanted,
            Err(Ok(error)) => return Err(error.into()),
            Err(Err(error)) => return Ok(failed(desired, &error.to_string(), Vec::new())),
        };
        let ours: BTreeMap<&str, &Item> = recorded
            .iter()
            .map(|item| (item.item.as_str(), item))
            .collect();
        let Some(target) = self.open_target(true)? else {
            return Ok(failed(
                desired,
                "the target folder is not there",
                Vec::new(),
            ));
        };

        // Look at everything before anything is written.
        let mut statuses = BTreeMap::new();
        for (path, file) in &wanted {
            heartbeat.beat();
            match look(&target, (path, file), &ours) {
                Ok(Looked::Same) => statuses.insert(path, "ok"),
                Ok(Looked::Other) => statuses.insert(path, "changed"),
                Ok(Looked::InTheWay(found)) => {
                    let message = in_the_way(&self.target.join(path), found, assignment);
                    return Ok(failed(desired, &message, vec![step(path, "failed", "")]));
                }
                Err(error) if error.is_of_the_disk() => return Err(error.into()),
                Err(error) => return Ok(failed(desired, &error.to_string(), Vec::new())),
            };
        }

        let mut intents = self.items(desired);
        for intent in &mut intents {
            if let Some(ours) = ours.get(intent.item.as_str()) {
                intent.before.clone_from(&ours.digest);
            }
        }
        ledger.intend(&intents)?;
        ledger.passed("inventory-intended");

        let mut steps = Vec::new();
        let mut writing = Writing::into(&target);
        let mut done = Ok(());
        for (path, file) in &wanted {
            heartbeat.beat();
            let status = statuses.get(path).copied().unwrap_or("changed");
            if status == "changed" {
                done = writing.add(path, file, &mut |instant| ledger.passed(instant));
            }
            if let Err(error) = &done {
                steps.push(step(path, "failed", error.to_string()));
                break;
            }
            if status == "ok" {
                target.discard_left(path);
            }
            steps.push(step(path, status, ""));
        }
        let done = done.and_then(|()| writing.finish(&mut |instant| ledger.passed(instant)));
        if let Err(error) = done {
            // No other bundle would do better: the work goes on when there is room again.
            if error.is_of_the_disk() {
                return Err(error.into());
            }
            steps.retain(|step| step.status != "changed" || !writing.lacks_name(&step.name));
            return Ok(failed(desired, &error.to_string(), steps));
        }
        drop(writing);
        let gone: Vec<Item> = recorded
            .iter()
            .filter(|item| !wanted.contains_key(&item.item))
            .cloned()
            .collect();
        let mut message = "";
        for removed in remove_files(&target, &gone, ledger)? {
            if removed.status != "removed" {
                message = "files of the generation before were left behind";
            }
            steps.push(removed);
        }
        ledger.confirm(KIND, assignment)?;
        Ok(result(desired, ComplianceStatus::Compliant, message, steps))
    }

    fn observe(
        &self,
        desired: &Desired,
        _recorded: &[Item],
        heartbeat: &Heartbeat,
    ) -> Result<AssignmentResult, ApplyError> {
        let folder = self.site.marks(desired.generation);
        let marks = Marks::open(&folder, &marks_of(desired), self.full_read);
        self.compare(desired, marks, heartbeat)
    }

    fn health(
        &self,
        desired: &Desired,
        _recorded: &[Item],
        heartbeat: &Heartbeat,
    ) -> Result<Option<AssignmentResult>, ApplyError> {
        // `status` asks for this, too: it writes nothing.
        let folder = self.site.marks(desired.generation);
        let marks = Marks::to_read(&folder, &marks_of(desired));
        self.compare(desired, marks, heartbeat).map(Some)
    }

    fn remove(
        &self,
        _instead: u64,
        _assignment: &str,
        recorded: &[Item],
        ledger: &mut dyn Ledger,
        _pulse: &Heartbeat,
    ) -> Result<Vec<StepResult>, ApplyError> {
        match self.open_target(false)? {
            Some(target) => remove_files(&target, recorded, ledger),
            None => {
                ledger.forget(recorded)?;
                Ok(recorded
                    .iter()
                    .map(|item| step(&item.item, "removed", ""))
                    .collect())
            }
        }
    }
}

/// What is at `path` is someone else's.
fn in_the_way(path: &Path, found: PathState, assignment: &str) -> String {
    let (what, kind) = foreign(path, found);
    format!("{what}; move it away, nothing of `{assignment}` was written{kind}")
}

/// That it is there, and what it is where that is no file.
fn foreign(path: &Path, found: PathState) -> (String, String) {
    let kind = match found {
        PathState::Other(what) => format!(": it is {what}"),
        _ => String::new(),
    };
    let what = format!("`{}` is there and is not Outhaul's", path.display());
    (what, kind)
}

/// Removes recorded files. What is not a plain file any more is someone else's and stays.
fn remove_files(
    target: &Beneath,
    items: &[Item],
    ledger: &mut dyn Ledger,
) -> Result<Vec<StepResult>, ApplyError> {
    let mut steps = Vec::new();
    let mut removed = Vec::new();
    for item in items {
        let outcome = match target.look(&item.item, None) {
            Ok(PathState::Other(what)) => Err(format!("{what} is in its place: left as it is")),
            Ok(_) => target.remove(&item.item).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match outcome {
            Ok(()) => {
                steps.push(step(&item.item, "removed", ""));
                removed.push(item.clone());
            }
            // It stays in the inventory, so that the next removal tries again.
            Err(message) => steps.push(step(&item.item, "failed", message)),
        }
    }
    if !removed.is_empty() {
        target.sync()?;
    }
    ledger.forget(&removed)?;
    Ok(steps)
}

#[cfg(test)]
mod marked_tests;
#[cfg(test)]
mod tests;
