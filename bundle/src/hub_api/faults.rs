//! What a hub answers when someone asks since when a site is not well, and what happened there meanwhile.
//!
//! What comes in: reports that the hub verified. What goes out: for each fault the last report in which it was not there, the first
//! one in which it was, what the site itself did between the two, and how other sites do with the same. Times are RFC 3339 texts.
//! It names no cause: whoever has the commits works that out.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::index::Snapshot;

/// What is not well at one site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SiteFaults {
    /// The site.
    pub site: String,
    /// Its environment.
    pub environment: String,
    /// Its cluster type.
    pub cluster_type: String,
    /// Its faults, the newest first; empty when its reports tell of none.
    pub faults: Vec<SiteFault>,
    /// How many reports were read.
    pub reports_read: u64,
    /// Whether older reports were left unread, because there are too many.
    pub older_unread: bool,
    /// When this was read, by the hub's clock.
    pub read_at: String,
}

/// What kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// A bundle failed: the site left it again, or runs it although it is not well.
    Bundle,
    /// Assignments of the bundle that runs failed.
    Failed,
    /// Someone changed on site what was applied.
    Drifted,
    /// A word of a newer hub.
    #[serde(other)]
    Unknown,
}

/// One fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SiteFault {
    /// What kind.
    pub kind: FaultKind,
    /// The assignments that the site names; empty when it only tells that something is not well.
    pub assignments: Vec<String>,
    /// The last report in which these were well; absent when no report that was read tells so.
    pub good: Option<SiteLook>,
    /// Where the bundle of `good` kept assignments as an older bundle had them, because they could not be rendered: the newest report
    /// before it of a bundle that kept none.
    #[serde(default)]
    pub good_rendered: Option<SiteLook>,
    /// The first report of the fault.
    pub bad: SiteLook,
    /// Whether the site has left the bundle: what runs is an older one.
    pub left: bool,
    /// Who decided on site to leave it; absent when the site did so by itself, or did not leave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_by: Option<String>,
    /// What the site did between the two, the oldest first.
    pub acts: Vec<SiteAct>,
    /// Numbers between the two of which no report is here, as first and last.
    pub missing: Vec<(u64, u64)>,
    /// Numbers between the two, or before the fault where no last good report is here, of which the hub keeps the reports no longer:
    /// what happened in them is not known any more. Of more than 1,000 ranges the lowest are given as one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub no_longer_kept: Vec<(u64, u64)>,
    /// How other sites do that have the same, by assignment.
    pub others: BTreeMap<String, OtherSites>,
    /// At how many other sites the same bundle failed.
    pub others_failed: u64,
}

/// One report of what a site runs or ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SiteLook {
    /// The numbering of the report.
    pub epoch: String,
    /// Its number.
    pub report: u64,
    /// When it was made, by the site's clock.
    pub at: String,
    /// Whether that clock was set by something trustworthy.
    pub clock_trusted: bool,
    /// When the hub received it.
    pub received_at: String,
    /// The bundle's number.
    pub bundle: u64,
    /// The commits that it was rendered from.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub snapshot: Snapshot,
    /// What the site says of it, as one sentence.
    pub message: String,
    /// The version of each assignment's config.
    pub configs: BTreeMap<String, String>,
    /// What each assignment that is not well says.
    pub details: Vec<FaultDetail>,
}

/// What a reconciler says of one assignment that is not well.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FaultDetail {
    /// The assignment.
    pub assignment: String,
    /// `failed` or `drifted`.
    pub status: String,
    /// Its message.
    pub message: String,
    /// Tasks, objects or files that are not well, with what is said of each.
    pub steps: Vec<String>,
    /// Whether a person on site holds it, so that its content is not to be that of the bundle.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub held: bool,
}

/// Something that a site did by itself, or that people did there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SiteAct {
    /// Number of the report that tells it.
    pub report: u64,
    /// When, by the site's clock.
    pub at: String,
    /// `values`, `rollback`, `decision`, `order`, `agent`.
    pub kind: String,
    /// The one assignment that it is about, where it is about one.
    pub assignment: Option<String>,
    /// What, as one sentence.
    pub text: String,
}

/// How other sites do that run one version of an assignment's config.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OtherSites {
    /// So many are healthy.
    pub well: u64,
    /// So many are not.
    pub not_well: u64,
}
