//! One server, from its start to its end.
//!
//! What comes in: where to listen, and a service. What goes out: answered requests, and notifications to systemd when it is ready and when it
//! stops. It stops on SIGTERM or SIGINT: no new connection is taken, running requests are finished, within a
//! deadline.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use hyper::body::{Body, Incoming};
use hyper::service::Service;
use hyper::{Request, Response};
use outhaul_kit::service::{NotifyState, notify};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use crate::connections::{ConnectionLimits, accept};
use crate::peer::Peer;

/// How long work on threads of its own may go on after the last answer: what hangs there, such as a disk, is left behind.
const END_WITHIN: Duration = Duration::from_secs(2);

/// Where and how to listen.
pub struct ListenOptions {
    /// Address and port; port 0 means a free one.
    pub listen: SocketAddr,
    /// TLS; plain HTTP without.
    pub tls: Option<TlsAcceptor>,
    /// What clients may take.
    pub limits: ConnectionLimits,
}

impl std::fmt::Debug for ListenOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ListenOptions")
            .field("listen", &self.listen)
            .field("tls", &self.tls.is_some())
            .field("limits", &self.limits)
            .finish()
    }
}

/// Why a server could not start.
#[derive(Debug, thiserror::Error)]
#[error("cannot {doing}: {source}")]
pub struct StartError {
    /// What was being done, as a verb: ``listen on `127.0.0.1:80` `` …
    pub doing: String,
    /// The error of the system.
    pub source: io::Error,
}

/// The same, with nothing but a signal that ends it.
///
/// # Errors
/// [`StartError`] when the address cannot be used.
pub fn run<S, B>(
    options: ListenOptions,
    service: impl Fn(Peer) -> S + Send + 'static,
    beside: impl Future<Output = ()> + Send + 'static,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), StartError>
where
    S: Service<Request<Incoming>, Response = Response<B>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    run_until(options, service, beside, std::future::pending(), ready)
}

/// Serves until the process gets a signal to stop, or `until` ends. `ready` is called once with the address when requests are answered;
/// `beside` runs beside the server for as long.
///
/// # Errors
/// [`StartError`] when the address cannot be used.
pub fn run_until<S, B>(
    options: ListenOptions,
    service: impl Fn(Peer) -> S + Send + 'static,
    beside: impl Future<Output = ()> + Send + 'static,
    until: impl Future<Output = ()> + Send,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), StartError>
where
    S: Service<Request<Incoming>, Response = Response<B>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let failed = |doing: &str| {
        let doing = doing.to_owned();
        move |source| StartError { doing, source }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(failed("start"))?;
    let ended = runtime.block_on(async {
        let listening = format!("listen on `{}`", options.listen);
        let listener = TcpListener::bind(options.listen)
            .await
            .map_err(failed(&listening))?;
        let address = listener.local_addr().map_err(failed(&listening))?;
        let mut terminate = signal(SignalKind::terminate()).map_err(failed("wait for signals"))?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(failed("wait for signals"))?;
        let (stop, stopped) = watch::channel(false);
        let serving = accept(listener, options.tls, options.limits, service, stopped);
        let serving = tokio::spawn(serving);
        tokio::spawn(beside);
        ready(address);
        notify(NotifyState::Ready);
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            () = until => {}
        }
        tracing::info!("stopping: finishing what is under way");
        notify(NotifyState::Stopping);
        stop.send_replace(true);
        if let Err(error) = serving.await {
            tracing::error!(%error, "the server ended badly");
        }
        Ok(())
    });
    // Without a limit, it would wait for work that nothing can end.
    runtime.shutdown_timeout(END_WITHIN);
    ended
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use hyper::service::service_fn;

    use super::*;

    #[test]
    fn attack_work_that_hangs_does_not_keep_a_server_from_its_end() {
        let listening = ListenOptions {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            tls: None,
            limits: ConnectionLimits {
                connections: 4,
                of_peer: 4,
                receive: Duration::from_secs(1),
                stall: Duration::from_secs(1),
                head: 8192,
            },
        };
        let (_keep, never) = mpsc::channel::<()>();
        let (began, begun) = tokio::sync::oneshot::channel();
        let beside = async {
            let hangs = tokio::task::spawn_blocking(move || {
                let _ = began.send(());
                let _ = never.recv();
            });
            let _ = hangs.await;
        };
        let until = async {
            let _ = begun.await;
        };
        let service =
            |_| service_fn(|_| async { Ok::<_, io::Error>(Response::new(String::new())) });
        run_until(listening, service, beside, until, |_| {}).unwrap();
    }
}
