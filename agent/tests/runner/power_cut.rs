//! The power goes at every instant: after the next start everything is as if it had not.
//!
//! A site on which bundle 2 runs takes bundle 3, which changes, adds and removes files and a whole
//! assignment, and is killed at the n-th instant, for every n until it comes to its end. Then the same
//! command is given again. docs/internals/agent.md names every instant; that each row is passed is checked here.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Output;

use outhaul_bundle::Instruction;
use outhaul_test_kit::{Centre, Draft, Load, noise};
use outhaul_tests::Checked as _;

use crate::site::{Site, Tree, stderr, tree};

const SIGKILL: i32 = 9;
/// More instants than any import here passes.
const MANY: usize = 200;

/// What must not depend on cuts.
#[derive(PartialEq)]
struct End {
    code: Option<i32>,
    event_log: Vec<String>,
    states: Vec<(u64, String, bool)>,
    applied: Tree,
    blobs: Vec<String>,
    generations: Vec<String>,
}

fn end(site: &Site, last: &Output) -> End {
    let status = site.status();
    let states = status["generations"].as_array().unwrap().iter().map(|g| {
        let state = g["state"].as_str().unwrap().to_owned();
        (
            g["number"].as_u64().unwrap(),
            state,
            g["on_disk"].as_bool().unwrap(),
        )
    });
    let names = |folder: &str| tree(&site.state().join(folder)).into_keys().collect();
    End {
        code: last.status.code(),
        // Read from a stick: each number once, every link of the chain whole. That a bundle which just
        // failed comes again is reported, too; it is not a part of what the cut changed.
        event_log: site
            .event_log()
            .into_iter()
            .filter(|printed| printed != "refusal failed-before")
            .collect(),
        states: states.collect(),
        applied: site.applied(),
        blobs: names("blobs"),
        generations: names("generations"),
    }
}

/// Without the files' bytes, which nobody would read.
impl std::fmt::Debug for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sizes: Vec<_> = self
            .applied
            .iter()
            .map(|(path, bytes)| (path, bytes.len()))
            .collect();
        writeln!(f, "{:?} {:?} {:?}", self.code, self.event_log, self.states)?;
        writeln!(f, "{sizes:?} {:?} {:?}", self.blobs, self.generations)
    }
}

struct Case {
    /// A site on which bundle 2 runs.
    before: Site,
    newest: PathBuf,
    centre: Centre,
}

impl Case {
    fn new(newest: &Draft, prepare: impl FnOnce(&Path)) -> Self {
        let centre = Centre::new();
        let before = Site::new(&centre, "drone-7");
        // A generation that the next one drives off the disk.
        before.take(&centre.publish(&Draft::hello("zero")));
        before.take(&centre.publish(&self::before()));
        prepare(&before.state().join("applied"));
        let newest = centre.publish(newest);
        Self {
            before,
            newest,
            centre,
        }
    }

    fn import(&self, site: &Site, cut: Option<&str>) -> Output {
        Self::import_file(site, &self.newest, cut)
    }

    fn import_file(site: &Site, file: &Path, cut: Option<&str>) -> Output {
        let mut command = site.command(&["import", file.to_str().unwrap()]);
        command.envs(cut.map(|cut| ("OUTHAUL_CUT", cut)));
        command.checked().unwrap()
    }

    /// Cuts at every instant that this import passes; returns how many there were.
    fn cut_at_every_instant(&self) -> usize {
        let whole = self.before.copy();
        let mut last = self.import(&whole, None);
        let expected = end(&whole, &last);
        for n in 1..MANY {
            let site = self.before.copy();
            last = self.import(&site, Some(&n.to_string()));
            if last.status.signal() != Some(SIGKILL) {
                assert_eq!(end(&site, &last), expected, "without a cut");
                return n - 1;
            }
            last = self.import(&site, None);
            let end = end(&site, &last);
            assert_eq!(end, expected, "cut at instant {n}: {}", stderr(&last));
        }
        panic!("more than {MANY} instants");
    }
}

/// Bundle 2, which runs.
fn before() -> Draft {
    let stays = |name: &str| Load::new(name).file("same.yaml", name);
    let hello = Load::new("hello")
        .file("changes.yaml", "one\n")
        .file("goes.yaml", "one\n")
        .payload("image.tar.gz", noise(70_000));
    Draft::new(["a", "b", "leaves"].map(stays).into_iter().chain([hello]))
}

fn good() -> Draft {
    let stays = |name: &str| Load::new(name).file("same.yaml", name);
    let hello = Load::new("hello")
        .file("changes.yaml", "two\n")
        .file("comes.yaml", "two\n")
        .payload("image.tar.gz", noise(80_000));
    Draft::new(["a", "b", "new"].map(stays).into_iter().chain([hello]))
}

/// `hello` wants a file that is someone else's.
fn bad() -> (Draft, impl FnOnce(&Path)) {
    (good(), |applied: &Path| {
        fs::write(applied.join("hello/comes.yaml"), "foreign").unwrap();
    })
}

#[test]
fn a_cut_at_any_instant_of_an_import_changes_nothing_about_its_end() {
    let case = Case::new(&good(), |_| ());
    let instants = case.cut_at_every_instant();
    assert!(instants > 20, "{instants}");
}

#[test]
fn a_cut_at_any_instant_of_taking_a_copy_since_a_bundle_ends_as_the_whole_bundle_does() {
    // The image and the assignments that stay are those of bundle 2.
    let stays = |name: &str| Load::new(name).file("same.yaml", name);
    let hello = Load::new("hello")
        .file("changes.yaml", "two\n")
        .payload("image.tar.gz", noise(70_000));
    let newest = Draft::new(["a", "b", "new"].map(stays).into_iter().chain([hello]));
    let mut case = Case::new(&newest, |_| ());
    let site = case.before.copy();
    let whole = end(&site, &case.import(&site, None));
    assert_eq!(site.active(), Some(3));
    let (earlier, _) = case.centre.index(&before(), 2);
    case.newest = crate::since::copy(&case.centre, &newest, 3, &[&earlier]);
    let site = case.before.copy();
    assert_eq!(end(&site, &case.import(&site, None)), whole);
    let instants = case.cut_at_every_instant();
    assert!(instants > 15, "{instants}");
}

#[test]
fn a_cut_at_any_instant_of_taking_a_copy_with_patches_changes_nothing_about_its_end() {
    let stays = |name: &str| Load::new(name).file("same.yaml", name);
    let draft = |line: &str| {
        let stay = ["a", "b", "leaves"].map(stays).into_iter();
        Draft::new(stay.chain([crate::patches::load(line)]))
    };
    let mut case = Case::new(&draft("four"), |_| ());
    // Of a site that has what the patches build on.
    case.before.take(&case.newest);
    let five = draft("five");
    case.centre.publish(&five);
    let copy = (&five, 4);
    case.newest = crate::patches::copy(&case.centre, copy, (&draft("four"), 3), |_, patch| patch);
    let instants = case.cut_at_every_instant();
    assert!(instants > 10, "{instants}");
    let site = case.before.copy();
    let cut = case.import(&site, Some("blob-made"));
    assert_eq!(
        cut.status.signal(),
        Some(SIGKILL),
        "a patch passes no instant of its own"
    );
}

#[test]
fn a_cut_at_any_instant_of_going_back_changes_nothing_about_its_end() {
    let (draft, foreign) = bad();
    let case = Case::new(&draft, foreign);
    let instants = case.cut_at_every_instant();
    assert!(instants > 20, "{instants}");
}

#[test]
fn a_second_cut_on_the_way_back_changes_nothing_about_its_end() {
    let case = Case::new(&good(), |_| ());
    let whole = case.before.copy();
    let expected = end(&whole, &case.import(&whole, None));
    let site = case.before.copy();
    // One instant further each time, until an import comes to its end.
    for n in 0..MANY {
        let last = case.import(&site, Some(&(3 + n).to_string()));
        if last.status.signal() != Some(SIGKILL) {
            assert_eq!(end(&site, &last), expected, "after {n} cuts");
            assert!(n > 2, "{n}");
            return;
        }
    }
    panic!("it never came to its end");
}

#[test]
fn a_cut_at_any_instant_of_a_slip_changes_nothing_about_its_end() {
    let case = Case::new(&good(), |_| ());
    let slip = case.centre.slip("drone");
    let whole = case.before.copy();
    let expected = end(&whole, &Case::import_file(&whole, &slip, None));
    for n in 1..MANY {
        let site = case.before.copy();
        let cut = Case::import_file(&site, &slip, Some(&n.to_string()));
        if cut.status.signal() != Some(SIGKILL) {
            assert!(n > 1, "a slip passes no instant");
            return;
        }
        let last = Case::import_file(&site, &slip, None);
        assert_eq!(
            end(&site, &last),
            expected,
            "cut at instant {n}: {}",
            stderr(&last)
        );
        assert_eq!(site.status()["trouble"], serde_json::Value::Null);
    }
    panic!("more than {MANY} instants");
}

/// A site on which bundle 2 runs and a rollback to bundle 1 is about to be ordered.
fn before_a_rollback(prepare: impl FnOnce(&Path)) -> Site {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let load = |content: &str| Load::new("hello").file("manifest.yaml", content);
    let other = Load::new("other").file("same.yaml", "same");
    let first = load("one\n").file("only-one.yaml", "1");
    site.take(&centre.publish(&Draft::new([first, other.clone()])));
    site.take(&centre.publish(&Draft::new([load("two\n"), other])));
    prepare(&site.state().join("applied"));
    site
}

/// A foreign folder lies where a file of bundle 1 goes.
fn in_the_way(applied: &Path) {
    fs::create_dir(applied.join("hello/only-one.yaml")).unwrap();
}

fn roll_back(site: &Site, cut: Option<&str>) -> Output {
    let mut command = site.command(&["rollback", "--who", "ann"]);
    command.envs(cut.map(|cut| ("OUTHAUL_CUT", cut)));
    command.checked().unwrap()
}

#[test]
fn a_cut_at_any_instant_of_a_rollback_changes_nothing_about_its_end() {
    let nothing: fn(&Path) = |_| ();
    for (prepare, code, active) in [(nothing, 0, 1), (in_the_way as fn(&Path), 1, 2)] {
        let before = before_a_rollback(prepare);
        let whole = before.copy();
        assert_eq!(roll_back(&whole, None).status.code(), Some(code));
        // When the service started is the only thing that a cut may move.
        let end = |site: &Site, last: &Output| {
            let mut end = end(site, last);
            end.event_log.retain(|printed| printed != "started");
            end
        };
        let expected = end(&whole, &whole.run(&["run", "--once"]));
        assert_eq!(whole.active(), Some(active));
        let mut cuts = 0;
        for n in 1..MANY {
            let site = before.copy();
            let cut = roll_back(&site, Some(&n.to_string()));
            // The next start goes on with it, or with what it has come to.
            let last = site.run(&["run", "--once"]);
            let end = end(&site, &last);
            assert_eq!(end, expected, "cut at instant {n}: {}", stderr(&last));
            if cut.status.signal() != Some(SIGKILL) {
                break;
            }
            cuts = n;
        }
        assert!((8..MANY - 1).contains(&cuts), "{cuts}");
    }
}

#[test]
fn a_rollback_that_was_cut_off_is_gone_on_with_by_the_same_order() {
    let site = before_a_rollback(|_| ());
    let cut = roll_back(&site, Some("reverting-committed"));
    assert_eq!(cut.status.signal(), Some(SIGKILL));
    // Ended by the command that `status` names, it stays the decision of whoever ordered it.
    let other = site.copy();
    other.ok(&["apply", "--as", "zoe"]);
    assert_eq!(other.active(), Some(1));
    let status = other.status().to_string();
    assert!(status.contains("rolled back by "), "{status}");
    assert!(!status.contains("applied again by"), "{status}");
    let again = roll_back(&site, None);
    assert_eq!(again.status.code(), Some(0), "{}", stderr(&again));
    assert_eq!(site.active(), Some(1));
}

#[test]
fn what_a_cut_off_copy_left_does_not_keep_a_plan_from_being_made() {
    let case = Case::new(&good(), |_| ());
    let site = case.before.copy();
    let cut = case.import(&site, Some("blob-written"));
    assert_eq!(cut.status.signal(), Some(SIGKILL));
    let plan = site.run(&["plan", case.newest.to_str().unwrap()]);
    assert_eq!(plan.status.code(), Some(0), "{}", stderr(&plan));
    let printed = String::from_utf8_lossy(&plan.stdout).into_owned();
    assert!(printed.contains("bundle 3"), "{printed}");
    // It changed nothing: the import begins again.
    assert_eq!(case.import(&site, None).status.code(), Some(0));
}

/// A site whose stream corrects drift, and a host on which a file is gone and another one was changed.
fn drifted() -> Site {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&before().correct_drift()));
    let applied = site.state().join("applied");
    fs::remove_file(applied.join("hello/changes.yaml")).unwrap();
    fs::write(applied.join("a/same.yaml"), "scribble").unwrap();
    site
}

fn look(site: &Site, cut: Option<&str>) -> Output {
    let mut command = site.command(&["run", "--once"]);
    command.envs(cut.map(|cut| ("OUTHAUL_CUT", cut)));
    command.checked().unwrap()
}

#[test]
fn a_cut_at_any_instant_of_correcting_drift_changes_nothing_about_its_end() {
    let before = drifted();
    // How often the service started and looked is all that a cut may move.
    let end = |site: &Site, last: &Output| {
        let mut end = end(site, last);
        end.event_log.retain(|printed| printed != "started");
        end.event_log.dedup();
        end
    };
    let whole = before.copy();
    let expected = end(&whole, &look(&whole, None));
    assert_eq!(whole.applied()["a/same.yaml"], b"a");
    let mut cuts = 0;
    for n in 1..MANY {
        let site = before.copy();
        let cut = look(&site, Some(&n.to_string()));
        let last = look(&site, None);
        assert_eq!(
            end(&site, &last),
            expected,
            "cut at instant {n}: {}",
            stderr(&last)
        );
        assert_eq!(site.status()["assignments"][0]["status"], "compliant");
        if cut.status.signal() != Some(SIGKILL) {
            break;
        }
        cuts = n;
    }
    assert!((6..MANY - 1).contains(&cuts), "{cuts}");
}

#[test]
fn a_hold_after_a_cut_in_a_correction_leaves_what_differs_until_it_is_released() {
    let site = drifted();
    let cut = look(&site, Some("correcting-committed"));
    assert_eq!(cut.status.signal(), Some(SIGKILL));
    site.ok(&["hold", "--who", "ann"]);
    look(&site, None);
    let applied = site.applied();
    assert_eq!(applied["a/same.yaml"], b"scribble");
    assert!(!applied.contains_key("hello/changes.yaml"));
    assert_eq!(site.status()["assignments"][0]["status"], "drifted");
    site.ok(&["hold", "--release", "--who", "ann"]);
    look(&site, None);
    assert_eq!(site.applied()["a/same.yaml"], b"a");
    assert_eq!(site.status()["assignments"][0]["status"], "compliant");
}

/// Names in the first column of the table of instants.
fn listed() -> BTreeSet<String> {
    let page = include_str!("../../../docs/internals/agent.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let names = rows
        .filter_map(|row| row.split_once('`'))
        .map(|(name, _)| name.to_owned());
    // The apply helper's, a cluster's, a hook's, a patch's, parity's and a newer agent's are passed where there is one, in their own tests.
    let own = names.filter(|name| {
        [
            "helper-",
            "object-",
            "hook-",
            "zarf-",
            "blob-made",
            "parity-",
            "slot-",
            "trial-",
        ]
        .iter()
        .all(|other| !name.starts_with(other))
    });
    own.filter(|name| name.contains('-')).collect()
}

#[test]
fn every_instant_that_the_readme_lists_is_passed() {
    let normal = Case::new(&good(), |_| ());
    let (draft, foreign) = bad();
    let broken = Case::new(&draft, foreign);
    let order = good().order("drone-7", 1, Instruction::Rekey);
    let order = normal.centre.publish(&order);
    let slip = normal.centre.slip("drone");
    let rollback = before_a_rollback(in_the_way);
    let drifted = drifted();
    let listed = listed();
    assert!(listed.len() > 10, "{listed:?}");
    for instant in listed {
        let dies = |case: &Case| {
            let output = case.import(&case.before.copy(), Some(&instant));
            output.status.signal() == Some(SIGKILL)
        };
        let other_dies = |file: &Path| {
            let output = Case::import_file(&normal.before.copy(), file, Some(&instant));
            output.status.signal() == Some(SIGKILL)
        };
        let rollback_dies = || {
            let output = roll_back(&rollback.copy(), Some(&instant));
            output.status.signal() == Some(SIGKILL)
        };
        assert!(
            rollback_dies()
                || look(&drifted.copy(), Some(&instant)).status.signal() == Some(SIGKILL)
                || dies(&normal)
                || dies(&broken)
                || other_dies(&slip)
                || other_dies(&order),
            "no import, rollback or look passes `{instant}`"
        );
    }
}
