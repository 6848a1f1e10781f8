//! The name of a stream: the numbered sequence of bundles for one environment and cluster type.
//!
//! What comes in: names. What goes out: the value that an index, an order and a report name a stream by.

use serde::{Deserialize, Serialize};

use crate::name::Name;

/// The numbered sequence of bundles for one (environment, cluster type).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stream {
    /// The opaque name of the signing role: what shows in metadata that every site sees.
    pub role: Name,
    /// The environment, such as `dev`.
    pub environment: Name,
    /// The cluster type, such as `drone`.
    pub cluster_type: Name,
}
