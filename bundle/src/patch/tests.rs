//! Tests of `patch`: what is made is what the index states, and each attack on a patch is refused by name.
use std::io::Cursor;

use super::*;
use crate::blob::Content;
use crate::fake::FakeBundle;
use crate::index::Encoding;

/// Blobs by digest, as their contents.
#[derive(Default)]
struct Memory(Vec<(Digest, Vec<u8>)>);

impl PatchSources for Memory {
    fn read(&mut self, source: &Source, offset: u64, buffer: &mut [u8]) -> Result<(), PatchError> {
        let base = || PatchError::Base {
            blob: source.blob,
            problem: "which is not here".to_owned(),
        };
        let found = self.0.iter().find(|(blob, _)| *blob == source.blob);
        let bytes = &found.ok_or_else(base)?.1;
        let from = usize::try_from(offset).unwrap();
        let end = from.checked_add(buffer.len()).ok_or_else(base)?;
        buffer.copy_from_slice(bytes.get(from..end).ok_or_else(base)?);
        Ok(())
    }
}

fn source(name: &[u8]) -> Source {
    Source {
        blob: Digest::of(name),
        view: View::Contents,
    }
}

fn blob(contents: &[&[u8]]) -> Blob {
    let of = |bytes: &&[u8]| Content {
        digest: Digest::of(bytes),
        size: bytes.len() as u64,
    };
    Blob {
        digest: Digest::of(b"as it would have been carried"),
        size: 1_000,
        encoding: Encoding::Pack,
        contents: contents.iter().map(of).collect(),
        sealed: None,
    }
}

fn maker() -> Maker<Cursor<Vec<u8>>> {
    Maker::new(vec![source(b"old")], Cursor::new(Vec::new()))
}

fn finish(maker: Maker<Cursor<Vec<u8>>>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let size = maker.finish(&mut bytes).unwrap();
    assert_eq!(size, Some(bytes.len() as u64));
    bytes
}

fn region(offset: u64, length: u64) -> Region {
    Region {
        source: 0,
        offset,
        length,
    }
}

fn apply(patch: &[u8], blob: &Blob, old: &[u8]) -> Result<Vec<u8>, PatchError> {
    let mut sources = Memory(vec![(Digest::of(b"old"), old.to_vec())]);
    let mut input = patch;
    let mut out = Vec::new();
    let read = Patch::read(&mut input, patch.len() as u64)?;
    read.apply(blob, &mut input, &mut sources, &mut out)?;
    Ok(out)
}

/// 100,000 bytes that do not compress.
fn old() -> Vec<u8> {
    let next = |state: &mut u32| {
        *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        Some(state.to_be_bytes()[0])
    };
    std::iter::repeat(())
        .scan(7, |state, ()| next(state))
        .take(100_000)
        .collect()
}

/// `old` with a line in its middle, as two contents, and a patch that makes it.
fn sound() -> (Blob, Vec<u8>, Vec<u8>) {
    let old = old();
    let mut new = old.clone();
    new.splice(50_000..50_010, b"replicas: 3\n".iter().copied());
    let mut maker = maker();
    maker.copy(region(0, 30_000));
    maker.copy(region(30_000, 10_000));
    maker
        .keep_aside(
            &new[45_000..60_000],
            &[region(45_000, 15_000)],
            &old[45_000..60_000],
        )
        .unwrap();
    maker
        .patch(
            &new[40_000..45_000],
            &[region(40_000, 5_000)],
            &old[40_000..45_000],
        )
        .unwrap();
    let aside = maker.aside();
    maker.copy(Region {
        source: aside,
        offset: 0,
        length: 15_000,
    });
    maker.copy(region(59_998, 40_002));
    let blob = blob(&[&new[..20_000], b"", &new[20_000..], b""]);
    (blob, finish(maker), new)
}

#[test]
fn a_patch_makes_what_the_index_states_and_is_small() {
    let (blob, patch, new) = sound();
    assert_eq!(apply(&patch, &blob, &old()).unwrap(), new);
    assert!(patch.len() < 300, "{} bytes", patch.len());
    assert_eq!(patch, sound().1, "the same bytes on every call");
    // Nothing of it may be missing, and nothing may follow.
    for length in 0..patch.len() {
        let error = apply(&patch[..length], &blob, &old()).unwrap_err();
        assert_eq!(error.rule(), "patch", "{length}: {error}");
    }
    let longer = [patch.as_slice(), b"x"].concat();
    assert_eq!(apply(&longer, &blob, &old()).unwrap_err().rule(), "patch");
}

#[test]
fn a_patch_applied_to_another_base_is_refused() {
    let (blob, patch, _) = sound();
    let mut other = old();
    for at in [10, 42_000, 99_000] {
        other[at] ^= 1;
        let error = apply(&patch, &blob, &other).unwrap_err();
        assert_eq!(error.rule(), "patch", "{error}");
        other[at] ^= 1;
    }
    let error = apply(&patch, &blob, &other[..70_000]).unwrap_err();
    assert_eq!(error.rule(), "patch-base", "{error}");
    let mut input = patch.as_slice();
    let read = Patch::read(&mut input, patch.len() as u64).unwrap();
    let none = &mut Memory::default();
    let error = read
        .apply(&blob, &mut input, none, &mut Vec::new())
        .unwrap_err();
    assert_eq!(error.rule(), "patch-base");
    assert!(error.to_string().contains("which is not here"), "{error}");
}

#[test]
fn a_patch_that_makes_other_bytes_is_refused() {
    let (_, patch, mut new) = sound();
    new[70_000] ^= 1;
    let other = blob(&[&new]);
    assert!(matches!(
        apply(&patch, &other, &old()),
        Err(PatchError::Digest { .. })
    ));
    // Two contents exchanged.
    let (blob, _, new) = sound();
    let mut maker = maker();
    maker.patch(&new[20_000..], &[], &[]).unwrap();
    maker.patch(&new[..20_000], &[], &[]).unwrap();
    assert!(matches!(
        apply(&finish(maker), &blob, &old()),
        Err(PatchError::Digest { .. })
    ));
}

#[test]
fn a_patch_that_yields_more_than_the_index_states_is_stopped() {
    let zeros = vec![0; 1 << 20];
    let small = blob(&[&zeros[..1_000]]);
    // It says so of itself: nothing is decompressed.
    let mut maker = maker();
    maker.patch(&zeros, &[], &[]).unwrap();
    let error = apply(&finish(maker), &small, &old()).unwrap_err();
    assert!(
        matches!(
            error,
            PatchError::Size {
                expected: 1_000,
                ..
            }
        ),
        "{error}"
    );
    // It lies about itself: what the frame is given is as large as the piece states.
    let frame = zstd::encode_all(zeros.as_slice(), 3).unwrap();
    let bytes = forged(
        &[
            &[1],
            &[0xe8, 0x07],
            &[u8::try_from(frame.len()).unwrap()],
            &[0],
        ],
        &frame,
    );
    assert!(matches!(
        apply(&bytes, &small, &old()),
        Err(PatchError::Piece)
    ));
    // More than memory is meant for.
    let huge = [&[1][..], &[0x81, 0x80, 0x80, 0x08], &[9], &[0]];
    assert_eq!(
        apply(&forged(&huge, &[0; 9]), &small, &old())
            .unwrap_err()
            .rule(),
        "patch"
    );
    // Work without end for a few bytes: 64 MiB of prefix, twice, for one byte that is kept aside.
    let aside = [&[2][..], &[1], &[1], &[1], &[0, 0, 0x80, 0x80, 0x80, 0x20]].concat();
    let copy = [&[0][..], &[0xe8, 0x07], &[1], &[0, 0, 0xe8, 0x07]].concat();
    let error = apply(&forged(&[&aside, &aside, &copy], &[0; 2]), &small, &old()).unwrap_err();
    assert!(error.to_string().contains("more work"), "{error}");
}

/// A patch with one source and these pieces.
fn forged(pieces: &[&[u8]], frames: &[u8]) -> Vec<u8> {
    let mut head = vec![1, 0];
    head.extend_from_slice(Digest::of(b"old").as_bytes());
    for piece in pieces {
        head.extend_from_slice(piece);
    }
    let carried = zstd::encode_all(head.as_slice(), 3).unwrap();
    let size = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap().to_le_bytes();
    [
        &MAGIC[..],
        &[0; 32],
        &size(&carried),
        &size(&head),
        &carried,
        frames,
    ]
    .concat()
}

#[test]
fn a_patch_that_contradicts_itself_is_refused() {
    let blob = blob(&[b"abc"]);
    for (name, piece) in [
        ("a kind that is not known", &[4, 3, 0][..]),
        ("a piece without bytes", &[0, 0, 0]),
        ("a copy of other length", &[0, 3, 1, 0, 0, 2]),
        ("a source that is not there", &[0, 3, 1, 5, 0, 3]),
        ("what was never kept aside", &[0, 3, 1, 1, 0, 3]),
        ("a frame of what is kept aside", &[1, 3, 9, 1, 1, 0, 3]),
        ("a region without bytes", &[0, 3, 2, 0, 0, 3, 0, 0, 0]),
        ("a head that ends in a piece", &[0, 3, 1, 0]),
        ("a frame larger than what it makes", &[1, 3, 0x80, 0x7f, 0]),
    ] {
        let error = apply(&forged(&[piece], &[]), &blob, &old()).unwrap_err();
        assert_eq!(error.rule(), "patch", "{name}: {error}");
    }
    let twice = zstd::encode_all(&[2, 0][..], 3).unwrap();
    let bytes = [
        &MAGIC[..],
        &[0; 32],
        &[11, 0, 0, 0, 0xff, 0xff, 0xff, 0x7f],
        &twice,
    ]
    .concat();
    assert_eq!(apply(&bytes, &blob, &old()).unwrap_err().rule(), "patch");
    let mut other = sound().1;
    other[0] ^= 1;
    assert_eq!(apply(&other, &blob, &old()).unwrap_err().rule(), "patch");
}

#[test]
fn what_a_patch_says_of_gzip_is_bounded_before_anything_is_done_by_it() {
    let blob = blob(&[b"abc"]);
    // Behind what they correct; of nothing; with a region; more of them than are taken.
    let late = [&[1, 3, 9, 0][..], &[3, 3, 9, 0]].concat();
    let with_region = [3, 3, 9, 1, 0, 0, 3];
    let many = [3, 0x80, 0x80, 0x80, 0x04, 9, 0].repeat(5);
    let text = [0, 0x80, 0x80, 0x80, 0x40, 1, 0, 0, 0x80, 0x80, 0x80, 0x40];
    let too_much = [&[3, 3, 9, 0][..], &text].concat();
    for (piece, why) in [
        (late.as_slice(), "do not come first"),
        (&with_region, "not within the limits"),
        (&many, "too many corrections"),
        (&too_much, "the signed index states 3"),
    ] {
        let error = apply(&forged(&[piece], &[0; 18]), &blob, &old()).unwrap_err();
        assert_eq!(error.rule(), "patch");
        assert!(error.to_string().contains(why), "{why}: {error}");
    }
    // Gibberish as corrections.
    let mut maker = maker();
    maker.correct(b"these are none").unwrap();
    maker.copy(region(0, 1000));
    let error = apply(&finish(maker), &blob, &old()).unwrap_err();
    assert!(matches!(error, PatchError::Gzip(_)), "{error}");
    // A source of 1 GiB, for three bytes.
    let source = Source {
        blob: Digest::of(b"old"),
        view: View::Inflated(1 << 30),
    };
    let mut maker = Maker::new(vec![source], Cursor::new(Vec::new()));
    maker.patch(b"abc", &[], &[]).unwrap();
    let error = apply(&finish(maker), &blob, &old()).unwrap_err();
    assert!(error.to_string().contains("more work"), "{error}");
}

#[test]
fn a_sealed_blob_is_made_by_no_patch() {
    let (mut blob, patch, _) = sound();
    blob.sealed = Some(crate::seal::Sealed {
        recipients: std::collections::BTreeMap::new(),
        size: 1,
    });
    assert_eq!(apply(&patch, &blob, &old()).unwrap_err().rule(), "patch");
}

#[test]
fn a_damaged_patch_is_seen_before_it_is_looked_into() {
    let (_, patch, _) = sound();
    let check = |bytes: &[u8]| {
        let mut check = SelfCheck::default();
        for chunk in bytes.chunks(7) {
            check.update(chunk);
        }
        check.differing()
    };
    assert_eq!(check(&patch), None);
    for at in [20, 50, patch.len() - 1] {
        let mut damaged = patch.clone();
        damaged[at] ^= 1;
        assert!(check(&damaged).is_some(), "{at}");
    }
    assert!(check(&[]).is_some());
}

#[test]
fn whole_contents_are_made_of_nothing_but_a_patch() {
    let fake = FakeBundle::new(1, &[("a.yaml", b"alpha"), ("b.yaml", b"beta")]).unwrap();
    let mut maker = maker();
    maker.patch(b"alphabeta", &[], &[]).unwrap();
    let made = apply(&finish(maker), &fake.index.blobs[0], &old()).unwrap();
    assert_eq!(made, b"alphabeta");
}

/// A layer as it would have been carried, its archive, and the patch that makes that of `old`.
fn twin() -> (Blob, Vec<u8>, Vec<u8>) {
    let old = old();
    let new = [&old[..60_000], b"a new line", &old[60_000..]].concat();
    let layer = Blob {
        encoding: Encoding::Identity,
        ..blob(&[b"the layer in some compression"])
    };
    let mut maker = maker();
    maker.make_twin(content(&new));
    maker.copy(region(0, 60_000));
    maker.patch(b"a new line", &[], &[]).unwrap();
    maker.copy(region(60_000, 40_000));
    (layer, finish(maker), new)
}

fn content(bytes: &[u8]) -> Content {
    Content {
        digest: Digest::of(bytes),
        size: bytes.len() as u64,
    }
}

#[test]
fn the_patch_of_a_twin_makes_the_archive_and_never_passes_for_the_layer() {
    let (layer, patch, new) = twin();
    let read = Patch::read(&mut patch.as_slice(), patch.len() as u64).unwrap();
    let text = read.twin(&layer).unwrap().unwrap();
    assert_eq!(text.contents, [content(&new)]);
    assert_eq!(apply(&patch, &text, &old()).unwrap(), new);
    let error = apply(&patch, &layer, &old()).unwrap_err();
    assert!(error.to_string().contains("and not the layer"), "{error}");
    for length in 0..patch.len() {
        let error = apply(&patch[..length], &text, &old()).unwrap_err();
        assert_eq!(error.rule(), "patch", "{length}: {error}");
    }
    // Any other patch is of no twin.
    let sound = sound().1;
    let read = Patch::read(&mut sound.as_slice(), sound.len() as u64).unwrap();
    assert_eq!(read.twin(&layer).unwrap(), None);
}

#[test]
fn a_twin_that_its_layer_cannot_hold_is_refused_before_anything_is_made() {
    let (layer, ..) = twin();
    let mut maker = maker();
    let size = layer.size * MAX_TEXT + MAX_PREFIX_BYTES + 1;
    maker.make_twin(Content {
        size,
        ..content(b"")
    });
    maker.copy(region(0, size));
    let patch = finish(maker);
    let read = Patch::read(&mut patch.as_slice(), patch.len() as u64).unwrap();
    let error = read.twin(&layer).unwrap_err();
    assert!(error.to_string().contains("cannot hold"), "{error}");
    // Nor is a pack one layer.
    let (_, patch, _) = twin();
    let read = Patch::read(&mut patch.as_slice(), patch.len() as u64).unwrap();
    assert!(read.twin(&blob(&[b"a"])).is_err());
}

#[test]
fn a_twin_of_other_bytes_than_it_states_is_refused() {
    let (layer, patch, _) = twin();
    let read = Patch::read(&mut patch.as_slice(), patch.len() as u64).unwrap();
    let text = read.twin(&layer).unwrap().unwrap();
    let mut other = old();
    other[100] ^= 1;
    let error = apply(&patch, &text, &other).unwrap_err();
    assert!(matches!(error, PatchError::Digest { .. }), "{error}");
}
