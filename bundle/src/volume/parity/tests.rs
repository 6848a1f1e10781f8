//! Tests of parity parts as files: written the same every time, and each attack on one is refused by name.
use super::*;
use crate::fake::{FakeBundle, MemoryBlobs};
use crate::index::IndexBytes;
use crate::read::{BundleReader, ReadError};
use crate::volume::tests::{fake, part};
use crate::{Digest, Limits, Volume, write_parity};

/// Two blobs in each part, one in the last.
fn cut(fake: &FakeBundle) -> Vec<Volume> {
    Volume::plan(0, &fake.index, 2 * 70_656 + 18_432).unwrap()
}

fn sound(fake: &FakeBundle) -> Parity {
    Parity::of_cut(&cut(fake)[0], 2).remove(1)
}

fn file(fake: &FakeBundle, parity: &Parity) -> Vec<u8> {
    let bytes = usize::try_from(parity.layout(&fake.index).bytes()).unwrap();
    write_parity(
        Vec::new(),
        &fake.metadata,
        &IndexBytes::new(fake.index.to_bytes(), None),
        &fake.index,
        parity,
        &mut |out| out.write_all(&vec![7; bytes]),
    )
    .unwrap()
}

fn read(fake: &FakeBundle, bytes: &[u8]) -> Result<(Option<Parity>, Vec<u8>), ReadError> {
    let mut reader = BundleReader::new(bytes, Limits::default());
    reader.read_metadata()?;
    let (index, _) = reader.read_index(&fake.expected_index())?;
    let parity = reader.read_parity(&index)?;
    let mut out = Vec::new();
    reader.read_parity_bytes(&index, &mut out)?;
    Ok((parity, out))
}

/// What is wrong with a `parity.json`.
fn problem(fake: &FakeBundle, parity: &Parity) -> String {
    Parity::from_bytes(&parity.to_bytes(), &fake.index).unwrap_err()
}

#[test]
fn a_parity_part_is_read_as_it_was_written_and_its_size_is_known_before() {
    let fake = fake();
    let parity = sound(&fake);
    let bytes = file(&fake, &parity);
    assert_eq!(bytes, file(&fake, &parity));
    let whole = fake.to_bytes().unwrap().len() as u64;
    let blobs: u64 = fake.index.blobs.iter().map(|b| member_bytes(b.size)).sum();
    let fixed = whole - blobs - 1024;
    assert_eq!(parity.bytes(fixed, &fake.index), bytes.len() as u64);
    let (found, out) = read(&fake, &bytes).unwrap();
    assert_eq!(found, Some(parity.clone()));
    assert_eq!(out.len() as u64, parity.layout(&fake.index).bytes());
    assert_eq!(out.len(), 2 * 70_144);
    // A part and a whole bundle are none.
    for other in [part(&fake, &cut(&fake)[0]), fake.to_bytes().unwrap()] {
        assert!(matches!(read(&fake, &other), Err(ReadError::OutOfTurn)));
    }
}

#[test]
fn a_parity_part_is_not_taken_for_a_bundle_by_who_does_not_ask() {
    let fake = fake();
    let bytes = file(&fake, &sound(&fake));
    for asks in [false, true] {
        let mut reader = BundleReader::new(bytes.as_slice(), Limits::default());
        reader.read_metadata().unwrap();
        let (index, _) = reader.read_index(&fake.expected_index()).unwrap();
        if asks {
            assert_eq!(reader.read_volume(&index).unwrap(), None);
            assert!(reader.read_parity(&index).unwrap().is_some());
        }
        let mut store = MemoryBlobs::default();
        let error = reader.read_blobs(&index, &mut store).unwrap_err();
        assert_eq!(error.rule(), "parity", "{error}");
        assert!(error.to_string().contains("parity part 2 of 2"), "{error}");
    }
}

#[test]
fn a_damaged_or_cut_parity_part_is_refused_wherever_a_byte_differs() {
    let fake = fake();
    let bytes = file(&fake, &sound(&fake));
    let from = bytes.windows(11).position(|w| w == b"parity.json").unwrap();
    for at in (from..bytes.len()).step_by(997) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        assert!(read(&fake, &damaged).is_err(), "byte {at}");
        assert!(read(&fake, &bytes[..at]).is_err(), "cut at {at}");
    }
    let mut damaged = bytes.clone();
    let last = damaged.len() - 5_000;
    damaged[last] ^= 1;
    assert_eq!(read(&fake, &damaged).unwrap_err().rule(), "digest");
    let short = &bytes[..bytes.len() - 5_000];
    assert_eq!(read(&fake, short).unwrap_err().rule(), "truncated");
    let longer = [bytes.as_slice(), b"more"].concat();
    assert_eq!(read(&fake, &longer).unwrap_err().rule(), "extended");
}

#[test]
fn a_parity_part_of_another_cut_or_with_more_parts_than_the_limits_is_refused() {
    let fake = fake();
    let sound = sound(&fake);
    for (part, of, blobs) in [
        (0, 2, vec![2, 2, 1]),
        (3, 2, vec![2, 2, 1]),
        (1, MAX_PARITY_PARTS + 1, vec![2, 2, 1]),
        (1, usize::MAX, vec![2, 2, 1]),
        (1, 2, vec![2, 2]),
        (1, 2, vec![2, 2, 1, 0]),
        (1, 2, vec![usize::MAX, 6]),
        (1, 2, vec![]),
    ] {
        let forged = Parity {
            part,
            of,
            blobs,
            ..sound.clone()
        };
        assert!(!problem(&fake, &forged).is_empty());
    }
    let other = Parity {
        format: "outhaul.dev/parity/v2".to_owned(),
        ..sound.clone()
    };
    assert!(problem(&fake, &other).contains("format"));
    let mut spaced = sound.to_bytes();
    spaced.insert(0, b' ');
    assert!(Parity::from_bytes(&spaced, &fake.index).is_err());
    let large = vec![b' '; 20_000];
    assert!(Parity::from_bytes(&large, &fake.index).is_err());
    let bytes = format!(
        "{}\n",
        r#"{"format":"outhaul.dev/parity/v1","part":1,"of":1,"blobs":[5],"x":1}"#
    );
    assert!(Parity::from_bytes(bytes.as_bytes(), &fake.index).is_err());
}

#[test]
fn a_cut_that_would_make_rebuilding_dear_is_refused() {
    let fake = fake();
    let sound = sound(&fake);
    // The first part of one blob could have held the second's.
    let dear = Parity {
        blobs: vec![1, 2, 2],
        ..sound.clone()
    };
    assert!(problem(&fake, &dear).contains("could hold"));
    let dear = Parity {
        blobs: vec![3, 1, 1],
        ..sound
    };
    assert!(problem(&fake, &dear).contains("could hold"));
}

#[test]
fn a_parity_part_that_lies_about_its_size_is_refused_before_it_is_read() {
    let fake = fake();
    let sound = sound(&fake);
    let other = Parity {
        blobs: vec![1, 1, 1, 1, 1],
        ..sound.clone()
    };
    // The header of one cut, the parity of another.
    let (mut bytes, short) = (file(&fake, &sound), file(&fake, &other));
    let at = |bytes: &[u8]| bytes.windows(11).position(|w| w == b"parity.json").unwrap();
    let tail = short[at(&short) + 1024..].to_vec();
    bytes.truncate(at(&bytes) + 1024);
    bytes.extend(tail);
    assert_eq!(read(&fake, &bytes).unwrap_err().rule(), "size");
}

#[test]
fn a_parity_part_of_another_bundle_says_so_by_its_index() {
    let fake = fake();
    let other = FakeBundle::new(2, &[("a", &vec![1; 70_000])]).unwrap();
    let parity = Parity::of_cut(&Volume::plan(0, &other.index, u64::MAX).unwrap()[0], 1).remove(0);
    let bytes = file(&other, &parity);
    let rule = read(&fake, &bytes).unwrap_err().rule();
    assert!(["size", "digest"].contains(&rule), "{rule}");
    assert_ne!(
        Digest::of(&fake.index.to_bytes()),
        Digest::of(&other.index.to_bytes())
    );
}

#[test]
fn a_writer_that_makes_too_much_or_too_little_is_not_taken() {
    let fake = fake();
    let parity = sound(&fake);
    for count in [0, 5, 3 * 70_144] {
        let done = write_parity(
            Vec::new(),
            &fake.metadata,
            &IndexBytes::new(fake.index.to_bytes(), None),
            &fake.index,
            &parity,
            &mut |out| out.write_all(&vec![7; count]),
        );
        assert!(done.is_err());
    }
}
