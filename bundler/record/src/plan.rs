//! Plan: what a destination is to hold, decided once for folder, branch and stream.
//!
//! What comes in: what should be there ([`DesiredContent`]), and what the destination's record says of the last run
//! ([`Shipped`]). What goes out: a [`Plan`]: which assignments there are then, what of the broken ones stays as it was
//! and what is left out; or, where too much would be removed, a [`Removal`]. It is pure: how the files are
//! compared and written is each destination's own.

use std::collections::{BTreeMap, BTreeSet};

use outhaul_bundle::Digest;
use outhaul_control::{ControlPlane, Diagnostics};
use outhaul_kit::format_count::format_count;
use outhaul_plane::schedule::AssignmentId;

use crate::guard::{self, Removal};
use crate::isolation::{self, Isolation};
use crate::record::Record;

/// What should be there.
#[derive(Debug)]
pub struct DesiredContent<'a> {
    /// Where removals are acknowledged, and which workloads cannot be read.
    pub control_plane: &'a ControlPlane,
    /// What would lose assignments, as people know it: an environment or a stream, with its name.
    pub what: String,
    /// The sound assignments, as `<cluster type>/<target>`.
    pub sound: BTreeSet<String>,
    /// What could not be rendered or carried, and why.
    pub failures: Vec<(&'a AssignmentId, &'a Diagnostics)>,
    /// What no scheduler decided on, and why.
    pub undecided: Vec<(&'a AssignmentId, &'a Diagnostics)>,
    /// The share of what is there that may be removed in one run, in percent.
    pub max_removal_percent: u8,
}

/// What a destination held after the last run: its record, and what is still there of that.
pub trait Shipped {
    /// What stays of a broken assignment.
    type Content;

    /// The record; `None` where nothing was shipped.
    fn record(&self) -> Option<&Record>;

    /// The assignments on record, as `<cluster type>/<target>`.
    fn names(&self) -> BTreeSet<String> {
        self.record().map(Record::assignments).unwrap_or_default()
    }

    /// Those of which something is there, with the workspace that each is of, where that is known.
    fn there(&self) -> Vec<(AssignmentId, Option<&str>)> {
        let workspace =
            |name: &str| Some(self.record()?.shipped(name)?.rendered.workspace.as_str());
        let names = self.names().into_iter();
        names
            .filter_map(|name| Some((AssignmentId::parse(&name)?, workspace(&name))))
            .collect()
    }

    /// The last good content of one and the digest of the snapshot that it is from, or why there is none; asked once for each
    /// that is broken.
    ///
    /// # Errors
    /// Why there is none.
    fn last(&mut self, id: &AssignmentId) -> Result<(Digest, Self::Content), String>;

    /// The sites that lose an assignment which others keep, by `<cluster type>/<target>`: how many.
    fn sites_losing_assignments(&self) -> BTreeMap<String, usize> {
        BTreeMap::new()
    }

    /// Whether nothing is made of it now: sites keep what they have, and so nothing is removed.
    fn is_stalled(&self) -> bool {
        false
    }
}

/// What a destination is to hold.
#[derive(Debug)]
pub struct Plan<T> {
    /// What becomes of the broken ones.
    pub isolation: Isolation<T>,
    /// All that there are then, the kept ones among them, as `<cluster type>/<target>`.
    pub after: BTreeSet<String>,
    /// Whether it removes too much, and nobody acknowledged that.
    pub removal: Result<(), Removal>,
}

impl<T> Plan<T> {
    /// Whether there is nothing, only because nothing is sound.
    pub fn is_void(&self) -> bool {
        self.after.is_empty() && !self.isolation.is_empty()
    }
}

/// Plans a destination that held what `shipped` says.
pub fn plan<S: Shipped>(wanted: &DesiredContent<'_>, shipped: &mut S) -> Plan<S::Content> {
    let lost = match wanted.control_plane.lost.is_empty() {
        true => BTreeMap::new(),
        false => isolation::lost(wanted.control_plane, shipped.there()),
    };
    let failures = wanted.failures.iter().copied().chain(&lost);
    let undecided = wanted.undecided.iter().copied();
    let isolation = isolation::isolate(failures, undecided, |id| shipped.last(id));
    let mut after = wanted.sound.clone();
    after.extend(isolation.kept.keys().map(ToString::to_string));
    let removal = match shipped.is_stalled() {
        true => Ok(()),
        false => guarded(wanted, shipped, &after),
    };
    Plan {
        isolation,
        after,
        removal,
    }
}

fn guarded<S: Shipped>(
    wanted: &DesiredContent<'_>,
    shipped: &S,
    after: &BTreeSet<String>,
) -> Result<(), Removal> {
    let mut before = shipped.names();
    let mut after = after.clone();
    // What is taken from some of its sites is removed there.
    for (name, sites) in shipped.sites_losing_assignments() {
        after.remove(&name);
        before.remove(&name);
        let sites = format_count(sites, "site", "sites");
        before.insert(format!("{name} from {sites}"));
    }
    let DesiredContent {
        control_plane,
        what,
        max_removal_percent,
        ..
    } = wanted;
    guard::check(control_plane, what, &before, &after, *max_removal_percent)
}
