//! Asking a hub or a forge: one request, bounded, over HTTPS or, on this machine only, over plain HTTP.
//!
//! What comes in: a URL and, for a server with a private authority, its certificate; a token where one
//! is needed. What goes out: the answer's bytes. It follows no redirect, which could carry the token
//! elsewhere, and never reads more than it was allowed. No proxy is taken from the environment: whoever
//! can set a variable would read the token of plain requests and learn what is asked.

use std::path::{Path, PathBuf};
use std::time::Duration;

use outhaul_git::address::{Address, AddressError, Scheme};
pub use outhaul_http::Method;
use outhaul_http::{Authority, ClientSettings, TimeLimits};
use outhaul_kit::url_secrets::without_secrets;

/// Largest answer in bytes. 16 MiB: a gate's evidence for some ten thousand sites.
const MAX_ANSWER_BYTES: u64 = 16 * 1024 * 1024;
/// How long one exchange may take.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// The authority's certificate cannot be used.
    #[error("cannot use the certificates in `{}`: {problem}", path.display())]
    Authority {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The certificate that the server shows is not trusted.
    #[error(
        "the certificate of `{url}` is not trusted: {problem}\nhelp: {}", trusted_help(authority.as_deref())
    )]
    Certificate {
        /// The URL.
        url: String,
        /// What is wrong with it.
        problem: String,
        /// The file with the authority that was trusted; `None` for the system's.
        authority: Option<PathBuf>,
    },
    /// Plain HTTP to another machine.
    #[error(
        "`{url}` is plain HTTP to another machine, where anyone could answer\nhelp: use https://"
    )]
    Plain {
        /// The URL.
        url: String,
    },
    /// A URL that is not one.
    #[error("{0}\nhelp: write it as https://HOST/PATH")]
    Address(AddressError),
    /// The hub answered, but not with what was asked for.
    #[error("`{url}` answered {status}: {text}")]
    Status {
        /// The URL.
        url: String,
        /// The HTTP status.
        status: u16,
        /// The first line of what it said.
        text: String,
    },
    /// No connection, so that nothing was sent.
    #[error(
        "cannot reach `{url}`: {problem}\nhelp: see that it runs and that the address is right; nothing was changed"
    )]
    Unreachable {
        /// The URL.
        url: String,
        /// What happened.
        problem: String,
    },
    /// A request that asks for an answer was sent, and the answer did not come whole. What is asked may keep that it was asked.
    #[error(
        "no whole answer from `{url}`: {problem}; it may have got the request, and no answer of it was used\nhelp: see that it runs and that the \
         line holds, then run the command again"
    )]
    Unanswered {
        /// The URL.
        url: String,
        /// What happened.
        problem: String,
    },
    /// A request that may change something was sent, and its answer did not come.
    #[error(
        "no answer from `{url}`: {problem}; the server may have done what was asked for\nhelp: see there whether it was done, then run the \
         command again"
    )]
    NoAnswer {
        /// The URL.
        url: String,
        /// What happened.
        problem: String,
    },
}

/// Fetches `url`; `authority` is a PEM file for hubs whose certificate no public authority signed.
///
/// # Errors
/// [`HttpError`] for anything but an answer 200 within the bound.
pub fn fetch(url: &str, authority: Option<&Path>) -> Result<Vec<u8>, HttpError> {
    fetch_as(url, authority, None)
}

/// The same as someone: with a token, as `Authorization: Bearer`.
///
/// # Errors
/// As [`fetch`].
pub fn fetch_as(
    url: &str,
    authority: Option<&Path>,
    token: Option<&str>,
) -> Result<Vec<u8>, HttpError> {
    let bearer = token.map(|token| zeroize::Zeroizing::new(format!("Bearer {token}")));
    let headers: Vec<_> = bearer
        .iter()
        .map(|value| ("Authorization", value.as_str()))
        .collect();
    let answer = RemoteClient::new(authority)?.send(Method::GET, url, &headers, None)?;
    if answer.status == 200 {
        return Ok(answer.bytes);
    }
    Err(answer.refused(url))
}

/// What a server said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteResponse {
    /// The HTTP status.
    pub status: u16,
    /// The body, at most 16 MiB.
    pub bytes: Vec<u8>,
}

impl RemoteResponse {
    /// The error that says so.
    pub fn refused(&self, url: &str) -> HttpError {
        let text = String::from_utf8_lossy(&self.bytes);
        let line = text.lines().next().unwrap_or_default();
        HttpError::Status {
            url: without_secrets(url),
            status: self.status,
            text: line.chars().take(1000).collect(),
        }
    }
}

/// Asks servers whose certificates one authority signed, or a public one.
#[derive(Debug)]
pub struct RemoteClient {
    http: outhaul_http::Client,
    authority: Option<PathBuf>,
}

impl RemoteClient {
    /// A client; `authority` is a PEM file for servers whose certificate no public authority signed.
    ///
    /// # Errors
    /// [`HttpError::Authority`] when it cannot be used.
    pub fn new(authority: Option<&Path>) -> Result<Self, HttpError> {
        Self::with_limit(authority, LIMIT)
    }

    /// The same, where one exchange may take `whole`: what is sent is large, or the line is slow.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with_limit(authority: Option<&Path>, whole: Duration) -> Result<Self, HttpError> {
        let http = match authority {
            Some(path) => {
                client(Authority::File(path), whole).map_err(|error| HttpError::Authority {
                    path: path.to_path_buf(),
                    problem: match error {
                        outhaul_http::HttpError::NoCertificate { .. } => {
                            "it contains none".to_owned()
                        }
                        other => other.to_string(),
                    },
                })?
            }
            // On a system without authorities no certificate is trusted; this machine can still be asked.
            None => client(Authority::System, whole)
                .or_else(|_| client(Authority::Nobody, whole))
                .map_err(|error| HttpError::Authority {
                    path: PathBuf::new(),
                    problem: error.to_string(),
                })?,
        };
        let authority = authority.map(Path::to_owned);
        Ok(Self { http, authority })
    }

    /// Sends one request and reads the answer, whatever its status.
    ///
    /// # Errors
    /// [`HttpError`] when there is no answer within the bounds.
    pub fn send(
        &self,
        method: Method,
        url: &str,
        headers: &[(&str, &str)],
        body: Option<Vec<u8>>,
    ) -> Result<RemoteResponse, HttpError> {
        let address = Address::parse(url).map_err(HttpError::Address)?;
        match address.scheme() {
            Scheme::Https => {}
            Scheme::Http if address.is_loopback() && !address.has_user() => {}
            Scheme::Http => {
                return Err(HttpError::Plain {
                    url: address.to_string(),
                });
            }
            _ => {
                return Err(HttpError::Address(AddressError::NotAUrl {
                    url: address.to_string(),
                    problem: "only https and http are spoken here",
                }));
            }
        }
        let url = address.canonical();
        let only_reads = method.is_safe();
        let failed = |error: outhaul_http::HttpError| {
            let (url, problem) = (address.to_string(), error.problem());
            match error {
                outhaul_http::HttpError::Certificate { .. } => HttpError::Certificate {
                    url,
                    problem,
                    authority: self.authority.clone(),
                },
                error if error.may_be_sent() => match only_reads {
                    true => HttpError::Unanswered { url, problem },
                    false => HttpError::NoAnswer { url, problem },
                },
                _ => HttpError::Unreachable { url, problem },
            }
        };
        let mut request = self.http.request(method, &url);
        for (name, value) in headers {
            request = request.secret_header(name, value);
        }
        let answer = match body {
            None => request.send(),
            Some(bytes) => request.send_bytes(&bytes),
        };
        let answer = answer.map_err(failed)?;
        let status = answer.status();
        let bytes = answer.bytes(MAX_ANSWER_BYTES).map_err(failed)?;
        Ok(RemoteResponse { status, bytes })
    }
}

/// How a certificate comes to be trusted.
fn trusted_help(authority: Option<&Path>) -> String {
    match authority {
        Some(path) => format!(
            "see that `{}` is the authority that signed it, that the address has the name that it is for, and that this machine's \
             clock is right",
            path.display()
        ),
        None => "where a private authority signed it, name that authority's certificate: `--hub-ca FILE` for a hub (`hub_ca` in \
                 `outhaul.toml`), `--forge-ca FILE` for a forge; otherwise see that the address has the name that it is for, and that \
                 this machine's clock is right"
            .to_owned(),
    }
}

fn client(
    authority: Authority,
    whole: Duration,
) -> Result<outhaul_http::Client, outhaul_http::HttpError> {
    let limits = TimeLimits {
        connect: Some(Duration::from_secs(10)),
        answer: None,
        body: None,
        whole: Some(whole),
    };
    let user_agent = concat!("outhaul/", env!("CARGO_PKG_VERSION"));
    outhaul_http::Client::new(&ClientSettings {
        limits,
        ..ClientSettings::new(user_agent, authority)
    })
}

/// Whether `url` is plain HTTP to this machine.
pub(crate) fn is_loopback(url: &str) -> bool {
    Address::parse(url).is_ok_and(|address| {
        address.scheme() == Scheme::Http && address.is_loopback() && !address.has_user()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_http_stays_on_this_machine() {
        for url in [
            "http://127.0.0.1:80/",
            "http://localhost/x",
            "http://[::1]:8/",
            "http://127.9.9.9",
        ] {
            assert!(is_loopback(url), "{url}");
        }
        for url in [
            "http://127.0.0.1.example/",
            "http://localhost.example",
            "http://a@127.0.0.1/",
            "http://10.0.0.1/",
            "https://127.0.0.1/",
            "http://[::2]/",
        ] {
            assert!(!is_loopback(url), "{url}");
        }
    }

    #[test]
    fn no_spelling_of_a_url_gets_around_the_guard_or_panics() {
        for url in [
            "http://hub.example/",
            "HTTP://hub.example/",
            "hTTp://127.0.0.1.example/",
            "Http://me:secret@hub.example/",
        ] {
            let error = fetch(url, None).unwrap_err();
            assert!(matches!(error, HttpError::Plain { .. }), "{url}: {error}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
        // Port 1 answers nobody: what matters is that it was asked at all.
        let error = fetch("HTTPS://127.0.0.1:1/", None).unwrap_err();
        assert!(matches!(error, HttpError::Unreachable { .. }), "{error}");
        for url in [
            "",
            "hub",
            "ftp://hub/",
            "https://",
            "https://hub:x/",
            "file:///etc/passwd",
        ] {
            let error = fetch(url, None).unwrap_err();
            assert!(matches!(error, HttpError::Address(_)), "{url}: {error}");
        }
    }

    #[test]
    fn a_certificate_that_is_not_trusted_is_answered_with_the_option_that_names_its_authority() {
        let of = |authority: Option<&str>| {
            let error = HttpError::Certificate {
                url: "https://hub.example/".to_owned(),
                problem: "invalid peer certificate: UnknownIssuer".to_owned(),
                authority: authority.map(PathBuf::from),
            };
            error.to_string()
        };
        let system = of(None);
        assert!(
            system.contains("UnknownIssuer\nhelp: where a private authority"),
            "{system}"
        );
        assert!(system.contains("`--hub-ca FILE`"), "{system}");
        let own = of(Some("ca.pem"));
        assert!(own.contains("`ca.pem` is the authority"), "{own}");
        assert!(!own.contains("--hub-ca"), "{own}");
    }

    #[test]
    fn https_without_an_authority_of_its_own_is_an_answer_and_no_panic() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("https://{}/", listener.local_addr().unwrap());
        // Plain HTTP where TLS belongs.
        let peer = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            std::io::Write::write_all(&mut stream, b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
        });
        let error = fetch(&url, None).unwrap_err();
        assert!(matches!(error, HttpError::Unanswered { .. }), "{error}");
        peer.join().unwrap();
    }

    #[test]
    fn a_change_that_was_sent_and_not_answered_is_not_called_undone() {
        use std::io::{BufRead as _, BufReader};

        // Reads one request and closes the connection without an answer.
        let once = |method: Method| {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let url = format!("http://{}/", listener.local_addr().unwrap());
            let peer = std::thread::spawn(move || {
                let (stream, _) = listener.accept().unwrap();
                let lines = BufReader::new(stream).lines().map_while(Result::ok);
                assert!(lines.take_while(|line| !line.is_empty()).count() > 0);
            });
            let client = RemoteClient::new(None).unwrap();
            let body = (method == Method::POST).then(Vec::new);
            let error = client.send(method, &url, &[], body).unwrap_err();
            peer.join().unwrap();
            error
        };
        let changed = once(Method::POST);
        assert!(matches!(changed, HttpError::NoAnswer { .. }), "{changed}");
        assert!(!changed.to_string().contains("nothing was changed"));
        // A gate puts on record that it was asked.
        let read = once(Method::GET);
        assert!(matches!(read, HttpError::Unanswered { .. }), "{read}");
        assert!(!read.to_string().contains("nothing was changed"), "{read}");
    }
}
