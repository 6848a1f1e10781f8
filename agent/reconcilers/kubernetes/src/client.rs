//! One connection to one API server.
//!
//! What comes in: an [`Access`], then requests. What goes out: JSON answers of a bounded size, or a
//! [`ClientError`]: the server could not be asked, or it refused. The server's certificate is always verified,
//! redirects are not followed, and no proxy is used. A token is in no message.

use std::time::Duration;

use outhaul_http::{Authority, ClientSettings, HttpError, Method, Request, Response, TimeLimits};
use serde_json::Value;
use zeroize::Zeroizing;

use crate::config::{self, Access, AccessError, ApiCredentials};
use crate::status::{Reason, Refusal};

/// Largest answer in bytes: etcd keeps no object above 1.5 MiB, a page of a list has some hundred small ones.
const MAX_ANSWER_BYTES: u64 = 32 * 1024 * 1024;

/// Why a request has no result.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
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

impl ClientError {
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
pub struct ApiClient {
    http: outhaul_http::Client,
    server: String,
    identity: ApiCredentials,
}

impl ApiClient {
    /// A connection by `access`; nothing is asked yet. Each request may last `timeout`.
    ///
    /// # Errors
    /// [`ClientError::Access`] for certificates that are not.
    pub fn new(access: &Access, timeout: Duration) -> Result<Self, ClientError> {
        let identity = match &access.identity {
            ApiCredentials::Certificate { chain, key } => {
                Some(outhaul_http::Identity { chain, key })
            }
            _ => None,
        };
        let user_agent = concat!("outhaul-agent/", env!("CARGO_PKG_VERSION"));
        let authority = Authority::Pem {
            origin: "certificate-authority",
            pem: &access.authority,
        };
        let limits = TimeLimits {
            connect: None,
            answer: None,
            body: None,
            whole: Some(timeout),
        };
        let http = outhaul_http::Client::new(&ClientSettings {
            identity,
            limits,
            ..ClientSettings::new(user_agent, authority)
        });
        Ok(Self {
            http: http.map_err(unusable)?,
            server: access.server.clone(),
            identity: access.identity.clone(),
        })
    }

    /// Asks for `path`; `None` for what is not there.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn get(&self, path: &str) -> Result<Option<Value>, ClientError> {
        self.read(path, "application/json")
    }

    /// Asks for `path` in another form than whole objects.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn read(&self, path: &str, accept: &str) -> Result<Option<Value>, ClientError> {
        let request = self.request(Method::GET, path, accept)?;
        match self.answer(request.send()) {
            Ok((_, value)) => Ok(Some(value)),
            Err(ClientError::Refused(refusal)) if refusal.reason == Reason::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sends `body` and returns the status and the answer.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn send(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: &[u8],
    ) -> Result<(u16, Value), ClientError> {
        let request = self.request(method, path, "application/json")?;
        self.answer(
            request
                .header("Content-Type", content_type)
                .send_bytes(body),
        )
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        accept: &str,
    ) -> Result<Request<'_>, ClientError> {
        let url = format!("{}{path}", self.server);
        let request = self.http.request(method, &url).header("Accept", accept);
        Ok(match self.token()? {
            Some(token) => request.secret_header(
                "Authorization",
                &Zeroizing::new(format!("Bearer {}", &*token)),
            ),
            None => request,
        })
    }

    fn answer(&self, answer: Result<Response, HttpError>) -> Result<(u16, Value), ClientError> {
        let failed = |error: HttpError| self.failed(&error.problem());
        let answer = answer.map_err(failed)?;
        let code = answer.status();
        let bytes = answer.bytes(MAX_ANSWER_BYTES).map_err(failed)?;
        if !(200..300).contains(&code) {
            return Err(ClientError::Refused(Refusal::of(code, &bytes)));
        }
        let value: Value = serde_json::from_slice(&bytes)
            .map_err(|_| self.failed(&format!("its answer {code} is not JSON")))?;
        // Everything that the API answers is an object, and is taken apart as one.
        if !value.is_object() {
            return Err(self.failed(&format!("its answer {code} is not an object")));
        }
        Ok((code, value))
    }

    fn token(&self) -> Result<Option<Zeroizing<String>>, ClientError> {
        Ok(match &self.identity {
            ApiCredentials::Token(token) => Some(token.clone()),
            // Read each time: it is replaced before it expires.
            ApiCredentials::TokenFile(path) => {
                let bytes = config::read(path)?;
                let text = std::str::from_utf8(&bytes)
                    .map_err(|_| self.failed("its token file holds no text"))?;
                Some(Zeroizing::new(text.trim().to_owned()))
            }
            ApiCredentials::Nobody | ApiCredentials::Certificate { .. } => None,
        })
    }

    fn failed(&self, problem: &str) -> ClientError {
        ClientError::Unreachable {
            server: self.server.clone(),
            problem: problem.to_owned(),
        }
    }
}

/// What of the access cannot be used.
fn unusable(error: HttpError) -> AccessError {
    AccessError::Wrong {
        path: "kubeconfig".into(),
        problem: match error {
            HttpError::NoCertificate { .. } => {
                "its `certificate-authority` holds no certificate".to_owned()
            }
            HttpError::IdentityCertificate => {
                "its `client-certificate` holds no certificate".to_owned()
            }
            HttpError::IdentityKey => "its `client-key` is not a private key".to_owned(),
            other => other.to_string(),
        },
    }
}
