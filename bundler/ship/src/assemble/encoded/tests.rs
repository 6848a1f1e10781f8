//! Tests of `encoded`: what of a bundle that was made before is used again, and what is not.

use std::rc::Rc;

use outhaul_bundle::encode::BlobPlan;
use outhaul_bundle::fake::FakeBundle;

use super::*;
use crate::assemble::Spool;

/// A bundle in a file, the content of its index, and its blobs.
fn bundle(folder: &Path) -> (PathBuf, Content, Vec<Blob>) {
    let fake = FakeBundle::new(1, &[("a", b"first"), ("b", b"second")]).unwrap();
    let path = folder.join("kept.outhaul");
    std::fs::write(&path, fake.to_bytes().unwrap()).unwrap();
    let bytes = fake.index.to_bytes();
    let index = Content {
        digest: Digest::of(&bytes),
        size: bytes.len() as u64,
    };
    (path, index, fake.index.blobs)
}

fn plan(blob: &Blob, encoding: Encoding) -> BlobPlan {
    BlobPlan {
        encoding,
        contents: blob.contents.clone(),
    }
}

fn spool(before: &Rc<EncodedBefore>) -> Spool {
    Spool::new(&std::env::temp_dir())
        .unwrap()
        .with_encoded(Rc::clone(before))
}

#[test]
fn a_blob_of_the_bundle_before_is_found_by_its_contents_and_read_where_it_lies() {
    let folder = tempfile::tempdir().unwrap();
    let (path, index, blobs) = bundle(folder.path());
    let before = Rc::new(EncodedBefore::default());
    before.add(&path, &index);
    let mut spool = spool(&before);
    spool.confirm();
    for blob in &blobs {
        let found = spool.encoded(&plan(blob, blob.encoding)).unwrap();
        assert_eq!(found.as_ref(), Some(blob));
        let mut bytes = Vec::new();
        let mut from = spool.open_blob(blob).unwrap();
        std::io::Read::read_to_end(&mut from, &mut bytes).unwrap();
        assert_eq!(Digest::of(&bytes), blob.digest);
    }
}

#[test]
fn another_index_another_way_to_store_and_other_bytes_are_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let (path, index, blobs) = bundle(folder.path());
    let unsigned = Rc::new(EncodedBefore::default());
    let other = Digest::of(b"another index");
    unsigned.add(
        &path,
        &Content {
            digest: other,
            ..index
        },
    );
    let wanted = plan(&blobs[0], blobs[0].encoding);
    assert_eq!(spool(&unsigned).encoded(&wanted).unwrap(), None);
    let before = Rc::new(EncodedBefore::default());
    before.add(&path, &index);
    let as_it_is = plan(&blobs[0], Encoding::Identity);
    assert_eq!(spool(&before).encoded(&as_it_is).unwrap(), None);
    // The file is damaged after its index: that is seen before its bytes are used.
    let mut mine = spool(&before);
    assert!(mine.encoded(&wanted).unwrap().is_some());
    let mut bytes = std::fs::read(&path).unwrap();
    let last = bytes.len() - 2 * 512 - 1;
    for byte in &mut bytes[last - 600..=last] {
        *byte ^= 1;
    }
    std::fs::write(&path, bytes).unwrap();
    mine.confirm();
    assert_eq!(mine.encoded(&wanted).unwrap(), None);
}
