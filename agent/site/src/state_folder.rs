//! Where everything lies below the one `--state` folder, and (in `lock`) what makes it one agent's.
//!
//! What comes in: the folder. What goes out: paths, and a [`Lock`] for commands that change what is
//! applied. Reading (`status`) and deciding (`approve`, `hold`) need no lock: SQLite orders those.
//! Whoever opens it closes it to other users.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use outhaul_kit::text;

use crate::durable::{self, FileError, at};

mod entries;
mod lock;

pub use entries::{FOLDERS, REPLACED_FILES};
pub use lock::{AtWork, Holder, Lock, LockError};

/// The file that whoever changes what is applied holds.
pub const LOCK: &str = "lock";
/// The database, and what SQLite writes beside it: files that are written in place.
pub const DATABASE_FILES: [&str; 4] = [
    "agent.db",
    "agent.db-wal",
    "agent.db-shm",
    "agent.db-journal",
];
/// Where a backup is put together before its files get their names.
pub(crate) const RESTORING: &str = "restoring";
/// Where removed databases are saved.
pub(crate) const RESCUED: &str = "rescued";
/// The folder of saved reports, in that folder.
pub(crate) const REPORTS: &str = "reports";
/// What group and others may do, of a file's mode.
const OTHERS: u32 = 0o077;
/// Of that, what lets them put something else in the place of what is there.
const OTHERS_WRITE: u32 = 0o022;

/// Why this user cannot open the file at `path`, where it is there: another user's file is none that is damaged.
pub fn why_closed(path: &Path) -> Option<io::Error> {
    let error = fs::File::open(path).err()?;
    (error.kind() != io::ErrorKind::NotFound).then_some(error)
}

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

    /// Lets only their owner into the folder and to the lock and the database: also where the folder was there before, or someone
    /// has opened it since. Whoever can open the lock keeps the agent from its work. A folder with programs in it (`agent`) that
    /// others may write stays as it is: closed, it would look as if the programs were what this site was brought, and they would be
    /// started.
    ///
    /// # Errors
    /// [`FileError`] where this user may not do that.
    fn close_to_others(&self) -> Result<(), FileError> {
        let files = DATABASE_FILES.map(|name| self.root.join(name));
        let lock = self.root.join(LOCK);
        let mode = fs::metadata(&self.root).map_or(0, |found| found.permissions().mode());
        if mode & OTHERS_WRITE != 0 {
            let (shown, mode) = (text::path(&self.root), mode & 0o7777);
            let stays = self.root.join("agent").exists();
            tracing::warn!(
                "the state folder `{shown}` has mode {mode:o}: other users may have changed what is in it; {}",
                match stays {
                    true =>
                        "it stays so, and no agent in it is started: look at what is in it, then give `chmod 700` for it".to_owned(),
                    false => format!(
                        "it has mode {:o} from now on: look at what is in it",
                        mode & !OTHERS
                    ),
                }
            );
            if stays {
                return Ok(());
            }
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

    /// Which site this folder is, beside the database.
    pub fn identity(&self) -> PathBuf {
        self.root.join("site.json")
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
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
