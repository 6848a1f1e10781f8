//! TLS to a PostgreSQL server: rustls with the authorities of the machine or of the address.
//!
//! What comes in: an address. What goes out: what makes a stream into one that nobody reads and of which the other end is the
//! server that the address names; nothing for a server on this machine, or where the address says so. There is no half of it:
//! what is encrypted is also authenticated.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use postgres::Socket;
use postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsConnector;

use super::address::{Address, AddressError};

/// Makes TLS of a connection.
#[derive(Clone)]
pub(super) struct Connector(Arc<ClientConfig>);

/// The same for one server.
pub(super) struct OfServer(Arc<ClientConfig>, ServerName<'static>);

/// A stream that is encrypted.
pub(super) struct Encrypted(tokio_rustls::client::TlsStream<Socket>);

/// How TLS is made with the server of `address`; `None` for none.
pub(super) fn connector(address: &Address) -> Result<Option<Connector>, AddressError> {
    let Some(path) = address.authorities() else {
        return Ok(None);
    };
    let failed = |problem: String| AddressError::Authorities {
        path: path.to_owned(),
        problem,
    };
    let mut roots = RootCertStore::empty();
    let found = CertificateDer::pem_file_iter(path).map_err(|error| failed(error.to_string()))?;
    for certificate in found {
        let certificate = certificate.map_err(|error| failed(error.to_string()))?;
        // One that cannot be read verifies nobody.
        let _ = roots.add(certificate);
    }
    if roots.is_empty() {
        return Err(failed("it has no certificate of an authority".to_owned()));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Some(Connector(Arc::new(config))))
}

impl MakeTlsConnect<Socket> for Connector {
    type Stream = Encrypted;
    type TlsConnect = OfServer;
    type Error = rustls::pki_types::InvalidDnsNameError;

    fn make_tls_connect(&mut self, host: &str) -> Result<OfServer, Self::Error> {
        let name = ServerName::try_from(host)?.to_owned();
        Ok(OfServer(Arc::clone(&self.0), name))
    }
}

impl TlsConnect<Socket> for OfServer {
    type Stream = Encrypted;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Encrypted>> + Send>>;

    fn connect(self, stream: Socket) -> Self::Future {
        Box::pin(async move {
            let connector = TlsConnector::from(self.0);
            Ok(Encrypted(connector.connect(self.1, stream).await?))
        })
    }
}

impl TlsStream for Encrypted {
    /// None is needed: the certificate is that of the server's name, or there is no stream.
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Encrypted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, into)
    }
}

impl AsyncWrite for Encrypted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
