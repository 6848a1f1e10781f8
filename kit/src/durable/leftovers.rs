//! What a run left that was killed while it wrote a file: the temporary file, which nobody renames any more.
//!
//! What comes in: a folder that only this program writes to, and that it has to itself now. What goes out: the names that were removed.
//! Only names that [`super::write`] makes (`.NAME.PID.tmp`), of processes that have ended, and only regular files. It enters no
//! folder below.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, test_kill_process};

/// Removes what killed runs left in `folder`. What cannot be removed is left for the next run.
pub fn remove_leftovers(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let left = entries.filter(|entry| {
        let name = entry.file_name();
        let process = name.to_str().and_then(process);
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        is_file && process.is_some_and(has_ended)
    });
    let removed = left.filter(|entry| fs::remove_file(entry.path()).is_ok());
    let mut removed: Vec<_> = removed.map(|entry| entry.path()).collect();
    removed.sort();
    removed
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
        }
        fs::create_dir(at(&format!(".folder.{}.tmp", ended.id()))).unwrap();
        assert_eq!(remove_leftovers(folder.path()), std::slice::from_ref(&left));
        assert!(!left.exists());
        for path in kept {
            assert!(path.exists(), "{}", path.display());
        }
    }
}
