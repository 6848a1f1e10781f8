//! The text of a URL, taken apart as it is written.
//!
//! What comes in: a text. What goes out: its parts, as RFC 3986 separates them, or that it has no scheme. Nothing is decoded, and nothing is
//! checked beyond the scheme, except by [`check_base`]; what may be asked is decided by who asks (`outhaul_http`, `outhaul_git`).

use std::net::{IpAddr, SocketAddr};

/// The parts of a URL `scheme://user@host:port/path?query#fragment`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UrlParts<'a> {
    /// What stands before `://`, as it is written.
    pub scheme: &'a str,
    /// What stands before the last `@` of the authority: a user, and a password where there is one.
    pub user: Option<&'a str>,
    /// The host and, where it is written, the port.
    pub authority: &'a str,
    /// Everything behind the authority: path, query and fragment.
    pub rest: &'a str,
}

impl<'a> UrlParts<'a> {
    /// The parts of `text`; `None` when it does not begin with a scheme and `://`.
    pub fn of(text: &'a str) -> Option<Self> {
        let (scheme, behind) = text.split_once("://")?;
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
        if !scheme.starts_with(|c: char| c.is_ascii_alphabetic()) || !scheme.chars().all(is_part) {
            return None;
        }
        let end = behind.find(['/', '?', '#']).unwrap_or(behind.len());
        let (authority, rest) = behind.split_at(end);
        let (user, authority) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        Some(Self {
            scheme,
            user,
            authority,
            rest,
        })
    }

    /// Whether the scheme is `scheme`, in whatever letters.
    pub fn is(&self, scheme: &str) -> bool {
        self.scheme.eq_ignore_ascii_case(scheme)
    }

    /// Whether it is `https://` or `http://`.
    pub fn is_web(&self) -> bool {
        self.is("https") || self.is("http")
    }

    /// The host, an IPv6 address without its brackets.
    pub fn host(&self) -> &'a str {
        self.split().0
    }

    /// What is written as the port, which may be no number; `None` without one.
    pub fn port(&self) -> Option<&'a str> {
        self.split().1
    }

    /// The path, with the `/` before it; empty where there is none.
    pub fn path(&self) -> &'a str {
        let end = self.rest.find(['?', '#']).unwrap_or(self.rest.len());
        self.rest.get(..end).unwrap_or_default()
    }

    fn split(&self) -> (&'a str, Option<&'a str>) {
        let bracketed = self.authority.strip_prefix('[');
        match bracketed.and_then(|inner| inner.split_once(']')) {
            Some((host, port)) => (host, port.strip_prefix(':')),
            None => match self.authority.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (self.authority, None),
            },
        }
    }
}

/// What a URL must be that a program asks, for messages: `… is not …`.
pub const EXPECTED: &str = "a URL that starts with https:// (http:// only for 127.0.0.1, [::1] or localhost), \
                            without a user, a password, `?` or `#`";
/// The same of its port.
pub const EXPECTED_PORT: &str = "a URL with a port from 1 to 65535";

/// Whether a URL may be the base of what a program asks, by how it is written.
///
/// # Errors
/// What is expected instead, for a message, which does not repeat the URL.
pub fn check_base(url: &str) -> Result<(), &'static str> {
    let parts = UrlParts::of(url).ok_or(EXPECTED)?;
    let is_asked = parts.is("https") || parts.is("http") && is_loopback(parts.host());
    let is_plain =
        |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '<' | '>' | '\\' | '^' | '`');
    let is_whole = !parts.host().is_empty() && parts.user.is_none() && !url.contains(['?', '#']);
    if !is_asked || !is_whole || !url.chars().all(is_plain) {
        return Err(EXPECTED);
    }
    check_port(parts.port())
}

/// Whether what is written as a port is one that can be asked.
///
/// # Errors
/// What is expected instead.
pub fn check_port(port: Option<&str>) -> Result<(), &'static str> {
    let is_port = |port: &str| {
        let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
        is_number && port.parse::<u16>().is_ok_and(|port| port > 0)
    };
    match port {
        Some(port) if !is_port(port) => Err(EXPECTED_PORT),
        _ => Ok(()),
    }
}

/// Whether `host` is this machine, by what is written: `localhost` or a loopback address, an IPv6 address with its brackets or without.
pub fn is_loopback(host: &str) -> bool {
    let inner = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let ip: Option<IpAddr> = inner.unwrap_or(host).parse().ok();
    host.eq_ignore_ascii_case("localhost") || ip.is_some_and(|ip| ip.is_loopback())
}

/// Whether two addresses are of one repository: with or without `.git`, slashes at the end, a user and the port that its scheme has
/// anyway. `git@host:path`, as `ssh` has it, is `ssh://host/path`.
pub fn is_same_repository(one: &str, other: &str) -> bool {
    !one.trim().is_empty() && plain_repository(one) == plain_repository(other)
}

/// The address of a repository in the one spelling in which two are compared.
fn plain_repository(url: &str) -> String {
    let mut url = url.trim();
    while let Some(shorter) = url.strip_suffix('/').or_else(|| url.strip_suffix(".git")) {
        url = shorter;
    }
    let Some(parts) = UrlParts::of(url) else {
        return match url.split_once(':') {
            // A `/` before the colon makes it a path.
            Some((host, path)) if !host.contains('/') && !host.is_empty() => {
                let host = host.rsplit('@').next().unwrap_or_default().to_lowercase();
                format!("ssh://{host}/{}", path.trim_start_matches('/'))
            }
            _ => url.to_owned(),
        };
    };
    let scheme = parts.scheme.to_lowercase();
    let of_scheme = match scheme.as_str() {
        "https" => "443",
        "http" => "80",
        "ssh" => "22",
        "git" => "9418",
        _ => "",
    };
    let host = parts.authority.to_lowercase();
    let plain = host
        .rsplit_once(':')
        .filter(|(_, port)| port.is_empty() || *port == of_scheme);
    let host = plain.map_or(host.as_str(), |(host, _)| host);
    format!("{scheme}://{host}{}", parts.rest)
}

/// The commit in a revision of a repository: `main@sha1:6f1e…`, `refs/heads/main@sha1:6f1e…`, `main/6f1e…`, or the commit itself. `None`
/// where it has no whole id.
pub fn commit_of(revision: &str) -> Option<String> {
    let end = revision.rsplit(['@', ':', '/']).next()?;
    let is_hex = end
        .bytes()
        .all(|byte| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f'));
    (is_hex && matches!(end.len(), 40 | 64)).then(|| end.to_owned())
}

/// An address and a port to listen at, as a person wrote them.
///
/// # Errors
/// What to write instead.
pub fn listen_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "write an IP address and a port, such as 127.0.0.1:8420, 0.0.0.0:8420 or [::1]:8420; a port is a number up to 65535, and 0 means a \
         free one"
            .to_owned()
    })
}

/// Whether `url` is one that is asked over TLS.
pub fn is_https(url: &str) -> bool {
    UrlParts::of(url).is_some_and(|url| url.is("https"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_taken_apart_where_the_standard_separates_it() {
        // Text; scheme, user, host, port, path, all that is behind the authority.
        for (text, scheme, user, host, port, path, rest) in [
            (
                "https://a.example",
                "https",
                None,
                "a.example",
                None,
                "",
                "",
            ),
            (
                "HTTPS://A.example:8443/x/y?q=/z#f",
                "HTTPS",
                None,
                "A.example",
                Some("8443"),
                "/x/y",
                "/x/y?q=/z#f",
            ),
            (
                "ssh://git@a.example:22/x",
                "ssh",
                Some("git"),
                "a.example",
                Some("22"),
                "/x",
                "/x",
            ),
            (
                "https://u:p@ss@a.example/x",
                "https",
                Some("u:p@ss"),
                "a.example",
                None,
                "/x",
                "/x",
            ),
            (
                "https://[::1]:5000/x",
                "https",
                None,
                "::1",
                Some("5000"),
                "/x",
                "/x",
            ),
            ("https://[::1]", "https", None, "::1", None, "", ""),
            (
                "http://a.example?x@y",
                "http",
                None,
                "a.example",
                None,
                "",
                "?x@y",
            ),
            (
                "http://a.example#x/y@z",
                "http",
                None,
                "a.example",
                None,
                "",
                "#x/y@z",
            ),
            (
                "https://a.example/p@q",
                "https",
                None,
                "a.example",
                None,
                "/p@q",
                "/p@q",
            ),
            (
                "https://a.example:x/",
                "https",
                None,
                "a.example",
                Some("x"),
                "/",
                "/",
            ),
            ("git+ssh://a/b", "git+ssh", None, "a", None, "/b", "/b"),
            ("file:///etc", "file", None, "", None, "/etc", "/etc"),
        ] {
            let url = UrlParts::of(text).unwrap();
            let found = (
                url.scheme,
                url.user,
                url.host(),
                url.port(),
                url.path(),
                url.rest,
            );
            assert_eq!(found, (scheme, user, host, port, path, rest), "{text}");
        }
    }

    #[test]
    fn a_base_has_a_scheme_that_is_asked_a_host_and_a_port_that_is_one_and_nothing_else() {
        for right in [
            "https://hub.example",
            "HTTPS://hub.example:8443/hub/",
            "https://[2001:db8::1]:1",
            "http://127.0.0.1:65535",
            "http://[::1]:8480",
            "http://localhost",
        ] {
            assert_eq!(check_base(right), Ok(()), "{right}");
        }
        for wrong in [
            "",
            "hub.example",
            "ftp://hub.example",
            "http://hub.example",
            "https://",
            "https://:8443",
            "https://me@hub.example",
            "https://hub example",
            "https://hub.example/a b",
            "https://hub.example/\n",
            "https://hub.example?x",
            "https://hub.example/#x",
        ] {
            assert_eq!(check_base(wrong), Err(EXPECTED), "{wrong}");
        }
        for port in ["0", "00", "65536", "99999", "+80", "x", ""] {
            let url = format!("https://hub.example:{port}/hub");
            assert_eq!(check_base(&url), Err(EXPECTED_PORT), "{url}");
        }
    }

    #[test]
    fn what_is_no_address_to_listen_at_is_refused_with_what_to_write() {
        assert!(listen_address("127.0.0.1:0").is_ok() && listen_address("[::1]:8420").is_ok());
        for wrong in [
            "",
            ":8420",
            "127.0.0.1",
            "localhost:8420",
            "127.0.0.1:99999",
        ] {
            let said = listen_address(wrong).unwrap_err();
            assert!(said.contains("such as 127.0.0.1:8420"), "{said}");
        }
    }

    #[test]
    fn what_has_no_scheme_is_not_a_url() {
        for text in [
            "",
            "a.example/x",
            "git@a.example:x",
            "://a.example",
            "/x://y",
            "git::https://a.example/x",
            "1http://a.example",
            "a b://c",
        ] {
            assert_eq!(UrlParts::of(text), None, "{text}");
        }
    }

    #[test]
    fn a_scheme_is_the_same_in_whatever_letters() {
        assert!(is_https("HTTPS://a.example") && is_https("https://a.example"));
        assert!(!is_https("http://a.example") && !is_https("a.example"));
        assert!(UrlParts::of("Http://a").unwrap().is_web());
        assert!(!UrlParts::of("oci://a").unwrap().is_web());
    }

    #[test]
    fn addresses_of_one_repository_are_the_same_however_they_are_written() {
        let platform = "https://git.example/platform";
        for other in [
            "https://git.example/platform.git",
            "https://GIT.example/platform/",
            "https://bot@git.example/platform",
            "https://git.example:443/platform",
            "HTTPS://git.example:443/platform.git/",
            "https://git.example:/platform//",
        ] {
            assert!(is_same_repository(platform, other), "{other}");
        }
        for other in [
            "",
            "https://git.example/platform2",
            "http://git.example/platform",
            "http://git.example:443/platform",
            "https://git.example:8443/platform",
            "https://git.example/Platform",
        ] {
            assert!(!is_same_repository(platform, other), "{other}");
        }
        for other in [
            "ssh://git.example:22/a/b",
            "git@GIT.example:a/b.git",
            "ssh://git@git.example/a/b",
        ] {
            assert!(
                is_same_repository("ssh://git.example/a/b", other),
                "{other}"
            );
        }
        assert!(!is_same_repository(
            "ssh://git.example/a/b",
            "git@git.example:a/c"
        ));
        assert!(is_same_repository("https://[::1]:443/a", "https://[::1]/a"));
        assert!(!is_same_repository("https://[::1]/a", "https://[::]/a"));
    }

    #[test]
    fn a_commit_is_found_in_a_revision_as_each_program_writes_it() {
        let sha1 = "6f1e".repeat(10);
        let sha256 = "6f1e".repeat(16);
        for commit in [&sha1, &sha256] {
            for revision in [
                commit.clone(),
                format!("main@sha1:{commit}"),
                format!("refs/heads/main@sha1:{commit}"),
                format!("main@{commit}"),
                format!("main/{commit}"),
            ] {
                assert_eq!(commit_of(&revision).as_ref(), Some(commit), "{revision}");
            }
        }
        for wrong in ["", "main", "main@", &sha1[1..], &sha1.to_uppercase()] {
            assert_eq!(commit_of(wrong), None, "{wrong}");
        }
    }
}
