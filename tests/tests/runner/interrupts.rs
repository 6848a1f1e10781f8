//! Ctrl-C at every instant of `render`, `bundle`, `import` and ceremonies: nothing is left behind that was only begun.
//!
//! What comes in: a folder with all that a command reads and writes, its temporary files included, copied
//! for each instant. What must come out: the folder as it was before, or as it is after a whole run. Debug
//! builds have the instants; the programs get a real SIGINT at each.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use outhaul_test_kit::folder;
use outhaul_test_kit::folder::paths;
use outhaul_tests::{Ran, program, run};

use super::system::SystemFixture;

type Tree = BTreeMap<PathBuf, Vec<u8>>;

fn fixture() -> SystemFixture {
    let fixture = SystemFixture::new();
    fixture.run(
        "outhaul",
        0,
        &["init", "control-plane", "--environments", "dev"],
    );
    fixture.fleet();
    fixture.site("edge-1", "dev", "edge");
    fs::create_dir(fixture.path("tmp")).unwrap();
    fixture
}

/// A copy of the scene's folder.
fn copy(fixture: &SystemFixture) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    folder::copy(&fixture.path(""), folder.path());
    folder
}

/// Every file, but for what was fetched into the cache, and what a fleet remembers of its clock.
fn tree(folder: &Path) -> Tree {
    let all = paths(folder).into_iter();
    let all = all.filter(|path| {
        let kept = [folder.join("cache"), folder.join("fleet/marks.json")];
        !kept.iter().any(|kept| path.starts_with(kept))
    });
    all.map(|path| {
        let bytes = fs::read(&path).unwrap();
        (path.strip_prefix(folder).unwrap().to_owned(), bytes)
    })
    .collect()
}

fn typed(folder: &Path, name: &str, line: &str, variable: &str, value: &str) -> Ran {
    let mut command = Command::new(program(name).unwrap());
    command
        .current_dir(folder)
        .args(line.split(' '))
        .env("HOME", folder)
        .env("XDG_CACHE_HOME", folder.join("cache"))
        .env("TMPDIR", folder.join("tmp"))
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .env(variable, value);
    run(&mut command).unwrap()
}

/// Interrupts `line` at every instant; `same` compares two trees as far as they must be equal.
fn at_every_instant(
    fixture: &SystemFixture,
    line: &str,
    same: impl Fn(&Tree, &Tree) -> bool,
) -> usize {
    of_program(fixture, "outhaul", line, 0, same)
}

/// The same for any program; `again` is how a second run ends after one that was done whole.
fn of_program(
    fixture: &SystemFixture,
    name: &str,
    line: &str,
    again: i32,
    same: impl Fn(&Tree, &Tree) -> bool,
) -> usize {
    let whole = copy(fixture);
    let before = tree(whole.path());
    let ran = typed(whole.path(), name, line, "UNUSED", "");
    assert_eq!(ran.code, Some(0), "{}", ran.everything());
    let after = tree(whole.path());
    assert!(!same(&before, &after), "the command changes nothing");
    for number in 1.. {
        let folder = copy(fixture);
        let ran = typed(
            folder.path(),
            name,
            line,
            "OUTHAUL_INTERRUPT",
            &number.to_string(),
        );
        if ran.code == Some(0) {
            return number - 1;
        }
        assert_eq!(
            ran.code,
            Some(130),
            "instant {number}: {}",
            ran.everything()
        );
        assert!(
            ran.stderr.contains("nothing half-written is left"),
            "{}",
            ran.everything()
        );
        let left = tree(folder.path());
        let is_new = |path: &&PathBuf| {
            let is_bundle = path.extension().is_some_and(|ending| ending == "outhaul");
            is_bundle && !path.starts_with("fleet") && !before.contains_key(*path)
        };
        for made in left.keys().filter(is_new) {
            let said = format!("{}`", made.display());
            assert!(
                ran.stderr.contains("finished before, and stays: ") && ran.stderr.contains(&said),
                "instant {number}: {}: {}",
                made.display(),
                ran.everything()
            );
        }
        let difference = |one: &Tree, other: &Tree| {
            let only = one.keys().filter(|path| !other.contains_key(*path));
            only.cloned().collect::<Vec<_>>()
        };
        assert!(
            same(&left, &before) || same(&left, &after),
            "instant {number} leaves {:#?}\nwithout {:#?}",
            difference(&left, &before),
            difference(&before, &left)
        );
        // Whatever it was, the next run does it all, or says that it is done.
        let expected = if same(&left, &after) { again } else { 0 };
        let ran = typed(folder.path(), name, line, "UNUSED", "");
        assert_eq!(
            ran.code,
            Some(expected),
            "after instant {number}: {}",
            ran.everything()
        );
    }
    0
}

#[test]
fn a_render_that_is_interrupted_leaves_nothing_behind() {
    let fixture = fixture();
    let line = "render --environment dev --control-plane control-plane --out rendered";
    let first = at_every_instant(&fixture, line, |a, b| {
        without_memory(a) == without_memory(b)
    });
    assert!(first >= 3, "{first} instants");
    // The same over an output that is there already.
    fixture.run("outhaul", 0, &line.split(' ').collect::<Vec<_>>());
    fixture.on_branch("control-plane", "main", |folder| {
        let path = folder.join("configs/common.yaml");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(path, text.replace("Hello", "Good morning")).unwrap();
    });
    let promote = ["promote", "--control-plane", "control-plane", "--to", "dev"];
    fixture.run("outhaul", 0, &promote);
    let again = at_every_instant(&fixture, line, |a, b| {
        without_memory(a) == without_memory(b)
    });
    assert!(again >= 3, "{again} instants");
}

/// What only saves work the next time may be of either run.
fn without_memory(tree: &Tree) -> Tree {
    let mut tree = tree.clone();
    tree.retain(|path, _| !path.to_string_lossy().contains(".outhaul.memory"));
    tree
}

/// The names of streams and keys differ on each run.
fn without_ids(path: &Path) -> String {
    let path = path.to_string_lossy();
    let parts = path.split_inclusive(['-', '.', '/']);
    let shown = parts.map(|part| {
        let id = part.trim_end_matches(['-', '.', '/']);
        let is_id = id.len() >= 12 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_id {
            "…".to_owned()
        } else {
            part.to_owned()
        }
    });
    shown.collect()
}

#[test]
fn a_bundle_that_is_interrupted_leaves_nothing_behind() {
    let fixture = fixture();
    let line = "bundle --environment dev --control-plane control-plane --fleet fleet \
                --passphrase-file passphrase --out stick";
    let instants = at_every_instant(&fixture, line, |a, b| names(a) == names(b));
    assert!(instants >= 5, "{instants} instants");
}

/// Keys and signatures differ on each run: what counts is which files are there.
fn names(tree: &Tree) -> Vec<String> {
    tree.keys().map(|path| without_ids(path)).collect()
}

#[test]
fn a_ceremony_that_is_interrupted_is_made_whole_or_not_at_all() {
    let fixture = fixture();
    let same = |a: &Tree, b: &Tree| names(a) == names(b);
    for (line, again, least) in [
        (
            "--passphrase-file passphrase init other --root-keys 2",
            2,
            3,
        ),
        ("--passphrase-file passphrase key cosigner", 2, 1),
        ("--passphrase-file passphrase rotate fleet online", 0, 3),
    ] {
        let instants = of_program(&fixture, "outhaul-signer", line, again, same);
        assert!(instants >= least, "{line}: {instants} instants");
    }
}

#[test]
fn a_hub_that_is_interrupted_while_it_is_made_is_made_by_the_next_run() {
    let fixture = fixture();
    let line = "--state other init --root fleet/metadata/1.root.json --plain-key test";
    let instants = (1..1000)
        .take_while(|number| {
            let folder = copy(&fixture);
            let number = number.to_string();
            let ran = typed(
                folder.path(),
                "outhaul-hub",
                line,
                "OUTHAUL_INTERRUPT",
                &number,
            );
            if ran.code == Some(0) {
                return false;
            }
            assert_eq!(ran.code, Some(130), "{}", ran.everything());
            let temporary = |path: &PathBuf| path.to_string_lossy().contains(".tmp");
            let left = tree(folder.path());
            assert!(!left.keys().any(temporary), "{:?}", left.keys());
            let ran = typed(folder.path(), "outhaul-hub", line, "UNUSED", "");
            assert_eq!(ran.code, Some(0), "{}", ran.everything());
            true
        })
        .count();
    assert!(instants >= 1, "no instant");
}

#[test]
fn an_import_that_is_interrupted_leaves_nothing_or_goes_on_from_there() {
    let fixture = fixture();
    fixture.bundle("dev");
    let import = "--state sites/edge-1 import stick";
    let whole = copy(&fixture);
    assert_eq!(
        typed(whole.path(), "outhaul-agent", import, "UNUSED", "").code,
        Some(0)
    );
    let applied = tree(&whole.path().join("sites/edge-1/applied"));
    let before = tree(&fixture.path("sites/edge-1"));
    let lasting = |tree: &Tree| -> Vec<PathBuf> {
        let names = tree
            .keys()
            .filter(|path| !path.to_string_lossy().contains("agent.db"));
        names.cloned().collect()
    };
    for instant in [
        "verified-committed",
        "blob-written",
        "blobs-complete",
        "generation-renamed",
        "staged-committed",
        "applying-committed",
        "file-written",
        "soaking-committed",
        "active-committed",
    ] {
        let folder = copy(&fixture);
        let value = format!("interrupt-{instant}");
        let ran = typed(
            folder.path(),
            "outhaul-agent",
            import,
            "OUTHAUL_CUT",
            &value,
        );
        assert!(
            matches!(ran.code, Some(0 | 130)),
            "{instant}: {}",
            ran.everything()
        );
        assert!(
            ran.stderr.contains("interrupted: "),
            "{instant}: {}",
            ran.everything()
        );
        let left = tree(&folder.path().join("sites/edge-1"));
        if matches!(instant, "verified-committed" | "blob-written") {
            assert_eq!(ran.code, Some(130), "{instant}: {}", ran.everything());
            assert_eq!(lasting(&left), lasting(&before), "{instant}");
        }
        let temporary = left
            .keys()
            .find(|path| path.to_string_lossy().contains(".tmp"));
        assert_eq!(temporary, None, "{instant}");
        // No lock is left, and the same command comes to the same end.
        let ran = typed(folder.path(), "outhaul-agent", import, "UNUSED", "");
        assert_eq!(ran.code, Some(0), "{instant}: {}", ran.everything());
        assert_eq!(
            tree(&folder.path().join("sites/edge-1/applied")),
            applied,
            "{instant}"
        );
    }
}
