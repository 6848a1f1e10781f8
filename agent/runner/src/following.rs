//! A cluster that follows the platform repository directly: what it shows, as a report of this site.
//!
//! What comes in: the objects of the cluster's Flux or Argo CD, and the record `.outhaul/platform.json` of the commit that
//! they show. What goes out: one queued report with the commits that it was rendered from, each assignment of this cluster type with the
//! object that applies it, and a named state. What nothing applies has failed; what cannot be read is reported as such.
//! It changes nothing on the cluster.

use std::collections::{BTreeMap, BTreeSet};

use outhaul_bundle::name::Name;
use outhaul_bundle::output_record::{MAX_RECORD_BYTES, PlatformRecord};
use outhaul_bundle::report::{
    ClusterEvent, ClusterState, ComplianceStatus, FollowedAssignment, MAX_REPORT_BYTES, ReportEvent,
};
use outhaul_reconcilers::{outcome, shortened};

use crate::agent::Agent;
use crate::error::AgentError;
use crate::state::{self, generations, key, outbox};

pub use outhaul_site::followed::{details, is_well, lines, next, sentence};

mod seen;

use seen::{Controller, Follower, FollowerStatus};

/// Most assignments that a report names.
const MAX_ASSIGNMENTS: usize = 2_000;
/// Most bytes of what was observed: the rest of a report is small.
const MAX_EVENT_BYTES: usize = MAX_REPORT_BYTES - 64 * 1024;
/// Looks at the cluster, and queues what it shows.
///
/// # Errors
/// [`AgentError::Usage`] where nothing is to be observed; [`AgentError`] of the store. A cluster that cannot be asked
/// is a report, and no error.
pub fn observe(agent: &mut Agent) -> Result<ClusterEvent, AgentError> {
    let Some(repository) = agent.config.observe.repository.clone() else {
        return Err(AgentError::Usage {
            message: "agent.toml has no `[observe]` with a `repository`".to_owned(),
            help: "write three lines into agent.toml: `[observe]`, `repository = \"…\"` as the cluster's own Flux or \
                   Argo CD has it, and `record = \"…/{commit}/.outhaul/platform.json\"`"
                .to_owned(),
        });
    };
    if let Some(number) = generations::active(agent.store.read())? {
        return Err(AgentError::Usage {
            message: format!("this site takes bundles: bundle {number} is active"),
            help: "take `[observe]` out of agent.toml; a cluster that follows the repository directly is a site of \
                   its own"
                .to_owned(),
        });
    }
    agent.heartbeat.beat();
    let event = match seen::look(agent, &repository) {
        Ok(found) => shown(agent, &repository, found),
        Err(AgentError::Apply(error)) => {
            let state = ClusterState::Unreachable;
            event(agent, &repository, state, error.to_string())
        }
        Err(other) => return Err(other),
    };
    agent.commit(|db, author| {
        outbox::queue(db, author, ReportEvent::Cluster(Box::new(event.clone())))?;
        state::set_meta(db, key::CLUSTER, Some(&event))?;
        state::set_meta(db, key::OBSERVED, Some(&author.reading.wall_ms()))?;
        Ok::<_, AgentError>(())
    })?;
    Ok(event)
}

fn event(agent: &Agent, repository: &str, state: ClusterState, message: String) -> ClusterEvent {
    ClusterEvent {
        stream: agent.site.stream.clone(),
        reconciler: String::new(),
        repository: repository.to_owned(),
        commit: None,
        snapshot: None,
        state,
        assignments: Vec::new(),
        message: shortened(&message),
        webhook: None,
    }
}

/// What the cluster shows, with what the record of its commit states.
fn shown(
    agent: &Agent,
    repository: &str,
    found: Option<(Controller, Vec<Follower>)>,
) -> ClusterEvent {
    let absent = |message: String| event(agent, repository, ClusterState::Absent, message);
    let Some((controller, followers)) = found else {
        return absent("this cluster has neither Flux nor Argo CD".to_owned());
    };
    let mut event = absent(String::new());
    controller.as_str().clone_into(&mut event.reconciler);
    let applies: Vec<&Follower> = followers.iter().filter(|one| one.path.is_some()).collect();
    let Some(worst) = followers.iter().max_by_key(|one| one.status) else {
        event.message = format!("nothing on this cluster follows {repository}");
        return event;
    };
    if applies.is_empty() {
        (event.state, event.message) = not_applied(repository, worst);
        return event;
    }
    event.state = state_of(worst.status);
    if worst.status > FollowerStatus::Synced {
        event.message = shortened(&format!("{}: {}", worst.name, worst.message));
    }
    let commits: BTreeSet<&String> = applies
        .iter()
        .filter_map(|one| one.commit.as_ref())
        .collect();
    let mut commits = commits.into_iter();
    match (commits.next(), commits.next()) {
        (Some(commit), None) => event.commit = Some(commit.clone()),
        (Some(one), Some(other)) => {
            event.state = event.state.max(ClusterState::OtherRevision);
            let several = format!("several commits are applied at once: {one} and {other}");
            event.message = join(&event.message, &several);
            return event;
        }
        (None, _) => {
            event.state = event.state.max(ClusterState::InProgress);
            event.message = join(&event.message, "no commit is applied yet");
            return event;
        }
    }
    let commit = event.commit.clone().unwrap_or_default();
    match record(agent, &commit) {
        Ok(record) => with_record(agent, event, &record, &followers),
        Err(problem) => {
            // A failure stays one where besides something cannot be read.
            event.state = event.state.max(ClusterState::Unreachable);
            let text = format!("the record of commit {commit} cannot be read: {problem}");
            event.message = join(&event.message, &text);
            event
        }
    }
}

/// The state and message where a source of the repository is there and nothing applies it; what is wrong with that source is named besides.
fn not_applied(repository: &str, source: &Follower) -> (ClusterState, String) {
    let state = ClusterState::Absent;
    let message = format!("{repository} is fetched, and nothing on this cluster applies it");
    match source.status > FollowerStatus::Synced {
        false => (state, shortened(&message)),
        true => (
            state.max(state_of(source.status)),
            shortened(&format!("{message}; {}: {}", source.name, source.message)),
        ),
    }
}

/// The record that lies in the commit.
fn record(agent: &Agent, commit: &str) -> Result<PlatformRecord, String> {
    let config = &agent.config.observe;
    let (base, path) = config
        .record_of(commit)
        .ok_or("`record` under `[observe]` in agent.toml is not a URL")?;
    let bytes = agent
        .facilities
        .server(&base, config.ca.as_deref(), "")
        .and_then(|server| server.get(&path, MAX_RECORD_BYTES))
        .map_err(|error| error.to_string())?
        .ok_or_else(|| format!("{base}/{path} is not there"))?;
    PlatformRecord::from_bytes(&bytes).map_err(|problem| format!("{base}/{path} {problem}"))
}

fn with_record(
    agent: &Agent,
    mut event: ClusterEvent,
    record: &PlatformRecord,
    followers: &[Follower],
) -> ClusterEvent {
    let (wanted, cluster_type) = (&agent.site.stream.environment, &event.stream.cluster_type);
    if record.environment != wanted.as_str() {
        let text = format!(
            "the cluster follows environment `{}`, and this site is of `{wanted}`",
            shortened(&record.environment)
        );
        event.state = event.state.max(ClusterState::Absent);
        event.message = join(&event.message, &text);
        return event;
    }
    let names = record.assignments(cluster_type.as_str());
    if names.is_empty() {
        let text = format!("the commit holds nothing for cluster type `{cluster_type}`");
        event.state = event.state.max(ClusterState::Absent);
        event.message = join(&event.message, &text);
        return event;
    }
    let base = agent.config.observe.path.trim_matches('/');
    let folder = |name: &str| {
        let parts = [base, cluster_type.as_str(), name];
        let parts = parts.into_iter().filter(|part| !part.is_empty());
        parts.collect::<Vec<_>>().join("/")
    };
    let roots: BTreeMap<&str, Vec<&Follower>> = (names.iter().take(MAX_ASSIGNMENTS))
        .map(|name| (*name, covering(&folder(name), base, record, followers)))
        .collect();
    let mut assignments = Vec::new();
    for name in names.iter().take(MAX_ASSIGNMENTS) {
        let Ok(parsed) = name.parse::<Name>() else {
            event.state = ClusterState::Failing;
            let text = format!(
                "the record names `{}`, which is not a valid name",
                shortened(name)
            );
            event.message = join(&event.message, &text);
            continue;
        };
        let own = roots.get(name).map(Vec::as_slice).unwrap_or_default();
        // What these made applies what the team wrote.
        let made = followers.iter().filter(|one| is_of(one, name, &roots));
        let all: Vec<&Follower> = own.iter().copied().chain(made).collect();
        assignments.push(followed(parsed, &folder(name), &all));
    }
    if names.len() > MAX_ASSIGNMENTS {
        event.state = ClusterState::Failing;
        let text = format!("more than {MAX_ASSIGNMENTS} assignments, which no report holds");
        event.message = join(&event.message, &text);
    }
    event.assignments = assignments;
    event.snapshot = Some(record.snapshot.clone());
    fit(&mut event, MAX_EVENT_BYTES);
    event
}

/// Leaves out what a report has no room for: steps of assignments that are well, then all steps, then messages. That is said.
fn fit(event: &mut ClusterEvent, most: usize) {
    let is_too_large = |event: &ClusterEvent| {
        serde_json::to_vec(event).map_or(usize::MAX, |bytes| bytes.len()) > most
    };
    if !is_too_large(event) {
        return;
    }
    event.message = join(
        &event.message,
        "details are left out: no report holds all of them",
    );
    for one in &mut event.assignments {
        if one.status == ComplianceStatus::Compliant {
            one.steps.clear();
        }
    }
    if is_too_large(event) {
        event
            .assignments
            .iter_mut()
            .for_each(|one| one.steps.clear());
    }
    if is_too_large(event) {
        event
            .assignments
            .iter_mut()
            .for_each(|one| one.message.clear());
    }
}

/// Whether a follower was made by one of the roots of an assignment, and not for another one of the same root. Templates name objects as they
/// like: one that is named as no assignment may be of any.
fn is_of(one: &Follower, name: &str, roots: &BTreeMap<&str, Vec<&Follower>>) -> bool {
    let Some(maker) = &one.made_by else {
        return false;
    };
    let made_for = |name: &str| {
        let of_name = roots.get(name).into_iter().flatten();
        of_name.into_iter().any(|root| root.name == *maker)
    };
    let own = one.name.rsplit('/').next().unwrap_or_default();
    made_for(name) && (own == name || !made_for(own))
}

/// What on the cluster applies the folder of one assignment.
fn covering<'a>(
    folder: &str,
    base: &str,
    record: &PlatformRecord,
    followers: &'a [Follower],
) -> Vec<&'a Follower> {
    let is_covering = |one: &&Follower| {
        let Some(path) = one.path.as_deref() else {
            return false;
        };
        let below = path.is_empty()
            || folder
                .strip_prefix(path)
                .is_some_and(|rest| rest.starts_with('/'));
        path == folder || (below && (one.below || covers(path, base, record)))
    };
    followers.iter().filter(is_covering).collect()
}

/// How the cluster stands towards the folder of one assignment: what applies it, and what that made.
fn followed(name: Name, folder: &str, all: &[&Follower]) -> FollowedAssignment {
    let Some(worst) = all.iter().max_by_key(|one| one.status) else {
        return FollowedAssignment {
            name,
            status: ComplianceStatus::Failed,
            message: format!("nothing on this cluster applies `{folder}` of the repository"),
            steps: Vec::new(),
        };
    };
    let status = match worst.status {
        FollowerStatus::Synced => ComplianceStatus::Compliant,
        FollowerStatus::Failing => ComplianceStatus::Failed,
        _ => ComplianceStatus::InProgress,
    };
    let is_well = status == ComplianceStatus::Compliant;
    FollowedAssignment {
        name,
        status,
        message: if is_well {
            String::new()
        } else {
            shortened(&worst.message)
        },
        steps: outcome::bounded(
            all.iter()
                .map(|one| outcome::step(&one.name, step_word(one.status), &one.message))
                .collect(),
        ),
    }
}

/// Whether a `kustomization.yaml` in `path` collects what lies below it.
fn covers(path: &str, base: &str, record: &PlatformRecord) -> bool {
    let inside = match (base, path.strip_prefix(base)) {
        ("", _) => path,
        (_, Some(rest)) => rest.trim_start_matches('/'),
        (_, None) => return false,
    };
    let file = match inside {
        "" => "kustomization.yaml".to_owned(),
        folder => format!("{folder}/kustomization.yaml"),
    };
    record.files.contains_key(&file)
}

fn step_word(status: FollowerStatus) -> &'static str {
    match status {
        FollowerStatus::Synced => "ok",
        FollowerStatus::Failing => "failed",
        _ => "skipped",
    }
}

fn state_of(status: FollowerStatus) -> ClusterState {
    match status {
        FollowerStatus::Synced => ClusterState::Synced,
        FollowerStatus::InProgress => ClusterState::InProgress,
        FollowerStatus::OtherRevision => ClusterState::OtherRevision,
        FollowerStatus::Stale => ClusterState::Stale,
        FollowerStatus::Suspended => ClusterState::Suspended,
        FollowerStatus::Failing => ClusterState::Failing,
    }
}

fn join(one: &str, other: &str) -> String {
    match one {
        "" => shortened(other),
        one => shortened(&format!("{one}; {other}")),
    }
}

/// What was reported last, where agent.toml still has the repository.
///
/// # Errors
/// [`AgentError`] of the store.
pub fn last(agent: &Agent) -> Result<Option<ClusterEvent>, AgentError> {
    if agent.config.observe.repository.is_none() {
        return Ok(None);
    }
    Ok(state::meta(agent.store.read(), key::CLUSTER)?)
}

#[cfg(feature = "kubernetes")]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_that_fails_is_named_where_nothing_applies_it() {
        let source = |status, message: &str| Follower {
            name: "GitRepository flux-system/platform".to_owned(),
            path: None,
            below: false,
            made_by: None,
            commit: None,
            status,
            message: message.to_owned(),
        };
        let applies = "nothing on this cluster applies it";
        let (state, message) = not_applied("U", &source(FollowerStatus::Synced, "stored"));
        assert_eq!(state, ClusterState::Absent);
        assert!(message.ends_with(applies), "{message}");
        let failing = source(FollowerStatus::Failing, "authentication required");
        let (state, message) = not_applied("U", &failing);
        assert_eq!(state, ClusterState::Failing);
        let named = "GitRepository flux-system/platform: authentication required";
        assert!(
            message.ends_with(&format!("{applies}; {named}")),
            "{message}"
        );
        // What only takes its time is no failure of the site.
        let (state, _) = not_applied("U", &source(FollowerStatus::InProgress, "fetching"));
        assert_eq!(state, ClusterState::Absent);
    }

    fn follower(name: &str, path: Option<&str>, made_by: Option<&str>) -> Follower {
        Follower {
            name: name.to_owned(),
            path: path.map(str::to_owned),
            below: true,
            made_by: made_by.map(str::to_owned),
            commit: None,
            status: FollowerStatus::Synced,
            message: "Applied revision".to_owned(),
        }
    }

    #[test]
    fn what_is_made_is_of_the_assignment_of_its_name_where_its_maker_is_and_else_of_each() {
        let (both, one) = (
            follower("Kustomization f/platform", Some("store"), None),
            follower("Kustomization f/one", Some("store/a"), None),
        );
        let roots = BTreeMap::from([("a", vec![&both, &one]), ("b", vec![&both])]);
        let made = |name: &str, by: &str| {
            let made = follower(&format!("Kustomization f/{name}"), None, Some(by));
            ["a", "b"].map(|assignment| is_of(&made, assignment, &roots))
        };
        assert_eq!(made("a", "Kustomization f/platform"), [true, false]);
        assert_eq!(made("b", "Kustomization f/platform"), [false, true]);
        assert_eq!(made("other", "Kustomization f/platform"), [true, true]);
        // Named as `b`, and made where only `a` is applied.
        assert_eq!(made("b", "Kustomization f/one"), [true, false]);
        assert_eq!(made("a", "Kustomization f/foreign"), [false, false]);
    }

    #[test]
    fn attack_more_objects_than_a_report_holds_leave_out_details_and_say_so() {
        let root = follower("Kustomization f/platform", Some("store"), None);
        let made: Vec<Follower> = (0..500)
            .map(|at| Follower {
                message: "x".repeat(4_000),
                ..follower(&format!("Kustomization f/o{at}"), None, Some(&root.name))
            })
            .collect();
        let all: Vec<&Follower> = std::iter::once(&root).chain(&made).collect();
        let one = followed("a".parse().unwrap(), "store/a", &all);
        assert_eq!(one.steps.len(), outcome::MAX_STEPS);
        assert!(one.steps.iter().all(|step| step.message.len() < 600));
        let mut event = ClusterEvent {
            stream: serde_json::from_value(serde_json::json!({
                "environment": "dev", "cluster_type": "store", "role": "s-e2356f68bd3bab28",
            }))
            .unwrap(),
            reconciler: "flux".to_owned(),
            repository: "U".to_owned(),
            commit: None,
            snapshot: None,
            state: ClusterState::Synced,
            assignments: vec![one; 100],
            message: String::new(),
            webhook: None,
        };
        let before = serde_json::to_vec(&event).unwrap().len();
        assert!(before > MAX_REPORT_BYTES, "{before}");
        fit(&mut event, MAX_EVENT_BYTES);
        assert!(serde_json::to_vec(&event).unwrap().len() <= MAX_EVENT_BYTES);
        assert_eq!(event.assignments.len(), 100);
        assert!(event.message.contains("details are left out"));
    }
}
