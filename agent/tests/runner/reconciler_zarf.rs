//! The Zarf reconciler as the conformance scenarios need it: a real `zarf`, and a real API server.
//!
//! What comes in: `OUTHAUL_KUBE_APISERVER` and `OUTHAUL_ZARF`. What goes out: a [`Fixture`]. No kubelet is there: the one node and the one pod
//! by which Zarf knows a cluster that works are written by hand.

use std::fs;
use std::path::PathBuf;

use outhaul_tests::kubernetes::ApiServer;
use serde_json::json;

use crate::centre::Load;
use crate::reconciler_kubernetes::Kubernetes;
use crate::reconcilers::{Fixture, Gate, There, emptied};

/// Packages on a real API server.
pub struct Zarf {
    kubernetes: Kubernetes,
    zarf: PathBuf,
}

/// Where `.ci/programs/build zarf` put the program; the calling test is skipped without it.
#[track_caller]
pub fn available_or_skip() -> Option<PathBuf> {
    let program = std::env::var_os("OUTHAUL_ZARF").map(PathBuf::from);
    let found = program.filter(|program| program.is_file());
    if found.is_none() {
        outhaul_tests::skipped(
            "OUTHAUL_ZARF does not name a zarf; `.ci/programs/build zarf` builds one",
        );
    }
    found
}

/// What Zarf takes for a cluster that works.
pub fn makes_believe_a_node(server: &ApiServer) {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "one"}});
    server.create("/api/v1/nodes", &node).unwrap();
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    server
        .patch("/api/v1/nodes/one/status", "kubelet", &ready)
        .unwrap();
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one", "namespace": "default"},
        "spec": {"nodeName": "one", "automountServiceAccountToken": false,
            "containers": [{"name": "one", "image": "one"}]}});
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    let _ = server.create("/api/v1/namespaces/default/serviceaccounts", &account);
    server
        .create("/api/v1/namespaces/default/pods", &pod)
        .unwrap();
    let running = json!({"status": {"phase": "Running"}});
    server
        .patch(
            "/api/v1/namespaces/default/pods/one/status",
            "kubelet",
            &running,
        )
        .unwrap();
}

impl Zarf {
    #[track_caller]
    pub fn new() -> Option<Self> {
        let zarf = available_or_skip()?;
        let kubernetes = Kubernetes::new()?;
        makes_believe_a_node(kubernetes.server());
        Some(Self { kubernetes, zarf })
    }

    fn gate(&self) -> Gate {
        Gate(self.kubernetes.folder().join("gate"))
    }

    /// A name for the program that can go away.
    pub fn program(&self) -> PathBuf {
        self.kubernetes.folder().join("zarf")
    }

    pub fn kubernetes(&self) -> &Kubernetes {
        &self.kubernetes
    }

    /// A package of one manifest; `before` is a command that it runs first.
    pub fn with(&self, name: &str, manifest: &str, before: Option<&str>) -> Load {
        let scenario = self.kubernetes.namespace();
        let mut component = json!({"name": "only", "required": true,
            "manifests": [{"name": name, "namespace": scenario, "files": ["thing.yaml"]}]});
        if let Some(before) = before {
            component["actions"] = json!({"onDeploy": {"before": [{"cmd": before}]}});
        }
        let definition = json!({"apiVersion": "zarf.dev/v1alpha1", "kind": "ZarfPackageConfig",
            "metadata": {"name": format!("{scenario}-{name}")}, "components": [component]});
        Load::new(name)
            .file("reconciler.yaml", definition.to_string())
            .file("thing.yaml", manifest)
    }
}

pub fn config_map(name: &str, content: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{content: \"{content}\"}}\n"
    )
}

impl Fixture for Zarf {
    fn kind(&self) -> &'static str {
        "zarf"
    }

    fn clean(&mut self) {
        self.kubernetes.clean();
        emptied(&self.gate().0);
        self.absent(false);
    }

    fn settings(&self) -> String {
        let program = self.program();
        format!(
            "{}[zarf]\nprogram = {program:?}\nwait_s = 10\n",
            self.kubernetes.settings()
        )
    }

    fn load(&self, name: &str, content: &str) -> Load {
        self.with(name, &config_map(name, content), None)
    }

    fn broken(&self, name: &str) -> Load {
        self.with(name, &config_map("Not-A-Name", "never"), None)
    }

    fn slow(&self, name: &str, content: &str) -> Option<Load> {
        let wait = self.gate().shell();
        Some(self.with(name, &config_map(name, content), Some(&wait)))
    }

    fn at_work(&self) -> bool {
        self.gate().at_work()
    }

    fn let_go(&self) {
        self.gate().open();
    }

    fn there(&self) -> There {
        self.kubernetes.there()
    }

    fn spoil(&self, name: &str) {
        self.kubernetes.spoil(name);
    }

    fn absent(&mut self, absent: bool) {
        let _ = fs::remove_file(self.program());
        if !absent {
            std::os::unix::fs::symlink(&self.zarf, self.program()).unwrap();
        }
    }

    fn said_when_absent(&self) -> &'static [&'static str] {
        &["cannot start", "help: install Zarf"]
    }

    fn removing(&self) -> &'static [&'static str] {
        &["zarf-removed"]
    }

    fn instants(&self) -> &'static [&'static str] {
        &["inventory-intended", "zarf-deployed", "step-applied"]
    }
}
