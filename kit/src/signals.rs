//! Ctrl-C and SIGTERM for a command line: the process ends and leaves nothing behind that it had only begun.
//!
//! What comes in: the two signals. What goes out: one message, and what [`crate::interrupt`] does. A server
//! and a program that works on a site have their own ways to end.

use std::thread;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::{console, interrupt};

/// Ends the process on a signal, from now on. Without a thread for it the system's own way remains.
pub fn watch() {
    let (ready, installed) = std::sync::mpsc::channel();
    let waiting = thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            let Ok(mut signals) = Signals::new([SIGINT, SIGTERM]) else {
                return;
            };
            let _ = ready.send(());
            if let Some(signal) = signals.forever().next() {
                console::always("interrupted: nothing half-written is left");
                interrupt::end(if signal == SIGTERM { 143 } else { 130 });
            }
        });
    // A signal from now on is seen.
    if waiting.is_ok() {
        let _ = installed.recv();
    }
}
