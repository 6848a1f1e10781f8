//! Tests of `encode`: what travels together, and what is compressed.
use super::*;
use crate::fake::MemoryBlobs;

fn candidate(path: &str, size: u64) -> ContentToEncode {
    ContentToEncode {
        digest: Digest::of(path.as_bytes()),
        size,
        path: path.to_owned(),
    }
}

fn content(path: &str, size: u64) -> Content {
    Content {
        digest: Digest::of(path.as_bytes()),
        size,
    }
}

#[test]
fn small_contents_travel_in_packs_by_path() {
    let plan = plan_blobs(&[
        candidate("z", 1),
        candidate("a", MAX_SMALL_BYTES),
        candidate("m", 0),
    ]);
    let contents = vec![
        content("a", MAX_SMALL_BYTES),
        content("m", 0),
        content("z", 1),
    ];
    assert_eq!(
        plan,
        [BlobPlan {
            encoding: Encoding::Pack,
            contents
        }]
    );
}

#[test]
fn a_pack_stays_within_its_size() {
    let many: Vec<_> = (0..200)
        .map(|n| candidate(&format!("{n:03}"), MAX_SMALL_BYTES))
        .collect();
    let plan = plan_blobs(&many);
    let sizes: Vec<u64> = plan
        .iter()
        .map(|blob| blob.contents.iter().map(|c| c.size).sum())
        .collect();
    assert_eq!(
        sizes,
        [
            MAX_PACK_BYTES,
            MAX_PACK_BYTES,
            MAX_PACK_BYTES,
            8 * MAX_SMALL_BYTES
        ]
    );
}

#[test]
fn large_contents_travel_alone_after_the_packs() {
    let large = MAX_SMALL_BYTES + 1;
    let plan = plan_blobs(&[
        candidate("a.tar", large),
        candidate("b.tar.gz", large),
        candidate("c.DEB", large),
        candidate(".gz", large),
        candidate("z", 1),
    ]);
    let encodings: Vec<Encoding> = plan.iter().map(|blob| blob.encoding).collect();
    let (pack, zstd, identity) = (Encoding::Pack, Encoding::Zstd, Encoding::Identity);
    assert_eq!(encodings, [pack, zstd, zstd, identity, identity]);
}

#[test]
fn a_content_with_two_paths_travels_once() {
    let mut twice = candidate("z.gz", 100_000);
    twice.path = "a".to_owned();
    let plan = plan_blobs(&[candidate("z.gz", 100_000), twice]);
    assert_eq!(plan.len(), 1);
    assert_eq!(plan[0].encoding, Encoding::Identity);
}

#[test]
fn content_that_is_compressed_already_is_stored_whatever_its_name() {
    let mut bytes = b"\x1f\x8b\x08".to_vec();
    bytes.resize(100_000, 7);
    let mut contents = MemoryBlobs::default();
    let digest = contents.put(bytes.clone());
    let contents_of_plan = vec![Content {
        digest,
        size: 100_000,
    }];
    let plan = BlobPlan {
        encoding: Encoding::Zstd,
        contents: contents_of_plan,
    };
    let (blob, carried) = encode_blob(&plan, &mut contents, Vec::new()).unwrap();
    assert_eq!(
        (blob.encoding, blob.digest, carried),
        (Encoding::Identity, digest, bytes)
    );
}

#[test]
fn a_source_that_changed_is_refused() {
    for encoding in [Encoding::Identity, Encoding::Zstd, Encoding::Pack] {
        for size in [99_999, 100_001] {
            let mut contents = MemoryBlobs::default();
            let digest = contents.put(vec![1; 100_000]);
            let plan = BlobPlan {
                encoding,
                contents: vec![Content { digest, size }],
            };
            assert!(encode_blob(&plan, &mut contents, Vec::new()).is_err());
        }
        let digest = Digest::of(b"other");
        let mut contents = MemoryBlobs::default();
        contents.by_digest.insert(digest, vec![1; 5]);
        let plan = BlobPlan {
            encoding,
            contents: vec![Content { digest, size: 5 }],
        };
        let error = encode_blob(&plan, &mut contents, Vec::new()).unwrap_err();
        assert!(matches!(error, EncodeError::Changed { .. }), "{error}");
    }
}

/// A source that gives a few bytes at a time.
struct Slowly(Vec<u8>);

impl ContentSource for Slowly {
    fn open(&mut self, _: &Content) -> io::Result<Box<dyn Read + '_>> {
        struct Drip<'a>(&'a [u8]);
        impl Read for Drip<'_> {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                let count = buffer.len().min(1_000);
                self.0.read(&mut buffer[..count])
            }
        }
        Ok(Box::new(Drip(&self.0)))
    }
}

#[test]
fn short_reads_do_not_show_in_the_blob() {
    let bytes: Vec<u8> = (0..1_500_000u32).map(|n| (n / 3 % 251) as u8).collect();
    let mut contents = MemoryBlobs::default();
    let digest = contents.put(bytes.clone());
    let listed = vec![Content {
        digest,
        size: bytes.len() as u64,
    }];
    let plan = BlobPlan {
        encoding: Encoding::Zstd,
        contents: listed,
    };
    let at_once = encode_blob(&plan, &mut contents, Vec::new()).unwrap();
    assert_eq!(
        encode_blob(&plan, &mut Slowly(bytes), Vec::new()).unwrap(),
        at_once
    );
}

#[test]
fn the_number_of_threads_does_not_show_in_the_blob() {
    // More than two jobs of zstd.
    let bytes: Vec<u8> = (0..40_000_000u32).map(|n| (n / 3 % 251) as u8).collect();
    let mut contents = MemoryBlobs::default();
    let size = bytes.len() as u64;
    let digest = contents.put(bytes);
    let plan = BlobPlan {
        encoding: Encoding::Zstd,
        contents: vec![Content { digest, size }],
    };
    let mut with = |workers| encode_blob_with(&plan, &mut contents, Vec::new(), workers).unwrap();
    let one = with(1);
    assert!(with(2) == one && with(MAX_WORKERS) == one);
}

/// The format's own promise: whoever changes level, workers or grouping changes these digests, and
/// with them every bundle of every user.
#[test]
fn the_encoding_is_frozen() {
    let mut contents = MemoryBlobs::default();
    let small = contents.put(b"kind: Namespace\n".to_vec());
    let large: Vec<u8> = (0..700_000u32).map(|n| (n / 3 % 251) as u8).collect();
    let size = large.len() as u64;
    let large = contents.put(large);
    let digests = plan_blobs(&[
        ContentToEncode {
            digest: small,
            size: 16,
            path: "a".into(),
        },
        ContentToEncode {
            digest: large,
            size,
            path: "b".into(),
        },
    ])
    .iter()
    .map(|plan| {
        encode_blob(plan, &mut contents, Vec::new())
            .unwrap()
            .0
            .digest
            .short()
    })
    .collect::<Vec<_>>();
    assert_eq!(digests, ["fbf288b19f30", "79d1dcfd921b"]);
}
