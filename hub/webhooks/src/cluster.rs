//! What a cluster shows by webhook, as the report that the hub makes of it.
//!
//! What comes in: what the objects of a site showed last, its registration, the record of their commit, and how that stands towards the
//! bundles that the hub verified. What goes out: a [`ClusterEvent`], in sync only where each object is ready at one commit, whose record
//! is of a signed bundle, and the objects apply all of it. Pure.

use outhaul_bundle::name::Name;
use outhaul_bundle::report::{
    ClusterEvent, ClusterState, ComplianceStatus, FollowedAssignment, ObjectStatus, StepResult,
    WebhookEvidence, WebhookObject, WebhookSender,
};
use outhaul_kit::format_count::format_count;

use crate::event::{WebhookEvent, shortened};
use crate::record::{Compared, KnownRecord, MAX_ASSIGNMENTS};
use crate::settings::WebhookSettings;
use crate::shown::{HOUR_MS, Shown};

impl Shown {
    /// What the cluster shows now.
    pub(crate) fn cluster(
        &self,
        sender: WebhookSender,
        settings: &WebhookSettings,
        event: &WebhookEvent,
        record: Result<Option<(&KnownRecord, &Compared)>, &str>,
        now_ms: i64,
    ) -> ClusterEvent {
        let mut made = ClusterEvent {
            stream: settings.stream.clone(),
            reconciler: sender.to_string(),
            repository: settings.repository.clone(),
            commit: None,
            snapshot: None,
            state: ClusterState::Synced,
            assignments: Vec::new(),
            message: String::new(),
            webhook: Some(WebhookEvidence {
                sender,
                body: event.body,
                objects: self.of(settings),
                foreign_events: self.foreign_events,
                foreign: self.foreign.clone(),
            }),
        };
        for (one, registered) in self.of(settings).into_iter().zip(&settings.objects) {
            let silent_ms = i64::from(settings.silence_hours) * HOUR_MS;
            let (state, text) = match one.status {
                ObjectStatus::Failed => (ClusterState::Failing, one.message),
                ObjectStatus::InProgress => (ClusterState::InProgress, one.message),
                ObjectStatus::Silent => {
                    (ClusterState::InProgress, "no event of it came".to_owned())
                }
                // helm-controller sends events of what it did: of a release that stays as it is there are none.
                ObjectStatus::Ready if registered.path.is_none() => continue,
                ObjectStatus::Ready if now_ms.saturating_sub(one.at_ms) > silent_ms => {
                    let hours = usize::try_from(settings.silence_hours).unwrap_or(usize::MAX);
                    let text = format!(
                        "no event of it came for {}",
                        format_count(hours, "hour", "hours")
                    );
                    (ClusterState::Stale, text)
                }
                ObjectStatus::Ready => continue,
            };
            problem(&mut made, state, format!("{}: {text}", one.name));
        }
        match self.commit() {
            Ok(Some(commit)) => made.commit = Some(commit),
            Ok(None) => {
                let text = "no object states a commit".to_owned();
                problem(&mut made, ClusterState::InProgress, text);
                return made;
            }
            Err((one, other)) => {
                let text = format!("several commits are applied at once: {one} and {other}");
                problem(&mut made, ClusterState::OtherRevision, text);
                return made;
            }
        }
        match record {
            Ok(Some((record, compared))) if Some(&record.commit) == made.commit.as_ref() => {
                self.with_record(settings, (record, compared), made)
            }
            Ok(_) => {
                let text = "the record of the commit was not read".to_owned();
                problem(&mut made, ClusterState::Unreachable, text);
                made
            }
            Err(why) => {
                let text = format!("the record of the commit cannot be read: {why}");
                problem(&mut made, ClusterState::Unreachable, text);
                made
            }
        }
    }

    /// With what the commit was rendered from, and what it holds.
    fn with_record(
        &self,
        settings: &WebhookSettings,
        (record, compared): (&KnownRecord, &Compared),
        mut made: ClusterEvent,
    ) -> ClusterEvent {
        let stream = &settings.stream;
        let absent = if record.environment != stream.environment.as_str() {
            Some(format!(
                "the cluster follows environment `{}`, and this site is of `{}`",
                shortened(&record.environment),
                stream.environment
            ))
        } else if record.assignments.is_empty() {
            let of = &stream.cluster_type;
            Some(format!("the commit holds nothing for cluster type `{of}`"))
        } else {
            None
        };
        if let Some(text) = absent {
            problem(&mut made, ClusterState::Absent, text);
            return made;
        }
        match compared {
            Compared::Same => {}
            Compared::Unknown(text) => problem(&mut made, ClusterState::InProgress, text.clone()),
            // Nobody signed the record: of one that contradicts what was signed nothing is believed.
            Compared::Differs(text) => {
                let text =
                    format!("the forge's record of the commit is not of what was signed: {text}");
                problem(&mut made, ClusterState::Failing, text);
                return made;
            }
        }
        let shown = self.of(settings);
        for name in record.assignments.iter().take(MAX_ASSIGNMENTS) {
            let Ok(parsed) = name.parse::<Name>() else {
                let text = format!(
                    "the record names `{}`, which is not a valid name",
                    shortened(name)
                );
                problem(&mut made, ClusterState::Failing, text);
                continue;
            };
            let folder = format!("{}/{name}", stream.cluster_type);
            let covers = settings.objects.iter().zip(&shown);
            let covers = covers.filter(|(one, _)| one.covers(&folder));
            made.assignments
                .push(followed(parsed, &folder, covers.map(|(_, shown)| shown)));
        }
        let unapplied = made.assignments.iter().find(|one| one.steps.is_empty());
        if let Some(text) = unapplied.map(|one| one.message.clone()) {
            problem(&mut made, ClusterState::Failing, text);
        }
        for one in &settings.objects {
            let applies = |name: &String| one.covers(&format!("{}/{name}", stream.cluster_type));
            if one.path.is_some() && !record.assignments.iter().any(applies) {
                let text = format!(
                    "{} applies `{}`, in which the commit holds nothing for this cluster type: register it with the folder that it applies, \
                     or without one",
                    one.name,
                    one.path.as_deref().unwrap_or_default()
                );
                problem(&mut made, ClusterState::Absent, text);
            }
        }
        if record.assignments.len() > MAX_ASSIGNMENTS {
            let text = format!("more than {MAX_ASSIGNMENTS} assignments, which no report holds");
            problem(&mut made, ClusterState::Failing, text);
        }
        made.snapshot = Some(record.snapshot.clone());
        made
    }
}

/// Takes the cluster out of sync, with one more reason: what is worse than all before it comes first, so that a message that is shortened
/// has the reason of its state.
fn problem(made: &mut ClusterEvent, state: ClusterState, text: String) {
    let is_worse = state > made.state;
    made.state = made.state.max(state);
    made.message = match (made.message.as_str(), is_worse) {
        ("", _) => shortened(&text),
        (before, true) => shortened(&format!("{text}; {before}")),
        (before, false) => shortened(&format!("{before}; {text}")),
    };
}

/// A report that does not fit is not a report: what is left says so, and that the cluster is not in sync.
pub(crate) fn without_details(cluster: &mut ClusterEvent) {
    cluster.snapshot = None;
    cluster.assignments.clear();
    cluster.state = cluster.state.max(ClusterState::Failing);
    let text = "the commit holds more than a report does, so that this one has no assignments: divide the cluster type";
    cluster.message = match cluster.message.as_str() {
        "" => text.to_owned(),
        before => shortened(&format!("{text}; {before}")),
    };
}

/// How the folder of one assignment stands, by the objects that apply it.
fn followed<'a>(
    name: Name,
    folder: &str,
    covers: impl Iterator<Item = &'a WebhookObject>,
) -> FollowedAssignment {
    let all: Vec<&WebhookObject> = covers.collect();
    let Some(worst) = all.iter().max_by_key(|one| one.status) else {
        return FollowedAssignment {
            name,
            status: ComplianceStatus::Failed,
            message: format!(
                "no registered object applies `{}` of the repository",
                shortened(folder)
            ),
            steps: Vec::new(),
        };
    };
    let status = match worst.status {
        ObjectStatus::Ready => ComplianceStatus::Compliant,
        ObjectStatus::Failed => ComplianceStatus::Failed,
        ObjectStatus::InProgress | ObjectStatus::Silent => ComplianceStatus::InProgress,
    };
    let step = |one: &&WebhookObject| StepResult {
        name: one.name.clone(),
        status: match one.status {
            ObjectStatus::Ready => "ok",
            ObjectStatus::Failed => "failed",
            ObjectStatus::InProgress | ObjectStatus::Silent => "skipped",
        }
        .to_owned(),
        message: String::new(),
    };
    FollowedAssignment {
        name,
        status,
        message: match status {
            ComplianceStatus::Compliant => String::new(),
            _ => worst.message.clone(),
        },
        steps: all.iter().take(3).map(step).collect(),
    }
}
