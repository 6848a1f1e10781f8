//! What is reported to the machine, what it asks to be recorded, and the work that it owes: words without behaviour.
//!
//! What comes in and goes out: nothing; the machine gives them their meaning.

use super::State;

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// Signatures, number, stream, recipient and space are right; its blobs are being copied.
    CopyBegun(u64),
    /// All of it is on disk, verified and synced.
    CopyEnded(u64),
    /// It was refused after all, or its source is gone: nothing of it is left.
    CopyLost(u64),
    /// Nothing keeps it from being applied.
    MayStart(u64),
    /// It has to wait.
    MustWait(u64),
    /// A person let it through.
    Approved(u64),
    /// A person holds back whatever is new.
    Held,
    /// The hold is over.
    Released,
    /// What waits is no longer for this site.
    Withdrawn,
    /// Every assignment was applied.
    Applied(u64),
    /// An assignment failed, or health is bad.
    Broken(u64),
    /// Health is good.
    Healthy(u64),
    /// Health is good, and has to stay so for a while.
    HealthySoFar(u64),
    /// Its folder cannot be used any more.
    FolderLost(u64),
    /// A person wants this earlier bundle.
    RollbackOrdered(u64),
    /// The older bundle is applied again in the place of this one.
    Returned(u64),
    /// Going back from this one failed.
    ReturnBroken(u64),
    /// The active bundle is to be applied again.
    RepairDue,
    /// It is active again.
    Repaired,
    /// Applying it again failed.
    RepairBroken,
    /// The host was compared with the active bundle; nothing is to be put back.
    Observed(u64),
    /// The host differs from the active bundle, and the stream says that this is put back.
    DriftFound(u64),
    /// What differed was put back, as far as that went.
    Corrected(u64),
    /// A person keeps an assignment at what this bundle brought; with `repair` it is put back to that now.
    Pinned {
        /// The bundle.
        number: u64,
        /// Whether something has to be applied for it.
        repair: bool,
    },
    /// No assignment is kept at what this bundle brought any more; with `repair` the active one is applied.
    Unpinned {
        /// The bundle; `None` when another assignment is still kept at it.
        number: Option<u64>,
        /// Whether something has to be applied for it.
        repair: bool,
    },
    /// So many bundles before the active one stay on disk.
    KeptAtMost(usize),
    /// The work under way cannot go on now, through no fault of a bundle.
    Blocked,
}

impl Event {
    /// Whether work came to a bad end.
    pub fn is_failure(&self) -> bool {
        matches!(
            self,
            Self::Broken(_) | Self::ReturnBroken(_) | Self::RepairBroken
        )
    }
}

/// A row in the transaction of the change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Queue a report that this bundle reached this state.
    Report(u64, State),
    /// Queue an observation of this bundle, which is still in this state.
    ReportAgain(u64, State),
    /// Queue the one report of a revert: bundle `to` runs in the place of `from`.
    ReportRevert {
        /// The bundle that was left.
        from: u64,
        /// The one that runs.
        to: u64,
    },
    /// Remember the content's digest, so that it is not tried again.
    Remember(u64),
    /// The bundle came to its end; it is not kept on disk.
    End(u64, State),
    /// The bundle never came to anything: its row is removed.
    Forget(u64),
}

/// The work that a site owes. The runner does it and returns the result to the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Task {
    /// Take back what a cut-off copy left.
    Discard(u64),
    /// Apply every assignment that has no recorded result yet.
    Apply(u64),
    /// Ask the reconciler for health.
    Watch(u64),
    /// Apply `to` in the place of `from`.
    Revert {
        /// What is left.
        from: u64,
        /// What is applied.
        to: u64,
    },
    /// Apply the active bundle again.
    Repair(u64),
    /// Put back what differs of the active bundle.
    Correct(u64),
    /// Decide by [`super::approval`] whether it may start.
    AskApproval(u64),
}
