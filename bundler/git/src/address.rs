//! Addresses: what a URL of a repository or a server says, parsed once.
//!
//! What comes in: text from a control plane, a workload or the command line. What goes out: an
//! [`Address`] whose scheme is one of a few, whose host is a host and whose parts cannot be taken for an
//! option or a program; and the answer of [`AllowedHosts`] whether it may be asked. The spelling of the
//! text (`HTTPS://`, `127.1`, a name that resolves to this machine) does not matter for either. It opens
//! no connection: at most it resolves a name.

use outhaul_kit::url::UrlParts;
use outhaul_kit::url_secrets::{has_secret, without_secrets};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

mod allowed;

pub use allowed::AllowedHosts;

/// How a server is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// `https://`.
    Https,
    /// `http://`, which anyone on the way can answer.
    Http,
    /// `ssh://`, or `user@host:path`.
    Ssh,
    /// `git://`, which anyone on the way can answer.
    Git,
    /// `file://`: this machine's disk.
    File,
}

impl Scheme {
    /// As git and URLs have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Https => "https",
            Self::Http => "http",
            Self::Ssh => "ssh",
            Self::Git => "git",
            Self::File => "file",
        }
    }

    fn port(self) -> u16 {
        match self {
            Self::Https => 443,
            Self::Http => 80,
            Self::Ssh => 22,
            Self::Git => 9418,
            Self::File => 0,
        }
    }

    fn is_plain(self) -> bool {
        matches!(self, Self::Http | Self::Git)
    }
}

/// Why text is not an address, or one that may not be asked. Never holds a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// Not of the form of a URL, or of a scheme that is not spoken.
    #[error("`{url}` is not the URL of a repository or server: {problem}")]
    NotAUrl {
        /// The text.
        url: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A folder of this machine.
    #[error("`{url}` is a local folder, which control planes and workloads may not open")]
    Local {
        /// The text.
        url: String,
    },
    /// A host that is this machine, or only reachable from it.
    #[error("`{url}` leads to {host}, {what}, which no control plane and no workload may ask")]
    Inside {
        /// The text.
        url: String,
        /// The host, with its address where the name does not say it.
        host: String,
        /// What the address is.
        what: &'static str,
    },
    /// A protocol that is neither encrypted nor authenticated.
    #[error("`{url}` is plain {}, where anyone on the way could answer", scheme.as_str())]
    Plain {
        /// The text.
        url: String,
        /// The scheme.
        scheme: Scheme,
    },
    /// A password in a URL that is published with every bundle.
    #[error(
        "`{url}` holds a password or token, which would be published with everything made from it"
    )]
    Password {
        /// The URL without it.
        url: String,
    },
}

impl AddressError {
    /// What to do next.
    pub fn help(&self) -> String {
        match self {
            Self::NotAUrl { .. } => "use an https://, ssh:// or git@host:path URL".into(),
            Self::Local { url } => format!(
                "folders come only from who runs outhaul: add `--source {url}=DIR`, or write the URL of a server"
            ),
            Self::Inside { url, .. } => format!(
                "if this server is meant, add `--allow-host {}`; a local copy is given by `--source {url}=DIR`",
                authority_of(url)
            ),
            Self::Plain { url, .. } => format!(
                "use https:// or ssh://, or add `--allow-host {}` if the network up to it is trusted",
                authority_of(url)
            ),
            Self::Password { .. } => {
                "remove it from the URL, change it at the server, and give it to git's credential helper".into()
            }
        }
    }

    /// The same for a server of images, charts or files, which no local copy of a repository takes the place of.
    pub fn server_help(&self) -> String {
        match self {
            Self::Local { .. } | Self::NotAUrl { .. } => {
                "write the https:// address of a server".into()
            }
            Self::Inside { url, .. } => format!(
                "if this server is meant, add `--allow-host {}` (`allow_hosts` in outhaul.toml and serve.toml)",
                authority_of(url)
            ),
            Self::Plain { .. } => {
                "write https://: images, charts and files are fetched by no other protocol".into()
            }
            Self::Password { .. } => {
                "remove it from the URL, change it at the server, and log in there (`docker login`, `podman login`)".into()
            }
        }
    }
}

fn authority_of(url: &str) -> String {
    Address::parse(url).map_or_else(|_| "HOST".to_owned(), |address| address.authority())
}

/// A URL, taken apart.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    scheme: Scheme,
    user: Option<String>,
    password: bool,
    /// In lower case, without the brackets of an IPv6 address; empty for `file`.
    host: String,
    port: Option<u16>,
    /// What follows host and port.
    rest: String,
    text: String,
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}

/// As people may see it: without a password.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&without_secrets(&self.text))
    }
}

impl Address {
    /// Refuses one that holds a password or a token: it would be published with everything made from it.
    ///
    /// # Errors
    /// [`AddressError::Password`], without it.
    pub fn refuse_password(&self) -> Result<(), AddressError> {
        let url = self.to_string();
        match self.password {
            true => Err(AddressError::Password { url }),
            false => Ok(()),
        }
    }

    /// Takes `text` apart.
    ///
    /// # Errors
    /// [`AddressError::NotAUrl`], and [`AddressError::Local`] for a path.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        let text = text.trim();
        let shown = || without_secrets(text);
        let bad = |problem| AddressError::NotAUrl {
            url: shown(),
            problem,
        };
        let lower = text.to_ascii_lowercase();
        if text.is_empty() {
            return Err(bad("it is empty"));
        }
        if text.starts_with('-') {
            return Err(bad("it begins like an option"));
        }
        if text.contains(|c: char| c.is_control() || c.is_whitespace())
            || ["%00", "%0a", "%0d"]
                .iter()
                .any(|code| lower.contains(code))
        {
            return Err(bad("it holds a space or a control character"));
        }
        let (scheme, parts) = match UrlParts::of(text) {
            Some(parts) => {
                let scheme = match parts.scheme.to_ascii_lowercase().as_str() {
                    "https" => Scheme::Https,
                    "http" => Scheme::Http,
                    "ssh" => Scheme::Ssh,
                    "git" => Scheme::Git,
                    "file" => Scheme::File,
                    _ => return Err(bad("only https, http, ssh and git are spoken")),
                };
                (scheme, parts)
            }
            None if text.contains("://") && !text.contains("::") => {
                return Err(bad("only https, http, ssh and git are spoken"));
            }
            None if text.contains("::") && !text.contains('[') => {
                return Err(bad("`::` would start a program"));
            }
            None => return Self::short(text).ok_or(AddressError::Local { url: shown() })?,
        };
        if scheme == Scheme::File {
            return Ok(Self {
                scheme,
                user: None,
                password: false,
                host: String::new(),
                port: None,
                rest: format!("{}{}", parts.authority, parts.rest),
                text: text.to_owned(),
            });
        }
        let user = parts.user.unwrap_or_default();
        if user.contains('\\') || parts.authority.contains('\\') {
            return Err(bad("it holds a backslash"));
        }
        let user = parts
            .user
            .map(|user| user.split_once(':').map_or(user, |(user, _)| user));
        let password = has_secret(text);
        let (host, port) = split_port(parts.authority)
            .ok_or_else(|| bad("its port is not a number from 1 to 65535"))?;
        Self::of(text, scheme, user, password, host, port, parts.rest)
            .ok_or_else(|| bad("its host is not a host name"))
    }

    /// `user@host:path`; `None` when it is a path. The result says whether its host is one.
    fn short(text: &str) -> Option<Result<Self, AddressError>> {
        let (authority, path) = match text.split_once("]:") {
            Some((host, path)) => (format!("{host}]"), path),
            None => text
                .split_once(':')
                .map(|(host, path)| (host.to_owned(), path))?,
        };
        if authority.contains('/') {
            return None;
        }
        let bad = || AddressError::NotAUrl {
            url: without_secrets(text),
            problem: "its host is not a host name",
        };
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority.as_str()),
        };
        let host = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(host);
        if path.starts_with(['-', ':']) || path.is_empty() {
            return Some(Err(bad()));
        }
        let path = format!("/{path}");
        let password = has_secret(text);
        Some(Self::of(text, Scheme::Ssh, user, password, host, None, &path).ok_or_else(bad))
    }

    fn of(
        text: &str,
        scheme: Scheme,
        user: Option<&str>,
        password: bool,
        host: &str,
        port: Option<u16>,
        rest: &str,
    ) -> Option<Self> {
        let part = |text: &str| {
            let mut bytes = text.bytes();
            bytes.all(|b| b.is_ascii_alphanumeric() || b"._-+%~=$!".contains(&b))
                && !text.starts_with('-')
        };
        let is_host = host.parse::<Ipv6Addr>().is_ok()
            || (!host.is_empty()
                && !host.starts_with('-')
                && host
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b)));
        let fits = is_host
            && user.is_none_or(|user| !user.is_empty() && part(user))
            && !rest.starts_with("/-");
        fits.then(|| Self {
            scheme,
            user: user.map(str::to_owned),
            password,
            host: host.to_ascii_lowercase(),
            port,
            rest: rest.to_owned(),
            text: text.to_owned(),
        })
    }

    /// How it is spoken to.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The host, in lower case; empty for `file`.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// What follows host and port, with a `/` before it.
    pub fn path(&self) -> &str {
        &self.rest
    }

    /// The port, by default that of the scheme.
    pub fn port(&self) -> u16 {
        self.port.unwrap_or_else(|| self.scheme.port())
    }

    /// `host`, or `host:port` where the port is not the usual one.
    pub fn authority(&self) -> String {
        let host = match self.host.contains(':') {
            true => format!("[{}]", self.host),
            false => self.host.clone(),
        };
        match self.port {
            Some(port) => format!("{host}:{port}"),
            None => host,
        }
    }

    /// The same URL with its scheme and host in lower case, as libraries expect it.
    pub fn canonical(&self) -> String {
        match self.scheme {
            Scheme::File => format!("file://{}", self.rest),
            scheme => {
                let Some(parts) = UrlParts::of(&self.text) else {
                    return self.text.clone();
                };
                let user = parts.user.map(|user| format!("{user}@"));
                format!(
                    "{}://{}{}{}",
                    scheme.as_str(),
                    user.unwrap_or_default(),
                    self.authority(),
                    self.rest
                )
            }
        }
    }

    /// Whether its host is this machine, by what is written: `localhost` or a loopback address.
    pub fn is_loopback(&self) -> bool {
        let ip: Option<IpAddr> = self.host.parse().ok();
        self.host == "localhost" || ip.is_some_and(|ip| ip.is_loopback())
    }

    /// Whether it names a user or a password.
    pub fn has_user(&self) -> bool {
        self.user.is_some() || self.password
    }
}

fn split_port(host: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = match host.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']')?;
            (
                host,
                after.strip_prefix(':').or(after.is_empty().then_some(""))?,
            )
        }
        None => host.split_once(':').unwrap_or((host, "")),
    };
    match port {
        "" => Some((host, None)),
        port => Some((host, Some(port.parse().ok().filter(|port| *port > 0)?))),
    }
}

#[cfg(test)]
mod tests;
