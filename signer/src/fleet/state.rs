//! What a fleet has published, and what it has ever signed: the two things that versions depend on.
//!
//! What comes in: the fleet's own files. What goes out: the parsed roles that `timestamp.json` leads to, and
//! the marks. `timestamp.json` is the one pointer: files of a publication that was cut off before it
//! was replaced are there but not led to, and their versions are not used again because of the marks.

use std::collections::BTreeMap;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{FleetError, MAX_STATE_BYTES};
use crate::durable::{self, PUBLIC_MODE};
use crate::metadata::{self, MetadataError, Root, Snapshot, Targets, TimestampRole};

/// The roles that are published now.
#[derive(Debug, Clone)]
pub(crate) struct PublishedRoles {
    pub(crate) root: Root,
    pub(crate) timestamp: TimestampRole,
    pub(crate) snapshot: Snapshot,
    pub(crate) targets: Targets,
    pub(crate) targets_bytes: Vec<u8>,
}

impl PublishedRoles {
    pub(crate) fn read(folder: &Path) -> Result<Self, FleetError> {
        let mut version = 1;
        while folder.join(format!("{}.root.json", version + 1)).is_file() {
            version += 1;
        }
        let missing = |file: &str, problem: &str| FleetError::Metadata {
            file: file.to_owned(),
            source: MetadataError::Malformed {
                problem: problem.to_owned(),
            },
        };
        let (root, _): (Root, _) = read_role(folder, &format!("{version}.root.json"))?;
        if !root.is_complete() {
            return Err(missing(
                &format!("{version}.root.json"),
                "a role is missing",
            ));
        }
        let (timestamp, _): (TimestampRole, _) = read_role(folder, "timestamp.json")?;
        let pin = timestamp.meta.get("snapshot.json");
        let pin = pin.ok_or_else(|| missing("timestamp.json", "it pins no snapshot"))?;
        let name = format!("{}.snapshot.json", pin.version);
        let (snapshot, _): (Snapshot, _) = read_role(folder, &name)?;
        let pin = snapshot.meta.get("targets.json");
        let pin = pin.ok_or_else(|| missing(&name, "it pins no targets"))?;
        let (targets, targets_bytes) = read_role(folder, &format!("{}.targets.json", pin.version))?;
        Ok(Self {
            root,
            timestamp,
            snapshot,
            targets,
            targets_bytes,
        })
    }

    /// A published stream's role and its file.
    pub(crate) fn stream(
        &self,
        folder: &Path,
        role: &str,
    ) -> Result<Option<(Targets, Vec<u8>)>, FleetError> {
        let Some(pin) = self.snapshot.meta.get(&format!("{role}.json")) else {
            return Ok(None);
        };
        read_role(folder, &format!("{}.{role}.json", pin.version)).map(Some)
    }
}

/// The highest version of each role that was ever signed, published or not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Marks {
    /// By role: `timestamp`, `snapshot`, `targets`.
    pub(crate) versions: BTreeMap<String, u64>,
    /// By stream role: the highest number, and the digest of its index.
    pub(crate) streams: BTreeMap<String, StreamMark>,
}

/// The highest number signed of one stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StreamMark {
    pub(crate) number: u64,
    /// SHA-256 of the index, hexadecimal.
    pub(crate) index: String,
}

impl Marks {
    /// The marks in `folder`; `None` when there are none.
    pub(super) fn read(folder: &Path) -> Result<Option<Self>, FleetError> {
        let Some(bytes) = durable::read_if_present(&folder.join("marks.json"), MAX_STATE_BYTES)?
        else {
            return Ok(None);
        };
        let marks = serde_json::from_slice(&bytes).map_err(|error| FleetError::Forgotten {
            folder: folder.to_owned(),
            problem: format!("`marks.json`: {error}"),
        })?;
        Ok(Some(marks))
    }

    pub(super) fn write(&self, path: &Path) -> Result<(), FleetError> {
        let mut bytes = serde_json::to_vec_pretty(self).unwrap_or_default();
        bytes.push(b'\n');
        Ok(durable::write(path, &bytes, PUBLIC_MODE)?)
    }

    /// A version of `role` that was never signed, above `published`; marked.
    pub(crate) fn next(&mut self, role: &str, published: u64) -> u64 {
        let mark = self.versions.entry(role.to_owned()).or_default();
        *mark = published.max(*mark).saturating_add(1);
        *mark
    }
}

fn read_role<T: DeserializeOwned>(folder: &Path, file: &str) -> Result<(T, Vec<u8>), FleetError> {
    let bytes = durable::read(&folder.join(file), MAX_STATE_BYTES)?;
    let role = metadata::parse_own(&bytes).map_err(|source| FleetError::Metadata {
        file: file.to_owned(),
        source,
    })?;
    Ok((role, bytes))
}

impl super::Fleet {
    /// Makes `first` the lowest number that the next bundle of the stream `role` may have. Numbers that
    /// are higher already stay as they are; none ever falls.
    ///
    /// # Errors
    /// [`FleetError`] when the fleet's marks cannot be read or written.
    pub fn begin_at(&self, role: &str, first: u64) -> Result<(), FleetError> {
        let _lock = self.lock()?;
        let mut marks = self.marks()?;
        let mark = marks
            .streams
            .entry(role.to_owned())
            .or_insert_with(|| StreamMark {
                number: 0,
                index: String::new(),
            });
        if mark.number.saturating_add(1) >= first {
            return Ok(());
        }
        mark.number = first.saturating_sub(1);
        // Nothing was signed under this number: nothing equals it.
        mark.index.clear();
        self.write_marks(&marks)
    }

    /// Leaves out `by` versions of each role and `by` numbers of each stream, after what this folder knows: for
    /// a copy that does not know what was signed after it was made. Returns each stream's next number.
    ///
    /// # Errors
    /// [`FleetError`] when the fleet cannot be read or its marks cannot be written.
    pub fn leave_out(&self, by: u64) -> Result<BTreeMap<String, u64>, FleetError> {
        let _lock = self.lock()?;
        let published = self.published()?;
        // Marks that are gone are what this makes up for.
        let marks = Marks::read(&self.folder)?.map(|marks| self.plausible(marks));
        let mut marks = marks.transpose()?.unwrap_or_default();
        for (role, version) in [
            ("timestamp", published.timestamp.version),
            ("snapshot", published.snapshot.version),
            ("targets", published.targets.version),
        ] {
            let last = marks.next(role, version).saturating_sub(1);
            marks
                .versions
                .insert(role.to_owned(), last.saturating_add(by));
        }
        let mut next = BTreeMap::new();
        for role in self.streams().keys() {
            let number = self.next_number_after(&marks, role)?.saturating_add(by);
            let mark = StreamMark {
                number: number.saturating_sub(1),
                // Nothing was signed under this number: nothing equals it.
                index: String::new(),
            };
            marks.streams.insert(role.clone(), mark);
            next.insert(role.clone(), number);
        }
        self.write_marks(&marks)?;
        Ok(next)
    }

    /// The folder in which the centre keeps what it knows of the fleet's sites.
    pub fn sites_folder(&self) -> std::path::PathBuf {
        self.folder.join("sites")
    }
}
