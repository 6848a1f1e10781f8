//! What the centre lost or cannot reach: its copy of a bundle, a server with payloads.
//!
//! What comes in: a fleet that shipped a bundle, and then a loss. What must come out: a bundle for the
//! second stick all the same, with the reason, or a word about what is not shipped; never silence, and
//! never a site that loses what it runs because a server was down.

use std::fs;
use std::path::PathBuf;

use super::isolation::BREAKS;
use super::kept::{Fleet, of};
use super::repositories::{commit, git};

/// The fleet's own copies of bundles, that of the last one last.
fn copies(fleet: &Fleet) -> Vec<PathBuf> {
    let entries = fs::read_dir(fleet.path("fleet/bundles")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|ending| ending == "outhaul"))
        .collect();
    paths.sort();
    paths
}

#[test]
fn a_lost_copy_of_the_last_bundle_is_made_anew_under_a_new_number_and_said() {
    let fleet = Fleet::new();
    let seen = fleet.bundle(&[]);
    assert!(seen.starts_with("exit code 0"), "{seen}");
    let record = |fleet: &Fleet| {
        let own = copies(fleet).pop().unwrap();
        own.with_file_name(
            own.file_name()
                .unwrap()
                .to_str()
                .unwrap()
                .replace(".1.outhaul", ".json"),
        )
    };
    // While the first stick is there, its bundle becomes the copy again.
    fs::remove_file(copies(&fleet).pop().unwrap()).unwrap();
    let seen = fleet.bundle(&[]);
    assert!(seen.contains("unchanged, number 1 is current"), "{seen}");
    assert_eq!(copies(&fleet).len(), 1);
    // The same without any record of it, as fleets of earlier versions are.
    fs::remove_file(record(&fleet)).unwrap();
    fs::remove_file(copies(&fleet).pop().unwrap()).unwrap();
    let seen = fleet.bundle(&[]);
    assert!(seen.contains("unchanged, number 1 is current"), "{seen}");
    assert_eq!(copies(&fleet).len(), 1);

    // The stick is on its way, and the copy is gone.
    fs::rename(fleet.path("out"), fleet.path("travels")).unwrap();
    fs::remove_file(copies(&fleet).pop().unwrap()).unwrap();
    let seen = fleet.bundle(&[]);
    assert!(seen.starts_with("exit code 0"), "{seen}");
    assert!(
        seen.contains("nothing changed, but the fleet's copy of number 1 (`fleet/bundles/"),
        "{seen}"
    );
    assert!(
        seen.contains("is gone") && seen.contains("number 2 is made in its place"),
        "{seen}"
    );
    assert!(fleet.path("out/dev-drone-2.outhaul").is_file());
    // So is one that was changed.
    fs::rename(fleet.path("out"), fleet.path("travels-too")).unwrap();
    fs::write(copies(&fleet).pop().unwrap(), "not it").unwrap();
    let seen = fleet.bundle(&[]);
    assert!(
        seen.contains("was changed") && seen.contains("number 3"),
        "{seen}"
    );
    assert!(fleet.path("out/dev-drone-3.outhaul").is_file());
    // What is removed is known by the record, which the fleet signed.
    fs::write(copies(&fleet).pop().unwrap(), "not it").unwrap();
    fleet.second_version();
    let seen = fleet.bundle(&[]);
    assert!(seen.starts_with("exit code 0"), "{seen}");
    assert!(fleet.path("out/dev-drone-4.outhaul").is_file());
}

#[test]
fn a_second_folder_for_sites_that_pull_is_filled_when_nothing_changed() {
    let fleet = Fleet::new();
    fleet.bundle(&["--publish", "web"]);
    let seen = fleet.bundle(&["--publish", "second"]);
    assert!(seen.contains("unchanged"), "{seen}");
    let listed = |folder: &str| outhaul_test_kit::folder::files(&fleet.path(folder));
    assert_eq!(listed("web"), listed("second"));
    assert!(!listed("web").is_empty());
}

/// A server that does not answer, as the URL of the payloads.
const SERVER: &str = "http://127.0.0.1:9/manifests";

/// A fleet whose payloads are on a server, and were shipped when it answered.
fn shipped(more: &[&str]) -> Fleet {
    let fleet = Fleet::new();
    for file in ["app/workload.yaml", "app/wave.yaml"] {
        fleet
            .fixture
            .edit(file, "https://git.example.org/manifests", SERVER);
    }
    let source = format!("{SERVER}=manifests");
    let seen = fleet.bundle(&[&["--source", &source], more].concat());
    assert!(seen.starts_with("exit code 0"), "{seen}");
    fleet
}

#[test]
fn payloads_that_cannot_be_reached_now_are_shipped_again_from_the_last_bundle() {
    let fleet = shipped(&[]);
    let first = fleet.last();
    // `wave` moves on and is reached; what is broken is kept, and its server is down.
    git(
        &fleet.path("manifests"),
        &["clone", "--quiet", ".", "../waves"],
    );
    fleet
        .fixture
        .edit("app/wave.yaml", SERVER, "https://git.example.org/waves");
    fleet.fixture.edit(
        "main/templates.yaml",
        "repository: {{ .Manifests.repo }}",
        BREAKS,
    );
    let reached = [
        "--source",
        "https://git.example.org/waves=waves",
        "--allow-host",
        "127.0.0.1:9",
    ];
    fleet.fixture.write("waves/here/app.yaml", "version: 2\n");
    commit(&fleet.path("waves"), "second");
    let seen = fleet.bundle(&reached);
    assert!(seen.starts_with("exit code 1"), "{seen}");
    assert!(
        seen.contains("dev/drone: number 2, 5 assignments"),
        "{seen}"
    );
    assert!(
        seen.contains("kept: drone/hello-test stays as snapshot"),
        "{seen}"
    );
    let second = fleet.last();
    assert_eq!(of(&second, "hello-test"), of(&first, "hello-test"));
    // Its payload is in the bundle, byte for byte.
    let files = fleet
        .fixture
        .run(&["verify", "out/dev-drone-2.outhaul", "--fleet", "fleet"]);
    assert!(files.contains("whole, signatures hold"), "{files}");
    let again = fleet.bundle(&reached);
    assert!(again.contains("unchanged, number 2 is current"), "{again}");

    // Without the last bundle the stream waits, and nothing is taken from a site.
    fs::rename(fleet.path("out"), fleet.path("travels")).unwrap();
    fs::remove_file(copies(&fleet).pop().unwrap()).unwrap();
    let seen = fleet.bundle(&reached);
    assert!(seen.starts_with("exit code 1"), "{seen}");
    assert!(
        seen.contains("left out: drone/hello-test: its sites keep it"),
        "{seen}"
    );
    assert!(
        seen.contains("left out: drone/wave-0: no bundle of this stream is made now"),
        "{seen}"
    );
    assert!(!seen.contains("everything else was written"), "{seen}");
    assert!(!fleet.path("out/dev-drone-3.outhaul").exists());
    assert_eq!(fleet.last(), second);
}

#[test]
fn check_says_which_payloads_it_did_not_look_at_and_with_network_that_is_an_error() {
    let fleet = Fleet::new();
    fleet
        .fixture
        .edit("app/wave.yaml", "https://git.example.org/manifests", SERVER);
    let check = |more: &[&str]| {
        let command = ["check", "--allow-host", "127.0.0.1:9", "--source"];
        let source = ["https://git.example.org/manifests=manifests"];
        fleet.fixture.run(&[&command[..], &source, more].concat())
    };
    let seen = check(&[]);
    assert!(seen.starts_with("exit code 0"), "{seen}");
    assert!(
        seen.contains(&format!(
            "dev: not checked: `{SERVER}`, which cannot be reached now"
        )),
        "{seen}"
    );
    let seen = check(&["--network"]);
    assert!(seen.starts_with("exit code 3"), "{seen}");
    assert!(seen.contains("error[not-collected]"), "{seen}");
    assert!(!seen.contains("not looked at"), "{seen}");
}

#[test]
fn what_a_round_of_the_service_made_and_somebody_removed_is_there_again_after_the_next() {
    let centre = super::serve::Centre::new();
    let (code, said) = centre.once();
    assert_eq!(code, 0, "{said}");
    let file = "bundles/dev-drone-1.outhaul";
    let before = std::fs::read(centre.path(file)).unwrap();
    for folder in ["bundles", "published", "fleet/bundles"] {
        std::fs::remove_dir_all(centre.path(folder)).unwrap();
        let (code, said) = centre.once();
        assert!(said.contains("dev: snapshot"), "{folder}: {said}");
        assert!(said.contains("drone: "), "{folder}: {said}");
        assert_eq!(code, 0, "{folder}: {said}");
        assert!(
            centre.path(folder).read_dir().unwrap().next().is_some(),
            "{folder}"
        );
        assert_eq!(
            std::fs::read(centre.path(file)).unwrap(),
            before,
            "{folder}"
        );
        let (_, said) = centre.once();
        assert_eq!(said.lines().count(), 2, "{folder}: {said}");
    }
}
