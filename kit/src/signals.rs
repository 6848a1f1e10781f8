//! Ctrl-C, SIGTERM and the end of a terminal for a command line: the process ends and leaves nothing behind that it had only begun.
//!
//! What comes in: the signals. What goes out: one message, and what [`crate::interrupt`] does. A server
//! and a program that works on a site have their own ways to end.

use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::{console, interrupt};

/// Ends the process on a signal, from now on. Without a thread for it the system's own way remains.
pub fn watch() {
    let (ready, installed) = std::sync::mpsc::channel();
    let waiting = thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            // `nohup` has it ignored, and means that.
            let hangup = (!is_ignored(SIGHUP)).then_some(SIGHUP);
            let wanted = [SIGINT, SIGTERM].into_iter().chain(hangup);
            let Ok(mut signals) = Signals::new(wanted) else {
                return;
            };
            let _ = ready.send(());
            if let Some(signal) = signals.forever().next() {
                console::always("interrupted: nothing half-written is left");
                interrupt::end(128 + signal, |finished| {
                    console::always(&format!("finished before, and stays: {finished}"));
                });
            }
        });
    // A signal from now on is seen.
    if waiting.is_ok() {
        let _ = installed.recv();
    }
}

/// Whether whoever started this process has it ignore a signal.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & (1 << (signal - 1)) != 0)
}
