//! Ctrl-C and SIGTERM for a command that works on the host: it stops after the action under way.
//!
//! What comes in: the two signals. What goes out: the wish to stop, by which a copy that is not whole is
//! taken back and other work stands where the next start goes on with it. A second signal ends at once, as
//! a power cut would. The service has its own way to end.

use std::sync::atomic::{AtomicI32, Ordering};
use std::thread;

use outhaul_kit::{console, interrupt};
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use outhaul_kit::heartbeat::Heartbeat;

/// The exit code of the signal that came.
static CODE: AtomicI32 = AtomicI32::new(0);

/// Asks the work of `heartbeat` to stop on a signal, from now on.
pub fn stops(heartbeat: &Heartbeat) {
    let heartbeat = heartbeat.clone();
    let (ready, installed) = std::sync::mpsc::channel();
    let waiting = thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            let Ok(runtime) = Builder::new_current_thread().enable_io().build() else {
                return;
            };
            runtime.block_on(async {
                let (Ok(mut interrupted), Ok(mut terminated)) = (
                    signal(SignalKind::interrupt()),
                    signal(SignalKind::terminate()),
                ) else {
                    return;
                };
                let _ = ready.send(());
                loop {
                    let code = tokio::select! {
                        _ = interrupted.recv() => 130,
                        _ = terminated.recv() => 143,
                    };
                    heartbeat.cancel();
                    if CODE.swap(code, Ordering::Relaxed) != 0 {
                        interrupt::end(code, |_| {});
                    }
                    console::always("interrupted: stopping after the action under way");
                }
            });
        });
    // A signal from now on is seen.
    if waiting.is_ok() {
        let _ = installed.recv();
    }
}

/// The exit code of a command that a signal stopped.
pub fn code() -> Option<u8> {
    match CODE.load(Ordering::Relaxed) {
        0 => None,
        code => u8::try_from(code).ok(),
    }
}
