//! Bundles with a broken assignment: it is shipped as it was, with its payload as it was.
//!
//! What comes in: a fleet with one stream, a git repository with the payloads, and mistakes. What must
//! come out: bundles that hold the broken assignment as it last was and say so, and none at all that
//! would take too much away.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use outhaul_tests::Checked as _;
use serde_json::Value;

use super::cli::PlaneFixture;
use super::isolation::{BREAKS, fixture, without_digests};
use super::repositories::{commit, git};
use super::scheduling::scheduler;

/// What a record of the stream says of one assignment, with the snapshot that it is `from`.
pub fn of(last: &Value, name: &str) -> Value {
    let name = &format!("drone/{name}");
    let mut found = last["stream"]["assignments"][name].clone();
    assert!(found.is_object(), "{last}");
    let kept = last["kept"].get(name);
    let from = kept.map_or(&last["snapshot"]["digest"], |kept| &kept["from"]);
    assert!(from.is_string(), "{last}");
    found["from"] = from.clone();
    found
}

pub struct Fleet {
    pub fixture: PlaneFixture,
}

impl Fleet {
    pub fn new() -> Self {
        let fixture = fixture();
        fixture.write("passphrase", "correct horse battery staple");
        fixture.write("manifests/here/app.yaml", "version: 1\n");
        let fleet = Self { fixture };
        let private = fs::Permissions::from_mode(0o600);
        fs::set_permissions(fleet.path("passphrase"), private).unwrap();
        git(&fleet.path("manifests"), &["init", "--quiet"]);
        commit(&fleet.path("manifests"), "first");
        let made = std::process::Command::new(env!("CARGO_BIN_EXE_outhaul"))
            .args([
                "key",
                "init",
                "--fleet",
                "fleet",
                "--passphrase-file",
                "passphrase",
            ])
            .current_dir(fleet.fixture.folder.path())
            .checked()
            .unwrap();
        let said = String::from_utf8_lossy(&made.stderr);
        assert!(made.status.success(), "{said}");
        fleet
    }

    pub fn path(&self, path: &str) -> std::path::PathBuf {
        self.fixture.folder.path().join(path)
    }

    pub fn bundle(&self, more: &[&str]) -> String {
        self.bundle_to("out", more)
    }

    pub fn bundle_to(&self, out: &str, more: &[&str]) -> String {
        let mut command = vec![
            "bundle",
            "--fleet",
            "fleet",
            "--passphrase-file",
            "passphrase",
        ];
        command.extend(["--out", out, "--source"]);
        command.extend(["https://git.example.org/manifests=manifests"]);
        command.extend(more);
        self.fixture.run(&command)
    }

    fn verify(&self, number: u64) -> (String, Value) {
        let file = format!("out/dev-drone-{number}.outhaul");
        let mut command = vec![
            "verify",
            &file,
            "--fleet",
            "fleet",
            "--snapshot",
            "--source",
        ];
        command.push("https://git.example.org/manifests=manifests");
        let text = self.fixture.run(&command);
        command.extend(["--output", "json"]);
        let seen = self.fixture.run(&command);
        let json = seen.split_once("--- stdout\n").unwrap().1;
        let json = json.split("--- stderr").next().unwrap();
        (text, outhaul_tests::result(json))
    }

    /// What the stream's newest bundle ships, as the fleet remembers it.
    pub fn last(&self) -> Value {
        serde_json::from_slice(&fs::read(self.record()).unwrap()).unwrap()
    }

    /// Where it does; beside it is the one of before.
    pub fn record(&self) -> std::path::PathBuf {
        let files = fs::read_dir(self.path("fleet/rendered")).unwrap();
        let mut files = files.map(|entry| entry.unwrap().path());
        let is_last = |path: &std::path::PathBuf| !path.to_string_lossy().ends_with("before.json");
        files.find(is_last).unwrap()
    }

    /// The team's next version.
    pub fn second_version(&self) {
        let file = "manifests/here/app.yaml";
        self.fixture.write(file, "version: 2\n");
        commit(&self.path("manifests"), "second");
    }

    pub fn break_hello(&self) {
        let good = "repository: {{ .Manifests.repo }}";
        self.fixture.edit("main/templates.yaml", good, BREAKS);
    }

    /// Takes that back.
    pub fn mend_hello(&self) {
        let good = "repository: {{ .Manifests.repo }}";
        self.fixture.edit("main/templates.yaml", BREAKS, good);
    }
}

#[test]
fn a_broken_assignment_is_shipped_as_it_was_with_its_payload() {
    let fleet = Fleet::new();
    let seen = fleet.bundle(&[]);
    assert!(seen.starts_with("exit code 0"), "{seen}");
    let first = fleet.last();
    fleet.break_hello();
    fleet.second_version();
    let seen = fleet.bundle(&[]);
    assert!(seen.starts_with("exit code 1"), "{seen}");
    assert!(
        seen.contains("dev/drone: number 2, 5 assignments"),
        "{seen}"
    );
    assert!(
        seen.contains("kept: drone/hello-test stays as snapshot"),
        "{seen}"
    );
    assert!(seen.contains("map has no entry for key \"path\""), "{seen}");

    let second = fleet.last();
    assert_eq!(of(&second, "hello-test"), of(&first, "hello-test"));
    let wave = "wave-0";
    let commit_of = |last: &Value, name: &str| of(last, name)["payload_commit"].clone();
    assert_ne!(commit_of(&second, wave), commit_of(&first, wave));
    assert_ne!(commit_of(&second, wave), commit_of(&second, "hello-test"));

    let (text, json) = fleet.verify(2);
    insta::assert_snapshot!(without_digests(&text));
    let from = &first["snapshot"]["digest"];
    assert_eq!(&json["kept"]["hello-test"], from);
    assert_eq!(&second["kept"]["drone/hello-test"]["from"], from);
    assert_eq!(json["equal"], true);

    // Nothing new: no number is used, and it is still told.
    let seen = fleet.bundle(&[]);
    assert!(seen.starts_with("exit code 1"), "{seen}");
    assert!(seen.contains("unchanged, number 2 is current"), "{seen}");
    assert!(seen.contains("kept: drone/hello-test"), "{seen}");
    assert_eq!(fleet.last(), second);
}

#[test]
fn strict_makes_no_bundle_when_anything_is_broken() {
    let fleet = Fleet::new();
    fleet.bundle(&[]);
    fleet.break_hello();
    let seen = fleet.bundle(&["--strict"]);
    assert!(seen.starts_with("exit code 1"), "{seen}");
    assert!(!fleet.path("out/dev-drone-2.outhaul").exists());
}

#[test]
fn what_never_was_shipped_is_left_out_and_a_stream_of_nothing_else_has_no_bundle() {
    let fleet = Fleet::new();
    fleet.break_hello();
    let seen = fleet.bundle(&[]);
    assert!(
        seen.contains("dev/drone: number 1, 4 assignments"),
        "{seen}"
    );
    assert!(
        seen.contains("left out: drone/hello-test: it has no last good output"),
        "{seen}"
    );

    let fleet = Fleet::new();
    fleet.break_hello();
    fs::remove_file(fleet.path("app/wave.yaml")).unwrap();
    let seen = fleet.bundle(&[]);
    assert!(seen.starts_with("exit code 1"), "{seen}");
    assert!(!Path::new(&fleet.path("out")).exists(), "{seen}");
}

#[test]
fn a_payload_that_is_gone_cannot_be_kept() {
    let fleet = Fleet::new();
    fleet.bundle(&[]);
    fleet.break_hello();
    fs::remove_dir_all(fleet.path("manifests/.git")).unwrap();
    git(&fleet.path("manifests"), &["init", "--quiet"]);
    fleet
        .fixture
        .write("manifests/here/app.yaml", "version: 3\n");
    commit(&fleet.path("manifests"), "another history");
    let seen = fleet.bundle(&[]);
    let said =
        "left out: drone/hello-test: the payload of its last good output is not available any more";
    assert!(seen.contains(said), "{seen}");
}

#[test]
fn a_bundle_that_takes_too_much_away_is_not_made() {
    let fleet = Fleet::new();
    fleet.bundle(&[]);
    let before = fleet.last();
    fs::remove_file(fleet.path("app/wave.yaml")).unwrap();
    let seen = fleet.bundle(&[]);
    assert!(seen.starts_with("exit code 1"), "{seen}");
    let said = "error: stream `dev/drone`: 4 of 5 assignments would be removed (80 %)";
    assert!(seen.contains(said), "{seen}");
    assert!(!fleet.path("out/dev-drone-2.outhaul").exists());
    assert_eq!(fleet.last(), before);
    let object: Vec<&str> = seen
        .lines()
        .filter_map(|line| line.strip_prefix("        "))
        .collect();
    fleet
        .fixture
        .write("dev/acknowledgement.yaml", &object.join("\n"));
    let seen = fleet.bundle(&[]);
    assert!(seen.contains("dev/drone: number 2, 1 assignment"), "{seen}");
}

#[test]
fn a_delivery_policy_says_how_much_a_bundle_may_take_away() {
    let fleet = Fleet::new();
    let policy = |percent: u8| {
        fleet.fixture.write(
            "dev/delivery.yaml",
            &format!(
                "apiVersion: outhaul.dev/v1alpha1\nkind: DeliveryPolicy\nmetadata: {{name: careful}}\nspec: \
                 {{clusterTypeSelector: {{labelSelector: {{}}}}, maxRemovalPercent: {percent}}}\n"
            ),
        );
    };
    policy(10);
    let seen = fleet.bundle(&[]);
    assert!(seen.starts_with("exit code 0"), "{seen}");
    let before = fleet.last();
    fleet.fixture.edit(
        "app/wave.yaml",
        "name: \"3\"\n      environment: dev",
        "name: \"3\"\n      environment: other",
    );
    let seen = fleet.bundle(&[]);
    assert!(seen.starts_with("exit code 1"), "{seen}");
    let said = "1 of 5 assignments would be removed (20 %), which exceeds the 10 % removal limit";
    assert!(seen.contains(said), "{seen}");
    assert!(seen.contains("drone/wave-3"), "{seen}");
    assert!(!fleet.path("out/dev-drone-2.outhaul").exists());
    assert_eq!(fleet.last(), before);
    policy(20);
    let seen = fleet.bundle(&[]);
    assert!(
        seen.contains("dev/drone: number 2, 4 assignments"),
        "{seen}"
    );
}

#[test]
fn what_a_failing_scheduler_placed_is_shipped_as_it_was() {
    let fleet = Fleet::new();
    // `wave-3` is placed by a program alone.
    fleet.fixture.edit(
        "app/wave.yaml",
        "name: \"3\"\n      environment: dev\n      labels:\n        purpose: test",
        "name: \"3\"\n      environment: dev\n      labels:\n        purpose: picked",
    );
    fleet.fixture.write(
        "dev/picked.yaml",
        "apiVersion: outhaul.dev/v1alpha1\nkind: SchedulingPolicy\nmetadata: {name: picked}\nspec:\n  \
         deploymentTargetSelector: {labelSelector: {matchLabels: {purpose: picked}}}\n  \
         clusterTypeSelector: {labelSelector: {}}\n  scheduler: picker\n",
    );
    let says =
        r#"{"assignments": [{"target": "wave-3", "clusterType": "drone", "reason": "there"}]}"#;
    let good = scheduler(
        fleet.fixture.folder.path(),
        &format!("cat >/dev/null; echo '{says}'"),
    );
    let by = |program: &Path| format!("picker={}", program.display());
    let seen = fleet.bundle(&["--scheduler", &by(&good)]);
    assert!(
        seen.contains("dev/drone: number 1, 5 assignments"),
        "{seen}"
    );
    let first = fleet.last();
    let broken = scheduler(
        fleet.fixture.folder.path(),
        "echo 'licence expired' >&2; exit 3",
    );
    fleet
        .fixture
        .edit("main/templates.yaml", "repository: ", "url: ");
    let seen = fleet.bundle(&["--scheduler", &by(&broken)]);
    assert!(seen.starts_with("exit code 1"), "{seen}");
    assert!(
        seen.contains("dev/drone: number 2, 5 assignments"),
        "{seen}"
    );
    assert!(seen.contains("licence expired"), "{seen}");
    assert!(seen.contains("kept: drone/wave-3 stays"), "{seen}");
    let second = fleet.last();
    assert_eq!(of(&second, "wave-3"), of(&first, "wave-3"));
    assert_ne!(of(&second, "wave-2"), of(&first, "wave-2"));
}

#[test]
fn two_commands_never_make_bundles_of_one_fleet_at_once() {
    let fleet = Fleet::new();
    let seen = fleet.bundle(&[]);
    assert!(seen.starts_with("exit code 0"), "{seen}");
    fleet.second_version();
    let held = fs::File::open(fleet.path("fleet")).unwrap();
    held.try_lock().unwrap();
    let refused = fleet.bundle(&[]);
    assert!(refused.starts_with("exit code 3"), "{refused}");
    for words in [
        "another `outhaul bundle` or `outhaul serve` makes bundles of the fleet `fleet` now",
        "help: nothing was changed; give the command again when that has ended",
    ] {
        assert!(refused.contains(words), "{refused}");
    }
    assert!(!fleet.path("out/dev-drone-2.outhaul").exists());
    drop(held);
    let seen = fleet.bundle(&[]);
    assert!(seen.starts_with("exit code 0"), "{seen}");
    assert!(fleet.path("out/dev-drone-2.outhaul").exists());
}

#[test]
fn a_bundle_that_does_not_get_on_record_is_on_no_stick() {
    let fleet = Fleet::new();
    let seen = fleet.bundle(&[]);
    assert!(seen.starts_with("exit code 0"), "{seen}");
    let first = fleet.last();
    fleet.second_version();
    // Where the next metadata goes, a folder is in the way.
    let snapshots = fs::read_dir(fleet.path("fleet/metadata")).unwrap();
    let names = snapshots.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let numbers = names.filter_map(|name| name.strip_suffix(".snapshot.json")?.parse::<u64>().ok());
    let next = numbers.max().unwrap() + 1;
    // A version that was signed is used up.
    let in_the_way =
        [next, next + 1].map(|next| fleet.path(&format!("fleet/metadata/{next}.snapshot.json")));
    let blocked = || {
        for path in &in_the_way {
            fs::create_dir_all(path.join("in")).unwrap();
        }
    };
    let free = || {
        for path in &in_the_way {
            fs::remove_dir_all(path).unwrap();
        }
    };
    blocked();
    let refused = fleet.bundle(&[]);
    assert!(!refused.starts_with("exit code 0"), "{refused}");
    let bundles = |folder: &str| {
        let entries = fs::read_dir(fleet.path(folder)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| name.ends_with(".outhaul")).collect();
        names.sort();
        names
    };
    assert_eq!(bundles("out"), ["dev-drone-1.outhaul"], "{refused}");
    assert_eq!(bundles("fleet/bundles").len(), 1, "{refused}");
    free();
    // The record of the bundle that is not on record counts for nothing: what stays is what the first one has.
    let unsigned = fleet.last();
    assert_ne!(of(&unsigned, "hello-test"), of(&first, "hello-test"));
    // Also when it is cut off once more, with another content.
    blocked();
    fleet
        .fixture
        .write("manifests/here/app.yaml", "version: 3\n");
    commit(&fleet.path("manifests"), "third");
    let refused = fleet.bundle(&[]);
    assert!(!refused.starts_with("exit code 0"), "{refused}");
    free();
    assert_ne!(of(&fleet.last(), "hello-test"), of(&unsigned, "hello-test"));
    fleet.break_hello();
    let seen = fleet.bundle(&[]);
    assert!(seen.contains("kept: drone/hello-test stays as"), "{seen}");
    assert_eq!(bundles("out").len(), 2, "{seen}");
    assert_eq!(of(&fleet.last(), "hello-test"), of(&first, "hello-test"));
    fleet.mend_hello();
    let seen = fleet.bundle(&[]);
    assert!(seen.starts_with("exit code 0"), "{seen}");
    assert_eq!(bundles("out").len(), 3, "{seen}");
}

#[test]
fn strict_makes_no_bundle_when_a_payload_cannot_be_collected() {
    let fleet = Fleet::new();
    fleet.bundle(&[]);
    fs::remove_dir_all(fleet.path("manifests/here")).unwrap();
    commit(&fleet.path("manifests"), "gone");
    let seen = fleet.bundle(&["--strict"]);
    assert!(seen.starts_with("exit code 1"), "{seen}");
    assert!(seen.contains("`--strict`: nothing was written"), "{seen}");
    assert!(!fleet.path("out/dev-drone-2.outhaul").exists());
    let seen = fleet.bundle(&[]);
    assert!(seen.contains("kept: drone/hello-test stays"), "{seen}");
}

#[test]
fn a_manifest_that_hides_its_image_is_the_failure_of_its_assignment_where_images_travel() {
    let fleet = Fleet::new();
    let policy = |images: &str| {
        let policy = format!(
            "apiVersion: outhaul.dev/v1alpha1\nkind: DeliveryPolicy\nmetadata: {{name: all}}\nspec: \
             {{clusterTypeSelector: {{labelSelector: {{}}}}, delivery: bundle, images: {images}}}\n"
        );
        fleet.fixture.write("dev/delivery.yaml", &policy);
    };
    policy("carry");
    let seen = fleet.bundle(&[]);
    assert!(seen.starts_with("exit code 0"), "{seen}");
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, image: evil.example/a}]}\n";
    fleet
        .fixture
        .write("manifests/here/pod.yaml", &format!("{pod}---\nfoo: [\n"));
    commit(&fleet.path("manifests"), "hidden");
    let source = "https://git.example.org/manifests=manifests";
    let seen = fleet.bundle(&[]);
    assert!(seen.starts_with("exit code 1"), "{seen}");
    assert!(seen.contains("error[manifest-not-read]"), "{seen}");
    assert!(seen.contains("here/pod.yaml:6:"), "{seen}");
    assert!(seen.contains("kept: drone/wave-0"), "{seen}");
    let check = || fleet.fixture.run(&["check", "--source", source]);
    assert!(check().contains("error[manifest-not-read]"), "{}", check());
    policy("reference");
    assert!(
        check().contains("warning[manifest-not-read]"),
        "{}",
        check()
    );
    let seen = fleet.bundle(&[]);
    assert!(seen.starts_with("exit code 0"), "{seen}");
    assert!(seen.contains("warning[manifest-not-read]"), "{seen}");
}

#[test]
fn a_site_of_a_cluster_type_that_is_not_there_is_named_when_the_bundle_is_made() {
    let fleet = Fleet::new();
    let site = "apiVersion: outhaul.dev/v1alpha1\nkind: Site\nmetadata: {name: hangar-1}\nspec: {clusterType: dron}\n";
    fleet.fixture.write("dev/site.yaml", site);
    let seen = fleet.bundle(&[]);
    assert!(seen.starts_with("exit code 0"), "{seen}");
    let words = "warning[unknown-cluster-type]: site `hangar-1` is of cluster type `dron`, which does not exist";
    assert!(seen.contains(words), "{seen}");
    assert!(seen.contains("did you mean `drone`?"), "{seen}");
}
