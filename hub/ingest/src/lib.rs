//! Ingest: signed reports in any order, any number of times, by any transport, counted once each.
//!
//! What comes in: lines, one envelope each, from a file or a request. What goes out: rows in the store,
//! what was refused with the reason, and how far each chain is complete. A report is taken when its
//! site's own key signed it, it is of this fleet, and it fits the reports before and after it. A
//! refused line is recorded and shown, and does not stop the rest. Signatures are checked before anything
//! is written, and apart from writing. What is on record of a report is never replaced but by the
//! same report with a signature that holds, where the one on record has none, or where its text is lost.

mod chain;
mod check;
mod conflicts;
mod counters;
mod known;
mod line;
mod outcome;
mod signed;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead};
use std::sync::Arc;

use outhaul_bundle::hub_api::{RefusedGroup, RefusedLine};
use outhaul_signer::envelope::{EnvelopeLine, next_line};

pub use counters::Counters;
pub use outcome::{Complete, Ingested};

use check::Numbered;
use known::BatchStore;
use line::{LineRefusal, RETIRED_KEY, RecordedReport, SIGNATURE, record_report};
use outhaul_store::{IngestRefusal, Session, Store, StoreError};
use signed::SignedReport;

/// Lines of which the signatures are verified at once: as many more than patience allows may be looked at.
const VERIFIED_AT_ONCE: usize = 64;
/// Lines of one transaction: enough to share its disk flush, few enough for others to write between.
const LINES_AT_ONCE: usize = 2000;
/// The same in bytes.
const BYTES_AT_ONCE: usize = 1024 * 1024;
/// Rules about the key of a report: what they refuse counts when the report after it confirms it.
const HELD: [&str; 3] = [SIGNATURE, "epoch-key", RETIRED_KEY];
/// Rules of lines that are not reports.
const MALFORMED: [&str; 2] = ["malformed", "oversized"];
/// Refused lines listed one by one; the rest is counted.
const MAX_LISTED: usize = 200;
/// Lines of one batch that may be no reports at all; then the rest of it is not read.
const MAX_MALFORMED: usize = 1000;
/// Sites and rules of refused lines of one batch that are distinguished; what is beyond is counted only.
const MAX_GROUPS: usize = 1_000;
/// Of these the ones that are recorded: a flood must not push out what came before it.
const MAX_RECORDED: usize = 20;

/// Why a batch stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IngestError {
    /// The file or request could not be read.
    #[error("`{source_name}` cannot be read")]
    Read {
        /// Its name.
        source_name: String,
        /// What the system says.
        source: io::Error,
    },
    /// The store failed; nothing of the batch since the last good transaction is kept.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Where a batch came from and when.
#[derive(Debug, Clone, Copy)]
pub struct Batch<'a> {
    /// The fleet that this hub serves.
    pub fleet: &'a str,
    /// The file's name, or `https`.
    pub via: &'a str,
    /// When, milliseconds since 1970.
    pub received_ms: i64,
}

/// Takes in every line of `lines`.
///
/// # Errors
/// [`IngestError`] when reading or the store fails. A refused line is not an error.
pub fn ingest(
    store: &mut Store,
    lines: impl BufRead,
    batch: &Batch<'_>,
) -> Result<Ingested, IngestError> {
    take_in(store, lines, batch, Intake::new(None))
}

/// The same, where the caller puts on record what was refused.
///
/// # Errors
/// As [`ingest`].
pub fn ingest_unrecorded(
    store: &mut Store,
    lines: impl BufRead,
    batch: &Batch<'_>,
) -> Result<Ingested, IngestError> {
    let intake = Intake {
        records: false,
        ..Intake::new(None)
    };
    take_in(store, lines, batch, intake)
}

/// The same, with an intake that the caller began.
///
/// # Errors
/// As [`ingest`].
pub fn take_in(
    store: &mut Store,
    mut lines: impl BufRead,
    batch: &Batch<'_>,
    mut intake: Intake,
) -> Result<Ingested, IngestError> {
    let read_on = |lines: &mut dyn BufRead| -> Result<bool, IngestError> {
        let more = lines.fill_buf().map_err(|source| IngestError::Read {
            source_name: batch.via.to_owned(),
            source,
        })?;
        Ok(!more.is_empty())
    };
    let mut last = None;
    while let Some(chunk) = intake.chunk(&mut lines, batch.via, LINES_AT_ONCE)? {
        let checked = store.read(|session| intake.check(session, batch, chunk))?;
        if !read_on(&mut lines)? {
            last = Some(checked);
            break;
        }
        store.write(|session| intake.record(session, batch, checked))?;
    }
    // The last part is recorded together with what ends the batch: one commit for most batches.
    Ok(store.write(|session| {
        if let Some(checked) = last {
            intake.record(session, batch, checked)?;
        }
        intake.finish(session)
    })?)
}

/// A batch on its way in. Checking signatures, which takes long, is apart from recording, which keeps
/// others from writing: a server does the first beside its store and the second in short pieces.
#[derive(Debug)]
pub struct Intake {
    at: u64,
    /// Lines with a bad signature that are still verified; `None` for any number.
    patience: Option<usize>,
    /// Lines that were not reports.
    malformed: usize,
    done: Ingested,
    touched: BTreeSet<(String, String)>,
    groups: BTreeMap<(Option<String>, Cow<'static, str>), RefusedGroup>,
    source: Option<(String, i64)>,
    /// Whether it puts on record what was refused.
    records: bool,
    /// Whether the hub itself made the reports, of webhooks.
    by_webhook: bool,
}

/// Lines with their numbers.
#[derive(Debug)]
pub struct Chunk(Vec<(u64, EnvelopeLine)>);

/// Lines that were checked, to be recorded.
#[derive(Debug)]
pub struct CheckedLines(Vec<Numbered<Arc<SignedReport>>>);

impl Intake {
    /// A batch of which nothing was read yet. With `patience`, what comes after so many bad signatures is
    /// refused without a look: nobody signs so many by mistake.
    pub fn new(patience: Option<usize>) -> Self {
        Self {
            at: 0,
            patience,
            malformed: 0,
            done: Ingested::default(),
            touched: BTreeSet::new(),
            groups: BTreeMap::new(),
            source: None,
            records: true,
            by_webhook: false,
        }
    }

    /// A batch that the hub itself made of webhooks: the only way by which a site that is registered to report by webhook does.
    pub fn of_webhooks() -> Self {
        Self {
            by_webhook: true,
            ..Self::new(None)
        }
    }

    /// The next lines, at most `most` and about a megabyte of them; `None` at the end, or when this is not a file of
    /// reports.
    ///
    /// # Errors
    /// [`IngestError::Read`].
    pub fn chunk(
        &mut self,
        lines: &mut impl BufRead,
        via: &str,
        most: usize,
    ) -> Result<Option<Chunk>, IngestError> {
        let (mut waiting, mut bytes) = (Vec::new(), 0);
        if self.malformed >= MAX_MALFORMED {
            let text = format!(
                "what follows this line is not read: {} lines before it are not reports",
                self.malformed
            );
            let line = RefusedLine {
                line: self.at,
                site: None,
                rule: "not-read".into(),
                reason: text,
            };
            self.group(&line);
            self.done.refused_lines += 1;
            self.done.refused.push(line);
            return Ok(None);
        }
        while waiting.len() < most && bytes < BYTES_AT_ONCE {
            let read = next_line(lines).map_err(|source| IngestError::Read {
                source_name: via.to_owned(),
                source,
            })?;
            let Some(line) = read else { break };
            self.at += 1;
            if let EnvelopeLine::Whole(found) = &line {
                bytes += found.len();
                if found.trim_ascii().is_empty() {
                    continue;
                }
            }
            waiting.push((self.at, line));
        }
        Ok(Some(Chunk(waiting)).filter(|chunk| !chunk.0.is_empty()))
    }

    /// Checks the lines of a chunk; only reads the store.
    ///
    /// # Errors
    /// [`StoreError`] when it fails.
    pub fn check(
        &mut self,
        session: &Session<'_>,
        batch: &Batch<'_>,
        chunk: Chunk,
    ) -> Result<CheckedLines, StoreError> {
        let mut checked = Vec::with_capacity(chunk.0.len());
        let mut lines = chunk.0.into_iter().peekable();
        while lines.peek().is_some() {
            self.check_some(
                session,
                batch,
                lines.by_ref().take(VERIFIED_AT_ONCE),
                &mut checked,
            )?;
        }
        check::take_covered(session, batch, &mut checked)?;
        Ok(CheckedLines(checked))
    }

    /// Checks some lines: what the store knows of them one after the other, their signatures on every processor.
    fn check_some(
        &mut self,
        session: &Session<'_>,
        batch: &Batch<'_>,
        lines: impl Iterator<Item = (u64, EnvelopeLine)>,
        checked: &mut Vec<Numbered<Arc<SignedReport>>>,
    ) -> Result<(), StoreError> {
        let is_tired = self.patience == Some(0);
        let verified = check::check(session, batch.fleet, lines.collect(), is_tired)?;
        for (number, mut outcome) in verified {
            let is_oversized = outcome
                .as_ref()
                .is_err_and(|refused| refused.rule == "oversized");
            if self.patience == Some(0) && !is_oversized {
                outcome = Err(not_read());
            }
            if let (Err(refused), Some(patience)) = (&outcome, &mut self.patience)
                && refused.rule == SIGNATURE
            {
                *patience -= 1;
            }
            self.malformed += usize::from(
                outcome
                    .as_ref()
                    .is_err_and(|refused| MALFORMED.contains(&refused.rule)),
            );
            checked.push((number, outcome));
        }
        Ok(())
    }

    /// Records what was checked.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn record(
        &mut self,
        session: &Session<'_>,
        batch: &Batch<'_>,
        checked: CheckedLines,
    ) -> Result<(), StoreError> {
        let mut held = Vec::new();
        let (mut changed, mut gone) = (BTreeSet::new(), BTreeSet::new());
        let reports = checked.0.iter().filter_map(|(_, one)| one.as_ref().ok());
        let mut known = BatchStore::around(session, batch, reports)?;
        if self.by_webhook {
            known.is_made_of_webhooks();
        }
        for (number, outcome) in checked.0 {
            let outcome = match outcome {
                Err(refused) => Err(refused),
                Ok(report) => match record_report(&mut known, &report, &mut gone)? {
                    Err(refused) if HELD.contains(&refused.rule) => {
                        held.push((number, report));
                        continue;
                    }
                    outcome => outcome,
                },
            };
            changed.extend(new_of(&outcome));
            self.count(batch, number, outcome);
        }
        // What another key signed may be confirmed by the report after it: the newest first.
        held.sort_by_key(|(_, report)| std::cmp::Reverse(report.number()));
        for (number, report) in held {
            let outcome = record_report(&mut known, &report, &mut gone)?;
            changed.extend(new_of(&outcome));
            self.count(batch, number, outcome);
        }
        known.write()?;
        let changed: Vec<&str> = changed.iter().map(String::as_str).collect();
        session.keep_current_of(&changed)
    }

    /// How far each chain that the batch touched is complete now, and what became of the batch.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn finish(&mut self, session: &Session<'_>) -> Result<Ingested, StoreError> {
        let mut done = std::mem::take(&mut self.done);
        done.refused_groups = self.record_refused(session)?;
        let touched: Vec<_> = std::mem::take(&mut self.touched).into_iter().collect();
        let acked = session.advance_acks(&touched)?;
        done.complete = acked.into_iter().map(Complete::from).collect();
        Ok(done)
    }

    fn count(
        &mut self,
        batch: &Batch<'_>,
        number: u64,
        outcome: Result<RecordedReport, LineRefusal>,
    ) {
        let done = &mut self.done;
        match outcome {
            Ok(taken) => {
                done.accepted += u64::from(taken.new);
                done.duplicates += u64::from(!taken.new);
                done.no_longer_kept += u64::from(taken.no_longer_kept);
                done.restored += u64::from(taken.restored);
                self.touched.insert((taken.site, taken.epoch));
            }
            Err(refused) => {
                done.refused_lines += 1;
                // Its site's own key signed it: the acknowledgement informs the site of its status here.
                self.touched.extend(refused.exchanged.clone());
                let LineRefusal {
                    site, rule, reason, ..
                } = refused;
                let line = RefusedLine {
                    line: number,
                    site,
                    rule: rule.into(),
                    reason,
                };
                self.source = Some((batch.via.to_owned(), batch.received_ms));
                self.group(&line);
                if self.done.refused.len() < MAX_LISTED {
                    self.done.refused.push(line);
                }
            }
        }
    }

    /// Counts a refused line with those of the same site and rule.
    fn group(&mut self, line: &RefusedLine) {
        let key = (line.site.clone(), line.rule.clone());
        if let Some(group) = self.groups.get_mut(&key) {
            group.lines += 1;
            group.first_line = group.first_line.min(line.line);
            group.last_line = group.last_line.max(line.line);
        } else if self.groups.len() < MAX_GROUPS {
            let group = RefusedGroup {
                site: line.site.clone(),
                rule: line.rule.clone(),
                reason: line.reason.clone(),
                lines: 1,
                first_line: line.line,
                last_line: line.line,
            };
            self.groups.insert(key, group);
        }
    }

    /// Puts the refused lines on record, one entry per site and rule, those with the most lines.
    fn record_refused(&mut self, session: &Session<'_>) -> Result<Vec<RefusedGroup>, StoreError> {
        let mut groups: Vec<RefusedGroup> =
            std::mem::take(&mut self.groups).into_values().collect();
        if let Some((source, at_ms)) = self.source.as_ref().filter(|_| self.records) {
            groups.sort_by_key(|group| (std::cmp::Reverse(group.lines), group.first_line));
            for group in groups.iter().take(MAX_RECORDED) {
                session.add_refusal(&IngestRefusal {
                    at_ms: *at_ms,
                    source: source.clone(),
                    site: group.site.clone(),
                    rule: group.rule.to_string(),
                    message: group.reason.clone(),
                    times: group.lines,
                    first_ms: *at_ms,
                })?;
            }
        }
        groups.sort_by_key(|group| group.first_line);
        Ok(groups)
    }
}

/// Why a line after many bad ones is refused.
fn not_read() -> LineRefusal {
    LineRefusal::new(
        "not-read",
        "too many lines before it have a bad signature; send it without them",
    )
}

/// The site of which something was recorded.
fn new_of(outcome: &Result<RecordedReport, LineRefusal>) -> Option<String> {
    let taken = outcome.as_ref().ok().filter(|taken| taken.new)?;
    Some(taken.site.clone())
}
