//! Whether a folder may be written to, because it is not one of those that a request reads.
//!
//! What comes in: a request, and the folder that a rendering is to go to. What goes out: a refusal when that is a
//! folder that the request reads, or lies in one, or is no place for files of a program: what is written there would
//! be read as a part of the control plane the next time, or belongs to someone else. It changes nothing.

use std::path::{Path, PathBuf};

use outhaul_git::source::local_folder;
use outhaul_kit::belongs::resolved as absolute;
use outhaul_kit::failure::{Classified, FailureClass};
use outhaul_kit::text;

use crate::{LoadRequest, Origin};

mod place;

pub use outhaul_place::{
    NoParent, NoPlace, PlaceRefused, refuse_folder_of_others, refuse_other_kind,
};
use outhaul_place::{
    WorkingTree, refuse_mount_point, refuse_no_parent, refuse_no_place, working_tree,
};
pub use place::{refuse_file, refuse_folder, refuse_new_folder, refuse_sources};

/// A rendering must not go into what it is made from.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{}` is {}, from which the rendering is made; nothing was written\nhelp: name a folder outside it",
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
    Place(#[from] PlaceRefused),
    /// It is read for what is written.
    Own(#[from] OwnInput),
}

impl Classified for OutputRefused {
    fn class(&self) -> FailureClass {
        FailureClass::Usage
    }
}

/// Refuses `folder` as the place of what is made of `request`.
///
/// # Errors
/// [`OutputRefused`]
pub fn refuse_output(request: &LoadRequest, folder: &Path) -> Result<(), OutputRefused> {
    refuse_no_place(folder).map_err(PlaceRefused::from)?;
    refuse_no_parent(folder).map_err(PlaceRefused::from)?;
    refuse_own_input(request, folder)?;
    Ok(place::refuse_control_plane(folder, folder).map_err(PlaceRefused::from)?)
}

/// Refuses `folder` as [`refuse_output`] does, for a rendering: what is read for it is named first.
///
/// # Errors
/// [`OutputRefused`]
pub fn refuse_rendering(request: &LoadRequest, folder: &Path) -> Result<(), OutputRefused> {
    refuse_own_input(request, folder)?;
    refuse_output(request, folder)?;
    Ok(refuse_mount_point(folder).map_err(PlaceRefused::from)?)
}

/// Refuses what a rendering would put into `folder`, by the names of its cluster types, where one of them is what is read for it, or no
/// place for what Outhaul writes.
///
/// # Errors
/// [`OutputRefused`]
pub fn refuse_rendered<'n>(
    request: &LoadRequest,
    folder: &Path,
    cluster_types: impl Iterator<Item = &'n String>,
) -> Result<(), OutputRefused> {
    for name in cluster_types {
        let inner = folder.join(name);
        // Of a link or a file in its place whoever writes there speaks.
        if inner.symlink_metadata().is_ok_and(|found| found.is_dir()) {
            refuse_own_input(request, &inner)?;
            refuse_no_place(&inner).map_err(PlaceRefused::from)?;
        }
    }
    Ok(())
}

/// Refuses `folder` as the output of `request`.
///
/// # Errors
/// [`OwnInput`]
fn refuse_own_input(request: &LoadRequest, folder: &Path) -> Result<(), OwnInput> {
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
