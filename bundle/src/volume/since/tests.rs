//! Tests of `since`: what is left out is what every earlier bundle has, and a forged list of it is refused.
use std::collections::BTreeSet;

use super::super::tests::{fake, part, read};
use super::*;
use crate::fake::MemoryBlobs;
use crate::read::BundleReader;
use crate::{Limits, fake::FakeBundle};

/// An earlier bundle that has these of the five blobs.
fn base(fake: &FakeBundle, number: u64, has: &[usize]) -> (Base, BTreeSet<Digest>) {
    let base = Base {
        number,
        index: Digest::of(&number.to_be_bytes()),
    };
    let has = has.iter().map(|at| fake.index.blobs[*at].digest);
    (base, has.collect())
}

fn places(fake: &FakeBundle, blobs: &[&Blob]) -> Vec<usize> {
    let place = |blob: &&Blob| fake.index.blobs.iter().position(|one| one == *blob);
    blobs.iter().filter_map(place).collect()
}

#[test]
fn a_copy_has_the_blobs_that_not_every_earlier_bundle_has() {
    let fake = fake();
    let all: Vec<usize> = (0..5).collect();
    for left_out in 0u32..32 {
        let has: Vec<usize> = all
            .iter()
            .copied()
            .filter(|at| left_out & (1 << at) != 0)
            .collect();
        let others: Vec<usize> = all.iter().copied().filter(|at| !has.contains(at)).collect();
        let Some(volume) = Volume::since(&fake.index, &[base(&fake, 3, &has)]) else {
            assert_eq!(left_out, 0);
            continue;
        };
        assert_eq!(places(&fake, &volume.carried(&fake.index)), others);
        assert_eq!(places(&fake, &volume.left_out(&fake.index)), has);
        let bytes = part(&fake, &volume);
        let mut store = MemoryBlobs::default();
        let found = read(&fake, &bytes, &mut store).unwrap();
        assert_eq!(found.as_ref(), Some(&volume));
        assert_eq!(store.by_digest.len(), others.len());
    }
    let bases = [base(&fake, 4, &[0, 1, 2]), base(&fake, 3, &[1, 2, 4])];
    let volume = Volume::since(&fake.index, &bases).unwrap();
    assert_eq!(places(&fake, &volume.left_out(&fake.index)), [1, 2]);
    assert_eq!(volume.named_bases(), "bundle 3 or 4");
    // Nothing that both have, and nobody who has anything.
    let bases = [base(&fake, 3, &[0]), base(&fake, 4, &[1])];
    assert_eq!(Volume::since(&fake.index, &bases), None);
    assert_eq!(Volume::since(&fake.index, &[]), None);
}

#[test]
fn a_copy_is_not_taken_for_a_bundle_by_who_does_not_ask() {
    let fake = fake();
    let volume = Volume::since(&fake.index, &[base(&fake, 3, &[1])]).unwrap();
    let bytes = part(&fake, &volume);
    let mut reader = BundleReader::new(bytes.as_slice(), Limits::default());
    reader.read_metadata().unwrap();
    let (index, _) = reader.read_index(&fake.expected_index()).unwrap();
    let read = reader.read_blobs(&index, &mut MemoryBlobs::default());
    let error = read.unwrap_err();
    assert_eq!(error.rule(), "left-out");
    assert!(error.to_string().contains("bundle 3"), "{error}");
}

#[test]
fn a_copy_that_claims_other_blobs_or_bases_is_refused() {
    let fake = fake();
    let sound = Volume::since(&fake.index, &[base(&fake, 3, &[1, 2])]).unwrap();
    assert_eq!(sound.blobs, [0, 1, 2, 2]);
    assert_eq!(Volume::from_bytes(&sound.to_bytes(), 5).unwrap(), sound);
    for blobs in [
        vec![],
        vec![0],
        vec![0, 5],
        vec![0, 1, 0, 4],
        vec![0, 1, 2, 1],
        vec![0, 1, 2, 3],
        vec![1, usize::MAX, 5],
    ] {
        let forged = Volume {
            blobs: blobs.clone(),
            ..sound.clone()
        };
        let read = Volume::from_bytes(&forged.to_bytes(), 5);
        assert!(read.is_err(), "{blobs:?}");
    }
    let one = sound.since[0].clone();
    for since in [
        vec![],
        vec![one.clone(), one.clone()],
        vec![one.clone(); MAX_BASES + 1],
    ] {
        let forged = Volume {
            since,
            ..sound.clone()
        };
        assert!(Volume::from_bytes(&forged.to_bytes(), 5).is_err());
    }
    // A part that names an earlier bundle, and a copy that is another part than the first.
    let as_part = Volume {
        format: "outhaul.dev/volume/v1".to_owned(),
        ..sound.clone()
    };
    let second = Volume { part: 2, ..sound };
    for forged in [as_part, second] {
        assert!(Volume::from_bytes(&forged.to_bytes(), 5).is_err());
    }
}

#[test]
fn a_list_of_more_gaps_than_a_file_can_name_leaves_out_the_largest() {
    let mut fake = fake();
    let sample = fake.index.blobs[0].clone();
    fake.index.blobs = (0..4_096u64)
        .map(|at| Blob {
            digest: Digest::of(&at.to_be_bytes()),
            size: at,
            ..sample.clone()
        })
        .collect();
    let every_second = fake.index.blobs.iter().step_by(2);
    let has = every_second.map(|blob| blob.digest).collect();
    let (base, _) = base(&fake, 3, &[]);
    let volume = Volume::since(&fake.index, &[(base, has)]).unwrap();
    assert!(volume.to_bytes().len() as u64 <= super::super::MAX_VOLUME_BYTES);
    let left_out = volume.left_out(&fake.index);
    assert_eq!(left_out.len(), MAX_RUNS);
    assert_eq!(left_out.last().unwrap().size, 4_094);
    assert_eq!(left_out[0].size, 4_094 - 2 * (MAX_RUNS as u64 - 1));
}
