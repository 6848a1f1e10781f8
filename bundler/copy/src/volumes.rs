//! A kept bundle as several files, for sticks that do not hold it whole.
//!
//! What comes in: a bundle that the fleet keeps, how large a file may be, and a folder. What goes out: its parts in it, and parity parts,
//! the same bytes for the same bundle and size, each read back. A part is a separate bundle for whoever verifies it
//! ([`outhaul_bundle::volume`]): nothing is signed here, and no key is needed.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek as _, SeekFrom, Write};
use std::path::{Path, PathBuf};

use outhaul_bundle::decode;
use outhaul_bundle::index::{Blob, Content, Index, IndexBytes};
use outhaul_bundle::limits::Limits;
use outhaul_bundle::read::BundleReader;
use outhaul_bundle::write::BlobSource;
use outhaul_bundle::{Digest, Parity, Volume, write_part};
use outhaul_delta::Plain;
use outhaul_kit::{durable, media::Media};
use outhaul_parity::ParityError;

use super::copies::{Copied, CopyError, KeptBundle};
use outhaul_attest::inspect::{self, InspectError};
use outhaul_ship::deliver::{DeliverError, medium};

mod parity;
mod patch_files;

pub(crate) use patch_files::PatchFiles;
use patch_files::{NoPatches, Same};

/// How a bundle is cut, and what of it is wanted.
#[derive(Debug, Clone, Copy)]
pub struct Cut<'a> {
    /// Most bytes of a file.
    pub max_bytes: u64,
    /// Only these parts.
    pub only: &'a [usize],
    /// How many parity parts are made.
    pub parity: usize,
    /// Only these parity parts. Where parts or parity parts are named, nothing else is written.
    pub only_parity: &'a [usize],
}

impl Cut<'_> {
    fn is_all(&self) -> bool {
        self.only.is_empty() && self.only_parity.is_empty()
    }
}

/// One file of a cut.
enum Piece {
    Part(Volume),
    Parity(Parity),
}

impl Piece {
    /// `stage-press-3.part1of4.outhaul`, or as [`parity::name`] says.
    fn name(&self, bundle: &str) -> String {
        match self {
            Self::Part(volume) => {
                let stem = bundle.strip_suffix(".outhaul").unwrap_or(bundle);
                format!("{stem}.part{}of{}.outhaul", volume.part(), volume.parts())
            }
            Self::Parity(parity) => parity::name(bundle, parity),
        }
    }

    fn bytes(&self, opened: &ReadableBundle) -> u64 {
        match self {
            Self::Part(volume) => volume.bytes(opened.fixed_bytes, &opened.index),
            Self::Parity(parity) => opened.parity_bytes(parity),
        }
    }
}

/// A file of a cut, where it goes, and which of all files it is.
type Placed = (usize, Piece, PathBuf);

/// The bytes of each of `pieces` that lies in its place already.
fn there(opened: &ReadableBundle, pieces: &[Placed]) -> Result<Vec<Option<u64>>, ParityError> {
    let mut parities = opened.parities_there(&parity::among(pieces))?.into_iter();
    let found = pieces.iter().map(|(_, piece, file)| match piece {
        Piece::Part(volume) => opened.is_there(file, volume, &NoPatches),
        Piece::Parity(_) => parities.next().flatten(),
    });
    Ok(found.collect())
}

/// Writes `pieces`, first the parts; the bytes of each.
fn write_all(
    opened: &ReadableBundle,
    pieces: &[Placed],
    no_parity: &dyn Fn(ParityError) -> CopyError,
) -> Result<Vec<u64>, CopyError> {
    let mut written = Vec::new();
    for (_, piece, file) in pieces {
        if let Piece::Part(volume) = piece {
            written.push(opened.write(file, volume, &NoPatches)?);
        }
    }
    // Those that are whole stay when one fails.
    let made = opened.write_parities(&parity::among(pieces));
    for parity in made.map_err(no_parity)? {
        written.push(parity?);
    }
    Ok(written)
}

/// That every one of `bundles` can be cut so, before anything is written. The smallest size that an error names works for
/// all of them.
///
/// # Errors
/// [`CopyError::Cut`] of the first that cannot be, or [`CopyError`] of one that cannot be read.
pub(crate) fn check<'b>(
    bundles: impl Iterator<Item = &'b KeptBundle>,
    cut: Cut<'_>,
) -> Result<(), CopyError> {
    let mut failed = None;
    let mut needed = 0;
    for bundle in bundles {
        let opened = open(bundle)?;
        let mut least = Volume::least_bytes(opened.fixed_bytes, &opened.index);
        let size = std::fs::metadata(bundle.path()).map(|found| found.len());
        // One that fits is copied whole.
        if let (true, Ok(size)) = (may_be_whole(cut), size) {
            least = least.min(size);
        }
        needed = needed.max(least);
        if failed.is_none() && least > cut.max_bytes {
            let planned = Volume::plan(opened.fixed_bytes, &opened.index, cut.max_bytes);
            failed = planned.err().map(|error| (bundle, error));
        }
    }
    failed.map_or(Ok(()), |(bundle, error)| {
        Err(CopyError::Cut {
            stream: bundle.stream(),
            number: bundle.number,
            error,
            least: needed,
        })
    })
}

fn may_be_whole(cut: Cut<'_>) -> bool {
    cut.parity == 0 && cut.only.iter().all(|part| *part == 1)
}

/// Refuses a part that is named and is none of `parts`.
fn refuse_other_part(bundle: &KeptBundle, parts: usize, cut: Cut<'_>) -> Result<(), CopyError> {
    match cut.only.iter().find(|part| !(1..=parts).contains(*part)) {
        Some(part) => Err(CopyError::NoPart {
            stream: bundle.stream(),
            number: bundle.number,
            part: *part,
            parts,
        }),
        None => Ok(()),
    }
}

pub(super) fn open(bundle: &KeptBundle) -> Result<ReadableBundle, CopyError> {
    ReadableBundle::open(bundle.path()).map_err(|source| CopyError::Read {
        stream: bundle.stream(),
        number: bundle.number,
        source: Box::new(source),
    })
}

/// Copies `bundle` into `folder` in parts of at most so many bytes: those that are wanted, then the parity parts.
///
/// # Errors
/// [`CopyError`]; parts that were written before are whole and stay.
pub(crate) fn copy(
    bundle: &KeptBundle,
    folder: &Path,
    cut: Cut<'_>,
) -> Result<Vec<Copied>, CopyError> {
    bundle.check()?;
    let is_small = |found: std::fs::Metadata| found.len() <= cut.max_bytes;
    if may_be_whole(cut) && std::fs::metadata(bundle.path()).is_ok_and(is_small) {
        return Ok(vec![bundle.copy(folder)?]);
    }
    let opened = open(bundle)?;
    let parts =
        Volume::plan(opened.fixed_bytes, &opened.index, cut.max_bytes).map_err(|error| {
            CopyError::Cut {
                stream: bundle.stream(),
                number: bundle.number,
                error,
                least: Volume::least_bytes(opened.fixed_bytes, &opened.index),
            }
        })?;
    // Of nothing there is no parity.
    let of = match opened.index.blobs.is_empty() {
        true => 0,
        false => cut.parity,
    };
    refuse_other_part(bundle, parts.len(), cut)?;
    if parts.len() == 1 && of == 0 {
        return Ok(vec![bundle.copy(folder)?]);
    }
    let pieces = wanted(bundle, parts, of, cut)?;
    let placed = pieces.into_iter().enumerate();
    let placed: Vec<Placed> = placed
        .map(|(at, piece)| {
            let file = folder.join(piece.name(&bundle.file_name()));
            (at, piece, file)
        })
        .collect();
    let no_parity = |source| CopyError::Parity {
        stream: bundle.stream(),
        number: bundle.number,
        source,
    };
    let found = there(&opened, &placed).map_err(no_parity)?;
    let mut waiting = Vec::new();
    let mut done = BTreeMap::new();
    let mut finished = |at, file, bytes, written| {
        let copied = Copied {
            file,
            bytes,
            written,
        };
        done.insert(at, copied);
    };
    for ((at, piece, file), found) in placed.into_iter().zip(found) {
        match found {
            Some(bytes) => finished(at, file, bytes, false),
            None => waiting.push((at, piece, file)),
        }
    }
    opened.fits(bundle, folder, &waiting)?;
    // Parts come before parity parts in all lists.
    let written = write_all(&opened, &waiting, &no_parity)?;
    for ((at, _, file), bytes) in waiting.into_iter().zip(written) {
        finished(at, file, bytes, true);
    }
    Ok(done.into_values().collect())
}

/// The files of a cut that are wanted.
fn wanted(
    bundle: &KeptBundle,
    parts: Vec<Volume>,
    of: usize,
    cut: Cut<'_>,
) -> Result<Vec<Piece>, CopyError> {
    let parity = parts.first().map(|first| Parity::of_cut(first, of));
    let parity = parity.unwrap_or_default();
    let is_there = |part: &&usize| !(1..=parity.len()).contains(*part);
    if let Some(part) = cut.only_parity.iter().find(is_there) {
        return Err(CopyError::NoParityPart {
            stream: bundle.stream(),
            number: bundle.number,
            part: *part,
            of: parity.len(),
        });
    }
    let is_wanted = |only: &[usize], part: usize| cut.is_all() || only.contains(&part);
    let parts = parts.into_iter();
    let parts = parts.filter(|volume| is_wanted(cut.only, volume.part()));
    let parity = parity
        .into_iter()
        .filter(|parity| is_wanted(cut.only_parity, parity.part()));
    Ok(parts
        .map(Piece::Part)
        .chain(parity.map(Piece::Parity))
        .collect())
}

/// A bundle file whose blobs can be read one by one.
pub(super) struct ReadableBundle {
    file: File,
    metadata: Vec<(String, Vec<u8>)>,
    pub(super) index: Index,
    index_bytes: IndexBytes,
    /// Where the blobs begin.
    fixed_bytes: u64,
    /// Where they end.
    end: u64,
    places: BTreeMap<Digest, u64>,
}

impl ReadableBundle {
    pub(super) fn open(path: &Path) -> Result<Self, InspectError> {
        let failed = |error: io::Error| {
            InspectError::Read(outhaul_bundle::ReadError::Io {
                member: "its beginning".to_owned(),
                offset: 0,
                error,
            })
        };
        let file = durable::open_file(path).map_err(failed)?;
        let mut reader = BundleReader::new(file.try_clone().map_err(failed)?, Limits::default());
        let metadata = reader.read_metadata()?;
        let (index, canonical) = reader.read_index(&inspect::index_named(&metadata)?)?;
        let index_bytes = IndexBytes::new(canonical, reader.index_compressed());
        let fixed_bytes = reader.offset();
        let mut at = fixed_bytes;
        let mut places = BTreeMap::new();
        for blob in &index.blobs {
            places.insert(blob.digest, at.saturating_add(BLOCK));
            at = at
                .saturating_add(BLOCK)
                .saturating_add(blob.size.div_ceil(BLOCK) * BLOCK);
        }
        Ok(Self {
            file,
            metadata: metadata.into_iter().collect(),
            index,
            index_bytes,
            fixed_bytes,
            end: at,
            places,
        })
    }

    /// Bytes of a parity part as a file.
    fn parity_bytes(&self, parity: &Parity) -> u64 {
        parity.bytes(self.fixed_bytes, &self.index)
    }

    /// Whether the file has every blob of its index.
    pub(super) fn is_whole(&self) -> bool {
        let end = self.end.saturating_add(2 * BLOCK);
        self.file.metadata().is_ok_and(|found| found.len() == end)
    }

    /// The contents of a blob, end to end, in a file without a name.
    pub(super) fn plain(&self, blob: &Blob) -> io::Result<Plain> {
        let out = tempfile::tempfile()?;
        let mut blobs = Blobs {
            file: &self.file,
            places: &self.places,
            patches: None,
        };
        let mut each = |_: &Content| {
            let out = BufWriter::new(out.try_clone()?);
            Ok(Some(Box::new(out) as Box<dyn Write>))
        };
        decode::decode(blob, blobs.open(blob)?, &Limits::default(), &mut each)
            .map_err(io::Error::other)?;
        Plain::new(out)
    }

    /// The size of the part when it lies at `path`, whole, as the medium gives it back.
    pub(super) fn is_there(
        &self,
        path: &Path,
        volume: &Volume,
        patches: &dyn PatchFiles,
    ) -> Option<u64> {
        let media = Media::open(path.parent()?).ok()?;
        let file = media.open_uncached(Path::new(path.file_name()?)).ok()??;
        let mut reader = BundleReader::new(file, Limits::default());
        let metadata = reader.read_metadata().ok()?;
        let same = metadata.into_iter().eq(self.metadata.iter().cloned());
        let (index, _) = reader.read_index(&self.index_bytes.content()).ok()?;
        let found = reader.read_volume(&index).ok()??;
        let mut sink = Same::new(patches);
        reader.read_blobs(&index, &mut sink).ok()?;
        (same && found == *volume && sink.is_same).then(|| reader.offset())
    }

    /// Sees that all that is to be written fits, before anything is.
    fn fits(
        &self,
        bundle: &KeptBundle,
        folder: &Path,
        waiting: &[Placed],
    ) -> Result<(), CopyError> {
        let room = Media::open(folder).and_then(|media| media.room());
        let free = room.map_err(DeliverError::from)?.free_bytes;
        let mut bytes = 0u64;
        let mut fit = Vec::new();
        for (_, piece, _) in waiting {
            bytes = bytes.saturating_add(piece.bytes(self));
            if let Piece::Part(volume) = piece
                && bytes <= free
            {
                fit.push(volume.part());
            }
        }
        if bytes <= free {
            return Ok(());
        }
        Err(CopyError::Parts {
            stream: bundle.stream(),
            number: bundle.number,
            folder: folder.to_owned(),
            bytes,
            free,
            fit,
        })
    }

    pub(super) fn write(
        &self,
        path: &Path,
        volume: &Volume,
        patches: &dyn PatchFiles,
    ) -> Result<u64, DeliverError> {
        let size = volume.bytes(self.fixed_bytes, &self.index);
        let mut blobs = Blobs {
            file: &self.file,
            places: &self.places,
            patches: Some(patches),
        };
        let (metadata, index, bytes) = (&self.metadata, &self.index, &self.index_bytes);
        let (_, written) = medium::put(path, size, |out| {
            write_part(out, metadata, bytes, index, volume, &mut blobs)
                .map(drop)
                .map_err(|source| DeliverError::Write {
                    path: path.to_owned(),
                    source,
                })
        })?;
        Ok(written)
    }
}

/// Tar's unit.
const BLOCK: u64 = outhaul_bundle::BLOCK as u64;

struct Blobs<'a> {
    file: &'a File,
    places: &'a BTreeMap<Digest, u64>,
    patches: Option<&'a dyn PatchFiles>,
}

impl BlobSource for Blobs<'_> {
    fn open(&mut self, blob: &Blob) -> io::Result<Box<dyn Read + '_>> {
        let place = self.places.get(&blob.digest);
        let place = place.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        let mut file = self.file;
        file.seek(SeekFrom::Start(*place))?;
        Ok(Box::new(file.take(blob.size)))
    }

    fn open_patch(&mut self, blob: &Blob) -> io::Result<Box<dyn Read + '_>> {
        match self.patches {
            Some(patches) => patches.open(blob),
            None => Err(io::Error::from(io::ErrorKind::NotFound)),
        }
    }
}
