//! Alerting: the hub looks at itself regularly, and sends what changed to who wants it.
//!
//! What comes in: the state folder, and the file that names destinations. What goes out: alerts in the store, each with the destinations
//! that wait for it, and messages to these. Looking and sending are apart: what is not sent yet is in the store, and
//! goes out later, also after a restart. A message may come twice, never not at all without being listed.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use outhaul_alerts::change::{Change, Condition, Kind, UNREADABLE, changes};
use outhaul_alerts::message::Message;
use outhaul_alerts::settings::{AlertSettings, DestinationSettings, SettingsError};
use outhaul_alerts::{Destination, mail, webhook};
use outhaul_bundle::hub_api::{AlertEntry, Decision};
use outhaul_kit::durable;

use crate::error::HubError;
use crate::store::{Store, StoreError, StoredAlert};
use crate::time::{self, DAY_MS};
use crate::view::{GatesOf, Reading, SiteRow, gates_of_each};

/// Most bytes of the file.
const MAX_FILE_BYTES: u64 = 256 * 1024;
/// Refusals and requests looked at.
const LISTED: u32 = 500;
/// Most alerts of one message.
const AT_ONCE: u32 = 5_000;
/// How long one process may take to send.
const CLAIM_MS: i64 = 3 * 60 * 1000;
/// How long the hub tries.
const GIVE_UP_MS: i64 = 3 * DAY_MS;
/// The first wait after a failure, and the longest.
const WAIT_MS: (i64, i64) = (15_000, 60 * 60 * 1000);
/// How often the threads look whether there is something to do.
const TICK: Duration = Duration::from_secs(1);

/// Reads the file that names destinations.
///
/// # Errors
/// [`HubError::Usage`] with what is wrong and where.
pub fn settings(path: &Path) -> Result<AlertSettings, HubError> {
    let usage = |error: &SettingsError| HubError::Usage {
        problem: error.to_string(),
        help: "docs/hub-alerts.md has an example".to_owned(),
    };
    let bytes = durable::read(path, MAX_FILE_BYTES)?;
    let text = String::from_utf8_lossy(&bytes);
    AlertSettings::parse(path, &text).map_err(|error| usage(&error))
}

/// Everything that alerts are about, as it is now.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn conditions(store: &mut Store, now_ms: i64) -> Result<Vec<Condition>, StoreError> {
    let mut all = Vec::new();
    Reading::in_parts(store, now_ms, |reading| {
        let rows = reading.site_rows(now_ms).into_iter();
        all.extend(rows.filter(|row| row.verdict != "revoked").map(of_site));
    })?;
    store.read(|session| {
        let gates = gates_of_each(session, now_ms)?;
        all.extend(gates.into_iter().flat_map(of_gates));
        for refusal in session.refusals(LISTED)? {
            let site = refusal.site.as_deref().unwrap_or_default();
            let lane = if refusal.source == crate::store::NETWORK {
                "network"
            } else {
                "file"
            };
            all.push(Condition {
                kind: Kind::Refusal,
                key: format!("{lane}/{}/{site}", refusal.rule),
                subject: refusal.rule.clone(),
                environment: None,
                // At most once a day: whoever sends it all the time is one line.
                status: refusal.at_ms.div_euclid(DAY_MS).to_string(),
                message: format!("{}: {} times: {}", site, refusal.times, refusal.message),
            });
        }
        for request in session.pending_requests(LISTED)? {
            all.push(Condition {
                kind: Kind::Request,
                key: request.key_id.clone(),
                subject: request.site.clone(),
                environment: None,
                status: "waiting".to_owned(),
                message: format!(
                    "key {} asks to be approved; `outhaul-hub site` and the fleet page show it",
                    request.key_id
                ),
            });
        }
        for act in session.acts_in_force(now_ms)? {
            let about = act.site.clone().or_else(|| act.environment.clone());
            all.push(Condition {
                kind: Kind::Act,
                key: act.id.to_string(),
                subject: about.unwrap_or_default(),
                environment: act.environment.clone(),
                status: act.kind.as_str().to_owned(),
                message: format!("by {}: {}", act.by, act.reason),
            });
        }
        Ok::<_, StoreError>(())
    })?;
    Ok(all)
}

/// The gates of one environment; where they cannot be told, that is what somebody is to get to know.
fn of_gates((environment, gates): GatesOf) -> Vec<Condition> {
    let condition = |key: String, status: &str, message: String| Condition {
        kind: Kind::Gate,
        key,
        subject: environment.clone(),
        environment: Some(environment.clone()),
        status: status.to_owned(),
        message,
    };
    match gates {
        Ok(decisions) => decisions
            .iter()
            .map(|decision| {
                let to = decision.to.as_deref().unwrap_or_default();
                let key = format!("{}/{to}@{}", decision.environment, decision.commit);
                condition(key, decision.verdict.as_str(), of_gate(decision))
            })
            .collect(),
        Err(problem) => {
            let message = format!("{problem}; sites and other environments are looked at");
            vec![condition(environment.clone(), UNREADABLE, message)]
        }
    }
}

fn of_gate(decision: &Decision) -> String {
    let commit: String = decision.commit.chars().take(12).collect();
    let to = decision
        .to
        .as_deref()
        .map_or_else(String::new, |to| format!(" to {to}"));
    let counted = format!(
        "commit {commit}{to}: {} of {} sites confirm",
        decision.confirmed, decision.counted
    );
    match decision.reasons.first() {
        None => counted,
        Some(first) => format!("{counted}; {first}"),
    }
}

fn of_site(row: SiteRow) -> Condition {
    let reported = row.attempt.clone().unwrap_or_else(|| row.message.clone());
    let message = match row.verdict {
        "conflict" => row.conflict.clone().unwrap_or_default(),
        "stale" => format!("last contact {}", row.last_seen_ago),
        "ok" => "all is as desired".to_owned(),
        _ => reported,
    };
    Condition {
        kind: Kind::Site,
        key: row.site.clone(),
        subject: row.site,
        environment: Some(row.environment),
        status: row.verdict.to_owned(),
        message,
    }
}

/// Looks once; returns how many alerts were added. Somebody else who looked at something newer is right.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn look(store: &mut Store, settings: &AlertSettings, now_ms: i64) -> Result<usize, StoreError> {
    let now = conditions(store, now_ms)?;
    store.write(|session| {
        if session.alerts_looked_since(now_ms)? {
            return Ok(0);
        }
        let before = session.alerts_known()?;
        let (found, known) = changes(&before, &now);
        for change in &found {
            let wants = |one: &&DestinationSettings| one.wants(&change.now);
            let to = settings.destinations.iter().filter(wants);
            let to: Vec<&str> = to.map(|one| one.name.as_str()).collect();
            session.add_alert(&stored(change, now_ms), &to)?;
        }
        session.set_alerts_known(&before.unwrap_or_default(), &known, now_ms)?;
        Ok(found.len())
    })
}

fn stored(change: &Change, at_ms: i64) -> StoredAlert {
    let now = &change.now;
    StoredAlert {
        id: 0,
        at_ms,
        kind: now.kind.as_str().to_owned(),
        subject: now.subject.clone(),
        environment: now.environment.clone(),
        severity: change.severity.as_str().to_owned(),
        was: change.was.clone(),
        status: now.status.clone(),
        message: now.message.clone(),
    }
}

fn entry(alert: &StoredAlert) -> AlertEntry {
    AlertEntry {
        number: alert.id,
        at: time::rfc3339(alert.at_ms),
        kind: alert.kind.clone(),
        subject: alert.subject.clone(),
        environment: alert.environment.clone(),
        severity: alert.severity.clone(),
        was: alert.was.clone(),
        status: alert.status.clone(),
        message: alert.message.clone(),
    }
}

/// The way to a destination.
pub fn destination(settings: &DestinationSettings) -> Option<Box<dyn Destination>> {
    match (&settings.webhook, &settings.mail) {
        (Some(webhook), _) => Some(Box::new(webhook::Webhook(webhook.clone()))),
        (None, Some(mail)) => Some(Box::new(mail::Mail(mail.clone()))),
        (None, None) => None,
    }
}

/// Sends what is due to one destination, as one message. `None`: nothing was due.
///
/// # Errors
/// [`StoreError`] when the store fails; that a destination takes nothing is recorded.
pub fn send_due(
    store: &mut Store,
    fleet: &str,
    hub: Option<&str>,
    (name, to): (&str, &dyn Destination),
    now_ms: i64,
) -> Result<Option<Result<u64, String>>, StoreError> {
    if !store.read(|session| session.alerts_due(name, now_ms))? {
        return Ok(None);
    }
    let claim = (now_ms, now_ms.saturating_add(CLAIM_MS));
    let due = store.write(|session| session.claim_alerts(name, claim, AT_ONCE))?;
    let Some(first) = due.first() else {
        return Ok(None);
    };
    let attempts = store.read(|session| session.alert_attempts(name, first.id))?;
    let message = Message::of(fleet, name, hub, due.iter().map(entry).collect());
    let sent = to.send(&message);
    let ids: Vec<u64> = due.iter().map(|alert| alert.id).collect();
    let (state, at_ms, problem) = match &sent {
        Ok(()) => ("sent", now_ms, ""),
        Err(problem) if now_ms.saturating_sub(first.at_ms) > GIVE_UP_MS => {
            ("given-up", now_ms, problem.as_str())
        }
        Err(problem) => (
            "waiting",
            now_ms.saturating_add(wait_ms(attempts)),
            problem.as_str(),
        ),
    };
    store.write(|session| session.alerts_went(name, &ids, (state, at_ms, problem)))?;
    Ok(Some(sent.map(|()| message.count())))
}

/// How long to wait after so many failures.
fn wait_ms(attempts: u64) -> i64 {
    let doubled = WAIT_MS.0.saturating_mul(1 << attempts.min(20));
    doubled.min(WAIT_MS.1)
}

/// Looks and sends beside a server, until `stop`.
///
/// # Errors
/// [`HubError`] when a connection to the store cannot be opened.
pub fn start(
    state: &Path,
    fleet: &str,
    settings: &AlertSettings,
    stop: &Arc<AtomicBool>,
) -> Result<(), HubError> {
    let names: Vec<&str> = settings
        .destinations
        .iter()
        .map(|one| one.name.as_str())
        .collect();
    tracing::info!(destinations = names.join(", "), "alerts are sent");
    let mut store = Store::open(state)?;
    let (own, ends) = (settings.clone(), Arc::clone(stop));
    spawn("alerts", move || {
        let every = Duration::from_secs(u64::from(own.look_seconds));
        repeat(&ends, every, || {
            match look(&mut store, &own, time::now_ms()) {
                Ok(0) => {}
                Ok(count) => tracing::info!(count, "alerts"),
                Err(error) => tracing::error!(%error, "cannot look for alerts; it is tried again"),
            }
        });
    })?;
    for one in &settings.destinations {
        let Some(to) = destination(one) else { continue };
        let mut store = Store::open(state)?;
        let (name, hub, fleet) = (one.name.clone(), settings.hub.clone(), fleet.to_owned());
        let every = Duration::from_secs(u64::from(one.every_seconds)).max(TICK);
        let ends = Arc::clone(stop);
        spawn("alerts to one", move || {
            repeat(&ends, every, || {
                let now_ms = time::now_ms();
                let to = (name.as_str(), &*to);
                match send_due(&mut store, &fleet, hub.as_deref(), to, now_ms) {
                    Ok(None) => {}
                    Ok(Some(Ok(count))) => tracing::info!(destination = name, count, "alerts sent"),
                    Ok(Some(Err(problem))) => {
                        tracing::warn!(
                            destination = name,
                            problem,
                            "alerts not sent; they wait in the store"
                        );
                    }
                    Err(error) => tracing::error!(destination = name, %error, "cannot send alerts"),
                }
            });
        })?;
    }
    Ok(())
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), HubError> {
    let started = std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(work);
    started.map(drop).map_err(|source| HubError::Serve {
        doing: format!("start the thread `{name}`"),
        source,
    })
}

/// Does `work` at once and then every so often, until `stop`.
fn repeat(stop: &AtomicBool, every: Duration, mut work: impl FnMut()) {
    while !stop.load(Ordering::Relaxed) {
        work();
        let mut waited = Duration::ZERO;
        while waited < every && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(TICK.min(every));
            waited += TICK;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{self, FLEET, OLD, Site};
    use crate::store::{FILE_NAME, Signed};
    use crate::view::{Board, Environments};

    const NOW: i64 = 1_795_000_000_000;

    /// A hub's store in a folder, with one site and one bundle in `dev` and in `stage`.
    fn store_in(folder: &Path) -> Store {
        let mut store = Store::create(folder).unwrap();
        for environment in ["dev", "stage"] {
            let site = Site::new(&format!("site-{environment}"), environment, "drone");
            let checked = crate::enrol::check(&site.request(), FLEET).unwrap();
            let index = fake::index(&fake::stream(environment, "drone"), 1, OLD);
            let signed = Signed {
                issued_ms: NOW - DAY_MS,
                signed_as: 1,
                expires_ms: NOW + DAY_MS,
            };
            store
                .write(|session| crate::enrol::approve(session, &checked, false, NOW - DAY_MS))
                .unwrap();
            store
                .write(|session| session.add_bundle(&index, fake::content(&index), signed, NOW))
                .unwrap();
        }
        store
    }

    #[test]
    fn rules_that_cannot_be_read_are_announced_and_silence_no_other_environment() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = store_in(folder.path());
        let gates = |store: &mut Store| -> Vec<(String, String)> {
            let all = conditions(store, NOW).unwrap();
            let gates = all.into_iter().filter(|one| one.kind == Kind::Gate);
            gates.map(|one| (one.key, one.status)).collect()
        };
        let pair = |key: String, status: &str| (key, status.to_owned());
        let stage = pair(format!("stage/@{OLD}"), "closed");
        assert_eq!(
            gates(&mut store),
            [pair(format!("dev/@{OLD}"), "closed"), stage.clone()]
        );
        let db = rusqlite::Connection::open(folder.path().join(FILE_NAME)).unwrap();
        let rules = "INSERT INTO gate_rules (id, environment, target, rules, asked_by, at_ms)
                     VALUES (1, 'dev', 'stage', '{\"from\": \"a newer hub\"}', 'pipeline', 1)";
        db.execute(rules, []).unwrap();
        assert_eq!(
            gates(&mut store),
            [pair("dev".to_owned(), "unreadable"), stage]
        );
        let all = conditions(&mut store, NOW).unwrap();
        assert_eq!(all.iter().filter(|one| one.kind == Kind::Site).count(), 2);
        let told = changes(&None, &all).0;
        assert_eq!(told.len(), 1, "{told:?}");
        let all = store.read(|session| Environments::take(session, NOW));
        let page = crate::pages::environments(&all.unwrap(), &crate::pages::Shown::default());
        let page = page.unwrap();
        let pill = r#"<p><span class="pill bad">unreadable</span></p>"#;
        assert_eq!(page.matches(pill).count(), 1, "{page}");
        assert_eq!(page.matches(">closed</span>").count(), 1, "{page}");
        let dev = store.read(|session| Board::of(session, "dev", NOW));
        let board = dev.unwrap().unwrap();
        let page = crate::pages::board(&board, &crate::pages::Shown::default()).unwrap();
        assert!(
            page.contains(pill) && page.contains("from dev to stage"),
            "{page}"
        );
        insta::assert_snapshot!(told[0].now.message, @"its gates decide nothing: the store holds a value that cannot be read: rules of the step from dev to stage; update this hub where a newer one wrote that, or restore a backup; sites and other environments are looked at");
    }

    #[test]
    fn it_waits_longer_each_time_and_at_most_an_hour() {
        let waits: Vec<i64> = [0, 1, 2, 9, 60].map(wait_ms).to_vec();
        assert_eq!(waits, [15_000, 30_000, 60_000, 3_600_000, 3_600_000]);
    }
}
