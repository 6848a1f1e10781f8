//! The record of what a stream last shipped, in the fleet's folder: one file a stream, written when the bundle is on record.
//!
//! What comes in: a folder and the stream's role. What goes out: its [`Record`]. A file that is damaged or of a later program is
//! an error: without it a broken assignment would vanish from sites.

use std::path::{Path, PathBuf};

use outhaul_signer::durable::{self, FileError};
use outhaul_signer::fleet::Fleet;

use crate::record::Record;

const FOLDER: &str = "rendered";
/// Largest file in bytes.
const MAX_BYTES: u64 = 256 * 1024 * 1024;

/// Why it cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShippedError {
    /// The file system refused.
    #[error(transparent)]
    File(#[from] FileError),
    /// The file is damaged.
    #[error(
        "`{}` does not say what the stream last shipped: {problem}\nhelp: restore it from a copy; if there \
         is none, remove it: then broken assignments are left out once, and removals are not compared",
        path.display()
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

fn path(fleet: &Path, role: &str) -> PathBuf {
    fleet.join(FOLDER).join(format!("{role}.json"))
}
