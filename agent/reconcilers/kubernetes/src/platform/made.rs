//! What is made by the objects that follow a repository: their own objects of Flux or Argo CD, which apply what a team wrote.
//!
//! What comes in: all objects of Flux or Argo CD on a cluster, and those that follow the repository. What goes out: a [`Follower`] for
//! each object that one of them applied, and that such an object applied in turn, with a named state. A commit may be applied whole while
//! what these apply fails: Flux says of it only that the objects are there. It is pure.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Follower, FollowerStatus, flux_message, flux_status, name_of, text};
use crate::health::Health;
use crate::manifest::Key;
use crate::{argocd, flux};

/// The labels by which Flux's controllers mark what they apply: the name's, and the namespace's of who applied it.
const MARKS: [(&str, &str, &str); 2] = [
    (
        "Kustomization",
        "kustomize.toolkit.fluxcd.io/name",
        "kustomize.toolkit.fluxcd.io/namespace",
    ),
    (
        "HelmRelease",
        "helm.toolkit.fluxcd.io/name",
        "helm.toolkit.fluxcd.io/namespace",
    ),
];

/// Of `all` objects of Flux those that `roots` made, of whatever depth.
pub(super) fn of_flux(all: &[&Value], roots: &[&Value]) -> Vec<Follower> {
    let mut made: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
    for object in all {
        let labels = &object["metadata"]["labels"];
        for (kind, name, namespace) in MARKS {
            if let (Some(name), Some(namespace)) =
                (labels[name].as_str(), labels[namespace].as_str())
            {
                let owner = format!("{kind} {namespace}/{name}");
                made.entry(owner).or_default().push(object);
            }
        }
    }
    beneath(roots, |owner| {
        let found = made.get(&name_of(owner));
        found.into_iter().flatten().copied().collect()
    })
    .into_iter()
    .map(|(root, object)| {
        let source = flux::source_of(object).and_then(|key| named(all, &key));
        let (status, message) = match flux_status(object, source) {
            FollowerStatus::Suspended => (
                FollowerStatus::Suspended,
                "it is suspended: what it applies stays as it is".to_owned(),
            ),
            // Another revision of what the team wrote, and no other commit of the repository that is followed.
            FollowerStatus::OtherRevision => {
                (FollowerStatus::InProgress, flux_message(object, source))
            }
            status => (status, flux_message(object, source)),
        };
        of(root, object, status, message)
    })
    .collect()
}

/// Of the applications and sets of Argo CD those that `roots` made, of whatever depth.
pub(super) fn of_argocd(applications: &[Value], sets: &[Value], roots: &[&Value]) -> Vec<Follower> {
    let by_name: BTreeMap<String, &Value> = (applications.iter().chain(sets))
        .map(|object| (name_of(object), object))
        .collect();
    let children = |owner: &Value| -> Vec<&Value> {
        if owner["kind"] == "ApplicationSet" {
            let uid = text(&owner["metadata"]["uid"]);
            let made = applications.iter();
            return made.filter(|one| argocd::is_made_by(one, uid)).collect();
        }
        let resources = owner["status"]["resources"].as_array();
        let resources = resources.into_iter().flatten();
        resources
            .filter(|one| one["group"] == argocd::GROUP)
            .filter_map(|one| {
                let (kind, namespace) = (text(&one["kind"]), text(&one["namespace"]));
                by_name
                    .get(&format!("{kind} {namespace}/{}", text(&one["name"])))
                    .copied()
            })
            .collect()
    };
    beneath(roots, children)
        .into_iter()
        .map(|(root, object)| {
            let (status, message) = match argocd::health(object) {
                Health::Failed(words) | Health::Failing(words) => (FollowerStatus::Failing, words),
                Health::Silent(words) => (FollowerStatus::Stale, words),
                Health::Waiting(words) => (FollowerStatus::InProgress, words),
                Health::Ready => (FollowerStatus::Synced, argocd::status_text(object)),
            };
            of(root, object, status, message)
        })
        .collect()
}

/// Each object below one of `roots`, once, with a root that it is below.
fn beneath<'a>(
    roots: &[&'a Value],
    children: impl Fn(&'a Value) -> Vec<&'a Value>,
) -> Vec<(&'a Value, &'a Value)> {
    let mut seen: BTreeSet<String> = roots.iter().map(|root| name_of(root)).collect();
    let mut found: Vec<(&Value, &Value)> = Vec::new();
    let mut left: Vec<(&Value, &Value)> = roots.iter().map(|root| (*root, *root)).collect();
    while let Some((root, owner)) = left.pop() {
        for child in children(owner) {
            if seen.insert(name_of(child)) {
                found.push((root, child));
                left.push((root, child));
            }
        }
    }
    found
}

fn of(root: &Value, object: &Value, status: FollowerStatus, message: String) -> Follower {
    Follower {
        name: name_of(object),
        path: None,
        below: false,
        commit: None,
        made_by: Some(name_of(root)),
        status,
        message,
    }
}

fn named<'a>(all: &[&'a Value], key: &Key) -> Option<&'a Value> {
    let mut all = all.iter().copied();
    all.find(|one| {
        let metadata = &one["metadata"];
        one["kind"] == *key.kind
            && metadata["name"] == *key.name
            && metadata["namespace"].as_str() == key.namespace.as_deref()
    })
}
