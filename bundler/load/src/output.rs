//! Whether a folder may be written to, because it is not one of those that a request reads.
//!
//! What comes in: a request, and the folder that a rendering is to go to. What goes out: a refusal when that is the
//! control plane's own folder, or lies in one that is read as it is: what is written there would be read as a part of
//! the control plane the next time. It changes nothing.

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
    // Of a repository only commits are read: a folder beside its files is never part of one by itself.
    let (reads, whole): (Vec<&Path>, bool) = match &request.from {
        Origin::Repository { url, .. } => (local_folder(url).into_iter().collect(), false),
        Origin::Folders {
            environment_dir,
            base_dir,
            ..
        } => {
            let base = base_dir.as_deref();
            (
                [environment_dir.as_path()]
                    .into_iter()
                    .chain(base)
                    .collect(),
                true,
            )
        }
    };
    let out = absolute(folder);
    for read in reads {
        let own = absolute(read);
        let inside = out != own;
        if !inside || (whole && out.starts_with(&own)) {
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
            return real.join(rest);
        }
    }
    path
}
