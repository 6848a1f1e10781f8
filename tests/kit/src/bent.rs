//! A centre in memory that publishes whatever a test asks for, valid or not.
//!
//! What comes in: a test's changes to its parts: unlike a fleet's folder it lets versions, keys, dates, pins and signatures
//! be bent. What goes out: files as a web server would have them, and a [`Site`] that verifies them with floors of its own.

use std::collections::BTreeMap;

use jiff::Timestamp;
use outhaul_signer::metadata::{
    self, DelegatedRole, Delegations, Key, MetaFile, RoleKeys, Root, SPEC_VERSION, Signs, Snapshot,
    TargetFile, Targets, TimestampRole,
};
use outhaul_signer::trust::{self, Acceptance, TrustError, TrustedMetadata};
use outhaul_signer::{Fleet, SigningKey, TimePolicy};
use serde_json::json;

/// The stream that the tests' site follows.
pub const ROLE: &str = "s-0123456789abcdef";
/// Another stream of the same fleet.
pub const OTHER: &str = "s-fedcba9876543210";
/// When everything is issued, unless a test sets it.
pub const ISSUED: &str = "2026-06-01T00:00:00Z";
/// When everything expires, unless a test sets it.
pub const EXPIRES: &str = "2027-06-01T00:00:00Z";

/// A time that is one.
pub fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// A clockless site on the day of issue.
pub fn today() -> TimePolicy {
    TimePolicy {
        lower_bound: at(ISSUED),
        wall: at("1970-01-01T00:00:00Z"),
        wall_trusted: false,
    }
}

/// Metadata by file name.
pub type Files = BTreeMap<String, Vec<u8>>;

/// Keys, and metadata as it is signed next.
#[derive(Debug)]
pub struct Centre {
    /// Three, of which two sign a root.
    pub root_keys: Vec<SigningKey>,
    /// Signs the targets.
    pub targets_key: SigningKey,
    /// Signs snapshots.
    pub snapshot_key: SigningKey,
    /// Signs timestamps.
    pub timestamp_key: SigningKey,
    /// One for each stream.
    pub stream_keys: Vec<SigningKey>,
    /// The root.
    pub root: Root,
    /// The targets, which delegate to the streams.
    pub targets: Targets,
    /// The streams by role.
    pub streams: BTreeMap<String, Targets>,
    /// The snapshot.
    pub snapshot: Snapshot,
    /// The timestamp.
    pub timestamp: TimestampRole,
    /// Everything ever published, by file name, as a web server would have it.
    pub files: Files,
}

/// New keys.
pub fn keys(count: usize) -> Vec<SigningKey> {
    (0..count)
        .map(|_| SigningKey::generate().unwrap())
        .collect()
}

/// The keys of a role in a root.
pub fn role_keys(keys: &[&SigningKey], threshold: usize) -> RoleKeys {
    RoleKeys {
        keyids: keys.iter().map(|key| key.public().id()).collect(),
        threshold,
    }
}

/// The metadata of a stream that lists this content as its index.
pub fn stream(role: &str, number: u64, content: &[u8]) -> Targets {
    let custom = json!({
        "number": number, "issued": ISSUED, "environment": "dev", "cluster_type": "drone",
    });
    let target = TargetFile {
        length: content.len() as u64,
        hashes: metadata::sha256_of(content),
        custom,
    };
    Targets {
        kind: "targets".into(),
        spec_version: SPEC_VERSION.into(),
        version: number,
        expires: at(EXPIRES),
        targets: BTreeMap::from([(format!("{role}/index.json"), target)]),
        delegations: None,
    }
}

impl Centre {
    /// A fleet with two streams, number 1 of each published.
    pub fn new() -> Self {
        let (root_keys, stream_keys) = (keys(3), keys(2));
        let [targets_key, snapshot_key, timestamp_key]: [SigningKey; 3] =
            keys(3).try_into().unwrap();
        let spec_version = SPEC_VERSION.to_owned();
        let expires = at(EXPIRES);
        let root = Root {
            kind: "root".into(),
            spec_version: spec_version.clone(),
            version: 0,
            expires,
            consistent_snapshot: true,
            keys: BTreeMap::new(),
            roles: BTreeMap::new(),
            holders: BTreeMap::new(),
        };
        let delegated = |role: &str| DelegatedRole {
            name: role.into(),
            keyids: vec![],
            threshold: 1,
            terminating: true,
            paths: vec![format!("{role}/*")],
        };
        let targets = Targets {
            kind: "targets".into(),
            spec_version: spec_version.clone(),
            version: 0,
            expires,
            targets: BTreeMap::new(),
            delegations: Some(Delegations {
                keys: BTreeMap::new(),
                roles: vec![delegated(ROLE), delegated(OTHER)],
                holders: BTreeMap::new(),
            }),
        };
        let mut centre = Self {
            root,
            targets,
            streams: BTreeMap::from([
                (ROLE.to_owned(), stream(ROLE, 1, b"one")),
                (OTHER.to_owned(), stream(OTHER, 1, b"other")),
            ]),
            snapshot: Snapshot {
                kind: "snapshot".into(),
                spec_version: spec_version.clone(),
                version: 0,
                expires,
                meta: BTreeMap::new(),
            },
            timestamp: TimestampRole {
                kind: "timestamp".into(),
                spec_version,
                version: 0,
                expires,
                issued: at(ISSUED),
                meta: BTreeMap::new(),
            },
            root_keys,
            targets_key,
            snapshot_key,
            timestamp_key,
            stream_keys,
            files: Files::new(),
        };
        centre.assign_keys();
        centre.publish_root();
        centre.assign_stream_keys();
        centre.publish_targets();
        centre.publish();
        centre
    }

    /// Writes the centre's present keys into the root, 2 of 3 for the root itself.
    pub fn assign_keys(&mut self) {
        let root_keys: Vec<_> = self.root_keys.iter().collect();
        let lower = [&self.targets_key, &self.snapshot_key, &self.timestamp_key];
        let all = root_keys.iter().copied().chain(lower);
        self.root.keys = all
            .map(|key| (key.public().id(), Key::new(&key.public())))
            .collect();
        self.root.roles = BTreeMap::from([
            ("root".into(), role_keys(&root_keys, 2)),
            ("targets".into(), role_keys(&[&self.targets_key], 1)),
            ("snapshot".into(), role_keys(&[&self.snapshot_key], 1)),
            ("timestamp".into(), role_keys(&[&self.timestamp_key], 1)),
        ]);
    }

    /// Writes the centre's present stream keys into the targets: one for each stream.
    pub fn assign_stream_keys(&mut self) {
        let delegations = self.targets.delegations.as_mut().unwrap();
        delegations.keys = self
            .stream_keys
            .iter()
            .map(|key| (key.public().id(), Key::new(&key.public())))
            .collect();
        for (role, key) in delegations.roles.iter_mut().zip(&self.stream_keys) {
            role.keyids = vec![key.public().id()];
        }
    }

    /// Publishes the next root, signed by all present root keys.
    pub fn publish_root(&mut self) {
        let signers: Vec<&dyn Signs> = self.root_keys.iter().map(|key| key as _).collect();
        self.root.version += 1;
        let bytes = metadata::sign(&self.root, &signers).unwrap();
        self.files
            .insert(format!("{}.root.json", self.root.version), bytes);
    }

    /// Publishes the next root, signed by `signers` alone.
    pub fn publish_root_signed_by(&mut self, signers: &[&SigningKey]) {
        let signers: Vec<&dyn Signs> = signers.iter().map(|key| *key as _).collect();
        self.root.version += 1;
        let bytes = metadata::sign(&self.root, &signers).unwrap();
        self.files
            .insert(format!("{}.root.json", self.root.version), bytes);
    }

    /// Writes the next targets; [`Centre::publish`] makes them count.
    pub fn publish_targets(&mut self) {
        self.targets.version += 1;
        let bytes = metadata::sign(&self.targets, &[&self.targets_key]).unwrap();
        let version = self.targets.version;
        self.snapshot
            .meta
            .insert("targets.json".into(), MetaFile::of(version, &bytes));
        self.files.insert(format!("{version}.targets.json"), bytes);
    }

    /// Signs the streams as they are, then the next snapshot and timestamp.
    pub fn publish(&mut self) {
        for ((role, targets), key) in self.streams.iter().zip(&self.stream_keys) {
            let bytes = metadata::sign(targets, &[key]).unwrap();
            let pin = MetaFile::of(targets.version, &bytes);
            self.snapshot.meta.insert(format!("{role}.json"), pin);
            self.files
                .insert(format!("{}.{role}.json", targets.version), bytes);
        }
        self.publish_snapshot();
    }

    /// Signs the next snapshot over the pins as they are, and the next timestamp.
    pub fn publish_snapshot(&mut self) {
        self.snapshot.version += 1;
        let bytes = metadata::sign(&self.snapshot, &[&self.snapshot_key]).unwrap();
        let version = self.snapshot.version;
        self.timestamp
            .meta
            .insert("snapshot.json".into(), MetaFile::of(version, &bytes));
        self.files.insert(format!("{version}.snapshot.json"), bytes);
        self.publish_timestamp();
    }

    /// Signs the next timestamp as it is.
    pub fn publish_timestamp(&mut self) {
        self.timestamp.version += 1;
        let bytes = metadata::sign(&self.timestamp, &[&self.timestamp_key]).unwrap();
        self.files.insert("timestamp.json".into(), bytes);
    }

    /// Publishes the next number of the tests' stream.
    pub fn next(&mut self, content: &[u8]) {
        let number = self.streams[ROLE].version + 1;
        self.streams
            .insert(ROLE.into(), stream(ROLE, number, content));
        self.publish();
    }

    /// What a bundle of `role` carries now.
    pub fn bundle(&self, role: &str) -> Files {
        let own = format!("{}.{role}.json", self.streams[role].version);
        let lower = [
            "timestamp.json".to_owned(),
            format!("{}.snapshot.json", self.snapshot.version),
            format!("{}.targets.json", self.targets.version),
            own,
        ];
        let carried = |name: &str| name.ends_with(".root.json") || lower.iter().any(|l| l == name);
        self.files
            .iter()
            .filter(|(n, _)| carried(n))
            .map(|(n, b)| (n.clone(), b.clone()))
            .collect()
    }
}

/// A site that verifies: what it trusts, and its floors.
#[derive(Debug, Clone)]
pub struct Site {
    /// The role of its stream.
    pub role: String,
    /// What it accepted last.
    pub trusted: TrustedMetadata,
    /// The highest versions that it accepted.
    pub floors: BTreeMap<String, u64>,
}

impl Site {
    /// A site that knows the first root.
    pub fn enrolled(centre: &Centre) -> Self {
        Self::with_root(ROLE.to_owned(), &centre.files["1.root.json"])
    }

    /// A site of `dev/drone` of a fleet with real keys.
    pub fn of_fleet(fleet: &Fleet) -> Self {
        Self::with_root(fleet.role("dev", "drone"), &fleet.root_bytes().unwrap())
    }

    fn with_root(role: String, root: &[u8]) -> Self {
        Self {
            role,
            trusted: TrustedMetadata::enrol(root).unwrap(),
            floors: BTreeMap::new(),
        }
    }

    /// What it says of these files today.
    ///
    /// # Errors
    /// What it refuses.
    pub fn check(&self, files: &Files) -> Result<Acceptance, TrustError> {
        trust::verify(&self.trusted, &self.floors, files, &self.role, today())
    }

    /// Takes what it accepts.
    ///
    /// # Errors
    /// What it refuses; it stays as it was.
    pub fn import(&mut self, files: &Files) -> Result<Acceptance, TrustError> {
        let acceptance = self.check(files)?;
        self.trusted = acceptance.trusted.clone();
        self.floors = acceptance.versions.clone();
        Ok(acceptance)
    }

    /// Accepts what it must accept.
    #[track_caller]
    pub fn accept(&mut self, files: &Files) -> Acceptance {
        self.import(files).unwrap()
    }

    /// Refuses what it must refuse, by `rule`.
    #[track_caller]
    pub fn refuse(&self, files: &Files, rule: &str) -> TrustError {
        let before = self.clone();
        let refusal = self.check(files).unwrap_err();
        assert_eq!(refusal.rule(), rule, "{refusal}");
        assert_eq!(
            (&before.trusted, &before.floors),
            (&self.trusted, &self.floors)
        );
        refusal
    }
}
