//! HTTP towards a repository or a hub: how long an answer may last, and what a status means.
//!
//! What comes in: a base URL and, where a site has its own, a certificate authority. What goes out: a
//! [`ServerClient`], a [`Server`] with bounded answers and timeouts. What comes over it is not trusted for that: signatures decide, TLS
//! keeps curious eyes out. How a connection is set up is in `kit/http`.

use std::io::Read;
use std::path::Path;
use std::time::Duration;

use outhaul_http::{
    Authority, BaseUrl, ClientSettings, HttpError, Method, Proxy, Request, Response,
};

use crate::error::AgentError;
use crate::facilities::{Server, Span};
use outhaul_kit::console;
use outhaul_kit::url::UrlParts;

/// For a part of a large answer: below the service's watchdog of 120 s. What came in it stays and is gone on from.
const PART: Duration = Duration::from_secs(90);
/// For all of a large answer of a server that cannot go on in the middle.
const WHOLE: Duration = Duration::from_secs(3600);

/// A connection to one place.
#[derive(Debug)]
pub struct ServerClient {
    http: outhaul_http::Client,
    base: BaseUrl,
    part: Duration,
}

impl ServerClient {
    /// A client for what lies below `base`. `ca` is a file with the authority to trust, else `pem` (from
    /// the kit) is it, else the system's.
    ///
    /// # Errors
    /// [`AgentError::Usage`] for a URL that may not be used, [`AgentError::File`] for the authority.
    pub fn new(base: &str, ca: Option<&Path>, pem: &str) -> Result<Self, AgentError> {
        let base: BaseUrl = base.parse().map_err(|expected| AgentError::Usage {
            message: "the URL of the repository or hub cannot be used".to_owned(),
            help: format!("give {expected}"),
        })?;
        let authority = match ca {
            _ if !base.is_tls() => Authority::Nobody,
            Some(path) => Authority::File(path),
            None if pem.is_empty() => Authority::System,
            None => Authority::Pem {
                origin: "the kit",
                pem: pem.as_bytes(),
            },
        };
        let user_agent = concat!("outhaul-agent/", env!("CARGO_PKG_VERSION"));
        let address = base.join("");
        let http = outhaul_http::Client::new(&ClientSettings {
            redirects: 3,
            named: UrlParts::of(&address).map(|parts| parts.authority),
            proxy: Proxy::FromEnvironment,
            ..ClientSettings::new(user_agent, authority)
        });
        Ok(Self {
            http: http.map_err(unusable)?,
            base,
            part: PART,
        })
    }

    /// The same with other bounds, for tests that wait for one.
    #[must_use]
    pub fn with_part(mut self, part: Duration) -> Self {
        self.part = part;
        self
    }

    fn request(&self, method: Method, path: &str) -> Request<'_> {
        self.http.request(method, &self.url(path))
    }

    fn body(&self, path: &str, answer: Response, max_bytes: u64) -> Result<Vec<u8>, AgentError> {
        let says = format!("waiting for {}: its answer has begun", self.url(path));
        let bytes = console::waiting(&says, || answer.bytes(max_bytes));
        bytes.map_err(|error| self.failed(path, problem(&error)))
    }

    fn answer(&self, path: &str, request: Request<'_>) -> Result<Response, AgentError> {
        let says = format!("waiting for {}: no answer yet", self.url(path));
        let answer = console::waiting(&says, || request.send());
        answer.map_err(|error| self.failed(path, problem(&error)))
    }

    fn unexpected(&self, path: &str, answer: &Response) -> AgentError {
        self.failed(path, format!("the server answers {}", answer.status_text()))
    }

    fn failed(&self, path: &str, problem: String) -> AgentError {
        AgentError::Network {
            url: self.url(path),
            problem,
        }
    }
}

impl Server for ServerClient {
    fn url(&self, path: &str) -> String {
        self.base.join(path)
    }

    fn get(&self, path: &str, max_bytes: u64) -> Result<Option<Vec<u8>>, AgentError> {
        let answer = self.answer(path, self.request(Method::GET, path))?;
        match answer.status() {
            200 => self.body(path, answer, max_bytes).map(Some),
            404 | 410 => Ok(None),
            _ => Err(self.unexpected(path, &answer)),
        }
    }

    fn open(
        &self,
        path: &str,
        offset: u64,
        span: Span,
    ) -> Result<(Box<dyn Read>, u64), AgentError> {
        let mut request = self.request(Method::GET, path).body_limit(match span {
            Span::Part => self.part,
            Span::Whole => WHOLE,
        });
        if offset > 0 {
            request = request.header("Range", &format!("bytes={offset}-"));
        }
        let answer = self.answer(path, request)?;
        let start = match answer.status() {
            206 => offset,
            200 => 0,
            404 | 410 => {
                return Err(AgentError::Incomplete {
                    url: self.base.join(""),
                    missing: path.to_owned(),
                });
            }
            _ => return Err(self.unexpected(path, &answer)),
        };
        Ok((Box::new(answer.into_reader()), start))
    }

    fn post(&self, path: &str, body: &[u8], max_bytes: u64) -> Result<Vec<u8>, AgentError> {
        let request = self.request(Method::POST, path);
        let request = request.header("Content-Type", "application/jsonl");
        let says = format!(
            "waiting for {}: no answer yet; what is not acknowledged stays in the queue",
            self.url(path)
        );
        let answer = console::waiting(&says, || request.send_bytes(body));
        let answer = answer.map_err(|error| AgentError::NoAnswer {
            url: self.url(path),
            problem: problem(&error),
        })?;
        if answer.status() == 200 {
            return self.body(path, answer, max_bytes);
        }
        let status = answer.status_text();
        let text = answer.excerpt(max_bytes);
        let text = outhaul_reconcilers::shortened(&text);
        Err(self.failed(path, format!("the server answers {status}: {text}")))
    }
}

/// What happened; of a certificate that is not trusted also how it comes to be.
fn problem(error: &HttpError) -> String {
    match error {
        HttpError::Certificate { problem, .. } => format!(
            "{problem}: where a private authority signed that server's certificate, name that one with `ca` beside `url` in agent.toml (a kit of \
             `outhaul site enrol --hub-ca FILE` brings it); otherwise see this machine's clock"
        ),
        other => other.problem(),
    }
}

/// What is wrong with the authority.
fn unusable(error: HttpError) -> AgentError {
    match error {
        HttpError::AuthorityFile(error) => error.into(),
        other => AgentError::Usage {
            message: other.to_string(),
            help: "set `ca` in agent.toml to a PEM file with the authority's certificate".into(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::{HttpError, Server as _, ServerClient, problem};

    #[test]
    fn a_certificate_that_is_not_trusted_is_told_with_the_setting_that_names_its_authority() {
        let (url, unknown) = (
            "https://hub.example/".to_owned(),
            "UnknownIssuer".to_owned(),
        );
        let said = problem(&HttpError::Certificate {
            url,
            problem: unknown,
        });
        assert!(
            said.starts_with("UnknownIssuer: ") && said.contains("`ca` beside `url` in agent.toml"),
            "{said}"
        );
    }

    #[test]
    fn a_url_is_checked_before_its_authority_is_read() {
        let missing = std::path::Path::new("/nowhere/ca.pem");
        let error = ServerClient::new("http://example.org", Some(missing), "").unwrap_err();
        assert!(error.to_string().contains("cannot be used"), "{error}");
        // In capitals it is HTTPS all the same.
        let error = ServerClient::new("HTTPS://127.0.0.1:1", Some(missing), "").unwrap_err();
        assert!(error.to_string().contains("/nowhere/ca.pem"), "{error}");
        let client = ServerClient::new("HTTP://127.0.0.1:1/", None, "").unwrap();
        let error = client.get("x", 10).unwrap_err().to_string();
        assert!(error.contains("http://127.0.0.1:1/x"), "{error}");
    }
}
