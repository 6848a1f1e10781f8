//! Flux as the conformance scenarios need it: a real kustomize-controller at a real API server.
//!
//! What comes in: `OUTHAUL_KUBE_APISERVER` and `OUTHAUL_FLUX`. What goes out: a [`Fixture`], each scenario in a
//! separate namespace. A thing is a `ConfigMap` that Flux makes; its content is in the `Kustomization` that the
//! bundle brings, and the agent never applies one itself. The archive that Flux fetches comes from a stand-in for
//! source-controller.

use std::fs;

use outhaul_test_kit::Load;
use outhaul_tests::flux::{Flux as Controller, Sources};
use outhaul_tests::kubernetes::ApiServer;
use serde_json::{Value, json};

use crate::reconciler_kubernetes::Kubernetes;
use crate::reconcilers::{Fixture, There, as_its_cluster};

const THING: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"${name}\"}\n\
                     data: {content: \"is ${content}\"}\n";
const CLAIM: &str = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: \"${name}\"}\n\
                     spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n";

/// Flux on a real API server.
pub struct Flux {
    pub controller: Controller,
    cluster: Kubernetes,
}

impl Flux {
    #[track_caller]
    pub fn new() -> Option<Self> {
        let programs = Controller::available_or_skip()?;
        let cluster = Kubernetes::new()?;
        let tree = cluster.folder().join("tree");
        for (folder, files) in [("thing", &[THING][..]), ("slow", &[THING, CLAIM])] {
            fs::create_dir_all(tree.join(folder)).unwrap();
            for (at, text) in files.iter().enumerate() {
                fs::write(tree.join(folder).join(format!("{at}.yaml")), text).unwrap();
            }
        }
        let folder = cluster.folder().join("flux");
        let sources = Sources::Folder(tree);
        let controller = Controller::start(&programs, cluster.server(), &folder, sources).unwrap();
        Some(Self {
            controller,
            cluster,
        })
    }

    pub fn server(&self) -> &ApiServer {
        self.cluster.server()
    }

    pub fn made_of(&self, name: &str, content: &str, folder: &str, wait_s: u64) -> Load {
        let namespace = self.cluster.namespace();
        let source = format!(
            "apiVersion: source.toolkit.fluxcd.io/v1\nkind: GitRepository\n\
             metadata: {{name: {name}, namespace: {namespace}}}\n\
             spec: {{interval: 10m, url: 'https://github.com/org/repo', ref: {{branch: main}}}}\n"
        );
        let kustomization = format!(
            "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\n\
             metadata: {{name: {name}, namespace: {namespace}}}\n\
             spec:\n  interval: 10m\n  retryInterval: 1s\n  timeout: 5m\n  path: ./{folder}\n  prune: true\n  \
             wait: true\n  targetNamespace: {namespace}\n  \
             sourceRef: {{kind: GitRepository, name: {name}}}\n  \
             postBuild: {{substitute: {{name: \"{name}\", content: \"{content}\"}}}}\n"
        );
        let settings = format!(
            "apiVersion: outhaul.dev/v1alpha1\nkind: KubernetesApply\nmetadata: {{name: settings}}\n\
             spec: {{waitSeconds: {wait_s}}}\n"
        );
        Load::new(name)
            .file("reconciler.yaml", format!("{source}---\n{kustomization}"))
            .file("settings.yaml", settings)
            // Flux fetches what the team wrote; the agent hands it to nobody.
            .payload("thing.yaml", "kind: of no object\n")
    }

    pub fn namespace(&self) -> String {
        self.cluster.namespace()
    }

    /// Where a `Kustomization` is in the API.
    pub fn kustomization(&self, name: &str) -> String {
        format!(
            "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/{}/kustomizations/{name}",
            self.cluster.namespace()
        )
    }

    pub fn content(&self, name: &str) -> Option<String> {
        self.there().get(name).cloned()
    }
}

impl Fixture for Flux {
    fn kind(&self) -> &'static str {
        "flux"
    }

    as_its_cluster!();

    fn load(&self, name: &str, content: &str) -> Load {
        self.made_of(name, content, "thing", 300)
    }

    fn broken(&self, name: &str) -> Load {
        self.made_of(name, "never", "nowhere", 5)
    }

    /// A claim whose volume nobody provides: Flux waits for it.
    fn slow(&self, name: &str, content: &str) -> Option<Load> {
        Some(self.made_of(name, content, "slow", 300))
    }

    /// Flux makes a number of a value that looks like one: none does.
    fn there(&self) -> There {
        let one = |(name, content): (String, String)| {
            let content = content.strip_prefix("is ").unwrap_or(&content).to_owned();
            (name, content)
        };
        self.cluster.there().into_iter().map(one).collect()
    }

    /// Someone changes what the bundle brought, and Flux does as it then says.
    fn spoil(&self, name: &str) {
        let change: Value = json!({"spec": {"postBuild": {"substitute": {"content": "spoilt"}}}});
        let path = self.kustomization(name);
        self.server().patch(&path, "someone", &change).unwrap();
        // Until it says so, too: while it is at work nothing is concluded, and nothing put back.
        let is_settled = || {
            let found = self.server().get(&path).unwrap().unwrap();
            found["status"]["observedGeneration"] == found["metadata"]["generation"]
                && found["status"]["conditions"].as_array().is_some_and(|all| {
                    all.iter()
                        .any(|one| one["type"] == "Ready" && one["status"] == "True")
                })
        };
        while self.content(name).as_deref() != Some("spoilt") || !is_settled() {
            std::thread::yield_now();
        }
    }
}
