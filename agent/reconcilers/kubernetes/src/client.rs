//! One connection to one API server.
//!
//! What comes in: an [`Access`], then requests. What goes out: JSON answers of a bounded size, or a
//! [`Trouble`]: the server could not be asked, or it refused. The server's certificate is always verified,
//! redirects are not followed, and no proxy is used. A token is in no message.

use std::io::Read as _;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use ureq::http::{Method, Request, Response};
use ureq::tls::{ClientCert, PemItem, RootCerts, TlsConfig};
use ureq::{AsSendBody, Body};
use zeroize::Zeroizing;

use crate::config::{self, Access, AccessError, Identity};
use crate::status::{Reason, Refusal};

/// Largest answer in bytes: etcd keeps no object above 1.5 MiB, a page of a list has some hundred small ones.
const MAX_ANSWER_BYTES: u64 = 32 * 1024 * 1024;

/// Why a request has no result.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// What is set cannot be used.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The server was not reached, broke off, or spoke nonsense. What became of a change is not known.
    #[error("the API server {server} cannot be asked: {problem}")]
    Unreachable {
        /// Its URL.
        server: String,
        /// What happened.
        problem: String,
    },
    /// It refused.
    #[error("{0}")]
    Refused(Refusal),
}

impl Trouble {
    /// Whether the site, not what was asked for, is to blame: repeating it later may well work.
    pub fn is_of_the_site(&self) -> bool {
        match self {
            Self::Access(_) | Self::Unreachable { .. } => true,
            Self::Refused(refusal) => matches!(
                refusal.reason,
                Reason::Unauthorized | Reason::Forbidden | Reason::Busy | Reason::Terminating
            ),
        }
    }

    /// The refusal, when it is one.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }
}

/// A connection.
#[derive(Debug)]
pub struct Client {
    agent: ureq::Agent,
    server: String,
    identity: Identity,
}

impl Client {
    /// A connection by `access`; nothing is asked yet. Each request may last `timeout`.
    ///
    /// # Errors
    /// [`Trouble::Access`] for certificates that are none.
    pub fn new(access: &Access, timeout: Duration) -> Result<Self, Trouble> {
        let wrong = |problem: &str| {
            Trouble::Access(AccessError::Wrong {
                path: "kubeconfig".into(),
                problem: problem.to_owned(),
            })
        };
        let roots: Vec<_> = ureq::tls::parse_pem(&access.authority)
            .filter_map(|item| match item {
                Ok(PemItem::Certificate(certificate)) => Some(certificate),
                _ => None,
            })
            .collect();
        if roots.is_empty() {
            return Err(wrong("its `certificate-authority` holds no certificate"));
        }
        let mut client_certificate = None;
        if let Identity::Certificate { chain, key } = &access.identity {
            let chain: Vec<_> = ureq::tls::parse_pem(chain)
                .filter_map(|item| match item {
                    Ok(PemItem::Certificate(certificate)) => Some(certificate),
                    _ => None,
                })
                .collect();
            let key = ureq::tls::PrivateKey::from_pem(key)
                .map_err(|_| wrong("its `client-key` is not a private key"))?;
            if chain.is_empty() {
                return Err(wrong("its `client-certificate` holds no certificate"));
            }
            client_certificate = Some(ClientCert::new_with_certs(&chain, key));
        }
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::Specific(Arc::new(roots)))
            .client_cert(client_certificate)
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .build();
        let config = ureq::Agent::config_builder()
            .user_agent(concat!("outhaul-agent/", env!("CARGO_PKG_VERSION")))
            .http_status_as_error(false)
            .https_only(true)
            .proxy(None)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_global(Some(timeout))
            .tls_config(tls);
        Ok(Self {
            agent: config.build().into(),
            server: access.server.clone(),
            identity: access.identity.clone(),
        })
    }

    /// The server's URL.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Asks for `path`; `None` for what is not there.
    ///
    /// # Errors
    /// [`Trouble`]
    pub fn get(&self, path: &str) -> Result<Option<Value>, Trouble> {
        self.read(path, "application/json")
    }

    /// Asks for `path` in another form than whole objects.
    ///
    /// # Errors
    /// [`Trouble`]
    pub fn read(&self, path: &str, accept: &str) -> Result<Option<Value>, Trouble> {
        let headers = [("Accept", accept)];
        match self.ask(Method::GET, path, &headers, ()) {
            Ok((_, value)) => Ok(Some(value)),
            Err(Trouble::Refused(refusal)) if refusal.reason == Reason::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sends `body` and returns the status and the answer.
    ///
    /// # Errors
    /// [`Trouble`]
    pub fn send(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: &[u8],
    ) -> Result<(u16, Value), Trouble> {
        let headers = [
            ("Accept", "application/json"),
            ("Content-Type", content_type),
        ];
        self.ask(method, path, &headers, body)
    }

    fn ask(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl AsSendBody,
    ) -> Result<(u16, Value), Trouble> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.server));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(token) = self.token()? {
            let mut value = ureq::http::HeaderValue::try_from(format!("Bearer {}", &*token))
                .map_err(|_| self.failed("its token has letters that no token has"))?;
            value.set_sensitive(true);
            request = request.header("Authorization", value);
        }
        let request = request
            .body(body)
            .map_err(|_| self.failed("its URL cannot be used"))?;
        let answer = self.agent.run(request);
        self.answer(answer.map_err(|error| self.failed(&error.to_string()))?)
    }

    fn answer(&self, response: Response<Body>) -> Result<(u16, Value), Trouble> {
        let code = response.status().as_u16();
        let mut bytes = Vec::new();
        let mut reader = response
            .into_body()
            .into_reader()
            .take(MAX_ANSWER_BYTES + 1);
        reader
            .read_to_end(&mut bytes)
            .map_err(|error| self.failed(&error.to_string()))?;
        if bytes.len() as u64 > MAX_ANSWER_BYTES {
            return Err(self.failed(&format!(
                "its answer has more than {MAX_ANSWER_BYTES} bytes"
            )));
        }
        if !(200..300).contains(&code) {
            return Err(Trouble::Refused(Refusal::of(code, &bytes)));
        }
        let value: Value = serde_json::from_slice(&bytes)
            .map_err(|_| self.failed(&format!("its answer {code} is not JSON")))?;
        // Everything that the API answers is an object, and is taken apart as one.
        if !value.is_object() {
            return Err(self.failed(&format!("its answer {code} is not an object")));
        }
        Ok((code, value))
    }

    fn token(&self) -> Result<Option<Zeroizing<String>>, Trouble> {
        Ok(match &self.identity {
            Identity::Token(token) => Some(token.clone()),
            // Read each time: it is replaced before it expires.
            Identity::TokenFile(path) => {
                let bytes = config::read(path)?;
                let text = std::str::from_utf8(&bytes)
                    .map_err(|_| self.failed("its token file holds no text"))?;
                Some(Zeroizing::new(text.trim().to_owned()))
            }
            Identity::Nobody | Identity::Certificate { .. } => None,
        })
    }

    fn failed(&self, problem: &str) -> Trouble {
        Trouble::Unreachable {
            server: self.server.clone(),
            problem: problem.to_owned(),
        }
    }
}
