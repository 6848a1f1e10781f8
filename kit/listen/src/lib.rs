//! How Outhaul's servers listen.
//!
//! What comes in: an address, perhaps TLS, limits, and a service that answers requests. What goes out: answered requests, until
//! the process is asked to stop. It knows no route, no content and no format.

mod connections;
pub mod lanes;
mod patient;
mod peer;
mod server;

pub use connections::{ConnectionLimits, accept};
pub use peer::Peer;
pub use server::{ListenOptions, StartError, run, run_until};

use std::sync::Arc;

use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

/// TLS with a certificate and its key, for HTTP/1.1.
///
/// # Errors
/// When they cannot be used, or not together.
pub fn acceptor(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<TlsAcceptor, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
