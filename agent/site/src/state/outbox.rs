//! Reports that wait for the hub: numbered, chained, signed, bounded.
//!
//! What comes in: an event, in the transaction of the change that it reports. What goes out: envelopes in
//! order, and fewer of them once the hub has acknowledged. A queued report never changes within its epoch. When the box
//! is full, the oldest that say least (observations first, then steps on the way) are dropped and the
//! lost numbers are reported as gaps; failures, decisions and the newest state of all are never dropped.

use std::collections::BTreeSet;

use outhaul_bundle::Digest;
use outhaul_bundle::name::Name;
use outhaul_bundle::report::{self, Ack, GenerationState, Report, ReportEvent, SiteTime};
use outhaul_signer::{Envelope, SigningKey};
use rusqlite::{Connection, OptionalExtension, params};
use serde::{Deserialize, Serialize};

use super::clock::ClockReading;
use super::{SiteIdentity, StateError, doing, key, meta, set_meta, signed, unsigned};

/// Who speaks, when, and how much may wait.
#[derive(Debug)]
pub struct Author<'a> {
    /// The site.
    pub site: &'a SiteIdentity,
    /// Its key.
    pub key: &'a SigningKey,
    /// Its clock.
    pub reading: &'a ClockReading,
    /// Most rows that wait.
    pub max_rows: u64,
}

/// Where the numbering stands.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Cursor {
    /// The last number given; 0 before the first.
    pub last: u64,
    /// Digest of the last report's payload.
    pub digest: Option<Digest>,
    /// The hub has everything up to here.
    pub acknowledged: u64,
    /// The hub's time of the acknowledgement that said so, milliseconds since 1970.
    #[serde(default)]
    pub acknowledged_ms: i64,
}

/// How much a report would be missed. Stored as text; dropped in the order of `DROPPABLE`.
fn class(event: &ReportEvent) -> &'static str {
    match event {
        ReportEvent::Observation(_) | ReportEvent::Cluster(_) => "observation",
        ReportEvent::Generation(reported) if reported.reverted_from.is_some() => "failure",
        ReportEvent::Generation(reported) => match reported.state {
            GenerationState::Failed | GenerationState::Reverted => "failure",
            GenerationState::Active => "active",
            _ => "passage",
        },
        ReportEvent::Refusal { .. } => "refusal",
        ReportEvent::Gap { .. } => "gap",
        ReportEvent::Started { .. } => "started",
        _ => "decision",
    }
}

/// What may go, least missed first. `failure` and `decision` never go.
const DROPPABLE: [&str; 5] = ["observation", "started", "passage", "refusal", "active"];

/// Queues a report and returns its number.
///
/// # Errors
/// [`StateError`]
pub fn queue(db: &Connection, author: &Author<'_>, event: ReportEvent) -> Result<u64, StateError> {
    let waiting = count(db)?;
    if waiting >= author.max_rows {
        make_room(db, author)?;
    }
    append(db, author, event)
}

fn append(db: &Connection, author: &Author<'_>, event: ReportEvent) -> Result<u64, StateError> {
    append_at(db, author, author.reading.site_time(), event)
}

fn append_at(
    db: &Connection,
    author: &Author<'_>,
    at: SiteTime,
    event: ReportEvent,
) -> Result<u64, StateError> {
    let mut cursor = cursor(db)?;
    let class = class(&event);
    let report = Report {
        format: report::FORMAT.to_owned(),
        fleet: author.site.fleet.clone(),
        site: author.site.name.clone(),
        epoch: author.site.epoch.clone(),
        number: cursor.last + 1,
        previous: cursor.digest,
        at,
        event,
    };
    let payload = report.to_bytes();
    cursor.last = report.number;
    cursor.digest = Some(Digest::of(&payload));
    let envelope = Envelope::sign(report::PAYLOAD_TYPE, payload, author.key);
    db.execute(
        "INSERT INTO outbox (number, class, envelope) VALUES (?1, ?2, ?3)",
        params![signed(cursor.last), class, envelope.to_json()],
    )
    .map_err(doing("queue a report"))?;
    set_meta(db, key::OUTBOX, Some(&cursor))?;
    Ok(cursor.last)
}

/// Where the numbering stands.
///
/// # Errors
/// [`StateError`]
pub fn cursor(db: &Connection) -> Result<Cursor, StateError> {
    Ok(meta(db, key::OUTBOX)?.unwrap_or_default())
}

/// How many reports wait.
///
/// # Errors
/// [`StateError`]
pub fn count(db: &Connection) -> Result<u64, StateError> {
    db.query_row("SELECT count(*) FROM outbox", [], |row| row.get(0))
        .map(unsigned)
        .map_err(doing("count reports"))
}

/// One waiting report: its number and its envelope as one line of JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingReports {
    /// The report's number.
    pub number: u64,
    /// The signed envelope.
    pub envelope: Vec<u8>,
}

/// Waiting reports after number `after`, in order, at most `max_bytes` together (but at least one).
///
/// # Errors
/// [`StateError`]
pub fn waiting(
    db: &Connection,
    after: u64,
    max_bytes: usize,
) -> Result<Vec<WaitingReports>, StateError> {
    let mut query = db
        .prepare("SELECT number, envelope FROM outbox WHERE number > ?1 ORDER BY number")
        .map_err(doing("read reports"))?;
    let rows = query
        .query_map([signed(after)], |row| {
            Ok(WaitingReports {
                number: unsigned(row.get(0)?),
                envelope: row.get(1)?,
            })
        })
        .map_err(doing("read reports"))?;
    let mut waiting = Vec::new();
    let mut bytes = 0;
    for row in rows {
        let row = row.map_err(doing("read reports"))?;
        bytes += row.envelope.len() + 1;
        if bytes > max_bytes && !waiting.is_empty() {
            break;
        }
        waiting.push(row);
    }
    Ok(waiting)
}

/// How the names of files with reports of a site end.
const FILE_END: &str = ".reports";

/// The name of a file with the reports `first` to `last` of `site`.
pub fn file_name(site: &SiteIdentity, first: u64, last: u64) -> String {
    format!("{}-{}-{first}-{last}{FILE_END}", site.name, site.epoch)
}

/// The numbering and the numbers of the first and the last report in a file of this name, where it is one of the site `site`.
pub(crate) fn of_file_name<'a>(name: &'a str, site: &Name) -> Option<(&'a str, u64, u64)> {
    let rest = name.strip_prefix(site.as_str())?.strip_prefix('-')?;
    let mut parts = rest.strip_suffix(FILE_END)?.rsplitn(3, '-');
    let last = parts.next()?.parse().ok()?;
    let first = parts.next()?.parse().ok()?;
    let epoch = parts.next().filter(|epoch| !epoch.is_empty())?;
    Some((epoch, first, last))
}

/// Takes a hub's acknowledgement whose signature was verified: what it covers leaves the box.
/// Returns how many rows left; an old or strange one changes nothing.
///
/// # Errors
/// [`StateError`]
pub fn acknowledge(db: &Connection, site: &SiteIdentity, ack: &Ack) -> Result<u64, StateError> {
    let mut cursor = cursor(db)?;
    let ours: (&Name, &Name, &Name) = (&site.fleet, &site.name, &site.epoch);
    if ours != (&ack.fleet, &ack.site, &ack.epoch)
        || ack.number <= cursor.acknowledged
        || ack.number > cursor.last
    {
        return Ok(0);
    }
    cursor.acknowledged = ack.number;
    cursor.acknowledged_ms = ack.hub_time_ms;
    let gone = db
        .execute(
            "DELETE FROM outbox WHERE number <= ?1",
            [signed(ack.number)],
        )
        .map_err(doing("remove acknowledged reports"))?;
    set_meta(db, key::OUTBOX, Some(&cursor))?;
    Ok(gone as u64)
}

/// Whether a hub's verified acknowledgement is newer than the one before and covers fewer reports: what the hub
/// had is lost there, and it would wait for ever for reports that left this box. An old stick brings an old
/// acknowledgement, which shows nothing.
///
/// # Errors
/// [`StateError`]
pub fn is_lost_at_the_hub(
    db: &Connection,
    site: &SiteIdentity,
    ack: &Ack,
) -> Result<bool, StateError> {
    let ours: (&Name, &Name, &Name) = (&site.fleet, &site.name, &site.epoch);
    let cursor = cursor(db)?;
    Ok(ours == (&ack.fleet, &ack.site, &ack.epoch)
        && ack.number < cursor.acknowledged
        && cursor.acknowledged_ms > 0
        && ack.hub_time_ms > cursor.acknowledged_ms)
}

/// Whether a hub's verified acknowledgement covers reports that this memory never wrote, or wrote
/// otherwise: it is an older copy of what the hub knows.
///
/// # Errors
/// [`StateError`]
pub fn contradicts(db: &Connection, site: &SiteIdentity, ack: &Ack) -> Result<bool, StateError> {
    let ours: (&Name, &Name, &Name) = (&site.fleet, &site.name, &site.epoch);
    if ours != (&ack.fleet, &ack.site, &ack.epoch) {
        return Ok(false);
    }
    let cursor = cursor(db)?;
    if ack.number > cursor.last {
        return Ok(true);
    }
    let Some(theirs) = ack.digest else {
        return Ok(false);
    };
    let own = if ack.number == cursor.last {
        cursor.digest
    } else {
        let envelope: Option<Vec<u8>> = db
            .query_row(
                "SELECT envelope FROM outbox WHERE number = ?1",
                [signed(ack.number)],
                |row| row.get(0),
            )
            .optional()
            .map_err(doing("read a report"))?;
        envelope.map(|bytes| digest_of(&bytes)).transpose()?
    };
    Ok(own.is_some_and(|own| own != theirs))
}

fn envelope(bytes: &[u8]) -> Result<Envelope, StateError> {
    Envelope::from_json(bytes).map_err(|error| StateError::Value {
        what: "report".into(),
        problem: error.to_string(),
    })
}

fn digest_of(bytes: &[u8]) -> Result<Digest, StateError> {
    Ok(Digest::of(envelope(bytes)?.unverified_payload()))
}

/// Begins a new numbering, that of `next`: all that waits is queued again under it, with its times, after
/// one report that says so and why (`who`).
///
/// # Errors
/// [`StateError`]
pub fn renumber(
    db: &Connection,
    author: &Author<'_>,
    next: &SiteIdentity,
    who: &str,
) -> Result<(), StateError> {
    let waiting = waiting(db, 0, usize::MAX)?;
    let waited = cursor(db)?.acknowledged < meta(db, key::REQUEST_UNTIL)?.unwrap_or(1);
    db.execute("DELETE FROM outbox", [])
        .map_err(doing("renumber reports"))?;
    set_meta(db, key::OUTBOX, Some(&Cursor::default()))?;
    // What the site's values are is stated once more under the new numbering.
    set_meta::<u64>(db, key::SITE_VALUES_REPORTED, None)?;
    // A request that was answered need not be brought home again.
    set_meta(db, key::REQUEST_UNTIL, Some(&u64::from(waited)))?;
    let author = Author {
        site: next,
        ..*author
    };
    let reported = ReportEvent::Decision {
        what: "renumber".to_owned(),
        who: who.to_owned(),
        number: None,
        assignment: None,
        reason: None,
    };
    append(db, &author, reported)?;
    for row in waiting {
        let report = Report::from_bytes(envelope(&row.envelope)?.unverified_payload());
        let report = report.map_err(|error| StateError::Value {
            what: "report".into(),
            problem: error.to_string(),
        })?;
        // A gap of the old numbering is none of the new one.
        if !matches!(report.event, ReportEvent::Gap { .. }) {
            append_at(db, &author, report.at, report.event)?;
        }
    }
    Ok(())
}

/// Drops what says least until a quarter of the box is free again, and reports the gaps.
fn make_room(db: &Connection, author: &Author<'_>) -> Result<(), StateError> {
    let wanted = author.max_rows - author.max_rows / 4;
    // The newest of each of these is the state that the hub must learn.
    let newest: BTreeSet<u64> = ["observation", "active", "passage"]
        .into_iter()
        .map(|class| newest(db, class))
        .collect::<Result<Vec<_>, _>>()?
        .into_iter()
        .flatten()
        .collect();
    let mut dropped = false;
    for class in DROPPABLE {
        for number in numbers(db, class)? {
            if count(db)? <= wanted {
                break;
            }
            if !newest.contains(&number) {
                remove(db, number)?;
                dropped = true;
            }
        }
    }
    if !dropped {
        return Ok(());
    }
    // Old gap reports are folded into fewer, wider ones: their own numbers are gaps then, too.
    for number in numbers(db, "gap")? {
        remove(db, number)?;
    }
    for (from, to) in gaps(db)? {
        let reason = "the outbox was full: older observations were merged".to_owned();
        append(db, author, ReportEvent::Gap { from, to, reason })?;
    }
    Ok(())
}

/// Ranges of numbers after the acknowledged ones that are in the box no more.
fn gaps(db: &Connection) -> Result<Vec<(u64, u64)>, StateError> {
    let cursor = cursor(db)?;
    let mut query = db
        .prepare("SELECT number FROM outbox ORDER BY number")
        .map_err(doing("read reports"))?;
    let present = query
        .query_map([], |row| row.get(0).map(unsigned))
        .map_err(doing("read reports"))?
        .collect::<Result<Vec<u64>, _>>()
        .map_err(doing("read reports"))?;
    let mut gaps = Vec::new();
    let mut next = cursor.acknowledged + 1;
    for number in present.into_iter().chain([cursor.last + 1]) {
        if number > next {
            gaps.push((next, number - 1));
        }
        next = number + 1;
    }
    Ok(gaps)
}

fn numbers(db: &Connection, class: &str) -> Result<Vec<u64>, StateError> {
    let mut query = db
        .prepare("SELECT number FROM outbox WHERE class = ?1 ORDER BY number")
        .map_err(doing("read reports"))?;
    query
        .query_map([class], |row| row.get(0).map(unsigned))
        .map_err(doing("read reports"))?
        .collect::<Result<_, _>>()
        .map_err(doing("read reports"))
}

fn newest(db: &Connection, class: &str) -> Result<Option<u64>, StateError> {
    db.query_row(
        "SELECT number FROM outbox WHERE class = ?1 ORDER BY number DESC LIMIT 1",
        [class],
        |row| row.get(0).map(unsigned),
    )
    .optional()
    .map_err(doing("read reports"))
}

fn remove(db: &Connection, number: u64) -> Result<(), StateError> {
    db.execute("DELETE FROM outbox WHERE number = ?1", [signed(number)])
        .map_err(doing("drop a report"))?;
    Ok(())
}
