//! Finds the project file of a working folder.
//!
//! What comes in: the working folder, the home folder, the user. What goes out: the nearest project file
//! in it or a folder above it, read and bounded, or the reason why the one that lies there is not read.
//! It looks no further up than the home folder, and stays on the working folder's file system. A file
//! that another user owns, or that everyone may write, is refused: its owner would decide what is signed.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use outhaul_kit::failure::{Classified, FailureClass};
use outhaul_kit::media;

use super::{FILE, MAX_BYTES};

/// A project file as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectFile {
    /// Its path.
    pub path: PathBuf,
    /// The folder that paths in it are relative to, as seen from the working folder.
    pub folder: PathBuf,
    /// Its text.
    pub text: String,
}

/// Why a project file is not read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FindError {
    /// It cannot be read.
    #[error("cannot read the project file `{}`", path.display())]
    Unreadable {
        /// Its path.
        path: PathBuf,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Someone else owns it.
    #[error(
        "the project file `{}` belongs to user {owner}, and you are user {user}\nhelp: nothing of it was used; take ownership with `chown`, or continue without it: `OUTHAUL_PROJECT=none`", path.display()
    )]
    Foreign {
        /// Its path.
        path: PathBuf,
        /// Who owns it.
        owner: u32,
        /// Who runs outhaul.
        user: u32,
    },
    /// Everyone may change it.
    #[error(
        "everyone may write the project file `{path}`\nhelp: nothing of it was used; read it, then `chmod o-w {path}`; or go on without it: `OUTHAUL_PROJECT=none`", path = path.display()
    )]
    Writable {
        /// Its path.
        path: PathBuf,
    },
    /// It is not text.
    #[error("the project file `{}` is not UTF-8 text", path.display())]
    NotText {
        /// Its path.
        path: PathBuf,
    },
}

impl Classified for FindError {
    fn class(&self) -> FailureClass {
        match self {
            Self::Foreign { .. } | Self::Writable { .. } => FailureClass::Trust,
            Self::NotText { .. } => FailureClass::Usage,
            _ => FailureClass::Environment,
        }
    }
}

/// The project file of `cwd`, when there is one.
///
/// # Errors
/// [`FindError`] for one that is there and not read.
pub fn find(cwd: &Path, home: Option<&Path>, user: u32) -> Result<Option<ProjectFile>, FindError> {
    let device = |path: &Path| std::fs::metadata(path).map(|found| found.dev()).ok();
    let here = device(cwd);
    for folder in cwd.ancestors() {
        if device(folder) != here {
            break;
        }
        let path = folder.join(FILE);
        // A link that leads nowhere is there too.
        if std::fs::symlink_metadata(&path).is_ok() {
            let shown = match folder == cwd {
                true => PathBuf::new(),
                false => folder.to_owned(),
            };
            return read(&path, shown, user).map(Some);
        }
        if Some(folder) == home {
            break;
        }
    }
    Ok(None)
}

/// Reads the project file `path`; its paths are seen from `folder`.
///
/// # Errors
/// [`FindError`]
pub fn read(path: &Path, folder: PathBuf, user: u32) -> Result<ProjectFile, FindError> {
    let unreadable = |source: Box<dyn std::error::Error + Send + Sync>| FindError::Unreadable {
        path: path.to_owned(),
        source,
    };
    let file: File = media::open_file(path).map_err(|error| unreadable(error.into()))?;
    let about = file.metadata().map_err(|error| unreadable(error.into()))?;
    if about.uid() != user && about.uid() != 0 {
        return Err(FindError::Foreign {
            path: path.to_owned(),
            owner: about.uid(),
            user,
        });
    }
    if about.mode() & 0o002 != 0 {
        return Err(FindError::Writable {
            path: path.to_owned(),
        });
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| unreadable(error.into()))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(unreadable(
            format!("it is larger than {MAX_BYTES} bytes").into(),
        ));
    }
    let text = String::from_utf8(bytes).map_err(|_| FindError::NotText {
        path: path.to_owned(),
    })?;
    Ok(ProjectFile {
        path: path.to_owned(),
        folder,
        text,
    })
}
