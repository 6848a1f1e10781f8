//! `outhaul render --out .`, by someone who stands in the folder.
//!
//! What comes in: a working folder with files of its owner. What must come out: the rendered folders in
//! it, everything else as it was, and the working folder itself still the one that the shell stands in.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::process::Command;

use outhaul_tests::Checked as _;

use super::cli::PlaneFixture;

/// Renders from within `here`.
fn render(fixture: &PlaneFixture, to: &str) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_outhaul"))
        .args(["render", "--environment", "dev", "--env-dir", "../dev"])
        .args(["--base-dir", "../main", "--cache", "../cache", "--out", to])
        .args(["--source", "https://git.example.org/app=../app"])
        .current_dir(fixture.folder.path().join("here"))
        .checked()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), text)
}

#[test]
fn rendering_into_the_folder_that_one_stands_in_leaves_it_and_what_is_its_owners() {
    let fixture = PlaneFixture::new();
    fixture.write("here/notes.txt", "mine");
    fixture.write("here/.git/config", "[core]\n");
    fixture.write("here/drone/by-hand.yaml", "mine, too");
    let here = fixture.folder.path().join("here");
    let folder = || fs::metadata(&here).unwrap().ino();
    let before = folder();
    let (code, said) = render(&fixture, ".");
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(
        folder(),
        before,
        "the shell stands in a folder that is gone"
    );
    assert!(here.join("drone/hello-test/namespace.yaml").is_file());
    let text = |path: &str| fs::read_to_string(here.join(path)).unwrap();
    assert_eq!(text("notes.txt"), "mine");
    assert_eq!(text(".git/config"), "[core]\n");
    assert_eq!(text("drone/by-hand.yaml"), "mine, too");

    // A change, and a cluster type that goes: its empty folder goes with it.
    let drone = fs::read_to_string(fixture.folder.path().join("dev/types.yaml")).unwrap();
    fixture.write(
        "dev/other.yaml",
        &drone.replace("name: drone", "name: kite"),
    );
    let (code, said) = render(&fixture, ".");
    assert_eq!(code, Some(0), "{said}");
    assert!(here.join("kite/hello-test/namespace.yaml").is_file());
    fixture.write(
        "dev/other.yaml",
        &drone.replace("name: drone", "name: heron"),
    );
    fixture.edit("dev/config.yaml", "East US", "Far East");
    // One of two assignments goes, which is meant.
    fixture.write(
        "dev/delivery.yaml",
        "apiVersion: outhaul.dev/v1alpha1\nkind: DeliveryPolicy\nmetadata:\n  name: all\nspec:\n  \
         clusterTypeSelector:\n    labelSelector: {}\n  maxRemovalPercent: 100\n",
    );
    let (code, said) = render(&fixture, ".");
    assert_eq!(code, Some(0), "{said}");
    assert!(!here.join("kite").exists());
    assert!(here.join("heron/hello-test/namespace.yaml").is_file());
    assert!(text("drone/hello-test/platform-config.yaml").contains("Far East"));
    assert_eq!(text("drone/by-hand.yaml"), "mine, too");
    assert_eq!(folder(), before);
}

#[test]
fn what_lies_where_a_rendered_folder_goes_is_refused_and_stays() {
    let fixture = PlaneFixture::new();
    fixture.write("here/drone", "a file of mine");
    let (code, said) = render(&fixture, ".");
    assert_eq!(code, Some(2), "{said}");
    assert!(
        said.contains("already exists, and Outhaul did not write it"),
        "{said}"
    );
    let drone = fixture.folder.path().join("here/drone");
    assert_eq!(fs::read_to_string(drone).unwrap(), "a file of mine");
    assert!(!fixture.folder.path().join("here.outhaul.json").exists());
}
