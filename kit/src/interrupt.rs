//! Ctrl-C: a program ends at once and leaves nothing behind that it had only begun.
//!
//! What comes in: the names of temporary files and folders, and when something is being finished that must
//! not be parted; and programs that were started. What goes out: a process that waits for what is being finished, ends those
//! programs with all that they started, removes what is temporary and ends with exit code 130 (or 143 for SIGTERM). Whoever notices the signal calls [`end`]; without that
//! nothing here does anything. It knows no signal itself.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, waitpid};

/// How long programs have to remove what they began.
const ENDS_WITHIN: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(10);
/// How often a folder is removed into which another thread still writes.
const TRIES: usize = 1000;

#[derive(Debug)]
struct State {
    temporary: BTreeSet<PathBuf>,
    started: BTreeSet<i32>,
    finishing: usize,
    finished: Vec<String>,
    ending: bool,
}

static STATE: Mutex<State> = Mutex::new(State {
    temporary: BTreeSet::new(),
    started: BTreeSet::new(),
    finishing: 0,
    finished: Vec::new(),
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

/// A program that ends when the process is interrupted, with all that it started, until this is dropped.
#[derive(Debug)]
#[must_use]
pub struct Started(Option<i32>);

/// The child leads a group of its own (`CommandExt::process_group(0)`). This is dropped before its status is taken by
/// anybody else, so that its number is nobody else's.
pub fn started(child: &Child) -> Started {
    let group = i32::try_from(child.id()).ok();
    if let Some(group) = group {
        running().started.insert(group);
    }
    Started(group)
}

impl Drop for Started {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            state().started.remove(&group);
        }
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

/// Work of several parts, of which the finished ones are named when it is interrupted, until this is dropped.
#[derive(Debug)]
#[must_use]
pub struct Parts(());

/// Work of several parts begins.
pub fn parts() -> Parts {
    Parts(())
}

impl Drop for Parts {
    fn drop(&mut self) {
        state().finished.clear();
    }
}

/// Notes that a part of the work is finished and stays; while [`finishing`], so that it is noted whenever it is there.
pub fn finished(what: String) {
    state().finished.push(what);
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

/// Ends the process: what is being finished is waited for, what is temporary is removed, and `say` gets what [`finished`] noted.
#[expect(
    clippy::disallowed_methods,
    reason = "threads are in the middle of their work: what their destructors would remove is removed here, \
              and locks are the process's"
)]
pub fn end(code: i32, say: impl Fn(&str)) -> ! {
    let mut state = state();
    state.ending = true;
    CHANGED.notify_all();
    while state.finishing > 0 {
        state = CHANGED.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
    end_programs(&state.started);
    for path in &state.temporary {
        remove(path);
    }
    for what in &state.finished {
        say(what);
    }
    std::process::exit(code)
}

/// Asks them to end, so that they remove what they began themselves, and then ends what is left.
fn end_programs(groups: &BTreeSet<i32>) {
    let groups: Vec<Pid> = groups
        .iter()
        .filter_map(|group| Pid::from_raw(*group))
        .collect();
    let send = |group: &Pid, signal| {
        let _ = kill_process_group(*group, signal);
    };
    for group in &groups {
        send(group, Signal::TERM);
    }
    let until = Instant::now() + ENDS_WITHIN;
    for group in &groups {
        // Once the status is taken the group is only who is left of it.
        while Instant::now() < until
            && matches!(waitpid(Some(*group), WaitOptions::NOHANG), Ok(None))
        {
            std::thread::sleep(LOOK);
        }
        send(group, Signal::KILL);
    }
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
