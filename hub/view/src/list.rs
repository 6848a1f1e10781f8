//! Sites that were looked for, one page of them.
//!
//! What comes in: what is looked for, from which name on, and the time. What goes out: rows as the API has them, and where
//! the next page begins. The store is read a few hundred sites at a time, and no more than a bounded number for one page.

use std::collections::BTreeSet;

use serde::Serialize;

use super::{Reading, SiteRow};
use outhaul_gate::time;
use outhaul_store::{Session, SiteFilter, SitePage, StoreError};

/// Sites on one page.
pub const SITES_SHOWN: usize = 100;
/// Sites read at once where a state is looked for, and how many for one page.
const READ_AT_ONCE: u64 = 500;
const LOOKED_THROUGH: usize = 5_000;

/// What is looked for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct SiteSearch {
    /// Part of the name.
    pub q: String,
    /// The environment; empty for any.
    pub environment: String,
    /// The cluster type; empty for any.
    pub cluster_type: String,
    /// The word for the row, or `attention` for each that needs some; empty for any.
    pub state: String,
    /// Sites after this name.
    pub after: String,
}

/// The words that a site is looked for by.
pub const STATES: [&str; 15] = [
    "attention",
    "behind",
    "busy",
    "conflict",
    "drifted",
    "failed",
    "future-dated",
    "never",
    "ok",
    "other-content",
    "rejected",
    "reverted",
    "revoked",
    "stale",
    "unknown",
];

/// One page of sites.
#[derive(Debug, Clone, Serialize)]
pub struct SiteList {
    /// What was looked for.
    pub wanted: SiteSearch,
    /// The sites by name.
    pub sites: Vec<SiteRow>,
    /// After which name the next page begins; `None` where nothing more is.
    pub next: Option<String>,
    /// How many sites were looked through for this page.
    pub looked_through: usize,
    /// How many are registered, revoked ones included.
    pub registered: u64,
    /// The environments of sites, by name.
    pub environments: Vec<String>,
    /// The cluster types, by name.
    pub cluster_types: Vec<String>,
    /// When this was read, RFC 3339.
    pub read_at: String,
}

impl SiteList {
    /// Reads one page.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn of(session: &Session<'_>, wanted: SiteSearch, now_ms: i64) -> Result<Self, StoreError> {
        let some = |text: &'_ str| (!text.is_empty()).then(|| text.to_owned());
        let (environment, cluster_type) = (some(&wanted.environment), some(&wanted.cluster_type));
        let at_once = match wanted.state.is_empty() {
            true => SITES_SHOWN as u64 + 1,
            false => READ_AT_ONCE,
        };
        let mut sites: Vec<SiteRow> = Vec::new();
        let mut after = wanted.after.clone();
        let mut looked_through = 0;
        let next = loop {
            let page = SitePage {
                after: &after,
                limit: at_once,
                only: SiteFilter {
                    named: &wanted.q,
                    environment: environment.as_deref(),
                    cluster_type: cluster_type.as_deref(),
                },
                ..SitePage::ALL
            };
            let reading = Reading::of(session, page, now_ms)?;
            let Some(last) = reading.sites.last().map(|site| site.site.clone()) else {
                break None;
            };
            let read = reading.sites.len();
            looked_through += read;
            let rows = reading.site_rows(now_ms);
            sites.extend(rows.into_iter().filter(|row| is_wanted(row, &wanted.state)));
            if sites.len() > SITES_SHOWN {
                sites.truncate(SITES_SHOWN);
                break sites.last().map(|row| row.site.clone());
            }
            if (read as u64) < at_once {
                break None;
            }
            if looked_through >= LOOKED_THROUGH {
                break Some(last);
            }
            after = last;
        };
        let streams = session.streams_of_sites()?;
        let mut environments: Vec<String> = streams.iter().map(|(one, _)| one.clone()).collect();
        environments.dedup();
        let mut cluster_types: Vec<String> = streams.into_iter().map(|(_, one)| one).collect();
        cluster_types.sort();
        cluster_types.dedup();
        Ok(Self {
            sites,
            next,
            looked_through,
            registered: session.count_sites()?,
            environments,
            cluster_types,
            read_at: time::rfc3339(now_ms),
            wanted,
        })
    }
}

/// A name that a list is asked for by and that nothing has: not a list that happens to be empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownName {
    /// What it would be the name of: `environment` or `cluster_type`.
    pub what: &'static str,
    /// The name.
    pub name: String,
    /// Those that exist.
    pub known: Vec<String>,
}

/// Whether no site and no bundle has a name that a list is asked for by; an empty name asks for any.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn unknown_name(
    session: &Session<'_>,
    (environment, cluster_type): (&str, &str),
) -> Result<Option<UnknownName>, StoreError> {
    if environment.is_empty() && cluster_type.is_empty() {
        return Ok(None);
    }
    let mut known = session.streams_of_sites()?;
    let on_record = session.streams_on_record()?.into_iter();
    known.extend(on_record.map(|one| (one.environment, one.cluster_type)));
    let (environments, types): (BTreeSet<String>, BTreeSet<String>) = known.into_iter().unzip();
    let mut asked = [
        ("environment", environment, environments),
        ("cluster_type", cluster_type, types),
    ]
    .into_iter();
    let unknown = asked.find(|(_, name, known)| !name.is_empty() && !known.contains(*name));
    Ok(unknown.map(|(what, name, known)| UnknownName {
        what,
        name: name.to_owned(),
        known: known.into_iter().collect(),
    }))
}

fn is_wanted(row: &SiteRow, state: &str) -> bool {
    match state {
        "" => true,
        "attention" => !matches!(row.verdict, "ok" | "busy" | "revoked"),
        state => row.verdict == state,
    }
}
