//! Parity parts beside the parts of a bundle, for sticks that lose some.
//!
//! What comes in: a kept bundle that is being copied in parts, and how many parity parts. What goes out: the parity parts
//! that are wanted, the same bytes for the same bundle, size and number, each read back. They are made of the fleet's own
//! copy, not of what the medium gives back. Nothing is signed here, and no key is needed.

use std::fs::File;
use std::io::{self, BufReader, Read as _, Write};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use outhaul_bundle::{Parity, write_parity};
use outhaul_kit::media::Media;
use outhaul_parity::{BlobBytes, encode};

use super::Opened;
use crate::deliver::{DeliverError, medium};

/// `stage-press-3.1of2.parity`: no name of a bundle, so that agents which know no parity leave it alone.
pub(super) fn name(bundle: &str, parity: &Parity) -> String {
    let stem = bundle.strip_suffix(".outhaul").unwrap_or(bundle);
    format!("{stem}.{}of{}.parity", parity.part(), parity.of())
}

/// The blobs of a bundle file.
struct Blobs<'a>(&'a Opened);

impl BlobBytes for Blobs<'_> {
    fn read(&mut self, place: usize, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let Blobs(opened) = self;
        let blob = opened.index.blobs.get(place);
        let begin = blob.and_then(|blob| opened.places.get(&blob.digest));
        let begin = begin.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        opened
            .file
            .read_exact_at(buffer, begin.saturating_add(offset))
    }
}

impl Opened {
    /// Writes the parity part `parity` to `out`.
    fn parity(&self, out: &mut dyn Write, parity: &Parity) -> io::Result<()> {
        let (metadata, index, bytes) = (&self.metadata, &self.index, &self.index_bytes);
        let mut fill = |out: &mut dyn Write| {
            let mut only = |part: usize, bytes: &[u8]| match part == parity.part() {
                true => out.write_all(bytes),
                false => Ok(()),
            };
            encode(index, parity, &mut Blobs(self), &mut only).map_err(io::Error::other)
        };
        write_parity(out, metadata, bytes, index, parity, &mut fill)
            .map(drop)
            .map_err(io::Error::other)
    }

    /// The size of the parity part when it lies at `path`, byte for byte, as the medium gives it back.
    pub(super) fn parity_is_there(&self, path: &Path, parity: &Parity) -> Option<u64> {
        let media = Media::open(path.parent()?).ok()?;
        let file = media.open_uncached(Path::new(path.file_name()?)).ok()??;
        let size = file.metadata().ok()?.len();
        if size != self.parity_bytes(parity) {
            return None;
        }
        let mut same = Same {
            there: BufReader::with_capacity(256 * 1024, file),
            buffer: Vec::new(),
        };
        self.parity(&mut same, parity).ok()?;
        Some(size)
    }

    /// Puts the parity part at `path`.
    pub(super) fn write_parity(&self, path: &Path, parity: &Parity) -> Result<u64, DeliverError> {
        let (_, written) = medium::put(path, self.parity_bytes(parity), |out| {
            self.parity(out, parity).map_err(|source| DeliverError::Io {
                doing: "write",
                path: path.to_owned(),
                source,
            })
        })?;
        Ok(written)
    }
}

/// Compares what is written with what is there, and fails at the first byte that differs.
struct Same {
    there: BufReader<File>,
    buffer: Vec<u8>,
}

impl Write for Same {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.resize(bytes.len(), 0);
        self.there.read_exact(&mut self.buffer)?;
        match self.buffer == bytes {
            true => Ok(bytes.len()),
            false => Err(io::Error::from(io::ErrorKind::InvalidData)),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
