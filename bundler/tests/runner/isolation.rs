//! One broken assignment is one broken assignment, and nothing large goes unless git says so.
//!
//! What comes in: a control plane with five targets, of which some break or disappear. What must come
//! out: the sound ones as they are now, the broken ones as they were, the reasons on standard error,
//! and exit code 1.

use std::collections::BTreeMap;
use std::fs;

use outhaul_test_kit::folder::files;
use serde_json::Value;

use super::cli::PlaneFixture;

pub const BREAKS: &str = "boom: {{ .Manifests.path }}";

/// `hello-test`, and `wave-0` to `wave-3` of a second workload; `{{ .Manifests.path }}` is theirs alone.
pub fn fixture() -> PlaneFixture {
    let fixture = PlaneFixture::new();
    let mut workload = String::from(
        "apiVersion: scheduler.kalypso.io/v1alpha1\nkind: Workload\nmetadata:\n  name: wave\nspec:\n  \
         deploymentTargets:\n",
    );
    for number in 0..4 {
        workload += &format!(
            "    - name: \"{number}\"\n      environment: dev\n      labels:\n        purpose: test\n      \
             manifests:\n        repo: https://git.example.org/manifests\n        path: here\n"
        );
    }
    fixture.write("app/wave.yaml", &workload);
    fixture
}

fn tree(fixture: &PlaneFixture) -> BTreeMap<String, Vec<u8>> {
    files(&fixture.folder.path().join("out"))
}

fn record(fixture: &PlaneFixture) -> Value {
    let path = fixture.folder.path().join("out.outhaul.json");
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn render(fixture: &PlaneFixture) -> String {
    fixture.run(&["render", "--out", "out"])
}

#[test]
fn a_broken_assignment_stays_as_it_was_and_the_others_move_on() {
    let fixture = fixture();
    assert!(render(&fixture).starts_with("exit code 0"));
    let before = tree(&fixture);
    let good = record(&fixture)["snapshot"]["digest"].clone();
    // `hello-test` has no `path`; everything gets a line more.
    fixture.edit(
        "main/templates.yaml",
        "repository: {{ .Manifests.repo }}",
        BREAKS,
    );
    let seen = render(&fixture);
    insta::assert_snapshot!(without_digests(&seen));
    let after = tree(&fixture);
    let broken = "drone/hello-test/";
    for (path, bytes) in &before {
        let same = after[path] == *bytes;
        let expected = path.starts_with(broken) || !path.ends_with("reconciler.yaml");
        assert_eq!(same, expected, "{path}");
    }
    let kept = &record(&fixture)["kept"]["drone/hello-test"];
    assert_eq!(kept["from"], good);
    assert!(
        kept["error"].as_str().unwrap().contains("hello-test"),
        "{kept}"
    );

    // Another change, still broken: it is still from the first snapshot.
    fixture.edit("dev/config.yaml", "East US", "Far East");
    assert!(render(&fixture).starts_with("exit code 1"));
    assert_eq!(record(&fixture)["kept"]["drone/hello-test"]["from"], good);
    let config = "drone/hello-test/platform-config.yaml";
    assert_eq!(tree(&fixture)[config], before[config]);
    let left = tree(&fixture);
    let again = render(&fixture);
    assert!(
        again.contains("help: everything else is as it was before"),
        "{again}"
    );
    assert_eq!(tree(&fixture), left);

    // Mended: nothing is kept any more.
    fixture.edit(
        "main/templates.yaml",
        BREAKS,
        "repository: {{ .Manifests.repo }}",
    );
    assert!(render(&fixture).starts_with("exit code 0"));
    assert_eq!(record(&fixture).get("kept"), None);
    assert_ne!(tree(&fixture)[config], before[config]);
}

#[test]
fn a_broken_assignment_that_never_was_good_is_left_out() {
    let fixture = fixture();
    fixture.edit(
        "main/templates.yaml",
        "repository: {{ .Manifests.repo }}",
        BREAKS,
    );
    let seen = render(&fixture);
    assert!(seen.starts_with("exit code 1"), "{seen}");
    let said = "left out: drone/hello-test: it has no last good output";
    assert!(seen.contains(said), "{seen}");
    let names = tree(&fixture);
    assert!(names.contains_key("drone/wave-0/reconciler.yaml"));
    assert!(!names.keys().any(|path| path.contains("hello-test")));
}

#[test]
fn what_somebody_changed_is_not_a_last_good_output() {
    let fixture = fixture();
    render(&fixture);
    fixture.write("out/drone/hello-test/namespace.yaml", "mine");
    fixture.edit(
        "main/templates.yaml",
        "repository: {{ .Manifests.repo }}",
        BREAKS,
    );
    let seen = render(&fixture);
    let said = "left out: drone/hello-test: its last good file `drone/hello-test/namespace.yaml` was changed";
    assert!(seen.contains(said), "{seen}");
}

#[test]
fn strict_writes_nothing_when_anything_is_broken() {
    let fixture = fixture();
    render(&fixture);
    let before = (tree(&fixture), record(&fixture));
    fixture.edit(
        "main/templates.yaml",
        "repository: {{ .Manifests.repo }}",
        BREAKS,
    );
    let seen = fixture.run(&["render", "--out", "out", "--strict"]);
    assert!(seen.starts_with("exit code 1"), "{seen}");
    assert_eq!((tree(&fixture), record(&fixture)), before);
}

#[test]
fn a_large_removal_stops_until_git_says_that_it_is_meant() {
    let fixture = fixture();
    render(&fixture);
    let before = (tree(&fixture), record(&fixture));
    fs::remove_file(fixture.folder.path().join("app/wave.yaml")).unwrap();
    let seen = render(&fixture);
    insta::assert_snapshot!(seen);
    assert_eq!((tree(&fixture), record(&fixture)), before);

    // What was printed, committed as it is, lets it through.
    let object: Vec<&str> = seen
        .lines()
        .filter_map(|line| line.strip_prefix("        "))
        .collect();
    fixture.write("dev/acknowledgement.yaml", &object.join("\n"));
    let seen = render(&fixture);
    assert!(seen.starts_with("exit code 0"), "{seen}");
    assert!(!tree(&fixture).keys().any(|path| path.contains("wave")));

    // It does not let the next one through.
    fixture.edit("dev/policy.yaml", "purpose: test", "purpose: none");
    let seen = render(&fixture);
    assert!(
        seen.contains("1 of 1 assignments would be removed (all)"),
        "{seen}"
    );
}

#[test]
fn a_given_output_is_rendered_again_and_compared() {
    let fixture = fixture();
    let verify = |fixture: &PlaneFixture| fixture.run(&["render", "--verify", "out"]);
    let seen = verify(&fixture);
    assert!(seen.starts_with("exit code 2"), "no record: {seen}");
    render(&fixture);
    let seen = verify(&fixture);
    assert!(seen.starts_with("exit code 0"), "{seen}");
    assert!(seen.contains("equal (16 files are the same)"), "{seen}");
    fixture.write("out/drone/notes.txt", "of someone else");
    assert!(verify(&fixture).starts_with("exit code 0"));
    fixture.write("out/drone/wave-0/namespace.yaml", "mine");
    fs::remove_file(fixture.folder.path().join("out/drone/README.md")).unwrap();
    let seen = verify(&fixture);
    insta::assert_snapshot!(without_digests(&seen));

    // What was kept is named, and is what the record says or it differs.
    render(&fixture);
    fixture.edit(
        "main/templates.yaml",
        "repository: {{ .Manifests.repo }}",
        BREAKS,
    );
    render(&fixture);
    let seen = verify(&fixture);
    assert!(seen.starts_with("exit code 0"), "{seen}");
    assert!(
        seen.contains("kept: drone/hello-test is as snapshot"),
        "{seen}"
    );
    fixture.write("out/drone/hello-test/namespace.yaml", "mine");
    let seen = verify(&fixture);
    assert!(
        seen.contains("`drone/hello-test/namespace.yaml` differs"),
        "{seen}"
    );

    // A folder cannot be read as it was: that is not skipped.
    fixture.edit("dev/config.yaml", "East US", "Far East");
    let seen = verify(&fixture);
    assert!(seen.starts_with("exit code 1"), "{seen}");
    assert!(
        seen.contains("is a folder and is not what it was"),
        "{seen}"
    );
}

/// Snapshots of folders hold digests of this program's text, which change with it.
pub fn without_digests(text: &str) -> String {
    let mut out = String::new();
    for word in text.split_inclusive([' ', '\n']) {
        let bare = word.trim_end();
        let digest = bare.len() == 12 && bare.chars().all(|c| c.is_ascii_hexdigit());
        out += &if digest {
            word.replace(bare, "<digest>")
        } else {
            word.to_owned()
        };
    }
    out
}
