//! What someone removed or changed where the centre writes or reads: named, and written again or refused, before a number is signed.
//!
//! What comes in: bundles of a control plane that `outhaul init` wrote, in folders in which files are missing, other ones, or no files. What
//! must come out: everything as it was written, or a refusal that names the place; no number is used for it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::gate::GateFixture;
use super::repositories::git;

const KEYS: &str = "--fleet fleet --passphrase-file passphrase";

fn bundle() -> String {
    format!("bundle --environment dev --control-plane cp {KEYS} --out stick --publish web")
}

/// Every file below `folder`, with its content.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => drop(all.insert(path.clone(), fs::read(path).unwrap())),
            }
        }
    }
    all
}

#[test]
fn what_is_gone_or_changed_of_a_published_bundle_is_named_and_written_again() {
    let made = GateFixture::new();
    made.ok(&bundle());
    let right = files(&made.path("web"));
    assert!(right.len() >= 7, "{right:?}");
    for (path, bytes) in &right {
        let other = vec![b'x'; bytes.len()];
        for change in [None, Some(other)] {
            match change {
                None => fs::remove_file(path).unwrap(),
                Some(other) => fs::write(path, other).unwrap(),
            }
            let (_, _, err) = made.ok(&bundle());
            assert!(err.contains("unchanged, number 1 is current"), "{err}");
            let name = path.file_name().unwrap().to_str().unwrap();
            assert!(
                err.contains(name) && err.contains("was written again")
                    || err.contains("took its place"),
                "{err}"
            );
            assert_eq!(files(&made.path("web")), right, "{}", path.display());
        }
    }
    let (_, _, err) = made.ok(&bundle());
    assert!(!err.contains("was written again"), "{err}");
}

#[test]
fn attack_a_timestamp_of_somebody_else_with_a_higher_version_is_named_and_replaced() {
    let made = GateFixture::new();
    made.ok(&bundle());
    let path = made.path("web/metadata/timestamp.json");
    let right = fs::read(&path).unwrap();
    let mut forged: serde_json::Value = serde_json::from_slice(&right).unwrap();
    forged["signed"]["version"] = 999.into();
    fs::write(&path, forged.to_string()).unwrap();
    let (_, _, err) = made.ok(&bundle());
    assert!(
        err.contains("timestamp.json` was not signed by this fleet"),
        "{err}"
    );
    assert_eq!(fs::read(&path).unwrap(), right);
}

#[test]
fn attack_what_is_no_file_at_the_place_of_a_published_file_is_found_before_a_number_is_signed() {
    let made = GateFixture::new();
    made.ok(&bundle());
    let places: Vec<PathBuf> = files(&made.path("web")).into_keys().collect();
    let outside = made.path("outside");
    fs::write(&outside, "outside").unwrap();
    for place in &places {
        let kept = fs::read(place).unwrap();
        for kind in ["fifo", "link", "folder"] {
            fs::remove_file(place).unwrap();
            match kind {
                "fifo" => {
                    let made = Command::new("mkfifo").arg(place).status();
                    assert!(made.unwrap().success());
                }
                "link" => std::os::unix::fs::symlink(&outside, place).unwrap(),
                _ => fs::create_dir(place).unwrap(),
            }
            let name = place.file_name().unwrap().to_str().unwrap();
            let refused = |words: &str| {
                let (_, _, err) = made.ends(3, words);
                assert!(err.contains(name), "{kind}: {err}");
                assert!(err.contains("move it away"), "{kind}: {err}");
                assert!(
                    err.contains("no number of this stream was used"),
                    "{kind}: {err}"
                );
                assert!(!err.contains("make room"), "{kind}: {err}");
            };
            refused(&bundle());
            // A new number has its own blobs and index, but for what is the same.
            if place.parent().unwrap().ends_with("metadata") {
                refused(&format!("{} --renew", bundle()));
            }
            match kind {
                "folder" => fs::remove_dir(place).unwrap(),
                _ => fs::remove_file(place).unwrap(),
            }
            fs::write(place, &kept).unwrap();
        }
    }
    assert_eq!(fs::read_to_string(&outside).unwrap(), "outside");
    let (_, out, _) = made.ok(&format!("{} --renew", bundle()));
    assert!(out.contains("dev/edge: number 2"), "{out}");
}

#[test]
fn a_commit_whose_object_is_damaged_is_said_to_be() {
    let made = GateFixture::new();
    let commit = made.at("dev");
    let object = made.path(&format!(
        "cp/.git/objects/{}/{}",
        &commit[..2],
        &commit[2..]
    ));
    let kept = fs::read(&object).unwrap();
    fs::remove_file(&object).unwrap();
    for damage in [Some(&b"garbage"[..]), None] {
        if let Some(bytes) = damage {
            fs::write(&object, bytes).unwrap();
        }
        let (code, _, err) = made.run(&bundle().split(' ').collect::<Vec<_>>());
        assert_ne!(code, 0);
        assert!(err.contains("branch `dev` of repository"), "{err}");
        assert!(
            err.contains("cannot be read: ") && err.contains(&commit),
            "{err}"
        );
        assert!(err.contains("git fsck"), "{err}");
        let _ = fs::remove_file(&object);
    }
    fs::write(&object, kept).unwrap();
    made.ok(&bundle());
}

#[test]
fn a_branch_that_holds_a_control_plane_is_published_to_under_no_url() {
    let made = GateFixture::new();
    git(
        &made.path("."),
        &["clone", "--quiet", "--bare", "cp", "bare.git"],
    );
    for branch in ["dev", "main", "prod"] {
        let at = || git(&made.path("bare.git"), &["rev-parse", branch]);
        let before = at();
        let (_, _, err) = made.ends(
            2,
            &format!(
                "publish git --environment dev --control-plane cp --to bare.git --branch {branch}"
            ),
        );
        assert!(err.contains("holds a control plane"), "{err}");
        assert_eq!(at(), before);
    }
    made.ok("publish git --environment dev --control-plane cp --to bare.git --branch rendered");
    made.ok("publish git --environment dev --control-plane cp --to bare.git --branch rendered");
}

#[test]
fn what_sources_map_is_no_place_for_what_other_commands_write() {
    let made = GateFixture::new();
    made.ok(&bundle());
    fs::create_dir(made.path("application")).unwrap();
    let run = |words: &str, sources: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_outhaul"));
        let output = command
            .current_dir(made.path("."))
            .env("OUTHAUL_PROJECT", "none")
            .env("OUTHAUL_SOURCES", sources)
            .args(words.split_whitespace())
            .output()
            .unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        (output.status.code().unwrap(), err)
    };
    let slip =
        format!("slip {KEYS} --environment dev --cluster-type edge --out application/a.slip");
    for words in [
        "copy --fleet fleet --to application",
        "publish web --fleet fleet --to application",
        slip.as_str(),
        "check --control-plane cp --cache application/cache",
        "demo --keep application/demo",
    ] {
        let (code, err) = run(words, "https://git.example.org/app=application");
        assert_eq!(code, 2, "{words}: {err}");
        assert!(
            err.contains("in the local copy `application`"),
            "{words}: {err}"
        );
    }
    assert_eq!(fs::read_dir(made.path("application")).unwrap().count(), 0);
    let (code, err) = run("copy --fleet fleet --to application", "");
    assert_eq!(code, 0, "{err}");
}

#[test]
fn a_missing_folder_for_temporary_files_and_a_clock_that_is_behind_come_with_a_way_on() {
    let made = GateFixture::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_outhaul"));
    let output = command
        .current_dir(made.path("."))
        .env("OUTHAUL_PROJECT", "none")
        .env("TMPDIR", "/nowhere/at/all")
        .args(bundle().split_whitespace())
        .output()
        .unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{err}");
    assert!(
        err.contains("temporary folder `/nowhere/at/all`")
            && err.contains("such as `TMPDIR=/var/tmp`"),
        "{err}"
    );
}

#[test]
fn nothing_was_written_is_not_said_beside_a_bundle_that_was() {
    let made = GateFixture::new();
    let cp = made.path("cp");
    git(&cp, &["checkout", "--quiet", "dev"]);
    let edge = fs::read_to_string(made.path("cp/cluster-types/edge.yaml")).unwrap();
    let idle = edge.replace("name: edge", "name: idle");
    let idle = idle.replace("manifests: git", "hall: north");
    fs::write(made.path("cp/cluster-types/idle.yaml"), idle).unwrap();
    super::repositories::commit(&cp, "an idle cluster type");
    let note = "cluster type `idle` gets nothing: no policy assigns a deployment target there";
    let (_, out, err) = made.ok("check --control-plane cp");
    assert!(format!("{out}{err}").contains(note), "{out}{err}");
    let (_, _, err) = made.ok(&bundle());
    assert!(err.contains(note), "{err}");
    assert!(made.path("stick/dev-idle-1.outhaul").is_file());

    // The only assignment breaks, in a stream that never shipped: the idle one is made all the same.
    fs::remove_dir_all(made.path("stick")).unwrap();
    fs::remove_dir_all(made.path("fleet")).unwrap();
    fs::remove_dir_all(made.path("web")).unwrap();
    made.ok("key init --fleet fleet --passphrase-file passphrase");
    let config = fs::read_dir(made.path("cp/configs")).unwrap();
    for entry in config {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        if text.contains("kind: ConfigMap") {
            let broken = text.replace("\ndata:", "\ndata:\n  \"a b\": \"x\"");
            fs::write(&path, broken).unwrap();
        }
    }
    super::repositories::commit(&cp, "a name that no shell takes");
    let (code, _, err) = made.run(&bundle().split(' ').collect::<Vec<_>>());
    assert_eq!(code, 1, "{err}");
    assert!(made.path("stick/dev-idle-1.outhaul").is_file(), "{err}");
    assert!(!err.contains("nothing was written"), "{err}");
    assert!(err.contains("everything else was written"), "{err}");
}

#[test]
fn what_no_agent_hands_on_to_fleet_is_said_by_check_and_bundle_where_the_workload_is_written() {
    let made = GateFixture::new();
    made.ok("init plane --environments dev --reconciler fleet-bundle");
    let plane = made.path("plane");
    let large = "a".repeat(1_000_001);
    for (name, content, says) in [
        ("fleet.yaml", "namespace: x\n", "has `fleet.yaml`"),
        ("large.txt", large.as_str(), "more than 1000000 bytes"),
    ] {
        git(&plane, &["checkout", "--quiet", "hello"]);
        let file = plane.join("manifests/dev").join(name);
        fs::write(&file, content).unwrap();
        super::repositories::commit(&plane, name);
        let bundle = format!("bundle --environment dev --control-plane plane {KEYS} --out stick");
        for words in ["check --control-plane plane", bundle.as_str()] {
            let (_, out, err) = made.ends(1, words);
            let said = format!("{out}{err}");
            assert!(said.contains(says), "{said}");
            assert!(said.contains("workload/hello.yaml:"), "{said}");
        }
        fs::remove_file(&file).unwrap();
        super::repositories::commit(&plane, "without");
        made.ok("check --control-plane plane");
    }
}
