//! What patches build on: blobs of this site, each compared with its digest before a byte of it is used.
//!
//! What comes in: a digest that a patch names, and the entries of the site's own signed indexes. What goes out: bytes of
//! the blob's contents. What is not in an index of this site, is sealed, missing or damaged is refused by name. Contents that
//! are compressed in the store, and texts of gzip files, are unpacked to files without names, which are gone with the patch.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Read as _, Seek as _, SeekFrom, Write};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use outhaul_bundle::index::{Blob, Encoding};
use outhaul_bundle::patch::{PatchError, PatchSources, Source, View};
use outhaul_bundle::seal::NoKeys;
use outhaul_bundle::{Digest, Limits};
use rustix::fs::{Mode, OFlags};

use super::stored::Stored;
use super::{BUFFER_BYTES, Blobs};
use crate::durable;

/// The blobs that one patch builds on, as they are opened.
pub(super) struct StoredSources<'a> {
    blobs: &'a Blobs,
    known: &'a BTreeMap<Digest, Blob>,
    opened: BTreeMap<Source, File>,
}

impl<'a> StoredSources<'a> {
    pub(super) fn new(blobs: &'a Blobs, known: &'a BTreeMap<Digest, Blob>) -> Self {
        Self {
            blobs,
            known,
            opened: BTreeMap::new(),
        }
    }

    fn open(&self, source: &Source) -> Result<File, PatchError> {
        let base = |problem: &str| PatchError::Base {
            blob: source.blob,
            problem: problem.to_owned(),
        };
        let blob = self.known.get(&source.blob);
        let blob = blob.filter(|blob| self.blobs.has(blob));
        let blob = blob.ok_or_else(|| base("which is not here"))?;
        if blob.sealed.is_some() {
            return Err(base("which is sealed"));
        }
        if !self.blobs.is_whole(blob) {
            return Err(base("which is damaged here"));
        }
        if let Some(archive) = self.blobs.twin(blob) {
            return match source.view.inflated() == archive.size {
                true => {
                    durable::open_file(&self.blobs.path(&archive.digest)).map_err(PatchError::Read)
                }
                false => Err(base(match source.view {
                    View::Contents => {
                        "of which this site has the uncompressed archive alone, and the patch needs its compressed bytes"
                    }
                    _ => "of which this site has the uncompressed archive alone, of another size",
                })),
            };
        }
        let mut contents = self.contents(blob, &base)?;
        let bytes = source.view.inflated();
        if source.view == View::Contents {
            return Ok(contents);
        }
        contents
            .seek(SeekFrom::Start(0))
            .map_err(PatchError::Read)?;
        let file = unnamed(&self.blobs.partial).map_err(PatchError::Store)?;
        let mut out = Inflating {
            out: BufWriter::with_capacity(
                BUFFER_BYTES,
                file.try_clone().map_err(PatchError::Store)?,
            ),
            failed: None,
        };
        let inflated = match source.view {
            View::Unpacked(_) => unpack(contents, &mut out, bytes),
            _ => outhaul_gzip::text(contents, &mut out, bytes),
        };
        if let Some(error) = out.failed {
            return Err(PatchError::Store(error));
        }
        out.out.flush().map_err(PatchError::Store)?;
        // It was compared with its digest: what is wrong is what the patch says of it.
        match inflated {
            Ok(found) if found == bytes => Ok(file),
            Ok(_) => Err(base("which has fewer bytes in it than the patch states")),
            Err(error) if is_of_the_file(error.kind()) => Err(base(
                "which is not compressed so, or has more in it than the patch states",
            )),
            Err(error) => Err(PatchError::Read(error)),
        }
    }

    /// The contents of a blob, end to end.
    fn contents(&self, blob: &Blob, base: &dyn Fn(&str) -> PatchError) -> Result<File, PatchError> {
        let unreadable = |error: durable::FileError| PatchError::Read(error.source);
        match self.blobs.open(blob).map_err(unreadable)? {
            Stored::Carried(file) if blob.encoding == Encoding::Identity => Ok(file),
            Stored::Plain(file) => Ok(file),
            stored @ Stored::Carried(_) => {
                let file = unnamed(&self.blobs.partial).map_err(PatchError::Store)?;
                let mut each = |_: &_| {
                    let out = BufWriter::with_capacity(BUFFER_BYTES, file.try_clone()?);
                    Ok(Some(Box::new(out) as Box<dyn Write>))
                };
                let decoded = stored.decode(blob, &Limits::default(), &NoKeys, &mut each);
                decoded.map_err(|error| match error.is_environment() {
                    true => PatchError::Read(io::Error::other(error.to_string())),
                    false => base("which is damaged here"),
                })?;
                Ok(file)
            }
        }
    }
}

/// Writes what zstd frames hold, at most `most` bytes.
fn unpack(file: File, out: &mut dyn Write, most: u64) -> io::Result<u64> {
    // What is wrong with the frames is of the file: the disk's own errors have other kinds.
    let mut frames = zstd::Decoder::new(file)?.take(most.saturating_add(1));
    match io::copy(&mut frames, out)? {
        written if written > most => Err(io::ErrorKind::FileTooLarge.into()),
        written => Ok(written),
    }
}

/// Whether a compressed file itself is why it cannot be inflated, and not the disk.
fn is_of_the_file(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{FileTooLarge, InvalidData, InvalidInput, Other, UnexpectedEof};
    // zstd's own errors are `Other`.
    matches!(
        kind,
        FileTooLarge | InvalidData | InvalidInput | Other | UnexpectedEof
    )
}

/// A file that is written, and why it could not be.
struct Inflating {
    out: BufWriter<File>,
    failed: Option<io::Error>,
}

impl Write for Inflating {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes).map_err(|error| {
            let kind = error.kind();
            self.failed = Some(error);
            kind.into()
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl PatchSources for StoredSources<'_> {
    fn read(&mut self, source: &Source, offset: u64, buffer: &mut [u8]) -> Result<(), PatchError> {
        if !self.opened.contains_key(source) {
            let file = self.open(source)?;
            self.opened.insert(*source, file);
        }
        let Some(file) = self.opened.get(source) else {
            return Ok(());
        };
        file.read_exact_at(buffer, offset)
            .map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => PatchError::Base {
                    blob: source.blob,
                    problem: "which has fewer bytes than the patch refers to".to_owned(),
                },
                _ => PatchError::Read(error),
            })
    }
}

/// A file without a name in `folder`: gone when it is closed, whatever happens.
pub(super) fn unnamed(folder: &Path) -> io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    match rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR) {
        Ok(file) => Ok(File::from(file)),
        // Not every file system has files without a name.
        Err(_) => {
            let path = folder.join("rehearsal");
            durable::create(&path, 0o600).map_err(|error| error.source)?;
            let file = File::options().read(true).write(true).open(&path)?;
            durable::remove_file(&path).map_err(|error| error.source)?;
            Ok(file)
        }
    }
}
