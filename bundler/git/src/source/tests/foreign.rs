//! What a repository that someone else made puts in the place of its objects: a commit's id means what it always did.
//!
//! What comes in: repositories with replaced, grafted, cached, filtered and overwritten objects. What must come out: the
//! content that the commit's id has, or an error that names the object.

use sha1::{Digest as _, Sha1};

use super::*;

const URL: &str = "https://example.org/app";

/// The content of `a.yaml` at `commit`, or why it cannot be read.
fn read(dir: &Path, commit: &str) -> Result<String, SourceError> {
    let id = commit.to_owned();
    let opened = open_folder(dir, URL, &GitReference::Commit { id, near: None })?;
    assert_eq!(opened.commit, commit);
    let tree = opened.tree("", &all, &TreeLimits::YAML)?;
    let file = tree.files.iter().find(|file| file.path == "a.yaml");
    Ok(String::from_utf8_lossy(&file.unwrap().bytes).into_owned())
}

fn hash(dir: &Path, text: &str) -> String {
    let file = dir.join(".git/forged");
    fs::write(&file, text).unwrap();
    git(dir, &["hash-object", "-w", file.to_str().unwrap()])
}

#[test]
fn attack_a_replaced_commit_folder_or_file_is_not_what_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let (first, second) = repository(dir.path());
    let forged = hash(dir.path(), "forged\n");
    let mirror = dir.path().join("mirror");
    for (of, by) in [
        (first.clone(), second.clone()),
        (format!("{first}^{{tree}}"), format!("{second}^{{tree}}")),
        (format!("{first}:a.yaml"), forged),
    ] {
        let [of, by] = [of, by].map(|one| git(dir.path(), &["rev-parse", &one]));
        git(dir.path(), &["replace", "-f", &of, &by]);
        let shown = git(dir.path(), &["show", &format!("{first}:a.yaml")]);
        assert_ne!(shown, "one", "git itself follows it");
        assert_eq!(read(dir.path(), &first).unwrap(), "one\n");
        // A mirror has the references of its origin, these too.
        let _ = fs::remove_dir_all(&mirror);
        let from = dir.path().to_str().unwrap();
        let to = mirror.to_str().unwrap();
        git(dir.path(), &["clone", "--quiet", "--mirror", from, to]);
        assert!(!git(&mirror, &["replace", "--list"]).is_empty());
        assert_eq!(read(&mirror, &first).unwrap(), "one\n");
        git(dir.path(), &["replace", "-d", &of]);
    }
}

#[test]
fn attack_grafts_and_a_forged_commit_graph_make_no_other_parents() {
    let dir = tempfile::tempdir().unwrap();
    let (first, second) = repository(dir.path());
    git(dir.path(), &["checkout", "--quiet", "-f", "main"]);
    fs::write(dir.path().join("a.yaml"), "beside\n").unwrap();
    git(dir.path(), &["commit", "--quiet", "-am", "beside"]);
    let beside = git(dir.path(), &["rev-parse", "HEAD"]);
    let repository = git::Repository::at(dir.path());
    let grafts = dir.path().join(".git/info/grafts");
    fs::create_dir_all(grafts.parent().unwrap()).unwrap();
    fs::write(&grafts, format!("{beside} {second}\n")).unwrap();
    let is_before = ["merge-base", "--is-ancestor", &second, &beside];
    git(dir.path(), &is_before);
    assert!(!repository.follows(&second, &beside).unwrap());

    // The cache of commits, with another folder for one of them and a sum that fits.
    fs::remove_file(&grafts).unwrap();
    git(dir.path(), &["commit-graph", "write", "--reachable"]);
    let graph = dir.path().join(".git/objects/info/commit-graph");
    let mut bytes = fs::read(&graph).unwrap();
    let of = |id: &str| hex::decode(git(dir.path(), &["rev-parse", id])).unwrap();
    let [from, to] = [
        of(&format!("{first}^{{tree}}")),
        of(&format!("{second}^{{tree}}")),
    ];
    let at = bytes.windows(20).position(|one| one == from).unwrap();
    bytes[at..at + 20].copy_from_slice(&to);
    let end = bytes.len() - 20;
    let sum = Sha1::digest(&bytes[..end]);
    bytes[end..].copy_from_slice(&sum);
    fs::remove_file(&graph).unwrap();
    fs::write(&graph, bytes).unwrap();
    let log = ["log", "-1", "--format=%T", &first];
    assert_eq!(
        git(dir.path(), &log),
        hex::encode(&to),
        "git itself takes it from there"
    );
    let said = repository.run(&log).unwrap();
    assert_eq!(git::text(&said), hex::encode(&from));
    assert_eq!(read(dir.path(), &first).unwrap(), "one\n");
}

#[test]
fn attack_an_object_overwritten_in_the_store_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (first, second) = repository(dir.path());
    let forged = hash(dir.path(), "forged\n");
    let place = |id: &str| {
        dir.path()
            .join(".git/objects")
            .join(&id[..2])
            .join(&id[2..])
    };
    for (of, by) in [
        (format!("{first}:a.yaml"), forged),
        (format!("{first}^{{tree}}"), format!("{second}^{{tree}}")),
        (first.clone(), second.clone()),
    ] {
        let [of, by] = [of, by].map(|one| git(dir.path(), &["rev-parse", &one]));
        let kept = fs::read(place(&of)).unwrap();
        fs::remove_file(place(&of)).unwrap();
        fs::copy(place(&by), place(&of)).unwrap();
        let refused = read(dir.path(), &first).unwrap_err();
        assert!(
            matches!(
                refused,
                SourceError::Damaged { .. } | SourceError::DamagedCommit { .. }
            ),
            "{refused}"
        );
        fs::remove_file(place(&of)).unwrap();
        fs::write(place(&of), kept).unwrap();
        assert_eq!(read(dir.path(), &first).unwrap(), "one\n");
    }
}

#[test]
fn attack_attributes_filters_and_line_ends_change_no_file_and_run_nothing() {
    let dir = tempfile::tempdir().unwrap();
    git(dir.path(), &["init", "--quiet", "--initial-branch", "main"]);
    let text = "one $Id$ $Format:%H$\r\ntwo\n";
    fs::write(dir.path().join("a.yaml"), text).unwrap();
    git(dir.path(), &["add", "."]);
    git(dir.path(), &["commit", "--quiet", "-m", "one"]);
    let first = git(dir.path(), &["rev-parse", "HEAD"]);
    let ran = dir.path().join("ran");
    let program = format!("touch {}; cat", ran.display());
    let info = dir.path().join(".git/info");
    fs::create_dir_all(&info).unwrap();
    let attributes = "* text eol=crlf ident export-subst filter=a=b working-tree-encoding=UTF-16\n";
    fs::write(info.join("attributes"), attributes).unwrap();
    fs::write(dir.path().join(".gitattributes"), attributes).unwrap();
    for (name, value) in [
        ("core.autocrlf", "true"),
        ("core.eol", "crlf"),
        ("filter.a=b.clean", &program),
        ("filter.a=b.smudge", &program),
        ("filter.a=b.required", "true"),
        ("core.fsmonitor", &program),
    ] {
        git(dir.path(), &["config", name, value]);
    }
    assert_eq!(read(dir.path(), &first).unwrap(), text);
    // What is edited is compared with what is committed: by nobody's filter.
    fs::write(dir.path().join("a.yaml"), text.replace("one", "eno")).unwrap();
    let opened = open_folder(dir.path(), URL, &GitReference::Head).unwrap();
    let (edited, _) = opened.uncommitted(&GitReference::Head, 5).unwrap();
    assert!(edited.contains(&"a.yaml".to_owned()), "{edited:?}");
    assert!(!ran.exists());
    git(dir.path(), &["-c", "core.fsmonitor=false", "status"]);
    assert!(ran.exists(), "git by itself runs it");
}

#[test]
fn attack_a_repository_that_lacks_objects_starts_no_program_to_get_them() {
    let dir = tempfile::tempdir().unwrap();
    let (first, _) = repository(dir.path());
    let ran = dir.path().join("ran");
    let program = format!("touch {};", ran.display());
    for (name, value) in [
        ("core.repositoryFormatVersion", "1"),
        ("extensions.partialClone", "origin"),
        ("remote.origin.promisor", "true"),
        ("remote.origin.url", dir.path().to_str().unwrap()),
        ("remote.origin.uploadpack", &program),
    ] {
        git(dir.path(), &["config", name, value]);
    }
    let blob = git(dir.path(), &["rev-parse", &format!("{first}:a.yaml")]);
    fs::remove_file(
        dir.path()
            .join(".git/objects")
            .join(&blob[..2])
            .join(&blob[2..]),
    )
    .unwrap();
    read(dir.path(), &first).unwrap_err();
    let text = ["cat-file", "-p", &blob];
    crate::program::Git::local(dir.path())
        .text(&text)
        .unwrap_err();
    assert!(!ran.exists());
    crate::program::Git::at(dir.path()).text(&text).unwrap_err();
    assert!(ran.exists(), "a command that may fetch starts it");
}

#[test]
fn attack_alternates_and_a_shallow_list_hide_and_change_nothing_that_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let (first, second) = repository(dir.path());
    let other = tempfile::tempdir().unwrap();
    git(other.path(), &["init", "--quiet"]);
    let path = dir.path().join(".git/objects");
    fs::create_dir_all(other.path().join(".git/objects/info")).unwrap();
    fs::write(
        other.path().join(".git/objects/info/alternates"),
        format!("{}\n", path.display()),
    )
    .unwrap();
    assert_eq!(read(other.path(), &first).unwrap(), "one\n");
    // A list of commits without parents only ends the history: nothing that was not before a commit is before it.
    fs::write(other.path().join(".git/shallow"), format!("{second}\n")).unwrap();
    let repository = git::Repository::at(other.path());
    assert!(!repository.follows(&first, &second).unwrap());
    assert!(
        git::Repository::at(dir.path())
            .follows(&first, &second)
            .unwrap()
    );
    assert_eq!(read(other.path(), &second).unwrap(), "two\n");
}
