//! Tests of the output: what is replaced, what stays, and that a refusal changes nothing.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fs;

use outhaul_bundle::index::{Snapshot, Source};

use super::write::TreeContent;
use super::*;
use outhaul_record::isolation::Kept;

mod runs_tests;

/// Everything again, as a run without a past does it.
fn write(
    out: &Path,
    tree: &BTreeMap<String, Vec<u8>>,
    snapshot: &Snapshot,
    kept: BTreeMap<String, Kept>,
) -> Result<FolderChanges, OutputError> {
    let before = remembered(out, &snapshot.environment.name, true)?;
    let content = |bytes: &Vec<u8>| TreeContent::Bytes(Cow::Owned(bytes.clone()));
    let tree = tree
        .iter()
        .map(|(path, bytes)| (path.clone(), content(bytes)));
    let record = Record::new(&snapshot.environment.name, snapshot, None, kept);
    let written = super::write::write(out, &tree.collect(), record, &before)?;
    Ok(written.changes)
}

fn snapshot() -> Snapshot {
    let source = Source {
        name: "dev".into(),
        repo: String::new(),
        commit: "1".into(),
    };
    outhaul_bundle::index::Snapshot::of(source.clone(), source, Vec::new())
}

fn tree(files: &[(&str, &str)]) -> BTreeMap<String, Vec<u8>> {
    files
        .iter()
        .map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec()))
        .collect()
}

#[test]
fn the_folder_is_the_tree_and_what_others_put_there_stays() {
    let parent = tempfile::tempdir().unwrap();
    let out = parent.path().join("out");
    let first = tree(&[
        ("a/one.yaml", "1"),
        ("a/two.yaml", "2"),
        ("b/three.yaml", "3"),
    ]);
    let changes = write(&out, &first, &snapshot(), BTreeMap::new()).unwrap();
    assert_eq!(
        changes,
        FolderChanges {
            added: 3,
            ..FolderChanges::default()
        }
    );
    assert_eq!(read_tree(&out).unwrap(), first);

    fs::write(out.join("a/notes.txt"), "mine").unwrap();
    let second = tree(&[("a/one.yaml", "1"), ("a/two.yaml", "two")]);
    let changes = write(&out, &second, &snapshot(), BTreeMap::new()).unwrap();
    let expected = FolderChanges {
        changed: 1,
        removed: 1,
        unchanged: 1,
        foreign: 1,
        added: 0,
    };
    assert_eq!(changes, expected);
    let mut both = second.clone();
    both.insert("a/notes.txt".into(), b"mine".to_vec());
    assert_eq!(read_tree(&out).unwrap(), both);
    let names: BTreeSet<_> = fs::read_dir(parent.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(
        names,
        BTreeSet::from(["out".into(), "out.outhaul.json".into()]),
        "nothing is left over"
    );
}

#[test]
fn a_file_of_somebody_else_is_not_overwritten() {
    let parent = tempfile::tempdir().unwrap();
    let out = parent.path().join("out");
    fs::create_dir_all(out.join("a")).unwrap();
    fs::write(out.join("a/one.yaml"), "theirs").unwrap();
    let refused = write(
        &out,
        &tree(&[("a/one.yaml", "ours"), ("b.yaml", "2")]),
        &snapshot(),
        BTreeMap::new(),
    );
    assert!(
        matches!(refused, Err(OutputError::Foreign { count: 1, .. })),
        "{refused:?}"
    );
    assert_eq!(read_tree(&out).unwrap(), tree(&[("a/one.yaml", "theirs")]));
    assert!(record(&out).unwrap().is_none());
}

#[test]
fn attack_a_lost_record_leaves_no_assignment_behind_in_silence() {
    let parent = tempfile::tempdir().unwrap();
    let out = parent.path().join("out");
    let all = tree(&[("a/one/namespace.yaml", "1"), ("a/two/namespace.yaml", "2")]);
    let put = |tree| write(&out, tree, &snapshot(), BTreeMap::new());
    put(&all).unwrap();
    let lost = || fs::remove_file(parent.path().join("out.outhaul.json")).unwrap();
    lost();
    let less = tree(&[("a/one/namespace.yaml", "1")]);
    let refused = put(&less);
    assert!(
        matches!(&refused, Err(OutputError::Lost { first, count: 1, .. }) if first == "a/two/namespace.yaml"),
        "{refused:?}"
    );
    assert_eq!(read_tree(&out).unwrap(), all);
    assert!(record(&out).unwrap().is_none());
    // Where nothing was removed meanwhile, nothing can be left behind.
    put(&all).unwrap();
    // Nor by a record that is there and was emptied, or lost one of its lines.
    let path = parent.path().join("out.outhaul.json");
    let whole = fs::read_to_string(&path).unwrap();
    let mut record: serde_json::Value = serde_json::from_str(&whole).unwrap();
    let files = record["files"].as_object_mut().unwrap();
    files.remove("a/two/namespace.yaml").unwrap();
    for _ in 0..2 {
        fs::write(&path, record.to_string()).unwrap();
        let refused = put(&less).unwrap_err();
        assert!(
            matches!(&refused, OutputError::Lost { is_there: true, first, count: 1, .. } if first == "a/two/namespace.yaml"),
            "{refused:?}"
        );
        let said = refused.to_string();
        assert!(said.contains("does not list every file"), "{said}");
        assert_eq!(fs::read_to_string(&path).unwrap(), record.to_string());
        record["files"] = serde_json::json!({});
    }
    fs::write(&path, whole).unwrap();
    fs::write(out.join("a/notes.txt"), "mine").unwrap();
    lost();
    put(&all).unwrap();
    assert_eq!(put(&less).unwrap().removed, 1);
}

#[test]
fn the_record_names_the_commits_and_every_file() {
    let parent = tempfile::tempdir().unwrap();
    let out = parent.path().join("out");
    write(
        &out,
        &tree(&[("a.yaml", "1")]),
        &snapshot(),
        BTreeMap::new(),
    )
    .unwrap();
    let record = record(&out).unwrap().unwrap();
    assert_eq!(record.snapshot, snapshot());
    assert_eq!(
        record.files,
        BTreeMap::from([("a.yaml".to_owned(), Digest::of(b"1"))])
    );
}

/// What a program wrote that had a separate format for a folder's record.
#[test]
fn a_folder_with_a_record_of_before_goes_on() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../record/src/record/golden");
    let parent = tempfile::tempdir().unwrap();
    let out = parent.path().join("out");
    let mut all = read_tree(&golden.join("out")).unwrap();
    for (path, bytes) in &all {
        let file = out.join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, bytes).unwrap();
    }
    let record_file = parent.path().join("out.outhaul.json");
    fs::copy(golden.join("out.outhaul.json"), &record_file).unwrap();
    let before = record(&out).unwrap().unwrap();
    let (gone, _) = all.pop_first().unwrap();

    let changes = write(&out, &all, &snapshot(), BTreeMap::new()).unwrap();
    let expected = FolderChanges {
        removed: 1,
        unchanged: all.len(),
        ..FolderChanges::default()
    };
    assert_eq!(changes, expected, "`{gone}` was ours by the old record");
    assert_eq!(read_tree(&out).unwrap(), all);
    let after = record(&out).unwrap().unwrap();
    assert_eq!(after.files.len() + 1, before.files.len());
    let text = fs::read_to_string(record_file).unwrap();
    assert!(text.contains("\"outhaul.dev/output/v1\""), "{text}");
}
