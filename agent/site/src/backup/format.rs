//! How a backup of a site is laid out: a first line, a header in one line of JSON, the files one after the other, and the
//! digest of all of that.
//!
//! What comes in: names of a state folder, and headers. What goes out: which names belong into a backup, and what is
//! wrong with a header. It reads no file but to say what is in it.

use std::collections::BTreeSet;
use std::io::{self, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use outhaul_bundle::Digest;
use outhaul_bundle::digest::Hasher;
use outhaul_bundle::name::Name;
use serde::{Deserialize, Serialize};

use super::BackupError;
use crate::durable::{self, at};

/// The first line.
pub const MAGIC: &[u8] = outhaul_bundle::SITE_BACKUP_MAGIC;
/// The format's name; a reader refuses any other.
pub const FORMAT: &str = "outhaul.dev/site-backup/v1";
/// Largest header in bytes: some hundred for each file.
pub const MAX_HEADER_BYTES: u64 = 64 * 1024 * 1024;
/// Most files.
pub const MAX_ENTRIES: usize = 200_000;
/// The last line: a digest and the end of the line.
pub const SUM_BYTES: u64 = 72;

/// What a backup says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// Always [`FORMAT`].
    pub format: String,
    /// The version of the agent that wrote it.
    pub agent: String,
    /// The fleet's id.
    pub fleet: Name,
    /// The site.
    pub site: Name,
    /// Id of the key that the site signs with.
    pub key: String,
    /// The numbering of its reports.
    pub epoch: Name,
    /// The last report's number.
    pub reports_last: u64,
    /// The last number that the hub had acknowledged.
    pub reports_acknowledged: u64,
    /// When it was made, milliseconds since 1970 by the site's clock.
    pub made_ms: i64,
    /// Whether blobs and generations are in it.
    pub content: bool,
    /// Its files, in their order.
    pub entries: Vec<BackupEntry>,
}

/// One file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackupEntry {
    /// Where it lies in the state folder.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// Its permissions.
    pub mode: u32,
    /// Digest of its content.
    pub digest: Digest,
}

impl BackupEntry {
    /// The entry of a file that is here.
    ///
    /// # Errors
    /// [`BackupError`] when it cannot be read.
    pub fn of(path: &Path, name: &str) -> Result<Self, BackupError> {
        let file = durable::open(path)?;
        let about = file.metadata().map_err(at("look at", path))?;
        let mut hasher = Hasher::new();
        io::copy(&mut BufReader::new(file), &mut hasher).map_err(at("read", path))?;
        let (digest, bytes) = hasher.finish();
        Ok(Self {
            path: name.to_owned(),
            bytes,
            mode: about.permissions().mode() & 0o777,
            digest,
        })
    }
}

/// What a name of a state folder stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Named {
    /// The database.
    Database,
    /// The key that it signs with.
    Key,
    /// `agent.toml`
    Settings,
    /// Anything else that is the site's own.
    Other,
}

impl Named {
    /// What `name` stands for; `None` for what belongs into no backup.
    pub fn of(name: &str) -> Option<Self> {
        let sound = |part: &str| {
            !part.is_empty()
                && !matches!(part, "." | "..")
                && part.bytes().all(|b| b.is_ascii_graphic() && b != b'\\')
        };
        if !name.split('/').all(sound) || name.len() > 1024 {
            return None;
        }
        let folder = name.split_once('/').map(|(folder, _)| folder);
        match (name, folder) {
            ("agent.db", None) => Some(Self::Database),
            ("site.key", None) => Some(Self::Key),
            ("agent.toml", None) => Some(Self::Settings),
            ("floors.json" | "site.key.next" | "site.age.next", None)
            | (_, Some("identities" | "roots" | "generations")) => Some(Self::Other),
            _ => {
                let request =
                    folder.is_none() && Path::new(name).extension() == Some("request".as_ref());
                (request || name.starts_with("blobs/sha256/")).then_some(Self::Other)
            }
        }
    }

    /// Whether a folder of this name is looked into.
    pub fn is_folder(name: &str) -> bool {
        let first = name.split('/').next().unwrap_or_default();
        matches!(first, "identities" | "roots" | "generations" | "blobs") && name != "blobs/partial"
    }

    /// Whether it is content, which the centre has, too.
    pub fn is_content(name: &str) -> bool {
        let first = name.split('/').next().unwrap_or_default();
        matches!(first, "generations" | "blobs")
    }
}

impl Header {
    /// What is wrong with it, whatever follows it.
    ///
    /// # Errors
    /// [`BackupError`] names the first problem.
    pub fn check(&self) -> Result<(), BackupError> {
        if self.format != FORMAT {
            return Err(BackupError::UnknownFormat {
                found: self.format.chars().take(100).collect(),
            });
        }
        if self.entries.len() > MAX_ENTRIES {
            return Err(BackupError::TooMany {
                found: self.entries.len(),
            });
        }
        let mut seen = BTreeSet::new();
        for entry in &self.entries {
            let named = Named::of(&entry.path);
            if named.is_none() || (!self.content && Named::is_content(&entry.path)) {
                return Err(BackupError::ForeignName {
                    name: entry.path.chars().take(200).collect(),
                });
            }
            if !seen.insert(entry.path.as_str()) {
                return Err(BackupError::Twice {
                    name: entry.path.clone(),
                });
            }
        }
        for required in ["agent.db", "site.key"] {
            if !seen.contains(required) {
                return Err(BackupError::Missing {
                    name: required.to_owned(),
                });
            }
        }
        Ok(())
    }

    /// The size of all files.
    pub fn content_bytes(&self) -> u64 {
        self.entries
            .iter()
            .fold(0, |sum, entry| sum.saturating_add(entry.bytes))
    }
}
