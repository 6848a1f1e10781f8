//! What a site shows: the last of each object of the platform repository, folded event by event.
//!
//! What comes in: what it showed before, its registration, and one event. What goes out: what it shows now, or why the event changes
//! nothing. The newest event of an object counts, and of two of one second the worse. A failure counts whatever is on record: no date
//! that an event states keeps it out. The report is made of it in `cluster`. Pure: the hub's time is an argument.

use std::collections::BTreeMap;

use outhaul_bundle::report::{ObjectStatus, WebhookObject};
use serde::{Deserialize, Serialize};

use crate::event::{WebhookEvent, shortened};
use crate::folder::folder;
use crate::record::KnownRecord;
use crate::seen::Seen;
use crate::settings::WebhookSettings;

/// How far ahead of the hub's clock an event may be dated, in milliseconds; it is ordered as one of the time at which it came.
const AHEAD_MS: i64 = 5 * 60 * 1000;
pub(crate) const HOUR_MS: i64 = 60 * 60 * 1000;
/// How late an event may come, in milliseconds: senders try again for seconds.
const LATE_MS: i64 = HOUR_MS;
/// Bodies of one second that a report names of an object.
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
    /// Of what time the newest event of each object is, at most the hub's when it came: what is older changes nothing.
    #[serde(default)]
    pub(crate) newest_ms: BTreeMap<String, i64>,
    /// The bodies that came.
    #[serde(default)]
    pub(crate) seen: Seen,
}

/// Why an event is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookRefusal {
    /// The rule.
    pub rule: &'static str,
    /// What was expected and found.
    pub reason: String,
}

/// An event of its site and of a time that counts: see [`check`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedEvent(pub(crate) WebhookEvent);

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
        now_ms: i64,
    ) -> Option<String> {
        let mut after = self.clone();
        after.take(settings, event, now_ms);
        after.commit().ok().flatten()
    }

    /// The one commit that the objects show; the error names two of several.
    pub(crate) fn commit(&self) -> Result<Option<String>, (String, String)> {
        let mut found: Option<&String> = None;
        for commit in self.objects.iter().filter_map(|one| one.commit.as_ref()) {
            match found {
                Some(other) if other != commit => return Err((other.clone(), commit.clone())),
                _ => found = Some(commit),
            }
        }
        Ok(found.cloned())
    }

    /// Whether an event can be remembered. A failure need not be: one that comes again closes a gate, and opens none.
    pub(crate) fn has_room(&self, event: &WebhookEvent, now_ms: i64) -> bool {
        event.status == ObjectStatus::Failed || self.seen.has_room(now_ms.saturating_sub(LATE_MS))
    }

    /// Takes an event that was checked.
    pub(crate) fn take(
        &mut self,
        settings: &WebhookSettings,
        event: &WebhookEvent,
        now_ms: i64,
    ) -> Change {
        let registered = settings.objects.iter().find(|one| one.name == event.object);
        let Some(registered) = registered else {
            self.foreign_events = self.foreign_events.saturating_add(1);
            self.foreign.retain(|name| *name != event.object);
            self.foreign.push(event.object.clone());
            let more = self.foreign.len().saturating_sub(MAX_FOREIGN);
            self.foreign.drain(..more);
            return Change::Foreign;
        };
        if self.seen.has(&event.body) {
            return Change::Known;
        }
        let elsewhere = elsewhere(settings, registered.path.as_deref(), event);
        let is_failure = event.status == ObjectStatus::Failed || elsewhere.is_some();
        // What is dated ahead is of the time at which it came: no later event is older than that.
        let of_ms = event.at_ms.min(now_ms);
        let on_record = self.object(&event.object).at_ms.min(now_ms);
        let newest_ms = *self.newest_ms.get(&event.object).unwrap_or(&on_record);
        if of_ms < newest_ms && !is_failure {
            return Change::Known;
        }
        let late_ms = newest_ms.saturating_sub(of_ms);
        self.newest_ms
            .insert(event.object.clone(), of_ms.max(newest_ms));
        self.seen
            .add(&event.body, event.at_ms, now_ms.saturating_sub(LATE_MS));
        let object = self.object(&event.object);
        // Under way is no success: a failure stays on record with its own time and words until the object succeeds.
        if object.status == ObjectStatus::Failed
            && event.status == ObjectStatus::InProgress
            && elsewhere.is_none()
        {
            return Change::Object;
        }
        let same_second = event.at_ms == object.at_ms;
        if !same_second {
            object.bodies.clear();
        }
        object.bodies.push(event.body);
        let more = object.bodies.len().saturating_sub(MAX_BODIES);
        object.bodies.drain(..more);
        object.at_ms = event.at_ms;
        let overrides = late_ms > 0 && object.status != ObjectStatus::Failed;
        let said = |text: &str| match overrides {
            true => late(&event.object, text, late_ms),
            false => text.to_owned(),
        };
        if let Some(reason) = elsewhere {
            object.status = ObjectStatus::Failed;
            object.message = said(&reason);
            object.commit = None;
            return Change::Object;
        }
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
        object.message = said(&event.message);
        // A failure need not name the commit that failed; what was applied before is no longer known to be what runs.
        object.commit.clone_from(&event.commit);
        Change::Object
    }

    /// The registered objects, each with what it showed.
    pub(crate) fn of(&self, settings: &WebhookSettings) -> Vec<WebhookObject> {
        let shown = |name: &String| self.objects.iter().find(|one| one.name == *name).cloned();
        let all = settings.objects.iter();
        all.map(|one| shown(&one.name).unwrap_or_else(|| WebhookObject::silent(one.name.clone())))
            .collect()
    }
}

/// What is said of a failure that came after an event of later: the controller may have succeeded since, and a new event says so.
fn late(object: &str, text: &str, late_ms: i64) -> String {
    let mut parts = object.splitn(3, '/');
    let (kind, namespace, name) = (parts.next(), parts.next(), parts.next());
    let (namespace, name) = (namespace.unwrap_or_default(), name.unwrap_or_default());
    let command = match kind {
        Some("Application") => format!("argocd app sync {namespace}/{name}"),
        Some("HelmRelease") => {
            format!("flux reconcile helmrelease {name} -n {namespace} --force")
        }
        kind => {
            let kind = kind.unwrap_or_default().to_ascii_lowercase();
            format!("flux reconcile {kind} {name} -n {namespace}")
        }
    };
    let seconds = late_ms.saturating_add(999) / 1000;
    shortened(&format!(
        "this failure came late, and is {seconds} s older than an event that came before it: a new event of the object replaces it (`{command}` on the \
         cluster); {text}"
    ))
}

/// Why a registered object applies something else than what it was registered with, as far as the event names it.
fn elsewhere(
    settings: &WebhookSettings,
    registered: Option<&str>,
    event: &WebhookEvent,
) -> Option<String> {
    if let Some(other) = event.repository.as_ref()
        && !settings.is_repository(other)
    {
        return Some(shortened(&format!(
            "it follows another repository, `{other}`, and this site was registered with `{}`",
            settings.repository
        )));
    }
    let (registered, other) = (registered?, event.path.as_deref()?);
    if folder(other).as_deref() == Ok(registered) {
        return None;
    }
    let registered = match registered {
        "" => ".",
        path => path,
    };
    Some(shortened(&format!(
        "it applies `{other}` of the repository, and was registered with `{registered}`"
    )))
}

/// Refuses an event of another site, or of another time.
///
/// # Errors
/// The rule.
pub fn check(site: &str, event: WebhookEvent, now_ms: i64) -> Result<CheckedEvent, WebhookRefusal> {
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
    Ok(CheckedEvent(event))
}

#[cfg(test)]
mod tests;
