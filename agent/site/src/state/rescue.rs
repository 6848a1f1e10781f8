//! A database that was removed while a process worked with it: all that is in it, saved before that process ends.
//!
//! What comes in: the open database, which has no name any more, and its former path. What goes out: below `rescued/` in the state folder a
//! whole copy of it, and the reports in it that the hub has not acknowledged, as they travel. Nothing that is there is written over.

use std::path::{Path, PathBuf};

use outhaul_bundle::report::MAX_REPORTS_AT_ONCE_BYTES;
use rusqlite::Connection;

use super::former::{DATABASE, FOLDER, Former, REPORTS};
use super::{SiteIdentity, StateError, doing, key, meta, outbox};
use crate::durable::{self, at};

/// Reports as they travel.
const REPORTS_MODE: u32 = 0o644;

/// Saves the database that was removed from `path`.
pub(super) fn save(db: &Connection, path: &Path) -> Former {
    match write(db, path) {
        Ok(saved) => Former::Rescued(saved),
        Err(error) => Former::Lost(error.to_string()),
    }
}

fn write(db: &Connection, path: &Path) -> Result<PathBuf, StateError> {
    let folder = path.parent().unwrap_or(path).join(FOLDER);
    durable::make_folder(&folder)?;
    let site: Option<SiteIdentity> = meta(db, key::SITE)?;
    let epoch = site.as_ref().map_or("none", |site| site.epoch.as_str());
    let last = outbox::cursor(db)?.last;
    let saved = folder.join(format!("{epoch}-{last}.{DATABASE}"));
    // Another process that worked with the same one was faster.
    if !saved.exists() {
        let part = folder.join(format!("{}.part", std::process::id()));
        durable::remove_file(&part)?;
        let file = durable::create(&part, durable::SECRET_MODE)?;
        db.execute("VACUUM INTO ?1", [part.to_string_lossy()])
            .map_err(doing("save the removed database"))?;
        file.sync_all().map_err(at("sync", &part))?;
        durable::rename(&part, &saved)?;
    }
    if let Some(site) = site
        && let Err(error) = write_reports(db, &site, &folder.join(REPORTS))
    {
        // They are in the copy, too.
        tracing::warn!(
            "the waiting reports are in `{}`, and were not written beside it: {error}",
            saved.display()
        );
    }
    Ok(saved)
}

/// Writes the reports that the hub has not acknowledged as `export` writes them onto a stick.
///
/// # Errors
/// [`StateError`] where they cannot be read or written.
pub(crate) fn write_reports(
    db: &Connection,
    site: &SiteIdentity,
    folder: &Path,
) -> Result<(), StateError> {
    let mut after = 0;
    loop {
        let batch = outbox::waiting(db, after, MAX_REPORTS_AT_ONCE_BYTES / 2)?;
        let (Some(first), Some(last)) = (batch.first(), batch.last()) else {
            return Ok(());
        };
        durable::make_folder(folder)?;
        let (first, last) = (first.number, last.number);
        let name = format!("{}-{}-{first}-{last}.reports", site.name, site.epoch);
        let lines = batch.iter().map(|row| &row.envelope[..]);
        let mut bytes = lines.collect::<Vec<_>>().join(&b'\n');
        bytes.push(b'\n');
        durable::write(&folder.join(name), &bytes, REPORTS_MODE)?;
        after = last;
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::former::saved_beside as beside;
    use super::*;
    use crate::state::{Store, set_meta};

    #[test]
    fn a_removed_database_is_saved_whole_and_one_that_was_moved_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.db");
        let mut store = Store::open(&path).unwrap();
        let set = store.commit(|db| set_meta(db, key::ACTIVE, Some(&7)));
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
            let set = store.commit(|db| set_meta(db, key::ACTIVE, Some(&7)));
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
    fn where_it_cannot_be_saved_the_error_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.db");
        let store = Store::open(&path).unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(folder.path().join(FOLDER), "a file").unwrap();
        let error = store.check_place().unwrap_err();
        assert!(matches!(
            &error,
            StateError::Exchanged {
                former: Former::Lost(_),
                ..
            }
        ));
        let printed = error.to_string();
        assert!(printed.contains("could not be saved"), "{printed}");
    }
}
