//! Check: everything that is wrong or suspicious in a control plane, at once.
//!
//! What comes in: a [`ControlPlane`] and what the stages made of it. What goes out: findings with
//! severity, place and a way out: what cannot be rendered, and what can but was probably meant otherwise.
//! It is pure, changes nothing, and its warnings never stop a render.

use outhaul_kit::bounds::MAX_DNS_LABEL_BYTES;
use std::collections::{BTreeMap, BTreeSet};

use crate::compose::{Composition, Mode, schema};
use crate::delivery;
use crate::inputs::Inputs;
use crate::render::{BAD_KEY, Rendering, namespace};
use crate::schedule::{self, Schedule};
use outhaul_control::ControlPlane;
use outhaul_control::diagnostic::{Diagnostic, Diagnostics};
use outhaul_control::model::Labels;
use outhaul_kit::format_count::format_count;
use outhaul_kit::suggest::did_you_mean;

mod configs;
mod lists;
mod names;
mod precedence;
pub mod report;
pub mod secrets;
mod templates;
mod texts;
mod whole;

pub use whole::idle;

/// Every finding, sorted by place.
pub fn check(
    plane: &ControlPlane,
    schedule: &Schedule,
    composition: &Composition,
    rendering: &Rendering,
    mode: Mode,
) -> Diagnostics {
    let mut findings = plane.findings.clone();
    findings.append(schedule.findings());
    findings.append(plane.lost_findings());
    findings.append(schedule::lints::lints(plane));
    findings.append(delivery::contradictions(plane));
    findings.append(delivery::without_effect(plane));
    findings.append(crate::templates::problems(plane, schedule));
    findings.append(delivery::storage::contradictions(plane, schedule));
    references(plane, &mut findings);
    environments(plane, &mut findings);
    policies(plane, &mut findings);
    whole::missing(plane, &mut findings);
    whole::unassigned(plane, schedule, &mut findings);
    findings.extend(idle(plane, schedule, &[]));
    local(plane, mode, &mut findings);
    failures(rendering, &mut findings);
    configs::unused(plane, mode, &mut findings);
    templates::unused_keys(plane, composition, rendering, &mut findings);
    precedence::lints(composition, plane, mode, &mut findings);
    lists::lints(composition, plane, mode, &mut findings);
    namespaces(plane, schedule, mode, &mut findings);
    findings.sort();
    findings
}

/// Policies and other rules that select nothing, and sites of a cluster type that is not there: each may be a protection or a value that
/// nobody has.
pub fn reaching_nothing(plane: &ControlPlane) -> Diagnostics {
    let mut findings = schedule::lints::lints(plane);
    policies(plane, &mut findings);
    let mut findings: Diagnostics = findings
        .into_iter()
        .filter(|finding| finding.code == "selects-nothing")
        .collect();
    findings.extend(lost_sites(plane, Diagnostic::warning));
    findings.sort();
    findings
}

/// What can be said of single objects, also when others could not be read.
pub fn local(plane: &ControlPlane, mode: Mode, findings: &mut Diagnostics) {
    templates::unparsable(plane, mode, findings);
    let inputs = Inputs::of(plane);
    schema::Schemas::of(inputs, mode).lints(inputs, findings);
    secrets::in_clear(plane, findings);
    texts::retyped(plane, findings);
    names::long(plane, findings);
}

/// What keeps assignments from being composed or rendered: each once, with how many it keeps.
fn failures(rendering: &Rendering, findings: &mut Diagnostics) {
    // What is said of a template already is not said again for each assignment.
    let said: BTreeSet<(String, Option<String>)> = findings
        .iter()
        .map(|finding| (finding.message.clone(), place(finding)))
        .collect();
    let mut seen: BTreeMap<(String, Option<String>), (Diagnostic, usize)> = BTreeMap::new();
    for (id, failure) in &rendering.failures {
        let title = format!("assignment `{}` on `{}`: ", id.target, id.cluster_type);
        for finding in failure.iter() {
            let bare = finding
                .message
                .strip_prefix(&title)
                .unwrap_or(&finding.message);
            // A key is wrong once, whatever each template wanted to make of it.
            let bare = if finding.code == BAD_KEY {
                BAD_KEY
            } else {
                bare
            };
            let key = (bare.to_owned(), place(finding));
            if said.contains(&key) {
                continue;
            }
            let entry = seen.entry(key);
            entry.or_insert_with(|| (finding.clone(), 0)).1 += 1;
        }
    }
    for (mut finding, times) in seen.into_values() {
        if times > 1 {
            finding.message = format!(
                "{} (and {})",
                finding.message,
                format_count(times - 1, "more assignment", "more assignments")
            );
        }
        findings.push(finding);
    }
}

fn place(finding: &Diagnostic) -> Option<String> {
    finding.location.as_ref().map(ToString::to_string)
}

/// Names of objects that are not there.
fn references(plane: &ControlPlane, findings: &mut Diagnostics) {
    for cluster_type in plane.cluster_types.values() {
        for (kind, name) in crate::templates::of_cluster_type(&plane.deliveries, cluster_type) {
            if plane
                .templates
                .get(&name.value)
                .is_some_and(|template| template.kind == kind)
            {
                continue;
            }
            let known: Vec<&String> = plane
                .templates
                .values()
                .filter(|t| t.kind == kind)
                .map(|t| &t.name)
                .collect();
            if let Some(other) = plane.templates.get(&name.value) {
                // As rendering says it, so that it is reported once.
                let is = other.kind.as_str();
                let message = format!("template `{}` is a {is} template", name.value);
                let finding = Diagnostic::error("template-type", message)
                    .at(&name.location)
                    .label(format!("a {} template is needed here", kind.as_str()))
                    .related(&other.location, "it is written here")
                    .help(did_you_mean(&name.value, &known));
                findings.push(finding);
                continue;
            }
            let message = format!("there is no {} template `{}`", kind.as_str(), name.value);
            findings.push(
                Diagnostic::error("missing-template", message)
                    .at(&name.location)
                    .help(did_you_mean(&name.value, &known)),
            );
        }
    }
    findings.extend(lost_sites(plane, Diagnostic::error));
}

/// Sites of a cluster type that is not there, as findings of a severity as `new` makes them.
fn lost_sites(
    plane: &ControlPlane,
    new: fn(&'static str, String) -> Diagnostic,
) -> impl Iterator<Item = Diagnostic> {
    let known: Vec<&String> = plane.cluster_types.keys().collect();
    let is_there = |name: &String| plane.cluster_types.contains_key(name);
    let sites = plane.sites.values();
    let lost = sites.filter(move |site| !is_there(&site.cluster_type.value));
    lost.map(move |site| {
        let (name, of) = (&site.name, &site.cluster_type);
        let message = format!(
            "site `{name}` is of cluster type `{}`, which does not exist",
            of.value
        );
        let finding = new("unknown-cluster-type", message).at(&of.location);
        finding.help(did_you_mean(&of.value, &known))
    })
}

/// Targets for environments that nobody declares.
fn environments(plane: &ControlPlane, findings: &mut Diagnostics) {
    let known: Vec<&String> = plane.environments.keys().collect();
    if known.is_empty() {
        return;
    }
    for target in plane.other_targets.values() {
        if !plane.environments.contains_key(&target.environment) {
            let message = format!(
                "deployment target `{}` is for environment `{}`, which does not exist",
                target.name, target.environment
            );
            findings.push(
                Diagnostic::warning("unknown-environment", message)
                    .at(&target.environment_at)
                    .help(did_you_mean(&target.environment, &known)),
            );
        }
    }
}

/// Policies that select nothing.
fn policies(plane: &ControlPlane, findings: &mut Diagnostics) {
    for policy in plane.policies.values() {
        let targets = plane
            .targets
            .values()
            .any(|t| schedule::selects_target(policy, t));
        let types = plane
            .cluster_types
            .values()
            .any(|c| schedule::selects_cluster_type(policy, c));
        let what = match (targets, types) {
            (true, true) => continue,
            (false, true) => "no deployment target",
            (true, false) => "no cluster type",
            (false, false) => "no deployment target and no cluster type",
        };
        let labels: Vec<&Labels> = if targets {
            plane.cluster_types.values().map(|c| &c.labels).collect()
        } else {
            plane.targets.values().map(|t| &t.labels).collect()
        };
        let selector = if targets {
            &policy.cluster_types
        } else {
            &policy.targets
        };
        if labels.is_empty() {
            let message = format!("policy `{}` selects {what}: none exists", policy.name);
            // That there is none is a separate finding.
            if plane.cluster_types.is_empty() || plane.targets.is_empty() {
                continue;
            }
            findings.push(Diagnostic::note("selects-nothing", message).at(&policy.location));
            continue;
        }
        // The first requirement that nothing at all meets is the likely mistake.
        let hopeless = selector
            .requirements
            .iter()
            .find(|requirement| !labels.iter().any(|labels| requirement.matches(labels)));
        let mut finding = Diagnostic::warning(
            "selects-nothing",
            format!("policy `{}` selects {what}", policy.name),
        );
        finding = match hopeless.and_then(|r| Some((r, r.location.as_ref()?))) {
            Some((requirement, location)) => {
                let values: BTreeSet<&String> = labels
                    .iter()
                    .filter_map(|labels| labels.get(requirement.key()))
                    .collect();
                let values: Vec<&String> = values.into_iter().collect();
                let wanted = requirement.values().next().unwrap_or_default();
                finding
                    .at(location)
                    .label("nothing has this")
                    .help(match values.is_empty() {
                        true => format!(
                            "no label `{}` is there: {}",
                            requirement.key(),
                            keys(&labels, requirement.key())
                        ),
                        false => did_you_mean(wanted, &values),
                    })
            }
            None => finding
                .at(&policy.location)
                .help("`outhaul explain TARGET CLUSTER-TYPE` shows which requirement fails"),
        };
        findings.push(finding);
    }
}

fn keys(labels: &[&Labels], key: &str) -> String {
    let all: BTreeSet<&String> = labels.iter().flat_map(|labels| labels.keys()).collect();
    let all: Vec<&String> = all.into_iter().filter(|key| !key.contains('/')).collect();
    did_you_mean(key, &all)
}

/// Kalypso's defect 26: names that no cluster takes.
fn namespaces(plane: &ControlPlane, schedule: &Schedule, mode: Mode, findings: &mut Diagnostics) {
    for id in schedule.assignments.keys() {
        let of = |compat| namespace::of(&plane.environment, &id.cluster_type, &id.target, compat);
        let (whole, Some(target)) = (of(true), plane.targets.get(&id.target)) else {
            continue;
        };
        if whole.len() > MAX_DNS_LABEL_BYTES {
            let message = format!(
                "namespace `{whole}` has {} characters, Kubernetes allows {}",
                whole.len(),
                MAX_DNS_LABEL_BYTES
            );
            let used = if mode.compat {
                "shorten the workload's, the target's or the cluster type's name".to_owned()
            } else {
                format!(
                    "`{}` is used instead; shorten the workload's, the target's or the cluster \
                     type's name to choose it yourself",
                    of(false)
                )
            };
            findings.push(
                Diagnostic::warning("long-namespace", message)
                    .at(&target.location)
                    .help(used),
            );
        }
    }
}
