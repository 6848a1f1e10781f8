//! Whether what is missing can be made again, and in which steps: pure.
//!
//! What comes in: a layout, which blobs are there, and how many parity parts are. What goes out: a [`RebuildPlan`], or how many
//! parts more it takes. At each place of the parts as many blobs may be missing as there are parity parts; that two parts
//! are damaged in different places costs no more than one that is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use outhaul_bundle::volume::Layout;

/// What is known of a blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlobPresence {
    /// It is there as it is carried.
    Here,
    /// It is not there, and wanted.
    Missing,
    /// Its bytes are not there, and nobody needs them.
    Unwanted,
}

/// In which steps blobs are made again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RebuildPlan {
    pub(crate) steps: Vec<Step>,
    /// The blobs that are made, by their place in the index.
    pub(crate) wanted: BTreeSet<usize>,
}

/// A range of all parts, and the parts (from 0) of which bytes in it are not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) range: Range<u64>,
    pub(crate) lost: BTreeSet<usize>,
}

/// It cannot be done with what is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{more} more parts or parity parts are needed")]
pub struct Shortage {
    /// How many more.
    pub more: usize,
}

impl RebuildPlan {
    /// How many blobs are made.
    pub fn blobs(&self) -> usize {
        self.wanted.len()
    }
}

/// Plans how the blobs that are [`BlobPresence::Missing`] are made with `parity` parity parts.
///
/// # Errors
/// [`Shortage`]
pub fn plan(
    layout: &Layout,
    standing: &dyn Fn(usize) -> BlobPresence,
    parity: usize,
) -> Result<RebuildPlan, Shortage> {
    let mut wanted = BTreeSet::new();
    // Where a blob that is not there begins or ends: its part, and whether it is wanted.
    let mut edges: BTreeMap<u64, Vec<(usize, bool, bool)>> = BTreeMap::new();
    for part in 0..layout.parts() {
        for (place, range) in layout.blobs(part) {
            let is_wanted = match standing(place) {
                BlobPresence::Here => continue,
                BlobPresence::Missing => wanted.insert(place),
                BlobPresence::Unwanted => false,
            };
            if range.is_empty() {
                continue;
            }
            let edge = |begins| (part, is_wanted, begins);
            edges.entry(range.start).or_default().push(edge(true));
            edges.entry(range.end).or_default().push(edge(false));
        }
    }
    let mut steps: Vec<Step> = Vec::new();
    let mut open: BTreeMap<usize, bool> = BTreeMap::new();
    let (mut from, mut more) = (0, 0);
    for (at, here) in edges {
        if open.values().any(|is_wanted| *is_wanted) {
            more = more.max(open.len().saturating_sub(parity));
            if more == 0 {
                add(&mut steps, from..at, open.keys().copied(), parity);
            }
        }
        // Ends first: the next blob of a part begins where the last one ended.
        for (part, _, _) in here.iter().filter(|(_, _, begins)| !begins) {
            open.remove(part);
        }
        for (part, is_wanted, _) in here.iter().filter(|(_, _, begins)| *begins) {
            open.insert(*part, *is_wanted);
        }
        from = at;
    }
    match more {
        0 => Ok(RebuildPlan { steps, wanted }),
        more => Err(Shortage { more }),
    }
}

/// Adds a range, to the one before where both can be done at once: each step of its own costs as much as a large one.
fn add(steps: &mut Vec<Step>, range: Range<u64>, lost: impl Iterator<Item = usize>, parity: usize) {
    let lost: BTreeSet<usize> = lost.collect();
    if let Some(last) = steps
        .last_mut()
        .filter(|last| last.range.end == range.start)
    {
        let both: BTreeSet<usize> = last.lost.union(&lost).copied().collect();
        if both.len() <= parity {
            last.range.end = range.end;
            last.lost = both;
            return;
        }
    }
    steps.push(Step { range, lost });
}
