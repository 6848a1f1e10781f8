//! Rounds until the process is stopped.
//!
//! What comes in: a [`Service`], the time, and who is informed. What goes out: rounds, one after another: at
//! once, then every interval, and whenever the hook is called; answers over HTTP; and notifications to systemd.
//! One thread works, and the other answers. SIGTERM and SIGINT end it after the step in hand,
//! and a second one at once, with the programs that it started.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use outhaul_kit::heartbeat::Heartbeat;
use outhaul_kit::interrupt;
use outhaul_kit::service::{NotifyState, Watchdog, notify};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

use super::hook::HookSecret;
use super::server::{self, Board, EnvironmentStatus, Shared};
use super::{CHAIN, RoundContext, ServeError, Service};

/// How often the worker looks whether it is to stop, and shows that it lives.
const LOOK: Duration = Duration::from_secs(5);
/// How long requests may still take after the signal to stop.
const STOP_WITHIN: Duration = Duration::from_secs(5);

/// Serves until the process is stopped. `ready` is called once, with the address when there is one.
///
/// # Errors
/// [`ServeError`] when the secret or the address cannot be used, or the state cannot be written.
pub fn run(
    service: Service,
    clock: fn() -> Timestamp,
    tell: fn(&str),
    ready: impl FnOnce(Option<SocketAddr>),
) -> Result<(), ServeError> {
    let config = service.config();
    let listen = config.listen;
    let secret = config.webhook_secret_file.as_deref();
    let secret = secret.map(HookSecret::read).transpose()?;
    let heartbeat = Heartbeat::default();
    let board = Arc::new(Board::default());
    let (wake, woken) = mpsc::sync_channel(1);
    let (finished, done) = oneshot::channel();
    let shared = Shared {
        board: Arc::clone(&board),
        secret,
        wake: wake.clone(),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(failed("start"))?;
    let result = runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).map_err(failed("wait for signals"))?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(failed("wait for signals"))?;
        let (stop, stopped) = oneshot::channel::<()>();
        let mut serving = None;
        let mut address = None;
        if let Some(wanted) = listen {
            let doing = format!("listen on `{wanted}`");
            let listener = TcpListener::bind(wanted).await.map_err(failed(&doing))?;
            address = Some(listener.local_addr().map_err(failed(&doing))?);
            let app = axum::serve(listener, server::router(shared));
            let app = app.with_graceful_shutdown(async {
                // Also when the sender is gone.
                let _ = stopped.await;
            });
            serving = Some(tokio::spawn(app.into_future()));
        }
        let worker = Worker {
            service,
            clock,
            tell,
            heartbeat: heartbeat.clone(),
            board,
        };
        let worker = thread::Builder::new()
            .name("rounds".into())
            .spawn(move || {
                let result = worker.work(&woken);
                // The other side may have ended first.
                let _ = finished.send(());
                result
            })
            .map_err(failed("start the working thread"))?;
        ready(address);
        notify(NotifyState::Ready);
        let mut done = done;
        let mut watchdog = Watchdog::of_service();
        let mut tick = tokio::time::interval(watchdog.interval());
        loop {
            let code;
            tokio::select! {
                _ = &mut done => break,
                _ = terminate.recv() => code = 143,
                _ = interrupt.recv() => code = 130,
                _ = tick.tick() => {
                    watchdog.feed(&heartbeat);
                    continue;
                }
            }
            if heartbeat.is_cancelled() {
                tell("stopping at once: nothing half-written is left");
                interrupt::end(code, tell);
            }
            tell("stopping after the step in hand; a second signal stops at once");
            notify(NotifyState::Stopping);
            heartbeat.cancel();
            // It may be awake already.
            let _ = wake.try_send(());
        }
        drop(stop);
        if let Some(serving) = serving {
            // Whoever has not read his answer by then does not get it.
            let _ = tokio::time::timeout(STOP_WITHIN, serving).await;
        }
        let broken = || failed("go on")(std::io::Error::other("the working thread broke down"));
        worker.join().unwrap_or_else(|_| Err(broken()))
    });
    runtime.shutdown_timeout(STOP_WITHIN);
    result
}

fn failed(doing: &str) -> impl FnOnce(std::io::Error) -> ServeError {
    let doing = doing.to_owned();
    move |source| ServeError::System { doing, source }
}

struct Worker {
    service: Service,
    clock: fn() -> Timestamp,
    tell: fn(&str),
    heartbeat: Heartbeat,
    board: Arc<Board>,
}

impl Worker {
    fn work(mut self, woken: &Receiver<()>) -> Result<(), ServeError> {
        let interval = self.service.config().interval;
        self.show(None);
        while !self.heartbeat.is_cancelled() {
            self.board.change(|status| status.running = true);
            notify(NotifyState::Status("looking for changes"));
            let around = RoundContext {
                clock: self.clock,
                tell: &self.tell,
                heartbeat: &self.heartbeat,
            };
            let wrong = self.service.round(around)?;
            let next = (self.clock)()
                .checked_add(SignedDuration::try_from(interval).unwrap_or(SignedDuration::MAX))
                .ok();
            self.show(next);
            let chain = wrong.get(CHAIN).map(|problem| problem.text.clone());
            self.board.change(|status| {
                status.rounds += 1;
                status.running = false;
                status.promotion = chain;
            });
            notify(NotifyState::Status(&summary(&self.service, wrong.keys())));
            self.wait(interval, woken);
        }
        Ok(())
    }

    /// Until it is time, the hook is called, or it is to stop.
    fn wait(&self, interval: Duration, woken: &Receiver<()>) {
        let begun = Instant::now();
        while !self.heartbeat.is_cancelled() {
            self.heartbeat.beat();
            let left = interval.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return;
            }
            match woken.recv_timeout(left.min(LOOK)) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Puts on the board what the state says.
    fn show(&self, next_run: Option<Timestamp>) {
        let mut environments = std::collections::BTreeMap::new();
        for one in &self.service.config().environments {
            let known = self.service.state().environments.get(&one.name).cloned();
            let known = known.unwrap_or_default();
            let mut shown = EnvironmentStatus {
                last_success: known.last_success,
                last_error: known.trouble,
                next_run,
                ..EnvironmentStatus::default()
            };
            if let Some(done) = known.done {
                shown.last_snapshot = Some(done.snapshot);
                shown.broken = done.broken;
            }
            environments.insert(one.name.clone(), shown);
        }
        self.board.change(|status| {
            status.environments = environments;
            status.next_run = next_run;
        });
    }
}

/// How it is, in one line for `systemctl status`.
fn summary<'a>(service: &Service, wrong: impl Iterator<Item = &'a String>) -> String {
    let wrong: Vec<_> = wrong.map(|name| format!("`{name}`")).collect();
    let count = service.config().environments.len();
    match wrong.is_empty() {
        true => format!("{count} environments up to date"),
        false => format!("{count} environments, trouble with {}", wrong.join(", ")),
    }
}
