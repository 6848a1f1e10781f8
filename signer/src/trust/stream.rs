//! The check of one stream: the walk through the metadata, then what only Outhaul asks of it.
//!
//! What comes in: as [`super::verify`]. What goes out: an acceptance. Beyond the TUF workflow it asks that
//! the stored state holds by itself, that no floor is undercut, that the role is delegated by the
//! fleet's targets metadata itself, and that the one target and its number say the same.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use sigstore_tuf::metadata::Targets;

use super::altered::{refuse_altered_roots, refuse_altered_timestamp};
use super::floors::Floors;
use super::walk::{MAX_ROOT_BYTES, Walk, matches};
use super::{
    Acceptance, MAX_VERSION, MetadataSource, TimePolicy, TrustError, TrustedMetadata, restarted,
};

pub(super) fn verify(
    trusted: &TrustedMetadata,
    floors: &BTreeMap<String, u64>,
    source: &dyn MetadataSource,
    role: &str,
    now: TimePolicy,
) -> Result<Acceptance, TrustError> {
    refuse_odd_role(role)?;
    let mut floors = Floors::new(floors);
    let mut walk = Walk::resume(trusted)?;
    walk.check_stored()?;
    let stored_targets = walk.set().targets_role("targets").cloned();
    let stored_root = walk.set().root().version;
    let stored_root_bytes = walk.set().root_bytes().to_vec();

    let foreign =
        |error: TrustError| name_foreign_fleet(error, source, stored_root, &stored_root_bytes);
    walk.update_root(source, &mut |root| floors.pass(root))
        .map_err(foreign)?;
    refuse_altered_roots(source, stored_root, &stored_root_bytes).map_err(foreign)?;
    floors.check("root", walk.set().root().version)?;
    floors.set_stream_then(role, stored_targets.as_ref());
    walk.refresh(source).map_err(foreign)?;
    refuse_altered_timestamp(source)?;

    let set = walk.set();
    let (Some(timestamp), Some(snapshot), Some(targets)) =
        (set.timestamp(), set.snapshot(), set.targets_role("targets"))
    else {
        return Err(TrustError::Missing {
            file: "targets.json".to_owned(),
        });
    };
    floors.set_stream_now(role, targets);
    let mut found = BTreeMap::from([
        ("root".to_owned(), set.root().version),
        ("timestamp".to_owned(), timestamp.version),
        ("snapshot".to_owned(), snapshot.version),
        ("targets".to_owned(), targets.version),
    ]);
    let mut expires = set
        .root()
        .expires
        .min(timestamp.expires)
        .min(snapshot.expires)
        .min(targets.expires);
    let refreshed = issued_of(&timestamp.extra)?;
    // A stream's last bundle may be past its date when a newer timestamp names it.
    refuse_issue_beyond("timestamp.json", refreshed, expires)?;
    refuse_undelegated(targets, role)?;

    let stream = walk
        .delegated(source, role, "targets")
        .map_err(|error| match error {
            TrustError::Missing { file } => TrustError::Stream {
                role: role.to_owned(),
                problem: format!("it was made for another one (`{file}` is not in it)"),
            },
            other => other,
        })?;
    found.insert(role.to_owned(), stream.version);
    expires = expires.min(stream.expires);
    let target = the_one_target(stream, role)?;
    for (name, version) in &found {
        refuse_out_of_range(name, *version)?;
        floors.check(name, *version)?;
    }
    refuse_issue_beyond(&format!("{role}.json"), Some(target.issued), expires)?;
    let signed_at = refreshed.map_or(target.issued, |time| time.max(target.issued));
    let time_restarts = floors.has_fallen("timestamp");
    let now = restarted(now, time_restarts, signed_at);
    Ok(Acceptance {
        trusted: walk.trusted_for(role),
        index_length: target.length,
        index_sha256: target.sha256,
        index_compressed: target.compressed,
        number: target.number,
        issued: target.issued,
        signed_at,
        expires,
        versions: floors.raised(&found),
        time_restarts,
        // A signed time that was verified just now proves it as well as one from before.
        expired: now.has_passed(expires) || signed_at >= expires,
    })
}

/// A version that some programs hold exactly and others do not would be a floor here and none there.
fn refuse_out_of_range(role: &str, version: u64) -> Result<(), TrustError> {
    if version <= MAX_VERSION {
        return Ok(());
    }
    Err(TrustError::Malformed {
        file: format!("{role}.json"),
        problem: format!("version {version} is out of range, the largest is {MAX_VERSION}"),
    })
}

/// What a stream's role states of its one target.
struct StreamTarget {
    length: u64,
    sha256: [u8; 32],
    compressed: Option<(u64, [u8; 32])>,
    number: u64,
    issued: Timestamp,
}

#[derive(Deserialize)]
struct Custom {
    number: u64,
    issued: Timestamp,
    #[serde(default)]
    zstd: Option<Compressed>,
}

/// A target's compressed form.
#[derive(Deserialize)]
struct Compressed {
    length: u64,
    sha256: String,
}

fn the_one_target(stream: &Targets, role: &str) -> Result<StreamTarget, TrustError> {
    let malformed = |problem: &str| TrustError::Malformed {
        file: format!("{role}.json"),
        problem: problem.to_owned(),
    };
    let path = format!("{role}/index.json");
    let target = match stream.targets.len() {
        1 => stream.target(&path),
        _ => None,
    };
    let target = target.ok_or_else(|| malformed(&format!("its one target must be `{path}`")))?;
    let hash = target
        .hashes
        .get("sha256")
        .ok_or_else(|| malformed("a target without sha256"))?;
    let digest = |hash: &str| {
        let mut sha256 = [0u8; 32];
        hex::decode_to_slice(hash, &mut sha256).map_err(|_| malformed("not a valid sha256"))?;
        Ok(sha256)
    };
    let sha256 = digest(hash)?;
    let custom = target
        .custom
        .clone()
        .ok_or_else(|| malformed("a target without a number"))?;
    let custom: Custom =
        serde_json::from_value(custom).map_err(|error| malformed(&error.to_string()))?;
    if custom.number != stream.version {
        let (number, version) = (custom.number, stream.version);
        return Err(malformed(&format!(
            "number {number} in a role of version {version}"
        )));
    }
    let compressed = match &custom.zstd {
        Some(listed) => Some((listed.length, digest(&listed.sha256)?)),
        None => None,
    };
    let (number, issued) = (custom.number, custom.issued);
    Ok(StreamTarget {
        length: target.length,
        sha256,
        compressed,
        number,
        issued,
    })
}

/// The time at which the timestamp was signed, which Outhaul's fleets add to it.
fn issued_of(extra: &BTreeMap<String, serde_json::Value>) -> Result<Option<Timestamp>, TrustError> {
    let parse = |value: &serde_json::Value| serde_json::from_value(value.clone());
    extra
        .get("issued")
        .map(parse)
        .transpose()
        .map_err(|error| TrustError::Malformed {
            file: "timestamp.json".to_owned(),
            problem: error.to_string(),
        })
}

/// A time of issue after the expiry of what it is issued under would raise the site's lower bound beyond
/// what the offline keys sign.
fn refuse_issue_beyond(
    file: &str,
    issued: Option<Timestamp>,
    expires: Timestamp,
) -> Result<(), TrustError> {
    match issued.filter(|issued| *issued > expires) {
        None => Ok(()),
        Some(issued) => Err(TrustError::Malformed {
            file: file.to_owned(),
            problem: format!("issued {issued}, after its own expiry {expires}"),
        }),
    }
}

/// Only the fleet's own targets metadata hands a stream to a role; a role never hands on.
fn refuse_undelegated(targets: &Targets, role: &str) -> Result<(), TrustError> {
    let roles = targets
        .delegations
        .iter()
        .flat_map(|delegations| &delegations.roles);
    let path = format!("{role}/index.json");
    let mut problem = "its fleet has no such stream (any more)".to_owned();
    for delegated in roles {
        match (
            delegated.name == role,
            matches("targets.json", delegated, &path)?,
        ) {
            (true, true) => return Ok(()),
            // Whoever comes first in the list decides about the names that it claims.
            (false, true) => {
                problem = format!("role `{}` claims its names before it", delegated.name);
                break;
            }
            (_, false) => {}
        }
    }
    Err(TrustError::Stream {
        role: role.to_owned(),
        problem,
    })
}

fn refuse_odd_role(role: &str) -> Result<(), TrustError> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    let reserved = matches!(role, "root" | "snapshot" | "targets" | "timestamp");
    if role.is_empty() || role.len() > 200 || reserved || !role.bytes().all(plain) {
        let role: String = role.chars().take(80).collect();
        return Err(TrustError::Stream {
            role,
            problem: "it is not a stream's name".to_owned(),
        });
    }
    Ok(())
}

/// A bad signature on everything mostly means another fleet's stick: say so when it can be shown.
fn name_foreign_fleet(
    error: TrustError,
    source: &dyn MetadataSource,
    version: u64,
    trusted: &[u8],
) -> TrustError {
    let unsigned = matches!(
        error,
        TrustError::Signature { .. } | TrustError::Threshold { .. } | TrustError::RootChain { .. }
    );
    if !unsigned {
        return error;
    }
    let digest = |bytes: &[u8]| hex::encode(&Sha256::digest(bytes)[..8]);
    match source.fetch(&format!("{version}.root.json"), MAX_ROOT_BYTES) {
        // A root that its own keys did not sign is no other fleet's, but a damaged file.
        Ok(Some(bytes)) if bytes != trusted && Walk::from_root(&bytes).is_ok() => {
            TrustError::ForeignFleet {
                version,
                expected: digest(trusted),
                found: digest(&bytes),
            }
        }
        _ => error,
    }
}

impl Acceptance {
    /// Why it may not be installed as new, if so. What runs already is not concerned.
    pub fn refused_as_new(&self) -> Option<String> {
        let expires = &self.expires;
        self.expired
            .then(|| format!("its signatures expired on {expires}; a new install needs fresh ones"))
    }
}
