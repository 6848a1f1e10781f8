//! Sources: spelling of URLs, mappings, folders and real git repositories.

use std::fs;
use std::process::Command;

use super::*;

mod foreign;

fn git(dir: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .arg("-C")
        .arg(dir)
        .args([
            "-c",
            "user.name=T",
            "-c",
            "user.email=t@example.org",
            "-c",
            "commit.gpgsign=false",
        ])
        .args(arguments)
        .output()
        .expect("git is installed");
    assert!(
        output.status.success(),
        "git {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A repository with `main` (a.yaml, sub/b.sh executable, a link) and a second commit on `dev`.
fn repository(dir: &Path) -> (String, String) {
    git(dir, &["init", "--quiet", "--initial-branch", "main"]);
    fs::create_dir(dir.join("sub")).unwrap();
    fs::write(dir.join("a.yaml"), "one\n").unwrap();
    fs::write(dir.join("sub/b.sh"), "#!/bin/sh\n").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", dir.join("link.yaml")).unwrap();
    git(dir, &["add", "."]);
    git(dir, &["update-index", "--chmod=+x", "sub/b.sh"]);
    git(dir, &["commit", "--quiet", "-m", "one"]);
    let first = git(dir, &["rev-parse", "HEAD"]);
    git(dir, &["checkout", "--quiet", "-b", "dev"]);
    fs::write(dir.join("a.yaml"), "two\n").unwrap();
    git(dir, &["commit", "--quiet", "-am", "two"]);
    let second = git(dir, &["rev-parse", "HEAD"]);
    fs::write(dir.join("a.yaml"), "not committed\n").unwrap();
    (first, second)
}

fn all(_: &str) -> bool {
    true
}

#[test]
fn spellings_of_one_url_are_one_repository() {
    let one = normal_url("https://GitHub.com/Org/app");
    for other in [
        "https://github.com/Org/app.git",
        "https://github.com/Org/app/",
        "HTTPS://github.com/Org/app.git/",
    ] {
        assert_eq!(normal_url(other), one, "{other}");
    }
    assert_ne!(
        normal_url("https://github.com/org/app"),
        one,
        "paths keep their case"
    );
}

#[test]
fn a_working_copy_gives_its_commits_and_never_its_files() {
    let dir = tempfile::tempdir().unwrap();
    let (first, second) = repository(dir.path());
    let map =
        SourceMap::parse(&[format!("https://example.org/app={}", dir.path().display())]).unwrap();
    let cache = Cache::at(dir.path().join("no-cache"));
    let open = |reference| open("https://example.org/app.git", &reference, &map, &cache).unwrap();

    let main = open(GitReference::Branch("main".into()));
    assert_eq!(main.commit, first);
    let tree = main.tree("./", &all, &TreeLimits::YAML).unwrap();
    let seen: Vec<_> = tree
        .files
        .iter()
        .map(|f| (f.path.as_str(), f.executable))
        .collect();
    assert_eq!(seen, [("a.yaml", false), ("sub/b.sh", true)]);
    assert_eq!(
        tree.skipped,
        ["link.yaml"],
        "links are named and not followed"
    );
    assert_eq!(
        main.tree("sub", &all, &TreeLimits::YAML).unwrap().files[0].path,
        "b.sh"
    );

    let dev = open(GitReference::Branch("dev".into()));
    assert_eq!(dev.commit, second);
    assert_eq!(
        dev.tree("", &all, &TreeLimits::YAML).unwrap().files[0].bytes,
        b"two\n"
    );
    let pinned = open(GitReference::Commit {
        id: first.clone(),
        near: None,
    });
    assert_eq!(pinned.commit, first);
    assert!(
        !dir.path().join("no-cache").exists(),
        "a mapped source needs no cache"
    );
}

#[test]
fn what_is_not_there_is_named() {
    let dir = tempfile::tempdir().unwrap();
    repository(dir.path());
    let nowhere = SourceMap::default();
    let cache = Cache::at(dir.path().join("cache"));
    let url = dir.path().to_str().unwrap();
    let error =
        open_given(url, &GitReference::Branch("prod".into()), &nowhere, &cache).unwrap_err();
    assert!(
        matches!(error, SourceError::NoSuchReference { .. }),
        "{error}"
    );
    let main = open_given(url, &GitReference::Branch("main".into()), &nowhere, &cache).unwrap();
    let error = main.tree("missing", &all, &TreeLimits::YAML).unwrap_err();
    assert!(matches!(error, SourceError::NoSuchPath { .. }), "{error}");
    let error = main.tree("../..", &all, &TreeLimits::YAML).unwrap_err();
    assert!(matches!(error, SourceError::EscapingPath { .. }), "{error}");
    for url in ["--upload-pack=touch x", "ext::sh -c id"] {
        let error = open_given(url, &GitReference::Head, &nowhere, &cache).unwrap_err();
        assert!(matches!(error, SourceError::Address(_)), "{error}");
    }
    let error = open_given("/no/such/folder", &GitReference::Head, &nowhere, &cache).unwrap_err();
    assert!(matches!(error, SourceError::Missing { .. }), "{error}");
    assert!(error.is_input());
}

#[test]
fn what_a_team_writes_opens_no_folder_of_this_machine_and_no_git_of_it() {
    let dir = tempfile::tempdir().unwrap();
    repository(dir.path());
    let plain = tempfile::tempdir().unwrap();
    fs::write(plain.path().join("passphrase"), "secret").unwrap();
    let cache = Cache::at(dir.path().join("cache"));
    let mut map = SourceMap::default();
    for folder in [dir.path(), plain.path()] {
        for url in [
            folder.display().to_string(),
            format!("file://{}", folder.display()),
            format!("FILE://localhost{}", folder.display()),
        ] {
            let error = open(&url, &GitReference::Head, &map, &cache).unwrap_err();
            assert!(matches!(error, SourceError::Address(_)), "{url}: {error}");
            assert!(error.is_input());
            // That it was typed as the control plane's opens it there, and not for a workload.
            map.insert_given(&url);
            let error = open(&url, &GitReference::Head, &map, &cache).unwrap_err();
            assert!(matches!(error, SourceError::Address(_)), "{url}: {error}");
        }
    }
    assert!(!dir.path().join("cache").exists(), "nothing was fetched");
    // A typed `--source` does.
    let url = plain.path().display().to_string();
    let map = SourceMap::parse(&[format!("{url}={url}")]).unwrap();
    assert!(open(&url, &GitReference::Head, &map, &cache).is_ok());
}

#[test]
fn a_link_in_a_folder_is_no_folder_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let secret = tempfile::tempdir().unwrap();
    fs::write(secret.path().join("key.yaml"), "secret").unwrap();
    std::os::unix::fs::symlink(secret.path(), dir.path().join("deploy")).unwrap();
    for commit in [None, Some("0123")] {
        let opened = open_plain(dir.path(), "x", commit).unwrap();
        let error = opened
            .tree("deploy", &all, &TreeLimits::PAYLOAD)
            .unwrap_err();
        assert!(matches!(error, SourceError::Linked { .. }), "{error}");
    }
}

#[test]
fn a_repository_whose_settings_start_a_program_starts_none() {
    let dir = tempfile::tempdir().unwrap();
    let (first, _) = repository(dir.path());
    let mark = dir.path().join("mark");
    let touch = format!("touch {}", mark.display());
    // A partial clone asks its server for what it lacks.
    for (name, value) in [
        ("core.repositoryformatversion", "1"),
        ("extensions.partialClone", "origin"),
        ("remote.origin.promisor", "true"),
        ("remote.origin.url", dir.path().to_str().unwrap()),
        ("remote.origin.uploadpack", touch.as_str()),
        ("core.sshCommand", touch.as_str()),
        ("core.fsmonitor", touch.as_str()),
    ] {
        git(dir.path(), &["config", name, value]);
    }
    let blob = git(dir.path(), &["rev-parse", &format!("{first}:a.yaml")]);
    let (folder, file) = blob.split_at(2);
    fs::remove_file(dir.path().join(".git/objects").join(folder).join(file)).unwrap();
    let id = first;
    let opened = open_folder(dir.path(), "x", &GitReference::Commit { id, near: None }).unwrap();
    opened.tree("", &all, &TreeLimits::YAML).unwrap_err();
    assert!(!mark.exists(), "a program was started");
}

/// Trees that name one another: `width` to the power of `depth` files of a few bytes.
fn tree_bomb(dir: &Path, width: usize, depth: usize) -> String {
    git(dir, &["init", "--quiet", "--bare"]);
    let make = |arguments: &[&str], input: &str| {
        use std::io::Write as _;
        let mut child = Command::new("git")
            .arg("-C")
            .arg(dir)
            .args(["-c", "user.name=T", "-c", "user.email=t@example.org"])
            .args(arguments)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(input.as_bytes())
            .unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let mut entry = format!(
        "100644 blob {}",
        make(&["hash-object", "-w", "--stdin"], "a: 1\n")
    );
    let mut tree = String::new();
    for _ in 0..depth {
        let lines: Vec<_> = (0..width)
            .map(|at| format!("{entry}\td{at}.yaml\n"))
            .collect();
        tree = make(&["mktree"], &lines.concat());
        entry = format!("040000 tree {tree}");
    }
    let commit = make(&["commit-tree", &tree, "-m", "x"], "");
    git(dir, &["update-ref", "refs/heads/main", &commit]);
    commit
}

#[test]
fn a_tree_of_a_hundred_million_files_is_refused_while_it_is_listed() {
    let dir = tempfile::tempdir().unwrap();
    let id = tree_bomb(dir.path(), 10, 8);
    let opened = open_folder(dir.path(), "x", &GitReference::Commit { id, near: None }).unwrap();
    let limits = TreeLimits {
        max_files: 1000,
        ..TreeLimits::YAML
    };
    for wanted in [all as fn(&str) -> bool, |_| false] {
        let error = opened.tree("", &wanted, &limits).unwrap_err();
        assert!(matches!(error, SourceError::TooLarge { .. }), "{error}");
    }
}

#[test]
fn a_fetched_repository_is_shallow_and_a_known_commit_needs_no_network() {
    let dir = tempfile::tempdir().unwrap();
    let origin = dir.path().join("origin");
    fs::create_dir(&origin).unwrap();
    let (first, second) = repository(&origin);
    let url = format!("file://{}", origin.display());
    let folder = dir.path().join("cache").join("x.git");

    let remote = git::Remote::given(Address::parse(&url).unwrap());
    let (fetched, commit) =
        git::fetch(&remote, &GitReference::Branch("dev".into()), &folder).unwrap();
    assert_eq!(commit, second);
    let mut files = 0;
    let mut count = |_: StreamedFile<'_>| {
        files += 1;
        Ok::<(), SourceError>(())
    };
    fetched
        .each(&commit, "", &all, &TreeLimits::YAML, &mut count)
        .unwrap()
        .unwrap();
    assert_eq!(files, 2);
    assert!(
        folder.join("shallow").is_file(),
        "only one commit was fetched"
    );

    // An older commit that the server may not give out by id is found on its branch.
    let near = Some("dev".to_owned());
    let pinned = GitReference::Commit {
        id: first.clone(),
        near,
    };
    assert_eq!(git::fetch(&remote, &pinned, &folder).unwrap().1, first);

    fs::remove_dir_all(&origin).unwrap();
    assert_eq!(
        git::fetch(&remote, &pinned, &folder).unwrap().1,
        first,
        "it is in the cache"
    );
    let error = git::fetch(&remote, &GitReference::Branch("dev".into()), &folder).unwrap_err();
    assert!(matches!(error, SourceError::Unreachable { .. }), "{error}");
    assert!(!error.is_input());
}

#[test]
fn a_history_that_cannot_be_completed_is_named_and_a_whole_one_is_searched() {
    let dir = tempfile::tempdir().unwrap();
    let (origin, away) = (dir.path().join("origin"), dir.path().join("away"));
    fs::create_dir(&origin).unwrap();
    let (_, second) = repository(&origin);
    let url = format!("file://{}", origin.display());
    let dev = GitReference::Branch("dev".into());
    let cache = Cache::at(dir.path().join("cache"));
    let remote = git::Remote::given(Address::parse(&url).unwrap());
    let opened = fetch(&remote, &url, &dev, &cache).unwrap();
    fs::rename(&origin, &away).unwrap();
    assert_eq!(opened.recorded_anywhere("^one", 9).unwrap(), []);
    let why = opened.missing_history().unwrap().unwrap();
    assert!(
        why.contains(&format!("ends at commit {second:.12}")) && why.contains("was not fetched"),
        "{why}"
    );
    fs::rename(&away, &origin).unwrap();
    assert_eq!(opened.recorded_anywhere("^one", 9).unwrap().len(), 1);
    assert_eq!(opened.missing_history().unwrap(), None);
}

#[test]
fn a_plain_folder_is_known_by_its_content() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a.yaml"), "a").unwrap();
    let url = dir.path().to_str().unwrap();
    let cache = Cache::at("unused");
    let open = || {
        open_given(
            url,
            &GitReference::Branch("any".into()),
            &SourceMap::default(),
            &cache,
        )
        .unwrap()
    };
    let before = open().commit;
    assert!(before.starts_with("sha256:"), "{before}");
    assert_eq!(open().commit, before);
    fs::write(dir.path().join("a.yaml"), "b").unwrap();
    assert_ne!(open().commit, before);
}

#[test]
fn a_file_beyond_the_limit_is_refused_and_named() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("big.yaml"), "12345").unwrap();
    let limits = TreeLimits {
        max_file_bytes: 4,
        ..TreeLimits::YAML
    };
    let opened = open_plain(dir.path(), "x", Some("0123")).unwrap();
    let error = opened.tree("", &all, &limits).unwrap_err();
    assert!(error.to_string().contains("big.yaml"), "{error}");
}

#[test]
fn a_folder_gives_the_same_files_opened_and_not_and_what_was_read_when_it_was_opened() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("b")).unwrap();
    // Enough files for several threads.
    for number in 0..2_000 {
        let path = dir.path().join(format!("b/{number:04}.yaml"));
        fs::write(path, format!("n: {number}\n")).unwrap();
    }
    fs::write(dir.path().join("b/large.yaml"), vec![b' '; 70_000]).unwrap();
    std::os::unix::fs::symlink("b", dir.path().join("link.yaml")).unwrap();
    let url = dir.path().to_str().unwrap();
    let opened = open_plain(dir.path(), url, None).unwrap();
    assert_eq!(
        open_plain(dir.path(), url, None).unwrap().commit,
        opened.commit
    );
    let listed = open_plain(dir.path(), url, Some("0123")).unwrap();
    for path in ["", "b"] {
        let limits = TreeLimits::YAML;
        let tree = opened.tree(path, &all, &limits).unwrap();
        assert_eq!(tree, listed.tree(path, &all, &limits).unwrap());
        assert_eq!(tree.files.len(), 2_001);
    }
    fs::write(dir.path().join("b/0007.yaml"), "n: another\n").unwrap();
    let only = |path: &str| path == "0007.yaml";
    let tree = opened.tree("b", &only, &TreeLimits::YAML).unwrap();
    assert_eq!(tree.files[0].bytes, b"n: 7\n", "what the digest is of");
}

#[test]
fn attack_a_branch_that_is_an_expression_of_git_is_no_branch() {
    let dir = tempfile::tempdir().unwrap();
    let (first, second) = repository(dir.path());
    git(dir.path(), &["checkout", "--quiet", "--force", "dev"]);
    let url = "https://example.org/app";
    let open = |name: &str| open_folder(dir.path(), url, &GitReference::Branch(name.into()));
    assert_eq!(open("dev").unwrap().commit, second);
    assert_eq!(open("main").unwrap().commit, first);
    for name in [
        "dev~1",
        "dev^",
        "dev@{0}",
        "dev^{}",
        "dev:sub",
        "d*",
        "",
        "../heads/dev",
        "dev..main",
        "a b",
    ] {
        let found = open(name);
        let none = matches!(found, Err(SourceError::NoSuchReference { .. }));
        assert!(none, "{name}: {found:?}");
    }
}
