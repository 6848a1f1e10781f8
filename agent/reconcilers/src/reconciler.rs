//! The contract of a reconciler, in one place.
//!
//! What comes in: an assignment that was verified and unpacked ([`Desired`]), what the inventory has of it
//! ([`Item`]s), and the [`Heartbeat`] of the work. What goes out: the assignment's own result.
//!
//! A reconciler
//!
//! - records in the [`Ledger`] what it is about to put on this host before it does, and confirms it when all is done:
//!   after a power cut at any instant the same call goes on from there, and doing it twice is doing it once;
//! - removes nothing that the inventory did not hand it, and nothing by a pattern; what it cannot remove stays in
//!   the inventory;
//! - looks before it changes: what belongs to someone else is a failed result that names it, and nothing of the
//!   assignment is applied then;
//! - returns a failed assignment as a result; an error ([`ApplyError`]) is for a host on which nothing of its kind
//!   can be applied now, and no bundle is blamed for it;
//! - gives a heartbeat while it works, and ends between two actions when it is asked to stop;
//! - shows no sealed value in a result, an error, an item or a log.
//!
//! What every reconciler does alike is run for all of them by the agent's conformance suite.

use std::fmt;

use outhaul_bundle::report::{AssignmentResult, StepResult};
use outhaul_kit::heartbeat::Heartbeat;

use crate::assignment::Desired;
use crate::error::ApplyError;
use crate::inventory::{Item, Ledger};
use crate::outcome::Change;

/// A reconciler.
pub trait Reconciler: fmt::Debug {
    /// Its name in the index and the inventory.
    fn kind(&self) -> &str;

    /// Whether this host has what it needs: asked before a bundle is accepted.
    ///
    /// # Errors
    /// [`ApplyError`] names what is missing.
    fn ready(&self) -> Result<(), ApplyError> {
        Ok(())
    }

    /// Asked about one assignment of a bundle that has to wait: what can be verified or fetched for it now.
    /// Nothing on the host is changed.
    ///
    /// # Errors
    /// [`ApplyError`] names what will keep it from being applied.
    fn prepare(&self, _desired: &Desired, _pulse: &Heartbeat) -> Result<(), ApplyError> {
        Ok(())
    }

    /// What applying `desired` would do, by what is recorded: nothing on the host is read or changed.
    ///
    /// One that learns only while it applies which things are made of the files names the files, while nothing
    /// is recorded.
    fn plan(&self, desired: &Desired, recorded: &[Item]) -> Vec<Change> {
        if !recorded.is_empty() {
            return Vec::new();
        }
        let files = desired.files().map(|(_, _, shown)| Change {
            action: "add",
            item: shown,
        });
        files.collect()
    }

    /// Whether [`Reconciler::plan`] finds every file that differs by what is recorded. Of one that does not, what differs is known only where the bundle
    /// that was applied before is still here.
    fn plans_every_file(&self) -> bool {
        false
    }

    /// Whether applying an assignment again that did not change runs its programs again, which may change something.
    fn runs_again(&self) -> bool {
        false
    }

    /// What is on this host and would make [`Reconciler::apply`] fail, a sentence for each. Looks, and changes nothing. `recorded` is what the
    /// inventory has of the assignment, whose files are perhaps not unpacked yet.
    ///
    /// # Errors
    /// As [`Reconciler::apply`].
    fn in_the_way(
        &self,
        _desired: &Desired,
        _recorded: &[Item],
    ) -> Result<Vec<String>, ApplyError> {
        Ok(Vec::new())
    }

    /// What [`Reconciler::in_the_way`] cannot look for from here, in a sentence.
    fn not_looked_for(&self) -> Option<&'static str> {
        None
    }

    /// What the inventory has as `desired` wants it, and what is not on this host: [`Reconciler::apply`] writes it again. Looks, and changes
    /// nothing.
    ///
    /// # Errors
    /// As [`Reconciler::apply`].
    fn absent(&self, _desired: &Desired, _recorded: &[Item]) -> Result<Vec<Change>, ApplyError> {
        Ok(Vec::new())
    }

    /// What goes with what would be removed of an assignment, which is `gone` as a whole or changes, besides what was applied: `recorded` is what
    /// the inventory has. Only what the site's settings allow.
    fn goes_with_removed(&self, _gone: bool, _recorded: &[Item]) -> Vec<Change> {
        Vec::new()
    }

    /// What the inventory will list of an assignment that is applied. None where that is known only while it is
    /// applied.
    fn items(&self, _desired: &Desired) -> Vec<Item> {
        Vec::new()
    }

    /// Applies one assignment. `recorded` is what the inventory has of it. Doing it twice is doing it once.
    ///
    /// # Errors
    /// [`ApplyError`] when this host cannot apply anything of this kind, or the ledger failed.
    fn apply(
        &self,
        desired: &Desired,
        recorded: &[Item],
        ledger: &mut dyn Ledger,
        heartbeat: &Heartbeat,
    ) -> Result<AssignmentResult, ApplyError>;

    /// Compares one assignment with the host and changes nothing.
    ///
    /// # Errors
    /// As [`Reconciler::apply`].
    fn observe(
        &self,
        desired: &Desired,
        recorded: &[Item],
        heartbeat: &Heartbeat,
    ) -> Result<AssignmentResult, ApplyError>;

    /// The verdict on an assignment that was just applied, where looking is cheap and certain.
    /// `None`: the result of applying is the verdict.
    ///
    /// # Errors
    /// As [`Reconciler::apply`].
    fn health(
        &self,
        _desired: &Desired,
        _recorded: &[Item],
        _pulse: &Heartbeat,
    ) -> Result<Option<AssignmentResult>, ApplyError> {
        Ok(None)
    }

    /// Whether [`Reconciler::health`] waits for what is not ready: who only wants to know how things stand
    /// observes instead.
    fn health_waits(&self) -> bool {
        false
    }

    /// Whether what is not wanted any more is removed last, when the whole bundle is known to be healthy: what a
    /// return to the bundle before would make again, empty, must not be gone by then. Asked for with
    /// [`Reconciler::prune`] and, for whole assignments, [`Reconciler::remove`].
    fn prunes_last(&self) -> bool {
        false
    }

    /// Removes what is recorded of an assignment and not wanted of it any more. `None`: there was nothing, or
    /// [`Reconciler::apply`] does it.
    ///
    /// # Errors
    /// As [`Reconciler::apply`].
    fn prune(
        &self,
        _desired: &Desired,
        _recorded: &[Item],
        _ledger: &mut dyn Ledger,
        _pulse: &Heartbeat,
    ) -> Result<Option<AssignmentResult>, ApplyError> {
        Ok(None)
    }

    /// Removes what is recorded of an assignment that is no longer wanted, and records that in the ledger. `instead`
    /// is the bundle that does not have it.
    ///
    /// # Errors
    /// As [`Reconciler::apply`].
    fn remove(
        &self,
        instead: u64,
        assignment: &str,
        recorded: &[Item],
        ledger: &mut dyn Ledger,
        heartbeat: &Heartbeat,
    ) -> Result<Vec<StepResult>, ApplyError>;
}
