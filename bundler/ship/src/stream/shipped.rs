//! What a stream last shipped, as far as it is needed when an assignment breaks.
//!
//! What comes in: a stream's assignments as they were shipped, each with its snapshot and the commit
//! of its payload. What goes out: the same, when the next bundle is made. It lies in the fleet's
//! folder, one file a stream, written when the bundle is on record. A file that is damaged or of a
//! later program is an error: without it a broken assignment would vanish from sites.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use outhaul_bundle::Digest;
use outhaul_bundle::index::SiteValues;
use outhaul_signer::durable::{self, FileError};
use serde::{Deserialize, Serialize};

use outhaul_plane::render::{RenderedAssignment, RenderedOverlay};

/// The file's format.
const FORMAT: &str = "outhaul.dev/rendered/v1";
/// Largest file in bytes.
const MAX_BYTES: u64 = 256 * 1024 * 1024;

/// Why it cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShippedError {
    /// The file system refused.
    #[error(transparent)]
    File(#[from] FileError),
    /// The file is damaged.
    #[error(
        "`{}` does not say what the stream last shipped: {problem}\nhelp: restore it from a copy; if there \
         is none, remove it: then broken assignments are left out once, and removals are not compared",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
}

/// One stream's assignments as they were shipped last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ShippedStream {
    format: String,
    /// For people who look into the folder.
    environment: String,
    cluster_type: String,
    pub(super) assignments: BTreeMap<String, ShippedAssignment>,
}

/// One assignment as it was shipped last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ShippedAssignment {
    /// Digest of the snapshot that it was rendered from.
    pub(super) from: Digest,
    /// The commit of its payload; absent when it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) payload_commit: Option<String>,
    workload: String,
    workspace: String,
    policies: Vec<String>,
    /// The only sites that it was for; absent for every site.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) sites: Option<BTreeSet<String>>,
    namespace: String,
    config_version: Digest,
    files: BTreeMap<String, String>,
    manifests: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    overlays: Vec<ShippedOverlay>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    site_values: Option<SiteValues>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bootstrap: Option<String>,
}

/// What some sites had of it in the place of its files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ShippedOverlay {
    sites: BTreeSet<String>,
    config_version: Digest,
    files: BTreeMap<String, String>,
}

impl ShippedAssignment {
    /// `None` for files that are not text: no template renders to such.
    pub(super) fn of(
        rendered: &RenderedAssignment,
        from: Digest,
        payload_commit: Option<String>,
    ) -> Option<Self> {
        let overlays = rendered.overlays.iter().map(|overlay| {
            Some(ShippedOverlay {
                sites: overlay.sites.clone(),
                config_version: overlay.config_version,
                files: texts(&overlay.files)?,
            })
        });
        Some(Self {
            from,
            payload_commit,
            workload: rendered.workload.clone(),
            workspace: rendered.workspace.clone(),
            policies: rendered.policies.clone(),
            sites: rendered.sites.clone(),
            namespace: rendered.namespace.clone(),
            config_version: rendered.config_version,
            files: texts(&rendered.files)?,
            manifests: rendered.manifests.clone(),
            overlays: overlays.collect::<Option<_>>()?,
            site_values: rendered.site_values.clone(),
            bootstrap: rendered.bootstrap.clone(),
        })
    }

    /// The team that owns it.
    pub(super) fn workspace(&self) -> &str {
        &self.workspace
    }

    pub(super) fn rendered(&self) -> Arc<RenderedAssignment> {
        let overlays = self.overlays.iter().map(|overlay| RenderedOverlay {
            sites: overlay.sites.clone(),
            config_version: overlay.config_version,
            files: bytes(&overlay.files),
        });
        Arc::new(RenderedAssignment {
            workload: self.workload.clone(),
            workspace: self.workspace.clone(),
            policies: self.policies.clone(),
            namespace: self.namespace.clone(),
            config_version: self.config_version,
            files: bytes(&self.files),
            manifests: self.manifests.clone(),
            sites: self.sites.clone(),
            overlays: overlays.collect(),
            site_values: self.site_values.clone(),
            bootstrap: self.bootstrap.clone(),
        })
    }
}

fn texts(files: &BTreeMap<String, Vec<u8>>) -> Option<BTreeMap<String, String>> {
    let text = |(name, bytes): (&String, &Vec<u8>)| {
        Some((name.clone(), std::str::from_utf8(bytes).ok()?.to_owned()))
    };
    files.iter().map(text).collect()
}

fn bytes(files: &BTreeMap<String, String>) -> BTreeMap<String, Vec<u8>> {
    let bytes = |(name, text): (&String, &String)| (name.clone(), text.clone().into_bytes());
    files.iter().map(bytes).collect()
}

impl ShippedStream {
    pub(super) fn new(
        environment: &str,
        cluster_type: &str,
        assignments: BTreeMap<String, ShippedAssignment>,
    ) -> Self {
        Self {
            format: FORMAT.to_owned(),
            environment: environment.to_owned(),
            cluster_type: cluster_type.to_owned(),
            assignments,
        }
    }

    /// What the stream `role` last shipped; `None` when nothing is known of it.
    pub(super) fn read(fleet: &Path, role: &str) -> Result<Option<Self>, ShippedError> {
        let path = path(fleet, role);
        let Some(bytes) = durable::read_if_present(&path, MAX_BYTES)? else {
            return Ok(None);
        };
        let damaged = |problem: String| ShippedError::Damaged {
            path: path.clone(),
            problem,
        };
        let read: Self =
            serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
        if read.format != FORMAT {
            return Err(damaged(format!("its format is `{}`", read.format)));
        }
        Ok(Some(read))
    }

    /// Puts it in the place of what was there, durably.
    pub(super) fn write(&self, fleet: &Path, role: &str) -> Result<(), ShippedError> {
        let path = path(fleet, role);
        if let Some(folder) = path.parent() {
            durable::create_private_folder(folder)?;
        }
        let bytes = serde_json::to_vec(self).map_err(|error| ShippedError::Damaged {
            path: path.clone(),
            problem: error.to_string(),
        })?;
        Ok(durable::write(&path, &bytes, durable::SECRET_MODE)?)
    }

    /// Its assignments as `<cluster type>/<target>`.
    pub(super) fn names(&self) -> BTreeSet<String> {
        let names = self.assignments.keys();
        names
            .map(|name| format!("{}/{name}", self.cluster_type))
            .collect()
    }
}

fn path(fleet: &Path, role: &str) -> PathBuf {
    fleet.join("rendered").join(format!("{role}.json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_shipped_is_read_back_and_damage_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(ShippedStream::read(folder.path(), "s-1").unwrap(), None);
        let rendered = RenderedAssignment {
            workload: "hello".into(),
            workspace: "team".into(),
            policies: vec!["p".into()],
            namespace: "dev-drone-hello".into(),
            config_version: Digest::of(b"config"),
            files: BTreeMap::from([("namespace.yaml".into(), b"a: \xc3\xa9\n".to_vec())]),
            manifests: BTreeMap::from([("repo".into(), "r".into())]),
            sites: Some(BTreeSet::from(["press-1".to_owned()])),
            overlays: vec![RenderedOverlay {
                sites: BTreeSet::from(["press-1".to_owned()]),
                config_version: Digest::of(b"own"),
                files: BTreeMap::from([("platform-config.yaml".into(), b"a: 1\n".to_vec())]),
            }],
            site_values: None,
            bootstrap: Some("kubernetes".into()),
        };
        let one = ShippedAssignment::of(&rendered, Digest::of(b"s"), Some("c".into())).unwrap();
        assert_eq!(*one.rendered(), rendered);
        let last = ShippedStream::new("dev", "drone", BTreeMap::from([("hello".into(), one)]));
        last.write(folder.path(), "s-1").unwrap();
        let read = ShippedStream::read(folder.path(), "s-1").unwrap().unwrap();
        assert_eq!(read, last);
        assert_eq!(read.names(), BTreeSet::from(["drone/hello".to_owned()]));

        std::fs::write(folder.path().join("rendered/s-1.json"), b"{}").unwrap();
        let error = ShippedStream::read(folder.path(), "s-1").unwrap_err();
        assert!(matches!(error, ShippedError::Damaged { .. }), "{error}");
    }
}
