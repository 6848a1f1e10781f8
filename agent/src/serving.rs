//! What a generation brings that a site can serve: image layouts and git repositories in its payloads.
//!
//! What comes in: an index and the generation's folder, unpacked and verified. What goes out: its
//! `catalog.json`, and `serve/active`, by which `outhaul-mirror` knows which generation to serve. It opens no
//! socket and knows nothing of registries.

use std::path::Path;

use outhaul_bundle::Index;
use outhaul_serve::catalog::{self, Description, LayoutEntry};
use outhaul_serve::view::FolderView;

use crate::durable::{self, FileError};
use crate::home::Home;
use crate::machine::{Site, Work};

/// A payload's file that says what else of it is served, and how.
pub const DESCRIPTION: &str = "outhaul-catalog.json";
/// By this file an OCI image layout is known.
const MARKER: &str = "oci-layout";
const MAX_DESCRIPTION: u64 = 1 << 20;

/// Describes what of the generation in `folder` is served; `None` when that is nothing.
pub fn describe(folder: &Path, index: &Index) -> Option<Description> {
    let mut all = Description::empty();
    for assignment in &index.assignments {
        let below = Path::new("payload").join(assignment.name.as_str());
        for file in &assignment.payload {
            let path = below.join(file.path.as_str());
            let parent = path.parent().unwrap_or(&below);
            let name = path.file_name().unwrap_or_default();
            if name == DESCRIPTION {
                add(&mut all, folder, &path, parent);
            }
        }
    }
    for assignment in &index.assignments {
        let below = Path::new("payload").join(assignment.name.as_str());
        for file in &assignment.payload {
            let path = below.join(file.path.as_str());
            let parent = path.parent().unwrap_or(&below);
            let is_known = all.layouts.iter().any(|layout| layout.folder == parent);
            if path.file_name().unwrap_or_default() == MARKER && !is_known {
                all.layouts.push(LayoutEntry {
                    folder: parent.to_owned(),
                    image: None,
                });
            }
        }
    }
    let is_empty = all.layouts.is_empty() && all.repositories.is_empty() && all.problems.is_empty();
    (!is_empty).then_some(all)
}

/// Adds what a payload's own description says. One that cannot be read is named where people ask what is
/// served, and keeps nothing else from being served or applied.
fn add(all: &mut Description, folder: &Path, path: &Path, parent: &Path) {
    let read = durable::read(&folder.join(path), MAX_DESCRIPTION)
        .map_err(|error| error.to_string())
        .and_then(|bytes| {
            serde_json::from_slice::<Description>(&bytes).map_err(|error| error.to_string())
        });
    match read {
        Ok(found) if found.format == catalog::FORMAT => {
            let found = found.below(parent);
            all.layouts.extend(found.layouts);
            all.repositories.extend(found.repositories);
        }
        Ok(_) => {
            let problem = format!(
                "`{}`: its format is not `{}`",
                path.display(),
                catalog::FORMAT
            );
            all.problems.push(problem);
        }
        Err(problem) => all
            .problems
            .push(format!("`{}`: {problem}", path.display())),
    }
}

/// The generation whose content a site needs now: the one that is being applied, since what is applied pulls
/// from it, and else the active one.
fn served(site: &Site) -> Option<u64> {
    match site.work {
        Work::Applying(number) | Work::Soaking(number) => Some(number),
        Work::Reverting { to, .. } => Some(to),
        Work::Idle | Work::Repairing => site.active.map(|active| active.number),
    }
}

/// Makes `serve/active` name what `site` needs now. Writes nothing on a site that was never given anything to
/// serve, and nothing that is already so.
///
/// # Errors
/// [`FileError`] when the state folder cannot be written.
pub fn publish(home: &Home, site: &Site) -> Result<(), FileError> {
    let active = home.root().join(FolderView::ACTIVE);
    let known = durable::read_if_present(&active, 64)?;
    let number = served(site);
    let brings = number.is_some_and(|n| home.generation(n).join(catalog::FILE).exists());
    if known.is_none() && !brings {
        return Ok(());
    }
    let text = number.map_or_else(String::new, |number| format!("{number}\n"));
    if known.is_some_and(|known| known == text.as_bytes()) {
        return Ok(());
    }
    if let Some(folder) = active.parent() {
        durable::make_folder(folder)?;
    }
    durable::write(&active, text.as_bytes(), 0o644)
}
