//! The Kubernetes reconciler as the conformance scenarios need it: on a real API server.
//!
//! What comes in: `OUTHAUL_KUBE_APISERVER`. What goes out: a [`Fixture`], each scenario in a separate namespace.

use std::path::{Path, PathBuf};

use outhaul_test_kit::Load;
use outhaul_tests::kubernetes::{ADMIN, ApiServer};
use serde_json::json;
use tempfile::TempDir;

use crate::reconcilers::{Fixture, There};

/// Manifests on a real API server.
pub struct Kubernetes {
    folder: TempDir,
    server: ApiServer,
    kubeconfig: PathBuf,
    scenario: usize,
}

impl Kubernetes {
    #[track_caller]
    pub fn new() -> Option<Self> {
        Self::with_flags(&[])
    }

    /// The same, with these flags of the API server.
    #[track_caller]
    pub fn with_flags(flags: &'static [&'static str]) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let server = folder.path().join("server");
        let server = ApiServer::start_with_or_skip(&server, flags)?.unwrap();
        let kubeconfig = server.kubeconfig(ADMIN);
        Some(Self {
            folder,
            server,
            kubeconfig,
            scenario: 0,
        })
    }

    /// Nothing ends a namespace here but a controller that is not there: each scenario has its own.
    pub fn namespace(&self) -> String {
        format!("scenario-{}", self.scenario)
    }

    pub fn server(&self) -> &ApiServer {
        &self.server
    }

    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn path(&self, kind: &str) -> String {
        format!("/api/v1/namespaces/{}/{kind}", self.namespace())
    }

    fn manifest(&self, kind: &str, name: &str, rest: &str) -> String {
        format!(
            "apiVersion: v1\nkind: {kind}\nmetadata: {{name: {name}, namespace: {}}}\n{rest}\n",
            self.namespace()
        )
    }

    pub fn claims(&self) -> Vec<String> {
        let (_, listed) = self
            .server
            .ask("GET", &self.path("persistentvolumeclaims"), None)
            .unwrap();
        let items = listed["items"].as_array().cloned().unwrap_or_default();
        let name = |item: &serde_json::Value| item["metadata"]["name"].as_str().unwrap().to_owned();
        items.iter().map(name).collect()
    }
}

impl Fixture for Kubernetes {
    fn kind(&self) -> &'static str {
        "kubernetes"
    }

    fn clean(&mut self) {
        self.scenario += 1;
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace()}});
        self.server
            .create("/api/v1/namespaces", &namespace)
            .unwrap();
    }

    fn settings(&self) -> String {
        format!(
            "[kubernetes]\nkubeconfig = \"{}\"\n",
            self.kubeconfig.display()
        )
    }

    fn load(&self, name: &str, content: &str) -> Load {
        let data = format!("data: {{content: \"{content}\"}}");
        Load::new(name).file("thing.yaml", self.manifest("ConfigMap", name, &data))
    }

    fn broken(&self, name: &str) -> Load {
        self.load(name, "never")
            .file("wrong.yaml", self.manifest("ConfigMap", "Not-A-Name", ""))
    }

    /// A claim whose volume nobody provides.
    fn slow(&self, name: &str, content: &str) -> Option<Load> {
        let spec = "spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}";
        let claim = self.manifest("PersistentVolumeClaim", name, spec);
        Some(self.load(name, content).file("claim.yaml", claim))
    }

    fn at_work(&self) -> bool {
        !self.claims().is_empty()
    }

    fn let_go(&self) {
        for claim in self.claims() {
            let path = format!("{}/{claim}/status", self.path("persistentvolumeclaims"));
            let bound = json!({"status": {"phase": "Bound"}});
            self.server.patch(&path, "volumes", &bound).unwrap();
        }
    }

    fn there(&self) -> There {
        let (_, listed) = self
            .server
            .ask("GET", &self.path("configmaps"), None)
            .unwrap();
        let items = listed["items"].as_array().cloned().unwrap_or_default();
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        let one = |item: &serde_json::Value| {
            (
                text(&item["metadata"]["name"]),
                text(&item["data"]["content"]),
            )
        };
        let mut there: There = items.iter().map(one).collect();
        // What Kubernetes puts into every namespace.
        there.remove("kube-root-ca.crt");
        there
    }

    fn spoil(&self, name: &str) {
        let change = json!({"data": {"content": "spoilt"}});
        let path = self.path(&format!("configmaps/{name}"));
        self.server.patch(&path, "someone", &change).unwrap();
    }

    fn absent(&mut self, absent: bool) {
        match absent {
            true => self.server.stop(),
            false => self.server.go_on().unwrap(),
        }
    }

    fn said_when_absent(&self) -> &'static [&'static str] {
        &[
            "cannot go on: the API server",
            "help: see that the API server runs",
        ]
    }

    fn removing(&self) -> &'static [&'static str] {
        &["object-removed"]
    }

    fn instants(&self) -> &'static [&'static str] {
        &["inventory-intended", "object-applied", "object-recorded"]
    }
}
