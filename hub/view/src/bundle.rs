//! One bundle: what travelled, what changed against the one before, and the sites at each place.
//!
//! What comes in: the store, a stream and a number, which sites, and the time. What goes out: plain values for the page. It has digests and
//! sizes, no content of a file; lists are bounded, and what is left out is counted.

use outhaul_bundle::hub_api::BundleRow;
use outhaul_bundle::index::{Blob, Encoding, Source};
use outhaul_bundle::{Digest, Index, Instruction};
use outhaul_gate::time;
use outhaul_store::{BundleOnRecord, BundlePlace, DesiredAssignment, Session, StoreError};
use serde::Serialize;

use crate::bundles::{IndexSizes, count_sites, of_stream, row};
use crate::contents::{BundleChanges, FileRow, changes, digest_of, files, shown};
use crate::indexes::{FOR_ONE_BYTES, IndexResult, Indexes};

/// Assignments, files of all of them, and of anything else that are listed.
const ASSIGNMENTS_SHOWN: usize = 200;
const FILES_SHOWN: usize = 1_000;
const OTHERS_SHOWN: usize = 200;
/// Policies of one assignment, and refs of one repository.
const POLICIES_SHOWN: usize = 10;
const REFS_SHOWN: usize = 50;
/// Sites on one page.
const SITES_SHOWN: usize = 100;

/// One bundle.
#[derive(Debug, Clone, Serialize)]
pub struct BundleView {
    /// As in the list.
    pub row: BundleRow,
    /// The reconciler's kind.
    pub reconciler: String,
    /// Size of its index, in bytes.
    pub index_size: u64,
    /// What it was rendered from: the environment, the base, the workloads, as many as are shown.
    pub sources: Vec<Source>,
    /// How many more workloads there are.
    pub more_sources: usize,
    /// The sites that it is for, as many as are shown; empty for every site of the stream.
    pub recipients: Vec<String>,
    /// Number of the bundle before on record.
    pub before: Option<u64>,
    /// Number of the bundle after on record.
    pub after: Option<u64>,
    /// Whether its signature has expired by the hub's clock.
    pub expired: bool,
    /// What is in it, by its index.
    pub contents: Option<BundleContents>,
    /// What differs from the bundle before.
    pub changes: Option<BundleChanges>,
    /// Why that is not known.
    pub changes_unknown: Option<String>,
    /// Its assignments, by name, as many as are shown.
    pub assignments: Vec<BundleAssignment>,
    /// Which sites are listed.
    pub place: &'static str,
    /// Those, by name.
    pub sites: Vec<SiteAtBundle>,
    /// The name that they begin after.
    pub sites_after: String,
    /// After which name the next page begins.
    pub next: Option<String>,
    /// When this was read, RFC 3339.
    pub read_at: String,
}

/// What is in a bundle besides its assignments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BundleContents {
    /// Blobs by how they are stored: the word, how many, bytes as they travel, contents.
    pub blobs: Vec<(&'static str, usize, u64, usize)>,
    /// For whom blobs are encrypted: the readers of each kind of seal, and how many blobs; as many as are shown.
    pub sealed: Vec<(String, usize)>,
    /// How many more kinds of seal there are.
    pub more_sealed: usize,
    /// Blobs that nobody needs a key for.
    pub open_blobs: usize,
    /// Images and other artifacts: name, digest of the manifest, bytes.
    pub images: Vec<(String, String, u64)>,
    /// How many more there are.
    pub more_images: usize,
    /// Git repositories: URL, refs, bytes of the pack, how many more refs there are.
    pub repositories: Vec<(String, Vec<String>, u64, usize)>,
    /// How many more there are.
    pub more_repositories: usize,
    /// Statements about the bundle, as many as are shown.
    pub attestations: Vec<FileRow>,
    /// How many more there are.
    pub more_attestations: usize,
    /// Version of the agent that it brings, and for which architectures.
    pub agent: Option<(String, Vec<String>)>,
    /// Orders to single sites: site, number, what.
    pub orders: Vec<(String, u64, String)>,
    /// How many more there are.
    pub more_orders: usize,
    /// Assignments that stayed as they were because they are broken in the snapshot, as many as are shown.
    pub kept: Vec<String>,
    /// How many more there are.
    pub more_kept: usize,
    /// Whether sites take it in waves.
    pub in_waves: bool,
}

/// One assignment of a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BundleAssignment {
    /// Its name.
    pub name: String,
    /// The workload.
    pub workload: String,
    /// The workspace.
    pub workspace: String,
    /// The policies that put it there, as many as are shown.
    pub policies: Vec<String>,
    /// How many more there are.
    pub more_policies: usize,
    /// Digest of its config.
    pub config: String,
    /// Digest of the paths and contents of all its files; absent without an index.
    pub content: Option<String>,
    /// How many sites it is for; 0 for every site.
    pub sites: usize,
    /// How many sites have a config that is theirs.
    pub own: usize,
    /// Its files, as many as are shown.
    pub files: Vec<FileRow>,
    /// How many more there are.
    pub more: usize,
}

/// A site at a place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SiteAtBundle {
    /// Its name.
    pub site: String,
    /// The bundle of this stream that it runs.
    pub running: Option<u64>,
    /// The newer one which it reported last, and how far that came.
    pub attempt: Option<(u64, String)>,
    /// When its newest report was received, RFC 3339.
    pub last_seen: Option<String>,
}

/// Which bundle, and which of its sites.
#[derive(Debug, Clone, Copy)]
pub struct BundleAsked<'a> {
    /// Its environment.
    pub environment: &'a str,
    /// Its cluster type.
    pub cluster_type: &'a str,
    /// Its number.
    pub number: u64,
    /// The place of which sites are listed; those that run it without one.
    pub place: Option<BundlePlace>,
    /// Sites after this name.
    pub after: &'a str,
}

impl BundleView {
    /// Reads one bundle; `None` where none of this number is on record.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn of(
        session: &Session<'_>,
        asked: &BundleAsked<'_>,
        now_ms: i64,
    ) -> Result<Option<Self>, StoreError> {
        let mut found = None;
        for stream in session.streams_on_record()? {
            if stream.environment == asked.environment && stream.cluster_type == asked.cluster_type
            {
                found = session.bundle_on_record(&stream.role, asked.number)?;
            }
            if found.is_some() {
                break;
            }
        }
        match found {
            Some(bundle) => Self::read(session, &bundle, asked, now_ms).map(Some),
            None => Ok(None),
        }
    }

    fn read(
        session: &Session<'_>,
        bundle: &BundleOnRecord,
        asked: &BundleAsked<'_>,
        now_ms: i64,
    ) -> Result<Self, StoreError> {
        let mut indexes = Indexes::new(session, FOR_ONE_BYTES);
        let now = indexes.of(bundle)?;
        let earlier = session.bundles_below(&bundle.role, bundle.number, 1)?.pop();
        let before = match &earlier {
            Some(earlier) => Some((earlier.number, indexes.of(earlier)?)),
            None => None,
        };
        let (changes, changes_unknown) = compared(&now, before.as_ref());
        let stream = session.sites_of_stream(&bundle.role)?;
        let places = session.places_of_bundle(of_stream(bundle), &stream)?;
        let first = |place: &BundlePlace| places.get(place).is_some_and(|count| *count > 0);
        let place = asked
            .place
            .or_else(|| BundlePlace::ALL.into_iter().find(first))
            .unwrap_or(BundlePlace::Runs);
        let mut sites = session.sites_at(of_stream(bundle), place, asked.after, SITES_SHOWN + 1)?;
        let more = sites.len() > SITES_SHOWN;
        sites.truncate(SITES_SHOWN);
        let sizes = before
            .as_ref()
            .map(|(number, known)| (*number, IndexSizes::from(known)));
        let sizes = sizes.as_ref().map(|(number, read)| (*number, read));
        Ok(Self {
            row: row(bundle, &IndexSizes::from(&now), sizes, count_sites(&places)),
            reconciler: bundle.reconciler.clone(),
            index_size: bundle.index_size,
            sources: sources(bundle),
            more_sources: bundle.snapshot.workloads.len().saturating_sub(OTHERS_SHOWN),
            recipients: bundle
                .recipients
                .iter()
                .take(OTHERS_SHOWN)
                .cloned()
                .collect(),
            before: earlier.map(|earlier| earlier.number),
            after: session.next_bundle(&bundle.role, bundle.number)?,
            expired: bundle.expires_ms <= now_ms,
            contents: now.as_ref().ok().map(|index| contents(index)),
            changes,
            changes_unknown,
            assignments: match &now {
                Ok(index) => assignments(index),
                Err(_) => recorded(&session.first_bundle_assignments(
                    &bundle.role,
                    bundle.number,
                    ASSIGNMENTS_SHOWN,
                )?),
            },
            place: place.as_str(),
            next: sites.last().filter(|_| more).map(|last| last.site.clone()),
            sites: sites
                .into_iter()
                .map(|site| SiteAtBundle {
                    site: site.site,
                    running: (site.running > 0).then_some(site.running),
                    attempt: (site.attempt > 0).then_some((site.attempt, site.attempt_state)),
                    last_seen: site.received_ms.map(time::rfc3339),
                })
                .collect(),
            sites_after: asked.after.to_owned(),
            read_at: time::rfc3339(now_ms),
        })
    }
}

fn sources(bundle: &BundleOnRecord) -> Vec<Source> {
    let snapshot = &bundle.snapshot;
    let first = [snapshot.base.clone(), snapshot.environment.clone()];
    let workloads = snapshot.workloads.iter().take(OTHERS_SHOWN).cloned();
    let cut = |one: Source| Source {
        name: shown(&one.name),
        repo: shown(&one.repo),
        commit: shown(&one.commit),
    };
    first.into_iter().chain(workloads).map(cut).collect()
}

fn compared(
    now: &IndexResult,
    before: Option<&(u64, IndexResult)>,
) -> (Option<BundleChanges>, Option<String>) {
    match (now, before) {
        (Err(why), _) | (_, Some((_, Err(why)))) => (None, Some(why.clone())),
        (Ok(_), None) => (None, None),
        (Ok(now), Some((_, Ok(before)))) => (Some(changes(before, now)), None),
    }
}

fn assignments(index: &Index) -> Vec<BundleAssignment> {
    let mut left = FILES_SHOWN;
    let of = |one: &outhaul_bundle::index::Assignment| {
        let mut rows = files(one);
        let content = digest_of(&rows);
        let listed = rows.len().min(left);
        left -= listed;
        let more = rows.len() - listed;
        rows.truncate(listed);
        BundleAssignment {
            name: one.name.to_string(),
            workload: shown(&one.workload),
            workspace: shown(&one.workspace),
            policies: first_of(&one.policies),
            more_policies: one.policies.len().saturating_sub(POLICIES_SHOWN),
            config: one.config_version.to_string(),
            content: Some(content),
            sites: one
                .sites
                .as_ref()
                .map_or(0, std::collections::BTreeSet::len),
            own: one.overlays.iter().map(|overlay| overlay.sites.len()).sum(),
            files: rows,
            more,
        }
    };
    index
        .assignments
        .iter()
        .take(ASSIGNMENTS_SHOWN)
        .map(of)
        .collect()
}

fn first_of(policies: &[String]) -> Vec<String> {
    let some = policies.iter().take(POLICIES_SHOWN);
    some.map(|policy| shown(policy)).collect()
}

/// The same of what the store has without an index.
fn recorded(all: &[DesiredAssignment]) -> Vec<BundleAssignment> {
    let of = |one: &DesiredAssignment| BundleAssignment {
        name: one.assignment.clone(),
        workload: shown(&one.workload),
        workspace: shown(&one.workspace),
        policies: first_of(&one.policies),
        more_policies: one.policies.len().saturating_sub(POLICIES_SHOWN),
        config: one.config_version.clone(),
        content: None,
        sites: one
            .sites
            .as_ref()
            .map_or(0, std::collections::BTreeSet::len),
        own: one.own.len(),
        files: Vec::new(),
        more: 0,
    };
    all.iter().map(of).collect()
}

fn contents(index: &Index) -> BundleContents {
    let served = &index.served;
    let stored = |word, encoding: Encoding| {
        let blobs: Vec<&Blob> = index
            .blobs
            .iter()
            .filter(|blob| blob.encoding == encoding)
            .collect();
        let bytes = blobs
            .iter()
            .fold(0_u64, |sum, blob| sum.saturating_add(blob.size));
        let contents = blobs.iter().map(|blob| blob.contents.len()).sum();
        (word, blobs.len(), bytes, contents)
    };
    let mut sealed: std::collections::BTreeMap<String, usize> = std::collections::BTreeMap::new();
    for seal in index.blobs.iter().filter_map(|blob| blob.sealed.as_ref()) {
        *sealed.entry(seal.readers()).or_default() += 1;
    }
    let closed: usize = sealed.values().sum();
    let attestations = index.attestations.iter().map(|file| FileRow {
        part: String::new(),
        path: file.path.to_string(),
        size: file.size,
        digest: file.content.to_string(),
        executable: file.executable,
    });
    let image = |one: &outhaul_bundle::index::served::Image| {
        let bytes = one
            .blobs
            .iter()
            .fold(one.manifest.size, |sum, blob| sum.saturating_add(blob.size));
        (shown(&one.name), digest(&one.manifest.digest), bytes)
    };
    let mut refs_left = FILES_SHOWN;
    let repository = |one: &outhaul_bundle::index::served::Repository| {
        let refs = one.refs.iter().take(refs_left.min(REFS_SHOWN));
        let refs: Vec<String> = refs
            .map(|(name, id)| format!("`{}` at `{}`", shown(name), shown(id)))
            .collect();
        refs_left -= refs.len();
        let more = one.refs.len() - refs.len();
        (shown(&one.url), refs, one.pack.size, more)
    };
    let order =
        |one: &outhaul_bundle::Order| (one.site.to_string(), one.number, instruction(&one.what));
    BundleContents {
        blobs: [
            stored("pack", Encoding::Pack),
            stored("zstd", Encoding::Zstd),
            stored("as it is", Encoding::Identity),
        ]
        .into_iter()
        .filter(|(_, count, _, _)| *count > 0)
        .collect(),
        open_blobs: index.blobs.len() - closed,
        more_sealed: sealed.len().saturating_sub(OTHERS_SHOWN),
        sealed: sealed.into_iter().take(OTHERS_SHOWN).collect(),
        images: served.images.iter().take(OTHERS_SHOWN).map(image).collect(),
        more_images: served.images.len().saturating_sub(OTHERS_SHOWN),
        repositories: served
            .repositories
            .iter()
            .take(OTHERS_SHOWN)
            .map(repository)
            .collect(),
        more_repositories: served.repositories.len().saturating_sub(OTHERS_SHOWN),
        attestations: attestations.take(OTHERS_SHOWN).collect(),
        more_attestations: index.attestations.len().saturating_sub(OTHERS_SHOWN),
        agent: index.agent.as_ref().map(|agent| {
            let programs = agent.programs.keys().take(POLICIES_SHOWN);
            (
                shown(&agent.version),
                programs.map(|name| shown(name)).collect(),
            )
        }),
        orders: index.orders.iter().take(OTHERS_SHOWN).map(order).collect(),
        more_orders: index.orders.len().saturating_sub(OTHERS_SHOWN),
        kept: index
            .kept
            .keys()
            .take(OTHERS_SHOWN)
            .map(ToString::to_string)
            .collect(),
        more_kept: index.kept.len().saturating_sub(OTHERS_SHOWN),
        in_waves: index.waves.is_some(),
    }
}

fn digest(digest: &Digest) -> String {
    digest.to_string()
}

fn instruction(what: &Instruction) -> String {
    match what {
        Instruction::Move { to, first } => format!(
            "move to {} / {}, from its bundle {first} on",
            to.environment, to.cluster_type
        ),
        other => other.as_str().to_owned(),
    }
}
