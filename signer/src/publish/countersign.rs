//! The stream's own signature, and the second one where a stream needs two.
//!
//! What comes in: a stream's new role and the keys that count for it. What goes out: the signed file, or, while
//! signatures are missing, a request in the fleet's `requests/` folder. Signing the same bundle again
//! takes up that very request, dates included, and every answer that lies beside it.

use std::path::{Path, PathBuf};

use super::online::named;
use super::{RoleKeys, Secret, Targets};
use crate::durable::{self, FileError, PUBLIC_MODE};
use crate::fleet::{Fleet, FleetError};
use crate::metadata::{self, Key, MetadataSignature};
use crate::request::{MAX_BYTES, SigningAnswer, SigningRequest};

impl Fleet {
    /// Where requests for signatures are written and answers are looked for.
    pub fn request_folder(&self) -> PathBuf {
        self.folder.join("requests")
    }

    pub(crate) fn sign_stream(
        &self,
        role: &str,
        stream: &Targets,
        keys: &RoleKeys,
        key_objects: &std::collections::BTreeMap<String, Key>,
        secret: &Secret,
    ) -> Result<Vec<u8>, FleetError> {
        let file = format!("{}.{role}.json", stream.version);
        let mut payload = named(&file, metadata::signed_bytes(stream))?;
        let path = self.request_folder().join(format!("{file}.request"));
        if keys.threshold > 1
            && let Some(pending) = Self::pending(&path, stream)?
        {
            payload = pending;
        }
        let mut signatures = Vec::new();
        for key in self.ring().available(keys, secret)? {
            signatures.push(named(&file, metadata::sign_one(&payload, &key))?);
        }
        if signatures.len() < keys.threshold {
            let wanted = key_objects
                .iter()
                .filter(|(id, _)| keys.keyids.contains(id));
            let wanted = wanted.map(|(id, key)| (id.clone(), key.clone())).collect();
            let request = SigningRequest::new(self.id(), role, &payload, wanted);
            signatures.extend(self.answers_to(&request)?);
            signatures.sort_unstable();
            signatures.dedup_by(|a, b| a.keyid == b.keyid);
            if signatures.len() < keys.threshold {
                durable::create_folder(&self.request_folder())?;
                durable::write(&path, &request.to_bytes(), PUBLIC_MODE)?;
                return Err(FleetError::CountersignatureNeeded {
                    role: role.to_owned(),
                    threshold: keys.threshold,
                    found: signatures.len(),
                    request: path,
                });
            }
        }
        named(&file, metadata::assemble(&payload, &signatures))
    }

    /// Removes the request for signatures on `file`, which is published now.
    pub(crate) fn drop_request(&self, file: &str) -> Result<(), FleetError> {
        let path = self.request_folder().join(format!("{file}.request"));
        match std::fs::remove_file(&path) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => Err(FileError {
                doing: "remove",
                path,
                source,
            }
            .into()),
            _ => Ok(()),
        }
    }

    /// The payload asked for before, when it is for the same content.
    fn pending(path: &Path, stream: &Targets) -> Result<Option<Vec<u8>>, FleetError> {
        let Some(bytes) = durable::read_if_present(path, MAX_BYTES as u64)? else {
            return Ok(None);
        };
        let payload = SigningRequest::from_bytes(&bytes).and_then(|r| r.payload_bytes());
        let Ok(payload) = payload else {
            return Ok(None);
        };
        let Ok(pending) = serde_json::from_slice::<Targets>(&payload) else {
            return Ok(None);
        };
        let content = |targets: &Targets| {
            let files = targets.targets.iter();
            files
                .map(|(path, file)| (path.clone(), file.hashes.clone()))
                .collect::<Vec<_>>()
        };
        Ok((content(&pending) == content(stream)).then_some(payload))
    }

    /// Every signature in `requests/*.answer` that answers `request`; others are left alone.
    pub(crate) fn answers_to(
        &self,
        request: &SigningRequest,
    ) -> Result<Vec<MetadataSignature>, FleetError> {
        let folder = self.request_folder();
        if !folder.is_dir() {
            return Ok(Vec::new());
        }
        let doing = "list";
        let failed = |source| FileError {
            doing,
            path: folder.clone(),
            source,
        };
        let mut signatures = Vec::new();
        for entry in std::fs::read_dir(&folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path
                .extension()
                .is_none_or(|extension| extension != "answer")
            {
                continue;
            }
            let bytes = durable::read(&path, MAX_BYTES as u64)?;
            let accepted =
                SigningAnswer::from_bytes(&bytes).and_then(|answer| request.accept(&answer));
            signatures.extend(accepted.ok());
        }
        Ok(signatures)
    }
}
