//! Explain: why a pair is assigned, or which requirement keeps it from being so.
//!
//! What comes in: a control plane, the answers of schedulers, a deployment target and a cluster type. What goes out: for each
//! policy a [`PolicyVerdict`] with everything that keeps it from choosing the pair and what was there instead,
//! nearest miss first. It decides nothing: it reads what the schedule itself reads.

use std::collections::BTreeMap;

pub use outhaul_bundle::hub_api::{LabelMatch, Miss, MissRule, PolicyVerdict, Weight};

use super::answers::{ChosenPair, SchedulerAnswer, SchedulerAnswers};
use super::choose::{Choice, ClusterTypeCandidate, LimitResult, Obstacle, choose};
use super::sites;
use outhaul_control::ControlPlane;
use outhaul_control::diagnostic::Location;
use outhaul_control::model::{
    ClusterType, DeploymentTarget, Labels, SchedulingPolicy, Site, Taint,
};
use outhaul_control::selector::{Requirement, Selector};

/// What each policy says about the pair: those that choose it first, then by how little they miss.
pub fn explain(
    control_plane: &ControlPlane,
    answers: &SchedulerAnswers,
    target: &DeploymentTarget,
    cluster_type: Option<&ClusterType>,
) -> Vec<PolicyVerdict> {
    explain_on(control_plane, answers, target, cluster_type, None)
}

/// The same for one site of the cluster type.
pub fn explain_on(
    control_plane: &ControlPlane,
    answers: &SchedulerAnswers,
    target: &DeploymentTarget,
    cluster_type: Option<&ClusterType>,
    site: Option<&Site>,
) -> Vec<PolicyVerdict> {
    let choices = match cluster_type {
        Some(_) => Choices::of(control_plane),
        None => Choices::default(),
    };
    choices.explain(control_plane, answers, target, cluster_type, site)
}

/// What each policy makes of all cluster types, worked out once for many pairs.
#[derive(Debug, Default)]
pub struct Choices<'a>(BTreeMap<&'a str, Choice<'a>>);

impl<'a> Choices<'a> {
    /// Those of every policy.
    pub fn of(control_plane: &'a ControlPlane) -> Self {
        let policies = control_plane.policies.values();
        Self(
            policies
                .map(|policy| (policy.name.as_str(), choose(control_plane, policy)))
                .collect(),
        )
    }

    /// As [`explain_on`].
    pub fn explain(
        &self,
        control_plane: &ControlPlane,
        answers: &SchedulerAnswers,
        target: &DeploymentTarget,
        cluster_type: Option<&ClusterType>,
        site: Option<&Site>,
    ) -> Vec<PolicyVerdict> {
        let verdict = |policy: &SchedulingPolicy| {
            let pair = cluster_type.and_then(|cluster_type| {
                let choice = self.0.get(policy.name.as_str())?;
                Some((cluster_type, choice))
            });
            verdict((control_plane, answers), policy, target, pair, site)
        };
        let mut verdicts: Vec<PolicyVerdict> =
            control_plane.policies.values().map(verdict).collect();
        // Of equal misses, a policy that means the target is nearer than one that does not.
        let of_target =
            |verdict: &PolicyVerdict| verdict.misses.iter().filter(|m| m.of == TARGET).count();
        verdicts.sort_by_key(|verdict| (verdict.misses.len(), of_target(verdict)));
        verdicts
    }
}

/// What one policy says.
fn verdict(
    (control_plane, answers): (&ControlPlane, &SchedulerAnswers),
    policy: &SchedulingPolicy,
    target: &DeploymentTarget,
    pair: Option<(&ClusterType, &Choice<'_>)>,
    site: Option<&Site>,
) -> PolicyVerdict {
    let mut misses = Vec::new();
    if let Some(workspace) = &policy.workspace
        && !workspace.value.is_empty()
        && workspace.value != target.workspace
    {
        misses.push(Miss {
            rule: MissRule::Selector,
            of: TARGET.into(),
            requirement: format!("workspace = {}", workspace.value),
            found: format!("workspace {}", target.workspace),
            at: workspace.location.file_line(),
        });
    }
    missing(
        &mut misses,
        TARGET,
        &policy.targets,
        &target.labels,
        &policy.location,
    );
    let mut matches = matching(TARGET, &policy.targets, &target.labels, &policy.location);
    let mut weight = None;
    let mut meant = None;
    if let Some((cluster_type, choice)) = pair {
        matches.extend(matching(
            CLUSTER_TYPE,
            &policy.cluster_types,
            &cluster_type.labels,
            &policy.location,
        ));
        for term in &policy.placement.required {
            if term.value.matches(&cluster_type.labels) {
                let labels = &cluster_type.labels;
                matches.extend(matching(CLUSTER_TYPE, &term.value, labels, &term.location));
            }
        }
        if let Some(obstacles) = choice.kept_away.get(cluster_type.name.as_str()) {
            for obstacle in obstacles {
                kept_away(control_plane, &mut misses, policy, cluster_type, obstacle);
            }
        }
        let candidate = position(choice, cluster_type).map(|at| &choice.candidates[at]);
        meant = candidate
            .and_then(|one| sites::meant(control_plane, policy, cluster_type, one.sites.as_ref()?));
        if let (Some(site), Some(selector)) = (site, &policy.placement.sites) {
            let labels = site.all_labels();
            missing(
                &mut misses,
                SITE,
                &selector.value,
                &labels,
                &selector.location,
            );
        }
        weight = weigh(answers, policy, choice, target, cluster_type);
        // Who the policy does not mean was never weighed.
        if misses.is_empty() {
            misses.extend(skipped_pairs(answers, policy, choice, target, cluster_type));
        }
    }
    PolicyVerdict {
        policy: policy.name.clone(),
        at: policy.location.file_line(),
        targets: asks_of_targets(policy),
        cluster_types: asks_of_cluster_types(policy),
        sites: meant,
        weight,
        matches,
        misses,
    }
}

const TARGET: &str = "deployment target";
const CLUSTER_TYPE: &str = "cluster type";
const SITE: &str = "site";

fn asks(workspace: Option<&str>, selector: &Selector) -> String {
    match workspace.filter(|workspace| !workspace.is_empty()) {
        Some(workspace) if selector.requirements.is_empty() => format!("workspace = {workspace}"),
        Some(workspace) => format!("workspace = {workspace} and {selector}"),
        None => selector.to_string(),
    }
}

/// What a policy asks of targets, as text.
pub fn asks_of_targets(policy: &SchedulingPolicy) -> String {
    let workspace = policy.workspace.as_ref();
    asks(
        workspace.map(|workspace| workspace.value.as_str()),
        &policy.targets,
    )
}

/// What a policy asks of cluster types, as text.
pub fn asks_of_cluster_types(policy: &SchedulingPolicy) -> String {
    let required = &policy.placement.required;
    if required.is_empty() {
        return policy.cluster_types.to_string();
    }
    let terms = any_of(required.iter().map(|term| &term.value));
    if policy.cluster_types.requirements.is_empty() {
        terms
    } else {
        format!("{} and ({terms})", policy.cluster_types)
    }
}

fn any_of<'a>(terms: impl Iterator<Item = &'a Selector>) -> String {
    terms
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(" or ")
}

fn kept_away(
    plane: &ControlPlane,
    misses: &mut Vec<Miss>,
    policy: &SchedulingPolicy,
    cluster_type: &ClusterType,
    obstacle: &Obstacle<'_>,
) {
    let labels = &cluster_type.labels;
    match obstacle {
        Obstacle::Selector => missing(
            misses,
            CLUSTER_TYPE,
            &policy.cluster_types,
            labels,
            &policy.location,
        ),
        Obstacle::Required => {
            let required = &policy.placement.required;
            let mut seen: Vec<String> = required
                .iter()
                .flat_map(|term| term.value.failing(labels))
                .map(|requirement| found(requirement, labels))
                .collect();
            seen.dedup();
            misses.push(Miss {
                rule: MissRule::Required,
                of: CLUSTER_TYPE.into(),
                requirement: any_of(required.iter().map(|term| &term.value)),
                found: seen.join(", "),
                at: required
                    .first()
                    .map_or(&policy.location, |term| &term.location)
                    .file_line(),
            });
        }
        Obstacle::Sites => misses.extend(policy.placement.sites.as_ref().map(|selector| Miss {
            rule: MissRule::Sites,
            of: SITE.into(),
            requirement: selector.value.to_string(),
            found: sites::none_of(plane, cluster_type),
            at: selector.location.file_line(),
        })),
        Obstacle::Taint(taint) => misses.push(Miss {
            rule: MissRule::Taint,
            of: CLUSTER_TYPE.into(),
            requirement: "the policy has no toleration for it".into(),
            found: format!("taint `{}`: {taint}", taint.name),
            at: taint.location.file_line(),
        }),
    }
}

/// How the cluster type fares, when the policy weighs anything.
fn weigh(
    answers: &SchedulerAnswers,
    policy: &SchedulingPolicy,
    choice: &Choice<'_>,
    target: &DeploymentTarget,
    cluster_type: &ClusterType,
) -> Option<Weight> {
    let placement = &policy.placement;
    let weighs = !placement.preferred.is_empty()
        || placement.max_cluster_types.is_some()
        || placement.spread.is_some()
        || placement.scheduler.is_some();
    let at = position(choice, cluster_type).filter(|_| weighs)?;
    let candidate = &choice.candidates[at];
    let met = placement
        .preferred
        .iter()
        .filter(|preference| preference.selector.matches(&cluster_type.labels))
        .map(|p| format!("+{} {} ({})", p.weight, p.selector, p.location.file_line()));
    let avoided = candidate.avoided.iter().map(|taint| named(taint));
    Some(Weight {
        rank: at + 1,
        of: choice.candidates.len(),
        score: candidate.score,
        met: met.collect(),
        avoided: avoided.collect(),
        said: match answers.of(policy) {
            Some(SchedulerAnswer::Chosen(chosen)) => chosen
                .get(&pair(target, cluster_type))
                .filter(|said| !said.is_empty())
                .cloned(),
            _ => None,
        },
    })
}

fn position(choice: &Choice<'_>, cluster_type: &ClusterType) -> Option<usize> {
    let is =
        |candidate: &ClusterTypeCandidate<'_>| candidate.cluster_type.name == cluster_type.name;
    choice.candidates.iter().position(is)
}

fn pair(target: &DeploymentTarget, cluster_type: &ClusterType) -> ChosenPair {
    ChosenPair {
        target: target.name.clone(),
        cluster_type: cluster_type.name.clone(),
    }
}

fn named(taint: &Taint) -> String {
    format!("{} ({})", taint.name, taint.location.file_line())
}

/// Why a candidate is not taken.
fn skipped_pairs(
    answers: &SchedulerAnswers,
    policy: &SchedulingPolicy,
    choice: &Choice<'_>,
    target: &DeploymentTarget,
    cluster_type: &ClusterType,
) -> Option<Miss> {
    let miss = |rule, requirement, found, at: &Location| Miss {
        rule,
        of: CLUSTER_TYPE.into(),
        requirement,
        found,
        at: at.file_line(),
    };
    let placement = &policy.placement;
    if let Some(scheduler) = &placement.scheduler {
        let name = &scheduler.value;
        let (requirement, found) = match answers.of(policy) {
            Some(SchedulerAnswer::Chosen(chosen))
                if chosen.contains_key(&pair(target, cluster_type)) =>
            {
                return None;
            }
            Some(SchedulerAnswer::Chosen(_)) => (
                format!("scheduler `{name}` chooses"),
                "it did not choose this one".to_owned(),
            ),
            Some(SchedulerAnswer::Fault { message, .. }) => {
                (format!("scheduler `{name}` chooses"), message.clone())
            }
            None => (
                format!("scheduler `{name}` chooses"),
                "no program is named for it".to_owned(),
            ),
        };
        let at = &scheduler.location;
        return Some(miss(MissRule::Scheduler, requirement, found, at));
    }
    let at = position(choice, cluster_type)?;
    let candidate = &choice.candidates[at];
    let spread = placement.spread.as_ref();
    match (&candidate.place, spread, &placement.max_cluster_types) {
        (LimitResult::Beyond, _, Some(most)) => Some(miss(
            MissRule::Limit,
            format!("at most {} cluster types", most.value),
            format!(
                "{}, it has {}",
                before(choice, at, |_| true),
                standing(candidate)
            ),
            &most.location,
        )),
        (LimitResult::Crowded { value }, Some(spread), _) => {
            let label = &spread.label.value;
            let same = |c: &ClusterTypeCandidate<'_>| {
                c.cluster_type.labels.get(label).is_some_and(|v| v == value)
            };
            Some(miss(
                MissRule::Spread,
                format!("at most {} for each `{label}`", spread.max_per_value),
                format!(
                    "for {label} = {value} {}, it has {}",
                    before(choice, at, same),
                    standing(candidate)
                ),
                &spread.label.location,
            ))
        }
        (LimitResult::Unspread, Some(spread), _) => Some(miss(
            MissRule::Spread,
            format!(
                "at most {} for each `{}`",
                spread.max_per_value, spread.label.value
            ),
            "it does not have this label".to_owned(),
            &spread.label.location,
        )),
        _ => None,
    }
}

fn standing(candidate: &ClusterTypeCandidate<'_>) -> String {
    match candidate.avoided.first() {
        Some(taint) => format!("score {} and taint {}", candidate.score, named(taint)),
        None => format!("score {}", candidate.score),
    }
}

/// Who was taken instead.
fn before(
    choice: &Choice<'_>,
    at: usize,
    counts: impl Fn(&ClusterTypeCandidate<'_>) -> bool,
) -> String {
    let taken = choice.candidates[..at]
        .iter()
        .filter(|c| c.taken() && counts(c));
    let names: Vec<String> = taken
        .map(|c| format!("`{}` ({})", c.cluster_type.name, standing(c)))
        .collect();
    let shown = names.len().min(5);
    let more = match names.len() - shown {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let verb = if names.len() == 1 { "comes" } else { "come" };
    format!("{}{more} {verb} before it", names[..shown].join(", "))
}

fn missing(
    misses: &mut Vec<Miss>,
    of: &'static str,
    selector: &Selector,
    labels: &Labels,
    policy: &Location,
) {
    misses.extend(selector.failing(labels).map(|requirement| Miss {
        rule: MissRule::Selector,
        of: of.into(),
        requirement: requirement.to_string(),
        found: found(requirement, labels),
        at: requirement.location.as_ref().unwrap_or(policy).file_line(),
    }));
}

/// What a selector asks of labels and they have.
fn matching(
    of: &'static str,
    selector: &Selector,
    labels: &Labels,
    policy: &Location,
) -> Vec<LabelMatch> {
    let failing: Vec<&Requirement> = selector.failing(labels).collect();
    let met = selector.requirements.iter();
    met.filter(|requirement| !failing.contains(requirement))
        .map(|requirement| LabelMatch {
            of: of.into(),
            requirement: requirement.to_string(),
            found: match labels.get(requirement.key()) {
                Some(value) => format!("{} = {value}", requirement.key()),
                None => format!("no label `{}`", requirement.key()),
            },
            at: requirement.location.as_ref().unwrap_or(policy).file_line(),
        })
        .collect()
}

/// What is there instead; a label that differs in case or spelling is the likely mistake.
fn found(requirement: &Requirement, labels: &Labels) -> String {
    if let Some(value) = labels.get(requirement.key()) {
        return format!("{} = {value}", requirement.key());
    }
    let known: Vec<&String> = labels.keys().collect();
    match outhaul_kit::suggest::nearest(requirement.key(), &known) {
        Some(near) => format!("no label `{}`, but `{near}`", requirement.key()),
        None => format!("no label `{}`", requirement.key()),
    }
}
