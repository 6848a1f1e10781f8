//! Images of which layers came as twins, brought into the containerd of this machine.
//!
//! What comes in: a verified index, and the image layout of its generation, with uncompressed archives in the places of layers. What goes out: the
//! images in containerd, by their own names and digests and unpacked, so that no layer is pulled; or an error, no name in containerd that was not
//! there before, and each name for the image that it had. It opens no connection (`ctr` does, to a local socket), decides nothing about a bundle,
//! and changes no image that has all of its layers.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

use outhaul_bundle::index::served::Image;
use outhaul_bundle::layers::{self, ImageLayers};
use outhaul_bundle::{Digest, Index};
use outhaul_kit::durable;
use outhaul_kit::heartbeat::Heartbeat;
use outhaul_kit::program::ProgramFault;

mod archive;
mod ctr;
mod machine;
pub mod settings;

use archive::{blob, by_digest, is_twin_name, names, twin_name};
use ctr::{ContainerdImage, Ctr};
use settings::Settings;

/// Why the images were not brought into containerd.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ContainerdError {
    /// `ctr` failed.
    #[error(
        "image `{image}` cannot be brought into containerd at `{}` (namespace `{namespace}`): `ctr`: {problem}", address.display()
    )]
    Ctr {
        /// The image.
        image: String,
        /// containerd's socket.
        address: PathBuf,
        /// The namespace.
        namespace: String,
        /// What happened.
        problem: String,
    },
    /// What the generation has cannot be read, or room is missing.
    #[error("image `{image}` cannot be prepared for containerd: {problem}")]
    Archive {
        /// The image.
        image: String,
        /// What is wrong.
        problem: String,
    },
    /// The images that the generation has cannot be read.
    #[error("the images of this bundle cannot be prepared for containerd: {problem}")]
    Layout {
        /// What is wrong.
        problem: String,
    },
    /// It was imported and is not there.
    #[error("containerd imported image `{image}` and has not unpacked it")]
    NotUnpacked {
        /// The image.
        image: String,
    },
    /// Neither a layer nor its archive is here.
    #[error("image `{image}` lacks a layer, and also the uncompressed archive of it")]
    Lacking {
        /// The image.
        image: String,
    },
    /// Layers of it came as twins, and containerd unpacks none of its manifests here.
    #[error(
        "layers of image `{image}` came as twins, and it has no manifest for this machine ({machine})"
    )]
    OtherMachine {
        /// The image.
        image: String,
        /// Its architecture, as images name it.
        machine: &'static str,
    },
    /// Two images of one bundle have one name.
    #[error(
        "the bundle has two different images by the name `{image}`, and layers of them came as twins"
    )]
    Twice {
        /// The name.
        image: String,
    },
    /// `ctr` may not be started.
    #[error("images cannot be brought into containerd: {problem}")]
    Program {
        /// What is wrong.
        problem: String,
        /// What to do next.
        help: String,
    },
    /// Images that are not needed any more are still pinned.
    #[error(
        "images that no bundle of this site needs any more stay pinned in containerd at `{}` (namespace `{namespace}`): `ctr`: {problem}", address.display()
    )]
    Release {
        /// containerd's socket.
        address: PathBuf,
        /// The namespace.
        namespace: String,
        /// What happened.
        problem: String,
    },
}

impl ContainerdError {
    /// What to do next.
    pub fn help(&self) -> String {
        match self {
            Self::Ctr { .. } => "see that containerd runs and that `[containerd]` in agent.toml names its socket".to_owned(),
            Self::Archive { .. } | Self::Layout { .. } => {
                "see that the disk has room for the images and can be read".to_owned()
            }
            Self::NotUnpacked { .. } => format!("`ctr images check` and containerd's log show why; without an import: {WHOLE}"),
            Self::Lacking { .. } => format!("import this bundle again, whole (`outhaul copy` without `--since`), or {WHOLE}"),
            Self::OtherMachine { .. } | Self::Twice { .. } => WHOLE.to_owned(),
            Self::Program { help, .. } => help.clone(),
            Self::Release { .. } => {
                "see that containerd runs and that `[containerd]` in agent.toml names its socket; it is tried again when the service starts and with \
                 the next bundle"
                    .to_owned()
            }
        }
    }

    /// Whether the bundle as it is here is to blame, so that trying again on this machine cannot help.
    pub fn is_of_the_bundle(&self) -> bool {
        matches!(
            self,
            Self::Lacking { .. } | Self::OtherMachine { .. } | Self::Twice { .. }
        )
    }
}

/// What has all layers: a copy since an earlier bundle, also one without `--twins`, omits those that the site is taken to have.
const WHOLE: &str = "import the next bundle, whole (`outhaul copy` without `--since`)";

/// What [`bring`] did.
#[derive(Debug, Default)]
pub struct ImportResult {
    /// Images that containerd has now and did not have before.
    pub names: Vec<String>,
    /// Why others are not there. All of them were tried.
    pub failed: Vec<ContainerdError>,
}

/// An image of which some layers are not here.
struct Twin<'a> {
    image: &'a Image,
    manifests: Vec<&'a ImageLayers>,
}

/// Brings the images of `index` of which layers came as twins into containerd; `layout` is the image layout of the generation, `work` a folder for the
/// time of the import. Images that containerd has, unpacked, are left as they are, and what is pinned for other bundles stays so ([`release`]).
/// It ends early when it is asked to stop.
///
/// # Errors
/// [`ContainerdError`] where none could be tried; that of a single image is in [`ImportResult`].
pub fn bring(
    settings: &Settings,
    index: &Index,
    (layout, work): (&Path, &Path),
    heartbeat: &Heartbeat,
) -> Result<ImportResult, ContainerdError> {
    let images = images(index, layout)?;
    let twins = twins(index, layout, &images);
    let Some(first) = twins.first() else {
        return Ok(ImportResult::default());
    };
    let is_twice = |image: &Image| {
        let mut all = twins.iter().map(|twin| twin.image);
        all.any(|other| other.name == image.name && other.manifest.digest != image.manifest.digest)
    };
    if let Some(twin) = twins.iter().find(|twin| is_twice(twin.image)) {
        let image = twin.image.name.clone();
        return Err(ContainerdError::Twice { image });
    }
    let ctr = Ctr(settings);
    let known = ctr.images();
    remove_left_behind(
        &ctr,
        &known.map_err(|fault| failed(settings, first.image, &fault))?,
    );
    let mut brought = ImportResult::default();
    for twin in &twins {
        if heartbeat.is_cancelled() {
            return Ok(brought);
        }
        heartbeat.beat();
        match one(settings, (layout, work), twin) {
            Ok(true) => brought.names.push(twin.image.name.clone()),
            Ok(false) => {}
            Err(error) => {
                brought.failed.push(error);
                continue;
            }
        }
        // An image that is not pinned is only removed when the kubelet needs room, as any other; `apply` brings it again.
        for name in names(twin.image) {
            let _ = ctr.pin(&name, true);
        }
    }
    heartbeat.beat();
    Ok(brought)
}

/// The names by which containerd has the images of `index` of which layers came as twins.
///
/// # Errors
/// [`ContainerdError::Layout`]
pub fn names_of(index: &Index, layout: &Path) -> Result<BTreeSet<String>, ContainerdError> {
    let images = images(index, layout)?;
    let twins = twins(index, layout, &images);
    Ok(twins.iter().flat_map(|twin| names(twin.image)).collect())
}

/// Lets the kubelet remove images that were pinned here and are not among `kept`, and removes names of twins that an interrupted import left.
///
/// # Errors
/// [`ContainerdError::Release`]
pub fn release(settings: &Settings, kept: &BTreeSet<String>) -> Result<(), ContainerdError> {
    let ctr = Ctr(settings);
    let released = || -> Result<(), ProgramFault> {
        for name in ctr.pinned()?.iter().filter(|name| !kept.contains(*name)) {
            ctr.pin(name, false)?;
        }
        remove_left_behind(&ctr, &ctr.images()?);
        Ok(())
    };
    released().map_err(|fault| ContainerdError::Release {
        address: settings.address.clone(),
        namespace: settings.namespace.clone(),
        problem: fault.sentence(),
    })
}

/// A power cut between an import and its end leaves the names of its twins. One agent works at a time, so that no import needs them now.
fn remove_left_behind(ctr: &Ctr<'_>, known: &[ContainerdImage]) {
    let names = known.iter().map(|one| one.name.as_str());
    let left: Vec<&str> = names.filter(|name| is_twin_name(name)).collect();
    // They take space and do no harm: the next time removes them.
    let _ = ctr.remove(&left);
}

fn images(index: &Index, layout: &Path) -> Result<Vec<ImageLayers>, ContainerdError> {
    let read = layers::images(index, &mut |content| {
        let path = blob(layout, &content.digest);
        match durable::read_if_present(&path, content.size) {
            Ok(bytes) => Ok(bytes),
            Err(error) => Err(error.source),
        }
    });
    read.map_err(|error| ContainerdError::Layout {
        problem: error.to_string(),
    })
}

/// Whether a manifest is of an image.
fn is_of(layers: &ImageLayers, image: &Image) -> bool {
    layers.manifest == image.manifest || image.blobs.contains(&layers.manifest)
}

/// The images of which a layer is not here, once each, with those of their manifests that containerd unpacks here.
fn twins<'a>(index: &'a Index, layout: &Path, images: &'a [ImageLayers]) -> Vec<Twin<'a>> {
    let is_lacking = |layers: &&ImageLayers| {
        let mut all = layers.layers.iter();
        all.any(|layer| !blob(layout, &layer.carried.digest).exists())
    };
    let once: BTreeMap<(&str, Digest), &Image> = index
        .served
        .images
        .iter()
        .map(|image| ((image.name.as_str(), image.manifest.digest), image))
        .collect();
    once.into_values()
        .filter_map(|image| {
            let of_image = || images.iter().filter(|layers| is_of(layers, image));
            let is_here = |layers: &&ImageLayers| {
                layers.manifest == image.manifest || is_for_this_machine(layout, layers)
            };
            let lacks = of_image().any(|layers| is_lacking(&layers));
            let manifests: Vec<_> = of_image().filter(is_lacking).filter(is_here).collect();
            // Others than this machine's may lack layers, where this one's is whole.
            let is_whole = manifests.is_empty() && of_image().any(|layers| is_here(&layers));
            (lacks && !is_whole).then_some(Twin { image, manifests })
        })
        .collect()
}

/// Whether a manifest of several is for this machine: containerd unpacks no other.
fn is_for_this_machine(layout: &Path, layers: &ImageLayers) -> bool {
    let config = durable::read(&blob(layout, &layers.config.digest), layers.config.size);
    let config = config
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let config: serde_json::Value = config.unwrap_or_default();
    config["architecture"] == machine::OWN && config["os"] == "linux"
}

/// Whether containerd has an image, unpacked, by this name.
fn is_unpacked(known: &[ContainerdImage], image: &Image, name: &str) -> bool {
    let digest = image.manifest.digest.to_string();
    let mut all = known.iter();
    all.any(|one| one.name == *name && one.digest == digest && one.unpacked)
}

/// Brings one image, and whether that was necessary. First by its digest, which no container uses that was not made for it; its name, which may be
/// another image's, moves when it is unpacked.
fn one(
    settings: &Settings,
    (layout, work): (&Path, &Path),
    twin: &Twin<'_>,
) -> Result<bool, ContainerdError> {
    let image = twin.image;
    if twin.manifests.is_empty() {
        let (image, machine) = (image.name.clone(), machine::OWN);
        return Err(ContainerdError::OtherMachine { image, machine });
    }
    let ctr = Ctr(settings);
    let failed = |fault: ProgramFault| failed(settings, image, &fault);
    let known = ctr.images().map_err(failed)?;
    let by_digest = by_digest(image);
    let is_there = is_unpacked(&known, image, &by_digest);
    if !is_there {
        import(settings, (layout, work), twin, &known)?;
    }
    let names = names(image);
    let moved = names.iter().filter(|name| **name != by_digest);
    let moved: Vec<&String> = moved
        .filter(|name| !is_unpacked(&known, image, name))
        .collect();
    for name in &moved {
        ctr.tag(&by_digest, name).map_err(failed)?;
    }
    Ok(!is_there || !moved.is_empty())
}

fn import(
    settings: &Settings,
    (layout, work): (&Path, &Path),
    Twin { image, manifests }: &Twin<'_>,
    known: &[ContainerdImage],
) -> Result<(), ContainerdError> {
    let mut all = manifests.iter().flat_map(|layers| &layers.layers);
    let is_here = |digest| blob(layout, digest).exists();
    if all.any(|layer| !is_here(&layer.carried.digest) && !is_here(&layer.diff_id)) {
        let image = image.name.clone();
        return Err(ContainerdError::Lacking { image });
    }
    let unusable = |error: io::Error| ContainerdError::Archive {
        image: image.name.clone(),
        problem: error.to_string(),
    };
    let file = tempfile::tempfile_in(work).map_err(unusable)?;
    let file = archive::write(layout, image, manifests, file).map_err(unusable)?;
    let ctr = Ctr(settings);
    let by_digest = by_digest(image);
    let imported = ctr.import(&path_of(&file));
    let result = match imported.and_then(|()| ctr.images()) {
        Err(fault) => Err(failed(settings, image, &fault)),
        Ok(known) if is_unpacked(&known, image, &by_digest) => Ok(()),
        Ok(_) => Err(ContainerdError::NotUnpacked {
            image: image.name.clone(),
        }),
    };
    let mut temporary: Vec<String> = manifests.iter().map(|layers| twin_name(layers)).collect();
    if result.is_err() && known.iter().all(|one| one.name != by_digest) {
        // A name without its layers would be taken for the image.
        temporary.push(by_digest);
    }
    // What is left of it takes space until the next import, and nothing refers to it.
    let temporary: Vec<&str> = temporary.iter().map(String::as_str).collect();
    let _ = ctr.remove(&temporary);
    result
}

/// By which path another process reads a file without a name.
fn path_of(file: &File) -> PathBuf {
    let (process, file) = (std::process::id(), file.as_raw_fd());
    format!("/proc/{process}/fd/{file}").into()
}

fn failed(settings: &Settings, image: &Image, fault: &ProgramFault) -> ContainerdError {
    ContainerdError::Ctr {
        image: image.name.clone(),
        address: settings.address.clone(),
        namespace: settings.namespace.clone(),
        problem: fault.sentence(),
    }
}
