//! A real Zarf for tests, and what it wants of a cluster.
//!
//! What comes in: `OUTHAUL_ZARF`, which `.ci/programs/build zarf` builds, and a server. What goes out: the program, and a cluster that it
//! takes for one that works. No kubelet is there: the one node and the one pod by which Zarf knows that are written by hand.

use std::path::PathBuf;

use anyhow::Result;
use serde_json::json;

use crate::kubernetes::ApiServer;

/// The program; the calling test is skipped without it.
///
/// # Panics
/// As [`crate::skipped`].
#[track_caller]
pub fn available_or_skip() -> Option<PathBuf> {
    let program = std::env::var_os("OUTHAUL_ZARF").map(PathBuf::from);
    let found = program.filter(|program| program.is_file());
    if found.is_none() {
        crate::skipped("OUTHAUL_ZARF does not name a zarf; `.ci/programs/build zarf` builds one");
    }
    found
}

/// A node that is ready and a pod that runs, as a kubelet would say: without both Zarf waits.
///
/// # Errors
/// When the server refuses.
pub fn make_believe_a_node(server: &ApiServer) -> Result<()> {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "one"}});
    server.create("/api/v1/nodes", &node)?;
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    server.patch("/api/v1/nodes/one/status", "kubelet", &ready)?;
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    // A controller that is not here would make it.
    let _ = server.create("/api/v1/namespaces/default/serviceaccounts", &account);
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one", "namespace": "default"},
        "spec": {"nodeName": "one", "automountServiceAccountToken": false,
            "containers": [{"name": "one", "image": "one"}]}});
    server.create("/api/v1/namespaces/default/pods", &pod)?;
    let running = json!({"status": {"phase": "Running"}});
    server.patch(
        "/api/v1/namespaces/default/pods/one/status",
        "kubelet",
        &running,
    )?;
    Ok(())
}
