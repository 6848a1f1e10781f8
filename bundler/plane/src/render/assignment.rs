//! What one assignment renders to, and how it is written down: a file is a text, but where a template writes other bytes.
//!
//! What comes in: nothing; it is made by rendering, or read from where it was written down. What goes out: the same again. A
//! field that is not known is an error. It renders nothing.

use std::collections::{BTreeMap, BTreeSet};

use outhaul_bundle::Digest;
use outhaul_bundle::index::SiteValues;
use serde::{Deserialize, Serialize};

use super::as_texts;

/// One assignment's files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RenderedAssignment {
    /// The workload.
    pub workload: String,
    /// The workspace (team) that owns it.
    pub workspace: String,
    /// Names of the policies that put it here, sorted.
    pub policies: Vec<String>,
    /// The only sites that it is for, by name; `None` for every site. Never empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sites: Option<BTreeSet<String>>,
    /// The namespace: `<environment>-<cluster type>-<target>`.
    pub namespace: String,
    /// Digest of the composed platform config.
    pub config_version: Digest,
    /// Content by file name: `namespace.yaml`, `reconciler.yaml`, `platform-config.yaml` …
    #[serde(with = "as_texts")]
    pub files: BTreeMap<String, Vec<u8>>,
    /// Where the workload's manifests lie: `repo`, `branch`, `path` by convention.
    pub manifests: BTreeMap<String, String>,
    /// Where some sites get other files than these. A site is in at most one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overlays: Vec<RenderedOverlay>,
    /// Which values its sites may set themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site_values: Option<SiteValues>,
    /// Which reconciler applies it before the others, because it brings theirs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bootstrap: Option<String>,
}

/// The files that some sites get in place of, or beside, the assignment's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RenderedOverlay {
    /// Names of the sites. Never empty.
    pub sites: BTreeSet<String>,
    /// Digest of the platform config composed for them.
    pub config_version: Digest,
    /// Content by file name; only what differs. Never empty.
    #[serde(with = "as_texts")]
    pub files: BTreeMap<String, Vec<u8>>,
}
