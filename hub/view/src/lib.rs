//! What people and programs look at: desired beside actual, per site and per assignment.
//!
//! What comes in: one consistent reading of the store, and the time. What goes out: a [`FleetView`] of
//! plain values for the page and the API. Three things are distinguished and never merged: whether a
//! site reports, whether it has the newest bundle, and whether what runs is as desired. It decides
//! nothing; the gate does.

mod act;
pub mod advisories;
pub mod affected;
mod ask_error;
mod assignment;
mod board;
mod bundle;
mod bundles;
mod carrying;
pub mod clock;
mod compare;
mod contents;
pub mod decision_text;
pub mod explained;
pub mod faults;
mod indexes;
mod list;
mod measured;
pub mod on_record;
mod orders;
pub mod record;
mod removed;
mod report_text;
mod requests;
mod rows;
mod site;
pub mod steps;
pub mod table;
pub mod values;

use std::collections::BTreeMap;

use outhaul_bundle::hub_api::RestoredHub;
use outhaul_gate::observed::resolved;
use serde::Serialize;

pub use act::ActView;
pub use assignment::{AssignmentSide, AssignmentView, LookSpan, NoAssignment};
use board::newest_commits;
pub use board::{Board, Environments, GatesOf, Reach, Step, gates_of_each};
pub use bundle::{BundleAsked, BundleAssignment, BundleContents, BundleView, SiteAtBundle};
pub use bundles::{BundleList, BundlesWanted, StreamBundles, bundle_rows};
pub use carrying::{CarriedBundle, CarrierList, LeftOut, Stop};
pub use compare::{
    ComparedAssignment, ComparedBundle, ComparedStream, ComparedType, Comparison, Variant,
};
pub use contents::{BundleChanges, FileChange, FileRow, NamedChange};
pub use list::{SITES_SHOWN, STATES, SiteList, SiteSearch, UnknownName, unknown_name};
pub use measured::{AGES_HOURS, Ages, DecidedGate, Measured, NewestBundle};
pub use orders::{OrderRow, SlipRow};
pub use requests::{RequestRow, rows as request_rows};
pub use rows::{AssignmentRow, BundleStatus, Connection, RefusalRow, SiteRow, amiss_in_cluster};
pub use site::{SiteView, TimelineBefore, TimelineRow};

use outhaul_gate::Decision;
use outhaul_gate::time;
use outhaul_store::{
    AcceptedSlip, Act, DesiredAssignment, DesiredBundle, IngestRefusal, PendingRequest, Restored,
    Session, SiteOrder, SitePage, SiteRefusal, SiteState, Store, StoreError,
};

/// Sites read at once where all are.
const SITES_AT_ONCE: u64 = 1_000;
/// Refusals shown.
const REFUSALS_SHOWN: u32 = 20;
/// Requests shown; the rest is counted.
pub const REQUESTS_SHOWN: u32 = 100;

/// One consistent reading of the store.
#[derive(Debug, Clone)]
pub struct Reading {
    /// Every site, revoked ones included.
    pub sites: Vec<SiteState>,
    /// Every bundle, by stream and number.
    pub bundles: Vec<DesiredBundle>,
    /// The assignments of the bundles that sites should or do run.
    pub assignments: BTreeMap<(String, u64), Vec<DesiredAssignment>>,
    /// The orders of each site's present enrolment.
    pub orders: BTreeMap<String, Vec<SiteOrder>>,
    /// The last freshness slip that each site took.
    pub slips: BTreeMap<String, AcceptedSlip>,
    /// Approvals, waivers and deferrals that were not withdrawn.
    pub acts: Vec<Act>,
    /// When the hub was restored last.
    pub restored: Option<Restored>,
    /// The gates of the environments, when all sites were read.
    pub gates: Vec<Decision>,
    /// The newest refusals.
    pub refusals: Vec<IngestRefusal>,
    /// What sites report to have refused, the newest of each.
    pub site_refusals: BTreeMap<String, Vec<SiteRefusal>>,
    /// Requests that wait for approval, as many as are shown.
    pub pending: Vec<PendingRequest>,
    /// How many wait.
    pub pending_count: u64,
}

/// Everything that the page shows.
#[derive(Debug, Clone, Serialize)]
pub struct FleetView {
    /// The fleet's id.
    pub fleet: String,
    /// When this was read, RFC 3339.
    pub read_at: String,
    /// When the hub was restored last, and from a backup of when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restored: Option<RestoredHub>,
    /// The same, milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restored_ms: Option<i64>,
    /// Counts over all sites.
    pub summary: Summary,
    /// Every site, those that need attention first.
    pub sites: Vec<SiteRow>,
    /// Every pair of site and assignment.
    pub assignments: Vec<AssignmentRow>,
    /// The gate of each environment for its newest base commit.
    pub gates: Vec<Decision>,
    /// The newest refusals.
    pub refusals: Vec<IngestRefusal>,
    /// Requests that wait for approval, with their fingerprints, as many as are shown.
    pub pending: Vec<RequestRow>,
    /// How many wait.
    pub pending_count: u64,
    /// Approvals, waivers and deferrals that were not withdrawn.
    pub acts: Vec<Act>,
}

/// Counts, along three axes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Sites that are registered and not revoked.
    pub sites: usize,
    /// Last contact within the last three days.
    pub fresh: usize,
    /// Last contact longer ago.
    pub stale: usize,
    /// No contact yet.
    pub never: usize,
    /// Running the newest bundle that is for them, by their own report.
    pub current: usize,
    /// At work on it.
    pub applying: usize,
    /// It failed there, was turned away, or they left it again.
    pub not_taken: usize,
    /// With an older one, or none, by their own report.
    pub behind: usize,
    /// There is one for them, and they never reported.
    pub never_reported: usize,
    /// Running what this hub knows no bundle for, or of a stream of which it knows none.
    pub unknown: usize,
    /// Pairs of site and assignment that are as desired.
    pub compliant: usize,
    /// Changed on site.
    pub drifted: usize,
    /// Failed.
    pub failed: usize,
    /// Under way.
    pub in_progress: usize,
    /// Wanted, but the site has not reported about it.
    pub waiting: usize,
}

impl Reading {
    /// Reads all at once.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn take(session: &Session<'_>, now_ms: i64) -> Result<Self, StoreError> {
        let mut reading = Self::of(session, SitePage::ALL, now_ms)?;
        reading.gates = reading.decide(session, now_ms)?;
        Ok(reading)
    }

    /// Reads every site, a thousand at a time, so that the store is held by no part for long; `look` gets each part.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn in_parts(
        store: &mut Store,
        now_ms: i64,
        mut look: impl FnMut(&Self),
    ) -> Result<(), StoreError> {
        let mut after = String::new();
        loop {
            let page = SitePage {
                after: &after,
                limit: SITES_AT_ONCE,
                ..SitePage::ALL
            };
            let reading = store.read(|session| Self::of(session, page, now_ms))?;
            let Some(last) = reading.sites.last() else {
                return Ok(());
            };
            look(&reading);
            after.clone_from(&last.site);
        }
    }

    /// Reads what concerns some of the sites: not enough for a gate.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn of(session: &Session<'_>, page: SitePage<'_>, now_ms: i64) -> Result<Self, StoreError> {
        let bundles = session.bundles()?;
        let sites = resolved(&session.site_states_of(page)?, &bundles).into_owned();
        let mut assignments = BTreeMap::new();
        for site in &sites {
            let desired = newest_for(&bundles, site).map(|b| (b.role.clone(), b.number));
            let running = site.running.as_ref().map(|r| (r.role.clone(), r.bundle));
            for key in desired.into_iter().chain(running) {
                if assignments.contains_key(&key) {
                    continue;
                }
                if of_role(&bundles, &key.0).iter().any(|b| b.number == key.1) {
                    let list = session.bundle_assignments(&key.0, key.1)?;
                    assignments.insert(key, list);
                }
            }
        }
        Ok(Self {
            sites,
            bundles,
            assignments,
            orders: session.site_orders(page)?,
            slips: session.last_slips(page)?,
            acts: session.acts_in_force(now_ms)?,
            restored: session.last_restore()?,
            gates: Vec::new(),
            refusals: session.refusals(REFUSALS_SHOWN)?,
            site_refusals: session.site_refusals(page)?,
            pending: session.pending_requests(REQUESTS_SHOWN)?,
            pending_count: session.count_requests()?,
        })
    }

    /// The gate of each environment for the commit of the bundle that was signed last, with the rules of each step on
    /// record.
    fn decide(&self, session: &Session<'_>, now_ms: i64) -> Result<Vec<Decision>, StoreError> {
        let mut gates = Vec::new();
        for (environment, commit) in newest_commits(&self.bundles) {
            gates.extend(board::gates(session, &environment, &commit, now_ms)?);
        }
        Ok(gates)
    }

    /// The sites that were read, by name.
    pub fn site_rows(&self, now_ms: i64) -> Vec<SiteRow> {
        self.sites
            .iter()
            .map(|site| rows::site(self, site, now_ms))
            .collect()
    }

    /// Every pair of site and assignment of the sites that were read.
    pub fn assignment_rows(&self) -> Vec<AssignmentRow> {
        rows::assignments(self)
    }

    /// All that the page shows.
    pub fn view(&self, fleet: &str, now_ms: i64) -> FleetView {
        let mut sites = self.site_rows(now_ms);
        sites.sort_by(|a, b| (a.attention, &a.site).cmp(&(b.attention, &b.site)));
        let assignments = self.assignment_rows();
        FleetView {
            fleet: fleet.to_owned(),
            read_at: time::rfc3339(now_ms),
            restored: self.restored.map(|restored| RestoredHub {
                at: time::rfc3339(restored.at_ms),
                backup_at: time::rfc3339(restored.backup_ms),
            }),
            restored_ms: self.restored.map(|restored| restored.at_ms),
            summary: summary(&sites, &assignments),
            sites,
            assignments,
            gates: self.gates.clone(),
            refusals: self.refusals.clone(),
            pending: requests::rows(&self.pending, &self.sites),
            pending_count: self.pending_count,
            acts: self.acts.clone(),
        }
    }
}

/// The bundles of one stream, by number: `bundles` come by stream and number.
fn of_role<'a>(bundles: &'a [DesiredBundle], role: &str) -> &'a [DesiredBundle] {
    let from = bundles.partition_point(|bundle| bundle.role.as_str() < role);
    let to = bundles.partition_point(|bundle| bundle.role.as_str() <= role);
    &bundles[from..to]
}

/// The newest bundle that is for `site`.
fn newest_for<'a>(bundles: &'a [DesiredBundle], site: &SiteState) -> Option<&'a DesiredBundle> {
    of_role(bundles, &site.role).iter().rev().find(|bundle| {
        let named = &bundle.recipients;
        !bundle.taken_back && (named.is_empty() || named.contains(&site.site))
    })
}

fn summary(sites: &[SiteRow], assignments: &[AssignmentRow]) -> Summary {
    let mut sum = Summary::default();
    for site in sites
        .iter()
        .filter(|site| site.connection != Connection::Revoked)
    {
        sum.sites += 1;
        match site.connection {
            Connection::Fresh => sum.fresh += 1,
            Connection::Stale => sum.stale += 1,
            Connection::Never | Connection::Revoked => sum.never += 1,
        }
        match site.bundle {
            BundleStatus::Applying => sum.applying += 1,
            BundleStatus::Behind => sum.behind += 1,
            BundleStatus::Current => sum.current += 1,
            BundleStatus::Never => sum.never_reported += 1,
            BundleStatus::NotTaken => sum.not_taken += 1,
            BundleStatus::OtherContent | BundleStatus::Unknown => sum.unknown += 1,
        }
    }
    for assignment in assignments {
        match assignment.status.as_str() {
            "compliant" => sum.compliant += 1,
            "drifted" => sum.drifted += 1,
            "failed" => sum.failed += 1,
            "in_progress" => sum.in_progress += 1,
            _ => sum.waiting += 1,
        }
    }
    sum
}
