//! The Zarf reconciler as the conformance scenarios need it: a real `zarf`, and a real API server.
//!
//! What comes in: `OUTHAUL_KUBE_APISERVER` and `OUTHAUL_ZARF`. What goes out: a [`Fixture`]. No kubelet is there: see
//! [`zarf::make_believe_a_node`].

use std::fs;
use std::path::PathBuf;

use outhaul_test_kit::Load;
use outhaul_tests::zarf;
use serde_json::json;

use crate::reconciler_kubernetes::Kubernetes;
use crate::reconcilers::{Fixture, Gate, There, emptied};

/// Packages on a real API server.
pub struct Zarf {
    kubernetes: Kubernetes,
    zarf: PathBuf,
}

impl Zarf {
    #[track_caller]
    pub fn new() -> Option<Self> {
        let program = zarf::available_or_skip()?;
        let kubernetes = Kubernetes::new()?;
        zarf::make_believe_a_node(kubernetes.server()).unwrap();
        Some(Self {
            kubernetes,
            zarf: program,
        })
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
