//! Where everything lies below the one `--state` folder, and the lock that makes it one agent's.
//!
//! What comes in: the folder. What goes out: paths, and a [`Lock`] for commands that change what is
//! applied. Reading (`status`) and deciding (`approve`, `hold`) need no lock: SQLite orders those.
//! Whoever opens it closes it to other users.

use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use outhaul_kit::{lock, text};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use crate::durable::{self, FileError, at};

mod entries;

/// The second line of the lock file while the service holds it; the first is the id of its process, the third marks its settings.
const SERVICE: &str = "service";
/// The database, and what SQLite writes beside it.
const DATABASE_FILES: [&str; 4] = [
    "agent.db",
    "agent.db-wal",
    "agent.db-shm",
    "agent.db-journal",
];
/// What group and others may do, of a file's mode.
const OTHERS: u32 = 0o077;
/// Of that, what lets them put something else in the place of what is there.
const OTHERS_WRITE: u32 = 0o022;
/// Largest lock file, in bytes.
const MAX_LOCK_BYTES: u64 = 64;

/// The state folder.
#[derive(Debug, Clone)]
pub struct StateFolder {
    root: PathBuf,
    /// Set when nothing may be written here: whether floors are those of a copied memory alone.
    rehearsal: Option<Arc<AtomicBool>>,
}

impl StateFolder {
    /// The state folder at `root`; creates nothing.
    pub fn new(root: &Path) -> Self {
        Self {
            root: std::path::absolute(root).unwrap_or_else(|_| root.to_owned()),
            rehearsal: None,
        }
    }

    /// The same folder for a memory that is a copy: its floors stand in the copy only. Where floors contradict
    /// each other (`doubtful`), they do so until newer ones are accepted.
    #[must_use]
    pub fn for_rehearsal(&self, doubtful: bool) -> Self {
        Self {
            root: self.root.clone(),
            rehearsal: Some(Arc::new(AtomicBool::new(!doubtful))),
        }
    }

    /// Lets only their owner into the folder and to the lock and the database: also where the folder was there before, or somebody
    /// has opened it since. Whoever can open the lock keeps the agent from its work. A folder with programs in it (`agent`) that
    /// others may write stays as it is: closed, it would look as if the programs were what this site was brought, and they would be
    /// started.
    ///
    /// # Errors
    /// [`FileError`] where this user may not do that.
    fn close_to_others(&self) -> Result<(), FileError> {
        let files = DATABASE_FILES.map(|name| self.root.join(name));
        let lock = self.root.join("lock");
        let mode = fs::metadata(&self.root).map_or(0, |found| found.permissions().mode());
        if mode & OTHERS_WRITE != 0 && self.root.join("agent").exists() {
            return Ok(());
        }
        // The folder first: from then on nobody else puts a link where a file was.
        for path in [&self.root, &lock].into_iter().chain(&files) {
            let found = match path == &self.root {
                true => fs::metadata(path),
                false => fs::symlink_metadata(path),
            };
            let Some(found) = found.ok().filter(|found| !found.is_symlink()) else {
                continue;
            };
            let mode = found.permissions().mode();
            if mode & OTHERS != 0 {
                let closed = fs::Permissions::from_mode(mode & 0o7777 & !OTHERS);
                fs::set_permissions(path, closed).map_err(at("close to other users", path))?;
            }
        }
        Ok(())
    }

    /// Creates the folders that every command relies on, and closes them to others.
    ///
    /// # Errors
    /// [`FileError`] of what it reads or writes.
    pub fn create(&self) -> Result<(), FileError> {
        for folder in [
            self.root.clone(),
            self.blobs(),
            self.partial_blobs(),
            self.generations(),
        ] {
            durable::make_folder(&folder)?;
        }
        self.close_to_others()
    }

    /// The folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// `agent.toml`
    pub fn config(&self) -> PathBuf {
        self.root.join("agent.toml")
    }

    /// The database.
    pub fn database(&self) -> PathBuf {
        self.root.join("agent.db")
    }

    /// The sidecar with the floors; for a rehearsal one that is never there, unless floors are doubtful.
    pub fn floors(&self) -> PathBuf {
        let copied = self.rehearsal.as_ref();
        let name = if copied.is_some_and(|copied| copied.load(Ordering::Relaxed)) {
            "floors.rehearsal"
        } else {
            "floors.json"
        };
        self.root.join(name)
    }

    /// Whether floors stand in a copied memory alone; in a rehearsal they do from now on.
    pub fn keeps_floors_in_copy(&self) -> bool {
        let copied = self.rehearsal.as_ref();
        copied
            .inspect(|copied| copied.store(true, Ordering::Relaxed))
            .is_some()
    }

    /// The copy of what people hold, beside the database.
    pub fn holds(&self) -> PathBuf {
        self.root.join("holds.json")
    }

    /// The site's own key.
    pub fn key(&self) -> PathBuf {
        self.root.join("site.key")
    }

    /// The site's next key, until the order for it is carried out.
    pub fn next_key(&self) -> PathBuf {
        self.root.join("site.key.next")
    }

    /// The site's next key for what is sealed for it; not among those in use.
    pub fn next_seal_key(&self) -> PathBuf {
        self.root.join("site.age.next")
    }

    /// Secret keys that open what is sealed: the site's own, and those of streams.
    pub fn identities(&self) -> PathBuf {
        self.root.join("identities")
    }

    /// The enrolment request of `site`.
    pub fn request(&self, site: &str) -> PathBuf {
        self.root.join(format!("{site}.request"))
    }

    /// Whole blobs, by digest.
    pub fn blobs(&self) -> PathBuf {
        self.root.join("blobs/sha256")
    }

    /// Blobs that are still being copied.
    pub fn partial_blobs(&self) -> PathBuf {
        self.root.join("blobs/partial")
    }

    /// The fleet's roots that were passed since enrolment: `<version>.root.json`.
    pub fn roots(&self) -> PathBuf {
        self.root.join("roots")
    }

    /// All generations.
    pub fn generations(&self) -> PathBuf {
        self.root.join("generations")
    }

    /// One generation.
    pub fn generation(&self, number: u64) -> PathBuf {
        self.generations().join(number.to_string())
    }

    /// Where the folder reconciler writes when nothing else is set.
    pub fn default_target(&self) -> PathBuf {
        self.root.join("applied")
    }

    /// Whether some process is the one agent now. Changes nothing; where it cannot be known, yes.
    pub fn is_locked(&self) -> bool {
        match durable::open_file(&self.root.join("lock")) {
            Ok(file) => file.try_lock_shared().is_err(),
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        }
    }

    /// Whether the one agent now is the service, `outhaul-agent run`: it holds the lock, and has said so. Changes nothing.
    pub fn service_runs(&self) -> bool {
        self.at_work() == AtWork::Service
    }

    /// What marks the settings that the service works with, where it runs and has said so. Changes nothing.
    pub fn service_settings(&self) -> Option<String> {
        if !self.service_runs() {
            return None;
        }
        let text = durable::read(&self.root.join("lock"), MAX_LOCK_BYTES).ok()?;
        let text = String::from_utf8(text).ok()?;
        text.lines().nth(2).map(str::to_owned)
    }

    /// Which other process is the one agent now. Changes nothing.
    pub fn at_work(&self) -> AtWork {
        // Who is gone holds no lock, whatever it has written.
        if !self.is_locked() {
            return AtWork::Nobody;
        }
        let path = self.root.join("lock");
        let text = durable::read(&path, MAX_LOCK_BYTES).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        if text.lines().nth(1) == Some(SERVICE) {
            return AtWork::Service;
        }
        match Holder::of(&text, path) {
            Holder::Process(id) if id == std::process::id() => AtWork::Nobody,
            holder => AtWork::Command(holder),
        }
    }

    /// Refuses where the service or a command is the one agent now. Changes nothing; whether the lock can be used at all, [`Self::lock`]
    /// says.
    ///
    /// # Errors
    /// [`LockError::Busy`]
    pub fn check_idle(&self) -> Result<(), LockError> {
        match self.at_work() {
            AtWork::Nobody | AtWork::Command(Holder::Unknown(_)) => Ok(()),
            AtWork::Service | AtWork::Command(Holder::Process(_)) => Err(self.busy()),
        }
    }

    /// That somebody else has the lock, by what stands in it.
    fn busy(&self) -> LockError {
        let path = self.root.join("lock");
        let holder = durable::read(&path, MAX_LOCK_BYTES).unwrap_or_default();
        LockError::Busy {
            state: self.root.clone(),
            holder: Holder::of(&String::from_utf8_lossy(&holder), path),
        }
    }

    /// Makes this process the one agent that changes what is applied.
    ///
    /// # Errors
    /// [`LockError::Busy`] when another process is that already.
    pub fn lock(&self) -> Result<Lock, LockError> {
        durable::make_folder(&self.root)?;
        self.check()?;
        self.close_to_others()?;
        let path = self.root.join("lock");
        let Some(file) = lock::take(&path).map_err(at("open", &path))? else {
            return Err(self.busy());
        };
        // The folder was open to others until a moment ago where an earlier agent made it: the new file is not.
        self.close_to_others()?;
        // Who holds it is for messages only; the lock itself ends with the process.
        let _ = file.set_len(0);
        let _ = (&*file).write_all(format!("{}\n", std::process::id()).as_bytes());
        Ok(Lock { file })
    }
}

/// Who is the one agent now, beside this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AtWork {
    /// Nobody.
    Nobody,
    /// The service, which continues automatically.
    Service,
    /// A command, which ends.
    Command(Holder),
}

/// The right to change what is applied; given back when dropped, or when the process ends.
#[derive(Debug)]
pub struct Lock {
    file: lock::Held,
}

impl Lock {
    /// Notes that the holder is the service, for [`StateFolder::service_runs`], and what marks the settings that it works with.
    pub fn note_service(&self, settings: &str) {
        // For messages only, as who holds it.
        let _ = (&*self.file).write_all(format!("{SERVICE}\n{settings}\n").as_bytes());
    }
}

/// Who holds the lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Holder {
    /// The process that wrote its id into the lock file, and is there.
    Process(u32),
    /// Somebody else, or a process that has not written its id yet; the lock file.
    Unknown(PathBuf),
}

impl Holder {
    /// By what stands in the lock file `path`: what an agent wrote that has ended names nobody.
    fn of(text: &str, path: PathBuf) -> Self {
        let id: Option<i32> = text
            .lines()
            .next()
            .and_then(|line| line.trim().parse().ok());
        let process = id
            .filter(|id| *id > 0)
            .and_then(Pid::from_raw)
            .filter(|id| {
                // A process of another user is there, too.
                !matches!(test_kill_process(*id), Err(Errno::SRCH))
            });
        match process {
            Some(id) => Self::Process(id.as_raw_nonzero().get().unsigned_abs()),
            None => Self::Unknown(path),
        }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process(id) => write!(f, "another outhaul-agent (process {id})"),
            Self::Unknown(path) => {
                let (path, typed) = (text::path(path), text::quoted(path));
                write!(
                    f,
                    "somebody else, who holds the lock `{path}` (`fuser -v {typed}` names the process),"
                )
            }
        }
    }
}

/// Why the lock was not to be had.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process holds it.
    #[error(
        "{holder} works on the state folder `{}`; nothing was changed",
        text::path(state)
    )]
    Busy {
        /// The folder.
        state: PathBuf,
        /// Who it is.
        holder: Holder,
    },
    /// The lock file cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fifo_in_the_place_of_the_lock_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let made = std::process::Command::new("mkfifo").arg(path).status();
        assert!(made.unwrap().success());
        let state = StateFolder::new(folder.path());
        // Where it cannot be known, some process is the agent.
        assert!(state.is_locked());
    }

    #[test]
    fn a_service_is_seen_only_while_it_holds_the_lock_and_says_that_it_is_one() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateFolder::new(folder.path());
        assert!(!state.service_runs());
        let command = state.lock().unwrap();
        assert!(state.is_locked() && !state.service_runs(), "an import");
        drop(command);
        let service = state.lock().unwrap();
        service.note_service("0123");
        assert_eq!(state.service_settings().as_deref(), Some("0123"));
        let Err(LockError::Busy { holder, .. }) = state.lock() else {
            unreachable!("it is locked");
        };
        assert_eq!(holder, Holder::Process(std::process::id()));
        drop(service);
        assert!(!state.service_runs(), "what it wrote is still there");
        assert_eq!(state.service_settings(), None);
    }

    #[test]
    fn a_folder_that_was_open_to_others_is_closed_by_whoever_opens_it() {
        let folder = tempfile::tempdir().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let open = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
        let state = StateFolder::new(folder.path());
        let files = ["lock", "agent.db", "agent.db-wal"].map(|name| folder.path().join(name));
        for path in &files {
            fs::write(path, "").unwrap();
        }
        let closings: [fn(&StateFolder); 2] = [
            |state| state.create().unwrap(),
            |state| drop(state.lock().unwrap()),
        ];
        for close in closings {
            open(folder.path(), 0o755).unwrap();
            for path in &files {
                open(path, 0o644).unwrap();
            }
            close(&state);
            assert_eq!(mode(folder.path()), 0o700);
            for path in &files {
                assert_eq!(mode(path), 0o600);
            }
        }
        fs::remove_file(state.root().join("lock")).unwrap();
        drop(state.lock().unwrap());
        assert_eq!(mode(&files[0]), 0o600, "a new one");
        // Where others may have put a program into it, it does not become trusted by that.
        fs::create_dir(folder.path().join("agent")).unwrap();
        for (before, after) in [(0o775, 0o775), (0o755, 0o700)] {
            open(folder.path(), before).unwrap();
            state.create().unwrap();
            assert_eq!(mode(folder.path()), after);
        }
        // A link leads elsewhere: what is there is not ours.
        let elsewhere = tempfile::NamedTempFile::new().unwrap();
        open(elsewhere.path(), 0o644).unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), folder.path().join("agent.db-shm")).unwrap();
        state.create().unwrap();
        assert_eq!(mode(elsewhere.path()), 0o644);
    }

    #[test]
    fn an_ended_process_is_not_named_as_who_holds_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateFolder::new(folder.path());
        let path = folder.path().join("lock");
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        for written in [format!("{}\n", ended.id()), String::new(), "-1\n".into()] {
            fs::write(&path, &written).unwrap();
            let _held = lock::take(&path).unwrap().unwrap();
            let error = state.lock().unwrap_err();
            let LockError::Busy { holder, .. } = &error else {
                unreachable!("it is held");
            };
            assert_eq!(*holder, Holder::Unknown(path.clone()), "{written}");
            let printed = error.to_string();
            assert!(
                printed.starts_with("somebody else, who holds the lock"),
                "{printed}"
            );
        }
    }
}
