//! What the configs of the served images state of their layers: which uncompressed archive (`diff_id`) each compressed layer has.
//!
//! What comes in: a signed index, and whoever reads the contents that it lists. What goes out: the digests of the uncompressed
//! layers, by the digests of the layers as registries have them. A config is trusted as far as the index that lists it; nothing
//! here is decompressed, and a layer itself is never read.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use serde::Deserialize;

use crate::digest::Digest;
use crate::index::{Content, Index};

/// Largest manifest or config that is read, in bytes.
pub const MAX_DOCUMENT_BYTES: u64 = 4 << 20;
/// How deep indexes of platforms may refer to each other.
const MAX_DEPTH: usize = 4;

/// The layers of one image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageLayers {
    /// The manifest that lists them.
    pub manifest: Content,
    /// Its config.
    pub config: Content,
    /// From the lowest on.
    pub layers: Vec<Layer>,
}

/// One layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layer {
    /// As the manifest lists it.
    pub carried: Content,
    /// Its media type by the manifest.
    pub media_type: String,
    /// The digest of the uncompressed archive, by the config.
    pub diff_id: Digest,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Document {
    manifests: Vec<Descriptor>,
    config: Option<Descriptor>,
    layers: Vec<Descriptor>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Descriptor {
    media_type: String,
    digest: String,
    size: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Config {
    rootfs: RootFs,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RootFs {
    diff_ids: Vec<String>,
}

impl Descriptor {
    fn content(&self) -> Option<Content> {
        let digest = self.digest.strip_prefix("sha256:")?;
        let digest = Digest::from_hex(digest).ok()?;
        let size = self.size;
        Some(Content { digest, size })
    }
}

/// Reads a content that an index lists, whole; `None` when it is not here.
pub type ReadContent<'a> = &'a mut dyn FnMut(&Content) -> io::Result<Option<Vec<u8>>>;

/// The layers of all container images that `index` serves. Other artifacts, and images of which a config does not state one archive for
/// each layer, have none.
///
/// # Errors
/// When `read` fails.
pub fn images(index: &Index, read: ReadContent<'_>) -> io::Result<Vec<ImageLayers>> {
    listed(index, read).map(|listed| listed.images)
}

/// What manifests list.
#[derive(Default)]
struct ListedLayers {
    images: Vec<ImageLayers>,
    /// What is or may be something else than a layer with a known archive.
    others: BTreeSet<Digest>,
}

fn listed(index: &Index, read: ReadContent<'_>) -> io::Result<ListedLayers> {
    let mut found = ListedLayers::default();
    let mut seen = BTreeSet::new();
    for image in &index.served.images {
        let listed: BTreeSet<Content> = image.blobs.iter().copied().collect();
        let mut waiting = vec![(image.manifest, 0)];
        while let Some((manifest, depth)) = waiting.pop() {
            if seen.contains(&manifest.digest) {
                continue;
            }
            found.others.insert(manifest.digest);
            let document = match depth <= MAX_DEPTH {
                true => parsed::<Document>(&manifest, read)?,
                false => None,
            };
            let Some(document) = document else {
                // Whatever it lists may be needed as it is.
                found.others.extend(listed.iter().map(|one| one.digest));
                continue;
            };
            seen.insert(manifest.digest);
            let children = document.manifests.iter().filter_map(Descriptor::content);
            let children = children.filter(|child| listed.contains(child));
            waiting.extend(children.map(|child| (child, depth + 1)));
            let config = document.config.as_ref().and_then(Descriptor::content);
            found.others.extend(config.map(|config| config.digest));
            let config = config.filter(|config| listed.contains(config));
            let stated = match &config {
                Some(config) => parsed::<Config>(config, read)?.unwrap_or_default(),
                None => Config::default(),
            };
            match (config, layers(&document.layers, &stated.rootfs.diff_ids)) {
                (Some(config), Some(layers)) => found.images.push(ImageLayers {
                    manifest,
                    config,
                    layers,
                }),
                _ => {
                    let layers = document.layers.iter().filter_map(Descriptor::content);
                    found.others.extend(layers.map(|layer| layer.digest));
                }
            }
        }
    }
    Ok(found)
}

/// The digest of the uncompressed archive of each layer, by the layer's digest. A layer of which two configs state different ones has both.
pub fn diff_ids(images: &[ImageLayers]) -> BTreeMap<Digest, BTreeSet<Digest>> {
    let mut all: BTreeMap<Digest, BTreeSet<Digest>> = BTreeMap::new();
    for layer in images.iter().flat_map(|image| &image.layers) {
        let known = all.entry(layer.carried.digest).or_default();
        known.insert(layer.diff_id);
    }
    all
}

/// The archive of each layer that a twin may be made of: all configs state the same one, and nothing else needs the layer: no file of an
/// assignment, no repository, and no artifact or image whose config does not state it.
///
/// # Errors
/// When `read` fails.
pub fn twins(index: &Index, read: ReadContent<'_>) -> io::Result<BTreeMap<Digest, Digest>> {
    let ListedLayers { images, mut others } = listed(index, read)?;
    others.extend(index.files().map(|file| file.content));
    others.extend(index.served.repositories.iter().map(|one| one.pack.digest));
    let all = diff_ids(&images).into_iter();
    let one = |(layer, ids): (Digest, BTreeSet<Digest>)| match (ids.first(), ids.len()) {
        (Some(id), 1) if !others.contains(&layer) => Some((layer, *id)),
        _ => None,
    };
    Ok(all.filter_map(one).collect())
}

fn parsed<T: for<'de> Deserialize<'de>>(
    content: &Content,
    read: ReadContent<'_>,
) -> io::Result<Option<T>> {
    if content.size > MAX_DOCUMENT_BYTES {
        return Ok(None);
    }
    let bytes = read(content)?;
    Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
}

fn layers(listed: &[Descriptor], diff_ids: &[String]) -> Option<Vec<Layer>> {
    if listed.len() != diff_ids.len() || listed.is_empty() {
        return None;
    }
    let pairs = listed.iter().zip(diff_ids);
    pairs
        .map(|(layer, diff_id)| {
            let diff_id = diff_id.strip_prefix("sha256:")?;
            Some(Layer {
                carried: layer.content()?,
                media_type: layer.media_type.clone(),
                diff_id: Digest::from_hex(diff_id).ok()?,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeBundle;
    use crate::index::served::{Image, Served};

    fn content(bytes: &[u8]) -> Content {
        Content {
            digest: Digest::of(bytes),
            size: bytes.len() as u64,
        }
    }

    fn descriptor(bytes: &[u8], media_type: &str) -> serde_json::Value {
        let content = content(bytes);
        serde_json::json!({ "mediaType": media_type, "digest": content.digest.to_string(), "size": content.size })
    }

    /// What is read of an index of one platform, whose config states `diff_ids` for the layers `a` and `b`.
    fn read(diff_ids: &[Digest]) -> Vec<ImageLayers> {
        let ids: Vec<String> = diff_ids.iter().map(ToString::to_string).collect();
        let config = serde_json::json!({ "rootfs": { "type": "layers", "diff_ids": ids } });
        let config = config.to_string().into_bytes();
        let manifest = serde_json::json!({
            "config": descriptor(&config, "c"),
            "layers": [descriptor(b"a", "gzip"), descriptor(b"b", "zstd")],
        });
        let manifest = manifest.to_string().into_bytes();
        let top =
            serde_json::json!({ "manifests": [descriptor(&manifest, "m"), descriptor(b"?", "m")] });
        let top = top.to_string().into_bytes();
        let mut index = FakeBundle::new(1, &[("a", b"a")]).unwrap().index;
        index.served = Served {
            images: vec![Image {
                name: "registry.example/a:1".to_owned(),
                media_type: "i".to_owned(),
                manifest: content(&top),
                blobs: vec![content(&manifest), content(&config)],
            }],
            repositories: Vec::new(),
        };
        let all = [top, manifest, config];
        images(&index, &mut |wanted| {
            Ok(all.iter().find(|bytes| content(bytes) == *wanted).cloned())
        })
        .unwrap()
    }

    #[test]
    fn each_layer_has_the_archive_that_the_config_states() {
        let (one, two) = (Digest::of(b"1"), Digest::of(b"2"));
        let found = read(&[one, two]);
        let [image] = found.as_slice() else {
            panic!("{found:?}")
        };
        assert_eq!(image.layers[1].media_type, "zstd");
        let known = diff_ids(&found);
        assert_eq!(known[&Digest::of(b"a")], BTreeSet::from([one]));
        assert_eq!(known[&Digest::of(b"b")], BTreeSet::from([two]));
    }

    #[test]
    fn a_layer_that_an_artifact_also_lists_has_no_twin() {
        let json = |value: serde_json::Value| value.to_string().into_bytes();
        let id = Digest::of(b"1").to_string();
        let config = json(serde_json::json!({ "rootfs": { "diff_ids": [id] } }));
        let of_flux = json(serde_json::json!({}));
        let layers = [descriptor(b"a", "gzip")];
        let manifest = |config: &[u8]| {
            json(serde_json::json!({ "config": descriptor(config, "c"), "layers": layers }))
        };
        let (image, artifact) = (manifest(&config), manifest(&of_flux));
        let served = |name: &str, manifest: &[u8], config: &[u8]| Image {
            name: name.to_owned(),
            media_type: "i".to_owned(),
            manifest: content(manifest),
            blobs: vec![content(config), content(b"a")],
        };
        let all = [&config, &of_flux, &image, &artifact];
        let mut read = |wanted: &Content| {
            let one = all.iter().find(|bytes| content(bytes) == *wanted);
            Ok(one.map(|bytes| (*bytes).clone()))
        };
        let mut index = FakeBundle::new(1, &[("f", b"f")]).unwrap().index;
        index.served.images = vec![served("registry.example/a:1", &image, &config)];
        let alone = twins(&index, &mut read).unwrap();
        assert_eq!(
            alone,
            BTreeMap::from([(Digest::of(b"a"), Digest::of(b"1"))])
        );
        let artifact = served("registry.example/b:1", &artifact, &of_flux);
        index.served.images.push(artifact);
        assert_eq!(twins(&index, &mut read).unwrap(), BTreeMap::new());
    }

    #[test]
    fn a_config_that_does_not_state_one_archive_for_each_layer_states_none() {
        assert_eq!(read(&[Digest::of(b"1")]), []);
        assert_eq!(read(&[]), []);
    }
}
