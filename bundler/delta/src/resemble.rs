//! Pieces of some bytes, each against the part of old bytes that resembles it most.
//!
//! What comes in: a range of the new bytes, and ranges of old ones. What goes out: copies where both are equal at the same
//! place, else frames with at most [`PREFIX_BYTES`] of the old as a prefix: all of it when it is no more, else the part
//! that has the most marks in common (hashes at places that the content itself chooses, so that what moved is found).

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::ops::Range;

use outhaul_bundle::patch::{Maker, Region};

use crate::{Old, Plain};

/// Bytes of one piece.
const PIECE_BYTES: u64 = 8 << 20;
/// Old bytes that one piece refers to.
pub(crate) const PREFIX_BYTES: u64 = 24 << 20;
/// One mark in so many bytes.
const MARK_EVERY: u64 = 1 << 12;
/// Marks are counted in parts of this many bytes.
const PART_BYTES: u64 = 1 << 20;
/// Bytes read at once while marks are looked for.
const SCAN_BYTES: u64 = 4 << 20;

/// Old bytes that new ones are compared with.
pub(crate) struct Resembling {
    spans: Vec<Region>,
    /// Where each mark lies, counted over all spans; looked for when it is needed.
    marks: Option<HashMap<u64, u64>>,
}

impl Resembling {
    /// All of `olds`.
    pub(crate) fn all(olds: &[Old]) -> Self {
        let spans = olds.iter().enumerate().map(|(source, old)| Region {
            source,
            offset: 0,
            length: old.bytes.size(),
        });
        Self::spans(spans.filter(|span| span.length > 0).collect())
    }

    /// These parts of them.
    pub(crate) fn spans(spans: Vec<Region>) -> Self {
        Self { spans, marks: None }
    }

    fn length(&self) -> u64 {
        self.spans.iter().map(|span| span.length).sum()
    }

    /// The regions of `length` bytes from `from` on, counted over all spans.
    fn regions(&self, from: u64, length: u64) -> Vec<Region> {
        let (mut skip, mut left) = (from, length);
        let mut found = Vec::new();
        for span in &self.spans {
            if skip >= span.length {
                skip -= span.length;
                continue;
            }
            let length = (span.length - skip).min(left);
            if length > 0 {
                found.push(Region {
                    source: span.source,
                    offset: span.offset + skip,
                    length,
                });
            }
            left -= length;
            skip = 0;
        }
        found
    }

    /// What the piece `bytes` that lies at `at` of `of` bytes is compared with.
    pub(crate) fn nearest(
        &mut self,
        olds: &[Old],
        bytes: &[u8],
        at: u64,
        of: u64,
    ) -> io::Result<Vec<Region>> {
        let length = self.length();
        if length <= PREFIX_BYTES {
            return Ok(self.regions(0, length));
        }
        let mut scanned = self.marks.take();
        if scanned.is_none() {
            scanned = Some(self.scan(olds)?);
        }
        let marks = self.marks.insert(scanned.unwrap_or_default());
        let mut counts: Vec<u64> = vec![0; usize::try_from(length / PART_BYTES).unwrap_or(0) + 1];
        let mut finder = Finder::default();
        finder.each(bytes, |_, mark| {
            if let Some(place) = marks.get(&mark)
                && let Ok(part) = usize::try_from(place / PART_BYTES)
                && let Some(count) = counts.get_mut(part)
            {
                *count += 1;
            }
        });
        let width = usize::try_from(PREFIX_BYTES / PART_BYTES).unwrap_or(1);
        // Where nothing is in common: what lies at the same place.
        let same = u128::from(at) * u128::from(length) / u128::from(of.max(1));
        let same = usize::try_from(same / u128::from(PART_BYTES)).unwrap_or(0);
        let mut best = (0, same.saturating_sub(width / 2));
        for from in 0..counts.len() {
            let end = counts.len().min(from + width);
            let sum: u64 = counts[from..end].iter().sum();
            if sum > best.0 {
                best = (sum, from);
            }
        }
        let from = (best.1 as u64 * PART_BYTES).min(length.saturating_sub(PREFIX_BYTES));
        Ok(self.regions(from, PREFIX_BYTES))
    }

    /// The marks of all spans; of one that comes again the first place counts.
    fn scan(&self, olds: &[Old]) -> io::Result<HashMap<u64, u64>> {
        let mut marks = HashMap::new();
        let mut before = 0;
        for span in &self.spans {
            let Some(old) = olds.get(span.source) else {
                continue;
            };
            let mut finder = Finder::default();
            let mut done = 0;
            while done < span.length {
                let count = SCAN_BYTES.min(span.length - done);
                let bytes = old.bytes.read(span.offset + done, count)?;
                finder.each(&bytes, |at, mark| {
                    marks.entry(mark).or_insert(before + done + at as u64);
                });
                done += count;
            }
            before += span.length;
        }
        Ok(marks)
    }
}

/// A rolling hash, and the places at which it is a mark.
#[derive(Default)]
struct Finder {
    hash: u64,
}

impl Finder {
    fn each(&mut self, bytes: &[u8], mut found: impl FnMut(usize, u64)) {
        for (at, byte) in bytes.iter().enumerate() {
            // Each byte leaves the hash after 64 more.
            self.hash = (self.hash << 1).wrapping_add(spread(*byte));
            if (self.hash >> 40).is_multiple_of(MARK_EVERY) {
                found(at, self.hash);
            }
        }
    }
}

/// 64 bits for a byte, without a pattern.
fn spread(byte: u8) -> u64 {
    let mut bits = (u64::from(byte) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits ^ (bits >> 27)
}

/// Makes `range` of `new`; whether `within` was true all the time.
pub(crate) fn patch(
    new: &Plain,
    range: Range<u64>,
    olds: &[Old],
    resembling: &mut Resembling,
    maker: &mut Maker<File>,
    within: &dyn Fn(&Maker<File>) -> bool,
) -> io::Result<bool> {
    let of = range.end - range.start;
    let mut at = 0;
    while at < of {
        if !within(maker) {
            return Ok(false);
        }
        let length = PIECE_BYTES.min(of - at);
        let bytes = new.read(range.start + at, length)?;
        let same = resembling.regions(at, length);
        if same.iter().map(|region| region.length).sum::<u64>() == length
            && read(olds, &same)? == bytes
        {
            for region in same {
                maker.copy(region);
            }
        } else {
            let regions = resembling.nearest(olds, &bytes, at, of)?;
            maker.patch(&bytes, &regions, &read(olds, &regions)?)?;
        }
        at += length;
    }
    Ok(within(maker))
}

/// The bytes of regions, end to end.
pub(crate) fn read(olds: &[Old], regions: &[Region]) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    for region in regions {
        if let Some(old) = olds.get(region.source) {
            all.append(&mut old.bytes.read(region.offset, region.length)?);
        }
    }
    Ok(all)
}
