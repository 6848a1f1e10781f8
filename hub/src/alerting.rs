//! Alerting: the hub looks at itself regularly, and sends what changed to who wants it.
//!
//! What comes in: the state folder, and the file that names destinations. What goes out: alerts in the store, each with the destinations
//! that wait for it, and messages to these. Looking and sending are apart: what is not sent yet is in the store, and
//! goes out later, also after a restart. A message may come twice, never not at all without being listed.

mod conditions;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use outhaul_alerts::change::{Change, READABLE, UNREADABLE, changes};
use outhaul_alerts::message::Message;
use outhaul_alerts::settings::{AlertSettings, DestinationSettings, SettingsError};
use outhaul_alerts::{Destination, mail, webhook};
use outhaul_bundle::hub_api::AlertEntry;
use outhaul_kit::durable;

use self::conditions::{conditions, of_hub};
use crate::error::HubError;
use crate::store::{CORRUPT_HELP, Store, StoreError, StoredAlert};
use crate::time::{self, DAY_MS};

/// Most bytes of the file.
const MAX_FILE_BYTES: u64 = 256 * 1024;
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
    let settings = AlertSettings::parse(path, &text).map_err(|error| usage(&error))?;
    for secret in settings.secret_files() {
        match durable::read_secret(secret, MAX_FILE_BYTES) {
            // It is read again for each message, and may come later.
            Err(error) if error.is_missing() => {}
            found => drop(found?),
        }
    }
    Ok(settings)
}

/// Looks once; returns how many alerts were added. Someone else who looked at something newer is right.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn look(store: &mut Store, settings: &AlertSettings, now_ms: i64) -> Result<usize, StoreError> {
    let (now, is_whole) = match conditions(store, now_ms) {
        Ok(mut all) => {
            all.push(of_hub(READABLE, "it looks again at everything"));
            (all, true)
        }
        // Nothing would be announced for as long as that is so.
        Err(error @ StoreError::Corrupt { .. }) => {
            tracing::error!(%error, "cannot look for alerts; it is tried again");
            let message = format!("nothing else is announced: {error}; {CORRUPT_HELP}");
            (vec![of_hub(UNREADABLE, &message)], false)
        }
        Err(error) => return Err(error),
    };
    store.write(|session| {
        if session.alerts_looked_since(now_ms)? {
            return Ok(0);
        }
        let mut before = session.alerts_known()?;
        if let Some(before) = before.as_mut().filter(|_| !is_whole) {
            // What was not looked at stays as it is known.
            before.retain(|name, _| now.iter().any(|one| one.name() == *name));
        }
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
    (stop, damaged): (&Arc<AtomicBool>, &Arc<AtomicBool>),
) -> Result<(), HubError> {
    let names: Vec<&str> = settings
        .destinations
        .iter()
        .map(|one| one.name.as_str())
        .collect();
    tracing::info!(destinations = names.join(", "), "alerts are sent");
    let mut store = Store::open(state)?;
    let (own, ends) = (settings.clone(), (Arc::clone(stop), Arc::clone(damaged)));
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
        let ends = (Arc::clone(stop), Arc::clone(damaged));
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

/// Does it again and again until the first flag is set; not while the second is: what is to be salvaged is only read.
fn repeat(
    (stop, damaged): &(Arc<AtomicBool>, Arc<AtomicBool>),
    every: Duration,
    mut work: impl FnMut(),
) {
    while !stop.load(Ordering::Relaxed) {
        if !damaged.load(Ordering::Relaxed) {
            work();
        }
        let mut waited = Duration::ZERO;
        while waited < every && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(TICK.min(every));
            waited += TICK;
        }
    }
}

#[cfg(test)]
mod tests {
    use outhaul_alerts::change::AlertKind;

    use super::*;
    use crate::store::{Act, ActKind, FILE_NAME, Signed};
    use crate::view::{Board, Environments};
    use outhaul_test_kit::Site;
    use outhaul_test_kit::plain::{self, FLEET, OLD};

    const NOW: i64 = 1_795_000_000_000;

    /// A hub's store in a folder, with one site and one bundle in `dev` and in `stage`.
    fn store_in(folder: &Path) -> Store {
        let mut store = Store::create(folder).unwrap();
        for environment in ["dev", "stage"] {
            let site = Site::new(&format!("site-{environment}"), environment, "drone");
            let checked = crate::enrol::check(&site.request(), FLEET).unwrap();
            let index = plain::index(&plain::stream(environment, "drone"), 1, OLD);
            let signed = Signed {
                issued_ms: NOW - DAY_MS,
                signed_as: 1,
                expires_ms: NOW + DAY_MS,
            };
            store
                .write(|session| crate::enrol::approve(session, &checked, false, NOW - DAY_MS))
                .unwrap();
            store
                .write(|session| session.add_bundle(&index, plain::content(&index), signed, NOW))
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
            let gates = all.into_iter().filter(|one| one.kind == AlertKind::Gate);
            gates.map(|one| (one.key, one.status)).collect()
        };
        let pair = |key: String, status: &str| (key, status.to_owned());
        let stage = pair(format!("stage/@{OLD}"), "closed");
        let stage_itself = pair("stage".to_owned(), "readable");
        let well = [
            pair("dev".to_owned(), "readable"),
            pair(format!("dev/@{OLD}"), "closed"),
            stage_itself.clone(),
            stage.clone(),
        ];
        assert_eq!(gates(&mut store), well);
        let db = rusqlite::Connection::open(folder.path().join(FILE_NAME)).unwrap();
        let rules = "INSERT INTO gate_rules (id, environment, target, rules, asked_by, at_ms)
                     VALUES (1, 'dev', 'stage', '{\"from\": \"a newer hub\"}', 'pipeline', 1)";
        db.execute(rules, []).unwrap();
        assert_eq!(
            gates(&mut store),
            [pair("dev".to_owned(), "unreadable"), stage_itself, stage]
        );
        let all = conditions(&mut store, NOW).unwrap();
        assert_eq!(
            all.iter().filter(|one| one.kind == AlertKind::Site).count(),
            2
        );
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
        insta::assert_snapshot!(told[0].now.message, @"its gates decide nothing: the store holds a value that cannot be read: rules of the step from dev to stage; update this hub where a newer one wrote that, or restore a backup; sites and other environments are checked");
    }

    #[test]
    fn a_hub_that_cannot_look_says_so_once_to_everybody_and_forgets_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = store_in(folder.path());
        let file = "destinations:\n- name: on-call\n  kinds: [site]\n  environments: [prod]\n  \
                    webhook: {url: 'http://127.0.0.1:9/'}\n";
        let settings = AlertSettings::parse(Path::new("alerts.yaml"), file).unwrap();
        let approval = Act {
            environment: Some("dev".to_owned()),
            commit: Some(OLD.to_owned()),
            ..Act::new(ActKind::Approve, "alice", "release 4", NOW)
        };
        store.write(|session| session.add_act(&approval)).unwrap();
        assert_eq!(look(&mut store, &settings, NOW).unwrap(), 0);
        let known = |store: &mut Store| store.read(|session| session.alerts_known()).unwrap();
        let before = known(&mut store).unwrap();
        let db = rusqlite::Connection::open(folder.path().join(FILE_NAME)).unwrap();
        let kind = |kind: &str| {
            db.execute("UPDATE gate_acts SET kind = $1", [kind])
                .unwrap()
        };
        kind("of a newer hub");
        assert_eq!(look(&mut store, &settings, NOW + 1).unwrap(), 1);
        assert_eq!(look(&mut store, &settings, NOW + 2).unwrap(), 0);
        kind("approve");
        assert_eq!(look(&mut store, &settings, NOW + 3).unwrap(), 1);
        assert_eq!(known(&mut store).unwrap(), before);
        let due = store.write(|session| session.claim_alerts("on-call", (NOW + 4, NOW + 5), 9));
        let due = due.unwrap();
        assert!(due[0].message.contains("of a newer hub"), "{due:?}");
        let due: Vec<&str> = due.iter().map(|alert| alert.status.as_str()).collect();
        assert_eq!(due, [UNREADABLE, READABLE]);
    }

    #[test]
    fn it_waits_longer_each_time_and_at_most_an_hour() {
        let waits: Vec<i64> = [0, 1, 2, 9, 60].map(wait_ms).to_vec();
        assert_eq!(waits, [15_000, 30_000, 60_000, 3_600_000, 3_600_000]);
    }
}
