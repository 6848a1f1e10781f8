//! Generations, their states, the journal of how they got there, and what people decided about them.
//!
//! What comes in: an open transaction and one change. What goes out: rows. It decides nothing: which
//! state follows which is the machine's business.

use std::collections::BTreeSet;

use outhaul_bundle::Digest;
use outhaul_bundle::index::{Snapshot, Stream};
use outhaul_bundle::report::AssignmentResult;
use outhaul_signer::TrustedMetadata;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{Note, StateError, digest, doing, from_json, key, meta, signed, to_json, unsigned};
use crate::machine::State;

/// One bundle that this site knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Generation {
    /// Its number in the stream.
    pub number: u64,
    /// Digest of its `index.json`.
    pub index: Digest,
    /// Where it stands.
    pub state: State,
    /// Its stream.
    pub stream: Stream,
    /// The commits that it was rendered from.
    pub snapshot: Snapshot,
    /// File or URL that it came from.
    pub source: String,
    /// Why it stands there.
    pub note: Note,
    /// Whether it was active once.
    pub good: bool,
    /// Whether its folder is on disk.
    pub whole: bool,
    /// The public keys of its stream that signed it; none, for one that an earlier agent took.
    pub signers: BTreeSet<String>,
}

const COLUMNS: &str = "number, index_digest, state, stream, snapshot, source, note, good, whole, signers, health, blocked";

type Raw = (
    i64,
    String,
    String,
    String,
    String,
    String,
    String,
    bool,
    bool,
    String,
    String,
    String,
);

fn raw(row: &Row<'_>) -> rusqlite::Result<Raw> {
    Ok((
        row.get(0)?,
        row.get(1)?,
        row.get(2)?,
        row.get(3)?,
        row.get(4)?,
        row.get(5)?,
        row.get(6)?,
        row.get(7)?,
        row.get(8)?,
        row.get(9)?,
        row.get(10)?,
        row.get(11)?,
    ))
}

fn typed(raw: Raw) -> Result<Generation, StateError> {
    let (
        number,
        index,
        state,
        stream,
        snapshot,
        source,
        why,
        good,
        whole,
        signers,
        health,
        blocked,
    ) = raw;
    let unknown = || StateError::Value {
        what: "state".into(),
        problem: format!("`{state}`"),
    };
    Ok(Generation {
        number: unsigned(number),
        index: digest(&index)?,
        state: State::from_word(&state).ok_or_else(unknown)?,
        stream: from_json("stream", &stream)?,
        snapshot: from_json("snapshot", &snapshot)?,
        source,
        note: Note {
            why,
            health,
            blocked,
        },
        good,
        whole,
        signers: from_json("signers", &signers)?,
    })
}

/// Every generation, newest first.
///
/// # Errors
/// [`StateError`] when the database does not answer, or holds what does not fit.
pub fn all(db: &Connection) -> Result<Vec<Generation>, StateError> {
    let sql = format!("SELECT {COLUMNS} FROM generation ORDER BY number DESC");
    let mut query = db.prepare(&sql).map_err(doing("read generations"))?;
    let rows = query
        .query_map([], raw)
        .map_err(doing("read generations"))?;
    rows.map(|row| typed(row.map_err(doing("read generations"))?))
        .collect()
}

/// One generation.
///
/// # Errors
/// [`StateError`] when the database does not answer, or holds what does not fit.
pub fn one(db: &Connection, number: u64) -> Result<Option<Generation>, StateError> {
    let sql = format!("SELECT {COLUMNS} FROM generation WHERE number = ?1");
    let row = db
        .query_row(&sql, [signed(number)], raw)
        .optional()
        .map_err(doing("read a generation"))?;
    row.map(typed).transpose()
}

/// Writes a generation's row, whatever was there.
///
/// # Errors
/// [`StateError`] when the database does not answer, or holds what does not fit.
pub fn put(db: &Connection, generation: &Generation) -> Result<(), StateError> {
    db.execute(
        "INSERT OR REPLACE INTO generation
         (number, index_digest, state, stream, snapshot, source, note, good, whole, signers, health, blocked)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        params![
            signed(generation.number),
            generation.index.to_string(),
            generation.state.as_str(),
            to_json(&generation.stream),
            to_json(&generation.snapshot),
            generation.source,
            generation.note.why,
            generation.good,
            generation.whole,
            to_json(&generation.signers),
            generation.note.health,
            generation.note.blocked,
        ],
    )
    .map_err(doing("store a generation"))?;
    Ok(())
}

/// Forgets a generation that never reached the disk.
///
/// # Errors
/// [`StateError`] when the database does not answer, or holds what does not fit.
pub fn forget(db: &Connection, number: u64) -> Result<(), StateError> {
    db.execute("DELETE FROM generation WHERE number = ?1", [signed(number)])
        .map_err(doing("forget a generation"))?;
    Ok(())
}

/// Adds a line to the journal.
///
/// # Errors
/// [`StateError`] when the database does not answer, or holds what does not fit.
pub fn journal(
    db: &Connection,
    number: u64,
    at_ms: i64,
    what: &str,
    detail: &str,
) -> Result<(), StateError> {
    db.execute(
        "INSERT INTO journal (number, at_ms, what, detail) VALUES (?1, ?2, ?3, ?4)",
        params![signed(number), at_ms, what, detail],
    )
    .map_err(doing("write the journal"))?;
    // Evidence of some hundred bundles; the hub has the rest.
    db.execute(
        "DELETE FROM journal WHERE id <= (SELECT max(id) FROM journal) - 5000",
        [],
    )
    .map_err(doing("trim the journal"))?;
    Ok(())
}

/// Records an assignment's result in a pass.
///
/// # Errors
/// [`StateError`] when the database does not answer, or holds what does not fit.
pub fn record(db: &Connection, pass: &str, result: &AssignmentResult) -> Result<(), StateError> {
    db.execute(
        "INSERT OR REPLACE INTO result (pass, assignment, value) VALUES (?1, ?2, ?3)",
        params![pass, result.name.as_str(), to_json(result)],
    )
    .map_err(doing("store a result"))?;
    Ok(())
}

/// The recorded results of a pass.
///
/// # Errors
/// [`StateError`] when the database does not answer, or holds what does not fit.
pub fn results(db: &Connection, pass: &str) -> Result<Vec<AssignmentResult>, StateError> {
    let mut query = db
        .prepare("SELECT value FROM result WHERE pass = ?1 ORDER BY assignment")
        .map_err(doing("read results"))?;
    let rows = query
        .query_map([pass], |row| row.get::<_, String>(0))
        .map_err(doing("read results"))?;
    rows.map(|row| from_json("result", &row.map_err(doing("read results"))?))
        .collect()
}

/// Forgets the results of a pass, before it is begun again or when it is over.
///
/// # Errors
/// [`StateError`] when the database does not answer, or holds what does not fit.
pub fn forget_results(db: &Connection, pass: &str) -> Result<(), StateError> {
    db.execute("DELETE FROM result WHERE pass = ?1", [pass])
        .map_err(doing("forget results"))?;
    Ok(())
}

/// Remembers content that is not to be tried again.
///
/// # Errors
/// [`StateError`] when the database does not answer, or holds what does not fit.
pub fn remember(
    db: &Connection,
    index: &Digest,
    number: u64,
    reason: &str,
) -> Result<(), StateError> {
    db.execute(
        "INSERT OR REPLACE INTO failed (index_digest, number, reason) VALUES (?1, ?2, ?3)",
        params![index.to_string(), signed(number), reason],
    )
    .map_err(doing("remember a failure"))?;
    Ok(())
}

/// Why content is not to be tried again, if so.
///
/// # Errors
/// [`StateError`] when the database does not answer, or holds what does not fit.
pub fn remembered(db: &Connection, index: &Digest) -> Result<Option<String>, StateError> {
    db.query_row(
        "SELECT reason FROM failed WHERE index_digest = ?1",
        [index.to_string()],
        |row| row.get(0),
    )
    .optional()
    .map_err(doing("read failures"))
}

/// Records a person's yes; it also forgets an earlier failure of the same content.
///
/// # Errors
/// [`StateError`] when the database does not answer, or holds what does not fit.
pub fn approve(db: &Connection, index: &Digest, who: &str) -> Result<(), StateError> {
    db.execute(
        "INSERT OR REPLACE INTO approval (index_digest, who) VALUES (?1, ?2)",
        params![index.to_string(), who],
    )
    .map_err(doing("store an approval"))?;
    db.execute(
        "DELETE FROM failed WHERE index_digest = ?1",
        [index.to_string()],
    )
    .map_err(doing("forget a failure"))?;
    Ok(())
}

/// Who said yes to this content, if anybody did.
///
/// # Errors
/// [`StateError`] when the database does not answer, or holds what does not fit.
pub fn approval(db: &Connection, index: &Digest) -> Result<Option<String>, StateError> {
    db.query_row(
        "SELECT who FROM approval WHERE index_digest = ?1",
        [index.to_string()],
        |row| row.get(0),
    )
    .optional()
    .map_err(doing("read approvals"))
}

/// The number of the active generation.
///
/// # Errors
/// [`StateError`]
pub fn active(db: &Connection) -> Result<Option<u64>, StateError> {
    meta(db, key::ACTIVE)
}

/// Whether a key that signed this bundle was taken away from its stream since. Its number is nobody's
/// then: floors fall for the fleet's own, lower numbers, and so does what the site has met under it.
pub fn is_taken_back(row: &Generation, trusted: &TrustedMetadata) -> bool {
    let now = trusted.stream_keys(row.stream.role.as_str());
    now.is_some_and(|now| !row.signers.is_subset(&now))
}
