//! A kept bundle as several files, for sticks that do not hold it whole.
//!
//! What comes in: a bundle that the fleet keeps, how large a file may be, and a folder. What goes out: its parts in it,
//! the same bytes for the same bundle and size, each read back. A part is a separate bundle for whoever verifies it
//! ([`outhaul_bundle::volume`]): nothing is signed here, and no key is needed.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use outhaul_bundle::index::{Blob, Index};
use outhaul_bundle::limits::Limits;
use outhaul_bundle::read::BundleReader;
use outhaul_bundle::write::BlobSource;
use outhaul_bundle::{Digest, Volume, write_part};
use outhaul_kit::media::Media;

use super::copies::{Copied, CopyError, KeptBundle};
use crate::deliver::{CheckOnly, DeliverError, medium};
use crate::inspect::{self, InspectError};

/// Copies `bundle` into `folder` in parts of at most `max_bytes`: those of `only`, or all of them when it is empty.
///
/// # Errors
/// [`CopyError`]; parts that were written before are whole and stay.
pub fn copy(
    bundle: &KeptBundle,
    folder: &Path,
    max_bytes: u64,
    only: &[usize],
) -> Result<Vec<Copied>, CopyError> {
    bundle.check()?;
    let is_whole = std::fs::metadata(bundle.path()).is_ok_and(|found| found.len() <= max_bytes);
    if is_whole && only.iter().all(|part| *part == 1) {
        return Ok(vec![bundle.copy(folder)?]);
    }
    let (stream, number) = (bundle.stream(), bundle.number);
    let mut opened = Opened::open(bundle.path()).map_err(|source| CopyError::Read {
        stream: stream.clone(),
        number,
        source: Box::new(source),
    })?;
    let parts = Volume::plan(opened.fixed_bytes, &opened.index, max_bytes).map_err(|error| {
        CopyError::Cut {
            stream: stream.clone(),
            number,
            error,
        }
    })?;
    let count = parts.len();
    if let Some(part) = only.iter().find(|part| !(1..=count).contains(*part)) {
        let (part, parts) = (*part, count);
        return Err(CopyError::NoPart {
            stream,
            number,
            part,
            parts,
        });
    }
    if count == 1 {
        return Ok(vec![bundle.copy(folder)?]);
    }
    let wanted = |volume: &Volume| only.is_empty() || only.contains(&volume.part());
    let mut waiting = Vec::new();
    let mut done = BTreeMap::new();
    for volume in parts.into_iter().filter(wanted) {
        let file = folder.join(part_name(&bundle.file_name(), &volume));
        match opened.is_there(&file, &volume) {
            Some(bytes) => drop(done.insert(
                volume.part(),
                Copied {
                    file,
                    bytes,
                    written: false,
                },
            )),
            None => waiting.push((volume, file)),
        }
    }
    opened.fits(bundle, folder, &waiting)?;
    for (volume, file) in waiting {
        let bytes = opened.write(&file, &volume)?;
        done.insert(
            volume.part(),
            Copied {
                file,
                bytes,
                written: true,
            },
        );
    }
    Ok(done.into_values().collect())
}

/// `stage-press-3.part1of4.outhaul`
fn part_name(bundle: &str, volume: &Volume) -> String {
    let stem = bundle.strip_suffix(".outhaul").unwrap_or(bundle);
    format!("{stem}.part{}of{}.outhaul", volume.part(), volume.parts())
}

/// A bundle file whose blobs can be read one by one.
pub(super) struct Opened {
    file: File,
    metadata: Vec<(String, Vec<u8>)>,
    pub(super) index: Index,
    index_bytes: Vec<u8>,
    /// Where the blobs begin.
    fixed_bytes: u64,
    places: BTreeMap<Digest, u64>,
}

impl Opened {
    pub(super) fn open(path: &Path) -> Result<Self, InspectError> {
        let failed = |error: io::Error| {
            InspectError::Read(outhaul_bundle::ReadError::Io {
                member: "its beginning".to_owned(),
                offset: 0,
                error,
            })
        };
        let file = File::open(path).map_err(failed)?;
        let mut reader = BundleReader::new(file.try_clone().map_err(failed)?, Limits::default());
        let metadata = reader.read_metadata()?;
        let (index, index_bytes) = reader.read_index(&inspect::index_named(&metadata)?)?;
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
            places,
        })
    }

    /// The size of the part when it lies at `path`, whole, as the medium gives it back.
    pub(super) fn is_there(&self, path: &Path, volume: &Volume) -> Option<u64> {
        let media = Media::open(path.parent()?).ok()?;
        let file = media.open_uncached(Path::new(path.file_name()?)).ok()??;
        let mut reader = BundleReader::new(file, Limits::default());
        let metadata = reader.read_metadata().ok()?;
        let same = metadata.into_iter().eq(self.metadata.iter().cloned());
        let expected = outhaul_bundle::index::Content {
            digest: Digest::of(&self.index_bytes),
            size: self.index_bytes.len() as u64,
        };
        let (index, _) = reader.read_index(&expected).ok()?;
        let found = reader.read_volume(&index).ok()??;
        reader.read_blobs(&index, &mut CheckOnly).ok()?;
        (same && found == *volume).then(|| reader.offset())
    }

    /// Sees that all that is to be written fits, before anything is.
    fn fits(
        &self,
        bundle: &KeptBundle,
        folder: &Path,
        waiting: &[(Volume, PathBuf)],
    ) -> Result<(), CopyError> {
        let room = Media::open(folder).and_then(|media| media.room());
        let free = room.map_err(DeliverError::from)?.free_bytes;
        let mut bytes = 0u64;
        let mut fit = Vec::new();
        for (volume, _) in waiting {
            bytes = bytes.saturating_add(volume.bytes(self.fixed_bytes, &self.index));
            if bytes <= free {
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

    pub(super) fn write(&mut self, path: &Path, volume: &Volume) -> Result<u64, DeliverError> {
        let size = volume.bytes(self.fixed_bytes, &self.index);
        let mut blobs = Blobs {
            file: &self.file,
            places: &self.places,
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
const BLOCK: u64 = 512;

struct Blobs<'a> {
    file: &'a File,
    places: &'a BTreeMap<Digest, u64>,
}

impl BlobSource for Blobs<'_> {
    fn open(&mut self, blob: &Blob) -> io::Result<Box<dyn Read + '_>> {
        let place = self.places.get(&blob.digest);
        let place = place.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        let mut file = self.file;
        file.seek(SeekFrom::Start(*place))?;
        Ok(Box::new(file.take(blob.size)))
    }
}
