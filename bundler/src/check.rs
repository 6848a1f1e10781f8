//! Check: everything that is wrong or doubtful in a control plane, at once.
//!
//! What comes in: a [`ControlPlane`] and what the stages made of it. What goes out: findings with
//! severity, place and a way out: what cannot be rendered, and what can but was probably meant
//! otherwise. It is pure, changes nothing, and its warnings never stop a render.

use std::collections::{BTreeMap, BTreeSet};

use crate::compose::{self, Composition, Mode, layers};
use crate::control::ControlPlane;
use crate::control::diagnostic::{Diagnostic, Diagnostics};
use crate::control::kinds::suggest::{did_you_mean, nearest};
use crate::control::model::{ConfigContainer, Labels, Spot, TemplateType};
use crate::delivery;
use crate::render::{Rendering, namespace};
use crate::schedule::{self, Schedule};

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
    findings.append(delivery::contradictions(plane));
    for failure in rendering.failures.values() {
        findings.append(failure.clone());
    }
    references(plane, &mut findings);
    policies(plane, &mut findings);
    containers(plane, mode, &mut findings);
    precedence(composition, plane, &mut findings);
    namespaces(plane, schedule, mode, &mut findings);
    findings.sort();
    findings
}

/// Names of objects that are not there.
fn references(plane: &ControlPlane, findings: &mut Diagnostics) {
    for cluster_type in plane.cluster_types.values() {
        let named = [
            (TemplateType::Reconciler, Some(&cluster_type.reconciler)),
            (
                TemplateType::Namespace,
                Some(&cluster_type.namespace_service),
            ),
            (TemplateType::Config, cluster_type.config_type.as_ref()),
        ];
        for (kind, name) in named {
            let Some(name) = name else { continue };
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
            let message = format!("there is no {} template `{}`", kind.as_str(), name.value);
            findings.push(
                Diagnostic::error("missing-template", message)
                    .at(&name.location)
                    .help(did_you_mean(&name.value, &known)),
            );
        }
    }
    let known: Vec<&String> = plane.cluster_types.keys().collect();
    for site in plane.sites.values() {
        if !plane.cluster_types.contains_key(&site.cluster_type.value) {
            let message = format!(
                "site `{}` is of cluster type `{}`, which is not there",
                site.name, site.cluster_type.value
            );
            findings.push(
                Diagnostic::error("unknown-cluster-type", message)
                    .at(&site.cluster_type.location)
                    .help(did_you_mean(&site.cluster_type.value, &known)),
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
                .help("`outhaul explain TARGET CLUSTER-TYPE` says which requirement fails"),
        };
        findings.push(finding);
    }
}

fn keys(labels: &[&Labels], key: &str) -> String {
    let all: BTreeSet<&String> = labels.iter().flat_map(|labels| labels.keys()).collect();
    let all: Vec<&String> = all.into_iter().filter(|key| !key.contains('/')).collect();
    did_you_mean(key, &all)
}

/// Containers that apply to nothing, and values that are not what they look like.
fn containers(plane: &ControlPlane, mode: Mode, findings: &mut Diagnostics) {
    let of_sites = compose::used_by_sites(plane, mode);
    for container in plane.configs.values() {
        let used = of_sites.contains(container.name.as_str());
        if container.labels.contains_key("platform-config") && !used {
            unused(plane, container, mode, findings);
        }
        for (key, text) in &container.data {
            retyped(key, text, findings);
        }
    }
}

fn unused(
    plane: &ControlPlane,
    container: &ConfigContainer,
    mode: Mode,
    findings: &mut Diagnostics,
) {
    let labels = || {
        container
            .labels
            .iter()
            .map(|(k, v)| (k.as_str(), v.value.as_str()))
    };
    let mut blame: BTreeMap<&str, usize> = BTreeMap::new();
    let mut pairs = 0;
    for cluster_type in plane.cluster_types.values() {
        for target in plane.targets.values() {
            pairs += 1;
            match layers::mismatch(labels(), cluster_type, target, mode.compat) {
                None => return,
                Some((key, _)) => *blame.entry(key).or_default() += 1,
            }
        }
    }
    let guilty = blame.into_iter().max_by_key(|(_, count)| *count);
    let Some((key, spot)) = guilty.and_then(|(key, _)| Some((key, container.labels.get(key)?)))
    else {
        return;
    };
    if pairs == 0 {
        return;
    }
    let known: BTreeSet<&String> = match key {
        "cluster-type" => plane.cluster_types.keys().collect(),
        "deployment-target" => plane.targets.keys().collect(),
        "workload" => plane.targets.values().map(|t| &t.workload).collect(),
        key => {
            let types = plane
                .cluster_types
                .values()
                .filter_map(|c| c.labels.get(key));
            types
                .chain(plane.targets.values().filter_map(|t| t.labels.get(key)))
                .collect()
        }
    };
    let known: Vec<&String> = known.into_iter().collect();
    let message = format!("config `{}` applies to nothing", container.name);
    let help = match nearest(&spot.value, &known) {
        Some(near) => format!("did you mean `{key}: {near}`?"),
        None => format!(
            "nothing has `{key}: {}`; {}",
            spot.value,
            did_you_mean(&spot.value, &known)
        ),
    };
    findings.push(
        Diagnostic::warning("unused-config", message)
            .at(&spot.location)
            .label("no pair of target and cluster type has this label")
            .help(help),
    );
}

/// Words that YAML 1.1 takes for booleans: fine as text here, a trap in what is rendered from it.
fn retyped(key: &str, text: &Spot<String>, findings: &mut Diagnostics) {
    let word = matches!(
        text.value.to_ascii_lowercase().as_str(),
        "yes" | "no" | "on" | "off" | "y" | "n"
    );
    if word && !text.location.file.text[text.location.span.clone()].starts_with(['"', '\'']) {
        findings.push(
            Diagnostic::warning(
                "yaml-boolean",
                format!("`{key}` is text here and a boolean to older YAML"),
            )
            .at(&text.location)
            .help(format!("quote it: \"{}\"", text.value)),
        );
    }
}

/// Two containers with equally many labels that set one key differently: only their names decide.
fn precedence(composition: &Composition, plane: &ControlPlane, findings: &mut Diagnostics) {
    let mut seen = BTreeSet::new();
    let weight = |name: &str| plane.configs.get(name).map_or(0, |c| c.labels.len());
    for composed in composition.assignments.values() {
        for (key, provenance) in &composed.provenance {
            for pair in provenance.layers.windows(2) {
                let [first, second] = pair else { continue };
                let equal = weight(&first.container) == weight(&second.container);
                if !equal
                    || second.merged
                    || first.text == second.text
                    || first.container == second.container
                {
                    continue;
                }
                if seen.insert((
                    key.clone(),
                    first.container.clone(),
                    second.container.clone(),
                )) {
                    let message = format!(
                        "`{key}` is set by `{}` and `{}`, which are equally specific; the later name wins",
                        first.container, second.container
                    );
                    findings.push(
                        Diagnostic::warning("ambiguous-precedence", message)
                            .at(&second.location)
                            .label("this wins")
                            .related(&first.location, "over this")
                            .help("give one of them a further label, or one key to one container"),
                    );
                }
            }
        }
    }
}

/// Kalypso's defect 26: names that no cluster takes.
fn namespaces(plane: &ControlPlane, schedule: &Schedule, mode: Mode, findings: &mut Diagnostics) {
    for id in schedule.assignments.keys() {
        let of = |compat| namespace::of(&plane.environment, &id.cluster_type, &id.target, compat);
        let (whole, Some(target)) = (of(true), plane.targets.get(&id.target)) else {
            continue;
        };
        if whole.len() > namespace::MAX {
            let message = format!(
                "namespace `{whole}` has {} characters, Kubernetes takes {}",
                whole.len(),
                namespace::MAX
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
