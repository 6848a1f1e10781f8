//! What a folder of published bundles has of one bundle, and what in it would keep the bundle from being written.
//!
//! What comes in: the folder, and a bundle's index before it is signed, or its file. What goes out: a refusal of what is no file
//! where one goes, before a number is used for it; or the first file that is missing or is another one, and whose timestamp
//! leads sites. Each file is compared by its bytes or its digest. It writes nothing; links in the folder are not followed.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use outhaul_bundle::Index;
use outhaul_bundle::index::Content;
use outhaul_bundle::limits::Limits;
use outhaul_bundle::read::{BundleReader, ReadError};
use outhaul_kit::media::{Bounds, Media};

use super::{
    DeliverError, MAX_TIMESTAMP_BYTES, blob_path, is_of, open, timestamp_path, version_of,
};

/// Metadata and indexes of other roles and numbers that are looked at in one folder.
const MAX_ENTRIES: usize = 1_000_000;
/// Of one folder the first file that is looked for, and nothing below it.
const FIRST: Bounds = Bounds {
    depth: 0,
    entries: MAX_ENTRIES,
    kept: 1,
};

/// A folder for published bundles whose folder above is not there either.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no folder `{}`, in which it would be made", above.display())]
pub struct NoFolderAbove {
    /// The folder above.
    pub above: PathBuf,
}

/// Whether `folder`, in which bundles are published, is to be made.
///
/// # Errors
/// [`NoFolderAbove`]: more than the last part of the path may be mistyped, and a web server would look elsewhere.
pub fn is_new(folder: &Path) -> Result<bool, NoFolderAbove> {
    if folder.exists() {
        return Ok(false);
    }
    let above = folder
        .parent()
        .filter(|above| !above.as_os_str().is_empty());
    match above.filter(|above| !above.is_dir()) {
        None => Ok(true),
        Some(above) => Err(NoFolderAbove {
            above: above.to_owned(),
        }),
    }
}

/// Refuses a folder in which anything but a file stands where one of a bundle with this index goes, or anything but a folder where one
/// of its folders goes. A folder that is not there yet is fine.
///
/// # Errors
/// [`DeliverError::File`]
pub fn check_folder(folder: &Path, role: &str, index: &Index) -> Result<(), DeliverError> {
    if !folder.exists() {
        return Ok(());
    }
    let media = Media::open(folder)?;
    for blob in &index.blobs {
        media.open_file(&blob_path(blob))?;
    }
    // Which versions these get is known when they are signed.
    let targets = targets_of(&media, role)?;
    let is_ours = |name: &OsStr| {
        let name = name.as_encoded_bytes();
        name.ends_with(b".json") || name.ends_with(b".json.zst")
    };
    for found in [media.subfolder("metadata")?, targets]
        .into_iter()
        .flatten()
    {
        let listing = found.files(FIRST, is_ours)?;
        if let Some(unusable) = listing.unusable.into_iter().next() {
            return Err(unusable.into());
        }
        // A folder in the place of a file.
        if let Some(folder) = listing.folder_wanted {
            found.open_file(&folder)?;
        }
    }
    Ok(())
}

/// The folder of the indexes of one stream, where there is one.
fn targets_of(media: &Media, role: &str) -> Result<Option<Media>, DeliverError> {
    match media.subfolder("targets")? {
        Some(targets) => Ok(targets.subfolder(role)?),
        None => Ok(None),
    }
}

/// The timestamp in a published folder, seen from the one of a bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimestampThere {
    /// There is none, or it is older: it does not lead to the bundle.
    Older,
    /// As new, or newer, and signed by the fleet.
    AsNew,
    /// Not signed by the fleet: sites refuse it.
    Foreign,
}

/// The metadata files of a bundle, with the index that was signed.
struct OpenedBundle {
    metadata: BTreeMap<String, Vec<u8>>,
    index: Index,
    index_bytes: Vec<u8>,
    /// The compressed form of a large index.
    compressed: Option<Vec<u8>>,
}

impl OpenedBundle {
    fn of(bundle: &Path, expected: &Content) -> Result<Self, DeliverError> {
        let unreadable = |source| unreadable(bundle, source);
        let mut reader = BundleReader::new(open(bundle)?, Limits::default());
        let metadata = reader.read_metadata().map_err(unreadable)?;
        let (index, index_bytes) = reader.read_index(expected).map_err(unreadable)?;
        Ok(Self {
            compressed: reader.index_compressed(),
            metadata,
            index,
            index_bytes,
        })
    }

    /// What it brings that is small, by its place, but for the timestamp.
    fn small(&self, expected: &Content, role: &str) -> impl Iterator<Item = (PathBuf, &Vec<u8>)> {
        let metadata = self.metadata.iter();
        let metadata = metadata.filter(|(name, _)| name.as_str() != "timestamp.json");
        let index = index_path(expected, role);
        metadata
            .map(|(name, bytes)| (Path::new("metadata").join(name), bytes))
            .chain(self.compressed.iter().map({
                let path = index.with_extension("json.zst");
                move |bytes| (path.clone(), bytes)
            }))
            .chain([(index, &self.index_bytes)])
    }
}

fn unreadable(bundle: &Path, source: ReadError) -> DeliverError {
    DeliverError::Read {
        path: bundle.to_path_buf(),
        source,
    }
}

/// Where clients look for the index of a stream.
fn index_path(index: &Content, role: &str) -> PathBuf {
    let name = format!("{}.index.json", index.digest.hex());
    Path::new("targets").join(role).join(name)
}

/// The files of a published bundle, but for the timestamp.
///
/// # Errors
/// [`DeliverError`] when the bundle cannot be read.
pub fn files_of(bundle: &Path, index: &Content, role: &str) -> Result<Vec<PathBuf>, DeliverError> {
    let opened = OpenedBundle::of(bundle, index)?;
    let small = opened.small(index, role).map(|(path, _)| path);
    Ok(small
        .chain(opened.index.blobs.iter().map(blob_path))
        .collect())
}

/// The first file of the bundle in the file `bundle` that `folder` does not have, or that is another one there; `None` where all of them
/// are as [`super::publish_folder`] writes them.
///
/// # Errors
/// [`DeliverError`] when the bundle or the folder cannot be read.
pub fn difference(
    bundle: &Path,
    index: &Content,
    role: &str,
    folder: &Path,
) -> Result<Option<PathBuf>, DeliverError> {
    let opened = OpenedBundle::of(bundle, index)?;
    if !folder.exists() {
        return Ok(Some(PathBuf::new()));
    }
    let media = Media::open(folder)?;
    for (path, bytes) in opened.small(index, role) {
        let found = media.read(&path, bytes.len() as u64).ok().flatten();
        if found.as_ref() != Some(bytes) {
            return Ok(Some(path));
        }
    }
    let differs = opened.index.blobs.iter().find(|blob| {
        let found = media.open_file(&blob_path(blob)).ok().flatten();
        !found.is_some_and(|found| is_of(found, blob).unwrap_or(false))
    });
    Ok(differs.map(blob_path))
}

/// Whether `folder` has the index of the bundle in the file `bundle`, or the metadata that vouches for it: it was published there then.
///
/// # Errors
/// [`DeliverError`] when the bundle or the folder cannot be read.
pub fn was_there(
    bundle: &Path,
    index: &Content,
    role: &str,
    folder: &Path,
) -> Result<bool, DeliverError> {
    let opened = OpenedBundle::of(bundle, index)?;
    if !folder.exists() {
        return Ok(false);
    }
    let media = Media::open(folder)?;
    let own = format!(".{role}.json");
    let mut places = opened.small(index, role).map(|(path, _)| path);
    Ok(places.any(|path| {
        let is_own = path.starts_with("targets") || path.to_string_lossy().ends_with(&own);
        // What is no file there was not published.
        is_own && media.open_file(&path).is_ok_and(|found| found.is_some())
    }))
}

/// Whether the timestamp in `folder` leads sites to the bundle in the file `bundle`. Whether the fleet signed it is for `is_signed` to
/// say.
///
/// # Errors
/// [`DeliverError`] when the bundle or the folder cannot be read.
pub fn leads_to(
    bundle: &Path,
    folder: &Path,
    is_signed: &dyn Fn(&[u8]) -> bool,
) -> Result<TimestampThere, DeliverError> {
    if !folder.exists() {
        return Ok(TimestampThere::Older);
    }
    let there = Media::open(folder)?.read(&timestamp_path(), MAX_TIMESTAMP_BYTES)?;
    let Some(there) = there else {
        return Ok(TimestampThere::Older);
    };
    if !is_signed(&there) {
        return Ok(TimestampThere::Foreign);
    }
    let mut reader = BundleReader::new(open(bundle)?, Limits::default());
    let metadata = reader.read_metadata();
    let metadata = metadata.map_err(|source| unreadable(bundle, source))?;
    let own = metadata
        .get("timestamp.json")
        .and_then(|bytes| version_of(bytes));
    Ok(match version_of(&there) >= own {
        true => TimestampThere::AsNew,
        false => TimestampThere::Older,
    })
}
