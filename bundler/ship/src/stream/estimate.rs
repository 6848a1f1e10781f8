//! What the next bundle of each stream would bring: how much, and how much of it is new.
//!
//! What comes in: what comes into [`super::produce`], and someone who knows an image's parts without its layers. What
//! goes out: an [`Estimate`] per stream: files, images with their platforms, repositories, and the bytes of each that
//! the bundle which the stream shipped last did not bring. Nothing is signed, and nothing of the fleet is
//! written.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use outhaul_bundle::Digest;
use outhaul_bundle::index::Content;
use outhaul_bundle::index::served::{Image, Repository};
use outhaul_control::diagnostic::Diagnostics;
use outhaul_kit::bounds::MAX_IMAGE_MANIFEST_BYTES;
use outhaul_load::pipeline::Platform;
use outhaul_plane::delivery::statements;
use outhaul_signer::fleet::Fleet;
use serde::Serialize;
use serde_json::Value;

use super::carried::LastPayloads;
use super::earlier::EarlierBundles;
use super::plan::{Sound, StreamContents};
use super::{BundleRequest, ProduceError, delivery_rules};
use crate::assemble::Spool;
use crate::collect::{Collector, Payloads, signers};
use outhaul_pins::{Lock, MovedPin};
use outhaul_record::isolation::Isolation;
use outhaul_record::plan;

/// What the next bundles would bring.
#[derive(Debug, Default)]
pub struct Estimates {
    /// One for each stream of which a bundle would be made.
    pub streams: Vec<Estimate>,
    /// What would become of what is broken.
    pub isolation: Isolation<()>,
    /// Images and repositories that would be others than before.
    pub moved: Vec<MovedPin>,
    /// What is not known of the charts that would travel, which images would not be verified, and which trusted roots are old.
    pub uncertain: Diagnostics,
    /// Streams of which no bundle would be made, because their sites would lose what they run.
    pub stalled: BTreeSet<String>,
}

/// What the next bundle of one stream would bring.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Estimate {
    /// The cluster type.
    pub cluster_type: String,
    /// Why no bundle is made of it at all, when a delivery policy says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suppressed: Option<String>,
    /// How many assignments it would have.
    pub assignments: usize,
    /// Rendered files and payloads.
    pub files: Share,
    /// How many files those are.
    pub file_count: usize,
    /// Images, by their names.
    pub images: Vec<ImageShare>,
    /// Git repositories, by their URLs.
    pub repositories: Vec<RepositoryShare>,
    /// All of it, each content once, uncompressed.
    pub total: Share,
    /// The number of the bundle that "new" is against; `None` when there is none that can be read here.
    pub against: Option<u64>,
}

/// Bytes of contents, each once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Share {
    /// All of them.
    pub bytes: u64,
    /// Those that the last bundle did not bring.
    pub new_bytes: u64,
}

/// One image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ImageShare {
    /// Its whole name.
    pub name: String,
    /// The digest of its manifest or index.
    pub digest: Digest,
    /// The platforms of an index, such as `linux/arm64`; none where it is for one that it does not name.
    pub platforms: Vec<String>,
    /// Its bytes.
    #[serde(flatten)]
    pub share: Share,
}

/// One repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RepositoryShare {
    /// Its URL.
    pub url: String,
    /// Its refs, each with its commit.
    pub refs: BTreeMap<String, String>,
    /// Bytes of its pack.
    #[serde(flatten)]
    pub share: Share,
}

/// Estimates the bundles of every stream that `request` names.
///
/// # Errors
/// [`ProduceError`], as when they are made.
pub fn estimate(
    platform: &Platform,
    fleet: &Fleet,
    request: &BundleRequest<'_>,
) -> Result<Estimates, ProduceError> {
    let rendering = &platform.rendering;
    super::known(platform, fleet, request)?;
    let lock = Lock::read(fleet.folder(), &rendering.environment, request.update)?;
    let role = |name: &String| fleet.role(&rendering.environment, name);
    let roles = rendering.cluster_types.keys().map(role).collect();
    let earlier = EarlierBundles::of(fleet, roles);
    let collector = Collector::new(&platform.sources, &platform.cache);
    let collector = collector.with_images(request.images, lock);
    let collector = RefCell::new(collector.with_earlier(&earlier));
    let mut all = Estimates::default();
    let names = request.cluster_types;
    let wanted = |name: &&String| names.is_empty() || names.contains(name);
    for name in rendering.cluster_types.keys().filter(wanted) {
        let sound = Sound::of(platform, fleet, name, &collector)?;
        let mut last = sound.last()?;
        let mut plan = plan::plan(&sound.wanted(), &mut last);
        last.take_error()?;
        if let Err(removal) = std::mem::replace(&mut plan.removal, Ok(())) {
            return Err(removal.into());
        }
        if plan::Shipped::is_stalled(&last) {
            all.stalled
                .insert(format!("{}/{name}", rendering.environment));
        }
        let contents = StreamContents::of(&sound, last, plan)?;
        if !contents.is_void() && !contents.stalled {
            all.streams.push(of_stream(fleet, &contents, &collector)?);
        }
        all.isolation.append(contents.isolation);
    }
    all.moved = collector.borrow().lock().moved();
    all.uncertain = collector.borrow().uncertain();
    let (plane, now) = (&platform.control_plane, request.issued);
    all.uncertain.append(signers(plane, now));
    let later = statements::to_come(plane, now.as_millisecond());
    all.uncertain.append(later);
    Ok(all)
}

fn of_stream(
    fleet: &Fleet,
    contents: &StreamContents<'_>,
    collector: &RefCell<Collector<'_>>,
) -> Result<Estimate, ProduceError> {
    let mut estimate = Estimate {
        cluster_type: contents.cluster_type.to_owned(),
        suppressed: delivery_rules::suppressed(&contents.delivery),
        assignments: contents.assignments.len(),
        files: Share::default(),
        file_count: 0,
        images: Vec::new(),
        repositories: Vec::new(),
        total: Share::default(),
        against: None,
    };
    if estimate.suppressed.is_some() {
        return Ok(estimate);
    }
    let mut spool = Spool::new(&std::env::temp_dir())?;
    let payloads = contents.payloads(&mut collector.borrow_mut(), &mut spool)?;
    let last = LastPayloads::open(fleet, &contents.role);
    let last = last.as_ref().map(LastPayloads::index);
    estimate.against = last.map(|index| index.number);
    let had = last.iter().flat_map(|index| &index.blobs);
    let had: BTreeSet<Digest> = had
        .flat_map(|blob| &blob.contents)
        .map(|content| content.digest)
        .collect();
    let rendered = rendered(contents);
    let files = files(&payloads);
    estimate.file_count = rendered.len() + files.len();
    estimate.files = share(rendered.iter().chain(&files), &had);
    let served = &payloads.served;
    let images = served.images.iter();
    estimate.images = images
        .map(|image| ImageShare {
            name: image.name.clone(),
            digest: image.manifest.digest,
            platforms: platforms(image, &spool),
            share: share(std::iter::once(&image.manifest).chain(&image.blobs), &had),
        })
        .collect();
    let repositories = served.repositories.iter();
    estimate.repositories = repositories
        .map(|one: &Repository| RepositoryShare {
            url: one.url.clone(),
            refs: one.refs.clone(),
            share: share([&one.pack], &had),
        })
        .collect();
    let all = rendered.iter().chain(&files).chain(served.contents());
    estimate.total = share(all, &had);
    Ok(estimate)
}

fn rendered(contents: &StreamContents<'_>) -> Vec<Content> {
    let assignments = contents.assignments.values();
    let files = assignments.flat_map(|one| {
        let overlays = one.overlays.iter().flat_map(|overlay| &overlay.files);
        one.files.iter().chain(overlays)
    });
    files
        .map(|(_, bytes)| Content {
            digest: Digest::of(bytes),
            size: bytes.len() as u64,
        })
        .collect()
}

fn files(payloads: &Payloads) -> Vec<Content> {
    let files = payloads.files.values().flatten();
    files
        .map(|file| Content {
            digest: file.content,
            size: file.size,
        })
        .collect()
}

fn share<'c>(contents: impl IntoIterator<Item = &'c Content>, had: &BTreeSet<Digest>) -> Share {
    let all: BTreeSet<&Content> = contents.into_iter().collect();
    let bytes = |only_new: bool| {
        let counted = all
            .iter()
            .filter(|one| !only_new || !had.contains(&one.digest));
        counted.map(|one| one.size).sum()
    };
    Share {
        bytes: bytes(false),
        new_bytes: bytes(true),
    }
}

/// The platforms of an image's index that travel, but for attestations, whose platform is `unknown`.
fn platforms(image: &Image, spool: &Spool) -> Vec<String> {
    let read = |path: &Path| outhaul_signer::durable::read(path, MAX_IMAGE_MANIFEST_BYTES).ok();
    let bytes = spool.lent(&image.manifest.digest).and_then(read);
    let index: Option<Value> = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let manifests = index.as_ref().and_then(|index| index.get("manifests"));
    let manifests = manifests.and_then(Value::as_array);
    let one = |manifest: &Value| {
        let digest: Digest = manifest.get("digest")?.as_str()?.parse().ok()?;
        image.blobs.iter().find(|blob| blob.digest == digest)?;
        let platform = manifest.get("platform")?;
        let text = |key: &str| platform.get(key).and_then(Value::as_str);
        let os = text("os").filter(|os| *os != "unknown")?;
        let parts = [Some(os), text("architecture"), text("variant")];
        let parts: Vec<&str> = parts.into_iter().flatten().collect();
        Some(parts.join("/"))
    };
    let mut all: Vec<String> = manifests.into_iter().flatten().filter_map(one).collect();
    all.sort();
    all.dedup();
    all
}
