//! Tests of patches: what is made is what there was to make, and a change costs what changed.
use std::io::Cursor;

use outhaul_bundle::Digest;
use outhaul_bundle::index::{Blob, Content, Encoding};
use outhaul_bundle::patch::{Patch, PatchError, PatchSources, View};

use super::*;

struct Sources<'a>(&'a [Old]);

impl PatchSources for Sources<'_> {
    fn read(&mut self, source: &Source, offset: u64, buffer: &mut [u8]) -> Result<(), PatchError> {
        let old = self.0.iter().find(|old| old.source == *source).unwrap();
        let bytes = old.bytes.read(offset, buffer.len() as u64);
        buffer.copy_from_slice(&bytes.map_err(PatchError::Read)?);
        Ok(())
    }
}

fn plain(bytes: &[u8]) -> Plain {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    Plain::new(file).unwrap()
}

fn old(bytes: &[u8]) -> Old {
    let source = Source {
        blob: Digest::of(bytes),
        view: View::Contents,
    };
    Old {
        source,
        bytes: plain(bytes),
    }
}

/// Makes a patch, applies it, and gives back its size and how it was made.
fn made(new: &[u8], olds: &[Old]) -> Option<(u64, Method)> {
    let mut bytes = Vec::new();
    let made = patch(New::Plain(&plain(new)), olds, new.len() as u64, &mut bytes).unwrap()?;
    assert_eq!(made.0, bytes.len() as u64);
    let blob = Blob {
        digest: Digest::of(new),
        size: new.len() as u64,
        encoding: Encoding::Identity,
        contents: vec![Content {
            digest: Digest::of(new),
            size: new.len() as u64,
        }],
        sealed: None,
    };
    let mut input = Cursor::new(&bytes);
    let read = Patch::read(&mut input, made.0).unwrap();
    let mut out = Vec::new();
    read.apply(&blob, &mut input, &mut Sources(olds), &mut out)
        .unwrap();
    assert!(out == new);
    let mut again = Vec::new();
    patch(New::Plain(&plain(new)), olds, new.len() as u64, &mut again).unwrap();
    assert!(again == bytes, "the same bytes on every call");
    Some(made)
}

/// A gzip file of `text`.
fn gzip(text: &[u8]) -> Vec<u8> {
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(6));
    writer.write_all(text).unwrap();
    writer.finish().unwrap()
}

#[test]
fn of_a_rebuilt_layer_in_gzip_travels_what_changed_and_the_same_bytes_come_out() {
    let words = |seed: u64| -> Vec<u8> {
        let letters = noise(seed, 400_000)
            .into_iter()
            .map(|byte| b'a' + byte % 20);
        letters.collect()
    };
    let layer = |seed, at_s| {
        archive(&[
            ("usr/bin/press", words(seed), at_s),
            ("usr/share/same", words(7), at_s),
        ])
    };
    let (before, after) = (layer(1, 1), layer(2, 2));
    let (carried, new) = (gzip(&before), gzip(&after));
    let source = Source {
        blob: Digest::of(&carried),
        view: View::Inflated(before.len() as u64),
    };
    let olds = [Old {
        source,
        bytes: plain(&before),
    }];
    let mut text = Vec::new();
    let limit = new.len() as u64;
    let corrections = outhaul_gzip::split(&mut || Ok(Cursor::new(&new)), &mut text, limit).unwrap();
    assert!(text == after);
    let mut bytes = Vec::new();
    let target = plain(&text);
    let made = patch(New::Gzip(&target, &corrections), &olds, limit, &mut bytes).unwrap();
    let (size, method) = made.unwrap();
    assert_eq!(method, Method::FilesInGzip);
    // One of the two files travels.
    assert!(size * 10 < limit * 8, "{size} of {limit}");
    let blob = Blob {
        digest: Digest::of(&new),
        size: limit,
        encoding: Encoding::Identity,
        contents: vec![Content {
            digest: Digest::of(&new),
            size: limit,
        }],
        sealed: None,
    };
    let mut input = Cursor::new(&bytes);
    let read = Patch::read(&mut input, size).unwrap();
    let mut out = Vec::new();
    read.apply(&blob, &mut input, &mut Sources(&olds), &mut out)
        .unwrap();
    assert!(out == new);
}

/// Bytes that do not compress.
fn noise(seed: u64, count: usize) -> Vec<u8> {
    let next = |state: &mut u64| {
        *state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        Some((*state >> 56) as u8)
    };
    std::iter::repeat(())
        .scan(seed, |state, ()| next(state))
        .take(count)
        .collect()
}

fn archive(files: &[(&str, Vec<u8>, u64)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (path, bytes, at_s) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(*at_s);
        builder
            .append_data(&mut header, path, bytes.as_slice())
            .unwrap();
    }
    builder.into_inner().unwrap()
}

#[test]
fn of_a_changed_pack_travels_what_changed() {
    let before = noise(1, 900_000);
    let mut after = before.clone();
    after.splice(400_000..400_020, b"image: press:1.2.4\n".iter().copied());
    let (bytes, method) = made(&after, &[old(&before)]).unwrap();
    assert_eq!(method, Method::Pieces);
    assert!(bytes < 300, "{bytes}");
    // What lies in other packs now is found there.
    let halves = [old(&before[..300_000]), old(&before[300_000..])];
    let (bytes, _) = made(&after, &halves).unwrap();
    assert!(bytes < 400, "{bytes}");
}

#[test]
fn a_piece_of_a_large_file_is_compared_with_where_it_was() {
    let before = noise(3, 30 << 20);
    let olds = [old(&before)];
    let mut all = Resembling::all(&olds);
    for from in [500_000, 15 << 20, 29 << 20] {
        let piece = &before[from..from + 300_000];
        let regions = all.nearest(&olds, piece, 0, 1 << 20).unwrap();
        let reaches = |at: usize| {
            let mut regions = regions.iter();
            regions.any(|one| (one.offset..one.offset + one.length).contains(&(at as u64)))
        };
        assert!(
            reaches(from) && reaches(from + 299_999),
            "{from}: {regions:?}"
        );
        let length: u64 = regions.iter().map(|one| one.length).sum();
        assert_eq!(length, resemble::PREFIX_BYTES);
    }
}

#[test]
fn of_a_rebuilt_archive_travels_what_changed_in_its_files() {
    let long = "usr/lib/".to_owned() + &"x".repeat(120) + "/y.so.1";
    let before = |at_s| {
        [
            ("etc/", Vec::new(), at_s),
            ("etc/a.conf", noise(1, 3_000), at_s),
            ("usr/lib/libpress.so.1.2.3", noise(2, 600_000), at_s),
            (long.as_str(), noise(3, 50_000), at_s),
            ("usr/share/same", noise(4, 700_000), at_s),
        ]
        .to_vec()
    };
    let first = archive(&before(1));
    // Built again: every time differs.
    let (bytes, method) = made(&archive(&before(2)), &[old(&first)]).unwrap();
    assert_eq!(method, Method::Files);
    assert!(bytes < 600, "{bytes}");
    // A library under its next version's name, a changed file, one that is gone and one that is new, in another order.
    let mut files = before(3);
    files.remove(4);
    files[2].0 = "usr/lib/libpress.so.1.2.14";
    files[2].1.splice(1_000..1_010, noise(5, 2_000));
    files[1].1[700] ^= 1;
    files.swap(1, 3);
    files.push(("opt/new", noise(6, 10_000), 3));
    let (bytes, method) = made(&archive(&files), &[old(&first)]).unwrap();
    assert_eq!(method, Method::Files);
    assert!(bytes < 14_000, "{bytes}");
    // What another layer has.
    let other = archive(&[("opt/new", noise(6, 10_000), 1)]);
    let (bytes, _) = made(&archive(&files), &[old(&first), old(&other)]).unwrap();
    assert!(bytes < 4_000, "{bytes}");
}

#[test]
fn what_only_looks_like_an_archive_is_compared_piece_by_piece() {
    let mut before = archive(&[("a", noise(1, 10_000), 1)]);
    before[124..136].copy_from_slice(b"77777777777\0");
    let mut after = before.clone();
    after[5_000] ^= 1;
    let (bytes, method) = made(&after, &[old(&before)]).unwrap();
    assert_eq!(method, Method::Pieces);
    assert!(bytes < 300, "{bytes}");
}

#[test]
fn what_is_not_smaller_is_none() {
    assert_eq!(made(&noise(1, 100_000), &[old(&noise(2, 100_000))]), None);
    assert_eq!(made(&noise(1, 100_000), &[]), None);
}

/// A layer of `files`, as an archive.
fn archive_of(files: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (path, bytes) in files {
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        archive
            .append_data(&mut header, path, bytes.as_slice())
            .unwrap();
    }
    archive.into_inner().unwrap()
}

#[test]
fn a_twin_of_a_zstd_layer_is_its_archive_again_and_costs_what_changed() {
    let large = noise(1, 400_000);
    let old = archive_of(&[("usr/lib/a", large.clone()), ("etc/b", b"old".to_vec())]);
    let new = archive_of(&[("usr/lib/a", large), ("etc/b", b"new".to_vec())]);
    let layers = [&old, &new].map(|bytes| plain(&zstd::encode_all(bytes.as_slice(), 3).unwrap()));
    let [before, after] = layers.map(|layer| twin::archive(&layer).unwrap().unwrap());
    assert_eq!(after.digest, Digest::of(&new));
    assert_eq!(before.view, View::Unpacked(old.len() as u64));
    let olds = [Old {
        source: Source {
            blob: Digest::of(b"the layer that sites have"),
            view: before.view,
        },
        bytes: before.bytes,
    }];
    let mut bytes = Vec::new();
    let wanted = New::Twin(&after.bytes, after.digest);
    let (size, method) = patch(wanted, &olds, 400_000, &mut bytes).unwrap().unwrap();
    assert_eq!(method, Method::Files);
    assert!(size < 1_000, "{size}");
    let layer = Blob {
        digest: Digest::of(b"the new layer"),
        size: 400_000,
        encoding: Encoding::Identity,
        contents: Vec::new(),
        sealed: None,
    };
    let mut input = Cursor::new(&bytes);
    let read = Patch::read(&mut input, size).unwrap();
    let text = read.twin(&layer).unwrap().unwrap();
    let mut out = Vec::new();
    read.apply(&text, &mut input, &mut Sources(&olds), &mut out)
        .unwrap();
    assert!(out == new);
}

#[test]
fn a_layer_that_is_too_much_or_in_no_known_compression_has_no_archive() {
    let zeros = plain(&zstd::encode_all(vec![0; 1 << 20].as_slice(), 19).unwrap());
    let why = twin::archive(&zeros).unwrap().unwrap_err();
    assert!(why.contains("more than 64 times"), "{why}");
    let why = twin::archive(&plain(b"BZh91AY")).unwrap().unwrap_err();
    assert!(why.contains("neither gzip nor zstd"), "{why}");
    let cut = plain(&zstd::encode_all(&b"abc"[..], 3).unwrap()[..8]);
    assert!(twin::archive(&cut).unwrap().is_err());
}
