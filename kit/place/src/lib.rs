//! Whether a place that a person named may be written to, whatever is written there.
//!
//! What comes in: the path of a folder or a file. What goes out: a refusal when that is no place for what Outhaul writes: what is no
//! folder, what the kernel shows as files, a stick that is not mounted, a folder that belongs to a site, a fleet, a hub or a control
//! plane, a repository of git, or a file of another kind. Every command of the centre, the hub, the signer and the agent that writes to a place
//! that was named asks here first. It changes nothing, and starts no program.

mod control_plane;
mod file;
mod mounts;
mod refused;
mod working_tree;

use std::path::{Path, PathBuf};

use outhaul_kit::belongs::{Owner, owner_of, resolved as absolute};
use outhaul_kit::text;

pub use file::refuse_other_kind;
pub use mounts::{refuse_mount_point, refuse_no_parent};
pub use refused::{NoParent, NoPlace, PlaceRefused};
pub use working_tree::{WorkingTree, working_tree};

use file::not_a_folder;

/// What the kernel shows as folders.
const KERNEL: [&str; 3] = ["/proc", "/sys", "/dev"];
/// A folder in memory, where files may lie.
const SHARED_MEMORY: &str = "/dev/shm";

/// Refuses `folder` as a place to write to.
///
/// # Errors
/// [`PlaceRefused`]
pub fn refuse_folder(folder: &Path) -> Result<(), PlaceRefused> {
    refuse_no_place(folder)?;
    refuse_working_tree(folder, folder)?;
    Ok(refuse_no_parent(folder)?)
}

/// Refuses the folder of `file` as a place for one file, as [`refuse_folder`] does, except for the root of the file system.
///
/// # Errors
/// [`PlaceRefused`]
pub fn refuse_folder_of(file: &Path) -> Result<(), PlaceRefused> {
    let folder = folder_of(file);
    match folder.parent() {
        Some(_) => refuse_folder(&folder),
        None => Ok(()),
    }
}

/// Refuses `folder` as the folder that `own` keeps there, or will: as [`refuse_folder`] does, except that what is in it may be of that
/// owner, and that it may be reached by a link, as systemd makes one.
///
/// # Errors
/// [`PlaceRefused`]
pub fn refuse_own_folder(folder: &Path, own: Owner) -> Result<(), PlaceRefused> {
    refuse_others(folder, &absolute(folder), Some(own))?;
    refuse_control_plane(folder)?;
    refuse_working_tree(folder, folder)?;
    Ok(refuse_no_parent(folder)?)
}

/// Refuses `folder` as a place to write to, except for one in a control plane.
///
/// # Errors
/// [`PlaceRefused`]
pub fn refuse_folder_of_others(folder: &Path) -> Result<(), PlaceRefused> {
    refuse_link(folder)?;
    refuse_others(folder, &absolute(folder), None)?;
    Ok(refuse_no_parent(folder)?)
}

/// Refuses `file` as a place to write to: as its folder, and as [`refuse_other_kind`] does.
///
/// # Errors
/// [`PlaceRefused`]
pub fn refuse_file(
    file: &Path,
    what: &str,
    is_same: impl FnOnce(&[u8]) -> bool,
) -> Result<(), PlaceRefused> {
    refuse_other_kind(file, what, is_same)?;
    let folder = folder_of(file);
    refuse_no_place(&folder).map_err(|refused| refused.about(file))?;
    Ok(refuse_working_tree(&folder, file)?)
}

/// The folder of `file`. A link to a folder is one more name of it.
pub fn folder_of(file: &Path) -> PathBuf {
    match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => absolute(parent),
        _ => absolute(Path::new(".")),
    }
}

/// Refuses `folder` as a place to write to: the root of the file system, what is no folder, a repository's `.git`, a symbolic link, a
/// folder of a site, a fleet or a hub, or one in a control plane that lists its environments.
///
/// # Errors
/// [`NoPlace`]
pub fn refuse_no_place(folder: &Path) -> Result<(), NoPlace> {
    refuse_link(folder)?;
    refuse_others(folder, &absolute(folder), None)?;
    refuse_control_plane(folder)
}

fn refuse_control_plane(folder: &Path) -> Result<(), NoPlace> {
    match owner_of(folder, &[Owner::ControlPlane]) {
        Some((_, above)) => Err(NoPlace::in_control_plane(folder, &above)),
        None => Ok(()),
    }
}

/// Refuses a place in `folder`, which was `named`, when that is in a working tree of git with an environment's objects.
fn refuse_working_tree(folder: &Path, named: &Path) -> Result<(), NoPlace> {
    match control_plane::working_tree_of_one(&absolute(folder)) {
        Some(root) => Err(NoPlace::in_control_plane(named, &root)),
        None => Ok(()),
    }
}

/// Refuses what is no folder, and a symbolic link to one.
fn refuse_link(folder: &Path) -> Result<(), NoPlace> {
    refuse_no_folder(folder)?;
    match link_target(folder) {
        Some(target) => {
            let what = format!("a symbolic link to `{}`", text::path(&target));
            let instead = "the folder itself that it leads to";
            Err(NoPlace::new(folder, what, instead))
        }
        None => Ok(()),
    }
}

/// Refuses what is no folder. Of a link, too: `/dev/stdout` leads to what is no folder, and often to nothing that has a name.
fn refuse_no_folder(folder: &Path) -> Result<(), NoPlace> {
    match not_a_folder(folder) {
        Some(what) => {
            let instead = "a folder: files get their names in it";
            Err(NoPlace::new(folder, what.to_owned(), instead))
        }
        None => Ok(()),
    }
}

/// Refuses `folder`, which is `out` without links, as [`refuse_no_place`] does, except for a link and for one in a control plane. What is
/// `own` may lie in it.
fn refuse_others(folder: &Path, out: &Path, own: Option<Owner>) -> Result<(), NoPlace> {
    let refused = |what: String, instead: &str| Err(NoPlace::new(folder, what, instead));
    refuse_no_folder(folder)?;
    if out.parent().is_none() {
        return refused("the whole file system".to_owned(), "a folder");
    }
    let of_kernel = |place: &&&str| out.starts_with(place) && !out.starts_with(SHARED_MEMORY);
    if let Some(place) = KERNEL.iter().find(of_kernel) {
        let what = format!("in `{place}`, which holds no files");
        return refused(what, "a folder on a disk or a stick");
    }
    if out.components().any(|part| part.as_os_str() == ".git") {
        let what = "in the `.git` folder of a repository".to_owned();
        return refused(what, "a folder outside the repository");
    }
    // What takes a folder for a stick copies to it, syncs it, and says that it may be removed.
    if let Some((owner, above)) = owned(out, own) {
        let above = text::path(&above);
        let what = match owner {
            Owner::Repository => format!("in {} `{above}`", owner.name()),
            _ => format!("in {}, `{above}`", owner.name()),
        };
        return refused(what, "a folder outside it");
    }
    Ok(())
}

/// The folder of someone that `out` lies in or is, with its owner. What `own` has there is no one else's, when it is `out` itself.
fn owned(out: &Path, own: Option<Owner>) -> Option<(Owner, PathBuf)> {
    const KEEPERS: [Owner; 4] = [Owner::Repository, Owner::Site, Owner::Fleet, Owner::Hub];
    let others: Vec<Owner> = KEEPERS
        .into_iter()
        .filter(|one| Some(*one) != own)
        .collect();
    let found = owner_of(out, &others);
    found.or_else(|| owner_of(out.parent()?, own.as_slice()))
}

/// Where `folder` leads, when it is a symbolic link, with or without a `/` at its end.
fn link_target(folder: &Path) -> Option<PathBuf> {
    // Of `link/` the system would show what is behind it.
    let itself: PathBuf = folder.components().collect();
    let found = std::fs::symlink_metadata(&itself).ok()?;
    found
        .is_symlink()
        .then(|| itself.canonicalize().or_else(|_| itself.read_link()))?
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_folder_or_somebody_elses_is_named_and_not_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("file"), "").unwrap();
        let made = std::process::Command::new("mkfifo")
            .arg(at("fifo"))
            .status();
        assert!(made.unwrap().success());
        std::os::unix::fs::symlink("file", at("to-file")).unwrap();
        std::os::unix::fs::symlink("gone", at("to-nothing")).unwrap();
        for (name, marker) in [
            ("hub", "hub.key"),
            ("served", "hub.database"),
            ("fleet", "fleet.json"),
        ] {
            std::fs::create_dir(at(name)).unwrap();
            std::fs::write(at(name).join(marker), "").unwrap();
        }
        for (path, expected) in [
            (at("file"), "is a file, where"),
            (at("fifo"), "is a FIFO, where"),
            (PathBuf::from("/dev/null"), "is a device, where"),
            (PathBuf::from("/proc"), "in `/proc`, which holds no files"),
            (PathBuf::from("/proc/self/out"), "in `/proc`"),
            (PathBuf::from("/dev/out"), "in `/dev`"),
            (at("to-file"), "is a file, where"),
            (at("to-nothing"), "is a symbolic link to `gone`, where"),
            (at("hub"), "the state folder of a hub"),
            (at("hub/bundles"), "the state folder of a hub"),
            (at("served"), "the state folder of a hub"),
            (at("fleet/bundles"), "the folder of a fleet's keys"),
        ] {
            let said = refuse_no_place(&path).unwrap_err().to_string();
            assert!(said.contains(expected), "{said}");
        }
        refuse_folder_of(Path::new("/new.backup")).unwrap();
        refuse_folder_of(&at("hub/new.backup")).unwrap_err();
        refuse_folder(Path::new("/")).unwrap_err();
        refuse_no_place(&at("new/folder")).unwrap();
        refuse_no_place(Path::new("/dev/shm/new")).unwrap();
        let said = refuse_no_place(&at("hub/a\nb")).unwrap_err().to_string();
        let lines: Vec<&str> = said.lines().collect();
        assert!(lines.len() == 2 && lines[1].starts_with("help: "), "{said}");
    }

    #[test]
    fn a_folder_of_ones_own_is_one_and_nothing_in_it_or_of_another_owner_is() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for (name, marker) in [("hub", "hub.db"), ("site", "agent.db")] {
            std::fs::create_dir(at(name)).unwrap();
            std::fs::write(at(name).join(marker), "").unwrap();
        }
        std::os::unix::fs::symlink("hub", at("link")).unwrap();
        let refused = |name: &str| refuse_own_folder(&at(name), Owner::Hub);
        for own in ["hub", "link", "new"] {
            refused(own).unwrap();
        }
        for (foreign, expected) in [
            ("hub/inner", "in the state folder of a hub, `"),
            ("site", "in the state folder of a site, `"),
            ("site/inner", "in the state folder of a site, `"),
        ] {
            let said = refused(foreign).unwrap_err().to_string();
            assert!(said.contains(expected), "{said}");
        }
    }

    #[test]
    fn a_working_tree_with_an_environments_objects_is_a_control_plane_and_an_applications_is_none()
    {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let object =
            |kind: &str| format!("# A\napiVersion: scheduler.kalypso.io/v1alpha1\nkind: {kind}\n");
        for (tree, file, kind) in [
            ("branch", "cluster-types/drone.yaml", "ClusterType"),
            ("root", "policies.yml", "SchedulingPolicy"),
            ("application", "workload/workload.yaml", "Workload"),
        ] {
            std::fs::create_dir_all(at(tree).join(".git")).unwrap();
            let file = at(tree).join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, object(kind)).unwrap();
        }
        for out in ["branch", "branch/new/hub", "root/hub"] {
            let said = refuse_folder(&at(out)).unwrap_err().to_string();
            assert!(said.contains("in the control plane in"), "{said}");
        }
        refuse_folder(&at("application/hub")).unwrap();
        std::fs::remove_dir(at("branch/.git")).unwrap();
        refuse_folder(&at("branch")).unwrap();
    }

    #[test]
    fn a_file_is_replaced_by_one_of_its_kind_alone_and_outside_of_folders_of_others() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for (name, content) in [("old.slip", "slip"), ("values.yaml", "a: b")] {
            std::fs::write(at(name), content).unwrap();
        }
        std::os::unix::fs::symlink("values.yaml", at("link")).unwrap();
        for inner in ["fleet/keys", "plane/.environments", "plane/configs"] {
            std::fs::create_dir_all(at(inner)).unwrap();
        }
        std::fs::write(at("fleet/fleet.json"), "{}").unwrap();
        let refused = |name: &str| {
            let found = refuse_file(&at(name), "a slip", |there| there == b"slip");
            found.map_err(|error| error.to_string())
        };
        assert_eq!(refused("old.slip"), Ok(()));
        assert_eq!(refused("new.slip"), Ok(()));
        for (name, expected) in [
            (
                "values.yaml",
                "is a file that is there already and is not a slip",
            ),
            ("link", "is a symbolic link"),
            ("fleet", "is a folder"),
            ("fleet/keys/new.pem", "in the folder of a fleet's keys"),
            ("plane/configs/new.yaml", "in the control plane in"),
        ] {
            let said = refused(name).unwrap_err();
            assert!(said.contains(expected), "{said}");
            assert!(
                said.contains(&format!("`{}`", at(name).display())),
                "{said}"
            );
        }
    }
}
