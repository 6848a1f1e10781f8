//! Writes a parity part: what a part begins with, then `parity.json` and the parity.
//!
//! What comes in: what [`super::write_part`] is given, and whoever makes the parity. What goes out: one deterministic tar.
//! It computes no parity, and signs nothing.

use std::io::{self, Write};

use super::{WriteError, begin};
use crate::digest::{Hasher, HashingWriter};
use crate::index::{Index, IndexBytes};
use crate::member::Member;
use crate::volume::{CHECK_BYTES, Parity};

/// Writes one parity part to `out` and returns it, flushed. `fill` must write as many bytes as the layout of `parity` has.
///
/// # Errors
/// As [`super::write_bundle`], and for parity of another size.
pub fn write_parity<W: Write>(
    out: W,
    metadata: &[(String, Vec<u8>)],
    index_bytes: &IndexBytes,
    index: &Index,
    parity: &Parity,
    fill: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
) -> Result<W, WriteError> {
    let mut tar = begin(out, metadata, index_bytes, index)?;
    let stated = parity.to_bytes();
    tar.small(&Member::ParityJson, &stated)?;
    let member = Member::Parity;
    let failed = |error| WriteError::Out {
        member: Member::Parity.to_string(),
        error,
    };
    let bytes = parity.layout(index).bytes();
    let size = bytes.saturating_add(CHECK_BYTES);
    tar.put(&member, &member.header(size))?;
    let mut hasher = Hasher::new();
    hasher.update(&stated);
    let mut out = HashingWriter::after(hasher, &mut tar.out);
    fill(&mut out).map_err(failed)?;
    let (_, digest, count) = out.finish();
    let count = count.saturating_sub(stated.len() as u64);
    if count != bytes {
        let problem = format!("{count} bytes of parity were made, {bytes} are due");
        return Err(failed(io::Error::other(problem)));
    }
    tar.put(&member, digest.as_bytes())?;
    tar.fill(&member, size)?;
    tar.finish()
}
