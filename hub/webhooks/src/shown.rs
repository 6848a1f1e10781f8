//! What a site shows: the last of each object of the platform repository, folded event by event, and the report of it.
//!
//! What comes in: what it showed before, its registration, one event, and the record of the commit that it shows now. What goes out:
//! what it shows now as a [`ClusterEvent`], or why the event changes nothing. The newest event of an object counts, and of two of one
//! second the worse; one of which nothing came, that is silent for long, or at another commit, keeps the site from being in sync.
//! Pure: the hub's time is an argument.

use outhaul_bundle::name::Name;
use outhaul_bundle::report::{
    ClusterEvent, ClusterState, ComplianceStatus, FollowedAssignment, ObjectStatus, StepResult,
    WebhookEvidence, WebhookObject, WebhookSender,
};
use serde::{Deserialize, Serialize};

use crate::event::{WebhookEvent, shortened};
use crate::record::{KnownRecord, MAX_ASSIGNMENTS};
use crate::settings::WebhookSettings;

/// How late an event may come, in milliseconds: senders try again for seconds.
const LATE_MS: i64 = 60 * 60 * 1000;
/// How far ahead of the hub's clock an event may be dated, in milliseconds: until then the true ones of its object are older than it,
/// and change nothing.
const AHEAD_MS: i64 = 5 * 60 * 1000;
const HOUR_MS: i64 = 60 * 60 * 1000;
/// Bodies of one second that are remembered of an object.
const MAX_BODIES: usize = 32;
/// Foreign objects that are named.
const MAX_FOREIGN: usize = 20;

/// What a site showed last, as the hub keeps it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shown {
    /// The number of the last report that was made of it; 0 before the first.
    pub(crate) number: u64,
    /// The digest of that report.
    pub(crate) digest: String,
    /// What each object showed last.
    pub(crate) objects: Vec<WebhookObject>,
    /// Events about other objects, and the names of these.
    pub(crate) foreign_events: u64,
    pub(crate) foreign: Vec<String>,
    /// The record of the commit that they showed.
    pub(crate) record: Option<KnownRecord>,
}

/// Why an event is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookRefusal {
    /// The rule.
    pub rule: &'static str,
    /// What was expected and found.
    pub reason: String,
}

/// What an event changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// The object shows something new.
    Object,
    /// It was on record, or is older than what is.
    Known,
    /// It is about another object.
    Foreign,
}

impl Shown {
    /// What is kept, of its text; empty before the first event.
    pub(crate) fn from_text(text: &str) -> Result<Self, serde_json::Error> {
        match text {
            "" => Ok(Self::default()),
            text => serde_json::from_str(text),
        }
    }

    /// Events about objects that the site was not registered with: how many, and the names of the last of these. One that is misspelt in
    /// the registration is among them.
    pub fn foreign(&self) -> (u64, &[String]) {
        (self.foreign_events, &self.foreign)
    }

    /// The object as it is on record.
    fn object(&mut self, name: &str) -> &mut WebhookObject {
        let at = self.objects.iter().position(|one| one.name == name);
        let at = at.unwrap_or_else(|| {
            self.objects.push(WebhookObject::silent(name.to_owned()));
            self.objects.len() - 1
        });
        &mut self.objects[at]
    }

    /// The one commit that the objects show after `event`; `None` where they show none or several.
    pub(crate) fn commit_after(
        &self,
        settings: &WebhookSettings,
        event: &WebhookEvent,
    ) -> Option<String> {
        let mut after = self.clone();
        after.take(settings, event);
        after.commit().ok().flatten()
    }

    /// The one commit that the objects show; the error names two of several.
    fn commit(&self) -> Result<Option<String>, (String, String)> {
        let mut found: Option<&String> = None;
        for commit in self.objects.iter().filter_map(|one| one.commit.as_ref()) {
            match found {
                Some(other) if other != commit => return Err((other.clone(), commit.clone())),
                _ => found = Some(commit),
            }
        }
        Ok(found.cloned())
    }

    /// Takes an event that was checked.
    pub(crate) fn take(&mut self, settings: &WebhookSettings, event: &WebhookEvent) -> Change {
        let is_registered = settings.objects.iter().any(|one| one.name == event.object);
        let is_here = event
            .repository
            .as_ref()
            .is_none_or(|repository| settings.is_repository(repository));
        if !is_registered || !is_here {
            self.foreign_events = self.foreign_events.saturating_add(1);
            self.foreign.retain(|name| *name != event.object);
            self.foreign.push(event.object.clone());
            let more = self.foreign.len().saturating_sub(MAX_FOREIGN);
            self.foreign.drain(..more);
            return Change::Foreign;
        }
        let object = self.object(&event.object);
        if event.at_ms < object.at_ms || object.bodies.contains(&event.body) {
            return Change::Known;
        }
        let same_second = event.at_ms == object.at_ms;
        if !same_second {
            object.bodies.clear();
        }
        object.bodies.push(event.body);
        let more = object.bodies.len().saturating_sub(MAX_BODIES);
        object.bodies.drain(..more);
        object.at_ms = event.at_ms;
        // What is applied already is applied again: that is not known to have failed, and not known to be more.
        let goes_on = event.goes_on
            && object.status == ObjectStatus::Ready
            && (event.commit.is_none() || event.commit == object.commit);
        let is_better = object.status == ObjectStatus::Failed && event.status < object.status
            || object.status == ObjectStatus::Ready && event.status == ObjectStatus::InProgress;
        // A failure holds for its whole second at any commit: which of the two was last is not known. Another commit under way after
        // success does not.
        let is_failed = object.status == ObjectStatus::Failed;
        let holds = same_second && is_better && (is_failed || event.commit == object.commit);
        if goes_on || holds {
            return Change::Object;
        }
        object.status = event.status;
        object.message.clone_from(&event.message);
        // A failure need not name the commit that failed; what was applied before is no longer known to be what runs.
        object.commit.clone_from(&event.commit);
        Change::Object
    }

    /// What the cluster shows now.
    pub(crate) fn cluster(
        &self,
        sender: WebhookSender,
        settings: &WebhookSettings,
        event: &WebhookEvent,
        record: Result<Option<&KnownRecord>, &str>,
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
        let problem = |made: &mut ClusterEvent, state: ClusterState, text: String| {
            made.state = made.state.max(state);
            made.message = match made.message.as_str() {
                "" => shortened(&text),
                before => shortened(&format!("{before}; {text}")),
            };
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
                    let text = format!("no event of it came for {} hours", settings.silence_hours);
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
            Ok(Some(record)) if Some(&record.commit) == made.commit.as_ref() => {
                self.with_record(settings, record, made)
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

    /// The registered objects, each with what it showed.
    fn of(&self, settings: &WebhookSettings) -> Vec<WebhookObject> {
        let shown = |name: &String| self.objects.iter().find(|one| one.name == *name).cloned();
        let all = settings.objects.iter();
        all.map(|one| shown(&one.name).unwrap_or_else(|| WebhookObject::silent(one.name.clone())))
            .collect()
    }

    /// With what the commit was rendered from, and what it holds.
    fn with_record(
        &self,
        settings: &WebhookSettings,
        record: &KnownRecord,
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
            made.state = ClusterState::Absent;
            made.message = shortened(&text);
            return made;
        }
        let shown = self.of(settings);
        for name in record.assignments.iter().take(MAX_ASSIGNMENTS) {
            let Ok(parsed) = name.parse::<Name>() else {
                made.state = ClusterState::Failing;
                let text = format!(
                    "the record names `{}`, which is not a valid name",
                    shortened(name)
                );
                made.message = shortened(&text);
                continue;
            };
            let folder = format!("{}/{name}", stream.cluster_type);
            let covers = settings.objects.iter().zip(&shown);
            let covers = covers.filter(|(one, _)| one.covers(&folder));
            made.assignments
                .push(followed(parsed, &folder, covers.map(|(_, shown)| shown)));
        }
        if record.assignments.len() > MAX_ASSIGNMENTS {
            made.state = ClusterState::Failing;
            made.message =
                format!("more than {MAX_ASSIGNMENTS} assignments, which no report holds");
        }
        made.snapshot = Some(record.snapshot.clone());
        made
    }
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

/// Refuses an event of another site, or of another time.
///
/// # Errors
/// The rule.
pub fn check(site: &str, event: &WebhookEvent, now_ms: i64) -> Result<(), WebhookRefusal> {
    let refuse = |rule, reason| Err(WebhookRefusal { rule, reason });
    if event.site != site {
        let found = shortened(&event.site);
        let reason = format!("expected an event of site `{site}`, found one of `{found}`");
        return refuse("other-site", reason);
    }
    let apart_ms = event.at_ms.saturating_sub(now_ms);
    let minutes = apart_ms.saturating_abs() / 60_000;
    if apart_ms > AHEAD_MS {
        let reason = format!(
            "it is dated {minutes} min ahead of this hub's clock: set the clock that is wrong"
        );
        return refuse("future", reason);
    }
    if apart_ms < -LATE_MS {
        let reason = format!(
            "it was made {minutes} min ago by the cluster's clock: an event counts for an hour"
        );
        return refuse("old", reason);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
