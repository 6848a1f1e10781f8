//! The database's shape, version by version. `user_version` says which one a file has.
//!
//! What comes in: an open database of any version up to the newest. What goes out: the newest, reached
//! in one transaction per step. A released step is never edited, only followed by another.

use std::collections::BTreeSet;

use rusqlite::{Connection, TransactionBehavior};

use super::{StateError, doing};

const STEPS: [&str; 4] = [V1, V2, V3, V4];

// What is said of a bundle, part by part; until then all of it was one text, and its parts were known by how they begin.
const V4: &str = "
ALTER TABLE generation ADD COLUMN health TEXT NOT NULL DEFAULT '';
ALTER TABLE generation ADD COLUMN blocked TEXT NOT NULL DEFAULT '';
UPDATE generation
   SET blocked = SUBSTR(note, INSTR(note, 'it cannot go on: ') + 17),
       note = RTRIM(SUBSTR(note, 1, INSTR(note, 'it cannot go on: ') - 1), '; ')
 WHERE INSTR(note, 'it cannot go on: ') > 0;
UPDATE generation
   SET health = SUBSTR(note, INSTR(note, 'healthy so far; ')),
       note = RTRIM(SUBSTR(note, 1, INSTR(note, 'healthy so far; ') - 1), '; ')
 WHERE state = 'soaking' AND INSTR(note, 'healthy so far; ') > 0;
";

// Which keys signed a bundle: the numbers of a key that the fleet took away keep no other bundle out.
const V3: &str = "
ALTER TABLE generation ADD COLUMN signers TEXT NOT NULL DEFAULT '[]';
";

// What commands ask of the service that holds the lock; the answer is null until the work is done.
const V2: &str = "
CREATE TABLE call (
    id     INTEGER PRIMARY KEY AUTOINCREMENT,
    what   TEXT NOT NULL,
    answer TEXT
) STRICT;
";

const V1: &str = "
CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- The signed metadata that was last accepted, byte for byte, and the highest versions ever accepted.
CREATE TABLE trusted (
    name  TEXT PRIMARY KEY,
    bytes BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE floor (
    name    TEXT PRIMARY KEY,
    version INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE generation (
    number       INTEGER PRIMARY KEY,
    index_digest TEXT NOT NULL,
    state        TEXT NOT NULL,
    stream       TEXT NOT NULL,
    snapshot     TEXT NOT NULL,
    source       TEXT NOT NULL,
    note         TEXT NOT NULL DEFAULT '',
    good         INTEGER NOT NULL DEFAULT 0, -- was active once
    whole        INTEGER NOT NULL DEFAULT 0  -- its folder is on disk
) STRICT;

-- One row per transition and per intent: what happened, in order. Evidence, and where to go on.
CREATE TABLE journal (
    id     INTEGER PRIMARY KEY AUTOINCREMENT,
    number INTEGER NOT NULL,
    at_ms  INTEGER NOT NULL,
    what   TEXT NOT NULL,
    detail TEXT NOT NULL
) STRICT;

-- Results of the assignments of one pass (apply 7, revert 7): a recorded one is not run again.
CREATE TABLE result (
    pass       TEXT NOT NULL,
    assignment TEXT NOT NULL,
    value      TEXT NOT NULL,
    PRIMARY KEY (pass, assignment)
) STRICT, WITHOUT ROWID;

-- What the agent itself put on this host. The only source of removals.
CREATE TABLE inventory (
    kind       TEXT NOT NULL,
    assignment TEXT NOT NULL,
    item       TEXT NOT NULL,
    digest     TEXT NOT NULL,
    before     TEXT NOT NULL DEFAULT '', -- the digest that an interrupted write may have left in place
    generation INTEGER NOT NULL,
    phase      TEXT NOT NULL CHECK (phase IN ('intent', 'applied', 'left')),
    PRIMARY KEY (kind, assignment, item)
) STRICT, WITHOUT ROWID;

CREATE TABLE approval (
    index_digest TEXT PRIMARY KEY,
    who          TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Content that failed here, or that a person went back from: not tried again.
CREATE TABLE failed (
    index_digest TEXT PRIMARY KEY,
    number       INTEGER NOT NULL,
    reason       TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE outbox (
    number   INTEGER PRIMARY KEY,
    class    TEXT NOT NULL,
    envelope BLOB NOT NULL
) STRICT;
";

/// Every object of a database with the words that made it: `type|name|table|sql`.
///
/// # Errors
/// [`StateError`] when it cannot be read.
pub fn shape(db: &Connection) -> Result<BTreeSet<String>, StateError> {
    let mut query = db
        .prepare(
            "SELECT type || '|' || name || '|' || tbl_name || '|' || COALESCE(sql, '') FROM sqlite_schema",
        )
        .map_err(doing("read its shape"))?;
    query
        .query_map([], |row| row.get(0))
        .map_err(doing("read its shape"))?
        .collect::<Result<_, _>>()
        .map_err(doing("read its shape"))
}

/// The shape that a database of `version` has.
///
/// # Errors
/// [`StateError::Newer`] for a version that this program does not know.
pub fn shape_of(version: i64) -> Result<BTreeSet<String>, StateError> {
    let known = STEPS.len();
    let steps = usize::try_from(version)
        .ok()
        .and_then(|version| STEPS.get(..version));
    let Some(steps) = steps else {
        return Err(StateError::Newer {
            found: version,
            known: i64::try_from(known).unwrap_or(i64::MAX),
        });
    };
    let db = Connection::open_in_memory().map_err(doing("make a shape"))?;
    for step in steps {
        db.execute_batch(step).map_err(doing("make a shape"))?;
    }
    shape(&db)
}

/// Brings the database to the newest version.
pub fn migrate(db: &mut Connection) -> Result<(), StateError> {
    let known = i64::try_from(STEPS.len()).unwrap_or(i64::MAX);
    let found: i64 = db
        .query_row("PRAGMA user_version", [], |row| row.get(0))
        .map_err(doing("read its version"))?;
    if found > known {
        return Err(StateError::Newer { found, known });
    }
    let begun = usize::try_from(found).unwrap_or(0);
    for (step, sql) in STEPS.iter().enumerate().skip(begun) {
        let transaction = db
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(doing("begin a migration"))?;
        // Another process may have been faster while this one waited for the lock.
        let now: i64 = transaction
            .query_row("PRAGMA user_version", [], |row| row.get(0))
            .map_err(doing("read its version"))?;
        if usize::try_from(now).unwrap_or(0) > step {
            continue;
        }
        transaction.execute_batch(sql).map_err(doing("migrate"))?;
        transaction
            .pragma_update(
                None,
                "user_version",
                i64::try_from(step + 1).unwrap_or(i64::MAX),
            )
            .map_err(doing("migrate"))?;
        transaction.commit().map_err(doing("commit a migration"))?;
    }
    Ok(())
}
