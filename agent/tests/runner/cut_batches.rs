//! The power goes in the middle of a batch of applied files, and another bundle comes.
//!
//! What comes in: a bundle with more files than one batch, cut before, between and after the files of a batch get their names; then a bundle
//! with other files. What must come out: each file is whole at every instant, and the site ends as one that was never cut: nothing of the bundle
//! between is left, under no name.

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Output;

use outhaul_test_kit::{Centre, Draft, Load};
use outhaul_tests::Checked as _;

use crate::site::{Site, Tree, stderr};

const SIGKILL: i32 = 9;
/// How the name ends of a file that is written beside its own.
const BESIDE: &str = ".outhaul-new";

/// So many files with the text that `text` gives each; one without a text is not there.
fn draft(files: usize, text: impl Fn(usize) -> Option<&'static str>) -> Draft {
    let named = (0..files).filter_map(|at| Some((at, text(at)?)));
    let many = named.fold(Load::new("many"), |load, (at, text)| {
        load.file(&format!("{}/{at:04}.yaml", at / 25), text)
    });
    Draft::new([many, Load::new("other").file("a.yaml", "same")])
}

fn import(site: &Site, bundle: &Path, cut: Option<&str>) -> Output {
    let mut command = site.command(&["import", bundle.to_str().unwrap()]);
    command.envs(cut.map(|cut| ("OUTHAUL_CUT", cut)));
    command.checked().unwrap()
}

/// How many files are written beside their names, and how many of the others have the text of the newer bundle; each has one of both whole.
fn counted(applied: &Tree, newer: &[u8], older: &[u8]) -> (usize, usize) {
    let (beside, named): (Vec<_>, Vec<_>) = applied
        .iter()
        .filter(|(path, _)| path.contains("many/"))
        .partition(|(path, _)| path.ends_with(BESIDE));
    for (path, text) in &named {
        assert!(*text == newer || *text == older, "{path} is torn");
    }
    let new = named.iter().filter(|(_, text)| *text == newer).count();
    (beside.len(), new)
}

/// Cuts the work on `files` files at each of the instants, at which so many are beside their names and so many have the newer text.
fn cut_at(files: usize, instants: &[(&str, usize, usize)]) {
    let centre = Centre::new();
    let before = Site::new(&centre, "drone-7");
    // The last folder comes with the bundle that is cut, and with no other.
    let last = (files - 1) / 25 * 25;
    before.take(&centre.publish(&draft(files, |at| (at < last).then_some("one"))));
    let cut_off = centre.publish(&draft(files, |_| Some("two")));
    let next = centre.publish(&draft(files, |at| match at {
        at if at >= last || at % 7 == 3 => None,
        at if at % 2 == 0 => Some("one"),
        _ => Some("three"),
    }));
    let never_cut = before.copy();
    never_cut.take(&next);
    let expected = never_cut.applied();
    for (instant, beside, new) in instants {
        let site = before.copy();
        let cut = import(&site, &cut_off, Some(instant));
        assert_eq!(cut.status.signal(), Some(SIGKILL), "{instant}");
        let found = counted(&site.applied(), b"two", b"one");
        assert_eq!(found, (*beside, *new), "{instant}");
        let taken = import(&site, &next, None);
        assert_eq!(
            taken.status.code(),
            Some(0),
            "{instant}: {}",
            stderr(&taken)
        );
        assert_eq!(site.active(), Some(3), "{instant}");
        assert!(site.applied() == expected, "{instant}: files differ");
        let emptied = site.state().join(format!("applied/many/{}", last / 25));
        assert!(!emptied.exists(), "{instant}");
        let is_drift = |one: &serde_json::Value| one["what"] == "drift";
        let status = site.status();
        let attention = status["attention"].as_array();
        assert!(
            !attention.is_some_and(|all| all.iter().any(is_drift)),
            "{status}"
        );
    }
}

#[test]
fn a_cut_in_the_middle_of_a_batch_leaves_nothing_when_another_bundle_comes() {
    let instants = [
        ("batch-written", 60, 0),
        ("file-written#1", 59, 1),
        ("file-written#30", 30, 30),
        ("file-written#60", 0, 60),
    ];
    cut_at(60, &instants);
}

#[test]
fn a_cut_in_the_second_batch_leaves_nothing_of_either_when_another_bundle_comes() {
    cut_at(2_100, &[("file-written#2060", 40, 2_060)]);
}
