//! A file onto a medium: written beside its place, synced, renamed, and read back from there before it counts.
//!
//! What comes in: a bundle file, or whoever writes one, and where it goes: a stick, or any other folder. What goes
//! out: the file, whose bytes were read from the medium again and are those that were written, or an error and what
//! was there before. It does not decide what is written, and makes no folder.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

use outhaul_bundle::Digest;
use outhaul_bundle::digest::{Hasher, HashingWriter};
use outhaul_kit::console::progress::{Meter, Unit};
use outhaul_kit::durable::PUBLIC_MODE;
use outhaul_kit::interrupt;
use outhaul_kit::media::{Media, MediaSpace};

use super::{DeliverError, io_error, open};

/// Writes go to the medium in pieces of this many bytes.
const BUFFER_BYTES: usize = 256 * 1024;

/// Copies the bundle file `from` to `to`. Returns its digest and size.
///
/// # Errors
/// [`DeliverError`]; `to` is then as it was before, or gone when the medium gave back other bytes.
pub fn copy_file(from: &Path, to: &Path) -> Result<(Digest, u64), DeliverError> {
    copy(from, to, None)
}

/// As [`copy_file`], of a bundle file that was verified and had the digest `verified` then.
///
/// # Errors
/// As there, and [`DeliverError::Changed`] when it has another one by now; `to` is then as it was before.
pub fn copy_verified(
    from: &Path,
    to: &Path,
    verified: Digest,
) -> Result<(Digest, u64), DeliverError> {
    copy(from, to, Some(verified))
}

fn copy(from: &Path, to: &Path, verified: Option<Digest>) -> Result<(Digest, u64), DeliverError> {
    let input = open(from)?;
    let size = input.metadata().map_err(io_error("look at", from))?.len();
    let meter = Meter::new(
        &format!("writing {}", to.display()),
        Unit::Bytes,
        Some(size),
    );
    let changed = |found: Digest| verified.is_some_and(|verified| verified != found);
    let changed = |found: Digest| {
        let path = from.to_owned();
        changed(found).then_some(DeliverError::Changed { path })
    };
    put_unless(to, size, changed, |out| {
        io::copy(&mut meter.counts(&input), out)
            .map(drop)
            .map_err(io_error("write", to))
    })
}

/// Puts what `fill` writes, about `size` bytes, at `to`. Returns its digest and size.
///
/// # Errors
/// As [`copy_file`], and what `fill` says.
pub fn put(
    to: &Path,
    size: u64,
    fill: impl FnOnce(&mut dyn Write) -> Result<(), DeliverError>,
) -> Result<(Digest, u64), DeliverError> {
    put_unless(to, size, |_| None, fill)
}

/// As [`put`], unless `wrong` has an error for the digest of what was written, before it takes its place.
fn put_unless(
    to: &Path,
    size: u64,
    wrong: impl FnOnce(Digest) -> Option<DeliverError>,
    fill: impl FnOnce(&mut dyn Write) -> Result<(), DeliverError>,
) -> Result<(Digest, u64), DeliverError> {
    let folder = super::folder_of(to);
    let media = Media::open(folder)?;
    let name = Path::new(to.file_name().unwrap_or_default());
    fits(to, size, media.room()?)?;
    let mut written = None;
    let mut failed = None;
    let stored = media.write_with(name, PUBLIC_MODE, |file| {
        let mut out = HashingWriter::new(BufWriter::with_capacity(BUFFER_BYTES, file));
        match fill(&mut out) {
            Ok(()) => out.flush()?,
            Err(error) => {
                failed = Some(error);
                return Err(io::Error::other("it was not written whole"));
            }
        }
        interrupt::here();
        let (_, digest, bytes) = out.finish();
        if let Some(error) = wrong(digest) {
            failed = Some(error);
            return Err(io::Error::other("it is not what was to be written"));
        }
        written = Some((digest, bytes));
        Ok(())
    });
    match (failed, stored) {
        (Some(error), _) => return Err(error),
        (None, stored) => stored?,
    }
    let there = media
        .open_uncached(name)?
        .map(|file| digest(file, to))
        .transpose()?;
    if there != written {
        media.remove(name)?;
        return Err(DeliverError::ReadBack {
            path: to.to_owned(),
        });
    }
    written.ok_or_else(|| DeliverError::ReadBack {
        path: to.to_owned(),
    })
}

/// What `read` finds in what lies at `path`, as the medium gives it back; `None` when no file does.
pub fn found<T>(path: &Path, read: impl FnOnce(&mut dyn Read) -> Option<T>) -> Option<T> {
    let media = Media::open(super::folder_of(path)).ok()?;
    let file = media.open_uncached(Path::new(path.file_name()?)).ok()??;
    let meter = reading_back(&file, path);
    read(&mut meter.counts(&file))
}

/// Shows how far what lies at `path` was read.
fn reading_back(file: &File, path: &Path) -> Meter {
    let bytes = file.metadata().map(|found| found.len()).ok();
    let what = format!("reading back {}", path.display());
    Meter::new(&what, Unit::Bytes, bytes)
}

fn digest(mut file: File, path: &Path) -> Result<(Digest, u64), DeliverError> {
    let meter = reading_back(&file, path);
    let mut hasher = Hasher::new();
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let read = file
            .read(&mut buffer)
            .map_err(io_error("read back", path))?;
        if read == 0 {
            return Ok(hasher.finish());
        }
        meter.add(read as u64);
        hasher.update(buffer.get(..read).unwrap_or_default());
    }
}

/// Sees that a file of `size` bytes can lie there, before anything is written.
fn fits(to: &Path, size: u64, room: MediaSpace) -> Result<(), DeliverError> {
    let path = to.to_owned();
    if size > room.max_file_bytes {
        let max = room.max_file_bytes;
        return Err(DeliverError::FileLimit {
            path,
            bytes: size,
            max,
        });
    }
    if size > room.free_bytes {
        let free = room.free_bytes;
        return Err(DeliverError::Full {
            path,
            bytes: size,
            free,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use outhaul_kit::failure::Classified as _;

    use super::*;

    const FAT: MediaSpace = MediaSpace {
        free_bytes: 8 << 30,
        max_file_bytes: u32::MAX as u64,
    };

    #[test]
    fn what_fat_cannot_hold_is_said_with_the_way_out_before_it_is_written() {
        let to = Path::new("/media/stick/stage-press-3.outhaul");
        fits(to, (4 << 30) - 1, FAT).unwrap();
        let error = fits(to, 4 << 30, FAT).unwrap_err();
        assert!(error.to_string().contains("4294967295"), "{error}");
        let help = error.help().unwrap();
        assert!(help.contains("--volume-size 3900M"), "{help}");
        let error = fits(
            to,
            9 << 30,
            MediaSpace {
                max_file_bytes: u64::MAX,
                ..FAT
            },
        )
        .unwrap_err();
        assert!(
            matches!(error, DeliverError::Full { free, .. } if free == 8 << 30),
            "{error}"
        );
    }

    #[test]
    fn what_fails_in_the_middle_leaves_what_was_there_and_the_next_run_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("a.outhaul");
        std::fs::write(&to, "old").unwrap();
        // As a stick that was pulled leaves it.
        std::fs::write(folder.path().join(".a.outhaul.tmp"), "half").unwrap();
        let pulled = || io::Error::from(io::ErrorKind::NotConnected);
        let error = put(&to, 4, |out| {
            out.write_all(b"ne").map_err(io_error("write", &to))?;
            Err(io_error("write", &to)(pulled()))
        });
        assert!(matches!(error, Err(DeliverError::File(_))), "{error:?}");
        assert_eq!(std::fs::read(&to).unwrap(), b"old");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        let done = put(&to, 3, |out| {
            out.write_all(b"new").map_err(io_error("write", &to))
        })
        .unwrap();
        assert_eq!(done, (Digest::of(b"new"), 3));
        assert_eq!(
            found(&to, |file| {
                let mut bytes = Vec::new();
                let count = file.read_to_end(&mut bytes).ok()?;
                Some((Digest::of(&bytes), count as u64))
            }),
            Some(done)
        );
    }

    #[test]
    fn what_the_medium_gives_back_otherwise_does_not_count_and_does_not_stay() {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("a.outhaul");
        let beside = folder.path().join(".a.outhaul.tmp");
        let error = put(&to, 3, |out| {
            out.write_all(b"new").map_err(io_error("write", &to))?;
            out.flush().map_err(io_error("write", &to))?;
            // As a stick that is worn out does, after it took what was written.
            std::fs::OpenOptions::new()
                .write(true)
                .open(&beside)
                .and_then(|mut file| file.write_all(b"bad"))
                .map_err(io_error("write", &beside))
        });
        assert!(
            matches!(error, Err(DeliverError::ReadBack { .. })),
            "{error:?}"
        );
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
