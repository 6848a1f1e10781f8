//! Tests of sealed blobs with a toy cipher: the order of the checks, and what the index must say.
use std::io;

use super::*;
use crate::decode::{DecodeError, decode, decode_sealed};
use crate::digest::Digest;
use crate::encode::{ContentToEncode, encode_blob, plan_blobs};
use crate::fake::{FakeBundle, MemoryBlobs};
use crate::index::{Content, Encoding, Index};
use crate::limits::Limits;
use crate::name::Name;

/// Adds one to each byte, after a head that names the key. Real ciphers are the caller's.
struct Toy(&'static str);

const HEAD: usize = 4;

fn seal(key: &str, bytes: &[u8]) -> Vec<u8> {
    let shifted = bytes.iter().map(|byte| byte.wrapping_add(1));
    key.bytes().chain(shifted).collect()
}

impl Unseal for Toy {
    fn unseal<'a>(
        &self,
        _: &Blob,
        sealed: &Sealed,
        mut carried: Box<dyn Read + 'a>,
    ) -> Result<Box<dyn Read + 'a>, UnsealError> {
        let damaged = |problem: &str| UnsealError::Damaged {
            problem: problem.to_owned(),
        };
        let mut head = [0; HEAD];
        carried
            .read_exact(&mut head)
            .map_err(|_| damaged("no head"))?;
        if head != self.0.as_bytes() {
            return Err(UnsealError::NotForUs {
                readers: sealed.readers(),
                have: format!("the key here is {}", self.0),
            });
        }
        let mut bytes = Vec::new();
        carried
            .read_to_end(&mut bytes)
            .map_err(|_| damaged("no body"))?;
        let bytes = bytes.iter().map(|byte| byte.wrapping_sub(1)).collect();
        Ok(Box::new(io::Cursor::<Vec<u8>>::new(bytes)))
    }
}

fn readers() -> std::collections::BTreeMap<Name, Name> {
    let name = |text: &str| text.parse::<Name>().unwrap();
    [(name("0123456789abcdef"), name("press-7"))].into()
}

/// One blob of `content`, sealed with the key `AAAA`, and its carried bytes.
fn sealed_blob(content: &[u8], path: &str) -> (Blob, Vec<u8>) {
    let mut contents = MemoryBlobs::default();
    let digest = contents.put(content.to_vec());
    let size = content.len() as u64;
    let path = path.to_owned();
    let plan = plan_blobs(&[ContentToEncode { digest, size, path }]);
    let (blob, bytes) = encode_blob(&plan[0], &mut contents, Vec::new()).unwrap();
    let carried = seal("AAAA", &bytes);
    let blob = Blob {
        digest: Digest::of(&carried),
        size: carried.len() as u64,
        sealed: Some(Sealed {
            recipients: readers(),
            size: blob.size,
        }),
        ..blob
    };
    (blob, carried)
}

fn run(blob: &Blob, carried: &[u8], key: &'static str) -> Result<(), DecodeError> {
    let mut each = |_: &Content| Ok(None);
    decode_sealed(blob, carried, &Limits::default(), &Toy(key), &mut each)
}

#[test]
fn every_encoding_is_opened_then_decompressed() {
    let large = vec![b'x'; 100_000];
    for (content, path, encoding) in [
        (&b"small"[..], "a.yaml", Encoding::Pack),
        (&large, "a.bin", Encoding::Zstd),
        (&large, "a.gz", Encoding::Identity),
    ] {
        let (blob, carried) = sealed_blob(content, path);
        assert_eq!(blob.encoding, encoding);
        run(&blob, &carried, "AAAA").unwrap();
    }
}

#[test]
fn attack_sealed_for_another_site() {
    let (blob, carried) = sealed_blob(b"secret", "a");
    let error = run(&blob, &carried, "BBBB").unwrap_err();
    assert_eq!(error.rule(), "recipient");
    let printed = error.to_string();
    assert!(
        printed.contains("sealed for `press-7`") && printed.contains("BBBB"),
        "{printed}"
    );
    let error = decode(&blob, &*carried, &Limits::default(), &mut |_| Ok(None)).unwrap_err();
    assert!(error.to_string().contains("no key is here"), "{error}");
    assert!(!error.is_environment());
}

#[test]
fn attack_truncated_and_extended() {
    let (blob, carried) = sealed_blob(&vec![b'x'; 100_000], "a.gz");
    for cut in [0, HEAD - 1, HEAD, carried.len() - 1] {
        assert!(run(&blob, &carried[..cut], "AAAA").is_err(), "{cut}");
    }
    let extended = [&carried[..], b"x"].concat();
    assert!(run(&blob, &extended, "AAAA").is_err());
}

#[test]
fn attack_swapped_for_another_sealed_blob() {
    let (blob, _) = sealed_blob(b"the right one", "a");
    let (_, other) = sealed_blob(b"the wrong one", "a");
    let blob = Blob {
        size: other.len() as u64,
        ..blob
    };
    // As carried it would be refused by its digest already; the content's digest refuses it, too.
    let error = run(&blob, &other, "AAAA").unwrap_err();
    assert!(
        matches!(error.rule(), "digest" | "encoding" | "size"),
        "{error}"
    );
}

#[test]
fn attack_more_inside_than_the_index_says() {
    let (mut blob, carried) = sealed_blob(&vec![b'x'; 100_000], "a.gz");
    blob.sealed.as_mut().unwrap().size -= 1;
    blob.contents[0].size -= 1;
    assert!(run(&blob, &carried, "AAAA").is_err());
}

fn index_with(change: impl FnOnce(&mut Blob)) -> Result<Index, String> {
    let mut index = FakeBundle::new(1, &[("a.gz", &vec![b'x'; 70_000])])
        .unwrap()
        .index;
    let (mut blob, _) = sealed_blob(&vec![b'x'; 70_000], "a.gz");
    change(&mut blob);
    index.blobs = vec![blob];
    Index::from_bytes(&index.to_bytes(), &Limits::default()).map_err(|error| error.to_string())
}

#[test]
fn an_index_says_who_can_open_and_how_much_comes_out() {
    let index = index_with(|_| ()).unwrap();
    assert!(index.blobs[0].sealed.is_some());
    let read = index_with(|blob| blob.sealed.as_mut().unwrap().recipients.clear());
    assert!(read.unwrap_err().contains("sealed for 0 keys"));
    let read = index_with(|blob| blob.sealed.as_mut().unwrap().size = blob.size);
    assert!(read.unwrap_err().contains("cannot hold"));
    let read = index_with(|blob| blob.contents[0].size -= 1);
    assert!(read.is_err());
}

#[test]
fn an_open_bundle_does_not_speak_of_seals() {
    let bytes = FakeBundle::new(1, &[("a", b"a")]).unwrap().index.to_bytes();
    let text = String::from_utf8(bytes).unwrap();
    assert!(!text.contains("sealed") && !text.contains("attestations"));
}

#[test]
fn long_lists_of_readers_are_shortened() {
    let recipients = (0..7)
        .map(|n| {
            (
                format!("k{n}").parse().unwrap(),
                format!("site-{n}").parse().unwrap(),
            )
        })
        .collect();
    let sealed = Sealed {
        recipients,
        size: 1,
    };
    assert!(sealed.readers().ends_with("`site-4` and 2 more"));
}
