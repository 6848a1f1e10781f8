//! Whether a command may write to a place that was typed.
//!
//! What comes in: the path of a folder or a file. What goes out: a refusal, when that is no place for what Outhaul writes, or lies in a
//! local copy of a repository that the project file or the environment maps: what is written there would be read as the content of an
//! application. It changes nothing.

use std::path::{Path, PathBuf};

use outhaul_git::source::SourceMap;
use outhaul_ship::deliver::published;

use super::failure::{self, Failure};
use super::settings;
use crate::project::Setting;

/// Refuses `folder` as a place to write to.
pub(super) fn folder(folder: &Path) -> Result<(), Failure> {
    outhaul_load::refuse_folder(folder).map_err(|error| Failure::of(&error))?;
    outside_sources(folder)
}

/// Refuses `folder` as the place of a new folder.
pub(super) fn new_folder(folder: &Path) -> Result<(), Failure> {
    outhaul_load::refuse_new_folder(folder).map_err(|error| Failure::of(&error))?;
    outside_sources(folder)
}

/// Refuses `file` as a place to write to, unless nothing is there or `is_same` says that it is one of the kind that is written, `what`
/// with its article.
pub(super) fn file(
    file: &Path,
    what: &str,
    is_same: impl FnOnce(&[u8]) -> bool,
) -> Result<(), Failure> {
    outhaul_load::refuse_file(file, what, is_same).map_err(|error| Failure::of(&error))?;
    outside_sources(file)
}

/// Whether `folder`, in which bundles are published, is to be made; a path that may be mistyped is refused.
pub(super) fn published(folder: &Path) -> Result<bool, Failure> {
    published::is_new(folder).map_err(|error| {
        let text = format!("`--publish {}`: {error}", folder.display());
        let help = "correct the path, mount the disk, or make the folder first (`mkdir -p`)";
        Failure::say(failure::USAGE, text).help(help)
    })
}

fn outside_sources(path: &Path) -> Result<(), Failure> {
    let folders = mapped();
    let folders = folders.iter().map(PathBuf::as_path);
    outhaul_load::refuse_sources(path, folders).map_err(|error| Failure::of(&error))
}

/// The local copies of repositories that the project file and the environment map. A file that cannot be used names none here: whoever
/// takes its settings says what is wrong with it.
fn mapped() -> Vec<PathBuf> {
    let texts = settings::with_surroundings(|around| {
        let named = (around.variable)(&Setting::Sources.variable()).unwrap_or_default();
        let mut texts: Vec<String> = named.split_whitespace().map(str::to_owned).collect();
        if let Ok(Some(located)) = settings::locate(around)
            && let Some(value) = located.project.values.get(&Setting::Sources)
        {
            texts.extend(value.texts.iter().cloned());
        }
        Ok(texts)
    });
    let sources = SourceMap::parse(&texts.unwrap_or_default()).unwrap_or_default();
    sources.folders().map(Path::to_owned).collect()
}
