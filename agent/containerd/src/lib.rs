//! Images of which layers came as twins, brought into the containerd of this machine.
//!
//! What comes in: a verified index, and the image layout of its generation, with uncompressed archives in the places of layers. What goes out: the
//! images in containerd, by their own names and digests and unpacked, so that no layer is pulled; or an error, and no name in containerd that
//! was not there before. It opens no connection (`ctr` does, to a local socket), decides nothing about a bundle, and changes no image that
//! has all of its layers.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

use outhaul_bundle::Index;
use outhaul_bundle::index::served::Image;
use outhaul_bundle::layers::{self, ImageLayers};
use outhaul_kit::durable;
use outhaul_kit::heartbeat::Heartbeat;
use outhaul_kit::program::ProgramFault;

mod archive;
mod ctr;
pub mod settings;

use archive::{blob, names, twin_name};
use ctr::{Ctr, Known};
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
}

impl ContainerdError {
    /// What to do next.
    pub fn help(&self) -> String {
        match self {
            Self::Ctr { .. } => "see that containerd runs and that `[containerd]` in agent.toml names its socket".to_owned(),
            Self::Archive { .. } => {
                "see that the disk has room for the image and can be read".to_owned()
            }
            Self::NotUnpacked { .. } => {
                "`ctr images check` and containerd's log show why; the next bundle, copied without `--twins`, needs no import".to_owned()
            }
            Self::Lacking { .. } => {
                "import the next bundle, copied without `--twins`".to_owned()
            }
        }
    }
}

/// An image of which some layers are not here.
struct Twin<'a> {
    image: &'a Image,
    manifests: Vec<&'a ImageLayers>,
}

/// Brings the images of `index` of which layers came as twins into containerd; `layout` is the image layout of the generation, `work` a folder for the
/// time of the import. Returns their names. Images that containerd has, unpacked, are left as they are.
///
/// # Errors
/// [`ContainerdError`]
pub fn bring(
    settings: &Settings,
    index: &Index,
    (layout, work): (&Path, &Path),
    heartbeat: &Heartbeat,
) -> Result<Vec<String>, ContainerdError> {
    let images = images(index, layout)?;
    let twins = twins(index, layout, &images);
    let ctr = Ctr(settings);
    let mut brought = Vec::new();
    let wanted: BTreeSet<String> = twins.iter().flat_map(|twin| names(twin.image)).collect();
    for twin in twins {
        heartbeat.beat();
        let known = ctr
            .images()
            .map_err(|fault| failed(settings, twin.image, &fault))?;
        if !has(&known, twin.image) {
            one(settings, layout, work, &twin, &known)?;
            brought.push(twin.image.name.clone());
        }
    }
    heartbeat.beat();
    // An image that is not pinned is only removed when the kubelet needs room, as any other; `apply` brings it again.
    for name in &wanted {
        let _ = ctr.pin(name, true);
    }
    for name in ctr.pinned().unwrap_or_default() {
        if !wanted.contains(&name) {
            let _ = ctr.pin(&name, false);
        }
    }
    Ok(brought)
}

fn images(index: &Index, layout: &Path) -> Result<Vec<ImageLayers>, ContainerdError> {
    let read = layers::images(index, &mut |content| {
        let path = blob(layout, &content.digest);
        match durable::read_if_present(&path, content.size) {
            Ok(bytes) => Ok(bytes),
            Err(error) => Err(error.source),
        }
    });
    read.map_err(|error| ContainerdError::Archive {
        image: "of this bundle".to_owned(),
        problem: error.to_string(),
    })
}

/// The images of which a layer is not here, with those of their manifests that this is of.
fn twins<'a>(index: &'a Index, layout: &Path, images: &'a [ImageLayers]) -> Vec<Twin<'a>> {
    let is_lacking = |layers: &&ImageLayers| {
        let mut all = layers.layers.iter();
        all.any(|layer| !blob(layout, &layer.carried.digest).exists())
    };
    let served = index.served.images.iter();
    served
        .filter_map(|image| {
            let own = |layers: &&ImageLayers| {
                layers.manifest == image.manifest || image.blobs.contains(&layers.manifest)
            };
            let manifests: Vec<_> = images.iter().filter(own).filter(is_lacking).collect();
            let manifests: Vec<_> = manifests
                .into_iter()
                .filter(|layers| {
                    layers.manifest == image.manifest || is_for_this_machine(layout, layers)
                })
                .collect();
            (!manifests.is_empty()).then_some(Twin { image, manifests })
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
    let own = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    config["architecture"] == own && config["os"] == "linux"
}

fn has(known: &[Known], image: &Image) -> bool {
    let digest = image.manifest.digest.to_string();
    names(image).iter().all(|name| {
        let mut all = known.iter();
        all.any(|one| one.name == *name && one.digest == digest && one.unpacked)
    })
}

fn one(
    settings: &Settings,
    layout: &Path,
    work: &Path,
    twin: &Twin<'_>,
    known: &[Known],
) -> Result<(), ContainerdError> {
    let Twin { image, manifests } = twin;
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
    let imported = ctr.import(&path_of(&file));
    let mut temporary: Vec<String> = manifests.iter().map(|layers| twin_name(layers)).collect();
    let result = match imported {
        Err(fault) => Err(failed(settings, image, &fault)),
        Ok(()) => match ctr.images() {
            Err(fault) => Err(failed(settings, image, &fault)),
            Ok(known) if has(&known, image) => Ok(()),
            Ok(_) => Err(ContainerdError::NotUnpacked {
                image: image.name.clone(),
            }),
        },
    };
    if result.is_err() {
        // A name without its layers would be taken for the image.
        let is_new = |name: &String| known.iter().all(|one| one.name != *name);
        temporary.extend(names(image).into_iter().filter(is_new));
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
