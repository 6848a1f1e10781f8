//! The server: the page and the API over HTTP or HTTPS, until it is stopped.
//!
//! What comes in: an open hub and where to listen. What goes out: answers, and notifications to systemd when it is
//! ready and that it lives. It stops on SIGTERM or SIGINT: no new connection is taken, running requests
//! are finished, within a deadline. It holds the state's lock, so that there is one server.

mod access;
mod acts;
mod advisories;
mod api;
mod body;
mod bundles;
mod checks;
mod clock_log;
mod door;
mod explanations;
mod faults;
mod forms;
mod gates;
mod kalypso;
mod lists;
mod login;
mod meter;
mod metrics;
mod openapi;
mod otlp;
mod pages;
mod people;
mod problem;
mod rate;
mod records;
mod refusal;
mod removals;
mod reported;
mod shared;
mod shown;
mod values;
mod webhooks;

use std::fs::File;
use std::io::BufReader;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::Extension;
use hyper_util::service::TowerToHyperService;
use outhaul_alerts::settings::AlertSettings;
use outhaul_kit::service::{NotifyState, Watchdog, notify};
use outhaul_listen::{ConnectionLimits, Peer, StartError};
use outhaul_oidc::Oidc;
use outhaul_telemetry::OtlpSettings;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use crate::alerting;
use crate::error::HubError;
use crate::retention;
use crate::state::{Hub, StateError};
use crate::store;
use shared::Shared;

/// How often the clock is looked at where nobody asks.
const CLOCK_EVERY: Duration = Duration::from_secs(60);

/// Where and how to listen.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Address and port; port 0 means a free one.
    pub listen: SocketAddr,
    /// Certificate chain and key, both PEM files; plain HTTP without.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// A published folder, handed out read only below `/repository/` to sites that pull.
    pub repository: Option<PathBuf>,
    /// Whether anybody may read, without a login.
    pub open_reading: bool,
    /// Who gets alerts.
    pub alerts: Option<AlertSettings>,
    /// Who gets metrics pushed.
    pub otlp: Option<OtlpSettings>,
    /// The identity provider at which people log in.
    pub oidc: Option<Arc<Oidc>>,
    /// How many days reports are kept; for ever without.
    pub keep_days: Option<u32>,
}

/// Serves until the process is stopped. `ready` is called once with the address and the scheme
/// when requests are answered.
///
/// # Errors
/// [`HubError`] when the state is served already, or the address or certificate cannot be used.
pub fn serve(
    mut hub: Hub,
    state: &Path,
    options: &ServerOptions,
    ready: impl FnOnce(SocketAddr, &str),
) -> Result<(), HubError> {
    let _lock = hub.lock()?;
    hub.store.write_until_damage_is_met();
    let tls = options
        .tls
        .as_ref()
        .map(|(cert, key)| acceptor(cert, key))
        .transpose()?;
    let mut shared = Shared::new(hub, state, options.open_reading, tls.is_some())?;
    shared.oidc.clone_from(&options.oidc);
    let shared = Arc::new(shared);
    let mut router = api::router(Arc::clone(&shared));
    if let Some(folder) = &options.repository {
        // What sites accept of it is in its signatures, so that no more is needed than files.
        router = router.nest("/repository", outhaul_published::router(folder.clone()));
    }
    let stop = Arc::new(AtomicBool::new(false));
    if let Some(alerts) = &options.alerts {
        alerting::start(state, &shared.fleet, alerts, (&stop, &shared.damage()))?;
    }
    if let Some(days) = options.keep_days {
        retention::start(state, days, &stop, &shared.damage())?;
    }
    if let Some(settings) = &options.otlp {
        otlp::start(state, &shared, settings, &stop)?;
    }
    let is_tls = tls.is_some();
    let listening = outhaul_listen::ListenOptions {
        listen: options.listen,
        tls,
        limits: LIMITS,
    };
    let (watched, clock) = (Arc::clone(&shared), Arc::clone(&shared));
    let database = Arc::clone(&shared);
    outhaul_listen::run_until(
        listening,
        move |peer| service(&router, peer),
        async { tokio::join!(feed_watchdog(watched), watch_clock(clock)).0 },
        database.replaced(),
        |address| {
            ready(address, if is_tls { "https" } else { "http" });
            tracing::info!(%address, tls = is_tls, "serving");
        },
    )
    .map_err(|StartError { doing, source }| HubError::Serve { doing, source })?;
    stop.store(true, Ordering::Relaxed);
    if shared.in_place() {
        return Ok(());
    }
    let path = state.join(store::FILE_NAME);
    Err(StateError::Replaced { path }.into())
}

/// The routes for one connection.
fn service(router: &Router, peer: Peer) -> TowerToHyperService<Router> {
    TowerToHyperService::new(router.clone().layer(Extension(peer)))
}

/// As long as the store answers, systemd's watchdog is informed, twice per period.
async fn feed_watchdog(shared: Arc<Shared>) {
    let Some(period) = Watchdog::of_service().period() else {
        return;
    };
    let mut tick = tokio::time::interval(period / 2);
    loop {
        tick.tick().await;
        match shared.alive().await {
            Ok(()) => notify(NotifyState::Watchdog),
            Err(error) => tracing::error!(%error, "the store does not answer"),
        }
    }
}

/// Compares the clock with the record from time to time: what is odd about it is said in the log by [`Shared::clock`].
async fn watch_clock(shared: Arc<Shared>) {
    let mut tick = tokio::time::interval(CLOCK_EVERY);
    loop {
        tick.tick().await;
        if let Err(error) = shared.clock().await {
            tracing::error!(%error, "this machine's clock cannot be compared with the record");
        }
    }
}

fn acceptor(cert: &Path, key: &Path) -> Result<TlsAcceptor, HubError> {
    let problem = |path: &Path, problem: String| HubError::Tls {
        problem: format!("`{}`: {problem}", path.display()),
    };
    let open = |path: &Path| {
        File::open(path)
            .map(BufReader::new)
            .map_err(|error| problem(path, error.to_string()))
    };
    let chain = CertificateDer::pem_reader_iter(open(cert)?)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| problem(cert, error.to_string()))?;
    let secret = PrivateKeyDer::from_pem_reader(open(key)?)
        .map_err(|error| problem(key, error.to_string()))?;
    outhaul_listen::acceptor(chain, secret).map_err(|error| problem(cert, error.to_string()))
}

/// What clients may take of the hub.
const LIMITS: ConnectionLimits = ConnectionLimits {
    connections: 1024,
    of_peer: 128,
    receive: Duration::from_secs(15),
    stall: Duration::from_secs(120),
    head: 400 * 1024,
};

#[cfg(test)]
mod tests;
