//! Control planes that list no environments: working trees of git with the objects of one.
//!
//! What comes in: a path without links. What goes out: where the control plane begins that it lies in. It reads the first lines of
//! a bounded number of files, starts no program, and does not parse YAML: a line that begins an object is enough to leave a tree alone.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use outhaul_kit::durable;

use crate::working_tree::working_tree;

/// The groups of a control plane's objects.
const GROUPS: [&str; 2] = ["scheduler.kalypso.io/", "outhaul.dev/"];
/// Its kinds that only the branch of an environment, or the list of them, has; an application's repository may have others.
const KINDS: [&str; 5] = [
    "BaseRepo",
    "ClusterType",
    "Environment",
    "GitOpsRepo",
    "SchedulingPolicy",
];
/// Most entries of a folder, and most files, that are looked at.
const MAX_ENTRIES: usize = 1_000;
const MAX_FILES: usize = 1_000;
/// Largest file that is looked at, in bytes.
const MAX_BYTES: u64 = 256 * 1024;

/// The working tree of git that `out` lies in, where objects of an environment lie in it: what is written there is committed and read
/// as a part of them.
pub(crate) fn working_tree_of_one(out: &Path) -> Option<PathBuf> {
    let root = working_tree(out)?.root;
    let folders = entries(&root).filter(|entry| entry.is_dir());
    let files = entries(&root).chain(folders.flat_map(|folder| entries(&folder)));
    let mut yaml = files.filter(|file| is_yaml(file)).take(MAX_FILES);
    yaml.any(|file| is_object(&file)).then_some(root)
}

/// What lies in `folder`, without links.
fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let there = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let real = there.filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_symlink()));
    real.take(MAX_ENTRIES).map(|entry| entry.path())
}

fn is_yaml(file: &Path) -> bool {
    let of_yaml = |end: &OsStr| end == "yaml" || end == "yml";
    file.extension().is_some_and(of_yaml) && file.is_file()
}

/// Whether an object of an environment is in a file.
fn is_object(file: &Path) -> bool {
    let Ok(bytes) = durable::read(file, MAX_BYTES) else {
        return false;
    };
    let text = String::from_utf8_lossy(&bytes);
    text.split("\n---").any(|document| {
        let value = |name: &str| {
            let of = document.lines().find_map(|line| line.strip_prefix(name));
            of.map_or("", |value| value.trim().trim_matches(['"', '\'']))
        };
        let group = value("apiVersion:");
        GROUPS.iter().any(|own| group.starts_with(own)) && KINDS.contains(&value("kind:"))
    })
}
