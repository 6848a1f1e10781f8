//! Sites: which of them a change reaches.
//!
//! What comes in: both control planes. What goes out: for each cluster type the sites on it, and which
//! of them came, went, or changed themselves.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use outhaul_control::ControlPlane;
use outhaul_control::model::Site;

/// Most names that are listed.
const MAX_NAMES: usize = 20;

/// Sites that get something else than before.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct SitesTouched {
    /// How many.
    pub count: usize,
    /// The first of them by name, at most 20.
    pub names: Vec<String>,
    /// How many sites the cluster type has after the change.
    pub of: usize,
    /// Sites whose own object came, went or changed; at most 20.
    pub own: Vec<SiteChange>,
}

/// What happened to one site's own object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SiteChange {
    /// The site's name.
    pub site: String,
    /// What happened.
    pub what: String,
}

#[derive(Debug, Default)]
pub(super) struct OfType {
    now: BTreeSet<String>,
    own: BTreeMap<String, String>,
}

impl OfType {
    /// `content`: whether what all sites share differs; `values`: sites whose own values do.
    pub(super) fn touched(self, content: bool, values: BTreeSet<String>) -> SitesTouched {
        let mut touched = values;
        touched.extend(self.own.keys().cloned());
        if content {
            touched.extend(self.now.iter().cloned());
        }
        SitesTouched {
            count: touched.len(),
            of: self.now.len(),
            names: touched.into_iter().take(MAX_NAMES).collect(),
            own: self
                .own
                .into_iter()
                .take(MAX_NAMES)
                .map(|(site, what)| SiteChange { site, what })
                .collect(),
        }
    }
}

pub(super) fn all(before: &ControlPlane, after: &ControlPlane) -> BTreeMap<String, OfType> {
    let mut types: BTreeMap<String, OfType> = BTreeMap::new();
    for site in after.sites.values() {
        let of = types.entry(site.cluster_type.value.clone()).or_default();
        of.now.insert(site.name.clone());
        let what = match before.sites.get(&site.name) {
            None => Some("new".to_owned()),
            Some(old) if old.cluster_type.value != site.cluster_type.value => {
                Some(format!("moved here from `{}`", old.cluster_type.value))
            }
            Some(old) => changes(old, site),
        };
        if let Some(what) = what {
            of.own.insert(site.name.clone(), what);
        }
    }
    for old in before.sites.values() {
        let now = after
            .sites
            .get(&old.name)
            .map(|site| &site.cluster_type.value);
        if now == Some(&old.cluster_type.value) {
            continue;
        }
        let what = now.map_or("gone".to_owned(), |now| format!("moved to `{now}`"));
        let of = types.entry(old.cluster_type.value.clone()).or_default();
        of.own.insert(old.name.clone(), what);
    }
    types
}

fn changes(old: &Site, new: &Site) -> Option<String> {
    let mut what = Vec::new();
    let keys: BTreeSet<&String> = old.labels.keys().chain(new.labels.keys()).collect();
    for key in keys {
        match (old.labels.get(key), new.labels.get(key)) {
            (Some(a), Some(b)) if a == b => {}
            (Some(a), Some(b)) => what.push(format!("label `{key}`: {a} → {b}")),
            (None, Some(b)) => what.push(format!("label `{key}`: {b}, new")),
            (Some(a), None) => what.push(format!("label `{key}`: {a}, gone")),
            (None, None) => {}
        }
    }
    if old.ring != new.ring {
        let name = |ring: &Option<String>| ring.clone().unwrap_or_else(|| "none".into());
        what.push(format!("ring: {} → {}", name(&old.ring), name(&new.ring)));
    }
    if old.public_key != new.public_key {
        what.push("public key".into());
    }
    (!what.is_empty()).then(|| what.join(", "))
}
