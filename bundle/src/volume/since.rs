//! A copy of a bundle for sites that have an earlier one: all the metadata, the index, and the blobs that they lack.
//!
//! What comes in: an index, and of each earlier bundle which blobs it has. What goes out: a [`Volume`] that leaves out
//! the blobs that all of them have. It names those bundles so that people learn what a site needs; nobody has to
//! believe it: each blob that is left out is one of the signed index, and a site compares its own with the digest.

use std::collections::BTreeSet;
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

pub(super) const FORMAT: &str = "outhaul.dev/volume/v2";

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
        if gaps.is_empty() {
            return None;
        }
        let mut blobs = Vec::new();
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
            format: FORMAT.to_owned(),
            part: 1,
            blobs,
            since: since.into_iter().collect(),
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

    /// The blobs that are in the file.
    pub fn carried<'i>(&self, index: &'i Index) -> Vec<&'i Blob> {
        self.blobs_in(index, true)
    }

    /// The blobs that a copy leaves out because an earlier bundle has them; of a part there are none.
    pub fn left_out<'i>(&self, index: &'i Index) -> Vec<&'i Blob> {
        match self.is_since() {
            true => self.blobs_in(index, false),
            false => Vec::new(),
        }
    }

    fn blobs_in<'i>(&self, index: &'i Index, is_carried: bool) -> Vec<&'i Blob> {
        if !self.is_since() {
            let held = index.blobs.get(self.range()).unwrap_or_default();
            return held.iter().collect();
        }
        let mut rest = index.blobs.iter();
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
        let leaves_out = *first > 0 || others.len() > 1;
        if !is_ascending || sum != Some(blobs) || others.contains(&0) || !leaves_out {
            return Some(format!(
                "what it carries and what it leaves out are not the {blobs} blobs of the index, each once"
            ));
        }
        None
    }
}

#[cfg(test)]
mod tests;
