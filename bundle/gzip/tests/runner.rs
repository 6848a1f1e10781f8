//! Any bytes as a gzip file and as corrections: the bodies that the fuzz targets have.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;

#[path = "../../../fuzz/bodies/gzip.rs"]
mod bodies;

fn file(text: &[u8], level: u32) -> Vec<u8> {
    let mut writer = GzEncoder::new(Vec::new(), Compression::new(level));
    writer.write_all(text).unwrap();
    writer.finish().unwrap()
}

proptest! {
    #[test]
    fn fuzz_gzip_of_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut file = b"\x1f\x8b\x08\0\0\0\0\0\0\xff".to_vec();
        file.extend(&bytes);
        bodies::gzip(&file);
        bodies::gzip(&bytes);
    }

    #[test]
    fn fuzz_gzip_with_changed_bytes(
        text in prop::collection::vec(prop_oneof![Just(b'a'), Just(b'b'), any::<u8>()], 0..200),
        level in 0u32..=9,
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut file = file(&text, level);
        prop_assert!(bodies::gzip(&file));
        let at = at.index(file.len());
        file[at] = byte;
        bodies::gzip(&file);
    }

    #[test]
    fn fuzz_corrections_of_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        bodies::corrections(&bytes);
    }

    #[test]
    fn fuzz_corrections_with_changed_bytes(
        text in prop::collection::vec(prop_oneof![Just(b'a'), Just(b'b'), any::<u8>()], 0..200),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let file = file(&text, 6);
        let mut found = Vec::new();
        let open = &mut || Ok(std::io::Cursor::new(&file));
        let mut corrections = outhaul_gzip::split(open, &mut found, 1 << 20).unwrap();
        let at = at.index(corrections.len());
        corrections[at] = byte;
        bodies::joined(&text, corrections);
    }
}
