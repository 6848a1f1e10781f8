//! Connections: accepted, perhaps wrapped in TLS, served, and ended in order.
//!
//! What comes in: a listener and a service. What goes out: answered requests. A handshake or a head that does not come in time ends
//! that connection alone, so does a client that takes nothing of its answer, and at most so many are open at once, in
//! all and of one peer, so that slow or hostile peers cannot hold the server.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::patient::Patient;
use crate::peer::{Peer, Peers, Share};

/// How long running requests may take after the signal to stop.
const STOP_WITHIN: Duration = Duration::from_secs(10);
/// Rest after an `accept` that failed, for example because no descriptor is free.
const REST: Duration = Duration::from_millis(100);

/// What clients may take of this machine.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionLimits {
    /// Connections open at once.
    pub connections: usize,
    /// Connections of one peer open at once.
    pub of_peer: usize,
    /// Time for a TLS handshake, and for the head of a request.
    pub receive: Duration,
    /// Time in which a client must take something of its answer.
    pub stall: Duration,
    /// Bytes of the head of a request; at least 8192.
    pub head: usize,
}

/// Serves connections until `stopped` turns true, then finishes those that are open. `service` is asked for
/// each connection.
pub async fn accept<S, B>(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    limits: ConnectionLimits,
    service: impl Fn(Peer) -> S,
    mut stopped: watch::Receiver<bool>,
) where
    S: Service<Request<Incoming>, Response = Response<B>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let slots = Arc::new(Semaphore::new(limits.connections));
    let peers = Peers::default();
    let mut open = JoinSet::new();
    loop {
        while open.try_join_next().is_some() {}
        let next = async {
            // Never closed, so this waits and does not fail.
            let slot = Arc::clone(&slots).acquire_owned().await.ok();
            (slot, listener.accept().await)
        };
        let (slot, accepted) = tokio::select! {
            next = next => next,
            () = is_stopped(&mut stopped) => break,
        };
        match accepted {
            Ok((stream, address)) => {
                let peer = Peer(address.ip());
                let Some(share) = Share::take(&peers, peer, limits.of_peer) else {
                    tracing::debug!(%address, "too many connections of one peer");
                    continue;
                };
                let (tls, service, stopped) = (tls.clone(), service(peer), stopped.clone());
                open.spawn(async move {
                    if let Some(stream) = opened(stream, tls, limits).await {
                        http(stream, limits, service, stopped).await;
                    }
                    drop((slot, share));
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(REST).await;
            }
        }
    }
    drop(listener);
    let all = async { while open.join_next().await.is_some() {} };
    if tokio::time::timeout(STOP_WITHIN, all).await.is_err() {
        tracing::warn!("connections were cut: they did not end in time");
    }
}

/// Returns when the server is asked to stop, or is gone.
async fn is_stopped(stopped: &mut watch::Receiver<bool>) {
    drop(
        stopped
            .wait_for(|stopped| *stopped)
            .await
            .map(|stopped| *stopped),
    );
}

/// A connection, encrypted or not.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// A connection on which requests may come: after its TLS handshake, where there is one.
async fn opened(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    limits: ConnectionLimits,
) -> Option<Box<dyn Stream>> {
    // Answers are written whole; waiting for more would only delay small ones.
    let _ = stream.set_nodelay(true);
    let stream = Patient::new(stream, limits.stall);
    let Some(tls) = tls else {
        return Some(Box::new(stream));
    };
    match tokio::time::timeout(limits.receive, tls.accept(stream)).await {
        Ok(Ok(stream)) => return Some(Box::new(stream)),
        Ok(Err(error)) => tracing::debug!(%error, "no TLS handshake"),
        Err(_) => tracing::debug!("a TLS handshake took too long"),
    }
    None
}

async fn http<S, B>(
    stream: Box<dyn Stream>,
    limits: ConnectionLimits,
    service: S,
    mut stopped: watch::Receiver<bool>,
) where
    S: Service<Request<Incoming>, Response = Response<B>>,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: Body + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.receive)
        .max_buf_size(limits.head)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = is_stopped(&mut stopped) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}
