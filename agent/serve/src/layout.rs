//! An OCI image layout on disk, read into the repositories that it holds.
//!
//! What comes in: a folder with `oci-layout`, `index.json` and `blobs/sha256/…`. What goes out: which tags,
//! manifests and blobs each repository has: those that its entries of `index.json` reach, and no other blob of
//! the folder. Every manifest is compared with its digest while it is read; blobs are when they are served.
//! No link is followed. What one entry lacks is named and costs that entry alone.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use outhaul_kit::bounds::MAX_IMAGE_MANIFEST_BYTES;
use outhaul_kit::carried::{CHART_ARCHIVE, CHART_CONFIG, CONTAINERD_NAME};
use outhaul_kit::media::Media;
use outhaul_kit::text::chain;
use serde::Deserialize;
use serde_json::Value;

use crate::digest::Digest;
use crate::name::{ImageName, is_tag};

/// Largest `index.json`, and largest manifest: the size that registries accept.
/// Most manifests of one layout.
const MAX_MANIFESTS: usize = 20_000;
/// An index of an index, and so on.
const MAX_DEPTH: usize = 8;
const NAME: &str = "org.opencontainers.image.ref.name";

/// A descriptor, as far as it is needed.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    #[serde(default)]
    media_type: Option<String>,
    digest: String,
    size: u64,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

/// A manifest or an index, as far as it is needed.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Document {
    media_type: Option<String>,
    artifact_type: Option<String>,
    manifests: Vec<Descriptor>,
    config: Option<Descriptor>,
    layers: Vec<Descriptor>,
    subject: Option<Descriptor>,
    annotations: Option<BTreeMap<String, Value>>,
}

/// Where bytes lie, and how many they are.
#[derive(Debug, Clone)]
pub struct Stored {
    /// The layout, or another folder.
    pub layout: Arc<Media>,
    /// Their path in it.
    pub path: PathBuf,
    /// Their number, as whoever refers to them says.
    pub size: u64,
}

/// The parts of a manifest of a chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChartParts {
    /// What the chart is called, as JSON.
    pub config: Digest,
    /// Its archive.
    pub archive: Digest,
}

/// A manifest of a repository.
#[derive(Debug, Clone)]
pub struct Manifest {
    /// Where it lies.
    pub stored: Stored,
    /// Its type.
    pub media_type: String,
    /// What it refers to.
    pub subject: Option<Digest>,
    /// Its artifact type, or else that of its config.
    pub artifact_type: Option<String>,
    /// Its annotations.
    pub annotations: Option<BTreeMap<String, Value>>,
    /// The parts of a chart.
    pub chart: Option<ChartParts>,
    /// Bytes of a chart's archive.
    pub archive_size: u64,
}

/// One repository.
#[derive(Debug, Clone, Default)]
pub struct ImageRepository {
    /// Tags, sorted as ASCII.
    pub tags: BTreeMap<String, Digest>,
    /// Manifests.
    pub manifests: BTreeMap<Digest, Manifest>,
    /// Layers and configs.
    pub blobs: BTreeMap<Digest, Stored>,
}

/// All repositories, by their original name.
pub type Repositories = BTreeMap<ImageName, ImageRepository>;

/// The folder of a layout with a file for each layer of which only the uncompressed archive is there: under the layer's digest, in hexadecimal.
pub const TWINS: &str = "twins";

/// Where a blob lies in its layout.
pub fn blob_path(digest: &Digest) -> PathBuf {
    Path::new("blobs/sha256").join(digest.hex())
}

/// Adds what `layout` holds to `repositories`. Entries that have no whole name of their own
/// belong to `default`. Returns what cannot be served, and why.
pub fn load(
    layout: Media,
    default: Option<&ImageName>,
    repositories: &mut Repositories,
) -> Vec<String> {
    let layout = Arc::new(layout);
    let at = layout.path().display().to_string();
    let problem = |problem: String| vec![format!("`{at}`: {problem}")];
    let entries = match entries(&layout) {
        Ok(entries) => entries,
        Err(found) => return problem(found),
    };
    let mut load = Load {
        layout,
        read: BTreeMap::new(),
    };
    let mut problems = Vec::new();
    let mut nameless = Vec::new();
    let mut named = BTreeSet::new();
    for entry in entries {
        let found = load.named(&entry, default).and_then(|name| match name {
            Some((image, tag)) => {
                load.add(&entry, repositories.entry(image.clone()).or_default(), tag)?;
                named.insert(image);
                Ok(())
            }
            None => {
                nameless.push(entry.clone());
                Ok(())
            }
        });
        if let Err(found) = found {
            problems.extend(problem(format!("{}: {found}", shown(&entry))));
        }
    }
    problems.extend(load.attach(nameless, &named, repositories));
    problems
}

fn shown(entry: &Descriptor) -> String {
    let name = entry.annotations.get(NAME);
    name.unwrap_or(&entry.digest)
        .chars()
        .filter(|c| !c.is_control())
        .take(300)
        .collect()
}

fn entries(layout: &Media) -> Result<Vec<Descriptor>, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Marker {
        image_layout_version: String,
    }
    let read = |name: &str, max: u64| {
        let found = layout.read(Path::new(name), max);
        let bytes = found.map_err(|error| chain(&error))?;
        bytes.ok_or_else(|| format!("`{name}` is missing"))
    };
    let marker: Marker = serde_json::from_slice(&read("oci-layout", 4096)?)
        .map_err(|error| format!("`oci-layout`: {error}"))?;
    if marker.image_layout_version != "1.0.0" {
        return Err("`oci-layout` is of another version than 1.0.0".to_owned());
    }
    let index: Document = serde_json::from_slice(&read("index.json", MAX_IMAGE_MANIFEST_BYTES)?)
        .map_err(|error| format!("`index.json`: {error}"))?;
    Ok(index.manifests)
}

/// Reads the manifests of one layout, each once.
struct Load {
    layout: Arc<Media>,
    read: BTreeMap<Digest, Arc<Document>>,
}

impl Load {
    /// The image and the tag that an entry of `index.json` is.
    fn named(
        &self,
        entry: &Descriptor,
        default: Option<&ImageName>,
    ) -> Result<Option<(ImageName, Option<String>)>, String> {
        let whole = [CONTAINERD_NAME, NAME]
            .into_iter()
            .filter_map(|key| entry.annotations.get(key))
            .find_map(|name| ImageName::reference(name));
        let tag = entry.annotations.get(NAME).filter(|tag| is_tag(tag));
        match (whole, default, tag) {
            (Some(found), ..) => Ok(Some(found)),
            (None, Some(image), tag) => Ok(Some((image.clone(), tag.cloned()))),
            (None, None, Some(tag)) => Err(format!(
                "tag `{tag}` has no image name; `{NAME}` must be a whole name, such as \
                 docker.io/library/nginx:{tag}"
            )),
            (None, None, None) if entry.annotations.contains_key(NAME) => {
                Err(format!("`{NAME}` is neither an image's name nor a tag"))
            }
            (None, None, None) => Ok(None),
        }
    }

    /// Adds an entry with all that it reaches.
    fn add(
        &mut self,
        entry: &Descriptor,
        repository: &mut ImageRepository,
        tag: Option<String>,
    ) -> Result<(), String> {
        // Whole or not at all: what fails half-way must not have left a part.
        let mut added = ImageRepository::default();
        let digest = self
            .manifest(entry, &mut added, 0)?
            .ok_or("its manifest is missing")?;
        if let Some(tag) = tag {
            if let Some(other) = repository.tags.get(&tag).filter(|other| **other != digest) {
                return Err(format!("tag `{tag}` is also {other}"));
            }
            repository.tags.insert(tag, digest);
        }
        repository.manifests.extend(added.manifests);
        repository.blobs.extend(added.blobs);
        Ok(())
    }

    /// A manifest and all below it; `None` when it is not there: an index may name platforms that were left
    /// out.
    fn manifest(
        &mut self,
        descriptor: &Descriptor,
        to: &mut ImageRepository,
        depth: usize,
    ) -> Result<Option<Digest>, String> {
        let digest = parsed(descriptor)?;
        if to.manifests.contains_key(&digest) {
            return Ok(Some(digest));
        }
        let Some(document) = self.document(&digest, descriptor)? else {
            return Ok(None);
        };
        if depth > MAX_DEPTH {
            return Err(format!("indexes are nested deeper than {MAX_DEPTH}"));
        }
        let media_type = descriptor
            .media_type
            .clone()
            .or_else(|| document.media_type.clone())
            .filter(|media_type| is_media_type(media_type))
            .ok_or_else(|| format!("{digest} has no media type"))?;
        let config_type = document.config.as_ref().and_then(|c| c.media_type.clone());
        let own_type = document.artifact_type.clone().filter(|own| !own.is_empty());
        let archive = document.layers.iter().find(|one| is_a(one, CHART_ARCHIVE));
        let config = document
            .config
            .as_ref()
            .filter(|one| is_a(one, CHART_CONFIG));
        let chart = config.zip(archive).and_then(|(config, archive)| {
            Some(ChartParts {
                config: parsed(config).ok()?,
                archive: parsed(archive).ok()?,
            })
        });
        let manifest = Manifest {
            chart,
            archive_size: archive.map_or(0, |archive| archive.size),
            stored: self.stored(&digest, descriptor),
            media_type,
            subject: document.subject.as_ref().map(parsed).transpose()?,
            artifact_type: own_type.or(config_type),
            annotations: document.annotations.clone(),
        };
        to.manifests.insert(digest, manifest);
        for child in &document.manifests {
            self.manifest(child, to, depth + 1)?;
        }
        for blob in document.config.iter().chain(&document.layers) {
            // One that is by another algorithm is not served.
            if let Ok(digest) = Digest::parse(&blob.digest) {
                to.blobs
                    .entry(digest)
                    .or_insert_with(|| self.stored(&digest, blob));
            }
        }
        Ok(Some(digest))
    }

    /// What is not named belongs to the repository that holds its subject.
    fn attach(
        &mut self,
        mut nameless: Vec<Descriptor>,
        named: &BTreeSet<ImageName>,
        repositories: &mut Repositories,
    ) -> Vec<String> {
        let mut problems = Vec::new();
        // A signature of a signature finds its subject one round later.
        loop {
            let before = nameless.len();
            let mut left = Vec::new();
            for entry in nameless {
                let subject = parsed(&entry)
                    .and_then(|digest| self.document(&digest, &entry))
                    .map(|found| found.and_then(|found| found.subject.as_ref().map(parsed)));
                let subject = match subject {
                    Ok(Some(Ok(subject))) => Some(subject),
                    Ok(Some(Err(problem))) | Err(problem) => {
                        problems.push(format!("{}: {problem}", shown(&entry)));
                        continue;
                    }
                    Ok(None) => None,
                };
                let mut is_attached = false;
                for image in named {
                    let Some(repository) = repositories.get_mut(image) else {
                        continue;
                    };
                    if subject.is_some_and(|subject| repository.manifests.contains_key(&subject)) {
                        is_attached = true;
                        if let Err(problem) = self.add(&entry, repository, None) {
                            problems.push(format!("{}: {problem}", shown(&entry)));
                        }
                    }
                }
                if !is_attached {
                    left.push(entry);
                }
            }
            nameless = left;
            if nameless.len() == before || nameless.is_empty() {
                break;
            }
        }
        problems.extend(nameless.iter().map(|entry| {
            format!(
                "{}: it has no name, and refers to no manifest that has one; it is not served",
                shown(entry)
            )
        }));
        problems
    }

    /// Reads a manifest, which must match its digest.
    fn document(
        &mut self,
        digest: &Digest,
        descriptor: &Descriptor,
    ) -> Result<Option<Arc<Document>>, String> {
        if let Some(known) = self.read.get(digest) {
            return Ok(Some(Arc::clone(known)));
        }
        if self.read.len() >= MAX_MANIFESTS {
            return Err(format!("more than {MAX_MANIFESTS} manifests"));
        }
        if descriptor.size > MAX_IMAGE_MANIFEST_BYTES {
            return Err(format!(
                "{digest} is larger than {MAX_IMAGE_MANIFEST_BYTES} bytes"
            ));
        }
        let found = self
            .layout
            .read(&blob_path(digest), MAX_IMAGE_MANIFEST_BYTES);
        let Some(bytes) = found.map_err(|error| chain(&error))? else {
            return Ok(None);
        };
        if Digest::of(&bytes) != *digest || bytes.len() as u64 != descriptor.size {
            return Err(format!("the stored bytes of {digest} do not match it"));
        }
        let document: Document =
            serde_json::from_slice(&bytes).map_err(|error| format!("{digest}: {error}"))?;
        let document = Arc::new(document);
        self.read.insert(*digest, Arc::clone(&document));
        Ok(Some(document))
    }

    fn stored(&self, digest: &Digest, descriptor: &Descriptor) -> Stored {
        Stored {
            layout: Arc::clone(&self.layout),
            path: blob_path(digest),
            size: descriptor.size,
        }
    }
}

fn is_a(descriptor: &Descriptor, media_type: &str) -> bool {
    descriptor.media_type.as_deref() == Some(media_type)
}

fn parsed(descriptor: &Descriptor) -> Result<Digest, String> {
    let shown: String = descriptor.digest.chars().take(100).collect();
    Digest::parse(&descriptor.digest).map_err(|error| format!("`{shown}`: {error}"))
}

/// Whether a media type can be the value of a header, without parameters.
fn is_media_type(text: &str) -> bool {
    let good = |b: u8| b.is_ascii_alphanumeric() || b"!#$&-^_.+/".contains(&b);
    text.len() <= 255 && text.contains('/') && text.bytes().all(good)
}
