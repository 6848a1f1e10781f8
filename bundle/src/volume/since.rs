//! A copy of a bundle for sites that have an earlier one: all the metadata, the index, and the blobs that they lack.
//!
//! What comes in: an index, and of each earlier bundle which blobs it has. What goes out: a [`Volume`] that leaves out
//! the blobs that all of them have. It names those bundles so that people learn what a site needs; nobody has to
//! believe it: each blob that is left out is one of the signed index, and a site compares its own with the digest.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::Volume;
use crate::digest::Digest;
use crate::index::{Blob, Index};
use crate::number;

/// Most earlier bundles that one copy names.
pub const MAX_BASES: usize = 16;
/// Most runs of blobs that are left out; more do not fit into `volume.json`.
const MAX_RUNS: usize = 1_000;

/// Most blobs that are carried as patches.
pub const MAX_PATCHES: usize = 2_000;

const FORMAT: &str = "outhaul.dev/volume/v2";
/// A reader that knows the others alone must refuse it: it would take patches for blobs.
const FORMAT_WITH_PATCHES: &str = "outhaul.dev/volume/v3";

/// The format of a copy with these patches.
pub(super) fn format(patches: &[(usize, u64)]) -> &'static str {
    match patches {
        [] => FORMAT,
        _ => FORMAT_WITH_PATCHES,
    }
}

/// An earlier bundle of the stream.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Base {
    /// Its number.
    #[serde(deserialize_with = "number::one")]
    pub number: u64,
    /// The digest of its index.
    pub index: Digest,
}

impl Volume {
    /// The copy of a bundle without the blobs that each of `bases` has; `None` when there is no such blob, or there are
    /// no bases.
    pub fn since(index: &Index, bases: &[(Base, BTreeSet<Digest>)]) -> Option<Self> {
        Self::since_with(index, bases, &BTreeMap::new())
    }

    /// The same, with patches in the place of these blobs, each of so many bytes. Those that save most, when they are
    /// more than [`MAX_PATCHES`].
    pub fn since_with(
        index: &Index,
        bases: &[(Base, BTreeSet<Digest>)],
        patches: &BTreeMap<Digest, u64>,
    ) -> Option<Self> {
        let is_left_out = |blob: &Blob| {
            let mut all = bases.iter();
            !bases.is_empty() && all.all(|(_, has)| has.contains(&blob.digest))
        };
        let mut gaps: Vec<(Range<usize>, u64)> = Vec::new();
        for (at, blob) in index.blobs.iter().enumerate() {
            if !is_left_out(blob) {
                continue;
            }
            match gaps.last_mut() {
                Some((range, bytes)) if range.end == at => {
                    range.end = at + 1;
                    *bytes = bytes.saturating_add(blob.size);
                }
                _ => gaps.push((at..at + 1, blob.size)),
            }
        }
        // Those that save most; what is in the others travels.
        gaps.sort_by_key(|(range, bytes)| (std::cmp::Reverse(*bytes), range.start));
        gaps.truncate(MAX_RUNS);
        gaps.sort_by_key(|(range, _)| range.start);
        let is_left_out = |at: usize| gaps.iter().any(|(range, _)| range.contains(&at));
        let mut patched: Vec<(usize, u64)> = Vec::new();
        if !bases.is_empty() {
            let all = index.blobs.iter().enumerate();
            let all = all.filter_map(|(at, blob)| Some((at, *patches.get(&blob.digest)?)));
            patched.extend(all.filter(|(at, _)| !is_left_out(*at)));
        }
        let saved = |(at, bytes): &(usize, u64)| {
            let size = index.blobs.get(*at).map_or(0, |blob| blob.size);
            std::cmp::Reverse(size.saturating_sub(*bytes))
        };
        patched.sort_by_key(saved);
        patched.truncate(MAX_PATCHES);
        patched.sort_unstable();
        if gaps.is_empty() && patched.is_empty() {
            return None;
        }
        let mut blobs = match gaps.is_empty() {
            true => vec![0],
            false => Vec::new(),
        };
        let mut end = 0;
        for (gap, _) in gaps {
            if gap.start > end {
                if blobs.is_empty() {
                    blobs.push(0);
                }
                blobs.push(gap.start - end);
            }
            blobs.push(gap.len());
            end = gap.end;
        }
        if end < index.blobs.len() {
            blobs.push(index.blobs.len() - end);
        }
        let since: BTreeSet<Base> = bases.iter().map(|(base, _)| base.clone()).collect();
        Some(Self {
            format: format(&patched).to_owned(),
            part: 1,
            blobs,
            since: since.into_iter().collect(),
            patches: patched,
        })
    }

    /// The earlier bundles of which each has what this copy leaves out; of a part there are none.
    pub fn bases(&self) -> &[Base] {
        &self.since
    }

    /// Whether it is a copy for sites that have an earlier bundle, and no part of a cut.
    pub fn is_since(&self) -> bool {
        !self.since.is_empty()
    }

    /// Its earlier bundles, of which a site needs one, for people: `bundle 1`, `bundle 1, 3 or 5`.
    pub fn named_bases(&self) -> String {
        let numbers: Vec<String> = self.since.iter().map(|b| b.number.to_string()).collect();
        match numbers.split_last() {
            Some((last, [])) => format!("bundle {last}"),
            Some((last, others)) => format!("bundle {} or {last}", others.join(", ")),
            None => String::new(),
        }
    }

    /// What is in the file, in order: the blobs, and for each that is carried as a patch the patch's bytes.
    pub fn members<'i>(&self, index: &'i Index) -> Vec<(&'i Blob, Option<u64>)> {
        let patch = |at: usize| {
            let found = self.patches.binary_search_by_key(&at, |(place, _)| *place);
            found
                .ok()
                .and_then(|found| self.patches.get(found))
                .map(|(_, bytes)| *bytes)
        };
        let held = self.places(index.blobs.len(), true).into_iter();
        held.filter_map(|at| Some((index.blobs.get(at)?, patch(at))))
            .collect()
    }

    /// The blobs that are in the file as they are.
    pub fn carried<'i>(&self, index: &'i Index) -> Vec<&'i Blob> {
        let members = self.members(index).into_iter();
        members
            .filter_map(|(blob, patch)| patch.is_none().then_some(blob))
            .collect()
    }

    /// Whether blobs are carried as patches.
    pub fn has_patches(&self) -> bool {
        !self.patches.is_empty()
    }

    /// The blobs that a site makes of what it has, each with the bytes of its patch; of a part there are none.
    pub fn patched<'i>(&self, index: &'i Index) -> Vec<(&'i Blob, u64)> {
        let members = self.members(index).into_iter();
        members
            .filter_map(|(blob, patch)| Some((blob, patch?)))
            .collect()
    }

    /// The blobs that a copy leaves out because an earlier bundle has them; of a part there are none.
    pub fn left_out<'i>(&self, index: &'i Index) -> Vec<&'i Blob> {
        match self.is_since() {
            true => {
                let places = self.places(index.blobs.len(), false).into_iter();
                places.filter_map(|at| index.blobs.get(at)).collect()
            }
            false => Vec::new(),
        }
    }

    /// The places of the blobs that are in the file, or of those that are not.
    fn places(&self, blobs: usize, is_carried: bool) -> Vec<usize> {
        if !self.is_since() {
            return self.range().filter(|at| *at < blobs).collect();
        }
        let mut rest = 0..blobs;
        let mut found = Vec::new();
        for (at, count) in self.blobs.iter().enumerate() {
            let run = rest.by_ref().take(*count);
            // First a run that is left out, then one that is carried, and so on.
            if (at % 2 == 1) == is_carried {
                found.extend(run);
            } else {
                run.for_each(drop);
            }
        }
        found
    }

    /// What is wrong with what a foreign one of a bundle with `blobs` blobs leaves out.
    pub(super) fn since_problem(&self, blobs: usize) -> Option<String> {
        let (first, others) = self.blobs.split_first().unwrap_or((&0, &[]));
        let bases = &self.since;
        if self.part != 1 || bases.is_empty() || bases.len() > MAX_BASES {
            return Some(format!(
                "it names {} earlier bundles, from 1 to {MAX_BASES} are possible",
                bases.len()
            ));
        }
        let is_ascending = bases.windows(2).all(|pair| pair[0] < pair[1]);
        let mut all = self.blobs.iter();
        let sum = all.try_fold(0usize, |sum, count| sum.checked_add(*count));
        let leaves_out = *first > 0 || others.len() > 1 || !self.patches.is_empty();
        if !is_ascending || sum != Some(blobs) || others.contains(&0) || !leaves_out {
            return Some(format!(
                "what it carries and what it leaves out are not the {blobs} blobs of the index, each once"
            ));
        }
        let carried: BTreeSet<usize> = self.places(blobs, true).into_iter().collect();
        let is_ascending = self.patches.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let is_carried = self.patches.iter().all(|(at, _)| carried.contains(at));
        if !is_ascending || !is_carried || self.patches.len() > MAX_PATCHES {
            return Some("its patches are not of blobs that it carries, each once".to_owned());
        }
        None
    }
}

#[cfg(test)]
mod tests;
