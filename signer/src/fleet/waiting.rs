//! The lock of a fleet, taken: alone its owner may hold it, and whoever waits for it says so.
//!
//! What comes in: the lock's path. What goes out: the file, locked. It ends nothing, and waits as long as it takes.

use std::fmt::Write as _;
use std::fs::{File, Permissions, TryLockError};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::thread;
use std::time::Duration;

use outhaul_kit::text::printable_lines;

/// How long it is waited without a word, in steps.
const SILENT_STEPS: u32 = 20;
const STEP: Duration = Duration::from_millis(50);
/// Whoever may open it may hold it.
const OWNER_ONLY: u32 = 0o600;
/// What is read of the locks that the kernel lists.
const MAX_LOCKS_BYTES: u64 = 1 << 20;

/// Opens and locks `path`. `say` gets the line about who is waited for.
pub(super) fn locked(path: &Path, say: impl FnOnce(&str)) -> io::Result<File> {
    let file = outhaul_kit::lock::open(path, OWNER_ONLY)?;
    let metadata = file.metadata()?;
    if metadata.mode() & 0o077 != 0 {
        // Someone else's file stays as it is: it could be opened, and that is what the lock needs.
        match file.set_permissions(Permissions::from_mode(OWNER_ONLY)) {
            Err(error) if error.kind() != io::ErrorKind::PermissionDenied => return Err(error),
            _ => {}
        }
    }
    for _ in 0..SILENT_STEPS {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) => thread::sleep(STEP),
        }
    }
    let mut text = format!("waiting for the lock `{}`", path.display());
    let holder = File::open("/proc/locks").and_then(|file| {
        let mut locks = String::new();
        file.take(MAX_LOCKS_BYTES).read_to_string(&mut locks)?;
        Ok(holder(&locks, (metadata.dev(), metadata.ino())))
    });
    // Where the kernel does not say it, the path alone has to do.
    let _ = match holder {
        Ok(Some(process)) => write!(text, ", which process {process} has (`ps -p {process}`)"),
        _ => write!(text, ", which another program has"),
    };
    say(&printable_lines(&text));
    file.lock()?;
    Ok(file)
}

/// The process that holds a lock on the file of this device and inode, of what the kernel lists: `1: FLOCK  ADVISORY  WRITE 4711 08:01:42 0
/// EOF`, with the device in hexadecimal.
fn holder(locks: &str, (device, inode): (u64, u64)) -> Option<u32> {
    let wanted = (
        u64::from(rustix::fs::major(device)),
        u64::from(rustix::fs::minor(device)),
        inode,
    );
    let mut found = locks.lines().filter_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let is_flock = words.next() == Some("FLOCK");
        let process = words.nth(2)?.parse().ok()?;
        let mut of = words.next()?.split(':');
        let mut hexadecimal = || u64::from_str_radix(of.next()?, 16).ok();
        let (major, minor) = (hexadecimal()?, hexadecimal()?);
        let inode = of.next()?.parse().ok()?;
        (is_flock && (major, minor, inode) == wanted).then_some(process)
    });
    found.next()
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::{holder, locked};

    #[test]
    fn attack_a_fifo_in_the_place_of_the_lock_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, 0o600.into()).unwrap();
        let refused = locked(&path, |said| panic!("{said}")).unwrap_err();
        assert!(refused.to_string().contains("FIFO"), "{refused}");
    }

    #[test]
    fn a_lock_that_others_could_hold_is_taken_from_them() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        drop(locked(&path, |text| panic!("{text}")).unwrap());
        assert_eq!(mode(), 0o600);
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        drop(locked(&path, |text| panic!("{text}")).unwrap());
        assert_eq!(mode(), 0o600);
    }

    #[test]
    fn whoever_waits_for_the_lock_says_whom_it_waits_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let held = File::create(&path).unwrap();
        held.lock().unwrap();
        let mut said = String::new();
        let taken = locked(&path, |text| {
            said = text.to_owned();
            held.unlock().unwrap();
        });
        assert!(taken.is_ok());
        // Not every file system lets the kernel say which process it is.
        let words = format!("waiting for the lock `{}`, which ", path.display());
        assert!(said.starts_with(&words), "{said}");
    }

    #[test]
    fn who_holds_a_lock_is_read_where_the_kernel_lists_it() {
        let locks = "1: POSIX  ADVISORY  WRITE 1 fd:10:42 0 EOF\n2: FLOCK  ADVISORY  WRITE 4711 fd:10:42 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 4712 fd:10:42 0 EOF\n";
        assert_eq!(
            holder(locks, (rustix::fs::makedev(0xfd, 0x10), 42)),
            Some(4711)
        );
        assert_eq!(holder(locks, (rustix::fs::makedev(0xfd, 0x10), 43)), None);
        // The same number on another file system is another file.
        assert_eq!(holder(locks, (rustix::fs::makedev(0xfd, 0x11), 42)), None);
        assert_eq!(holder("rubbish\n", (0, 42)), None);
    }
}
