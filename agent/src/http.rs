//! HTTP towards a repository or a hub: the one place that sets up TLS.
//!
//! What comes in: a base URL and, where a site has its own, a certificate authority. What goes out: a
//! [`Client`] with bounded answers and timeouts. What comes over it is not trusted for that: signatures decide, TLS
//! keeps curious eyes out.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ureq::Body;
use ureq::http::{Response, StatusCode};
use ureq::tls::{PemItem, RootCerts, TlsConfig};

use crate::base_url::BaseUrl;
use crate::durable;
use crate::error::AgentError;

/// The system's certificate authorities, where the usual distributions keep them.
const SYSTEM_CA: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
];
const MAX_CA_BYTES: u64 = 4 * 1024 * 1024;
const CONNECT: Duration = Duration::from_secs(30);
/// Until an answer begins, and for all of a small one: below the service's watchdog of 120 s.
const SILENCE: Duration = Duration::from_secs(60);
/// For a part of a large answer, below the watchdog too: what came in it stays and is gone on from.
const PART: Duration = Duration::from_secs(90);
/// For all of a large answer of a server that cannot go on in the middle.
const WHOLE: Duration = Duration::from_secs(3600);

/// A connection to one place.
#[derive(Debug)]
pub struct Client {
    agent: ureq::Agent,
    base: BaseUrl,
    part: Duration,
}

/// How much of a large file is read through one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Span {
    /// What comes in [`PART`].
    Part,
    /// All of it.
    Whole,
}

/// Whether a reader of [`Client::open`] ended because its time was over.
pub fn is_late(error: &std::io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    matches!(inner, Some(ureq::Error::Timeout(_)))
}

impl Client {
    /// A client for what lies below `base`. `ca` is a file with the authority to believe, else `pem` (from
    /// the kit) is it, else the system's.
    ///
    /// # Errors
    /// [`AgentError::Usage`] for a URL that may not be used, [`AgentError::File`] for the authority.
    pub fn new(base: &str, ca: Option<&Path>, pem: &str) -> Result<Self, AgentError> {
        let base: BaseUrl = base.parse().map_err(|expected| AgentError::Usage {
            message: "the URL of the repository or hub cannot be used".to_owned(),
            help: format!("give {expected}"),
        })?;
        let mut config = ureq::Agent::config_builder()
            .user_agent(concat!("outhaul-agent/", env!("CARGO_PKG_VERSION")))
            .http_status_as_error(false)
            .max_redirects(3)
            .timeout_connect(Some(CONNECT))
            .timeout_recv_response(Some(SILENCE))
            .timeout_recv_body(Some(SILENCE))
            .timeout_per_call(None);
        if base.tls {
            config = config.https_only(true).tls_config(tls(ca, pem)?);
        } else {
            config = config.max_redirects(0).proxy(None);
        }
        Ok(Self {
            agent: config.build().into(),
            base,
            part: PART,
        })
    }

    /// The same with other bounds, for tests that wait for one.
    #[cfg(test)]
    pub(crate) fn with_part(mut self, part: Duration) -> Self {
        self.part = part;
        self
    }

    /// The full URL of `path`.
    pub fn url(&self, path: &str) -> String {
        format!("{}/{}", self.base, path.trim_start_matches('/'))
    }

    /// Fetches a small file whole; `None` when there is none.
    ///
    /// # Errors
    /// [`AgentError::Network`], also for more than `max_bytes`.
    pub fn get(&self, path: &str, max_bytes: u64) -> Result<Option<Vec<u8>>, AgentError> {
        let response = self.call(path, 0, SILENCE)?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND | StatusCode::GONE => return Ok(None),
            other => return Err(self.failed(path, format!("the server answers {other}"))),
        }
        let mut bytes = Vec::new();
        let mut reader = response.into_body().into_reader().take(max_bytes + 1);
        reader
            .read_to_end(&mut bytes)
            .map_err(|error| self.failed(path, error.to_string()))?;
        if bytes.len() as u64 > max_bytes {
            return Err(self.failed(path, format!("more than {max_bytes} bytes")));
        }
        Ok(Some(bytes))
    }

    /// Opens a large file from byte `offset` on. Returns the reader and where it really starts: 0 when
    /// the server does not do ranges.
    ///
    /// # Errors
    /// [`AgentError::Network`]
    pub fn open(
        &self,
        path: &str,
        offset: u64,
        span: Span,
    ) -> Result<(impl Read + use<>, u64), AgentError> {
        let within = match span {
            Span::Part => self.part,
            Span::Whole => WHOLE,
        };
        let response = self.call(path, offset, within)?;
        let start = match response.status() {
            StatusCode::PARTIAL_CONTENT => offset,
            StatusCode::OK => 0,
            other => return Err(self.failed(path, format!("the server answers {other}"))),
        };
        Ok((response.into_body().into_reader(), start))
    }

    /// Sends `body` and returns the answer of at most `max_bytes`.
    ///
    /// # Errors
    /// [`AgentError::Network`], also for any answer but 200.
    pub fn post(&self, path: &str, body: &[u8], max_bytes: u64) -> Result<Vec<u8>, AgentError> {
        let request = self
            .agent
            .post(self.url(path))
            .content_type("application/jsonl");
        let response = request
            .send(body)
            .map_err(|error| self.failed(path, error.to_string()))?;
        let status = response.status();
        let mut bytes = Vec::new();
        let mut reader = response.into_body().into_reader().take(max_bytes + 1);
        reader
            .read_to_end(&mut bytes)
            .map_err(|error| self.failed(path, error.to_string()))?;
        if status != StatusCode::OK {
            let text = outhaul_reconcilers::shortened(&String::from_utf8_lossy(&bytes));
            return Err(self.failed(path, format!("the server answers {status}: {text}")));
        }
        if bytes.len() as u64 > max_bytes {
            return Err(self.failed(path, format!("more than {max_bytes} bytes")));
        }
        Ok(bytes)
    }

    fn call(&self, path: &str, offset: u64, all: Duration) -> Result<Response<Body>, AgentError> {
        let mut request = self
            .agent
            .get(self.url(path))
            .header("Accept-Encoding", "identity");
        if offset > 0 {
            request = request.header("Range", format!("bytes={offset}-"));
        }
        request
            .config()
            .timeout_recv_body(Some(all))
            .build()
            .call()
            .map_err(|error| self.failed(path, error.to_string()))
    }

    fn failed(&self, path: &str, problem: String) -> AgentError {
        AgentError::Network {
            url: self.url(path),
            problem,
        }
    }
}

/// TLS with ring, and the authority of the site or the system.
fn tls(ca: Option<&Path>, pem: &str) -> Result<TlsConfig, AgentError> {
    let system = || {
        let mut places = SYSTEM_CA.into_iter().map(Path::new);
        places
            .find(|path| path.is_file())
            .unwrap_or(Path::new(SYSTEM_CA[0]))
    };
    let (path, pem) = match ca {
        None if !pem.is_empty() => (Path::new("the kit"), pem.as_bytes().to_vec()),
        Some(path) => (path, durable::read(path, MAX_CA_BYTES)?),
        None => (system(), durable::read(system(), MAX_CA_BYTES)?),
    };
    let certificates: Vec<_> = ureq::tls::parse_pem(&pem)
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        })
        .collect();
    if certificates.is_empty() {
        return Err(AgentError::Usage {
            message: format!("`{}` holds no certificate", path.display()),
            help: "set `ca` in agent.toml to a PEM file with the authority's certificate".into(),
        });
    }
    Ok(TlsConfig::builder()
        .root_certs(RootCerts::Specific(Arc::new(certificates)))
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::Client;
    use crate::base_url::check_url;

    #[test]
    fn plain_http_is_for_this_host_only() {
        for good in [
            "https://hub.example.org",
            "http://127.0.0.1:1/x",
            "http://localhost:8080",
            "http://[::1]:8080",
        ] {
            assert!(check_url(good).is_ok(), "{good}");
        }
        for bad in [
            "http://example.org",
            "http://127.0.0.1.example.org",
            "file:///etc",
            "HTTP://example.org",
            "hTTp://10.0.0.1/",
            "https://user:secret@hub.example.org",
            "https://hub.example.org/?a",
            "https://",
            "hub",
            "",
        ] {
            assert!(check_url(bad).is_err(), "{bad}");
            assert!(Client::new(bad, None, "").is_err(), "{bad}");
        }
    }

    #[test]
    fn a_url_in_capitals_gets_the_same_settings() {
        // In capitals it went past the TLS settings, and the first request was a panic.
        let missing = std::path::Path::new("/nowhere/ca.pem");
        assert!(Client::new("HTTPS://127.0.0.1:1", Some(missing), "").is_err());
        let client = Client::new("HTTP://127.0.0.1:1/", None, "").unwrap();
        let error = client.get("x", 10).unwrap_err().to_string();
        assert!(error.contains("http://127.0.0.1:1/x"), "{error}");
    }
}
