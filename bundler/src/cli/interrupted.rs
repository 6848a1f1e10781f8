//! Ctrl-C and SIGTERM: the process ends and leaves nothing behind that it had only begun.
//!
//! What comes in: the two signals. What goes out: one message, and what [`outhaul_kit::interrupt`] does.
//! `outhaul serve` has its own way to end.

use std::thread;

use outhaul_kit::{console, interrupt};
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

/// Ends the process on a signal, from now on. Without a thread for it the system's own way remains.
pub(super) fn watch() {
    let (ready, installed) = std::sync::mpsc::channel();
    let waiting = thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            let Ok(runtime) = Builder::new_current_thread().enable_io().build() else {
                return;
            };
            let code = runtime.block_on(async {
                let mut interrupted = signal(SignalKind::interrupt()).ok()?;
                let mut terminated = signal(SignalKind::terminate()).ok()?;
                ready.send(()).ok()?;
                tokio::select! {
                    _ = interrupted.recv() => Some(130),
                    _ = terminated.recv() => Some(143),
                }
            });
            if let Some(code) = code {
                console::always("interrupted: nothing half-written is left");
                interrupt::end(code);
            }
        });
    // A signal from now on is seen.
    if waiting.is_ok() {
        let _ = installed.recv();
    }
}
