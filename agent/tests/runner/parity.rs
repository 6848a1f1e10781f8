//! Parts that are lost or damaged, made again from parity on site; and one test for each attack on a parity part.
//!
//! What comes in: the real program, a real fleet's bundles, parts and parity parts as `outhaul copy` writes them. What must
//! come out: the bundle as it was signed, with the parts named that were made again; or a refusal, and what is here stays.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};

use outhaul_test_kit::{Centre, Draft};
use outhaul_tests::Checked as _;

use super::media::Stick;
use super::parity_set::{Published, Set, publish};
use super::site::{Site, assert_reports, code, copy, stderr, stdout, tree};
use super::volumes::draft;

/// What happens to a stick.
type Damage<'d> = &'d dyn Fn(&Path);

/// A stick with these files.
pub fn stick<'p>(files: impl IntoIterator<Item = &'p PathBuf>) -> tempfile::TempDir {
    let stick = tempfile::tempdir().unwrap();
    for file in files {
        fs::copy(file, stick.path().join(file.file_name().unwrap())).unwrap();
    }
    stick
}

/// Flips one byte of a file on a stick.
fn flip(stick: &Path, file: &Path, from_end: usize) {
    let path = stick.join(file.file_name().unwrap());
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.len() - from_end;
    bytes[at] ^= 1;
    fs::write(path, bytes).unwrap();
}

fn cut_off(stick: &Path, file: &Path, by: usize) {
    let path = stick.join(file.file_name().unwrap());
    let bytes = fs::read(&path).unwrap();
    fs::write(path, &bytes[..bytes.len() - by]).unwrap();
}

/// What a site has applied when the bundle came whole.
pub fn expected(centre: &Centre, draft: &Draft) -> usize {
    let (index, _) = centre.index(draft, 1);
    index.assignments[0].files.len() + index.assignments[0].payload.len()
}

#[test]
fn a_part_that_is_lost_one_that_is_cut_and_one_with_a_flipped_byte_are_made_again() {
    let centre = Centre::new();
    let draft = draft(5);
    let all = publish(&centre, &draft, 1, 2, |_, _| ());
    let files = || all.parts.iter().chain(&all.parity);
    let damages: [(&str, Damage<'_>); 3] = [
        ("lost", &|stick| {
            fs::remove_file(stick.join(all.parts[1].file_name().unwrap())).unwrap();
        }),
        ("cut", &|stick| cut_off(stick, &all.parts[1], 30_000)),
        ("flipped", &|stick| flip(stick, &all.parts[1], 40_000)),
    ];
    for (how, damage) in damages {
        let site = Site::new(&centre, "drone-7");
        let stick = stick(files());
        damage(stick.path());
        // A second one, the same stick: as many as there are parity parts.
        flip(stick.path(), &all.parts[4], 20_000);
        let before = tree(stick.path());
        let done = site.import(stick.path());
        assert_eq!(code(&done), 0, "{how}: {}", stderr(&done));
        assert!(
            stderr(&done)
                .contains("parts 2, 5 were missing or damaged and were made again from parity"),
            "{how}: {}",
            stderr(&done)
        );
        assert!(
            stderr(&done).contains("where a stick had all parts, replace it"),
            "{how}"
        );
        assert_eq!(tree(stick.path()), before, "{how}: a stick is not written");
        assert_eq!(site.applied().len(), expected(&centre, &draft), "{how}");
        assert_eq!(site.status()["incomplete"], serde_json::Value::Null);
        // Nothing of the parity stays.
        let largest = tree(&site.state().join("blobs")).len();
        assert_eq!(largest, site_without_parity(&centre, &all), "{how}");
        // The centre learns that a part was refused.
        let reports = site.event_log();
        let refused = reports.iter().filter(|line| line.starts_with("refusal"));
        assert_eq!(
            refused.count(),
            if how == "lost" { 1 } else { 2 },
            "{reports:?}"
        );
    }
}

/// How many files the store has after an import of all parts.
fn site_without_parity(centre: &Centre, all: &Published) -> usize {
    let site = Site::new(centre, "drone-7");
    let stick = stick(&all.parts);
    site.take(stick.path());
    tree(&site.state().join("blobs")).len()
}

#[test]
fn with_all_parts_here_parity_is_not_needed_and_nothing_of_it_is_kept() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let all = publish(&centre, &draft(3), 1, 2, |_, _| ());
    let stick = stick(all.parts.iter().chain(&all.parity));
    let done = site.import(stick.path());
    assert_eq!(code(&done), 0);
    let printed = stderr(&done);
    assert!(!printed.contains("made again"), "{printed}");
    assert!(
        printed.contains("bundle 1 is whole, and this parity part is not needed"),
        "{printed}"
    );
}

#[test]
fn with_too_few_it_is_said_which_parts_are_missing_and_how_many_more_of_which_are_enough() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let draft = draft(5);
    let all = publish(&centre, &draft, 1, 2, |_, _| ());
    let first = stick([&all.parts[0], &all.parts[1], &all.parity[1]]);
    let done = site.import(first.path());
    assert_eq!(code(&done), 1, "{}", stderr(&done));
    for words in [
        "bundle 1 is not complete: 2 of 5 parts are here, parts 3, 4, 5 are missing",
        "parity part 2 of 2 is here: any 2 of these are enough: part 3, part 4, part 5, parity part 1",
    ] {
        assert!(stdout(&done).contains(words), "{words}: {}", stdout(&done));
    }
    let status = site.status();
    assert_eq!(status["incomplete"]["parity"]["more"], 2, "{status}");
    // Nothing more of the same stick.
    let again = site.import(first.path());
    assert_eq!(code(&again), 1);
    assert!(
        stdout(&again).contains("any 2 of these"),
        "{}",
        stdout(&again)
    );
    // A second visit: the one part that is left on the other stick, and the other parity part.
    let second = stick([&all.parts[3], &all.parity[0]]);
    let done = site.import(second.path());
    assert_eq!(code(&done), 0, "{}", stderr(&done));
    assert!(
        stderr(&done).contains("parts 3, 5 were missing or damaged"),
        "{}",
        stderr(&done)
    );
    assert_eq!(site.applied().len(), expected(&centre, &draft));
}

#[test]
fn what_still_comes_from_the_same_stick_is_not_made_again() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let all = publish(&centre, &draft(4), 1, 2, |_, _| ());
    let first = stick([&all.parts[0], &all.parity[0], &all.parity[1]]);
    assert_eq!(code(&site.import(first.path())), 1);
    let done = site.import(stick(&all.parts[1..]).path());
    assert_eq!(code(&done), 0);
    assert!(!stderr(&done).contains("made again"), "{}", stderr(&done));
}

#[test]
fn parity_alone_is_kept_and_with_as_much_as_there_are_parts_it_is_enough() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let draft = draft(2);
    let all = publish(&centre, &draft, 1, 2, |_, _| ());
    assert_eq!(all.parts.len(), 2);
    assert_eq!(code(&site.import(&all.parity[0])), 1);
    assert_eq!(code(&site.import(&all.parity[0])), 1);
    let done = site.import(&all.parity[1]);
    assert_eq!(code(&done), 0, "{}{}", stdout(&done), stderr(&done));
    assert_eq!(site.applied().len(), expected(&centre, &draft));
}

#[test]
fn a_damaged_parity_part_is_refused_by_name_and_another_one_does() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let all = publish(&centre, &draft(3), 1, 2, |_, _| ());
    let stick = stick(all.parts[1..].iter().chain(&all.parity));
    flip(stick.path(), &all.parity[0], 30_000);
    let done = site.import(stick.path());
    assert_eq!(code(&done), 0, "{}", stderr(&done));
    assert!(stderr(&done).contains("1of2.parity"), "{}", stderr(&done));
    assert!(
        stderr(&done).contains("part 1 was missing"),
        "{}",
        stderr(&done)
    );
    // The bundle is active: nobody has to do anything about the part any more.
    assert!(site.status().get("refusals").is_none(), "{}", site.status());
    let site = Site::new(&centre, "drone-8");
    let path = stick.path().join(all.parity[0].file_name().unwrap());
    assert_reports(&site.import(&path), 4, &["1of2.parity", "expected digest"]);
    assert_eq!(tree(&site.state().join("blobs")).len(), 0);
}

#[test]
fn parity_that_lies_is_refused_keeps_what_is_here_and_right_parity_does_afterwards() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let draft = draft(3);
    let lie = |_, bytes: &mut Vec<u8>| bytes[1_000] ^= 1;
    let all = publish(&centre, &draft, 1, 1, lie);
    let lies = stick(all.parts[1..].iter().chain(&all.parity));
    let done = site.import(lies.path());
    assert_eq!(code(&done), 1, "{}", stderr(&done));
    for words in ["is not what was signed", "parity part 1 of 1", "forged"] {
        assert!(stderr(&done).contains(words), "{words}: {}", stderr(&done));
    }
    assert!(site.applied().is_empty());
    let status = site.status();
    assert_eq!(status["incomplete"]["missing"], serde_json::json!([1]));
    assert_eq!(status["incomplete"]["parity"], serde_json::Value::Null);
    // Right parity comes by itself.
    let set = Set {
        name: "right",
        of: 1,
        cut: None,
    };
    let right = set.write(&centre, &draft, 1, &all.parts, |_, _| ());
    let done = site.import(&right[0]);
    assert_eq!(code(&done), 0, "{}", stderr(&done));
    assert_eq!(site.applied().len(), expected(&centre, &draft));
}

#[test]
fn a_parity_part_of_another_bundle_stream_or_fleet_makes_nothing() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let one = publish(&centre, &draft(3), 1, 1, |_, _| ());
    let two = publish(&centre, &draft(4), 2, 1, |_, _| ());
    // Of an older bundle, beside parts of a newer one.
    let both = stick(two.parts[1..].iter().chain(&one.parity));
    let done = site.import(both.path());
    assert_eq!(code(&done), 1, "{}", stderr(&done));
    assert!(
        stdout(&done).contains("bundle 2 is not complete: 3 of 4"),
        "{}",
        stdout(&done)
    );
    assert!(
        stderr(&done).contains("bundle 1 is older"),
        "{}",
        stderr(&done)
    );
    // A parity part of another stream, and of another fleet.
    let press = publish(&centre, &draft(2).cluster_type("press"), 1, 1, |_, _| ());
    assert_reports(
        &site.import(&press.parity[0]),
        4,
        &["this stick is for dev/press"],
    );
    let stranger = Centre::new();
    let foreign = publish(&stranger, &draft(3), 3, 1, |_, _| ());
    assert_eq!(code(&site.import(&foreign.parity[0])), 4);
    assert_eq!(site.status()["incomplete"]["number"], 2);
}

#[test]
fn parity_under_the_name_of_a_part_and_twice_under_other_names_is_what_it_is() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let draft = draft(3);
    let all = publish(&centre, &draft, 1, 2, |_, _| ());
    let stick = stick(&all.parts[2..]);
    fs::copy(&all.parity[0], stick.path().join("a.parity")).unwrap();
    fs::copy(&all.parity[0], stick.path().join("b.parity")).unwrap();
    fs::copy(
        &all.parity[0],
        stick.path().join("drone-1.part1of3.outhaul"),
    )
    .unwrap();
    let done = site.import(stick.path());
    assert_eq!(code(&done), 1, "{}", stderr(&done));
    assert!(
        stdout(&done).contains("any one of these is enough: part 1, part 2, parity part 2"),
        "{}",
        stdout(&done)
    );
    assert_eq!(code(&site.import(&all.parity[1])), 0);
    assert_eq!(site.applied().len(), expected(&centre, &draft));
}

#[test]
fn a_parity_part_cannot_be_planned_and_says_so() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let all = publish(&centre, &draft(2), 1, 1, |_, _| ());
    let before = tree(&site.state());
    assert_reports(
        &site.run(&["plan", all.parity[0].to_str().unwrap()]),
        2,
        &["is parity part 1 of 1", "nothing was changed", "help:"],
    );
    assert_eq!(tree(&site.state()), before);
}

#[test]
fn a_cut_at_any_instant_of_making_parts_again_ends_as_the_whole_bundle_does() {
    let centre = Centre::new();
    let draft = draft(5);
    let all = publish(&centre, &draft, 1, 2, |_, _| ());
    let stick = stick(all.parts.iter().chain(&all.parity));
    flip(stick.path(), &all.parts[0], 30_000);
    fs::remove_file(stick.path().join(all.parts[2].file_name().unwrap())).unwrap();
    let before = Site::new(&centre, "drone-7");
    let whole = before.copy();
    whole.take(stick.path());
    let expected = (whole.applied(), tree(&whole.state().join("blobs")));
    let mut instants = 0;
    for n in 1..200 {
        let site = before.copy();
        let mut command = site.command(&["import", stick.path().to_str().unwrap()]);
        let cut = command.env("OUTHAUL_CUT", n.to_string()).checked().unwrap();
        if cut.status.signal() != Some(9) {
            instants = n - 1;
            break;
        }
        site.take(stick.path());
        let now = (site.applied(), tree(&site.state().join("blobs")));
        assert!(now == expected, "cut at instant {n}: {:?}", now.1.keys());
    }
    // Parts, parity, what was made, and what every import passes.
    assert!(instants > 20, "{instants}");
}

#[test]
fn damaged_parts_with_too_little_parity_are_named_and_what_is_whole_is_kept() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let draft = draft(4);
    let all = publish(&centre, &draft, 1, 1, |_, _| ());
    let worn = stick(all.parts.iter().chain(&all.parity));
    flip(worn.path(), &all.parts[1], 30_000);
    cut_off(worn.path(), &all.parts[3], 30_000);
    let done = site.import(worn.path());
    assert_eq!(code(&done), 1, "{}", stderr(&done));
    assert!(
        stdout(&done)
            .contains("parity part 1 of 1 is here: any one of these is enough: part 2, part 4"),
        "{}",
        stdout(&done)
    );
    for words in [
        "`drone-1.part2of4.outhaul` is refused and nothing of it is kept",
        "`drone-1.part4of4.outhaul` is refused and nothing of it is kept: the file is incomplete",
    ] {
        assert!(stderr(&done).contains(words), "{words}: {}", stderr(&done));
    }
    // One of them from another stick, alone.
    let done = site.import(&all.parts[3]);
    assert_eq!(code(&done), 0, "{}", stderr(&done));
    assert!(
        stderr(&done).contains("part 2 was missing or damaged"),
        "{}",
        stderr(&done)
    );
    assert_eq!(site.applied().len(), expected(&centre, &draft));
}

#[test]
fn a_parity_json_with_other_numbers_is_refused() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let all = publish(&centre, &draft(3), 1, 2, |_, _| ());
    site.import(&all.parts[0]);
    let bytes = fs::read(&all.parity[0]).unwrap();
    for (find, byte, words) in [
        (&b"\"part\":1"[..], b'9', "there is no parity part 9 of 2"),
        (b"\"of\":2", b'0', "there is no parity part 1 of 0"),
        (
            b"parity/v1",
            b'7',
            "a format that this program does not know",
        ),
        (b"\"of\":2", b'3', "expected digest"),
    ] {
        let at = bytes
            .windows(find.len())
            .position(|window| window == find)
            .unwrap();
        let mut forged = bytes.clone();
        forged[at + find.len() - 1] = byte;
        let path = centre.folder().join("forged.parity");
        fs::write(&path, forged).unwrap();
        let before = (
            tree(&site.state().join("blobs")),
            site.status()["incomplete"].clone(),
        );
        assert_reports(&site.import(&path), 4, &["forged.parity", words]);
        let now = (
            tree(&site.state().join("blobs")),
            site.status()["incomplete"].clone(),
        );
        assert!(now == before, "{words}");
    }
}

#[test]
fn parity_that_is_kept_gives_way_to_a_part_where_there_is_no_space_for_both() {
    let Some(disk) = Stick::new("16m").filter(Stick::is_mounted) else {
        return;
    };
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.configure("min_free_mb = 1\n");
    let all = publish(&centre, &draft(4), 1, 2, |_, _| ());
    for parity in &all.parity {
        assert_eq!(code(&site.import(parity)), 1);
    }
    let kept = |site: &Site| {
        let status = site.status();
        let kept = &status["incomplete"]["parity"]["kept"];
        kept.as_object().map_or(0, serde_json::Map::len)
    };
    assert_eq!(kept(&site), 2);
    // The same disk, with less and less on it that is not the site's.
    copy(&site.state(), &disk.path().join("state"));
    fs::remove_dir_all(site.state()).unwrap();
    symlink(disk.path().join("state"), site.state()).unwrap();
    let filler = disk.path().join("filler");
    for kib in (8_000_usize..14_400).rev().step_by(32) {
        fs::write(&filler, vec![0; kib * 1024]).unwrap();
        let done = site.import(&all.parts[0]);
        if code(&done) == 1 {
            let said = "was deleted to make room for a part: there is no space for both";
            assert!(stderr(&done).contains(said), "{}", stderr(&done));
            break;
        }
        assert_reports(&done, 3, &["not enough space"]);
        assert_eq!(kept(&site), 2);
    }
    assert!(kept(&site) < 2, "{}", site.status()["incomplete"]);
    // The other parts make it whole without that.
    fs::remove_file(&filler).unwrap();
    for part in &all.parts[1..] {
        site.import(part);
    }
    assert_eq!(site.active(), Some(1));
}
