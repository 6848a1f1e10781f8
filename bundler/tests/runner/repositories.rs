//! Git repositories for tests: made in a temporary folder from files.
//!
//! What comes in: folders of files. What goes out: real repositories with branches. They know nothing
//! of the user's own git settings.

use std::fs;
use std::path::Path;
use std::process::Command;

use outhaul_test_kit::folder::fill;

/// Runs git in `folder` and returns what it printed.
pub fn git(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .arg("-C")
        .arg(folder)
        .args(["-c", "user.name=Test", "-c", "user.email=test@example.org"])
        .args([
            "-c",
            "commit.gpgsign=false",
            "-c",
            "init.defaultBranch=main",
        ])
        .args(arguments)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .output()
        .expect("git is installed");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A repository whose branches are the subfolders of `branches`; each is one commit without a parent.
pub fn repository(branches: &Path, folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    git(folder, &["init", "--quiet"]);
    for entry in fs::read_dir(branches).unwrap() {
        let path = entry.unwrap().path();
        let branch = path.file_name().unwrap().to_str().unwrap().to_owned();
        git(folder, &["checkout", "--quiet", "--orphan", &branch]);
        git(folder, &["rm", "-rf", "--quiet", "--ignore-unmatch", "."]);
        fill(&path, folder);
        commit(folder, &format!("{branch} as it is"));
    }
    if !git(folder, &["branch", "--list", "main"]).is_empty() {
        git(folder, &["checkout", "--quiet", "main"]);
    }
}

/// Commits everything in the working copy and returns the commit.
pub fn commit(folder: &Path, message: &str) -> String {
    git(folder, &["add", "--all"]);
    git(
        folder,
        &["commit", "--quiet", "--allow-empty", "-m", message],
    );
    git(folder, &["rev-parse", "HEAD"])
}

/// Changes a branch: checks it out, lets `change` edit the files, commits.
pub fn on_branch(folder: &Path, branch: &str, change: impl FnOnce(&Path)) -> String {
    git(folder, &["checkout", "--quiet", branch]);
    change(folder);
    commit(folder, "a change")
}
