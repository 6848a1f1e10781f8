//! Tests of `volume`: what is cut is whole again in any order, and each attack on a part is refused by name.
use super::*;
use crate::fake::{FakeBundle, MemoryBlobs};
use crate::index::IndexBytes;
use crate::read::{BundleReader, ReadError};
use crate::{Limits, write_part};

/// Bytes of one of its blobs, with its header.
const BLOB: u64 = 512 + 70_144;

/// Five blobs of 70,000 bytes.
pub(super) fn fake() -> FakeBundle {
    let contents: Vec<(String, Vec<u8>)> = (0u8..5)
        .map(|at| {
            // What does not compress keeps its size.
            let bytes = (0..70_000u32).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[1] ^ at);
            (format!("{at}.gz"), bytes.collect())
        })
        .collect();
    let files: Vec<(&str, &[u8])> = contents
        .iter()
        .map(|(name, bytes)| (name.as_str(), bytes.as_slice()))
        .collect();
    FakeBundle::new(1, &files).unwrap()
}

fn fixed_bytes(fake: &FakeBundle) -> u64 {
    let bytes = fake.to_bytes().unwrap();
    let mut reader = BundleReader::new(bytes.as_slice(), Limits::default());
    reader.read_metadata().unwrap();
    reader.read_index(&fake.expected_index()).unwrap();
    reader.offset()
}

fn plan(fake: &FakeBundle, max_bytes: u64) -> Vec<Volume> {
    Volume::plan(fixed_bytes(fake), &fake.index, max_bytes).unwrap()
}

pub(super) fn part(fake: &FakeBundle, volume: &Volume) -> Vec<u8> {
    let mut blobs = fake.blobs.clone();
    write_part(
        Vec::new(),
        &fake.metadata,
        &IndexBytes::new(fake.index.to_bytes(), None),
        &fake.index,
        volume,
        &mut blobs,
    )
    .unwrap()
}

pub(super) fn read(
    fake: &FakeBundle,
    bytes: &[u8],
    store: &mut MemoryBlobs,
) -> Result<Option<Volume>, ReadError> {
    let mut reader = BundleReader::new(bytes, Limits::default());
    reader.read_metadata()?;
    let (index, _) = reader.read_index(&fake.expected_index())?;
    let volume = reader.read_volume(&index)?;
    reader.read_blobs(&index, store)?;
    Ok(volume)
}

#[test]
fn parts_are_no_larger_than_asked_and_make_the_bundle_whole_in_any_order() {
    let fake = fake();
    let max_bytes = fixed_bytes(&fake) + MAX_VOLUME_BYTES + 512 + 1024 + 2 * BLOB;
    let parts = plan(&fake, max_bytes);
    assert_eq!(parts.len(), 3);
    let mut store = MemoryBlobs::default();
    for volume in [&parts[2], &parts[0], &parts[2], &parts[1]] {
        let bytes = part(&fake, volume);
        assert!(bytes.len() as u64 <= max_bytes);
        assert_eq!(
            bytes.len() as u64,
            volume.bytes(fixed_bytes(&fake), &fake.index)
        );
        assert_eq!(bytes, part(&fake, volume));
        assert_eq!(
            read(&fake, &bytes, &mut store).unwrap().as_ref(),
            Some(volume)
        );
        let is_missing = |at: usize| !store.by_digest.contains_key(&fake.index.blobs[at].digest);
        let expected: &[usize] = match (volume.part(), store.by_digest.len()) {
            (3, 1) => &[1, 2],
            (1 | 3, 3) => &[2],
            _ => &[],
        };
        assert_eq!(volume.missing(is_missing), expected);
    }
    assert_eq!(store.by_digest.len(), 5);
    // One part is a part, too; the whole bundle is none.
    assert_eq!(plan(&fake, u64::MAX).len(), 1);
    let whole = fake.to_bytes().unwrap();
    assert_eq!(
        read(&fake, &whole, &mut MemoryBlobs::default()).unwrap(),
        None
    );
}

#[test]
fn a_part_is_not_taken_for_a_bundle_by_who_does_not_ask() {
    let fake = fake();
    let bytes = part(&fake, &plan(&fake, u64::MAX)[0]);
    let mut reader = BundleReader::new(bytes.as_slice(), Limits::default());
    reader.read_metadata().unwrap();
    let (index, _) = reader.read_index(&fake.expected_index()).unwrap();
    let error = reader
        .read_blobs(&index, &mut MemoryBlobs::default())
        .unwrap_err();
    assert_eq!(error.rule(), "part");
}

#[test]
fn a_blob_larger_than_a_part_is_refused_with_the_size_that_works() {
    let fake = fake();
    let fixed = fixed_bytes(&fake);
    let error = Volume::plan(fixed, &fake.index, 4_096).unwrap_err();
    let VolumeError::TooSmall { least, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(Volume::plan(fixed, &fake.index, least).unwrap().len(), 5);
    assert!(Volume::plan(fixed, &fake.index, least - 1).is_err());
}

#[test]
fn parts_that_would_be_too_many_are_refused_with_the_size_that_works() {
    let mut index = fake().index;
    let blob = index.blobs[0].clone();
    index.blobs = vec![Blob { size: 100, ..blob }; 3 * MAX_PARTS + 1];
    let large = Volume::least_bytes(0, &index);
    let error = Volume::plan(0, &index, large - 1).unwrap_err();
    assert!(
        matches!(error, VolumeError::TooMany { least, .. } if least == large),
        "{error}"
    );
    assert!(Volume::plan(0, &index, large).unwrap().len() <= MAX_PARTS);
}

#[test]
fn a_part_that_claims_another_cut_is_refused() {
    let fake = fake();
    let sound = plan(&fake, u64::MAX)[0].clone();
    for (part, blobs) in [
        (0, vec![5]),
        (2, vec![5]),
        (1, vec![4]),
        (1, vec![6]),
        (1, vec![5, 0]),
        (1, vec![usize::MAX, 6]),
        (1, vec![]),
    ] {
        let forged = Volume {
            part,
            blobs,
            ..sound.clone()
        };
        let problem = Volume::from_bytes(&forged.to_bytes(), 5).unwrap_err();
        assert!(!problem.is_empty());
    }
    let other = Volume {
        format: "outhaul.dev/volume/v2".to_owned(),
        ..sound.clone()
    };
    assert!(Volume::from_bytes(&other.to_bytes(), 5).is_err());
    let mut spaced = sound.to_bytes();
    spaced.insert(0, b' ');
    assert!(Volume::from_bytes(&spaced, 5).is_err());
}

#[test]
fn a_part_that_holds_other_blobs_than_it_says_is_refused() {
    let fake = fake();
    let parts = plan(
        &fake,
        fixed_bytes(&fake) + MAX_VOLUME_BYTES + 512 + 1024 + 2 * BLOB,
    );
    let mut bytes = part(&fake, &parts[0]);
    let text = String::from_utf8(parts[0].to_bytes()).unwrap();
    let at = bytes
        .windows(text.len())
        .position(|window| window == text.as_bytes())
        .unwrap();
    let forged = text.replace("\"part\":1", "\"part\":2");
    bytes[at..at + forged.len()].copy_from_slice(forged.as_bytes());
    let mut store = MemoryBlobs::default();
    assert_eq!(read(&fake, &bytes, &mut store).unwrap_err().rule(), "order");
    assert!(store.by_digest.is_empty());
    // A damaged blob is thrown away.
    let mut damaged = part(&fake, &parts[1]);
    let last = damaged.len() - 2_048;
    damaged[last] ^= 1;
    assert_eq!(
        read(&fake, &damaged, &mut store).unwrap_err().rule(),
        "digest"
    );
    let mut short = part(&fake, &parts[1]);
    short.truncate(short.len() - 3_000);
    assert_eq!(
        read(&fake, &short, &mut MemoryBlobs::default())
            .unwrap_err()
            .rule(),
        "truncated"
    );
}
