//! Remembered: what the last run left in a folder, as far as it can still be trusted.
//!
//! What comes in: the folder with its record, and beside it `<folder>.outhaul.memory.json`. What goes
//! out: [`Remembered`]: the [`DiskCache`] of the assignments whose every file lies there untouched. Whatever
//! is doubtful is forgotten, which costs a rendering and nothing else: a memory that is missing, torn, of
//! another program or of another record, a file whose size, times or number differ. The memory is of
//! this machine only; it may be removed at any time.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use outhaul_bundle::Digest;
use outhaul_signer::durable;
use serde::{Deserialize, Serialize};

use super::walk::{FileStamp, FilesFound, walk};
use super::{OutputError, absolute, beside, exchange, read_file, read_record, record_path};
use outhaul_plane::render::{DiskCache, assignment_of};
use outhaul_record::record::Record;

/// The memory's format.
const FORMAT: &str = "outhaul.dev/render-memory/v1";
/// Largest memory in bytes: some 500,000 files.
const MAX_MEMORY_BYTES: u64 = 64 * 1024 * 1024;

/// What lies in a folder, and what of it need not be rendered again.
#[derive(Debug, Default)]
pub struct Remembered {
    /// What can be taken as it is.
    pub cache: DiskCache,
    pub(super) record: Option<Record>,
    /// Digest of the record as it was read.
    pub(super) record_digest: Option<Digest>,
    /// Every file in the folder.
    pub(super) there: FilesFound,
    /// A time of the folder's file system from before it was looked at.
    pub(super) looked_at: i64,
    /// The memory as it was read.
    bytes: Option<Vec<u8>>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    format: String,
    /// The program that wrote it: another may render other bytes.
    program: Option<FileStamp>,
    /// The record that it belongs to.
    record: Digest,
    #[serde(rename = "past")]
    cache: DiskCache,
    /// The files of the record, as they were after they were written.
    files: BTreeMap<String, FileStamp>,
}

/// Looks at `folder`, into which `environment` is to be written. With `full` nothing is taken as it is.
///
/// # Errors
/// [`OutputError::OtherEnvironment`]; others when the record or the folder cannot be read, never because of the memory.
pub fn remembered(folder: &Path, environment: &str, full: bool) -> Result<Remembered, OutputError> {
    let shown = folder;
    let folder = &absolute(folder)?;
    exchange::finish(folder)?;
    let looked_at = time_of_file_system(folder);
    let (record, digest) = read_record(&record_path(folder))?.unzip();
    // Records of the first versions name none.
    if let Some(held) = record.as_ref().map(|record| &record.environment)
        && !held.is_empty()
        && held != environment
    {
        return Err(OutputError::OtherEnvironment {
            path: shown.to_owned(),
            held: held.clone(),
            wanted: environment.to_owned(),
        });
    }
    let there = walk(folder, "")?;
    let mut remembered = Remembered {
        cache: DiskCache::default(),
        record,
        record_digest: digest,
        there,
        looked_at,
        bytes: durable::read(&path(folder), MAX_MEMORY_BYTES).ok(),
    };
    let file = remembered.bytes.as_deref();
    let file: Option<File> = file.and_then(|bytes| serde_json::from_slice(bytes).ok());
    if let (Some(file), Some(record)) = (file, &remembered.record)
        && !full
        && file.format == FORMAT
        && file.program.is_some()
        && file.program == program()
        && Some(file.record) == digest
    {
        let mut cache = file.cache;
        let unverified = unverified(folder, record, &remembered.there, &file.files, &cache);
        cache.forget(&unverified);
        remembered.cache = cache;
    }
    Ok(remembered)
}

/// Assignments of which not every file is what the record says.
fn unverified(
    folder: &Path,
    record: &Record,
    there: &FilesFound,
    seen: &BTreeMap<String, FileStamp>,
    cache: &DiskCache,
) -> BTreeSet<String> {
    // Until a file of it was found.
    let mut unverified = cache.assignments();
    let mut touched = BTreeSet::new();
    for (path, digest) in &record.files {
        let Some(of) = assignment_of(path) else {
            continue;
        };
        let is_as_it_was = match (seen.get(path), there.get(path)) {
            (Some(before), Some(Some(now))) if before == now => true,
            (Some(before), Some(Some(now))) => {
                before.changed == 0
                    && before.has_content_of(now)
                    && read_file(&folder.join(path))
                        .is_ok_and(|bytes| Digest::of(&bytes) == *digest)
            }
            _ => false,
        };
        match is_as_it_was {
            true => drop(unverified.remove(of)),
            false => drop(touched.insert(of.to_owned())),
        }
    }
    unverified.append(&mut touched);
    unverified
}

impl Remembered {
    /// Writes the memory for the next run, when it is another one. That it cannot be is not an error: the
    /// next run then renders everything.
    pub(super) fn replace(
        &self,
        folder: &Path,
        cache: DiskCache,
        record: Digest,
        files: BTreeMap<String, FileStamp>,
    ) {
        let file = File {
            format: FORMAT.to_owned(),
            program: program(),
            record,
            cache,
            files,
        };
        let Ok(bytes) = serde_json::to_vec(&file) else {
            return;
        };
        if self.bytes.as_ref() != Some(&bytes)
            && durable::write(&path(folder), &bytes, durable::PUBLIC_MODE).is_err()
        {
            // An old one would be found out by the record's digest; none is plainer.
            drop(fs::remove_file(path(folder)));
        }
    }
}

fn path(folder: &Path) -> PathBuf {
    beside(folder, ".outhaul.memory.json")
}

/// This program's file.
fn program() -> Option<FileStamp> {
    let metadata = fs::metadata(std::env::current_exe().ok()?).ok()?;
    FileStamp::of(&metadata)
}

/// The time now, as the file system that holds `folder` writes it; the beginning of time where nothing
/// can be written.
pub(super) fn time_of_file_system(folder: &Path) -> i64 {
    let now = || -> Option<i64> {
        let probe = tempfile::tempfile_in(folder.parent()?).ok()?;
        Some(FileStamp::of(&probe.metadata().ok()?)?.modified)
    };
    now().unwrap_or(i64::MIN)
}
