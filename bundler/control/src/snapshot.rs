//! The snapshot: which commits one render was made from, and one digest over them.
//!
//! What comes in: the environment, base and workload sources as they were opened. What goes out: the
//! [`Snapshot`] that travels in every bundle and lies beside every rendered tree. It holds URLs and
//! commits, never a path of this machine.

use outhaul_bundle::index::{Snapshot, Source};

/// A snapshot of these sources. Workloads are put in order of their names.
pub fn snapshot(environment: Source, base: Source, workloads: Vec<Source>) -> Snapshot {
    Snapshot::of(environment, base, workloads)
}
