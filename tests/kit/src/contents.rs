//! The contents of a bundle that is being made, and what of them lies in the bundle.
//!
//! What comes in: files. What goes out: their entries for an index, and the blobs that carry them, as the bundler
//! encodes them.

use outhaul_bundle::encode::{ContentToEncode, encode_blob, plan_blobs};
use outhaul_bundle::fake::MemoryBlobs;
use outhaul_bundle::index::{Blob, Content, File};

/// What was listed so far.
#[derive(Debug, Default)]
pub struct Contents {
    bytes: MemoryBlobs,
    candidates: Vec<ContentToEncode>,
}

impl Contents {
    /// Takes in one content; its path says how well it may compress.
    pub fn content(&mut self, path: &str, bytes: &[u8]) -> Content {
        let (digest, size) = (self.bytes.put(bytes.to_vec()), bytes.len() as u64);
        let path = path.to_owned();
        self.candidates.push(ContentToEncode { digest, size, path });
        Content { digest, size }
    }

    /// Takes in files; their entries, in order.
    pub fn files(&mut self, files: &[(String, Vec<u8>)]) -> Vec<File> {
        let mut listed: Vec<_> = files
            .iter()
            .map(|(path, bytes)| {
                let Content { digest, size } = self.content(path, bytes);
                File {
                    path: path.parse().unwrap(),
                    content: digest,
                    size,
                    executable: false,
                }
            })
            .collect();
        listed.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        listed
    }

    /// The blobs for the index, and their bytes.
    pub fn encoded(mut self) -> (Vec<Blob>, MemoryBlobs) {
        let mut blobs = MemoryBlobs::default();
        let mut listed = Vec::new();
        for plan in plan_blobs(&self.candidates) {
            let (blob, bytes) = encode_blob(&plan, &mut self.bytes, Vec::new()).unwrap();
            blobs.put(bytes);
            listed.push(blob);
        }
        (listed, blobs)
    }
}

/// Bytes that do not compress, the same on every call.
pub fn noise(count: usize) -> Vec<u8> {
    let next = |state: &mut u64| {
        *state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        Some((*state >> 56) as u8)
    };
    std::iter::repeat(())
        .scan(7, |state, ()| next(state))
        .take(count)
        .collect()
}
