//! Tests of parity: whatever combination of parts is lost, what is made is what was there; and lies are bounded.
use std::collections::{BTreeMap, BTreeSet};
use std::io;

use outhaul_bundle::fake::FakeBundle;
use outhaul_bundle::{Digest, Index, Parity, Volume};
use proptest::prelude::*;

use super::*;

/// What does not compress keeps its size.
fn noise(seed: u64, count: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32).to_le_bytes()[0]
    };
    (0..count).map(|_| next()).collect()
}

/// A bundle whose blobs have these sizes above 64 KiB, cut into parts of one to three of them.
fn fake(sizes: &[usize]) -> FakeBundle {
    let named = |(at, size): (usize, &usize)| (format!("{at}.gz"), noise(at as u64, 65_537 + size));
    let contents: Vec<(String, Vec<u8>)> = sizes.iter().enumerate().map(named).collect();
    let files: Vec<(&str, &[u8])> = contents
        .iter()
        .map(|(name, bytes)| (name.as_str(), bytes.as_slice()))
        .collect();
    FakeBundle::new(1, &files).unwrap()
}

fn set(fake: &FakeBundle, max_bytes: u64, of: usize) -> Parity {
    // Besides what a part holds: `volume.json` and the end.
    let parts = Volume::plan(0, &fake.index, max_bytes + 18_432).unwrap();
    Parity::of_cut(&parts[0], of).remove(0)
}

struct Memory<'a> {
    fake: &'a FakeBundle,
    /// Places that must not be read.
    lost: BTreeSet<usize>,
}

impl BlobBytes for Memory<'_> {
    fn read(&mut self, place: usize, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        assert!(!self.lost.contains(&place), "{place} is lost");
        let bytes = &self.fake.blobs.by_digest[&self.fake.index.blobs[place].digest];
        let from = usize::try_from(offset).unwrap();
        buffer.copy_from_slice(&bytes[from..from + buffer.len()]);
        Ok(())
    }
}

struct Kept(BTreeMap<usize, Vec<u8>>);

impl ParityBytes for Kept {
    fn read(&mut self, part: usize, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let from = usize::try_from(offset).unwrap();
        buffer.copy_from_slice(&self.0[&part][from..from + buffer.len()]);
        Ok(())
    }
}

struct Made<'a> {
    index: &'a Index,
    begun: BTreeMap<usize, Vec<u8>>,
    whole: BTreeMap<usize, Vec<u8>>,
}

impl RebuildSink for Made<'_> {
    fn write(&mut self, place: usize, bytes: &[u8]) -> io::Result<()> {
        self.begun
            .entry(place)
            .or_default()
            .extend_from_slice(bytes);
        Ok(())
    }

    fn end(&mut self, place: usize) -> io::Result<()> {
        let bytes = self.begun.remove(&place).unwrap_or_default();
        if Digest::of(&bytes) != self.index.blobs[place].digest {
            return Err(io::Error::other("another one"));
        }
        self.whole.insert(place, bytes);
        Ok(())
    }
}

fn parity_of(fake: &FakeBundle, set: &Parity) -> BTreeMap<usize, Vec<u8>> {
    let mut parity: BTreeMap<usize, Vec<u8>> = BTreeMap::new();
    let lost = BTreeSet::new();
    encode(
        &fake.index,
        set,
        &mut Memory { fake, lost },
        &mut |part, bytes| {
            parity.entry(part).or_default().extend_from_slice(bytes);
            Ok(())
        },
    )
    .unwrap();
    parity
}

/// Makes the blobs at these places again; which came out.
fn again(
    fake: &FakeBundle,
    set: &Parity,
    lost: &BTreeSet<usize>,
    parity: BTreeMap<usize, Vec<u8>>,
) -> Result<BTreeMap<usize, Vec<u8>>, String> {
    let standing = |place: usize| match lost.contains(&place) {
        true => BlobPresence::Missing,
        false => BlobPresence::Here,
    };
    let layout = set.layout(&fake.index);
    let steps = plan(&layout, &standing, parity.len()).map_err(|error| error.to_string())?;
    let have: Vec<usize> = parity.keys().copied().collect();
    let mut made = Made {
        index: &fake.index,
        begun: BTreeMap::new(),
        whole: BTreeMap::new(),
    };
    let mut memory = Memory {
        fake,
        lost: lost.clone(),
    };
    rebuild(
        &fake.index,
        set,
        &steps,
        &have,
        (&mut memory, &mut Kept(parity)),
        &mut made,
    )
    .map_err(|error| error.to_string())?;
    Ok(made.whole)
}

fn places(set: &Parity, parts: &BTreeSet<usize>) -> BTreeSet<usize> {
    let mut at = 0;
    let mut found = BTreeSet::new();
    for (part, held) in set.cut().iter().enumerate() {
        if parts.contains(&part) {
            found.extend(at..at + held);
        }
        at += held;
    }
    found
}

#[test]
fn every_combination_of_lost_parts_is_made_again_from_every_combination_of_parity() {
    let fake = fake(&[100, 9_000, 70_000, 1, 512, 30_000]);
    for (max_bytes, of) in [(140_000, 1), (140_000, 2), (250_000, 3), (300_000, 4)] {
        let set = set(&fake, max_bytes, of);
        let parts = set.parts();
        let parity = parity_of(&fake, &set);
        assert!(parts >= 2 && parity.len() == of);
        for lost in 1u32..1 << parts {
            let lost: BTreeSet<usize> = (0..parts).filter(|at| lost >> at & 1 == 1).collect();
            for have in 0u32..1 << of {
                let have = parity
                    .iter()
                    .filter(|(part, _)| have >> (**part - 1) & 1 == 1);
                let have: BTreeMap<_, _> = have.map(|(at, bytes)| (*at, bytes.clone())).collect();
                let (enough, places) = (have.len() >= lost.len(), places(&set, &lost));
                let made = again(&fake, &set, &places, have.clone());
                // Different ends: parts that are short are not lost where others still have bytes.
                let Ok(made) = made else {
                    assert!(!enough, "{lost:?} {have:?}");
                    continue;
                };
                assert_eq!(made.keys().copied().collect::<BTreeSet<_>>(), places);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn lost_blobs_are_made_again_wherever_no_more_are_lost_than_there_is_parity(
        sizes in prop::collection::vec(0usize..60_000, 2..7),
        max_bytes in 130_000u64..400_000,
        of in 1usize..5,
        lost in prop::collection::vec(any::<bool>(), 7),
    ) {
        let fake = fake(&sizes);
        let set = set(&fake, max_bytes, of);
        let count = fake.index.blobs.len();
        let lost: BTreeSet<usize> = (0..count).filter(|at| lost[*at]).collect();
        let parity = parity_of(&fake, &set);
        let lost_parts = set.missing(|place| lost.contains(&place)).len();
        match again(&fake, &set, &lost, parity) {
            Ok(made) => prop_assert_eq!(made.into_keys().collect::<BTreeSet<_>>(), lost),
            Err(problem) => prop_assert!(lost_parts > of, "{}", problem),
        }
    }
}

#[test]
fn the_encoding_is_frozen_and_does_not_depend_on_the_stripe() {
    let fake = fake(&[100, 9_000, 70_000, 1, 512]);
    let set = set(&fake, 140_000, 2);
    let parity = parity_of(&fake, &set);
    let digests: Vec<String> = parity
        .values()
        .map(|bytes| Digest::of(bytes).hex())
        .collect();
    assert_eq!(
        digests,
        [
            "8cad80fd92fbaf80520a404438f6b06023bf11047c899679dbcb64ace1057e77",
            "f72b9e51e3833f78e5e9faf790658f57a805ddef9a2fc9fe41808b0fa6a23822",
        ]
    );
    // In pieces of a block each: as a machine with less memory would.
    let layout = set.layout(&fake.index);
    let lost = BTreeSet::new();
    let mut memory = Memory { fake: &fake, lost };
    let mut in_blocks: BTreeMap<usize, Vec<u8>> = BTreeMap::new();
    for at in (0..layout.bytes()).step_by(512) {
        let mut shards = Vec::new();
        for part in 0..set.parts() {
            let mut block = vec![0; 512];
            read_part(&layout, &fake.index, part, at, &mut block, &mut memory).unwrap();
            shards.push(block);
        }
        let made = reed_solomon_simd::encode(set.parts(), set.of(), &shards).unwrap();
        for (number, bytes) in made.into_iter().enumerate() {
            in_blocks.entry(number + 1).or_default().extend(bytes);
        }
    }
    assert!(in_blocks == parity, "it depends on the stripe");
}

#[test]
fn two_parts_that_are_damaged_in_different_places_take_one_parity_part() {
    let fake = fake(&[0, 0, 0, 0]);
    let set = set(&fake, 140_000, 1);
    assert_eq!(set.cut(), [2, 2]);
    let parity = parity_of(&fake, &set);
    let made = again(&fake, &set, &BTreeSet::from([0, 3]), parity.clone()).unwrap();
    assert_eq!(made.len(), 2);
    assert_eq!(
        again(&fake, &set, &BTreeSet::from([0, 2]), parity).unwrap_err(),
        "1 more parts or parity parts are needed"
    );
}

#[test]
fn what_nobody_needs_is_not_made_and_does_not_stand_in_the_way_elsewhere() {
    let fake = fake(&[0, 0, 0, 0]);
    let set = set(&fake, 140_000, 1);
    let layout = set.layout(&fake.index);
    let standing = |place| match place {
        0 => BlobPresence::Missing,
        3 => BlobPresence::Unwanted,
        _ => BlobPresence::Here,
    };
    assert_eq!(plan(&layout, &standing, 1).unwrap().blobs(), 1);
    let beside = |place| match place {
        0 => BlobPresence::Missing,
        2 => BlobPresence::Unwanted,
        _ => BlobPresence::Here,
    };
    assert_eq!(plan(&layout, &beside, 1), Err(Shortage { more: 1 }));
}

#[test]
fn parity_that_lies_makes_other_bytes_and_never_a_blob() {
    let fake = fake(&[100, 9_000, 70_000]);
    let set = set(&fake, 140_000, 1);
    let mut parity = parity_of(&fake, &set);
    parity.get_mut(&1).unwrap()[4_000] ^= 1;
    let problem = again(&fake, &set, &BTreeSet::from([1]), parity).unwrap_err();
    assert!(problem.contains("cannot be written"), "{problem}");
}

#[test]
fn a_stripe_fits_whatever_counts_a_parity_part_states() {
    let fake = fake(&[0, 0]);
    let small = set(&fake, 140_000, 1);
    assert_eq!(stripe_bytes(&small) % 512, 0);
    assert!(stripe_bytes(&small) * 8 <= MAX_WORK_BYTES);
    assert!(MIN_STRIPE * (1_000usize + 64).next_power_of_two() * 2 <= MAX_WORK_BYTES);
}
