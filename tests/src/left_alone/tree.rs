//! Everything in the folders of a test, as lines that can be compared.
//!
//! What comes in: folders. What goes out: a line for each file, folder, link and row. A database is read from a
//! copy, row by row: SQLite rewrites its files where no row changes, and looking must leave no trace. A
//! damaged one is compared as bytes. It changes nothing.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};

/// By path, and for a row by the path of its database and the row itself.
pub(super) type Tree = BTreeMap<String, String>;

/// Larger files are compared by size and time of change.
const MAX_HASHED_BYTES: u64 = 64 << 20;

/// All that is below these folders.
pub(super) fn snapshot(roots: &[PathBuf]) -> Tree {
    let mut tree = Tree::new();
    // Not by recursion: a test may bring folders some thousand deep.
    let mut waiting = roots.to_vec();
    let mut linked = HashMap::new();
    while let Some(folder) = waiting.pop() {
        look(&folder, &mut tree, &mut waiting, &mut linked);
    }
    tree
}

/// One folder; those in it are left in `waiting`. `linked` has the files of several names that were read.
fn look(
    folder: &Path,
    tree: &mut Tree,
    waiting: &mut Vec<PathBuf>,
    linked: &mut HashMap<(u64, u64), String>,
) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        let Ok(about) = fs::symlink_metadata(&path) else {
            continue;
        };
        let kind = about.file_type();
        let mode = about.mode();
        let name = path.display().to_string();
        if kind.is_dir() {
            tree.insert(name, format!("folder {mode:o}"));
            waiting.push(path);
        } else if kind.is_symlink() {
            let target = fs::read_link(&path).unwrap_or_default();
            tree.insert(name, format!("link to {}", target.display()));
        } else if !kind.is_file() {
            tree.insert(name, format!("special {mode:o}"));
        } else if let Some(known) = linked.get(&(about.dev(), about.ino())) {
            tree.insert(name, known.clone());
        } else if !is_part_of_a_database(&path) {
            match rows(&path) {
                Some(rows) => {
                    tree.insert(name.clone(), format!("database {mode:o}"));
                    tree.extend(
                        rows.into_iter()
                            .map(|(row, text)| (format!("{name}: {row}"), text)),
                    );
                }
                None => {
                    let text = format!("file {mode:o} {}", content(&path, &about));
                    if about.nlink() > 1 {
                        linked.insert((about.dev(), about.ino()), text.clone());
                    }
                    tree.insert(name, text);
                }
            }
        }
    }
}

/// SQLite's own log and its index: their rows are read with the database.
fn is_part_of_a_database(path: &Path) -> bool {
    let name = path.to_string_lossy();
    ["-wal", "-shm", "-journal"].iter().any(|end| {
        name.strip_suffix(end)
            .is_some_and(|base| Path::new(base).is_file())
    })
}

fn content(path: &Path, about: &fs::Metadata) -> String {
    if about.len() > MAX_HASHED_BYTES {
        return format!(
            "{} bytes, changed {}.{}",
            about.len(),
            about.mtime(),
            about.mtime_nsec()
        );
    }
    let mut hash = DefaultHasher::new();
    match fs::read(path) {
        Ok(bytes) => bytes.hash(&mut hash),
        Err(error) => return format!("unreadable: {}", error.kind()),
    }
    format!("{} bytes, {:016x}", about.len(), hash.finish())
}

/// The rows of a database, or nothing when the file is none (or a damaged one, compared as bytes).
fn rows(path: &Path) -> Option<Vec<(String, String)>> {
    let mut magic = [0_u8; 16];
    fs::File::open(path).ok()?.read_exact(&mut magic).ok()?;
    if &magic != b"SQLite format 3\0" {
        return None;
    }
    // A copy is read, so that looking leaves no trace either.
    let copy = tempfile::tempdir().ok()?;
    let base = copy.path().join("db");
    fs::copy(path, &base).ok()?;
    let wal = PathBuf::from(format!("{}-wal", path.display()));
    if wal.is_file() {
        fs::copy(wal, copy.path().join("db-wal")).ok()?;
    }
    let db = Connection::open_with_flags(&base, OpenFlags::SQLITE_OPEN_READ_WRITE).ok()?;
    let mut tables = db
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
        .ok()?;
    let names: Vec<String> = tables
        .query_map([], |row| row.get(0))
        .ok()?
        .collect::<Result<_, _>>()
        .ok()?;
    let mut all = Vec::new();
    for table in names {
        let mut rows = db.prepare(&format!("SELECT * FROM \"{table}\"")).ok()?;
        let columns = rows.column_count();
        let mut found = rows.query([]).ok()?;
        let mut lines = Vec::new();
        while let Some(row) = found.next().ok()? {
            let cells: Vec<String> = (0..columns)
                .map(|at| row.get_ref(at).map_or_else(|error| error.to_string(), cell))
                .collect();
            lines.push(cells.join("|"));
        }
        lines.sort();
        all.extend(
            lines
                .into_iter()
                .map(|line| (format!("{table}|{line}"), String::new())),
        );
    }
    Some(all)
}

fn cell(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => "NULL".to_owned(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => number.to_string(),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
        ValueRef::Blob(bytes) => {
            let mut hash = DefaultHasher::new();
            bytes.hash(&mut hash);
            format!("{} bytes {:016x}", bytes.len(), hash.finish())
        }
    }
}
