//! Ctrl-C: a program ends at once and leaves nothing behind that it had only begun.
//!
//! What comes in: the names of temporary files and folders, and when something is being finished that must
//! not be parted. What goes out: a process that waits for what is being finished, removes what is temporary
//! and ends with exit code 130 (or 143 for SIGTERM). Whoever notices the signal calls [`end`]; without that
//! nothing here does anything. It knows no signal itself.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// How often a folder is removed into which another thread still writes.
const TRIES: usize = 1000;

#[derive(Debug)]
struct State {
    temporary: BTreeSet<PathBuf>,
    finishing: usize,
    ending: bool,
}

static STATE: Mutex<State> = Mutex::new(State {
    temporary: BTreeSet::new(),
    finishing: 0,
    ending: false,
});
static CHANGED: Condvar = Condvar::new();

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The same, for whoever begins something new: nothing new is begun when the process ends.
fn running() -> MutexGuard<'static, State> {
    let mut state = state();
    while state.ending && state.finishing == 0 {
        state = CHANGED.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
    state
}

/// A file or folder that is removed when the process is interrupted, until this is dropped.
#[derive(Debug)]
#[must_use]
pub struct Temporary(PathBuf);

/// What lies at `path`, now or soon, is temporary.
pub fn temporary(path: &Path) -> Temporary {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    running().temporary.insert(path.clone());
    Temporary(path)
}

impl Drop for Temporary {
    fn drop(&mut self) {
        state().temporary.remove(&self.0);
    }
}

/// While one of these is there, an interruption waits.
#[derive(Debug)]
#[must_use]
pub struct Finishing(());

/// Something is being finished that must not be parted.
pub fn finishing() -> Finishing {
    running().finishing += 1;
    Finishing(())
}

impl Drop for Finishing {
    fn drop(&mut self) {
        state().finishing -= 1;
        CHANGED.notify_all();
        // Whoever was interrupted meanwhile hears that, and not how the work would have ended.
        drop(running());
    }
}

/// Makes something temporary of which the name is only known afterwards.
///
/// # Errors
/// The error of `make`.
pub fn make<T, E>(
    make: impl FnOnce() -> Result<T, E>,
    path: impl FnOnce(&T) -> &Path,
) -> Result<(T, Temporary), E> {
    let _whole = finishing();
    let made = make()?;
    let temporary = temporary(path(&made));
    Ok((made, temporary))
}

/// Ends the process: what is being finished is waited for, what is temporary is removed.
#[expect(
    clippy::disallowed_methods,
    reason = "threads are in the middle of their work: what their destructors would remove is removed here, \
              and locks are the process's"
)]
pub fn end(code: i32) -> ! {
    let mut state = state();
    state.ending = true;
    CHANGED.notify_all();
    while state.finishing > 0 {
        state = CHANGED.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
    for path in &state.temporary {
        remove(path);
    }
    std::process::exit(code)
}

fn remove(path: &Path) {
    for _ in 0..TRIES {
        let removed = match std::fs::symlink_metadata(path) {
            Ok(found) if found.is_dir() => std::fs::remove_dir_all(path),
            Ok(_) => std::fs::remove_file(path),
            Err(_) => return,
        };
        if removed.is_ok() {
            return;
        }
    }
}

/// Marks an instant at which a test may interrupt: `OUTHAUL_INTERRUPT=n` does at the n-th one. Does nothing
/// in a release build.
#[cfg(debug_assertions)]
pub fn here() {
    use std::sync::atomic::{AtomicU64, Ordering};
    static PASSED: AtomicU64 = AtomicU64::new(0);

    let passed = PASSED.fetch_add(1, Ordering::Relaxed) + 1;
    let wanted = std::env::var("OUTHAUL_INTERRUPT").ok();
    if wanted.and_then(|wanted| wanted.parse().ok()) != Some(passed) {
        return;
    }
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::INT);
    // Here and nowhere else, unless it must be finished first.
    let mut state = state();
    while !(state.ending && state.finishing > 0) {
        state = CHANGED.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
}

/// Marks an instant. Does nothing in a release build.
#[cfg(not(debug_assertions))]
pub fn here() {}
