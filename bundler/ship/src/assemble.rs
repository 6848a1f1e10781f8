//! 5b. ASSEMBLE: one cluster type's rendering and payloads become an unsigned bundle.
//!
//! What comes in: the rendered assignments of one stream, their payloads, and the snapshot. What goes
//! out: an [`UnsignedBundle`]: the index's bytes, which are what gets signed, and the encoded blobs in
//! a temporary folder. The same input gives the same bytes on any machine: everything is sorted, and
//! no time and no path of a machine gets in. It signs nothing and publishes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufWriter, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use outhaul_bundle::encode::{self, BlobPlan, ContentToEncode};
use outhaul_bundle::index::{
    AgentRelease, Assignment, Blob, Encoding, File as IndexFile, Overlay, ReconcilerSettings,
    Served, Snapshot, Stream, Waves, compressed, format_of,
};
use outhaul_bundle::limits::Limits;
use outhaul_bundle::name::{Name, NameError, RelativePath};
use outhaul_bundle::write::BlobSource;
use outhaul_bundle::{Digest, Index, Order};
use outhaul_kit::console::progress::{Meter, Unit};

use outhaul_plane::render::RenderedAssignment;

pub mod attest_and_seal;
pub mod encoded;
pub mod spool;
pub mod waiting;

pub use encoded::EncodedBefore;
use spool::CountedContents;
pub use spool::{Spool, SpoolError};

/// What a bundle is made of.
#[derive(Debug)]
pub struct BundleSources<'a> {
    /// The fleet's id.
    pub fleet: &'a str,
    /// The stream.
    pub stream: Stream,
    /// The number that the bundle is to have.
    pub number: u64,
    /// How the content becomes real on site.
    pub reconciler: ReconcilerSettings,
    /// The commits that all of it comes from.
    pub snapshot: Snapshot,
    /// The rendered assignments by name.
    pub assignments: &'a BTreeMap<String, Arc<RenderedAssignment>>,
    /// Names of the sites that it is for; empty for every site of the stream.
    pub recipients: BTreeSet<Name>,
    /// Each assignment's payload by assignment name, its contents in the spool already.
    pub payloads: BTreeMap<String, Vec<IndexFile>>,
    /// What the site serves, its contents in the spool already.
    pub served: Served,
    /// Which of the assignments are as an earlier snapshot had them, and its digest.
    pub kept: BTreeMap<Name, Digest>,
    /// What single sites are asked to do.
    pub orders: Vec<Order>,
    /// Which sites take it first.
    pub waves: Option<Waves>,
    /// The agent that it brings, its programs in the spool already.
    pub agent: Option<AgentRelease>,
}

/// A bundle that nobody has signed yet.
#[derive(Debug)]
pub struct UnsignedBundle {
    /// What it says.
    pub index: Index,
    /// The bytes that are signed and shipped.
    pub index_bytes: Vec<u8>,
    spool: Spool,
}

impl UnsignedBundle {
    /// The compressed form of its index, which metadata lists and the file carries; `None` for a small one, and for one that brings an agent:
    /// what it replaces may be an agent that reads no such index.
    ///
    /// # Errors
    /// [`AssembleError::Compress`]
    pub fn index_compressed(&self) -> Result<Option<Vec<u8>>, AssembleError> {
        if self.index.agent.is_some() {
            return Ok(None);
        }
        compressed::compressed(&self.index_bytes)
            .map_err(|problem| AssembleError::Compress { problem })
    }

    /// Where its contents and blobs lie, for the next bundle of the same contents.
    pub fn into_spool(self) -> Spool {
        self.spool
    }
}

/// Why contents do not become a bundle.
#[derive(Debug, thiserror::Error)]
pub enum AssembleError {
    /// A blob could not be encoded.
    #[error("cannot encode a blob")]
    Encode(#[from] encode::EncodeError),
    /// The result would not be readable on site.
    #[error("the bundle would contradict itself")]
    Inconsistent(#[from] outhaul_bundle::index::IndexError),
    /// A name or path that cannot travel.
    #[error("assignment `{assignment}`")]
    Name {
        /// The assignment that has it.
        assignment: String,
        /// What is wrong with it.
        source: NameError,
    },
    /// The index could not be compressed.
    #[error("cannot compress the index: {problem}")]
    Compress {
        /// What zstd reports.
        problem: String,
    },
    /// The temporary folder failed.
    #[error("cannot keep contents in the temporary folder")]
    Spool(#[from] SpoolError),
}

/// Packs `contents`, whose payloads are in `spool` already.
///
/// # Errors
/// [`AssembleError`]; nothing was written outside the spool.
#[expect(clippy::too_many_lines, reason = "one index, field by field")]
pub fn assemble(
    contents: BundleSources<'_>,
    mut spool: Spool,
) -> Result<UnsignedBundle, AssembleError> {
    let BundleSources {
        fleet,
        stream,
        number,
        reconciler,
        snapshot,
        recipients,
        assignments,
        mut payloads,
        served,
        mut kept,
        orders,
        waves,
        agent,
    } = contents;
    let mut candidates = Vec::new();
    let mut listed = Vec::new();
    for (name, rendered) in assignments {
        let at = |source| AssembleError::Name {
            assignment: name.clone(),
            source,
        };
        let named = rendered.sites.as_ref();
        let sites = named.map(|sites| receiving(sites, &recipients));
        let sites = sites.transpose().map_err(at)?;
        if sites.as_ref().is_some_and(BTreeSet::is_empty) {
            // None of the sites that the bundle is for has it.
            kept.retain(|kept, _| kept.as_str() != name);
            continue;
        }
        let mut keep = |files: &BTreeMap<String, Vec<u8>>| -> Result<Vec<_>, AssembleError> {
            let one = |(path, bytes): (&String, &Vec<u8>)| {
                let path: RelativePath = path.parse().map_err(at)?;
                let (content, size) = spool.add(bytes)?;
                Ok(IndexFile {
                    path,
                    content,
                    size,
                    executable: false,
                })
            };
            files.iter().map(one).collect()
        };
        let files = keep(&rendered.files)?;
        let mut overlays = Vec::new();
        for overlay in &rendered.overlays {
            // A bundle for some sites carries nothing for others.
            let sites = receiving(&overlay.sites, &recipients).map_err(at)?;
            if !sites.is_empty() {
                overlays.push(Overlay {
                    sites,
                    config_version: overlay.config_version,
                    files: keep(&overlay.files)?,
                });
            }
        }
        let payload = payloads.remove(name).unwrap_or_default();
        candidates.extend(to_encode(name, &files, &overlays, &payload));
        listed.push(Assignment {
            name: name.parse::<Name>().map_err(at)?,
            workload: rendered.workload.clone(),
            workspace: rendered.workspace.clone(),
            policies: rendered.policies.clone(),
            sites,
            config_version: rendered.config_version,
            files,
            payload,
            overlays,
            site_values: rendered.site_values.clone(),
            bootstrap: match rendered.bootstrap.as_deref() {
                Some(kind) => Some(kind.parse().map_err(at)?),
                None => None,
            },
        });
    }
    candidates.extend(served.contents().map(|content| ContentToEncode {
        digest: content.digest,
        size: content.size,
        path: format!("served/{}", content.digest.hex()),
    }));
    let programs = agent.iter().flat_map(|agent| &agent.programs);
    candidates.extend(programs.map(|(architecture, content)| ContentToEncode {
        digest: content.digest,
        size: content.size,
        path: format!("agent/{architecture}/outhaul-agent"),
    }));
    let blobs = encode_all(&candidates, &mut spool)?;
    let index = Index {
        format: format_of(&listed, &served, waves.as_ref(), agent.as_ref()).to_owned(),
        fleet: fleet.parse().map_err(|source| AssembleError::Name {
            assignment: fleet.to_owned(),
            source,
        })?,
        stream,
        number,
        requires: None,
        snapshot,
        reconciler,
        recipients,
        waves,
        agent,
        assignments: listed,
        served,
        kept,
        orders,
        attestations: Vec::new(),
        blobs,
    };
    let index_bytes = index.to_bytes();
    // What a site would refuse must not leave the centre.
    Index::from_bytes(&index_bytes, &Limits::default())?;
    Ok(UnsignedBundle {
        index,
        index_bytes,
        spool,
    })
}

/// Those of `sites` that a bundle for `recipients` goes to; one for none goes to all.
fn receiving<'a>(
    sites: impl IntoIterator<Item = &'a String>,
    recipients: &BTreeSet<Name>,
) -> Result<BTreeSet<Name>, NameError> {
    let names = sites.into_iter().map(|site| site.parse::<Name>());
    let mut names: BTreeSet<Name> = names.collect::<Result<_, _>>()?;
    names.retain(|name| recipients.is_empty() || recipients.contains(name));
    Ok(names)
}

/// The contents of one assignment, named by where they belong.
fn to_encode(
    name: &str,
    files: &[IndexFile],
    overlays: &[Overlay],
    payload: &[IndexFile],
) -> Vec<ContentToEncode> {
    let own = overlays.iter().flat_map(|overlay| &overlay.files);
    let files = files.iter().map(|file| ("files", file));
    let all = files
        .chain(own.map(|file| ("sites", file)))
        .chain(payload.iter().map(|file| ("payload", file)));
    all.map(|(folder, file)| ContentToEncode {
        digest: file.content,
        size: file.size,
        path: format!("{name}/{folder}/{}", file.path),
    })
    .collect()
}

/// Encodes what was not encoded before, on every processor: what one thread of zstd does alone, several at once.
fn encode_all(
    candidates: &[ContentToEncode],
    spool: &mut Spool,
) -> Result<Vec<Blob>, AssembleError> {
    let plans = encode::plan_blobs(candidates);
    let mut blobs = Vec::with_capacity(plans.len());
    let mut left = Vec::new();
    for (at, plan) in plans.into_iter().enumerate() {
        if let Some(blob) = spool.encoded(&plan)? {
            blobs.push((at, blob));
        } else if let Some(blob) = as_it_is(&plan, spool)? {
            blobs.push((at, blob));
        } else {
            left.push((at, plan));
        }
    }
    for (at, blob, path) in encode_new(left, spool)? {
        spool.keep_blob(blob.clone(), path);
        blobs.push((at, blob));
    }
    blobs.sort_unstable_by_key(|(at, _)| *at);
    Ok(blobs.into_iter().map(|(_, blob)| blob).collect())
}

/// The blob of a content that is stored as it is: it lies where the content lies.
fn as_it_is(plan: &BlobPlan, spool: &mut Spool) -> Result<Option<Blob>, AssembleError> {
    let [content] = plan.contents.as_slice() else {
        return Ok(None);
    };
    let is_stored = match plan.encoding {
        Encoding::Identity => true,
        Encoding::Zstd => spool.is_compressed(&plan.contents)?,
        Encoding::Pack => false,
    };
    let Some(path) = spool.file_of(content).filter(|_| is_stored) else {
        return Ok(None);
    };
    let blob = Blob {
        digest: content.digest,
        size: content.size,
        encoding: Encoding::Identity,
        contents: plan.contents.clone(),
        sealed: None,
    };
    spool.keep_blob(blob.clone(), path);
    Ok(Some(blob))
}

type Encoded = (usize, Blob, PathBuf);

fn encode_new(plans: Vec<(usize, BlobPlan)>, spool: &Spool) -> Result<Vec<Encoded>, AssembleError> {
    let bytes = |plan: &BlobPlan| plan.contents.iter().map(|one| one.size).sum::<u64>();
    let total = plans.iter().map(|(_, plan)| bytes(plan)).sum();
    let meter = Meter::new("packing", Unit::Bytes, Some(total));
    let (small, large): (Vec<_>, Vec<_>) = plans
        .into_iter()
        .partition(|(_, plan)| bytes(plan) <= encode::MAX_JOB_BYTES);
    let contents = spool.contents();
    let one = |(at, plan): &(usize, BlobPlan), workers: u32| -> Result<Encoded, AssembleError> {
        let path = spool_path(contents.folder(), *at);
        let out = File::create(&path).map_err(|source| SpoolError::at(&path, source))?;
        let mut source = CountedContents(contents, &meter);
        let out = BufWriter::new(out);
        let (blob, _) = encode::encode_blob_with(plan, &mut source, out, workers)?;
        let kept = contents
            .folder()
            .join(format!("blob-{}", blob.digest.hex()));
        std::fs::rename(&path, &kept).map_err(|source| SpoolError::at(&kept, source))?;
        Ok((*at, blob, kept))
    };
    let next = AtomicUsize::new(0);
    let work = || {
        let mut made = Vec::new();
        while let Some(plan) = small.get(next.fetch_add(1, Ordering::Relaxed)) {
            made.push(one(plan, 1)?);
        }
        Ok::<_, AssembleError>(made)
    };
    let workers = encode::workers();
    let mut all = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let mut all = Vec::new();
        for thread in threads {
            let made = thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            all.extend(made?);
        }
        Ok::<_, AssembleError>(all)
    })?;
    for plan in &large {
        all.push(one(plan, workers)?);
    }
    Ok(all)
}

fn spool_path(folder: &Path, at: usize) -> PathBuf {
    folder.join(format!("blob-being-encoded-{at}"))
}

impl BlobSource for UnsignedBundle {
    fn open(&mut self, blob: &Blob) -> io::Result<Box<dyn Read + '_>> {
        self.spool.open_blob(blob).map_err(io::Error::other)
    }
}
