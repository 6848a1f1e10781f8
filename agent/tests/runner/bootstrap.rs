//! An empty cluster that gets its reconciler from the stick: Flux's own manifests travel, and are applied first.
//!
//! What comes in: bundles that a real fleet signed, a real API server without any of Flux's kinds, and a real
//! kustomize-controller. What goes out: in which order things came and went, and what the agent said. No kubelet runs here:
//! the test does what one would do, starts the controller when its `Deployment` is there, and writes its status.

use std::fs;
use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use outhaul_test_kit::{Centre, Draft, Load};
use outhaul_tests::flux::{Flux as Controller, Sources};
use outhaul_tests::kubernetes::{ADMIN, ApiServer};
use serde_json::{Value, json};

use crate::site::{Site, code, stderr, stdout};

const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/flux-system/deployments/kustomize-controller";
const SOURCE: &str =
    "/apis/source.toolkit.fluxcd.io/v1/namespaces/flux-system/gitrepositories/hello";
const KUSTOMIZATION: &str =
    "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/flux-system/kustomizations/hello";
const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/kustomizations.kustomize.toolkit.fluxcd.io";
const MADE: &str = "/api/v1/namespaces/default/configmaps/hello";
/// How long a busy machine may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// A site on a cluster that nobody prepared.
struct Empty {
    flux: Option<Controller>,
    programs: PathBuf,
    server: ApiServer,
    site: Site,
    centre: Centre,
}

impl Empty {
    #[track_caller]
    fn new() -> Option<Self> {
        let programs = Controller::available_or_skip()?;
        let centre = Centre::new();
        let site = Site::new(&centre, "drone-7");
        let folder = site.folder.path().to_owned();
        let server = ApiServer::start_or_skip(&folder.join("server"))?.unwrap();
        let tree = folder.join("tree/app");
        fs::create_dir_all(&tree).unwrap();
        let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: hello, namespace: default}\n";
        fs::write(tree.join("map.yaml"), map).unwrap();
        site.configure(&format!(
            "[kubernetes]\nkubeconfig = \"{}\"\n",
            server.kubeconfig(ADMIN).display()
        ));
        Some(Self {
            flux: None,
            programs,
            server,
            site,
            centre,
        })
    }

    /// Flux as it is published: namespace, definitions, a controller with its image.
    fn flux(&self, version: &str, wait_s: u64) -> Load {
        let settings = format!(
            "apiVersion: outhaul.dev/v1alpha1\nkind: KubernetesApply\nmetadata: {{name: assignment}}\n\
             spec: {{namespace: flux-system, waitSeconds: {wait_s}}}\n"
        );
        let controller = format!(
            "apiVersion: v1\nkind: Namespace\nmetadata: {{name: flux-system}}\n---\n\
             apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: kustomize-controller, namespace: flux-system}}\n\
             spec:\n  replicas: 1\n  selector: {{matchLabels: {{app: kustomize-controller}}}}\n  template:\n    \
             metadata: {{labels: {{app: kustomize-controller}}}}\n    spec:\n      containers:\n        \
             - {{name: manager, image: 'ghcr.io/fluxcd/kustomize-controller:{version}'}}\n"
        );
        let mut load = Load::new("flux-system")
            .bootstrap("kubernetes")
            .file("reconciler.yaml", settings)
            .payload("controller.yaml", controller);
        for entry in fs::read_dir(self.programs.join("crds")).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            load = load.payload(&format!("crds/{name}"), fs::read(&path).unwrap());
        }
        load
    }

    /// A team's workload, which Flux fetches. Its name comes before Flux's.
    fn hello() -> Load {
        Load::new("a-hello").file(
            "reconciler.yaml",
            "apiVersion: source.toolkit.fluxcd.io/v1\nkind: GitRepository\n\
             metadata: {name: hello, namespace: flux-system}\n\
             spec: {interval: 10m, url: 'https://github.com/org/repo', ref: {branch: main}}\n---\n\
             apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\n\
             metadata: {name: hello, namespace: flux-system}\n\
             spec:\n  interval: 10m\n  path: ./app\n  prune: true\n  wait: true\n  \
             sourceRef: {kind: GitRepository, name: hello}\n",
        )
    }

    fn publish(&self, loads: impl IntoIterator<Item = Load>) -> PathBuf {
        self.centre.publish(&Draft::new(loads).reconciler("flux"))
    }

    /// What is there, if the API knows the kind at all.
    fn there(&self, path: &str) -> Option<Value> {
        let (code, found) = self.server.ask("GET", path, None).unwrap();
        (code == 200).then_some(found)
    }

    /// Runs the agent; when the controller's `Deployment` has this image, `kubelet` does its work.
    fn meanwhile(&mut self, arguments: &[&str], version: &str, kubelet: fn(&mut Self)) -> Output {
        let mut command = self.site.command(arguments);
        let agent = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut agent = agent.spawn().unwrap();
        let until = Instant::now() + PATIENCE;
        let is_there = |found: Value| found["spec"].to_string().contains(version);
        while !self.there(DEPLOYMENT).is_some_and(is_there) {
            assert!(Instant::now() < until, "no Deployment of {version}");
            if agent.try_wait().unwrap().is_some() {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        kubelet(self);
        agent.wait_with_output().unwrap()
    }

    /// What a kubelet and the controllers of a cluster would do.
    fn runs(&mut self) {
        if self.flux.is_none() {
            let folder = self.site.folder.path();
            let sources = Sources::Folder(folder.join("tree"));
            let started = Controller::start_defined(
                &self.programs,
                &self.server,
                &folder.join("flux"),
                sources,
            );
            self.flux = Some(started.unwrap());
        }
        let generation = self.there(DEPLOYMENT).unwrap()["metadata"]["generation"].clone();
        let status = json!({"status": {
            "observedGeneration": generation, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1,
            "availableReplicas": 1, "conditions": [{"type": "Available", "status": "True"}],
        }});
        let kind = "application/merge-patch+json";
        let path = format!("{DEPLOYMENT}/status");
        let (code, answer) = self
            .server
            .ask("PATCH", &path, Some((kind, &status)))
            .unwrap();
        assert_eq!(code, 200, "{answer}");
    }

    /// Nobody starts anything.
    fn rests(&mut self) {}

    fn version(&self) -> String {
        let found = self.there(DEPLOYMENT).unwrap();
        let image = &found["spec"]["template"]["spec"]["containers"][0]["image"];
        image.as_str().unwrap().to_owned()
    }
}

#[test]
fn an_empty_cluster_gets_its_flux_from_the_stick_and_gives_it_back_last() {
    let Some(mut empty) = Empty::new() else {
        return;
    };
    assert!(empty.there(DEFINITION).is_none());
    let first = empty.publish([Empty::hello(), empty.flux("v1", 60)]);
    let planned = empty.site.run(&["plan", first.to_str().unwrap()]);
    assert_eq!(code(&planned), 0, "{}", stderr(&planned));
    let taken = empty.meanwhile(&["import", first.to_str().unwrap()], "v1", |empty| {
        assert!(empty.there(SOURCE).is_none(), "Flux is not there yet");
        empty.runs();
    });
    assert_eq!(code(&taken), 0, "{}", stderr(&taken));
    assert!(empty.there(MADE).is_some(), "Flux made it");
    let status = stdout(&empty.site.run(&["status"]));
    assert!(status.contains("flux-system"), "{status}");

    // The next Flux, with the workload as it is.
    let second = empty.publish([Empty::hello(), empty.flux("v2", 60)]);
    let taken = empty.meanwhile(&["import", second.to_str().unwrap()], "v2", Empty::runs);
    assert_eq!(code(&taken), 0, "{}", stderr(&taken));
    assert!(empty.version().ends_with(":v2"));

    // One that does not start: nothing else is applied, and the one before comes back.
    let changed = Empty::hello().file(
        "more.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: more, namespace: default}\n",
    );
    let third = empty.publish([changed, empty.flux("v3", 1)]);
    let failed = empty.meanwhile(&["import", third.to_str().unwrap()], "v3", |empty| {
        let until = Instant::now() + PATIENCE;
        while !empty.version().ends_with(":v2") {
            assert!(Instant::now() < until, "the earlier one is not back");
            std::thread::sleep(Duration::from_millis(20));
        }
        empty.runs();
    });
    let said = format!("{}{}", stdout(&failed), stderr(&failed));
    assert!(
        said.contains("it brings the reconciler of this bundle and is not ready, so that no other assignment was applied"),
        "{said}"
    );
    assert_eq!(empty.site.active(), Some(2));
    let more = "/api/v1/namespaces/default/configmaps/more";
    assert!(empty.there(more).is_none(), "it was never applied");

    // Both go, the workload first: only a Flux that still runs takes back what it made.
    let other = Load::new("other").file(
        "map.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other, namespace: default}\n",
    );
    let fourth = empty.publish([other]);
    assert_eq!(code(&empty.site.import(&fourth)), 0);
    empty.site.ok(&["approve", "4"]);
    assert_eq!(empty.site.active(), Some(4));
    for gone in [MADE, SOURCE, KUSTOMIZATION, DEPLOYMENT, DEFINITION] {
        assert!(empty.there(gone).is_none(), "{gone}");
    }
}

#[test]
fn a_flux_that_never_starts_fails_the_bundle_and_leaves_the_cluster_without_it() {
    let Some(mut empty) = Empty::new() else {
        return;
    };
    let bundle = empty.publish([Empty::hello(), empty.flux("v1", 1)]);
    let failed = empty.meanwhile(&["import", bundle.to_str().unwrap()], "v1", Empty::rests);
    let said = format!("{}{}", stdout(&failed), stderr(&failed));
    assert_eq!(code(&failed), 1, "{said}");
    assert!(
        said.contains("`flux-system` failed: it brings the reconciler"),
        "{said}"
    );
    assert!(said.contains("not ready after 1 s"), "{said}");
    assert!(empty.there(SOURCE).is_none());
}

#[test]
fn a_cut_while_flux_starts_goes_on_when_it_runs() {
    let Some(mut empty) = Empty::new() else {
        return;
    };
    let bundle = empty.publish([Empty::hello(), empty.flux("v1", 60)]);
    let mut command = empty.site.command(&["import", bundle.to_str().unwrap()]);
    let agent = command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut agent = agent.spawn().unwrap();
    let until = Instant::now() + PATIENCE;
    while empty.there(DEPLOYMENT).is_none() {
        assert!(Instant::now() < until, "no Deployment");
        std::thread::sleep(Duration::from_millis(20));
    }
    agent.kill().unwrap();
    agent.wait().unwrap();
    assert!(empty.there(SOURCE).is_none(), "Flux is not there yet");
    empty.runs();
    let done = empty.site.run(&["apply"]);
    assert_eq!(code(&done), 0, "{}", stderr(&done));
    assert_eq!(empty.site.active(), Some(1));
    assert!(empty.there(MADE).is_some());
    // Someone scales what came first: it is seen, as of any other assignment.
    let none = json!({"spec": {"replicas": 0}});
    empty.server.patch(DEPLOYMENT, "someone", &none).unwrap();
    // Flux may be at work on the team's part while it is looked at.
    let until = Instant::now() + PATIENCE;
    let status = loop {
        empty.site.run(&["run", "--once"]);
        let status = empty.site.status();
        let all = status["assignments"].as_array().unwrap();
        let is_at_work = all.iter().any(|one| one["status"] == "in_progress");
        if !is_at_work || Instant::now() > until {
            break status;
        }
    };
    let of = |name: &str| {
        let all = status["assignments"].as_array().unwrap();
        let found = all.iter().find(|one| one["name"] == name).unwrap();
        found["status"].as_str().unwrap().to_owned()
    };
    assert_eq!(
        (of("flux-system"), of("a-hello")),
        ("drifted".into(), "compliant".into())
    );
}
