//! Whether a place that a person named is one of a control plane's, where only git can tell.
//!
//! What comes in: the path of a folder or a file. What goes out: a refusal as `outhaul_place` gives it, which decides about everything
//! else; and one when the place is in a working copy of a control plane's repository. Every command of the centre that writes to a
//! place that was named asks here first. It changes nothing.

use std::path::Path;

use outhaul_git::program::Git;
use outhaul_kit::belongs::resolved as absolute;
use outhaul_kit::text;
use outhaul_place::{NoPlace, PlaceRefused, folder_of, working_tree};

/// Refuses `folder` as a place to write to, for a command that reads no control plane.
///
/// # Errors
/// [`PlaceRefused`]
pub fn refuse_folder(folder: &Path) -> Result<(), PlaceRefused> {
    outhaul_place::refuse_folder(folder)?;
    Ok(refuse_control_plane(folder, folder)?)
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

/// Refuses `file` as a place to write to: as its folder, and unless `is_same` says that what is there is of the kind that is written.
/// `what` is that kind, with its article.
///
/// # Errors
/// [`PlaceRefused`]
pub fn refuse_file(
    file: &Path,
    what: &str,
    is_same: impl FnOnce(&[u8]) -> bool,
) -> Result<(), PlaceRefused> {
    outhaul_place::refuse_file(file, what, is_same)?;
    Ok(refuse_control_plane(&folder_of(file), file)?)
}

/// Refuses `path` when it is one of `sources`, the local copies of repositories, or lies in one: what is written there is read as the content
/// of an application.
///
/// # Errors
/// [`PlaceRefused`]
pub fn refuse_sources<'p>(
    path: &Path,
    sources: impl IntoIterator<Item = &'p Path>,
) -> Result<(), PlaceRefused> {
    let out = absolute(path);
    let mut sources = sources.into_iter();
    match sources.find(|source| out.starts_with(absolute(source))) {
        Some(source) => {
            let what = format!(
                "in the local copy `{}` of a repository (`sources`)",
                text::path(source)
            );
            Err(NoPlace::new(path, what, "a place outside it").into())
        }
        None => Ok(()),
    }
}

/// Refuses a place in `folder`, which was `named`, when that is in a working copy of a control plane's repository: the branch of an
/// environment has no list of environments and may hold nothing yet, and what is written there is committed and read as well.
pub(super) fn refuse_control_plane(folder: &Path, named: &Path) -> Result<(), NoPlace> {
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
