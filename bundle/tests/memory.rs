//! That the size of what is read does not show in memory.
//!
//! The bundle's large blob is made while it is read, so that it is nowhere whole; a quarter of a GiB of
//! zeros goes through the reader and the decoder.

use std::io::{self, Read, Write};

use outhaul_bundle::decode::decode;
use outhaul_bundle::fake::FakeBundle;
use outhaul_bundle::index::{Blob, Content, Encoding};
use outhaul_bundle::{BlobSink, BundleReader, Digest, Limits};

const BOMB_BYTES: u64 = 256 << 20;
/// Digest of [`BOMB_BYTES`] zeros.
const BOMB_DIGEST: &str = "a6d72ac7690f53be6ae46ba88506bd97302a093f7108472bd9efc3cefda06484";

#[derive(Default)]
struct Count {
    bytes: u64,
    largest: usize,
    committed: usize,
}

impl Write for &mut Count {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes += bytes.len() as u64;
        self.largest = self.largest.max(bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl BlobSink for Count {
    fn begin(&mut self, _: &Blob) -> io::Result<Option<Box<dyn Write + '_>>> {
        Ok(Some(Box::new(self)))
    }

    fn commit(&mut self, _: &Blob) -> io::Result<()> {
        self.committed += 1;
        Ok(())
    }

    fn discard(&mut self, _: &Blob) {}
}

/// Peak memory of this process so far, in KiB.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok())
        .unwrap_or(0)
}

#[test]
fn a_large_blob_streams_through_in_small_pieces() {
    let mut fake = FakeBundle::new(1, &[("small", b"x")]).unwrap();
    let digest = Digest::from_hex(BOMB_DIGEST).unwrap();
    let content = Content {
        digest,
        size: BOMB_BYTES,
    };
    let (encoding, contents) = (Encoding::Identity, vec![content]);
    let mut bytes = fake.to_bytes().unwrap();
    let small = bytes[bytes.len() - 4 * 512..bytes.len() - 1024].to_vec();
    fake.index.blobs.push(Blob {
        digest,
        size: BOMB_BYTES,
        encoding,
        contents,
        sealed: None,
    });
    // The header of the large blob, from that of the small one.
    let mut header = tar::Header::new_ustar();
    header.as_mut_bytes().copy_from_slice(&small[..512]);
    header.as_old_mut().name[13..77].copy_from_slice(BOMB_DIGEST.as_bytes());
    header.set_size(BOMB_BYTES);
    header.set_cksum();
    // Up to the index, the new index, the small blob.
    let index = fake.index.to_bytes();
    let mut index_header = tar::Header::new_ustar();
    index_header
        .as_mut_bytes()
        .copy_from_slice(&bytes[4 * 512..5 * 512]);
    index_header.set_size(index.len() as u64);
    index_header.set_cksum();
    bytes.truncate(4 * 512);
    bytes.extend_from_slice(index_header.as_bytes());
    bytes.extend_from_slice(&index);
    bytes.resize(bytes.len().div_ceil(512) * 512, 0);
    bytes.extend_from_slice(&small);
    bytes.extend_from_slice(header.as_bytes());
    let stream = bytes
        .as_slice()
        .chain(io::repeat(0).take(BOMB_BYTES + 1024));

    let before = peak_kib();
    let mut count = Count::default();
    let mut reader = BundleReader::new(stream, Limits::default());
    reader.read_metadata().unwrap();
    let (index, _) = reader.read_index(&fake.expected_index()).unwrap();
    reader.read_blobs(&index, &mut count).unwrap();
    assert_eq!(count.committed, 2);
    assert!(count.bytes > BOMB_BYTES);
    assert!(
        count.largest <= 64 * 1024,
        "{} bytes at once",
        count.largest
    );
    assert!(
        peak_kib().saturating_sub(before) < 128 * 1024,
        "{} KiB more",
        peak_kib().saturating_sub(before)
    );
}

#[test]
fn a_large_content_is_decoded_in_small_pieces() {
    let bytes = zstd::encode_all(io::repeat(0).take(BOMB_BYTES), 1).unwrap();
    let digest = Digest::from_hex(BOMB_DIGEST).unwrap();
    let contents = vec![Content {
        digest,
        size: BOMB_BYTES,
    }];
    let (carried, size) = (Digest::of(&bytes), bytes.len() as u64);
    let blob = Blob {
        digest: carried,
        size,
        encoding: Encoding::Zstd,
        contents,
        sealed: None,
    };
    let before = peak_kib();
    let mut each = |_: &Content| Ok(Some(Box::new(io::sink()) as Box<dyn Write>));
    decode(&blob, bytes.as_slice(), &Limits::default(), &mut each).unwrap();
    assert!(
        peak_kib().saturating_sub(before) < 128 * 1024,
        "{} KiB more",
        peak_kib().saturating_sub(before)
    );
}
