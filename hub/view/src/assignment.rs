//! One assignment at one site: desired beside observed, what differs at the level of files, and what was reported of it.
//!
//! What comes in: the store, a site, an assignment, from which place in its reports on, and the time. What goes out: plain values for
//! the page. It has digests and sizes, no content of a file. It decides nothing, and reads no other site.

use std::collections::BTreeMap;

use outhaul_bundle::Index;
use outhaul_bundle::name::Name;
use outhaul_gate::fold::some_between;
use outhaul_gate::time;
use outhaul_store::{
    AssignmentLook, DesiredBundle, EpochOfSite, RemovedRange, Session, SitePage, SiteState,
    StoreError, TimelinePlace,
};
use serde::Serialize;

use crate::contents::{FileChange, FileRow, digest_of, file_changes, files};
use crate::indexes::{FOR_ONE_BYTES, IndexResult, Indexes};
use crate::removed::RemovedPart;
use crate::{AssignmentRow, Reading, TimelineBefore, newest_for};

/// Files listed of the desired bundle.
const FILES_SHOWN: usize = 500;
/// Reports that one page looks through, and rows that it shows of them.
const LOOKS_READ: usize = 1_000;
const SPANS_SHOWN: usize = 50;
/// Ranges of removed reports that are read of one numbering for a page, and those that it shows.
const RANGES_READ: usize = 5_000;
const RANGES_SHOWN: usize = 20;

/// One assignment at one site.
#[derive(Debug, Clone, Serialize)]
pub struct AssignmentView {
    /// The site.
    pub site: String,
    /// Its environment.
    pub environment: String,
    /// Its cluster type.
    pub cluster_type: String,
    /// The assignment.
    pub assignment: String,
    /// As in the list; `None` where it is neither desired nor reported now, or the site was revoked.
    pub row: Option<AssignmentRow>,
    /// What should run.
    pub desired: Option<AssignmentSide>,
    /// What the site reports to run.
    pub observed: Option<AssignmentSide>,
    /// Since which report it is reported so.
    pub since: Option<LookSpan>,
    /// Whether both are of one bundle.
    pub is_one_bundle: bool,
    /// The files that differ between the two bundles; `None` where that is not known.
    pub differences: Option<Vec<FileChange>>,
    /// How many more differ.
    pub more_differences: usize,
    /// What was reported, the newest first.
    pub history: Vec<LookSpan>,
    /// Reports of the site that are no longer kept, on this part of its history, the newest first: what they told of it is not known.
    pub no_longer_kept: Vec<RemovedRange>,
    /// How many more ranges there are on this part.
    pub more_no_longer_kept: usize,
    /// Whether there are more than that: so many are not read.
    pub is_no_longer_kept_cut: bool,
    /// Where the next page begins.
    pub more: Option<String>,
    /// Whether this page begins with the newest report.
    pub is_newest: bool,
    /// When this was read, RFC 3339.
    pub read_at: String,
}

/// An assignment in one bundle, as one site gets it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AssignmentSide {
    /// The bundle.
    pub bundle: u64,
    /// Its environment: that of the site, unless it was moved.
    pub environment: String,
    /// Its cluster type.
    pub cluster_type: String,
    /// The base commit of it.
    pub commit: String,
    /// Digest of the config.
    pub config: Option<String>,
    /// Digest of the paths and contents of its files.
    pub content: Option<String>,
    /// The files.
    pub files: Vec<FileRow>,
    /// How many more there are.
    pub more: usize,
    /// Why files are not known.
    pub unknown: Option<String>,
}

/// Reports one after the other that say the same of the assignment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LookSpan {
    /// The numbering of the reports.
    pub epoch: String,
    /// The first of them that was read.
    pub first: u64,
    /// The newest.
    pub last: u64,
    /// How many of them tell of the assignment.
    pub reports: usize,
    /// Whether earlier ones, which were not read, may say the same.
    pub is_open: bool,
    /// The bundle that they tell of.
    pub bundle: u64,
    /// The state of that bundle.
    pub state: String,
    /// Its base commit.
    pub commit: String,
    /// `compliant`, `drifted`, `failed`, `in_progress`.
    pub status: String,
    /// Digest of the config that runs; empty where the site reports none.
    pub config: String,
    /// What the reconciler said.
    pub message: String,
    /// When the first was received, RFC 3339.
    pub since: String,
    /// When the first was made, by the site's clock.
    pub since_site: String,
    /// Whether that clock was set by something trustworthy.
    pub clock_trusted: bool,
    /// When the newest was received, RFC 3339.
    pub until: String,
}

/// Why there is no such page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoAssignment {
    /// No site of this name is registered.
    NoSite,
    /// The site neither has nor ever reported it; these are the assignments that it has.
    Unknown(Vec<String>),
}

impl AssignmentView {
    /// Reads one assignment of one site.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn of(
        session: &Session<'_>,
        (site, assignment): (&str, &str),
        before: Option<TimelineBefore>,
        now_ms: i64,
    ) -> Result<Result<Self, NoAssignment>, StoreError> {
        let reading = Reading::of(session, SitePage::named(site), now_ms)?;
        let Some(state) = reading.sites.first().filter(|one| one.site == site) else {
            return Ok(Err(NoAssignment::NoSite));
        };
        let rows = reading.assignment_rows();
        let row = rows
            .iter()
            .find(|row| row.assignment == assignment)
            .cloned();
        let place = before.map(|before| before.0);
        let looks = session.looks_at_assignment(site, assignment, place, LOOKS_READ)?;
        if row.is_none() && looks.is_empty() && before.is_none() {
            let known = rows.into_iter().map(|row| row.assignment).collect();
            return Ok(Err(NoAssignment::Unknown(known)));
        }
        let removed = removed_between(session, site, place, &looks)?;
        let (history, end) = spans(&looks, &removed);
        let more = end.map(|end| format!("{}.{}", end.ordinal, end.number));
        let (no_longer_kept, more_no_longer_kept) = shown(&removed, end);
        let desired = newest_for(&reading.bundles, state).filter(|bundle| {
            let has = |row: &AssignmentRow| row.desired == Some(bundle.number);
            row.as_ref().is_some_and(has)
        });
        let observed = running(&reading, state).filter(|(number, _)| {
            let has = |row: &AssignmentRow| row.actual == Some(*number);
            row.as_ref().is_some_and(has)
        });
        let mut indexes = Indexes::new(session, FOR_ONE_BYTES);
        let wanted = match desired {
            Some(bundle) => Some(side(session, &mut indexes, bundle, (site, assignment))?),
            None => None,
        };
        let runs = match observed {
            Some((_, Some(bundle))) => {
                Some(side(session, &mut indexes, bundle, (site, assignment))?)
            }
            Some((number, None)) => Some(not_on_record(state, number)),
            None => None,
        };
        let is_one_bundle = wanted.as_ref().zip(runs.as_ref()).is_some_and(|(a, b)| {
            (a.0.bundle, &a.0.cluster_type, &a.0.environment)
                == (b.0.bundle, &b.0.cluster_type, &b.0.environment)
                && a.1.is_some() == b.1.is_some()
        });
        let differs = match (&wanted, &runs) {
            (Some((_, Some(wanted))), Some((_, Some(runs)))) => {
                Some(file_changes(runs, wanted, usize::MAX))
            }
            _ => None,
        };
        let (differences, more_differences) = differs.unzip();
        let with = |side: Option<(AssignmentSide, Option<Vec<FileRow>>)>,
                    config: Option<String>| {
            side.map(|(side, _)| AssignmentSide { config, ..side })
        };
        let row_config = |of: fn(&AssignmentRow) -> &Option<String>| {
            row.as_ref().and_then(|row| of(row).clone())
        };
        let desired = with(wanted, row_config(|row| &row.desired_config));
        let observed = with(runs, row_config(|row| &row.actual_config));
        let since = observed
            .as_ref()
            .filter(|_| before.is_none())
            .and_then(|observed| {
                let of_running = |span: &&LookSpan| span.bundle == observed.bundle;
                history.iter().find(of_running).cloned()
            });
        Ok(Ok(Self {
            site: site.to_owned(),
            environment: state.environment.clone(),
            cluster_type: state.cluster_type.clone(),
            assignment: assignment.to_owned(),
            row,
            desired,
            observed,
            since,
            is_one_bundle,
            differences,
            more_differences: more_differences.unwrap_or_default(),
            history,
            no_longer_kept,
            more_no_longer_kept,
            is_no_longer_kept_cut: removed.iter().any(|(_, part)| part.is_cut),
            more,
            is_newest: before.is_none(),
            read_at: time::rfc3339(now_ms),
        }))
    }
}

/// The bundle that a site runs: its number, and itself where the one on record has the content that the site reports.
fn running<'a>(
    reading: &'a Reading,
    state: &SiteState,
) -> Option<(u64, Option<&'a DesiredBundle>)> {
    let running = state.running.as_ref().filter(|one| one.bundle > 0)?;
    let on_record = crate::of_role(&reading.bundles, &running.role)
        .iter()
        .find(|bundle| bundle.number == running.bundle && bundle.index == running.index);
    Some((running.bundle, on_record))
}

/// The assignment in a bundle as a site gets it, and all of its files where they are known.
fn side(
    session: &Session<'_>,
    indexes: &mut Indexes<'_, '_>,
    bundle: &DesiredBundle,
    (site, assignment): (&str, &str),
) -> Result<(AssignmentSide, Option<Vec<FileRow>>), StoreError> {
    let known: IndexResult = match session.bundle_on_record(&bundle.role, bundle.number)? {
        Some(on_record) => indexes.of(&on_record)?,
        None => Err(format!("bundle {} is not on record", bundle.number)),
    };
    let rows = known.map(|index| as_site_gets(&index, site, assignment));
    let mut side = AssignmentSide {
        bundle: bundle.number,
        environment: bundle.environment.clone(),
        cluster_type: bundle.cluster_type.clone(),
        commit: bundle.base_commit.clone(),
        config: None,
        content: None,
        files: Vec::new(),
        more: 0,
        unknown: None,
    };
    match rows {
        Err(why) => {
            side.unknown = Some(why);
            Ok((side, None))
        }
        Ok(None) => {
            side.unknown = Some(format!("bundle {} does not have it", bundle.number));
            Ok((side, None))
        }
        Ok(Some(rows)) => {
            side.content = Some(digest_of(&rows));
            side.more = rows.len().saturating_sub(FILES_SHOWN);
            side.files = rows.iter().take(FILES_SHOWN).cloned().collect();
            Ok((side, Some(rows)))
        }
    }
}

fn as_site_gets(index: &Index, site: &str, assignment: &str) -> Option<Vec<FileRow>> {
    let named = index
        .assignments
        .iter()
        .find(|one| one.name.as_str() == assignment)?;
    Some(match site.parse::<Name>() {
        Ok(site) => files(&named.for_site(&site)),
        Err(_) => files(named),
    })
}

fn not_on_record(state: &SiteState, number: u64) -> (AssignmentSide, Option<Vec<FileRow>>) {
    let commit = state
        .running
        .as_ref()
        .map(|running| running.base_commit.clone());
    let side = AssignmentSide {
        bundle: number,
        environment: String::new(),
        cluster_type: String::new(),
        commit: commit.unwrap_or_default(),
        config: None,
        content: None,
        files: Vec::new(),
        more: 0,
        unknown: Some(format!(
            "this hub has no bundle {number} on record with the content that the site reports"
        )),
    };
    (side, None)
}

/// What is no longer kept between the place where a page begins and the last look that was read for it: by numbering, the newest first.
fn removed_between(
    session: &Session<'_>,
    site: &str,
    before: Option<TimelinePlace>,
    looks: &[AssignmentLook],
) -> Result<Vec<(EpochOfSite, RemovedPart)>, StoreError> {
    let end = looks.last().filter(|_| looks.len() >= LOOKS_READ);
    let mut found = Vec::new();
    for epoch in session.epochs_of(site)? {
        let to = match before {
            Some(place) if epoch.ordinal > place.ordinal => continue,
            Some(place) if epoch.ordinal == place.ordinal => place.number.saturating_sub(1),
            _ => u64::MAX,
        };
        let from = match end.map(|end| end.place) {
            Some(place) if epoch.ordinal < place.ordinal => break,
            Some(place) if epoch.ordinal == place.ordinal => place.number,
            _ => 1,
        };
        let part = RemovedPart::read(session, (site, &epoch.epoch), (from, to), RANGES_READ)?;
        found.push((epoch, part));
    }
    Ok(found)
}

/// The ranges that a page shows which ends at a place, and how many more there are.
fn shown(
    removed: &[(EpochOfSite, RemovedPart)],
    end: Option<TimelinePlace>,
) -> (Vec<RemovedRange>, usize) {
    let is_on_page = |ordinal: i64, range: &&RemovedRange| {
        end.is_none_or(|end| (ordinal, range.last) > (end.ordinal, end.number))
    };
    let ranges = removed.iter().flat_map(|(epoch, part)| {
        let ranges = part.ranges.iter();
        ranges.filter(|range| is_on_page(epoch.ordinal, range))
    });
    let all: Vec<&RemovedRange> = ranges.collect();
    let shown = all.iter().take(RANGES_SHOWN);
    (
        shown.map(|range| (*range).clone()).collect(),
        all.len().saturating_sub(RANGES_SHOWN),
    )
}

/// Reports that say the same one after the other, together; and where the next page begins.
fn spans(
    looks: &[AssignmentLook],
    removed: &[(EpochOfSite, RemovedPart)],
) -> (Vec<LookSpan>, Option<TimelinePlace>) {
    let numbers = removed
        .iter()
        .map(|(epoch, part)| (epoch.epoch.as_str(), part.numbers()));
    let removed: BTreeMap<&str, Vec<(u64, u64)>> = numbers.collect();
    let mut found: Vec<LookSpan> = Vec::new();
    let mut last: Option<TimelinePlace> = None;
    for look in looks {
        // What was reported between the two may have been something else.
        let is_whole = |span: &LookSpan| {
            let removed = removed.get(look.epoch.as_str());
            !removed.is_some_and(|removed| some_between(removed, look.place.number, span.first))
        };
        let is_same = found
            .last()
            .is_some_and(|span| is_same(span, look) && is_whole(span));
        if !is_same && found.len() == SPANS_SHOWN {
            return (found, last);
        }
        match found.last_mut().filter(|_| is_same) {
            Some(span) => {
                span.first = look.place.number;
                span.reports += 1;
                span.since = time::rfc3339(look.received_ms);
                span.since_site = time::rfc3339(look.wall_ms);
                span.clock_trusted = look.clock_trusted;
            }
            None => found.push(span(look)),
        }
        last = Some(look.place);
    }
    if looks.len() < LOOKS_READ {
        return (found, None);
    }
    if let Some(span) = found.last_mut() {
        span.is_open = true;
    }
    (found, last)
}

fn is_same(span: &LookSpan, look: &AssignmentLook) -> bool {
    (&span.epoch, span.bundle, &span.state, &span.status)
        == (&look.epoch, look.bundle, &look.state, &look.status)
        && (&span.config, &span.message) == (&look.config_version, &look.message)
}

fn span(look: &AssignmentLook) -> LookSpan {
    LookSpan {
        epoch: look.epoch.clone(),
        first: look.place.number,
        last: look.place.number,
        reports: 1,
        is_open: false,
        bundle: look.bundle,
        state: look.state.clone(),
        commit: look.base_commit.clone(),
        status: look.status.clone(),
        config: look.config_version.clone(),
        message: look.message.clone(),
        since: time::rfc3339(look.received_ms),
        since_site: time::rfc3339(look.wall_ms),
        clock_trusted: look.clock_trusted,
        until: time::rfc3339(look.received_ms),
    }
}
