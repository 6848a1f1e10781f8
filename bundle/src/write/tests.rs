//! Tests of `write`: the bytes that standard tools see, and what is never finished.
use super::*;
use crate::fake::FakeBundle;

fn fake() -> FakeBundle {
    FakeBundle::new(1, &[("a", b"alpha"), ("b", &vec![b'b'; 70_000])]).unwrap()
}

#[test]
fn standard_tools_list_the_members_in_order() {
    let fake = fake();
    let bytes = fake.to_bytes().unwrap();
    let mut archive = tar::Archive::new(bytes.as_slice());
    let names: Vec<String> = archive
        .entries()
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            let header = entry.header();
            assert_eq!(
                (header.mode().unwrap(), header.mtime().unwrap()),
                (0o644, 0)
            );
            assert_eq!((header.uid().unwrap(), header.gid().unwrap()), (0, 0));
            entry.path().unwrap().to_str().unwrap().to_owned()
        })
        .collect();
    let mut expected: Vec<String> = [
        "metadata/1.root.json",
        "metadata/timestamp.json",
        "index.json",
    ]
    .map(String::from)
    .into();
    let blobs = fake
        .index
        .blobs
        .iter()
        .map(|b| format!("blobs/sha256/{}", b.digest.hex()));
    expected.extend(blobs);
    assert_eq!(names, expected);
}

#[test]
fn metadata_is_put_in_order_and_doubles_are_refused() {
    let mut fake = fake();
    let right = fake.to_bytes().unwrap();
    fake.metadata.reverse();
    assert_eq!(fake.to_bytes().unwrap(), right);
    fake.metadata.push(fake.metadata[0].clone());
    assert!(fake.to_bytes().is_err());
    for name in ["", "root.json", "../1.root.json", "1.Root.json"] {
        fake.metadata = vec![(name.to_owned(), Vec::new())];
        assert!(fake.to_bytes().is_err(), "{name}");
    }
}

#[test]
fn what_no_reader_would_take_is_not_written() {
    let mut large = fake();
    large.metadata[0].1 = vec![b' '; 600 * 1024];
    assert!(large.to_bytes().is_err());
    let mut inconsistent = fake();
    inconsistent.index.number = 0;
    assert!(inconsistent.to_bytes().is_err());
    let fake = fake();
    let mut spaced = fake.index.to_bytes();
    spaced.push(b'\n');
    let mut blobs = fake.blobs.clone();
    let written = write_bundle(Vec::new(), &[], &spaced, &fake.index, &mut blobs);
    assert!(matches!(written, Err(WriteError::IndexBytes)));
}

#[test]
fn a_blob_that_its_source_changed_is_refused() {
    for change in [
        &|bytes: &mut Vec<u8>| bytes[0] ^= 1,
        &|b: &mut Vec<u8>| b.push(0),
        &|b| {
            b.pop();
        },
    ] as [&dyn Fn(&mut Vec<u8>); 3]
    {
        let mut fake = fake();
        for bytes in fake.blobs.by_digest.values_mut() {
            change(bytes);
        }
        let (index, mut blobs) = (fake.index.to_bytes(), fake.blobs.clone());
        let error = write_bundle(Vec::new(), &[], &index, &fake.index, &mut blobs).unwrap_err();
        assert!(matches!(error, WriteError::Blob { .. }), "{error}");
    }
}
