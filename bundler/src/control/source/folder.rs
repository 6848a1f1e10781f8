//! Plain folders as sources.
//!
//! What comes in: a folder and a path below it. What goes out: its regular files, sorted by path, or
//! one digest of all of them. Symbolic links are named and never followed, `.git` is never entered,
//! and nothing is written.

use std::fs;
use std::io::Read as _;
use std::path::Path;

use outhaul_bundle::Digest;
use outhaul_bundle::digest::Hasher;

use super::{SourceError, Tree, TreeFile, TreeLimits};

/// The files below `dir/path` that `wanted` accepts; `None` when that is no folder.
pub(super) fn tree(
    dir: &Path,
    path: &str,
    wanted: &dyn Fn(&str) -> bool,
    limits: &TreeLimits,
) -> Result<Option<Tree>, SourceError> {
    if !dir.is_dir() {
        return Err(SourceError::NotAFolder {
            path: dir.to_owned(),
        });
    }
    let root = dir.join(path);
    if !root.is_dir() {
        return Ok(None);
    }
    let mut tree = Tree::default();
    let mut total = 0u64;
    walk(&root, "", &mut |entry| {
        if !wanted(&entry.path) {
            return Ok(());
        }
        if entry.link {
            tree.skipped.push(entry.path);
            return Ok(());
        }
        let bytes = read(&root.join(&entry.path), limits.max_file_bytes)?;
        total = total.saturating_add(bytes.len() as u64);
        if total > limits.max_total_bytes || tree.files.len() >= limits.max_files {
            return Err(SourceError::TooLarge {
                what: format!("folder `{}`", root.display()),
                limit: limits.max_total_bytes,
                unit: "bytes",
            });
        }
        tree.files.push(TreeFile {
            path: entry.path,
            bytes,
            executable: entry.executable,
        });
        Ok(())
    })?;
    tree.files.sort_by(|a, b| a.path.cmp(&b.path));
    tree.skipped.sort();
    Ok(Some(tree))
}

/// One digest over the paths, modes and contents of all files below `dir`.
///
/// # Errors
/// [`SourceError`] when it is no folder or cannot be read.
pub fn digest(dir: &Path) -> Result<Digest, SourceError> {
    if !dir.is_dir() {
        return Err(SourceError::NotAFolder {
            path: dir.to_owned(),
        });
    }
    let mut lines = Vec::new();
    walk(dir, "", &mut |entry| {
        let path = dir.join(&entry.path);
        let unreadable = |error| SourceError::Unreadable {
            path: path.clone(),
            error,
        };
        let (digest, _) = if entry.link {
            let target = fs::read_link(&path).map_err(unreadable)?;
            let mut hasher = Hasher::new();
            hasher.update(target.as_os_str().as_encoded_bytes());
            hasher.finish()
        } else {
            let mut hasher = Hasher::new();
            let mut file = fs::File::open(&path).map_err(unreadable)?;
            std::io::copy(&mut file, &mut hasher).map_err(unreadable)?;
            hasher.finish()
        };
        let mode = match (entry.link, entry.executable) {
            (true, _) => 'l',
            (false, true) => 'x',
            (false, false) => 'f',
        };
        lines.push((entry.path, format!("{mode} {}", digest.hex())));
        Ok(())
    })?;
    lines.sort();
    let mut hasher = Hasher::new();
    for (path, line) in lines {
        hasher.update(line.as_bytes());
        hasher.update(b" ");
        hasher.update(path.as_bytes());
        hasher.update(b"\0");
    }
    Ok(hasher.finish().0)
}

struct Entry {
    path: String,
    executable: bool,
    link: bool,
}

fn walk(
    folder: &Path,
    below: &str,
    each: &mut dyn FnMut(Entry) -> Result<(), SourceError>,
) -> Result<(), SourceError> {
    let unreadable = |error| SourceError::Unreadable {
        path: folder.to_owned(),
        error,
    };
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name == ".git" {
            continue;
        }
        let path = if below.is_empty() {
            name
        } else {
            format!("{below}/{name}")
        };
        let kind = entry.file_type().map_err(unreadable)?;
        if kind.is_dir() {
            walk(&entry.path(), &path, each)?;
        } else if kind.is_symlink() {
            each(Entry {
                path,
                executable: false,
                link: true,
            })?;
        } else if kind.is_file() {
            let executable = is_executable(&entry.path())?;
            each(Entry {
                path,
                executable,
                link: false,
            })?;
        }
    }
    Ok(())
}

fn is_executable(path: &Path) -> Result<bool, SourceError> {
    use std::os::unix::fs::PermissionsExt as _;
    let unreadable = |error| SourceError::Unreadable {
        path: path.to_owned(),
        error,
    };
    Ok(fs::metadata(path).map_err(unreadable)?.permissions().mode() & 0o100 != 0)
}

/// The bytes of `path`, refusing one byte beyond `max_bytes`.
fn read(path: &Path, max_bytes: u64) -> Result<Vec<u8>, SourceError> {
    let unreadable = |error| SourceError::Unreadable {
        path: path.to_owned(),
        error,
    };
    let file = fs::File::open(path).map_err(unreadable)?;
    let mut bytes = Vec::new();
    file.take(max_bytes.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    if bytes.len() as u64 > max_bytes {
        let what = format!("`{}`", path.display());
        return Err(SourceError::TooLarge {
            what,
            limit: max_bytes,
            unit: "bytes",
        });
    }
    Ok(bytes)
}
