//! Whether a place that a person named may be written to, whatever is written there.
//!
//! What comes in: the path of a folder or a file. What goes out: a refusal when that is no place for what Outhaul writes: what is no
//! folder, what the kernel shows as files, a stick that is not mounted, a folder that belongs to a site, a fleet, a hub or a control
//! plane, a repository of git, or a file of another kind. Every command that writes to a place that was named asks here first. It
//! changes nothing.

use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use outhaul_git::program::Git;
use outhaul_kit::belongs::{Owner, owner_of, resolved as absolute};
use outhaul_kit::failure::{Classified, FailureClass};
use outhaul_kit::{durable, text};

use super::working_tree::working_tree;

/// Refuses `folder` as a place to write to, for a command that reads no control plane.
///
/// # Errors
/// [`PlaceRefused`]
pub fn refuse_folder(folder: &Path) -> Result<(), PlaceRefused> {
    refuse_no_place(folder)?;
    refuse_control_plane(folder, folder)?;
    Ok(refuse_no_parent(folder)?)
}

/// Refuses `folder` as the place of a new folder, as [`refuse_folder`] does. One that has something in it is for its maker to refuse.
///
/// # Errors
/// [`PlaceRefused`]
pub fn refuse_new_folder(folder: &Path) -> Result<(), PlaceRefused> {
    let has_something = std::fs::read_dir(folder).is_ok_and(|mut there| there.next().is_some());
    match has_something {
        true => Ok(()),
        false => refuse_folder(folder),
    }
}

/// Refuses `folder` as a place to write to, except for one in a control plane.
///
/// # Errors
/// [`PlaceRefused`]
pub fn refuse_folder_of_others(folder: &Path) -> Result<(), PlaceRefused> {
    refuse_others(folder)?;
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
    let folder = match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    // A link to a folder is one more name of it.
    let folder = absolute(folder);
    let outside = |refused: NoPlace| NoPlace {
        folder: file.to_owned(),
        ..refused
    };
    refuse_no_place(&folder).map_err(outside)?;
    Ok(refuse_control_plane(&folder, file)?)
}

/// Refuses to replace what is there as `file`, unless `is_same` says that it is of the kind that is written. `what` is that kind, with
/// its article.
///
/// # Errors
/// [`PlaceRefused`]
pub fn refuse_other_kind(
    file: &Path,
    what: &str,
    is_same: impl FnOnce(&[u8]) -> bool,
) -> Result<(), PlaceRefused> {
    let Ok(found) = std::fs::symlink_metadata(file) else {
        return Ok(());
    };
    let found = if found.is_symlink() {
        "a symbolic link".to_owned()
    } else if found.is_dir() {
        "a folder".to_owned()
    } else if let Some(kind) = not_a_folder(file).filter(|_| !found.is_file()) {
        kind.to_owned()
    } else {
        let there = durable::read(file, MAX_REPLACED_BYTES);
        if there.is_ok_and(|there| is_same(&there)) {
            return Ok(());
        }
        format!("a file that is there already and is not {what}")
    };
    Err(NoPlace {
        folder: file.to_owned(),
        what: found,
        instead: format!("a file that is not there yet, or {what} that is to be replaced"),
    }
    .into())
}

/// Why nothing is written to a place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub enum PlaceRefused {
    /// It is no place for what Outhaul writes.
    Place(#[from] NoPlace),
    /// The stick that it is named for is not mounted.
    Parent(#[from] NoParent),
}

impl Classified for PlaceRefused {
    fn class(&self) -> FailureClass {
        FailureClass::Usage
    }
}

/// Largest file that is looked at before it is replaced: more than any that Outhaul writes to a place that was named.
const MAX_REPLACED_BYTES: u64 = 4 << 20;

/// A folder that is no place for what Outhaul writes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{}` is {what}, where Outhaul writes nothing\nhelp: name {instead}",
    text::path(folder)
)]
pub struct NoPlace {
    folder: PathBuf,
    what: String,
    instead: String,
}

impl NoPlace {
    fn in_control_plane(folder: &Path, above: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            what: format!("in the control plane in `{}`", text::path(above)),
            instead: "a place outside it".to_owned(),
        }
    }
}

/// Refuses `folder` as a place to write to: the root of the file system, what is no folder, a repository's `.git`, a symbolic link, a
/// folder of a site, a fleet or a hub, or one in the working copy of a control plane.
///
/// # Errors
/// [`NoPlace`]
pub(super) fn refuse_no_place(folder: &Path) -> Result<(), NoPlace> {
    refuse_others(folder)?;
    match owner_of(folder, &[Owner::ControlPlane]) {
        Some((_, above)) => Err(NoPlace::in_control_plane(folder, &above)),
        None => Ok(()),
    }
}

/// Refuses `folder` as [`refuse_no_place`] does, except for one in a control plane.
fn refuse_others(folder: &Path) -> Result<(), NoPlace> {
    let refused = |what: String, instead: &str| {
        Err(NoPlace {
            folder: folder.to_owned(),
            what,
            instead: instead.to_owned(),
        })
    };
    // Of a link, too: `/dev/stdout` leads to what is no folder, and often to nothing that has a name.
    if let Some(what) = not_a_folder(folder) {
        return refused(what.to_owned(), "a folder: files get their names in it");
    }
    if let Some(target) = link_target(folder) {
        let what = format!("a symbolic link to `{}`", text::path(&target));
        return refused(what, "the folder itself that it leads to");
    }
    let out = absolute(folder);
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
    let others = [Owner::Repository, Owner::Site, Owner::Fleet, Owner::Hub];
    if let Some((owner, above)) = owner_of(&out, &others) {
        let above = text::path(&above);
        let what = match owner {
            Owner::Repository => format!("in {} `{above}`", owner.name()),
            _ => format!("in {}, `{above}`", owner.name()),
        };
        return refused(what, "a folder outside it");
    }
    Ok(())
}

/// Refuses a place in `folder`, which was `named`, when that is in a working copy of a control plane's repository: the branch of an
/// environment has no list of environments, and what is written there is committed and read as well.
fn refuse_control_plane(folder: &Path, named: &Path) -> Result<(), NoPlace> {
    let out = absolute(folder);
    let Some(tree) = working_tree(&out) else {
        return Ok(());
    };
    let lists_environments = || {
        let git = Git::at(&tree.root);
        let format = format!("--format=%(objectname):{}", crate::ENVIRONMENTS);
        let heads = git.text(&["for-each-ref", &format, "refs/heads", "refs/remotes"])?;
        git.run(&["cat-file", "--batch-check"], heads.as_bytes())
    };
    match lists_environments() {
        Ok(found) if found.lines().any(|line| line.contains(" tree ")) => {
            Err(NoPlace::in_control_plane(named, &tree.root))
        }
        // What git cannot read is not known to be a control plane.
        _ => Ok(()),
    }
}

/// Refuses a folder at which something is mounted: what takes its place by a rename is written beside it, on another file system.
pub(super) fn refuse_mount_point(folder: &Path) -> Result<(), NoPlace> {
    let out = absolute(folder);
    let device = |path: &Path| path.metadata().ok().map(|found| found.dev());
    let above = out.parent().and_then(device);
    match device(&out) {
        Some(own) if above.is_some_and(|above| above != own) => Err(NoPlace {
            folder: folder.to_owned(),
            what: "where a file system is mounted".to_owned(),
            instead: format!(
                "a folder on it, such as `{}`: a rendering is written beside its folder and renamed",
                text::path(&folder.join("rendered"))
            ),
        }),
        _ => Ok(()),
    }
}

/// What the kernel shows as folders.
const KERNEL: [&str; 3] = ["/proc", "/sys", "/dev"];
/// A folder in memory, where files may lie.
const SHARED_MEMORY: &str = "/dev/shm";

/// Where sticks are mounted.
const MOUNTED: [&str; 3] = ["/media", "/mnt", "/run/media"];

/// Refuses `folder` where sticks are mounted, when it is not there and would be made on the machine's own disk: a stick that is not
/// mounted is not made up, at whatever depth below the place where it would be.
///
/// # Errors
/// [`NoParent`]
pub(super) fn refuse_no_parent(folder: &Path) -> Result<(), NoParent> {
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
    let device = |path: &Path| path.metadata().ok().map(|found| found.dev());
    let there = out.ancestors().find_map(device);
    there != base.parent().and_then(device)
}

/// A folder on a stick that is not mounted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{}` does not exist, and nothing is mounted there: it would be a folder on this machine's own disk\nhelp: see that the stick is mounted (`findmnt`), or make that folder if it is meant",
    text::path(folder)
)]
pub struct NoParent {
    folder: PathBuf,
}

/// What lies in the place of `folder` and is no folder.
fn not_a_folder(folder: &Path) -> Option<&'static str> {
    let kind = folder.metadata().ok()?.file_type();
    match kind {
        kind if kind.is_dir() => None,
        kind if kind.is_file() => Some("a file"),
        kind if kind.is_fifo() => Some("a FIFO"),
        kind if kind.is_socket() => Some("a socket"),
        _ => Some("a device"),
    }
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
        for (name, marker) in [("hub", "hub.key"), ("fleet", "fleet.json")] {
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
            (at("fleet/bundles"), "the folder of a fleet's keys"),
        ] {
            let said = refuse_no_place(&path).unwrap_err().to_string();
            assert!(said.contains(expected), "{said}");
        }
        refuse_no_place(&at("new/folder")).unwrap();
        refuse_no_place(Path::new("/dev/shm/new")).unwrap();
        let said = refuse_no_place(&at("hub/a\nb")).unwrap_err().to_string();
        let lines: Vec<&str> = said.lines().collect();
        assert!(lines.len() == 2 && lines[1].starts_with("help: "), "{said}");
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

    #[test]
    fn the_branch_of_an_environment_is_a_part_of_its_control_plane_wherever_it_is_checked_out() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let git = |command: &str| {
            let identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"];
            let mut git = std::process::Command::new("git");
            git.args(identity).args(command.split_whitespace());
            assert!(git.current_dir(folder.path()).status().unwrap().success());
        };
        git("init -q -b main plane");
        git("init -q -b main application");
        for file in ["plane/.environments/dev.yaml", "application/workload.yaml"] {
            std::fs::create_dir_all(at(file).parent().unwrap()).unwrap();
            std::fs::write(at(file), "a: b").unwrap();
        }
        for repository in ["plane", "application"] {
            git(&format!("-C {repository} add ."));
            git(&format!("-C {repository} commit -q -m first"));
        }
        git("-C plane worktree add -q ../added");
        git("clone -q --bare plane plane.git");
        git("clone -q plane clone");
        for tree in ["added", "clone"] {
            git(&format!("-C {tree} rm -q -r ."));
            git(&format!("-C {tree} commit -q -m environment"));
            assert!(!at(tree).join(".environments").exists());
        }
        for (out, expected) in [
            ("added", "in the control plane in"),
            ("added/new/stick", "in the control plane in"),
            ("clone/new", "in the control plane in"),
            ("plane.git/new", "in the repository"),
        ] {
            let said = refuse_folder(&at(out)).unwrap_err().to_string();
            assert!(said.contains(expected), "{out}: {said}");
        }
        refuse_folder(&at("application/new")).unwrap();
        refuse_folder(&at("new")).unwrap();
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
