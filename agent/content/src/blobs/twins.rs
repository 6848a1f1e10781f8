//! Twins: layers of which the store has the uncompressed archive, and not the bytes that registries compare.
//!
//! What comes in: a layer's entry in a signed index, and an archive that a patch made. What goes out: the archive under its digest, like any
//! other blob, and `<hex of the layer>.twin`, which states that digest; or what is wrong with them. An archive counts only as far as the
//! config of its image states its digest ([`Blobs::wrong_twins`]): the config is in the signed index, the patch is not.

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

/// An archive that is not what the signed index lets be in the place of a layer.
#[derive(Debug)]
pub struct WrongTwin {
    /// The layer.
    pub layer: Digest,
    /// What is in its place.
    pub archive: Digest,
    /// What is wrong, for people.
    pub problem: String,
}

impl WrongTwin {
    /// `None` when `archive` may be in the place of `layer` by what the configs of `index` state ([`layers::twins`]).
    pub(super) fn of(
        index: &Index,
        stated: &BTreeMap<Digest, Digest>,
        layer: Digest,
        archive: Digest,
    ) -> Option<Self> {
        let problem = match stated.get(&layer) {
            Some(one) if *one == archive => return None,
            None if index.files().any(|file| file.content == layer) => format!(
                "{layer} is a file of a workload, so that its uncompressed archive does not do"
            ),
            Some(_) => format!(
                "the uncompressed archive of {layer} is {archive}, which is not what the config of its image states"
            ),
            None => format!(
                "{layer} is not only a layer of images whose configs state one uncompressed archive for it, so that none does"
            ),
        };
        Some(Self {
            layer,
            archive,
            problem,
        })
    }
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
            false => self.keep_as(made, &to)?,
        }
        // Before it is written: one that is half there is taken back, too.
        let stated = self.twin_path(layer);
        self.added.push(stated.clone());
        state(&stated, archive)?;
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
            if layer.is_some_and(|layer| wanted.contains(layer)) && !self.is_replaced(&name) {
                found.extend(stated(&path).map(|archive| archive.digest.hex()));
            }
        }
        Ok(found)
    }

    /// Whether a stored file states the archive of a layer that is here itself.
    pub(super) fn is_replaced(&self, name: &str) -> bool {
        let layer = name.strip_suffix(ENDING);
        layer.is_some_and(|layer| self.whole.join(layer).exists())
    }

    /// The archives that are here and cannot be in the places of layers of `index`: no config of an image states them, or something needs the
    /// layer itself. The index is signed, and its configs were compared with their digests.
    ///
    /// # Errors
    /// When a stored blob cannot be read.
    pub fn wrong_twins(&self, index: &Index) -> io::Result<Vec<WrongTwin>> {
        let twins = index.blobs.iter();
        let twins: Vec<(Digest, Content)> = twins
            .filter_map(|blob| Some((blob.digest, self.twin(blob)?)))
            .collect();
        if twins.is_empty() {
            return Ok(Vec::new());
        }
        let stated = layers::twins(index, &mut |content| self.content(index, content))?;
        let twins = twins.into_iter();
        let wrong = twins
            .filter_map(|(layer, archive)| WrongTwin::of(index, &stated, layer, archive.digest));
        Ok(wrong.collect())
    }

    /// Removes the statement that an archive is in the place of `layer`, so that the layer counts as missing. The archive itself is removed with
    /// what no bundle needs.
    ///
    /// # Errors
    /// [`FileError`] of the disk.
    pub fn forget_twin(&mut self, layer: &Digest) -> Result<(), FileError> {
        durable::remove_file(&self.twin_path(layer))?;
        self.sync()
    }

    /// Takes back the statements of archives that this copy added, and nothing else of it: they were not compared with the configs.
    ///
    /// # Errors
    /// [`FileError`] of the disk.
    pub fn take_back_twins(&mut self) -> Result<(), FileError> {
        let is_statement = |path: &PathBuf| path.to_string_lossy().ends_with(ENDING);
        for path in self.added.extract_if(.., |path| is_statement(path)) {
            durable::remove_file(&path)?;
        }
        Ok(())
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

#[cfg(test)]
mod tests;
