//! The stream's own signature, and the second one where a stream needs two.
//!
//! What comes in: a stream's new role and the keys that count for it. What goes out: the signed file, or, while
//! signatures are missing, a request in the fleet's `requests/` folder. Signing the same bundle again
//! takes up that very request, dates included, and every answer that lies beside it. Which bundle waits, and
//! whether its answers suffice, is what [`Fleet::pending`] returns.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::online::named;
use super::{RoleKeys, Secret, Targets, delegated};
use crate::durable::{self, FileError, PUBLIC_MODE};
use crate::fleet::{Fleet, FleetError};
use crate::media;
use crate::metadata::{self, Key, MetadataSignature};
use crate::request::{MAX_BYTES, SigningAnswer, SigningRequest};

/// Which signatures a stream's metadata needs, and what it lists.
#[derive(Debug)]
pub(crate) struct StreamRequirements<'a> {
    /// The stream's role.
    pub(crate) role: &'a str,
    /// The keys that count, and how many must sign.
    pub(crate) keys: &'a RoleKeys,
    /// The keys by id.
    pub(crate) key_objects: &'a BTreeMap<String, Key>,
    /// The bundle's index, to be shown to those who sign; nothing when it is published already.
    pub(crate) index: Option<&'a [u8]>,
}

/// A bundle that waits for signatures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    /// Its number.
    pub number: u64,
    /// SHA-256 of its index.
    pub index: [u8; 32],
    /// Until when it may be installed, as asked for.
    pub expires: Timestamp,
    /// The request's file.
    pub request: PathBuf,
    /// Signatures needed.
    pub threshold: usize,
    /// Signatures there: keys in the fleet's folder and answers beside the request, each key once.
    pub found: usize,
}

impl Pending {
    /// Whether enough signatures are there to ship it.
    pub fn is_complete(&self) -> bool {
        self.found >= self.threshold
    }
}

impl Fleet {
    /// Where requests for signatures are written and answers are looked for.
    pub fn request_folder(&self) -> PathBuf {
        self.folder.join("requests")
    }

    /// Names of the answers to requests for signatures, sorted: with a new one a bundle that waits may be shipped. None where the folder cannot be read, which whoever needs an answer reports.
    pub fn answers(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.request_folder());
        let names = entries.into_iter().flatten().flatten();
        let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut answers: Vec<String> = names.filter(|name| name.ends_with(".answer")).collect();
        answers.sort();
        answers
    }

    /// The bundle of the stream `role` that waits for signatures, if one does.
    ///
    /// # Errors
    /// [`FleetError`] when the fleet or the request cannot be read.
    pub fn pending(&self, role: &str) -> Result<Option<Pending>, FleetError> {
        let published = self.published()?;
        let latest = self.latest(role)?.map_or(0, |latest| latest.number);
        let number = self
            .marks()?
            .streams
            .get(role)
            .map_or(0, |mark| mark.number);
        let Some(delegation) = delegated(&published.targets, role) else {
            return Ok(None);
        };
        let request = self
            .request_folder()
            .join(format!("{number}.{role}.json.request"));
        if number <= latest || delegation.threshold < 2 {
            return Ok(None);
        }
        let Some((asked, stream)) = Self::read_request(&request)? else {
            return Ok(None);
        };
        let target = stream.targets.get(&format!("{role}/index.json"));
        let hash = target.and_then(|target| target.hashes.get("sha256"));
        let mut index = [0u8; 32];
        if hash.is_none_or(|hash| hex::decode_to_slice(hash, &mut index).is_err()) {
            return Ok(None);
        }
        let here = self.ring().entries()?.into_iter();
        let here = here
            .filter(|entry| entry.present)
            .map(|entry| entry.public.id());
        let answered = self.answers_to(&asked)?.0.into_iter();
        let signers: BTreeSet<String> = here
            .chain(answered.map(|signature| signature.keyid))
            .filter(|id| delegation.keyids.contains(id))
            .collect();
        Ok(Some(Pending {
            number,
            index,
            expires: stream.expires,
            request,
            threshold: delegation.threshold,
            found: signers.len(),
        }))
    }

    pub(crate) fn sign_stream(
        &self,
        asked: &StreamRequirements<'_>,
        stream: &Targets,
        secret: &Secret,
    ) -> Result<Vec<u8>, FleetError> {
        let StreamRequirements { role, keys, .. } = asked;
        let file = format!("{}.{role}.json", stream.version);
        let mut payload = named(&file, metadata::signed_bytes(stream))?;
        let path = self.request_folder().join(format!("{file}.request"));
        if keys.threshold > 1
            && let Some((request, pending)) = Self::read_request(&path)?
            && content(&pending) == content(stream)
            && let Ok(bytes) = request.payload_bytes()
        {
            payload = bytes;
        }
        let mut signatures = BTreeMap::new();
        for key in self.ring().available(keys, secret)? {
            let signature = named(&file, metadata::sign_one(&payload, &key))?;
            signatures.insert(signature.keyid.clone(), signature);
        }
        if signatures.len() < keys.threshold {
            let wanted = asked
                .key_objects
                .iter()
                .filter(|(id, _)| keys.keyids.contains(id));
            let wanted = wanted.map(|(id, key)| (id.clone(), key.clone())).collect();
            let request = SigningRequest::new(self.id(), role, &payload, wanted)
                .with_published(self.published_for(role)?)
                .with_index(asked.index.unwrap_or_default());
            for signature in self.answers_to(&request)?.0 {
                signatures.insert(signature.keyid.clone(), signature);
            }
            if signatures.len() < keys.threshold {
                durable::create_folder(&self.request_folder())?;
                durable::write(&path, &request.to_bytes(), PUBLIC_MODE)?;
                return Err(FleetError::CountersignatureNeeded {
                    role: (*role).to_owned(),
                    threshold: keys.threshold,
                    found: signatures.len(),
                    request: path,
                });
            }
        }
        let signatures: Vec<_> = signatures.into_values().collect();
        named(&file, metadata::assemble(&payload, &signatures))
    }

    /// Every published root, by file name.
    pub(crate) fn published_roots(&self) -> Result<BTreeMap<String, String>, FleetError> {
        let mut files = BTreeMap::new();
        for version in 1..=self.published()?.root.version {
            let name = format!("{version}.root.json");
            let bytes = durable::read(
                &self.metadata_folder().join(&name),
                crate::trust::walk::MAX_ROOT_BYTES,
            )?;
            files.insert(name, String::from_utf8_lossy(&bytes).into_owned());
        }
        Ok(files)
    }

    /// What a co-signer of the stream `role` verifies its newest published bundle by.
    fn published_for(&self, role: &str) -> Result<BTreeMap<String, String>, FleetError> {
        let published = self.published()?;
        let mut files = self.published_roots()?;
        let mut names = vec![
            "timestamp.json".to_owned(),
            format!("{}.snapshot.json", published.snapshot.version),
            format!("{}.targets.json", published.targets.version),
        ];
        if let Some((stream, _)) = published.stream(&self.metadata_folder(), role)? {
            names.push(format!("{}.{role}.json", stream.version));
        }
        for name in names {
            let bytes = durable::read(
                &self.metadata_folder().join(&name),
                crate::trust::walk::MAX_TARGETS_BYTES,
            )?;
            files.insert(name, String::from_utf8_lossy(&bytes).into_owned());
        }
        Ok(files)
    }

    /// Removes the request for signatures on `file`, which is published now, and the answers beside it.
    pub(crate) fn drop_request(&self, file: &str) -> Result<(), FleetError> {
        let folder = self.request_folder();
        let request = format!("{file}.request");
        let mut paths = vec![folder.join(&request)];
        if folder.is_dir() {
            for path in list(&folder)? {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                if name.starts_with(&format!("{request}.")) && name.ends_with(".answer") {
                    paths.push(path);
                }
            }
        }
        for path in paths {
            match std::fs::remove_file(&path) {
                Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                    return Err(FileError {
                        doing: "remove",
                        path,
                        source,
                    }
                    .into());
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// A request that was written before, and the role that it asks signatures for.
    fn read_request(path: &Path) -> Result<Option<(SigningRequest, Targets)>, FleetError> {
        let Some(bytes) = durable::read_if_present(path, MAX_BYTES as u64)? else {
            return Ok(None);
        };
        let Ok(request) = SigningRequest::from_bytes(&bytes) else {
            return Ok(None);
        };
        let payload = request.payload_bytes().unwrap_or_default();
        let pending = serde_json::from_slice::<Targets>(&payload).ok();
        Ok(pending.map(|pending| (request, pending)))
    }

    /// Every signature in `requests/*.answer` that answers `request`, and the other files with why they do not.
    pub(crate) fn answers_to(
        &self,
        request: &SigningRequest,
    ) -> Result<(Vec<MetadataSignature>, OtherAnswers), FleetError> {
        let folder = self.request_folder();
        if !folder.is_dir() {
            return Ok((Vec::new(), Vec::new()));
        }
        let (mut signatures, mut others) = (Vec::new(), Vec::new());
        for path in list(&folder)? {
            if path
                .extension()
                .is_none_or(|extension| extension != "answer")
            {
                continue;
            }
            // Someone copied it there from a stick.
            let bytes = media::read_file(&path, MAX_BYTES as u64)?;
            let accepted =
                SigningAnswer::from_bytes(&bytes).and_then(|answer| request.accept(&answer));
            match accepted {
                Ok(signature) => signatures.push(signature),
                Err(error) => others.push((path, error.to_string())),
            }
        }
        Ok((signatures, others))
    }
}

/// Files that are called answers and do not answer a request, each with why.
type OtherAnswers = Vec<(PathBuf, String)>;

/// What a stream's role lists, without its dates.
fn content(targets: &Targets) -> Vec<(String, BTreeMap<String, String>)> {
    let files = targets.targets.iter();
    files
        .map(|(path, file)| (path.clone(), file.hashes.clone()))
        .collect()
}

fn list(folder: &Path) -> Result<Vec<PathBuf>, FileError> {
    let failed = |source| FileError {
        doing: "list",
        path: folder.to_owned(),
        source,
    };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        paths.push(entry.map_err(failed)?.path());
    }
    paths.sort_unstable();
    Ok(paths)
}
