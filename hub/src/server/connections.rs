//! Connections: accepted, perhaps wrapped in TLS, served, and ended in order.
//!
//! What comes in: a listener and a router. What goes out: answered requests. A handshake or a header that
//! does not come in time ends that connection alone, and at most so many are open at once, in all and
//! of one peer, so that slow or hostile peers cannot hold the hub.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::Extension;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::STOP_WITHIN;
use super::lanes::network;

/// Connections open at once.
const MAX_CONNECTIONS: usize = 1024;
/// Time for a TLS handshake, and for the head of a request.
const HEAD_WITHIN: Duration = Duration::from_secs(15);
/// Connections of one peer open at once; this machine itself, where a proxy may be, is not counted.
const MAX_OF_PEER: usize = 128;
/// Rest after an `accept` that failed, for example because no descriptor is free.
const REST: Duration = Duration::from_millis(100);

/// Who is at the other end of a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer(pub(super) IpAddr);

impl Peer {
    /// The network that counts as one peer.
    pub(super) fn network(self) -> IpAddr {
        network(self.0)
    }
}

/// How many connections each peer has open.
type Peers = Arc<Mutex<BTreeMap<IpAddr, usize>>>;

/// One connection in the count of its peer.
#[derive(Debug)]
struct Share {
    peers: Peers,
    of: IpAddr,
}

impl Share {
    fn take(peers: &Peers, peer: Peer) -> Option<Self> {
        let of = peer.network();
        let mut open = peers.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(of).or_default();
        if *count >= MAX_OF_PEER && !of.is_loopback() {
            return None;
        }
        *count += 1;
        Some(Self {
            peers: Arc::clone(peers),
            of,
        })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut open = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&self.of) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.of);
            }
        }
    }
}

/// Serves connections until `stopped` turns true, then finishes those that are open.
pub(super) async fn accept(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    router: Router,
    mut stopped: watch::Receiver<bool>,
) {
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
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
            () = told(&mut stopped) => break,
        };
        match accepted {
            Ok((stream, address)) => {
                let peer = Peer(address.ip());
                let Some(share) = Share::take(&peers, peer) else {
                    tracing::debug!(%address, "too many connections of one peer");
                    continue;
                };
                let router = router.clone().layer(Extension(peer));
                let (tls, stopped) = (tls.clone(), stopped.clone());
                open.spawn(async move {
                    connection(stream, tls, router, stopped).await;
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

/// Returns when the server is told to stop, or is gone.
async fn told(stopped: &mut watch::Receiver<bool>) {
    drop(stopped.wait_for(|stopped| *stopped).await.map(|told| *told));
}

async fn connection(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    router: Router,
    stopped: watch::Receiver<bool>,
) {
    let Some(tls) = tls else {
        return serve(stream, router, stopped).await;
    };
    match tokio::time::timeout(HEAD_WITHIN, tls.accept(stream)).await {
        Ok(Ok(stream)) => serve(stream, router, stopped).await,
        Ok(Err(error)) => tracing::debug!(%error, "no TLS handshake"),
        Err(_) => tracing::debug!("a TLS handshake took too long"),
    }
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    router: Router,
    mut stopped: watch::Receiver<bool>,
) {
    let service = TowerToHyperService::new(router);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = told(&mut stopped) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}
