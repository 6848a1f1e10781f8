//! A bundle in a file: an `.outhaul` bundle, read once from its first byte to its last.
//!
//! What comes in: an open file of a stick or a disk: a bundle, one of its parts, or a part's parity. What goes out: the steps of
//! the bundle reader (metadata, index, which part it is, blobs or parity into the store), with the reader's words for what
//! is wrong, and for whom the bundle claims to be. It verifies no signature; the file is never opened for writing and never
//! sought in.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Read};

use outhaul_bundle::digest::HashingWriter;
use outhaul_bundle::{BundleReader, Digest, Index, Limits, Parity, ReadError, Volume};
use outhaul_kit::console::progress::{Meter, Unit};
use outhaul_signer::MetadataSource;

use super::{BundleSource, ListedIndex};
use crate::blobs::Blobs;
use crate::durable;
use crate::error::AgentError;
use crate::other_files;
use outhaul_kit::heartbeat::Heartbeat;

/// Writes go to the disk in pieces of this many bytes.
const BUFFER_BYTES: usize = 256 * 1024;

/// A file that is being read.
#[derive(Debug)]
pub struct BundleFile {
    name: String,
    /// What it is, when it does not begin as a bundle.
    instead: Option<String>,
    heartbeat: Heartbeat,
    reader: BundleReader<Beating>,
    metadata: Option<BTreeMap<String, Vec<u8>>>,
    /// Whether its blobs were read: a part's are read before it is known whether anything is missing.
    is_read: bool,
    /// Whether files of the same bundle may follow.
    others_follow: bool,
    /// The parts that were made again from parity.
    rebuilt: Vec<usize>,
    /// Its size in bytes, where it has one.
    bytes: Option<u64>,
    /// Why this copy of a bundle that is here already could not be used, where it was not copied to its end.
    cut_off: Option<String>,
}

/// A file whose reading is a heartbeat.
#[derive(Debug)]
struct Beating {
    file: File,
    heartbeat: Heartbeat,
    meter: Meter,
}

impl Read for Beating {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.heartbeat.beat();
        if self.heartbeat.is_cancelled() {
            return Err(io::Error::other("it was stopped on request"));
        }
        let count = self.file.read(buffer)?;
        self.meter.add(count as u64);
        Ok(count)
    }
}

impl BundleFile {
    /// Reads `file`, which is called `name` in messages.
    pub fn new(name: String, file: File, limits: Limits, heartbeat: &Heartbeat) -> Self {
        let bytes = file.metadata().map(|found| found.len()).ok();
        let meter = Meter::new(&format!("reading {name}"), Unit::Bytes, bytes);
        Self {
            instead: other_files::not_a_bundle(&name, &file),
            name,
            heartbeat: heartbeat.clone(),
            reader: BundleReader::new(
                Beating {
                    file,
                    heartbeat: heartbeat.clone(),
                    meter,
                },
                limits,
            ),
            metadata: None,
            is_read: false,
            others_follow: false,
            rebuilt: Vec::new(),
            bytes,
            cut_off: None,
        }
    }

    /// The same, when files of the same bundle may follow: nothing is made again that may still come.
    #[must_use]
    pub fn others_follow(self) -> Self {
        Self {
            others_follow: true,
            ..self
        }
    }

    /// The parts that were made again from parity.
    pub fn parts_rebuilt(&self) -> &[usize] {
        &self.rebuilt
    }

    /// Whether its blobs were read: then what is here of the bundle was copied from it.
    pub fn was_copied(&self) -> bool {
        self.is_read
    }

    /// That this copy of bundle `number`, which is here already, was not copied to its end.
    pub fn cut_off(&self, number: u64) -> Option<String> {
        let problem = self.cut_off.as_ref()?;
        let name = &self.name;
        Some(format!(
            "`{name}`: this copy of bundle {number} is incomplete: {problem}; bundle {number} is here already, and nothing on this site depends on \
             this copy; where it is meant for another site, copy it again from the centre"
        ))
    }

    /// For whom the bundle says it is, unverified: for messages about bundles that are not ours.
    pub fn claims(&self) -> Option<String> {
        let metadata = self.metadata.as_ref()?;
        let common = [
            "root.json",
            "timestamp.json",
            "snapshot.json",
            "targets.json",
        ];
        let role = metadata.iter().find(|(name, _)| {
            let bare = name.split_once('.').map_or(name.as_str(), |(first, rest)| {
                if first.bytes().all(|b| b.is_ascii_digit()) {
                    rest
                } else {
                    name
                }
            });
            !common.contains(&bare)
        })?;
        let value: serde_json::Value = serde_json::from_slice(role.1).ok()?;
        let targets = value.get("signed")?.get("targets")?.as_object()?;
        let custom = targets.values().next()?.get("custom")?;
        let word = |key| {
            custom
                .get(key)
                .and_then(|value: &serde_json::Value| value.as_str())
        };
        let plain = |text: &str| {
            text.chars()
                .filter(|c| !c.is_control())
                .take(60)
                .collect::<String>()
        };
        Some(format!(
            "{}/{}",
            plain(word("environment")?),
            plain(word("cluster_type")?)
        ))
    }
}

/// What reading said, unless it was only asked to stop.
fn failed(name: &str, heartbeat: &Heartbeat, error: &ReadError) -> AgentError {
    match heartbeat.is_cancelled() && error.is_environment() {
        true => AgentError::Stopped,
        false => AgentError::from_read(name, error),
    }
}

impl BundleSource for BundleFile {
    fn name(&self) -> &str {
        &self.name
    }

    fn metadata(&mut self) -> Result<&dyn MetadataSource, AgentError> {
        if let Some(instead) = &self.instead {
            let message = format!("it is not a bundle: {instead}");
            return Err(AgentError::refused(&self.name, "not-a-bundle", message));
        }
        let metadata = match self.metadata.take() {
            Some(metadata) => metadata,
            None => self
                .reader
                .read_metadata()
                .map_err(|error| failed(&self.name, &self.heartbeat, &error))?,
        };
        Ok(self.metadata.insert(metadata))
    }

    fn brings(&self, role: &str) -> bool {
        let own = format!(".{role}.json");
        self.metadata
            .as_ref()
            .is_some_and(|files| files.keys().any(|name| name.ends_with(&own)))
    }

    fn is_on_media(&self) -> bool {
        true
    }

    fn is_here_already(&mut self, listed: &ListedIndex) {
        let read = self
            .reader
            .read_verified_index(&listed.index, listed.compressed);
        let whole = read.and_then(|(index, _)| self.reader.bytes_in_all(&index));
        self.cut_off = match (whole, self.bytes) {
            (Ok(Some(whole)), Some(bytes)) if bytes < whole => {
                Some(format!("it has {bytes} bytes of {whole}"))
            }
            (Err(ReadError::Truncated { .. }), Some(bytes)) => {
                Some(format!("it ends after {bytes} bytes, before its content"))
            }
            // What else is wrong with a copy that nobody needs is nobody's concern.
            _ => None,
        };
    }

    fn index(&mut self, listed: &ListedIndex) -> Result<(Index, Vec<u8>), AgentError> {
        self.reader
            .read_verified_index(&listed.index, listed.compressed)
            .map_err(|error| failed(&self.name, &self.heartbeat, &error))
    }

    fn volume(&mut self, index: &Index) -> Result<Option<Volume>, AgentError> {
        self.reader
            .read_volume(index)
            .map_err(|error| failed(&self.name, &self.heartbeat, &error))
    }

    fn parity(&mut self, index: &Index) -> Result<Option<Parity>, AgentError> {
        let found = self
            .reader
            .read_parity(index)
            .map_err(|error| failed(&self.name, &self.heartbeat, &error))?;
        // It holds no blob: there is nothing to be read when all is here.
        self.is_read |= found.is_some();
        Ok(found)
    }

    fn parity_bytes(&mut self, index: &Index, store: &mut Blobs) -> Result<Digest, AgentError> {
        let name = Digest::of(self.name.as_bytes());
        let (file, path) = store.begin_parity(&name)?;
        let mut out = HashingWriter::new(BufWriter::with_capacity(BUFFER_BYTES, file));
        let read = self.reader.read_parity_bytes(index, &mut out);
        let (file, digest, _) = out.finish();
        drop(file);
        if let Err(error) = read {
            durable::remove_file(&path)?;
            return Err(failed(&self.name, &self.heartbeat, &error));
        }
        store.keep_parity(&path, digest)?;
        Ok(digest)
    }

    fn is_last(&self) -> bool {
        !self.others_follow
    }

    fn rebuilt(&mut self, parts: &[usize]) {
        self.rebuilt = parts.to_vec();
    }

    fn blobs(&mut self, index: &Index, store: &mut Blobs) -> Result<(), AgentError> {
        if self.is_read {
            return Ok(());
        }
        self.reader
            .read_blobs(index, store)
            .map_err(|error| failed(&self.name, &self.heartbeat, &error))?;
        self.is_read = true;
        Ok(())
    }
}
