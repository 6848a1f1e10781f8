//! The review of a stream's bundle: its number, its content's digest, its dates, and what is in it.
//!
//! What comes in: the stream's metadata to sign, and what the fleet published before, verified from the
//! co-signer's root. What goes out: a [`StreamReview`], or a refusal. A request that brings the bundle's
//! index along is shown with its contents; an index that is not the one to be signed is refused.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::root::{refuse_odd_holders, refuse_odd_key};
use super::{KnownRoots, ReviewError, parsed_whole, refuse, refuse_past};
use crate::clock::TimePolicy;
use crate::key::PublicKey;
use crate::metadata::{self, SPEC_VERSION, TargetFile, Targets};
use crate::publish::{Custom, delegated};
use crate::request::{SigningRequest, short};
use crate::trust;

/// What the signature on a bundle's metadata would make count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StreamReview {
    /// The fleet's id.
    pub fleet: String,
    /// The stream's role.
    pub role: String,
    /// The environment.
    pub environment: String,
    /// The cluster type.
    pub cluster_type: String,
    /// The newest number that was published.
    pub number_before: u64,
    /// The number to sign.
    pub number: u64,
    /// SHA-256 of the published index.
    pub index_before: String,
    /// SHA-256 of the index to sign.
    pub index: String,
    /// Its size in bytes.
    pub index_bytes: u64,
    /// When the bundle was issued.
    pub issued: Timestamp,
    /// Until when the published bundle may be installed.
    pub expires_before: Timestamp,
    /// Until when this one may be.
    pub expires: Timestamp,
    /// How many must sign, by the fleet's published metadata.
    pub threshold: usize,
    /// The keys that may sign, by id.
    pub keys: Vec<StreamKey>,
    /// Whether it is the very bundle that is published, to be signed by further keys.
    pub again: bool,
    /// What is in the bundle; missing when the request does not bring the index along.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contents: Option<Contents>,
    /// SHA-256 of the bytes to sign.
    pub digest: String,
}

/// One key that may sign a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StreamKey {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Who holds it.
    pub holder: String,
    /// Whether it is the key that is to sign.
    pub yours: bool,
}

/// What a bundle brings, by its index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Contents {
    /// The assignments' names and config versions.
    pub assignments: BTreeMap<String, String>,
    /// Those that are for some sites only, with the names of the sites.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub only: BTreeMap<String, BTreeSet<String>>,
    /// Names of the sites that it is for; empty for every site of the stream.
    pub sites: BTreeSet<String>,
    /// What single sites are ordered to do, as `site: kind`.
    pub orders: Vec<String>,
    /// The snapshot's commits, by source.
    pub sources: BTreeMap<String, String>,
    /// Whether all of it is encrypted.
    pub sealed: bool,
}

pub(super) fn review(
    request: &SigningRequest,
    known: &KnownRoots,
    signer: Option<&PublicKey>,
    now: Timestamp,
) -> Result<StreamReview, ReviewError> {
    let new: Targets = parsed_whole(request)?;
    let role = &request.role;
    let (target, custom) = the_one_target(&new, role)?;
    let before = published(request, known)?;
    let same = before.number == custom.number && before.index == sha256(&target)?;
    let again = same && before.stream == new;
    if custom.number <= before.number && !again {
        return refuse(format!(
            "it is number {}, and number {} of this stream is published",
            custom.number, before.number
        ));
    }
    if (&custom.environment, &custom.cluster_type)
        != (&before.custom.environment, &before.custom.cluster_type)
    {
        return refuse(format!(
            "it is for {}/{}, and this stream is {}/{}",
            custom.environment,
            custom.cluster_type,
            before.custom.environment,
            before.custom.cluster_type
        ));
    }
    if custom.issued >= new.expires {
        return refuse("it would expire before it was issued");
    }
    refuse_past("the bundle", new.expires, now)?;
    let yours = signer.map(PublicKey::id);
    let keys = who_signs(request, &before, again, yours.as_deref())?;
    Ok(StreamReview {
        fleet: request.fleet.clone(),
        role: role.clone(),
        number_before: before.number,
        number: custom.number,
        index_before: before.index,
        index: sha256(&target)?,
        index_bytes: target.length,
        issued: custom.issued,
        expires_before: before.stream.expires,
        expires: new.expires,
        threshold: before.threshold,
        keys,
        again,
        contents: contents(request, &target)?,
        environment: custom.environment,
        cluster_type: custom.cluster_type,
        digest: request.digest()?,
    })
}

/// The stream as the fleet published it.
struct Before {
    number: u64,
    index: String,
    custom: Custom,
    stream: Targets,
    threshold: usize,
    targets: Targets,
}

fn published(request: &SigningRequest, known: &KnownRoots) -> Result<Before, ReviewError> {
    let role = &request.role;
    let wrong = |source| ReviewError::Published {
        version: known.own.version,
        source,
    };
    // Dates are no matter here: an expired publication is still what the next one follows.
    let now = TimePolicy {
        lower_bound: Timestamp::MIN,
        wall: Timestamp::MIN,
        wall_trusted: false,
    };
    let (floors, trusted) = (BTreeMap::new(), known.trusted());
    let accepted = trust::verify(&trusted, &floors, &known.published, role, now).map_err(wrong)?;
    let own = |file: &str| {
        let bytes = accepted.trusted.0.get(file).map_or(&[][..], Vec::as_slice);
        metadata::parse_own::<Targets>(bytes)
            .or_else(|error| refuse(format!("`{file}` of the fleet cannot be read: {error}")))
    };
    let (stream, targets) = (own(&format!("{role}.json"))?, own("targets.json")?);
    let (_, custom) = the_one_target(&stream, role)?;
    let threshold = delegated(&targets, role).map_or(0, |role| role.threshold);
    Ok(Before {
        number: accepted.number,
        index: hex::encode(accepted.index_sha256),
        custom,
        stream,
        threshold,
        targets,
    })
}

/// The one file that a stream lists, and what it states of it.
fn the_one_target(stream: &Targets, role: &str) -> Result<(TargetFile, Custom), ReviewError> {
    let path = format!("{role}/index.json");
    let mut targets = stream.targets.iter();
    let (Some((found, target)), None, None) = (targets.next(), targets.next(), &stream.delegations)
    else {
        return refuse("it lists something else than one index");
    };
    if *found != path || stream.kind != "targets" || stream.spec_version != SPEC_VERSION {
        return refuse("it is not metadata of this stream");
    }
    let custom: Custom = match serde_json::from_value(target.custom.clone()) {
        Ok(custom) => custom,
        Err(error) => {
            return refuse(format!(
                "what it states of its index cannot be read: {error}"
            ));
        }
    };
    if custom.number != stream.version {
        return refuse("its number and its version differ");
    }
    sha256(target)?;
    Ok((target.clone(), custom))
}

fn sha256(target: &TargetFile) -> Result<String, ReviewError> {
    match (target.hashes.get("sha256"), target.hashes.len()) {
        (Some(hash), 1) if hash.len() == 64 && hash.bytes().all(|b| b.is_ascii_hexdigit()) => {
            Ok(hash.clone())
        }
        _ => refuse("its index has no SHA-256, or something beside it"),
    }
}

/// Keys of the stream by the published metadata; for a bundle that is signed again, those asked for.
fn who_signs(
    request: &SigningRequest,
    before: &Before,
    again: bool,
    yours: Option<&str>,
) -> Result<Vec<StreamKey>, ReviewError> {
    let stream = delegated(&before.targets, &request.role);
    let ids = stream.map(|role| role.keyids.clone()).unwrap_or_default();
    for (id, key) in &request.keys {
        refuse_odd_key(id, key)?;
        // A stream's new key signs what is published before the metadata that lists it is.
        if !again && !ids.contains(id) {
            return refuse(format!(
                "it asks key {}, which is not the stream's",
                short(id)
            ));
        }
    }
    if let Some(id) = yours
        && !request.keys.contains_key(id)
    {
        return refuse(format!("your key {} is not asked for", short(id)));
    }
    let named = before.targets.delegations.clone().unwrap_or_default();
    refuse_odd_holders(&named.holders, &named.keys)?;
    let line = |id: &String| {
        let called = named.holders.get(id).cloned().unwrap_or_default();
        StreamKey {
            id: id.clone(),
            name: called.name,
            holder: called.holder,
            yours: yours == Some(id),
        }
    };
    let all: BTreeSet<&String> = request.keys.keys().chain(&ids).collect();
    Ok(all.into_iter().map(line).collect())
}

/// The parts of an index that people decide by.
#[derive(Deserialize)]
struct Index {
    #[serde(default)]
    assignments: Vec<Assignment>,
    #[serde(default)]
    recipients: BTreeSet<String>,
    #[serde(default)]
    orders: Vec<serde_json::Value>,
    #[serde(default)]
    snapshot: Option<Snapshot>,
    #[serde(default)]
    blobs: Vec<serde_json::Value>,
}

#[derive(Deserialize)]
struct Assignment {
    name: String,
    #[serde(default)]
    config_version: String,
    #[serde(default)]
    sites: Option<BTreeSet<String>>,
}

#[derive(Deserialize)]
struct Snapshot {
    environment: Source,
    base: Source,
    workloads: Vec<Source>,
}

#[derive(Deserialize)]
struct Source {
    name: String,
    commit: String,
}

fn contents(
    request: &SigningRequest,
    target: &TargetFile,
) -> Result<Option<Contents>, ReviewError> {
    let Some(bytes) = request.index_bytes()? else {
        return Ok(None);
    };
    if hex::encode(Sha256::digest(&bytes)) != sha256(target)? || bytes.len() as u64 != target.length
    {
        return refuse("the index that it brings along is not the one to be signed");
    }
    let index: Index = match serde_json::from_slice(&bytes) {
        Ok(index) => index,
        Err(error) => return refuse(format!("the bundle's index cannot be read: {error}")),
    };
    let order = |order: &serde_json::Value| {
        let text = |value: &serde_json::Value| value.as_str().unwrap_or("?").to_owned();
        format!("{}: {}", text(&order["site"]), text(&order["what"]["kind"]))
    };
    let sources = index.snapshot.into_iter().flat_map(|snapshot| {
        let fixed = [
            ("environment".to_owned(), snapshot.environment.commit),
            ("base".to_owned(), snapshot.base.commit),
        ];
        let workloads = snapshot.workloads.into_iter();
        fixed
            .into_iter()
            .chain(workloads.map(|source| (source.name, source.commit)))
    });
    let only = index.assignments.iter();
    let only = only.filter_map(|one| Some((one.name.clone(), one.sites.clone()?)));
    let only = only.collect();
    let assignments = index.assignments.into_iter();
    let is_sealed = |blob: &serde_json::Value| !blob["sealed"].is_null();
    Ok(Some(Contents {
        assignments: assignments
            .map(|one| (one.name, one.config_version))
            .collect(),
        only,
        sites: index.recipients,
        orders: index.orders.iter().map(order).collect(),
        sources: sources.collect(),
        sealed: !index.blobs.is_empty() && index.blobs.iter().all(is_sealed),
    }))
}
