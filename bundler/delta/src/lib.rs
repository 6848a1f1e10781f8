//! Patches of blobs against what sites have.
//!
//! What comes in: the plain bytes of a blob that a site lacks, and those of blobs that it has, in files. What goes out: a
//! patch ([`outhaul_bundle::patch`]), made file by file where both are tar archives (matched by path, then by the last
//! part of it), else piece by piece against the part that resembles it most. Memory does not grow with either.
//! It knows neither bundles nor fleets, and decides nothing about what travels.

use std::fs::File;
use std::io::{self, Seek as _, SeekFrom, Write};
use std::os::unix::fs::FileExt as _;
use std::rc::Rc;

use outhaul_bundle::Digest;
use outhaul_bundle::index::Content;
use outhaul_bundle::patch::{Maker, Source};

mod archive;
pub mod likely;
mod resemble;
pub mod travels;
pub mod twin;

use resemble::Resembling;

/// Bytes in a file.
#[derive(Debug, Clone)]
pub struct Plain {
    file: Rc<File>,
    size: u64,
}

impl Plain {
    /// What `file` holds.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn new(file: File) -> io::Result<Self> {
        let size = file.metadata()?.len();
        Ok(Self {
            file: Rc::new(file),
            size,
        })
    }

    /// How many they are.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Its first bytes.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn start(&self) -> io::Result<Vec<u8>> {
        self.read(0, self.size.min(512))
    }

    /// `length` bytes from `offset` on.
    ///
    /// # Errors
    /// When it cannot be read, or has fewer.
    pub fn read(&self, offset: u64, length: u64) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        self.file.read_exact_at(&mut bytes, offset)?;
        Ok(bytes)
    }

    /// All of them, from the first on.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn reader(&self) -> io::Result<io::BufReader<&File>> {
        let mut file = self.file.as_ref();
        file.seek(SeekFrom::Start(0))?;
        Ok(io::BufReader::with_capacity(1 << 16, file))
    }
}

/// A blob that sites have.
#[derive(Debug, Clone)]
pub struct Old {
    /// Its name in a patch.
    pub source: Source,
    /// Its bytes, read as that says.
    pub bytes: Plain,
}

/// How a patch was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// File by file of an archive.
    Files,
    /// Piece by piece.
    Pieces,
    /// File by file of an archive in gzip, which is compressed again as it was.
    FilesInGzip,
    /// Piece by piece of what is in gzip.
    PiecesInGzip,
}

impl Method {
    /// As a short word, for people and programs.
    pub fn word(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Pieces => "pieces",
            Self::FilesInGzip => "files in gzip",
            Self::PiecesInGzip => "pieces in gzip",
        }
    }
}

/// What a patch makes.
#[derive(Debug, Clone, Copy)]
pub enum New<'a> {
    /// These bytes.
    Plain(&'a Plain),
    /// The gzip file with this text and these corrections ([`outhaul_gzip`]).
    Gzip(&'a Plain, &'a [u8]),
    /// These bytes, the uncompressed archive of a layer with this digest, in the place of the layer.
    Twin(&'a Plain, Digest),
}

/// Writes to `out` the patch that makes `new` of `olds`. Returns its size and how it was made; `None` when it would not be
/// smaller than `limit` bytes.
///
/// # Errors
/// When a file cannot be read or written.
pub fn patch(
    new: New<'_>,
    olds: &[Old],
    limit: u64,
    out: &mut dyn Write,
) -> io::Result<Option<(u64, Method)>> {
    let mut olds = olds.to_vec();
    olds.sort_by_key(|old| old.source);
    olds.dedup_by_key(|old| old.source);
    let sources = olds.iter().map(|old| old.source).collect();
    let mut maker = Maker::new(sources, tempfile::tempfile()?);
    let is_gzip = matches!(new, New::Gzip(..));
    let new = match new {
        New::Plain(plain) => plain,
        New::Gzip(text, corrections) => {
            maker.correct(corrections)?;
            text
        }
        New::Twin(text, digest) => {
            let size = text.size();
            maker.make_twin(Content { digest, size });
            text
        }
    };
    let within = |maker: &Maker<File>| maker.bytes() < limit;
    let entries = archive::entries(new);
    let method = match entries
        .as_ref()
        .and_then(|_| archive::OldEntries::of(&olds))
    {
        Some(known) => {
            let entries = entries.unwrap_or_default();
            if !archive::patch(new, &entries, &olds, &known, &mut maker, &within)? {
                return Ok(None);
            }
            Method::Files
        }
        None => {
            let mut all = Resembling::all(&olds);
            let whole = 0..new.size();
            if !resemble::patch(new, whole, &olds, &mut all, &mut maker, &within)? {
                return Ok(None);
            }
            Method::Pieces
        }
    };
    let mut patch = tempfile::tempfile()?;
    let size = maker.finish(&mut patch)?;
    let Some(size) = size.filter(|size| *size < limit) else {
        return Ok(None);
    };
    patch.seek(SeekFrom::Start(0))?;
    io::copy(&mut patch, out)?;
    let method = match (method, is_gzip) {
        (Method::Files, true) => Method::FilesInGzip,
        (Method::Pieces, true) => Method::PiecesInGzip,
        (method, _) => method,
    };
    Ok(Some((size, method)))
}

#[cfg(test)]
mod tests;
