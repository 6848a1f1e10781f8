//! One image, whole: its index, the manifests of its platforms, their configs and layers.
//!
//! What comes in: a [`ImageReference`], and the digest that it was before where it must not move. What goes out: the
//! list of its contents, each in the cache. Several layers come at once. An index is kept as it is; all of
//! its platforms come with it, or those that were chosen.

use outhaul_kit::bounds::MAX_IMAGE_INDEX_DEPTH;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::PoisonError;

use outhaul_bundle::Digest;
use outhaul_bundle::index::Content;
use outhaul_kit::bounds::MAX_IMAGE_MANIFEST_BYTES;
use outhaul_kit::console::progress::{Meter, Unit};
use serde::Deserialize;

use crate::cache::ImageCache;
use crate::client::RegistryClient;
use crate::error::RegistryError;
use crate::manifest::Manifest;
use crate::notices::asked_again;
use crate::platforms::{Descriptor, Platform, Platforms, quoted};
use crate::reference::ImageReference;

/// Contents that come at once.
const AT_ONCE: usize = 4;
/// Times that a connection may break before a blob is given up, when it brought something each time.
pub(crate) const ATTEMPTS: usize = 5;
/// Most contents of one image.
const MAX_CONTENTS: usize = 20_000;
/// Configs that say for which platform an image is.
const IMAGE_CONFIGS: [&str; 2] = [
    "application/vnd.oci.image.config.v1+json",
    "application/vnd.docker.container.image.v1+json",
];

/// An image that is in the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pulled {
    /// Media type of its manifest or index.
    pub media_type: String,
    /// Its manifest or index.
    pub manifest: Content,
    /// All else, sorted, each once.
    pub blobs: Vec<Content>,
    /// Chosen platforms that it does not have, though it has others of them.
    pub lacks: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    media_type: Option<String>,
    #[serde(default)]
    manifests: Vec<Descriptor>,
    config: Option<Descriptor>,
    #[serde(default)]
    layers: Vec<Descriptor>,
}

/// Finds what belongs to an image, as [`pull`] does, and brings only its manifests.
///
/// # Errors
/// [`RegistryError`]
pub fn look(
    client: &RegistryClient,
    cache: &ImageCache,
    image: &ImageReference,
    known: Option<Digest>,
    platforms: &Platforms,
) -> Result<Pulled, RegistryError> {
    find(client, cache, image, known, platforms).map(|(pulled, _)| pulled)
}

/// Brings an image into the cache; `known` is the digest that its tag was before.
///
/// # Errors
/// [`RegistryError`]; what came stays in the cache.
pub fn pull(
    client: &RegistryClient,
    cache: &ImageCache,
    image: &ImageReference,
    known: Option<Digest>,
    platforms: &Platforms,
) -> Result<Pulled, RegistryError> {
    let (pulled, pull) = find(client, cache, image, known, platforms)?;
    pull.bring()?;
    Ok(pulled)
}

/// The same for what is small: nothing is brought of what has more than `max` bytes together.
///
/// # Errors
/// As [`pull`].
pub fn pull_small(
    client: &RegistryClient,
    cache: &ImageCache,
    image: &ImageReference,
    known: Option<Digest>,
    max: u64,
) -> Result<Pulled, RegistryError> {
    let all = Platforms::default();
    let (pulled, pull) = find(client, cache, image, known, &all)?;
    let all: u64 = pull
        .contents
        .values()
        .fold(0, |all, size| all.saturating_add(*size));
    if all > max {
        return Err(pull.wrong(pulled.manifest.digest, format!("has more than {max} bytes")));
    }
    pull.bring()?;
    Ok(pulled)
}

fn find<'a>(
    client: &'a RegistryClient,
    cache: &'a ImageCache,
    image: &'a ImageReference,
    known: Option<Digest>,
    platforms: &'a Platforms,
) -> Result<(Pulled, Pull<'a>), RegistryError> {
    let mut pull = Pull {
        client,
        cache,
        image,
        host: image.host().to_owned(),
        platforms,
        lacks: Vec::new(),
        contents: BTreeMap::new(),
        manifests: BTreeSet::new(),
    };
    let pinned = image.digest.or(known);
    let root = match (pinned, &image.tag) {
        (Some(digest), _) => pull.manifest(&digest)?,
        (None, tag) => {
            let tag = tag.as_deref().unwrap_or("latest");
            let found = client.manifest(image, tag)?;
            cache.keep(&found.digest, &found.bytes)?;
            found
        }
    };
    let media_type = pull.add(&root, 0)?;
    let manifest = Content {
        digest: root.digest,
        size: root.bytes.len() as u64,
    };
    let others = pull
        .contents
        .iter()
        .filter(|(digest, _)| **digest != root.digest);
    let content = |(digest, size): (&Digest, &u64)| Content {
        digest: *digest,
        size: *size,
    };
    let pulled = Pulled {
        media_type,
        manifest,
        blobs: others.map(content).collect(),
        lacks: std::mem::take(&mut pull.lacks),
    };
    Ok((pulled, pull))
}

struct Pull<'a> {
    client: &'a RegistryClient,
    cache: &'a ImageCache,
    image: &'a ImageReference,
    /// Which host the manifest is from that is read now; a child may be from another one than its index.
    host: String,
    platforms: &'a Platforms,
    lacks: Vec<String>,
    contents: BTreeMap<Digest, u64>,
    manifests: BTreeSet<Digest>,
}

impl Pull<'_> {
    fn wrong(&self, what: impl ToString, problem: impl Into<String>) -> RegistryError {
        RegistryError::Wrong {
            host: self.host.clone(),
            what: format!("`{}` of `{}`", what.to_string(), self.image),
            problem: problem.into(),
        }
    }

    /// A manifest by its digest, out of the cache where it is there. Its media type is that in its own text.
    fn manifest(&self, digest: &Digest) -> Result<Manifest, RegistryError> {
        if let Some(bytes) = self.cache.read(digest, MAX_IMAGE_MANIFEST_BYTES) {
            return Ok(Manifest {
                media_type: String::new(),
                bytes,
                digest: *digest,
                host: self.host.clone(),
            });
        }
        let found = self.client.manifest(self.image, &digest.to_string())?;
        self.cache.keep(digest, &found.bytes)?;
        Ok(found)
    }

    /// Adds a manifest and all that it names; its media type.
    fn add(&mut self, manifest: &Manifest, depth: usize) -> Result<String, RegistryError> {
        self.host.clone_from(&manifest.host);
        let digest = manifest.digest;
        let size = manifest.bytes.len() as u64;
        self.contents.insert(digest, size);
        self.manifests.insert(digest);
        let document: Document = serde_json::from_slice(&manifest.bytes)
            .map_err(|error| self.wrong(digest, format!("is not a manifest: {error}")))?;
        if depth > MAX_IMAGE_INDEX_DEPTH {
            return Err(self.wrong(digest, "is nested too deep"));
        }
        let media_type = document
            .media_type
            .or_else(|| Some(manifest.media_type.clone()).filter(|text| !text.is_empty()))
            .unwrap_or_else(|| {
                let kind = if document.config.is_some() {
                    "manifest"
                } else {
                    "index"
                };
                format!("application/vnd.oci.image.{kind}.v1+json")
            });
        if document.config.is_none() && document.manifests.is_empty() {
            return Err(self.wrong(
                digest,
                format!("is of type `{media_type}`, which names neither platforms nor a config"),
            ));
        }
        if let Some(config) = document.config.as_ref().filter(|_| depth == 0) {
            self.is_for_chosen(&digest, config)?;
        }
        for child in self.chosen(&digest, &document.manifests)? {
            let (child, size) = self.parsed(child)?;
            if self.manifests.contains(&child) {
                continue;
            }
            if size > MAX_IMAGE_MANIFEST_BYTES {
                return Err(self.wrong(
                    child,
                    format!("is larger than {MAX_IMAGE_MANIFEST_BYTES} bytes"),
                ));
            }
            let found = self.manifest(&child)?;
            if found.bytes.len() as u64 != size {
                self.host.clone_from(&found.host);
                return Err(self.wrong(child, format!("does not have {size} bytes")));
            }
            self.add(&found, depth + 1)?;
            self.host.clone_from(&manifest.host);
        }
        for blob in document.config.iter().chain(&document.layers) {
            let (digest, size) = self.parsed(blob)?;
            if self
                .contents
                .insert(digest, size)
                .is_some_and(|other| other != size)
            {
                return Err(self.wrong(digest, "has two sizes"));
            }
        }
        if self.contents.len() > MAX_CONTENTS {
            return Err(self.wrong(digest, format!("has more than {MAX_CONTENTS} parts")));
        }
        Ok(media_type)
    }

    /// What of an index is wanted.
    fn chosen<'d>(
        &mut self,
        index: &Digest,
        children: &'d [Descriptor],
    ) -> Result<Vec<&'d Descriptor>, RegistryError> {
        let chosen = self.platforms.of_index(children);
        let is_named =
            |child: &&&Descriptor| child.platform.as_ref().is_some_and(Platform::is_named);
        let has_none = !chosen.kept.iter().any(|child| is_named(&child));
        if !chosen.has.is_empty() && has_none {
            let has = quoted(&chosen.has);
            let problem = format!("is for none of {}; it has {has}", self.platforms);
            return Err(self.wrong(index, problem));
        }
        self.lacks.extend(chosen.lacks);
        Ok(chosen.kept)
    }

    /// That an image without an index is for a chosen platform, as its config says; what is no image is for all.
    fn is_for_chosen(&self, manifest: &Digest, config: &Descriptor) -> Result<(), RegistryError> {
        if self.platforms.is_all() || !IMAGE_CONFIGS.contains(&config.media_type.as_str()) {
            return Ok(());
        }
        let (digest, size) = self.parsed(config)?;
        if size > MAX_IMAGE_MANIFEST_BYTES {
            return Err(self.wrong(
                digest,
                format!("is larger than {MAX_IMAGE_MANIFEST_BYTES} bytes"),
            ));
        }
        let bytes = match self.cache.read(&digest, MAX_IMAGE_MANIFEST_BYTES) {
            Some(bytes) => bytes,
            None => {
                self.blob(Content { digest, size }, &Meter::new("", Unit::Bytes, None))?;
                let read = self.cache.read(&digest, MAX_IMAGE_MANIFEST_BYTES);
                read.ok_or_else(|| self.wrong(digest, "cannot be read again"))?
            }
        };
        let platform: Platform = serde_json::from_slice(&bytes)
            .map_err(|error| self.wrong(digest, format!("is not a config: {error}")))?;
        match !platform.is_named() || self.platforms.has(&platform) {
            true => Ok(()),
            false => Err(self.wrong(
                manifest,
                format!("is for `{platform}`, and not for {}", self.platforms),
            )),
        }
    }

    fn parsed(&self, descriptor: &Descriptor) -> Result<(Digest, u64), RegistryError> {
        let shown: String = descriptor.digest.chars().take(100).collect();
        let digest = descriptor.digest.parse::<Digest>();
        let digest = digest.map_err(|_| self.wrong(shown, "is not a digest by SHA-256"))?;
        Ok((digest, descriptor.size))
    }

    /// Brings what is not there yet, several at once.
    fn bring(&self) -> Result<(), RegistryError> {
        let all = self.contents.iter();
        let missing: Vec<Content> = all
            .map(|(digest, size)| Content {
                digest: *digest,
                size: *size,
            })
            .filter(|content| !self.cache.has(content))
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        let bytes = missing.iter().map(|content| content.size).sum();
        let meter = Meter::new(&format!("pulling {}", self.image), Unit::Bytes, Some(bytes));
        let left = Mutex::new(missing.into_iter());
        let failed = Mutex::new(None);
        std::thread::scope(|scope| {
            for _ in 0..AT_ONCE {
                scope.spawn(|| {
                    loop {
                        let next = left.lock().unwrap_or_else(PoisonError::into_inner).next();
                        let mut first = failed.lock().unwrap_or_else(PoisonError::into_inner);
                        let (Some(content), None) = (next, &*first) else {
                            return;
                        };
                        drop(first);
                        if let Err(error) = self.blob(content, &meter) {
                            first = failed.lock().unwrap_or_else(PoisonError::into_inner);
                            first.get_or_insert(error);
                            return;
                        }
                    }
                });
            }
        });
        match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// One blob, of the first place that gives it out undamaged: the mirrors, then the registry.
    fn blob(&self, content: Content, meter: &Meter) -> Result<(), RegistryError> {
        self.client
            .at_each(self.image, |place| self.blob_of(place, content, meter))
    }

    fn blob_of(
        &self,
        place: &ImageReference,
        content: Content,
        meter: &Meter,
    ) -> Result<(), RegistryError> {
        let brought = match self.part_of(place, content, meter)? {
            // What was there before is not of this place, or not of this run.
            Err((_, true)) => self.part_of(place, content, meter)?,
            brought => brought,
        };
        brought.map_err(|(problem, _)| RegistryError::Wrong {
            host: place.host().to_owned(),
            what: format!("`{}` of `{}`", content.digest, self.image),
            problem,
        })
    }

    /// One blob of one place, from where it broke off; else what is wrong with the bytes, and whether some were there before, which may be
    /// to blame. Wrong bytes do not stay.
    fn part_of(
        &self,
        place: &ImageReference,
        content: Content,
        meter: &Meter,
    ) -> Result<Result<(), (String, bool)>, RegistryError> {
        let digest = content.digest;
        let mut part = self.cache.part(content)?;
        let mut has_older = part.there > 0;
        for attempt in 1..=ATTEMPTS {
            if part.there >= content.size {
                break;
            }
            let before = part.there;
            let found = self.client.blob_at(place, &digest, part.there)?;
            if found.begins != part.there {
                part.restart()?;
                has_older = false;
            }
            let mut body = meter.counts(found.body);
            match part.fill(&mut body)? {
                None => break,
                Some(error) if attempt == ATTEMPTS || part.there <= before => {
                    return Err(RegistryError::Stopped {
                        host: found.host,
                        what: format!("the {} of `{digest}`, of `{}`,", content.size, self.image),
                        came: part.there,
                        problem: error.to_string(),
                    });
                }
                Some(error) => asked_again(
                    &found.host,
                    &error.to_string(),
                    part.there,
                    &format!("{} of `{digest}`", content.size),
                ),
            }
        }
        let finished = part.finish(&self.cache.path(&digest))?;
        Ok(finished.map_err(|problem| (problem, has_older)))
    }
}

#[cfg(test)]
mod tests;
