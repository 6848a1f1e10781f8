//! The blobs of a copy that travel as patches, because sites have what resembles them.
//!
//! What comes in: a bundle, the earlier bundles that its sites have, and the file of one of those. What goes out: for each
//! blob that not all of them have, a patch where that is smaller, applied once here and compared with the index; or why the
//! blob travels whole; where twins are allowed, the archive of a layer in its place. Patches lie in a file without a name until the copy is written. Nothing is signed: a site holds
//! what it makes against the signed index.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom, Write as _};

use outhaul_bundle::index::{Blob, Content, Encoding};
use outhaul_bundle::patch::{
    MAX_INFLATED, MAX_PREFIX_BYTES, Patch, PatchError, PatchSources, Source, View,
};
use outhaul_bundle::{Digest, digest::Hasher, layers};
use outhaul_delta::likely::{Likely, Names};
pub use outhaul_delta::travels::{How, Patching, Travels};
use outhaul_delta::twin::{self, GZIP};
use outhaul_delta::{New, Old, Plain};
use outhaul_gzip::SplitError;
use outhaul_kit::console::progress::{Meter, Unit};

use super::volumes::{PatchFiles, ReadableBundle};

/// Tar's unit: what is saved is counted in it.
const BLOCK: u64 = outhaul_bundle::BLOCK as u64;
/// A twin takes the place of a patch that makes the layer itself only where it has at most four fifths of the bytes.
const TWIN_FIFTHS: u64 = 4;
/// Blobs that are unpacked at once.
const MAX_OPEN: usize = 48;

/// The patches of one copy.
#[derive(Debug)]
pub(super) struct Patches {
    file: File,
    /// Whether what sites have in zstd is compared by what it holds: not every agent reads such a patch.
    zstd: bool,
    /// Whether anything was compared so.
    compared_zstd: bool,
    /// Where each begins, its bytes, and their digest.
    places: BTreeMap<Digest, (u64, u64, Digest)>,
    /// How each blob travels.
    pub(super) travels: Vec<Travels>,
}

impl Patches {
    /// None.
    pub(super) fn none() -> io::Result<Self> {
        Ok(Self {
            file: tempfile::tempfile()?,
            zstd: false,
            compared_zstd: false,
            places: BTreeMap::new(),
            travels: Vec::new(),
        })
    }

    /// The patches for what sites have not, made of what they have and `old` holds; and with what they were made. Where twins are allowed and none
    /// came of it, every site that reads patches takes them: they are exact ones then.
    ///
    /// # Errors
    /// When a file cannot be read or written.
    pub(super) fn make(
        new: &ReadableBundle,
        old: Option<&ReadableBundle>,
        has: &dyn Fn(&Blob) -> bool,
        patching: Patching,
    ) -> io::Result<(Self, Patching)> {
        let patches = Self::made(new, old, has, patching)?;
        if patching != Patching::Twins || patches.has_twin() {
            return Ok((patches, patching));
        }
        let exact = match patches.compared_zstd {
            true => Self::made(new, old, has, Patching::Exact)?,
            false => patches,
        };
        Ok((exact, Patching::Exact))
    }

    fn has_twin(&self) -> bool {
        let mut all = self.travels.iter();
        all.any(|one| matches!(one.how, How::Twin { .. }))
    }

    fn made(
        new: &ReadableBundle,
        old: Option<&ReadableBundle>,
        has: &dyn Fn(&Blob) -> bool,
        patching: Patching,
    ) -> io::Result<Self> {
        let mut patches = Self::none()?;
        if patching == Patching::None {
            return Ok(patches);
        }
        patches.zstd = patching == Patching::Twins;
        let stated = match patching {
            Patching::Twins => layers::twins(&new.index, &mut |content| new.content(content))?,
            _ => BTreeMap::new(),
        };
        let missing: Vec<&Blob> = new.index.blobs.iter().filter(|blob| !has(blob)).collect();
        let likely = old.map(|old| Likely::of(&old.index, has));
        let names = Names::of(&new.index);
        let total = missing.iter().map(|blob| blob.size).sum();
        let meter = Meter::new("comparing with what sites have", Unit::Bytes, Some(total));
        let mut unpacked = BTreeMap::new();
        for blob in missing {
            let how = match (old, &likely) {
                _ if blob.sealed.is_some() => whole("it is sealed, and cannot be compared here"),
                (Some(old), Some(likely)) => {
                    let like = likely.like(blob, &names);
                    let exact = patches.one((new, blob), (old, &like), &mut unpacked)?;
                    match stated.get(&blob.digest) {
                        Some(diff_id) if !like.is_empty() => {
                            let twin = (new, blob, *diff_id);
                            patches.twin(twin, (old, &like), &mut unpacked, exact)?
                        }
                        _ => exact,
                    }
                }
                _ => whole("the file of the earlier bundle is not here (`--since-file`)"),
            };
            patches.travels.push(Travels {
                name: names.shown(blob),
                blob: blob.digest,
                bytes: blob.size,
                how,
            });
            meter.add(blob.size);
        }
        Ok(patches)
    }

    fn one(
        &mut self,
        (new, blob): (&ReadableBundle, &Blob),
        (old, like): (&ReadableBundle, &[&Blob]),
        unpacked: &mut BTreeMap<Digest, Old>,
    ) -> io::Result<How> {
        if like.is_empty() {
            return Ok(whole("nothing that all of its sites have is like it"));
        }
        let plain = new.plain(blob)?;
        let begin = self.file.seek(SeekFrom::End(0))?;
        let (made, olds) = if is_gzip(blob, &plain)? {
            // What corrects more than a quarter of it saves little, and takes long.
            let taken = match apart(&plain, blob.size / 4)? {
                Ok(taken) => taken,
                Err(why) => return Ok(whole(&why)),
            };
            let (text, corrections) = taken;
            let olds = within(known(old, like, unpacked, self.zstd)?, text.size());
            let new = New::Gzip(&text, &corrections);
            let made = outhaul_delta::patch(new, &olds, blob.size, &mut self.file)?;
            (made, olds)
        } else {
            let olds = within(known(old, like, unpacked, self.zstd)?, plain.size());
            let new = New::Plain(&plain);
            let made = outhaul_delta::patch(new, &olds, blob.size, &mut self.file)?;
            (made, olds)
        };
        let is_zstd = |old: &Old| matches!(old.source.view, View::Unpacked(_));
        self.compared_zstd |= olds.iter().any(is_zstd);
        let is_smaller = |bytes: u64| bytes.div_ceil(BLOCK) < blob.size.div_ceil(BLOCK);
        let Some((bytes, method)) = made.filter(|(bytes, _)| is_smaller(*bytes)) else {
            self.file.set_len(begin)?;
            return Ok(whole("a patch would not be smaller"));
        };
        match self.keep(blob, (begin, bytes), &olds)? {
            None => Ok(How::Patch { bytes, method }),
            Some(why) => Ok(whole(&why)),
        }
    }

    /// The same as a twin, where that is smaller than `exact` by as much as it has to be.
    fn twin(
        &mut self,
        (new, blob, diff_id): (&ReadableBundle, &Blob, Digest),
        (old, like): (&ReadableBundle, &[&Blob]),
        unpacked: &mut BTreeMap<Digest, Old>,
        exact: How,
    ) -> io::Result<How> {
        let (limit, why) = match &exact {
            How::Patch { bytes, .. } => (
                bytes / 5 * TWIN_FIFTHS,
                format!("the patch that makes the layer itself would have {bytes} bytes"),
            ),
            How::Twin { why, .. } | How::Whole { why } => (blob.size, why.clone()),
        };
        let plain = new.plain(blob)?;
        if !is_one(blob) || !twin::is_compressed(&plain)? {
            return Ok(exact);
        }
        let archive = match twin::archive(&plain)? {
            Ok(archive) if archive.digest == diff_id => archive,
            Ok(_) => {
                let why = format!("{why}; the config of its image states another content");
                return Ok(add_why(exact, why));
            }
            Err(problem) => return Ok(add_why(exact, format!("{why}; {problem}"))),
        };
        let olds = within(known(old, like, unpacked, true)?, archive.bytes.size());
        let begin = self.file.seek(SeekFrom::End(0))?;
        let new = New::Twin(&archive.bytes, archive.digest);
        let Some((bytes, _)) = outhaul_delta::patch(new, &olds, limit, &mut self.file)? else {
            self.file.set_len(begin)?;
            return Ok(exact);
        };
        match self.keep(blob, (begin, bytes), &olds)? {
            None => Ok(How::Twin { bytes, why }),
            Some(problem) => Ok(add_why(exact, format!("{why}; {problem}"))),
        }
    }

    /// Applies what was written of a patch from `begin` on, and keeps it; or why it is not kept.
    fn keep(
        &mut self,
        blob: &Blob,
        (begin, bytes): (u64, u64),
        olds: &[Old],
    ) -> io::Result<Option<String>> {
        self.file.seek(SeekFrom::Start(begin))?;
        let mut hasher = Hasher::new();
        io::copy(&mut (&self.file).take(bytes), &mut hasher)?;
        self.file.seek(SeekFrom::Start(begin))?;
        let mut input = io::BufReader::new((&self.file).take(bytes));
        let applied = Patch::read(&mut input, bytes).and_then(|patch| {
            let twin = patch.twin(blob)?;
            let made = twin.as_ref().unwrap_or(blob);
            patch.apply(made, &mut input, &mut Checking(olds), &mut io::sink())
        });
        drop(input);
        if let Err(error) = applied {
            self.file.set_len(begin)?;
            return Ok(Some(format!("its patch does not hold: {error}")));
        }
        let place = (begin, bytes, hasher.finish().0);
        self.places.insert(blob.digest, place);
        Ok(None)
    }

    /// The bytes of each, by the blob that it makes.
    pub(super) fn sizes(&self) -> BTreeMap<Digest, u64> {
        let places = self.places.iter();
        places
            .map(|(blob, (_, bytes, _))| (*blob, *bytes))
            .collect()
    }
}

impl PatchFiles for Patches {
    fn open(&self, blob: &Blob) -> io::Result<Box<dyn Read + '_>> {
        let place = self.places.get(&blob.digest);
        let (begin, bytes, _) = place.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        let mut file = &self.file;
        file.seek(SeekFrom::Start(*begin))?;
        Ok(Box::new(file.take(*bytes)))
    }

    fn digest(&self, blob: &Blob) -> Option<Digest> {
        let place = self.places.get(&blob.digest);
        place.map(|(_, _, digest)| *digest)
    }
}

/// Whether the one content of a blob is a gzip file, of which the site needs these very bytes.
fn is_gzip(blob: &Blob, plain: &Plain) -> io::Result<bool> {
    Ok(is_one(blob) && plain.start()?.starts_with(&GZIP))
}

fn is_one(blob: &Blob) -> bool {
    blob.encoding == Encoding::Identity && blob.contents.len() == 1
}

/// What sites have, as it is compared: of gzip files, what is in them.
fn known(
    old: &ReadableBundle,
    like: &[&Blob],
    unpacked: &mut BTreeMap<Digest, Old>,
    zstd: bool,
) -> io::Result<Vec<Old>> {
    if unpacked.len() > MAX_OPEN {
        unpacked.clear();
    }
    let mut olds = Vec::new();
    for blob in like {
        let known = match unpacked.get(&blob.digest) {
            Some(known) => known.clone(),
            None => read(old, blob, zstd)?,
        };
        unpacked.insert(blob.digest, known.clone());
        olds.push(known);
    }
    Ok(olds)
}

/// Those of `known` that a site accepts beside each other for a patch that makes `bytes`: what is inflated is bounded.
fn within(known: Vec<Old>, bytes: u64) -> Vec<Old> {
    let most = bytes.saturating_mul(MAX_INFLATED);
    let mut left = most.saturating_add(MAX_PREFIX_BYTES);
    let mut accepted = Vec::new();
    for one in known {
        if let Some(rest) = left.checked_sub(one.source.view.inflated()) {
            left = rest;
            accepted.push(one);
        }
    }
    accepted
}

/// A blob as it is compared: of what is in gzip, and where `zstd` in zstd, what it holds.
fn read(old: &ReadableBundle, blob: &Blob, zstd: bool) -> io::Result<Old> {
    let of = |view, bytes| Old {
        source: Source {
            blob: blob.digest,
            view,
        },
        bytes,
    };
    let plain = old.plain(blob)?;
    let is_layer = is_one(blob) && zstd && twin::is_compressed(&plain)?;
    // What cannot be uncompressed is compared as it is.
    if (is_layer || is_gzip(blob, &plain)?)
        && let Ok(archive) = twin::archive(&plain)?
    {
        return Ok(of(archive.view, archive.bytes));
    }
    Ok(of(View::Contents, plain))
}

impl ReadableBundle {
    /// One content, whole; `None` when no blob that can be read has it.
    fn content(&self, content: &Content) -> io::Result<Option<Vec<u8>>> {
        for blob in self.index.blobs.iter().filter(|blob| blob.sealed.is_none()) {
            let mut offset = 0;
            for one in &blob.contents {
                if one == content {
                    return self.plain(blob)?.read(offset, one.size).map(Some);
                }
                offset += one.size;
            }
        }
        Ok(None)
    }
}

fn add_why(how: How, why: String) -> How {
    match how {
        How::Whole { .. } => How::Whole { why },
        how => how,
    }
}

/// The text of a gzip file and its corrections, if those are no more than `limit` bytes; or why not.
fn apart(plain: &Plain, limit: u64) -> io::Result<Result<(Plain, Vec<u8>), String>> {
    let mut file = tempfile::tempfile()?;
    let mut out = io::BufWriter::new(&mut file);
    let split = outhaul_gzip::split(&mut || plain.reader(), &mut out, limit);
    let flushed = out.flush();
    drop(out);
    match split {
        Ok(corrections) => {
            flushed?;
            Ok(Ok((Plain::new(file)?, corrections)))
        }
        Err(SplitError::File(error)) => Err(error),
        Err(error) => Ok(Err(format!(
            "it is gzip, of which the site needs these very bytes, and {error}"
        ))),
    }
}

fn whole(why: &str) -> How {
    How::Whole {
        why: why.to_owned(),
    }
}

/// What a patch builds on, for applying it here.
struct Checking<'a>(&'a [Old]);

impl PatchSources for Checking<'_> {
    fn read(&mut self, source: &Source, offset: u64, buffer: &mut [u8]) -> Result<(), PatchError> {
        let old = self.0.iter().find(|old| old.source == *source);
        let bytes = old.map(|old| old.bytes.read(offset, buffer.len() as u64));
        match bytes {
            Some(Ok(bytes)) => {
                buffer.copy_from_slice(&bytes);
                Ok(())
            }
            Some(Err(error)) => Err(PatchError::Read(error)),
            None => Err(PatchError::Base {
                blob: source.blob,
                problem: "which is not here".to_owned(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn old(byte: u8, view: View) -> Old {
        let source = Source {
            blob: Digest::of(&[byte]),
            view,
        };
        let file = tempfile::tempfile().expect("a file");
        Old {
            source,
            bytes: Plain::new(file).expect("it is read"),
        }
    }

    #[test]
    fn no_more_is_inflated_than_a_site_accepts() {
        let most = 10 * MAX_INFLATED + MAX_PREFIX_BYTES;
        let known = vec![
            old(1, View::Inflated(most - 1)),
            old(2, View::Inflated(2)),
            old(3, View::Contents),
            old(4, View::Inflated(1)),
        ];
        let accepted: Vec<Digest> = within(known, 10)
            .iter()
            .map(|old| old.source.blob)
            .collect();
        assert_eq!(accepted, [1, 3, 4].map(|byte: u8| Digest::of(&[byte])));
    }
}
