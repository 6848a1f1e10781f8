//! Sticks and folders: what lies on them for this site.
//!
//! What comes in: a path. What goes out: the bundles below it (a few levels deep, so that a stick with a
//! folder per site works, and a whole home directory is not walked), freshness slips and acknowledgements
//! for this site; of many bundles the newest acceptable one, after what the slips bring. Nothing is
//! written to the medium, no link on it is followed, and only regular files are opened.

use std::fs::File;
use std::path::{Path, PathBuf};

use outhaul_kit::media::{Bounds, Found, Media, Place};
use outhaul_kit::text;
use outhaul_signer::Envelope;

use super::file::FileRoad;
use super::slip::{self, News};
use super::{MAX_TOLD, Offer, Outcome, mistaken};
use crate::acks::{Acknowledged, MAX_ACKS, Renumbered};
use crate::agent::Agent;
use crate::durable::FileError;
use crate::error::AgentError;
use crate::state::Site;

/// What is looked at of a medium.
const BOUNDS: Bounds = Bounds {
    depth: 3,
    entries: 100_000,
    kept: 2_000,
};
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
    /// What acknowledgements did; `None` when there were none for this site.
    pub acknowledged: Option<Acknowledged>,
    /// How many other files a folder holds.
    pub others: usize,
}

/// Bundles and freshness slips on a medium.
///
/// # Errors
/// [`FileError`] for a medium that cannot be listed.
pub fn bundles(media: &Media) -> Result<Found, FileError> {
    media.files(BOUNDS, |name| is_ours(Path::new(name)))
}

/// Where acknowledgements for `site` lie on a medium.
pub fn acks_of(site: &str) -> PathBuf {
    Path::new("acks").join(format!("{site}.acks"))
}

/// By its ending. Sticks are FAT: what writes them may turn all letters into capitals.
fn is_ours(name: &Path) -> bool {
    let ends = |with: &str| {
        name.extension()
            .is_some_and(|end| end.eq_ignore_ascii_case(with))
    };
    ends("outhaul") || ends("slip")
}

impl Findings {
    /// What acknowledgements did, one sentence each.
    pub fn acknowledgements(&self) -> Vec<String> {
        let Some(done) = &self.acknowledged else {
            return Vec::new();
        };
        let mut told = Vec::new();
        if done.gone > 0 {
            told.push(format!("the hub acknowledged {} reports", done.gone));
        }
        told.extend(done.renumbered.as_ref().map(Renumbered::sentence));
        if told.is_empty() {
            told.push("the hub's acknowledgements on it are known already".to_owned());
        }
        told
    }
}

impl Agent {
    /// Imports from a file or folder: acknowledgements, freshness slips, and the newest acceptable bundle.
    ///
    /// # Errors
    /// [`AgentError`]: for a single file its refusal; for a folder only what stops everything.
    pub fn import(&mut self, path: &Path) -> Result<Findings, AgentError> {
        match Place::open(path)? {
            Place::File(file) => self.import_file(path, file),
            Place::Folder(media) => self.import_folder(&media),
        }
    }

    fn import_file(&mut self, path: &Path, file: File) -> Result<Findings, AgentError> {
        let mut findings = Findings::default();
        let name = text::file_name(path);
        if slip::is_slip(path, &file) {
            let news = self.take_slip(&name, file);
            if let Err(error) = &news {
                self.tell_refusal(error)?;
            }
            findings.slips.push(news?);
            return Ok(findings);
        }
        if let Err(AgentError::Usage { message, help }) = mistaken::refuse_mistaken(&name, &file) {
            let message = format!("{message}; nothing was changed");
            return Err(AgentError::Usage { message, help });
        }
        let mut road = FileRoad::new(name, file, self.limits, &self.pulse);
        findings.outcome = Some(
            self.admit(&mut road)
                .map_err(|e| with_claim(e, &road, &self.site))?,
        );
        findings.taken = Some(path.to_owned());
        Ok(findings)
    }

    fn import_folder(&mut self, media: &Media) -> Result<Findings, AgentError> {
        let mut findings = Findings::default();
        let looked = self.look_through(media, &mut findings);
        // Whatever ended it, what was refused by then is reported, and before anything is taken.
        self.tell_refusals(&findings.refused)?;
        self.take_newest(media, looked?, &mut findings)?;
        Ok(findings)
    }

    /// Takes acknowledgements and slips, and judges every bundle. Returns the acceptable ones.
    fn look_through(
        &mut self,
        media: &Media,
        findings: &mut Findings,
    ) -> Result<Vec<(PathBuf, Offer)>, AgentError> {
        let found = bundles(media)?;
        let unusable = found.unusable.iter().map(ToString::to_string);
        findings.passed_over.extend(unusable);
        findings.others = found.ignored;
        if found.incomplete {
            findings.passed_over.push(format!(
                "a part of `{}`: it holds more than {} entries or {} bundles; name the folder or file \
                 that is meant",
                text::path(media.path()),
                BOUNDS.entries,
                BOUNDS.kept
            ));
        }
        match self.take_acks(media) {
            Ok(done) => findings.acknowledged = done,
            Err(AgentError::File(error)) => findings.passed_over.push(error.to_string()),
            Err(other) => return Err(other),
        }
        // Slips first: a key that one of them takes away signs no bundle any more.
        let mut files = Vec::new();
        for path in found.files {
            if self.pulse.stopping() {
                return Err(AgentError::Stopped);
            }
            let file = match media.open_file(&path) {
                Ok(Some(file)) => file,
                // Gone since it was listed.
                Ok(None) => continue,
                Err(error) => {
                    findings.passed_over.push(error.to_string());
                    continue;
                }
            };
            if !slip::is_slip(&path, &file) {
                files.push(path);
                continue;
            }
            let name = text::file_name(&path);
            match self.take_slip(&name, file) {
                Ok(news) => findings.slips.push(news),
                Err(error) => pass_over(&name, error, findings)?,
            }
        }
        let mut offers: Vec<(PathBuf, Offer)> = Vec::new();
        for path in files {
            if self.pulse.stopping() {
                return Err(AgentError::Stopped);
            }
            match self.look_at(media, &path) {
                Ok(offer) => offers.push((path, offer)),
                Err(error) => pass_over(&text::file_name(&path), error, findings)?,
            }
        }
        Ok(offers)
    }

    /// Admits the newest bundle that can be had; the others are older.
    fn take_newest(
        &mut self,
        media: &Media,
        mut offers: Vec<(PathBuf, Offer)>,
        findings: &mut Findings,
    ) -> Result<(), AgentError> {
        offers.sort_by_key(|(_, offer)| std::cmp::Reverse(offer.acceptance.number));
        let (mut taken, mut late) = (None, Vec::new());
        let mut trouble = None;
        for (path, offer) in offers {
            let name = text::file_name(&path);
            let number = offer.acceptance.number;
            if findings.outcome.is_some() {
                let is = match taken {
                    Some(taken) if taken == number => "is the one that was taken already",
                    _ => "is older",
                };
                findings
                    .passed_over
                    .push(format!("`{name}`: bundle {number} {is}"));
                continue;
            }
            let admitted = self
                .road(media, &path)
                .and_then(|mut road| self.try_admit(&mut road));
            match admitted {
                Ok(outcome) => {
                    findings.outcome = Some(outcome);
                    findings.taken = Some(media.path().join(path));
                    taken = Some(number);
                }
                // Reported before the next one is tried, as long as each has a report of its own.
                Err(error @ AgentError::Refused { .. }) if findings.refused.len() < MAX_TOLD => {
                    self.tell_refusal(&error)?;
                    findings.refused.push(error);
                }
                Err(error @ AgentError::Refused { .. }) => late.push(error),
                Err(other) => {
                    trouble = Some(other);
                    break;
                }
            }
        }
        self.tell_further_refusals(MAX_TOLD, &late)?;
        findings.refused.append(&mut late);
        trouble.map_or(Ok(()), Err)
    }

    fn road(&self, media: &Media, path: &Path) -> Result<FileRoad, AgentError> {
        let name = text::file_name(path);
        let Some(file) = media.open_file(path)? else {
            let problem = "it is not there any more: was the stick pulled?".to_owned();
            return Err(AgentError::Road {
                source_name: name,
                problem,
            });
        };
        mistaken::refuse_mistaken(&name, &file)?;
        Ok(FileRoad::new(name, file, self.limits, &self.pulse))
    }

    fn look_at(&self, media: &Media, path: &Path) -> Result<Offer, AgentError> {
        let mut road = self.road(media, path)?;
        self.judge(&mut road)
            .map_err(|error| with_claim(error, &road, &self.site))
    }

    /// Takes acknowledgements for this site from `acks/` on a medium.
    ///
    /// # Errors
    /// [`AgentError::File`] for what lies there and cannot be used, or [`AgentError`] of the memory.
    pub fn take_acks(&mut self, media: &Media) -> Result<Option<Acknowledged>, AgentError> {
        let Some(bytes) = media.read(&acks_of(self.site.name.as_str()), MAX_ACKS_BYTES)? else {
            return Ok(None);
        };
        let lines = bytes.split(|b| *b == b'\n').filter(|line| !line.is_empty());
        let envelopes: Vec<_> = lines
            .take(MAX_ACKS)
            .filter_map(|line| Envelope::from_json(line).ok())
            .collect();
        self.accept_acks(&envelopes).map(Some)
    }
}

/// Sorts what was not taken: for somebody else or older, or refused, which is reported later.
fn pass_over(name: &str, error: AgentError, findings: &mut Findings) -> Result<(), AgentError> {
    match error {
        // A stick carries bundles for many sites: those of other streams are no finding.
        AgentError::Refused {
            source_name,
            rule,
            message,
        } if rule == "stream" || rule == "rollback" => {
            let older = if rule == "rollback" {
                "it is older than what this site has accepted: "
            } else {
                ""
            };
            findings
                .passed_over
                .push(format!("`{source_name}`: {older}{message}"));
        }
        refused @ AgentError::Refused { .. } => findings.refused.push(refused),
        // The memory cannot be used: no other file will do better.
        error @ AgentError::State(_) => return Err(error),
        // It names the file itself.
        error @ AgentError::Usage { .. } => findings.passed_over.push(error.to_string()),
        other => findings.passed_over.push(format!("`{name}`: {other}")),
    }
    Ok(())
}

/// A refusal of a bundle for another stream names both, whichever rule it met first: the version of what
/// is for somebody else says nothing here. What the bundle says of itself is not verified.
pub(crate) fn with_claim(error: AgentError, road: &FileRoad, site: &Site) -> AgentError {
    let own = format!("{}/{}", site.stream.environment, site.stream.cluster_type);
    match (error, road.claims()) {
        (
            AgentError::Refused {
                source_name, rule, ..
            },
            Some(claim),
        ) if claim != own && matches!(rule.as_str(), "stream" | "rollback") => {
            let message = format!("this stick is for {claim}, this site is {own}");
            AgentError::refused(&source_name, "stream", message)
        }
        (error, _) => error,
    }
}
