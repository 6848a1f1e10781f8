//! Desired state: what verified bundles say should run.
//!
//! What comes in: a bundle, or its first part up to `index.json`; blobs are not read. What goes out: the
//! bundle on record. The metadata is checked exactly as a site would, from the fleet's root and with the
//! floors of its stream, before the index is read; an expired signature is recorded with its date,
//! because the hub installs nothing. Bills of materials, which lie before the content, are taken by `materials`. It never
//! trusts what a bundle says about its stream.

pub mod materials;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use jiff::Timestamp;
pub use outhaul_bundle::hub_api::RecordedBundle;
use outhaul_bundle::index::Content;
use outhaul_bundle::limits::Limits;
use outhaul_bundle::read::{BundleReader, ReadError};
use outhaul_bundle::{Digest, Index};
use outhaul_enrol::orders;
use outhaul_signer::clock::TimePolicy;
use outhaul_signer::trust::{self, Acceptance, TrustError, TrustedMetadata};
use outhaul_store::{Carrier, Session, Signed, Store, StoreError};

/// Under this name the store keeps the metadata that the hub was set up with.
pub const ENROLLED: &str = "";

/// Why a bundle was not recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DesiredError {
    /// Another content is on record under its number.
    #[error(
        "bundle {number} of this stream is on record with other content (expected {expected}, found \
         {found})"
    )]
    Exchanged {
        /// The number.
        number: u64,
        /// The digest on record.
        expected: String,
        /// The digest offered.
        found: String,
    },
    /// The index says something else than the metadata that lists it.
    #[error("the index is of {what} `{found}`, its metadata is of `{expected}`")]
    Mismatch {
        /// What differs.
        what: &'static str,
        /// What the metadata or this hub says.
        expected: String,
        /// What the index says.
        found: String,
    },
    /// No metadata of a stream in it, or of several.
    #[error("the metadata names {found} streams, one is expected")]
    NoStream {
        /// How many.
        found: usize,
    },
    /// Not readable as a bundle.
    #[error("{0}")]
    Read(#[from] ReadError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Not accepted.
    #[error("{0}")]
    Trust(#[from] TrustError),
}

impl DesiredError {
    /// The rule that refused the bundle, as a short word.
    pub fn rule(&self) -> &'static str {
        match self {
            Self::Exchanged { .. } => "exchanged",
            Self::Mismatch { .. } => "mix-and-match",
            Self::NoStream { .. } => "stream",
            Self::Read(error) => error.rule(),
            Self::Store(_) => "store",
            Self::Trust(error) => error.rule(),
        }
    }

    /// Whether a disk or medium failed rather than the bundle.
    pub fn is_environment(&self) -> bool {
        match self {
            Self::Read(error) => error.is_environment(),
            Self::Store(_) => true,
            _ => false,
        }
    }
}

/// Verifies a bundle and records what it wants to run.
///
/// # Errors
/// [`DesiredError`]; nothing was changed then.
pub fn record(
    store: &mut Store,
    bundle: impl Read,
    fleet: &str,
    now_ms: i64,
) -> Result<RecordedBundle, DesiredError> {
    let mut reader = BundleReader::new(bundle, Limits::default());
    let metadata = reader.read_metadata()?;
    // One transaction from the floors that are read to those that are written.
    let (mut recorded, index) = store.write(|session| {
        let (accepted, index, expected, bytes) =
            match verify(session, &mut reader, &metadata, fleet, now_ms)? {
                Verified::Known(recorded, index) => return Ok((recorded, index)),
                Verified::Newer(accepted, index, expected, bytes) => {
                    (accepted, index, expected, bytes)
                }
            };
        let role = index.stream.role.as_str();
        let signed = Signed {
            issued_ms: accepted.issued.as_millisecond(),
            signed_as: accepted.versions.get("timestamp").copied().unwrap_or(0),
            expires_ms: accepted.expires.as_millisecond(),
        };
        let keys = accepted.trusted.stream_keys(role).unwrap_or_default();
        let new = add(session, &index, expected, signed, &keys, now_ms)?;
        session.set_signers(role, index.number, &accepted.trusted.stream_signers(role))?;
        if new {
            let carrier = Carrier {
                role,
                number: index.number,
                signed,
            };
            orders::record(session, &index.orders, &carrier, fleet, now_ms)?;
        }
        session.keep_metadata((role, index.number), &metadata, &bytes, now_ms)?;
        session.set_trusted(role, &accepted.trusted.0, &accepted.versions)?;
        session.mark_withdrawn(role, &keys)?;
        Ok::<_, DesiredError>((recorded(&index, new), index))
    })?;
    recorded.materials_missing = materials::take_from_bundle(store, &mut reader, &index, now_ms)?;
    Ok(recorded)
}

/// Verifies a bundle and changes nothing: what does not hold is refused before anybody has to wait for
/// the store.
///
/// # Errors
/// [`DesiredError`] as of [`record`].
pub fn check_only(
    store: &mut Store,
    bundle: impl Read,
    fleet: &str,
    now_ms: i64,
) -> Result<(), DesiredError> {
    let mut reader = BundleReader::new(bundle, Limits::default());
    let metadata = reader.read_metadata()?;
    store.read(|session| verify(session, &mut reader, &metadata, fleet, now_ms).map(drop))
}

enum Verified {
    /// On record, byte for byte, and not the newest.
    Known(RecordedBundle, Box<Index>),
    Newer(Acceptance, Box<Index>, Content, Vec<u8>),
}

fn verify<R: Read>(
    session: &Session<'_>,
    reader: &mut BundleReader<R>,
    metadata: &BTreeMap<String, Vec<u8>>,
    fleet: &str,
    now_ms: i64,
) -> Result<Verified, DesiredError> {
    let (role, number) = stream_role(metadata)?;
    let mut trusted = session.trusted_metadata(&role)?;
    if trusted.is_empty() {
        trusted = session.trusted_metadata(ENROLLED)?;
    }
    let floors = session.trusted_floors(&role)?;
    let now = Timestamp::from_millisecond(now_ms).unwrap_or(Timestamp::UNIX_EPOCH);
    let clock = TimePolicy {
        lower_bound: Timestamp::UNIX_EPOCH,
        wall: now,
        wall_trusted: true,
    };
    let trusted = TrustedMetadata(trusted);
    let accepted = match trust::verify(&trusted, &floors, metadata, &role, clock) {
        Err(error @ TrustError::Rollback { .. }) => {
            // A stick still has the bundles before the newest. Those that are on record, byte for
            // byte, are known; nothing is trusted or changed for it.
            let known = known(session, reader, metadata, (&role, number), clock)?;
            return known
                .map(|(recorded, index)| Verified::Known(recorded, index))
                .ok_or(error.into());
        }
        verdict => verdict?,
    };
    let digest = Digest::from_bytes(accepted.index_sha256);
    let expected = Content {
        digest,
        size: accepted.index_length,
    };
    let (index, bytes) = reader.read_verified_index(&expected, compressed(&accepted))?;
    check(&index, &role, fleet, accepted.number)?;
    Ok(Verified::Newer(accepted, Box::new(index), expected, bytes))
}

fn recorded(index: &Index, new: bool) -> RecordedBundle {
    RecordedBundle {
        environment: index.stream.environment.to_string(),
        cluster_type: index.stream.cluster_type.to_string(),
        role: index.stream.role.to_string(),
        number: index.number,
        base_commit: index.snapshot.base.commit.clone(),
        new,
        materials_missing: Vec::new(),
    }
}

/// The compressed form of the index that verified metadata lists.
fn compressed(accepted: &Acceptance) -> Option<Content> {
    accepted.index_compressed.map(|(size, sha256)| Content {
        digest: Digest::from_bytes(sha256),
        size,
    })
}

/// The bundle, when its index is the very one on record under the number that it claims, and its metadata was signed by the fleet once.
fn known<R: Read>(
    session: &Session<'_>,
    reader: &mut BundleReader<R>,
    metadata: &BTreeMap<String, Vec<u8>>,
    (role, number): (&str, u64),
    clock: TimePolicy,
) -> Result<Option<(RecordedBundle, Box<Index>)>, DesiredError> {
    let Some(expected) = session.bundle_index(role, number)? else {
        return Ok(None);
    };
    // From the root of the enrolment, without what was learned since: nothing unsigned is looked into.
    let enrolled = TrustedMetadata(session.trusted_metadata(ENROLLED)?);
    let Ok(signed) = trust::verify(&enrolled, &BTreeMap::new(), metadata, role, clock) else {
        return Ok(None);
    };
    let index = reader
        .read_verified_index(&expected, compressed(&signed))
        .ok();
    Ok(index.map(|(index, _)| (recorded(&index, false), Box::new(index))))
}

/// The version of a bundle's timestamp, unverified: by it a folder's bundles are put in order, so that
/// an older one is not refused only because its name sorts later.
pub fn claimed_order(bundle: impl Read) -> u64 {
    let mut reader = BundleReader::new(bundle, Limits::default());
    let version = reader.read_metadata().ok().and_then(|metadata| {
        let timestamp = metadata.get("timestamp.json")?;
        let value: serde_json::Value = serde_json::from_slice(timestamp).ok()?;
        value.get("signed")?.get("version")?.as_u64()
    });
    version.unwrap_or(u64::MAX)
}

fn add(
    session: &Session<'_>,
    index: &Index,
    found: Content,
    signed: Signed,
    keys: &BTreeSet<String>,
    now_ms: i64,
) -> Result<bool, DesiredError> {
    let role = index.stream.role.as_str();
    let mut known = session.bundle_index(role, index.number)?;
    // What a key signed that was taken away since keeps no number from the fleet.
    if known.as_ref().is_some_and(|known| *known != found)
        && session.is_taken_back(role, index.number, keys)?
    {
        session.forget_bundle(role, index.number)?;
        known = None;
    }
    match known {
        Some(expected) if expected == found => Ok(false),
        Some(expected) => Err(DesiredError::Exchanged {
            number: index.number,
            expected: expected.digest.to_string(),
            found: found.digest.to_string(),
        }),
        None => {
            session.add_bundle(index, found, signed, now_ms)?;
            Ok(true)
        }
    }
}

fn check(index: &Index, role: &str, fleet: &str, number: u64) -> Result<(), DesiredError> {
    let pairs = [
        ("fleet", fleet.to_owned(), index.fleet.to_string()),
        ("stream", role.to_owned(), index.stream.role.to_string()),
        ("number", number.to_string(), index.number.to_string()),
    ];
    for (what, expected, found) in pairs {
        if expected != found {
            return Err(DesiredError::Mismatch {
                what,
                expected,
                found,
            });
        }
    }
    Ok(())
}

/// The one role besides the top-level ones, and its version, which is the bundle's number. Only what to
/// ask the metadata about: that the role is delegated and signed is checked by [`trust::verify`].
fn stream_role(metadata: &BTreeMap<String, Vec<u8>>) -> Result<(String, u64), DesiredError> {
    let mut roles: BTreeMap<&str, u64> = BTreeMap::new();
    for name in metadata.keys() {
        let stem = name.strip_suffix(".json").unwrap_or(name);
        let (version, role) = match stem.split_once('.') {
            Some((version, role)) => (version.parse().unwrap_or(0), role),
            None => (0, stem),
        };
        if !matches!(role, "root" | "timestamp" | "snapshot" | "targets") {
            roles.insert(role, version);
        }
    }
    match roles.pop_first() {
        Some((role, number)) if roles.is_empty() => Ok((role.to_owned(), number)),
        first => Err(DesiredError::NoStream {
            found: roles.len() + usize::from(first.is_some()),
        }),
    }
}
