//! What a run left that was killed while it wrote a file: the temporary file, which nobody renames any more.
//!
//! What comes in: a folder that only this program writes to, and that it has to itself now. What goes out: the names that were removed.
//! Only names that [`super::write`] makes (`.NAME.PID.tmp`), of processes that have ended, that nobody has written to for an hour, and only
//! regular files: in another container, or on another machine that shares the folder, a process that is at work has a number that says
//! nothing here. It enters no folder below.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::process::{Pid, test_kill_process};

use super::{SECRET_MODE, create, temporary_beside};

/// How long nobody has written to what is removed. A file that is written has its name within seconds.
const AGE: Duration = Duration::from_secs(3600);

/// Removes what killed runs left in `folder`. What cannot be removed, and what is too young, is left for a later run.
pub fn remove_leftovers(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let left = entries.filter(|entry| {
        let name = entry.file_name();
        let process = name.to_str().and_then(process);
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        is_file && process.is_some_and(has_ended)
    });
    let left: Vec<PathBuf> = left.map(|entry| entry.path()).collect();
    if left.is_empty() {
        return left;
    }
    // What cannot be known to be old is left.
    let Ok(now) = time_of(folder) else {
        return Vec::new();
    };
    let is_old = |path: &PathBuf| {
        let written = fs::symlink_metadata(path).and_then(|found| found.modified());
        written.is_ok_and(|written| now.duration_since(written).is_ok_and(|age| age >= AGE))
    };
    let removed = left.into_iter().filter(is_old);
    let mut removed: Vec<_> = removed
        .filter(|path| fs::remove_file(path).is_ok())
        .collect();
    removed.sort();
    removed
}

/// What time it is where the files get theirs: on a folder that machines share, it is not this machine's clock that counts.
fn time_of(folder: &Path) -> io::Result<SystemTime> {
    let path = temporary_beside(&folder.join("time"));
    let _ = fs::remove_file(&path);
    let file = create(&path, SECRET_MODE).map_err(|error| error.source)?;
    let time = file.metadata().and_then(|found| found.modified());
    fs::remove_file(&path)?;
    time
}

/// The process that made a temporary file of this name.
fn process(name: &str) -> Option<Pid> {
    let (own, process) = name
        .strip_prefix('.')?
        .strip_suffix(".tmp")?
        .rsplit_once('.')?;
    let number = process.bytes().all(|byte| byte.is_ascii_digit());
    (number && !own.is_empty()).then(|| process.parse().ok().and_then(Pid::from_raw))?
}

/// One that may not be asked is there; so is this one.
fn has_ended(process: Pid) -> bool {
    test_kill_process(process) == Err(rustix::io::Errno::SRCH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::durable::temporary_beside;

    #[test]
    fn only_what_a_process_left_that_has_ended_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        let left = at(&format!(".a.json.{}.tmp", ended.id()));
        let kept = [
            temporary_beside(&at("a.json")),
            at(".a.json.tmp"),
            at(&format!("a.json.{}.tmp", ended.id())),
            at(&format!(".a.json.{}x.tmp", ended.id())),
            at(&format!("..{}.tmp", ended.id())),
        ];
        for path in kept.iter().chain([&left]) {
            fs::write(path, "part").unwrap();
            let file = fs::File::options().write(true).open(path).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        }
        // A process of another container may have this number, too, and be at work.
        let young = at(&format!(".b.json.{}.tmp", ended.id()));
        fs::write(&young, "part").unwrap();
        fs::create_dir(at(&format!(".folder.{}.tmp", ended.id()))).unwrap();
        assert_eq!(remove_leftovers(folder.path()), std::slice::from_ref(&left));
        assert!(!left.exists());
        assert!(young.exists());
        let count = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(count, kept.len() + 2, "and nothing new");
        for path in kept {
            assert!(path.exists(), "{}", path.display());
        }
    }
}
