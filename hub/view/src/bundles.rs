//! Bundles on record, by stream, the newest first: how large each is, and where its sites stand.
//!
//! What comes in: the store, which streams are asked for, from which place on, and the time. What goes out: plain rows for the page
//! and the API. Each part is read with a bound. It decides nothing.

use std::collections::BTreeMap;

use outhaul_bundle::Digest;
use outhaul_bundle::hub_api::{BundleRow, BundleSites, BundleSizes};
use outhaul_gate::time;
use outhaul_store::{
    BundleOfStream, BundleOnRecord, BundlePlace, Session, StoreError, StreamOnRecord, StreamSites,
};
use serde::Serialize;

use crate::contents::{held, new_bytes};
use crate::indexes::{FOR_A_LIST_BYTES, Indexes};

/// Streams on one page, and bundles of each.
const STREAMS_SHOWN: usize = 20;
const NEWEST_SHOWN: usize = 3;
/// Bundles on the page of one stream.
const BUNDLES_SHOWN: usize = 50;
/// Bundles of one stream that a list reads at once.
const ROWS_AT_ONCE: usize = 200;

/// What is asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct BundlesWanted {
    /// The environment; empty for any.
    pub environment: String,
    /// The cluster type; empty for any.
    pub cluster_type: String,
    /// Of one stream: bundles below this number.
    pub before: Option<u64>,
    /// Of several: streams after this one, as `environment/cluster type`.
    pub after: String,
}

/// One stream of a page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StreamBundles {
    /// Its environment.
    pub environment: String,
    /// Its cluster type.
    pub cluster_type: String,
    /// Its signing role.
    pub role: String,
    /// How many bundles of it are on record.
    pub bundles: u64,
    /// How many sites follow it.
    pub sites: u64,
    /// Some of them, the newest first.
    pub rows: Vec<BundleRow>,
    /// Below which number the next ones are.
    pub more: Option<u64>,
}

/// One page of bundles.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BundleList {
    /// What was asked for.
    pub wanted: BundlesWanted,
    /// The streams by environment and cluster type.
    pub streams: Vec<StreamBundles>,
    /// Whether the page is of one stream only.
    pub is_one: bool,
    /// After which stream the next page begins.
    pub next: Option<String>,
    /// How many streams are as asked for.
    pub matching: usize,
    /// The environments with bundles, by name.
    pub environments: Vec<String>,
    /// The cluster types with bundles, by name.
    pub cluster_types: Vec<String>,
    /// When this was read, RFC 3339.
    pub read_at: String,
}

impl BundleList {
    /// Reads one page.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn of(
        session: &Session<'_>,
        wanted: BundlesWanted,
        now_ms: i64,
    ) -> Result<Self, StoreError> {
        let all = session.streams_on_record()?;
        let names = |of: fn(&StreamOnRecord) -> &String| {
            let mut names: Vec<String> = all.iter().map(|one| of(one).clone()).collect();
            names.sort();
            names.dedup();
            names
        };
        let (environments, cluster_types) = (
            names(|one| &one.environment),
            names(|one| &one.cluster_type),
        );
        let matching: Vec<&StreamOnRecord> = all
            .iter()
            .filter(|one| is_wanted(one, &wanted.environment, &wanted.cluster_type))
            .collect();
        let is_one = matching.len() == 1 && !wanted.environment.is_empty();
        let each = if is_one { BUNDLES_SHOWN } else { NEWEST_SHOWN };
        // Names have no `/`.
        let after = wanted.after.split_once('/');
        let later = matching.iter().filter(|one| {
            after.is_none_or(|after| (&*one.environment, &*one.cluster_type) > after)
        });
        let mut indexes = Indexes::new(session, FOR_A_LIST_BYTES);
        let mut streams = Vec::new();
        for one in later.clone().take(STREAMS_SHOWN) {
            let below = match is_one {
                true => wanted.before.unwrap_or(u64::MAX),
                false => u64::MAX,
            };
            streams.push(stream(session, &mut indexes, one, (below, each))?);
        }
        let more = later.count() > STREAMS_SHOWN;
        let last = streams
            .last()
            .map(|one| format!("{}/{}", one.environment, one.cluster_type));
        Ok(Self {
            is_one,
            next: last.filter(|_| more),
            matching: matching.len(),
            streams,
            environments,
            cluster_types,
            read_at: time::rfc3339(now_ms),
            wanted,
        })
    }
}

fn is_wanted(one: &StreamOnRecord, environment: &str, cluster_type: &str) -> bool {
    (environment.is_empty() || one.environment == environment)
        && (cluster_type.is_empty() || one.cluster_type == cluster_type)
}

fn stream(
    session: &Session<'_>,
    indexes: &mut Indexes<'_, '_>,
    one: &StreamOnRecord,
    (below, shown): (u64, usize),
) -> Result<StreamBundles, StoreError> {
    // One more than is shown: the last one is compared with it.
    let bundles = session.bundles_below(&one.role, below, shown + 1)?;
    let sites = session.sites_of_stream(&one.role)?;
    let rows = rows(session, indexes, (&bundles, shown), &sites)?;
    Ok(StreamBundles {
        environment: one.environment.clone(),
        cluster_type: one.cluster_type.clone(),
        role: one.role.clone(),
        bundles: one.bundles,
        sites: sites.iter().map(|alike| alike.sites).sum(),
        more: rows
            .last()
            .filter(|_| bundles.len() > shown)
            .map(|last| last.number),
        rows,
    })
}

/// Part of the list of all bundles, by environment, cluster type and number, the newest first of each stream; and whether
/// there are more.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn bundle_rows(
    session: &Session<'_>,
    (environment, cluster_type): (&str, &str),
    (offset, limit): (usize, usize),
) -> Result<(Vec<BundleRow>, bool), StoreError> {
    let mut skip = offset;
    let mut found: Vec<BundleRow> = Vec::new();
    let mut indexes = Indexes::new(session, FOR_A_LIST_BYTES);
    for one in session.streams_on_record()? {
        if !is_wanted(&one, environment, cluster_type) {
            continue;
        }
        let count = usize::try_from(one.bundles).unwrap_or(usize::MAX);
        if skip >= count {
            skip -= count;
            continue;
        }
        let sites = session.sites_of_stream(&one.role)?;
        let mut below = match skip {
            0 => u64::MAX,
            skip => session
                .nth_newest_bundle(&one.role, skip)?
                .map_or(0, |number| number.saturating_add(1)),
        };
        skip = 0;
        loop {
            if found.len() >= limit {
                return Ok((found, true));
            }
            let shown = ROWS_AT_ONCE.min(limit - found.len());
            let bundles = session.bundles_below(&one.role, below, shown + 1)?;
            found.extend(rows(session, &mut indexes, (&bundles, shown), &sites)?);
            match bundles.get(shown - 1).filter(|_| bundles.len() > shown) {
                Some(last) => below = last.number,
                None => break,
            }
        }
    }
    Ok((found, false))
}

/// Rows of bundles of one stream, the newest first; those after the first `shown` are there to be compared with.
pub(crate) fn rows(
    session: &Session<'_>,
    indexes: &mut Indexes<'_, '_>,
    (bundles, shown): (&[BundleOnRecord], usize),
    sites: &[StreamSites],
) -> Result<Vec<BundleRow>, StoreError> {
    let mut rows = Vec::new();
    let mut read: Option<IndexSizes> = None;
    for (at, bundle) in bundles.iter().enumerate().take(shown) {
        let now = match read.take() {
            Some(read) => read,
            None => IndexSizes::of(indexes, bundle)?,
        };
        let before = match bundles.get(at + 1) {
            Some(before) => Some((before.number, IndexSizes::of(indexes, before)?)),
            None => None,
        };
        let places = session.places_of_bundle(of_stream(bundle), sites)?;
        let earlier = before.as_ref().map(|(number, read)| (*number, read));
        rows.push(row(bundle, &now, earlier, count_sites(&places)));
        read = before.map(|(_, read)| read);
    }
    Ok(rows)
}

/// What of an index gives sizes.
#[derive(Debug)]
pub(crate) struct IndexSizes(Result<Sizes, String>);

#[derive(Debug)]
struct Sizes {
    held: BTreeMap<Digest, u64>,
    carried_bytes: u64,
    requires: Option<u64>,
    is_sealed: bool,
}

impl IndexSizes {
    fn of(indexes: &mut Indexes<'_, '_>, bundle: &BundleOnRecord) -> Result<Self, StoreError> {
        Ok(Self::from(&indexes.of(bundle)?))
    }
}

impl From<&crate::indexes::IndexResult> for IndexSizes {
    fn from(known: &crate::indexes::IndexResult) -> Self {
        Self(known.as_ref().map_err(Clone::clone).map(|index| Sizes {
            held: held(index),
            carried_bytes: index.carried_bytes(),
            requires: index.requires,
            is_sealed: index.blobs.iter().any(|blob| blob.sealed.is_some()),
        }))
    }
}

/// One row; `before` is the bundle before on record.
pub(crate) fn row(
    bundle: &BundleOnRecord,
    now: &IndexSizes,
    before: Option<(u64, &IndexSizes)>,
    sites: BundleSites,
) -> BundleRow {
    let mut unknown = None;
    let sizes = match &now.0 {
        Err(why) => {
            unknown = Some(why.clone());
            None
        }
        Ok(now) => {
            let new_bytes = match before {
                Some((_, IndexSizes(Ok(before)))) => Some(new_bytes(&now.held, Some(&before.held))),
                Some((_, IndexSizes(Err(why)))) => {
                    unknown = Some(why.clone());
                    None
                }
                None if bundle.number == 1 => Some(new_bytes(&now.held, None)),
                None => {
                    unknown = Some("no earlier bundle of its stream is on record".to_owned());
                    None
                }
            };
            Some(BundleSizes {
                carried_bytes: now.carried_bytes,
                held_bytes: now
                    .held
                    .values()
                    .fold(0, |sum, size| sum.saturating_add(*size)),
                new_bytes,
                compared_with: before.map(|(number, _)| number),
                requires: now.requires,
                is_sealed: now.is_sealed,
            })
        }
    };
    BundleRow {
        environment: bundle.environment.clone(),
        cluster_type: bundle.cluster_type.clone(),
        role: bundle.role.clone(),
        number: bundle.number,
        base_commit: bundle.snapshot.base.commit.clone(),
        index: bundle.index.clone(),
        issued_at: time::rfc3339(bundle.issued_ms),
        received_at: time::rfc3339(bundle.received_ms),
        expires_at: time::rfc3339(bundle.expires_ms),
        taken_back: bundle.taken_back,
        recipients: bundle.recipients.len() as u64,
        assignments: bundle.assignments,
        sizes,
        unknown,
        sites,
    }
}

/// A bundle as its sites are asked for.
pub(crate) fn of_stream(bundle: &BundleOnRecord) -> BundleOfStream<'_> {
    BundleOfStream {
        role: &bundle.role,
        number: bundle.number,
        index: &bundle.index,
        recipients: &bundle.recipients,
    }
}

pub(crate) fn count_sites(places: &BTreeMap<BundlePlace, u64>) -> BundleSites {
    let at = |place| places.get(&place).copied().unwrap_or(0);
    BundleSites {
        all: places.values().sum(),
        runs: at(BundlePlace::Runs),
        took: at(BundlePlace::Took),
        not_taken: at(BundlePlace::NotTaken),
        other_content: at(BundlePlace::OtherContent),
        beyond: at(BundlePlace::Beyond),
        behind: at(BundlePlace::Behind),
        never: at(BundlePlace::Never),
    }
}
