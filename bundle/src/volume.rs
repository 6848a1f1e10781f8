//! Volumes: a bundle as several files, for media that hold no file as large as it is, or not all of it.
//!
//! What comes in: an index, the bytes that come before its blobs, and how large a file may be. What goes out: which
//! blobs are in which part. Each part is a bundle with all the metadata, the index, and a range of the index's blobs,
//! whole: what signs the bundle signs each part, alone and in any order. [`Volume`] (`volume.json`)
//! only states which range that is, or, in a copy for sites that have an earlier bundle, which blobs are left out
//! or carried as patches ([`Volume::since`]). Nobody signs it, and nobody needs to: a bundle is complete when every blob of the
//! signed index is there, whatever a part states of itself. [`Parity`] is for parts of which lost ones are made again.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::index::{Blob, Index};
use crate::member::BLOCK;

mod parity;
mod since;

pub use parity::{CHECK_BYTES, Layout, MAX_PARITY_JSON_BYTES, MAX_PARITY_PARTS, Parity};
pub use since::{Base, MAX_BASES, MAX_PATCHES};

/// Largest `volume.json` of a part in bytes.
pub const MAX_VOLUME_BYTES: u64 = 16 * 1024;
/// Largest `volume.json` in bytes.
pub const MAX_COPY_BYTES: u64 = 64 * 1024;
/// Most parts of a bundle: each is named to people one by one.
pub const MAX_PARTS: usize = 1_000;

const FORMAT: &str = "outhaul.dev/volume/v1";

/// Which part of its bundle a file is, or what of it a copy leaves out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Volume {
    format: String,
    /// From 1.
    part: usize,
    /// How many blobs each part holds, in the order of the index. Of a copy for sites that have an earlier bundle: how
    /// many are left out, then how many are in it, and so on.
    blobs: Vec<usize>,
    /// The earlier bundles; a part has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    since: Vec<Base>,
    /// Blobs that are carried as patches: the place in the index, and the patch's bytes; ascending.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    patches: Vec<(usize, u64)>,
}

/// Why a bundle is not cut.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VolumeError {
    /// A part cannot be as small as that.
    #[error(
        "a part of at most {max} bytes is too small: a blob is never parted, and the largest one needs a part of {least} \
         bytes"
    )]
    TooSmall {
        /// What was asked for.
        max: u64,
        /// The smallest size that works.
        least: u64,
    },
    /// Nobody carries as many.
    #[error("parts of at most {max} bytes would be more than {MAX_PARTS}")]
    TooMany {
        /// What was asked for.
        max: u64,
        /// The smallest size that works.
        least: u64,
    },
}

impl Volume {
    /// The parts of a bundle, none larger than `max_bytes`; `fixed_bytes` is where the blobs begin in the whole bundle.
    ///
    /// # Errors
    /// [`VolumeError`] when a blob is larger than a part may be, or there would be too many.
    pub fn plan(fixed_bytes: u64, index: &Index, max_bytes: u64) -> Result<Vec<Self>, VolumeError> {
        let fixed = before_and_after(fixed_bytes);
        let max = max_bytes;
        let largest = fixed.saturating_add(largest_member(index));
        if largest > max {
            let least = Self::least_bytes(fixed_bytes, index);
            return Err(VolumeError::TooSmall { max, least });
        }
        let blobs = cut(fixed, index, max);
        if blobs.len() > MAX_PARTS {
            let least = Self::least_bytes(fixed_bytes, index);
            return Err(VolumeError::TooMany { max, least });
        }
        let part = |part| Self {
            format: FORMAT.to_owned(),
            part,
            blobs: blobs.clone(),
            since: Vec::new(),
            patches: Vec::new(),
        };
        Ok((1..=blobs.len()).map(part).collect())
    }

    /// The smallest size of parts for which there is a [`Self::plan`]; `fixed_bytes` is where the blobs begin.
    pub fn least_bytes(fixed_bytes: u64, index: &Index) -> u64 {
        let fixed = before_and_after(fixed_bytes);
        let all = index.blobs.iter().map(|blob| member_bytes(blob.size));
        let mut works = all.fold(fixed, u64::saturating_add);
        let mut least = fixed.saturating_add(largest_member(index)).min(works);
        while least < works {
            let middle = least + (works - least) / 2;
            match cut(fixed, index, middle).len() <= MAX_PARTS {
                true => works = middle,
                false => least = middle + 1,
            }
        }
        works
    }

    /// Which part it is, from 1.
    pub fn part(&self) -> usize {
        self.part
    }

    /// How many there are.
    pub fn parts(&self) -> usize {
        match self.is_since() {
            true => 1,
            false => self.blobs.len(),
        }
    }

    /// The blobs that are in a part, by their place in the index.
    pub fn range(&self) -> Range<usize> {
        self.range_of(self.part)
    }

    /// The parts of the same cut that hold one of the blobs for which `is_missing` is true, by their place in the index.
    pub fn missing(&self, is_missing: impl Fn(usize) -> bool) -> Vec<usize> {
        let lacks = |part: &usize| self.range_of(*part).any(&is_missing);
        (1..=self.parts()).filter(lacks).collect()
    }

    fn range_of(&self, part: usize) -> Range<usize> {
        let before = self.blobs.iter().take(part.saturating_sub(1)).sum();
        let held = self.blobs.get(part.saturating_sub(1)).copied().unwrap_or(0);
        before..held.saturating_add(before)
    }

    /// Bytes of this part as a file; `fixed_bytes` is where the blobs begin in the whole bundle.
    pub fn bytes(&self, fixed_bytes: u64, index: &Index) -> u64 {
        let held = self.members(index).into_iter();
        let size = |(blob, patch): (&Blob, Option<u64>)| member_bytes(patch.unwrap_or(blob.size));
        let blobs = held.map(size).sum::<u64>();
        let own = member_bytes(self.to_bytes().len() as u64);
        let end = 2 * BLOCK as u64;
        fixed_bytes
            .saturating_add(own)
            .saturating_add(blobs)
            .saturating_add(end)
    }

    /// Its one way of being written.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec(self).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }

    /// Reads a foreign one of a bundle with `blobs` blobs; `Err` states what is wrong.
    pub(crate) fn from_bytes(bytes: &[u8], blobs: usize) -> Result<Self, String> {
        let volume: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        let is_since = volume.format == since::format(&volume.patches);
        let is_part = volume.format == FORMAT && volume.patches.is_empty();
        if !is_part && !is_since || is_since != volume.is_since() {
            return Err("it is of a format that this program does not know".to_owned());
        }
        if volume.to_bytes() != bytes {
            return Err("it is not written as a bundle's writer does".to_owned());
        }
        if is_since {
            return match volume.since_problem(blobs) {
                None => Ok(volume),
                Some(problem) => Err(problem),
            };
        }
        if volume.parts() > MAX_PARTS || !(1..=volume.parts()).contains(&volume.part) {
            return Err(format!(
                "there is no part {} of {}",
                volume.part,
                volume.parts()
            ));
        }
        let held = volume
            .blobs
            .iter()
            .try_fold(0usize, |sum, count| sum.checked_add(*count));
        if held != Some(blobs) || volume.blobs.contains(&0) {
            return Err(format!(
                "its parts do not hold the {blobs} blobs of the index, each once"
            ));
        }
        Ok(volume)
    }
}

/// Bytes of a part besides its blobs: each has its own copy of what comes first, and ends as a bundle does.
fn before_and_after(fixed_bytes: u64) -> u64 {
    fixed_bytes
        .saturating_add(member_bytes(MAX_VOLUME_BYTES))
        .saturating_add(2 * BLOCK as u64)
}

fn largest_member(index: &Index) -> u64 {
    let all = index.blobs.iter().map(|blob| member_bytes(blob.size));
    all.max().unwrap_or_default()
}

/// How many blobs are in each part of at most `max_bytes`, where none is larger than that.
fn cut(fixed: u64, index: &Index, max_bytes: u64) -> Vec<usize> {
    let mut blobs: Vec<usize> = Vec::new();
    let (mut held, mut count) = (0u64, 0usize);
    for blob in &index.blobs {
        let bytes = member_bytes(blob.size);
        if count > 0 && fixed.saturating_add(held).saturating_add(bytes) > max_bytes {
            blobs.push(count);
            (held, count) = (0, 0);
        }
        held = held.saturating_add(bytes);
        count += 1;
    }
    blobs.push(count);
    blobs
}

/// Bytes of a member with its header.
fn member_bytes(size: u64) -> u64 {
    let block = BLOCK as u64;
    size.div_ceil(block)
        .saturating_mul(block)
        .saturating_add(block)
}

#[cfg(test)]
pub(crate) mod tests;
