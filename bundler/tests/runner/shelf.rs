//! What the fleet's folder says of its last bundles, when someone or a power cut has changed it.
//!
//! What comes in: a fleet with two streams, and a record, bundle or folder entry that is not what it was. What must come out: the stream is
//! named, no older bundle takes the place of the last one, the other stream is served, and nothing is waited for.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::cli::CLUSTER_TYPE;
use super::kept::Fleet;

/// A fleet that has shipped `dev/drone` and `dev/truck` twice.
fn two_streams() -> Fleet {
    let fleet = Fleet::new();
    let truck = CLUSTER_TYPE.replace("name: drone", "name: truck");
    fleet.fixture.write("dev/truck.yaml", &truck);
    for version in 1..3 {
        if version == 2 {
            fleet.second_version();
        }
        let seen = fleet.bundle(&[]);
        assert!(seen.starts_with("exit code 0"), "{seen}");
    }
    fs::create_dir(fleet.path("stick")).unwrap();
    fleet
}

fn copied(fleet: &Fleet, more: &[&str]) -> String {
    let command = ["copy", "--fleet", "fleet", "--to", "stick"];
    fleet.fixture.run_only(&[&command[..], more].concat())
}

/// What the fleet's folder has of `dev/truck`: its record, and the bundle of a number.
fn of_truck(fleet: &Fleet) -> (PathBuf, impl Fn(u64) -> PathBuf) {
    let settings = fs::read(fleet.path("fleet/fleet.json")).unwrap();
    let settings: serde_json::Value = serde_json::from_slice(&settings).unwrap();
    let streams = settings["streams"].as_object().unwrap();
    let (role, _) = streams
        .iter()
        .find(|(_, stream)| stream["cluster_type"] == "truck")
        .unwrap();
    let folder = fleet.path("fleet/bundles");
    let record = folder.join(format!("{role}.json"));
    let role = role.clone();
    (record, move |number| {
        folder.join(format!("{role}.{number}.outhaul"))
    })
}

fn names(fleet: &Fleet) -> Vec<String> {
    let all = fs::read_dir(fleet.path("stick")).unwrap();
    let mut all: Vec<_> = all
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    all.sort();
    all
}

fn digest(path: &std::path::Path) -> String {
    let printed = Command::new("sha256sum").arg(path).output().unwrap();
    let printed = String::from_utf8(printed.stdout).unwrap();
    printed.split_whitespace().next().unwrap().to_owned()
}

#[test]
fn an_older_bundle_does_not_take_the_place_of_the_last_one_when_a_record_was_changed() {
    let fleet = two_streams();
    let (record, bundle) = of_truck(&fleet);
    let last = fs::read_to_string(&record).unwrap();
    let (old, new) = (digest(&bundle(1)), digest(&bundle(2)));
    assert!(last.contains(&new), "{last}");
    // As after a power cut, or by someone who wants an old version on sites.
    let older = last.replace("\"number\": 2", "\"number\": 1");
    fs::write(&record, older.replace(&new, &old)).unwrap();
    let seen = copied(&fleet, &[]);
    assert!(seen.starts_with("exit code 3"), "{seen}");
    for said in [
        "number 2 of dev/truck was signed last, and the fleet keeps no copy",
        "dev/drone: number 2",
        "a stick is safe to remove now",
        "only these streams were not",
    ] {
        assert!(seen.contains(said), "{said}: {seen}");
    }
    assert_eq!(names(&fleet), ["dev-drone-2.outhaul"]);
    // The older bundle under the name of the last one.
    fs::write(&record, last.replace(&new, &old)).unwrap();
    fs::copy(bundle(1), bundle(2)).unwrap();
    let seen = copied(&fleet, &["--cluster-type", "truck"]);
    assert!(
        seen.starts_with("exit code 3") && seen.contains("is gone or was changed"),
        "{seen}"
    );
    assert_eq!(names(&fleet), ["dev-drone-2.outhaul"]);
    let seen = copied(&fleet, &["--cluster-type", "drone"]);
    assert!(seen.starts_with("exit code 0"), "{seen}");
}

#[test]
fn a_copy_in_which_no_layer_became_a_twin_is_the_one_without_twins() {
    let fleet = two_streams();
    let since = ["--cluster-type", "truck", "--since", "1"];
    let seen = copied(&fleet, &[&since[..], &["--twins"]].concat());
    assert!(seen.starts_with("exit code 0"), "{seen}");
    assert_eq!(names(&fleet), ["dev-truck-2.since1.outhaul"]);
    let seen = copied(&fleet, &since);
    assert!(seen.contains("there already, read back"), "{seen}");
}

/// One byte of the last blob in a bundle's file is another one, and the record beside it, which nobody signed, states the file as it is now.
fn bend(record: &std::path::Path, bundle: &std::path::Path) {
    let before = digest(bundle);
    let mut bytes = fs::read(bundle).unwrap();
    let is_blob = |at: &usize| bytes[*at..].starts_with(b"blobs/sha256/");
    let header = (0..bytes.len()).step_by(512).rfind(is_blob);
    bytes[header.unwrap() + 512] ^= 1;
    fs::write(bundle, bytes).unwrap();
    let recorded = fs::read_to_string(record).unwrap();
    assert!(recorded.contains(&before), "{recorded}");
    fs::write(record, recorded.replace(&before, &digest(bundle))).unwrap();
}

#[test]
fn a_copy_is_what_was_signed_whatever_the_record_beside_it_states() {
    let fleet = two_streams();
    let (record, bundle) = of_truck(&fleet);
    let sound = fs::read(bundle(2)).unwrap();
    bend(&record, &bundle(2));
    let one = ["--cluster-type", "truck"];
    for more in [
        vec![],
        vec!["--volume-size", "1M"],
        vec!["--volume-size", "1M", "--parity", "1"],
        vec!["--since", "1"],
        vec!["--since", "1", "--no-patches"],
    ] {
        let seen = copied(&fleet, &[&one[..], &more].concat());
        assert!(
            seen.starts_with("exit code 3") && seen.contains("is gone or was changed"),
            "{more:?}: {seen}"
        );
        assert!(!seen.contains("safe to remove"), "{more:?}: {seen}");
        assert_eq!(names(&fleet), Vec::<String>::new(), "{more:?}");
    }
    // Nor is it enough that the stick has the very same.
    let stick = fleet.path("stick/dev-truck-2.outhaul");
    fs::copy(bundle(2), &stick).unwrap();
    let seen = copied(&fleet, &one);
    assert!(seen.starts_with("exit code 3"), "{seen}");
    // Of a changed copy no stick is filled by `bundle`, either: the content takes a new number.
    let seen = fleet.bundle(&["--cluster-type", "truck"]);
    assert!(
        seen.contains("was changed, and a bundle cannot be signed twice alike"),
        "{seen}"
    );
    let seen = copied(&fleet, &one);
    assert!(seen.starts_with("exit code 0"), "{seen}");
    assert_ne!(
        fs::read(fleet.path("stick/dev-truck-3.outhaul")).unwrap(),
        sound
    );
}

#[test]
fn the_bundles_that_are_there_are_copied_and_the_lost_one_is_an_error_in_the_envelope() {
    let fleet = two_streams();
    let (_, bundle) = of_truck(&fleet);
    fs::remove_file(bundle(2)).unwrap();
    let seen = copied(&fleet, &["--output", "json"]);
    assert!(seen.starts_with("exit code 3"), "{seen}");
    let json = seen.split_once("--- stdout\n").unwrap().1;
    let json = json.split("--- stderr").next().unwrap();
    let json: serde_json::Value = serde_json::from_str(json).unwrap();
    assert_eq!(json["exitCode"], 3);
    assert_eq!(json["result"]["copied"].as_array().unwrap().len(), 1);
    let error = json["errors"][0]["message"].as_str().unwrap();
    assert!(error.contains("dev/truck, number 2"), "{error}");
    assert_eq!(names(&fleet), ["dev-drone-2.outhaul"]);
}

#[test]
fn what_is_no_file_in_the_fleets_folder_is_named_and_not_waited_for() {
    let fleet = two_streams();
    let (record, _) = of_truck(&fleet);
    let rendered = fleet
        .path("fleet/rendered")
        .join(record.file_name().unwrap());
    for (path, command) in [
        (&record, "copy"),
        (&record, "bundle"),
        (&rendered, "bundle"),
    ] {
        let kept = fs::read(path).unwrap();
        fs::remove_file(path).unwrap();
        let made = Command::new("mkfifo").arg(path).status().unwrap();
        assert!(made.success());
        let seen = match command {
            "copy" => copied(&fleet, &["--cluster-type", "truck"]),
            _ => fleet.bundle(&[]),
        };
        assert!(seen.starts_with("exit code 3"), "{seen}");
        let name = path.file_name().unwrap().to_str().unwrap();
        for said in [
            name,
            "it is a FIFO",
            "help: put a regular file in its place",
        ] {
            assert!(seen.contains(said), "{command}: {said}: {seen}");
        }
        fs::remove_file(path).unwrap();
        fs::write(path, kept).unwrap();
    }
    assert_eq!(names(&fleet), Vec::<String>::new());
    let seen = copied(&fleet, &[]);
    assert!(seen.starts_with("exit code 0"), "{seen}");
}

#[test]
fn what_a_killed_run_left_in_the_fleets_folder_is_removed_by_the_next_and_nothing_else() {
    let fleet = Fleet::new();
    assert!(fleet.bundle(&[]).starts_with("exit code 0"));
    let mut ended = Command::new("true").spawn().unwrap();
    ended.wait().unwrap();
    let name = |of: &str, process: u32| format!(".{of}.{process}.tmp");
    let left: Vec<_> = ["", "rendered", "bundles", "metadata"]
        .map(|folder| {
            fleet
                .path("fleet")
                .join(folder)
                .join(name("a.json", ended.id()))
        })
        .into();
    let kept = [
        // Of a program that runs, and what is no name of ours.
        fleet.path("fleet").join(name("a.json", std::process::id())),
        fleet.path("fleet/.notes.tmp"),
        fleet.path("fleet/notes.4711.tmp"),
    ];
    for path in left.iter().chain(&kept) {
        fs::write(path, "part").unwrap();
    }
    // A process in another container that is at work may have the number of one that has ended here.
    assert!(fleet.bundle(&[]).starts_with("exit code 0"));
    for path in &left {
        assert!(path.exists(), "{}", path.display());
        let file = fs::File::options().write(true).open(path).unwrap();
        file.set_modified(std::time::SystemTime::UNIX_EPOCH)
            .unwrap();
    }
    assert!(fleet.bundle(&[]).starts_with("exit code 0"));
    for path in &left {
        assert!(!path.exists(), "{}", path.display());
    }
    for path in &kept {
        assert!(path.exists(), "{}", path.display());
    }
}
