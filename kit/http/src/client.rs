//! One client: TLS, time limits, redirects, and answers that are bounded.
//!
//! What comes in: [`ClientSettings`] once, then requests with full URLs. What goes out: a [`Response`] whatever its status. It keeps
//! nothing between requests but open connections, and repeats nothing but a `GET` or `HEAD` on a connection that was closed before
//! an answer began. Each URL is checked before it is used: see [`crate::address`].

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use outhaul_kit::url::UrlParts;
use ureq::http::{self, HeaderValue, Method};
use ureq::tls::{ClientCert, PrivateKey, RootCerts, TlsConfig};
use ureq::unversioned::transport::DefaultConnector;
use ureq::{AsSendBody, Body};

use crate::address::usable;
use crate::authority::{self, Authority};
use crate::body::{BodyReader, LeastRate, worded};
use crate::error::HttpError;
use crate::outside::{OutsideOnly, RedirectsOutside};
use crate::unanswered::{is_closed, not_answered};

/// How long things may last; `None` is without its own limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeLimits {
    /// Until a connection stands.
    pub connect: Option<Duration>,
    /// Until an answer begins, once the request was sent.
    pub answer: Option<Duration>,
    /// For all of an answer's body. [`Request::body_limit`] sets another for one request.
    pub body: Option<Duration>,
    /// For a request, its redirects and its answer together.
    pub whole: Option<Duration>,
}

/// Who the client is to a server that asks for a certificate: PEM.
#[derive(Clone, Copy)]
pub struct Identity<'a> {
    /// The certificates.
    pub chain: &'a [u8],
    /// The private key.
    pub key: &'a [u8],
}

impl std::fmt::Debug for Identity<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a certificate")
    }
}

/// Whether a proxy is used for `https://`; for plain HTTP none ever is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proxy {
    /// The one that `HTTPS_PROXY` and its like name.
    FromEnvironment,
    /// None.
    Never,
}

/// Longest time without a byte, by default.
const SILENCE: Duration = Duration::from_secs(60);

/// How a client behaves.
#[derive(Debug, Clone, Copy)]
pub struct ClientSettings<'a> {
    /// `User-Agent`: the program and its version.
    pub user_agent: &'a str,
    /// Which certificate authorities are trusted.
    pub authority: Authority<'a>,
    /// The client's own certificate.
    pub identity: Option<Identity<'a>>,
    /// Time limits.
    pub limits: TimeLimits,
    /// Longest time without a byte, of an answer's body as it comes and of a request's as it goes; `None` without a limit of its own. Where
    /// [`TimeLimits::answer`] is longer that counts, and where only [`TimeLimits::whole`] limits an answer that is the limit for all.
    pub silence: Option<Duration>,
    /// Most redirects that are followed; with 0 a redirect is an answer. Plain HTTP follows none.
    pub redirects: u32,
    /// The one host, with its port where it is written, that who runs the program named: any other, to which a redirect leads, is asked only where it
    /// is neither this machine nor its link. Without one every host counts as named.
    pub named: Option<&'a str>,
    /// Whether a proxy is used.
    pub proxy: Proxy,
}

impl<'a> ClientSettings<'a> {
    /// Careful ones: no redirects, no proxy, 30 s for a connection, 60 s until an answer begins, for its body, and without a byte.
    pub fn new(user_agent: &'a str, authority: Authority<'a>) -> Self {
        Self {
            user_agent,
            authority,
            identity: None,
            limits: TimeLimits {
                connect: Some(Duration::from_secs(30)),
                answer: Some(Duration::from_secs(60)),
                body: Some(Duration::from_secs(60)),
                whole: None,
            },
            silence: Some(SILENCE),
            redirects: 0,
            named: None,
            proxy: Proxy::Never,
        }
    }
}

/// Sends requests.
#[derive(Debug)]
pub struct Client {
    /// For `https://`.
    tls: ureq::Agent,
    /// The same for addresses that are neither this machine nor its link; no redirect, no proxy.
    outside: ureq::Agent,
    /// For this machine: no redirect, no proxy.
    plain: ureq::Agent,
    /// Longest time without a byte.
    silence: Option<Duration>,
}

impl Client {
    /// A client; nothing is asked yet.
    ///
    /// # Errors
    /// [`HttpError`] for certificates and keys that cannot be used.
    pub fn new(settings: &ClientSettings) -> Result<Self, HttpError> {
        let limits = settings.limits;
        let silence = match (limits.answer, limits.whole) {
            (Some(answer), _) => settings.silence.map(|silence| silence.max(answer)),
            (None, Some(_)) => None,
            (None, None) => settings.silence,
        };
        let common = || {
            ureq::Agent::config_builder()
                .user_agent(settings.user_agent)
                .http_status_as_error(false)
                .timeout_connect(limits.connect)
                .timeout_recv_response(limits.answer)
                .timeout_recv_body(limits.body)
                .timeout_per_read(silence)
                .timeout_per_write(silence)
                .timeout_global(limits.whole)
        };
        let identity = settings.identity.map(client_certificate).transpose()?;
        let authorities = settings.authority.certificates()?;
        // Without the provider named here the first https:// request would end the program.
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::Specific(Arc::new(authorities)))
            .client_cert(identity)
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .build();
        let outside = common()
            .https_only(true)
            .max_redirects(0)
            .proxy(None)
            .tls_config(tls.clone())
            .build();
        let mut secure = common()
            .https_only(true)
            .max_redirects(settings.redirects)
            .tls_config(tls);
        if settings.proxy == Proxy::Never {
            secure = secure.proxy(None);
        }
        let secure = secure.build();
        Ok(Self {
            tls: match settings.named {
                Some(named) => ureq::Agent::with_parts(
                    secure,
                    DefaultConnector::default(),
                    RedirectsOutside::of(named),
                ),
                None => secure.into(),
            },
            outside: ureq::Agent::with_parts(
                outside,
                DefaultConnector::default(),
                OutsideOnly::default(),
            ),
            silence,
            plain: common().max_redirects(0).proxy(None).build().into(),
        })
    }

    /// A request to `url`, which is checked when it is sent.
    pub fn request(&self, method: Method, url: &str) -> Request<'_> {
        Request {
            client: self,
            builder: ureq::http::Request::builder()
                .method(method)
                .header("Accept-Encoding", "identity"),
            url: url.to_owned(),
            body_limit: None,
            least: None,
            is_outside: false,
        }
    }
}

fn client_certificate(identity: Identity) -> Result<ClientCert, HttpError> {
    let key = PrivateKey::from_pem(identity.key).map_err(|_| HttpError::IdentityKey)?;
    let chain = authority::certificates(identity.chain);
    if chain.is_empty() {
        return Err(HttpError::IdentityCertificate);
    }
    Ok(ClientCert::new_with_certs(&chain, key))
}

/// A request that was not sent yet.
#[derive(Debug)]
#[must_use]
pub struct Request<'a> {
    client: &'a Client,
    builder: ureq::http::request::Builder,
    url: String,
    body_limit: Option<Duration>,
    least: Option<LeastRate>,
    is_outside: bool,
}

impl Request<'_> {
    /// With a header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.builder = self.builder.header(name, value);
        self
    }

    /// With a header of which the value is shown nowhere.
    pub fn secret_header(mut self, name: &str, value: &str) -> Self {
        self.builder = match HeaderValue::try_from(value) {
            Ok(mut value) => {
                value.set_sensitive(true);
                self.builder.header(name, value)
            }
            // Found again, as an error, when it is sent.
            Err(_) => self.builder.header(name, value),
        };
        self
    }

    /// With another time limit for all of the answer's body.
    pub fn body_limit(mut self, limit: Duration) -> Self {
        self.body_limit = Some(limit);
        self
    }

    /// With so many bytes of the answer's body at least in every such time: one that drips is an error.
    pub fn least_rate(mut self, least: LeastRate) -> Self {
        self.least = Some(least);
        self
    }

    /// To an address that is neither this machine nor its link, checked when the name is resolved: for one that a server named. It follows no
    /// redirect and uses no proxy, which would resolve the name by itself.
    pub fn outside_only(mut self) -> Self {
        self.is_outside = true;
        self
    }

    /// Sends it without a body. A `GET` or `HEAD` is sent once more when the connection was closed before an answer began: a server
    /// may close one that was kept open at the moment when it is used again (RFC 9110, section 9.2.2).
    ///
    /// # Errors
    /// [`HttpError`] when no answer begins within the limits.
    pub fn send(self) -> Result<Response, HttpError> {
        let repeatable = matches!(
            self.builder.method_ref(),
            Some(&Method::GET | &Method::HEAD)
        );
        self.run((), repeatable)
    }

    /// Sends it with a body.
    ///
    /// # Errors
    /// [`HttpError`] when no answer begins within the limits.
    pub fn send_bytes(self, body: &[u8]) -> Result<Response, HttpError> {
        self.run(body, false)
    }

    /// Sends it with a body of `size` bytes, as they come from `reader`: memory does not grow with them.
    ///
    /// # Errors
    /// [`HttpError`] when no answer begins within the limits, or `reader` fails.
    pub fn send_from(self, reader: &mut dyn Read, size: u64) -> Result<Response, HttpError> {
        let Self {
            client,
            builder,
            url,
            body_limit: _,
            least,
            is_outside,
        } = self.header("Content-Length", &size.to_string());
        let (canonical, is_tls) = usable(&url).map_err(|expected| HttpError::Url { expected })?;
        let not_sent = |problem: String| HttpError::NotSent {
            url: url.clone(),
            problem,
        };
        let agent = client.agent(&url, is_tls, is_outside)?;
        let body = ureq::SendBody::from_reader(reader);
        let request = builder.uri(canonical).body(body);
        let request = request.map_err(|_| not_sent("a header of the request is invalid".into()))?;
        let response = agent.run(request);
        let response = response.map_err(|error| client.not_answered(&url, &error))?;
        Ok(client.response(url, response, least))
    }

    fn run(self, body: impl AsSendBody + Clone, repeatable: bool) -> Result<Response, HttpError> {
        let Self {
            client,
            builder,
            url,
            body_limit,
            least,
            is_outside,
        } = self;
        let (canonical, is_tls) = usable(&url).map_err(|expected| HttpError::Url { expected })?;
        let not_sent = |problem: String| HttpError::NotSent {
            url: url.clone(),
            problem,
        };
        let agent = client.agent(&url, is_tls, is_outside)?;
        let request = builder.uri(canonical).body(body);
        // Its text would not name the header.
        let request = request.map_err(|_| not_sent("a header of the request is invalid".into()))?;
        let send = |request| {
            let mut config = agent.configure_request(request);
            if body_limit.is_some() {
                config = config.timeout_recv_body(body_limit);
            }
            agent.run(config.build())
        };
        let response = match send(request.clone()) {
            Err(first) if repeatable && is_closed(&first) => {
                send(request).map_err(|error| client.not_answered_twice(&url, &first, &error))?
            }
            response => response.map_err(|error| client.not_answered(&url, &error))?,
        };
        Ok(client.response(url, response, least))
    }
}

impl Client {
    fn response(
        &self,
        url: String,
        response: http::Response<Body>,
        least: Option<LeastRate>,
    ) -> Response {
        Response {
            url,
            answer: response,
            silence: self.silence,
            least,
        }
    }

    /// What asks an address.
    fn agent(&self, url: &str, is_tls: bool, is_outside: bool) -> Result<&ureq::Agent, HttpError> {
        match (is_tls, is_outside) {
            (true, false) => Ok(&self.tls),
            (true, true) => Ok(&self.outside),
            (false, false) => Ok(&self.plain),
            // Plain HTTP is for this machine only.
            (false, true) => Err(HttpError::Inside {
                url: url.to_owned(),
                host: UrlParts::of(url)
                    .map_or("", |parts| parts.host())
                    .to_owned(),
                what: "this machine",
            }),
        }
    }

    /// A request that had no answer.
    fn not_answered(&self, url: &str, error: &ureq::Error) -> HttpError {
        let problem =
            worded(error, self.silence).map_or_else(|| error.to_string(), |s| s.to_string());
        not_answered(url, error, problem)
    }

    /// A request that had no answer, and then none again: the server may have got the `first` one, whatever became of the second.
    fn not_answered_twice(&self, url: &str, first: &ureq::Error, error: &ureq::Error) -> HttpError {
        match self.not_answered(url, error) {
            HttpError::Refused { url, problem } | HttpError::NotSent { url, problem } => {
                let problem = format!("{first}, and then {problem}");
                HttpError::Failed { url, problem }
            }
            error => error,
        }
    }
}

/// What a server answered.
#[derive(Debug)]
pub struct Response {
    url: String,
    answer: http::Response<Body>,
    silence: Option<Duration>,
    least: Option<LeastRate>,
}

impl Response {
    /// The HTTP status.
    pub fn status(&self) -> u16 {
        self.answer.status().as_u16()
    }

    /// The HTTP status with its name, for people: `404 Not Found`.
    pub fn status_text(&self) -> String {
        self.answer.status().to_string()
    }

    /// A header's first value, when it is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.answer.headers().get(name)?.to_str().ok()
    }

    /// The body.
    ///
    /// # Errors
    /// [`HttpError::Failed`] when it breaks off, lasts too long, or has more than `max_bytes`.
    pub fn bytes(self, max_bytes: u64) -> Result<Vec<u8>, HttpError> {
        let url = self.url.clone();
        let mut bytes = Vec::new();
        let reader = self.into_reader();
        let problem = match reader.take(max_bytes + 1).read_to_end(&mut bytes) {
            Ok(_) if bytes.len() as u64 <= max_bytes => return Ok(bytes),
            Ok(_) => format!("the answer has more than {max_bytes} bytes"),
            Err(error) => error.to_string(),
        };
        Err(HttpError::Failed { url, problem })
    }

    /// The beginning of the body as text, at most `max_bytes` of it, for messages about a refusal.
    pub fn excerpt(self, max_bytes: u64) -> String {
        let mut bytes = Vec::new();
        let reader = self.into_reader();
        // What came before it broke off is still worth showing.
        drop(reader.take(max_bytes).read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The body as it comes. It is not bounded: the caller reads as much as it expects.
    pub fn into_reader(self) -> impl Read + Send + use<> {
        BodyReader::new(
            self.answer.into_body().into_reader(),
            self.silence,
            self.least,
        )
    }
}

#[cfg(test)]
mod tests;
