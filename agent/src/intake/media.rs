//! Sticks and folders: what lies on them for this site.
//!
//! What comes in: a path. What goes out: the bundles below it (a few levels deep, so that a stick with a
//! folder per site works, and a whole home directory is not walked), freshness slips and acknowledgements
//! for this site; of many bundles the newest acceptable one, after what the slips bring. Nothing is written to the medium.

use std::path::{Path, PathBuf};

use outhaul_bundle::report::{ACK_PAYLOAD_TYPE, Ack};
use outhaul_signer::{Envelope, PublicKey};

use super::file::FileRoad;
use super::slip::{self, News};
use super::{Offer, Outcome};
use crate::agent::Agent;
use crate::durable::{self, FileError};
use crate::error::AgentError;
use crate::state::{StateError, outbox};

/// Folders below the one given.
const MAX_DEPTH: usize = 3;
/// Entries looked at per medium.
const MAX_ENTRIES: usize = 20_000;
/// Largest file of acknowledgements, in bytes.
const MAX_ACKS_BYTES: u64 = 16 * 1024 * 1024;

/// What a medium was good for.
#[derive(Debug, Default)]
pub struct Findings {
    /// What came of the newest acceptable bundle; `None` when there was none.
    pub outcome: Option<Outcome>,
    /// The file that it came from.
    pub taken: Option<PathBuf>,
    /// What freshness slips brought.
    pub slips: Vec<News>,
    /// Why others were passed over, one sentence each.
    pub passed_over: Vec<String>,
    /// Bundles that a rule of trust refused though they are for this stream.
    pub refused: Vec<AgentError>,
    /// Reports that left the outbox because of an acknowledgement found.
    pub acknowledged: u64,
}

/// Bundles and freshness slips at `path` or below, sorted.
///
/// # Errors
/// [`FileError`] for a path that is not there or cannot be read.
pub fn bundles(path: &Path) -> Result<Vec<PathBuf>, FileError> {
    let meta = std::fs::metadata(path).map_err(durable::at("open", path))?;
    if meta.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    let mut found = Vec::new();
    let mut left = MAX_ENTRIES;
    walk(path, MAX_DEPTH, &mut left, &mut found)?;
    found.sort();
    Ok(found)
}

fn walk(
    folder: &Path,
    depth: usize,
    left: &mut usize,
    found: &mut Vec<PathBuf>,
) -> Result<(), FileError> {
    for path in durable::list(folder)? {
        *left = left.saturating_sub(1);
        if *left == 0 {
            break;
        }
        let Ok(meta) = std::fs::symlink_metadata(&path) else {
            continue;
        };
        let hidden = path
            .file_name()
            .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if hidden {
            continue;
        }
        if meta.is_dir() && depth > 0 {
            // One folder that cannot be read does not hide the others.
            let _ = walk(&path, depth - 1, left, found);
        } else if meta.is_file() && is_ours(&path) {
            found.push(path);
        }
    }
    Ok(())
}

fn is_ours(path: &Path) -> bool {
    path.extension()
        .is_some_and(|end| end == "outhaul" || end == "slip")
}

impl Agent {
    /// Imports from a file or folder: acknowledgements, freshness slips, and the newest acceptable bundle.
    ///
    /// # Errors
    /// [`AgentError`]: for a single file its refusal; for a folder only what stops everything.
    pub fn import(&mut self, path: &Path) -> Result<Findings, AgentError> {
        let mut findings = Findings::default();
        let files = bundles(path)?;
        if path.is_dir() {
            findings.acknowledged = self.take_acks(path)?;
        }
        if let ([file], true) = (files.as_slice(), path.is_file()) {
            if slip::is_slip(file) {
                let news = self.take_slip(file);
                if let Err(error) = &news {
                    self.tell_refusal(error)?;
                }
                findings.slips.push(news?);
                return Ok(findings);
            }
            let mut road = FileRoad::open(file, self.limits, &self.pulse)?;
            findings.outcome = Some(self.admit(&mut road).map_err(|e| with_claim(e, &road))?);
            findings.taken = Some(file.clone());
            return Ok(findings);
        }
        // Slips first: a key that one of them takes away signs no bundle any more.
        let (slips, files): (Vec<_>, Vec<_>) =
            files.into_iter().partition(|file| slip::is_slip(file));
        for file in slips {
            match self.take_slip(&file) {
                Ok(news) => findings.slips.push(news),
                Err(error) => self.pass_over(&file, error, &mut findings)?,
            }
        }
        let mut offers: Vec<(PathBuf, Offer)> = Vec::new();
        for file in files {
            match self.look_at(&file) {
                Ok(offer) => offers.push((file, offer)),
                Err(error) => self.pass_over(&file, error, &mut findings)?,
            }
        }
        offers.sort_by_key(|(_, offer)| std::cmp::Reverse(offer.acceptance.number));
        for (file, offer) in offers {
            if findings.outcome.is_some() {
                let number = offer.acceptance.number;
                findings
                    .passed_over
                    .push(format!("`{}`: bundle {number} is older", told(&file)));
                continue;
            }
            let mut road = FileRoad::open(&file, self.limits, &self.pulse)?;
            match self.admit(&mut road) {
                Ok(outcome) => {
                    findings.outcome = Some(outcome);
                    findings.taken = Some(file);
                }
                Err(error @ AgentError::Refused { .. }) => findings.refused.push(error),
                Err(other) => return Err(other),
            }
        }
        Ok(findings)
    }

    fn look_at(&self, file: &Path) -> Result<Offer, AgentError> {
        let mut road = FileRoad::open(file, self.limits, &self.pulse)?;
        self.judge(&mut road)
            .map_err(|error| with_claim(error, &road))
    }

    fn pass_over(
        &mut self,
        file: &Path,
        error: AgentError,
        findings: &mut Findings,
    ) -> Result<(), AgentError> {
        let AgentError::Refused {
            source_name,
            rule,
            message,
        } = error
        else {
            // The memory cannot be used: no other file will do better.
            return match error {
                AgentError::State(_) => Err(error),
                other => {
                    findings
                        .passed_over
                        .push(format!("`{}`: {other}", told(file)));
                    Ok(())
                }
            };
        };
        // A stick carries bundles for many sites: those of other streams are no finding.
        if rule == "stream" || rule == "rollback" {
            findings
                .passed_over
                .push(format!("`{source_name}`: {message}"));
        } else {
            let refused = AgentError::Refused {
                source_name,
                rule,
                message,
            };
            self.tell_refusal(&refused)?;
            findings.refused.push(refused);
        }
        Ok(())
    }

    /// Takes acknowledgements for this site from `acks/` on a medium.
    ///
    /// # Errors
    /// [`AgentError`] of the memory; a file that cannot be used is left alone.
    pub fn take_acks(&mut self, folder: &Path) -> Result<u64, AgentError> {
        let file = folder.join("acks").join(format!("{}.acks", self.site.name));
        let Ok(Some(bytes)) = durable::read_if_there(&file, MAX_ACKS_BYTES) else {
            return Ok(0);
        };
        let lines = bytes.split(|b| *b == b'\n').filter(|line| !line.is_empty());
        let envelopes: Vec<_> = lines
            .filter_map(|line| Envelope::from_json(line).ok())
            .collect();
        self.accept_acks(&envelopes)
    }

    /// Believes acknowledgements that the hub's key signed: what they cover leaves the outbox, and the
    /// hub's signed time raises the lower bound. Returns how many reports left.
    ///
    /// # Errors
    /// [`AgentError`] of the memory.
    pub fn accept_acks(&mut self, envelopes: &[Envelope]) -> Result<u64, AgentError> {
        let Ok(hub) = PublicKey::from_pem(&self.site.hub_key) else {
            return Ok(0);
        };
        let keys = [hub];
        let acks: Vec<Ack> = envelopes
            .iter()
            .filter_map(|envelope| envelope.verify(ACK_PAYLOAD_TYPE, &keys).ok())
            .filter_map(|payload| serde_json::from_slice(payload).ok())
            .filter(|ack: &Ack| ack.fleet == self.site.fleet && ack.site == self.site.name)
            .collect();
        let site = self.site.clone();
        self.commit(|db, author| {
            let mut gone = 0;
            let mut moment = author.moment.clone();
            for ack in &acks {
                gone += outbox::acknowledge(db, &site, ack)?;
                moment.store(db, jiff::Timestamp::from_millisecond(ack.hub_time_ms).ok())?;
            }
            Ok::<_, StateError>(gone)
        })
        .map_err(AgentError::from)
    }
}

/// A refusal for another stream says for whom the bundle is, as far as it says so itself.
fn with_claim(error: AgentError, road: &FileRoad) -> AgentError {
    match (error, road.claims()) {
        (
            AgentError::Refused {
                source_name,
                rule,
                message,
            },
            Some(claim),
        ) if rule == "stream" => {
            let message = format!("{message}; by its own words it is for {claim}");
            AgentError::Refused {
                source_name,
                rule,
                message,
            }
        }
        (error, _) => error,
    }
}

fn told(file: &Path) -> String {
    file.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}
