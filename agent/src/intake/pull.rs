//! The road of a repository: `metadata/`, `targets/` and `blobs/` below one URL, over HTTPS.
//!
//! What comes in: the URL that the site's owner set. What goes out: the same three steps as a file's. A
//! blob whose download broke off goes on from its last byte; its digest is checked from the first to
//! the last byte all the same. Nothing that the server says is believed for that it said it.

use std::fs::File;
use std::io::{self, Read, Write};

use outhaul_bundle::digest::Hasher;
use outhaul_bundle::index::{Blob, Content};
use outhaul_bundle::{Digest, Index, Limits};
use outhaul_kit::console::progress::{Meter, Unit};
use outhaul_signer::{MetadataSource, SourceError};

use super::Road;
use crate::blobs::Blobs;
use crate::config::RepositoryConfig;
use crate::durable::at;
use crate::error::AgentError;
use crate::http::Client;
use crate::pulse::Pulse;
use crate::state::Site;

const BUFFER_BYTES: usize = 64 * 1024;

/// A repository that is being read.
#[derive(Debug)]
pub struct Repository {
    name: String,
    role: String,
    client: Client,
    limits: Limits,
    pulse: Pulse,
    max_issued_age_h: Option<u64>,
}

impl Repository {
    /// The repository that `agent.toml` names; `None` when it names none.
    ///
    /// # Errors
    /// [`AgentError`] for a URL or an authority that cannot be used.
    pub fn open(
        config: &RepositoryConfig,
        site: &Site,
        limits: Limits,
        pulse: &Pulse,
    ) -> Result<Option<Self>, AgentError> {
        let Some(url) = &config.url else {
            return Ok(None);
        };
        Ok(Some(Self {
            name: url.clone(),
            role: site.stream.role.to_string(),
            client: Client::new(url, config.ca.as_deref(), &site.hub_ca)?,
            limits,
            pulse: pulse.clone(),
            max_issued_age_h: config.max_issued_age_h,
        }))
    }

    fn download(&self, blob: &Blob, store: &mut Blobs, meter: &Meter) -> Result<(), AgentError> {
        let partial = store.partial_path(&blob.digest);
        let mut file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&partial)
            .map_err(at("open", &partial))?;
        let mut hasher = Hasher::new();
        let have =
            io::copy(&mut (&file).take(blob.size), &mut hasher).map_err(at("read", &partial))?;
        let path = format!("blobs/sha256/{}", blob.digest.hex());
        let mut left = blob.size - have;
        if left > 0 || blob.size == 0 {
            let (mut body, start) = self.client.open(&path, have)?;
            if start == 0 && have > 0 {
                // The server does not do ranges: from the beginning then.
                file.set_len(0).map_err(at("write", &partial))?;
                file = File::options()
                    .write(true)
                    .open(&partial)
                    .map_err(at("open", &partial))?;
                hasher = Hasher::new();
                left = blob.size;
            }
            let mut buffer = vec![0; BUFFER_BYTES];
            while left > 0 {
                if self.pulse.stopping() {
                    return Err(AgentError::Stopped);
                }
                let want = buffer
                    .len()
                    .min(usize::try_from(left).unwrap_or(usize::MAX));
                let count = body
                    .read(&mut buffer[..want])
                    .map_err(|e| self.broke(&path, &e))?;
                if count == 0 {
                    let early = io::Error::from(io::ErrorKind::UnexpectedEof);
                    return Err(self.broke(&path, &early));
                }
                self.pulse.beat();
                hasher.update(&buffer[..count]);
                file.write_all(&buffer[..count])
                    .map_err(at("write", &partial))?;
                left -= count as u64;
                meter.add(count as u64);
            }
        }
        file.set_len(blob.size).map_err(at("write", &partial))?;
        let (found, _) = hasher.finish();
        if found == blob.digest {
            return Ok(store.keep(&blob.digest)?);
        }
        // A wrong prefix would be wrong for ever.
        crate::durable::remove_file(&partial)?;
        let message = format!("blob {} has the digest {found}", blob.digest);
        Err(AgentError::refused(&self.name, "digest", message))
    }

    fn broke(&self, path: &str, error: &io::Error) -> AgentError {
        AgentError::Network {
            url: self.client.url(path),
            problem: error.to_string(),
        }
    }
}

impl MetadataSource for Repository {
    fn fetch(&self, name: &str, max_bytes: u64) -> Result<Option<Vec<u8>>, SourceError> {
        self.pulse.beat();
        self.client
            .get(&format!("metadata/{name}"), max_bytes)
            .map_err(|error| SourceError::Unreadable {
                name: name.to_owned(),
                reason: error.to_string(),
            })
    }
}

impl Road for Repository {
    fn name(&self) -> &str {
        &self.name
    }

    fn metadata(&mut self) -> Result<&dyn MetadataSource, AgentError> {
        Ok(self)
    }

    fn index(&mut self, expected: &Content) -> Result<(Index, Vec<u8>), AgentError> {
        let refused = |rule, message: String| AgentError::refused(&self.name, rule, message);
        if expected.size > self.limits.max_index_bytes {
            return Err(refused(
                "oversized",
                format!("an index of {} bytes", expected.size),
            ));
        }
        let path = format!("targets/{}/{}.index.json", self.role, expected.digest.hex());
        let bytes = self
            .client
            .get(&path, expected.size)?
            .ok_or_else(|| refused("missing", format!("`{path}` is missing")))?;
        let found = Digest::of(&bytes);
        if found != expected.digest {
            return Err(refused(
                "digest",
                format!("`{path}` has the digest {found}"),
            ));
        }
        let index = Index::from_bytes(&bytes, &self.limits)
            .map_err(|error| refused("malformed", error.to_string()))?;
        Ok((index, bytes))
    }

    fn blobs(&mut self, index: &Index, store: &mut Blobs) -> Result<(), AgentError> {
        let missing: Vec<&Blob> = index.blobs.iter().filter(|blob| !store.has(blob)).collect();
        let bytes = missing.iter().map(|blob| blob.size).sum();
        let meter = Meter::new("downloading", Unit::Bytes, Some(bytes));
        missing
            .into_iter()
            .try_for_each(|blob| self.download(blob, store, &meter))
    }

    fn is_polled(&self) -> bool {
        true
    }

    fn max_issued_age_h(&self) -> Option<u64> {
        self.max_issued_age_h
    }
}
