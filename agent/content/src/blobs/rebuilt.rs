//! Blobs that are made again from parity, and the parity that is kept for it.
//!
//! What comes in: parity whose bytes are as they were written, which nobody signed, and the blobs that are here. What goes
//! out: blobs with the digests that the signed index names, or an error and nothing. Each lies in `blobs/partial` until its
//! digest was compared, as what a stick brings does. The medium is not read.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use outhaul_bundle::digest::Hasher;
use outhaul_bundle::index::Blob;
use outhaul_bundle::{Digest, Index, Parity};
use outhaul_parity::{
    BlobBytes, BlobPresence, ParityBytes, ParityError, RebuildPlan, RebuildSink, Shortage,
};

use super::{BUFFER_BYTES, Blobs, digest_of};
use crate::durable::{self, FileError};

/// Files that are kept open: a bundle may have a thousand parts.
const OPEN: usize = 64;

/// Why blobs were not made again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RebuildError {
    /// What was made is not what was signed.
    #[error("what parity makes of blob {blob} is not what was signed")]
    Wrong {
        /// The blob.
        blob: Digest,
    },
    /// The disk failed, or the work was stopped.
    #[error(transparent)]
    Work(#[from] ParityError),
}

impl Blobs {
    /// A file for parity that is being read, and where it lies; `name` is what it is called until it is kept.
    ///
    /// # Errors
    /// [`FileError`] when it cannot be made.
    pub fn begin_parity(&self, name: &Digest) -> Result<(File, PathBuf), FileError> {
        let path = self.partial_path(name);
        Ok((durable::create(&path, 0o600)?, path))
    }

    /// Gives parity that was read whole its name.
    ///
    /// # Errors
    /// [`FileError`] of the disk.
    pub fn keep_parity(&mut self, from: &Path, digest: Digest) -> Result<(), FileError> {
        let to = self.path(&digest);
        self.keep_as(from, &to)
    }

    /// Whether parity that was kept is here as it was kept.
    pub fn has_parity(&self, digest: &Digest) -> bool {
        digest_of(&self.path(digest)).is_ok_and(|found| found == *digest)
    }

    /// How the missing blobs of `index` can be made with this much parity of a set.
    ///
    /// # Errors
    /// [`Shortage`]
    pub fn plan_rebuilding(
        &self,
        index: &Index,
        set: &Parity,
        parity: usize,
    ) -> Result<RebuildPlan, Shortage> {
        let standing = |place: usize| match index.blobs.get(place) {
            Some(blob) if self.is_carried(blob) => BlobPresence::Here,
            // Made of a patch once, so that the bytes that parity is computed of are not here.
            Some(blob) if self.has(blob) => BlobPresence::Unwanted,
            _ => BlobPresence::Missing,
        };
        outhaul_parity::plan(&set.layout(index), &standing, parity)
    }

    /// Makes the blobs of a plan, of the blobs that are here and the parity that is kept under these digests; `go_on` is
    /// asked as the work goes on.
    ///
    /// # Errors
    /// [`RebuildError`]; what is not whole is thrown away.
    pub fn rebuild(
        &mut self,
        index: &Index,
        (set, plan): (&Parity, &RebuildPlan),
        kept: &BTreeMap<usize, Digest>,
        go_on: &mut dyn FnMut() -> io::Result<()>,
    ) -> Result<(), RebuildError> {
        let have: Vec<usize> = kept.keys().copied().collect();
        let whole = self.whole.clone();
        let mut here = Here {
            index,
            folder: whole.clone(),
            open: BTreeMap::new(),
            go_on,
        };
        let paths = kept.iter();
        let mut parity = KeptParity {
            paths: paths
                .map(|(part, digest)| (*part, whole.join(digest.hex())))
                .collect(),
            open: BTreeMap::new(),
        };
        let mut sink = Making {
            blobs: self,
            index,
            begun: BTreeMap::new(),
            wrong: None,
        };
        let made =
            outhaul_parity::rebuild(index, set, plan, &have, (&mut here, &mut parity), &mut sink);
        let wrong = sink.wrong;
        let begun = std::mem::take(&mut sink.begun);
        drop(sink);
        for place in begun.keys() {
            if let Some(blob) = index.blobs.get(*place) {
                let _ = durable::remove_file(&self.partial_path(&blob.digest));
            }
        }
        match (made, wrong) {
            (Err(_), Some(blob)) => Err(RebuildError::Wrong { blob }),
            (made, _) => Ok(made?),
        }
    }
}

/// The blobs that are here, as they are carried.
struct Here<'a> {
    index: &'a Index,
    folder: PathBuf,
    open: BTreeMap<usize, File>,
    go_on: &'a mut dyn FnMut() -> io::Result<()>,
}

impl BlobBytes for Here<'_> {
    fn read(&mut self, place: usize, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        (self.go_on)()?;
        let blob = self.index.blobs.get(place);
        let blob = blob.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        if self.open.len() >= OPEN && !self.open.contains_key(&place) {
            self.open.clear();
        }
        let path = self.folder.join(blob.digest.hex());
        opened(&mut self.open, place, &path)?.read_exact_at(buffer, offset)
    }
}

struct KeptParity {
    paths: BTreeMap<usize, PathBuf>,
    open: BTreeMap<usize, File>,
}

impl ParityBytes for KeptParity {
    fn read(&mut self, part: usize, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let path = self.paths.get(&part);
        let path = path.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        opened(&mut self.open, part, path)?.read_exact_at(buffer, offset)
    }
}

fn opened<'f>(
    open: &'f mut BTreeMap<usize, File>,
    at: usize,
    path: &Path,
) -> io::Result<&'f mut File> {
    use std::collections::btree_map::Entry;
    Ok(match open.entry(at) {
        Entry::Occupied(known) => known.into_mut(),
        Entry::Vacant(place) => place.insert(durable::open_file(path)?),
    })
}

/// Takes what is made, and compares it.
struct Making<'a> {
    blobs: &'a mut Blobs,
    index: &'a Index,
    begun: BTreeMap<usize, (BufWriter<File>, Hasher)>,
    wrong: Option<Digest>,
}

impl Making<'_> {
    fn blob(&self, place: usize) -> io::Result<&Blob> {
        let blob = self.index.blobs.get(place);
        blob.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }

    fn begin(&mut self, place: usize) -> io::Result<(BufWriter<File>, Hasher)> {
        if let Some(begun) = self.begun.remove(&place) {
            return Ok(begun);
        }
        let path = self.blobs.partial_path(&self.blob(place)?.digest);
        let file = durable::create(&path, 0o600).map_err(|error| error.source)?;
        Ok((BufWriter::with_capacity(BUFFER_BYTES, file), Hasher::new()))
    }
}

impl RebuildSink for Making<'_> {
    fn write(&mut self, place: usize, bytes: &[u8]) -> io::Result<()> {
        let (mut file, mut hasher) = self.begin(place)?;
        hasher.update(bytes);
        let written = file.write_all(bytes);
        self.begun.insert(place, (file, hasher));
        written
    }

    fn end(&mut self, place: usize) -> io::Result<()> {
        let (mut file, hasher) = self.begin(place)?;
        file.flush()?;
        drop(file);
        let digest = self.blob(place)?.digest;
        if hasher.finish().0 != digest {
            durable::remove_file(&self.blobs.partial_path(&digest))
                .map_err(|error| error.source)?;
            self.wrong = Some(digest);
            return Err(io::Error::from(io::ErrorKind::InvalidData));
        }
        self.blobs.keep(&digest).map_err(|error| error.source)
    }
}
