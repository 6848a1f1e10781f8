//! Who may sign what, how many must, which keys are here, and when what expires.
//!
//! What comes in: a fleet's published metadata and key folder. What goes out: a value to print. It opens no
//! private key: the public halves beside them show which is which.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;

use crate::fleet::{Fleet, FleetError};
use crate::key::{Cost, SigningKey};
use crate::metadata::RoleKeys;

/// The state of a fleet's keys and dates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Status {
    /// The fleet's id.
    pub fleet: String,
    /// Root, targets, snapshot, timestamp, then every stream.
    pub roles: Vec<RoleStatus>,
    /// Files of requests that wait for signatures.
    pub waiting: Vec<String>,
}

/// The state of one role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RoleStatus {
    /// Its name in the metadata.
    pub role: String,
    /// For a stream: `environment / cluster type`, when known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<String>,
    /// The published version; 0 when nothing was published.
    pub version: u64,
    /// Keys that must sign.
    pub threshold: usize,
    /// Its keys.
    pub keys: Vec<KeyStatus>,
    /// When the published version expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
}

/// One key of a role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KeyStatus {
    /// Its id.
    pub id: String,
    /// Whether its private half is in the fleet's folder.
    pub here: bool,
    /// Whether that half rests weaker than new keys do: `outhaul-signer passphrase` makes it stronger.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub weak: bool,
}

impl Fleet {
    /// Roles, thresholds, keys and dates.
    ///
    /// # Errors
    /// [`FleetError`] when the fleet cannot be read.
    pub fn status(&self) -> Result<Status, FleetError> {
        let published = self.published()?;
        let mut here = BTreeMap::new();
        for entry in self.ring().entries()?.into_iter().filter(|one| one.present) {
            let weak = SigningKey::is_weaker(&entry.private, Cost::daily()).unwrap_or(false);
            here.insert(entry.public.id(), weak);
        }
        let status = |role: &str, keys: &RoleKeys, version: u64, expires: Timestamp| RoleStatus {
            role: role.to_owned(),
            stream: None,
            version,
            threshold: keys.threshold,
            keys: key_statuses(&keys.keyids, &here),
            expires: Some(expires),
        };
        let (root, targets) = (&published.root, &published.targets);
        let (snapshot, timestamp) = (&published.snapshot, &published.timestamp);
        let mut roles = Vec::new();
        for (role, version, expires) in [
            ("root", root.version, root.expires),
            ("targets", targets.version, targets.expires),
            ("snapshot", snapshot.version, snapshot.expires),
            ("timestamp", timestamp.version, timestamp.expires),
        ] {
            roles.extend(
                root.roles
                    .get(role)
                    .map(|keys| status(role, keys, version, expires)),
            );
        }
        for delegated in targets
            .delegations
            .iter()
            .flat_map(|delegations| &delegations.roles)
        {
            let stream = published.stream(&self.metadata_folder(), &delegated.name)?;
            let names = self.streams().get(&delegated.name);
            roles.push(RoleStatus {
                role: delegated.name.clone(),
                stream: names.map(|n| format!("{} / {}", n.environment, n.cluster_type)),
                version: stream.as_ref().map_or(0, |(targets, _)| targets.version),
                threshold: delegated.threshold,
                keys: key_statuses(&delegated.keyids, &here),
                expires: stream.map(|(targets, _)| targets.expires),
            });
        }
        Ok(Status {
            fleet: self.id().to_owned(),
            roles,
            waiting: self.waiting()?,
        })
    }

    /// File names of the requests that wait for signatures, sorted.
    fn waiting(&self) -> Result<Vec<String>, FleetError> {
        let folder = self.request_folder();
        if !folder.is_dir() {
            return Ok(Vec::new());
        }
        let doing = "list";
        let failed = |source| crate::durable::FileError {
            doing,
            path: folder.clone(),
            source,
        };
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&folder).map_err(failed)? {
            let name = entry
                .map_err(failed)?
                .file_name()
                .to_string_lossy()
                .into_owned();
            if name.ends_with(".request") {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }
}

fn key_statuses(ids: &[String], here: &BTreeMap<String, bool>) -> Vec<KeyStatus> {
    ids.iter()
        .map(|id| KeyStatus {
            id: id.clone(),
            here: here.contains_key(id),
            weak: here.get(id).copied().unwrap_or(false),
        })
        .collect()
}
