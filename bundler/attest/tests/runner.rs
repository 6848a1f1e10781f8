//! Any bytes as a layer: the body that the fuzz target has.

use proptest::prelude::*;

// The body packs with it, and writes what is kept.
use flate2 as _;
use serde_json as _;

#[path = "../../../fuzz/bodies/layer.rs"]
mod bodies;

/// A tar with one file: a header of 512 bytes, and the text.
fn tar(path: &str, text: &str) -> Vec<u8> {
    let mut header = [0_u8; 512];
    header[..path.len()].copy_from_slice(path.as_bytes());
    header[100..107].copy_from_slice(b"0000644");
    header[124..135].copy_from_slice(format!("{:011o}", text.len()).as_bytes());
    header[148..156].copy_from_slice(b"        ");
    header[156] = b'0';
    header[257..263].copy_from_slice(b"ustar\0");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let mut all = header.to_vec();
    all.extend_from_slice(text.as_bytes());
    all.resize(all.len().next_multiple_of(512), 0);
    all
}

fn layer() -> Vec<u8> {
    let status =
        "Package: libc6\nStatus: install ok installed\nVersion: 2.36-9\nArchitecture: amd64\n";
    let mut layer = tar("var/lib/dpkg/status", status);
    layer.extend(tar(
        "lib/apk/db/installed",
        "P:musl\nV:1.2.4-r2\nA:x86_64\n\n",
    ));
    layer.extend(tar("etc/os-release", "ID=debian\nVERSION_ID=\"12\"\n"));
    layer
}

#[test]
fn the_layer_that_is_changed_below_is_one() {
    assert!(bodies::layer(&layer()));
}

proptest! {
    #[test]
    fn fuzz_layer_of_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..2048)) {
        bodies::layer(&bytes);
    }

    #[test]
    fn fuzz_layer_with_changed_bytes(
        at in any::<prop::sample::Index>(),
        with in prop::collection::vec(any::<u8>(), 1..12),
    ) {
        let mut bytes = layer();
        let at = at.index(bytes.len());
        let end = (at + with.len()).min(bytes.len());
        bytes.splice(at..end, with);
        bodies::layer(&bytes);
    }
}
