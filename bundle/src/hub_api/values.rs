//! What a hub answers about values that a site set itself.
//!
//! What comes in: the site's newest report of them. What goes out: the same, typed, one entry per value. It decides nothing.

use serde::{Deserialize, Serialize};

/// A value that a site set itself, within what the centre opens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SiteValueRow {
    /// The site.
    pub site: String,
    /// The assignment.
    pub assignment: String,
    /// The key.
    pub key: String,
    /// The value.
    pub value: String,
    /// Who set it, as they named themselves on site.
    pub who: String,
    /// Why, in their words.
    pub reason: Option<String>,
    /// When, by the site's clock, RFC 3339.
    pub set_at: String,
    /// Why what runs does not use it; absent when it does.
    pub unused: Option<String>,
    /// Number of the report that says so.
    pub report: u64,
}
