//! How large things may be that others define and that several programs read.
//!
//! What comes in: nothing. What goes out: one bound for each thing, in bytes, so that no program takes what another one refuses. Bounds of
//! Outhaul's own formats stand beside the format.

/// Largest manifest of an image, or index of manifests: what registries take.
pub const MAX_IMAGE_MANIFEST_BYTES: u64 = 4 << 20;
/// Largest archive of a Helm chart.
pub const MAX_CHART_ARCHIVE_BYTES: u64 = 32 << 20;
/// Largest file with the certificate of a private authority that is handed on, in a kit or to a cluster. The system's own authorities,
/// which are only read, are more.
pub const MAX_PRIVATE_AUTHORITY_BYTES: u64 = 256 * 1024;
