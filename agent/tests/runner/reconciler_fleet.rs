//! Rancher Fleet as the conformance scenarios need it: a real controller and a real agent at a real API server.
//!
//! What comes in: `OUTHAUL_KUBE_APISERVER` and `OUTHAUL_FLEET`, without which the tests are skipped. What goes out: a [`Fixture`],
//! each scenario in a separate namespace. A thing is a `ConfigMap` that Fleet's agent installs as a Helm release; its content is in the
//! workload's own file, which the agent puts into the `Bundle` that the stream brings, and never applies itself.

use outhaul_test_kit::Load;
use outhaul_tests::fleet::{API, Fleet as Controller, NAMESPACE, SERVER_FLAGS};
use outhaul_tests::kubernetes::ApiServer;
use serde_json::{Value, json};

use crate::reconciler_kubernetes::Kubernetes;
use crate::reconcilers::{Fixture, There, as_its_cluster};

/// Fleet on a real API server.
pub struct Fleet {
    pub controller: Controller,
    cluster: Kubernetes,
}

impl Fleet {
    #[track_caller]
    pub fn new() -> Option<Self> {
        let programs = Controller::available_or_skip()?;
        let cluster = Kubernetes::with_flags(SERVER_FLAGS)?;
        let folder = cluster.folder().join("fleet");
        let controller = Controller::start(&programs, cluster.server(), &folder).unwrap();
        Some(Self {
            controller,
            cluster,
        })
    }

    pub fn server(&self) -> &ApiServer {
        self.cluster.server()
    }

    /// Of a workload with these files; Fleet puts back what someone changes, or reports it.
    pub fn made_of(
        &self,
        name: &str,
        files: &[(&str, String)],
        correct: bool,
        wait_s: u64,
    ) -> Load {
        let bundle = json!({
            "apiVersion": "fleet.cattle.io/v1alpha1", "kind": "Bundle",
            "metadata": {"name": self.name_of(name), "namespace": NAMESPACE},
            "spec": {
                "namespace": self.cluster.namespace(), "correctDrift": {"enabled": correct},
                "targets": [{"clusterGroup": "default"}],
            },
        });
        let settings = format!(
            "apiVersion: outhaul.dev/v1alpha1\nkind: KubernetesApply\nmetadata: {{name: settings}}\n\
             spec: {{waitSeconds: {wait_s}}}\n"
        );
        let load = Load::new(name)
            .file("reconciler.yaml", bundle.to_string())
            .file("settings.yaml", settings);
        files
            .iter()
            .fold(load, |load, (path, text)| load.payload(path, text))
    }

    /// All bundles are in one namespace.
    fn name_of(&self, name: &str) -> String {
        format!("{}-{name}", self.cluster.namespace())
    }

    /// Where a `Bundle` is in the API.
    pub fn path_of(&self, name: &str) -> String {
        format!(
            "{API}/namespaces/{NAMESPACE}/bundles/{}",
            self.name_of(name)
        )
    }

    /// Where the thing that Fleet makes is.
    pub fn thing(&self, name: &str) -> String {
        format!(
            "/api/v1/namespaces/{}/configmaps/{name}",
            self.cluster.namespace()
        )
    }

    pub fn content(&self, name: &str) -> Option<String> {
        self.there().get(name).cloned()
    }
}

/// Fleet takes a manifest in YAML's block form alone.
pub fn map(name: &str, content: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: \"{name}\"\ndata:\n  content: \"{content}\"\n"
    )
}

impl Fixture for Fleet {
    fn kind(&self) -> &'static str {
        "fleet"
    }

    as_its_cluster!();

    fn load(&self, name: &str, content: &str) -> Load {
        let files = [("app/thing.yaml", map(name, content))];
        self.made_of(name, &files, true, 300)
    }

    /// No cluster takes an object of that name.
    fn broken(&self, name: &str) -> Load {
        let files = [
            ("app/thing.yaml", map(name, "never")),
            ("app/wrong.yaml", map("Not_A_Name", "never")),
        ];
        self.made_of(name, &files, true, 20)
    }

    /// A claim whose volume nobody provides: Fleet does not call it ready.
    fn slow(&self, name: &str, content: &str) -> Option<Load> {
        let claim = format!(
            "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata:\n  name: \"{name}\"\nspec:\n  accessModes:\n  - \
             ReadWriteOnce\n  resources:\n    requests:\n      storage: 1Gi\n"
        );
        let files = [("thing.yaml", map(name, content)), ("claim.yaml", claim)];
        Some(self.made_of(name, &files, true, 300))
    }

    fn there(&self) -> There {
        self.cluster.there()
    }

    /// Someone changes what the bundle brought, and Fleet does as it then says.
    fn spoil(&self, name: &str) {
        let resources = json!([{"name": "app/thing.yaml", "content": map(name, "spoilt")}]);
        let change: Value = json!({"spec": {"resources": resources}});
        let path = self.path_of(name);
        self.server().patch(&path, "someone", &change).unwrap();
        // Until it says so, too: while it is at work nothing is concluded, and nothing put back.
        let is_settled = || {
            let found = self.server().get(&path).unwrap().unwrap();
            let ready = &found["status"]["summary"]["ready"];
            found["status"]["observedGeneration"] == found["metadata"]["generation"] && *ready == 1
        };
        while self.content(name).as_deref() != Some("spoilt") || !is_settled() {
            std::thread::yield_now();
        }
    }
}
