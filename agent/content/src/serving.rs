//! What a generation brings that a site can serve: images and git repositories, also those in its payloads.
//!
//! What comes in: an index and the generation's folder, unpacked and verified. What goes out: an image layout
//! (`images/`) with the packs (`repositories/`) of what the index has to be served, the generation's
//! `catalog.json`, and `serve/active`, by which `outhaul-mirror` knows which generation to serve. It opens no
//! socket and knows nothing of registries.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use outhaul_bundle::Digest;
use outhaul_bundle::index::served::{Image, Repository, Served};
use outhaul_bundle::index::{Content, Index};
use outhaul_serve::catalog::{self, Description, LayoutEntry};
use outhaul_serve::git;
use outhaul_serve::layout::TWINS;
use outhaul_serve::view::FolderView;
use serde_json::json;

use crate::durable::{self, FileError};
use crate::machine::{Site, Work};
use crate::state_folder::StateFolder;

pub use outhaul_kit::carried::CATALOG as DESCRIPTION;
/// By this file an OCI image layout is known.
const MARKER: &str = "oci-layout";
const MAX_DESCRIPTION: u64 = 1 << 20;
/// The folder of a generation with the images that it serves.
const IMAGES: &str = "images";
/// Its folder with the packs of the repositories that it serves.
const REPOSITORIES: &str = "repositories";

/// Where in a generation the contents lie that are served, each once.
pub fn paths(served: &Served) -> BTreeMap<Content, PathBuf> {
    let packs = served.repositories.iter();
    let mut paths: BTreeMap<_, _> = packs.map(|one| (one.pack, pack_path(one))).collect();
    let blobs = Path::new(IMAGES).join("blobs/sha256");
    for image in &served.images {
        for content in std::iter::once(&image.manifest).chain(&image.blobs) {
            paths.insert(*content, blobs.join(content.digest.hex()));
        }
    }
    paths
}

/// The image layout of a generation.
pub fn image_layout(state_folder: &StateFolder, number: u64) -> PathBuf {
    state_folder.generation(number).join(IMAGES)
}

/// Whether layers of an image layout came as twins.
pub fn has_twins(layout: &Path) -> bool {
    durable::list(&layout.join(TWINS)).is_ok_and(|all| !all.is_empty())
}

/// Where in a generation the archive lies that is in the place of a layer.
pub fn archive_path(archive: &Digest) -> PathBuf {
    Path::new(IMAGES).join("blobs/sha256").join(archive.hex())
}

/// Where in a generation is stated which archive is in the place of a layer ([`crate::blobs::twins::stated`]).
pub fn twin_path(layer: &Digest) -> PathBuf {
    Path::new(IMAGES).join(TWINS).join(layer.hex())
}

/// What needs a content that is served, for people: the first image or repository that has it.
pub fn user_of(served: &Served, content: &Content) -> Option<String> {
    let has = |image: &&Image| image.manifest == *content || image.blobs.contains(content);
    let image = served.images.iter().find(has);
    let image = image.map(|image| format!("image `{}`", image.name));
    image.or_else(|| {
        let mut packs = served.repositories.iter();
        let pack = packs.find(|one| one.pack == *content);
        pack.map(|one| format!("repository `{}`", one.url))
    })
}

/// The files that describe the images, by their paths in a generation.
pub fn layout(served: &Served) -> Vec<(PathBuf, Vec<u8>)> {
    if served.images.is_empty() {
        return Vec::new();
    }
    let entry = |image: &Image| {
        json!({
            "mediaType": image.media_type,
            "digest": image.manifest.digest.to_string(),
            "size": image.manifest.size,
            "annotations": { "org.opencontainers.image.ref.name": image.name },
        })
    };
    let manifests: Vec<_> = served.images.iter().map(entry).collect();
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": manifests,
    });
    let marker = json!({ "imageLayoutVersion": "1.0.0" });
    [(MARKER, marker), ("index.json", index)]
        .into_iter()
        .map(|(name, content)| {
            let path = Path::new(IMAGES).join(name);
            (path, content.to_string().into_bytes())
        })
        .collect()
}

fn pack_path(repository: &Repository) -> PathBuf {
    let name = format!("{}.pack", repository.pack.digest.hex());
    Path::new(REPOSITORIES).join(name)
}

/// Describes what of the generation in `folder` is served; `None` when that is nothing.
pub fn describe(folder: &Path, index: &Index) -> Option<Description> {
    let mut all = Description::empty();
    if !index.served.images.is_empty() {
        all.layouts.push(LayoutEntry {
            folder: IMAGES.into(),
            image: None,
        });
    }
    all.repositories
        .extend(index.served.repositories.iter().map(|one| git::GitEntry {
            url: one.url.clone(),
            refs: one.refs.clone(),
            head: one.head.clone(),
            shallow: one.shallow.clone(),
            pack: pack_path(one),
            digest: one.pack.digest.to_string(),
            size: one.pack.size,
        }));
    for assignment in &index.assignments {
        let below = Path::new("payload").join(assignment.name.as_str());
        for file in &assignment.payload {
            let path = below.join(file.path.as_str());
            let parent = path.parent().unwrap_or(&below);
            let name = path.file_name().unwrap_or_default();
            if name == DESCRIPTION {
                add(&mut all, folder, &path, parent, assignment.name.as_str());
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
    let is_empty = all.layouts.is_empty()
        && all.repositories.is_empty()
        && all.packages.is_empty()
        && all.problems.is_empty();
    (!is_empty).then_some(all)
}

/// Adds what a payload's own description says. One that cannot be read is named where people ask what is
/// served, and keeps nothing else from being served or applied.
fn add(all: &mut Description, folder: &Path, path: &Path, parent: &Path, assignment: &str) {
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
            // No workload answers for another one's packages.
            let (own, others): (Vec<_>, Vec<_>) = found
                .packages
                .into_iter()
                .partition(|one| one.name == assignment);
            all.packages.extend(own);
            all.problems.extend(others.into_iter().map(|one| {
                format!(
                    "`{}`: the apt repository `{}` is not named after its assignment `{assignment}`",
                    path.display(),
                    one.name
                )
            }));
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

/// Makes `serve/active` name what `site` needs now: the generation that was applied last, since what was applied
/// pulls from it. What is about to be applied is switched to by whoever has seen that it is whole.
///
/// # Errors
/// [`FileError`] when the state folder cannot be written.
pub fn publish(state_folder: &StateFolder, site: &Site) -> Result<(), FileError> {
    match site.work {
        Work::Applying(_) | Work::Reverting { .. } => Ok(()),
        Work::Soaking(number) => switch_to(state_folder, Some(number)),
        Work::Idle | Work::Repairing | Work::Correcting => {
            switch_to(state_folder, site.active.map(|active| active.number))
        }
    }
}

/// Makes `serve/active` name a generation. Writes nothing on a site that was never given anything to serve, and
/// nothing that is already so.
///
/// # Errors
/// [`FileError`] when the state folder cannot be written.
pub fn switch_to(state_folder: &StateFolder, number: Option<u64>) -> Result<(), FileError> {
    let active = state_folder.root().join(FolderView::ACTIVE);
    let known = durable::read_if_present(&active, 64)?;
    let brings = number.is_some_and(|n| state_folder.generation(n).join(catalog::FILE).exists());
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
