//! Manifests that no bundle carries: what is not in git.
//!
//! What comes in: a deployment target and what the delivery policies say of a cluster type. What goes
//! out: nothing when its manifests travel, or when the sites get them themselves and the bundle's
//! signature still says which; otherwise a finding. It is pure.

use std::collections::BTreeSet;

use outhaul_bundle::Digest;

use super::Delivery;
use crate::schedule::Schedule;
use outhaul_control::ControlPlane;
use outhaul_control::diagnostic::{Diagnostic, Diagnostics};
use outhaul_control::model::{DeploymentTarget, Images, Transport};

/// The storage that is carried.
const GIT: &str = "git";
/// The storage that a site may have itself: what holds its images holds these, too.
pub const OCI: &str = "oci";

/// Why no bundle of `cluster_type` can be made with `target` in it; `None` when one can.
pub fn unsupported(
    delivery: &Delivery,
    cluster_type: &str,
    target: &DeploymentTarget,
) -> Option<Diagnostic> {
    let manifests = target.manifests.as_ref()?;
    let value = |key| manifests.get(key).map(String::as_str).unwrap_or_default();
    let storage = value("storage");
    if value("repo").is_empty() || storage.is_empty() || storage == GIT {
        return None;
    }
    let at = target.storage_at.as_ref().unwrap_or(&target.location);
    let name = &target.name;
    if storage != OCI {
        let message =
            format!("no bundle contains the manifests of `{name}`: they are in `{storage}`");
        return Some(Diagnostic::error("not-carried", message).at(at).help(format!(
            "write `storage: git` or `storage: oci`, or `delivery: git` in a delivery policy of cluster type \
             `{cluster_type}`, of which no bundles are made then"
        )));
    }
    let images = delivery.images.as_ref().map(|images| &images.value);
    // What a rendered object fetches travels then, by the digest that the lock has; see [`not_fetched`].
    if images == Some(&Images::Carry) {
        return None;
    }
    if images != Some(&Images::Reference) {
        let message =
            format!("no bundle contains the manifests of `{name}`: they are an OCI artifact");
        return Some(Diagnostic::error("not-carried", message).at(at).help(format!(
            "set `images: carry` in a delivery policy of cluster type `{cluster_type}`: the artifact travels then; \
             where the sites have their own registry, `images: reference`: the bundle then names the artifact by \
             its digest; otherwise keep the manifests in git (`storage: git`)"
        )));
    }
    if value("digest").parse::<Digest>().is_ok() {
        return None;
    }
    let message = format!(
        "the manifests of `{name}` are an OCI artifact without a digest: a bundle's signature would not \
         say which"
    );
    Some(Diagnostic::error("not-pinned", message).at(at).help(
        "write `digest: sha256:…` beside `repo`; `flux push artifact` and `oras push` print it",
    ))
}

/// The repository, without `oci://`, of the artifact that a target's manifests are, where it is to travel.
pub fn artifact<'a>(delivery: &Delivery, target: &'a DeploymentTarget) -> Option<&'a str> {
    let manifests = target.manifests.as_ref()?;
    let images = delivery.images.as_ref()?;
    let is_oci = manifests
        .get("storage")
        .is_some_and(|storage| storage == OCI);
    let repo = manifests
        .get("repo")
        .filter(|_| is_oci && images.value == Images::Carry)?;
    Some(repo.strip_prefix("oci://").unwrap_or(repo))
}

/// An artifact that travels with nothing: no rendered object fetches it.
pub fn not_fetched(target: &DeploymentTarget) -> Diagnostic {
    let at = target.storage_at.as_ref().unwrap_or(&target.location);
    let name = &target.name;
    let message = format!(
        "no bundle contains the manifests of `{name}`: they are an OCI artifact, which no rendered object fetches"
    );
    Diagnostic::error("not-carried", message).at(at).help(
        "give the cluster type a template whose `OCIRepository` (or `Application`) names the artifact, such as `flux-oci`; \
         otherwise keep the manifests in git (`storage: git`)",
    )
}

/// What keeps bundles from being made of cluster types that are said to travel by bundle, each once.
pub fn contradictions(plane: &ControlPlane, schedule: &Schedule) -> Diagnostics {
    let mut findings = Diagnostics::new();
    let mut seen = BTreeSet::new();
    for id in schedule.assignments.keys() {
        let Some(cluster_type) = plane.cluster_types.get(&id.cluster_type) else {
            continue;
        };
        let Some(target) = plane.targets.get(&id.target) else {
            continue;
        };
        // Nearly all are in git, and policies are not looked for then.
        if unsupported(&Delivery::default(), &id.cluster_type, target).is_none() {
            continue;
        }
        let Ok(delivery) = super::of(plane, cluster_type) else {
            continue;
        };
        let bundled =
            |transport: &Transport| matches!(transport, Transport::Bundle | Transport::Both);
        if delivery
            .transport
            .as_ref()
            .is_some_and(|transport| bundled(&transport.value))
            && let Some(finding) = unsupported(&delivery, &id.cluster_type, target)
            && seen.insert((id.target.as_str(), finding.code))
        {
            findings.push(finding);
        }
    }
    findings
}
