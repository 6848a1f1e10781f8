//! The record of what a stream last shipped, in the fleet's folder: one file a stream, written when the bundle is on record.
//!
//! What comes in: a folder and the stream's role. What goes out: its [`Record`]. A file that is damaged or of a later program is
//! an error: without it a broken assignment would vanish from sites.

use std::path::{Path, PathBuf};

use outhaul_signer::durable::{self, FileError};
use outhaul_signer::fleet::{Fleet, FleetError};

use crate::record::Record;

const FOLDER: &str = "rendered";
/// Largest file in bytes.
const MAX_BYTES: u64 = 256 * 1024 * 1024;

/// What becomes of a stream whose record is lost.
const WITHOUT: &str = "then this bundle is made only where nothing is broken, and what it does not have any more is removed on sites, \
                       without a comparison with what they have";

/// Why it cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShippedError {
    /// The file system refused.
    #[error(transparent)]
    File(#[from] FileError),
    /// The file is gone.
    #[error(
        "`{}` is gone, and number {number} of this stream is signed: what it shipped is not known, so that nothing broken could be kept, \
         and no removal noticed; nothing was signed\nhelp: restore it from a backup of the fleet's folder; if there is none, give \
         `--strict` once: {without}",
        path.display(),
        without = WITHOUT
    )]
    Lost {
        /// The file.
        path: PathBuf,
        /// The number that was signed last.
        number: u64,
    },
    /// The file is damaged.
    #[error(
        "`{}` does not say what the stream last shipped: {problem}\nhelp: restore it from a backup of the fleet's \
         folder; if there is none, remove it and give `--strict` once: {without}",
        path.display(),
        without = WITHOUT
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
}

/// What the stream `role` of `fleet` last shipped, by its record in `folder`; `None` when nothing is known of it. The record of another
/// stream is none of this one.
pub(super) fn read(
    fleet: &Fleet,
    folder: &Path,
    role: &str,
) -> Result<Option<Record>, ShippedError> {
    let path = path(folder, role);
    let Some(bytes) = durable::read_if_present(&path, MAX_BYTES)? else {
        return Ok(None);
    };
    let record = Record::parse_stream(&bytes).and_then(|record| {
        let streams = fleet.streams();
        let own = streams
            .get(role)
            .map(|own| format!("{}/{}", own.environment, own.cluster_type));
        match (own, record.stream_name()) {
            (Some(own), Some(found)) if own != found => Err(format!("it is of stream `{found}`")),
            _ => Ok(record),
        }
    });
    let record = record.map_err(|problem| ShippedError::Damaged { path, problem });
    record.map(Some)
}

/// Puts it in the place of what was there, durably.
pub(super) fn write(record: &Record, fleet: &Path, role: &str) -> Result<(), ShippedError> {
    let path = path(fleet, role);
    durable::create_private_folder(&fleet.join(FOLDER))?;
    match record.bytes() {
        Ok(bytes) => Ok(durable::write(&path, &bytes, durable::SECRET_MODE)?),
        Err(problem) => Err(ShippedError::Damaged { path, problem }),
    }
}

/// Writes `record` where the stream has none, and returns its file then. What is signed is never without one, also when the power is cut.
pub(super) fn begin(
    record: &Record,
    fleet: &Path,
    role: &str,
) -> Result<Option<PathBuf>, ShippedError> {
    let path = path(fleet, role);
    if path.exists() {
        return Ok(None);
    }
    write(record, fleet, role)?;
    Ok(Some(path))
}

/// The error of a record that says otherwise of an assignment than what was signed.
pub(super) fn not_signed(fleet: &Fleet, role: &str, assignment: &str) -> ShippedError {
    ShippedError::Damaged {
        path: path(fleet.folder(), role),
        problem: format!(
            "what it says of `{assignment}` is not what the stream's last bundle has, which is signed"
        ),
    }
}

/// The error of a stream that has no record, where a bundle of it is signed.
pub(super) fn lost(fleet: &Fleet, role: &str) -> Result<Option<ShippedError>, FleetError> {
    let latest = fleet.latest(role)?;
    Ok(latest.map(|latest| ShippedError::Lost {
        path: path(fleet.folder(), role),
        number: latest.number,
    }))
}

fn path(fleet: &Path, role: &str) -> PathBuf {
    fleet.join(FOLDER).join(format!("{role}.json"))
}
