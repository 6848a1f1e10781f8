//! The carrier's list: which bundles go onto the stick, which sites it goes to, and what comes back from each.
//!
//! What comes in: one consistent reading of the store, and the time. What goes out: a [`CarrierList`]. Each site that is not
//! revoked is in it exactly once, as a stop or as left out with its reason. It reads nothing else, and never takes a site for
//! one that needs no visit because it did not report.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::rows::{BundleStatus, Connection};
use super::{Reading, SiteRow, newest_for};
use outhaul_gate::time;
use outhaul_store::{DesiredBundle, NETWORK, SiteState};

/// What a person with a stick takes along, where to, and what comes back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CarrierList {
    /// When this was read, RFC 3339.
    pub read_at: String,
    /// The bundles for the stick, by environment and cluster type.
    pub bundles: Vec<CarriedBundle>,
    /// The sites to go to: by environment and cluster type, those that need attention first.
    pub stops: Vec<Stop>,
    /// The sites that nothing has to be carried to or from, by name, with the reason.
    pub left_out: Vec<LeftOut>,
    /// Sites that were revoked; nobody goes there.
    pub revoked: usize,
}

/// One bundle for the stick.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CarriedBundle {
    /// The environment.
    pub environment: String,
    /// The cluster type.
    pub cluster_type: String,
    /// Its number.
    pub bundle: u64,
    /// Until when sites take its signature, RFC 3339.
    pub valid_until: String,
    /// Whether that time is over: sites with a trusted clock refuse it.
    pub expired: bool,
    /// How many stops it is for.
    pub sites: usize,
    /// The bundles that its stops run, where each of them runs one of the same stream: what all of these carry may be left out
    /// of a copy. Empty when a stop needs the whole bundle.
    pub since: BTreeSet<u64>,
}

/// One site to go to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Stop {
    /// Its name.
    pub site: String,
    /// The environment.
    pub environment: String,
    /// The cluster type.
    pub cluster_type: String,
    /// The word for its row in `sites`.
    pub verdict: &'static str,
    /// The bundle that it is brought; `None` when only something comes back.
    pub bundle: Option<u64>,
    /// The bundle that it runs, by its own report.
    pub runs: Option<u64>,
    /// When its newest report came, for people.
    pub last_seen: String,
    /// The reports on record end here: it brings those that follow.
    pub reports_after: u64,
    /// Earlier reports that never arrived, as first and last number: it brings them too.
    pub missing: Vec<(u64, u64)>,
    /// What to look at there, or to know before.
    pub notes: Vec<String>,
}

/// A site that nothing has to be carried to or from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// Its name.
    pub site: String,
    /// Why.
    pub reason: String,
}

impl Reading {
    /// The carrier's list of the sites that were read and that `is_asked` takes.
    pub fn carrying(&self, now_ms: i64, is_asked: impl Fn(&SiteRow) -> bool) -> CarrierList {
        let mut list = CarrierList {
            read_at: time::rfc3339(now_ms),
            bundles: Vec::new(),
            stops: Vec::new(),
            left_out: Vec::new(),
            revoked: 0,
        };
        let mut carried = BTreeMap::new();
        let mut order = Vec::new();
        for (state, row) in self.sites.iter().zip(self.site_rows(now_ms)) {
            if !is_asked(&row) {
                continue;
            }
            if row.connection == Connection::Revoked {
                list.revoked += 1;
                continue;
            }
            match purpose(state, &row) {
                Err(reason) => list.left_out.push(LeftOut {
                    site: row.site,
                    reason,
                }),
                Ok(takes_bundle) => {
                    let newest = newest_for(&self.bundles, state).filter(|_| takes_bundle);
                    if let Some(newest) = newest {
                        let key = (&newest.environment, &newest.cluster_type, newest.number);
                        let of = carried.entry(key).or_insert_with(|| (newest, Vec::new()));
                        of.1.push(base(state));
                    }
                    order.push((row.attention, stop(row, newest.map(|newest| newest.number))));
                }
            }
        }
        order.sort_by(|(a, one), (b, other)| {
            let key = |stop: &Stop| (stop.environment.clone(), stop.cluster_type.clone());
            (key(one), a, &one.site).cmp(&(key(other), b, &other.site))
        });
        list.stops = order.into_iter().map(|(_, stop)| stop).collect();
        list.bundles = carried
            .into_values()
            .map(|(newest, bases)| for_stick(newest, &bases, now_ms))
            .collect();
        list
    }
}

/// Whether a site is brought its newest bundle, or only something comes back; or why nobody has to go.
fn purpose(state: &SiteState, row: &SiteRow) -> Result<bool, String> {
    let is_connected = row.connection == Connection::Fresh && row.via.as_deref() == Some(NETWORK);
    if is_connected && state.conflict.is_none() {
        let stands = match row.bundle {
            BundleStatus::Current => String::new(),
            _ => format!("; `{}`", row.verdict),
        };
        return Err(format!(
            "reports over the network, last {}{stands}",
            row.last_seen_ago
        ));
    }
    match row.bundle {
        BundleStatus::Behind | BundleStatus::Never | BundleStatus::OtherContent => Ok(true),
        BundleStatus::Applying | BundleStatus::NotTaken => Ok(false),
        BundleStatus::Current | BundleStatus::Unknown
            if row.connection != Connection::Fresh
                || !row.missing.is_empty()
                || state.conflict.is_some()
                || row.verdict != "ok" && row.bundle == BundleStatus::Current
                || pending(row).next().is_some() =>
        {
            Ok(false)
        }
        BundleStatus::Current => Err(format!(
            "runs the newest bundle, and no report of it is missing; last contact {}",
            row.last_seen_ago
        )),
        BundleStatus::Unknown => Err(unknown(row)),
    }
}

/// The orders that it did not report of.
fn pending(row: &SiteRow) -> impl Iterator<Item = String> {
    let pending = row.orders.iter().filter(|order| order.status == "pending");
    pending.map(|order| order.what.clone())
}

/// What this hub does not know of a site's bundles.
fn unknown(row: &SiteRow) -> String {
    match (row.actual, row.desired) {
        (Some(actual), _) => format!(
            "runs bundle {actual}, which is not on record here: `outhaul-hub import` the bundles of its stream"
        ),
        (None, _) => {
            "no bundle for it is on record here: `outhaul-hub import` the bundles of its stream"
                .to_owned()
        }
    }
}

/// The bundle of its own stream that a site surely holds.
fn base(state: &SiteState) -> Option<u64> {
    let running = state.running.as_ref()?;
    (running.role == state.role && running.bundle > 0 && state.conflict.is_none())
        .then_some(running.bundle)
}

fn for_stick(newest: &DesiredBundle, bases: &[Option<u64>], now_ms: i64) -> CarriedBundle {
    let each: Option<BTreeSet<u64>> = bases
        .iter()
        .map(|base| base.filter(|base| *base < newest.number))
        .collect();
    CarriedBundle {
        environment: newest.environment.clone(),
        cluster_type: newest.cluster_type.clone(),
        bundle: newest.number,
        valid_until: time::rfc3339(newest.signed.expires_ms),
        expired: newest.signed.expires_ms <= now_ms,
        sites: bases.len(),
        since: each.unwrap_or_default(),
    }
}

fn stop(row: SiteRow, bundle: Option<u64>) -> Stop {
    let mut notes = Vec::new();
    notes.extend(row.conflict.clone());
    if row.connection == Connection::Never {
        notes.push("it never reported: if it was not enrolled yet, it needs its kit too".into());
    }
    notes.extend(row.attempt.clone());
    if bundle.is_none() && row.bundle == BundleStatus::Unknown {
        notes.push(unknown(&row));
    }
    if !row.message.is_empty() {
        notes.push(row.message.clone());
    }
    for order in pending(&row) {
        notes.push(format!("it has not reported of the order: {order}"));
    }
    if let Some(until) = &row.waived_until {
        notes.push(format!("gates continue without it until {until}"));
    }
    Stop {
        bundle,
        runs: row.actual,
        last_seen: row.last_seen_ago,
        reports_after: row.newest_report.unwrap_or(0),
        missing: row.missing,
        notes,
        site: row.site,
        environment: row.environment,
        cluster_type: row.cluster_type,
        verdict: row.verdict,
    }
}
