//! The file: its lines, its end, and the chains of decisions and of what people decided.
//!
//! What comes in: lines. What goes out: an [`Export`], with what is wrong with it as a file: lines that cannot be read,
//! an end that is missing, not the hub's or of another text, links that do not follow from one another. What is wrong is
//! named, and the rest is read all the same.

use std::collections::BTreeMap;
use std::io::BufRead;

use outhaul_bundle::Digest;
use outhaul_bundle::digest::Hasher;
use outhaul_gate::audit::{
    AuditLine, END_TYPE, End, FORMAT_1, FORMAT_3, FORMAT_4, FORMATS, Link, MAX_LINE_BYTES,
    Recorded, is_from_on,
};
use outhaul_gate::facts::{Act, Conflict, Restored};
use outhaul_gate::fold::Removed;
use outhaul_signer::Envelope;
use outhaul_signer::key::PublicKey;

use crate::error::AuditError;
use crate::outcome::Problem;
use crate::site::RegisteredSite;

/// A line with its number.
pub type Numbered<T> = (u64, T);

/// Signed metadata that the hub accepted.
#[derive(Debug, Clone)]
pub struct Metadata {
    pub role: String,
    pub at_ms: i64,
    pub files: BTreeMap<String, Vec<u8>>,
    pub index: Option<Vec<u8>>,
}

/// A report that claims to be of a site.
#[derive(Debug, Clone)]
pub struct ClaimedReport {
    pub site: String,
    pub epoch: String,
    pub ordinal: i64,
    pub number: u64,
    pub via: String,
    pub received_ms: i64,
    pub envelope: String,
}

/// A report that contradicts what is on record, as the hub states it.
#[derive(Debug, Clone)]
pub struct ClaimedConflict {
    pub site: String,
    pub conflict: Conflict,
    pub envelope: String,
}

/// The reports of a site that never arrived, as the hub states it.
#[derive(Debug, Clone)]
pub struct ClaimedMissing {
    pub site: String,
    pub epoch: String,
    pub reports: Vec<(u64, u64)>,
}

/// A decision, or its place alone.
#[derive(Debug, Clone)]
pub enum DecisionEntry {
    Whole(Box<Recorded>),
    Forgotten { id: i64, verdict: String },
}

/// What a file holds.
#[derive(Debug)]
pub struct Export {
    pub fleet: String,
    pub hub_key: PublicKey,
    pub head: String,
    pub sites: BTreeMap<String, RegisteredSite>,
    pub site_keys: BTreeMap<String, Vec<PublicKey>>,
    pub metadata: Vec<Numbered<Metadata>>,
    pub reports: Vec<Numbered<ClaimedReport>>,
    pub conflicts: Vec<Numbered<ClaimedConflict>>,
    pub missing: Vec<Numbered<ClaimedMissing>>,
    /// By site. A report in one of these ranges is not in the file.
    pub removed: BTreeMap<String, Removed>,
    pub restores: Vec<Restored>,
    /// Whether the file states which reports are missing.
    pub states_missing: bool,
    format: String,
    pub acts: Vec<Act>,
    pub decisions: Vec<DecisionEntry>,
    pub problems: Vec<Problem>,
    pub acts_head: String,
    heads: Vec<String>,
}

impl Export {
    fn problem(&mut self, line: u64, what: impl Into<String>) {
        let what = what.into();
        self.problems.push(Problem { line, what });
    }
}

/// Reads a file.
pub fn read(
    mut lines: impl BufRead,
    hub_key: Option<&PublicKey>,
    expected_heads: &[String],
) -> Result<Export, AuditError> {
    let first = next(&mut lines, 1)?.unwrap_or_default();
    let mut export = header(&first)?;
    if let Some(expected) = hub_key.filter(|key| key.id() != export.hub_key.id()) {
        let what = format!(
            "another hub wrote this file: its key is {}, expected {}",
            export.hub_key.id(),
            expected.id()
        );
        export.problem(1, what);
    }
    let mut hasher = Hasher::new();
    hasher.update(&first);
    let mut at = 1;
    let mut end: Option<Vec<u8>> = None;
    while let Some(bytes) = next(&mut lines, at + 1)? {
        if let Some(before) = end.replace(bytes) {
            at += 1;
            hasher.update(&before);
            match serde_json::from_slice::<AuditLine>(&before) {
                Ok(line) => export.take(at, line),
                Err(error) => export.problem(at, format!("this line cannot be read: {error}")),
            }
        }
    }
    let digest = hasher.finish().0.to_string();
    export.end(at, &digest, end.as_deref());
    for expected in expected_heads {
        if export.heads.contains(expected) {
            continue;
        }
        export.problem(
            0,
            format!(
                "the entry with digest {expected}, which an earlier export ended with, is not in the chains of this file: it \
                 was cut or rewritten since, or is older than that export"
            ),
        );
    }
    Ok(export)
}

/// The next line with its end, never more than a line may have.
fn next(lines: &mut impl BufRead, line: u64) -> Result<Option<Vec<u8>>, AuditError> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    let most = MAX_LINE_BYTES as u64 + 1;
    let read = lines.by_ref().take(most).read_until(b'\n', &mut bytes)?;
    if read == 0 {
        return Ok(None);
    }
    if read > MAX_LINE_BYTES {
        return Err(AuditError::TooLong { line });
    }
    Ok(Some(bytes))
}

fn header(first: &[u8]) -> Result<Export, AuditError> {
    let problem = |problem: String| AuditError::NotAnExport { problem };
    let line =
        serde_json::from_slice::<AuditLine>(first).map_err(|error| problem(error.to_string()))?;
    let AuditLine::Header {
        format,
        fleet,
        hub_key,
    } = line
    else {
        return Err(problem("its first line is not a header".to_owned()));
    };
    if !FORMATS.contains(&&*format) {
        let known: Vec<String> = FORMATS.iter().map(|known| format!("`{known}`")).collect();
        return Err(problem(format!(
            "its format is `{}`, this program reads {}",
            format.chars().take(40).collect::<String>(),
            known.join(", ")
        )));
    }
    Ok(Export {
        fleet,
        hub_key: PublicKey::from_pem(&hub_key)?,
        head: String::new(),
        sites: BTreeMap::new(),
        site_keys: BTreeMap::new(),
        metadata: Vec::new(),
        reports: Vec::new(),
        conflicts: Vec::new(),
        missing: Vec::new(),
        removed: BTreeMap::new(),
        restores: Vec::new(),
        states_missing: format != FORMAT_1,
        format,
        acts: Vec::new(),
        decisions: Vec::new(),
        problems: Vec::new(),
        acts_head: String::new(),
        heads: Vec::new(),
    })
}

impl Export {
    /// What formats from `first` on have.
    fn of_format(&mut self, at: u64, first: &str, what: &str) {
        if !is_from_on(&self.format, first) {
            let format = &self.format;
            let what = format!("a file of format `{format}` states no {what}");
            self.problem(at, what);
        }
    }

    fn take(&mut self, at: u64, line: AuditLine) {
        match line {
            AuditLine::Header { .. } => self.problem(at, "a second header"),
            AuditLine::Site {
                site,
                role,
                environment,
                cluster_type,
                enrolled_ms,
                revoked_ms,
                counts_from_ms,
            } => {
                if counts_from_ms.is_some() {
                    self.of_format(at, FORMAT_4, "site that was registered again");
                }
                let found = RegisteredSite {
                    role,
                    environment,
                    cluster_type,
                    enrolled_ms,
                    revoked_ms,
                    counts_from_ms,
                };
                if self.sites.insert(site.clone(), found).is_some() {
                    self.problem(at, format!("site `{site}` is registered twice"));
                }
            }
            AuditLine::SiteKey {
                site, public_key, ..
            } => match PublicKey::from_pem(&public_key) {
                Ok(key) => self.site_keys.entry(site).or_default().push(key),
                Err(error) => self.problem(at, format!("the key of site `{site}`: {error}")),
            },
            AuditLine::Metadata {
                role,
                at_ms,
                files,
                index,
                ..
            } => {
                let files = files
                    .into_iter()
                    .map(|(name, text)| (name, text.into_bytes()));
                let found = Metadata {
                    role,
                    at_ms,
                    files: files.collect(),
                    index: index.map(String::into_bytes),
                };
                self.metadata.push((at, found));
            }
            AuditLine::Report {
                site,
                epoch,
                ordinal,
                number,
                via,
                received_ms,
                envelope,
            } => {
                let found = ClaimedReport {
                    site,
                    epoch,
                    ordinal,
                    number,
                    via,
                    received_ms,
                    envelope,
                };
                self.reports.push((at, found));
            }
            line @ (AuditLine::Missing { .. }
            | AuditLine::Removed { .. }
            | AuditLine::Conflict { .. }
            | AuditLine::Restore { .. }) => self.take_beside(at, line),
            AuditLine::Act {
                act,
                previous,
                digest,
            } => self.take_act(at, act, &previous, digest),
            AuditLine::Decision { content, chain } => {
                self.take_decision(at, content, chain.as_ref());
            }
            AuditLine::Forgotten {
                id,
                verdict,
                content,
                chain,
            } => {
                self.link(at, id, &verdict, &content, &chain);
                if verdict == "open" {
                    let what = format!("decision {id} opened a gate, and its content is missing");
                    self.problem(at, what);
                }
                self.decisions
                    .push(DecisionEntry::Forgotten { id, verdict });
            }
        }
    }

    /// What closes gates beside what sites report.
    fn take_beside(&mut self, at: u64, line: AuditLine) {
        match line {
            AuditLine::Missing {
                site,
                epoch,
                reports,
            } => {
                let found = ClaimedMissing {
                    site,
                    epoch,
                    reports,
                };
                self.missing.push((at, found));
            }
            AuditLine::Conflict {
                site,
                conflict,
                envelope,
            } => {
                let found = ClaimedConflict {
                    site,
                    conflict,
                    envelope,
                };
                self.conflicts.push((at, found));
            }
            AuditLine::Restore { restored, .. } => self.restores.push(restored),
            AuditLine::Removed {
                site,
                epoch,
                first,
                last,
                ..
            } => {
                self.of_format(at, FORMAT_3, "reports that are no longer kept");
                let ranges = &mut self.removed.entry(site.clone()).or_default().0;
                let ranges = ranges.entry(epoch).or_default();
                let is_next = ranges.last().is_none_or(|(_, before)| *before < first);
                ranges.push((first, last));
                if first == 0 || first > last || !is_next {
                    let what = format!(
                        "reports {first} to {last} of site `{site}` that are no longer kept are not a range after the one before"
                    );
                    self.problem(at, what);
                }
            }
            _ => {}
        }
    }

    fn take_act(&mut self, at: u64, act: Act, previous: &str, digest: String) {
        if previous != self.acts_head {
            let what = format!(
                "entry {} does not follow the one before it in this file",
                act.id
            );
            self.problem(at, what);
        }
        if act.digest(previous) != digest {
            let what = format!(
                "entry {} ({} by {}) is not what its digest was made of",
                act.id,
                act.kind.as_str(),
                act.by
            );
            self.problem(at, what);
        }
        self.acts_head.clone_from(&digest);
        self.heads.push(digest);
        self.acts.push(act);
    }

    fn take_decision(&mut self, at: u64, content: Recorded, chain: Option<&Link>) {
        if let Some(chain) = chain {
            let digest = content.digest();
            self.link(at, content.id, &content.verdict, &digest, chain);
        } else if !self.head.is_empty() {
            self.problem(
                at,
                format!("decision {} has no place in the chain", content.id),
            );
        }
        self.decisions.push(DecisionEntry::Whole(Box::new(content)));
    }

    fn link(&mut self, at: u64, id: i64, verdict: &str, content: &str, chain: &Link) {
        if chain.previous != self.head {
            let what = format!(
                "decision {id} does not follow the one before it in this file: one was removed, added or moved"
            );
            self.problem(at, what);
        }
        if Link::digest_of(&chain.previous, id, verdict, content) != chain.digest {
            self.problem(
                at,
                format!("decision {id} is not what its digest was made of"),
            );
        }
        self.head.clone_from(&chain.digest);
        self.heads.push(chain.digest.clone());
    }

    /// What the hub signed last: that this is all, and what it was.
    fn end(&mut self, lines: u64, digest: &str, last: Option<&[u8]>) {
        let at = lines + 1;
        let envelope = last.and_then(|bytes| Envelope::from_json(bytes.trim_ascii_end()).ok());
        let Some(envelope) = envelope else {
            let what = "the file is cut: its last line is not the hub's signature over the rest; export it again";
            self.problem(at, what);
            return;
        };
        let payload = match envelope.verify(END_TYPE, std::slice::from_ref(&self.hub_key)) {
            Ok(payload) => payload,
            Err(error) => {
                self.problem(at, format!("the signature over the whole file: {error}"));
                return;
            }
        };
        let Ok(end) = serde_json::from_slice::<End>(payload) else {
            self.problem(at, "what the hub signed at the end cannot be read");
            return;
        };
        let found = End {
            fleet: self.fleet.clone(),
            lines,
            digest: digest.to_owned(),
            decisions: self.head.clone(),
            acts: self.acts_head.clone(),
        };
        if found != end {
            let what = format!(
                "the file is not what the hub signed: {} lines with digest {}, signed are {} lines with digest {}",
                found.lines,
                short(&found.digest),
                end.lines,
                short(&end.digest)
            );
            self.problem(at, what);
        }
    }
}

fn short(digest: &str) -> String {
    digest
        .parse::<Digest>()
        .map_or_else(|_| digest.to_owned(), |digest| digest.short())
}
