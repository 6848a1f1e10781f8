//! Places where file systems are mounted, or ought to be.
//!
//! What comes in: a folder that was named. What goes out: a refusal where a stick is not mounted that it is named for, or where
//! something is mounted that is to be renamed.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use outhaul_kit::belongs::resolved as absolute;
use outhaul_kit::mounts::{self, Mount};
use outhaul_kit::text;

use crate::refused::{NoParent, NoPlace};

/// Where sticks are mounted.
const MOUNTED: [&str; 3] = ["/media", "/mnt", "/run/media"];

/// Refuses a folder at which something is mounted: what takes its place by a rename is written beside it, on another file system.
///
/// # Errors
/// [`NoPlace`]
pub fn refuse_mount_point(folder: &Path) -> Result<(), NoPlace> {
    let out = absolute(folder);
    let above = out.parent().and_then(device);
    match device(&out) {
        Some(own) if is_mounted(&out, (own, above), &mounts::all()) => {
            let instead = format!(
                "a folder on it, such as `{}`: a rendering is written beside its folder and renamed",
                text::path(&folder.join("rendered"))
            );
            let what = "where a file system is mounted".to_owned();
            Err(NoPlace::new(folder, what, &instead))
        }
        _ => Ok(()),
    }
}

/// Whether `out`, on the device `own` below a folder on the device `above`, is where something is mounted. A bind mount may have the device of
/// the folder above it, and is in the table of `mounts` alone.
fn is_mounted(out: &Path, (own, above): (u64, Option<u64>), mounts: &[Mount]) -> bool {
    above.is_some_and(|above| above != own) || mounts.iter().any(|mount| mount.point == out)
}

/// Refuses `folder` where sticks are mounted, when it is not there and would be made on the machine's own disk: a stick that is not
/// mounted is not made up, at whatever depth below the place where it would be.
///
/// # Errors
/// [`NoParent`]
pub fn refuse_no_parent(folder: &Path) -> Result<(), NoParent> {
    let out = absolute(folder);
    let base = MOUNTED
        .iter()
        .map(Path::new)
        .find(|base| out.starts_with(base));
    match base {
        Some(base) if out != base && !out.exists() && !is_on_a_mount(&out, base) => Err(NoParent {
            folder: folder.to_owned(),
        }),
        _ => Ok(()),
    }
}

/// Whether what is there of `out` is on a file system that is mounted at `base` or below it.
fn is_on_a_mount(out: &Path, base: &Path) -> bool {
    let there = out.ancestors().find_map(device);
    there != base.parent().and_then(device)
}

fn device(path: &Path) -> Option<u64> {
    path.metadata().ok().map(|found| found.dev())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_mounted_once_more_is_a_mount_point_though_its_device_is_that_of_the_folder_above()
     {
        let mounts = [Mount {
            file_system: "254:0".to_owned(),
            root: "/srv/rendered".into(),
            point: "/out/rendered".into(),
        }];
        let is_one = |out: &str, above| is_mounted(Path::new(out), (7, Some(above)), &mounts);
        assert!(is_one("/out/rendered", 7));
        assert!(!is_one("/out/rendered/below", 7));
        assert!(!is_one("/out", 7));
        assert!(is_one("/out/other", 8));
        // A file system of its own on every machine that runs this.
        assert!(refuse_mount_point(Path::new("/proc")).is_err());
        refuse_mount_point(Path::new("/proc/self")).unwrap();
    }

    #[test]
    fn a_stick_that_is_not_mounted_is_not_made_up_at_any_depth_and_other_folders_are() {
        let folder = tempfile::tempdir().unwrap();
        let base = absolute(folder.path()).join("media");
        std::fs::create_dir_all(base.join("user")).unwrap();
        for out in ["stick", "user/stick", "user/stick/bundles"] {
            assert!(!is_on_a_mount(&base.join(out), &base), "{out}");
        }
        // A file system of its own on every machine that runs this.
        let mounted = Path::new("/proc/self/new");
        assert!(is_on_a_mount(mounted, Path::new("/proc")));
        let refused = refuse_no_parent(Path::new("/media/no-such-stick/bundles"));
        let said = refused.unwrap_err().to_string();
        assert!(said.contains("nothing is mounted there"), "{said}");
        refuse_no_parent(&base.join("a/b")).unwrap();
        refuse_no_parent(Path::new("/media")).unwrap();
    }
}
