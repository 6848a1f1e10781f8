//! One record: a folder, a branch and a stream keep, guard and refuse the same for the same input.
//!
//! What comes in: one control plane that is shipped to all three. What must come out: the same assignments, the same kept
//! ones, the same code of a removal; and of a record that is damaged or of a later program nothing but an error.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::kept::{Fleet, of};
use super::repositories::{commit, git};
use outhaul_test_kit::folder::files;

const PLACES: [&str; 3] = ["folder", "branch", "stream"];

pub struct World {
    pub fleet: Fleet,
}

impl World {
    /// Shipped to all three places.
    pub fn new() -> Self {
        let fleet = Fleet::new();
        git(&fleet.path(""), &["init", "--quiet", "--bare", "gitops"]);
        let world = Self { fleet };
        for place in PLACES {
            let seen = world.ship(place);
            assert!(seen.starts_with("exit code 0"), "{place}: {seen}");
        }
        world
    }

    pub fn ship(&self, place: &str) -> String {
        let run = |words: &[&str]| self.fleet.fixture.run(words);
        match place {
            "folder" => run(&["render", "--out", "tree"]),
            "branch" => run(&["publish", "git", "--to", "gitops", "--branch", "dev"]),
            _ => self.fleet.bundle(&[]),
        }
    }

    /// Where the record lies; that of a branch in a copy of its newest commit.
    pub fn file(&self, place: &str) -> PathBuf {
        match place {
            "folder" => self.fleet.path("tree.outhaul.json"),
            "branch" => {
                let copy = self.fleet.path("copy");
                // There is none before the first time.
                drop(fs::remove_dir_all(&copy));
                let clone = ["clone", "--quiet", "--branch", "dev", "gitops", "copy"];
                git(&self.fleet.path(""), &clone);
                copy.join(".outhaul/platform.json")
            }
            _ => self.fleet.record(),
        }
    }

    pub fn record(&self, place: &str) -> Value {
        serde_json::from_slice(&fs::read(self.file(place)).unwrap()).unwrap()
    }

    /// Puts `text` in the place of a record.
    pub fn put(&self, place: &str, text: &str) {
        let file = self.file(place);
        fs::write(&file, text).unwrap();
        if place == "branch" {
            let copy = self.fleet.path("copy");
            commit(&copy, "damaged");
            git(&copy, &["push", "--quiet", "origin", "dev"]);
        }
    }

    /// All that was shipped, but for what is only remembered.
    fn shipped(&self) -> (Vec<String>, String, Value) {
        let tree = files(&self.fleet.path("tree"));
        let out = files(&self.fleet.path("out"));
        let all = tree.into_keys().chain(out.into_keys()).collect();
        let head = git(&self.fleet.path("gitops"), &["rev-parse", "dev"]);
        (all, head, self.fleet.last())
    }

    pub fn lose_most(&self) {
        fs::remove_file(self.fleet.path("app/wave.yaml")).unwrap();
    }
}

/// The assignments whose files a record lists.
fn listed(record: &Value) -> BTreeSet<String> {
    let paths = record["files"].as_object().unwrap().keys();
    let own = paths.filter(|path| !path.starts_with('.') && path.matches('/').count() == 2);
    let names = own.map(|path| path.rsplit_once('/').unwrap().0.to_owned());
    names.collect()
}

fn code(seen: &str) -> &str {
    let at = seen.split_once("removal: \"").unwrap().1;
    at.split_once('"').unwrap().0
}

#[test]
fn a_folder_a_branch_and_a_stream_keep_and_guard_the_same() {
    let world = World::new();
    let first = PLACES.map(|place| world.record(place));
    assert_eq!(listed(&first[0]).len(), 5);
    for record in &first {
        assert_eq!(record["format"], "outhaul.dev/output/v1");
        assert_eq!(listed(record), listed(&first[0]));
        // A stream lists the digests of the same files.
        for (path, digest) in first[2]["files"].as_object().unwrap() {
            assert_eq!(&record["files"][path], digest, "{path}");
        }
    }

    world.fleet.break_hello();
    let kept = PLACES.map(|place| {
        let seen = world.ship(place);
        let said = "kept: drone/hello-test stays as snapshot";
        assert!(
            seen.starts_with("exit code 1") && seen.contains(said),
            "{place}: {seen}"
        );
        world.record(place)["kept"].clone()
    });
    let kept_in_folder = &kept[0]["drone/hello-test"];
    for (kept, first_record) in kept.iter().zip(&first) {
        let names: Vec<_> = kept.as_object().unwrap().keys().collect();
        assert_eq!(names, ["drone/hello-test"]);
        let one = &kept["drone/hello-test"];
        assert_eq!(one["from"], first_record["snapshot"]["digest"]);
        assert_eq!(one["error"], kept_in_folder["error"]);
    }

    // What would remove too much is refused by each, with one code.
    world.lose_most();
    let before = world.shipped();
    let seen = PLACES.map(|place| world.ship(place));
    for seen in &seen {
        assert!(
            seen.contains("4 of 5 assignments would be removed (80 %)"),
            "{seen}"
        );
    }
    assert_eq!(world.shipped(), before);
    assert_eq!([code(&seen[1]), code(&seen[2])], [code(&seen[0]); 2]);
    let object = seen[0]
        .lines()
        .filter_map(|line| line.strip_prefix("        "));
    let object: Vec<_> = object.collect();
    world
        .fleet
        .fixture
        .write("dev/acknowledgement.yaml", &object.join("\n"));
    for place in PLACES {
        let seen = world.ship(place);
        assert!(seen.contains("kept: drone/hello-test"), "{place}: {seen}");
        let now = world.record(place);
        assert_eq!(
            Vec::from_iter(listed(&now)),
            ["drone/hello-test"],
            "{place}"
        );
    }
}

#[test]
fn attack_a_damaged_record_leads_to_no_removal_at_any_destination() {
    let world = World::new();
    let whole = PLACES.map(|place| fs::read_to_string(world.file(place)).unwrap());
    world.lose_most();
    for (place, whole) in PLACES.into_iter().zip(&whole) {
        let mut damaged = vec![
            whole[..whole.len() / 2].to_owned(),
            "{}".to_owned(),
            String::new(),
            whole.replacen("/v1\"", "/v9\"", 1),
            whole.replacen("\"files\"", "\"of_later\": 1, \"files\"", 1),
        ];
        // Of another kind of place.
        let other = PLACES
            .iter()
            .position(|one| *one != place && (*one == "stream") != (place == "stream"));
        damaged.push(fs::read_to_string(world.file(PLACES[other.unwrap()])).unwrap());
        if place == "stream" {
            // Without those that are to go.
            let mut without: Value = serde_json::from_str(whole).unwrap();
            let all = without["stream"]["assignments"].as_object_mut().unwrap();
            all.retain(|name, _| name.ends_with("hello-test"));
            damaged.push(without.to_string());
            // Of the same cluster type in another environment, which shipped less.
            let mut other: Value = serde_json::from_str(&without.to_string()).unwrap();
            other["environment"] = "stage".into();
            let names = ["hello-test"].map(|name| format!("drone/{name}/"));
            let files = other["files"].as_object_mut().unwrap();
            files.retain(|path, _| names.iter().any(|name| path.starts_with(name)));
            damaged.push(other.to_string());
        }
        for text in damaged {
            world.put(place, &text);
            let (tree, head) = (
                files(&world.fleet.path("tree")),
                git(&world.fleet.path("gitops"), &["rev-parse", "dev"]),
            );
            let out = files(&world.fleet.path("out"));
            let seen = world.ship(place);
            assert!(seen.starts_with("exit code 2"), "{place}, {text}: {seen}");
            assert!(seen.contains("help: restore it"), "{place}: {seen}");
            let name = world.file(place);
            let name = name.file_name().unwrap().to_str().unwrap();
            assert!(seen.contains(name), "{place}: {seen}");
            assert_eq!(
                fs::read_to_string(world.file(place)).unwrap(),
                text,
                "{place}"
            );
            assert_eq!(files(&world.fleet.path("tree")), tree);
            assert_eq!(files(&world.fleet.path("out")), out);
            assert_eq!(
                git(&world.fleet.path("gitops"), &["rev-parse", "dev"]),
                head
            );
        }
        // Restored as the help says, the guard stops what would go.
        world.put(place, whole);
        let seen = world.ship(place);
        assert!(
            seen.contains("4 of 5 assignments would be removed"),
            "{place}: {seen}"
        );
    }
}

/// The record of a stream as the program of before wrote it (the fixture that it really wrote is beside the record's code).
fn as_before(now: &Value) -> String {
    let shipped = now["stream"]["assignments"].as_object().unwrap().iter();
    let assignments = shipped.map(|(name, one)| {
        let mut old = one["rendered"].clone();
        let from = now["kept"]
            .get(name)
            .map_or(&now["snapshot"]["digest"], |kept| &kept["from"]);
        old["from"] = from.clone();
        if let Some(commit) = one.get("payload_commit") {
            old["payload_commit"] = commit.clone();
        }
        (name.split_once('/').unwrap().1.to_owned(), old)
    });
    json!({
        "format": "outhaul.dev/rendered/v1",
        "environment": now["environment"],
        "cluster_type": now["stream"]["cluster_type"],
        "assignments": assignments.collect::<serde_json::Map<_, _>>(),
    })
    .to_string()
}

#[test]
fn a_fleet_folder_of_before_is_read_and_its_record_is_written_anew() {
    let world = World::new();
    let first = world.record("stream");
    let before = as_before(&first);
    world.put("stream", &before);
    let seen = world.ship("stream");
    assert!(seen.contains("unchanged, number 1 is current"), "{seen}");
    assert_eq!(world.record("stream"), first, "what it says is the same");

    world.put("stream", &before);
    world.fleet.break_hello();
    let seen = world.ship("stream");
    assert!(
        seen.contains("dev/drone: number 2, 5 assignments"),
        "{seen}"
    );
    let second = world.record("stream");
    assert_eq!(of(&second, "hello-test"), of(&first, "hello-test"));
    let kept = &second["kept"]["drone/hello-test"];
    assert_eq!(kept["from"], first["snapshot"]["digest"]);
    // Once more from before: what was kept is still from the first snapshot.
    world.put("stream", &as_before(&second));
    let seen = world.ship("stream");
    assert!(seen.contains("unchanged, number 2 is current"), "{seen}");
    assert_eq!(world.record("stream"), second);

    world.put("stream", &as_before(&second));
    world.lose_most();
    let seen = world.ship("stream");
    assert!(
        seen.contains("4 of 5 assignments would be removed"),
        "{seen}"
    );
}

#[test]
fn attack_what_somebody_wrote_into_a_record_is_not_signed_as_what_was_there() {
    let world = World::new();
    let file = world.file("stream");
    let whole = world.record("stream");
    world.fleet.break_hello();
    let evil = "data:\n  REGION: evil\n";
    let digest = format!(
        "sha256:{}",
        outhaul_bundle::Digest::of(evil.as_bytes()).hex()
    );
    // Another content with its digest, one that never was, and one for other sites.
    let mut changed = whole.clone();
    let path = "drone/hello-test/platform-config.yaml";
    let one = &mut changed["stream"]["assignments"]["drone/hello-test"]["rendered"];
    assert!(one["files"]["platform-config.yaml"].is_string(), "{one}");
    one["files"]["platform-config.yaml"] = evil.into();
    assert!(changed["files"][path].is_string());
    changed["files"][path] = digest.into();
    let one = |path: &[&str], value: Value| {
        let mut record = whole.clone();
        let one = &mut record["stream"]["assignments"]["drone/hello-test"];
        *path.iter().fold(one, |at, name| &mut at[*name]) = value;
        record
    };
    assert!(
        one(&[], Value::Null) != whole
            && whole["stream"]["assignments"]["drone/hello-test"]["payload_commit"].is_string()
    );
    let mut without = whole.clone();
    let all = without["stream"]["assignments"].as_object_mut().unwrap();
    let other = all.keys().find(|name| *name != "drone/hello-test");
    let other = other.unwrap().clone();
    all.remove(&other);
    let files = without["files"].as_object_mut().unwrap();
    files.retain(|path, _| !path.starts_with(&format!("{other}/")));
    for (text, named) in [
        (changed, "hello-test"),
        (
            one(&["rendered", "sites"], json!(["somewhere"])),
            "hello-test",
        ),
        (
            one(&["rendered", "workspace"], json!("other")),
            "hello-test",
        ),
        (
            one(&["rendered", "policies"], json!(["of-nobody"])),
            "hello-test",
        ),
        (
            one(
                &["rendered", "site_values"],
                json!({"form": "env", "keys": {"REGION": {"type": "boolean"}}}),
            ),
            "hello-test",
        ),
        (
            one(&["payload_commit"], json!("0".repeat(40))),
            "hello-test",
        ),
        (
            one(
                &["rendered", "manifests", "repo"],
                json!("https://evil.example/x"),
            ),
            "hello-test",
        ),
        (without, &other["drone/".len()..]),
    ] {
        world.put("stream", &text.to_string());
        let seen = world.ship("stream");
        assert!(seen.starts_with("exit code 2"), "{text}: {seen}");
        let said =
            format!("`drone/{named}` is not what the stream's last bundle has, which is signed");
        assert!(seen.contains(&said), "{text}: {seen}");
        assert!(
            !world.fleet.path("out/dev-drone-2.outhaul").exists(),
            "{seen}"
        );
    }
    fs::write(&file, whole.to_string()).unwrap();
    let seen = world.ship("stream");
    assert!(seen.contains("kept: drone/hello-test stays as"), "{seen}");
}

#[test]
fn attack_a_lost_record_of_a_stream_ships_nothing_until_that_is_meant() {
    let world = World::new();
    let file = world.file("stream");
    for lose in ["remove", "a link to nowhere"] {
        let whole = fs::read_to_string(&file).unwrap();
        fs::remove_file(&file).unwrap();
        if lose != "remove" {
            std::os::unix::fs::symlink("nowhere", &file).unwrap();
        }
        let seen = world.ship("stream");
        assert!(!seen.starts_with("exit code 0"), "{lose}: {seen}");
        assert!(seen.contains("nothing was signed"), "{lose}: {seen}");
        let _ = fs::remove_file(&file);
        fs::write(&file, whole).unwrap();
    }
    fs::remove_file(&file).unwrap();
    // As the help says: with `--strict` what is broken is refused, and what is whole is shipped and on record again.
    world.fleet.break_hello();
    let seen = world.fleet.bundle(&["--strict"]);
    assert!(seen.starts_with("exit code 1"), "{seen}");
    assert!(!file.exists());
    world.fleet.mend_hello();
    let seen = world.fleet.bundle(&["--strict"]);
    assert!(seen.starts_with("exit code 0"), "{seen}");
    assert!(file.is_file(), "{seen}");
}

#[test]
fn attack_a_lost_record_of_a_folder_or_branch_leaves_no_assignment_behind_in_silence() {
    let world = World::new();
    fs::remove_file(world.file("folder")).unwrap();
    fs::remove_file(world.file("branch")).unwrap();
    let copy = world.fleet.path("copy");
    git(&copy, &["commit", "--quiet", "--all", "-m", "lost"]);
    git(&copy, &["push", "--quiet", "origin", "dev"]);
    world.lose_most();
    let before = world.shipped();
    for place in ["folder", "branch"] {
        let seen = world.ship(place);
        assert!(seen.starts_with("exit code 2"), "{place}: {seen}");
        for said in [
            "files of assignments that are not rendered now",
            "drone/wave-0/",
            "is not known",
            "help: restore the record",
        ] {
            assert!(seen.contains(said), "{place}: {said}: {seen}");
        }
    }
    assert_eq!(world.shipped(), before);
}

#[test]
fn files_of_others_that_are_named_as_an_assignments_are_stay_beside_a_whole_record() {
    let world = World::new();
    let theirs = "infra/app/namespace.yaml";
    world
        .fleet
        .fixture
        .write(&format!("tree/{theirs}"), "theirs");
    world.file("branch");
    world
        .fleet
        .fixture
        .write(&format!("copy/{theirs}"), "theirs");
    let copy = world.fleet.path("copy");
    commit(&copy, "theirs");
    git(&copy, &["push", "--quiet", "origin", "dev"]);
    world.fleet.second_version();
    for place in ["folder", "branch"] {
        let seen = world.ship(place);
        assert!(seen.starts_with("exit code 0"), "{place}: {seen}");
    }
    world.file("branch");
    for kept in ["tree", "copy"] {
        let kept = world.fleet.path(kept).join(theirs);
        assert_eq!(fs::read_to_string(kept).unwrap(), "theirs");
    }
}
