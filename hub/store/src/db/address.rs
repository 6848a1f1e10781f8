//! The address of a PostgreSQL database, as it is typed and kept: without a password.
//!
//! What comes in: `postgres://USER@HOST:PORT/NAME?OPTIONS`. What goes out: the same, checked, and what a connection needs. A server
//! on another machine is asked for TLS and for a certificate of its name; the address may only say that there is to be none. The
//! password comes from elsewhere (`password`), so that it stands in no list of processes and in no file of the hub.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use outhaul_kit::percent;
use postgres::Config;
use postgres::config::{Host, SslMode};

use super::password::{self, PasswordError};

/// The system's certificate authorities, where the usual distributions keep them.
const SYSTEM: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
];
/// The port of a server that does not say another.
const PORT: u16 = 5432;

/// Where a database is.
#[derive(Clone)]
pub struct Address {
    text: String,
    config: Config,
    /// The file with the authorities by which the server is verified; none without TLS.
    authorities: Option<PathBuf>,
    passfile: Option<PathBuf>,
}

/// Why an address cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// The file of authorities cannot be used.
    #[error("`{}`, by which the server is to be verified: {problem}", path.display())]
    Authorities {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The text is no address, or asks for what is not done.
    #[error("`{shown}` is not a usable database address: {problem}")]
    Malformed {
        /// The text without what may be a password.
        shown: String,
        /// What is wrong.
        problem: String,
    },
    /// A password stands in it.
    #[error(
        "the address has a password in it, which others on this machine could read: give it in `PGPASSWORD`, or in a file with `?passfile=FILE`"
    )]
    Password,
    /// The password's file cannot be used.
    #[error(transparent)]
    Secret(#[from] PasswordError),
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let malformed = |problem: &str| AddressError::Malformed {
            shown: without_secret(text),
            problem: problem.to_owned(),
        };
        if !["postgres://", "postgresql://"]
            .iter()
            .any(|scheme| text.starts_with(scheme))
        {
            return Err(malformed("it does not begin with `postgres://`"));
        }
        if text.contains(|c: char| c.is_whitespace() || c.is_control() || c == '#') {
            return Err(malformed(
                "it holds a space or `#`, which are written `%20` and `%23`",
            ));
        }
        let (place, options) = text.split_once('?').unwrap_or((text, ""));
        let mut rest = Vec::new();
        let (mut mode, mut authorities, mut passfile) = (None, None, None);
        for option in options.split('&').filter(|option| !option.is_empty()) {
            match option.split_once('=') {
                Some(("sslmode", value)) => mode = Some(value),
                Some(("sslrootcert", value)) => authorities = Some(path_of(value)),
                Some(("passfile", value)) => passfile = Some(path_of(value)),
                Some(("password", _)) => return Err(AddressError::Password),
                _ => rest.push(option),
            }
        }
        let plain = match rest.is_empty() {
            true => place.to_owned(),
            false => format!("{place}?{}", rest.join("&")),
        };
        let mut config = Config::from_str(&plain).map_err(|error| {
            use std::error::Error as _;
            let cause = error.source().map(|source| format!(": {source}"));
            malformed(&format!("{error}{}", cause.unwrap_or_default()))
        })?;
        if config.get_password().is_some() {
            return Err(AddressError::Password);
        }
        if config.get_ports().contains(&0) {
            return Err(malformed("its port is not a number from 1 to 65535"));
        }
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(malformed(
                "it names no server; one on this machine is `postgres:///NAME?host=/run/postgresql`",
            ));
        }
        if config.get_dbname().is_none_or(str::is_empty) {
            return Err(malformed("it names no database"));
        }
        let is_here = config.get_hostaddrs().is_empty() && config.get_hosts().iter().all(is_here);
        let has_tls = match mode {
            None => !is_here || authorities.is_some(),
            Some("disable") => false,
            Some("verify-full") => true,
            Some(_) => {
                return Err(malformed(
                    "`sslmode` is `verify-full` (the default for another machine) or `disable`: encryption without a verified server protects from no attacker",
                ));
            }
        };
        config.ssl_mode(if has_tls {
            SslMode::Require
        } else {
            SslMode::Disable
        });
        let system = || SYSTEM.iter().map(PathBuf::from).find(|path| path.exists());
        Ok(Self {
            text: text.to_owned(),
            config,
            authorities: has_tls.then(|| {
                authorities
                    .or_else(system)
                    .unwrap_or_else(|| SYSTEM[0].into())
            }),
            passfile,
        })
    }
}

impl PartialEq for Address {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Address {}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({})", self.text)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Address {
    /// As it was typed.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// What a connection needs, the password included.
    pub(super) fn config(&self) -> Result<Config, AddressError> {
        let mut config = self.config.clone();
        if config.get_user().is_none() {
            config.user(&std::env::var("PGUSER").unwrap_or_else(|_| this_user()));
        }
        let host = match self.config.get_hosts().first() {
            Some(Host::Tcp(name)) => name.clone(),
            Some(Host::Unix(_)) | None => "localhost".to_owned(),
        };
        let port = self.config.get_ports().first().copied().unwrap_or(PORT);
        let key = [
            host,
            port.to_string(),
            self.config.get_dbname().unwrap_or_default().to_owned(),
            config.get_user().unwrap_or_default().to_owned(),
        ];
        if let Some(secret) = password::find(self.passfile.as_deref(), &key)? {
            config.password(secret);
        }
        Ok(config)
    }

    /// The file with the authorities by which the server is verified; none without TLS.
    pub(super) fn authorities(&self) -> Option<&Path> {
        self.authorities.as_deref()
    }
}

fn this_user() -> String {
    std::env::var("USER")
        .or_else(|_| std::env::var("LOGNAME"))
        .unwrap_or_else(|_| "outhaul-hub".to_owned())
}

fn is_here(host: &Host) -> bool {
    match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => ["localhost", "127.0.0.1", "::1"].contains(&name.as_str()),
    }
}

/// A value of an option, of which `%2F` and the like stand for one byte each.
fn path_of(value: &str) -> PathBuf {
    use std::os::unix::ffi::OsStringExt as _;
    std::ffi::OsString::from_vec(percent::decoded(value)).into()
}

/// The text, with what may be a password left out.
fn without_secret(text: &str) -> String {
    let Some((before, after)) = text.split_once('@') else {
        return text.to_owned();
    };
    match before.rsplit_once("//").map_or(before, |(_, user)| user) {
        user if user.contains(':') => {
            let name = user.split(':').next().unwrap_or_default();
            format!("postgres://{name}:…@{after}")
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Address, String> {
        text.parse()
            .map_err(|error: AddressError| error.to_string())
    }

    #[test]
    fn a_server_elsewhere_is_asked_who_it_is_and_one_on_this_machine_is_not() {
        let authorities = |text: &str| of(text).unwrap().authorities;
        assert_eq!(authorities("postgres://hub@localhost/outhaul"), None);
        assert_eq!(
            authorities("postgres:///outhaul?host=/run/postgresql"),
            None
        );
        assert!(authorities("postgres://hub@db.example/outhaul").is_some());
        let own = authorities("postgres://hub@db.example/outhaul?sslrootcert=%2Fetc/ca.pem");
        assert_eq!(own, Some("/etc/ca.pem".into()));
        assert_eq!(
            authorities("postgres://hub@db.example/outhaul?sslmode=disable"),
            None
        );
        let half = of("postgres://hub@db.example/outhaul?sslmode=require").unwrap_err();
        assert!(half.contains("`verify-full`"), "{half}");
    }

    #[test]
    fn what_leads_to_no_server_is_refused_where_it_is_typed() {
        for (text, said) in [
            ("", "it does not begin with `postgres://`"),
            ("mysql://h/x", "it does not begin with `postgres://`"),
            (
                "postgres://a@h:0/x",
                "its port is not a number from 1 to 65535",
            ),
            ("postgres://a@h:99999/x", "invalid value for option `port`"),
            ("postgres://a@h /x", "it holds a space or `#`"),
            ("postgres://a@h/x#y", "it holds a space or `#`"),
            ("postgres://a@h", "it names no database"),
        ] {
            let error = of(text).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn a_password_in_an_address_is_refused_and_not_repeated() {
        for text in [
            "postgres://hub:secret@localhost/outhaul",
            "postgres://hub@localhost/outhaul?password=secret",
        ] {
            let error = of(text).unwrap_err();
            assert!(
                !error.contains("secret") && error.contains("password"),
                "{error}"
            );
        }
        let error = of("postgres://hub:secret@localhost:port/outhaul").unwrap_err();
        assert!(!error.contains("secret"), "{error}");
    }

    #[test]
    fn what_is_no_address_says_why() {
        for (text, why) in [
            (
                "mysql://localhost/outhaul",
                "does not begin with `postgres://`",
            ),
            ("postgres:///outhaul", "names no server"),
            ("postgres://localhost", "names no database"),
            ("postgres://localhost/outhaul?colour=blue", "colour"),
        ] {
            let error = of(text).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
