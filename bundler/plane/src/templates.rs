//! Which templates make the files of an assignment, and which deployment targets bring a cluster its reconciler.
//!
//! What comes in: a cluster type, a deployment target's name, and the delivery policies. What goes out: the names of the
//! templates, each with its type and the place that names it; or, for `check`, what is wrong with a `bootstrap`. It
//! renders nothing. Whether two policies contradict each other is decided in [`crate::delivery`].

use std::collections::BTreeMap;

use outhaul_control::ControlPlane;
use outhaul_control::diagnostic::{Diagnostic, Diagnostics};
use outhaul_control::model::{
    Bootstrap, ClusterType, DeliveryPolicy, ReconcilerKind, Spanned, Template, TemplateType,
    Transport,
};
use outhaul_kit::suggest::did_you_mean;

use crate::delivery;
use crate::schedule::Schedule;

/// What brings `cluster_type` its reconciler, of the first policy by name that names it.
pub fn bootstrap<'a>(
    deliveries: &'a BTreeMap<String, DeliveryPolicy>,
    cluster_type: &ClusterType,
) -> Option<&'a Bootstrap> {
    let policies = deliveries.values();
    let mut named = policies.filter(|policy| policy.cluster_types.matches(&cluster_type.labels));
    named.find_map(|policy| policy.bootstrap.as_ref())
}

/// The template of each type that an assignment is rendered with, where there is one. Without a target: of an
/// assignment that brings no reconciler.
pub fn of_assignment<'a>(
    deliveries: &'a BTreeMap<String, DeliveryPolicy>,
    cluster_type: &'a ClusterType,
    target: Option<&str>,
) -> impl Iterator<Item = (TemplateType, &'a Spanned<String>)> + use<'a> {
    let brings = bootstrap(deliveries, cluster_type)
        .filter(|bootstrap| target.is_some_and(|target| bootstrap.has(target)));
    let reconciler = brings.map_or(&cluster_type.reconciler, |brings| &brings.reconciler);
    let named = [
        (TemplateType::Reconciler, Some(reconciler)),
        (
            TemplateType::Namespace,
            Some(&cluster_type.namespace_service),
        ),
        (TemplateType::Config, cluster_type.config_type.as_ref()),
    ];
    named
        .into_iter()
        .filter_map(|(kind, name)| Some((kind, name?)))
}

/// Every template that an assignment of the cluster type may be rendered with.
pub fn of_cluster_type<'a>(
    deliveries: &'a BTreeMap<String, DeliveryPolicy>,
    cluster_type: &'a ClusterType,
) -> impl Iterator<Item = (TemplateType, &'a Spanned<String>)> + use<'a> {
    let brings = bootstrap(deliveries, cluster_type);
    let brings = brings.map(|brings| (TemplateType::Reconciler, &brings.reconciler));
    of_assignment(deliveries, cluster_type, None).chain(brings)
}

/// What no `bootstrap` can do: a template that is not for the agent itself, a target that does not exist or is nowhere.
pub fn problems(plane: &ControlPlane, schedule: &Schedule) -> Diagnostics {
    let mut findings = Diagnostics::new();
    let known: Vec<&String> = plane.targets.keys().collect();
    for policy in plane.deliveries.values() {
        let Some(bootstrap) = &policy.bootstrap else {
            continue;
        };
        let template = plane.templates.get(&bootstrap.reconciler.value);
        if let Some(template) = template
            && template.kind == TemplateType::Reconciler
            && kind_of(template).is_none()
        {
            let message = format!(
                "template `{}` is for `{}`: what brings a cluster its reconciler is applied by the agent itself",
                template.name,
                template.reconciler_kind().as_str()
            );
            findings.push(
                Diagnostic::error("bootstrap-template", message)
                    .at(&bootstrap.reconciler.location)
                    .related(&template.location, "it is written here")
                    .help("name a template for `kubernetes`: `outhaul new template kubernetes` copies one"),
            );
        }
        findings.append(without_agent(plane, policy, bootstrap));
        for target in &bootstrap.targets {
            if !plane.targets.contains_key(&target.value) {
                let message = format!("there is no deployment target `{}`", target.value);
                findings.push(
                    Diagnostic::error("unknown-target", message)
                        .at(&target.location)
                        .help(did_you_mean(&target.value, &known)),
                );
                continue;
            }
            let types = plane.cluster_types.values();
            for cluster_type in types.filter(|one| policy.cluster_types.matches(&one.labels)) {
                let is_there = schedule
                    .assignments
                    .keys()
                    .any(|id| id.cluster_type == cluster_type.name && id.target == target.value);
                if !is_there {
                    let message = format!(
                        "`{}` brings cluster type `{}` its reconciler, and is not assigned to it",
                        target.value, cluster_type.name
                    );
                    findings.push(
                        Diagnostic::warning("bootstrap-unassigned", message)
                            .at(&target.location)
                            .help("assign it by a SchedulingPolicy, or narrow the policy's `clusterTypeSelector`"),
                    );
                }
            }
        }
    }
    findings
}

/// Clusters that get their platform by git have no agent that would apply it.
fn without_agent(
    plane: &ControlPlane,
    policy: &DeliveryPolicy,
    bootstrap: &Bootstrap,
) -> Diagnostics {
    let mut findings = Diagnostics::new();
    let types = plane.cluster_types.values();
    for cluster_type in types.filter(|one| policy.cluster_types.matches(&one.labels)) {
        let delivery = delivery::of(plane, cluster_type).unwrap_or_default();
        let found: fn(&'static str, String) -> Diagnostic =
            match delivery.transport.map(|transport| transport.value) {
                Some(Transport::Git) => Diagnostic::error,
                Some(Transport::Both) => Diagnostic::warning,
                Some(Transport::Bundle) | None => continue,
            };
        let message = format!(
            "clusters of type `{}` that follow the git branch by themselves cannot apply what `bootstrap` names: it is for the agent",
            cluster_type.name
        );
        findings.push(
            found("bootstrap-git", message)
                .at(&bootstrap.reconciler.location)
                .help("write `delivery: bundle`, or leave `bootstrap` out where a reconciler is there already"),
        );
    }
    findings
}

/// The reconciler that applies what `template` makes before the others; `None` where it cannot be one.
pub fn kind_of(template: &Template) -> Option<&'static str> {
    (template.reconciler_kind() == ReconcilerKind::Kubernetes).then_some("kubernetes")
}

/// A target that is to be applied by the agent, with a template that is for something else.
pub(crate) fn not_for_the_agent(bootstrap: &Bootstrap, target: &str) -> Diagnostic {
    let template = &bootstrap.reconciler;
    let message = format!(
        "`{target}` brings a reconciler, and `{}` is not a template for `kubernetes`",
        template.value
    );
    Diagnostic::error("bootstrap-template", message).at(&template.location)
}
