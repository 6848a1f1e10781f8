//! A program that we start, with all that it starts: one process group, ended as one.
//!
//! What comes in: a child that was started in a separate group (`CommandExt::process_group(0)`) and of which the status
//! was not taken yet. What goes out: a signal to its whole group. Once the status is taken the number may belong to
//! someone else: nothing is sent to it by then.

use std::io;
use std::process::Child;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// The group of a child that leads it; its own id.
pub fn of(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

/// Whether the child has ended. Its status is left where it is, so that its number stays its own.
///
/// # Errors
/// Those of the system.
pub fn has_ended(child: &Child) -> io::Result<bool> {
    let Some(pid) = of(child) else {
        return Ok(true);
    };
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    Ok(waitid(WaitId::Pid(pid), options)?.is_some())
}

/// Asks all of the group to end.
pub fn terminate(child: &Child) {
    send(child, Signal::TERM);
}

/// Ends all of the group at once.
pub fn kill(child: &Child) {
    send(child, Signal::KILL);
}

fn send(child: &Child, signal: Signal) {
    if let Some(group) = of(child) {
        // Who has ended already needs no signal.
        let _ = kill_process_group(group, signal);
    }
}
