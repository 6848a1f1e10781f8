//! Signing what is published: a bundle's metadata, and fresh dates for what is published already.
//!
//! What comes in: a stream's `index.json`, its number and dates. What goes out: every metadata file that
//! the bundle carries, first checked by the site's own rules, then, by [`Fleet::commit`], published.
//!
//! Order, so that a power cut at any point leaves a usable fleet: marks (versions are used up before
//! anything signed leaves), then the caller writes the bundle, then commit: targets, stream, snapshot, and
//! `timestamp.json` last, which alone leads to the new ones. A bundle that was written but not committed
//! is good by itself; the next one has higher versions than it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::clock::TimePolicy;
use crate::durable::{self, PUBLIC_MODE};
use crate::fleet::{
    Fleet, FleetError, InitOptions, Marks, PublishedRoles, StreamMark, StreamSettings,
};
use crate::key::{Secret, SigningKey};
use crate::metadata::{
    self, DelegatedRole, Delegations, Key, MetaFile, RoleKeys, SPEC_VERSION, Signs, Snapshot,
    TargetFile, Targets, TimestampRole,
};
use crate::trust::{self, TrustedMetadata};

mod countersign;
mod online;

pub use countersign::Pending;
pub(crate) use countersign::StreamRequirements;
pub(crate) use online::{Online, named};

/// What is to be signed for one bundle.
#[derive(Debug, Clone, Copy)]
pub struct SignRequest<'a> {
    /// The stream's role, from [`Fleet::role`].
    pub role: &'a str,
    /// The bundle's number: above every number signed before, see [`Fleet::next_number`].
    pub number: u64,
    /// The bytes of `index.json`.
    pub index_bytes: &'a [u8],
    /// Its compressed form, where it travels in that: listed beside the index, so that a site verifies it before it decompresses it.
    pub index_compressed: Option<&'a [u8]>,
    /// The signed time of issue.
    pub issued: Timestamp,
    /// Until when the bundle may be installed.
    pub expires: Timestamp,
}

/// Signed metadata of one bundle, or of a refresh.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedMetadata {
    /// File names (`1.root.json` …) and bytes, in the order in which they go into the bundle.
    pub files: Vec<(String, Vec<u8>)>,
    /// The timestamp version that this was signed on top of.
    base: u64,
    /// The names behind the role, when this brings a stream.
    stream: Option<(String, StreamSettings)>,
}

/// The newest published bundle of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Latest {
    /// Its number.
    pub number: u64,
    /// SHA-256 of its `index.json`.
    pub index: [u8; 32],
    /// Size of its `index.json` in bytes.
    pub length: u64,
    /// When it was issued.
    pub issued: Timestamp,
    /// When it expires.
    pub expires: Timestamp,
}

/// Outhaul's words about a stream's one target.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Custom {
    pub(crate) number: u64,
    pub(crate) issued: Timestamp,
    pub(crate) environment: String,
    pub(crate) cluster_type: String,
    /// The target in zstd's format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) zstd: Option<Compressed>,
}

/// A target's compressed form: its size in bytes, and its digest in hexadecimal.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Compressed {
    pub(crate) length: u64,
    pub(crate) sha256: String,
}

impl Compressed {
    fn of(bytes: &[u8]) -> Self {
        Self {
            length: bytes.len() as u64,
            sha256: hex::encode(Sha256::digest(bytes)),
        }
    }
}

/// The part of an index that must agree with what it is signed as.
#[derive(Deserialize)]
struct IndexHead {
    fleet: String,
    number: u64,
    stream: IndexStream,
}

#[derive(Deserialize)]
struct IndexStream {
    role: String,
    environment: String,
    cluster_type: String,
}

/// What a stream's metadata says of its index.
fn custom(request: &SignRequest<'_>, names: &StreamSettings) -> serde_json::Value {
    let mut custom = json!({
        "number": request.number,
        "issued": metadata::whole_seconds(request.issued),
        "environment": names.environment.clone(),
        "cluster_type": names.cluster_type.clone(),
    });
    if let Some(bytes) = request.index_compressed {
        custom["zstd"] = json!(Compressed::of(bytes));
    }
    custom
}

impl Fleet {
    /// The newest published bundle of the stream `role`, if there is one.
    ///
    /// # Errors
    /// [`FleetError`] when the fleet's metadata cannot be read.
    pub fn latest(&self, role: &str) -> Result<Option<Latest>, FleetError> {
        let published = self.published()?;
        let Some((stream, _)) = published.stream(&self.metadata_folder(), role)? else {
            return Ok(None);
        };
        let unreadable = |problem: &str| FleetError::Metadata {
            file: format!("{}.{role}.json", stream.version),
            source: metadata::MetadataError::Malformed {
                problem: problem.to_owned(),
            },
        };
        let target = stream.targets.get(&format!("{role}/index.json"));
        let target = target.ok_or_else(|| unreadable("no index"))?;
        let mut index = [0u8; 32];
        let hash = target.hashes.get("sha256").map_or("", String::as_str);
        hex::decode_to_slice(hash, &mut index).map_err(|_| unreadable("no sha256"))?;
        let custom: Custom = serde_json::from_value(target.custom.clone())
            .map_err(|error| unreadable(&error.to_string()))?;
        Ok(Some(Latest {
            number: stream.version,
            index,
            length: target.length,
            issued: custom.issued,
            expires: stream.expires,
        }))
    }

    /// The number of the next bundle of the stream `role`: above every number that was ever signed,
    /// also one of which the bundle was never published.
    ///
    /// # Errors
    /// [`FleetError`] when the fleet's state cannot be read.
    pub fn next_number(&self, role: &str) -> Result<u64, FleetError> {
        self.next_number_after(&self.marks()?, role)
    }

    pub(crate) fn next_number_after(&self, marks: &Marks, role: &str) -> Result<u64, FleetError> {
        let published = self.latest(role)?.map_or(0, |latest| latest.number);
        let marked = marks.streams.get(role).map_or(0, |mark| mark.number);
        Ok(published.max(marked).saturating_add(1))
    }

    /// Signs the metadata of one bundle. A new stream gets a separate key, and the targets metadata
    /// lists it. Nothing is published before [`Fleet::commit`].
    ///
    /// # Errors
    /// [`FleetError`] when the index differs from the request, the number was used before,
    /// a key is missing, or a site would refuse the result.
    pub fn sign_bundle(
        &self,
        request: SignRequest<'_>,
        secret: &Secret,
    ) -> Result<SignedMetadata, FleetError> {
        let _lock = self.lock()?;
        let names = self.check_index(&request)?;
        let published = self.published()?;
        let mut marks = self.marks()?;
        let index = hex::encode(Sha256::digest(request.index_bytes));
        self.use_number(&mut marks, &request, &index)?;

        let mut online = Online::on(self, &published, secret);
        let stream_keys = match delegated(&published.targets, request.role) {
            Some(role) => RoleKeys {
                keyids: role.keyids.clone(),
                threshold: role.threshold,
            },
            None => online.add_stream(request.role)?,
        };
        online.renew_targets(&mut marks, request.issued, request.expires)?;

        let stream = Targets {
            kind: "targets".to_owned(),
            spec_version: SPEC_VERSION.to_owned(),
            version: request.number,
            expires: metadata::whole_seconds(request.expires),
            targets: BTreeMap::from([(
                format!("{}/index.json", request.role),
                TargetFile {
                    length: request.index_bytes.len() as u64,
                    hashes: BTreeMap::from([("sha256".to_owned(), index)]),
                    custom: custom(&request, &names),
                },
            )]),
            delegations: None,
        };
        // Marked before the first signature: whatever happens next, no version is used twice.
        self.write_marks(&marks)?;
        let asked = StreamRequirements {
            role: request.role,
            keys: &stream_keys,
            key_objects: &online.stream_keys(),
            index: Some(request.index_bytes),
        };
        let stream_bytes = self.sign_stream(&asked, &stream, secret)?;
        online.pin(
            &format!("{}.json", request.role),
            request.number,
            &stream_bytes,
        );
        let (issued, expires) = (request.issued, request.expires);
        let mut files = online.finish(&mut marks, issued, expires)?;
        self.write_marks(&marks)?;
        files.push((
            format!("{}.{}.json", request.number, request.role),
            stream_bytes,
        ));
        let signed = SignedMetadata {
            files,
            base: published.timestamp.version,
            stream: Some((request.role.to_owned(), names)),
        };
        Self::refuse_what_a_site_would_refuse(&signed, &request)?;
        Ok(signed)
    }

    /// New dates for what is published: a snapshot and timestamp issued now, without any new bundle.
    /// What a site that pulls over HTTPS needs to see now and then, and what a freshness slip is.
    ///
    /// # Errors
    /// [`FleetError`] when a key is missing or the fleet cannot be read.
    pub fn refresh(
        &self,
        issued: Timestamp,
        expires: Timestamp,
        secret: &Secret,
    ) -> Result<SignedMetadata, FleetError> {
        let _lock = self.lock()?;
        let published = self.published()?;
        let mut marks = self.marks()?;
        let mut online = Online::on(self, &published, secret);
        online.renew_targets(&mut marks, issued, expires)?;
        let files = online.finish(&mut marks, issued, expires)?;
        self.write_marks(&marks)?;
        Ok(SignedMetadata {
            files,
            base: published.timestamp.version,
            stream: None,
        })
    }

    /// Publishes what was signed, after the bundle itself is safely written. Committing the same again
    /// does nothing.
    ///
    /// # Errors
    /// [`FleetError::Raced`] when something else was published since it was signed; other
    /// [`FleetError`]s when files cannot be written. Then nothing new is published.
    pub fn commit(&self, signed: &SignedMetadata) -> Result<(), FleetError> {
        let _lock = self.lock()?;
        let folder = self.metadata_folder();
        let pointer = signed
            .files
            .iter()
            .find(|(name, _)| name == "timestamp.json");
        let published = self.published()?;
        if let Some((name, bytes)) = pointer
            && durable::read(&folder.join(name), 1 << 20)? == *bytes
        {
            return Ok(());
        }
        if published.timestamp.version != signed.base {
            return Err(FleetError::Raced {
                published: published.timestamp.version,
                base: signed.base,
            });
        }
        if let Some((role, names)) = &signed.stream {
            let mut fleet = Self::open(&self.folder)?;
            fleet.settings.streams.insert(role.clone(), names.clone());
            fleet.write_settings()?;
        }
        let rest = signed
            .files
            .iter()
            .filter(|(name, _)| name != "timestamp.json" && !name.ends_with(".root.json"));
        for (name, bytes) in rest.chain(pointer) {
            let path = folder.join(name);
            let there = durable::read_if_present(&path, bytes.len() as u64);
            if !matches!(there, Ok(Some(ref old)) if old == bytes) {
                durable::write(&path, bytes, PUBLIC_MODE)?;
            }
            self.drop_request(name)?;
        }
        Ok(())
    }

    fn check_index(&self, request: &SignRequest<'_>) -> Result<StreamSettings, FleetError> {
        let refuse = |problem: String| Err(FleetError::Index { problem });
        let head: IndexHead = match serde_json::from_slice(request.index_bytes) {
            Ok(head) => head,
            Err(error) => return refuse(format!("it is not an index: {error}")),
        };
        let IndexStream {
            role,
            environment,
            cluster_type,
        } = head.stream;
        if head.fleet != self.id() {
            return refuse(format!(
                "its fleet is `{}`, this is `{}`",
                head.fleet,
                self.id()
            ));
        }
        if role != request.role || role != self.role(&environment, &cluster_type) {
            return refuse(format!(
                "its role is `{role}`, the stream's is `{}`",
                request.role
            ));
        }
        if head.number != request.number {
            return refuse(format!(
                "its number is {}, not {}",
                head.number, request.number
            ));
        }
        if request.issued >= request.expires {
            let SignRequest {
                issued, expires, ..
            } = request;
            return refuse(format!(
                "issued {issued}, expires {expires}: it would never be valid"
            ));
        }
        Ok(StreamSettings {
            environment,
            cluster_type,
        })
    }

    fn use_number(
        &self,
        marks: &mut Marks,
        request: &SignRequest<'_>,
        index: &str,
    ) -> Result<(), FleetError> {
        let next = self.next_number(request.role)?;
        let published = self.latest(request.role)?.map_or(0, |latest| latest.number);
        // The very same content, signed but never published: a bundle that could not be written.
        let again = request.number > published
            && marks
                .streams
                .get(request.role)
                .is_some_and(|mark| mark.number == request.number && mark.index == index);
        if request.number < next && !again {
            let (role, number) = (request.role.to_owned(), request.number);
            return Err(FleetError::NumberUsed { role, number, next });
        }
        let mark = StreamMark {
            number: request.number,
            index: index.to_owned(),
        };
        marks.streams.insert(request.role.to_owned(), mark);
        Ok(())
    }

    fn refuse_what_a_site_would_refuse(
        signed: &SignedMetadata,
        request: &SignRequest<'_>,
    ) -> Result<(), FleetError> {
        let check = || {
            let trusted = TrustedMetadata::enrol(&signed.files[0].1)?;
            let files: BTreeMap<_, _> = signed.files.iter().cloned().collect();
            let now = TimePolicy {
                lower_bound: request.issued,
                wall: request.issued,
                wall_trusted: false,
            };
            trust::verify(&trusted, &BTreeMap::new(), &files, request.role, now)
        };
        check()
            .map(|_| ())
            .map_err(|source| FleetError::WouldBeRefused { source })
    }
}

/// The delegation of `role` in the fleet's targets metadata.
pub(crate) fn delegated<'a>(targets: &'a Targets, role: &str) -> Option<&'a DelegatedRole> {
    targets
        .delegations
        .as_ref()?
        .roles
        .iter()
        .find(|delegated| delegated.name == role)
}
