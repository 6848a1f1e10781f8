//! What a hub answers when someone asks which sites an advisory is about.
//!
//! What comes in: advisories that someone imported, bills of materials that travelled in bundles, and what sites report to run. What
//! goes out: each site's verdict, and why. Times are RFC 3339 texts. "Not affected" is only said where everything is known.

use serde::{Deserialize, Serialize};

/// An advisory on record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AdvisoryRow {
    /// Its name.
    pub id: String,
    /// The names that it has elsewhere.
    pub aliases: Vec<String>,
    /// What it is about; may be empty.
    pub summary: String,
    /// When it was changed last, as it is written.
    pub modified: String,
    /// Whether whoever published it took it back: then no site is affected.
    pub withdrawn: bool,
    /// When it was imported into this hub.
    pub imported_at: String,
    /// By whom.
    pub imported_by: String,
}

/// What became of a document that was brought.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ImportedDocument {
    /// `advisory` or `statements`.
    pub kind: String,
    /// The advisory's name, or the document's digest.
    pub name: String,
    /// Whether it was put on record: it is, when the outcome is `new` or `replaced`.
    pub new: bool,
    /// What became of it.
    pub outcome: ImportOutcome,
    /// What of it can match nothing that bills of materials here have; nothing is refused for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<ImportNote>,
}

/// What became of a document that was brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum ImportOutcome {
    /// It is on record now, and none of its name was before.
    New,
    /// It took the place of the one on record, which says when it was changed and is not newer.
    Replaced,
    /// The same text is on record already.
    Known,
    /// The one on record was changed later: this one was not taken.
    Older,
}

impl ImportOutcome {
    /// Whether it was put on record.
    pub fn is_put(self) -> bool {
        matches!(self, Self::New | Self::Replaced)
    }
}

/// Something in a document that can match nothing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ImportNote {
    /// The product as the document names it; empty where it names none.
    pub product: String,
    /// Why nothing can match it.
    pub why: String,
}

/// How a site stands with an advisory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum AffectedVerdict {
    /// What it runs, by its last report, holds something that the advisory is about, and no statement clears all of it.
    Affected,
    /// It is not known: no report, an old one, or what the bundle holds is not known.
    Unknown,
    /// Nothing that it runs is affected, or statements say so of all that is.
    NotAffected,
    /// A word of a newer hub.
    #[serde(other)]
    Other,
}

impl AffectedVerdict {
    /// The word in answers and questions.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Affected => "affected",
            Self::Unknown => "unknown",
            Self::NotAffected => "not_affected",
            Self::Other => "other",
        }
    }
}

/// Something in a bundle that an advisory is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AffectedComponent {
    /// The package or image, with its version.
    pub component: String,
    /// The source that it was built from, with its version, where that has another name.
    pub source: Option<String>,
    /// The image that it is in; absent for what the bundle carries itself.
    pub image: Option<String>,
    /// The assignments that bring it, as far as that is known.
    pub assignments: Vec<String>,
    /// The version, of the source where there is one, that is not affected any more.
    pub fixed_in: Option<String>,
    /// What a statement says that does not clear it: `affected` or `under_investigation`.
    pub stated: Option<String>,
}

/// The same, where a statement clears it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ClearedComponent {
    /// What is cleared.
    pub component: AffectedComponent,
    /// `not_affected` or `fixed`.
    pub status: String,
    /// Why, as the statement says.
    pub reason: String,
    /// Who says so.
    pub author: String,
    /// Since when.
    pub at: String,
    /// Whether the bundle carries the statement; otherwise someone imported it into the hub.
    #[serde(default)]
    pub carried: bool,
}

/// What an advisory means for one bundle that sites run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AffectedBundle {
    /// Its environment.
    pub environment: String,
    /// Its cluster type.
    pub cluster_type: String,
    /// The signing role of its stream.
    pub role: String,
    /// Its number.
    pub number: u64,
    /// How many sites run it.
    pub sites: u64,
    /// What is affected.
    pub affected: Vec<AffectedComponent>,
    /// What statements clear.
    pub cleared: Vec<ClearedComponent>,
    /// Statements that the bundle carries and that are not on record, by file name: what they clear counts as affected.
    #[serde(default)]
    pub statements_missing: Vec<String>,
    /// Why it is not known whether anything else is affected; the first 20.
    pub unknown: Vec<String>,
    /// How many more reasons there are.
    pub more_unknown: u64,
}

/// One site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AffectedSite {
    /// Its name.
    pub site: String,
    /// Its environment.
    pub environment: String,
    /// Its cluster type.
    pub cluster_type: String,
    /// Its verdict.
    pub verdict: AffectedVerdict,
    /// The number of the bundle that it runs, as it reports.
    pub bundle: Option<u64>,
    /// When its newest report was received; absent when it never reported.
    pub last_seen: Option<String>,
    /// Since when nothing is known, where the verdict is `unknown` because no newer report is here.
    pub unknown_since: Option<String>,
    /// Why, in one sentence.
    pub why: String,
}

/// Which sites an advisory is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AffectedSites {
    /// The advisory.
    pub advisory: AdvisoryRow,
    /// What of the advisory cannot be compared with bills of materials, each with the reason.
    pub not_compared: Vec<String>,
    /// How many sites are affected.
    pub affected: u64,
    /// Of how many it is not known.
    pub unknown: u64,
    /// How many are not affected.
    pub not_affected: u64,
    /// The bundles that sites run and of which there is something to say, the affected ones first.
    pub bundles: Vec<AffectedBundle>,
    /// The sites that were asked for: the affected ones first, then by name.
    pub sites: Vec<AffectedSite>,
    /// How many of those come after these.
    pub more: u64,
    /// When this was read, by the hub's clock.
    pub read_at: String,
}
