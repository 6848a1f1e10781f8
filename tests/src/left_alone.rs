//! What a program says that it left alone, held to it: state before and after every run that says so.
//!
//! What comes in: a command that a test is about to run. What goes out: what it printed, after a look at
//! every folder of the test that it could reach: kinds, modes and bytes of files, and databases by their
//! rows, since SQLite rewrites its files where no row changes. When the output has one of the sentences
//! of [`claimed`], nothing may differ but what [`is_record`] lists. It never looks outside the
//! folders that tests make, and not while another process works in them.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

mod tree;

use tree::{Tree, snapshot};

/// What a sentence is about.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Scope {
    /// Everything that the command can reach.
    All,
    /// What the site runs: applied files, whole generations, and which of them is active.
    Running,
    /// The files of one assignment: those below this folder.
    Below(String),
    /// The reports that wait.
    Reports,
}

/// The sentences, and what each is about.
const SENTENCES: [(&str, Scope); 29] = [
    ("nothing was changed", Scope::All),
    ("Nothing was changed", Scope::All),
    ("nothing was written", Scope::All),
    ("nothing was done", Scope::All),
    ("nothing was shipped", Scope::All),
    ("nothing was signed", Scope::All),
    ("nothing was published", Scope::All),
    ("nothing was compared", Scope::All),
    ("nothing was restored", Scope::All),
    ("nothing was made", Scope::All),
    ("nothing was used", Scope::All),
    ("nothing was typed", Scope::All),
    ("nothing of it was used", Scope::All),
    ("nothing of it was read", Scope::All),
    ("it was left alone", Scope::All),
    ("stays where it is", Scope::All),
    ("nothing was applied", Scope::Running),
    ("nothing was installed", Scope::Running),
    ("nothing of it is half done", Scope::Running),
    ("what runs is untouched", Scope::Running),
    ("what runs on this site was not touched", Scope::Running),
    ("what runs on it was not touched", Scope::Running),
    ("what runs was not touched", Scope::Running),
    ("nothing new is installed", Scope::Running),
    ("the running bundle is not affected", Scope::Running),
    ("the running bundle stays", Scope::Running),
    ("what runs is safe", Scope::Running),
    ("no bundle is accepted", Scope::Running),
    (
        "every report that the hub has not acknowledged is still here",
        Scope::Reports,
    ),
];

/// What of the same output says that something else was done: the sentence is then about one file of many,
/// and only what it says of what runs can be compared, where nothing was installed.
const NEWS: [&str; 9] = [
    " is active",
    "\"state\": \"active\"",
    "order `",
    " imported, ",
    "Initialized the hub",
    "is active again",
    "the interrupted import was discarded",
    " was interrupted; it is",
    "not applied yet; it is",
];

/// What says that something was done beside what runs: sentences about that are compared all the same.
const ASIDE: [&str; 3] = [
    "floors raised",
    "the hub acknowledged",
    "reports are renumbered",
];

/// The sentences that are compared.
pub fn sentences() -> impl Iterator<Item = &'static str> {
    SENTENCES.iter().map(|(sentence, _)| *sentence)
}

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

    /// The same by another way to run it, such as at a terminal: `run` returns what it printed.
    ///
    /// # Errors
    /// As `run`.
    ///
    /// # Panics
    /// As [`Checked::checked`].
    #[track_caller]
    fn checked_by(
        &mut self,
        run: impl FnOnce(&mut Command) -> io::Result<Output>,
    ) -> io::Result<Watched>;
}

/// A run under this watch.
#[derive(Debug)]
pub struct Watched {
    /// What came out.
    pub output: Output,
    /// Whether it said that something was left alone, and that was compared.
    pub compared: bool,
}

impl Checked for Command {
    #[track_caller]
    fn checked(&mut self) -> io::Result<Output> {
        self.checked_by(Command::output).map(|run| run.output)
    }

    #[track_caller]
    fn checked_by(
        &mut self,
        run: impl FnOnce(&mut Command) -> io::Result<Output>,
    ) -> io::Result<Watched> {
        let roots = roots(self);
        let before = (!busy(&roots)).then(|| snapshot(&roots));
        let output = run(self)?;
        let printed = format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        let claims: Vec<_> = claimed(&printed)
            .into_iter()
            .chain(spared(&printed))
            .collect();
        let watched = |output, compared| Ok(Watched { output, compared });
        let (Some(before), false, false) = (before, claims.is_empty(), busy(&roots)) else {
            return watched(output, false);
        };
        let after = snapshot(&roots);
        for (sentence, scope) in &claims {
            let differs = differences(&before, &after, scope);
            assert!(
                differs.is_empty(),
                "{self:?} says `{sentence}` and changed this:\n{}\nit printed:\n{printed}",
                differs.join("\n")
            );
        }
        note(self, &output, &printed);
        watched(output, true)
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
    let says = |words: &[&str]| words.iter().any(|words| text.contains(words));
    if says(&NEWS) {
        return None;
    }
    let aside = says(&ASIDE);
    SENTENCES
        .into_iter()
        .filter(|(_, scope)| !aside || *scope == Scope::Running)
        .find(|(sentence, _)| text.contains(sentence))
}

/// Assignments of which nothing was written, because a file of someone else is in the way: the folder of each.
fn spared(printed: &str) -> Vec<(&'static str, Scope)> {
    const SENTENCE: &str = " is there and is not Outhaul's; move it away, nothing of `";
    let mut found = Vec::new();
    let mut rest = printed;
    while let Some((before, after)) = rest.split_once(SENTENCE) {
        rest = after;
        let path = before.trim_end_matches('`').rsplit('`').next();
        let name = after.split('`').next().unwrap_or_default();
        let folder = path.and_then(|path| path.split_once(&format!("/{name}/")));
        if let Some((target, _)) = folder {
            found.push((SENTENCE, Scope::Below(format!("{target}/{name}/"))));
        }
    }
    found
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

/// What may differ after any command: the record of what happened, and caches.
///
/// An agent's reports (`outbox`), its list of sticks and refusals, what kept a bundle away, the bundle that it calls rejected and the
/// steps to that (`journal`), calls to the service, its lower bound of time, what it reported last, the folder that it applies to, the names of its settings, and the marks of files that it read; a hub's list of refusals,
/// attempts and of decisions of the gate; what `outhaul serve` remembers of a round; what was pulled today; how many reports there are (`site.json`); locks; and the cache of
/// fetched repositories.
fn is_record(line: &str) -> bool {
    const META: [&str; 13] = [
        "clock",
        "media",
        "not-taken",
        "outbox",
        "refused",
        "refusals",
        "results",
        "observed",
        "reported",
        "settings",
        "target",
        "calls",
        "request-until",
    ];
    const TABLES: [&str; 9] = [
        "outbox",
        "call",
        "journal",
        "sqlite_sequence",
        "refused",
        "refusals",
        "refused_files",
        "attempts",
        "decisions",
    ];
    let Some((place, row)) = line.split_once(": ") else {
        let name = Path::new(line).file_name().unwrap_or_default();
        let own = [
            "lock",
            "site.json",
            "serve.lock",
            "serve.json",
            "pulled.json",
        ]
        .iter()
        .any(|own| name == *own);
        let marks = line.contains("/generations/")
            && (line.contains("/marks/") || line.ends_with("/marks"));
        return own || marks || line.contains("/cache/") || line.ends_with("/cache");
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

fn differences(before: &Tree, after: &Tree, scope: &Scope) -> Vec<String> {
    let counts = |line: &str| match scope {
        Scope::All => !is_record(line),
        Scope::Running => !is_record(line) && is_running(line),
        Scope::Below(folder) => !is_record(line) && line.starts_with(folder),
        Scope::Reports => line.contains(": outbox|"),
    };
    let gone = before
        .iter()
        .filter(|(line, text)| after.get(*line) != Some(text));
    let new = after
        .iter()
        .filter(|(line, text)| before.get(*line) != Some(text));
    let active = before.keys().find_map(|line| {
        let (_, row) = line.split_once(": meta|active|")?;
        Some(format!("/generations/{}/", row.trim()))
    });
    // What nothing refers to is tidied up at any time, after a power cut for example.
    let is_garbage = |line: &str| {
        let kept = active.as_ref().is_some_and(|active| line.contains(active));
        !after.contains_key(line)
            && (line.contains("/blobs/") || line.contains("/generations/"))
            && !kept
    };
    let gone = gone
        .filter(|(line, _)| counts(line) && !is_garbage(line))
        .map(|(line, text)| format!("- {line} {text}"));
    let new = new
        .filter(|(line, _)| counts(line))
        .map(|(line, text)| format!("+ {line} {text}"));
    gone.chain(new).collect()
}

/// With `OUTHAUL_LEFT_ALONE` naming a file, each run whose sentences were compared is added to it, with its test:
/// `cargo xtask left-alone` holds the list in `tests/left-alone.txt` to it.
fn note(command: &Command, output: &Output, printed: &str) {
    let Some(file) = std::env::var_os("OUTHAUL_LEFT_ALONE") else {
        return;
    };
    let program = Path::new(command.get_program());
    let program = program.file_name().unwrap_or_default().to_string_lossy();
    let code = output.status.code().unwrap_or(-1);
    let test = std::thread::current();
    let test = test.name().unwrap_or_default();
    let text = printed.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = format!("{test}\t{program}\t{code}\t{text}\n");
    let added = fs::OpenOptions::new().create(true).append(true).open(file);
    let _ = added.and_then(|mut file| file.write_all(line.as_bytes()));
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

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
    fn folders_of_any_depth_and_files_of_many_names_are_compared() {
        let folder = tempfile::tempdir().unwrap();
        let mut deep = folder.path().to_owned();
        deep.extend(std::iter::repeat_n("d", 1500));
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("file"), "one").unwrap();
        fs::hard_link(deep.join("file"), folder.path().join("other")).unwrap();
        let roots = [folder.path().to_owned()];
        let before = snapshot(&roots);
        assert_eq!(before.len(), 1502);
        fs::write(deep.join("file"), "two").unwrap();
        let differs = differences(&before, &snapshot(&roots), &Scope::All);
        assert_eq!(differs.len(), 4, "{differs:?}");
    }

    #[test]
    fn what_is_reported_to_be_left_alone_is_compared() {
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
            differences(&before, &snapshot(&roots), &scope)
        };
        let all = || Scope::All;
        assert!(differ("INSERT INTO outbox VALUES (1)", all()).is_empty());
        assert_eq!(differ("DELETE FROM outbox", Scope::Reports).len(), 1);
        assert!(differ("INSERT INTO meta VALUES ('clock', 1)", all()).is_empty());
        assert_eq!(differ("UPDATE floor SET a = 2", all()).len(), 2);
        assert!(differ("UPDATE floor SET a = 3", Scope::Running).is_empty());
        let active = "INSERT INTO meta VALUES ('active', 3)";
        assert_eq!(differ(active, Scope::Running).len(), 1);
        assert!(differ("PRAGMA wal_checkpoint(TRUNCATE)", all()).is_empty());
    }
}
