//! A real PostgreSQL for tests: a server of its own in a temporary folder, reached by a socket there.
//!
//! What comes in: nothing, or settings of the server. What goes out: addresses of new, empty databases. It runs as a user without
//! privileges, listens on no network unless a test asks for it, and ends with the process that started it, also when that
//! is killed. Its files are not synced: what it loses in a power cut is of no use to anybody.
#![expect(clippy::expect_used, reason = "what a test cannot do without ends it")]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};

use crate::skipped;

/// Names the database that the tests of a run use; without it, or with `sqlite`, `SQLite`.
pub const VARIABLE: &str = "OUTHAUL_TEST_STORE";
/// The user of the databases.
const USER: &str = "outhaul";
/// Starts what follows, and ends it when nobody holds the pipe any more.
const SUPERVISED: &str = r#"folder=$1; shift
"$@" & server=$!
read -r _ || true
kill -QUIT "$server" 2>/dev/null; wait "$server"; rm -rf "$folder""#;

/// A running server.
#[derive(Debug)]
pub struct Postgres {
    folder: PathBuf,
    programs: PathBuf,
    supervisor: Child,
    databases: AtomicU32,
}

/// Whether the tests of this run are to use PostgreSQL.
pub fn is_of_run() -> bool {
    std::env::var(VARIABLE).is_ok_and(|text| text == "postgres")
}

/// The address of a new database where the tests of this run are to use PostgreSQL.
///
/// # Panics
/// When there is no server.
pub fn database_of_run() -> Option<String> {
    is_of_run().then(|| shared().expect("PostgreSQL is installed").database())
}

/// The server that the tests of this process share; `None`, and the calling test [`skipped`], where none is installed.
#[track_caller]
pub fn shared_or_skip() -> Option<&'static Postgres> {
    let found = shared();
    if found.is_none() {
        skipped("PostgreSQL is not installed (`apt-get install postgresql`)");
    }
    found
}

/// Runs the tests of this very program again, on PostgreSQL, but those that look into `SQLite`'s file (`of_the_file`). The calling test is [`skipped`] where none is installed.
///
/// # Panics
/// When one of them fails.
#[track_caller]
pub fn same_tests_on_postgres(calling: &str, of_the_file: &[&str]) {
    if is_of_run() {
        return;
    }
    if programs().is_none() {
        return skipped("PostgreSQL is not installed (`apt-get install postgresql`)");
    }
    let this = std::env::current_exe().expect("a test is a program");
    let ran = Command::new(this)
        .args(["--skip", calling])
        .args(of_the_file.iter().flat_map(|name| ["--skip", name]))
        .env(VARIABLE, "postgres")
        // Every case is a database of its own.
        .env("PROPTEST_CASES", "12")
        .output()
        .expect("a test is a program");
    let reported = String::from_utf8_lossy(&ran.stdout);
    assert!(
        ran.status.success(),
        "on PostgreSQL:\n{reported}\n{}",
        String::from_utf8_lossy(&ran.stderr)
    );
}

fn shared() -> Option<&'static Postgres> {
    static SHARED: OnceLock<Option<Postgres>> = OnceLock::new();
    static STARTING: Mutex<()> = Mutex::new(());
    let _one = STARTING.lock();
    SHARED.get_or_init(|| Postgres::start(&[])).as_ref()
}

/// The folder with the server's programs, the newest version's.
fn programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?;
    let mut found: Vec<PathBuf> = versions
        .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
        .filter(|folder| folder.join("initdb").exists())
        .collect();
    found.sort();
    found.pop()
}

impl Postgres {
    /// Starts a server with `settings`, such as `("max_connections", "5")`; `None` where none is installed.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start(settings: &[(&str, &str)]) -> Option<Self> {
        let programs = programs()?;
        let folder = tempfile::tempdir().expect("a folder can be made").keep();
        let data = folder.join("data");
        fs::create_dir(&data).expect("a folder can be made");
        let given = Command::new("chown")
            .args(["-R", "nobody"])
            .arg(&folder)
            .output();
        assert!(!is_root() || given.is_ok_and(|ran| ran.status.success()));
        let made = unprivileged(&programs.join("initdb"))
            .args(["--username", USER, "--auth", "trust", "--encoding", "UTF8"])
            .args([
                "--locale",
                "C.UTF-8",
                "--no-sync",
                "--no-instructions",
                "-D",
            ])
            .arg(&data)
            .output()
            .expect("initdb runs");
        assert!(
            made.status.success(),
            "{}",
            String::from_utf8_lossy(&made.stderr)
        );
        Some(Self::run(folder, programs, settings))
    }

    fn run(folder: PathBuf, programs: PathBuf, settings: &[(&str, &str)]) -> Self {
        let server = unprivileged(&programs.join("postgres"));
        let mut command = Command::new("sh");
        command
            .args(["-c", SUPERVISED, "sh"])
            .arg(&folder)
            .arg(server.get_program())
            .args(server.get_args())
            .arg("-D")
            .arg(folder.join("data"))
            .arg("-k")
            .arg(&folder)
            .args(["-c", "listen_addresses=", "-c", "fsync=off"])
            .args(["-c", "max_connections=200", "-c", "shared_buffers=32MB"]);
        for (name, value) in settings {
            command.arg("-c").arg(format!("{name}={value}"));
        }
        let mut supervisor = command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a shell runs");
        let mut lines = BufReader::new(supervisor.stderr.take().expect("it is piped")).lines();
        let mut said = String::new();
        let ready = lines.by_ref().map_while(Result::ok).any(|line| {
            said.push_str(&line);
            said.push('\n');
            line.contains("ready to accept connections")
        });
        assert!(ready, "PostgreSQL does not start:\n{said}");
        // Nobody reads on, and it must not wait for someone who does.
        std::thread::spawn(move || lines.for_each(drop));
        Self {
            folder,
            programs,
            supervisor,
            databases: AtomicU32::new(0),
        }
    }

    /// The address of a new, empty database.
    ///
    /// # Panics
    /// When it cannot be made.
    pub fn database(&self) -> String {
        let number = self.databases.fetch_add(1, Ordering::Relaxed);
        let name = format!("hub{number}");
        self.sql("postgres", &format!("CREATE DATABASE {name}"));
        self.address(&name)
    }

    /// The address of a database.
    pub fn address(&self, name: &str) -> String {
        format!("postgres://{USER}@/{name}?host={}", self.folder.display())
    }

    /// Runs statements in a database, and returns what they print.
    ///
    /// # Panics
    /// When one fails.
    pub fn sql(&self, database: &str, text: &str) -> String {
        let ran = Command::new(self.programs.join("psql"))
            .args([
                "--no-psqlrc",
                "-qAt",
                "-v",
                "ON_ERROR_STOP=1",
                "-U",
                USER,
                "-h",
            ])
            .arg(&self.folder)
            .args(["-d", database, "-c", text])
            .output()
            .expect("psql runs");
        let reported = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert!(ran.status.success(), "{text}\n{reported}");
        String::from_utf8_lossy(&ran.stdout).trim_end().to_owned()
    }

    /// Its folder, in which the socket and the data are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder with its programs.
    pub fn programs(&self) -> &Path {
        &self.programs
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        drop(self.supervisor.stdin.take());
        let _ = self.supervisor.wait();
    }
}

/// A command as a user who may own a server: not as root.
fn unprivileged(program: &Path) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=nobody", "--regid=nogroup", "--clear-groups", "--"])
        .arg(program);
    command
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|id| id.stdout == b"0\n")
}
