//! The server: the page and the API over HTTP or HTTPS, until it is told to stop.
//!
//! What comes in: an open hub and where to listen. What goes out: answers, and word to systemd when it is
//! ready and that it lives. It stops on SIGTERM or SIGINT: no new connection is taken, running requests
//! are finished, within a deadline. It holds the state's lock, so that there is one server.

mod api;
mod body;
mod connections;
mod lanes;
mod problem;
mod shared;
mod shown;

use std::fs::File;
use std::io::BufReader;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use outhaul_kit::service::{NotifyState, Watchdog, notify};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tower_http::services::ServeDir;

use crate::error::HubError;
use crate::state::Hub;
use shared::Shared;

/// Where and how to listen.
#[derive(Debug, Clone)]
pub struct Options {
    /// Address and port; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Certificate chain and key, both PEM files; plain HTTP without.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// A published folder, handed out read only below `/repository/` to sites that pull.
    pub repository: Option<PathBuf>,
}

/// Serves until the process is told to stop. `ready` is called once with the address and the scheme
/// when requests are answered.
///
/// # Errors
/// [`HubError`] when the state is served already, or the address or certificate cannot be used.
pub fn serve(
    hub: Hub,
    state: &Path,
    options: &Options,
    ready: impl FnOnce(SocketAddr, &str),
) -> Result<(), HubError> {
    let _lock = hub.lock()?;
    let tls = options
        .tls
        .as_ref()
        .map(|(cert, key)| acceptor(cert, key))
        .transpose()?;
    let shared = Arc::new(Shared::new(hub, state)?);
    let failed = |doing: &str| {
        let doing = doing.to_owned();
        move |source| HubError::Serve { doing, source }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(failed("start"))?;
    runtime.block_on(async {
        let listening = format!("listen on `{}`", options.listen);
        let listener = TcpListener::bind(options.listen)
            .await
            .map_err(failed(&listening))?;
        let address = listener.local_addr().map_err(failed(&listening))?;
        let mut terminate = signal(SignalKind::terminate()).map_err(failed("wait for signals"))?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(failed("wait for signals"))?;
        let (stop, stopped) = watch::channel(false);
        let mut router = api::router(Arc::clone(&shared));
        if let Some(folder) = &options.repository {
            // What sites believe of it is in its signatures, so that no more is needed than files.
            router = router.nest_service("/repository", ServeDir::new(folder));
        }
        let serving = tokio::spawn(connections::accept(listener, tls.clone(), router, stopped));
        tokio::spawn(tell_that_it_lives(Arc::clone(&shared)));

        ready(address, if tls.is_some() { "https" } else { "http" });
        tracing::info!(%address, tls = tls.is_some(), "serving");
        notify(NotifyState::Ready);
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("stopping: finishing what is under way");
        notify(NotifyState::Stopping);
        stop.send_replace(true);
        if let Err(error) = serving.await {
            tracing::error!(%error, "the server ended badly");
        }
        Ok(())
    })
}

/// As long as the store answers, systemd's watchdog is told so, twice per period.
async fn tell_that_it_lives(shared: Arc<Shared>) {
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
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| {
            builder
                .with_no_client_auth()
                .with_single_cert(chain, secret)
        })
        .map_err(|error| problem(cert, error.to_string()))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// How long running requests may take after the signal to stop.
const STOP_WITHIN: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
