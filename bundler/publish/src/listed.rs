//! What the published metadata of a fleet leads to, and whether all of it is there to be published.
//!
//! What comes in: `timestamp.json` and the snapshot that it names, as they were signed. What goes out: each role with its version, or a
//! refusal where the bundle of one is lost. It verifies nothing: what is published was verified when it was signed.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::error::PublicationError;

/// Where clients look for what leads to everything else.
pub(crate) const TIMESTAMP: &str = "metadata/timestamp.json";

/// Gives a file of the published metadata; `None` for one that is not there.
pub type ReadMetadata<'r> = &'r dyn Fn(&str) -> Result<Option<Vec<u8>>, PublicationError>;

/// What the published metadata leads to.
pub(crate) struct PublishedMetadata {
    /// The version of `timestamp.json`.
    pub(crate) version: u64,
    pub(crate) timestamp: Vec<u8>,
    /// The snapshot's name and bytes.
    pub(crate) snapshot: (String, Vec<u8>),
    /// The version of each role that the snapshot lists.
    pub(crate) versions: Vec<(String, u64)>,
}

impl PublishedMetadata {
    pub(crate) fn read(read: ReadMetadata<'_>) -> Result<Self, PublicationError> {
        let timestamp = needed(read, "timestamp.json")?;
        let found = versions("timestamp.json", &timestamp)?;
        let snapshot = found.meta.get("snapshot.json");
        let snapshot = snapshot.ok_or_else(|| PublicationError::Metadata {
            file: "timestamp.json".to_owned(),
            problem: "it names no snapshot".to_owned(),
        })?;
        let name = format!("{}.snapshot.json", snapshot.version);
        let bytes = needed(read, &name)?;
        let roles = versions(&name, &bytes)?.meta.into_iter();
        let roles = roles.map(|(role, pinned)| {
            let role = role.trim_end_matches(".json").to_owned();
            (role, pinned.version)
        });
        Ok(Self {
            version: found.version,
            timestamp,
            versions: roles.collect(),
            snapshot: (name, bytes),
        })
    }

    /// Refuses it while the bundle of one of its streams is not there: `has` knows that, by role and number.
    pub(crate) fn refuse_lost(
        &self,
        has: &dyn Fn(&str, u64) -> bool,
        name_of: &dyn Fn(&str) -> String,
    ) -> Result<(), PublicationError> {
        let is_lost = |(role, number): &&(String, u64)| role != "targets" && !has(role, *number);
        match self.versions.iter().find(is_lost) {
            Some((role, number)) => Err(PublicationError::NoBundle {
                stream: name_of(role),
                number: *number,
            }),
            None => Ok(()),
        }
    }
}

pub(crate) fn needed(read: ReadMetadata<'_>, name: &str) -> Result<Vec<u8>, PublicationError> {
    read(name)?.ok_or_else(|| PublicationError::Metadata {
        file: name.to_owned(),
        problem: "it is not there".to_owned(),
    })
}

#[derive(Deserialize)]
struct Signed {
    signed: Versions,
}

#[derive(Deserialize)]
struct Versions {
    version: u64,
    #[serde(default)]
    meta: BTreeMap<String, Pinned>,
}

#[derive(Deserialize)]
struct Pinned {
    version: u64,
}

fn versions(file: &str, bytes: &[u8]) -> Result<Versions, PublicationError> {
    let parsed: Result<Signed, _> = serde_json::from_slice(bytes);
    parsed
        .map(|found| found.signed)
        .map_err(|error| PublicationError::Metadata {
            file: file.to_owned(),
            problem: error.to_string(),
        })
}

/// The version that a `timestamp.json` has; `None` for what is none.
pub(crate) fn version_of(bytes: &[u8]) -> Option<u64> {
    versions(TIMESTAMP, bytes).ok().map(|found| found.version)
}
