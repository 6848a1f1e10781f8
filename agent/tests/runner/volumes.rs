//! A bundle in parts, over several sticks and visits: verified one by one, applied when all are here; and one test for
//! each attack on a part.
//!
//! What comes in: the real program, a real fleet's bundles, and parts as `outhaul copy` writes them. What must come out:
//! the bundle, or a refusal that names the part and leaves all else as it was.

use std::fs;
use std::path::{Path, PathBuf};

use outhaul_bundle::Volume;
use outhaul_test_kit::{Centre, Draft, Load, noise};

use super::site::{Site, assert_reports, code, stderr, stdout, tree};

/// An assignment with `count` payloads, each of which is a separate blob.
pub fn draft(count: usize) -> Draft {
    let load = Load::new("hello").file("manifest.yaml", "greeting: hi\n");
    Draft::new([(0..count).fold(load, |load, at| {
        let bytes = noise(100_000 + at);
        load.payload(&format!("image{at}.tar.gz"), bytes)
    })])
}

/// The parts of a published bundle, with a hundred thousand bytes or so each.
pub fn parts(centre: &Centre, draft: &Draft, number: u64) -> Vec<PathBuf> {
    let whole = centre.publish_as(draft, number);
    let (index, mut blobs) = centre.index(draft, number);
    let fixed = fs::metadata(&whole).unwrap().len()
        - index
            .blobs
            .iter()
            .map(|blob| 512 + blob.size.div_ceil(512) * 512)
            .sum::<u64>()
        - 1024;
    let volumes = Volume::plan(fixed, &index, fixed + 120_000 + 16 * 1024 + 2048).unwrap();
    volumes
        .iter()
        .map(|volume| {
            let (part, of) = (volume.part(), volume.parts());
            let name = format!("drone-{number}.part{part}of{of}.outhaul");
            centre.part(&index, volume, &mut blobs, &name)
        })
        .collect()
}

/// What the store of blobs holds.
pub fn blobs(site: &Site) -> usize {
    tree(&site.state().join("blobs")).len()
}

/// A file whose byte at `from_end` before its end differs.
fn changed(path: &Path, from_end: usize) -> PathBuf {
    let mut bytes = fs::read(path).unwrap();
    let at = bytes.len() - from_end;
    bytes[at] ^= 1;
    let changed = path.with_extension("changed.outhaul");
    fs::write(&changed, bytes).unwrap();
    changed
}

#[test]
fn parts_on_several_sticks_in_any_order_become_the_bundle_and_what_is_missing_is_named() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let parts = parts(&centre, &draft(3), 1);
    let [first, second, third] = parts.as_slice() else {
        panic!("{parts:?}");
    };
    let taken = site.import(third);
    assert_eq!(code(&taken), 1, "{}", stderr(&taken));
    let printed = stdout(&taken);
    assert!(
        printed.contains("bundle 1 is not complete: 1 of 3 parts are here, parts 1, 2 are missing"),
        "{printed}"
    );
    assert!(
        stderr(&taken).contains("help: import the parts that are missing"),
        "{}",
        stderr(&taken)
    );
    assert!(site.applied().is_empty());
    let status = site.status();
    assert_eq!(
        status["incomplete"]["missing"],
        serde_json::json!([1, 2]),
        "{status}"
    );
    assert_eq!(status["active"], serde_json::Value::Null);
    let printed = stdout(&site.run(&["status"]));
    assert!(
        printed.contains("imports the missing parts of bundle 1 (part 1, 2 of 3)"),
        "{printed}"
    );
    // The centre learns what is missing, once.
    let reported = site.refusals("incomplete");
    assert_eq!(reported.len(), 1, "{reported:?}");
    assert!(
        reported[0].contains("parts 1, 2 are missing"),
        "{reported:?}"
    );
    assert_eq!(code(&site.import(third)), 1);
    assert_eq!(site.refusals("incomplete"), reported);
    // A part twice is named, and changes nothing.
    let before = tree(&site.state().join("blobs"));
    let again = site.import(third);
    assert_eq!(code(&again), 1);
    assert!(
        stdout(&again).contains("part 3 was here already; bundle 1 is not complete"),
        "{}",
        stdout(&again)
    );
    assert_eq!(tree(&site.state().join("blobs")), before);
    // A part alone cannot be planned.
    assert_reports(
        &site.run(&["plan", first.to_str().unwrap()]),
        2,
        &["is part 1 of 3", "help:"],
    );
    // The other two on one stick.
    let stick = tempfile::tempdir().unwrap();
    for part in [first, second] {
        fs::copy(part, stick.path().join(part.file_name().unwrap())).unwrap();
    }
    site.take(stick.path());
    assert_eq!(site.applied().len(), 4);
    let status = site.status();
    assert_eq!(status["incomplete"], serde_json::Value::Null, "{status}");
    // And nothing of it is collected again.
    let known = site.import(first);
    assert_eq!(code(&known), 0);
    assert!(
        stdout(&known).contains("already active"),
        "{}",
        stdout(&known)
    );
}

#[test]
fn a_damaged_part_is_refused_and_leaves_what_is_here() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let parts = parts(&centre, &draft(3), 1);
    site.import(&parts[0]);
    let before = (blobs(&site), site.status()["incomplete"].clone());
    assert_reports(
        &site.import(&changed(&parts[1], 4_096)),
        4,
        &["part2of3", "expected digest"],
    );
    assert_eq!((blobs(&site), site.status()["incomplete"].clone()), before);
    let mut short = fs::read(&parts[1]).unwrap();
    short.truncate(short.len() - 50_000);
    let cut_off = parts[1].with_extension("short.outhaul");
    fs::write(&cut_off, short).unwrap();
    assert_reports(&site.import(&cut_off), 4, &["the file is incomplete"]);
    assert_eq!((blobs(&site), site.status()["incomplete"].clone()), before);
    // The next ones go on.
    site.import(&parts[1]);
    site.take(&parts[2]);
}

#[test]
fn a_part_that_says_that_it_is_another_one_is_refused() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let parts = parts(&centre, &draft(3), 1);
    site.import(&parts[0]);
    let before = (blobs(&site), site.status()["incomplete"].clone());
    let bytes = fs::read(&parts[1]).unwrap();
    let find = b"\"part\":2";
    let at = bytes
        .windows(find.len())
        .position(|window| window == find)
        .unwrap();
    let mut forged = bytes.clone();
    forged[at + find.len() - 1] = b'3';
    let path = parts[1].with_extension("forged.outhaul");
    fs::write(&path, forged).unwrap();
    assert_reports(&site.import(&path), 4, &["forged", "is refused"]);
    // A part that there is not.
    let mut forged = bytes;
    forged[at + find.len() - 1] = b'9';
    fs::write(&path, forged).unwrap();
    assert_reports(
        &site.import(&path),
        4,
        &["there is no part 9 of 3", "is refused"],
    );
    assert_eq!((blobs(&site), site.status()["incomplete"].clone()), before);
}

#[test]
fn a_part_of_another_bundle_takes_the_place_of_those_that_were_here_and_says_so() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let first = parts(&centre, &draft(2), 1);
    let second = parts(&centre, &draft(3), 2);
    site.import(&second[0]);
    // A part of a newer bundle whose other parts never come locks nobody out.
    let printed = stdout(&site.import(&first[0]));
    assert!(
        printed.contains("bundle 1 is not complete: 1 of 2"),
        "{printed}"
    );
    assert!(
        printed.contains("the parts of bundle 2 that were here were given up"),
        "{printed}"
    );
    // Of a stick with both the newer one is taken.
    let stick = tempfile::tempdir().unwrap();
    for part in [&first[1], &second[1]] {
        fs::copy(part, stick.path().join(part.file_name().unwrap())).unwrap();
    }
    let printed = stdout(&site.import(stick.path()));
    assert!(printed.contains("bundle 2 is not complete"), "{printed}");
    assert!(
        printed.contains("the parts of bundle 1 that were here were given up"),
        "{printed}"
    );
    let third = parts(&centre, &draft(4), 3);
    let printed = site.import(&third[3]);
    assert!(
        stdout(&printed).contains("bundle 3 is not complete: 3 of 4"),
        "{}",
        stdout(&printed)
    );
    // What both have in common need not be brought again.
    assert_eq!(site.status()["incomplete"]["number"], 3);
    // A whole bundle that is newer takes its place, too.
    let whole = centre.publish(&Draft::hello("hi"));
    site.take(&whole);
    assert_eq!(site.status()["incomplete"], serde_json::Value::Null);
}

#[test]
fn a_part_of_another_stream_or_fleet_is_refused_as_a_bundle_of_it_is() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let other = parts(&centre, &draft(2).cluster_type("press"), 1);
    assert_reports(&site.import(&other[0]), 4, &["this stick is for dev/press"]);
    let stranger = Centre::new();
    let forged = parts(&stranger, &draft(2), 1);
    assert_eq!(code(&site.import(&forged[0])), 4);
    assert_eq!(blobs(&site), 0);
    assert_eq!(site.status()["incomplete"], serde_json::Value::Null);
}
