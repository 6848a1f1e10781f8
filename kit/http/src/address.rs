//! Which URLs may be used: `https://`, and plain `http://` to this very machine.
//!
//! What comes in: a URL as someone wrote it. What goes out: the same URL with scheme and host in lower case, parsed once; nothing
//! is decided by how its text begins. It opens no connection and resolves no name.

use std::fmt;
use std::str::FromStr;

use outhaul_kit::url::{EXPECTED, UrlParts, check_base, check_port, is_loopback};
use ureq::http::Uri;

/// Whether a URL may be the base of others.
///
/// # Errors
/// What is expected instead, for a message.
pub fn check_url(url: &str) -> Result<(), &'static str> {
    url.parse::<BaseUrl>().map(drop)
}

/// Whether a URL that is asked as it is written goes over TLS.
///
/// # Errors
/// What is expected instead, for a message, which does not repeat the URL.
pub fn is_tls(url: &str) -> Result<bool, &'static str> {
    usable(url).map(|(_, is_tls)| is_tls)
}

/// A URL below which everything that is asked for lies; no slash at its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseUrl {
    text: String,
    is_tls: bool,
}

impl BaseUrl {
    /// Whether it is `https://`.
    pub fn is_tls(&self) -> bool {
        self.is_tls
    }

    /// The URL of `path` below it.
    pub fn join(&self, path: &str) -> String {
        format!("{}/{}", self.text, path.trim_start_matches('/'))
    }
}

impl FromStr for BaseUrl {
    type Err = &'static str;

    fn from_str(url: &str) -> Result<Self, &'static str> {
        check_base(url)?;
        let (text, is_tls) = usable(url)?;
        let text = text.trim_end_matches('/').to_owned();
        Ok(Self { text, is_tls })
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// `url` with its scheme and host in lower case, and whether it is `https://`.
pub(crate) fn usable(url: &str) -> Result<(String, bool), &'static str> {
    let uri: Uri = url.parse().map_err(|_| EXPECTED)?;
    let scheme = uri.scheme_str().map(str::to_ascii_lowercase);
    let authority = uri.authority().ok_or(EXPECTED)?.as_str();
    let host = uri.host().unwrap_or_default();
    let is_tls = match scheme.as_deref() {
        Some("https") => true,
        Some("http") if is_loopback(host) => false,
        _ => return Err(EXPECTED),
    };
    check_port(UrlParts::of(url).and_then(|parts| parts.port()))?;
    // A password in a URL would be in every message about it.
    if host.is_empty() || authority.contains('@') {
        return Err(EXPECTED);
    }
    let scheme = if is_tls { "https" } else { "http" };
    let authority = authority.to_ascii_lowercase();
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    Ok((format!("{scheme}://{authority}{path}"), is_tls))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_means_the_same_however_it_is_spelled() {
        for (spelled, url) in [
            (
                "HTTPS://Hub.Example.ORG/Path/",
                "https://hub.example.org/Path",
            ),
            ("HTTP://LOCALHOST:8080/", "http://localhost:8080"),
        ] {
            let parsed: Result<BaseUrl, _> = spelled.parse();
            assert_eq!(parsed.map(|url| url.to_string()).as_deref(), Ok(url));
        }
    }

    #[test]
    fn a_query_is_for_requests_and_not_for_a_base() {
        let url = "https://registry.example.org/token?scope=repository:app:pull";
        assert_eq!(usable(url), Ok((url.to_owned(), true)));
        assert!(check_url(url).is_err());
    }

    #[test]
    fn plain_http_is_for_this_host_only() {
        for good in [
            "https://hub.example.org",
            "http://127.0.0.1:1/x",
            "http://127.9.9.9",
            "http://localhost:8080",
            "http://[::1]:8080",
        ] {
            assert_eq!(check_url(good), Ok(()), "{good}");
        }
        for bad in [
            "http://example.org",
            "http://127.0.0.1.example.org",
            "http://localhost.example",
            "http://a@127.0.0.1/",
            "http://10.0.0.1/",
            "http://[::2]/",
            "file:///etc",
            "HTTP://example.org",
            "hTTp://10.0.0.1/",
            "https://user:secret@hub.example.org",
            "https://hub.example.org/?a",
            "https://",
            "hub",
            "",
        ] {
            assert_eq!(check_url(bad), Err(EXPECTED), "{bad}");
        }
    }
}
