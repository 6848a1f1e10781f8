//! What all requests share: one writer, a pool of readers, a separate connection for liveness, and lanes.
//!
//! What comes in: work on the store. What goes out: its result, worked out off the event loop. Readers wait
//! neither for one another nor for the writer, and whether the store answers is never asked through a
//! connection that a query uses.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::Duration;

use axum::http::StatusCode;
use outhaul_access::{Group, ToWrite, TurnedAway};
use outhaul_kit::durable;
use outhaul_kit::text::chain;
use outhaul_oidc::Oidc;
use outhaul_webhooks::Webhooks;
use tokio::sync::Semaphore;

use super::clock_log::ClockLog;
use super::door::Door;
use super::meter::Meter;
use super::problem::DAMAGED;
use super::rate::{EventRates, Rate};
use crate::clock;
use crate::error::HubError;
use crate::ingest::Counters;
use crate::state::Hub;
use crate::store::{AccessEntry, IngestRefusal, NETWORK, Store, StoreError};
use crate::time;
use crate::view::{FleetView, Reading};
use outhaul_listen::lanes::Lane;

/// Connections that answer questions.
pub(super) const READERS: usize = 8;
/// Connections that look up keys for batches of reports.
const CHECKERS: usize = 2;
/// Free bytes below which no batch of reports can be taken in.
const LEAST_FREE_BYTES: u64 = 256 * 1024;
/// What is written to see whether the store can be written again, and its size.
const TRIAL: &str = "write-trial";
const TRIAL_BYTES: usize = 64 * 1024;
/// How often it is looked whether the database is still there, and for how long requests are answered when it is not.
const LOOKED_AT: Duration = Duration::from_secs(2);
const ANSWERED_FOR: Duration = Duration::from_secs(5);
/// Refusals recorded in one second of what the network sends.
const REFUSALS_A_SECOND: u32 = 20;
/// Logins of one token or person, and answers of gates that one token puts on record, in one minute.
const LOGINS_A_MINUTE: usize = 20;
const RECORDED_A_MINUTE: usize = 60;
/// Explanations that one token sends, and outcomes of checks that one states, in one minute.
const EXPLAINED_A_MINUTE: usize = 60;
const CHECKED_A_MINUTE: usize = 60;

/// What all requests share.
#[derive(Debug)]
pub(super) struct Shared {
    hub: Mutex<Hub>,
    readers: Pool,
    checkers: Pool,
    liveness: Mutex<Store>,
    pub(super) fleet: String,
    pub(super) reports: Arc<Lane>,
    pub(super) requests: Arc<Lane>,
    pub(super) bundles: Arc<Lane>,
    pub(super) forms: Arc<Lane>,
    /// Whether anybody may read.
    pub(super) open_reading: bool,
    /// Whether browsers come over TLS.
    pub(super) is_tls: bool,
    /// The identity provider at which people log in.
    pub(super) oidc: Option<Arc<Oidc>>,
    /// Where browsers show tokens, in the form of the login.
    pub(super) tokens: Door,
    /// Where programs show tokens: what is wrong there keeps nobody from the form.
    pub(super) bearers: Door,
    /// What was turned away, to be put on record.
    away: TurnedAway,
    /// Where people come back from the identity provider: what is wrong there keeps nobody's token out.
    pub(super) logins: Door,
    /// Sessions that each begins: they are on record for good.
    pub(super) begun: Rate,
    /// Answers of gates that each puts on record.
    pub(super) recorded: Rate,
    /// Explanations that each sends.
    pub(super) explained: Rate,
    /// Outcomes of checks that each states.
    pub(super) checked: Rate,
    pub(super) webhooks: Webhooks,
    pub(super) webhook_rates: EventRates,
    /// One explanation is checked at a time: it takes long, and reports do not wait for it.
    explaining: Arc<Semaphore>,
    refusals: Mutex<(i64, u32)>,
    /// Whether the last write failed for lack of space or because the file cannot be written.
    write_failed: AtomicBool,
    /// Whether the database was found to be damaged: from then on nothing is written, and no gate is open.
    damaged: Arc<AtomicBool>,
    state: PathBuf,
    pub(super) counters: Counters,
    pub(super) meter: Meter,
    clock_log: ClockLog,
}

/// Connections of which each is used by one piece of work at a time.
#[derive(Debug)]
struct Pool {
    free: Semaphore,
    stores: Mutex<Vec<Store>>,
}

impl Pool {
    fn open(state: &Path, count: usize) -> Result<Self, HubError> {
        let stores: Result<Vec<_>, _> = (0..count).map(|_| Store::reader(state)).collect();
        Ok(Self {
            free: Semaphore::new(count),
            stores: Mutex::new(stores?),
        })
    }

    fn take(&self) -> Option<Store> {
        self.stores
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop()
    }

    fn put_back(&self, store: Store) {
        self.stores
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(store);
    }
}

impl Shared {
    pub(super) fn new(
        hub: Hub,
        state: &Path,
        open_reading: bool,
        is_tls: bool,
    ) -> Result<Self, HubError> {
        let secrets = hub.webhook_secrets().ok();
        let damaged = Arc::new(AtomicBool::new(hub.store.damage().is_some()));
        Ok(Self {
            readers: Pool::open(state, READERS)?,
            checkers: Pool::open(state, CHECKERS)?,
            liveness: Mutex::new(Store::reader(state)?),
            fleet: hub.fleet().to_owned(),
            hub: Mutex::new(hub),
            reports: Lane::new(64, 256 * 1024 * 1024),
            requests: Lane::new(32, 4 * 1024 * 1024),
            bundles: Lane::new(4, 160 * 1024 * 1024),
            forms: Lane::new(32, 512 * 1024),
            open_reading,
            is_tls,
            oidc: None,
            tokens: Door::new("tokens that do not hold"),
            bearers: Door::new("tokens that do not hold"),
            away: TurnedAway::default(),
            logins: Door::new("logins that came to nothing"),
            begun: Rate::new(LOGINS_A_MINUTE, "logins"),
            recorded: Rate::new(RECORDED_A_MINUTE, "new answers of gates on record"),
            explained: Rate::new(EXPLAINED_A_MINUTE, "explanations"),
            checked: Rate::new(CHECKED_A_MINUTE, "outcomes of checks"),
            webhooks: Webhooks::new(secrets),
            webhook_rates: EventRates::new(),
            explaining: Arc::new(Semaphore::new(1)),
            refusals: Mutex::new((0, 0)),
            write_failed: AtomicBool::new(false),
            damaged,
            state: state.to_owned(),
            counters: Counters::default(),
            meter: Meter::new(Store::reader(state)?),
            clock_log: ClockLog::default(),
        })
    }

    /// The state folder.
    pub(super) fn state(&self) -> &Path {
        &self.state
    }

    /// The same note of damage, for work beside the server that has a connection of its own.
    pub(super) fn damage(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.damaged)
    }

    /// Whether the database was found to be damaged.
    pub(super) fn is_damaged(&self) -> bool {
        self.damaged.load(Ordering::Relaxed)
    }

    /// Notes that what was tried came upon damage, where it did.
    pub(super) fn note_damage<T>(&self, done: &Result<T, HubError>) {
        if let Err(error) = done
            && error.is_damage()
            && !self.damaged.swap(true, Ordering::Relaxed)
        {
            let error = chain(error);
            tracing::error!(
                error,
                "the hub's database is damaged: it is only read from now on, and every gate is closed; bring it back from a backup"
            );
        }
    }

    /// Whether the last write succeeded.
    pub(super) fn is_writable(&self) -> bool {
        !self.write_failed.load(Ordering::Relaxed)
    }

    /// Whether the database is still the file that was opened. Waits for nothing: who asks the store at this very moment gets the
    /// answer to that as well.
    pub(super) fn in_place(&self) -> bool {
        match self.liveness.try_lock() {
            Ok(store) => store.is_in_place(),
            Err(TryLockError::Poisoned(store)) => store.into_inner().is_in_place(),
            Err(TryLockError::WouldBlock) => true,
        }
    }

    /// Ends when the database is no longer the file that was opened, and whoever asked in the meantime got the answer.
    pub(super) async fn replaced(self: Arc<Self>) {
        let mut tick = tokio::time::interval(LOOKED_AT);
        loop {
            tick.tick().await;
            if !self.in_place() {
                tracing::error!(
                    "the hub's database was removed or replaced: nothing more is accepted or acknowledged, and the hub ends"
                );
                tokio::time::sleep(ANSWERED_FOR).await;
                return;
            }
        }
    }

    /// Whether the store answers. No query is waited for.
    pub(super) async fn alive(self: &Arc<Self>) -> Result<(), HubError> {
        let shared = Arc::clone(self);
        off_the_loop(move || {
            let mut store = shared
                .liveness
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            Ok(store.read(|session| session.setting("fleet")).map(drop)?)
        })
        .await
    }

    /// What is wrong with this machine's clock, which the log says once. No query is waited for.
    pub(super) async fn clock(self: &Arc<Self>) -> Result<Option<clock::Odd>, HubError> {
        let shared = Arc::clone(self);
        off_the_loop(move || {
            let mut store = shared
                .liveness
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            let odd = clock::check(&mut store, time::now_ms())?;
            shared.clock_log.look(odd.as_ref());
            Ok(odd)
        })
        .await
    }

    /// Answers a question.
    pub(super) async fn look<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&mut Store, &str) -> Result<T, HubError> + Send + 'static,
    ) -> Result<T, HubError> {
        self.in_pool(|shared| &shared.readers, work).await
    }

    /// Checks what came in, before anything is written.
    pub(super) async fn check<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&mut Store, &str) -> Result<T, HubError> + Send + 'static,
    ) -> Result<T, HubError> {
        self.in_pool(|shared| &shared.checkers, work).await
    }

    /// Checks an explanation, without the store. It is not begun before the one before it ends, also where who sent that hung up.
    pub(super) async fn check_explanation<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce() -> Result<T, HubError> + Send + 'static,
    ) -> Result<T, HubError> {
        // Never closed, so this waits and does not fail.
        let one = Arc::clone(&self.explaining).acquire_owned().await;
        off_the_loop(move || {
            let done = work();
            drop(one);
            done
        })
        .await
    }

    async fn in_pool<T: Send + 'static>(
        self: &Arc<Self>,
        pool: fn(&Self) -> &Pool,
        work: impl FnOnce(&mut Store, &str) -> Result<T, HubError> + Send + 'static,
    ) -> Result<T, HubError> {
        // Never closed, so this waits and does not fail.
        let _free = pool(self).free.acquire().await;
        let shared = Arc::clone(self);
        off_the_loop(move || {
            let Some(mut store) = pool(&shared).take() else {
                let source = std::io::Error::other("no connection is free");
                let doing = "answer a request".to_owned();
                return Err(HubError::Serve { doing, source });
            };
            let done = work(&mut store, &shared.fleet);
            shared.note_damage(&done);
            pool(&shared).put_back(store);
            done
        })
        .await
    }

    /// Writes. One at a time, so what takes long does not belong in here.
    pub(super) async fn change<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&mut Hub) -> Result<T, HubError> + Send + 'static,
    ) -> Result<T, HubError> {
        let shared = Arc::clone(self);
        off_the_loop(move || {
            let mut hub = shared.hub.lock().unwrap_or_else(PoisonError::into_inner);
            // What is written into a file that is gone would be acknowledged and found by nobody.
            hub.refuse_replaced()?;
            if shared.is_damaged() {
                return Err(damaged(hub.store.path()).into());
            }
            let done = work(&mut hub);
            drop(hub);
            shared.note_damage(&done);
            let failed = matches!(&done, Err(error) if error.is_unwritable());
            if failed || done.is_ok() {
                shared.write_failed.store(failed, Ordering::Relaxed);
            }
            done
        })
        .await
    }

    /// Why nothing can be taken in: the disk is full, or the last write failed and a trial fails as well.
    pub(super) async fn unwritable(self: &Arc<Self>) -> Result<Option<String>, HubError> {
        if self.is_damaged() {
            return Ok(Some(DAMAGED.to_owned()));
        }
        let free = durable::free_bytes(&self.state)?;
        if free < LEAST_FREE_BYTES {
            return Ok(Some(format!(
                "{free} bytes are free on the disk of the hub's state folder, which is too little to accept reports; free some space"
            )));
        }
        if !self.write_failed.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let tried = self
            .change(|hub| {
                hub.store
                    .write(|session| session.set_setting(TRIAL, &"x".repeat(TRIAL_BYTES)))?;
                Ok(hub.store.write(|session| session.set_setting(TRIAL, ""))?)
            })
            .await;
        match tried {
            Ok(()) => Ok(None),
            Err(error) if error.is_unwritable() => Ok(Some(
                "the store cannot be written: see the hub's log for why; nothing that was acknowledged is lost"
                    .to_owned(),
            )),
            Err(error) => Err(error),
        }
    }

    /// Everything that is shown, turned into `T` off the event loop as well.
    pub(super) async fn fleet<T: Send + 'static>(
        self: &Arc<Self>,
        shown: impl FnOnce(FleetView) -> Result<T, HubError> + Send + 'static,
    ) -> Result<T, HubError> {
        let now_ms = time::now_ms();
        self.look(move |store, fleet| {
            let reading = store.read(|session| Reading::take(session, now_ms))?;
            shown(reading.view(fleet, now_ms))
        })
        .await
    }

    /// Puts the use of a right on record.
    pub(super) async fn record(self: &Arc<Self>, entry: AccessEntry) -> Result<(), HubError> {
        self.change(move |hub| Ok(hub.store.write(|session| session.add_access(&entry))?))
            .await
    }

    /// Puts on record that a request was turned away, together with those like it. That it cannot be written changes no answer.
    /// `write`: of what would have changed something, the call.
    pub(super) async fn turned_away(
        self: &Arc<Self>,
        entry: AccessEntry,
        status: StatusCode,
        write: Option<String>,
    ) {
        let group = Group {
            peer: entry.peer.clone(),
            who: entry.who.clone(),
            action: entry.action.clone(),
            status: status.as_u16(),
            write,
        };
        let first = self.away.count(group, &entry.detail, entry.at_ms);
        let Some(first) = first else { return };
        let shared = Arc::clone(self);
        // To its end also where whoever asks hangs up: nobody else writes of this group meanwhile.
        let written = tokio::spawn(async move {
            let mut next = Some(first);
            while let Some(write) = next {
                let id = shared.put_refusal(&entry, &write).await;
                next = shared.away.written(&write, id);
            }
        });
        let _ = written.await;
    }

    /// Writes one of them; its number, unless it cannot be written.
    async fn put_refusal(self: &Arc<Self>, entry: &AccessEntry, write: &ToWrite) -> Option<i64> {
        let entry = AccessEntry {
            peer: write.group.peer.clone(),
            who: write.group.who.clone(),
            action: write.group.action.clone(),
            detail: write.detail.clone(),
            ..entry.clone()
        };
        let before = write.id;
        let put = move |hub: &mut Hub| {
            let id = hub
                .store
                .write(|session| session.put_refusal(&entry, before));
            Ok(id?)
        };
        match self.change(put).await {
            Ok(id) => Some(id),
            Err(error) => {
                let error = error.to_string();
                tracing::error!(error, "a refusal is not put on record");
                None
            }
        }
    }

    /// Records a refusal, as long as there are few of them: untrusted parties must not keep the store busy.
    pub(super) async fn refuse(
        self: &Arc<Self>,
        (rule, site): (&str, Option<&str>),
        message: String,
        now_ms: i64,
    ) -> Result<(), HubError> {
        {
            let mut budget = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
            let second = now_ms.div_euclid(1000);
            if budget.0 != second {
                *budget = (second, 0);
            }
            budget.1 += 1;
            if budget.1 > REFUSALS_A_SECOND {
                return Ok(());
            }
        }
        let refusal = IngestRefusal {
            at_ms: now_ms,
            source: NETWORK.to_owned(),
            site: site.map(str::to_owned),
            rule: rule.to_owned(),
            message,
            times: 1,
            first_ms: now_ms,
        };
        self.change(move |hub| Ok(hub.store.write(|session| session.add_refusal(&refusal))?))
            .await
    }
}

fn damaged(path: &Path) -> StoreError {
    StoreError::Damaged {
        path: path.to_owned(),
        problem: "a question came upon it".to_owned(),
    }
}

pub(super) async fn off_the_loop<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, HubError> + Send + 'static,
) -> Result<T, HubError> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| {
            let source = std::io::Error::other(error);
            Err(HubError::Serve {
                doing: "finish a request".to_owned(),
                source,
            })
        })
}
