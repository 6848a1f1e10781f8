//! Layers as their uncompressed archives: for twins, and as what those are compared with.
//!
//! What comes in: the bytes of a layer as a registry has it, in gzip or zstd. What goes out: its archive in a file without a name, with its
//! digest, or why there is none. How much may come out of a layer is bounded. What the digest must be, the image's config states; comparing
//! it is for the caller.

use std::io::{self, Read, Write};

use outhaul_bundle::Digest;
use outhaul_bundle::digest::HashingWriter;
use outhaul_bundle::patch::{MAX_TEXT, View};

use crate::Plain;

/// The first bytes of a gzip file.
pub const GZIP: [u8; 3] = *b"\x1f\x8b\x08";
/// The first bytes of a zstd frame.
const ZSTD: [u8; 4] = *b"\x28\xb5\x2f\xfd";

/// The archive of a layer.
#[derive(Debug)]
pub struct Archive {
    /// Its bytes.
    pub bytes: Plain,
    /// Their digest.
    pub digest: Digest,
    /// How a patch reads the archive out of the layer.
    pub view: View,
}

/// Whether a blob is compressed as layers are.
///
/// # Errors
/// When it cannot be read.
pub fn is_compressed(layer: &Plain) -> io::Result<bool> {
    let start = layer.start()?;
    Ok(start.starts_with(&GZIP) || start.starts_with(&ZSTD))
}

/// The archive of `layer`; `Err` within states why there is none.
///
/// # Errors
/// When a file cannot be read or written.
pub fn archive(layer: &Plain) -> io::Result<Result<Archive, String>> {
    let file = tempfile::tempfile()?;
    let out = io::BufWriter::with_capacity(1 << 16, file.try_clone()?);
    let mut out = HashingWriter::new(out);
    let most = layer.size().saturating_mul(MAX_TEXT);
    let start = layer.start()?;
    let unpacked = if start.starts_with(&GZIP) {
        outhaul_gzip::text(layer.reader()?, &mut out, most)
    } else if start.starts_with(&ZSTD) {
        unpack(layer.reader()?, &mut out, most)
    } else {
        return Ok(Err("it is neither gzip nor zstd".to_owned()));
    };
    if let Err(error) = unpacked {
        let is_of_this_disk = matches!(
            error.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
        );
        if is_of_this_disk {
            return Err(error);
        }
        return Ok(Err(format!("it cannot be uncompressed: {error}")));
    }
    let (mut out, digest, size) = out.finish();
    out.flush()?;
    Ok(Ok(Archive {
        bytes: Plain::new(file)?,
        digest,
        view: match start.starts_with(&ZSTD) {
            true => View::Unpacked(size),
            false => View::Inflated(size),
        },
    }))
}

/// Writes what zstd frames hold, at most `most` bytes.
fn unpack(input: impl Read, out: &mut dyn Write, most: u64) -> io::Result<u64> {
    let decoder = zstd::Decoder::new(input)?;
    let written = io::copy(&mut decoder.take(most.saturating_add(1)), out)?;
    match written <= most {
        true => Ok(written),
        false => Err(io::Error::other(format!(
            "more than {MAX_TEXT} times its size comes out"
        ))),
    }
}
