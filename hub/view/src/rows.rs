//! The rows of the two big tables: sites, and assignments on sites.
//!
//! What comes in: a reading and the time. What goes out: flat rows with both raw values and the words
//! that people read. A site that never reported has a row like any other.

use std::collections::BTreeSet;

use serde::Serialize;

use super::{OrderRow, Reading, SlipRow, newest_for};
use outhaul_gate::DEFAULT_MAX_AGE_HOURS;
use outhaul_gate::EDITION;
use outhaul_gate::time::{self, HOUR_MS};
use outhaul_signer::enrol::MIN_FINGERPRINT_DIGITS;
use outhaul_store::{
    ActKind, Attempt, DesiredAssignment, DesiredBundle, Newest, SiteRefusal, SiteState,
};

/// Whether a site reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Connection {
    /// Within the last three days.
    Fresh,
    /// Never.
    Never,
    /// It was revoked; nothing is expected of it.
    Revoked,
    /// Longer ago.
    Stale,
}

/// Where a site stands with the newest bundle that is for it, by what it reported itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BundleStatus {
    /// It is at work on it.
    Applying,
    /// It reports, runs an older one or none, and did not report the newest.
    Behind,
    /// It reported that it runs.
    Current,
    /// It never reported: whether it has it is not known.
    Never,
    /// It failed, was turned away, or the site left it again.
    NotTaken,
    /// It runs another content under the number.
    OtherContent,
    /// This hub knows no bundle for the site, or not the one that it runs.
    Unknown,
}

/// Something that a site reports to have refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct RefusalRow {
    /// The file or address that it came from.
    pub source: String,
    /// The rule.
    pub rule: String,
    /// What the site expected and found.
    pub message: String,
    /// When the hub received the report, RFC 3339.
    pub told_at: String,
    /// When, by the site's clock, RFC 3339.
    pub site_time: String,
}

impl From<&SiteRefusal> for RefusalRow {
    fn from(refusal: &SiteRefusal) -> Self {
        Self {
            source: refusal.source.clone(),
            rule: refusal.rule.clone(),
            message: refusal.message.clone(),
            told_at: time::rfc3339(refusal.received_ms),
            site_time: time::rfc3339(refusal.wall_ms),
        }
    }
}

/// One site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct SiteRow {
    /// Its name.
    pub site: String,
    /// Its environment.
    pub environment: String,
    /// Its cluster type.
    pub cluster_type: String,
    /// The signing role of its stream.
    pub role: String,
    /// First digits of its key's id, as many as name a key.
    pub key: String,
    /// Whether it reports.
    pub connection: Connection,
    /// When the hub received its newest report, RFC 3339.
    pub last_seen: Option<String>,
    /// The same for people.
    pub last_seen_ago: String,
    /// By which transport that report came.
    pub via: Option<String>,
    /// When that report was made, by the site's clock, RFC 3339.
    pub site_time: Option<String>,
    /// Whether that clock was set by something trustworthy.
    pub clock_trusted: bool,
    /// Number of its newest report.
    pub newest_report: Option<u64>,
    /// Highest report below which nothing is missing.
    pub acknowledged: Option<u64>,
    /// Number of the newest bundle that is for it.
    pub desired: Option<u64>,
    /// Number of the bundle that it runs.
    pub actual: Option<u64>,
    /// Where it stands with the newest bundle that is for it.
    pub bundle: BundleStatus,
    /// The state of the bundle that it runs: `active` is good.
    pub state: String,
    /// What the site said of it.
    pub message: String,
    /// A bundle that is on its way, was turned away, or was left again, with the reason.
    pub attempt: Option<String>,
    /// What it reports to have refused, the newest first.
    pub refused: Vec<RefusalRow>,
    /// Reports that are missing, as first and last number.
    pub missing: Vec<(u64, u64)>,
    /// Reports that the site declared lost.
    pub declared_lost: Vec<(u64, u64)>,
    /// Its newest report is dated far ahead, by a clock that it calls trusted: what was seen. Such a site does not count at a gate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub future_dated: Option<String>,
    /// Who sent the webhooks that the hub made its reports of, `flux` or `argocd`: no agent runs there. Such a site counts at a gate only
    /// where a rule says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook: Option<String>,
    /// Two machines report with its key: what was seen, and how someone ends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conflict: Option<String>,
    /// Signed orders for its present enrolment, by number.
    pub orders: Vec<OrderRow>,
    /// The last freshness slip that it took.
    pub slip: Option<SlipRow>,
    /// Until when it is waived, RFC 3339.
    pub waived_until: Option<String>,
    /// By when it is expected, RFC 3339, where someone deferred it.
    pub deferred_until: Option<String>,
    /// One word for the row: `failed`, `reverted`, `drifted`, `rejected`, `other-content`, `future-dated`, `never`,
    /// `stale`, `behind`, `unknown`, `busy`, `ok`, `conflict`, `revoked`.
    pub verdict: &'static str,
    /// Its place in the order of attention; lower needs more.
    #[serde(skip)]
    pub attention: u8,
}

/// One assignment on one site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct AssignmentRow {
    /// The environment.
    pub environment: String,
    /// The cluster type.
    pub cluster_type: String,
    /// The assignment's name.
    pub assignment: String,
    /// The workload; empty when the hub knows no bundle with it.
    pub workload: String,
    /// The workspace; empty likewise.
    pub workspace: String,
    /// The policies that put it there.
    pub policies: Vec<String>,
    /// The site.
    pub site: String,
    /// Number of the bundle that wants it; `None` when nothing wants it any more.
    pub desired: Option<u64>,
    /// Number of the bundle that the site runs.
    pub actual: Option<u64>,
    /// The config version wanted.
    pub desired_config: Option<String>,
    /// The config version that runs.
    pub actual_config: Option<String>,
    /// `compliant`, `drifted`, `failed`, `in_progress`, or `waiting` when the site has not reported
    /// the version that is wanted.
    pub status: String,
    /// What the reconciler said.
    pub message: String,
}

pub(super) fn site(reading: &Reading, site: &SiteState, now_ms: i64) -> SiteRow {
    let newest = site.newest.as_ref();
    let running = site.running.as_ref();
    let newest_bundle = newest_for(&reading.bundles, site);
    let desired = newest_bundle.map(|bundle| bundle.number);
    let RowStatus {
        connection,
        bundle,
        verdict,
        attention,
    } = standing(site, newest_bundle, now_ms);
    let actual = running
        .map(|running| running.bundle)
        .filter(|number| *number > 0);
    let of_site = |kind| {
        let acts = reading.acts.iter();
        acts.filter(move |act| act.kind == kind && act.site.as_ref() == Some(&site.site))
            .filter(|act| reading.restored.is_none_or(|restored| restored.holds(act)))
    };
    let waived = of_site(ActKind::Waive)
        .map(outhaul_store::Act::until_ms)
        .max();
    let deferred = of_site(ActKind::Defer).max_by_key(|act| act.id);
    SiteRow {
        site: site.site.clone(),
        environment: site.environment.clone(),
        cluster_type: site.cluster_type.clone(),
        role: site.role.clone(),
        key: site.key_id.chars().take(MIN_FINGERPRINT_DIGITS).collect(),
        connection,
        last_seen: newest.map(|newest| time::rfc3339(newest.received_ms)),
        last_seen_ago: newest.map_or_else(
            || "never".to_owned(),
            |newest| time::ago(newest.received_ms, now_ms),
        ),
        via: newest.map(|newest| newest.via.clone()),
        site_time: newest.map(|newest| time::rfc3339(newest.wall_ms)),
        clock_trusted: newest.is_some_and(|newest| newest.clock_trusted),
        newest_report: newest.map(|newest| newest.number),
        acknowledged: newest.map(|newest| newest.acked),
        desired,
        actual,
        bundle,
        state: running.map_or_else(String::new, |running| running.state.clone()),
        message: message(site),
        attempt: site.attempt.as_ref().map(Attempt::sentence),
        refused: reading
            .site_refusals
            .get(&site.site)
            .map_or_else(Vec::new, |refusals| {
                refusals.iter().map(RefusalRow::from).collect()
            }),
        missing: site.missing.clone(),
        declared_lost: site.declared_lost.clone(),
        future_dated: newest
            .filter(|newest| newest.is_future_dated())
            .map(Newest::ahead_sentence),
        webhook: running
            .map(|running| running.webhook.clone())
            .filter(|sender| !sender.is_empty()),
        conflict: site
            .conflict
            .as_ref()
            .map(|conflict| conflict.sentence(&site.site, EDITION)),
        orders: reading
            .orders
            .get(&site.site)
            .map_or_else(Vec::new, |orders| {
                orders.iter().map(OrderRow::from).collect()
            }),
        slip: reading.slips.get(&site.site).map(SlipRow::from),
        waived_until: waived.map(time::rfc3339),
        deferred_until: deferred.map(|act| time::rfc3339(act.until_ms())),
        verdict,
        attention,
    }
}

/// Where a site stands.
pub(super) struct RowStatus {
    pub(super) connection: Connection,
    pub(super) bundle: BundleStatus,
    /// One word for it, and its place in the order of attention.
    pub(super) verdict: &'static str,
    pub(super) attention: u8,
}

/// States of a cluster that follows the repository directly in which it is not known what runs there, or not one commit.
const UNKNOWN_CLUSTERS: [&str; 5] = [
    "absent",
    "other_revision",
    "stale",
    "suspended",
    "unreachable",
];

/// What a cluster that follows the repository directly showed, where that is not success: its state, and what was said of it.
pub fn amiss_in_cluster(row: &SiteRow) -> Option<String> {
    let is_amiss = UNKNOWN_CLUSTERS.contains(&row.state.as_str()) || row.state == "in_progress";
    let failed = row.webhook.is_some() && row.state == "failed";
    let colon = if row.message.is_empty() { "" } else { ": " };
    (is_amiss || failed).then(|| {
        let state = row.state.replace('_', " ");
        format!("{state}{colon}{}", row.message)
    })
}

/// Where a site stands, of which `newest_bundle` is the newest bundle that is for it.
pub(super) fn standing(
    site: &SiteState,
    newest_bundle: Option<&DesiredBundle>,
    now_ms: i64,
) -> RowStatus {
    let limit_ms = i64::from(DEFAULT_MAX_AGE_HOURS) * HOUR_MS;
    let connection = match &site.newest {
        _ if site.revoked_ms.is_some() => Connection::Revoked,
        None => Connection::Never,
        Some(newest) if now_ms.saturating_sub(newest.received_ms) > limit_ms => Connection::Stale,
        Some(_) => Connection::Fresh,
    };
    let bundle = bundle_status(site, newest_bundle);
    let (verdict, attention) = verdict(site, connection, bundle);
    RowStatus {
        connection,
        bundle,
        verdict,
        attention,
    }
}

/// What the site said, or else what it says of the first assignment that is not well.
fn message(site: &SiteState) -> String {
    let Some(running) = &site.running else {
        return String::new();
    };
    if !running.message.is_empty() {
        return running.message.clone();
    }
    let worst = ["failed", "drifted"].iter().find_map(|status| {
        running
            .assignments
            .iter()
            .find(|(_, assignment)| assignment.status == *status)
    });
    match worst {
        Some((name, assignment)) if assignment.message.is_empty() => format!("`{name}`"),
        Some((name, assignment)) => format!("`{name}`: {}", assignment.message),
        None => String::new(),
    }
}

fn bundle_status(site: &SiteState, newest: Option<&DesiredBundle>) -> BundleStatus {
    let Some(newest) = newest else {
        return BundleStatus::Unknown;
    };
    let running = site.running.as_ref().filter(|r| r.role == site.role);
    // A cluster that follows the repository directly, and shows no commit that a bundle is of: whether it is behind is not known.
    if running.is_some_and(|running| running.bundle == 0) {
        return BundleStatus::Unknown;
    }
    let Some(running) = running.filter(|running| running.bundle >= newest.number) else {
        return match &site.attempt {
            Some(attempt) if attempt.bundle >= newest.number && attempt.ended() => {
                BundleStatus::NotTaken
            }
            _ if site.newest.is_none() => BundleStatus::Never,
            _ => BundleStatus::Behind,
        };
    };
    if running.bundle > newest.number {
        return BundleStatus::Unknown;
    }
    if running.index != newest.index {
        return BundleStatus::OtherContent;
    }
    match running.state.as_str() {
        "active" => BundleStatus::Current,
        "applying" | "soaking" => BundleStatus::Applying,
        _ => BundleStatus::NotTaken,
    }
}

fn verdict(site: &SiteState, connection: Connection, bundle: BundleStatus) -> (&'static str, u8) {
    let running = site.running.as_ref();
    let has =
        |status: &str| running.is_some_and(|r| r.assignments.values().any(|a| a.status == status));
    let state = running.map_or("", |running| running.state.as_str());
    match connection {
        Connection::Revoked => return ("revoked", 9),
        Connection::Never => return ("never", 2),
        Connection::Fresh | Connection::Stale => {}
    }
    if site.conflict.is_some() {
        return ("conflict", 0);
    }
    if state == "failed" || has("failed") {
        return ("failed", 0);
    }
    let ended = site.attempt.as_ref().map(|attempt| attempt.state.as_str());
    if bundle == BundleStatus::NotTaken && ended == Some("reverted") {
        ("reverted", 0)
    } else if has("drifted") {
        ("drifted", 1)
    } else if ended == Some("rejected") {
        ("rejected", 1)
    } else if bundle == BundleStatus::OtherContent {
        ("other-content", 1)
    } else if (site.newest.as_ref()).is_some_and(Newest::is_future_dated) {
        ("future-dated", 2)
    } else if connection == Connection::Stale {
        ("stale", 3)
    } else if UNKNOWN_CLUSTERS.contains(&state) {
        ("unknown", 4)
    } else if bundle == BundleStatus::Unknown && state == "in_progress" {
        ("busy", 5)
    } else if bundle == BundleStatus::Behind {
        ("behind", 4)
    } else if bundle == BundleStatus::Unknown {
        ("unknown", 4)
    } else if bundle == BundleStatus::Applying || state != "active" || has("in_progress") {
        ("busy", 5)
    } else {
        ("ok", 6)
    }
}

pub(super) fn assignments(reading: &Reading) -> Vec<AssignmentRow> {
    let mut rows = Vec::new();
    for site in reading
        .sites
        .iter()
        .filter(|site| site.revoked_ms.is_none())
    {
        let bundle = newest_for(&reading.bundles, site);
        let wanted: Vec<&DesiredAssignment> = bundle
            .and_then(|b| reading.assignments.get(&(b.role.clone(), b.number)))
            .into_iter()
            .flatten()
            .filter(|want| want.is_for(&site.site))
            .collect();
        let running = site.running.as_ref();
        let observed = running.map(|running| &*running.assignments);
        let names: BTreeSet<&str> = wanted
            .iter()
            .map(|want| want.assignment.as_str())
            .chain(
                observed
                    .into_iter()
                    .flatten()
                    .map(|(name, _)| name.as_str()),
            )
            .collect();
        for name in names {
            let want = wanted.iter().find(|want| want.assignment == name);
            let actual = observed.and_then(|observed| observed.get(name));
            let desired_config = want.map(|want| want.config_for(&site.site).to_owned());
            // A cluster that follows the repository directly shows no version of a config.
            let actual_config = actual
                .map(|actual| actual.config_version.clone())
                .filter(|version| !version.is_empty());
            let shows_none = actual.is_some() && actual_config.is_none();
            // What an older bundle says of an assignment is not a word about the one that is wanted, even
            // where the config is the same.
            let same = want.is_none()
                || ((desired_config == actual_config || shows_none)
                    && bundle.is_some_and(|b| running.is_some_and(|r| r.index == b.index)));
            let status = match actual {
                Some(actual) if same || actual.status != "compliant" => actual.status.as_str(),
                _ => "waiting",
            };
            rows.push(AssignmentRow {
                environment: site.environment.clone(),
                cluster_type: site.cluster_type.clone(),
                assignment: name.to_owned(),
                workload: want.map_or_else(String::new, |want| want.workload.clone()),
                workspace: want.map_or_else(String::new, |want| want.workspace.clone()),
                policies: want.map_or_else(Vec::new, |want| want.policies.clone()),
                site: site.site.clone(),
                desired: want.and(bundle).map(|bundle| bundle.number),
                actual: actual
                    .and(running)
                    .map(|running| running.bundle)
                    .filter(|number| *number > 0),
                desired_config,
                actual_config,
                status: status.to_owned(),
                message: actual.map_or_else(String::new, |actual| actual.message.clone()),
            });
        }
    }
    let key = |row: &AssignmentRow| {
        let AssignmentRow {
            environment,
            cluster_type,
            assignment,
            site,
            ..
        } = row;
        (
            environment.clone(),
            cluster_type.clone(),
            assignment.clone(),
            site.clone(),
        )
    };
    rows.sort_by_cached_key(key);
    rows
}
