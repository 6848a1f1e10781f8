//! Whether a folder may be written to, because it is not one of those that a request reads.
//!
//! What comes in: a request, and the folder that a rendering is to go to. What goes out: a refusal when that is a
//! folder that the request reads, or lies in one, or is no place for files of a program: what is written there would
//! be read as a part of the control plane the next time, or belongs to somebody else. It changes nothing.

use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use outhaul_git::source::local_folder;
use outhaul_kit::failure::{Classified, FailureClass};

use crate::{LoadRequest, Origin};

/// A rendering must not go into what it is made from.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{}` is {}, from which the rendering is made; nothing was written\nhelp: name a folder outside it with `--out`",
    folder.display(),
    if *inside { format!("in the control plane's folder `{}`", read.display()) } else { "the control plane's own folder".to_owned() }
)]
pub struct OwnInput {
    folder: PathBuf,
    read: PathBuf,
    inside: bool,
}

/// A folder that is no place for what Outhaul writes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is {what}, where Outhaul writes nothing\nhelp: name {instead}", folder.display())]
pub struct NoPlace {
    folder: PathBuf,
    what: String,
    instead: &'static str,
}

impl Classified for NoPlace {
    fn class(&self) -> FailureClass {
        FailureClass::Usage
    }
}

/// Refuses `folder` as a place to write to: the root of the file system, what is no folder, a repository's `.git`, a symbolic link, a
/// folder of a site, a fleet or a hub, or one in the working copy of a control plane.
///
/// # Errors
/// [`NoPlace`]
pub fn refuse_no_place(folder: &Path) -> Result<(), NoPlace> {
    let refused = |what: String, instead| {
        let folder = folder.to_owned();
        Err(NoPlace {
            folder,
            what,
            instead,
        })
    };
    if let Some(target) = link_target(folder) {
        let what = format!("a symbolic link to `{}`", target.display());
        return refused(what, "the folder itself that it leads to");
    }
    let out = absolute(folder);
    if out.parent().is_none() {
        return refused("the whole file system".to_owned(), "a folder");
    }
    if let Some(what) = not_a_folder(&out) {
        return refused(what.to_owned(), "a folder: files get their names in it");
    }
    if out.components().any(|part| part.as_os_str() == ".git") {
        let what = "in the `.git` folder of a repository".to_owned();
        return refused(what, "a folder outside the repository");
    }
    // What takes a folder for a stick copies to it, syncs it, and says that it may be removed.
    for (file, what) in [
        ("agent.db", "the state folder of a site"),
        ("fleet.json", "the folder of a fleet's keys"),
        ("hub.key", "the state folder of a hub"),
    ] {
        if let Some(above) = out.ancestors().find(|above| above.join(file).is_file()) {
            let what = format!("in {what}, `{}`", above.display());
            return refused(what, "a folder outside it");
        }
    }
    let control_plane = |above: &&Path| above.join(crate::ENVIRONMENTS).is_dir();
    if let Some(above) = out.ancestors().find(control_plane) {
        let what = format!("in the control plane in `{}`", above.display());
        return refused(what, "a folder outside it");
    }
    Ok(())
}

/// Where sticks are mounted.
const MOUNTED: [&str; 3] = ["/media", "/mnt", "/run/media"];

/// Refuses `folder` where sticks are mounted, when neither it nor the folder above it is there: a stick that is not mounted is not made up.
///
/// # Errors
/// [`NoParent`]
pub fn refuse_no_parent(folder: &Path) -> Result<(), NoParent> {
    let out = absolute(folder);
    let is_of_media = MOUNTED.iter().any(|place| out.starts_with(place));
    match out.parent() {
        Some(parent) if is_of_media && !out.exists() && !parent.is_dir() => Err(NoParent {
            folder: folder.to_owned(),
            parent: parent.to_owned(),
        }),
        _ => Ok(()),
    }
}

/// A folder that would have to be made with the one above it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{}` is not made: there is no folder `{}`\nhelp: see that the stick is mounted there (`findmnt`), or make that folder",
    folder.display(), parent.display()
)]
pub struct NoParent {
    folder: PathBuf,
    parent: PathBuf,
}

impl Classified for NoParent {
    fn class(&self) -> FailureClass {
        FailureClass::Usage
    }
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
        .then(|| itself.canonicalize().unwrap_or(itself))
}

impl Classified for OwnInput {
    fn class(&self) -> FailureClass {
        FailureClass::Usage
    }
}

/// Refuses `folder` as the output of `request`.
///
/// # Errors
/// [`OwnInput`]
pub fn refuse_own_input(request: &LoadRequest, folder: &Path) -> Result<(), OwnInput> {
    let mut reads: Vec<&Path> = match &request.from {
        Origin::Repository { url, .. } => local_folder(url).into_iter().collect(),
        Origin::Folders {
            environment_dir,
            base_dir,
            ..
        } => {
            let base = base_dir.as_deref();
            let own = [environment_dir.as_path()].into_iter();
            own.chain(base).collect()
        }
    };
    reads.extend(request.sources.folders());
    let out = absolute(folder);
    for read in reads {
        let own = absolute(read);
        let inside = out != own;
        if out.starts_with(&own) {
            return Err(OwnInput {
                folder: folder.to_owned(),
                read: read.to_owned(),
                inside,
            });
        }
    }
    Ok(())
}

/// `path` without links in the part of it that is there.
fn absolute(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    for above in path.ancestors() {
        if let Ok(real) = above.canonicalize() {
            let rest = path.strip_prefix(above).unwrap_or(Path::new(""));
            // A `/` at the end would make a folder of it.
            return real.join(rest).components().collect();
        }
    }
    path
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
        for (name, marker) in [("hub", "hub.key"), ("fleet", "fleet.json")] {
            std::fs::create_dir(at(name)).unwrap();
            std::fs::write(at(name).join(marker), "").unwrap();
        }
        for (path, expected) in [
            (at("file"), "is a file, where"),
            (at("fifo"), "is a FIFO, where"),
            (PathBuf::from("/dev/null"), "is a device, where"),
            (at("hub"), "the state folder of a hub"),
            (at("hub/bundles"), "the state folder of a hub"),
            (at("fleet/bundles"), "the folder of a fleet's keys"),
        ] {
            let said = refuse_no_place(&path).unwrap_err().to_string();
            assert!(said.contains(expected), "{said}");
        }
        refuse_no_place(&at("new/folder")).unwrap();
    }

    #[test]
    fn a_stick_that_is_not_mounted_is_not_made_up_and_other_folders_are() {
        let refused = refuse_no_parent(Path::new("/media/no-such-stick/bundles")).unwrap_err();
        let said = refused.to_string();
        assert!(
            said.contains("there is no folder `/media/no-such-stick`"),
            "{said}"
        );
        let folder = tempfile::tempdir().unwrap();
        refuse_no_parent(&folder.path().join("a/b")).unwrap();
        refuse_no_parent(Path::new("/media")).unwrap();
    }
}
