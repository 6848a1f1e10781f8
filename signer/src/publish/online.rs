//! The online half of a publication: snapshot and timestamp, and targets when a stream is new.
//!
//! What comes in: what is published, the fleet's keys, and pins of new files. What goes out: the files of
//! the next publication, in the order of a bundle. It writes keys of new streams into the fleet's
//! folder and nothing else: publishing is the caller's step.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{DelegatedRole, Delegations, Key, MetaFile, RoleKeys, SPEC_VERSION, Signs};
use super::{InitOptions, PublishedRoles, Secret, SigningKey, Snapshot, Targets, TimestampRole};
use crate::durable;
use crate::fleet::{Fleet, FleetError, Marks};
use crate::metadata::{self, MetadataError};

/// A publication in the making.
pub(crate) struct Online<'a> {
    fleet: &'a Fleet,
    secret: &'a Secret,
    published: &'a PublishedRoles,
    targets: Targets,
    targets_changed: bool,
    targets_bytes: Vec<u8>,
    meta: BTreeMap<String, MetaFile>,
}

impl<'a> Online<'a> {
    /// The first publication of a new fleet: no stream yet.
    pub(crate) fn first(
        options: &InitOptions,
        targets_key: &SigningKey,
        online_key: &SigningKey,
    ) -> Result<Vec<(String, Vec<u8>)>, FleetError> {
        let targets = Targets {
            kind: "targets".to_owned(),
            spec_version: SPEC_VERSION.to_owned(),
            version: 1,
            expires: metadata::days_after(options.now, options.targets_days),
            targets: BTreeMap::new(),
            delegations: Some(Delegations::default()),
        };
        let targets = named("1.targets.json", metadata::sign(&targets, &[targets_key]))?;
        let meta = BTreeMap::from([("targets.json".to_owned(), MetaFile::of(1, &targets))]);
        let expires = metadata::days_after(options.now, options.online_days);
        let snapshot = snapshot_role(1, expires, meta);
        let snapshot = named("1.snapshot.json", metadata::sign(&snapshot, &[online_key]))?;
        let timestamp = timestamp_role(1, options.now, expires, MetaFile::of(1, &snapshot));
        let timestamp = named("timestamp.json", metadata::sign(&timestamp, &[online_key]))?;
        Ok(vec![
            ("1.targets.json".to_owned(), targets),
            ("1.snapshot.json".to_owned(), snapshot),
            ("timestamp.json".to_owned(), timestamp),
        ])
    }

    pub(crate) fn on(fleet: &'a Fleet, published: &'a PublishedRoles, secret: &'a Secret) -> Self {
        Self {
            fleet,
            secret,
            published,
            targets: published.targets.clone(),
            targets_changed: false,
            targets_bytes: published.targets_bytes.clone(),
            meta: published.snapshot.meta.clone(),
        }
    }

    /// Lists a new stream, with a separate key.
    pub(super) fn add_stream(&mut self, role: &str) -> Result<RoleKeys, FleetError> {
        let ring = self.fleet.ring();
        // A key that was made for it by a run that was cut off serves as well as a new one.
        let made = ring.made_for(&format!("stream-{role}"))?;
        let key = match made.into_iter().find(|entry| entry.present) {
            Some(entry) => entry.public,
            None => ring.make(&format!("stream-{role}"), self.secret)?.public(),
        };
        let keys = RoleKeys {
            keyids: vec![key.id()],
            threshold: 1,
        };
        let delegations = self.targets.delegations.get_or_insert_default();
        delegations.keys.insert(key.id(), Key::new(&key));
        delegations.roles.push(DelegatedRole {
            name: role.to_owned(),
            keyids: keys.keyids.clone(),
            threshold: keys.threshold,
            terminating: true,
            paths: vec![format!("{role}/*")],
        });
        self.targets_changed = true;
        Ok(keys)
    }

    /// Every key of a stream, by id.
    pub(super) fn stream_keys(&self) -> BTreeMap<String, Key> {
        self.targets
            .delegations
            .as_ref()
            .map(|d| d.keys.clone())
            .unwrap_or_default()
    }

    /// Takes over changed targets metadata, to be signed by [`Online::renew_targets`].
    pub(crate) fn set_targets(&mut self, targets: Targets) {
        self.targets = targets;
        self.targets_changed = true;
    }

    /// Signs the targets metadata again when it changed, or when it would expire before `expires` and
    /// its key is here.
    pub(crate) fn renew_targets(
        &mut self,
        marks: &mut Marks,
        issued: Timestamp,
        expires: Timestamp,
    ) -> Result<(), FleetError> {
        let renewed = metadata::days_after(issued, self.fleet.settings.targets_days);
        let keys = &self.published.root.roles["targets"];
        let ages = self.targets.expires < expires && renewed > self.targets.expires;
        if !self.targets_changed {
            let here = self.fleet.ring().entries()?;
            let present = |id: &String| here.iter().any(|e| e.present && e.public.id() == *id);
            let able = keys.keyids.iter().filter(|id| present(id)).count() >= keys.threshold;
            if !(ages && able) {
                return Ok(());
            }
        }
        let signers = self.fleet.ring().signers("targets", keys, self.secret)?;
        self.targets.version = marks.next("targets", self.published.targets.version);
        self.targets.expires = renewed.max(self.targets.expires);
        if let Some(delegations) = &mut self.targets.delegations {
            let used: Vec<_> = delegations
                .roles
                .iter()
                .flat_map(|r| r.keyids.clone())
                .collect();
            delegations.keys.retain(|id, _| used.contains(id));
            delegations.holders.retain(|id, _| used.contains(id));
        }
        let file = format!("{}.targets.json", self.targets.version);
        self.targets_bytes = named(&file, metadata::sign(&self.targets, &all(&signers)))?;
        let pin = MetaFile::of(self.targets.version, &self.targets_bytes);
        self.meta.insert("targets.json".to_owned(), pin);
        Ok(())
    }

    /// Puts a stream's new role file into the snapshot.
    pub(crate) fn pin(&mut self, file: &str, version: u64, bytes: &[u8]) {
        self.meta
            .insert(file.to_owned(), MetaFile::of(version, bytes));
    }

    /// Signs snapshot and timestamp: the files of a bundle, but for the stream's own.
    pub(crate) fn finish(
        self,
        marks: &mut Marks,
        issued: Timestamp,
        expires: Timestamp,
    ) -> Result<Vec<(String, Vec<u8>)>, FleetError> {
        let mut files = Vec::new();
        for version in 1..=self.published.root.version {
            let name = format!("{version}.root.json");
            let path = self.fleet.metadata_folder().join(&name);
            files.push((
                name,
                durable::read(&path, crate::trust::walk::MAX_ROOT_BYTES)?,
            ));
        }
        files.extend(self.finish_lower(marks, issued, expires)?);
        Ok(files)
    }

    /// Signs snapshot and timestamp: all files below the root.
    pub(crate) fn finish_lower(
        self,
        marks: &mut Marks,
        issued: Timestamp,
        expires: Timestamp,
    ) -> Result<Vec<(String, Vec<u8>)>, FleetError> {
        let published = self.published;
        let roles = &published.root.roles;
        // One snapshot serves all streams: a short date of one must not shorten the others'.
        let expires = metadata::whole_seconds(expires.max(published.snapshot.expires));
        let version = marks.next("snapshot", published.snapshot.version);
        let ring = self.fleet.ring();
        let signers = ring.signers("snapshot", &roles["snapshot"], self.secret)?;
        let file = format!("{version}.snapshot.json");
        let snapshot = snapshot_role(version, expires, self.meta);
        let snapshot = named(&file, metadata::sign(&snapshot, &all(&signers)))?;

        let pin = MetaFile::of(version, &snapshot);
        let version = marks.next("timestamp", published.timestamp.version);
        let timestamp = timestamp_role(version, issued, expires, pin);
        // One key mostly signs both; opening it takes a while, by design.
        let signers = if roles["timestamp"] == roles["snapshot"] {
            signers
        } else {
            ring.signers("timestamp", &roles["timestamp"], self.secret)?
        };
        let timestamp = named("timestamp.json", metadata::sign(&timestamp, &all(&signers)))?;

        Ok(vec![
            ("timestamp.json".to_owned(), timestamp),
            (file, snapshot),
            (
                format!("{}.targets.json", self.targets.version),
                self.targets_bytes,
            ),
        ])
    }
}

fn snapshot_role(version: u64, expires: Timestamp, meta: BTreeMap<String, MetaFile>) -> Snapshot {
    let kind = "snapshot".to_owned();
    Snapshot {
        kind,
        spec_version: SPEC_VERSION.to_owned(),
        version,
        expires,
        meta,
    }
}

fn timestamp_role(
    version: u64,
    issued: Timestamp,
    expires: Timestamp,
    snapshot: MetaFile,
) -> TimestampRole {
    TimestampRole {
        kind: "timestamp".to_owned(),
        spec_version: SPEC_VERSION.to_owned(),
        version,
        expires,
        issued: metadata::whole_seconds(issued),
        meta: BTreeMap::from([("snapshot.json".to_owned(), snapshot)]),
    }
}

pub(crate) fn all(keys: &[SigningKey]) -> Vec<&dyn Signs> {
    keys.iter().map(|key| key as &dyn Signs).collect()
}

/// Names the file that could not be made.
pub(crate) fn named<T>(file: &str, result: Result<T, MetadataError>) -> Result<T, FleetError> {
    result.map_err(|source| FleetError::Metadata {
        file: file.to_owned(),
        source,
    })
}
