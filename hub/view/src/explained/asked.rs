//! Which pair is asked about.
//!
//! What comes in: names that anybody may have written. What goes out: the same, by what they are. It looks nothing up.

/// Which pair.
#[derive(Debug, Clone, Copy)]
pub struct ExplainAsked<'a> {
    /// The environment.
    pub environment: &'a str,
    /// The cluster type.
    pub cluster_type: &'a str,
    /// The deployment target.
    pub target: &'a str,
    /// A site of the cluster type; empty for none.
    pub site: &'a str,
    /// Digest of the document; empty for that of the bundle that runs, else of the desired one, else the newest.
    pub digest: &'a str,
}
