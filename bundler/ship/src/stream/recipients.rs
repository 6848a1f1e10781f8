//! For whom the bundles are: which of the named sites follows which stream.
//!
//! What comes in: the names that were asked for, the control plane's sites and the fleet's records. What
//! goes out: the recipients of each stream that has any, or a refusal of a name that none of them has; and the
//! enrolled sites of streams that the environment does not have. It
//! writes nothing and uses no number.

use std::collections::{BTreeMap, BTreeSet};

use outhaul_bundle::name::Name;
use outhaul_signer::fleet::Fleet;

use super::delivery_rules::suppressed;
use super::{BundleRequest, ProduceError};
use outhaul_load::pipeline::Platform;
use outhaul_plane::delivery;
use outhaul_sites::Sites;

/// The recipients by cluster type; empty when none were named.
///
/// # Errors
/// [`ProduceError::UnknownRecipient`], or a record that cannot be read.
pub(super) fn of(
    platform: &Platform,
    fleet: &Fleet,
    request: &BundleRequest<'_>,
    wanted: impl Fn(&&String) -> bool,
) -> Result<BTreeMap<String, BTreeSet<Name>>, ProduceError> {
    let mut found: BTreeMap<String, BTreeSet<Name>> = BTreeMap::new();
    if request.recipients.is_empty() {
        return Ok(found);
    }
    let rendering = &platform.rendering;
    let records = Sites::of(fleet).all()?;
    let mut known: BTreeSet<String> = BTreeSet::new();
    let mut streams = Vec::new();
    for cluster_type in rendering.cluster_types.keys().filter(wanted) {
        let role = fleet.role(&rendering.environment, cluster_type);
        streams.push(format!("{}/{cluster_type}", rendering.environment));
        let enrolled = records
            .iter()
            .filter(|site| site.roles.iter().any(|known| known.as_str() == role))
            .map(|site| site.site.to_string());
        let listed = platform.control_plane.sites.values();
        let listed = listed
            .filter(|site| site.cluster_type.value == *cluster_type)
            .map(|site| site.name.clone());
        let sites: BTreeSet<String> = enrolled.chain(listed).collect();
        let ours = request.recipients.iter();
        let ours: BTreeSet<Name> = ours
            .filter(|name| sites.contains(name.as_str()))
            .cloned()
            .collect();
        if !ours.is_empty() {
            found.insert(cluster_type.clone(), ours);
        }
        known.extend(sites);
    }
    let unknown = |name: &&Name| !known.contains(name.as_str());
    if let Some(site) = request.recipients.iter().find(unknown) {
        return Err(ProduceError::UnknownRecipient {
            site: site.to_string(),
            streams: streams.join(", "),
            known: known.into_iter().collect(),
        });
    }
    Ok(found)
}

/// The streams of these cluster types that bundles are made of, or of all: roles, and names for people. Of what travels by git alone none
/// is made, nor where policies contradict each other.
pub fn bundled(platform: &Platform, fleet: &Fleet, named: &[String]) -> Vec<(Name, String)> {
    let (environment, plane) = (&platform.rendering.environment, &platform.control_plane);
    let made = plane.cluster_types.values().filter(|one| {
        let is_named = named.is_empty() || named.contains(&one.name);
        is_named && delivery::of(plane, one).is_ok_and(|one| suppressed(&one).is_none())
    });
    let streams = made.filter_map(|one| {
        let role = fleet.role(environment, &one.name).parse().ok()?;
        Some((role, format!("{environment}/{}", one.name)))
    });
    streams.collect()
}

/// Enrolled sites of the environment whose cluster type it does not have, by stream: they follow a stream of which no
/// bundle is made any more.
///
/// # Errors
/// A record that cannot be read.
pub(super) fn orphans(
    platform: &Platform,
    fleet: &Fleet,
) -> Result<BTreeMap<String, BTreeSet<Name>>, ProduceError> {
    let rendering = &platform.rendering;
    let mut found: BTreeMap<String, BTreeSet<Name>> = BTreeMap::new();
    for record in Sites::of(fleet).all()? {
        let (environment, cluster_type) = (&record.stream.environment, &record.stream.cluster_type);
        if environment.as_str() == rendering.environment
            && !rendering.cluster_types.contains_key(cluster_type.as_str())
        {
            found
                .entry(record.stream_name())
                .or_default()
                .insert(record.site);
        }
    }
    Ok(found)
}
