//! From the blobs of a bundle to its parity, stripe by stripe.
//!
//! What comes in: an index, a cut, and the blobs. What goes out: the bytes of all parity parts of the set, handed over in
//! pieces; the same for the same blobs and cut on any machine. It holds one stripe of each part.

use std::io;

use outhaul_bundle::{Index, Parity};
use reed_solomon_simd::ReedSolomonEncoder;

use crate::{BlobBytes, ParityError, read_part, stripe_bytes};

/// Computes the parity of a set and hands each piece to `out`, with the number of its parity part, from 1; the pieces of a
/// part come in order.
///
/// # Errors
/// [`ParityError`]
pub fn encode(
    index: &Index,
    set: &Parity,
    blobs: &mut dyn BlobBytes,
    out: &mut dyn FnMut(usize, &[u8]) -> io::Result<()>,
) -> Result<(), ParityError> {
    let layout = set.layout(index);
    let (parts, of) = (set.parts(), set.of());
    let coding = |source| ParityError::Coding {
        parts,
        parity: of,
        source,
    };
    let stripe = stripe_bytes(set);
    let mut buffer = vec![0; stripe];
    let mut encoder: Option<ReedSolomonEncoder> = None;
    let (mut at, end) = (0u64, layout.bytes());
    while at < end {
        let length = usize::try_from(end - at).map_or(stripe, |left| left.min(stripe));
        let coder = match &mut encoder {
            Some(coder) => {
                coder.reset(parts, of, length).map_err(coding)?;
                coder
            }
            none => none.insert(ReedSolomonEncoder::new(parts, of, length).map_err(coding)?),
        };
        let buffer = buffer.get_mut(..length).unwrap_or_default();
        for part in 0..parts {
            read_part(&layout, index, part, at, buffer, blobs)?;
            coder.add_original_shard(&*buffer).map_err(coding)?;
        }
        let made = coder.encode().map_err(coding)?;
        for (number, bytes) in made.recovery_iter().enumerate() {
            out(number + 1, bytes).map_err(ParityError::Write)?;
        }
        at += length as u64;
    }
    Ok(())
}
