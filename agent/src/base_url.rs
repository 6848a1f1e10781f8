//! Where something is fetched from or sent to: a URL that may be used.
//!
//! What comes in: a URL as somebody wrote it. What goes out: a [`BaseUrl`], parsed once; nothing is decided by how
//! its text begins. Plain `http://` is for this very host only. It opens no connection.

use std::fmt;
use std::str::FromStr;

/// Whether a URL may be used.
///
/// # Errors
/// What is expected instead, for a message.
pub fn check_url(url: &str) -> Result<(), &'static str> {
    url.parse::<BaseUrl>().map(drop)
}

/// What a URL must be, for messages.
const EXPECTED: &str = "a URL that starts with https:// (http:// only for 127.0.0.1, [::1] or localhost), \
                        without a user, a password, `?` or `#`";

/// Where something is fetched from: over TLS, or from this very host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseUrl {
    /// Whether it is `https://`.
    pub tls: bool,
    /// Scheme and host in lower case, the path without a slash at its end.
    text: String,
}

impl FromStr for BaseUrl {
    type Err = &'static str;

    fn from_str(url: &str) -> Result<Self, &'static str> {
        let uri: ureq::http::Uri = url.parse().map_err(|_| EXPECTED)?;
        let scheme = uri.scheme_str().map(str::to_ascii_lowercase);
        let authority = uri.authority().ok_or(EXPECTED)?.as_str();
        let host = uri.host().unwrap_or_default().to_ascii_lowercase();
        let loopback = matches!(host.as_str(), "127.0.0.1" | "localhost" | "[::1]");
        let tls = match scheme.as_deref() {
            Some("https") => true,
            Some("http") if loopback => false,
            _ => return Err(EXPECTED),
        };
        // A password in a URL would be in every message about it.
        if host.is_empty() || authority.contains('@') || url.contains(['?', '#']) {
            return Err(EXPECTED);
        }
        let scheme = if tls { "https" } else { "http" };
        let authority = authority.to_ascii_lowercase();
        let path = uri.path().trim_end_matches('/');
        Ok(Self {
            tls,
            text: format!("{scheme}://{authority}{path}"),
        })
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
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
            let parsed: BaseUrl = spelled.parse().unwrap();
            assert_eq!(parsed.to_string(), url);
        }
    }
}
