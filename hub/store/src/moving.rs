//! A hub's database goes from its file to a server, or as one file into a backup.
//!
//! What comes in: an open store, and where its rows are to go. What goes out: the same rows there, held against the first by number and
//! digest, and a state folder that names the server from then on; or the folder as it was. Nobody writes meanwhile: what waited
//! to write is refused, because the file is no longer the hub's. What is interrupted is begun again by the same command.

use std::path::{Path, PathBuf};

use outhaul_kit::durable;
use rusqlite::OpenFlags;
use serde::Serialize;

use super::db::{Access, Address};
use super::place::Located;
use super::transfer::{Table, tables};
use super::{Session, Store, StoreError};

/// What the file is called after its rows went to a server.
pub const MOVED: &str = "hub.db.moved";

/// What was moved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Moved {
    /// The server's address.
    pub to: String,
    /// How many tables.
    pub tables: usize,
    /// How many rows in all of them.
    pub rows: u64,
    /// Whether they were there already, of a command that was interrupted after it had copied them.
    pub were_there: bool,
}

impl Store {
    /// Moves the database of the hub in `folder`, which is a file, to a server with no rows of a hub. Afterwards this store is of
    /// no use any more.
    ///
    /// # Errors
    /// [`StoreError::NoEnvelope`] when the text of a report is lost, [`StoreError::NotEmpty`] when the server has other rows, [`StoreError::Differs`] when what was written does not come
    /// back, [`StoreError`] when either database fails; the folder is as it was then.
    pub fn move_to(mut self, folder: &Path, address: &Address) -> Result<Moved, StoreError> {
        self.refuse_damaged()?;
        let here = &self.connection;
        (Session { db: here }).every_report_has_its_envelope()?;
        let moved = self.copy_to_server(address, |moved| {
            Located::keep(folder, address)?;
            put_aside(&folder.join(super::FILE_NAME), &folder.join(MOVED))?;
            Ok(moved)
        })?;
        Ok(moved)
    }

    /// Copies every row to a server with none, and does what is to be done while nobody can write here.
    ///
    /// # Errors
    /// As [`Self::move_to`].
    pub fn copy_to_server<T>(
        &self,
        address: &Address,
        then: impl FnOnce(Moved) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let from = &self.connection;
        // Kept to the end: nobody writes what would not be moved.
        let _here = from.begin(Access::Write)?;
        let target = Store::on_server(address)?;
        let to = &target.connection;
        let there = to.begin(Access::Write)?;
        let tables = tables()?;
        let mut were_there = false;
        for table in &tables {
            were_there |= !table.is_empty(to)?;
        }
        // Rows of a part have no place on a server before the part is there.
        for part in (Session { db: from }).parts_with_envelopes()? {
            (Session { db: to }).make_part(part)?;
        }
        let mut rows = 0;
        for table in &tables {
            let ours = match were_there {
                true => table.content_to_copy(from)?,
                false => table.copy(from, to)?,
            };
            let theirs = table.content(to)?;
            if ours != theirs {
                return Err(not_the_same(table, address, were_there));
            }
            rows += ours.rows;
        }
        there.commit()?;
        then(Moved {
            to: address.to_string(),
            tables: tables.len(),
            rows,
            were_there,
        })
    }

    /// Copies a database that was checked to a server, which the hub in `folder` uses from then on, and removes the file.
    ///
    /// # Errors
    /// As [`Self::move_to`].
    pub fn finish_on_server(
        checked: &Path,
        folder: &Path,
        address: &Address,
    ) -> Result<(), StoreError> {
        let store = Self::connect(checked.to_owned(), OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        store.copy_to_server(address, |_| Located::keep(folder, address))?;
        drop(store);
        Ok(durable::remove_file(checked)?)
    }

    /// Copies every row, as one moment has it, into a new file at `path`, which is empty.
    ///
    /// # Errors
    /// [`StoreError::NoEnvelope`] when a report has no envelope, which would be lost in silence; [`StoreError::Differs`].
    pub(super) fn copy_to_file(&self, path: &Path) -> Result<(), StoreError> {
        let copy = Store::connect(path.to_owned(), OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        {
            let (from, to) = (&self.connection, &copy.connection);
            let _here = from.begin(Access::ReadAll)?;
            let there = to.begin(Access::Write)?;
            for table in tables()? {
                let ours = table.copy(from, to)?;
                if ours != table.content(to)? {
                    let what = format!("table `{}`", table.name());
                    return Err(StoreError::Differs { what });
                }
            }
            (Session { db: to }).every_report_has_its_envelope()?;
            there.commit()?;
        }
        super::copies::alone_store(copy)
    }
}

fn not_the_same(table: &Table, address: &Address, were_there: bool) -> StoreError {
    let what = format!("table `{}`", table.name());
    match were_there {
        true => StoreError::NotEmpty {
            address: address.to_string(),
            what,
        },
        false => StoreError::Differs { what },
    }
}

/// Gives the file, and the journal beside it, another name.
fn put_aside(from: &Path, to: &Path) -> Result<(), StoreError> {
    let beside = |path: &Path, end: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        PathBuf::from(name)
    };
    if from.exists() {
        durable::rename(from, to)?;
    }
    for end in ["-wal", "-shm"] {
        if beside(from, end).exists() {
            durable::rename(&beside(from, end), &beside(to, end))?;
        }
    }
    Ok(())
}
