//! One connection to one API server.
//!
//! What comes in: an [`Access`], then requests. What goes out: JSON answers of a bounded size, or a
//! [`ClientError`]: the server could not be asked, or it refused. The server's certificate is always verified,
//! redirects are not followed, and no proxy is used. A token is in no message. Where a program logs in, it is asked when something is to be asked of
//! the server, and once again when the server does not believe what it brought: that has expired, whatever this machine's clock shows.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use outhaul_http::{Authority, ClientSettings, HttpError, Method, Response, TimeLimits};
use serde_json::Value;
use zeroize::Zeroizing;

use crate::access_error::AccessError;
use crate::config::{self, Access, ApiCredentials};
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
    access: Access,
    timeout: Duration,
    /// As whom the server is asked; `None` before a program was asked, or when what it brought is not believed any more.
    login: Mutex<Option<Arc<Login>>>,
}

/// As whom the server is asked.
struct Login {
    http: outhaul_http::Client,
    token: Token,
}

/// The token that goes with each request.
enum Token {
    None,
    Text(Zeroizing<String>),
    /// Read each time: it is replaced before it expires.
    File(PathBuf),
}

/// What a request asks for, or brings.
#[derive(Clone)]
struct Asked<'a> {
    method: Method,
    path: &'a str,
    accept: &'a str,
    /// Its type and the bytes.
    body: Option<(&'a str, &'a [u8])>,
}

impl ApiClient {
    /// A connection by `access`; nothing is asked yet. Each request may last `timeout`.
    ///
    /// # Errors
    /// [`ClientError::Access`] for certificates that are not.
    pub fn new(access: &Access, timeout: Duration) -> Result<Self, ClientError> {
        let client = Self {
            access: access.clone(),
            timeout,
            login: Mutex::default(),
        };
        // A program is asked when something is to be asked of the server.
        if access.plugin().is_none() {
            client.log_in()?;
        }
        Ok(client)
    }

    /// Has what is needed to ask the server: a program that logs in is asked.
    ///
    /// # Errors
    /// [`ClientError::Access`] says why there is nothing.
    pub fn log_in(&self) -> Result<(), ClientError> {
        self.login().map(drop)
    }

    fn login(&self) -> Result<Arc<Login>, ClientError> {
        let mut known = self.login.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(login) = &*known {
            return Ok(login.clone());
        }
        let new = Arc::new(Login::by(&self.access, self.timeout)?);
        Ok(known.insert(new).clone())
    }

    fn forget_login(&self) {
        *self.login.lock().unwrap_or_else(PoisonError::into_inner) = None;
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
        let asked = Asked {
            method: Method::GET,
            path,
            accept,
            body: None,
        };
        match self.ask(asked) {
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
        self.ask(Asked {
            method,
            path,
            accept: "application/json",
            body: Some((content_type, body)),
        })
    }

    fn ask(&self, asked: Asked<'_>) -> Result<(u16, Value), ClientError> {
        let answer = self.ask_once(&asked);
        match &answer {
            Err(ClientError::Refused(refusal))
                if refusal.reason == Reason::Unauthorized && self.access.plugin().is_some() =>
            {
                self.forget_login();
                self.ask_once(&asked)
            }
            _ => answer,
        }
    }

    fn ask_once(&self, asked: &Asked<'_>) -> Result<(u16, Value), ClientError> {
        let login = self.login()?;
        let url = format!("{}{}", self.access.server, asked.path);
        let request = login.http.request(asked.method.clone(), &url);
        let request = request.header("Accept", asked.accept);
        let request = match self.token(&login.token)? {
            Some(token) => request.secret_header(
                "Authorization",
                &Zeroizing::new(format!("Bearer {}", &*token)),
            ),
            None => request,
        };
        self.answer(match asked.body {
            None => request.send(),
            Some((content_type, body)) => request
                .header("Content-Type", content_type)
                .send_bytes(body),
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

    fn token(&self, token: &Token) -> Result<Option<Zeroizing<String>>, ClientError> {
        Ok(match token {
            Token::Text(token) => Some(token.clone()),
            Token::File(path) => {
                let bytes = config::read(path)?;
                let text = std::str::from_utf8(&bytes)
                    .map_err(|_| self.failed("its token file holds no text"))?;
                Some(Zeroizing::new(text.trim().to_owned()))
            }
            Token::None => None,
        })
    }

    fn failed(&self, problem: &str) -> ClientError {
        ClientError::Unreachable {
            server: self.access.server.clone(),
            problem: problem.to_owned(),
        }
    }
}

impl Login {
    /// By `access`; a program that logs in is run.
    fn by(access: &Access, timeout: Duration) -> Result<Self, ClientError> {
        let (certificate, token) = match &access.identity {
            ApiCredentials::Nobody => (None, Token::None),
            ApiCredentials::Token(token) => (None, Token::Text(token.clone())),
            ApiCredentials::TokenFile(path) => (None, Token::File(path.clone())),
            ApiCredentials::Certificate { chain, key } => {
                (Some((chain.clone(), key.clone())), Token::None)
            }
            ApiCredentials::Program(plugin) => {
                let brought = plugin.log_in()?;
                let token = brought.token.map_or(Token::None, Token::Text);
                (brought.certificate, token)
            }
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
        let identity = certificate
            .as_ref()
            .map(|(chain, key)| outhaul_http::Identity { chain, key });
        let http = outhaul_http::Client::new(&ClientSettings {
            identity,
            limits,
            ..ClientSettings::new(user_agent, authority)
        });
        Ok(Self {
            http: http.map_err(|error| unusable(access, error))?,
            token,
        })
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").finish_non_exhaustive()
    }
}

/// What of the access cannot be used.
fn unusable(access: &Access, error: HttpError) -> AccessError {
    let problem = match error {
        HttpError::NoCertificate { .. } => {
            "its `certificate-authority` holds no certificate".to_owned()
        }
        HttpError::IdentityCertificate => {
            "its `client-certificate` holds no certificate".to_owned()
        }
        HttpError::IdentityKey => "its `client-key` is not a private key".to_owned(),
        other => other.to_string(),
    };
    match access.plugin() {
        Some(plugin) => plugin.failed(problem),
        None => AccessError::Wrong {
            path: "kubeconfig".into(),
            problem,
        },
    }
}
