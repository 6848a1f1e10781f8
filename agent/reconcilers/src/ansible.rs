//! The Ansible reconciler: `ansible-playbook` on the host itself.
//!
//! What comes in: an assignment whose rendered files hold `namespace.yaml` and `reconciler.yaml`. What
//! goes out: both applied in this order, with each task's result; in check mode, what differs. The
//! playbooks get `outhaul_payload`, `outhaul_assignment` and `outhaul_generation`; roles and collections come from the bundle,
//! before those of the machine. A site that goes back runs the `rollback.yaml` of what it leaves first. An assignment that
//! leaves is removed by its own `remove.yaml`, kept for that purpose; without one, what it made stays
//! and the report says so. Nothing is ever removed by a pattern.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use outhaul_bundle::report::{AssignmentResult, ComplianceStatus, StepResult};
use outhaul_kit::durable;
use outhaul_kit::heartbeat::Heartbeat;
use zeroize::Zeroizing;

use crate::assignment::Desired;
use crate::context::ReconcilerContext;
use crate::error::ApplyError;
use crate::hook;
use crate::inventory::{Item, Ledger};
use crate::outcome::{Change, failed, result, step};
use crate::reconciler::Reconciler;
use crate::sealed::{Binding, Scratch, SealedError, copy_opened, struck_out};
use crate::settings::AnsibleConfig;

mod playbook;

use playbook::{PlaybookOutput, PlaybookRun};

/// Its name in the index and the inventory.
pub const KIND: &str = "ansible";
/// The playbooks of an assignment, in the order in which they run.
const PLAYBOOKS: [&str; 2] = ["namespace.yaml", "reconciler.yaml"];
/// The playbook that takes an assignment back.
const REMOVE: &str = "remove.yaml";
/// The playbook by which a site goes back from the bundle that brings it, before the playbooks of the one before run again.
const ROLLBACK: &str = "rollback.yaml";
/// The rendered file with the password of the workload's vaults.
const VAULT: &str = "vault-password";
/// Beside what is kept for removal: for which fleet, environment and workload it was.
const PLACE: &str = ".place.json";
/// Largest rendered file that is kept for removal, in bytes.
const MAX_KEPT_BYTES: u64 = 16 * 1024 * 1024;

/// The reconciler.
#[derive(Debug)]
pub struct Ansible {
    config: AnsibleConfig,
    site: Rc<dyn ReconcilerContext>,
    python: OnceCell<Option<PathBuf>>,
}

/// What was done to leave a newer bundle.
enum Back {
    /// There is none, or it brings no [`ROLLBACK`].
    Nothing,
    /// The files of this bundle are gone, and with them a [`ROLLBACK`], if it had one.
    Unknown(u64),
    /// That of this bundle was run.
    Ran(u64, PlaybookOutput),
}

impl Ansible {
    /// A reconciler with the site's settings.
    pub fn new(config: &AnsibleConfig, site: Rc<dyn ReconcilerContext>) -> Self {
        Self {
            config: config.clone(),
            site,
            python: OnceCell::new(),
        }
    }

    /// The Python that runs modules; each time looked at again, since it may be another program by now.
    fn python(&self) -> Result<PathBuf, ApplyError> {
        let python = match self.python.get() {
            Some(python) => python,
            None => {
                let found = playbook::python(self.config.python.as_deref())?;
                self.python.get_or_init(|| found)
            }
        };
        let gone = || playbook::gone(Path::new("python3"), "no working Python 3 was found");
        let python = python.as_deref().ok_or_else(gone)?;
        hook::startable(python, None)?.ok_or_else(gone)
    }

    /// `ansible-playbook`, looked at in the same way.
    fn program(&self) -> Result<PathBuf, ApplyError> {
        let program = &self.config.playbook_program;
        hook::startable(program, None)?
            .ok_or_else(|| playbook::gone(program, "it is not installed"))
    }

    fn run(
        &self,
        place: &AssignmentFolder<'_>,
        playbooks: &[&str],
        check: bool,
        heartbeat: &Heartbeat,
    ) -> Result<PlaybookOutput, ApplyError> {
        let (python, program) = (self.python()?, self.program()?);
        let opened = self
            .site
            .keys()
            .and_then(|keys| copy_opened(&*keys, place.folder, &place.sealed_for))
            .map_err(SealedError::of_the_disk);
        let (scratch, values) = match opened {
            Ok(Some(opened)) => (Some(opened.scratch), opened.values),
            Ok(None) => (None, Vec::new()),
            Err(Ok(error)) => return Err(error.into()),
            Err(Err(error)) => {
                return Ok(PlaybookOutput {
                    steps: Vec::new(),
                    success: false,
                    reason: error.to_string(),
                });
            }
        };
        // With values in the clear everything that Ansible writes for itself stays in memory, too.
        let folder = scratch.as_ref().map_or(place.folder, Scratch::path);
        let own = scratch
            .as_ref()
            .map_or_else(|| self.site.ansible(), |s| s.path().join(".ansible"));
        let mut variables = serde_json::json!(self.config.vars);
        // Ours come last: no site's setting can point a playbook at another payload.
        variables["outhaul_payload"] = serde_json::json!(place.payload);
        variables["outhaul_assignment"] = serde_json::json!(place.assignment);
        variables["outhaul_generation"] = serde_json::json!(place.generation);
        variables["ansible_python_interpreter"] = serde_json::json!(python);
        let outcome = playbook::run(
            &PlaybookRun {
                program: &program,
                playbooks: playbooks.iter().map(|name| folder.join(name)).collect(),
                folder,
                payload: place.payload,
                vaults: self.vaults(folder)?,
                variables: variables.to_string(),
                check,
                timeout: self.config.timeout(),
                home: &own,
                lock: &self.site.ansible().join("running"),
            },
            heartbeat,
        )?;
        Ok(without(outcome, &values))
    }

    /// Files with passwords of vaults: the assignment's own, which is sealed for this site, and the site's.
    fn vaults(&self, folder: &Path) -> Result<Vec<PathBuf>, ApplyError> {
        let own = Some(folder.join(VAULT)).filter(|path| path.is_file());
        let of_site = playbook::vault(&self.config)?.map(Path::to_owned);
        Ok(own.into_iter().chain(of_site).collect())
    }

    /// Runs the `rollback.yaml` of the bundle that this site goes back from, where it brings one.
    fn go_back(
        &self,
        desired: &Desired,
        recorded: &[Item],
        heartbeat: &Heartbeat,
    ) -> Result<Back, ApplyError> {
        let newest = recorded.iter().map(|item| item.generation).max();
        let Some(newer) = newest.filter(|newer| *newer > desired.generation) else {
            return Ok(Back::Nothing);
        };
        let name = desired.assignment.name.as_str();
        let Some(from) = self.site.earlier(newer, name, desired.site.as_str()) else {
            return Ok(Back::Unknown(newer));
        };
        let places = [&from.rendered, &from.payload].map(|folder| folder.join(ROLLBACK));
        let Some(playbook) = places.iter().find(|path| path.is_file()) else {
            return Ok(Back::Nothing);
        };
        // One that is rendered may have sealed values, and is run where they are open.
        let playbook = match playbook.starts_with(&from.rendered) {
            true => ROLLBACK.to_owned(),
            false => playbook.display().to_string(),
        };
        let place = AssignmentFolder::of(&from);
        let output = self.run(&place, &[&playbook], false, heartbeat)?;
        Ok(Back::Ran(newer, output))
    }

    /// Keeps what a later removal needs: the generation's own folder will be gone by then.
    fn keep(&self, desired: &Desired) -> Result<(), ApplyError> {
        let kept = self.site.kept(desired.assignment.name.as_str());
        let new = kept.with_file_name(format!(".{}.new", desired.assignment.name));
        durable::remove_tree(&new)?;
        let has_remove = |path: &Path| path.join(REMOVE).is_file();
        if !has_remove(&desired.rendered) && !has_remove(&desired.payload) {
            return Ok(durable::remove_tree(&kept)?);
        }
        durable::make_folder(&new)?;
        if has_remove(&desired.payload) {
            let bytes = durable::read(&desired.payload.join(REMOVE), MAX_KEPT_BYTES)?;
            durable::write(&new.join(REMOVE), &bytes, 0o600)?;
        }
        for file in &desired.assignment.files {
            let to = new.join(file.path.as_str());
            if let Some(parent) = to.parent() {
                durable::make_folder(parent)?;
            }
            let bytes = durable::read(&desired.rendered.join(file.path.as_str()), MAX_KEPT_BYTES)?;
            durable::write(&to, &bytes, 0o600)?;
        }
        // Sealed values in it are opened as they were here.
        let place = desired.binding();
        let workload = serde_json::json!([place.fleet, place.environment, place.workload]);
        durable::write(&new.join(PLACE), workload.to_string().as_bytes(), 0o600)?;
        durable::remove_tree(&kept)?;
        Ok(durable::rename(&new, &kept)?)
    }
}

/// What came of a run, with no secret value in it.
fn without(outcome: PlaybookOutput, values: &[Zeroizing<String>]) -> PlaybookOutput {
    let clean = |found: StepResult| StepResult {
        name: struck_out(&found.name, values),
        message: struck_out(&found.message, values),
        ..found
    };
    PlaybookOutput {
        steps: outcome.steps.into_iter().map(clean).collect(),
        reason: struck_out(&outcome.reason, values),
        ..outcome
    }
}

/// For which fleet, environment and workload a kept removal was; empty names, which open nothing, when an
/// older agent kept it.
fn kept_place(kept: &Path) -> [String; 3] {
    let bytes = durable::read(&kept.join(PLACE), MAX_KEPT_BYTES).unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or_default()
}

/// Where a playbook runs.
struct AssignmentFolder<'a> {
    folder: &'a Path,
    payload: &'a Path,
    assignment: &'a str,
    generation: u64,
    /// Where sealed values are opened.
    sealed_for: Binding<'a>,
}

impl<'a> AssignmentFolder<'a> {
    fn of(desired: &'a Desired) -> Self {
        Self {
            folder: &desired.rendered,
            payload: &desired.payload,
            assignment: desired.assignment.name.as_str(),
            generation: desired.generation,
            sealed_for: desired.binding(),
        }
    }
}

/// The assignment's playbooks, in order.
fn playbooks(desired: &Desired) -> Vec<&'static str> {
    let has = |name: &&str| {
        desired
            .assignment
            .files
            .iter()
            .any(|file| file.path.as_str() == *name)
    };
    PLAYBOOKS.into_iter().filter(has).collect()
}

/// Whether an assignment of a stream for Ansible cannot be taken back: it brings no `remove.yaml` and no `rollback.yaml`. Going
/// back runs the playbooks of before again, and undoes nothing that they do not undo themselves.
pub fn is_forward_only(assignment: &outhaul_bundle::index::Assignment) -> bool {
    let files = assignment.files.iter().chain(&assignment.payload);
    let mut names = files.map(|file| file.path.as_str());
    !names.any(|name| [REMOVE, ROLLBACK].contains(&name))
}

/// The item by which the inventory knows an assignment: its playbooks and their digests.
fn items(desired: &Desired) -> Vec<Item> {
    let names = playbooks(desired);
    let files = desired.assignment.files.iter();
    files
        .filter(|file| names.contains(&file.path.as_str()))
        .map(|file| {
            let path = file.path.as_str().to_owned();
            Item::intent(KIND, desired, path, file.content.to_string())
        })
        .collect()
}

/// The playbooks of an assignment that an earlier state folder of this agent must have run, as items of the inventory:
/// what is kept for its removal shows it, or that it is in the `oldest` bundle that was kept to go back to.
pub fn known_again(site: &dyn ReconcilerContext, desired: &Desired, oldest: bool) -> Vec<Item> {
    if !oldest && !site.kept(desired.assignment.name.as_str()).is_dir() {
        return Vec::new();
    }
    items(desired).into_iter().map(Item::applied).collect()
}

impl Reconciler for Ansible {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn ready(&self) -> Result<(), ApplyError> {
        self.python()?;
        playbook::vault(&self.config)?;
        self.program().map(drop)
    }

    fn plan(&self, desired: &Desired, recorded: &[Item]) -> Vec<Change> {
        let known = |item: &Item| {
            recorded
                .iter()
                .any(|old| old.item == item.item && old.digest == item.digest)
        };
        let new = items(desired).into_iter().filter(|item| !known(item));
        new.map(|item| Change {
            action: "run",
            item: item.item,
        })
        .collect()
    }

    fn runs_again(&self) -> bool {
        true
    }

    fn items(&self, desired: &Desired) -> Vec<Item> {
        items(desired)
    }

    fn apply(
        &self,
        desired: &Desired,
        recorded: &[Item],
        ledger: &mut dyn Ledger,
        heartbeat: &Heartbeat,
    ) -> Result<AssignmentResult, ApplyError> {
        let names = playbooks(desired);
        if names.is_empty() {
            let message = "it has no `namespace.yaml` and no `reconciler.yaml` to run";
            return Ok(failed(desired, message, Vec::new()));
        }
        // Where nothing can be started, nothing was begun.
        self.ready()?;
        // Before the inventory names this bundle: cut off here, it is run again.
        let mut undone = Vec::new();
        match self.go_back(desired, recorded, heartbeat)? {
            Back::Nothing => {}
            Back::Unknown(from) => {
                let name = format!("{ROLLBACK} of bundle {from}");
                undone.push(step(
                    name,
                    "skipped",
                    "its files are not on this host any more",
                ));
            }
            Back::Ran(from, back) => {
                undone = back.steps;
                if !back.success {
                    let why = format!(
                        "`{ROLLBACK}` of bundle {from}: {}; no playbook of this bundle was run",
                        back.reason
                    );
                    return Ok(failed(desired, &why, undone));
                }
                undone.push(step(format!("{ROLLBACK} of bundle {from}"), "ok", ""));
            }
        }
        ledger.intend(&items(desired))?;
        self.keep(desired)?;
        ledger.passed("inventory-intended");
        // One start for both: Ansible keeps the order and stops at the first playbook that fails.
        let PlaybookOutput {
            steps: done,
            success,
            reason,
        } = self.run(&AssignmentFolder::of(desired), &names, false, heartbeat)?;
        let steps = [undone, done].concat();
        if !success {
            return Ok(failed(desired, &reason, steps));
        }
        ledger.confirm(KIND, desired.assignment.name.as_str())?;
        let message = match steps.is_empty() {
            true => "its playbooks ran no task",
            false => "",
        };
        Ok(result(desired, ComplianceStatus::Compliant, message, steps))
    }

    fn observe(
        &self,
        desired: &Desired,
        _recorded: &[Item],
        heartbeat: &Heartbeat,
    ) -> Result<AssignmentResult, ApplyError> {
        let mut differing = Vec::new();
        let mut same = 0;
        let mut message = String::new();
        let outcome = self.run(
            &AssignmentFolder::of(desired),
            &playbooks(desired),
            true,
            heartbeat,
        )?;
        // In check mode a task that needs what an earlier one would make fails: that is drift, too.
        for found in outcome.steps {
            match found.status.as_str() {
                "changed" | "failed" | "unreachable" => differing.push(found),
                _ => same += 1,
            }
        }
        if !outcome.success {
            message = format!("in check mode: {}", outcome.reason);
        }
        if differing.is_empty() && message.is_empty() {
            let steps = vec![step(format!("{same} tasks"), "ok", "")];
            return Ok(result(desired, ComplianceStatus::Compliant, "", steps));
        }
        if message.is_empty() {
            message = format!(
                "{} of {} tasks would change this host",
                differing.len(),
                differing.len() + same
            );
        }
        Ok(result(
            desired,
            ComplianceStatus::Drifted,
            &message,
            differing,
        ))
    }

    fn remove(
        &self,
        _instead: u64,
        assignment: &str,
        recorded: &[Item],
        ledger: &mut dyn Ledger,
        heartbeat: &Heartbeat,
    ) -> Result<Vec<StepResult>, ApplyError> {
        let kept = self.site.kept(assignment);
        let generation = recorded
            .iter()
            .map(|item| item.generation)
            .max()
            .unwrap_or(0);
        if !kept.join(REMOVE).is_file() {
            let left = recorded.iter().cloned().map(Item::left);
            ledger.intend(&left.collect::<Vec<_>>())?;
            let message = "left behind: the assignment brought no `remove.yaml`, so what its playbooks \
                           made on this host (users, packages, jobs) is still there";
            return Ok(vec![step(assignment, "skipped", message)]);
        }
        let place = kept_place(&kept);
        let [fleet, environment, workload] = &place;
        let place = AssignmentFolder {
            folder: &kept,
            payload: &kept,
            assignment,
            generation,
            sealed_for: Binding {
                fleet,
                environment,
                workload,
            },
        };
        let outcome = self.run(&place, &[REMOVE], false, heartbeat)?;
        let mut steps = outcome.steps;
        if outcome.success {
            ledger.forget(recorded)?;
            durable::remove_tree(&kept)?;
            steps.push(step(assignment, "removed", ""));
        } else {
            steps.push(step(
                assignment,
                "failed",
                format!("`{REMOVE}`: {}", outcome.reason),
            ));
        }
        Ok(steps)
    }
}

#[cfg(test)]
mod tests;
