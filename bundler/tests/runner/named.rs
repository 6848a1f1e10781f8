//! What was lost, or could be used by no site, and was reported as success.
//!
//! What comes in: control planes and fleets of the real programs, with files and names as people write them. What
//! must come out: a word about what is not shipped or not read.

use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use super::kept::Fleet;
use super::repositories::{commit, git};
use super::silent::InitFixture;

#[test]
fn a_pointer_of_git_lfs_does_not_travel_in_the_place_of_its_file() {
    let fleet = Fleet::new();
    let pointer = "version https://git-lfs.github.com/spec/v1\noid \
                   sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n";
    fleet.fixture.write("manifests/here/model.bin", pointer);
    commit(&fleet.path("manifests"), "a model");
    let seen = fleet.bundle(&[]);
    assert!(seen.starts_with("exit code 1"), "{seen}");
    let said =
        "`wave-0`: `model.bin` is a pointer of Git LFS, and its content is not in the repository";
    assert!(
        seen.contains("error[not-collected]") && seen.contains(said),
        "{seen}"
    );
    let source = "https://git.example.org/manifests=manifests";
    let seen = fleet.fixture.run(&["check", "--source", source]);
    assert!(seen.contains(said), "{seen}");
    // The same in a plain folder.
    fs::remove_dir_all(fleet.path("manifests/.git")).unwrap();
    let seen = fleet.fixture.run(&["check", "--source", source]);
    assert!(seen.contains(said), "{seen}");
}

/// What `outhaul` prints of `input`.
fn outhaul(fleet: &Fleet, arguments: &[&str], input: &str) -> String {
    let mut child = Command::new(env!("CARGO_BIN_EXE_outhaul"))
        .args(arguments)
        .current_dir(fleet.fixture.folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{arguments:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn a_value_that_is_sealed_for_another_fleet_is_not_shipped() {
    let fleet = Fleet::new();
    let key = outhaul(&fleet, &["secret", "keygen", "--out", "k.age"], "");
    let recipient = format!("s={key}");
    let mut seal = vec![
        "secret",
        "seal",
        "--environment",
        "dev",
        "--workload",
        "hello",
        "--key",
    ];
    seal.extend([
        "REGION",
        "--recipient",
        &recipient,
        "--workload",
        "wave",
        "--fleet",
    ]);
    let foreign = outhaul(&fleet, &[&seal[..], &["0123456789abcdef"]].concat(), "x");
    fleet.fixture.edit("dev/config.yaml", "East US", &foreign);
    let seen = fleet.bundle(&[]);
    assert!(seen.starts_with("exit code 1"), "{seen}");
    let said = "error[sealed]: `REGION`: the value is sealed for fleet `0123456789abcdef`, and this is fleet `";
    assert!(
        seen.contains(said) && seen.contains("config.yaml:9"),
        "{seen}"
    );
    assert!(!fleet.path("out/dev-drone-1.outhaul").exists(), "{seen}");
    // For this one it travels, and cut off it does not.
    let own = outhaul(&fleet, &[&seal[..], &["fleet"]].concat(), "x");
    fleet.fixture.edit("dev/config.yaml", &foreign, &own);
    let seen = fleet.bundle(&[]);
    assert!(seen.starts_with("exit code 0"), "{seen}");
    fleet
        .fixture
        .edit("dev/config.yaml", &own, &own[..own.len() - 1]);
    let seen = fleet.bundle(&[]);
    assert!(seen.starts_with("exit code 1"), "{seen}");
    assert!(
        seen.contains("`REGION`: `ENC[age,` begins a sealed value that has no end"),
        "{seen}"
    );
}

#[test]
fn sites_whose_cluster_type_is_gone_are_named() {
    let fleet = Fleet::new();
    assert!(fleet.bundle(&[]).starts_with("exit code 0"));
    let mut enrol = vec![
        "site",
        "enrol",
        "press-7",
        "--fleet",
        "fleet",
        "--environment",
        "dev",
    ];
    enrol.extend(["--cluster-type", "drone", "--out", "press-7.kit"]);
    outhaul(&fleet, &enrol, "");
    assert!(fleet.bundle(&[]).starts_with("exit code 0"));
    fleet
        .fixture
        .edit("dev/types.yaml", "name: drone", "name: drone2");
    let seen = fleet.bundle(&[]);
    assert!(seen.starts_with("exit code 1"), "{seen}");
    let said = "dev/drone: no bundle, `dev` has no cluster type `drone`; it is followed by `press-7`, which keeps what it has";
    assert!(seen.contains(said), "{seen}");
    assert!(fleet.path("out/dev-drone2-1.outhaul").exists(), "{seen}");
    let seen = fleet.bundle(&["--output", "json"]);
    assert!(seen.starts_with("exit code 1"), "{seen}");
    assert!(
        seen.contains("\"dev/drone\"") && seen.contains("sites_without_bundle"),
        "{seen}"
    );
    // Who asks for one stream is informed about that one.
    let seen = fleet.bundle(&["--cluster-type", "drone2"]);
    assert!(seen.starts_with("exit code 0"), "{seen}");
}

#[test]
fn what_is_nearly_read_is_named() {
    let made = InitFixture::new();
    let config = |head: &str, metadata: &str| {
        format!("{head}\nmetadata:\n  name: one\n{metadata}data:\n  A: b\n")
    };
    let label = "  labels: {platform-config: \"true\"}\n";
    let annotation = "  annotations: {platform-config: \"true\"}\n";
    let kalypso =
        "apiVersion: kalypso.io/v1alpha1\nkind: SchedulingPolicy\nmetadata: {name: p}\n".to_owned();
    let files = [
        (
            "kind.yaml",
            config("apiVersion: v1\nkind: Configmap", label),
            "not-config",
        ),
        (
            "version.yaml",
            config("apiVersion: v2\nkind: ConfigMap", label),
            "not-config",
        ),
        (
            "annotation.yaml",
            config("apiVersion: v1\nkind: ConfigMap", annotation),
            "not-config",
        ),
        ("group.yaml", kalypso, "unknown-group"),
        ("data.yaml", "data: {D: d}\n".to_owned(), "not-an-object"),
        ("list.yaml", "- kind: x\n".to_owned(), "not-an-object"),
        (
            "ending.YAML",
            config("apiVersion: v1\nkind: ConfigMap", label),
            "file-ending",
        ),
        ("ending.Yml", "x: y\n".to_owned(), "file-ending"),
    ];
    made.switch("dev");
    for (name, text, _) in &files {
        fs::write(made.cp().join("configs").join(name), text).unwrap();
    }
    // What nobody could mean for an object is ignored.
    fs::write(made.cp().join("other.yaml"), "on: push\njobs: {a: b}\n").unwrap();
    commit(&made.cp(), "what is nearly read");
    git(&made.cp(), &["checkout", "--quiet", "main"]);
    let said = made.check(&[]);
    for (name, _, code) in &files {
        let finding = said
            .split("\n\n")
            .find(|one| one.contains(&format!("configs/{name}")));
        let finding = finding.unwrap_or_else(|| panic!("{name}: {said}"));
        assert!(finding.contains(&format!("[{code}]")), "{name}: {finding}");
    }
    assert!(!said.contains("other.yaml"), "{said}");
}

#[test]
fn a_misspelt_environment_is_shown_where_it_is_written() {
    let fleet = Fleet::new();
    fleet
        .fixture
        .write("main/.environments/dev.yaml", ENVIRONMENT);
    fleet
        .fixture
        .edit("app/workload.yaml", "environment: dev", "environment: Dev");
    let seen = fleet.fixture.run(&["check"]);
    let finding = seen
        .split("\n\n")
        .find(|one| one.contains("[unknown-environment]"));
    let finding = finding.unwrap_or_else(|| panic!("{seen}"));
    assert!(
        finding.contains("environment: Dev\n") && finding.contains("workload.yaml:8:20"),
        "{finding}"
    );
}

const ENVIRONMENT: &str = "apiVersion: scheduler.kalypso.io/v1alpha1
kind: Environment
metadata: {name: dev}
spec:
  controlPlane: {repo: https://git.example.org/cp, branch: dev, path: .}
";

#[test]
fn a_local_copy_of_a_repository_that_nothing_names() {
    let fleet = Fleet::new();
    let misspelt = "https://git.example.org/manifest=manifests";
    let run = |command: &[&str]| fleet.fixture.run(command);
    let used = "https://git.example.org/manifests=manifests";
    for command in [
        vec!["check"],
        vec!["render", "--out", "rendered"],
        vec!["schedule"],
    ] {
        let seen = run(&[&command[..], &["--source", used]].concat());
        assert!(!seen.contains("source-without-effect"), "{seen}");
    }
    for (command, strict) in [
        (vec!["check", "--source", used], 1),
        (vec!["render", "--out", "other"], 1),
    ] {
        let with = [&command[..], &["--source", misspelt]].concat();
        let seen = run(&with);
        assert!(seen.starts_with("exit code 0"), "{seen}");
        for said in [
            "warning[source-without-effect]: `--source https://git.example.org/manifest` has no effect",
            "did you mean `https://git.example.org/manifests`?",
        ] {
            assert!(seen.contains(said), "{said}: {seen}");
        }
        fs::remove_dir_all(fleet.path("other")).ok();
        let seen = run(&[&with[..], &["--strict"]].concat());
        assert!(seen.starts_with(&format!("exit code {strict}")), "{seen}");
        assert!(!fleet.path("other").exists());
    }
    // Of a URL that is refused it is not known whether the mapping is for it.
    let good = fs::read_to_string(fleet.path("app/workload.yaml")).unwrap();
    let refused = good.replace(
        "repo: https://git.example.org/manifests",
        "repo: ext::manifests",
    );
    assert_ne!(good, refused);
    fleet.fixture.write("app/workload.yaml", &refused);
    for command in [&["check"][..], &["render", "--out", "other"]] {
        let seen = run(&[command, &["--source", misspelt]].concat());
        assert!(!seen.contains("source-without-effect"), "{seen}");
    }
    fs::remove_dir_all(fleet.path("other")).ok();
    fleet.fixture.write("app/workload.yaml", &good);
    // In a text of a workload it is named, too.
    let other = "manifests/here/source.yaml";
    fleet
        .fixture
        .write(other, "url: https://git.example.org/third.git\n");
    commit(&fleet.path("manifests"), "a third");
    let seen = fleet.bundle(&["--source", "https://git.example.org/third=manifests"]);
    assert!(!seen.contains("source-without-effect"), "{seen}");
    let seen = fleet.bundle(&["--source", misspelt]);
    assert!(seen.contains("warning[source-without-effect]"), "{seen}");
}
