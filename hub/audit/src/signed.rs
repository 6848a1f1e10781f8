//! What was signed: bundles under the fleet's root, reports under their sites' keys.
//!
//! What comes in: an export and the root. What goes out: the bundles that follow from signed metadata, and the reports
//! whose signatures hold, each as a hub would have taken it in. What does not hold is named and left out.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use outhaul_bundle::report::{PAYLOAD_TYPE, Report};
use outhaul_bundle::{Digest, Index, Limits};
use outhaul_gate::facts::{DesiredAssignment, DesiredBundle, Signed};
use outhaul_gate::fold::SeenReport;
use outhaul_signer::Envelope;
use outhaul_signer::clock::TimePolicy;
use outhaul_signer::trust::{self, TrustedMetadata};

use crate::error::AuditError;
use crate::outcome::Problem;
use crate::read::{ClaimedReport, Export, Metadata};

/// Metadata that holds, and what it lists.
#[derive(Debug, Clone)]
pub struct Accepted {
    /// When the hub accepted it.
    pub at_ms: i64,
    /// The stream's role.
    pub role: String,
    /// The bundle's number.
    pub number: u64,
    /// The keys that may sign for the stream from then on.
    pub keys: BTreeSet<String>,
    /// Those of them that signed.
    pub signers: BTreeSet<String>,
    /// The bundle, where its index is in the export.
    pub bundle: Option<(DesiredBundle, Vec<DesiredAssignment>)>,
}

/// The bundles of the export, in the order in which the hub accepted them.
pub fn bundles(
    export: &Export,
    root: &[u8],
    problems: &mut Vec<Problem>,
) -> Result<Vec<Accepted>, AuditError> {
    let trusted = TrustedMetadata::enrol(root).map_err(AuditError::Root)?;
    let mut found = Vec::new();
    for (line, metadata) in &export.metadata {
        match accepted(metadata, &trusted, &export.fleet) {
            Ok(one) => found.push(one),
            Err(what) => problems.push(Problem { line: *line, what }),
        }
    }
    Ok(found)
}

fn accepted(metadata: &Metadata, root: &TrustedMetadata, fleet: &str) -> Result<Accepted, String> {
    let at = Timestamp::from_millisecond(metadata.at_ms).unwrap_or(Timestamp::UNIX_EPOCH);
    let clock = TimePolicy {
        lower_bound: Timestamp::UNIX_EPOCH,
        wall: at,
        wall_trusted: true,
    };
    let role = &metadata.role;
    let accepted =
        trust::verify(root, &BTreeMap::new(), &metadata.files, role, clock).map_err(|error| {
            format!("the metadata of stream `{role}` does not hold under the root: {error}")
        })?;
    let bundle = match &metadata.index {
        None => None,
        Some(bytes) => {
            let digest = Digest::of(bytes);
            if digest != Digest::from_bytes(accepted.index_sha256) {
                return Err(format!(
                    "the index of bundle {} of stream `{role}` is not the one that was signed",
                    accepted.number
                ));
            }
            let index: Index = Index::from_bytes(bytes, &Limits::default()).map_err(|error| {
                format!(
                    "the index of bundle {} cannot be read: {error}",
                    accepted.number
                )
            })?;
            if index.fleet.as_str() != fleet {
                return Err(format!(
                    "bundle {} is of fleet `{}`",
                    accepted.number, index.fleet
                ));
            }
            let signed = Signed {
                issued_ms: accepted.issued.as_millisecond(),
                signed_as: accepted.versions.get("timestamp").copied().unwrap_or(0),
                expires_ms: accepted.expires.as_millisecond(),
            };
            let bundle = DesiredBundle::of(&index, &digest, signed);
            Some((bundle, DesiredAssignment::all_of(&index)))
        }
    };
    Ok(Accepted {
        at_ms: metadata.at_ms,
        role: role.clone(),
        number: accepted.number,
        keys: accepted.trusted.stream_keys(role).unwrap_or_default(),
        signers: accepted.trusted.stream_signers(role),
        bundle,
    })
}

/// The reports of each site whose signatures hold.
pub fn reports(export: &Export, problems: &mut Vec<Problem>) -> BTreeMap<String, Vec<SeenReport>> {
    let mut found: BTreeMap<String, Vec<SeenReport>> = BTreeMap::new();
    // What a key signed that the site has no more counts when a report after it names its digest.
    let mut held: Vec<(u64, String, SeenReport, String)> = Vec::new();
    for (line, claimed) in &export.reports {
        match report(export, claimed) {
            Ok((seen, None)) => found.entry(claimed.site.clone()).or_default().push(seen),
            Ok((seen, Some(problem))) => held.push((*line, claimed.site.clone(), seen, problem)),
            Err(what) => problems.push(Problem { line: *line, what }),
        }
    }
    held.sort_by_key(|(_, _, seen, _)| std::cmp::Reverse(seen.report.number));
    for (line, site, seen, what) in held {
        let known = found.entry(site).or_default();
        let names = |one: &SeenReport| {
            one.report.epoch == seen.report.epoch
                && one.report.number == seen.report.number + 1
                && one
                    .report
                    .previous
                    .is_some_and(|previous| previous.to_string() == seen.digest)
        };
        if known.iter().any(names) {
            known.push(seen);
        } else {
            problems.push(Problem { line, what });
        }
    }
    found
}

/// Leaves out the conflicts whose report does not hold: nothing but the site's key makes one.
pub fn conflicts(export: &mut Export, problems: &mut Vec<Problem>) {
    let keys = &export.site_keys;
    export.conflicts.retain(|(line, claimed)| {
        let (site, conflict) = (&claimed.site, &claimed.conflict);
        let place = format!(
            "report {} of a second machine of site `{site}`",
            conflict.number
        );
        let keys = keys.get(site).map_or(&[][..], Vec::as_slice);
        let found = Envelope::from_json(claimed.envelope.as_bytes())
            .map_err(|error| error.to_string())
            .and_then(|envelope| {
                envelope
                    .verify(PAYLOAD_TYPE, keys)
                    .map(<[u8]>::to_vec)
                    .map_err(|error| error.to_string())
            });
        let holds = found.and_then(|payload| {
            let report = Report::from_bytes(&payload).map_err(|error| error.to_string())?;
            let is_it = report.site.as_str() == site
                && report.epoch.as_str() == conflict.epoch
                && report.number == conflict.number
                && Digest::of(&payload).to_string() == conflict.digest;
            is_it
                .then_some(())
                .ok_or_else(|| "it is another report".to_owned())
        });
        match holds {
            Ok(()) => true,
            Err(what) => {
                let what = format!("{place}: {what}");
                problems.push(Problem { line: *line, what });
                false
            }
        }
    });
}

/// The report, and why its signature does not hold by itself.
fn report(
    export: &Export,
    claimed: &ClaimedReport,
) -> Result<(SeenReport, Option<String>), String> {
    let place = format!("report {} of site `{}`", claimed.number, claimed.site);
    let envelope = Envelope::from_json(claimed.envelope.as_bytes())
        .map_err(|error| format!("{place} cannot be read: {error}"))?;
    let payload = envelope.unverified_payload();
    let report =
        Report::from_bytes(payload).map_err(|error| format!("{place} cannot be read: {error}"))?;
    let is_it = report.site.as_str() == claimed.site
        && report.epoch.as_str() == claimed.epoch
        && report.number == claimed.number
        && report.fleet.as_str() == export.fleet;
    if !is_it {
        return Err(format!(
            "{place} refers to report {} of site `{}` of fleet `{}`",
            report.number, report.site, report.fleet
        ));
    }
    let keys = export
        .site_keys
        .get(&claimed.site)
        .map_or(&[][..], Vec::as_slice);
    let problem = envelope
        .verify(PAYLOAD_TYPE, keys)
        .err()
        .map(|error| format!("{place}: {error}"));
    let seen = SeenReport {
        ordinal: claimed.ordinal,
        digest: Digest::of(payload).to_string(),
        via: claimed.via.clone(),
        received_ms: claimed.received_ms,
        report,
    };
    Ok((seen, problem))
}
