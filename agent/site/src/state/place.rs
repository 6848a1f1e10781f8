//! Whether the database that is open is still the one at its path.
//!
//! What comes in: the path, when the database is opened and before each step with it. What goes out: nothing, or an error that
//! names what is there now. A file that was removed, moved aside or replaced stays open, and SQLite goes on writing into it:
//! what is committed there is lost with the process. It opens no file and changes none.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::StateError;
use crate::durable::at;

/// The file of an open database, by what no other file has meanwhile.
#[derive(Debug)]
pub(super) struct Place {
    path: PathBuf,
    file: (u64, u64),
}

impl Place {
    /// Of the database that was just opened at `path`.
    pub(super) fn of(path: &Path) -> Result<Self, StateError> {
        let found = fs::symlink_metadata(path).map_err(at("look at", path))?;
        Ok(Self {
            path: path.to_owned(),
            file: id(&found),
        })
    }

    /// Refuses to go on where another file, or none, is at the path.
    pub(super) fn check(&self) -> Result<(), StateError> {
        let how = match fs::symlink_metadata(&self.path) {
            Ok(found) if id(&found) == self.file => return Ok(()),
            Ok(_) => "is another file now",
            Err(error) if error.kind() == io::ErrorKind::NotFound => "is gone",
            Err(error) => return Err(at("look at", &self.path)(error).into()),
        };
        Err(StateError::Exchanged {
            path: self.path.clone(),
            how,
        })
    }
}

fn id(found: &Metadata) -> (u64, u64) {
    (found.dev(), found.ino())
}

#[cfg(test)]
mod tests {
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
}
