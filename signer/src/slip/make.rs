//! Making a slip: fresh dates for what a fleet has published, and the files that one stream's sites need.
//!
//! What comes in: a fleet, a stream and dates. What goes out: a slip that a site accepts (it was checked by
//! the site's own rules) and the metadata to publish after the slip is safely written. It signs nothing new
//! about the stream: the bundle number stays.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{Slip, malformed};
use crate::clock::TimePolicy;
use crate::fleet::{Fleet, FleetError};
use crate::key::Secret;
use crate::publish::SignedMetadata;
use crate::trust::{self, TrustedMetadata};

/// A slip and what belongs to it.
#[derive(Debug, Clone)]
pub struct NewSlip {
    /// The slip.
    pub slip: Slip,
    /// What [`Fleet::commit`] publishes once the slip is written: later bundles must be newer than it.
    pub metadata: SignedMetadata,
    /// The newest bundle number that the slip names.
    pub number: u64,
    /// The floors that a site has after it.
    pub versions: BTreeMap<String, u64>,
    /// The time that it brings.
    pub signed_at: Timestamp,
    /// Until when the bundle that it names may be installed.
    pub expires: Timestamp,
}

impl Fleet {
    /// A freshness slip for the stream `role`, signed now. Root versions up to `since_root` are left out:
    /// 0 serves every site of the stream, the newest version only those that know it.
    ///
    /// # Errors
    /// [`FleetError`] when the stream has no bundle yet, `since_root` is beyond the newest root, a key is
    /// missing, or a site would refuse the slip. Nothing is published before [`Fleet::commit`].
    pub fn slip(
        &self,
        role: &str,
        since_root: u64,
        issued: Timestamp,
        expires: Timestamp,
        secret: &Secret,
    ) -> Result<NewSlip, FleetError> {
        let refuse = |problem: String| Err(FleetError::Option { problem });
        if issued >= expires {
            return refuse(format!(
                "issued {issued}, expires {expires}: it would never be valid"
            ));
        }
        let published = self.published()?;
        let newest = published.root.version;
        if since_root > newest {
            return refuse(format!(
                "the newest root version is {newest}, not {since_root}"
            ));
        }
        let Some((stream, bytes)) = published.stream(&self.metadata_folder(), role)? else {
            return refuse(format!(
                "stream `{role}` has no bundle yet, so no slip can be made"
            ));
        };
        let metadata = self.refresh(issued, expires, secret)?;
        let mut files = metadata.files.clone();
        files.push((format!("{}.{role}.json", stream.version), bytes));
        let slip = Slip::new(self.id(), role, &files, since_root);
        let slip = slip.map_err(|error| FleetError::Option {
            problem: error.to_string(),
        })?;
        let accepted = check(&slip, role, &known_root(&files, since_root), issued)?;
        Ok(NewSlip {
            slip,
            metadata,
            number: accepted.number,
            versions: accepted.versions,
            signed_at: accepted.signed_at,
            expires: accepted.expires,
        })
    }
}

/// The root metadata of a site that the slip is meant for.
fn known_root(files: &[(String, Vec<u8>)], since_root: u64) -> Vec<u8> {
    let name = format!("{}.root.json", since_root.max(1));
    let found = files.iter().find(|(file, _)| *file == name);
    found.map(|(_, bytes)| bytes.clone()).unwrap_or_default()
}

/// Reads the slip back from its bytes and verifies it as a site does.
fn check(
    slip: &Slip,
    role: &str,
    root: &[u8],
    issued: Timestamp,
) -> Result<trust::Acceptance, FleetError> {
    let refused = |source| FleetError::WouldBeRefused { source };
    let read = Slip::from_bytes(&slip.to_bytes()).and_then(|read| {
        if read == *slip {
            Ok(read)
        } else {
            Err(malformed("it does not read back as it was written"))
        }
    });
    let read = read.map_err(|error| FleetError::Option {
        problem: error.to_string(),
    })?;
    let trusted = TrustedMetadata::enrol(root).map_err(refused)?;
    let now = TimePolicy {
        lower_bound: issued,
        wall: issued,
        wall_trusted: false,
    };
    trust::verify(&trusted, &BTreeMap::new(), read.source(), role, now).map_err(refused)
}
