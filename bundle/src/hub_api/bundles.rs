//! What a hub answers when someone asks which bundles it has on record, and where their sites stand.
//!
//! What comes in: bundles that were verified, the indexes that are kept of them, and what sites report. What goes out: one row for each
//! bundle. Times are RFC 3339 texts, sizes are bytes. What is not known is absent, and the row says why.

use serde::{Deserialize, Serialize};

/// A bundle on record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BundleRow {
    /// Its environment.
    pub environment: String,
    /// Its cluster type.
    pub cluster_type: String,
    /// The signing role of its stream.
    pub role: String,
    /// Its number in the stream.
    pub number: u64,
    /// The base commit that it was rendered from.
    pub base_commit: String,
    /// Digest of its index.
    pub index: String,
    /// When it was signed.
    pub issued_at: String,
    /// When this hub received it first.
    pub received_at: String,
    /// When its signature expires.
    pub expires_at: String,
    /// Whether a key that signed it was taken away from its stream since: no site takes it any more.
    pub taken_back: bool,
    /// How many sites it is for; 0 for every site of its stream.
    pub recipients: u64,
    /// How many assignments it has.
    pub assignments: u64,
    /// How large it is; absent where the hub has no index of it to tell from.
    pub sizes: Option<BundleSizes>,
    /// Why a size is absent.
    pub unknown: Option<String>,
    /// Where the sites that it is for stand with it.
    pub sites: BundleSites,
}

/// How large a bundle is, by the digests and sizes in its index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BundleSizes {
    /// Its blobs as they travel, compressed and perhaps sealed.
    pub carried_bytes: u64,
    /// All that it brings to a site that has nothing, unpacked, each content once.
    pub held_bytes: u64,
    /// How much of that the bundle before does not have; absent where that one's index is not kept.
    pub new_bytes: Option<u64>,
    /// The number of the bundle before; absent for the first one on record.
    pub compared_with: Option<u64>,
    /// The number of the bundle that a site needs to have to use this one; absent for a whole bundle.
    pub requires: Option<u64>,
    /// Whether something in it is encrypted.
    pub is_sealed: bool,
}

/// Where the sites that a bundle is for stand with it. Each registered site that is not revoked counts once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BundleSites {
    /// All of them.
    pub all: u64,
    /// They run it.
    pub runs: u64,
    /// They reported it and do not run it yet.
    pub took: u64,
    /// It failed there or was rejected, or they left it again.
    pub not_taken: u64,
    /// They run other content under its number.
    pub other_content: u64,
    /// They run a newer one.
    pub beyond: u64,
    /// They report, and of this bundle nothing.
    pub behind: u64,
    /// They never reported.
    pub never: u64,
}
