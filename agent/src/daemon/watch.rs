//! Which watched places have something new: folders of `agent.toml`, and what is mounted below them.
//!
//! What comes in: the folders, the kernel's table of mounts, and what lay there the last time. What goes
//! out: the places whose bundles, slips or acknowledgements changed. It reads names, sizes and times
//! only; what is new is judged by the intake.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::durable;
use crate::intake::media;

/// Largest table of mounts that is read, in bytes.
const MAX_MOUNTS_BYTES: u64 = 1024 * 1024;

/// What lay in a place: path, size and time of each file that could matter.
type Print = Vec<(PathBuf, u64, Option<SystemTime>)>;

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
            Some((file, meta.len(), meta.modified().ok()))
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
}
