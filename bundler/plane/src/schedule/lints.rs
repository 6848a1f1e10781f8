//! What is sound in policies and taints and was probably meant otherwise.
//!
//! What comes in: a [`ControlPlane`]. What goes out: warnings, each with its place: policies that may be
//! placed nowhere or select no site, and taints, tolerations, preferences and delivery policies that meet nothing. It is
//! pure and changes nothing about the schedule.

use super::choose::{ClusterTypeCandidate, Obstacle, choose};
use super::{selects_cluster_type, selects_target};
use outhaul_control::ControlPlane;
use outhaul_control::diagnostic::{Diagnostic, Diagnostics, Location};
use outhaul_control::model::{Labels, SchedulingPolicy, Site};
use outhaul_control::selector::Selector;
use outhaul_kit::suggest::did_you_mean;

/// Every lint.
pub fn lints(plane: &ControlPlane) -> Diagnostics {
    let mut findings = Diagnostics::new();
    for policy in plane.policies.values() {
        if !no_site(plane, policy, &mut findings) {
            nowhere(plane, policy, &mut findings);
        }
        tolerations(plane, policy, &mut findings);
        preferences(plane, policy, &mut findings);
    }
    for taint in plane.taints.values() {
        let what = format!("taint `{}` is on no cluster type", taint.name);
        idle(
            plane,
            &taint.cluster_types,
            &what,
            &taint.location,
            &mut findings,
        );
    }
    for policy in plane.deliveries.values() {
        let what = format!("delivery policy `{}` selects no cluster type", policy.name);
        idle(
            plane,
            &policy.cluster_types,
            &what,
            &policy.location,
            &mut findings,
        );
    }
    for open in plane.site_values.values() {
        let what = format!("site values `{}` select no cluster type", open.name);
        idle(
            plane,
            &open.cluster_types,
            &what,
            &open.location,
            &mut findings,
        );
        let mut targets = plane.targets.values().chain(plane.other_targets.values());
        if !targets.any(|target| open.targets.matches(&target.labels)) {
            let what = format!("site values `{}` select no deployment target", open.name);
            findings.push(
                Diagnostic::warning("selects-nothing", what)
                    .at(&open.location)
                    .help("compare `deploymentTargetSelector` with the labels of the targets"),
            );
        }
    }
    findings
}

/// A policy that means targets and cluster types, none of which it may take.
fn nowhere(plane: &ControlPlane, policy: &SchedulingPolicy, findings: &mut Diagnostics) {
    let meant = plane
        .targets
        .values()
        .any(|target| selects_target(policy, target))
        && plane
            .cluster_types
            .values()
            .any(|c| selects_cluster_type(policy, c));
    let choice = choose(plane, policy);
    if !meant || choice.candidates.iter().any(ClusterTypeCandidate::taken) {
        return;
    }
    let mut finding = Diagnostic::warning(
        "placed-nowhere",
        format!(
            "policy `{}` may be placed on none of the cluster types that it selects",
            policy.name
        ),
    )
    .at(&policy.location)
    .help("`outhaul explain TARGET CLUSTER-TYPE` shows what keeps it from each");
    let obstacles = || choice.kept_away.values().flatten();
    for taint in plane.taints.values() {
        if obstacles().any(|obstacle| *obstacle == Obstacle::Taint(taint)) {
            finding = finding.related(&taint.location, "this taint keeps it away");
        }
    }
    let required = policy.placement.required.first();
    let sites = policy.placement.sites.as_ref();
    if let Some(sites) = sites.filter(|_| obstacles().any(|o| *o == Obstacle::Sites)) {
        finding = finding.related(&sites.location, "these sites are of other cluster types");
    }
    if let Some(first) = required.filter(|_| obstacles().any(|o| *o == Obstacle::Required)) {
        finding = finding.related(&first.location, "no cluster type has this, or another term");
    }
    let spread = policy.placement.spread.as_ref();
    if let Some(spread) = spread.filter(|_| !choice.candidates.is_empty()) {
        finding = finding.related(&spread.label.location, "no candidate has this label");
    }
    findings.push(finding);
}

fn tolerations(plane: &ControlPlane, policy: &SchedulingPolicy, findings: &mut Diagnostics) {
    for toleration in &policy.placement.tolerations {
        // One without a key is for whatever may come.
        let Some(key) = &toleration.key else { continue };
        if plane
            .taints
            .values()
            .any(|taint| toleration.tolerates(taint))
        {
            continue;
        }
        let same_key = plane.taints.values().find(|taint| taint.key == *key);
        let mut finding = Diagnostic::warning(
            "idle-toleration",
            format!(
                "policy `{}` tolerates a taint that is not there",
                policy.name
            ),
        )
        .at(&toleration.location);
        finding = match same_key {
            Some(taint) => finding
                .related(&taint.location, format!("this is {taint}"))
                .help("compare value and effect"),
            None => {
                let keys: Vec<&String> = plane.taints.values().map(|taint| &taint.key).collect();
                finding.help(did_you_mean(key, &keys))
            }
        };
        findings.push(finding);
    }
}

fn preferences(plane: &ControlPlane, policy: &SchedulingPolicy, findings: &mut Diagnostics) {
    for preference in &policy.placement.preferred {
        let what = format!("policy `{}` prefers what no cluster type has", policy.name);
        idle(
            plane,
            &preference.selector,
            &what,
            &preference.location,
            findings,
        );
    }
}

/// A policy for sites that are not there; whether there is such a finding.
fn no_site(plane: &ControlPlane, policy: &SchedulingPolicy, findings: &mut Diagnostics) -> bool {
    let Some(sites) = &policy.placement.sites else {
        return false;
    };
    let what = format!("policy `{}` selects no site", policy.name);
    if plane.sites.is_empty() {
        let finding = Diagnostic::warning("selects-nothing", what)
            .at(&sites.location)
            .label("the control plane lists no site")
            .help("a site is an object of `kind: Site` with labels; `outhaul new site` writes one");
        findings.push(finding);
        return true;
    }
    let labels: Vec<Labels> = plane.sites.values().map(Site::all_labels).collect();
    let labels: Vec<&Labels> = labels.iter().collect();
    let finding = idle_among(&labels, "site", &sites.value, &what, &sites.location);
    let found = finding.is_some();
    findings.extend(finding);
    found
}

/// A warning when no cluster type meets `selector`; at the requirement that nothing meets, if it is one.
fn idle(
    plane: &ControlPlane,
    selector: &Selector,
    what: &str,
    location: &Location,
    findings: &mut Diagnostics,
) {
    let labels: Vec<&Labels> = plane.cluster_types.values().map(|c| &c.labels).collect();
    findings.extend(idle_among(
        &labels,
        "cluster type",
        selector,
        what,
        location,
    ));
}

fn idle_among(
    all: &[&Labels],
    kind: &str,
    selector: &Selector,
    what: &str,
    location: &Location,
) -> Option<Diagnostic> {
    let labels = || all.iter().copied();
    if labels().any(|labels| selector.matches(labels)) {
        return None;
    }
    let hopeless = selector
        .requirements
        .iter()
        .find(|requirement| !labels().any(|labels| requirement.matches(labels)));
    let finding = Diagnostic::warning("selects-nothing", what);
    Some(match hopeless {
        Some(requirement) => {
            let key = requirement.key();
            let mut known: Vec<&String> = labels().filter_map(|labels| labels.get(key)).collect();
            let wanted = if known.is_empty() {
                known = labels().flat_map(|labels| labels.keys()).collect();
                key
            } else {
                requirement.values().next().unwrap_or_default()
            };
            known.sort();
            known.dedup();
            finding
                .at(requirement.location.as_ref().unwrap_or(location))
                .label(format!("no {kind} has this"))
                .help(did_you_mean(wanted, &known))
        }
        None => finding
            .at(location)
            .help(format!("no {kind} meets all of its requirements at once")),
    })
}
