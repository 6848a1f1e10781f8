//! `index.json`: what one bundle states, and the digest and size of every blob that it carries.
//!
//! What comes in: an [`Index`] that the bundler assembled, or bytes that signed metadata lists.
//! What goes out: canonical bytes (sorted keys, no spaces), or an [`Index`] that was checked for
//! consistency, after its lists were counted: every content that a file names, also one of a single site's, is carried by a blob or
//! required from the base; what is for some sites names them; what was kept is an assignment, and no two orders contradict. It holds no time
//! and no path of a machine: the same snapshot gives the same bytes anywhere.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::blob::stored_as_it_is;
use crate::digest::Digest;
use crate::limits::Limits;
use crate::name::{Name, RelativePath};
use crate::number;
use crate::order::{self, Order};

pub mod compressed;
mod overlay;
pub mod release;
pub mod served;
mod shape;
pub mod site_values;
mod sites;
mod snapshot;
mod tree;
pub mod waves;

use shape::Shape;
use tree::{BundleContents, Tree};

pub use crate::blob::{Blob, Content, Encoding};
pub use crate::stream::Stream;
pub use compressed::IndexBytes;
pub use overlay::Overlay;
pub use release::AgentRelease;
pub use served::Served;
pub use site_values::SiteValues;
pub use sites::format_of;
pub use waves::Waves;

/// The name of the index among a bundle's members, and where one is kept.
pub const FILE: &str = "index.json";
/// The format's name; a reader refuses what it does not know.
pub const FORMAT: &str = "outhaul.dev/bundle/v1";
/// The format of an index with assignments for some sites only. A reader that knows [`FORMAT`] alone
/// must refuse it: it would apply them everywhere.
pub const FORMAT_WITH_SITES: &str = "outhaul.dev/bundle/v2";
/// The format of an index with what the site serves. A reader that knows the others alone must refuse it: its
/// reconciler would wait for what nobody serves.
pub const FORMAT_WITH_SERVED: &str = "outhaul.dev/bundle/v3";
/// The format of an index with what each site decides for itself by signed rules (values that it sets, when it takes a
/// bundle), or with an agent. A reader that knows the others alone must refuse it: it would not keep the rules.
pub const FORMAT_WITH_SITE_RULES: &str = "outhaul.dev/bundle/v4";
/// The format of an index with assignments that bring the reconciler of the others. A reader that knows the others alone
/// must refuse it: it would give them to a reconciler that is not there.
pub const FORMAT_WITH_BOOTSTRAP: &str = "outhaul.dev/bundle/v5";
/// The name of a bundle's own bill of materials among its attestations.
pub const SBOM: &str = "sbom.cdx.json";
/// Every format that this program reads.
const FORMATS: [&str; 5] = [
    FORMAT,
    FORMAT_WITH_SITES,
    FORMAT_WITH_SERVED,
    FORMAT_WITH_SITE_RULES,
    FORMAT_WITH_BOOTSTRAP,
];

/// The index of one bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Index {
    /// [`FORMAT`], [`FORMAT_WITH_SITES`] where an assignment is for some sites only,
    /// [`FORMAT_WITH_SERVED`] where the site is to serve something, [`FORMAT_WITH_SITE_RULES`] where sites set values
    /// or take it in waves, or [`FORMAT_WITH_BOOTSTRAP`] where assignments bring the reconciler of the others.
    pub format: String,
    /// The fleet's id: the first 16 hexadecimal digits of its first root metadata's digest.
    pub fleet: Name,
    /// The stream that this bundle is a number of.
    pub stream: Stream,
    /// This bundle's number in its stream: 1, 2, 3 … Equal to the version of the stream's role.
    #[serde(deserialize_with = "number::one")]
    pub number: u64,
    /// The number of the bundle that a delta bundle builds on; absent for a full bundle.
    #[serde(
        default,
        deserialize_with = "number::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub requires: Option<u64>,
    /// The commits that the content was rendered from.
    pub snapshot: Snapshot,
    /// Which reconciler makes the content real, and its settings.
    pub reconciler: ReconcilerSettings,
    /// Names of the sites that this bundle is for; empty means every site of the stream.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub recipients: BTreeSet<Name>,
    /// Which sites take it first; absent where all take it at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waves: Option<Waves>,
    /// The agent that it brings, which sites replace theirs by when it is newer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentRelease>,
    /// What runs: one entry per assignment, sorted by name.
    pub assignments: Vec<Assignment>,
    /// What the site serves: images and git repositories that the assignments need.
    #[serde(default, skip_serializing_if = "Served::is_empty")]
    pub served: Served,
    /// Assignments that the snapshot does not render to, because they are broken in it: they stay as
    /// they last were. By name, with the digest of the snapshot that they were rendered from.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub kept: BTreeMap<Name, Digest>,
    /// The centre's orders to single sites of the stream.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub orders: Vec<Order>,
    /// Signed statements about the bundle itself, sorted by path: what it was rendered from, and a
    /// bill of materials. They are carried like any content and are not part of what is applied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attestations: Vec<File>,
    /// Every blob of the bundle, in the order in which it lies in the tar.
    pub blobs: Vec<Blob>,
}

/// The immutable input of the render that made this bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    /// The environment's own branch or folder.
    pub environment: Source,
    /// What is promoted: the base repository at its pinned commit.
    pub base: Source,
    /// Each workload's repository, sorted by name.
    pub workloads: Vec<Source>,
    /// One digest over all of the above.
    pub digest: Digest,
}

/// How the names of sources begin that only an assignment of an earlier snapshot is from.
pub const KEPT: &str = "kept:";

/// One source at one commit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// The object that names the source: the base repository's or the registration's name.
    pub name: String,
    /// The repository's URL as the control plane has it, never a local folder; `""` for the
    /// environment when it was given as a folder that has none.
    pub repo: String,
    /// The commit (40 or 64 hexadecimal digits) or, for a plain folder, `sha256:…` of its content.
    pub commit: String,
}

/// Which reconciler a stream is rendered for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReconcilerSettings {
    /// `ansible`, `folder`, `kubernetes`, `flux`, `argocd`, `fleet`, `zarf`.
    pub kind: Name,
    /// The reconciler's own settings, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
    /// How drift is met: `report` or `correct`.
    #[serde(default)]
    pub drift: DriftPolicy,
}

/// What an agent does when it finds that someone changed what it applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DriftPolicy {
    /// Apply again, and report.
    Correct,
    /// Report only.
    #[default]
    Report,
}

/// One assignment: a deployment target on this stream's cluster type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Assignment {
    /// The deployment target's full name, `<workload>-<target>`. Unique in the bundle.
    pub name: Name,
    /// The workload.
    pub workload: String,
    /// The workspace (team) that owns it.
    pub workspace: String,
    /// Names of the scheduling policies that put it here, sorted.
    pub policies: Vec<String>,
    /// The only sites that it is for; absent for every site of the stream. Never empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sites: Option<BTreeSet<Name>>,
    /// Digest of the composed platform config: the config's version.
    pub config_version: Digest,
    /// Rendered files, relative to the assignment's folder, sorted by path:
    /// `namespace.yaml`, `reconciler.yaml`, `platform-config.yaml` …
    pub files: Vec<File>,
    /// What the reconciler could not otherwise reach, relative to the assignment's payload folder,
    /// sorted by path: the workload's manifests, packages, files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub payload: Vec<File>,
    /// Where some sites get other files than these. A site is in at most one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overlays: Vec<Overlay>,
    /// Which values a site may set itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site_values: Option<SiteValues>,
    /// Which reconciler applies it, before all that have no such field and in the place of the stream's: it brings
    /// the stream's reconciler. Absent for the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bootstrap: Option<Name>,
}

/// One file of an assignment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Where it lies, relative to its folder.
    pub path: RelativePath,
    /// Digest of the content.
    pub content: Digest,
    /// Size of the content in bytes.
    pub size: u64,
    /// Whether it is executable.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub executable: bool,
}

/// Why bytes are not an index that can be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// Not JSON of the right shape.
    #[error("index.json line {} column {}: {error}", error.line(), error.column())]
    Malformed {
        /// The error of the parser.
        error: serde_json::Error,
    },
    /// Another format, for example of a newer Outhaul.
    #[error(
        "index.json is of format `{found}`, this program reads {}", FORMATS.map(|one| format!("`{one}`")).join(", ")
    )]
    UnknownFormat {
        /// The format found.
        found: String,
    },
    /// It contradicts itself or a limit.
    #[error("index.json: {problem}")]
    Inconsistent {
        /// What contradicts what.
        problem: String,
    },
}

impl Index {
    /// The canonical bytes: what is hashed, signed and shipped.
    pub fn to_bytes(&self) -> Vec<u8> {
        // Through `Value`, which has sorted maps: field order in this file may change freely.
        let value = serde_json::to_value(self).unwrap_or(serde_json::Value::Null);
        let mut bytes = value.to_string().into_bytes();
        bytes.push(b'\n');
        bytes
    }

    /// An index from bytes that the metadata lists.
    ///
    /// # Errors
    /// [`IndexError`] when the bytes are malformed, of another format, or inconsistent.
    pub fn from_bytes(bytes: &[u8], limits: &Limits) -> Result<Self, IndexError> {
        let shape: Shape =
            serde_json::from_slice(bytes).map_err(|error| IndexError::Malformed { error })?;
        if !FORMATS.contains(&shape.format.as_str()) {
            return Err(IndexError::UnknownFormat {
                found: shape.format,
            });
        }
        if let Some((what, found, max)) = shape.beyond(limits) {
            let problem = format!("{found} {what}, the limit is {max}");
            return Err(IndexError::Inconsistent { problem });
        }
        let index: Self =
            serde_json::from_slice(bytes).map_err(|error| IndexError::Malformed { error })?;
        index.check(limits)?;
        Ok(index)
    }

    /// Every file of every assignment: rendered, of sites, and payload.
    pub fn files(&self) -> impl Iterator<Item = &File> {
        self.assignments.iter().flat_map(|assignment| {
            let of_sites = assignment.overlays.iter().flat_map(|o| &o.files);
            assignment
                .files
                .iter()
                .chain(of_sites)
                .chain(&assignment.payload)
        })
    }

    /// Bytes of all blobs as carried.
    pub fn carried_bytes(&self) -> u64 {
        self.blobs
            .iter()
            .fold(0, |sum, blob| sum.saturating_add(blob.size))
    }

    /// Bytes of all distinct contents once unpacked.
    pub fn content_bytes(&self) -> u64 {
        let contents: BTreeSet<_> = self.blobs.iter().flat_map(|b| &b.contents).collect();
        contents
            .iter()
            .fold(0, |sum, content| sum.saturating_add(content.size))
    }

    pub(crate) fn check(&self, limits: &Limits) -> Result<(), IndexError> {
        let fail = |problem: String| Err(IndexError::Inconsistent { problem });
        if self.number == 0 {
            return fail("bundle numbers start at 1".into());
        }
        if let Some(base) = self.requires
            && !(1..self.number).contains(&base)
        {
            return fail(format!("number {} builds on number {base}", self.number));
        }
        let mut carried = BTreeMap::new();
        let mut seen_blobs = BTreeSet::new();
        for blob in &self.blobs {
            if !seen_blobs.insert(blob.digest) {
                return fail(format!("blob {} is listed twice", blob.digest));
            }
            if blob.size > limits.max_blob_bytes {
                return fail(format!(
                    "blob {} of {} bytes is too large",
                    blob.digest, blob.size
                ));
            }
            if blob.encoding != Encoding::Pack && blob.contents.len() != 1 {
                return fail(format!(
                    "blob {} must hold exactly one content",
                    blob.digest
                ));
            }
            for content in &blob.contents {
                let max = match blob.encoding {
                    Encoding::Pack => limits.max_packed_content_bytes,
                    Encoding::Identity | Encoding::Zstd => limits.max_content_bytes,
                };
                if content.size > max {
                    return fail(format!("content {} is too large", content.digest));
                }
                if carried.insert(content.digest, content.size).is_some() {
                    return fail(format!("content {} is carried twice", content.digest));
                }
            }
            if let Some(problem) = blob.seal_problem(limits) {
                return fail(problem);
            }
            if blob.encoding == Encoding::Identity && !stored_as_it_is(blob) {
                return fail(format!(
                    "blob {} is stored as it is but differs",
                    blob.digest
                ));
            }
        }
        if let Some(problem) = sites::problem(self) {
            return fail(problem);
        }
        let listed: BTreeSet<&Name> = self.assignments.iter().map(|one| &one.name).collect();
        if let Some(name) = self.kept.keys().find(|name| !listed.contains(name)) {
            return fail(format!("`{name}` was kept and is not an assignment"));
        }
        if let Some(problem) = order::problem(&self.orders) {
            return fail(problem);
        }
        if let Some(problem) = self.waves.as_ref().and_then(Waves::problem) {
            return fail(problem);
        }
        let carried = BundleContents {
            sizes: &carried,
            delta: self.requires.is_some(),
        };
        self.served.check(carried)?;
        if let Some(agent) = &self.agent {
            agent.check(carried)?;
        }
        let mut names = BTreeSet::new();
        Tree::new("attestations", &self.attestations, carried)?;
        for assignment in &self.assignments {
            if !names.insert(assignment.name.as_str().to_ascii_lowercase()) {
                return fail(format!("assignment `{}` is listed twice", assignment.name));
            }
            let name = assignment.name.as_str();
            Tree::new(name, &assignment.payload, carried)?;
            let base = Tree::new(name, &assignment.files, carried)?;
            assignment.check_overlays(&base, carried)?;
            assignment.check_site_values()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
