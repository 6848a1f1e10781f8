//! From what is there and its parity to the blobs that are missing, stripe by stripe.
//!
//! What comes in: a plan, the blobs that are there, and parity parts. What goes out: the bytes of the missing blobs, each
//! from its first byte to its last; several are made at the same time when they lie beside one another. Nothing here is
//! right until the sink has compared it with the signed index.

use std::io;

use outhaul_bundle::{Index, Parity};
use reed_solomon_simd::ReedSolomonDecoder;

use crate::plan::Step;
use crate::{BlobBytes, ParityError, RebuildPlan, read_part, stripe_bytes};

/// Reads the bytes of the parity parts that are there.
pub trait ParityBytes {
    /// Fills `buffer` with the bytes from `offset` on of parity part `part`, from 1.
    ///
    /// # Errors
    /// When it cannot be read; it ends the work.
    fn read(&mut self, part: usize, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
}

/// Takes the blobs that are made.
pub trait RebuildSink {
    /// The next bytes of the blob at this place of the index.
    ///
    /// # Errors
    /// When they cannot be written; it ends the work.
    fn write(&mut self, place: usize, bytes: &[u8]) -> io::Result<()>;

    /// All bytes of the blob were handed over: it is to be compared with its digest.
    ///
    /// # Errors
    /// When it is another one, or cannot be kept; it ends the work.
    fn end(&mut self, place: usize) -> io::Result<()>;
}

/// Makes the blobs of `plan`, which was made for as many parity parts as `have` names (from 1).
///
/// # Errors
/// [`ParityError`]; what the sink took before is as good as the sink found it.
pub fn rebuild(
    index: &Index,
    set: &Parity,
    plan: &RebuildPlan,
    have: &[usize],
    (blobs, parity): (&mut dyn BlobBytes, &mut dyn ParityBytes),
    sink: &mut dyn RebuildSink,
) -> Result<(), ParityError> {
    let layout = set.layout(index);
    let mut work = Work {
        index,
        set,
        have,
        stripe: stripe_bytes(set),
        decoder: None,
    };
    // What has no bytes is made of nothing.
    let size = |place: &usize| index.blobs.get(*place).map_or(0, |blob| blob.size);
    for place in plan.wanted.iter().filter(|place| size(place) == 0) {
        sink.end(*place).map_err(ParityError::Write)?;
    }
    let mut buffer = vec![0; work.stripe];
    for step in &plan.steps {
        let mut at = step.range.start;
        while at < step.range.end {
            let left = usize::try_from(step.range.end - at);
            let length = left.map_or(work.stripe, |left| left.min(work.stripe));
            let buffer = buffer.get_mut(..length).unwrap_or_default();
            work.add(step, at, buffer, &layout, (&mut *blobs, &mut *parity))?;
            work.hand_over(step, at, plan, &layout, sink)?;
            at += length as u64;
        }
    }
    Ok(())
}

struct Work<'a> {
    index: &'a Index,
    set: &'a Parity,
    have: &'a [usize],
    stripe: usize,
    decoder: Option<ReedSolomonDecoder>,
}

impl Work<'_> {
    fn coding(&self, source: reed_solomon_simd::Error) -> ParityError {
        ParityError::Coding {
            parts: self.set.parts(),
            parity: self.set.of(),
            source,
        }
    }

    /// Gives the decoder all that is there at `at`.
    fn add(
        &mut self,
        step: &Step,
        at: u64,
        buffer: &mut [u8],
        layout: &outhaul_bundle::volume::Layout,
        (blobs, parity): (&mut dyn BlobBytes, &mut dyn ParityBytes),
    ) -> Result<(), ParityError> {
        let (parts, of) = (self.set.parts(), self.set.of());
        let mut decoder = match self.decoder.take() {
            Some(mut decoder) => {
                let reset = decoder.reset(parts, of, buffer.len());
                reset.map_err(|error| self.coding(error))?;
                decoder
            }
            None => ReedSolomonDecoder::new(parts, of, buffer.len())
                .map_err(|error| self.coding(error))?,
        };
        for part in (0..parts).filter(|part| !step.lost.contains(part)) {
            read_part(layout, self.index, part, at, buffer, blobs)?;
            let added = decoder.add_original_shard(part, &*buffer);
            added.map_err(|error| self.coding(error))?;
        }
        for part in self.have.iter().take(step.lost.len()) {
            parity.read(*part, at, buffer).map_err(ParityError::Read)?;
            let added = decoder.add_recovery_shard(part.saturating_sub(1), &*buffer);
            added.map_err(|error| self.coding(error))?;
        }
        self.decoder = Some(decoder);
        Ok(())
    }

    /// Decodes, and hands over what is wanted of it.
    fn hand_over(
        &mut self,
        step: &Step,
        at: u64,
        plan: &RebuildPlan,
        layout: &outhaul_bundle::volume::Layout,
        sink: &mut dyn RebuildSink,
    ) -> Result<(), ParityError> {
        let Some(mut decoder) = self.decoder.take() else {
            return Ok(());
        };
        let made = decoder.decode().map_err(|error| self.coding(error))?;
        for part in &step.lost {
            let bytes = made.restored_original(*part).unwrap_or_default();
            let to = at.saturating_add(bytes.len() as u64);
            for (place, range) in layout.overlapping(*part, at..to) {
                let size = self.index.blobs.get(place).map_or(0, |blob| blob.size);
                if !plan.wanted.contains(&place) || size == 0 {
                    continue;
                }
                let end = range.start.saturating_add(size);
                let (begin, until) = (range.start.max(at), end.min(to));
                if begin >= until {
                    continue;
                }
                let cut = |offset: u64| usize::try_from(offset - at).unwrap_or(usize::MAX);
                let piece = bytes.get(cut(begin)..cut(until)).unwrap_or_default();
                sink.write(place, piece).map_err(ParityError::Write)?;
                if until == end {
                    sink.end(place).map_err(ParityError::Write)?;
                }
            }
        }
        drop(made);
        self.decoder = Some(decoder);
        Ok(())
    }
}
