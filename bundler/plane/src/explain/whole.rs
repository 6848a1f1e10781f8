//! Whole: what one rendering of one environment was made of, as one document.
//!
//! What comes in: a control plane, its snapshot, and what the stages made of it. What goes out: a [`PlatformExplanation`]: the entities as
//! they were read, and for each assignment what policies say of it and who set its values. It decides nothing and is pure; sealed values
//! are never in it, nor what looks like a secret in clear. Template lines that a value reaches are left to questions about one pair:
//! they are found by trying.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use outhaul_bundle::hub_api::{
    AssignmentExplanation, EXPLANATION_FORMAT, Entities, Entity, OverlayExplanation, PairVerdict,
    PlatformExplanation, PolicyVerdict, SetValue,
};
use outhaul_bundle::index::Snapshot;
use outhaul_control::ControlPlane;
use outhaul_control::diagnostic::Location;
use outhaul_control::model::{
    ClusterType, DeploymentTarget, Language, RepositoryPath, SchedulingPolicy, Spanned,
};
use outhaul_kit::url_secrets::without_secrets;

use super::{name_of, set_value};
use crate::compose::{Composed, Composition, Mode, schema};
use crate::inputs::Inputs;
use crate::schedule::explain::{Choices, asks_of_cluster_types, asks_of_targets};
use crate::schedule::{AssignmentId, Schedule, SchedulerAnswers};

/// Policies that do not choose an assignment and are told of all the same: the nearest.
const OTHER_POLICIES: usize = 3;
/// Pairs that are not assigned and are told of.
const NOT_ASSIGNED: usize = 10_000;

/// What `snapshot` was rendered from, and why.
pub fn explanation(
    plane: &ControlPlane,
    snapshot: &Snapshot,
    answers: &SchedulerAnswers,
    schedule: &Schedule,
    composition: &Composition,
    mode: Mode,
) -> PlatformExplanation {
    let known = schema::Schemas::of(Inputs::of(plane), mode);
    let mut configs = Configs::default();
    let choices = Choices::of(plane);
    let mut assignments = Vec::new();
    let mut not_assigned = Vec::new();
    let mut left_out = 0;
    for cluster_type in plane.cluster_types.values() {
        for target in plane.targets.values() {
            let id = AssignmentId {
                cluster_type: cluster_type.name.clone(),
                target: target.name.clone(),
            };
            let is_assigned = schedule.assignments.contains_key(&id);
            if !is_assigned && not_assigned.len() >= NOT_ASSIGNED {
                left_out += 1;
                continue;
            }
            let verdicts = choices.explain(plane, answers, target, Some(cluster_type), None);
            if is_assigned {
                let mut one = assignment(&id, schedule, composition, verdicts, &mut configs);
                let applied = known.applying(cluster_type, target);
                let names = applied
                    .iter()
                    .filter_map(|one| name_of(plane, one.location));
                one.schemas = names.collect();
                assignments.push(one);
            } else {
                not_assigned.push(PairVerdict {
                    cluster_type: id.cluster_type,
                    target: id.target,
                    nearest: verdicts.into_iter().next(),
                });
            }
        }
    }
    PlatformExplanation {
        format: EXPLANATION_FORMAT,
        environment: plane.environment.clone(),
        snapshot: snapshot.clone(),
        entities: entities(plane),
        assignments,
        not_assigned,
        not_assigned_left_out: left_out,
        configs: configs.list,
    }
}

/// Configs, each once.
#[derive(Default)]
struct Configs {
    list: Vec<Vec<SetValue>>,
    places: HashMap<*const Composed, usize>,
}

impl Configs {
    /// The place of a config.
    fn place(&mut self, composed: &Arc<Composed>) -> usize {
        *self.places.entry(Arc::as_ptr(composed)).or_insert_with(|| {
            let keys = composed.provenance.keys();
            self.list
                .push(keys.map(|key| set_value(composed, key)).collect());
            self.list.len() - 1
        })
    }
}

fn assignment(
    id: &AssignmentId,
    schedule: &Schedule,
    composition: &Composition,
    verdicts: Vec<PolicyVerdict>,
    configs: &mut Configs,
) -> AssignmentExplanation {
    let scheduled = schedule.assignments.get(id);
    let others = verdicts.iter().filter(|verdict| !verdict.chooses()).count();
    let mut told = 0;
    let is_told = |verdict: &PolicyVerdict| {
        told += usize::from(!verdict.chooses());
        verdict.chooses() || told <= OTHER_POLICIES
    };
    let composed = composition.assignments.get(id);
    let overlays = composition.overlays.get(id).into_iter().flatten();
    let failures = composition.failures.get(id).into_iter();
    AssignmentExplanation {
        cluster_type: id.cluster_type.clone(),
        target: id.target.clone(),
        policies: scheduled
            .map(|one| one.policies.clone())
            .unwrap_or_default(),
        sites: scheduled.and_then(|one| one.sites.clone()),
        verdicts: verdicts.into_iter().filter(is_told).collect(),
        more_verdicts: others.saturating_sub(OTHER_POLICIES),
        config_version: composed.map(|composed| composed.version.to_string()),
        config: composed.map(|composed| configs.place(composed)),
        overlays: overlays
            .map(|overlay| OverlayExplanation {
                sites: overlay.sites.clone(),
                config_version: overlay.composed.version.to_string(),
                config: configs.place(&overlay.composed),
            })
            .collect(),
        schemas: Vec::new(),
        problems: failures
            .flat_map(|findings| findings.iter().map(|finding| finding.message.clone()))
            .collect(),
    }
}

/// A fact by its name; none where it says nothing.
type Fact<'a> = (&'a str, Option<String>);

fn entity<'a>(
    name: &str,
    at: &Location,
    labels: impl IntoIterator<Item = (&'a String, &'a String)>,
    facts: impl IntoIterator<Item = Fact<'a>>,
) -> Entity {
    let facts = facts.into_iter().filter_map(|(name, fact)| {
        let fact = fact.filter(|fact| !fact.is_empty())?;
        Some((name.to_owned(), fact))
    });
    Entity {
        name: name.to_owned(),
        at: at.file_line(),
        labels: labels
            .into_iter()
            .map(|(label, value)| (label.clone(), value.clone()))
            .collect(),
        facts: facts.collect(),
    }
}

fn entities(plane: &ControlPlane) -> Entities {
    let unlabelled: BTreeMap<String, String> = BTreeMap::new();
    Entities {
        environments: plane
            .environments
            .values()
            .map(|one| {
                let after = one.after.as_ref().map(|after| after.value.clone());
                let [repo, branch, path] = place(&one.control_plane);
                let facts = [("after", after), repo, branch, path];
                entity(&one.name, &one.location, &unlabelled, facts)
            })
            .collect(),
        cluster_types: plane
            .cluster_types
            .values()
            .map(|one| cluster_type(plane, one))
            .collect(),
        policies: plane.policies.values().map(policy).collect(),
        configs: plane
            .configs
            .values()
            .map(|one| {
                let keys = one.data.keys().cloned().collect::<Vec<_>>().join(", ");
                let facts = [("keys", Some(keys))];
                entity(&one.name, &one.location, values(&one.labels), facts)
            })
            .collect(),
        templates: plane
            .templates
            .values()
            .map(|one| {
                let language = match one.language {
                    Language::Go => "Go text/template",
                    Language::Jinja => "Jinja",
                };
                let facts = [
                    ("for", Some(one.kind.as_str().to_owned())),
                    ("language", Some(language.to_owned())),
                ];
                entity(&one.name, &one.location, &unlabelled, facts)
            })
            .collect(),
        schemas: plane
            .schemas
            .values()
            .map(|one| entity(&one.name, &one.location, values(&one.labels), []))
            .collect(),
        workloads: plane
            .registrations
            .values()
            .map(|one| {
                let [repo, branch, path] = place(&one.workload);
                let lost = plane.lost.get(&one.name).map(|lost| {
                    let messages = lost.findings.iter().map(|one| one.message.clone());
                    messages.collect::<Vec<_>>().join("; ")
                });
                let workspace = ("workspace", Some(one.workspace.clone()));
                let facts = [workspace, repo, branch, path, ("cannot be read", lost)];
                entity(&one.name, &one.location, &unlabelled, facts)
            })
            .collect(),
        targets: plane.targets.values().map(target).collect(),
    }
}

fn values(labels: &BTreeMap<String, Spanned<String>>) -> impl Iterator<Item = (&String, &String)> {
    labels.iter().map(|(label, value)| (label, &value.value))
}

fn place(at: &RepositoryPath) -> [Fact<'static>; 3] {
    [
        ("repo", Some(without_secrets(&at.repo.value))),
        ("branch", Some(at.branch.clone())),
        ("path", Some(at.path.clone())),
    ]
}

fn cluster_type(plane: &ControlPlane, one: &ClusterType) -> Entity {
    let template = plane.templates.get(&one.reconciler.value);
    let kind = template.map(|template| template.reconciler_kind().as_str().to_owned());
    let config = one.config_type.as_ref().map(|name| name.value.clone());
    let facts = [
        ("reconciler", kind),
        ("reconciler template", Some(one.reconciler.value.clone())),
        (
            "namespace template",
            Some(one.namespace_service.value.clone()),
        ),
        ("config template", config),
    ];
    entity(&one.name, &one.location, &one.labels, facts)
}

fn policy(one: &SchedulingPolicy) -> Entity {
    let placement = &one.placement;
    let sites = placement.sites.as_ref();
    let most = placement.max_cluster_types.as_ref();
    let spread = placement.spread.as_ref();
    let scheduler = placement.scheduler.as_ref();
    let facts = [
        ("targets", Some(asks_of_targets(one))),
        ("cluster types", Some(asks_of_cluster_types(one))),
        ("sites", sites.map(|selector| selector.value.to_string())),
        ("at most", most.map(|most| most.value.to_string())),
        (
            "spread",
            spread.map(|spread| {
                let label = &spread.label.value;
                format!("{} for each `{label}`", spread.max_per_value)
            }),
        ),
        ("scheduler", scheduler.map(|name| name.value.clone())),
    ];
    entity(&one.name, &one.location, &BTreeMap::new(), facts)
}

fn target(one: &DeploymentTarget) -> Entity {
    let facts = [
        ("workload", Some(one.workload.clone())),
        ("registration", Some(one.registration.clone())),
        ("workspace", Some(one.workspace.clone())),
    ];
    entity(&one.name, &one.location, &one.labels, facts)
}

#[cfg(test)]
mod tests;
