//! The half without rights is someone else's: it asks the helper for whatever it likes, and changes the
//! folder from which the helper reads.
//!
//! What comes in: raw requests at the real helper's socket, forged, older and altered generations, links
//! and FIFOs in the place of files. What goes out: each is refused by name; what runs, the helper's
//! inventory and its floors are compared before and after.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use outhaul_bundle::digest::Digest;
use outhaul_test_kit::{Centre, Draft, Load};
use outhaul_tests::skipped;
use serde_json::{Value, json};

use crate::site::{Site, Tree, assert_reports, code, copy, stderr, tree};
use crate::split::{NOBODY, Split, as_user, give, no_other_user};

fn draft(greeting: &str) -> Draft {
    Draft::new([Load::new("hello")
        .file("manifest.yaml", format!("greeting: {greeting}\n"))
        .payload("image", outhaul_test_kit::noise(50_000))])
}

/// A site on which bundle 1 runs and bundle 2 is staged: the helper has not seen it.
fn staged() -> (Centre, Split) {
    let centre = Centre::new();
    let split = Split::new(Site::new(&centre, "drone-7"));
    split.site.take(&centre.publish(&draft("one")));
    let socket = split.socket();
    split.site.configure(&format!(
        "approval = \"always\"\n[apply]\nhelper = \"{}\"\n",
        socket.display()
    ));
    let second = centre.publish(&draft("two"));
    // Before it is asked about it.
    let mut import = split.site.command(&["import", second.to_str().unwrap()]);
    let cut = import.env("OUTHAUL_CUT", "staged-committed").output();
    assert_eq!(cut.unwrap().status.signal(), Some(9));
    (centre, split)
}

fn generation(split: &Split, number: u64) -> PathBuf {
    split.site.state().join(format!("generations/{number}"))
}

fn index_of(split: &Split, number: u64) -> String {
    let bytes = fs::read(generation(split, number).join("index.json")).unwrap();
    Digest::of(&bytes).to_string()
}

pub fn request(split: &Split, verb: &str, number: u64) -> Value {
    json!({
        "format": "outhaul.dev/apply/v1",
        "verb": verb,
        "number": number,
        "index": index_of(split, number),
        "assignment": "hello",
    })
}

/// Sends bytes to the helper and returns what it answers.
fn send(split: &Split, bytes: &[u8]) -> Value {
    let mut stream = UnixStream::connect(split.socket()).unwrap();
    // It may have answered and gone before all is sent.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    let line = answer.lines().find(|line| !line.is_empty());
    serde_json::from_str(line.unwrap_or("null")).unwrap()
}

pub fn ask(split: &Split, request: &Value) -> Value {
    send(split, format!("{request}\n").as_bytes())
}

/// All that the helper has, but for the record of the clock.
fn whole(split: &Split) -> Tree {
    let mut all = tree(&split.folder());
    all.retain(|name, _| !name.starts_with("agent.db") && name != "lock");
    all.retain(|name, _| !name.starts_with("identities/"));
    all
}

#[track_caller]
fn assert_refused(split: &Split, request: &Value, rule: &str, words: &str) {
    let before = whole(split);
    let answer = ask(split, request);
    assert_eq!(answer["refused"]["rule"], rule, "{request}: {answer}");
    let message = answer["refused"]["message"].as_str().unwrap();
    assert!(message.contains(words), "{message}");
    assert_eq!(whole(split), before, "{request}");
}

#[test]
fn a_request_that_is_none_is_refused() {
    let (_centre, split) = staged();
    let before = whole(&split);
    let fine = request(&split, "apply", 2);
    let with = |key: &str, value: Value| {
        let mut changed = fine.clone();
        changed[key] = value;
        changed.to_string()
    };
    let requests = [
        (
            "unknown verb",
            with("verb", "delete".into()),
            "unknown variant `delete`",
        ),
        (
            "a command",
            with("command", "id".into()),
            "unknown field `command`",
        ),
        (
            "a path",
            with("assignment", "../../etc".into()),
            "not understood",
        ),
        (
            "an absolute path",
            with("assignment", "/etc".into()),
            "not understood",
        ),
        ("no digest", with("index", "7".into()), "not understood"),
        (
            "another format",
            with("format", "v2".into()),
            "its format is not",
        ),
        (
            "a huge number",
            with("number", u64::MAX.into()),
            "out of range",
        ),
        (
            "oversized",
            with("assignment", "a".repeat(70_000).into()),
            "larger than 65536",
        ),
        ("no JSON", "rm -rf /".to_owned(), "not understood"),
    ];
    for (name, text, words) in requests {
        let answer = send(&split, format!("{text}\n").as_bytes());
        assert_eq!(answer["refused"]["rule"], "request", "{name}: {answer}");
        let message = answer["refused"]["message"].as_str().unwrap();
        assert!(message.contains(words), "{name}: {message}");
    }
    // Without an end: what is larger than any request is not waited for.
    let answer = send(&split, &vec![b'a'; 1 << 20]);
    assert!(
        answer.is_null() || answer["refused"]["rule"] == "request",
        "{answer}"
    );
    assert_eq!(whole(&split), before);
    // The one that they were made of is carried out.
    let answer = ask(&split, &fine);
    assert_eq!(
        answer["applied"]["result"]["status"], "compliant",
        "{answer}"
    );
}

#[test]
fn an_index_that_nobody_signed_is_refused_whatever_lies_beside_it() {
    let (_centre, split) = staged();
    // A digest that is nowhere.
    let mut wanted = request(&split, "apply", 2);
    wanted["index"] = Digest::of(b"evil").to_string().into();
    assert_refused(&split, &wanted, "content", "asked for is");
    // A changed index under its own digest, with the metadata of the one that was signed.
    let path = generation(&split, 2).join("index.json");
    let signed = fs::read_to_string(&path).unwrap();
    fs::write(&path, signed.replacen("\"hello\"", "\"helium\"", 1)).unwrap();
    let mut evil = request(&split, "apply", 2);
    evil["assignment"] = "helium".into();
    assert_refused(
        &split,
        &evil,
        "mix-and-match",
        "the signed metadata is of bundle 2",
    );
    // The same under a number that nobody knows.
    copy(&generation(&split, 2), &generation(&split, 9));
    assert_refused(
        &split,
        &request(&split, "apply", 9),
        "mix-and-match",
        "of bundle 2",
    );
    // And without metadata.
    fs::remove_dir_all(generation(&split, 9).join("metadata")).unwrap();
    let answer = ask(&split, &request(&split, "apply", 9));
    assert!(answer["refused"]["rule"].is_string(), "{answer}");
    // Metadata with a flipped byte.
    fs::write(&path, signed).unwrap();
    let metadata = generation(&split, 2).join("metadata");
    for entry in fs::read_dir(&metadata).unwrap() {
        let path = entry.unwrap().path();
        // The helper goes by the root that it has.
        if path.ends_with("root.json") {
            continue;
        }
        let whole = fs::read(&path).unwrap();
        let text = String::from_utf8(whole.clone()).unwrap();
        fs::write(
            &path,
            text.replacen("\"version\":", "\"version\" :", 1)
                .replacen("20", "21", 1),
        )
        .unwrap();
        let answer = ask(&split, &request(&split, "apply", 2));
        assert!(
            answer["refused"].is_object(),
            "{}: {answer}",
            path.display()
        );
        fs::write(&path, whole).unwrap();
    }
    assert_eq!(split.applied()["hello/manifest.yaml"], b"greeting: one\n");
}

#[test]
fn an_older_bundle_is_refused_unless_it_is_one_of_the_last() {
    let centre = Centre::new();
    let split = Split::new(Site::new(&centre, "drone-7"));
    split.site.take(&centre.publish(&draft("one")));
    let kept = split.site.folder.path().join("one");
    copy(&generation(&split, 1), &kept);
    let blobs = split.site.state().join("blobs/sha256");
    copy(&blobs, &split.site.folder.path().join("blobs"));
    for greeting in ["two", "three", "four", "five"] {
        split.site.take(&centre.publish(&draft(greeting)));
    }
    copy(&kept, &generation(&split, 1));
    fs::remove_dir_all(&blobs).unwrap();
    copy(&split.site.folder.path().join("blobs"), &blobs);
    assert_refused(&split, &request(&split, "apply", 1), "rollback", "");
    assert_eq!(split.applied()["hello/manifest.yaml"], b"greeting: five\n");
    // The one before is what a person on site may go back to.
    split.site.ok(&["rollback"]);
    assert_eq!(split.applied()["hello/manifest.yaml"], b"greeting: four\n");
}

#[test]
fn what_is_altered_linked_or_no_file_is_never_copied() {
    let (_centre, split) = staged();
    let wanted = request(&split, "apply", 2);
    let secret = split.site.folder.path().join("secret");
    fs::write(&secret, "root only").unwrap();
    let blob = fs::read_dir(split.site.state().join("blobs/sha256"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .max_by_key(|path| fs::metadata(path).unwrap().len())
        .unwrap();
    let whole = fs::read(&blob).unwrap();
    let mut altered = whole.clone();
    altered[100] ^= 1;
    fs::write(&blob, &altered).unwrap();
    assert_refused(
        &split,
        &wanted,
        "content",
        "not what the signed index names",
    );
    fs::write(&blob, &whole[..whole.len() - 1]).unwrap();
    assert_refused(
        &split,
        &wanted,
        "content",
        "not what the signed index names",
    );
    fs::write(&blob, [whole.clone(), vec![0; 1 << 20]].concat()).unwrap();
    assert_refused(
        &split,
        &wanted,
        "content",
        "not what the signed index names",
    );
    fs::remove_file(&blob).unwrap();
    assert_refused(
        &split,
        &wanted,
        "handed-over",
        "is not in the agent's folder",
    );
    // Nothing that lies in its place is opened, and nothing is waited for.
    let link = |to: &Path| std::os::unix::fs::symlink(&secret, to).unwrap();
    let fifo = |to: &Path| {
        assert!(Command::new("mkfifo").arg(to).status().unwrap().success());
    };
    let index = generation(&split, 2).join("index.json");
    let timestamp = generation(&split, 2).join("metadata/timestamp.json");
    let aside = split.site.folder.path().join("aside");
    fs::write(&blob, &whole).unwrap();
    for path in [&blob, &index, &timestamp] {
        for name in ["a symbolic link", "a FIFO"] {
            fs::rename(path, &aside).unwrap();
            match name {
                "a FIFO" => fifo(path),
                _ => link(path),
            }
            let before = self::whole(&split);
            let answer = ask(&split, &wanted);
            let message = answer["refused"]["message"].as_str().unwrap_or_default();
            assert!(message.contains(name), "{}: {answer}", path.display());
            assert!(!answer.to_string().contains("root only"));
            assert_eq!(self::whole(&split), before);
            fs::rename(&aside, path).unwrap();
        }
    }
    // A folder of it, too.
    let blobs = split.site.state().join("blobs");
    fs::rename(&blobs, &aside).unwrap();
    std::os::unix::fs::symlink(&aside, &blobs).unwrap();
    assert_refused(&split, &wanted, "handed-over", "a symbolic link");
    fs::remove_file(&blobs).unwrap();
    fs::rename(&aside, &blobs).unwrap();
    assert_eq!(split.applied()["hello/manifest.yaml"], b"greeting: one\n");
    // As it was, it installs.
    split.site.ok(&["approve", "2"]);
    assert_eq!(split.applied()["hello/manifest.yaml"], b"greeting: two\n");
}

#[test]
fn only_what_the_signed_index_does_not_have_is_removed_and_only_by_the_inventory() {
    let (_centre, split) = staged();
    let remove = request(&split, "remove", 1);
    assert_refused(&split, &remove, "assignment", "has the assignment `hello`");
    // An inventory that the agent made up is not looked at.
    let foreign = split.folder().join("applied/foreign/file");
    fs::create_dir_all(foreign.parent().unwrap()).unwrap();
    fs::write(&foreign, "precious").unwrap();
    let db = rusqlite::Connection::open(split.site.state().join("agent.db")).unwrap();
    db.execute(
        "INSERT INTO inventory (kind, assignment, item, digest, before, generation, phase)
         VALUES ('folder', 'foreign', 'foreign/file', '', '', 1, 'applied')",
        [],
    )
    .unwrap();
    let mut remove = request(&split, "remove", 1);
    remove["assignment"] = "foreign".into();
    let answer = ask(&split, &remove);
    assert_eq!(answer["removed"]["steps"], json!([]), "{answer}");
    split.site.ok(&["apply"]);
    assert_eq!(fs::read(&foreign).unwrap(), b"precious");
}

#[test]
fn another_user_is_not_answered() {
    if let Some(why) = no_other_user() {
        return skipped(why);
    }
    let (_centre, split) = staged();
    let site = &split.site;
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(site.folder.path(), open).unwrap();
    give(&site.state(), NOBODY);
    let before = whole(&split);
    // A user who has a copy of all that the agent has.
    let other = site.copy();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(other.folder.path(), open).unwrap();
    give(&other.state(), NOBODY - 1);
    let output = as_user(&other, NOBODY - 1, &["approve", "2"]);
    assert_reports(
        &output,
        3,
        &["refuses this agent (peer)", "user 65533 asks"],
    );
    assert_eq!(whole(&split), before);
    let output = as_user(site, NOBODY, &["approve", "2"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(split.applied()["hello/manifest.yaml"], b"greeting: two\n");
}
