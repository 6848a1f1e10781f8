//! A database that was removed or cut short while a process worked with it: all that is in it, saved before that process ends.
//!
//! What comes in: the open database, which has no name any more or lost its end, and its path. What goes out: below `rescued/` in the state folder a
//! whole copy of it, and the reports in it that the hub has not acknowledged, as they travel; and in `site.json` how many were made. No copy that is
//! whole is written over; what an ended process left of one is removed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use outhaul_bundle::Digest;
use outhaul_bundle::report::MAX_REPORTS_AT_ONCE_BYTES;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use super::folder_identity::FolderIdentity;
use super::former::{DATABASE, Former};
use super::{SiteIdentity, StateError, doing, key, meta, outbox};
use crate::aside;
use crate::durable::{self, FileError, at};
use crate::state_folder::{REPORTS, RESCUED};

/// Reports as they travel.
const REPORTS_MODE: u32 = 0o644;

/// How the names of copies end that are being written, after the id of the process that writes them.
const PART: &str = "part";
/// Zeros in a row that no value of the agent's has: they are text, and digests.
const HOLE: usize = 64;

/// Saves the database that was removed from `path`.
pub(super) fn save(db: &Connection, path: &Path) -> Former {
    saved(db, path, |_| Ok(()))
}

/// Saves the database at `path`, which was cut short, as far as this process still has it: SQLite takes what is missing for zeros, so that a
/// copy counts only where none are in it.
pub(super) fn save_shortened(db: &Connection, path: &Path) -> Former {
    saved(db, path, |copy| {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let found = Connection::open_with_flags(copy, flags).and_then(|copy| has_holes(&copy));
        match found {
            Ok(false) => Ok(()),
            Ok(true) => Err(damaged(copy, "parts of it are zeros".to_owned())),
            Err(error) => Err(damaged(copy, error.to_string())),
        }
    })
}

fn saved(db: &Connection, path: &Path, check: impl Fn(&Path) -> Result<(), StateError>) -> Former {
    let folder = path.parent().unwrap_or(path).join(RESCUED);
    remove_leftovers(&folder);
    note_numbers(db, path);
    // First what nobody can have again: where there is no space for all of it, the rest comes back with a backup, or a kit and a bundle.
    let reports = own_reports(db, &folder);
    match (copy(db, &folder, check), reports) {
        (Ok(saved), Ok(_)) => Former::Rescued(saved),
        (Ok(saved), Err(error)) => {
            // They are in the copy, too.
            tracing::warn!(
                "the waiting reports are in `{}`, and were not written beside it: {error}",
                saved.display()
            );
            Former::Rescued(saved)
        }
        (Err(error), reports) => {
            let problem = match path.exists() && is_lost(&error) {
                true => "parts of it are gone".to_owned(),
                false => with_space(db, &folder, &error),
            };
            match reports {
                Ok(0) => Former::NotSaved(problem),
                Ok(_) => Former::ReportsSaved {
                    folder: folder.join(REPORTS),
                    problem,
                },
                Err(_) => Former::Lost(problem),
            }
        }
    }
}

/// Notes in `site.json` how many reports were made, which the database may say for the last time: an older copy in its place would give their
/// numbers once more.
fn note_numbers(db: &Connection, path: &Path) {
    let made = || -> Result<(), StateError> {
        match meta::<SiteIdentity>(db, key::SITE)? {
            Some(site) => {
                let last = outbox::cursor(db)?.last;
                Ok(FolderIdentity::raise(path, &site.epoch, last)?)
            }
            None => Ok(()),
        }
    };
    if let Err(error) = made() {
        // Of a database that was cut short, what is said is that.
        if is_lost(&error) || matches!(error, StateError::Value { .. }) {
            return;
        }
        tracing::warn!("how many reports this site has made is not noted in `site.json`: {error}");
    }
}

/// Whether it is what was lost that keeps the rest from being read.
fn is_lost(error: &StateError) -> bool {
    let lost = [
        ErrorCode::DatabaseCorrupt,
        ErrorCode::NotADatabase,
        // Pages that the system does not give.
        ErrorCode::SystemIoFailure,
    ];
    match error {
        StateError::Damaged { .. } => true,
        StateError::Database { source, .. } => source
            .sqlite_error_code()
            .is_some_and(|code| lost.contains(&code)),
        _ => false,
    }
}

fn damaged(copy: &Path, problem: String) -> StateError {
    StateError::Damaged {
        path: copy.to_owned(),
        problem,
    }
}

/// Whether a value in any table is zeros for longer than any that the agent writes: an end of the file that was not there was read as that.
pub(super) fn has_holes(db: &Connection) -> rusqlite::Result<bool> {
    let verdict: String = db.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if verdict != "ok" {
        return Ok(true);
    }
    let mut query = db.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'")?;
    let tables = query.query_map([], |row| row.get::<_, String>(0))?;
    for table in tables {
        let mut query = db.prepare(&format!("SELECT * FROM \"{}\"", table?))?;
        let columns = query.column_count();
        let mut rows = query.query([])?;
        while let Some(row) = rows.next()? {
            for column in 0..columns {
                let value = row.get_ref(column)?;
                let is_hole = |bytes: &[u8]| {
                    bytes
                        .split(|byte| *byte != 0)
                        .any(|zeros| zeros.len() >= HOLE)
                };
                // Numbers have none: a page of zeros has no cells.
                if let ValueRef::Text(bytes) | ValueRef::Blob(bytes) = value
                    && is_hole(bytes)
                {
                    return Ok(true);
                }
            }
        }
    }
    Ok(false)
}

/// What a copy of all of it needs, and what there is.
fn with_space(db: &Connection, folder: &Path, error: &StateError) -> String {
    let number = |name: &str| {
        let found = db.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        found.map(i64::unsigned_abs)
    };
    let needed =
        number("page_count").and_then(|count| Ok(count.saturating_mul(number("page_size")?)));
    let there = folder.ancestors().find(|above| above.exists());
    let free = there.and_then(|there| durable::free_bytes(there).ok());
    match (needed, free) {
        (Ok(needed), Some(free)) if free < needed => format!(
            "{error}: {} KiB are needed on its file system, and {} KiB are free",
            needed.div_ceil(1024),
            free / 1024
        ),
        _ => error.to_string(),
    }
}

/// Removes what a process left of a copy that it could not finish. What cannot be removed costs space and nothing else.
pub(crate) fn remove_leftovers(folder: &Path) {
    let is_gone = |name: &str| {
        let id = name.split('.').next().and_then(|id| id.parse().ok());
        id.and_then(Pid::from_raw)
            .is_some_and(|id| matches!(test_kill_process(id), Err(Errno::SRCH)))
    };
    for path in durable::list(folder).unwrap_or_default() {
        let name = path.file_name().and_then(|name| name.to_str());
        let is_part = |name: &&str| {
            name.split('.')
                .nth(1)
                .is_some_and(|end| end.starts_with(PART))
        };
        if name.filter(is_part).is_some_and(is_gone) {
            let _ = durable::remove_file(&path);
        }
    }
}

/// Writes a whole copy into `folder`; nothing of it stays on an error.
fn copy(
    db: &Connection,
    folder: &Path,
    check: impl Fn(&Path) -> Result<(), StateError>,
) -> Result<PathBuf, StateError> {
    durable::make_folder(folder)?;
    let site: Option<SiteIdentity> = meta(db, key::SITE)?;
    let epoch = site.as_ref().map_or("none", |site| site.epoch.as_str());
    let last = outbox::cursor(db)?.last;
    let saved = folder.join(format!("{epoch}-{last}.{DATABASE}"));
    // Another process that worked with the same one was faster. What it left has to be whole, too; else this one takes its place.
    if saved.exists() && check(&saved).is_ok() {
        return Ok(saved);
    }
    let part = folder.join(format!("{}.{PART}", std::process::id()));
    let written = written(db, &part).and_then(|()| check(&part));
    let written = written.and_then(|()| Ok(durable::rename(&part, &saved)?));
    if written.is_err() {
        for end in ["", "-journal"] {
            let _ = durable::remove_file(&aside::ending(&part, end));
        }
    }
    written.map(|()| saved)
}

fn written(db: &Connection, part: &Path) -> Result<(), StateError> {
    durable::remove_file(part)?;
    let file = durable::create(part, durable::SECRET_MODE)?;
    db.execute("VACUUM INTO ?1", [part.to_string_lossy()])
        .map_err(doing("save all that is in it"))?;
    Ok(file.sync_all().map_err(at("sync", part))?)
}

/// Writes the waiting reports beside the copy; returns how many there are.
fn own_reports(db: &Connection, folder: &Path) -> Result<u64, StateError> {
    match meta::<SiteIdentity>(db, key::SITE)? {
        Some(site) => write_reports(db, &site, &folder.join(REPORTS)),
        None => Ok(0),
    }
}

/// Writes the reports that the hub has not acknowledged as `export` writes them onto a stick, as many of the first ones as there is space for;
/// returns how many there are.
///
/// # Errors
/// [`StateError`] where they cannot be read or written.
pub(crate) fn write_reports(
    db: &Connection,
    site: &SiteIdentity,
    folder: &Path,
) -> Result<u64, StateError> {
    let (mut after, mut count, mut most) = (0, 0, MAX_REPORTS_AT_ONCE_BYTES / 2);
    loop {
        let batch = outbox::waiting(db, after, most)?;
        let (Some(first), Some(last)) = (batch.first(), batch.last()) else {
            return Ok(count);
        };
        durable::make_folder(folder)?;
        // Of a database that was cut short: a report that is not whole is none.
        if let Some(row) = batch.iter().find(|row| row.envelope.contains(&0)) {
            let what = format!("report {}", row.number);
            let problem = "it is not whole any more".to_owned();
            return Err(StateError::Value { what, problem });
        }
        let (first, last) = (first.number, last.number);
        let name = outbox::file_name(site, first, last);
        let lines = batch.iter().map(|row| &row.envelope[..]);
        let mut bytes = lines.collect::<Vec<_>>().join(&b'\n');
        bytes.push(b'\n');
        let path = folder.join(name);
        match write_once(&path, &bytes) {
            Ok(()) => remove_contained(folder, site, &path, &bytes),
            // Half of them may have room.
            Err(_) if batch.len() > 1 => {
                most = bytes.len() / 2;
                continue;
            }
            Err(error) => return Err(error.into()),
        }
        count += batch.len() as u64;
        after = last;
    }
}

/// Writes a file that may be there already: a disk that is full has no space for another one in its place.
fn write_once(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let there = durable::read_if_present(path, bytes.len() as u64);
    match there.is_ok_and(|there| there.as_deref() == Some(bytes)) {
        true => Ok(()),
        false => durable::write(path, bytes, REPORTS_MODE),
    }
}

/// Removes the files of which every report is in the one at `path` as well: what was saved of them while the disk was full. One that cannot be removed is
/// brought to the hub once more, and does no harm.
fn remove_contained(folder: &Path, site: &SiteIdentity, path: &Path, bytes: &[u8]) {
    let lines = |bytes: &[u8]| -> BTreeSet<Digest> {
        bytes.split(|byte| *byte == b'\n').map(Digest::of).collect()
    };
    let all = lines(bytes);
    for other in durable::list(folder).unwrap_or_default() {
        let name = other.file_name().and_then(|name| name.to_str());
        let of = name.and_then(|name| outbox::of_file_name(name, &site.name));
        if other == path || of.is_none_or(|(epoch, ..)| epoch != site.epoch.as_str()) {
            continue;
        }
        let found = durable::read(&other, bytes.len() as u64);
        if found.is_ok_and(|found| lines(&found).is_subset(&all)) {
            let _ = durable::remove_file(&other);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::saved::beside;
    use super::*;
    use crate::state::{Store, set_meta};

    /// A copy of a database that is no site's is no way back.
    fn site() -> SiteIdentity {
        serde_json::from_value(serde_json::json!({
            "fleet": "acme", "name": "press-7", "epoch": "e1", "hub_url": "", "hub_key": "",
            "stream": { "role": "s-1", "environment": "dev", "cluster_type": "drone" },
        }))
        .unwrap()
    }

    #[test]
    fn a_removed_database_is_saved_whole_and_one_that_was_moved_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.db");
        let mut store = Store::open(&path).unwrap();
        let set = store.commit(|db| {
            set_meta(db, key::SITE, Some(&site()))?;
            set_meta(db, key::ACTIVE, Some(&7))
        });
        let _: () = set.unwrap();
        let aside = folder.path().join("aside.db");
        fs::rename(&path, &aside).unwrap();
        let moved = store.check_place();
        let Err(StateError::Exchanged { former, .. }) = moved else {
            unreachable!("it is gone");
        };
        assert_eq!((former, beside(&path)), (Former::Elsewhere, None));
        for name in ["aside.db", "agent.db-wal", "agent.db-shm"] {
            fs::remove_file(folder.path().join(name)).unwrap();
        }
        for _ in 0..2 {
            let Err(StateError::Exchanged { former, .. }) = store.check_place() else {
                unreachable!("it is gone");
            };
            let saved = beside(&path).unwrap();
            assert_eq!(former, Former::Rescued(saved.clone()));
            let found = Store::open(&saved).unwrap();
            assert_eq!(meta(found.read(), key::ACTIVE).unwrap(), Some(7));
        }
        drop(store);
    }

    #[test]
    fn one_that_is_closed_after_it_was_removed_is_saved_and_one_that_was_moved_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.db");
        let opened = || {
            let mut store = Store::open(&path).unwrap();
            let set = store.commit(|db| {
                set_meta(db, key::SITE, Some(&site()))?;
                set_meta(db, key::ACTIVE, Some(&7))
            });
            let _: () = set.unwrap();
            store
        };
        let store = opened();
        fs::rename(&path, folder.path().join("aside.db")).unwrap();
        drop(store);
        assert_eq!(beside(&path), None);
        for name in ["agent.db-wal", "agent.db-shm"] {
            let _ = fs::remove_file(folder.path().join(name));
        }
        let store = opened();
        fs::remove_file(&path).unwrap();
        drop(store);
        let found = Store::open(&beside(&path).unwrap()).unwrap();
        assert_eq!(meta(found.read(), key::ACTIVE).unwrap(), Some(7));
    }

    #[test]
    fn one_that_is_cut_short_is_saved_where_all_of_it_is_still_to_be_read_and_else_not() {
        for is_in_file in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("agent.db");
            let mut store = Store::open(&path).unwrap();
            // Longer than a page, in which zeros would be found.
            let long = "x".repeat(20_000);
            let set = store.commit(|db| {
                set_meta(db, key::ACTIVE, Some(&7))?;
                // As every site that works has them: a row with a number.
                db.execute(
                    "INSERT INTO outbox (number, class, envelope) VALUES (1, 'started', X'7b7d')",
                    [],
                )
                .unwrap();
                set_meta(db, key::HOLD, Some(&long))
            });
            let _: () = set.unwrap();
            if is_in_file {
                let done =
                    store
                        .read()
                        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
                done.unwrap();
                store.check_place().unwrap();
            }
            let file = fs::File::options().write(true).open(&path).unwrap();
            let length = file.metadata().unwrap().len();
            file.set_len(length - 4096).unwrap();
            let Err(StateError::Shortened { former, .. }) = store.check_place() else {
                unreachable!("it is shorter");
            };
            let names: Vec<_> = durable::list(&folder.path().join(RESCUED)).unwrap();
            match (is_in_file, former) {
                (false, Former::Rescued(saved)) => {
                    let found = Store::open(&saved).unwrap();
                    assert_eq!(meta(found.read(), key::ACTIVE).unwrap(), Some(7));
                }
                (true, Former::NotSaved(problem) | Former::Lost(problem)) => {
                    assert_eq!(problem, "parts of it are gone");
                    assert_eq!(names, Vec::<PathBuf>::new(), "no part of a copy stays");
                }
                (_, former) => unreachable!("{former:?}"),
            }
        }
    }

    #[test]
    fn what_a_process_left_that_is_gone_is_removed_and_what_another_one_writes_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        let own = format!("{}.part", std::process::id());
        for name in [
            &own,
            &format!("{}.part", ended.id()),
            "e1-3.db",
            "old.partial",
        ] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        fs::write(
            folder.path().join(format!("{}.part-journal", ended.id())),
            "",
        )
        .unwrap();
        remove_leftovers(folder.path());
        let mut left: Vec<_> = durable::list(folder.path()).unwrap();
        left.sort();
        let mut expected =
            [own.as_str(), "e1-3.db", "old.partial"].map(|name| folder.path().join(name));
        expected.sort();
        assert_eq!(left, expected);
    }

    #[test]
    fn where_it_cannot_be_saved_the_error_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.db");
        let store = Store::open(&path).unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(folder.path().join(RESCUED), "a file").unwrap();
        let error = store.check_place().unwrap_err();
        assert!(matches!(
            &error,
            StateError::Exchanged {
                former: Former::NotSaved(_),
                ..
            }
        ));
        let printed = error.to_string();
        assert!(printed.contains("could not be saved"), "{printed}");
    }
}
