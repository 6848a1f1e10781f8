//! Site: what one site gets, and where that differs from what its cluster type gets.
//!
//! What comes in: a control plane, what the stages made of it, and a site. What goes out: its stream,
//! its assignments with their policies, and the values that are its own.

use std::collections::BTreeMap;

use outhaul_bundle::index::waves::WavePlace;
use serde::Serialize;

use super::{LayerAt, layers_at, shown};
use crate::compose::{Composition, Mode, schema};
use crate::delivery;
use crate::inputs::Inputs;
use crate::schedule::{Assignment, AssignmentId, Schedule};
use crate::site_values::Opener;
use outhaul_control::ControlPlane;
use outhaul_control::model::Site;

/// What a site gets.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SiteExplanation {
    /// The site.
    pub site: String,
    /// Where it is written.
    pub at: String,
    /// Its cluster type.
    pub cluster_type: String,
    /// Where it says so.
    pub cluster_type_at: String,
    /// Whether there is such a cluster type.
    pub known: bool,
    /// The stream of bundles that it takes: environment and cluster type.
    pub stream: String,
    /// How many sites take the same stream, this one included.
    pub sites: usize,
    /// Where it stands among the waves of its stream, where there are waves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wave: Option<WavePlace>,
    /// What runs on it.
    pub assignments: Vec<AssignmentAt>,
    /// What runs on other sites of its cluster type only.
    pub for_others: Vec<ForOthers>,
}

/// An assignment that is for other sites of the cluster type.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ForOthers {
    /// The deployment target.
    pub target: String,
    /// The policies that put it on those sites.
    pub policies: Vec<String>,
}

/// One assignment on the site.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AssignmentAt {
    /// The deployment target.
    pub target: String,
    /// The policies that put it there.
    pub policies: Vec<String>,
    /// How many other sites it is for, when it is not for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared_with: Option<usize>,
    /// What keeps it from being composed, if anything does.
    pub broken: Vec<String>,
    /// Values that are not those of the cluster type.
    pub own: Vec<OwnValue>,
    /// Keys that a person on site may set, with what each may be.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub open: BTreeMap<String, String>,
}

/// A value that only some sites have.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OwnValue {
    /// The key.
    pub key: String,
    /// The site's value; absent when it has none.
    pub value: Option<serde_json::Value>,
    /// The cluster type's value; absent when it has none.
    pub elsewhere: Option<serde_json::Value>,
    /// Who set it, the one that counts first.
    pub layers: Vec<LayerAt>,
    /// How many sites have the same config.
    pub shared_by: usize,
}

/// What `site` gets.
pub fn explanation(
    plane: &ControlPlane,
    schedule: &Schedule,
    composition: &Composition,
    site: &Site,
) -> SiteExplanation {
    let cluster_type = &site.cluster_type.value;
    let is_for = |assignment: &Assignment| {
        let sites = assignment.sites.as_ref();
        sites.is_none_or(|sites| sites.contains(&site.name))
    };
    let here = || {
        let all = schedule.assignments.iter();
        all.filter(|(id, _)| id.cluster_type == *cluster_type)
    };
    let assignments = here()
        .filter(|(_, assignment)| is_for(assignment))
        .map(|(id, assignment)| AssignmentAt {
            target: id.target.clone(),
            policies: assignment.policies.clone(),
            shared_with: assignment.sites.as_ref().map(|sites| sites.len() - 1),
            broken: composition
                .failures
                .get(id)
                .into_iter()
                .flat_map(|findings| findings.iter().map(|finding| finding.message.clone()))
                .collect(),
            own: own(composition, id, &site.name),
            open: open(plane, id),
        })
        .collect();
    let same = plane
        .sites
        .values()
        .filter(|other| other.cluster_type.value == *cluster_type);
    SiteExplanation {
        site: site.name.clone(),
        at: site.location.file_line(),
        cluster_type: cluster_type.clone(),
        cluster_type_at: site.cluster_type.location.file_line(),
        known: plane.cluster_types.contains_key(cluster_type),
        stream: format!("{}/{cluster_type}", plane.environment),
        sites: same.count(),
        wave: wave(plane, site),
        assignments,
        for_others: here()
            .filter(|(_, assignment)| !is_for(assignment))
            .map(|(id, assignment)| ForOthers {
                target: id.target.clone(),
                policies: assignment.policies.clone(),
            })
            .collect(),
    }
}

/// The wave of a site, by what the delivery policies say of its stream; none where they contradict each other.
fn wave(plane: &ControlPlane, site: &Site) -> Option<WavePlace> {
    let cluster_type = plane.cluster_types.get(&site.cluster_type.value)?;
    let delivery = delivery::of(plane, cluster_type).ok()?;
    let waves = delivery.waves(&plane.environment, &cluster_type.name)?;
    Some(waves.place(&site.name.parse().ok()?))
}

/// What a person on site may set in an assignment.
fn open(plane: &ControlPlane, id: &AssignmentId) -> BTreeMap<String, String> {
    let opener = Opener::new(Inputs::of(plane), Mode::default());
    let place = plane
        .cluster_types
        .get(&id.cluster_type)
        .zip(plane.targets.get(&id.target));
    let opened =
        place.and_then(|(cluster_type, target)| opener.of(cluster_type, target).ok().flatten());
    let keys = opened
        .map(|opened| opened.declared.keys)
        .unwrap_or_default();
    keys.into_iter()
        .map(|(key, rule)| (key, rule.to_string()))
        .collect()
}

fn own(composition: &Composition, id: &AssignmentId, site: &str) -> Vec<OwnValue> {
    let overlays = composition.overlays.get(id).into_iter().flatten();
    let (Some(base), Some(overlay)) = (
        composition.assignments.get(id),
        overlays
            .into_iter()
            .find(|overlay| overlay.sites.contains(site)),
    ) else {
        return Vec::new();
    };
    let value = |composed: &crate::compose::Composed, key: &str| {
        let value = composed.values.as_map().and_then(|map| map.get(key));
        value.map(schema::to_json)
    };
    let keys = overlay
        .composed
        .provenance
        .keys()
        .chain(base.provenance.keys());
    let keys: std::collections::BTreeSet<&String> = keys.collect();
    keys.into_iter()
        .filter_map(|key| {
            let (here, there) = (value(&overlay.composed, key), value(base, key));
            let provenance = overlay.composed.provenance.get(key);
            (here != there).then(|| OwnValue {
                key: key.clone(),
                value: here.map(|value| shown(key, value)),
                elsewhere: there.map(|value| shown(key, value)),
                layers: provenance
                    .map(|provenance| layers_at(key, provenance))
                    .unwrap_or_default(),
                shared_by: overlay.sites.len(),
            })
        })
        .collect()
}
