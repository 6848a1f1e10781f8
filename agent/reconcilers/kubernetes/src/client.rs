//! One connection to one API server.
//!
//! What comes in: an [`Access`], then requests. What goes out: JSON answers of a bounded size, or a
//! [`ClientError`]: the server could not be asked, or it refused. The server's certificate is always verified,
//! redirects are not followed, and no proxy is used. A token is in no message. Where a program logs in, it is asked when something is to be asked of
//! the server, again when what it brought expires, and once again when the server does not believe what it brought: that has expired, whatever this
//! machine's clock shows. What a program brings again and the server does not believe either is the last: whoever has hundreds of objects to
//! ask for does not wait for the program each time.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use outhaul_http::{Authority, ClientSettings, HttpError, Method, Response, TimeLimits};
use serde_json::Value;
use zeroize::Zeroizing;

use crate::access_error::AccessError;
use crate::clock;
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
    #[error("the API server {server} cannot be used: {problem}")]
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
    /// What the server answered to what a program had just brought again.
    refused: Mutex<Option<Refusal>>,
}

/// As whom the server is asked.
struct Login {
    http: outhaul_http::Client,
    token: Token,
    /// When a program is asked again; `None` where it named no time, or one that was over by this machine's clock, which then decides nothing.
    renewed_at: Option<Timestamp>,
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
struct ApiRequest<'a> {
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
            refused: Mutex::default(),
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
        let expired = |login: &Login| login.renewed_at.is_some_and(|at| at <= clock::now());
        if let Some(login) = known.as_ref().filter(|login| !expired(login)) {
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
        let asked = ApiRequest {
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
        self.ask(ApiRequest {
            method,
            path,
            accept: "application/json",
            body: Some((content_type, body)),
        })
    }

    fn ask(&self, asked: ApiRequest<'_>) -> Result<(u16, Value), ClientError> {
        if self.access.plugin().is_none() {
            return self.ask_once(&asked);
        }
        let refused = || self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(refusal) = refused().clone() {
            return Err(ClientError::Refused(refusal));
        }
        let answer = self.ask_once(&asked);
        if unauthorized(&answer).is_none() {
            return answer;
        }
        self.forget_login();
        let answer = self.ask_once(&asked);
        if let Some(refusal) = unauthorized(&answer) {
            *refused() = Some(refusal.clone());
        }
        answer
    }

    fn ask_once(&self, asked: &ApiRequest<'_>) -> Result<(u16, Value), ClientError> {
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

/// The refusal of one whom the server does not know.
fn unauthorized<T>(answer: &Result<T, ClientError>) -> Option<&Refusal> {
    let refusal = answer.as_ref().err()?.refusal()?;
    (refusal.reason == Reason::Unauthorized).then_some(refusal)
}

impl Login {
    /// By `access`; a program that logs in is run.
    fn by(access: &Access, timeout: Duration) -> Result<Self, ClientError> {
        let mut renewed_at = None;
        let (certificate, token) = match &access.identity {
            ApiCredentials::Nobody => (None, Token::None),
            ApiCredentials::Token(token) => (None, Token::Text(token.clone())),
            ApiCredentials::TokenFile(path) => (None, Token::File(path.clone())),
            ApiCredentials::Certificate { chain, key } => {
                (Some((chain.clone(), key.clone())), Token::None)
            }
            ApiCredentials::Program(plugin) => {
                let brought = plugin.log_in()?;
                renewed_at = brought.expires.filter(|at| *at > clock::now());
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
            renewed_at,
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::net::TcpListener;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;
    use std::thread;

    use serde_json::json;

    use super::*;
    use crate::exec::ExecPlugin;

    /// A server that believes nobody but who brings `good`, and answers each request with this body.
    fn server(body: &'static str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let lines = BufReader::new(stream.try_clone().unwrap()).lines();
                let head = lines
                    .map_while(Result::ok)
                    .take_while(|line| !line.is_empty());
                // All of it is read before it is answered.
                let head: Vec<String> = head.collect();
                let status = match head.iter().any(|line| line.ends_with("good")) {
                    true => "200 OK",
                    false => "401 Unauthorized",
                };
                let answer = format!(
                    "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                    body.len()
                );
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        address
    }

    fn connected(server: String, identity: ApiCredentials) -> ApiClient {
        let authority = rcgen::generate_simple_self_signed(["here".to_owned()]).unwrap();
        let access = Access {
            server,
            authority: authority.cert.pem().into_bytes(),
            identity,
        };
        ApiClient::new(&access, Duration::from_secs(30)).unwrap()
    }

    /// A client that logs in by a program, which writes down each run and brings this `status`.
    fn client(folder: &Path, status: &str) -> ApiClient {
        let program = folder.join("log-in");
        let version = "client.authentication.k8s.io/v1";
        let text = format!(
            "#!/bin/sh\necho run >> {runs:?}\n\
             echo '{{\"apiVersion\":\"{version}\",\"kind\":\"ExecCredential\",\"status\":{status}}}'\n",
            runs = folder.join("runs"),
        );
        fs::write(&program, text).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let exec = json!({ "apiVersion": version, "command": "./log-in" });
        let cluster = (&Value::Null, "https://here", &b"CA"[..]);
        let plugin = ExecPlugin::of(&exec, &folder.join("kubeconfig"), cluster).unwrap();
        connected(server("{}"), ApiCredentials::Program(Box::new(plugin)))
    }

    fn runs(folder: &Path) -> usize {
        let text = fs::read_to_string(folder.join("runs")).unwrap();
        text.lines().count()
    }

    #[test]
    fn a_server_that_answers_something_else_was_reached_and_cannot_be_used() {
        for (body, problem) in [("<html>", "is not JSON"), ("[]", "is not an object")] {
            let server = server(body);
            let client = connected(
                server.clone(),
                ApiCredentials::Token("good".to_owned().into()),
            );
            assert_eq!(
                client.get("/api").unwrap_err().to_string(),
                format!("the API server {server} cannot be used: its answer 200 {problem}")
            );
        }
    }

    #[test]
    fn a_program_whose_new_token_is_not_believed_either_is_not_run_for_each_request() {
        let folder = tempfile::tempdir().unwrap();
        let client = client(folder.path(), r#"{"token":"bad"}"#);
        for _ in 0..5 {
            let refused = client.get("/api").unwrap_err();
            assert_eq!(refused.refusal().unwrap().reason, Reason::Unauthorized);
        }
        assert_eq!(runs(folder.path()), 2);
    }

    #[test]
    fn a_program_is_run_again_when_what_it_brought_expires_and_not_before() {
        for (expires, expected) in [
            (clock::now() + Duration::from_secs(3600), 1),
            // By this machine's clock it was over when it came: the server decides.
            (clock::now() - Duration::from_secs(3600), 1),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let status = format!(r#"{{"token":"good","expirationTimestamp":"{expires}"}}"#);
            let client = client(folder.path(), &status);
            for _ in 0..3 {
                client.get("/api").unwrap();
            }
            assert_eq!(runs(folder.path()), expected, "{expires}");
            // As if its time had come.
            let mut login = client.login.lock().unwrap();
            let known = login.as_mut().and_then(Arc::get_mut).unwrap();
            known.renewed_at = Some(clock::now());
            drop(login);
            client.get("/api").unwrap();
            assert_eq!(runs(folder.path()), expected + 1, "{expires}");
        }
    }
}
