//! Whether this process still works where others look: the database that is open is the one at its path, and so is the lock.
//!
//! What comes in: the paths, when they are opened and before each step with the database. What goes out: nothing, or an error that
//! names what is there now. A file that was removed, moved aside or replaced stays open, and SQLite goes on writing into it:
//! what is committed there is lost with the process. Under a lock that others do not see, two processes work at once. It opens no file for
//! its content and changes none.

use std::cell::Cell;
use std::io;
use std::path::Path;

use super::StateError;
use super::former::Former;
use crate::durable::at;
use crate::same_file::SameFile;

/// The file of the database that was just opened at `path`.
pub(super) fn of(path: &Path) -> Result<SameFile, StateError> {
    Ok(SameFile::at(path).map_err(at("look at", path))?)
}

/// Refuses to go on where another database, or none, is at the path.
pub(super) fn check(database: &SameFile) -> Result<(), StateError> {
    let path = database.path();
    let how = match database.changed() {
        Ok(None) => return Ok(()),
        Ok(Some(how)) => how,
        // Who may not look there any more still has the file open: that it has no name is known without its path.
        Err(_) if database.is_removed() => "is gone",
        Err(error) => return Err(at("look at", path)(error).into()),
    };
    Err(StateError::Exchanged {
        path: path.to_owned(),
        how,
        former: Former::Elsewhere,
    })
}

/// Refuses to go on with a file that is shorter than it was: what was in its end is lost, and SQLite would take it for zeros.
pub(super) fn check_length(path: &Path, longest: &Cell<u64>) -> Result<(), StateError> {
    let now = match std::fs::metadata(path) {
        Ok(found) => found.len(),
        // Since it was compared a moment ago.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(StateError::Exchanged {
                path: path.to_owned(),
                how: "is gone",
                former: Former::Elsewhere,
            });
        }
        Err(error) => return Err(at("look at", path)(error).into()),
    };
    let before = longest.get();
    if now < before {
        return Err(StateError::Shortened {
            path: path.to_owned(),
            before,
            now,
            former: Former::Elsewhere,
        });
    }
    longest.set(now);
    Ok(())
}

/// Refuses to go on under a lock that others do not see.
pub(super) fn check_lock(lock: &SameFile) -> Result<(), StateError> {
    let path = lock.path();
    match lock.changed().map_err(at("look at", path))? {
        None => Ok(()),
        Some(how) => Err(StateError::LockLost {
            path: path.to_owned(),
            how,
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::state::{Store, key, meta, set_meta};

    /// A database in which 1 is active, opened twice: whoever closes it last does not tidy up beside the other.
    fn opened(path: &Path) -> Store {
        let mut store = Store::open(path).unwrap();
        let set = store.commit(|db| set_meta(db, key::ACTIVE, Some(&1)));
        let _: () = set.unwrap();
        store
    }

    fn refused(store: &mut Store) -> String {
        let done: Result<(), StateError> = store.commit(|db| set_meta(db, key::ACTIVE, Some(&2)));
        done.unwrap_err().to_string()
    }

    #[test]
    fn nothing_is_committed_to_a_database_that_is_gone_or_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state/agent.db");
        fs::create_dir(folder.path().join("state")).unwrap();
        let mut store = opened(&path);
        store.check_place().unwrap();
        let aside = folder.path().join("aside");
        fs::rename(folder.path().join("state"), &aside).unwrap();
        assert!(refused(&mut store).contains("is gone"));
        // A copy in its place is another file, whatever it holds.
        fs::create_dir(folder.path().join("state")).unwrap();
        fs::copy(aside.join("agent.db"), &path).unwrap();
        assert!(refused(&mut store).contains("is another file now"));
        // Back in its place, it is the one that was opened.
        fs::remove_dir_all(folder.path().join("state")).unwrap();
        fs::rename(&aside, folder.path().join("state")).unwrap();
        store.check_place().unwrap();
        assert_eq!(meta(store.read(), key::ACTIVE).unwrap(), Some(1));
    }

    #[test]
    fn a_database_that_goes_between_the_two_looks_is_gone_and_no_file_that_cannot_be_looked_at() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.db");
        let refused = check_length(&path, &Cell::new(4096));
        assert!(matches!(
            refused,
            Err(StateError::Exchanged { how: "is gone", .. })
        ));
    }

    #[test]
    fn what_is_exchanged_while_a_transaction_is_open_is_not_committed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.db");
        let mut store = opened(&path);
        let done: Result<(), StateError> = store.commit(|db| {
            fs::rename(&path, folder.path().join("aside.db")).unwrap();
            set_meta(db, key::ACTIVE, Some(&2))
        });
        assert!(matches!(done, Err(StateError::Exchanged { .. })));
        assert_eq!(meta(store.read(), key::ACTIVE).unwrap(), Some(1));
    }

    #[test]
    fn closing_a_database_that_was_replaced_removes_nothing_of_the_new_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.db");
        let beside = ["agent.db", "agent.db-wal", "agent.db-shm"];
        let old = opened(&path);
        for name in beside {
            fs::remove_file(folder.path().join(name)).unwrap();
        }
        let new = opened(&path);
        let wal = fs::read(folder.path().join("agent.db-wal")).unwrap();
        assert!(!wal.is_empty());
        drop(old);
        assert_eq!(fs::read(folder.path().join("agent.db-wal")).unwrap(), wal);
        assert_eq!(meta(new.read(), key::ACTIVE).unwrap(), Some(1));
    }

    #[test]
    fn nothing_is_committed_under_a_lock_that_others_do_not_see() {
        let folder = tempfile::tempdir().unwrap();
        let lock = folder.path().join("lock");
        fs::write(&lock, "").unwrap();
        let mut store = opened(&folder.path().join("agent.db"));
        store.work_under(SameFile::at(&lock).unwrap());
        store.check_place().unwrap();
        let done: Result<(), StateError> = store.commit(|db| {
            fs::remove_file(&lock).unwrap();
            set_meta(db, key::ACTIVE, Some(&2))
        });
        assert!(matches!(done, Err(StateError::LockLost { .. })));
        assert!(refused(&mut store).contains("is gone, while this process worked under it"));
        fs::write(&lock, "").unwrap();
        assert!(refused(&mut store).contains("is another file now"));
        assert_eq!(meta(store.read(), key::ACTIVE).unwrap(), Some(1));
    }
}
