//! Marks of files that were read and found right: what the file system says of them since, without reading them.
//!
//! What comes in: a folder of the agent's own, and what `stat` says of a file. What goes out: whether the file is still the
//! one that was read, by device, inode, size, and the times of the last change of content (mtime) and of anything (ctime),
//! each to the nanosecond. A program can set the mtime and not the ctime. A time that is not long past is not recorded: a
//! second change within one tick of the clock would have the same. Once per interval nothing is known, so that every byte is read.
//! Marks that are lost cost one reading. They are written by the owner of the folder only: when it looks for drift, and after what
//! differed was put back. `status` and `plan` only read them.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use outhaul_bundle::Digest;
use outhaul_kit::durable;
use serde::{Deserialize, Serialize};

/// How often every byte is read where nothing else is set.
pub const FULL_READ: Duration = Duration::from_secs(24 * 60 * 60);
/// Largest file of marks in bytes: 100,000 files fit.
const MAX_BYTES: u64 = 64 * 1024 * 1024;
/// How long ago a file must have changed last, in seconds, so that one more change would have another time: the coarsest clock
/// of a file system, FAT's, has ticks of two.
const SETTLED_S: i64 = 3;

/// What the file system says of a file, which no change of its content leaves as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    changed: (i64, i64),
    touched: (i64, i64),
}

impl Stamp {
    /// The stamp of a file whose metadata were just read.
    pub fn of(meta: &Metadata) -> Self {
        Self {
            device: meta.dev(),
            inode: meta.ino(),
            size: meta.size(),
            changed: (meta.mtime(), meta.mtime_nsec()),
            touched: (meta.ctime(), meta.ctime_nsec()),
        }
    }

    /// Whether nothing of the file changed at `time` or later.
    pub fn is_older_than(&self, time: SystemTime) -> bool {
        let since = time.duration_since(SystemTime::UNIX_EPOCH);
        let since = since.unwrap_or_default();
        let since = (
            i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
            i64::from(since.subsec_nanos()),
        );
        self.changed.max(self.touched) < since
    }

    /// Whether a change that comes now gets another time.
    fn is_stable(&self, now_s: i64) -> bool {
        let latest = self.touched.0.max(self.changed.0);
        latest.saturating_add(SETTLED_S) <= now_s
    }
}

/// As it is kept.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct StoredMarks {
    /// When every byte was read last, in seconds since 1970, by the clock of the file system.
    all_read_s: i64,
    files: BTreeMap<String, (Digest, Stamp)>,
}

/// The marks of one look.
#[derive(Debug)]
pub struct Marks {
    /// `None`: nothing is known, and nothing is kept.
    path: Option<PathBuf>,
    /// The time of this look by the clock of the file system; `None` where it cannot be had, so that nothing is recorded.
    now_s: Option<i64>,
    known: StoredMarks,
    seen: BTreeMap<String, (Digest, Stamp)>,
    reads_all: bool,
}

impl Marks {
    /// No marks: every file is read.
    pub fn none() -> Self {
        Self {
            path: None,
            now_s: None,
            known: StoredMarks::default(),
            seen: BTreeMap::new(),
            reads_all: true,
        }
    }

    /// The marks `name` in `folder`, for who looks and writes nothing: they are used however old they are.
    pub fn to_read(folder: &Path, name: &str) -> Self {
        let known = read(&folder.join(format!("{name}.json")));
        Self {
            reads_all: known.is_none(),
            known: known.unwrap_or_default(),
            ..Self::none()
        }
    }

    /// The marks `name` in `folder`, which is made below its parent, to be kept after this look.
    pub fn open(folder: &Path, name: &str, full_read: Duration) -> Self {
        let path = folder.join(format!("{name}.json"));
        let now_s = now_s(folder);
        let known = read(&path);
        let is_due = |kept: &StoredMarks| {
            let age = now_s.map(|now_s| now_s.saturating_sub(kept.all_read_s));
            // A time in the future is of another clock, and where no time can be had nothing is believed.
            let age = age.and_then(|age| u64::try_from(age).ok());
            age.is_none_or(|age| age >= full_read.as_secs())
        };
        let is_due = known.as_ref().is_none_or(is_due);
        Self {
            path: Some(path),
            now_s,
            known: known.unwrap_or_default(),
            seen: BTreeMap::new(),
            reads_all: is_due,
        }
    }

    /// Whether every byte is read at this look.
    pub fn reads_all(&self) -> bool {
        self.reads_all
    }

    /// Whether the file `name` with this stamp is known to have the content `digest`: it was read, and is as it was then.
    pub fn knows(&mut self, name: &str, digest: &Digest, stamp: &Stamp) -> bool {
        let mark = (*digest, *stamp);
        let is_known = !self.reads_all && self.known.files.get(name) == Some(&mark);
        if is_known {
            self.seen.insert(name.to_owned(), mark);
        }
        is_known
    }

    /// The file `name` has the content `digest`, and had this stamp before it was read.
    pub fn record(&mut self, name: &str, digest: &Digest, stamp: &Stamp) {
        if self.now_s.is_some_and(|now_s| stamp.is_stable(now_s)) {
            self.seen.insert(name.to_owned(), (*digest, *stamp));
        }
    }

    /// Keeps what was seen for the next look. Where that cannot be written, the next one reads more.
    pub fn keep(self) {
        let (Some(path), Some(now_s)) = (self.path, self.now_s) else {
            return;
        };
        let kept = StoredMarks {
            all_read_s: match self.reads_all {
                true => now_s,
                false => self.known.all_read_s,
            },
            files: self.seen,
        };
        if kept == self.known {
            return;
        }
        let written = serde_json::to_vec(&kept)
            .map_err(|error| error.to_string())
            .and_then(|bytes| durable::write(&path, &bytes, 0o600).map_err(|e| e.to_string()));
        if let Err(error) = written {
            tracing::warn!("the next look for drift reads every file again: {error}");
        }
    }
}

fn read(path: &Path) -> Option<StoredMarks> {
    let file = durable::open_file(path).ok()?;
    let mut bytes = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
    // Cut or damaged marks are no marks.
    serde_json::from_slice(&bytes).ok()
}

/// What the clock of the file system of `folder` says now, and `None` where this process may not keep marks there.
fn now_s(folder: &Path) -> Option<i64> {
    let parent = fs::metadata(folder.parent()?).ok()?;
    if rustix::process::geteuid().as_raw() != parent.uid() {
        return None;
    }
    durable::make_folder(folder).ok()?;
    let path = folder.join(format!("now-{}", std::process::id()));
    let _ = fs::remove_file(&path);
    let made = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path);
    let now_s = made.and_then(|file: File| file.metadata());
    let _ = fs::remove_file(&path);
    Some(now_s.ok()?.mtime())
}

/// Marks by which `files` were read and found right just now, whatever is in them.
#[cfg(test)]
pub fn forge(folder: &Path, name: &str, files: &[(&str, Digest, Stamp)]) {
    let one =
        |(name, digest, stamp): &(&str, Digest, Stamp)| ((*name).to_owned(), (*digest, *stamp));
    let kept = StoredMarks {
        all_read_s: now_s(folder).unwrap(),
        files: files.iter().map(one).collect(),
    };
    let bytes = serde_json::to_vec(&kept).unwrap();
    durable::write(&folder.join(format!("{name}.json")), &bytes, 0o600).unwrap();
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn stamp(path: &Path) -> Stamp {
        Stamp::of(&fs::symlink_metadata(path).unwrap())
    }

    /// As if the file had changed last at `touched_s`: a ctime cannot be set.
    fn at(path: &Path, touched_s: i64) -> Stamp {
        Stamp {
            changed: (touched_s, 0),
            touched: (touched_s, 0),
            ..stamp(path)
        }
    }

    #[test]
    fn a_file_that_was_read_is_known_until_anything_of_it_changes() {
        let folder = tempfile::tempdir().unwrap();
        let (marks, file) = (folder.path().join("marks"), folder.path().join("file"));
        fs::write(&file, "one").unwrap();
        let (digest, old) = (Digest::of(b"one"), at(&file, 1_000));
        let mut first = Marks::open(&marks, "app", HOUR);
        assert!(first.reads_all() && !first.knows("file", &digest, &old));
        first.record("file", &digest, &old);
        first.keep();

        let mut next = Marks::open(&marks, "app", HOUR);
        assert!(!next.reads_all());
        assert!(next.knows("file", &digest, &old));
        assert!(!next.knows("file", &Digest::of(b"two"), &old));
        assert!(!next.knows("other", &digest, &old));
        let differing = [
            Stamp { device: 0, ..old },
            Stamp { inode: 0, ..old },
            Stamp { size: 4, ..old },
            Stamp {
                changed: (1_000, 1),
                ..old
            },
            Stamp {
                touched: (1_000, 1),
                ..old
            },
        ];
        for other in differing {
            assert!(!next.knows("file", &digest, &other), "{other:?}");
        }
    }

    #[test]
    fn a_file_that_has_just_changed_is_not_known_by_its_time() {
        let folder = tempfile::tempdir().unwrap();
        let (marks, file) = (folder.path().join("marks"), folder.path().join("file"));
        fs::write(&file, "one").unwrap();
        let (digest, new) = (Digest::of(b"one"), stamp(&file));
        let mut first = Marks::open(&marks, "app", HOUR);
        first.record("file", &digest, &new);
        first.keep();
        assert!(!Marks::open(&marks, "app", HOUR).knows("file", &digest, &new));
    }

    #[test]
    fn once_per_interval_and_after_a_damage_nothing_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let (marks, file) = (folder.path().join("marks"), folder.path().join("file"));
        fs::write(&file, "one").unwrap();
        let (digest, old) = (Digest::of(b"one"), at(&file, 1_000));
        let path = marks.join("app.json");
        let known = |all_read_s: i64| {
            let files = BTreeMap::from([("file".to_owned(), (digest, old))]);
            let bytes = serde_json::to_vec(&StoredMarks { all_read_s, files }).unwrap();
            durable::write(&path, &bytes, 0o600).unwrap();
            Marks::open(&marks, "app", HOUR).knows("file", &digest, &old)
        };
        durable::create_folder(&marks).unwrap();
        let now = now_s(&marks).unwrap();
        assert!(known(now - 60));
        assert!(!known(now - 3600), "it is due");
        assert!(!known(now + 3600), "of another clock");
        // However old: for who only looks, and keeps nothing.
        let mut only_read = Marks::to_read(&marks, "app");
        assert!(only_read.knows("file", &digest, &old));
        only_read.record("other", &digest, &old);
        only_read.keep();
        assert!(!Marks::to_read(&marks, "app").knows("other", &digest, &old));
        // Where the time cannot be had, such as in a folder that is not ours, nothing is believed.
        assert!(known(now - 60));
        fs::rename(&marks, folder.path().join("elsewhere")).unwrap();
        std::os::unix::fs::symlink("elsewhere", &marks).unwrap();
        let gone = folder.path().join("nowhere/marks");
        assert!(Marks::open(&gone, "app", HOUR).reads_all());
        fs::remove_file(&marks).unwrap();
        fs::rename(folder.path().join("elsewhere"), &marks).unwrap();
        fs::write(&path, "{").unwrap();
        assert!(!Marks::open(&marks, "app", HOUR).knows("file", &digest, &old));
        assert_eq!(
            fs::read_dir(&marks).unwrap().count(),
            1,
            "nothing is left behind"
        );
    }
}
