//! A bundle as an artifact in an OCI registry.
//!
//! What comes in: a bundle's file and a repository. What goes out: each member of the bundle as a layer, in its order and as it is, under a
//! manifest with the tag `<environment>-<cluster type>-<number>`, and last the tag `<environment>-<cluster type>`, which moves. Each layer has
//! the name that it has in a web folder, so that what a client such as `oras pull` writes is one. Nothing is removed.

use outhaul_bundle::Digest;
use outhaul_bundle::index::Content;
use outhaul_kit::bounds::MAX_IMAGE_MANIFEST_BYTES;
use outhaul_kit::bounds::MAX_IMAGE_TAG_BYTES;
use outhaul_kit::carried::IMAGE_MANIFEST;
use outhaul_kit::console::progress::{Meter, Unit};
use outhaul_kit::interrupt;
use outhaul_registry::{ImageReference, RegistryClient, RegistryError};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::error::TargetError;
use crate::publication::{BundleFile, Object};
use crate::send::{Options, Sent};
use crate::target::unchanged;

/// What the artifact is.
pub const ARTIFACT: &str = "application/vnd.outhaul.bundle.v1";
/// The type of its manifest.
/// The type of a configuration that is none.
const EMPTY: &str = "application/vnd.oci.empty.v1+json";
/// Where a manifest says which number the bundle has.
const NUMBER: &str = "dev.outhaul.number";

/// What was pushed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pushed {
    /// `registry/repository:tag`
    pub name: String,
    /// The manifest's digest.
    pub digest: Digest,
    /// How much of it.
    pub sent: Sent,
}

#[derive(Deserialize)]
struct Annotated {
    #[serde(default)]
    annotations: std::collections::BTreeMap<String, String>,
}

/// Pushes `bundle` into `repository`, as far as it is not there.
///
/// # Errors
/// [`TargetError`]; the tags are then as they were.
pub fn push(
    client: &RegistryClient,
    repository: &ImageReference,
    bundle: &BundleFile,
    options: Options,
) -> Result<Pushed, TargetError> {
    let opened = bundle.open()?;
    let moving = bundle.stream.replace('/', "-");
    let tag = format!("{moving}-{}", bundle.number);
    let name = |tag: &str| format!("{}/{}:{tag}", repository.registry, repository.repository);
    if tag.len() > MAX_IMAGE_TAG_BYTES {
        return Err(TargetError::Usage {
            problem: format!(
                "`{tag}` is longer than a tag may be ({MAX_IMAGE_TAG_BYTES} characters)"
            ),
            help: "publish this stream to a web folder or S3-compatible storage".to_owned(),
        });
    }
    let empty = Object::small("config".to_owned(), b"{}");
    let layers = opened
        .metadata
        .iter()
        .chain(&opened.index)
        .chain(&opened.blobs);
    let layers: Vec<&Object> = layers.collect();
    let bytes = manifest(bundle, &empty, &layers);
    if bytes.len() as u64 > MAX_IMAGE_MANIFEST_BYTES {
        return Err(TargetError::Usage {
            problem: format!(
                "{}, number {} has {} blobs: its manifest is larger than the {MAX_IMAGE_MANIFEST_BYTES} bytes that registries accept",
                bundle.stream,
                bundle.number,
                opened.blobs.len()
            ),
            help: "publish this stream to a web folder or S3-compatible storage".to_owned(),
        });
    }
    not_newer(client, repository, &moving, bundle, &name(&moving))?;
    let total = layers.iter().map(|layer| layer.content.size).sum();
    let meter = Meter::new(&format!("pushing {}", name(&tag)), Unit::Bytes, Some(total));
    let mut sent = Sent::default();
    for layer in [&empty].into_iter().chain(layers) {
        let Content { digest, size } = layer.content;
        let is_there = client.blob_size(repository, &digest)? == Some(size)
            && (!options.read_back || read_back(client, repository, &digest)? == digest);
        if is_there {
            meter.add(size);
            sent.there += 1;
            sent.there_bytes += size;
            continue;
        }
        unchanged(layer)?;
        let read = |source| TargetError::Read {
            path: layer.origin(),
            source,
        };
        let mut reader = meter.counts(layer.open(0, size).map_err(read)?);
        client.push_blob(repository, layer.content, &mut reader)?;
        compare(client, repository, layer, options)?;
        sent.files += 1;
        sent.bytes += size;
        interrupt::here();
    }
    let digest = Digest::of(&bytes);
    for tag in [&tag, &moving] {
        let is_there = match client.manifest(repository, tag) {
            Ok(found) => found.digest == digest,
            Err(RegistryError::Missing { .. }) => false,
            Err(error) => return Err(error.into()),
        };
        if is_there {
            sent.there += 1;
            continue;
        }
        client.push_manifest(repository, tag, IMAGE_MANIFEST, &bytes)?;
        let found = client.manifest(repository, tag)?.digest;
        if found != digest {
            return Err(TargetError::other_digest(format!("`{}`", name(tag)), found));
        }
        sent.files += 1;
        sent.bytes += bytes.len() as u64;
    }
    Ok(Pushed {
        name: name(&tag),
        digest,
        sent,
    })
}

/// Refuses a repository in which the stream has a newer number.
fn not_newer(
    client: &RegistryClient,
    repository: &ImageReference,
    moving: &str,
    bundle: &BundleFile,
    place: &str,
) -> Result<(), TargetError> {
    let found = match client.manifest(repository, moving) {
        Ok(found) => found,
        Err(RegistryError::Missing { .. }) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let parsed: Option<Annotated> = serde_json::from_slice(&found.bytes).ok();
    let there = parsed.and_then(|found| found.annotations.get(NUMBER)?.parse().ok());
    match there {
        Some(there) if there > bundle.number => Err(TargetError::Newer {
            place: format!("`{place}`"),
            there,
            here: bundle.number,
        }),
        _ => Ok(()),
    }
}

fn compare(
    client: &RegistryClient,
    repository: &ImageReference,
    layer: &Object,
    options: Options,
) -> Result<(), TargetError> {
    let Content { digest, size } = layer.content;
    let place = format!(
        "`{}/{}@{digest}`",
        repository.registry, repository.repository
    );
    let found = client.blob_size(repository, &digest)?;
    if found.is_some_and(|found| found != size) {
        let problem = format!("{} bytes, not {size}", found.unwrap_or_default());
        return Err(TargetError::Lies { place, problem });
    }
    if options.read_back || found.is_none() {
        let found = read_back(client, repository, &digest)?;
        if found != digest {
            return Err(TargetError::other_digest(place, found));
        }
    }
    Ok(())
}

fn read_back(
    client: &RegistryClient,
    repository: &ImageReference,
    digest: &Digest,
) -> Result<Digest, TargetError> {
    let (_, mut reader) = client.blob(repository, digest, 0)?;
    let mut hasher = outhaul_bundle::digest::Hasher::new();
    std::io::copy(&mut reader, &mut hasher).map_err(|error| TargetError::Unreachable {
        place: format!(
            "`{}/{}@{digest}`",
            repository.registry, repository.repository
        ),
        problem: error.to_string(),
    })?;
    Ok(hasher.finish().0)
}

/// The manifest's bytes: the same for the same bundle.
fn manifest(bundle: &BundleFile, empty: &Object, layers: &[&Object]) -> Vec<u8> {
    let described = |layer: &&Object| -> Value {
        let kind = match layer.path.split('/').next() {
            Some("metadata") => "application/vnd.outhaul.metadata.v1+json",
            Some("targets") if layer.path.ends_with(".zst") => {
                "application/vnd.outhaul.index.v1+json+zstd"
            }
            Some("targets") => "application/vnd.outhaul.index.v1+json",
            _ => "application/vnd.outhaul.blob.v1",
        };
        json!({
            "mediaType": kind,
            "digest": layer.content.digest.to_string(),
            "size": layer.content.size,
            "annotations": { "org.opencontainers.image.title": layer.path },
        })
    };
    let layers: Vec<Value> = layers.iter().map(described).collect();
    let (environment, cluster_type) = bundle
        .stream
        .split_once('/')
        .unwrap_or((&bundle.stream, ""));
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": IMAGE_MANIFEST,
        "artifactType": ARTIFACT,
        "config": {
            "mediaType": EMPTY,
            "digest": empty.content.digest.to_string(),
            "size": empty.content.size,
        },
        "layers": layers,
        "annotations": {
            "dev.outhaul.environment": environment,
            "dev.outhaul.cluster-type": cluster_type,
            NUMBER: bundle.number.to_string(),
        },
    });
    serde_json::to_vec(&manifest).unwrap_or_default()
}
