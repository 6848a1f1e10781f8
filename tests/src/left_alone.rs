//! What a program says that it left alone, held to it: state before and after every run that says so.
//!
//! What comes in: a command that a test is about to run. What goes out: what it printed, after a look at
//! every folder of the test that it could reach: kinds, modes and bytes of files, and databases by their
//! rows, since SQLite rewrites its files where no row changes. When the output has one of the sentences
//! of [`claimed`], nothing may differ but what [`is_record`] lists. It never looks outside the
//! folders that tests make, and not while another process works in them.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};

/// Everything of a test's folders, by path: one line each.
type Tree = BTreeMap<String, String>;

/// Larger files are compared by size and time of change.
const MAX_HASHED_BYTES: u64 = 64 << 20;

/// What a sentence is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// Everything that the command can reach.
    All,
    /// What the site runs: applied files, whole generations, and which of them is active.
    Running,
}

/// The sentences, and what each is about.
const SENTENCES: [(&str, Scope); 17] = [
    ("nothing was changed", Scope::All),
    ("Nothing was changed", Scope::All),
    ("nothing was written", Scope::All),
    ("nothing was done", Scope::All),
    ("nothing was signed", Scope::All),
    ("nothing was published", Scope::All),
    ("nothing was compared", Scope::All),
    ("it was left alone", Scope::All),
    ("stays where it is", Scope::All),
    ("nothing was applied", Scope::Running),
    ("nothing was installed", Scope::Running),
    ("nothing of it is half done", Scope::Running),
    ("what runs is untouched", Scope::Running),
    ("what runs was not touched", Scope::Running),
    ("what runs goes on", Scope::Running),
    ("what runs is safe", Scope::Running),
    ("no bundle is accepted", Scope::Running),
];

/// What of the same output says that something else was done: the sentence is then about one file of many,
/// and only what it says of what runs can be compared, where nothing was installed.
const NEWS: [&str; 7] = [
    " is active",
    "floors raised",
    "the hub acknowledged",
    "order `",
    "taken in",
    "Made a hub",
    "runs again",
];

/// A program run under this watch.
pub trait Checked {
    /// Runs the command to its end, as [`Command::output`], and compares what it says that it left alone.
    ///
    /// # Errors
    /// When the program cannot be started.
    ///
    /// # Panics
    /// When it says that something was left alone that it changed.
    #[track_caller]
    fn checked(&mut self) -> io::Result<Output>;
}

impl Checked for Command {
    #[track_caller]
    fn checked(&mut self) -> io::Result<Output> {
        let roots = roots(self);
        let before = (!busy(&roots)).then(|| snapshot(&roots));
        let output = self.output()?;
        let printed = format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        let Some((sentence, scope)) = claimed(&printed) else {
            return Ok(output);
        };
        note(self, &output, &printed, sentence);
        let (Some(before), false) = (before, busy(&roots)) else {
            return Ok(output);
        };
        let differs = differences(&before, &snapshot(&roots), scope);
        assert!(
            differs.is_empty(),
            "{self:?} says `{sentence}` and changed this:\n{}\nit printed:\n{printed}",
            differs.join("\n")
        );
        Ok(output)
    }
}

/// The widest sentence that holds for all that was printed.
fn claimed(printed: &str) -> Option<(&'static str, Scope)> {
    // A help text only quotes sentences.
    if printed.contains("\nUsage: ") || printed.contains("Options:\n") {
        return None;
    }
    // Lines of a terminal are broken anywhere.
    let text = printed.split_whitespace().collect::<Vec<_>>().join(" ");
    let has_news = NEWS.iter().any(|news| text.contains(news));
    SENTENCES
        .into_iter()
        .find(|(sentence, _)| text.contains(sentence))
        .filter(|_| !has_news)
}

/// The folders of tests that a command can reach: the one it is started in, and those that it names.
fn roots(command: &Command) -> Vec<PathBuf> {
    let here = command.get_current_dir().map(Path::to_path_buf);
    let named = command.get_args().flat_map(|argument| {
        let text = argument.to_string_lossy().into_owned();
        let value = text.split_once('=').map(|(_, value)| value.to_owned());
        [Some(text), value]
    });
    let set = command
        .get_envs()
        .filter_map(|(_, value)| Some(value?.to_string_lossy().into_owned()));
    let paths = named
        .flatten()
        .chain(set)
        .filter(|text| text.starts_with('/'))
        .map(PathBuf::from)
        .chain(here);
    let mut roots: Vec<PathBuf> = paths.filter_map(|path| root(&path)).collect();
    roots.sort();
    roots.dedup();
    roots
}

/// The temporary folder that `path` lies in.
fn root(path: &Path) -> Option<PathBuf> {
    let all = std::env::temp_dir();
    let first = path.strip_prefix(&all).ok()?.components().next()?;
    let root = all.join(first);
    // Only what a test made for itself, by the names that `tempfile` gives.
    let own = root.file_name()?.to_string_lossy().starts_with(".tmp");
    (own && root.is_dir()).then_some(root)
}

/// Whether another process works in one of the folders: a service that a test started.
fn busy(roots: &[PathBuf]) -> bool {
    let Ok(processes) = fs::read_dir("/proc") else {
        return false;
    };
    let own = std::process::id().to_string();
    processes.flatten().any(|process| {
        let name = process.file_name();
        let name = name.to_string_lossy();
        if name == own.as_str() || !name.bytes().all(|byte| byte.is_ascii_digit()) {
            return false;
        }
        let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        let place = fs::read_link(process.path().join("cwd")).unwrap_or_default();
        roots
            .iter()
            .any(|root| place.starts_with(root) || line.contains(&*root.to_string_lossy()))
    })
}

fn snapshot(roots: &[PathBuf]) -> Tree {
    let mut tree = Tree::new();
    for root in roots {
        walk(root, &mut tree);
    }
    tree
}

fn walk(folder: &Path, tree: &mut Tree) {
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
            walk(&path, tree);
        } else if kind.is_symlink() {
            let target = fs::read_link(&path).unwrap_or_default();
            tree.insert(name, format!("link to {}", target.display()));
        } else if kind.is_fifo() || kind.is_socket() || kind.is_block_device() {
            tree.insert(name, format!("special {mode:o}"));
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
                    tree.insert(name, format!("file {mode:o} {}", content(&path, &about)));
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

/// What may differ after any command: the record of what happened, and caches.
///
/// An agent's reports (`outbox`), its list of sticks and refusals, the bundle that it calls rejected and the
/// steps to that (`journal`), calls to the service, and its lower bound of time; a hub's list of refusals,
/// attempts and of decisions of the gate; locks; and the cache of fetched repositories.
fn is_record(line: &str) -> bool {
    const META: [&str; 9] = [
        "clock",
        "media",
        "outbox",
        "refused",
        "refusals",
        "results",
        "observed",
        "calls",
        "request-until",
    ];
    const TABLES: [&str; 8] = [
        "outbox",
        "call",
        "journal",
        "sqlite_sequence",
        "refused",
        "refusals",
        "attempts",
        "decisions",
    ];
    let Some((place, row)) = line.split_once(": ") else {
        let name = Path::new(line).file_name().unwrap_or_default();
        return name == "lock" || line.contains("/cache/") || line.ends_with("/cache");
    };
    let _ = place;
    let mut cells = row.split('|');
    let table = cells.next().unwrap_or_default();
    TABLES.contains(&table)
        || table == "meta" && META.contains(&cells.next().unwrap_or_default())
        || table == "generation" && row.contains("|rejected|")
}

/// Whether a line is about what a site runs.
fn is_running(line: &str) -> bool {
    line.contains("/applied/") || line.contains(": meta|active|") || line.contains("|active|")
}

fn differences(before: &Tree, after: &Tree, scope: Scope) -> Vec<String> {
    let counts = |line: &str| !is_record(line) && (scope == Scope::All || is_running(line));
    let gone = before
        .iter()
        .filter(|(line, text)| after.get(*line) != Some(text));
    let new = after
        .iter()
        .filter(|(line, text)| before.get(*line) != Some(text));
    let gone = gone
        .filter(|(line, _)| counts(line))
        .map(|(line, text)| format!("- {line} {text}"));
    let new = new
        .filter(|(line, _)| counts(line))
        .map(|(line, text)| format!("+ {line} {text}"));
    gone.chain(new).collect()
}

/// With `OUTHAUL_LEFT_ALONE` naming a file, each sentence that a run came to is added to it, so that the
/// ones that no test reaches can be listed.
fn note(command: &Command, output: &Output, printed: &str, sentence: &str) {
    let Some(file) = std::env::var_os("OUTHAUL_LEFT_ALONE") else {
        return;
    };
    let line = printed.lines().find(|line| line.contains(sentence));
    let program = Path::new(command.get_program());
    let program = program.file_name().unwrap_or_default().to_string_lossy();
    let code = output.status.code().unwrap_or(-1);
    let text = format!("{program}\t{code}\t{}\n", line.unwrap_or(sentence));
    let added = fs::OpenOptions::new().create(true).append(true).open(file);
    let _ = added.and_then(|mut file| file.write_all(text.as_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(script: &str) -> std::thread::Result<io::Result<Output>> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("state"), "one").unwrap();
        let db = Connection::open(folder.path().join("db")).unwrap();
        db.execute_batch(
            "CREATE TABLE outbox (a); CREATE TABLE floor (a); INSERT INTO floor VALUES (1)",
        )
        .unwrap();
        drop(db);
        let path = folder.path().to_owned();
        std::panic::catch_unwind(move || {
            let mut command = Command::new("sh");
            command.current_dir(path).args(["-c", script]).checked()
        })
    }

    #[test]
    fn what_is_said_to_be_left_alone_is_compared() {
        let claim = "echo 'error: it is refused, nothing was changed' >&2";
        assert!(said(claim).is_ok());
        assert!(said("echo two > state").is_ok(), "nothing was said");
        for change in [
            "echo two > state",
            "chmod 640 state",
            "touch other",
            "mkdir other",
            "rm state",
            "mkfifo pipe",
            "ln -s state link",
        ] {
            assert!(said(&format!("{change}; {claim}")).is_err(), "{change}");
        }
        let news = "echo bundle 2 is active; echo two > state";
        assert!(
            said(&format!("{news}; {claim}")).is_ok(),
            "about one file of many"
        );
    }

    #[test]
    fn a_database_is_compared_by_its_rows() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        let db = Connection::open(&path).unwrap();
        db.execute_batch(
            "PRAGMA journal_mode = WAL; CREATE TABLE outbox (a); CREATE TABLE floor (a); \
             CREATE TABLE meta (name, value); INSERT INTO floor VALUES (1)",
        )
        .unwrap();
        let roots = [folder.path().to_owned()];
        let differ = |change: &str, scope| {
            let before = snapshot(&roots);
            db.execute_batch(change).unwrap();
            differences(&before, &snapshot(&roots), scope)
        };
        let all = Scope::All;
        assert!(differ("INSERT INTO outbox VALUES (1)", all).is_empty());
        assert!(differ("INSERT INTO meta VALUES ('clock', 1)", all).is_empty());
        assert_eq!(differ("UPDATE floor SET a = 2", all).len(), 2);
        assert!(differ("UPDATE floor SET a = 3", Scope::Running).is_empty());
        let active = "INSERT INTO meta VALUES ('active', 3)";
        assert_eq!(differ(active, Scope::Running).len(), 1);
        assert!(differ("PRAGMA wal_checkpoint(TRUNCATE)", all).is_empty());
    }
}
