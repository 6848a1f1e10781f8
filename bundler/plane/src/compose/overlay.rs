//! Overlays: which sites get other values than their assignment has for all.
//!
//! What comes in: the sites of a control plane and the layers. What goes out: for an assignment the
//! groups of sites that the same further layers match. A label that neither the cluster type nor the
//! target has is looked up in the site: `site` is its name, `ring` its ring, anything else its own
//! label. Layers are found through the labels that sites really have, and sites through the labels
//! that layers really ask for: a site that no layer asks for costs one look-up per label.

use std::collections::{BTreeMap, HashMap};

use super::layers::{Label, Layers};
use crate::inputs::Inputs;
use outhaul_control::model::{ClusterType, DeploymentTarget, Site};

pub mod findings;

/// The sites of a control plane by cluster type.
#[derive(Debug)]
pub(super) struct Sites<'a> {
    by_type: BTreeMap<&'a str, OfType<'a>>,
}

/// The sites of one cluster type, as far as layers ask for them.
#[derive(Debug, Default)]
struct OfType<'a> {
    sites: Vec<&'a Site>,
    /// Positions in `sites`, ascending, of those that have a label.
    having: HashMap<Label<'a>, Vec<usize>>,
    /// Positions of the layers that ask for one of those labels, ascending.
    candidates: Vec<usize>,
}

impl<'a> Sites<'a> {
    /// The sites of `plane`, in the order of their names.
    pub fn of(plane: Inputs<'a>, layers: &Layers<'_>) -> Self {
        let mut by_type: BTreeMap<&'a str, OfType<'a>> = BTreeMap::new();
        for site in plane.sites.values() {
            by_type
                .entry(site.cluster_type.value.as_str())
                .or_default()
                .add(site, layers);
        }
        for of_type in by_type.values_mut() {
            of_type.candidates.sort_unstable();
            of_type.candidates.dedup();
        }
        Self { by_type }
    }

    /// The site called `name` alone, as if its cluster type had no other.
    pub fn only(site: &'a Site, layers: &Layers<'_>) -> Self {
        let mut of_type = OfType::default();
        of_type.add(site, layers);
        of_type.candidates.sort_unstable();
        of_type.candidates.dedup();
        Self {
            by_type: BTreeMap::from([(site.cluster_type.value.as_str(), of_type)]),
        }
    }

    /// For a pair whose layers are `base`: each set of layers that some sites have instead, with the
    /// names of those sites in order.
    pub fn groups(
        &self,
        layers: &Layers<'_>,
        base: &[usize],
        cluster_type: &ClusterType,
        target: &DeploymentTarget,
    ) -> BTreeMap<Vec<usize>, Vec<&'a str>> {
        let Some(of_type) = self.by_type.get(cluster_type.name.as_str()) else {
            return BTreeMap::new();
        };
        let mut further: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for at in &of_type.candidates {
            let Some(missing) = layers.missing(*at, cluster_type, target) else {
                continue;
            };
            // Without a missing label it is among the base's layers.
            for site in of_type.having_all(&missing) {
                further.entry(site).or_default().push(*at);
            }
        }
        let mut groups: BTreeMap<Vec<usize>, Vec<&'a str>> = BTreeMap::new();
        for (site, mut layers) in further {
            if let Some(site) = of_type.sites.get(site) {
                layers.extend_from_slice(base);
                layers.sort_unstable();
                groups.entry(layers).or_default().push(&site.name);
            }
        }
        groups
    }
}

impl<'a> OfType<'a> {
    fn add(&mut self, site: &'a Site, layers: &Layers<'_>) {
        let at = self.sites.len();
        self.sites.push(site);
        for label in site_labels(site) {
            let asking = layers.with_label(label);
            if asking.is_empty() {
                continue;
            }
            let having = self.having.entry(label).or_default();
            if having.is_empty() {
                self.candidates.extend_from_slice(asking);
            }
            having.push(at);
        }
    }

    /// Positions of the sites that have all of the labels; none when there is no label.
    fn having_all(&self, labels: &[Label<'_>]) -> Vec<usize> {
        let mut lists: Vec<&Vec<usize>> = Vec::new();
        for label in labels {
            match self.having.get(label) {
                Some(list) => lists.push(list),
                None => return Vec::new(),
            }
        }
        lists.sort_by_key(|list| list.len());
        let Some((shortest, others)) = lists.split_first() else {
            return Vec::new();
        };
        let in_all = |at: &usize| others.iter().all(|list| list.binary_search(at).is_ok());
        shortest.iter().copied().filter(in_all).collect()
    }
}

/// What a site answers to: its name, its ring, and its labels other than those two.
pub fn site_labels(site: &Site) -> impl Iterator<Item = Label<'_>> {
    site.answers_to()
}

#[cfg(test)]
mod tests;
