//! Parity parts: from them and the parts that are there, parts that are lost or damaged are made again.
//!
//! What comes in: the cut of a bundle into parts, and its index. What goes out: a [`Parity`] (`parity.json`), which states
//! that cut and which parity part a file is, and a [`Layout`]: where each blob lies among the bytes that parity is computed
//! of. Sizes and digests are those of the signed index alone, so that a parity part has none to lie about. Nobody signs it,
//! and nobody needs to: what is made is a blob of the signed index, or nothing. It computes no parity (`outhaul-parity` does).

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::{MAX_PARTS, Volume, member_bytes};
use crate::index::Index;
use crate::member::BLOCK;

/// Most parity parts of a bundle. Each one costs as much as the largest part.
pub const MAX_PARITY_PARTS: usize = 64;
/// Largest `parity.json` in bytes.
pub const MAX_PARITY_JSON_BYTES: u64 = 16 * 1024;
/// Bytes behind the parity: the SHA-256 digest of `parity.json` and of the parity, by which damage is seen.
pub const CHECK_BYTES: u64 = 32;

const FORMAT: &str = "outhaul.dev/parity/v1";

/// Which parity part a file is, and of which cut.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parity {
    format: String,
    /// From 1.
    part: usize,
    /// How many parity parts were made: what is in each depends on it.
    of: usize,
    /// How many blobs each part holds, in the order of the index.
    blobs: Vec<usize>,
}

impl Parity {
    /// The parity parts of the cut that `volume` is a part of. None for a copy that leaves blobs out, and for more than
    /// [`MAX_PARITY_PARTS`].
    pub fn of_cut(volume: &Volume, of: usize) -> Vec<Self> {
        if volume.is_since() || of > MAX_PARITY_PARTS {
            return Vec::new();
        }
        let parity = |part| Self {
            format: FORMAT.to_owned(),
            part,
            of,
            blobs: volume.blobs.clone(),
        };
        (1..=of).map(parity).collect()
    }

    /// Which one it is, from 1.
    pub fn part(&self) -> usize {
        self.part
    }

    /// How many there are.
    pub fn of(&self) -> usize {
        self.of
    }

    /// How many data parts the bundle was cut into.
    pub fn parts(&self) -> usize {
        self.blobs.len()
    }

    /// How many blobs each data part holds: with [`Parity::of`], which set of parity parts it belongs to.
    pub fn cut(&self) -> &[usize] {
        &self.blobs
    }

    /// Another parity part of the same set.
    #[must_use]
    pub fn sibling(&self, part: usize) -> Self {
        Self {
            part,
            ..self.clone()
        }
    }

    /// The data parts that hold one of the blobs for which `is_missing` is true, by their place in the index.
    pub fn missing(&self, is_missing: impl Fn(usize) -> bool) -> Vec<usize> {
        let mut at = 0;
        let mut missing = Vec::new();
        for (part, held) in self.blobs.iter().enumerate() {
            if (at..at + held).any(&is_missing) {
                missing.push(part + 1);
            }
            at += held;
        }
        missing
    }

    /// Where the blobs of `index` lie among what this parity was computed of.
    pub fn layout(&self, index: &Index) -> Layout {
        let mut first = 0;
        let mut shards = Vec::new();
        for held in &self.blobs {
            let mut ends = Vec::new();
            let mut end = 0u64;
            for blob in index.blobs.iter().skip(first).take(*held) {
                end = end.saturating_add(padded(blob.size));
                ends.push(end);
            }
            shards.push(Shard { first, ends });
            first += held;
        }
        Layout { shards }
    }

    /// Bytes of the file as a whole; `fixed_bytes` is where the blobs begin in the whole bundle.
    pub fn bytes(&self, fixed_bytes: u64, index: &Index) -> u64 {
        let parity = self.layout(index).bytes().saturating_add(CHECK_BYTES);
        fixed_bytes
            .saturating_add(member_bytes(self.to_bytes().len() as u64))
            .saturating_add(member_bytes(parity))
            .saturating_add(2 * BLOCK as u64)
    }

    /// Its one way of being written.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec(self).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }

    /// Reads a foreign one; `Err` states what is wrong.
    ///
    /// # Errors
    /// What is wrong, for anything that no writer writes for this index: another format, a place that there is not, more
    /// parts than the limits, or a cut that would make rebuilding cost more than reading the bundle a few times.
    pub fn from_bytes(bytes: &[u8], index: &Index) -> Result<Self, String> {
        if bytes.len() as u64 > MAX_PARITY_JSON_BYTES {
            return Err(format!("it is larger than {MAX_PARITY_JSON_BYTES} bytes"));
        }
        let parity: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if parity.format != FORMAT {
            return Err("it is of a format that this program does not know".to_owned());
        }
        if parity.to_bytes() != bytes {
            return Err("it is not written as a parity part's writer does".to_owned());
        }
        let (part, of) = (parity.part, parity.of);
        if of > MAX_PARITY_PARTS || !(1..=of).contains(&part) {
            return Err(format!(
                "there is no parity part {part} of {of}, and {MAX_PARITY_PARTS} is the most"
            ));
        }
        let blobs = index.blobs.len();
        let add = |sum: usize, count: &usize| sum.checked_add(*count);
        let held = parity.blobs.iter().try_fold(0usize, add);
        if parity.parts() > MAX_PARTS || held != Some(blobs) || parity.blobs.contains(&0) {
            return Err(format!(
                "its parts do not hold the {blobs} blobs of the index, each once"
            ));
        }
        match parity.is_cut_as_written(index) {
            true => Ok(parity),
            false => Err(
                "its cut is not one that a bundle's writer makes: a part could hold the next one's first blob"
                    .to_owned(),
            ),
        }
    }

    /// Whether the cut is that of a size: each part took all that fitted. With one large part and many small ones, zeros
    /// in the place of the small ones would cost a thousand times what is there.
    fn is_cut_as_written(&self, index: &Index) -> bool {
        let sizes = |range: Range<usize>| {
            let held = index.blobs.get(range).unwrap_or_default().iter();
            held.fold(0u64, |sum, blob| {
                sum.saturating_add(member_bytes(blob.size))
            })
        };
        let mut at = 0;
        let mut parts = Vec::new();
        for held in &self.blobs {
            let first = sizes(at..at + 1);
            parts.push((sizes(at..at + held), first));
            at += held;
        }
        let largest = parts.iter().map(|(bytes, _)| *bytes).max().unwrap_or(0);
        let mut pairs = parts.windows(2);
        pairs.all(|pair| match pair {
            [(bytes, _), (_, next)] => bytes.saturating_add(*next) > largest,
            _ => true,
        })
    }
}

/// Where each blob lies among the bytes that parity is computed of: a data part is its blobs one after the other, each
/// filled up with zeros to a whole block, and zeros up to the length of the longest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    shards: Vec<Shard>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Shard {
    /// The place of its first blob in the index.
    first: usize,
    /// Where each of its blobs ends, filled up.
    ends: Vec<u64>,
}

impl Layout {
    /// How many data parts there are.
    pub fn parts(&self) -> usize {
        self.shards.len()
    }

    /// Bytes of each parity part: as many as the longest data part has.
    pub fn bytes(&self) -> u64 {
        let lengths = self.shards.iter().map(Shard::bytes);
        lengths.max().unwrap_or(0)
    }

    /// The blobs of a data part (from 0): place in the index, and where it lies, filled up.
    pub fn blobs(&self, part: usize) -> impl Iterator<Item = (usize, Range<u64>)> + '_ {
        self.overlapping(part, 0..u64::MAX)
    }

    /// The same for those that have bytes in `range`.
    pub fn overlapping(
        &self,
        part: usize,
        range: Range<u64>,
    ) -> impl Iterator<Item = (usize, Range<u64>)> + '_ {
        let (first, ends): (usize, &[u64]) = match self.shards.get(part) {
            Some(shard) => (shard.first, &shard.ends),
            None => (0, &[]),
        };
        let from = ends.partition_point(|end| *end <= range.start && range.start > 0);
        (from..ends.len())
            .map(move |at| {
                let begin = match at {
                    0 => 0,
                    at => ends.get(at - 1).copied().unwrap_or(0),
                };
                let end = ends.get(at).copied().unwrap_or(begin);
                (first + at, begin..end)
            })
            .take_while(move |(_, place)| place.start < range.end)
    }
}

impl Shard {
    fn bytes(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }
}

/// A size, filled up to a whole block.
fn padded(size: u64) -> u64 {
    let block = BLOCK as u64;
    size.div_ceil(block).saturating_mul(block)
}

#[cfg(test)]
mod tests;
