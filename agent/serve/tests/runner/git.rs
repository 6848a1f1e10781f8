//! Git repositories, as git itself clones and fetches them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use outhaul_serve::digest::Digest;
use outhaul_tests::run_expecting;
use serde_json::{Value, json};

use crate::site::{Server, Site};

/// Runs git without anybody's configuration.
pub fn git(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("git");
    command
        .current_dir(folder)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_TERMINAL_PROMPT", "0")
        .args(["-c", "user.name=a", "-c", "user.email=a@example.org"])
        .args(["-c", "protocol.version=2", "-c", "init.defaultBranch=main"])
        .args(arguments);
    command
}

#[track_caller]
pub fn text(folder: &Path, arguments: &[&str]) -> String {
    let ran = run_expecting(&mut git(folder, arguments), 0).unwrap();
    ran.stdout.trim().to_owned()
}

/// A repository with two commits; the newest is packed without its parent, as it travels.
pub struct Origin {
    pub folder: tempfile::TempDir,
}

impl Origin {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        text(at, &["init", "--quiet"]);
        fs::create_dir(at.join("deploy")).unwrap();
        fs::write(at.join("deploy/app.yaml"), "kind: ConfigMap\n").unwrap();
        text(at, &["add", "."]);
        text(at, &["commit", "--quiet", "-m", "first"]);
        let origin = Self { folder };
        origin.commit("second");
        origin
    }

    pub fn commit(&self, name: &str) -> String {
        let at = self.folder.path();
        fs::write(at.join(name), name.repeat(1000)).unwrap();
        text(at, &["add", "."]);
        text(at, &["commit", "--quiet", "-m", name]);
        self.tip()
    }

    pub fn tip(&self) -> String {
        text(self.folder.path(), &["rev-parse", "HEAD"])
    }

    /// Writes the pack of the newest commit and its tree, and describes it.
    pub fn pack(&self, to: &Path, url: &str) -> Value {
        let at = self.folder.path();
        let list = text(at, &["rev-list", "--objects", "--no-walk", "HEAD"]);
        let ids: Vec<&str> = list
            .lines()
            .map(|line| line.split(' ').next().unwrap())
            .collect();
        let mut child = git(at, &["pack-objects", "--stdout", "-q"])
            .stdin(Stdio::piped())
            .stdout(fs::File::create(to).unwrap())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        std::io::Write::write_all(&mut stdin, ids.join("\n").as_bytes()).unwrap();
        drop(stdin);
        assert!(child.wait().unwrap().success());
        let bytes = fs::read(to).unwrap();
        let tip = self.tip();
        json!({
            "url": url, "refs": { "refs/heads/main": tip }, "head": "refs/heads/main", "shallow": [tip],
            "pack": to.file_name().unwrap().to_str().unwrap(),
            "digest": Digest::of(&bytes).to_string(), "size": bytes.len(),
        })
    }
}

const URL: &str = "https://github.com/org/repo";

fn site_of(origin: &Origin) -> (Site, Server) {
    let site = Site::new();
    let entry = origin.pack(&site.folder("1").join("repo.pack"), URL);
    site.catalog("1", &json!({ "repositories": [entry] }));
    site.activate("1");
    let server = site.serve();
    (site, server)
}

fn url(server: &Server) -> String {
    format!("http://{}/github.com/org/repo.git", server.address)
}

fn no_damage(clone: &Path) {
    text(clone, &["fsck", "--strict"]);
    assert_eq!(text(clone, &["status", "--porcelain"]), "");
}

#[test]
fn git_clones_the_pinned_commit_with_its_id_in_each_version_and_depth() {
    let origin = Origin::new();
    let (_site, server) = site_of(&origin);
    let work = tempfile::tempdir().unwrap();
    for version in ["0", "1", "2"] {
        for depth in [&[][..], &["--depth", "1"], &["--depth", "5"]] {
            let name = format!("clone-{version}-{}", depth.len());
            let protocol = format!("protocol.version={version}");
            let clone = work.path().join(&name);
            let _ = fs::remove_dir_all(&clone);
            let mut arguments = vec!["-c", &protocol, "clone", "--quiet"];
            arguments.extend_from_slice(depth);
            let address = url(&server);
            arguments.extend_from_slice(&[&address, &name]);
            text(work.path(), &arguments);
            assert_eq!(text(&clone, &["rev-parse", "HEAD"]), origin.tip());
            assert_eq!(text(&clone, &["rev-parse", "--abbrev-ref", "HEAD"]), "main");
            assert_eq!(
                text(&clone, &["rev-parse", "--is-shallow-repository"]),
                "true"
            );
            assert_eq!(
                fs::read_to_string(clone.join("deploy/app.yaml")).unwrap(),
                "kind: ConfigMap\n"
            );
            no_damage(&clone);
        }
    }
}

#[test]
fn a_clone_fetches_the_next_generation_and_goes_back_with_a_rollback() {
    let origin = Origin::new();
    let (site, server) = site_of(&origin);
    let first = origin.tip();
    let work = tempfile::tempdir().unwrap();
    text(
        work.path(),
        &["clone", "--quiet", "--depth", "1", &url(&server), "clone"],
    );
    let clone = work.path().join("clone");
    let second = origin.commit("third");
    let entry = origin.pack(&site.folder("2").join("repo.pack"), URL);
    site.catalog("2", &json!({ "repositories": [entry] }));
    for version in ["0", "2"] {
        let protocol = format!("protocol.version={version}");
        for (generation, tip) in [("2", &second), ("1", &first)] {
            site.activate(generation);
            text(
                &clone,
                &[
                    "-c",
                    &protocol,
                    "fetch",
                    "--quiet",
                    "--depth",
                    "1",
                    "origin",
                    "+main:refs/remotes/origin/main",
                ],
            );
            assert_eq!(&text(&clone, &["rev-parse", "origin/main"]), tip);
            text(&clone, &["reset", "--quiet", "--hard", "origin/main"]);
            no_damage(&clone);
        }
        // By its id, as who pins a commit asks.
        site.activate("2");
        text(
            &clone,
            &[
                "-c", &protocol, "fetch", "--quiet", "--depth", "1", "origin", &second,
            ],
        );
        assert_eq!(text(&clone, &["rev-parse", "FETCH_HEAD"]), second);
    }
    // Nothing new is not an error.
    text(
        &clone,
        &["fetch", "--quiet", "--depth", "1", "origin", "main"],
    );
}

#[test]
fn ls_remote_lists_the_refs() {
    let origin = Origin::new();
    let (_site, server) = site_of(&origin);
    let tip = origin.tip();
    for version in ["0", "2"] {
        let protocol = format!("protocol.version={version}");
        let listed = text(
            origin.folder.path(),
            &["-c", &protocol, "ls-remote", "--symref", &url(&server)],
        );
        let expected = format!("ref: refs/heads/main\tHEAD\n{tip}\tHEAD\n{tip}\trefs/heads/main");
        assert_eq!(listed, expected, "version {version}");
    }
}

#[test]
fn what_is_not_there_or_would_change_something_is_refused_in_words() {
    let origin = Origin::new();
    let (_site, server) = site_of(&origin);
    let at = origin.folder.path();
    let failed = |arguments: &[&str]| {
        let ran = outhaul_tests::run(&mut git(at, arguments)).unwrap();
        assert_ne!(ran.code, Some(0), "{}", ran.everything());
        ran.stderr
    };
    let other = format!("http://{}/github.com/org/other", server.address);
    assert!(failed(&["ls-remote", &other]).contains("not found"));
    let pushed = failed(&["push", &url(&server), "HEAD:refs/heads/new"]);
    assert!(pushed.contains("403"), "{pushed}");
    let parent = text(at, &["rev-parse", "HEAD^"]);
    let empty = tempfile::tempdir().unwrap();
    text(empty.path(), &["init", "--quiet"]);
    for version in ["0", "2"] {
        let protocol = format!("protocol.version={version}");
        let ran = outhaul_tests::run(&mut git(
            empty.path(),
            &["-c", &protocol, "fetch", &url(&server), &parent],
        ));
        let said = ran.unwrap().stderr;
        assert!(
            said.contains("not our ref") || said.contains("does not allow request"),
            "{said}"
        );
    }
    // The dumb protocol, and services that are not offered.
    let path = "/github.com/org/repo/info/refs";
    assert_eq!(server.get(path).status, 403);
    assert_eq!(
        server
            .get(&format!("{path}?service=git-receive-pack"))
            .status,
        403
    );
    assert_eq!(
        server.get("/github.com/org/repo/git-upload-pack").status,
        405
    );
    assert_eq!(server.get("/github.com/org/repo/HEAD").status, 404);
    // By the host that it was sent to.
    let headers = [("Host", "github.com")];
    let answer = server.request(
        "GET",
        "/org/repo.git/info/refs?service=git-upload-pack",
        &headers,
    );
    assert_eq!(answer.status, 200);
}

#[test]
fn a_damaged_pack_is_never_taken_for_whole() {
    let origin = Origin::new();
    let (site, server) = site_of(&origin);
    let pack = site.folder("1").join("repo.pack");
    let good = fs::read(&pack).unwrap();
    let mut damaged = good.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    let work = tempfile::tempdir().unwrap();
    let clone = |name: &str| {
        let address = url(&server);
        outhaul_tests::run(&mut git(work.path(), &["clone", &address, name])).unwrap()
    };
    fs::write(&pack, damaged).unwrap();
    let ran = clone("damaged");
    assert_eq!(ran.code, Some(128), "{}", ran.everything());
    fs::write(&pack, &good[..good.len() - 1]).unwrap();
    let ran = clone("short");
    assert_eq!(ran.code, Some(128), "{}", ran.everything());
    assert!(ran.stderr.contains("500"), "{}", ran.stderr);
    fs::write(&pack, good).unwrap();
    assert_eq!(clone("good").code, Some(0));
}

/// The program that `.ci/programs/build cluster` builds on go-git; the calling test is skipped without it.
#[track_caller]
pub fn client_or_skip(name: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("OUTHAUL_OCI_CLIENTS").map(PathBuf::from);
    let program = folder
        .map(|folder| folder.join(name))
        .filter(|program| program.is_file());
    if program.is_none() {
        outhaul_tests::skipped(&format!(
            "OUTHAUL_OCI_CLIENTS does not name a folder with {name}; `.ci/programs/build cluster` builds one"
        ));
    }
    program
}

#[test]
fn go_git_clones_the_pinned_commit() {
    let Some(program) = client_or_skip("gogit") else {
        return;
    };
    let origin = Origin::new();
    let (_site, server) = site_of(&origin);
    let work = tempfile::tempdir().unwrap();
    for depth in ["0", "1"] {
        let folder = work.path().join(depth);
        let mut command = Command::new(&program);
        command.arg(url(&server)).arg(&folder).arg(depth);
        let ran = run_expecting(&mut command, 0).unwrap();
        assert_eq!(ran.stdout.trim(), origin.tip(), "depth {depth}");
        assert_eq!(
            fs::read_to_string(folder.join("deploy/app.yaml")).unwrap(),
            "kind: ConfigMap\n"
        );
    }
}
