//! Schedulers: programs that choose cluster types for a policy that names one.
//!
//! What comes in: a control plane, and the programs that whoever runs outhaul named. What goes out: one
//! [`SchedulerAnswer`] per policy with a scheduler, as a value for `schedule`, which stays pure. A control plane
//! can name a scheduler but never a program: what comes from git cannot run anything here. A program
//! gets JSON on its standard input and has limited time and room for its answer, which is checked
//! before it is used; whatever is wrong with it is that policy's failure and nobody else's.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use outhaul_control::ControlPlane;
use outhaul_control::model::{DeploymentTarget, SchedulingPolicy};
use outhaul_kit::suggest::did_you_mean;
use outhaul_plane::schedule::answers::{ChosenPair, SchedulerAnswer, SchedulerAnswers};
use outhaul_plane::schedule::choose::{self, Choice, choose};
use outhaul_plane::schedule::selects_target;

use crate::program::{NotPrograms, ProgramFault, Programs, last_line, run, shown};

/// What the question says it is.
pub const FORMAT: &str = "outhaul.dev/scheduler/v1";
/// How long a program may take.
pub const TIME_LIMIT: Duration = Duration::from_secs(30);

/// Programs by the name that policies call them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Schedulers(Programs);

impl Schedulers {
    /// From texts of the form `NAME=PROGRAM`.
    ///
    /// # Errors
    /// [`NotPrograms`] for the first that is not of this form, or names one again.
    pub fn parse(given: &[String]) -> Result<Self, NotPrograms> {
        Ok(Self(Programs::parse(given)?))
    }

    /// Whether no program is named.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Why there is no answer that can be used.
#[derive(Debug)]
enum SchedulerFault {
    /// There is one, and it is wrong.
    Answer { message: String, help: String },
    /// The program gave none.
    Program(ProgramFault),
}

impl From<ProgramFault> for SchedulerFault {
    fn from(fault: ProgramFault) -> Self {
        Self::Program(fault)
    }
}

/// Asks the program of every policy that names one, in order of the policies' names.
pub fn ask(plane: &ControlPlane, schedulers: &Schedulers) -> SchedulerAnswers {
    ask_within(plane, schedulers, TIME_LIMIT)
}

fn ask_within(plane: &ControlPlane, schedulers: &Schedulers, limit: Duration) -> SchedulerAnswers {
    let mut answers = BTreeMap::new();
    let mut sites: Option<BTreeMap<&str, usize>> = None;
    for policy in plane.policies.values() {
        let Some(scheduler) = &policy.placement.scheduler else {
            continue;
        };
        // Without a program there is no answer, and `schedule` says who could give one.
        let Some(program) = schedulers.0.get(&scheduler.value) else {
            continue;
        };
        let sites = sites.get_or_insert_with(|| sites_by_cluster_type(plane));
        let choice = choose(plane, policy);
        let targets: Vec<&DeploymentTarget> = plane
            .targets
            .values()
            .filter(|target| selects_target(policy, target))
            .collect();
        let asked = question(plane, policy, &choice, &targets, sites);
        let answer = run(program, asked.to_string().as_bytes(), limit)
            .map_err(SchedulerFault::from)
            .and_then(|text| read(&text, plane, policy, &choice, &targets));
        let answer = match answer {
            Ok(chosen) => SchedulerAnswer::Chosen(chosen),
            Err(fault) => fault_answer(&scheduler.value, program, fault),
        };
        answers.insert(policy.name.clone(), answer);
    }
    SchedulerAnswers::new(answers)
}

fn sites_by_cluster_type(plane: &ControlPlane) -> BTreeMap<&str, usize> {
    let mut sites = BTreeMap::new();
    for site in plane.sites.values() {
        *sites.entry(site.cluster_type.value.as_str()).or_default() += 1;
    }
    sites
}

/// What a program is asked.
fn question(
    plane: &ControlPlane,
    policy: &SchedulingPolicy,
    choice: &Choice<'_>,
    targets: &[&DeploymentTarget],
    sites: &BTreeMap<&str, usize>,
) -> Value {
    let placement = &policy.placement;
    let targets = targets.iter().map(|target| {
        json!({
            "name": target.name,
            "workload": target.workload,
            "workspace": target.workspace,
            "labels": target.labels,
        })
    });
    let cluster_types = choice.candidates.iter().map(|candidate| {
        let name = candidate.cluster_type.name.as_str();
        json!({
            "name": name,
            "labels": candidate.cluster_type.labels,
            "score": candidate.score,
            "avoid": !candidate.avoided.is_empty(),
            "sites": sites.get(name).copied().unwrap_or_default(),
        })
    });
    json!({
        "format": FORMAT,
        "environment": plane.environment,
        "policy": {
            "name": policy.name,
            "scheduler": placement.scheduler.as_ref().map(|name| &name.value),
            "maxClusterTypes": placement.max_cluster_types.as_ref().map(|most| most.value),
            "spread": placement.spread.as_ref().map(|spread| json!({
                "label": spread.label.value,
                "maxPerValue": spread.max_per_value,
            })),
        },
        "targets": targets.collect::<Vec<_>>(),
        "clusterTypes": cluster_types.collect::<Vec<_>>(),
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reply {
    assignments: Vec<SchedulerChoice>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SchedulerChoice {
    target: String,
    #[serde(rename = "clusterType")]
    cluster_type: String,
    #[serde(default)]
    reason: String,
}

/// The answer, when it says nothing but what was asked.
fn read(
    text: &[u8],
    plane: &ControlPlane,
    policy: &SchedulingPolicy,
    choice: &Choice<'_>,
    targets: &[&DeploymentTarget],
) -> Result<BTreeMap<ChosenPair, String>, SchedulerFault> {
    let wrong = |message: String, help: String| SchedulerFault::Answer { message, help };
    let reply: Reply = serde_json::from_slice(text).map_err(|error| {
        wrong(
            format!("its answer does not read: {error}"),
            "it must be `{\"assignments\": [{\"target\": …, \"clusterType\": …, \"reason\": …}]}`"
                .to_owned(),
        )
    })?;
    let targets: Vec<&str> = targets.iter().map(|target| target.name.as_str()).collect();
    let candidates: Vec<&str> = choice
        .candidates
        .iter()
        .map(|candidate| candidate.cluster_type.name.as_str())
        .collect();
    let mut chosen = BTreeMap::new();
    for one in reply.assignments {
        if !targets.contains(&one.target.as_str()) {
            return Err(wrong(
                format!(
                    "it chose the target `{}`, which it was not asked about",
                    shown(&one.target)
                ),
                did_you_mean(&one.target, &targets),
            ));
        }
        if !candidates.contains(&one.cluster_type.as_str()) {
            let message = if plane.cluster_types.contains_key(&one.cluster_type) {
                format!(
                    "it chose the cluster type `{}`, where policy `{}` may not place anything",
                    one.cluster_type, policy.name
                )
            } else {
                format!(
                    "it chose the cluster type `{}`, which is not there",
                    shown(&one.cluster_type)
                )
            };
            return Err(wrong(message, did_you_mean(&one.cluster_type, &candidates)));
        }
        let pair = ChosenPair {
            target: one.target,
            cluster_type: one.cluster_type,
        };
        let message = format!(
            "it chose `{}` for `{}` twice",
            pair.cluster_type, pair.target
        );
        let reason = shown(&one.reason);
        if chosen.insert(pair, reason).is_some() {
            return Err(wrong(message, "name each pair once".to_owned()));
        }
    }
    match choose::broken_limit(plane, policy, &chosen) {
        Some(message) => Err(wrong(
            message,
            "the question names the policy's limits; keep to them for each target".to_owned(),
        )),
        None => Ok(chosen),
    }
}

/// The program's path is for who runs it: it stays out of the message, which may end up in git.
fn fault_answer(scheduler: &str, program: &Path, fault: SchedulerFault) -> SchedulerAnswer {
    let program = program.display();
    let said = |message: String, help: String, environment| SchedulerAnswer::Fault {
        message: format!("scheduler `{scheduler}`: {message}"),
        help,
        environment,
    };
    let fault = match fault {
        SchedulerFault::Answer { message, help } => return said(message, help, false),
        SchedulerFault::Program(fault) => fault,
    };
    match fault {
        ProgramFault::Failed { status, stderr, .. } => {
            let last = last_line(&stderr).map_or(String::new(), |line| format!(": {line}"));
            said(
                format!("it failed ({status}){last}"),
                format!("run `{program}` by hand: it gets JSON on its standard input"),
                true,
            )
        }
        ProgramFault::Start(error) => said(
            format!("it cannot be started: {error}"),
            format!("`{program}` must be the path of an executable file"),
            true,
        ),
        ProgramFault::TooMuch { limit } => said(
            format!("it answered with more than {limit} bytes and was stopped"),
            "name only the pairs that it chooses".to_owned(),
            false,
        ),
        ProgramFault::TooSlow { limit } => said(
            format!(
                "it gave no answer in {} s and was stopped",
                limit.as_secs_f32()
            ),
            "make it faster: a render waits for it".to_owned(),
            true,
        ),
    }
}

#[cfg(test)]
mod tests;
