//! Parity of a bundle's parts, and blobs that are lost or damaged made again from it.
//!
//! What comes in: the signed index, a cut of it into parts ([`Parity`]), and whoever reads the bytes of a blob. What goes
//! out: the bytes of parity parts ([`encode()`]), or those of the blobs that are missing ([`rebuild()`], once [`plan()`] has
//! seen that it can be done). Memory stays below [`MAX_WORK_BYTES`] or so, however large the parts are. What comes out of
//! foreign parity is no more than bytes: whoever calls compares each blob with the digest in the signed index. It opens no
//! file and decides nothing about what is accepted.
#![warn(missing_docs)]

use std::io;

use outhaul_bundle::Parity;
use outhaul_bundle::volume::Layout;

mod choices;
mod encode;
mod plan;
mod rebuild;

pub use choices::choices;
pub use encode::encode;
pub use plan::{BlobPresence, RebuildPlan, Shortage, plan};
pub use rebuild::{ParityBytes, RebuildSink, rebuild};

/// Bytes that coding works on at once, whatever the parts are.
pub const MAX_WORK_BYTES: usize = 32 << 20;
/// Largest stripe: more is no faster.
const MAX_STRIPE: usize = 1 << 20;
/// Smallest stripe, with the most parts that there may be.
const MIN_STRIPE: usize = 8 << 10;

/// Reads the bytes of blobs that are there.
pub trait BlobBytes {
    /// Fills `buffer` with the bytes from `offset` on of the blob at this place of the index.
    ///
    /// # Errors
    /// When it cannot be read; it ends the work.
    fn read(&mut self, place: usize, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
}

/// Why parity was not made, or nothing was made of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ParityError {
    /// What is there could not be read.
    #[error("what parity is computed of cannot be read")]
    Read(#[source] io::Error),
    /// What was made could not be written.
    #[error("what was made cannot be written")]
    Write(#[source] io::Error),
    /// More parts than can be coded: a parity part as it is read has fewer.
    #[error("{parts} parts and {parity} parity parts are more than can be computed with: {source}")]
    Coding {
        /// Data parts.
        parts: usize,
        /// Parity parts.
        parity: usize,
        /// Why.
        source: reed_solomon_simd::Error,
    },
}

/// How many bytes of each part are worked on at once.
fn stripe_bytes(parity: &Parity) -> usize {
    let all = parity.parts().saturating_add(parity.of());
    // The coder rounds both counts up to powers of two.
    let rounded = all.next_power_of_two().saturating_mul(2);
    let fits = (MAX_WORK_BYTES / rounded).clamp(MIN_STRIPE, MAX_STRIPE);
    // Blocks of 512 bytes stay whole.
    fits - fits % 512
}

/// Reads a range of a data part (from 0) as parity sees it: blobs, and zeros around them.
fn read_part(
    layout: &Layout,
    index: &outhaul_bundle::Index,
    part: usize,
    from: u64,
    buffer: &mut [u8],
    blobs: &mut dyn BlobBytes,
) -> Result<(), ParityError> {
    buffer.fill(0);
    let to = from.saturating_add(buffer.len() as u64);
    for (place, range) in layout.overlapping(part, from..to) {
        let size = index.blobs.get(place).map_or(0, |blob| blob.size);
        let begin = range.start.max(from);
        let end = range.start.saturating_add(size).min(to);
        if begin >= end {
            continue;
        }
        let at = usize::try_from(begin - from).unwrap_or(usize::MAX);
        let until = usize::try_from(end - from).unwrap_or(usize::MAX);
        let Some(target) = buffer.get_mut(at..until) else {
            continue;
        };
        blobs
            .read(place, begin - range.start, target)
            .map_err(ParityError::Read)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
