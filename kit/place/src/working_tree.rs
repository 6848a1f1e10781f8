//! The working tree of git that a path lies in.
//!
//! What comes in: a path. What goes out: where its working tree begins, and where that tree's repository is. It reads at most the two
//! small files that lead from one to the other, and starts no program.

use std::path::{Path, PathBuf};

use outhaul_kit::belongs::resolved as absolute;
use outhaul_kit::durable;

/// A working tree of git, and where its repository lies.
#[derive(Debug, Clone)]
pub struct WorkingTree {
    /// Where it begins.
    pub root: PathBuf,
    /// Its repository.
    pub repository: PathBuf,
    /// Whether `git worktree` made it beside another one.
    pub is_linked: bool,
}

/// Most bytes of a file that says where a repository lies.
const MAX_POINTER_BYTES: u64 = 64 * 1024;

/// The working tree that `path` lies in.
pub fn working_tree(path: &Path) -> Option<WorkingTree> {
    let root = path.ancestors().find(|above| above.join(".git").exists())?;
    let entry = root.join(".git");
    let is_linked = entry.is_file();
    let pointer = |file: &Path| {
        let bytes = durable::read(file, MAX_POINTER_BYTES).ok()?;
        Some(String::from_utf8_lossy(&bytes).trim().to_owned())
    };
    let repository = match is_linked {
        false => entry,
        true => {
            let own = pointer(&entry)?;
            let own = root.join(own.strip_prefix("gitdir:")?.trim());
            match pointer(&own.join("commondir")) {
                Some(common) => own.join(common),
                None => own,
            }
        }
    };
    Some(WorkingTree {
        root: root.to_owned(),
        repository: absolute(&repository),
        is_linked,
    })
}
