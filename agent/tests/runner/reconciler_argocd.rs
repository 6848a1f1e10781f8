//! Argo CD as the conformance scenarios need it: a real one at a real API server.
//!
//! What comes in: `OUTHAUL_KUBE_APISERVER` and `OUTHAUL_ARGOCD`. What goes out: a [`Fixture`], each scenario in a
//! separate namespace. A thing is a `ConfigMap` that Argo CD makes of a template in a git repository; its name and
//! content are in the `Application` that the bundle brings, and the agent never applies one itself.

use std::fs;

use outhaul_test_kit::Load;
use outhaul_tests::argocd::{ArgoCd as Controller, NAMESPACE};
use outhaul_tests::kubernetes::ApiServer;
use serde_json::{Value, json};

use crate::reconciler_kubernetes::Kubernetes;
use crate::reconcilers::{Fixture, There, as_its_cluster};
use crate::served::git;

const THING: &str = "{apiVersion: 'v1', kind: 'ConfigMap', metadata: {name: std.extVar('name')},\n \
                     data: {content: std.extVar('content')}}\n";
const CLAIM: &str = "{apiVersion: 'v1', kind: 'PersistentVolumeClaim', metadata: {name: std.extVar('name')},\n \
                     spec: {accessModes: ['ReadWriteOnce'], resources: {requests: {storage: '1Gi'}}}}\n";

/// Argo CD on a real API server.
pub struct ArgoCd {
    pub controller: Controller,
    cluster: Kubernetes,
}

impl ArgoCd {
    #[track_caller]
    pub fn new() -> Option<Self> {
        let programs = Controller::available_or_skip()?;
        let cluster = Kubernetes::new()?;
        let tree = cluster.folder().join("tree");
        for (folder, files) in [("thing", &[THING][..]), ("slow", &[THING, CLAIM])] {
            fs::create_dir_all(tree.join(folder)).unwrap();
            for (at, text) in files.iter().enumerate() {
                fs::write(tree.join(folder).join(format!("{at}.jsonnet")), text).unwrap();
            }
        }
        git(&tree, &["init", "--quiet"]);
        git(&tree, &["add", "--all"]);
        git(&tree, &["commit", "--quiet", "-m", "things"]);
        let folder = cluster.folder().join("argocd");
        let controller = Controller::start(&programs, cluster.server(), &folder).unwrap();
        Some(Self {
            controller,
            cluster,
        })
    }

    pub fn server(&self) -> &ApiServer {
        self.cluster.server()
    }

    pub fn made_of(&self, name: &str, content: &str, folder: &str, wait_s: u64) -> Load {
        let application = self.application(name, content, folder);
        let settings = format!(
            "apiVersion: outhaul.dev/v1alpha1\nkind: KubernetesApply\nmetadata: {{name: settings}}\n\
             spec: {{waitSeconds: {wait_s}}}\n"
        );
        Load::new(name)
            .file("reconciler.yaml", application.to_string())
            .file("settings.yaml", settings)
            // Argo CD fetches what the team wrote; the agent hands it to nobody.
            .payload("thing.yaml", "kind: of no object\n")
    }

    fn application(&self, name: &str, content: &str, folder: &str) -> Value {
        let tree = self.cluster.folder().join("tree");
        let variables =
            json!([{"name": "name", "value": name}, {"name": "content", "value": content}]);
        json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
            "metadata": {
                "name": self.name_of(name), "namespace": NAMESPACE,
                // No garbage collector runs here, which the other manner waits for.
                "finalizers": ["resources-finalizer.argocd.argoproj.io/background"],
            },
            "spec": {
                "project": "default",
                "destination": {
                    "server": "https://kubernetes.default.svc", "namespace": self.cluster.namespace(),
                },
                "source": {
                    "repoURL": format!("file://{}", tree.display()), "targetRevision": "HEAD", "path": folder,
                    "directory": {"jsonnet": {"extVars": variables}},
                },
                "syncPolicy": {"automated": {"prune": true, "selfHeal": true}},
            },
        })
    }

    /// All applications are in one namespace.
    fn name_of(&self, name: &str) -> String {
        format!("{}-{name}", self.cluster.namespace())
    }

    /// Where an `Application` is in the API.
    pub fn path_of(&self, name: &str) -> String {
        format!(
            "/apis/argoproj.io/v1alpha1/namespaces/{NAMESPACE}/applications/{}",
            self.name_of(name)
        )
    }

    pub fn content(&self, name: &str) -> Option<String> {
        self.there().get(name).cloned()
    }
}

impl Fixture for ArgoCd {
    fn kind(&self) -> &'static str {
        "argocd"
    }

    as_its_cluster!();

    fn load(&self, name: &str, content: &str) -> Load {
        self.made_of(name, content, "thing", 300)
    }

    fn broken(&self, name: &str) -> Load {
        self.made_of(name, "never", "nowhere", 5)
    }

    /// A claim whose volume nobody provides: Argo CD waits for it.
    fn slow(&self, name: &str, content: &str) -> Option<Load> {
        Some(self.made_of(name, content, "slow", 300))
    }

    fn there(&self) -> There {
        self.cluster.there()
    }

    /// Someone changes what the bundle brought, and Argo CD does as it then says.
    fn spoil(&self, name: &str) {
        let variables =
            json!([{"name": "name", "value": name}, {"name": "content", "value": "spoilt"}]);
        let change: Value =
            json!({"spec": {"source": {"directory": {"jsonnet": {"extVars": variables}}}}});
        self.server()
            .patch(&self.path_of(name), "someone", &change)
            .unwrap();
        while self.content(name).as_deref() != Some("spoilt") {
            std::thread::yield_now();
        }
    }
}
