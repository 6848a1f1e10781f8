//! How large things may be that others define and that several programs read.
//!
//! What comes in: nothing. What goes out: one bound for each thing, so that no program takes what another one refuses. Bounds of
//! Outhaul's own formats stand beside the format.

/// Largest manifest of an image, or index of manifests: what registries take.
pub const MAX_IMAGE_MANIFEST_BYTES: u64 = 4 << 20;
/// Deepest chain of indexes of images that name one another.
pub const MAX_IMAGE_INDEX_DEPTH: usize = 4;
/// Most characters of a text that is sent to a forge: GitHub's comments and pull requests hold 65,536.
pub const MAX_FORGE_TEXT_BYTES: usize = 60_000;
/// Longest tag of an image (distribution specification).
pub const MAX_IMAGE_TAG_BYTES: usize = 128;
/// Longest label of a DNS name (RFC 1035), and with it longest name of a namespace and longest value of a label in Kubernetes.
pub const MAX_DNS_LABEL_BYTES: usize = 63;
/// Longest DNS name (RFC 1035).
pub const MAX_DNS_NAME_BYTES: usize = 253;
/// Deepest nesting of a YAML text. Kubernetes objects need some twenty levels.
pub const MAX_YAML_DEPTH: usize = 64;
/// Most text of one YAML document, keys included, once its aliases are expanded. The API server takes no object above 3 MiB.
pub const MAX_YAML_EXPANDED_BYTES: usize = 64 << 20;
/// Largest archive of a Helm chart.
pub const MAX_CHART_ARCHIVE_BYTES: u64 = 32 << 20;
/// Largest file with the certificate of a private authority that is handed on, in a kit or to a cluster. The system's own authorities,
/// which are only read, are more.
pub const MAX_PRIVATE_AUTHORITY_BYTES: u64 = 256 * 1024;
/// Largest file with a key in bytes; a real one has some 300.
pub const MAX_KEY_BYTES: u64 = 16 * 1024;
