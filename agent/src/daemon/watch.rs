//! Which watched places have something new: folders of `agent.toml`, and what is mounted below them.
//!
//! What comes in: the folders, the kernel's table of mounts, and what lay there the last time. What goes
//! out: the places whose bundles, slips or acknowledgements changed. It reads what the file system says
//! of files, never their content; what is new is judged by the intake.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::durable;
use crate::intake::media;

/// Largest table of mounts that is read, in bytes.
const MAX_MOUNTS_BYTES: u64 = 1024 * 1024;

/// What lay in a place: the marks of each file that could matter.
type Print = Vec<(PathBuf, Marks)>;

/// By what a changed file shows. What unpacks or synchronises files sets their time as it likes, and two
/// slips of one stream are often of one size: the time of the change itself is the kernel's. Not the
/// inode: on FAT its number is made up anew whenever the file was out of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Marks {
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// What was seen.
#[derive(Debug, Default)]
pub struct Watch {
    seen: BTreeMap<PathBuf, Print>,
}

impl Watch {
    /// Places that changed since the last call.
    pub fn changed(&mut self, folders: &[PathBuf]) -> Vec<PathBuf> {
        let mut places: Vec<PathBuf> = folders.to_vec();
        places.extend(mounts_below(folders));
        places.sort();
        places.dedup();
        // A stick that was pulled and comes back is new again.
        self.seen.retain(|place, _| places.contains(place));
        places.retain(|place| {
            let print = print(place);
            let changed = self.seen.get(place) != Some(&print);
            self.seen.insert(place.clone(), print.clone());
            changed && !print.is_empty()
        });
        places
    }
}

fn print(place: &Path) -> Print {
    let mut files = media::bundles(place).unwrap_or_default();
    if let Ok(acks) = durable::list(&place.join("acks")) {
        files.extend(acks);
    }
    files
        .into_iter()
        .filter_map(|file| {
            let meta = std::fs::metadata(&file).ok()?;
            let marks = Marks {
                size: meta.len(),
                modified: (meta.mtime(), meta.mtime_nsec()),
                changed: (meta.ctime(), meta.ctime_nsec()),
            };
            Some((file, marks))
        })
        .collect()
}

fn mounts_below(folders: &[PathBuf]) -> Vec<PathBuf> {
    let table = durable::read_if_there(Path::new("/proc/self/mounts"), MAX_MOUNTS_BYTES);
    let table = table.ok().flatten().unwrap_or_default();
    mount_points(&String::from_utf8_lossy(&table))
        .into_iter()
        .filter(|mount| {
            folders
                .iter()
                .any(|folder| mount != folder && mount.starts_with(folder))
        })
        .collect()
}

/// The second field of each line; blanks in it are written as octal escapes.
fn mount_points(table: &str) -> Vec<PathBuf> {
    let points = table.lines().filter_map(|line| line.split(' ').nth(1));
    let plain = |field: &str| {
        [
            ("\\040", " "),
            ("\\011", "\t"),
            ("\\012", "\n"),
            ("\\134", "\\"),
        ]
        .iter()
        .fold(field.to_owned(), |text, (escape, plain)| {
            text.replace(escape, plain)
        })
    };
    points.map(|field| PathBuf::from(plain(field))).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_mount_with_blanks_in_its_name_is_found() {
        let table = "proc /proc proc rw 0 0\n/dev/sdb1 /media/USB\\040STICK vfat ro 0 0\n";
        assert_eq!(
            mount_points(table),
            [Path::new("/proc"), Path::new("/media/USB STICK")]
        );
    }

    #[test]
    fn a_place_is_new_once_and_again_when_a_file_changes() {
        let folder = tempfile::tempdir().unwrap();
        let folders = [folder.path().to_path_buf()];
        let mut watch = Watch::default();
        assert!(
            watch.changed(&folders).is_empty(),
            "an empty folder brings nothing"
        );
        durable::write(&folder.path().join("a.outhaul"), b"1", 0o600).unwrap();
        assert_eq!(watch.changed(&folders), folders);
        assert!(watch.changed(&folders).is_empty());
        durable::write(&folder.path().join("a.outhaul"), b"12", 0o600).unwrap();
        assert_eq!(watch.changed(&folders), folders);
    }

    #[test]
    fn a_file_replaced_by_one_of_the_same_size_and_modification_time_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let folders = [folder.path().to_path_buf()];
        let path = folder.path().join("a.slip");
        let written_at = |bytes: &[u8]| {
            durable::write(&path, bytes, 0o600).unwrap();
            let file = std::fs::File::options().write(true).open(&path).unwrap();
            file.set_modified(std::time::UNIX_EPOCH).unwrap();
        };
        let mut watch = Watch::default();
        let changed = || {
            let meta = std::fs::metadata(&path).unwrap();
            (meta.ctime(), meta.ctime_nsec())
        };
        written_at(b"one");
        assert_eq!(watch.changed(&folders), folders);
        let before = changed();
        // The kernel's clock for files has steps of some milliseconds.
        while changed() == before {
            written_at(b"two");
        }
        assert_eq!(watch.changed(&folders), folders);
        assert!(watch.changed(&folders).is_empty());
    }
}
