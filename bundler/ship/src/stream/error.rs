//! Why a stream's bundle was not made.
//!
//! What comes in: the error of whichever step failed. What goes out: the sentence for the person, with the
//! data of the situation. Streams before the one that failed were made.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use outhaul_bundle::name::NameError;
use outhaul_kit::format_count::format_count;
use outhaul_signer::fleet::FleetError;
use outhaul_signer::published::PublishedElsewhere;

use super::{PolicyViolation, Production, ShippedError};
use crate::assemble::attest_and_seal::AttestSealError;
use crate::assemble::{AssembleError, SpoolError};
use crate::collect::CollectError;
use crate::deliver::{DeliverError, is_in_the_way};
use outhaul_control::Diagnostics;
use outhaul_pins::LockError;
use outhaul_record::guard::Removal;
use outhaul_sites::SiteError;

/// Why a stream's bundle was not made. Streams before it were.
#[derive(Debug, thiserror::Error)]
pub enum ProduceError {
    /// The contents do not become a bundle.
    #[error(transparent)]
    Assemble(#[from] AssembleError),
    /// A payload cannot be collected.
    #[error(transparent)]
    Collect(#[from] CollectError),
    /// The bundle cannot be written or published.
    #[error(transparent)]
    Deliver(#[from] DeliverError),
    /// Something else stands where a bundle is to go.
    #[error("`{}` is where the bundle goes, and it is not a regular file: no number of this stream was used", path.display())]
    Place {
        /// The place.
        path: PathBuf,
    },
    /// A date beyond what dates can be.
    #[error("cannot count {days} days from {issued}")]
    Expiry {
        /// The time of issue.
        issued: Timestamp,
        /// The days.
        days: u32,
    },
    /// A date of a slip that would not count.
    #[error(
        "the slip cannot end the bundle that it names at {asked}: that bundle may be installed until {expires}, and metadata that all streams share is valid for as long; nothing was signed"
    )]
    Shorter {
        /// What was asked for.
        asked: Timestamp,
        /// When the bundle expires.
        expires: Timestamp,
    },
    /// A slip was to make metadata valid for longer than a bundle may be.
    #[error(
        "the slip cannot be valid until {asked}: it is {days} days after its issue at most; nothing was signed"
    )]
    Longer {
        /// What was asked for.
        asked: Timestamp,
        /// How many days there may be.
        days: u32,
    },
    /// The bundle cannot be attested or sealed.
    #[error(transparent)]
    Finish(#[from] AttestSealError),
    /// Something is broken, and nothing was to be written then.
    #[error("assignments are broken")]
    Strict(#[source] Diagnostics),
    /// The delivery policies contradict each other; nothing was written for any stream.
    #[error("the delivery policies contradict each other")]
    Contradiction(#[from] Diagnostics),
    /// A delivery policy forbids it.
    #[error(transparent)]
    Forbidden(#[from] PolicyViolation),
    /// Keys that are not those of whom they are named after; nothing was written for any stream.
    #[error(
        "the bundle would be sealed for keys that do not belong to the sites that they are listed for"
    )]
    Readers {
        /// One sentence for each.
        problems: Vec<String>,
    },
    /// What waits for a signature could be read by sites that were revoked since.
    #[error("bundle {number} waited for a signature, and was sealed for keys that count no longer")]
    Revoked {
        /// Its number.
        number: u64,
        /// One sentence for each.
        problems: Vec<String>,
    },
    /// Contents that are kept on this machine are not what they were. What is damaged was removed there.
    #[error("{} kept on this machine {} damaged", format_count(copies.len(), "content", "contents"), if copies.len() == 1 { "is" } else { "are" })]
    Damaged {
        /// One sentence for each.
        copies: Vec<String>,
    },
    /// A stream failed after others were made.
    #[error("{error}")]
    After {
        /// What became of those before it.
        production: Box<Production>,
        /// Why it failed.
        error: Box<ProduceError>,
    },
    /// The fleet cannot sign.
    #[error(transparent)]
    Fleet(#[from] FleetError),
    /// What was shipped last cannot be read or written.
    #[error(transparent)]
    Last(#[from] ShippedError),
    /// A name that cannot travel.
    #[error("a name of the control plane cannot travel")]
    Name(#[from] NameError),
    /// It would remove too much; nothing was written for any stream.
    #[error("too much would be removed")]
    Removals {
        /// One for each stream that would lose too much.
        removals: Vec<Removal>,
    },
    /// A recipient that is not a site of the streams that are made.
    #[error("`{site}` is not a site of {streams}")]
    UnknownRecipient {
        /// The name.
        site: String,
        /// The streams.
        streams: String,
        /// The sites that there are.
        known: Vec<String>,
    },
    /// The bundle cannot be kept in the fleet's folder.
    #[error("the bundle cannot be kept in the fleet's folder")]
    Keep(#[source] outhaul_signer::durable::FileError),
    /// What lies in the published folder keeps the bundle from being written there.
    #[error(transparent)]
    Published(outhaul_signer::durable::FileError),
    /// The published folder is not for this fleet's bundles.
    #[error(transparent)]
    Elsewhere(#[from] PublishedElsewhere),
    /// What the centre knows of the stream's sites cannot be read.
    #[error(transparent)]
    Sites(#[from] SiteError),
    /// What is pinned cannot be read or written.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// Another process makes bundles of this fleet now.
    #[error("another `outhaul bundle` or `outhaul serve` makes bundles of the fleet `{}` now", folder.display())]
    Busy {
        /// The fleet's folder.
        folder: PathBuf,
    },
    /// The fleet's folder cannot be locked.
    #[error("cannot lock the fleet's folder `{}`", folder.display())]
    Exclusive {
        /// The fleet's folder.
        folder: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The temporary folder failed.
    #[error(transparent)]
    Spool(#[from] SpoolError),
    /// The environment has no such cluster type.
    #[error("environment `{environment}` has no cluster type `{name}`")]
    UnknownClusterType {
        /// The environment.
        environment: String,
        /// What was asked for.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
}

impl ProduceError {
    /// Why nothing can be published, before a number was used.
    pub(super) fn publishing(error: DeliverError) -> Self {
        match error {
            DeliverError::File(error) => Self::Published(error),
            error => error.into(),
        }
    }

    /// One sentence for each thing that is wrong, where several may be.
    pub fn details(&self) -> &[String] {
        match self {
            Self::After { error, .. } => error.details(),
            Self::Damaged { copies: all }
            | Self::Readers { problems: all }
            | Self::Revoked { problems: all, .. } => all,
            Self::Forbidden(refusal) => &refusal.largest,
            _ => &[],
        }
    }

    /// Whether it is about the places of one stream's files: what stands there, and not the disk or the folder `fleet`, which the next
    /// stream would meet with a number of its own used.
    pub(super) fn is_of_one_place(&self, fleet: &Path) -> bool {
        match self {
            Self::Deliver(error) => error.is_of_one_file(fleet),
            Self::Published(error) => is_in_the_way(error, fleet),
            Self::Place { .. } => true,
            _ => false,
        }
    }

    /// The same, with what was made before, if anything was.
    pub(super) fn after(self, production: Production) -> Self {
        match production.streams.is_empty() {
            true => self,
            false => Self::After {
                production: Box::new(production),
                error: Box::new(self),
            },
        }
    }
}

/// What a run ends with where `error` stops it: that, and it says before what kept an earlier stream back.
pub(super) fn ended(earlier: Option<(String, ProduceError)>, error: ProduceError) -> ProduceError {
    if let Some((name, earlier)) = earlier {
        warn_of(&name, &earlier);
    }
    error
}

/// Says what kept a stream back, where the run goes on or ends with something else.
pub(super) fn warn_of(name: &str, error: &ProduceError) {
    tracing::warn!("{name}: {}", outhaul_kit::text::chain(error));
}
