//! The record that lies beside what was rendered into a folder or branch: its formats, which the centre writes and a site reads that
//! observes a cluster.
//!
//! What comes in and goes out: nothing; these are names.

/// The format that is written.
pub const FORMAT: &str = "outhaul.dev/output/v1";
/// The format of a branch's record before it.
pub const BRANCH_BEFORE: &str = "outhaul.dev/platform/v1";
