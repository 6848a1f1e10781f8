//! A hub in one file: its database, its key as it rests, and a first line that states what they are.
//!
//! What comes in: an open hub, or a file that claims to be such a backup. What goes out: the file, written whole or not at
//! all, with its digest; or the same opened, every part held to its size and digest. Of the database only `restore`
//! decides whether it is sound. The key rests in the file as it does in the state folder: encrypted or not.

pub mod restore;

use outhaul_signer::key::MAX_KEY_BYTES;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, BufWriter, Read, Seek as _, SeekFrom, Write};
use std::path::{Path, PathBuf};

use outhaul_bundle::Digest;
use outhaul_bundle::digest::{Hasher, HashingWriter};
use outhaul_kit::{durable, media, text};
use serde::{Deserialize, Serialize};

use crate::error::HubError;
use crate::state::{Hub, KEY_FILE};
use crate::store::BackupError;
use crate::store::Store;
use crate::time;

/// The format, in the first line.
pub const FORMAT: &str = "outhaul-hub-backup/1";
/// Longest first line, in bytes.
const MAX_HEADER_BYTES: u64 = 64 * 1024;
/// A backup holds the hub's key: it is for its owner only.
const MODE: u32 = 0o600;

/// The first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// [`FORMAT`].
    pub format: String,
    /// The version of the program that wrote it.
    pub program: String,
    /// The version of the database's tables.
    pub version: u64,
    /// The fleet.
    pub fleet: String,
    /// The hub's public key, SPKI PEM.
    pub hub_key: String,
    /// When it was made, milliseconds since 1970.
    pub made_ms: i64,
    /// The same for people.
    pub made_at: String,
    /// The key file; absent where the key comes from elsewhere.
    pub key: Option<Part>,
    /// The database.
    pub database: Part,
}

/// What a part is: it follows the parts before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// In bytes.
    pub size: u64,
    /// Of its bytes.
    pub digest: String,
}

/// A backup that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WrittenHubBackup {
    /// The fleet.
    pub fleet: String,
    /// When, RFC 3339.
    pub made_at: String,
    /// In bytes.
    pub size: u64,
    /// Of the whole file.
    pub digest: String,
    /// Whether the key is in it.
    pub has_key: bool,
    /// Whether the key rests encrypted in it.
    pub key_encrypted: bool,
}

/// Writes a backup of `hub`, of which the state is in `folder`, to `to`, which must not exist.
///
/// # Errors
/// [`HubError`] when the state cannot be read or the file not written; no part of it is left then.
pub fn write(
    hub: &mut Hub,
    folder: &Path,
    to: &Path,
    now_ms: i64,
) -> Result<WrittenHubBackup, HubError> {
    if to.exists() {
        return Err(HubError::Refused {
            problem: format!("`{}` exists already", text::path(to)),
            help: "name another file".to_owned(),
        });
    }
    outhaul_place::refuse_file(to, "a file of this program", |_| false)?;
    let (copy, part) = (added(to, ".db.part"), added(to, ".part"));
    let done = write_parts(hub, folder, (&copy, &part), now_ms);
    durable::remove_file(&copy)?;
    match done {
        Ok(written) => {
            durable::rename(&part, to)?;
            Ok(written)
        }
        Err(error) => {
            durable::remove_file(&part)?;
            Err(error)
        }
    }
}

fn write_parts(
    hub: &mut Hub,
    folder: &Path,
    (copy, part): (&Path, &Path),
    now_ms: i64,
) -> Result<WrittenHubBackup, HubError> {
    // A leftover of a crash may be anything.
    durable::remove_file(copy)?;
    durable::remove_file(part)?;
    drop(durable::create(copy, MODE)?);
    hub.store.copy_to(copy)?;
    let key = durable::read_if_present(&folder.join(KEY_FILE), MAX_KEY_BYTES)?;
    let mut database = File::open(copy).map_err(durable::at("open", copy))?;
    let header = Header {
        format: FORMAT.to_owned(),
        program: env!("CARGO_PKG_VERSION").to_owned(),
        version: Store::newest_version(),
        fleet: hub.fleet().to_owned(),
        hub_key: hub.public_key()?.to_pem(),
        made_ms: now_ms,
        made_at: time::rfc3339(now_ms),
        key: key.as_deref().map(|bytes| Part {
            size: bytes.len() as u64,
            digest: Digest::of(bytes).to_string(),
        }),
        database: part_of(&mut database, u64::MAX).map_err(durable::at("read", copy))?,
    };
    database
        .seek(SeekFrom::Start(0))
        .map_err(durable::at("read", copy))?;
    let out = BufWriter::new(durable::create(part, MODE)?);
    let mut out = HashingWriter::new(out);
    let mut line = serde_json::to_vec(&header).unwrap_or_default();
    line.push(b'\n');
    out.write_all(&line)
        .and_then(|()| out.write_all(key.as_deref().unwrap_or_default()))
        .and_then(|()| io::copy(&mut database, &mut out).map(drop))
        .and_then(|()| out.flush())
        .map_err(durable::at("write", part))?;
    let (out, digest, size) = out.finish();
    out.into_inner()
        .map_err(io::IntoInnerError::into_error)
        .and_then(|file| file.sync_all())
        .map_err(durable::at("write", part))?;
    Ok(WrittenHubBackup {
        fleet: header.fleet,
        made_at: header.made_at,
        size,
        digest: digest.to_string(),
        has_key: key.is_some(),
        key_encrypted: key.is_some_and(|key| is_encrypted(&key)),
    })
}

/// A backup of which every part is what its first line states.
#[derive(Debug)]
pub struct OpenedBackup {
    /// The first line.
    pub header: Header,
    /// Of the whole file.
    pub digest: String,
    /// The key file, as it rests.
    pub key: Option<Vec<u8>>,
    file: File,
    database_at: u64,
}

impl OpenedBackup {
    /// Opens a backup, and holds every part to its size and digest.
    ///
    /// # Errors
    /// [`BackupError`], or [`durable::FileError`] when it cannot be read.
    pub fn open(path: &Path) -> Result<Self, HubError> {
        let failed = || durable::at("read", path);
        let not_one = |problem: &str| BackupError::NotOne {
            file: path.to_owned(),
            problem: problem.to_owned(),
        };
        let damaged = |problem: String| BackupError::Damaged {
            file: path.to_owned(),
            problem,
        };
        let file = media::open_file(path)?;
        let size = file.metadata().map_err(failed())?.len();
        let mut line = Vec::new();
        BufReader::new(&file)
            .take(MAX_HEADER_BYTES)
            .read_until(b'\n', &mut line)
            .map_err(failed())?;
        let format = serde_json::from_slice::<serde_json::Value>(&line).unwrap_or_default();
        match format["format"].as_str() {
            Some(FORMAT) => {}
            Some(other) if other.starts_with("outhaul-hub-backup/") => {
                let problem = format!(
                    "its format is `{}`, this program reads `{FORMAT}`",
                    text::printable(other)
                );
                return Err(not_one(&problem).into());
            }
            _ => return Err(not_one("its first line is not that of one").into()),
        }
        let header: Header =
            serde_json::from_slice(&line).map_err(|error| not_one(&error.to_string()))?;
        let key_size = header.key.as_ref().map_or(0, |key| key.size);
        let stated = (line.len() as u64)
            .checked_add(key_size)
            .and_then(|sum| sum.checked_add(header.database.size));
        if stated != Some(size) || key_size > MAX_KEY_BYTES {
            let what = format!(
                "it has {size} bytes, its first line states {}",
                stated.unwrap_or(u64::MAX)
            );
            return Err(damaged(what).into());
        }
        let mut opened = Self {
            database_at: line.len() as u64 + key_size,
            digest: String::new(),
            key: None,
            header,
            file,
        };
        opened.check(&line).map_err(failed())?.map_err(damaged)?;
        Ok(opened)
    }

    /// Reads all of it once.
    fn check(&mut self, line: &[u8]) -> io::Result<Result<(), String>> {
        let mut whole = Hasher::new();
        whole.update(line);
        self.file.seek(SeekFrom::Start(line.len() as u64))?;
        if let Some(part) = &self.header.key {
            let mut bytes = Vec::new();
            (&self.file).take(part.size).read_to_end(&mut bytes)?;
            whole.update(&bytes);
            if Digest::of(&bytes).to_string() != part.digest {
                return Ok(Err("the key is not the one that was written".to_owned()));
            }
            self.key = Some(bytes);
        }
        let mut database = Hasher::new();
        each_block(&mut self.file, u64::MAX, |block| {
            whole.update(block);
            database.update(block);
        })?;
        if database.finish().0.to_string() != self.header.database.digest {
            return Ok(Err(
                "the database is not the one that was written".to_owned()
            ));
        }
        self.digest = whole.finish().0.to_string();
        Ok(Ok(()))
    }

    /// Copies the database to a file that this makes.
    ///
    /// # Errors
    /// [`durable::FileError`]
    pub fn copy_database(&mut self, to: &Path) -> Result<(), durable::FileError> {
        let mut out = durable::create(to, MODE)?;
        self.file
            .seek(SeekFrom::Start(self.database_at))
            .and_then(|_| io::copy(&mut (&self.file).take(self.header.database.size), &mut out))
            .and_then(|_| out.sync_all())
            .map_err(durable::at("write", to))
    }
}

/// Whether a key file is of a key that a passphrase protects.
fn is_encrypted(key: &[u8]) -> bool {
    key.starts_with(b"-----BEGIN ENCRYPTED PRIVATE KEY-----")
}

fn part_of(file: &mut File, most: u64) -> io::Result<Part> {
    let mut hasher = Hasher::new();
    each_block(file, most, |block| hasher.update(block))?;
    let (digest, size) = hasher.finish();
    Ok(Part {
        size,
        digest: digest.to_string(),
    })
}

fn each_block(file: &mut File, most: u64, mut take: impl FnMut(&[u8])) -> io::Result<()> {
    let mut left = file.take(most);
    let mut block = vec![0; 128 * 1024];
    loop {
        match left.read(&mut block)? {
            0 => return Ok(()),
            read => take(&block[..read]),
        }
    }
}

/// `path` with `end` added to its name.
fn added(path: &Path, end: &str) -> PathBuf {
    crate::state::lost::beside(path, end)
}
