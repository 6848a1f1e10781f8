//! One layer: which package databases it brings, and which it removes.
//!
//! What comes in: a layer as a stream: a tar, plain or compressed by gzip or zstd. What goes out: its [`LayerFacts`], which
//! are small and may be kept under the layer's digest. At most [`MAX_LAYER_BYTES`] are unpacked, nothing is written, and
//! only the files of package databases are read.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufReader, Read};

use serde::{Deserialize, Serialize};

use super::package::Package;
use super::release::{self, Release};
use super::{apk, dpkg};

/// How much of a layer is unpacked, in bytes.
const MAX_LAYER_BYTES: u64 = 32 << 30;
/// Largest package database, in bytes. One with 5,000 packages has 6 MB.
const MAX_DATABASE_BYTES: u64 = 64 << 20;
/// Longest path in a header of its own, in bytes.
const MAX_PATH_BYTES: u64 = 64 * 1024;
/// Most files that are kept in mind of one layer, and most removals.
const MAX_KEPT: usize = 20_000;
/// zstd may ask for this much memory: 2 to the power of, in bytes.
const MAX_WINDOW_LOG: u32 = 27;

/// What is looked at: files, and all below folders.
const WATCHED: [&str; 8] = [
    "etc/os-release",
    "lib/apk/db",
    "usr/lib/apk/db",
    "usr/lib/os-release",
    "usr/lib/sysimage/rpm",
    "var/lib/dpkg",
    "var/lib/pacman",
    "var/lib/rpm",
];

/// What a layer does to what is looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerFacts {
    /// Files that it brings, by their paths.
    pub files: BTreeMap<String, WatchedFile>,
    /// Files and folders of lower layers that it removes.
    pub removed: BTreeSet<String>,
    /// Folders of which nothing of lower layers remains.
    pub emptied: BTreeSet<String>,
}

/// A file that is looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WatchedFile {
    /// A package database.
    Packages {
        /// What it lists as installed.
        packages: Vec<Package>,
        /// Entries that could not be read.
        unreadable: u64,
    },
    /// Which distribution it is.
    Release(Release),
    /// A database of another package manager, which is not read.
    Other(String),
    /// It was not read: why.
    Unread(String),
}

/// Why a layer could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LayerError {
    /// It is not what it should be, or its stream failed.
    #[error("it cannot be unpacked: {0}")]
    Io(#[from] io::Error),
    /// Larger than any real one.
    #[error("it has {what}, which is more than is read")]
    TooLarge {
        /// What.
        what: &'static str,
    },
}

enum Watch {
    Apk,
    Dpkg,
    Release,
    Other(&'static str),
}

impl LayerFacts {
    /// Reads a layer to its end.
    ///
    /// # Errors
    /// [`LayerError`]
    pub fn read(layer: impl Read) -> Result<Self, LayerError> {
        let mut layer = BufReader::with_capacity(64 * 1024, layer);
        let unpacked = unpacked(&mut layer)?;
        let mut unpacked = Bounded {
            from: unpacked,
            left: MAX_LAYER_BYTES,
        };
        let facts = Self::of_tar(&mut unpacked)?;
        // What follows the end of the archive is padding.
        io::copy(&mut unpacked, &mut io::sink())?;
        drop(unpacked);
        io::copy(&mut layer, &mut io::sink())?;
        Ok(facts)
    }

    fn of_tar(tar: impl Read) -> Result<Self, LayerError> {
        let mut facts = Self::default();
        let mut archive = tar::Archive::new(tar);
        let mut long_path = None;
        // Raw: the library reads long paths into memory, however long they are.
        for entry in archive.entries()?.raw(true) {
            let mut entry = entry?;
            let kind = entry.header().entry_type();
            if kind.is_gnu_longname() {
                let bytes = small(&mut entry)?;
                long_path = Some(bytes.split(|byte| *byte == 0).next().map(<[u8]>::to_vec));
                continue;
            }
            if kind.is_pax_local_extensions() {
                let bytes = small(&mut entry)?;
                for record in tar::PaxExtensions::new(&bytes) {
                    let record = record?;
                    match record.key_bytes() {
                        b"path" => long_path = Some(Some(record.value_bytes().to_vec())),
                        b"size" => {
                            return Err(LayerError::TooLarge {
                                what: "a file of 8 GiB or more",
                            });
                        }
                        _ => {}
                    }
                }
                continue;
            }
            if kind.is_gnu_longlink() || kind.is_pax_global_extensions() {
                continue;
            }
            let path = match long_path.take() {
                Some(Some(path)) => path,
                _ => entry.header().path_bytes().into_owned(),
            };
            let Some(path) = plain_path(&path) else {
                continue;
            };
            facts.add(path, kind, &mut entry)?;
            if facts.files.len() + facts.removed.len() + facts.emptied.len() > MAX_KEPT {
                return Err(LayerError::TooLarge {
                    what: "more than 20,000 files of package databases",
                });
            }
        }
        Ok(facts)
    }

    fn add(
        &mut self,
        path: String,
        kind: tar::EntryType,
        content: &mut impl Read,
    ) -> Result<(), LayerError> {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", &path));
        if name == ".wh..wh..opq" {
            if concerns(folder) {
                self.emptied.insert(folder.to_owned());
            }
            return Ok(());
        }
        if let Some(gone) = name.strip_prefix(".wh.") {
            let gone = match folder {
                "" => gone.to_owned(),
                folder => format!("{folder}/{gone}"),
            };
            if !gone.is_empty() && concerns(&gone) {
                self.removed.insert(gone);
            }
            return Ok(());
        }
        if kind.is_dir() || !concerns(&path) {
            return Ok(());
        }
        let is_file = kind.is_file();
        let found = match watched(&path) {
            // `lib` is a link in most images, and leads to what is looked at as well.
            None if matches!(path.as_str(), "lib" | "usr" | "usr/lib" | "etc") => return Ok(()),
            None if is_folder_of_watched(&path) => {
                WatchedFile::Unread("it should be a folder".to_owned())
            }
            None => return Ok(()),
            // Usually a link to the other one.
            Some(Watch::Release) if !is_file => {
                self.files.remove(&path);
                self.removed.insert(path);
                return Ok(());
            }
            Some(Watch::Other(manager)) => WatchedFile::Other(manager.to_owned()),
            Some(_) if !is_file => WatchedFile::Unread("it is a link".to_owned()),
            Some(watch) => match database(&watch, content)? {
                Some(found) => found,
                None => return Ok(()),
            },
        };
        self.files.insert(path, found);
        Ok(())
    }
}

/// What a file that is looked at holds; `None` for nothing.
fn database(watch: &Watch, content: &mut impl Read) -> Result<Option<WatchedFile>, LayerError> {
    let mut bounded = content.take(MAX_DATABASE_BYTES);
    let status = match watch {
        Watch::Dpkg => dpkg::read(&mut bounded)?,
        Watch::Apk => apk::read(&mut bounded)?,
        Watch::Release => return Ok(release::read(&mut bounded)?.map(WatchedFile::Release)),
        Watch::Other(_) => return Ok(None),
    };
    if bounded.limit() == 0 {
        let why = "it is larger than 64 MiB".to_owned();
        return Ok(Some(WatchedFile::Unread(why)));
    }
    Ok(Some(WatchedFile::Packages {
        packages: status.packages,
        unreadable: status.unreadable,
    }))
}

fn watched(path: &str) -> Option<Watch> {
    match path {
        "etc/os-release" | "usr/lib/os-release" => Some(Watch::Release),
        "lib/apk/db/installed" | "usr/lib/apk/db/installed" => Some(Watch::Apk),
        "var/lib/dpkg/status" => Some(Watch::Dpkg),
        _ => {
            let (folder, name) = path.rsplit_once('/')?;
            match (folder, name) {
                ("var/lib/dpkg/status.d", name) => {
                    (!name.ends_with(".md5sums")).then_some(Watch::Dpkg)
                }
                (
                    "var/lib/rpm" | "usr/lib/sysimage/rpm",
                    "Packages" | "Packages.db" | "rpmdb.sqlite",
                ) => Some(Watch::Other("rpm")),
                ("var/lib/pacman/local", "ALPM_DB_VERSION") => Some(Watch::Other("pacman")),
                _ => None,
            }
        }
    }
}

/// Whether a path is looked at, lies below what is, or above.
fn concerns(path: &str) -> bool {
    WATCHED
        .iter()
        .any(|watched| *watched == path || is_below(watched, path) || is_below(path, watched))
}

/// Whether `path` lies below `folder`; all does below `""`.
pub(crate) fn is_below(path: &str, folder: &str) -> bool {
    folder.is_empty()
        || path
            .strip_prefix(folder)
            .is_some_and(|rest| rest.starts_with('/'))
}

/// Whether a path is a folder in which something is looked at.
fn is_folder_of_watched(path: &str) -> bool {
    let mut watched = WATCHED.iter();
    watched.any(|watched| *watched == path || is_below(watched, path))
}

/// A path as it is compared: without `./` and `/` before it; `None` for what is not looked at anyway.
fn plain_path(bytes: &[u8]) -> Option<String> {
    let path = str::from_utf8(bytes).ok()?;
    let path = path.trim_start_matches("./").trim_matches('/');
    (!path.is_empty() && path != ".").then(|| path.to_owned())
}

/// A header of its own, which is small.
fn small(entry: &mut impl Read) -> Result<Vec<u8>, LayerError> {
    let mut bytes = Vec::new();
    entry.take(MAX_PATH_BYTES + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > MAX_PATH_BYTES {
        true => Err(LayerError::TooLarge {
            what: "a path of more than 64 KiB",
        }),
        false => Ok(bytes),
    }
}

/// By its first bytes: media types of layers are often wrong.
fn unpacked<'a>(layer: &'a mut BufReader<impl Read + 'a>) -> io::Result<Box<dyn Read + 'a>> {
    let magic = io::BufRead::fill_buf(layer)?;
    Ok(match magic {
        [0x1f, 0x8b, ..] => Box::new(flate2::bufread::MultiGzDecoder::new(layer)),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            let mut decoder = zstd::Decoder::with_buffer(layer)?;
            decoder.window_log_max(MAX_WINDOW_LOG)?;
            Box::new(decoder)
        }
        _ => Box::new(layer),
    })
}

/// An error where a [`Read::take`] would end in silence.
struct Bounded<R> {
    from: R,
    left: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(into)?;
        self.left = self
            .left
            .checked_sub(read as u64)
            .ok_or_else(|| io::Error::other("it is larger than 32 GiB"))?;
        Ok(read)
    }
}

#[cfg(test)]
mod tests;
