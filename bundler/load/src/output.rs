//! Whether a folder may be written to, because it is not one of those that a request reads.
//!
//! What comes in: a request, and the folder that a rendering is to go to. What goes out: a refusal when that is a
//! folder that the request reads, or lies in one, or is no place for files of a program: what is written there would
//! be read as a part of the control plane the next time, or belongs to somebody else. It changes nothing.

use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use outhaul_git::source::local_folder;
use outhaul_kit::failure::{Classified, FailureClass};
use outhaul_kit::{durable, text};

use crate::{LoadRequest, Origin};

/// A rendering must not go into what it is made from.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{}` is {}, from which the rendering is made; nothing was written\nhelp: name a folder outside it with `--out`",
    text::path(folder),
    self.what()
)]
pub struct OwnInput {
    folder: PathBuf,
    read: PathBuf,
    place: OutputPlace,
    /// Whether it is a local copy of a repository, and not the control plane.
    is_source: bool,
}

/// Where a folder lies, seen from one that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OutputPlace {
    Itself,
    Inside,
    /// In another working tree of the same repository.
    WorkingTree,
}

impl OwnInput {
    fn what(&self) -> String {
        let read = text::path(&self.read);
        match (self.place, self.is_source) {
            (OutputPlace::Itself, false) => "the control plane's own folder".to_owned(),
            (OutputPlace::Itself, true) => "a local copy of a repository (`--source`)".to_owned(),
            (OutputPlace::Inside, false) => format!("in the control plane's folder `{read}`"),
            (OutputPlace::Inside, true) => {
                format!("in the local copy `{read}` of a repository (`--source`)")
            }
            (OutputPlace::WorkingTree, false) => {
                format!("in a working tree of the control plane's repository in `{read}`")
            }
            (OutputPlace::WorkingTree, true) => {
                format!("in a working tree of the repository in `{read}` (`--source`)")
            }
        }
    }
}

/// Why what is made of a control plane is not written to a folder.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub enum OutputRefused {
    /// It is no place for what Outhaul writes.
    Place(#[from] NoPlace),
    /// The stick that it is named for is not mounted.
    Parent(#[from] NoParent),
    /// It is read for what is written.
    Own(#[from] OwnInput),
}

impl Classified for OutputRefused {
    fn class(&self) -> FailureClass {
        FailureClass::Usage
    }
}

/// Refuses `folder` as the place of bundles that are made of `request`.
///
/// # Errors
/// [`OutputRefused`]
pub fn refuse_output(request: &LoadRequest, folder: &Path) -> Result<(), OutputRefused> {
    refuse_no_place(folder)?;
    refuse_no_parent(folder)?;
    Ok(refuse_own_input(request, folder)?)
}

/// A folder that is no place for what Outhaul writes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{}` is {what}, where Outhaul writes nothing\nhelp: name {instead}",
    text::path(folder)
)]
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
    for (file, what) in [
        ("agent.db", "the state folder of a site"),
        ("fleet.json", "the folder of a fleet's keys"),
        ("hub.key", "the state folder of a hub"),
    ] {
        if let Some(above) = out.ancestors().find(|above| above.join(file).is_file()) {
            let what = format!("in {what}, `{}`", text::path(above));
            return refused(what, "a folder outside it");
        }
    }
    let control_plane = |above: &&Path| above.join(crate::ENVIRONMENTS).is_dir();
    if let Some(above) = out.ancestors().find(control_plane) {
        let what = format!("in the control plane in `{}`", text::path(above));
        return refused(what, "a folder outside it");
    }
    Ok(())
}

/// What the kernel shows as folders.
const KERNEL: [&str; 3] = ["/proc", "/sys", "/dev"];
/// A folder in memory, where files may lie.
const SHARED_MEMORY: &str = "/dev/shm";

/// Where sticks are mounted.
const MOUNTED: [&str; 3] = ["/media", "/mnt", "/run/media"];

/// Refuses `folder` where sticks are mounted, when neither it nor the folder above it is there: a stick that is not mounted is not made up.
///
/// # Errors
/// [`NoParent`]
fn refuse_no_parent(folder: &Path) -> Result<(), NoParent> {
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
    "`{}` cannot be created: folder `{}` does not exist\nhelp: see that the stick is mounted there (`findmnt`), or make that folder",
    text::path(folder),
    text::path(parent)
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
        .then(|| itself.canonicalize().or_else(|_| itself.read_link()))?
        .ok()
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
    let of_plane: Vec<&Path> = match &request.from {
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
    let out = absolute(folder);
    let own_tree = working_tree(&out);
    let of_plane = of_plane.into_iter().map(|read| (read, false));
    let sources = request.sources.folders().map(|read| (read, true));
    for (read, is_source) in of_plane.chain(sources) {
        let own = absolute(read);
        let place = match out.starts_with(&own) {
            true if out == own => OutputPlace::Itself,
            true => OutputPlace::Inside,
            false if is_beside(own_tree.as_ref(), &own) => OutputPlace::WorkingTree,
            false => continue,
        };
        return Err(OwnInput {
            folder: folder.to_owned(),
            read: read.to_owned(),
            place,
            is_source,
        });
    }
    Ok(())
}

/// A working tree of git, and where its repository lies.
struct WorkingTree {
    root: PathBuf,
    repository: PathBuf,
    /// Whether `git worktree` made it beside another one.
    is_linked: bool,
}

/// Most bytes of a file that says where a repository lies.
const MAX_POINTER_BYTES: u64 = 64 * 1024;

/// The working tree that `path` lies in.
fn working_tree(path: &Path) -> Option<WorkingTree> {
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

/// Whether `out` is a working tree that was added to the repository in which `read` lies, or which it is, and not the one that `read` is in.
fn is_beside(out: Option<&WorkingTree>, read: &Path) -> bool {
    let Some(out) = out.filter(|out| out.is_linked) else {
        return false;
    };
    match working_tree(read) {
        Some(of_read) => of_read.repository == out.repository && of_read.root != out.root,
        None => out.repository == *read,
    }
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
    fn a_working_tree_that_was_added_to_a_repository_is_a_part_of_it_and_other_clones_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| absolute(&folder.path().join(name));
        let git = |command: &str| {
            let identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"];
            let mut git = std::process::Command::new("git");
            git.args(identity).args(command.split_whitespace());
            assert!(git.current_dir(folder.path()).status().unwrap().success());
        };
        git("init -q plane");
        git("-C plane commit -q --allow-empty -m first");
        git("clone -q --bare plane plane.git");
        git("clone -q plane clone");
        git("-C plane worktree add -q ../wdev");
        git("-C plane.git worktree add -q ../wbare -b other");
        let beside = |out: &str, read: &str| is_beside(working_tree(&at(out)).as_ref(), &at(read));
        assert!(beside("wdev", "plane") && beside("wdev/new/out", "plane"));
        assert!(beside("wbare", "plane.git"));
        for (out, read) in [
            ("clone", "plane"),
            ("wdev", "clone"),
            ("wdev", "plane.git"),
            // What lies in the tree that is read has rules of its own.
            ("wdev/out", "wdev/dev"),
            ("plane/out", "plane/dev"),
            ("new", "plane"),
        ] {
            assert!(!beside(out, read), "{out} {read}");
        }
    }

    #[test]
    fn a_stick_that_is_not_mounted_is_not_made_up_and_other_folders_are() {
        let refused = refuse_no_parent(Path::new("/media/no-such-stick/bundles")).unwrap_err();
        let said = refused.to_string();
        assert!(
            said.contains("folder `/media/no-such-stick` does not exist"),
            "{said}"
        );
        let folder = tempfile::tempdir().unwrap();
        refuse_no_parent(&folder.path().join("a/b")).unwrap();
        refuse_no_parent(Path::new("/media")).unwrap();
    }
}
