//! What is mounted below a folder: the kernel's table of mounts.
//!
//! What comes in: folders. What goes out: the mount points below them. It opens nothing that is mounted there.

use std::path::{Path, PathBuf};

use outhaul_kit::durable;

/// Largest table of mounts that is read, in bytes.
const MAX_MOUNTS_BYTES: u64 = 1024 * 1024;

/// The mounts below any of these folders.
pub fn mounts_below(folders: &[PathBuf]) -> Vec<PathBuf> {
    let table = durable::read_if_present(Path::new("/proc/self/mounts"), MAX_MOUNTS_BYTES);
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
    use super::*;

    #[test]
    fn a_mount_with_blanks_in_its_name_is_found() {
        let table = "proc /proc proc rw 0 0\n/dev/sdb1 /media/USB\\040STICK vfat ro 0 0\n";
        assert_eq!(
            mount_points(table),
            [Path::new("/proc"), Path::new("/media/USB STICK")]
        );
    }
}
