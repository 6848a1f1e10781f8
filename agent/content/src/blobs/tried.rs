//! Unpacking to nowhere: what a rehearsal does with each blob in the place of keeping it.
//!
//! What comes in: a blob's bytes, and the reader's word that they are right. What goes out: whether the blob
//! holds what the index says of it. Nothing is unpacked before it is verified, so one blob at a time lies in
//! a file without a name, which the system removes whatever happens. It keeps nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Seek as _, SeekFrom};
use std::path::Path;

use outhaul_bundle::index::{Blob, Content};
use outhaul_bundle::{Digest, Index, Limits};

use super::Blobs;
use super::sealed_values::SealedTexts;
use super::sources::unnamed;
use super::stored::Stored;
use crate::content_error::GenerationError;
use crate::secrets::Secrets;
use crate::state_folder::StateFolder;

/// What is wanted of a bundle, and what came of trying it.
#[derive(Debug)]
pub(super) struct Trial {
    wanted: BTreeSet<Content>,
    secrets: Secrets,
    limits: Limits,
    /// Texts that may have sealed values.
    texts: SealedTexts,
    /// The bytes of the blob that is being read.
    file: Option<File>,
    tried: BTreeMap<Digest, Result<(), GenerationError>>,
}

impl Trial {
    /// A file without a name for the next blob.
    pub(super) fn begin(&mut self, folder: &Path) -> io::Result<File> {
        let file = unnamed(folder)?;
        let copy = file.try_clone()?;
        self.file = Some(file);
        Ok(copy)
    }

    /// The blob that was written is right: it is unpacked.
    pub(super) fn verified(&mut self, blob: &Blob) -> io::Result<()> {
        if let Some(mut file) = self.file.take() {
            file.seek(SeekFrom::Start(0))?;
            self.unpack(blob, Stored::Carried(file));
        }
        Ok(())
    }

    /// What is in the place of a layer was made and has the digest that its patch states.
    pub(super) fn twin(&mut self, blob: &Blob) {
        self.tried.insert(blob.digest, Ok(()));
    }

    pub(super) fn unpack(&mut self, blob: &Blob, stored: Stored) {
        let wanted = |content: &Content| self.wanted.contains(content);
        // What only other sites need is carried, and not unpacked.
        if !blob.contents.iter().any(wanted) {
            return;
        }
        let texts = &mut self.texts;
        let tried = stored.decode(blob, &self.limits, &self.secrets, &mut |content| {
            Ok(Some(texts.sink(content)))
        });
        self.tried.insert(blob.digest, tried.map_err(Into::into));
    }
}

impl Blobs {
    /// The store of `state_folder` for a reader whose blobs are verified, unpacked to nowhere and kept nowhere.
    ///
    /// # Errors
    /// [`GenerationError`] of the keys that open what is sealed.
    pub fn for_rehearsal(
        state_folder: &StateFolder,
        index: &Index,
        limits: Limits,
    ) -> Result<Self, GenerationError> {
        // Without keys a bundle is looked at all the same, where no blob as a whole is sealed.
        let secrets = match Secrets::load(&state_folder.identities()) {
            Err(error) if index.blobs.iter().any(|blob| blob.sealed.is_some()) => {
                return Err(error.into());
            }
            loaded => loaded.unwrap_or_default(),
        };
        let files = index.files().map(|file| Content {
            digest: file.content,
            size: file.size,
        });
        let contents = files.chain(index.served.contents().copied());
        Ok(Self {
            trial: Some(Trial {
                wanted: contents.collect(),
                secrets,
                limits,
                texts: SealedTexts::default(),
                file: None,
                tried: BTreeMap::new(),
            }),
            ..Self::new(state_folder)
        })
    }

    /// What unpacking the whole bundle would have come to: the values that this site cannot open, a sentence each.
    ///
    /// # Errors
    /// [`GenerationError`], of the first blob of the index that does not hold what it should.
    pub fn tried(&mut self, index: &Index) -> Result<Vec<String>, GenerationError> {
        let Some(mut trial) = self.trial.take() else {
            return Ok(Vec::new());
        };
        let mut lacking = trial.wanted.clone();
        for blob in &index.blobs {
            if !trial.tried.contains_key(&blob.digest) && self.has(blob) {
                // It was here already and was not read again.
                match self.twin(blob) {
                    Some(_) => trial.twin(blob),
                    None => trial.unpack(blob, self.open(blob)?),
                }
            }
            trial.tried.remove(&blob.digest).unwrap_or(Ok(()))?;
            for content in &blob.contents {
                lacking.remove(content);
            }
        }
        let path_of = |content: &Content| {
            let named = index.files().find(|file| file.content == content.digest);
            named.map_or_else(String::new, |file| file.path.to_string())
        };
        match lacking.first() {
            Some(content) => Err(GenerationError::Lacking {
                content: content.digest,
                path: path_of(content),
            }),
            None => Ok(trial.texts.unopened(index, &trial.secrets)),
        }
    }
}
