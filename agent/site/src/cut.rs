//! Power cuts for tests: named instants at which a debug build can be made to die at once.
//!
//! What comes in: the environment variable `OUTHAUL_CUT`, an instant's name, a number n (die
//! at the n-th instant passed), a name with a number (`file-written#5`: when that instant is passed for the fifth time), or `interrupt-` and a name (Ctrl-C at that instant). What goes out: nothing, or SIGKILL to this very process: no destructor
//! runs and no buffer is flushed. Release builds contain none of it.

/// Every instant, in the order in which a first import passes them. docs/internals/agent.md has one row for each.
#[cfg(any(debug_assertions, test))]
pub const INSTANTS: [&str; 16] = [
    "verified-committed",
    "blob-written",
    "blobs-complete",
    "generation-written",
    "generation-renamed",
    "floors-raised",
    "staged-committed",
    "applying-committed",
    "step-intended",
    "inventory-intended",
    "batch-written",
    "file-written",
    "step-applied",
    "step-recorded",
    "soaking-committed",
    "active-committed",
];

/// Instants that only a copy with patches passes.
#[cfg(any(debug_assertions, test))]
pub const PATCH_INSTANTS: [&str; 1] = ["blob-made"];

/// Instants that only an import passes where parity is kept.
#[cfg(any(debug_assertions, test))]
pub const PARITY_INSTANTS: [&str; 3] = ["parity-set-aside", "parity-dropped", "parity-put-back"];

/// Instants that only a failed or reverted bundle passes, or a host that differs from its bundle.
#[cfg(any(debug_assertions, test))]
pub const REVERT_INSTANTS: [&str; 6] = [
    "reverting-committed",
    "reverted-committed",
    "repairing-committed",
    "repaired-committed",
    "correcting-committed",
    "corrected-committed",
];

/// Instants that only a freshness slip passes.
#[cfg(any(debug_assertions, test))]
pub const SLIP_INSTANTS: [&str; 1] = ["slip-floors-raised"];

/// Instants that only signed orders pass.
#[cfg(any(debug_assertions, test))]
pub const ORDER_INSTANTS: [&str; 4] = [
    "order-key-made",
    "order-floors-raised",
    "order-committed",
    "old-seal-key-kept",
];

/// Instants that only the Kubernetes reconciler passes.
#[cfg(any(debug_assertions, test))]
pub const KUBERNETES_INSTANTS: [&str; 3] = ["object-applied", "object-recorded", "object-removed"];

/// Instants that only a hook program's reconciler passes.
#[cfg(any(debug_assertions, test))]
pub const HOOK_INSTANTS: [&str; 2] = ["hook-applied", "hook-removed"];
/// Those that only Zarf passes.
pub const ZARF_INSTANTS: [&str; 2] = ["zarf-deployed", "zarf-removed"];

/// Instants that only the apply helper passes.
#[cfg(any(debug_assertions, test))]
pub const HELPER_INSTANTS: [&str; 4] = [
    "helper-floors-raised",
    "helper-accepted",
    "helper-applied",
    "helper-removed",
];

/// Instants that only a newer agent passes on its way into use.
#[cfg(any(debug_assertions, test))]
pub const UPDATE_INSTANTS: [&str; 5] = [
    "slot-written",
    "trial-wanted",
    "trial-begun",
    "trial-passed",
    "trial-failed",
];

/// All of them, in the order of docs/internals/agent.md.
#[cfg(any(debug_assertions, test))]
fn all() -> impl Iterator<Item = &'static str> {
    INSTANTS
        .into_iter()
        .chain(PATCH_INSTANTS)
        .chain(PARITY_INSTANTS)
        .chain(REVERT_INSTANTS)
        .chain(SLIP_INSTANTS)
        .chain(ORDER_INSTANTS)
        .chain(KUBERNETES_INSTANTS)
        .chain(HOOK_INSTANTS)
        .chain(ZARF_INSTANTS)
        .chain(HELPER_INSTANTS)
        .chain(UPDATE_INSTANTS)
}

/// Marks an instant. Does nothing in a release build.
#[cfg(debug_assertions)]
pub fn here(instant: &'static str) {
    use std::sync::atomic::{AtomicU64, Ordering};
    static PASSED: AtomicU64 = AtomicU64::new(0);

    debug_assert!(all().any(|known| known == instant), "{instant}");
    let passed = PASSED.fetch_add(1, Ordering::Relaxed) + 1;
    let Ok(wanted) = std::env::var("OUTHAUL_CUT") else {
        return;
    };
    let interrupted = crate::interrupted::code().is_some();
    if wanted.strip_prefix("interrupt-") == Some(instant) && !interrupted {
        let _ =
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::INT);
        while crate::interrupted::code().is_none() {
            std::thread::yield_now();
        }
    }
    let times = wanted.strip_prefix(instant);
    let times = times.and_then(|times| times.strip_prefix('#')?.parse().ok());
    let is_nth = times.is_some_and(|times: u64| {
        static NAMED: AtomicU64 = AtomicU64::new(0);
        NAMED.fetch_add(1, Ordering::Relaxed) + 1 == times
    });
    if wanted == instant || wanted.parse() == Ok(passed) || is_nth {
        let _ =
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}

/// Marks an instant. Does nothing in a release build.
#[cfg(not(debug_assertions))]
pub fn here(_instant: &'static str) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_a_row_for_every_instant_in_their_order() {
        let page = include_str!("../../../docs/internals/agent.md");
        let mut rest = page;
        for instant in all() {
            let row = format!("\n| `{instant}` |");
            let at = rest.find(&row);
            assert!(at.is_some(), "no row for `{instant}`, or not in its order");
            rest = rest
                .get(at.map_or(0, |at| at + row.len())..)
                .unwrap_or_default();
        }
    }
}
