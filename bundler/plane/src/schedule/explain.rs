//! Explain: why a pair is assigned, or which requirement keeps it from being so.
//!
//! What comes in: a control plane, the answers of schedulers, a deployment target and a cluster type. What goes out: for each
//! policy a [`PolicyVerdict`] with everything that keeps it from choosing the pair and what was there instead,
//! nearest miss first. It decides nothing: it reads what the schedule itself reads.

use serde::Serialize;

use super::answers::{ChosenPair, SchedulerAnswer, SchedulerAnswers};
use super::choose::{Choice, ClusterTypeCandidate, LimitResult, Obstacle, choose};
use super::sites;
use outhaul_control::ControlPlane;
use outhaul_control::diagnostic::Location;
use outhaul_control::model::{
    ClusterType, DeploymentTarget, Labels, SchedulingPolicy, Site, Taint,
};
use outhaul_control::selector::{Requirement, Selector};

/// What one policy says about one pair.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PolicyVerdict {
    /// The policy's name.
    pub policy: String,
    /// Where it is written: `file:line`.
    pub at: String,
    /// What it asks of targets, as text.
    pub targets: String,
    /// What it asks of cluster types, as text.
    pub cluster_types: String,
    /// What it asks of sites, and which it means, as text; absent when it means all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sites: Option<String>,
    /// What speaks for the cluster type, when the policy weighs any; see [`Weight`].
    pub weight: Option<Weight>,
    /// What keeps it from choosing the pair; empty when it does.
    pub misses: Vec<Miss>,
}

/// How a cluster type fares among those that a policy may take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Weight {
    /// Its place among the candidates, from 1.
    pub rank: usize,
    /// How many candidates there are.
    pub of: usize,
    /// The weights of what it meets, added.
    pub score: u32,
    /// What it meets: `+80 disk = ssd (file:line)`.
    pub met: Vec<String>,
    /// Taints that put it behind the others: `name (file:line)`.
    pub avoided: Vec<String>,
    /// What the scheduling program said of the pair.
    pub said: Option<String>,
}

impl Weight {
    /// It as one sentence for people, without a full stop.
    pub fn sentence(&self) -> String {
        let mut text = format!("score {}, place {} of {}", self.score, self.rank, self.of);
        if !self.met.is_empty() {
            text = format!("{text}: {}", self.met.join(", "));
        }
        if !self.avoided.is_empty() {
            text = format!("{text}; last because of taint {}", self.avoided.join(", "));
        }
        if let Some(said) = &self.said {
            text = format!("{text}; the scheduler reports: {said}");
        }
        text
    }
}

/// One thing that keeps a policy from choosing a pair.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Miss {
    /// Which rule it is.
    pub rule: Rule,
    /// `deployment target`, `cluster type` or `site`.
    pub of: &'static str,
    /// What is asked, as text.
    pub requirement: String,
    /// What is there instead.
    pub found: String,
    /// Where what is asked is written: `file:line`.
    pub at: String,
}

/// The rules by which a policy can pass a pair over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// A selector or the workspace.
    Selector,
    /// No required term matches.
    Required,
    /// A taint that is not tolerated.
    Taint,
    /// `spread`.
    Spread,
    /// `maxClusterTypes`.
    Limit,
    /// The scheduling program.
    Scheduler,
    /// `siteSelector` matches no site of the cluster type.
    Sites,
}

impl Miss {
    /// It as one sentence for people, without a full stop.
    pub fn sentence(&self) -> String {
        let Self {
            of,
            requirement,
            found,
            at,
            ..
        } = self;
        match self.rule {
            Rule::Selector | Rule::Required => {
                format!("needs a {of} with {requirement} ({at}); it has {found}")
            }
            Rule::Taint => format!("kept away by {found} ({at}): {requirement}"),
            Rule::Spread | Rule::Limit => format!("takes {requirement} ({at}); {found}"),
            Rule::Scheduler => format!("{requirement} ({at}); {found}"),
            Rule::Sites => format!("is only for sites with {requirement} ({at}); {found}"),
        }
    }
}

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
    let verdict = |policy: &SchedulingPolicy| {
        let mut misses = Vec::new();
        if let Some(workspace) = &policy.workspace
            && !workspace.value.is_empty()
            && workspace.value != target.workspace
        {
            misses.push(Miss {
                rule: Rule::Selector,
                of: TARGET,
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
        let mut weight = None;
        let mut meant = None;
        if let Some(cluster_type) = cluster_type {
            let choice = choose(control_plane, policy);
            if let Some(obstacles) = choice.kept_away.get(cluster_type.name.as_str()) {
                for obstacle in obstacles {
                    kept_away(control_plane, &mut misses, policy, cluster_type, obstacle);
                }
            }
            let candidate = position(&choice, cluster_type).map(|at| &choice.candidates[at]);
            meant = candidate.and_then(|one| {
                sites::meant(control_plane, policy, cluster_type, one.sites.as_ref()?)
            });
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
            weight = weigh(answers, policy, &choice, target, cluster_type);
            // Who the policy does not mean was never weighed.
            if misses.is_empty() {
                misses.extend(skipped_pairs(
                    answers,
                    policy,
                    &choice,
                    target,
                    cluster_type,
                ));
            }
        }
        PolicyVerdict {
            policy: policy.name.clone(),
            at: policy.location.file_line(),
            targets: asks(
                policy.workspace.as_ref().map(|w| w.value.as_str()),
                &policy.targets,
            ),
            cluster_types: asks_of_cluster_types(policy),
            sites: meant,
            weight,
            misses,
        }
    };
    let mut verdicts: Vec<PolicyVerdict> = control_plane.policies.values().map(verdict).collect();
    // Of equal misses, a policy that means the target is nearer than one that does not.
    let of_target =
        |verdict: &PolicyVerdict| verdict.misses.iter().filter(|m| m.of == TARGET).count();
    verdicts.sort_by_key(|verdict| (verdict.misses.len(), of_target(verdict)));
    verdicts
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

fn asks_of_cluster_types(policy: &SchedulingPolicy) -> String {
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
                rule: Rule::Required,
                of: CLUSTER_TYPE,
                requirement: any_of(required.iter().map(|term| &term.value)),
                found: seen.join(", "),
                at: required
                    .first()
                    .map_or(&policy.location, |term| &term.location)
                    .file_line(),
            });
        }
        Obstacle::Sites => misses.extend(policy.placement.sites.as_ref().map(|selector| Miss {
            rule: Rule::Sites,
            of: SITE,
            requirement: selector.value.to_string(),
            found: sites::none_of(plane, cluster_type),
            at: selector.location.file_line(),
        })),
        Obstacle::Taint(taint) => misses.push(Miss {
            rule: Rule::Taint,
            of: CLUSTER_TYPE,
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
        of: CLUSTER_TYPE,
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
        return Some(miss(Rule::Scheduler, requirement, found, at));
    }
    let at = position(choice, cluster_type)?;
    let candidate = &choice.candidates[at];
    let spread = placement.spread.as_ref();
    match (&candidate.place, spread, &placement.max_cluster_types) {
        (LimitResult::Beyond, _, Some(most)) => Some(miss(
            Rule::Limit,
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
                Rule::Spread,
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
            Rule::Spread,
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
        rule: Rule::Selector,
        of,
        requirement: requirement.to_string(),
        found: found(requirement, labels),
        at: requirement.location.as_ref().unwrap_or(policy).file_line(),
    }));
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
