//! Twins: layers of which the store has the uncompressed archive, and not the bytes that registries compare.
//!
//! What comes in: a layer's entry in a signed index, and an archive that a patch made. What goes out: the archive under its digest, like any
//! other blob, and `<hex of the layer>.twin`, which states that digest; or what is wrong with them. An archive counts only as far as the
//! config of its image states its digest ([`Blobs::twin_problem`]): the config is in the signed index, the patch is not.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use outhaul_bundle::index::{Blob, Content, Encoding};
use outhaul_bundle::seal::NoKeys;
use outhaul_bundle::{Digest, Index, Limits, layers};
use serde::{Deserialize, Serialize};

use super::{Blobs, digest_of};
use crate::durable::{self, FileError};

/// The ending of a file that states the archive of a layer.
pub(super) const ENDING: &str = ".twin";
/// Largest such file in bytes.
const MAX_BYTES: u64 = 1024;

/// What a file with that ending states.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Statement {
    archive: Digest,
    size: u64,
}

/// The archive that the file at `path` states; `None` without a sound one.
pub fn stated(path: &Path) -> Option<Content> {
    let bytes = durable::read(path, MAX_BYTES).ok()?;
    let stated: Statement = serde_json::from_slice(&bytes).ok()?;
    Some(Content {
        digest: stated.archive,
        size: stated.size,
    })
}

/// Writes what [`stated`] reads.
///
/// # Errors
/// [`FileError`] of the disk.
pub fn state(path: &Path, archive: &Content) -> Result<(), FileError> {
    let stated = Statement {
        archive: archive.digest,
        size: archive.size,
    };
    let bytes = serde_json::to_vec(&stated).unwrap_or_default();
    durable::write(path, &bytes, 0o644)
}

impl Blobs {
    /// Patches may make the archives of layers in their place. Without this, such a patch is refused for the reason that is given last.
    pub fn accept_twins(&mut self, refusal: Option<String>) {
        self.patching.no_twins = refusal;
    }

    /// The archive that is here in the place of a layer; `None` also when the layer itself is here.
    pub fn twin(&self, blob: &Blob) -> Option<Content> {
        let has_form = blob.encoding == Encoding::Identity && blob.sealed.is_none();
        if !has_form || self.is_carried(blob) {
            return None;
        }
        let archive = stated(&self.twin_path(&blob.digest))?;
        let there = std::fs::metadata(self.path(&archive.digest));
        let is_there = there.is_ok_and(|meta| meta.len() == archive.size);
        is_there.then_some(archive)
    }

    pub(super) fn is_twin_and_whole(&self, blob: &Blob) -> bool {
        let archive = self.twin(blob);
        archive.is_some_and(|archive| {
            digest_of(&self.path(&archive.digest)).is_ok_and(|found| found == archive.digest)
        })
    }

    pub(super) fn twin_path(&self, layer: &Digest) -> PathBuf {
        self.whole.join(format!("{}{ENDING}", layer.hex()))
    }

    /// Gives an archive that was made and compared with its digest its name, and states that it is in the place of `layer`.
    pub(super) fn keep_twin(
        &mut self,
        layer: &Digest,
        archive: &Content,
        made: &Path,
    ) -> Result<(), FileError> {
        let to = self.path(&archive.digest);
        // Another layer's archive may be the same: that is not what this copy added, and stays when the copy is refused.
        match digest_of(&to).is_ok_and(|found| found == archive.digest) {
            true => durable::remove_file(made)?,
            false => self.keep_as(archive.digest, made, &to)?,
        }
        state(&self.twin_path(layer), archive)?;
        self.added.push(*layer);
        Ok(())
    }

    /// The archives of the layers in `wanted` (names of files without their endings), by the same names.
    pub(super) fn archives_of(
        &self,
        wanted: &BTreeSet<String>,
    ) -> Result<BTreeSet<String>, FileError> {
        let mut found = BTreeSet::new();
        for path in durable::list(&self.whole)? {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let layer = name.strip_suffix(ENDING);
            if layer.is_some_and(|layer| wanted.contains(layer)) {
                found.extend(stated(&path).map(|archive| archive.digest.hex()));
            }
        }
        Ok(found)
    }

    /// Why an archive that is here cannot be in the place of its layer in `index`: no config of an image states it, or something needs the
    /// layer itself. The index is signed, and its configs were compared with their digests.
    ///
    /// # Errors
    /// When a stored blob cannot be read.
    pub fn twin_problem(&self, index: &Index) -> io::Result<Option<String>> {
        let twins = index.blobs.iter();
        let twins: Vec<(&Blob, Content)> = twins
            .filter_map(|blob| Some((blob, self.twin(blob)?)))
            .collect();
        if twins.is_empty() {
            return Ok(None);
        }
        let images = layers::images(index, &mut |content| self.content(index, content))?;
        let diff_ids = layers::diff_ids(&images);
        let files: BTreeSet<Digest> = index.files().map(|file| file.content).collect();
        for (blob, archive) in twins {
            let layer = blob.digest;
            if files.contains(&layer) {
                return Ok(Some(format!(
                    "{layer} is a file of a workload, so that its uncompressed archive does not do"
                )));
            }
            let ids = diff_ids.get(&layer).cloned().unwrap_or_default();
            if ids != BTreeSet::from([archive.digest]) {
                return Ok(Some(format!(
                    "the uncompressed archive of {layer} is {}, which is not what the config of its image states",
                    archive.digest
                )));
            }
        }
        Ok(None)
    }

    /// One content of `index`, whole; `None` when no blob that is here and open has it.
    fn content(&self, index: &Index, content: &Content) -> io::Result<Option<Vec<u8>>> {
        let has = |blob: &&Blob| blob.contents.contains(content) && blob.sealed.is_none();
        let Some(blob) = index.blobs.iter().find(has) else {
            return Ok(None);
        };
        if !self.has(blob) || self.twin(blob).is_some() {
            return Ok(None);
        }
        let made = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
        let stored = self.open(blob).map_err(|error| error.source)?;
        let decoded = stored.decode(blob, &Limits::default(), &NoKeys, &mut |one| {
            let out = Shared(std::rc::Rc::clone(&made));
            Ok((one == content).then(|| Box::new(out) as Box<dyn Write>))
        });
        decoded.map_err(io::Error::other)?;
        Ok(Some(made.take()))
    }
}

struct Shared(std::rc::Rc<std::cell::RefCell<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The archives that a generation has in the place of layers, by the layers' digests: what the files in `folder` state.
///
/// # Errors
/// [`FileError`] when the folder cannot be read; one that is not there has none.
pub fn in_folder(folder: &Path) -> Result<BTreeMap<Digest, Content>, FileError> {
    let mut found = BTreeMap::new();
    for path in durable::list(folder)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if let (Ok(layer), Some(archive)) = (Digest::from_hex(&name), stated(&path)) {
            found.insert(layer, archive);
        }
    }
    Ok(found)
}
