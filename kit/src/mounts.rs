//! What is mounted where: the kernel's table of mounts, and the other names that it gives to a folder.
//!
//! What comes in: folders. What goes out: the mount points below them, the mount that a path is on, and by which other paths the same folder
//! is reached, as through a bind mount. It opens nothing that is mounted, starts no program, and knows nothing where the system has no such
//! table.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::durable;

/// Where the system lists what is mounted.
const TABLE: &str = "/proc/self/mountinfo";
/// Largest table that is read, in bytes.
const MAX_TABLE_BYTES: u64 = 4 * 1024 * 1024;

/// One mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// The file system, as the kernel numbers it (`8:17`).
    pub file_system: String,
    /// Which folder of that file system is mounted: `/`, or another one for a bind mount or a subvolume.
    pub root: PathBuf,
    /// Where.
    pub point: PathBuf,
}

/// All mounts, those first that were made first; none where the system does not say.
pub fn all() -> Vec<Mount> {
    let table = durable::read_if_present(Path::new(TABLE), MAX_TABLE_BYTES);
    let table = table.ok().flatten().unwrap_or_default();
    parsed(&String::from_utf8_lossy(&table))
}

/// The mount points below any of `folders`.
pub fn below(folders: &[PathBuf]) -> Vec<PathBuf> {
    let is_below = |point: &PathBuf| {
        folders
            .iter()
            .any(|one| point != one && point.starts_with(one))
    };
    let points = all().into_iter().map(|mount| mount.point);
    points.filter(is_below).collect()
}

/// By which other paths the folder `path` is reached, which is there and has no link in it.
pub fn other_names(path: &Path) -> Vec<PathBuf> {
    let is_same = |other: &PathBuf| match (fs::metadata(path), fs::metadata(other)) {
        (Ok(one), Ok(other)) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
        _ => false,
    };
    let mut names = names_in(&all(), path);
    // Something else may be mounted over what the table names.
    names.retain(is_same);
    names
}

/// The other names of `path` by these mounts.
fn names_in(mounts: &[Mount], path: &Path) -> Vec<PathBuf> {
    let on = mounts.iter().filter(|mount| path.starts_with(&mount.point));
    // Of several at one point, the last one is seen.
    let Some(on) = on.max_by_key(|mount| mount.point.components().count()) else {
        return Vec::new();
    };
    let rest = |path: &Path, above: &Path| path.strip_prefix(above).map(Path::to_owned);
    let Ok(inner) = rest(path, &on.point).map(|rest| joined(&on.root, &rest)) else {
        return Vec::new();
    };
    let same = mounts
        .iter()
        .filter(|mount| mount.file_system == on.file_system);
    let names = same.filter_map(|mount| {
        let rest = rest(&inner, &mount.root).ok()?;
        Some(joined(&mount.point, &rest))
    });
    let mut names: Vec<PathBuf> = names.filter(|name| name != path).collect();
    names.sort();
    names.dedup();
    names
}

/// `rest` below `folder`, without a `/` at the end.
fn joined(folder: &Path, rest: &Path) -> PathBuf {
    folder.join(rest).components().collect()
}

fn parsed(table: &str) -> Vec<Mount> {
    let mount = |line: &str| {
        let mut fields = line.split(' ').skip(2);
        Some(Mount {
            file_system: fields.next()?.to_owned(),
            root: plain(fields.next()?),
            point: plain(fields.next()?),
        })
    };
    table.lines().filter_map(mount).collect()
}

/// A field of the table: blanks in it are written as octal numbers.
fn plain(field: &str) -> PathBuf {
    let escapes = [
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        ("\\134", "\\"),
    ];
    let replaced = escapes
        .iter()
        .fold(field.to_owned(), |text, (escape, plain)| {
            text.replace(escape, plain)
        });
    PathBuf::from(replaced)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "22 1 254:0 / / rw - ext4 /dev/vda rw
40 22 8:17 / /media/ann/MY\\040STICK rw - vfat /dev/sdb1 rw
41 22 254:0 /srv/fleet/metadata /mnt/stick rw - ext4 /dev/vda rw
42 22 8:17 /bundles /mnt/bundles rw - vfat /dev/sdb1 rw
";

    #[test]
    fn a_bind_mount_is_another_name_of_a_folder_and_a_stick_of_its_own_is_none() {
        let mounts = parsed(TABLE);
        let names = |path: &str| names_in(&mounts, Path::new(path));
        assert_eq!(
            names("/mnt/stick/new"),
            [Path::new("/srv/fleet/metadata/new")]
        );
        assert_eq!(names("/srv/fleet/metadata"), [Path::new("/mnt/stick")]);
        assert_eq!(
            names("/mnt/bundles"),
            [Path::new("/media/ann/MY STICK/bundles")]
        );
        for path in ["/srv/fleet", "/media/ann/MY STICK", "/"] {
            assert_eq!(names(path), Vec::<PathBuf>::new(), "{path}");
        }
    }
}
