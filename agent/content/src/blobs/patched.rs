//! Blobs that are made here: of a patch that a copy carries, and of blobs that the site has.
//!
//! What comes in: a patch whose bytes are as they were written, which nobody signed, and the blobs of the generations on
//! this site. What goes out: a blob with the contents that the signed index names, under its digest, or a refusal and
//! nothing. A patch lies in a file without a name; what it makes gets its name once every content of it was compared.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Seek as _, SeekFrom};
use std::path::Path;

use outhaul_bundle::Digest;
use outhaul_bundle::index::{Blob, Encoding};
use outhaul_bundle::patch::{Patch, PatchError};
use outhaul_kit::format_count::format_count;

use super::sources::{StoredSources, unnamed};
use super::stored::Stored;
use super::{BUFFER_BYTES, Blobs};
use crate::cut;
use crate::durable;

/// What is needed to make blobs.
#[derive(Debug, Default)]
pub(super) struct Patching {
    /// Blobs that may be here, by digest.
    known: BTreeMap<Digest, Blob>,
    /// The patch that is being read.
    patch: Option<File>,
    /// Bytes of the patch that is being read, and of all before it; blobs that were made, and their bytes as carried.
    bytes: u64,
    all_bytes: u64,
    made: usize,
    in_place_of: u64,
    /// Why this site takes no archive in the place of a layer.
    pub(super) no_twins: Option<String>,
    /// Why a patch made nothing.
    wrong: Option<(Digest, PatchError)>,
}

impl Patching {
    pub(super) fn begin(&mut self, folder: &Path, bytes: u64) -> io::Result<File> {
        self.bytes = bytes;
        let file = unnamed(folder)?;
        let copy = file.try_clone()?;
        self.patch = Some(file);
        Ok(copy)
    }

    pub(super) fn discard(&mut self) {
        self.patch = None;
    }
}

impl Blobs {
    /// Patches may build on these blobs, of which the entries come from signed indexes.
    pub fn build_on(&mut self, blobs: impl IntoIterator<Item = Blob>) {
        let blobs = blobs.into_iter().map(|blob| (blob.digest, blob));
        self.patching.known.extend(blobs);
    }

    /// Why a patch made nothing, and the blob that it was for; asked once.
    pub fn take_wrong(&mut self) -> Option<(Digest, PatchError)> {
        self.patching.wrong.take()
    }

    /// What was made of patches, in a sentence.
    pub fn made(&self) -> Option<String> {
        let Patching {
            made,
            all_bytes,
            in_place_of,
            ..
        } = &self.patching;
        let blobs = format_count(*made, "blob", "blobs");
        (*made > 0).then(|| {
            format!("{blobs} made of patches of {all_bytes} bytes, in place of {in_place_of} bytes")
        })
    }

    /// Makes `blob` of the patch that was read.
    pub(super) fn make(&mut self, blob: &Blob) -> io::Result<()> {
        let Some(patch) = self.patching.patch.take() else {
            return Ok(());
        };
        let applied = self.apply(blob, patch);
        if applied.is_ok() {
            self.patching.made += 1;
            self.patching.all_bytes += self.patching.bytes;
            self.patching.in_place_of += blob.size;
        }
        applied.map_err(|error| match error {
            PatchError::Read(error) | PatchError::Store(error) => error,
            error => {
                let reported = io::Error::other(error.to_string());
                self.patching.wrong = Some((blob.digest, error));
                reported
            }
        })
    }

    fn apply(&mut self, blob: &Blob, mut patch: File) -> Result<(), PatchError> {
        let store = |error: durable::FileError| PatchError::Store(error.source);
        // Of what is stored as it is, the contents are the blob.
        let is_carried = blob.encoding == Encoding::Identity;
        let path = match is_carried {
            true => self.partial_path(&blob.digest),
            false => self.partial_plain_path(&blob.digest),
        };
        let mut made = match self.trial {
            Some(_) => unnamed(&self.partial).map_err(PatchError::Store)?,
            None => durable::create(&path, 0o600).map_err(store)?,
        };
        let size = patch.seek(SeekFrom::End(0)).map_err(PatchError::Read)?;
        patch.seek(SeekFrom::Start(0)).map_err(PatchError::Read)?;
        let mut input = BufReader::with_capacity(BUFFER_BYTES, patch);
        let mut twin = None;
        let applied = Patch::read(&mut input, size).and_then(|patch| {
            twin = patch.twin(blob)?;
            if let Some(why) = self.patching.no_twins.as_ref().filter(|_| twin.is_some()) {
                return Err(PatchError::Twin { why: why.clone() });
            }
            let target = twin.as_ref().unwrap_or(blob);
            let free = durable::free_bytes(&self.partial).map_err(store)?;
            check_room(free, writes(&patch, target)).map_err(PatchError::Store)?;
            let mut sources = StoredSources::new(self, &self.patching.known);
            let mut out = BufWriter::with_capacity(BUFFER_BYTES, &mut made);
            patch.apply(target, &mut input, &mut sources, &mut out)
        });
        if let Err(error) = applied {
            if self.trial.is_none() {
                let _ = durable::remove_file(&path);
            }
            return Err(error);
        }
        if let Some(trial) = &mut self.trial {
            if twin.is_some() {
                trial.twin(blob);
                return Ok(());
            }
            made.seek(SeekFrom::Start(0)).map_err(PatchError::Store)?;
            trial.unpack(
                blob,
                match is_carried {
                    true => Stored::Carried(made),
                    false => Stored::Plain(made),
                },
            );
            return Ok(());
        }
        cut::here("blob-made");
        if let Some([archive]) = twin.as_ref().map(|twin| twin.contents.as_slice()) {
            return self.keep_twin(&blob.digest, archive, &path).map_err(store);
        }
        let kept = match is_carried {
            true => self.keep(&blob.digest),
            false => self.keep_plain(&blob.digest),
        };
        kept.map_err(store)
    }
}

/// Bytes that making `made` writes: itself, and the texts of what it is made of.
fn writes(patch: &Patch, made: &Blob) -> u64 {
    let texts = patch.sources().iter().map(|source| source.view.inflated());
    texts.fold(made.plain_bytes(), u64::saturating_add)
}

/// Refuses to begin what would fill the disk: the head of a patch states more than the index does.
fn check_room(free: u64, needed: u64) -> io::Result<()> {
    match needed <= free {
        true => Ok(()),
        false => Err(io::Error::new(
            io::ErrorKind::StorageFull,
            format!("making it of a patch needs {needed} bytes, and {free} are free"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_that_would_fill_the_disk_is_not_begun() {
        assert!(check_room(10, 10).is_ok());
        let full = check_room(9, 10).unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
        assert!(full.to_string().contains("needs 10 bytes, and 9 are free"));
    }
}
