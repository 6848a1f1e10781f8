//! Why an image, a chart or a file cannot be had, or is not taken.
//!
//! What comes in: what happened, with the server and what was asked for. What goes out: a message, whether the environment is to blame, and
//! what to do.

use std::path::PathBuf;

use outhaul_http::HttpError;

/// Why an image cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// The authority's certificates cannot be used.
    #[error("no registry can be asked over TLS: {0}")]
    Authority(HttpError),
    /// No connection, or it broke.
    #[error("cannot reach `{host}`: {problem}")]
    Unreachable {
        /// The server.
        host: String,
        /// What happened.
        problem: String,
    },
    /// The certificate that it shows is not trusted here.
    #[error("cannot reach `{host}`: {problem}")]
    Certificate {
        /// The server.
        host: String,
        /// What is wrong with it.
        problem: String,
    },
    /// What was asked for came in part only.
    #[error("`{host}` sent {came} bytes of {what} and not the rest: {problem}")]
    Stopped {
        /// The server.
        host: String,
        /// What was asked for.
        what: String,
        /// Bytes that are here.
        came: u64,
        /// What happened.
        problem: String,
    },
    /// It is this machine or its link, and nobody who runs the program named it.
    #[error("`{host}` leads to {to}, {what}, which is not asked{by}")]
    Inside {
        /// The server.
        host: String,
        /// Its address.
        to: String,
        /// What that is.
        what: &'static str,
        /// Who led there, as the end of a sentence.
        by: String,
    },
    /// It wants to know who asks, or does not let them.
    #[error("`{host}` does not serve `{what}`: {problem}")]
    Denied {
        /// The server.
        host: String,
        /// What was asked for.
        what: String,
        /// What is missing.
        problem: String,
    },
    /// It does not take what is pushed.
    #[error("`{host}` does not take `{what}`: {problem}")]
    NotTaken {
        /// The server.
        host: String,
        /// What was pushed.
        what: String,
        /// Why.
        problem: String,
    },
    /// It has no such thing.
    #[error("`{host}` has no `{what}`")]
    Missing {
        /// The server.
        host: String,
        /// What was asked for.
        what: String,
    },
    /// Another answer than one of those.
    #[error("`{host}` answered {status} for `{what}`")]
    Status {
        /// The server.
        host: String,
        /// What was asked for.
        what: String,
        /// The HTTP status.
        status: u16,
    },
    /// What came is not what it should be.
    #[error("`{host}`: {what} {problem}")]
    Wrong {
        /// The server.
        host: String,
        /// What came.
        what: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Neither a mirror of it nor the registry itself has it.
    #[error("{last}; its mirrors were asked before: {}", listed(tried))]
    AfterMirrors {
        /// What each mirror answered, in the order in which they were asked.
        tried: Vec<RegistryError>,
        /// What the registry answered.
        last: Box<RegistryError>,
    },
    /// The cache could not be written.
    #[error("`{}`", path.display())]
    Cache {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

fn listed(errors: &[RegistryError]) -> String {
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    texts.join("; ")
}

impl RegistryError {
    /// What the registry answered, with what its mirrors answered before, if it has any.
    pub(crate) fn after(self, tried: Vec<Self>) -> Self {
        match tried.is_empty() {
            true => self,
            false => Self::AfterMirrors {
                tried,
                last: Box::new(self),
            },
        }
    }

    /// Whether the answer says that there is no such thing. The statuses are what registries of before there was a list of referrers answer
    /// to who asks for it.
    pub(crate) fn is_absent(&self) -> bool {
        matches!(
            self,
            Self::Missing { .. }
                | Self::Status {
                    status: 400 | 405 | 501,
                    ..
                }
        )
    }

    /// Whether it is the network or the disk, and not what was asked for.
    pub fn is_environment(&self) -> bool {
        match self {
            Self::Unreachable { .. }
            | Self::Certificate { .. }
            | Self::Stopped { .. }
            | Self::Cache { .. }
            | Self::Authority(_) => true,
            Self::Status { status, .. } => *status >= 500 || *status == 429,
            Self::AfterMirrors { last, .. } => last.is_environment(),
            Self::Denied { .. }
            | Self::Inside { .. }
            | Self::NotTaken { .. }
            | Self::Missing { .. }
            | Self::Wrong { .. } => false,
        }
    }

    /// What to do, where it is not about the image or its registry's permissions.
    pub fn help(&self) -> Option<String> {
        match self {
            Self::AfterMirrors { last, .. } => last.help(),
            Self::Cache { path, .. } => Some(format!(
                "make room or give permission where images are kept (`{}`), and run it again: it continues with what \
                 came",
                path.parent().unwrap_or(path).display()
            )),
            Self::Certificate { host, .. } => Some(format!(
                "if its certificate is from a private authority, name that authority: `--registry-ca {host}=FILE` (`registry_cas` in \
                 outhaul.toml and serve.toml), or `SSL_CERT_FILE` for all servers; else see that the name, the dates of the certificate \
                 and the clock here are right"
            )),
            Self::Inside { host, .. } => Some(format!(
                "if that server is meant, permit it: `--allow-host {host}` (`allow_hosts` in serve.toml); else have whoever runs the \
                 registry name an address that others can reach"
            )),
            Self::Stopped { host, .. } => Some(format!(
                "see that the network is up and `{host}` works, and run it again: what came is kept, and it continues from there; if it \
                 stops there again, name a mirror (`--registry-mirror`)"
            )),
            Self::Unreachable { .. } => Some(
                "check the network and that the registry answers, and run it again: it continues with what came"
                    .to_owned(),
            ),
            _ => None,
        }
    }
}
