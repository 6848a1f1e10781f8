//! One chart of a chart repository, as the artifact that Helm itself pushes to a registry.
//!
//! What comes in: the URL of a repository with an `index.yaml`, a chart's name and its exact version, and which hosts may be
//! asked. What goes out: the archive in the cache, compared with the digest that the index has for it, with a config
//! and a manifest of OCI around it, so that it travels and is served as any artifact. The same archive makes the
//! same artifact anywhere. It unpacks no archive, and takes no version but the one that is asked for.

use std::collections::BTreeMap;
use std::io::Read as _;

use outhaul_bundle::Digest;
use outhaul_bundle::index::Content;
use outhaul_kit::bounds::{MAX_CHART_ARCHIVE_BYTES, MAX_IMAGE_MANIFEST_BYTES};
use outhaul_kit::console::progress::{Meter, Unit};
use serde::Deserialize;
use serde_json::json;

use crate::cache::ImageCache;
use crate::chart_index::{self, Index, Version};
use crate::client::RegistryClient;
use crate::error::RegistryError;
use crate::notices::fetching;
use crate::platforms::Descriptor;
use crate::pull::Pulled;
use outhaul_kit::carried::{
    CHART_ARCHIVE, CHART_CONFIG, CHART_PATH, CHART_REPOSITORY, IMAGE_MANIFEST, is_single_version,
};

pub(crate) mod fetch;

/// Largest `index.yaml` in bytes.
pub const MAX_INDEX: u64 = 64 << 20;
/// Most versions that a message lists.
const SHOWN_VERSIONS: usize = 20;

/// A chart of a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChartReference<'a> {
    /// The repository's URL, without `index.yaml`.
    pub repository: &'a str,
    /// The chart's name.
    pub name: &'a str,
    /// Its version; a range is refused with the versions that there are.
    pub version: &'a str,
}

/// Which hosts may be asked.
pub struct Hosts<'a> {
    /// Whether the host of a URL may be asked; why it may not.
    pub may_ask: &'a dyn Fn(&str) -> Result<(), String>,
    /// Whether who runs the program named the host of a URL.
    pub is_named: &'a dyn Fn(&str) -> bool,
}

impl std::fmt::Debug for Hosts<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("hosts that may be asked")
    }
}

/// Brings a chart into the cache; `known` is the digest that its manifest was before.
///
/// # Errors
/// [`RegistryError`]
pub fn pull_chart(
    client: &RegistryClient,
    cache: &ImageCache,
    chart: ChartReference<'_>,
    hosts: &Hosts<'_>,
    known: Option<Digest>,
) -> Result<Pulled, RegistryError> {
    if let Some(found) = known.and_then(|known| cached(cache, known)) {
        return Ok(found);
    }
    let get = fetch::Fetch::of(client, chart.repository, hosts)?;
    let wrong = |problem: String| get.wrong(&format!("chart `{}`", chart.name), problem);
    let index = client.chart_index(&get)?;
    let version = wanted(&index, chart).map_err(wrong)?;
    let url = get.address(version.urls.first().map_or("", String::as_str));
    let url = url.ok_or_else(|| {
        wrong(format!(
            "of version {} has no address in the index that can be asked",
            version.version
        ))
    })?;
    let has_digest = version.digest.is_some();
    let bytes = get.archive(&url, has_digest)?;
    let digest = Digest::of(&bytes);
    if let Some(listed) = version.digest.filter(|listed| *listed != digest) {
        return Err(wrong(format!(
            "of version {} is not the archive that the index lists: it has the digest {digest}, not {listed}",
            version.version
        )));
    }
    let archive = Content {
        digest,
        size: bytes.len() as u64,
    };
    cache.keep(&digest, &bytes)?;
    let (config, manifest) = artifact(&get, chart, version, archive, &url);
    let pulled = kept(cache, archive, &config, &manifest)?;
    match known.filter(|known| *known != pulled.manifest.digest) {
        None => Ok(pulled),
        Some(known) => Err(wrong(format!(
            "of version {} is another one than it was: {}, and {known} is pinned",
            version.version, pulled.manifest.digest
        ))),
    }
}

/// The version that is asked for, or why there is none.
fn wanted<'i>(index: &'i Index, chart: ChartReference<'_>) -> Result<&'i Version, String> {
    let Some(versions) = index.charts.get(chart.name) else {
        let near = index.charts.keys().take(SHOWN_VERSIONS);
        let near: Vec<&str> = near.map(String::as_str).collect();
        return Err(match near.is_empty() {
            true => "is not in the index, which lists no chart".to_owned(),
            false => format!("is not in the index, which lists {}", near.join(", ")),
        });
    };
    let bare = |text: &'_ str| text.strip_prefix('v').unwrap_or(text).to_owned();
    let exact = versions.iter().find(|one| one.version == chart.version);
    let same = |one: &&Version| bare(&one.version) == bare(chart.version);
    exact.or_else(|| versions.iter().find(same)).ok_or_else(|| {
        let shown = versions.iter().take(SHOWN_VERSIONS);
        let shown: Vec<&str> = shown.map(|one| one.version.as_str()).collect();
        let more = match versions.len().saturating_sub(shown.len()) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let what = match is_single_version(chart.version) {
            true => format!("has no version {}", chart.version),
            false => format!(
                "is requested as `{}`, which is not a single version",
                chart.version
            ),
        };
        format!("{what}; the repository has {}{more}", shown.join(", "))
    })
}

/// The config and the manifest.
fn artifact(
    get: &fetch::Fetch<'_>,
    chart: ChartReference<'_>,
    version: &Version,
    archive: Content,
    url: &str,
) -> (Vec<u8>, Vec<u8>) {
    let mut config = BTreeMap::from([
        ("apiVersion", version.api_version.as_deref().unwrap_or("v1")),
        ("name", chart.name),
        ("version", &version.version),
    ]);
    if let Some(application) = &version.app_version {
        config.insert("appVersion", application);
    }
    let config = json!(config).to_string().into_bytes();
    let path = get.relative(url, chart.name, &version.version);
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": IMAGE_MANIFEST,
        "config": {
            "mediaType": CHART_CONFIG,
            "digest": Digest::of(&config).to_string(),
            "size": config.len(),
        },
        "layers": [{
            "mediaType": CHART_ARCHIVE,
            "digest": archive.digest.to_string(),
            "size": archive.size,
        }],
        "annotations": {
            "org.opencontainers.image.title": chart.name,
            "org.opencontainers.image.version": version.version,
            CHART_REPOSITORY: get.repository(),
            CHART_PATH: path,
        },
    });
    (config, manifest.to_string().into_bytes())
}

fn kept(
    cache: &ImageCache,
    archive: Content,
    config: &[u8],
    manifest: &[u8],
) -> Result<Pulled, RegistryError> {
    let content = |bytes: &[u8]| Content {
        digest: Digest::of(bytes),
        size: bytes.len() as u64,
    };
    let (of_config, of_manifest) = (content(config), content(manifest));
    cache.keep(&of_config.digest, config)?;
    cache.keep(&of_manifest.digest, manifest)?;
    let mut blobs = vec![of_config, archive];
    blobs.sort();
    Ok(Pulled {
        media_type: IMAGE_MANIFEST.to_owned(),
        manifest: of_manifest,
        blobs,
        lacks: Vec::new(),
    })
}

#[derive(Deserialize)]
struct Document {
    config: Descriptor,
    layers: Vec<Descriptor>,
}

/// A chart that is in the cache with all of its parts.
fn cached(cache: &ImageCache, manifest: Digest) -> Option<Pulled> {
    let bytes = cache.read(&manifest, MAX_IMAGE_MANIFEST_BYTES)?;
    let document: Document = serde_json::from_slice(&bytes).ok()?;
    let content = |one: &Descriptor| {
        let digest = one.digest.parse().ok()?;
        let size = one.size;
        Some(Content { digest, size })
    };
    let parts = std::iter::once(&document.config).chain(&document.layers);
    let mut blobs = parts.map(content).collect::<Option<Vec<_>>>()?;
    blobs.sort();
    let is_whole = |one: &Content| cache.read(&one.digest, MAX_CHART_ARCHIVE_BYTES).is_some();
    blobs.iter().all(is_whole).then(|| Pulled {
        media_type: IMAGE_MANIFEST.to_owned(),
        manifest: Content {
            digest: manifest,
            size: bytes.len() as u64,
        },
        blobs,
        lacks: Vec::new(),
    })
}

/// The archive of a chart, where a manifest in the cache is that of one: the content, and whether it is there.
pub fn archive_of(cache: &ImageCache, manifest: &Digest) -> Option<Content> {
    let bytes = cache.read(manifest, MAX_IMAGE_MANIFEST_BYTES)?;
    let document: Document = serde_json::from_slice(&bytes).ok()?;
    if document.config.media_type != CHART_CONFIG {
        return None;
    }
    let is_archive = |one: &&Descriptor| one.media_type == CHART_ARCHIVE;
    let found = document.layers.iter().find(is_archive)?;
    let digest = found.digest.parse().ok()?;
    let size = found.size;
    Some(Content { digest, size })
}

impl RegistryClient {
    /// The index of a repository, read once in a run.
    fn chart_index(&self, get: &fetch::Fetch<'_>) -> Result<std::sync::Arc<Index>, RegistryError> {
        let known = || {
            let known = self.indexes.lock();
            known.unwrap_or_else(std::sync::PoisonError::into_inner)
        };
        if let Some(found) = known().get(get.repository()) {
            return Ok(std::sync::Arc::clone(found));
        }
        let body = get.index()?;
        let what = fetching(&format!("{}/index.yaml", get.repository()));
        let meter = Meter::new(&what, Unit::Bytes, None);
        let read = chart_index::read(meter.counts(body).take(MAX_INDEX + 1), MAX_INDEX);
        let read = read.map_err(|problem| match problem {
            chart_index::IndexError::Read(problem) => get.unreachable(problem),
            chart_index::IndexError::Wrong(problem) => get.wrong("`index.yaml`", problem),
        })?;
        let read = std::sync::Arc::new(read);
        known().insert(get.repository().to_owned(), std::sync::Arc::clone(&read));
        Ok(read)
    }
}

#[cfg(test)]
mod tests;
