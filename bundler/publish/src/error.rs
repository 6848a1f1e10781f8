//! Why something was not published, and what to do about it.
//!
//! What comes in: errors of disks, connections and servers. What goes out: one [`TargetError`] that names the target, with the exit
//! code: 1 refused, 2 a target that cannot be named so, 3 disk or network, 4 a target that gives back other bytes.

use std::io;
use std::path::PathBuf;

use outhaul_bundle::Digest;
use outhaul_bundle::read::ReadError;
use outhaul_http::HttpError;
use outhaul_kit::durable::FileError;
use outhaul_kit::failure::{Classified, FailureClass};
use outhaul_registry::RegistryError;

/// Why a target does not have everything.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    /// A bundle or the fleet's metadata cannot be published.
    #[error(transparent)]
    Publication(#[from] PublicationError),
    /// A folder that cannot be written or read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The bundle's file cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// No connection, or it broke.
    #[error("cannot reach {place}: {problem}")]
    Unreachable {
        /// What was asked.
        place: String,
        /// What happened.
        problem: String,
    },
    /// The server does not do it.
    #[error("{place}: the server answers {status}{reason}")]
    Refused {
        /// What was asked.
        place: String,
        /// The HTTP status, with its name.
        status: String,
        /// What it says about it, after `: `; may be empty.
        reason: String,
        /// The region that it names instead.
        region: Option<String>,
    },
    /// What it gives back is not what was sent.
    #[error("{place} was sent, and the target gives back other bytes: {problem}")]
    Lies {
        /// What was sent.
        place: String,
        /// What is different.
        problem: String,
    },
    /// It has a newer publication.
    #[error(
        "{place} is version {there}, and this fleet's folder has published version {here}: another copy of the fleet \
         publishes there; nothing was sent"
    )]
    Newer {
        /// Its `timestamp.json`.
        place: String,
        /// Its version.
        there: u64,
        /// The version here.
        here: u64,
    },
    /// It has another publication of the same version.
    #[error(
        "{place} is version {version} as here, and says something else: two copies of this fleet sign, or the target was \
         changed; nothing was sent"
    )]
    Split {
        /// Its `timestamp.json`.
        place: String,
        /// The version.
        version: u64,
    },
    /// The certificates of an authority cannot be used.
    #[error("no server can be asked over TLS: {0}")]
    Authority(HttpError),
    /// An address or a setting that cannot be used.
    #[error("{problem}")]
    Usage {
        /// What is wrong with it.
        problem: String,
        /// What to write instead.
        help: String,
    },
    /// The registry.
    #[error(transparent)]
    Registry(#[from] RegistryError),
}

impl TargetError {
    /// That `place` gives back another digest.
    pub(crate) fn other_digest(place: String, found: Digest) -> Self {
        let problem = format!("their digest is {found}");
        Self::Lies { place, problem }
    }
}

impl Classified for TargetError {
    fn class(&self) -> FailureClass {
        match self {
            Self::Publication(error) => error.class(),
            Self::File(_) | Self::Read { .. } | Self::Unreachable { .. } | Self::Refused { .. } => {
                FailureClass::Environment
            }
            Self::Registry(RegistryError::Wrong { .. })
            | Self::Lies { .. }
            | Self::Split { .. } => FailureClass::Trust,
            Self::Registry(_) => FailureClass::Environment,
            Self::Newer { .. } => FailureClass::Refused,
            Self::Authority(_) | Self::Usage { .. } => FailureClass::Usage,
        }
    }

    fn help(&self) -> Option<String> {
        let again = "what was sent stays, sites see the state before, and the same command continues from there";
        match self {
            Self::Publication(error) => error.help(),
            Self::File(error) => Some(error.help()),
            Self::Read { .. } => None,
            Self::Unreachable { .. } => Some(format!("see that the server answers; {again}")),
            Self::Refused {
                region: Some(region),
                ..
            } => Some(format!("the bucket is in another region: give `--region {region}`")),
            Self::Refused { status, .. } if status.starts_with("403") || status.starts_with("401") => Some(format!(
                "see that the credentials may put, get and list objects there (`s3:PutObject`, `s3:GetObject`, \
                 `s3:ListBucket`), and that this machine's clock is right; {again}"
            )),
            Self::Refused { status, .. } if status.starts_with("404") => {
                Some("see that the bucket exists, and that the URL is right".to_owned())
            }
            Self::Refused { .. } => Some(format!("see the server's answer; {again}")),
            Self::Lies { .. } => Some(
                "do not let sites pull from there: see what stands between this machine and the storage, and whether \
                 its disk is sound; sites refuse what does not match its digest"
                    .to_owned(),
            ),
            Self::Newer { .. } => Some(
                "publish from the fleet's folder that signed last; was this one restored from a backup, see the runbook \
                 of a restored centre"
                    .to_owned(),
            ),
            Self::Split { .. } => Some(
                "sites refuse one of the two: find out which folder of the fleet signs, and see the runbook of a \
                 restored centre"
                    .to_owned(),
            ),
            Self::Authority(_) => Some("give `--ca` a PEM file with the authority's certificate".to_owned()),
            Self::Usage { help, .. } => Some(help.clone()),
            // Nothing that is pushed may be permitted to lead there: this command has no `--allow-host`.
            Self::Registry(RegistryError::Inside { .. }) => Some(
                "have whoever runs the registry name an address that others can reach, or give the registry on this machine by the host and \
                 port at which it takes uploads"
                    .to_owned(),
            ),
            Self::Registry(error) => error.help(),
        }
    }
}

/// Why something cannot be published at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PublicationError {
    /// A bundle's file is not the bundle that was signed.
    #[error("`{}` is not the bundle that was signed as {stream}, number {number}", path.display())]
    Bundle {
        /// The file.
        path: PathBuf,
        /// Environment and cluster type.
        stream: String,
        /// Its number.
        number: u64,
        /// What is wrong with it.
        source: ReadError,
    },
    /// A bundle's file changed.
    #[error("`{}` was changed since it was signed; what is published of it stays as it is", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// A bundle's file cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The fleet's metadata does not lead anywhere.
    #[error("the fleet's `{file}` cannot be used: {problem}")]
    Metadata {
        /// The file.
        file: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The fleet keeps no bundle of what it has signed.
    #[error(
        "number {number} of {stream} was signed and the fleet keeps no copy of its bundle, so that its sites would find a number \
         and no content; nothing was sent"
    )]
    NoBundle {
        /// Environment and cluster type.
        stream: String,
        /// Its number.
        number: u64,
    },
}

impl Classified for PublicationError {
    fn class(&self) -> FailureClass {
        match self {
            Self::Bundle { .. } | Self::Metadata { .. } => FailureClass::Trust,
            // A file of this machine's disk that is gone or changed, as for `outhaul copy`.
            Self::Read { .. } | Self::Changed { .. } | Self::NoBundle { .. } => {
                FailureClass::Environment
            }
        }
    }

    fn help(&self) -> Option<String> {
        match self {
            Self::Read { .. } => None,
            _ => Some(
                "make the stream's bundle again with `outhaul bundle`: where its copy is gone or was changed it takes a \
                 new number"
                    .to_owned(),
            ),
        }
    }
}
