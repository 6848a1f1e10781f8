//! The text of a URL, taken apart as it is written.
//!
//! What comes in: a text. What goes out: its parts, as RFC 3986 separates them, or that it has no scheme. Nothing is decoded, and nothing is
//! checked beyond the scheme: whether a host is one, and what may be asked, is decided by who asks (`outhaul_http`, `outhaul_git`).

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
}
