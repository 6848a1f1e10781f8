//! A site of an export.
//!
//! What comes in: the line of a registered site. What goes out: the same, typed. It checks nothing.

/// A registered site.
#[derive(Debug, Clone)]
pub struct RegisteredSite {
    pub role: String,
    pub environment: String,
    pub cluster_type: String,
    pub enrolled_ms: i64,
    pub revoked_ms: Option<i64>,
    pub counts_from_ms: Option<i64>,
}
