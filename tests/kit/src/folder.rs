//! Folders that tests compare and copy.
//!
//! What comes in: paths. What goes out: every file with its content, and copies as they stood. It reads everything at
//! once, and is for folders that a test made.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Files by their path below a folder, with `/`.
pub type Tree = BTreeMap<String, Vec<u8>>;

/// The files below a folder; none when there is no folder.
pub fn tree(folder: &Path) -> Tree {
    match folder.exists() {
        true => files(folder),
        false => Tree::new(),
    }
}

/// The files below a folder that must be there.
pub fn files(folder: &Path) -> Tree {
    let named = |path: PathBuf| {
        let name = path.strip_prefix(folder).unwrap().to_str().unwrap();
        (name.to_owned(), std::fs::read(&path).unwrap())
    };
    paths(folder).into_iter().map(named).collect()
}

/// The paths of all files below a folder that must be there; links are followed.
pub fn paths(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(at) = waiting.pop() {
        for entry in std::fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => waiting.push(path),
                false => found.push(path),
            }
        }
    }
    found.sort();
    found
}

/// Writes every file below `from` into `to` again, over what is called the same.
pub fn fill(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        match path.is_dir() {
            true => fill(&path, &target),
            false => drop(std::fs::copy(&path, &target).unwrap()),
        }
    }
}

/// Makes `to` what `from` is, with modes, times and links; what lies in `to` already stays beside it.
#[track_caller]
pub fn copy(from: &Path, to: &Path) {
    let mut copy = Command::new("cp");
    copy.args(["-a", "--reflink=auto", "-T", "--"]);
    let copied = copy.arg(from).arg(to).status();
    assert!(copied.unwrap().success(), "{copy:?}");
}
