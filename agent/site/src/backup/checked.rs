//! A backup, read as a whole: what it holds is as its header says, and nothing was written for that.
//!
//! What comes in: an open file. What goes out: its header, the digest of the whole, and where its files begin. Bounded: the
//! header before it is read, the files by their size.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read, Seek as _, SeekFrom};
use std::path::Path;

use outhaul_bundle::Digest;
use outhaul_bundle::digest::Hasher;

use super::BackupError;
use super::format::{Header, MAGIC, MAX_HEADER_BYTES, SUM_BYTES};
use crate::durable::at;

/// A backup whose bytes are as they were written.
#[derive(Debug)]
pub struct CheckedBackup {
    /// What it says of itself.
    pub header: Header,
    /// Digest of the whole file.
    pub digest: Digest,
    /// Where the first of its files begins.
    pub first: u64,
}

/// Reads all of `file`, which was opened as `path`.
///
/// # Errors
/// [`BackupError`]; the file is refused.
pub fn check(
    file: &mut File,
    path: &Path,
    expected: Option<Digest>,
) -> Result<CheckedBackup, BackupError> {
    let failed = |error: io::Error| BackupError::from(at("read", path)(error));
    let found = file.metadata().map_err(failed)?.len();
    file.seek(SeekFrom::Start(0)).map_err(failed)?;
    let mut input = BufReader::new(&*file);
    let mut whole = Hasher::new();
    let mut magic = vec![0; MAGIC.len()];
    match input.read_exact(&mut magic) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            return Err(BackupError::NotABackup);
        }
        other => other.map_err(failed)?,
    }
    if magic != MAGIC {
        return Err(BackupError::NotABackup);
    }
    whole.update(&magic);
    let mut line = Vec::new();
    input
        .by_ref()
        .take(MAX_HEADER_BYTES)
        .read_until(b'\n', &mut line)
        .map_err(failed)?;
    whole.update(&line);
    let damaged = |problem: String| BackupError::Header { problem };
    let Some(text) = line.strip_suffix(b"\n") else {
        return Err(damaged("it is truncated in its header".to_owned()));
    };
    // The format first: a newer header has other fields.
    let shape: Shape = serde_json::from_slice(text).map_err(|error| damaged(error.to_string()))?;
    if shape.format != super::format::FORMAT {
        return Err(BackupError::UnknownFormat {
            found: shape.format.chars().take(100).collect(),
        });
    }
    let header: Header =
        serde_json::from_slice(text).map_err(|error| damaged(error.to_string()))?;
    header.check()?;
    let first = (MAGIC.len() + line.len()) as u64;
    let needed = first
        .saturating_add(header.content_bytes())
        .saturating_add(SUM_BYTES);
    if needed != found {
        return Err(BackupError::Length {
            expected: needed,
            found,
        });
    }
    let mut wrong = None;
    let mut buffer = vec![0; 64 * 1024];
    for entry in &header.entries {
        let mut one = Hasher::new();
        let mut left = entry.bytes;
        while left > 0 {
            let most = usize::try_from(left)
                .unwrap_or(usize::MAX)
                .min(buffer.len());
            input.read_exact(&mut buffer[..most]).map_err(failed)?;
            one.update(&buffer[..most]);
            whole.update(&buffer[..most]);
            left -= most as u64;
        }
        let (digest, _) = one.finish();
        if digest != entry.digest && wrong.is_none() {
            wrong = Some(BackupError::Content {
                name: entry.path.clone(),
                expected: entry.digest,
                found: digest,
            });
        }
    }
    let before = whole.clone().finish().0;
    let mut sum = Vec::new();
    input.read_to_end(&mut sum).map_err(failed)?;
    whole.update(&sum);
    if let Some(wrong) = wrong {
        return Err(wrong);
    }
    if sum != format!("{before}\n").as_bytes() {
        return Err(BackupError::Sum {
            expected: String::from_utf8_lossy(&sum)
                .trim()
                .chars()
                .take(80)
                .collect(),
            found: before,
        });
    }
    let digest = whole.finish().0;
    if let Some(expected) = expected.filter(|expected| *expected != digest) {
        return Err(BackupError::OtherDigest {
            expected,
            found: digest,
        });
    }
    Ok(CheckedBackup {
        header,
        digest,
        first,
    })
}

/// The one field that every version has.
#[derive(serde::Deserialize)]
struct Shape {
    format: String,
}
