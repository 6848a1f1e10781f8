//! The lock that makes a state folder one agent's: who has it, and that it is still the one that others look at.
//!
//! What comes in: the folder. What goes out: a [`Lock`] for who changes what is applied, or who has it. It is held on a file, `lock`, and on
//! the folder itself: whoever removes or replaces the file lets nobody else in. It ends with the process; the file stays.

use std::fmt;
use std::io::{self, Write};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::time::Duration;

use outhaul_kit::{lock, text};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use super::{LOCK, StateFolder};
use crate::durable::{self, FileError, at};
use crate::same_file::SameFile;

/// The second line of the lock file while the service holds it; the first is the id of its process, the third marks its settings.
const SERVICE: &str = "service";
/// How often a lock is tried that someone looks at, or holds.
const TRIES: u32 = 10;
const BETWEEN_TRIES: Duration = Duration::from_millis(20);
/// Largest lock file, in bytes.
const MAX_LOCK_BYTES: u64 = 1024;
/// Most bytes of it that are read before a reason is written into it: its first three lines are shorter.
const MAX_NOTED_BYTES: usize = 256;
/// Longest reason in it why a removed database is not saved, in characters.
const MAX_REASON: usize = 200;

impl StateFolder {
    /// Whether some process is the one agent now. Changes nothing; where it cannot be known, yes.
    pub fn is_locked(&self) -> bool {
        self.is_file_locked() || lock::folder_is_taken(&self.root)
    }

    fn is_file_locked(&self) -> bool {
        match durable::open_file(&self.root.join(LOCK)) {
            Ok(file) => file.try_lock_shared().is_err(),
            // Another user's file shows nothing: who works here has the folder as well.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                durable::list(&self.root).is_err()
            }
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
        let text = durable::read(&self.root.join(LOCK), MAX_LOCK_BYTES).ok()?;
        let text = String::from_utf8(text).ok()?;
        text.lines().nth(2).map(str::to_owned)
    }

    /// Why the service that runs cannot save the database that was removed, where it has said so. Changes nothing.
    pub fn unsaved(&self) -> Option<String> {
        if !self.service_runs() {
            return None;
        }
        let text = durable::read(&self.root.join(LOCK), MAX_LOCK_BYTES).ok()?;
        let reason = String::from_utf8_lossy(&text).lines().nth(3)?.to_owned();
        Some(reason).filter(|reason| !reason.is_empty())
    }

    /// Which other process is the one agent now. Changes nothing.
    pub fn at_work(&self) -> AtWork {
        // Who is gone holds no lock, whatever it has written.
        if !self.is_locked() {
            return AtWork::Nobody;
        }
        let text = durable::read(&self.root.join(LOCK), MAX_LOCK_BYTES).unwrap_or_default();
        if String::from_utf8_lossy(&text).lines().nth(1) == Some(SERVICE) {
            return AtWork::Service;
        }
        match self.holder() {
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
            AtWork::Service | AtWork::Command(Holder::Process(_) | Holder::Folder(_)) => {
                Err(self.busy())
            }
        }
    }

    /// That someone else has the lock, by what stands in it.
    fn busy(&self) -> LockError {
        LockError::Busy {
            state: self.root.clone(),
            holder: self.holder(),
        }
    }

    /// Who has the lock, where someone has it.
    fn holder(&self) -> Holder {
        let path = self.root.join(LOCK);
        let text = durable::read(&path, MAX_LOCK_BYTES).unwrap_or_default();
        match Holder::of(&String::from_utf8_lossy(&text), path) {
            // The file that is there, if any, is not the one under which someone works.
            Holder::Unknown(_) if !self.is_file_locked() && lock::folder_is_taken(&self.root) => {
                Holder::Folder(self.root.clone())
            }
            holder => holder,
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
        let path = self.root.join(LOCK);
        // The folder first: beside a process whose file was removed no new file appears.
        let folder = match taken(|| lock::take_folder(&self.root)) {
            Ok(Some(folder)) => Some(folder),
            Ok(None) => return Err(self.busy()),
            // NFS locks no folder: the lock of the file, and its comparison before each commit, stay.
            Err(error) if has_no_folder_locks(&error) => None,
            Err(error) => return Err(at("lock", &self.root)(error).into()),
        };
        let Some(file) = taken(|| lock::take(&path)).map_err(at("open", &path))? else {
            return Err(self.busy());
        };
        // The folder was open to others until a moment ago where an earlier agent made it: the new file is not.
        self.close_to_others()?;
        // Who holds it is for messages only; the lock itself ends with the process.
        let _ = file.set_len(0);
        let _ = (&*file).write_all(format!("{}\n", std::process::id()).as_bytes());
        Ok(Lock {
            place: SameFile::at(&path).map_err(at("look at", &path))?,
            file,
            _folder: folder,
        })
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
    /// What others look at, as long as nobody removes or replaces it.
    place: SameFile,
    _folder: Option<lock::Held>,
}

/// Takes a lock. Whoever looks whether it is held has it for an instant (`status`): that is waited for.
fn taken(take: impl Fn() -> io::Result<Option<lock::Held>>) -> io::Result<Option<lock::Held>> {
    for _ in 0..TRIES {
        if let Some(held) = take()? {
            return Ok(Some(held));
        }
        std::thread::sleep(BETWEEN_TRIES);
    }
    take()
}

/// Whether a file system does not lock folders.
fn has_no_folder_locks(error: &io::Error) -> bool {
    let known = [
        Errno::BADF,
        Errno::ISDIR,
        Errno::INVAL,
        Errno::OPNOTSUPP,
        Errno::NOLCK,
    ];
    known
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

impl Lock {
    /// The lock's file, to see whether it is still the one that others look at.
    ///
    /// # Errors
    /// [`FileError`] where the system lets this process open no more files.
    pub fn place(&self) -> Result<SameFile, FileError> {
        let place = self.place.try_clone();
        place.map_err(at("look at", self.place.path()))
    }

    /// Notes why the service cannot save the database that was removed, for [`StateFolder::unsaved`]. The file is there already: a full disk has room for it.
    pub fn note_unsaved(&self, reason: &str) {
        let mut known = [0; MAX_NOTED_BYTES];
        let length = self.file.read_at(&mut known, 0).unwrap_or(0);
        let known = String::from_utf8_lossy(known.get(..length).unwrap_or_default()).into_owned();
        let mut lines: Vec<&str> = known.lines().take(3).collect();
        lines.resize(3, "");
        let reason: String = text::printable(reason).chars().take(MAX_REASON).collect();
        // For messages only, as who holds it.
        let whole = format!("{}\n{reason}\n", lines.join("\n"));
        let _ = self.file.write_all_at(whole.as_bytes(), 0);
        let _ = self.file.set_len(whole.len() as u64);
    }

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
    /// Someone else, or a process that has not written its id yet; the lock file.
    Unknown(PathBuf),
    /// A process whose lock file was removed or replaced, and which has the folder itself.
    Folder(PathBuf),
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
                    "someone else, who holds the lock `{path}` (`fuser -v {typed}` names the process),"
                )
            }
            Self::Folder(path) => {
                let typed = text::quoted(path);
                write!(
                    f,
                    "another process, whose file `lock` was removed or replaced (`fuser -v {typed}` names the process),"
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
    use std::fs;

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
                printed.starts_with("someone else, who holds the lock"),
                "{printed}"
            );
        }
    }

    #[test]
    fn nobody_else_has_the_folder_where_the_file_of_its_lock_is_removed_or_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateFolder::new(folder.path());
        let path = folder.path().join("lock");
        let held = state.lock().unwrap();
        let place = held.place().unwrap();
        assert_eq!(place.changed().unwrap(), None);
        fs::remove_file(&path).unwrap();
        assert!(state.is_locked());
        assert_eq!(place.changed().unwrap(), Some("is gone"));
        let refused = state.lock().unwrap_err().to_string();
        assert!(
            refused.contains("whose file `lock` was removed"),
            "{refused}"
        );
        assert!(!path.exists(), "no new file appears");
        assert!(state.check_idle().is_err());
        fs::write(&path, "").unwrap();
        assert_eq!(place.changed().unwrap(), Some("is another file now"));
        assert!(matches!(state.lock(), Err(LockError::Busy { .. })));
        drop(held);
        assert!(state.lock().is_ok());
    }
}
