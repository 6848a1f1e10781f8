//! Tests of `read`: steps out of turn, broken media, sinks that fail or have a blob already.
use super::*;
use crate::fake::{FakeBundle, MemoryBlobs};

fn fake() -> FakeBundle {
    FakeBundle::new(1, &[("a", b"alpha"), ("b.gz", &vec![b'b'; 70_000])]).unwrap()
}

#[test]
fn steps_out_of_turn_are_refused() {
    let fake = fake();
    let bytes = fake.to_bytes().unwrap();
    let mut reader = BundleReader::new(bytes.as_slice(), Limits::default());
    let early = reader.read_index(&fake.expected_index()).unwrap_err();
    assert!(matches!(early, ReadError::OutOfTurn));
    reader.read_metadata().unwrap();
    assert!(matches!(reader.read_metadata(), Err(ReadError::OutOfTurn)));
    let mut wrong = fake.expected_index();
    wrong.digest = Digest::of(b"");
    assert_eq!(reader.read_index(&wrong).unwrap_err().rule(), "digest");
    let after_an_error = reader.read_index(&fake.expected_index()).unwrap_err();
    assert!(matches!(after_an_error, ReadError::OutOfTurn));
}

#[test]
fn a_bundle_may_end_after_its_index_if_nobody_asks_for_blobs() {
    let fake = fake();
    let bytes = fake.to_bytes().unwrap();
    let carried: usize = fake
        .index
        .blobs
        .iter()
        .map(|blob| 512 + usize::try_from(blob.size).unwrap().div_ceil(512) * 512)
        .sum();
    let upto_index = &bytes[..bytes.len() - 1024 - carried];
    let mut reader = BundleReader::new(upto_index, Limits::default());
    reader.read_metadata().unwrap();
    let (index, _) = reader.read_index(&fake.expected_index()).unwrap();
    assert_eq!(reader.offset(), upto_index.len() as u64);
    let error = reader
        .read_blobs(&index, &mut MemoryBlobs::default())
        .unwrap_err();
    assert_eq!(error.rule(), "truncated");
}

#[test]
fn how_many_bytes_there_are_in_all_is_known_once_the_index_is_read() {
    let fake = fake();
    let bytes = fake.to_bytes().unwrap();
    // Of one that ends early, too.
    for end in [bytes.len(), bytes.len() - 1024 - 600] {
        let mut reader = BundleReader::new(&bytes[..end], Limits::default());
        reader.read_metadata().unwrap();
        let (index, _) = reader.read_index(&fake.expected_index()).unwrap();
        let all = reader.bytes_in_all(&index).unwrap();
        assert_eq!(all, Some(bytes.len() as u64));
    }
}

#[test]
fn a_blob_that_is_there_already_is_checked_but_not_written() {
    let fake = fake();
    let bytes = fake.to_bytes().unwrap();
    let mut store = MemoryBlobs::default();
    let there = fake.index.blobs[1].digest;
    // A stand-in: if it were overwritten, it would show.
    store.by_digest.insert(there, b"there".to_vec());
    let mut reader = BundleReader::new(bytes.as_slice(), Limits::default());
    reader.read_metadata().unwrap();
    let (index, _) = reader.read_index(&fake.expected_index()).unwrap();
    reader.read_blobs(&index, &mut store).unwrap();
    assert_eq!(store.by_digest[&there], b"there");
    assert!(store.discarded.is_empty());
}

/// A sink that takes nothing, as on a full disk.
#[derive(Default)]
struct Full {
    discarded: usize,
}

struct FullWriter;

impl Write for FullWriter {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::Error::from(io::ErrorKind::StorageFull))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl BlobSink for Full {
    fn begin(&mut self, _: &Blob) -> io::Result<Option<Box<dyn Write + '_>>> {
        Ok(Some(Box::new(FullWriter)))
    }

    fn commit(&mut self, _: &Blob) -> io::Result<()> {
        panic!("nothing was written");
    }

    fn discard(&mut self, _: &Blob) {
        self.discarded += 1;
    }
}

#[test]
fn a_full_disk_is_distinguished_from_a_bad_bundle_and_what_was_begun_is_discarded() {
    let fake = fake();
    let bytes = fake.to_bytes().unwrap();
    let mut reader = BundleReader::new(bytes.as_slice(), Limits::default());
    reader.read_metadata().unwrap();
    let (index, _) = reader.read_index(&fake.expected_index()).unwrap();
    let mut sink = Full::default();
    let error = reader.read_blobs(&index, &mut sink).unwrap_err();
    assert!(error.is_environment() && error.rule() == "store", "{error}");
    assert_eq!(sink.discarded, 1);
}

/// A stick that is pulled out after some bytes.
struct Pulled<'a>(&'a [u8]);

impl Read for Pulled<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.0.is_empty() {
            return Err(io::Error::other("no such device"));
        }
        self.0.read(buffer)
    }
}

#[test]
fn a_stick_that_is_pulled_out_is_distinguished_from_a_bad_bundle() {
    let bytes = fake().to_bytes().unwrap();
    let mut reader = BundleReader::new(Pulled(&bytes[..700]), Limits::default());
    let error = reader.read_metadata().unwrap_err();
    assert!(error.is_environment(), "{error}");
    assert!(error.to_string().contains("at byte 700"), "{error}");
}
