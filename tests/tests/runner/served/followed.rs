//! An OCI artifact that Flux or Argo CD follows: from a registry at the centre to the site's mirror, and from there by a real controller.
//!
//! What comes in: `examples/cluster` with the templates `flux-oci` and `argocd-oci`, an artifact of manifests that crane pushed, a real
//! kube-apiserver; source-controller and kustomize-controller, or Argo CD's. What must come out: what was pushed runs on site when the registry is gone, the next
//! version after it, and the one before after a rollback.

use std::fs;
use std::path::Path;

use outhaul_tests::argocd::ArgoCd;
use outhaul_tests::flux::Flux;
use outhaul_tests::kubernetes::{ADMIN, ApiServer};
use outhaul_tests::mirror::Mirror;
use outhaul_tests::workspace_root;
use serde_json::Value;

use super::{Registry, crane_or_skip, push_made};
use crate::cluster::{SITE, follow_the_example};
use crate::system::SystemFixture;

const NAMESPACE: &str = "dev-store-stock-report-nightly";

/// Pushes an artifact whose one layer holds a `ConfigMap` with `text`; its digest.
fn push(fixture: &SystemFixture, crane: &Path, name: &str, text: &str) -> String {
    let make = r#"
        printf 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: report}\ndata: {text: "%s"}\n' "$TEXT" >rootfs/report.yaml
    "#;
    push_made(fixture, (crane, name), make, text)
}

/// The example, whose stores follow the artifact `repo:tag` by a template.
fn follows(fixture: &SystemFixture, template: &str, (repo, tag): (&str, &str)) {
    let templates = workspace_root().join("bundler/plane/templates");
    fixture.on_branch("control-plane", "main", |folder| {
        for name in [template, "namespace"].map(|name| format!("{name}.yaml")) {
            fs::copy(templates.join(&name), folder.join("templates").join(&name)).unwrap();
        }
    });
    fixture.on_branch("control-plane", "dev", |folder| {
        let path = folder.join("delivery/cluster.yaml");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(path, text.replace("images: reference", "images: carry")).unwrap();
        let path = folder.join("cluster-types/store.yaml");
        let text = fs::read_to_string(&path).unwrap();
        let text = text.replace("reconciler: kubernetes", &format!("reconciler: {template}"));
        fs::write(path, text.replace("small-namespace", "namespace")).unwrap();
    });
    tagged(fixture, repo, tag);
}

fn tagged(fixture: &SystemFixture, repo: &str, tag: &str) {
    fixture.on_branch("stock-report", "main", |folder| {
        let mut found = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let path = found
            .find(|path| path.extension().is_some_and(|end| end == "yaml"))
            .unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let (head, _) = text.split_once("      manifests:\n").unwrap();
        let manifests = format!(
            "      manifests:\n        storage: oci\n        repo: {repo}\n        tag: \"{tag}\"\n"
        );
        fs::write(path, format!("{head}{manifests}")).unwrap();
    });
}

/// A site whose bundles bring the artifact, once with `one` and once with `two`; its registry is gone.
struct Followed {
    fixture: SystemFixture,
    server: ApiServer,
    _mirror: Mirror,
    second: String,
}

impl Followed {
    /// `section` is that of `agent.toml` in which the mirror's address stands.
    fn new(
        fixture: SystemFixture,
        server: ApiServer,
        template: &str,
        section: &str,
    ) -> Option<Self> {
        let crane = crane_or_skip()?;
        let registry = Registry::start(&crane);
        let repo = format!("{}/team/report", registry.address);
        push(&fixture, &crane, &format!("{repo}:1"), "one");
        let second = push(&fixture, &crane, &format!("{repo}:2"), "two");
        follows(&fixture, template, (&repo, "1"));
        let mirror = Mirror::start(&fixture.path(&format!("sites/{SITE}"))).unwrap();
        let config = format!(
            "[kubernetes]\nkubeconfig = {:?}\nwait_s = 60\n[{section}]\nmirror = \"{}\"\n",
            server.kubeconfig(ADMIN),
            mirror.url
        );
        fs::write(fixture.path(&format!("sites/{SITE}/agent.toml")), config).unwrap();
        for (out, tag) in [("first", "1"), ("second", "2")] {
            tagged(&fixture, &repo, tag);
            let keys = ["--fleet", "fleet", "--passphrase-file", "passphrase"];
            let more = ["--out", out, "--allow-host", &registry.address];
            fixture.plane(0, "bundle", "dev", &[&keys[..], &more].concat());
        }
        Some(Self {
            fixture,
            server,
            _mirror: mirror,
            second,
        })
    }

    fn text(&self) -> Value {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps/report");
        let found = self.server.get(&path).unwrap();
        found.map_or(Value::Null, |found| found["data"]["text"].clone())
    }

    /// Both bundles one after the other, and back; `revision` is what the controller says that it has of the second.
    fn is_followed(&self, revision: impl Fn(&ApiServer) -> String) {
        self.fixture.agent(SITE, 0, &["import", "first"]);
        assert_eq!(self.text(), "one");
        self.fixture.agent(SITE, 0, &["import", "second"]);
        assert_eq!(self.text(), "two");
        let found = revision(&self.server);
        assert!(
            found.ends_with(&self.second),
            "{found} is not {}",
            self.second
        );
        self.fixture.agent(SITE, 0, &["rollback", "--who", "ann"]);
        assert_eq!(self.text(), "one");
    }
}

fn fixture_with_server() -> Option<(SystemFixture, ApiServer)> {
    let mut fixture = SystemFixture::new();
    let server = ApiServer::start_or_skip(&fixture.path("server"))?.unwrap();
    follow_the_example(&mut fixture);
    Some((fixture, server))
}

#[test]
fn an_oci_artifact_is_pulled_from_the_mirror_by_flux_and_applied_when_its_registry_is_gone() {
    let (Some(programs), Some(sources)) = (Flux::available_or_skip(), Flux::sources_or_skip())
    else {
        return;
    };
    let Some((fixture, server)) = fixture_with_server() else {
        return;
    };
    let _flux = Flux::start(&programs, &server, &fixture.path("flux"), sources).unwrap();
    let Some(followed) = Followed::new(fixture, server, "flux-oci", "flux") else {
        return;
    };
    followed.is_followed(|server| {
        let path = "/apis/source.toolkit.fluxcd.io/v1/namespaces";
        let path = format!("{path}/{NAMESPACE}/ocirepositories/stock-report-nightly");
        let source = server.get(&path).unwrap().unwrap();
        source["status"]["artifact"]["revision"]
            .as_str()
            .unwrap()
            .to_owned()
    });
}

#[test]
fn an_oci_artifact_is_pulled_from_the_mirror_by_argo_cd_and_applied_when_its_registry_is_gone() {
    let Some(programs) = ArgoCd::available_or_skip() else {
        return;
    };
    let Some((fixture, server)) = fixture_with_server() else {
        return;
    };
    let argo = ArgoCd::start(&programs, &server, &fixture.path("argocd")).unwrap();
    let Some(followed) = Followed::new(fixture, server, "argocd-oci", "argocd") else {
        return;
    };
    let authority = followed
        .fixture
        .path(&format!("sites/{SITE}/serve/tls/ca.pem"));
    fs::copy(authority, argo.authority_of("127.0.0.1")).unwrap();
    followed.is_followed(|server| {
        let path = "/apis/argoproj.io/v1alpha1/namespaces/argocd/applications";
        let (_, all) = server.ask("GET", path, None).unwrap();
        all["items"][0]["status"]["sync"]["revision"]
            .as_str()
            .unwrap()
            .to_owned()
    });
}
