//! A bundle in a repository: `metadata/`, `targets/` and `blobs/` below one URL, over HTTPS.
//!
//! What comes in: the URL that the site's owner set. What goes out: the same three steps as a file's. A
//! blob whose download broke off, or was slow, goes on from its last byte; its digest is checked from the first to
//! the last byte all the same. Nothing that the server says is trusted for that it said it.

use std::io::{self, Read};
use std::time::Instant;

use outhaul_bundle::index::{Blob, Content, compressed};
use outhaul_bundle::{Digest, Index, Limits};
use outhaul_http::is_timeout;
use outhaul_kit::console::progress::{Meter, Unit};
use outhaul_signer::{MetadataSource, SourceError};

use super::{BundleSource, ListedIndex};
use crate::blobs::Blobs;
use crate::config::RepositoryConfig;
use crate::error::AgentError;
use crate::facilities::{Facilities, Server, Span};
use crate::state::SiteIdentity;
use outhaul_content::partial::Partial;
use outhaul_kit::heartbeat::Heartbeat;
use outhaul_pace::Pace;

const BUFFER_BYTES: usize = 64 * 1024;
/// The least that must come in one part: some 700 bytes a second, slower than any link that carries bundles.
const LEAST_BYTES: u64 = 64 * 1024;

/// What became of one part of a blob.
#[derive(Debug)]
enum Received {
    /// It is there to its last byte.
    All,
    /// The time was over.
    Part,
    /// The server begins again each time; nothing is there yet.
    FromTheStart,
}

/// Why an index does not come from its compressed form.
enum Unusable {
    /// The server did not give it, this time.
    NotGiven(AgentError),
    /// What it gave is not what was signed.
    Content(String),
}

/// A repository that is being read.
#[derive(Debug)]
pub struct BundleRepository {
    name: String,
    role: String,
    client: Box<dyn Server>,
    limits: Limits,
    heartbeat: Heartbeat,
    max_issued_age_h: Option<u64>,
    pace: Pace,
    /// When it was opened, by the wall clock and by one that nobody sets.
    since: (i64, Instant),
}

impl BundleRepository {
    /// The repository that `agent.toml` names; `None` when it names none.
    ///
    /// # Errors
    /// [`AgentError`] for a URL or an authority that cannot be used.
    pub fn open(
        config: &RepositoryConfig,
        site: &SiteIdentity,
        limits: Limits,
        heartbeat: &Heartbeat,
        facilities: &dyn Facilities,
        (pace, now_ms): (Pace, i64),
    ) -> Result<Option<Self>, AgentError> {
        let Some(url) = &config.url else {
            return Ok(None);
        };
        Ok(Some(Self {
            name: url.clone(),
            role: site.stream.role.to_string(),
            client: facilities.server(url, config.ca.as_deref(), &site.hub_ca)?,
            limits,
            heartbeat: heartbeat.clone(),
            max_issued_age_h: config.max_issued_age_h,
            pace,
            since: (now_ms, Instant::now()),
        }))
    }

    /// Receives a blob, part by part: a server that lets bytes drip holds the pull for one part and no longer.
    fn download(
        &mut self,
        blob: &Blob,
        store: &mut Blobs,
        meter: &Meter,
    ) -> Result<(), AgentError> {
        let partial = store.partial_path(&blob.digest);
        let mut part = Partial::open(&partial, blob.size)?;
        let path = format!("blobs/sha256/{}", blob.digest.hex());
        let mut span = Span::Part;
        while !part.is_whole(blob.size) {
            let before = part.have();
            match self.receive(&path, blob.size, &mut part, span, meter)? {
                Received::All => break,
                Received::FromTheStart => span = Span::Whole,
                Received::Part if span == Span::Part && part.have() - before >= LEAST_BYTES => {}
                Received::Part => {
                    let came = part.have() - before;
                    let problem = format!(
                        "too slow: {came} bytes came before the time for a part was over; what came is kept"
                    );
                    let url = self.client.url(&path);
                    return Err(AgentError::Network { url, problem });
                }
            }
        }
        let found = part.finish(blob.size)?;
        if found == blob.digest {
            return Ok(store.keep(&blob.digest)?);
        }
        // A wrong prefix would be wrong for ever.
        crate::durable::remove_file(&partial)?;
        let message = format!("blob {} has the digest {found}", blob.digest);
        Err(AgentError::refused(&self.name, "digest", message))
    }

    fn receive(
        &mut self,
        path: &str,
        size: u64,
        part: &mut Partial,
        span: Span,
        meter: &Meter,
    ) -> Result<Received, AgentError> {
        self.within_budget(path, size - part.have())?;
        let (mut body, start) = self.client.open(path, part.have(), span)?;
        part.is_asked_for();
        if start == 0 && part.have() > 0 {
            // The server does not do ranges: from the beginning then, and in one go.
            part.restart()?;
            if span == Span::Part {
                return Ok(Received::FromTheStart);
            }
        }
        let mut buffer = vec![0; BUFFER_BYTES];
        while part.have() < size {
            if self.heartbeat.is_cancelled() {
                return Err(AgentError::Stopped);
            }
            let left = (size - part.have()).min(BUFFER_BYTES as u64);
            let want = usize::try_from(self.within_budget(path, left)?).unwrap_or_default();
            let begun = Instant::now();
            let count = match body.read(&mut buffer[..want]) {
                Ok(count) => count,
                Err(error) if is_timeout(&error) => return Ok(Received::Part),
                Err(error) => return Err(self.broke(path, &error)),
            };
            if count == 0 {
                let early = io::Error::from(io::ErrorKind::UnexpectedEof);
                return Err(self.broke(path, &early));
            }
            self.heartbeat.beat();
            part.add(&buffer[..count])?;
            meter.add(count as u64);
            // At most a second: what may come at once is what comes in one.
            std::thread::sleep(self.pace.came(count as u64, begun.elapsed())?);
        }
        Ok(Received::All)
    }

    /// How many of `want` bytes may come now.
    fn within_budget(&mut self, path: &str, want: u64) -> Result<u64, AgentError> {
        let (then, clock) = self.since;
        let passed = i64::try_from(clock.elapsed().as_millis()).unwrap_or(i64::MAX);
        let may = self.pace.may(want, then.saturating_add(passed));
        if may > 0 || want == 0 {
            return Ok(may);
        }
        Err(AgentError::AllOfToday {
            url: self.client.url(path),
            bytes: self.pace.today(),
        })
    }

    /// The index from its compressed form; `None` where the metadata lists none, or the repository does not have it.
    ///
    /// # Errors
    /// Why its compressed form cannot be used, or did not come: the index itself may be whole beside it.
    fn compressed_index(
        &self,
        path: &str,
        listed: &ListedIndex,
    ) -> Result<Option<Vec<u8>>, Unusable> {
        // It is compressed to save bytes: one that is larger is not asked for.
        let smaller = |form: &Content| form.size < listed.index.size;
        let Some(form) = listed.compressed.filter(smaller) else {
            return Ok(None);
        };
        // Not by `get`: a longer one than is signed is another file, and no failure of the network.
        let bytes = match self.client.open(path, 0, Span::Part) {
            Ok((body, _)) => {
                let mut bytes = Vec::new();
                body.take(form.size.saturating_add(1))
                    .read_to_end(&mut bytes)
                    .map_err(|error| Unusable::NotGiven(self.broke(path, &error)))?;
                bytes
            }
            Err(AgentError::Incomplete { .. }) => return Ok(None),
            Err(error) => return Err(Unusable::NotGiven(error)),
        };
        if bytes.len() as u64 > form.size {
            let problem = format!("it is longer than the {} bytes that are signed", form.size);
            return Err(Unusable::Content(problem));
        }
        compressed::open(&bytes, &form, &listed.index)
            .map(Some)
            .map_err(Unusable::Content)
    }

    /// The bytes of the index, as the metadata lists it: from its compressed form where that can be used, else the index itself.
    fn index_bytes(&self, listed: &ListedIndex) -> Result<Vec<u8>, AgentError> {
        let path = format!(
            "targets/{}/{}.index.json",
            self.role,
            listed.index.digest.hex()
        );
        let short = format!("{path}.zst");
        let (unusable, not_given) = match self.compressed_index(&short, listed) {
            Ok(Some(bytes)) => return Ok(bytes),
            Ok(None) => (None, None),
            Err(Unusable::Content(problem)) => (Some(format!("`{short}`: {problem}")), None),
            Err(Unusable::NotGiven(error)) => (None, Some(error)),
        };
        let refused = |rule, message: String| {
            let both = unusable.iter().cloned().chain([message]);
            let both = both.collect::<Vec<_>>().join("; ");
            AgentError::refused(&self.name, rule, both)
        };
        let Some(bytes) = self.client.get(&path, listed.index.size)? else {
            // What keeps back the compressed one passes: a server that has only that is asked again.
            let missing = || refused("missing", format!("`{path}` is missing"));
            return Err(not_given.unwrap_or_else(missing));
        };
        let found = Digest::of(&bytes);
        if found != listed.index.digest {
            return Err(refused(
                "digest",
                format!("`{path}` has the digest {found}"),
            ));
        }
        if let Some(problem) = unusable {
            tracing::warn!(
                "{}: the compressed index cannot be used; the index itself was downloaded instead, and it is as signed: {problem}; have that file removed \
                 from the server, and the bundle published there again (`outhaul publish` at the centre)",
                self.name
            );
        }
        if let Some(error) = not_given {
            tracing::debug!("{}: the index itself was downloaded: {error}", self.name);
        }
        Ok(bytes)
    }

    fn broke(&self, path: &str, error: &io::Error) -> AgentError {
        AgentError::Network {
            url: self.client.url(path),
            problem: error.to_string(),
        }
    }
}

impl MetadataSource for BundleRepository {
    fn fetch(&self, name: &str, max_bytes: u64) -> Result<Option<Vec<u8>>, SourceError> {
        self.heartbeat.beat();
        self.client
            .get(&format!("metadata/{name}"), max_bytes)
            .map_err(|error| SourceError::Unreadable {
                name: name.to_owned(),
                reason: error.to_string(),
            })
    }
}

impl BundleSource for BundleRepository {
    fn name(&self) -> &str {
        &self.name
    }

    fn metadata(&mut self) -> Result<&dyn MetadataSource, AgentError> {
        Ok(self)
    }

    fn index(&mut self, listed: &ListedIndex) -> Result<(Index, Vec<u8>), AgentError> {
        let refused = |rule, message: String| AgentError::refused(&self.name, rule, message);
        let expected = &listed.index;
        if expected.size > self.limits.max_index_bytes {
            return Err(refused(
                "oversized",
                format!("an index of {} bytes", expected.size),
            ));
        }
        let bytes = self.index_bytes(listed)?;
        let index = Index::from_bytes(&bytes, &self.limits)
            .map_err(|error| refused("malformed", error.to_string()))?;
        Ok((index, bytes))
    }

    fn blobs(&mut self, index: &Index, store: &mut Blobs) -> Result<(), AgentError> {
        let missing: Vec<&Blob> = index.blobs.iter().filter(|blob| !store.has(blob)).collect();
        let bytes = missing.iter().map(|blob| blob.size).sum();
        let meter = Meter::new("downloading", Unit::Bytes, Some(bytes));
        let mut all = missing.into_iter();
        let done = all.try_for_each(|blob| self.download(blob, store, &meter));
        self.pace.save()?;
        done
    }

    fn is_polled(&self) -> bool {
        true
    }

    fn max_issued_age_h(&self) -> Option<u64> {
        self.max_issued_age_h
    }
}

#[cfg(test)]
mod tests;
