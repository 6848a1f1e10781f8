//! One test for each attack on parity parts by someone who has a fleet's bundles and no key: he can write parity of any
//! cut and any bytes, with right digests.
//!
//! What comes in: the real program, and forged files beside right ones. What must come out: the bundle as it was signed whenever
//! the right files are enough for it, the forged file by its name, and nothing given up for it that was verified.

use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Output;

use outhaul_bundle::Volume;
use outhaul_test_kit::{Centre, Draft};
use outhaul_tests::Checked as _;

use super::parity::{expected, stick};
use super::parity_set::{Published, Set, publish};
use super::site::{Site, assert_reports, code, stderr, stdout};
use super::volumes::draft;

/// Parity of a published bundle that makes something else, under names that sort first.
fn forged(centre: &Centre, all: &Published, of: usize, cut: Option<&Volume>) -> Vec<PathBuf> {
    let set = Set {
        name: "a-forged",
        of,
        cut,
    };
    lying(centre, all, &set)
}

/// The same of a set of another size.
fn forged_set(centre: &Centre, all: &Published, name: &str, of: usize) -> Vec<PathBuf> {
    lying_of(centre, &draft(4), all, (name, of))
}

fn lying_of(
    centre: &Centre,
    draft: &Draft,
    all: &Published,
    (name, of): (&str, usize),
) -> Vec<PathBuf> {
    let set = Set {
        name,
        of,
        cut: None,
    };
    let lie = |_, bytes: &mut Vec<u8>| bytes.iter_mut().for_each(|byte| *byte ^= 1);
    set.write(centre, draft, 1, &all.parts, lie)
}

fn lying(centre: &Centre, all: &Published, set: &Set<'_>) -> Vec<PathBuf> {
    let lie = |_, bytes: &mut Vec<u8>| bytes.iter_mut().for_each(|byte| *byte ^= 1);
    set.write(centre, &draft(4), 1, &all.parts, lie)
}

/// A site that keeps the first parity part of a set, where the first `lost` parts are missing.
fn keeping_one(centre: &Centre, right: &Published, lost: usize) -> Site {
    let site = Site::new(centre, "drone-7");
    let first = stick(right.parts[lost..].iter().chain(&right.parity[..1]));
    assert_eq!(code(&site.import(first.path())), 1);
    site
}

/// The bundle of four parts came whole, and all of it is applied.
#[track_caller]
fn assert_whole(site: &Site, done: &Output, centre: &Centre) {
    assert_eq!(code(done), 0, "{}{}", stdout(done), stderr(done));
    assert_eq!(site.applied().len(), expected(centre, &draft(4)));
}

#[test]
fn a_forged_parity_part_that_sorts_first_does_not_keep_the_right_one_out() {
    for (of, lost) in [(1, 1), (2, 1), (2, 2)] {
        let centre = Centre::new();
        let right = publish(&centre, &draft(4), 1, of, |_, _| ());
        let lies = forged(&centre, &right, of, None);
        let site = Site::new(&centre, "drone-7");
        let files = right.parts[lost..].iter().chain(&right.parity);
        let stick = stick(files.chain(&lies[..1]));
        let done = site.import(stick.path());
        assert_whole(&site, &done, &centre);
        for words in ["`a-forged-1.1of", "forged", "made again from parity"] {
            assert!(stderr(&done).contains(words), "{words}: {}", stderr(&done));
        }
        // However often it was tried.
        let lines = stderr(&done).matches(" made again from parity\n").count();
        assert_eq!(lines, 1, "{}", stderr(&done));
    }
}

#[test]
fn several_forged_parity_parts_that_sort_first_do_not_keep_the_right_ones_out() {
    for (of, lost, copies) in [(1, 1, 5), (2, 1, 3), (2, 2, 1), (3, 2, 1)] {
        let centre = Centre::new();
        let right = publish(&centre, &draft(4), 1, of, |_, _| ());
        let lies = forged(&centre, &right, of, None);
        let site = Site::new(&centre, "drone-7");
        let stick = stick(right.parts[lost..].iter().chain(&right.parity));
        for (at, lie) in (0..copies).flat_map(|at| lies.iter().map(move |lie| (at, lie))) {
            let name = lie.file_name().unwrap().to_str().unwrap();
            std::fs::copy(lie, stick.path().join(format!("a{at}-{name}"))).unwrap();
        }
        let done = site.import(stick.path());
        assert_whole(&site, &done, &centre);
        let printed = stderr(&done);
        assert!(
            printed.contains("with others the parts were made as they were signed"),
            "{printed}"
        );
        assert!(
            !printed.contains("`drone-1."),
            "a right one is accused: {printed}"
        );
    }
}

#[test]
fn one_forged_part_of_many_and_a_large_forged_set_keep_no_right_one_out() {
    let centre = Centre::new();
    let right = publish(&centre, &draft(8), 1, 8, |_, _| ());
    let lies = lying_of(&centre, &draft(8), &right, ("a-forged", 8));
    let one = stick(
        right.parts[4..]
            .iter()
            .chain(&right.parity)
            .chain(&lies[..1]),
    );
    let others = lying_of(&centre, &draft(8), &right, ("b-forged", 25));
    let many = stick(right.parts[1..].iter().chain(&right.parity).chain(&others));
    for stick in [one, many] {
        let site = Site::new(&centre, "drone-7");
        let done = site.import(stick.path());
        assert_eq!(code(&done), 0, "{}{}", stdout(&done), stderr(&done));
        assert!(
            !stderr(&done).contains("`drone-1."),
            "a right one is accused: {}",
            stderr(&done)
        );
        assert_eq!(site.applied().len(), expected(&centre, &draft(8)));
    }
}

#[test]
fn where_all_parity_lies_each_file_that_was_tried_is_named() {
    let centre = Centre::new();
    let right = publish(&centre, &draft(4), 1, 2, |_, _| ());
    let lies = forged(&centre, &right, 2, None);
    let site = Site::new(&centre, "drone-7");
    let done = site.import(stick(right.parts[1..].iter().chain(&lies)).path());
    assert_eq!(code(&done), 1, "{}{}", stdout(&done), stderr(&done));
    for words in [
        "`parity of bundle 1` is refused",
        "no choice of `a-forged-1.1of2.parity`, `a-forged-1.2of2.parity` that was tried",
        "nobody can tell which",
        "bring a part that is missing, or right parity alone",
    ] {
        assert!(stderr(&done).contains(words), "{words}: {}", stderr(&done));
    }
    assert_eq!(
        site.status()["incomplete"]["missing"],
        serde_json::json!([1])
    );
    assert_whole(&site, &site.import(&right.parity[1]), &centre);
}

#[test]
fn a_forged_parity_part_from_an_earlier_stick_does_not_keep_a_right_one_out() {
    let centre = Centre::new();
    let right = publish(&centre, &draft(4), 1, 2, |_, _| ());
    let lies = forged(&centre, &right, 2, None);
    let site = Site::new(&centre, "drone-7");
    let first = stick(right.parts[2..].iter().chain(&lies[..1]));
    assert_eq!(code(&site.import(first.path())), 1);
    assert_eq!(site.status()["incomplete"]["parity"]["more"], 1);
    // Two are missing: the forged one is here, and what is right is enough without it.
    let done = site.import(stick(&right.parity).path());
    assert_eq!(code(&done), 0, "{}{}", stdout(&done), stderr(&done));
    assert!(
        stderr(&done).contains("what was kept from before was damaged"),
        "{}",
        stderr(&done)
    );
}

#[test]
fn forged_parity_does_not_make_a_site_let_go_of_what_it_kept() {
    let centre = Centre::new();
    let right = publish(&centre, &draft(4), 1, 2, |_, _| ());
    let lies = forged(&centre, &right, 2, None);
    let others = forged_set(&centre, &right, "b-forged", 3);
    let before = keeping_one(&centre, &right, 2);
    let kept = |site: &Site| site.status()["incomplete"]["parity"]["kept"].clone();
    let right_one = kept(&before);
    assert!(right_one["1"].is_string(), "{right_one}");
    // One that lies alone, on a stick, a whole set that lies, and both.
    let one = stick(&lies[1..]);
    let set = stick(&others);
    let both = stick(lies[1..].iter().chain(&others));
    for path in [lies[1].as_path(), one.path(), set.path(), both.path()] {
        let site = before.copy();
        let done = site.import(path);
        assert_ne!(code(&done), 0, "{}{}", stdout(&done), stderr(&done));
        assert!(stderr(&done).contains("forged"), "{}", stderr(&done));
        assert_eq!(kept(&site), right_one, "{}", path.display());
        assert_whole(&site, &site.import(&right.parity[1]), &centre);
    }
    // With the right one beside them.
    let site = before.copy();
    let all = stick(lies[1..].iter().chain(&right.parity[1..]));
    let done = site.import(all.path());
    assert_whole(&site, &done, &centre);
    assert!(!stderr(&done).contains("`drone-1."), "{}", stderr(&done));
}

#[test]
fn where_the_kept_parity_lied_another_file_of_the_same_part_takes_its_place() {
    let centre = Centre::new();
    let right = publish(&centre, &draft(4), 1, 2, |_, _| ());
    let lies = forged(&centre, &right, 2, None);
    let site = Site::new(&centre, "drone-7");
    let first = stick(right.parts[2..].iter().chain(&lies[..1]));
    assert_eq!(code(&site.import(first.path())), 1);
    assert_eq!(code(&site.import(&right.parity[1])), 4);
    assert_eq!(code(&site.import(&right.parity[0])), 1);
    assert_whole(&site, &site.import(&right.parity[1]), &centre);
}

#[test]
fn a_cut_at_any_instant_of_an_import_that_lies_loses_no_parity_that_was_kept() {
    let centre = Centre::new();
    let right = publish(&centre, &draft(4), 1, 2, |_, _| ());
    let lies = forged(&centre, &right, 2, None);
    let before = keeping_one(&centre, &right, 2);
    let lying = stick(&lies[1..]);
    let mut instants = 0;
    for n in 1..200 {
        let site = before.copy();
        let mut command = site.command(&["import", lying.path().to_str().unwrap()]);
        let cut = command.env("OUTHAUL_CUT", n.to_string()).checked().unwrap();
        if cut.status.signal() != Some(9) {
            instants = n - 1;
            break;
        }
        let done = site.import(&right.parity[1]);
        assert_eq!(code(&done), 0, "cut at instant {n}: {}", stderr(&done));
        assert_eq!(
            site.applied().len(),
            expected(&centre, &draft(4)),
            "cut at instant {n}"
        );
    }
    assert!(instants >= 4, "{instants}");
    for name in ["parity-set-aside", "parity-dropped", "parity-put-back"] {
        let site = before.copy();
        let mut command = site.command(&["import", lying.path().to_str().unwrap()]);
        let cut = command.env("OUTHAUL_CUT", name).checked().unwrap();
        assert_eq!(cut.status.signal(), Some(9), "{name}");
    }
}

/// A file of a set whose metadata is whole and whose parity is cut off.
fn truncated(path: &Path) {
    let bytes = std::fs::read(path).unwrap();
    std::fs::write(path, &bytes[..bytes.len() * 2 / 3]).unwrap();
}

#[test]
fn attack_a_forged_set_that_cannot_be_read_whole_does_not_take_the_place_of_what_is_kept() {
    let centre = Centre::new();
    let right = publish(&centre, &draft(4), 1, 2, |_, _| ());
    let others = forged_set(&centre, &right, "b-forged", 3);
    truncated(&others[1]);
    let before = keeping_one(&centre, &right, 2);
    let lying = stick(&others[..2]);
    let known = before.status()["incomplete"].clone();
    let site = before.copy();
    assert_ne!(code(&site.import(lying.path())), 0);
    assert_eq!(site.status()["incomplete"], known);
    assert_whole(&site, &site.import(&right.parity[1]), &centre);
    // Nor where it is cut off at any instant.
    let mut instants = 0;
    for n in 1..200 {
        let site = before.copy();
        let mut command = site.command(&["import", lying.path().to_str().unwrap()]);
        let cut = command.env("OUTHAUL_CUT", n.to_string()).checked().unwrap();
        if cut.status.signal() != Some(9) {
            instants = n - 1;
            break;
        }
        let done = site.import(&right.parity[1]);
        assert_eq!(code(&done), 0, "cut at instant {n}: {}", stderr(&done));
    }
    assert!(instants >= 4, "{instants}");
}

#[test]
fn attack_a_forged_file_of_the_kept_part_takes_its_place_only_where_that_lied() {
    let centre = Centre::new();
    let right = publish(&centre, &draft(4), 1, 2, |_, _| ());
    let lies = forged(&centre, &right, 2, None);
    truncated(&lies[1]);
    let site = keeping_one(&centre, &right, 2);
    let known = site.status()["incomplete"].clone();
    assert_ne!(code(&site.import(stick(&lies).path())), 0);
    assert_eq!(site.status()["incomplete"], known);
    assert_whole(&site, &site.import(&right.parity[1]), &centre);
}

#[test]
fn a_damaged_stick_of_the_same_set_adds_what_is_whole_of_it() {
    let centre = Centre::new();
    let right = publish(&centre, &draft(4), 1, 4, |_, _| ());
    let site = keeping_one(&centre, &right, 3);
    for path in &right.parity[2..] {
        truncated(path);
    }
    let damaged = stick(&right.parity[1..]);
    assert_ne!(code(&site.import(damaged.path())), 0);
    let kept = site.status()["incomplete"]["parity"].clone();
    assert_eq!(kept["more"], 1, "{kept}");
    assert!(
        kept["kept"]["1"].is_string() && kept["kept"]["2"].is_string(),
        "{kept}"
    );
}

#[test]
fn attack_a_forged_set_of_another_cut_does_not_say_which_parts_are_missing() {
    let centre = Centre::new();
    let (index, _) = centre.index(&draft(4), 1);
    let whole = Volume::plan(0, &index, u64::MAX / 2).unwrap();
    let right = publish(&centre, &draft(4), 1, 2, |_, _| ());
    let site = Site::new(&centre, "drone-7");
    // Only parity has come.
    assert_eq!(code(&site.import(&right.parity[0])), 1);
    let known = site.status()["incomplete"].clone();
    let lies = forged(&centre, &right, 2, Some(&whole[0]));
    let done = site.import(stick(&lies).path());
    assert!(stderr(&done).contains("forged"), "{}", stderr(&done));
    assert_eq!(site.status()["incomplete"], known);
}

#[test]
fn parity_of_another_bundle_does_not_give_up_verified_parts() {
    let centre = Centre::new();
    let one = publish(&centre, &draft(4), 1, 1, |_, _| ());
    let two = publish(&centre, &draft(5), 2, 1, |_, bytes| bytes[1_000] ^= 1);
    let site = Site::new(&centre, "drone-7");
    assert_eq!(code(&site.import(stick(&one.parts[..3]).path())), 1);
    let before = site.status()["incomplete"].clone();
    assert_reports(
        &site.import(&two.parity[0]),
        4,
        &[
            "parts of bundle 1 are kept here",
            "does not replace them",
            "import a part of it first",
        ],
    );
    let from_stick = site.import(stick(&two.parity).path());
    assert_ne!(code(&from_stick), 0);
    assert_eq!(site.status()["incomplete"], before);
    assert_whole(&site, &site.import(&one.parts[3]), &centre);
}

#[test]
fn parity_that_states_another_cut_than_the_parts_neither_counts_nor_stays() {
    let centre = Centre::new();
    let (index, _) = centre.index(&draft(4), 1);
    let whole = Volume::plan(0, &index, u64::MAX / 2).unwrap();
    let right = publish(&centre, &draft(4), 1, 1, |_, _| ());
    let lies = forged(&centre, &right, 1, Some(&whole[0]));
    // After parts: the bundle is still in as many parts as these say.
    let site = Site::new(&centre, "drone-7");
    assert_eq!(code(&site.import(stick(&right.parts[..2]).path())), 1);
    let done = site.import(&lies[0]);
    assert_eq!(code(&done), 4, "{}{}", stdout(&done), stderr(&done));
    let status = site.status();
    assert_eq!(status["incomplete"]["parts"], 4, "{status}");
    assert_eq!(status["incomplete"]["missing"], serde_json::json!([3, 4]));
    // Before any part: nothing of it is left.
    let site = Site::new(&centre, "drone-8");
    let done = site.import(&lies[0]);
    assert_eq!(code(&done), 4, "{}{}", stdout(&done), stderr(&done));
    assert_eq!(site.status()["incomplete"], serde_json::Value::Null);
    // Beside right files it sorts first, and is told apart by its set.
    let site = Site::new(&centre, "drone-9");
    let files = right.parts[1..].iter().chain(&right.parity);
    let both = stick(files.chain(&lies));
    let done = site.import(both.path());
    assert_eq!(code(&done), 0, "{}{}", stdout(&done), stderr(&done));
}

#[test]
fn an_older_bundle_is_taken_when_only_too_little_of_a_newer_one_is_there() {
    let centre = Centre::new();
    let older = centre.publish_as(&draft(2), 1);
    let newer = publish(&centre, &draft(5), 2, 2, |_, bytes| bytes[1_000] ^= 1);
    for file in [&newer.parity[0], &newer.parts[1]] {
        let site = Site::new(&centre, "drone-7");
        let both = stick([&older, file]);
        let done = site.import(both.path());
        assert_eq!(code(&done), 1, "{}{}", stdout(&done), stderr(&done));
        assert_eq!(site.status()["active"], 1);
        assert_eq!(site.status()["incomplete"]["number"], 2);
        let words = "bundle 2 is not complete and waits for the rest; bundle 1 is taken meanwhile";
        assert!(stderr(&done).contains(words), "{}", stderr(&done));
        assert!(!stderr(&done).contains("skipped"), "{}", stderr(&done));
        // What runs already does not hide that the newer one is not complete.
        let done = site.import(both.path());
        assert_eq!(code(&done), 1, "{}{}", stdout(&done), stderr(&done));
        assert!(
            stdout(&done).contains("bundle 2 is not complete"),
            "{}",
            stdout(&done)
        );
    }
}

#[test]
fn of_two_sets_on_one_stick_the_one_that_is_enough_is_used() {
    let centre = Centre::new();
    let large = publish(&centre, &draft(4), 1, 2, |_, _| ());
    let set = Set {
        name: "a",
        of: 1,
        cut: None,
    };
    let small = set.write(&centre, &draft(4), 1, &large.parts, |_, _| ());
    let site = Site::new(&centre, "drone-7");
    let both = stick(large.parts[2..].iter().chain(&large.parity).chain(&small));
    let done = site.import(both.path());
    assert_eq!(code(&done), 0, "{}{}", stdout(&done), stderr(&done));
    assert!(
        stderr(&done).contains("parts 1, 2 were missing or damaged"),
        "{}",
        stderr(&done)
    );
    // And when the smaller one came before.
    let site = Site::new(&centre, "drone-8");
    let first = stick(large.parts[2..].iter().chain(&small));
    assert_eq!(code(&site.import(first.path())), 1);
    let done = site.import(&large.parity[0]);
    assert_eq!(code(&done), 1);
    assert!(
        stdout(&done).contains(
            "of another set than parity 1 of 1 that was here and was not enough, and replaces it"
        ),
        "{}",
        stdout(&done)
    );
    let done = site.import(&large.parity[1]);
    assert_eq!(code(&done), 0, "{}{}", stdout(&done), stderr(&done));
}
