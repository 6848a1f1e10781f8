//! Parity parts beside the parts of a bundle, for sticks that lose some.
//!
//! What comes in: a kept bundle that is being copied in parts, and how many parity parts. What goes out: the parity parts
//! that are wanted, the same bytes for the same bundle, size and number, each read back. They are made of the fleet's own
//! copy, not of what the medium gives back, all of a set at once. Nothing is signed here, and no key is needed.

use std::fs::File;
use std::io::{self, BufReader, Read as _, Write};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};

use outhaul_bundle::{Parity, write_parity};
use outhaul_kit::media::Media;
use outhaul_parity::{BlobBytes, ParityError, encode};

use super::{Piece, Placed, ReadableBundle};
use outhaul_ship::deliver::{DeliverError, io_error, medium};

/// `stage-press-3.1of2.parity`: no name of a bundle, so that agents which know no parity leave it alone.
pub(super) fn name(bundle: &str, parity: &Parity) -> String {
    let stem = bundle.strip_suffix(".outhaul").unwrap_or(bundle);
    format!("{stem}.{}of{}.parity", parity.part(), parity.of())
}

/// The parity parts among `pieces`.
pub(super) fn among(pieces: &[Placed]) -> Vec<(&Parity, &Path)> {
    let parity = pieces.iter().filter_map(|(_, piece, file)| match piece {
        Piece::Parity(parity) => Some((parity, file.as_path())),
        Piece::Part(_) => None,
    });
    parity.collect()
}

/// The blobs of a bundle file.
struct Blobs<'a>(&'a ReadableBundle);

impl BlobBytes for Blobs<'_> {
    fn read(&mut self, place: usize, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let Blobs(opened) = self;
        let blob = opened.index.blobs.get(place);
        let begin = blob.and_then(|blob| opened.places.get(&blob.digest));
        let begin = begin.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        let at = begin.saturating_add(offset);
        opened.file.read_exact_at(buffer, at)
    }
}

impl ReadableBundle {
    /// Makes the parity of one set once, for all of its parts in `parts`: `each` is called for every part, in a thread of its own, with what
    /// writes the part to where it goes. A part that fails does not stop the others. In memory are the pieces of one stripe.
    ///
    /// # Errors
    /// [`ParityError`] when the parity itself cannot be made: then no part is whole, and it is not the fault of where they go.
    fn parities<T: Send>(
        &self,
        parts: &[(&Parity, &Path)],
        each: &(dyn Fn(&Parity, &Path, &mut WritePart<'_>) -> T + Sync),
    ) -> Result<Vec<Option<T>>, ParityError> {
        let Some((set, _)) = parts.first() else {
            return Ok(Vec::new());
        };
        std::thread::scope(|scope| {
            let mut pieces = Vec::new();
            let mut working = Vec::new();
            for (parity, path) in parts {
                let (send, receive) = sync_channel::<Vec<u8>>(0);
                pieces.push((parity.part(), Some(send)));
                working.push(scope.spawn(move || {
                    each(parity, path, &mut |out| self.parity(out, parity, &receive))
                }));
            }
            let mut hand = |part: usize, bytes: &[u8]| {
                for (_, to) in pieces.iter_mut().filter(|(of, _)| *of == part) {
                    // Whoever takes no more has failed, and says why.
                    to.take_if(|to| to.send(bytes.to_vec()).is_err());
                }
                match pieces.iter().any(|(_, to)| to.is_some()) {
                    true => Ok(()),
                    false => Err(io::Error::other("no part is written any more")),
                }
            };
            let made = encode(&self.index, set, &mut Blobs(self), &mut hand);
            drop(pieces);
            let written = working.into_iter().map(|one| one.join().ok()).collect();
            match made {
                // Each part that failed says why.
                Ok(()) | Err(ParityError::Write(_)) => Ok(written),
                Err(error) => Err(error),
            }
        })
    }

    /// Writes the parity part `parity` to `out`, of the pieces that come.
    fn parity(
        &self,
        out: &mut dyn Write,
        parity: &Parity,
        pieces: &Receiver<Vec<u8>>,
    ) -> io::Result<()> {
        let (metadata, index, bytes) = (&self.metadata, &self.index, &self.index_bytes);
        let mut fill =
            |out: &mut dyn Write| pieces.iter().try_for_each(|piece| out.write_all(&piece));
        write_parity(out, metadata, bytes, index, parity, &mut fill)
            .map(drop)
            .map_err(io::Error::other)
    }

    /// The sizes of the parity parts that lie at their paths, byte for byte, as the medium gives them back.
    ///
    /// # Errors
    /// [`ParityError`] when what they are compared with cannot be made.
    pub(super) fn parities_there(
        &self,
        parts: &[(&Parity, &Path)],
    ) -> Result<Vec<Option<u64>>, ParityError> {
        let is_same_size =
            |(parity, path): &&(&Parity, &Path)| self.same_size(path, parity).is_some();
        let there: Vec<_> = parts.iter().filter(is_same_size).copied().collect();
        let same = self.parities(&there, &|parity, path, write| {
            let mut same = Same {
                there: BufReader::with_capacity(256 * 1024, self.same_size(path, parity)?),
                buffer: Vec::new(),
            };
            write(&mut same).ok()?;
            Some(self.parity_bytes(parity))
        })?;
        let found = |(parity, _): &(&Parity, &Path)| {
            let at = there
                .iter()
                .position(|(one, _)| one.part() == parity.part())?;
            same.get(at).copied().flatten().flatten()
        };
        Ok(parts.iter().map(found).collect())
    }

    /// The file at `path`, when it is as large as the parity part.
    fn same_size(&self, path: &Path, parity: &Parity) -> Option<File> {
        let media = Media::open(path.parent()?).ok()?;
        let file = media.open_uncached(Path::new(path.file_name()?)).ok()??;
        let size = file.metadata().ok()?.len();
        (size == self.parity_bytes(parity)).then_some(file)
    }

    /// Puts the parity parts at their paths; of each its size.
    ///
    /// # Errors
    /// [`ParityError`] when they cannot be made.
    pub(super) fn write_parities(
        &self,
        parts: &[(&Parity, &Path)],
    ) -> Result<Vec<Result<u64, DeliverError>>, ParityError> {
        let made = self.parities(parts, &|parity, path, write| {
            let (_, written) = medium::put(path, self.parity_bytes(parity), |out| {
                write(out).map_err(io_error("write", path))
            })?;
            Ok(written)
        })?;
        let made = made.into_iter().zip(parts);
        let made = made.map(|(made, (_, path))| {
            made.unwrap_or_else(|| {
                Err(io_error("write", path)(io::Error::other(
                    "a thread ended early",
                )))
            })
        });
        Ok(made.collect())
    }
}

/// Writes a part to where it goes.
type WritePart<'w> = dyn FnMut(&mut dyn Write) -> io::Result<()> + 'w;

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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use outhaul_bundle::Volume;
    use outhaul_bundle::fake::FakeBundle;
    use outhaul_bundle::index::IndexBytes;

    use super::*;

    #[test]
    fn what_the_fleets_disk_does_not_give_is_not_said_of_the_medium() {
        let files: [(&str, &[u8]); 2] = [("one", &[1; 1000]), ("two", &[2; 1000])];
        let fake = FakeBundle::new(1, &files).unwrap();
        let places = fake.index.blobs.iter().map(|blob| (blob.digest, 0));
        let opened = ReadableBundle {
            // It ends before the blobs do.
            file: tempfile::tempfile().unwrap(),
            metadata: fake.metadata.clone(),
            index_bytes: IndexBytes::new(fake.index.to_bytes(), None),
            fixed_bytes: 0,
            end: 0,
            places: places.collect::<BTreeMap<_, _>>(),
            index: fake.index,
        };
        let cut = Volume::plan(0, &opened.index, 1 << 20).unwrap();
        let set = Parity::of_cut(&cut[0], 1);
        let stick = tempfile::tempdir().unwrap();
        let path = stick.path().join("x.parity");
        let parts = [(&set[0], path.as_path())];
        let written = opened.write_parities(&parts);
        assert!(matches!(written, Err(ParityError::Read(_))), "{written:?}");
        assert_eq!(std::fs::read_dir(stick.path()).unwrap().count(), 0);
        // What lies there and cannot be compared is not another part.
        let there = File::create(&path).unwrap();
        there.set_len(opened.parity_bytes(&set[0])).unwrap();
        let found = opened.parities_there(&parts);
        assert!(matches!(found, Err(ParityError::Read(_))), "{found:?}");
    }
}
