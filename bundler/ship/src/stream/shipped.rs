//! The record of what a stream last shipped, in the fleet's folder: one file a stream, written before the bundle is on record, with the
//! one before it beside it.
//!
//! What comes in: a folder and the stream's role. What goes out: the [`Record`] of the bundle that was signed last, whichever of both
//! that is after a power cut. A file that is damaged or of a later program is an error: without it a broken assignment would vanish from
//! sites.

use std::path::{Path, PathBuf};

use outhaul_bundle::Digest;
use outhaul_signer::Envelope;
use outhaul_signer::durable::{self, FileError};
use outhaul_signer::fleet::{Fleet, FleetError, StatementSigner};

use outhaul_record::record::Record;

const FOLDER: &str = "rendered";
/// What the envelope of a record holds: the digest of the record without it.
const PAYLOAD_TYPE: &str = "application/vnd.outhaul.record+sha256";
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
    /// The fleet does not say what it signed.
    #[error(transparent)]
    Fleet(#[from] FleetError),
    /// The file is gone.
    #[error(
        "`{}` is gone, and number {number} of this stream is signed: what it shipped is not known, so that nothing broken could be kept, \
         and no removal noticed; nothing was signed\nhelp: restore it from a backup of the fleet's folder; if there is none, give \
         `--strict` once, with `--cluster-type` for this stream alone: {without}",
        path.display(),
        without = WITHOUT
    )]
    Lost {
        /// The file.
        path: PathBuf,
        /// The number that was signed last.
        number: u64,
    },
    /// It is not signed by the fleet, and there is nothing to compare it with.
    #[error(
        "`{}` is not signed by the fleet, and the bundle that it is of is not here whole: whether it matches what the stream shipped is not known; \
         nothing was signed\nhelp: put the bundle of number {number} back into the fleet's folder `bundles`, from a backup or a stick that has \
         it; if there is none, give `--strict` once, with `--cluster-type` for this stream alone: {without}",
        path.display(),
        without = WITHOUT
    )]
    Unverified {
        /// The file.
        path: PathBuf,
        /// The number that was signed last.
        number: u64,
    },
    /// The record of a bundle that waits for signatures is not what the bundle has.
    #[error(
        "`{}` is not what the bundle has that waits for signatures, by `{id}`; nothing was shipped\nhelp: remove that folder: the next \
         `outhaul bundle` makes the bundle again and asks for the signatures again; and see that nobody else writes to the fleet's folder",
        folder.display()
    )]
    Waiting {
        /// The folder of what waits.
        folder: PathBuf,
        /// The first assignment that differs.
        id: String,
    },
    /// It would be larger than what is read.
    #[error(
        "`{}` would have {bytes} bytes, and {MAX_BYTES} are the most that is read of a record; nothing was shipped\nhelp: let what is large \
         travel as a workload's files, not as rendered ones",
        path.display()
    )]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its bytes.
        bytes: u64,
    },
    /// The bundle that the record is compared with is not the one that was signed last.
    #[error(
        "`{}` cannot be compared with what the stream shipped: {problem}; nothing was signed\nhelp: restore it from a backup of the \
         fleet's folder or a stick that has it; if there is none, see that nobody else writes there, and move the file away: \
         `--strict` is the way on then",
        path.display()
    )]
    Bundle {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The file is damaged.
    #[error(
        "`{}` does not match what the stream last shipped: {problem}\nhelp: restore it from a backup of the fleet's \
         folder; if there is none, remove it and give `--strict` once, with `--cluster-type` for this stream alone: {without}",
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

/// What the stream `role` of `fleet` shipped with the bundle that was signed last; `None` when nothing is known of it.
pub(super) fn last(fleet: &Fleet, role: &str) -> Result<Option<Record>, ShippedError> {
    let folder = fleet.folder();
    let now = read(fleet, folder, role)?;
    let latest = fleet.latest(role)?;
    let latest = latest.map(|latest| Digest::from_bytes(latest.index));
    let Some(now) = now else { return Ok(None) };
    if is_of(&now, latest) {
        return Ok(Some(now));
    }
    // The power was cut, or the disk was full, before its bundle was on record.
    match read_file(fleet, &before(folder, role), role)? {
        Some(before) if is_of(&before, latest) => Ok(Some(before)),
        _ if latest.is_none() => Ok(None),
        _ => {
            let problem = "it is of another bundle than the one that was signed last".to_owned();
            let path = path(folder, role);
            Err(ShippedError::Damaged { path, problem })
        }
    }
}

/// What the record of the stream `role` of `fleet` in `folder` says; `None` when there is none. The record of another stream is none of
/// this one.
pub(super) fn read(
    fleet: &Fleet,
    folder: &Path,
    role: &str,
) -> Result<Option<Record>, ShippedError> {
    read_file(fleet, &path(folder, role), role)
}

fn read_file(fleet: &Fleet, path: &Path, role: &str) -> Result<Option<Record>, ShippedError> {
    let bytes = durable::read_if_present(path, MAX_BYTES)?;
    bytes
        .map(|bytes| parsed(fleet, &bytes, path, role))
        .transpose()
}

fn parsed(fleet: &Fleet, bytes: &[u8], path: &Path, role: &str) -> Result<Record, ShippedError> {
    let record = Record::parse_stream(bytes).and_then(|record| {
        let streams = fleet.streams();
        let own = streams
            .get(role)
            .map(|own| format!("{}/{}", own.environment, own.cluster_type));
        match (own, record.stream_name()) {
            (Some(own), Some(found)) if own != found => Err(format!("it is of stream `{found}`")),
            _ => Ok(record),
        }
    });
    let path = path.to_owned();
    record.map_err(|problem| ShippedError::Damaged { path, problem })
}

/// Puts it in the place of what was there, durably.
pub(super) fn write(record: &Record, fleet: &Path, role: &str) -> Result<(), ShippedError> {
    let path = path(fleet, role);
    durable::create_private_folder(&fleet.join(FOLDER))?;
    match record.bytes() {
        Ok(all) if all.len() as u64 > MAX_BYTES => {
            let bytes = all.len() as u64;
            Err(ShippedError::TooLarge { path, bytes })
        }
        Ok(bytes) => Ok(durable::write(&path, &bytes, durable::SECRET_MODE)?),
        Err(problem) => Err(ShippedError::Damaged { path, problem }),
    }
}

/// Writes the record of a bundle that is about to be on record, and keeps the one of before beside it: what is signed is never without
/// one, wherever the power is cut.
pub(super) fn begin(record: &Record, fleet: &Fleet, role: &str) -> Result<(), ShippedError> {
    let folder = fleet.folder();
    let latest = fleet.latest(role)?;
    let latest = latest.map(|latest| Digest::from_bytes(latest.index));
    // One of a bundle that never came on record does not take the place of the one before it: it may be the second cut in a row.
    let path = path(folder, role);
    if let Some(bytes) = durable::read_if_present(&path, MAX_BYTES)?
        && parsed(fleet, &bytes, &path, role).is_ok_and(|now| is_of(&now, latest))
    {
        durable::write(&before(folder, role), &bytes, durable::SECRET_MODE)?;
    }
    write(record, folder, role)
}

/// Whether a record is of the bundle with this index; one of before says nothing of it.
fn is_of(record: &Record, latest: Option<Digest>) -> bool {
    record.index().is_none_or(|index| Some(index) == latest)
}

/// The record with the fleet's signature.
pub(super) fn signed(record: Record, signer: &StatementSigner) -> Result<Record, ShippedError> {
    let digest = record
        .unsigned_digest()
        .map_err(|problem| ShippedError::Damaged {
            path: PathBuf::from(FOLDER),
            problem,
        })?;
    let envelope = signer.sign(PAYLOAD_TYPE, digest.to_string().into_bytes());
    let envelope = String::from_utf8_lossy(&envelope.to_json()).into_owned();
    Ok(record.with_signature(envelope))
}

/// Whether the fleet signed the record, as that of the bundle with this index.
pub(super) fn is_signed(
    fleet: &Fleet,
    record: &Record,
    latest: Digest,
) -> Result<bool, ShippedError> {
    let (Some(envelope), true) = (record.signature(), record.index() == Some(latest)) else {
        return Ok(false);
    };
    let keys = fleet.statement_keys()?;
    let envelope = Envelope::from_json(envelope.as_bytes()).ok();
    let stated =
        envelope.and_then(|envelope| Some(envelope.verify(PAYLOAD_TYPE, &keys).ok()?.to_vec()));
    let digest = record.unsigned_digest().ok();
    Ok(digest.is_some_and(|digest| stated.as_deref() == Some(digest.to_string().as_bytes())))
}

/// The error of a record that cannot be compared with anything.
pub(super) fn unverified(fleet: &Fleet, role: &str) -> Result<ShippedError, FleetError> {
    let number = fleet.latest(role)?.map_or(0, |latest| latest.number);
    let path = path(fleet.folder(), role);
    Ok(ShippedError::Unverified { path, number })
}

/// The error of a record that says otherwise of an assignment than what was signed.
pub(super) fn not_signed(fleet: &Fleet, role: &str, assignment: &str) -> ShippedError {
    ShippedError::Damaged {
        path: path(fleet.folder(), role),
        problem: format!(
            "its entry for `{assignment}` is not what the stream's last bundle has, which is signed"
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

fn before(fleet: &Path, role: &str) -> PathBuf {
    fleet.join(FOLDER).join(format!("{role}.before.json"))
}

fn path(fleet: &Path, role: &str) -> PathBuf {
    fleet.join(FOLDER).join(format!("{role}.json"))
}
