//! What a fleet's folder lacks or holds in pieces: each situation has its own words and its own way out.
//!
//! What comes in: the real program on a folder in which something was lost, damaged or mistyped. What must come
//! out: an exit code, what is the matter, and a `help:` line; and, where one is named, the way back works.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use outhaul_signer::Fleet;
use serde_json::Value;

use crate::cli::{folder_with_passphrase, run};
use crate::fleet::sign;

fn private(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

/// A command fails with these words.
#[track_caller]
fn refused_with(at: &Path, code: i32, line: &str, words: &[&str]) {
    let printed = run(at, code, line);
    let Value::String(printed) = printed else {
        panic!("{line}: {printed}")
    };
    for word in words.iter().chain(&["help: "]) {
        assert!(
            printed.contains(word),
            "{line}: `{word}` is not in: {printed}"
        );
    }
}

#[test]
fn a_passphrase_that_is_wrong_missing_empty_or_exposed_has_its_own_way_out() {
    let dir = folder_with_passphrase();
    let at = dir.path();
    run(at, 0, "init fleet");
    let rotate = "rotate fleet online";
    let pass = at.join("pass");
    let keys = || fs::read_dir(at.join("fleet/keys")).unwrap().count();
    let before = keys();
    private(&pass, "another correct horse battery\n");
    refused_with(at, 4, rotate, &["does not open", "--passphrase-file"]);
    assert_eq!(
        keys(),
        before,
        "no key is made under a passphrase that opens nothing"
    );
    private(&pass, "\n");
    refused_with(at, 2, rotate, &["is empty", "on one line"]);
    fs::remove_file(&pass).unwrap();
    refused_with(at, 3, rotate, &["`pass`", "No such file", "spelling"]);
    private(&pass, "correct horse battery staple\n");
    fs::set_permissions(&pass, fs::Permissions::from_mode(0o644)).unwrap();
    refused_with(at, 4, rotate, &["can be read by others", "chmod 600"]);
    private(&pass, "correct horse battery staple\n");
    run(at, 0, rotate);
}

#[test]
fn a_timestamp_that_is_lost_or_damaged_is_the_fleets_damage_with_the_way_back() {
    let dir = folder_with_passphrase();
    let at = dir.path();
    run(at, 0, "init fleet");
    let path = at.join("fleet/metadata/timestamp.json");
    let good = fs::read(&path).unwrap();
    let lose: [fn(&Path); 3] = [
        |path| fs::remove_file(path).unwrap(),
        |path| fs::write(path, "").unwrap(),
        |path| fs::write(path, "{\"signed\":").unwrap(),
    ];
    for lose in lose {
        lose(&path);
        for line in ["status fleet", "rotate fleet online"] {
            let words = ["timestamp.json`", "backup", "outhaul-signer restored"];
            refused_with(at, 3, line, &words);
        }
    }
    fs::write(&path, good).unwrap();
    run(at, 0, "status fleet");
}

/// A fleet that has signed the first bundle of one stream.
fn folder_with_a_bundle() -> tempfile::TempDir {
    let dir = folder_with_passphrase();
    run(dir.path(), 0, "init fleet");
    let fleet = Fleet::open(&dir.path().join("fleet")).unwrap();
    let signed = sign(&fleet, "dev", 1).unwrap();
    fleet.commit(&signed).unwrap();
    dir
}

#[test]
fn marks_that_are_lost_or_damaged_let_nothing_be_signed_until_restored_leaves_numbers_out() {
    let dir = folder_with_a_bundle();
    let at = dir.path();
    let marks = at.join("fleet/marks.json");
    let fleet = Fleet::open(&at.join("fleet")).unwrap();
    let role = fleet.role("dev", "drone");
    for damage in [None, Some("{\"versions\":")] {
        match damage {
            None => fs::remove_file(&marks).unwrap(),
            Some(text) => fs::write(&marks, text).unwrap(),
        }
        let words = [
            "marks.json`",
            "nothing was signed",
            "outhaul-signer restored",
        ];
        refused_with(at, 3, "rotate fleet online", &words);
        // The way out, as it is named: what is left is moved away.
        let _ = fs::remove_file(&marks);
        let before = fleet.latest(&role).unwrap().unwrap().number;
        run(at, 0, "restored fleet");
        assert!(fleet.next_number(&role).unwrap() > before + 1);
        run(at, 0, "rotate fleet online");
    }
}

#[test]
fn attack_marks_far_above_what_is_signed_end_no_stream() {
    let dir = folder_with_a_bundle();
    let at = dir.path();
    let marks = at.join("fleet/marks.json");
    let whole: serde_json::Value = serde_json::from_slice(&fs::read(&marks).unwrap()).unwrap();
    let role = Fleet::open(&at.join("fleet")).unwrap().role("dev", "drone");
    let high = serde_json::json!(9_007_199_254_740_990_u64);
    let mut changed = [whole.clone(), whole.clone()];
    changed[0]["versions"]["snapshot"] = high.clone();
    changed[1]["streams"][&role]["number"] = high;
    for text in changed {
        fs::write(&marks, text.to_string()).unwrap();
        let words = ["9007199254740990", "it was changed", "nothing was signed"];
        refused_with(at, 3, "rotate fleet online", &words);
        // Nor are numbers left out above them.
        refused_with(at, 3, "restored fleet", &words);
    }
    // The way out, as it is named.
    fs::remove_file(&marks).unwrap();
    run(at, 0, "restored fleet");
    run(at, 0, "rotate fleet online");
    let fleet = Fleet::open(&at.join("fleet")).unwrap();
    assert_eq!(fleet.next_number(&role).unwrap(), 1002);
}
