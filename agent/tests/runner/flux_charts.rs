//! Charts on site, by a real helm-controller: installed from the site's mirror, followed, looked at, rolled back, uninstalled.
//!
//! What comes in: bundles that a real fleet signed, with a chart as the centre packs it; the real `outhaul-mirror`, from which a
//! real source-controller fetches; and `OUTHAUL_HELM_CONTROLLER`, without which the test is skipped. What goes out: the releases'
//! objects, what the agent said, and what it reports.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use outhaul_bundle::Digest;
use outhaul_test_kit::{Centre, Draft, Load};
use outhaul_tests::flux::Flux as Controller;
use outhaul_tests::helm_controller::HelmController;
use outhaul_tests::kubernetes::{ADMIN, ApiServer};
use outhaul_tests::mirror::Mirror;
use outhaul_tests::run_expecting;
use serde_json::{Value, json};

use crate::flux::{newest, said};
use crate::site::{Site, assert_reports, code, stderr, stdout};

const CONFIG: &str = "application/vnd.cncf.helm.config.v1+json";
const ARCHIVE: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// A release of a chart repository's newest chart, which only reports what someone changes, and one of an artifact, which
/// puts it back. Neither says a word that differs from one bundle to the next.
const RELEASES: &str = "apiVersion: v1
kind: Namespace
metadata: {name: dev-hello}
---
apiVersion: source.toolkit.fluxcd.io/v1
kind: HelmRepository
metadata: {name: stable, namespace: flux-system}
spec: {interval: 10m, url: 'https://charts.example/stable'}
---
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: listed, namespace: flux-system}
spec:
  interval: 10m
  targetNamespace: dev-hello
  releaseName: listed
  driftDetection: {mode: warn}
  chart: {spec: {chart: app, version: 1.x, interval: 10m, sourceRef: {kind: HelmRepository, name: stable}}}
  values: {suffix: '!'}
---
apiVersion: source.toolkit.fluxcd.io/v1
kind: OCIRepository
metadata: {name: pushed, namespace: flux-system}
spec:
  interval: 10m
  url: 'oci://ghcr.io/org/charts/app'
  ref: {tag: newest}
  layerSelector: {mediaType: application/vnd.cncf.helm.chart.content.v1.tar+gzip, operation: copy}
---
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: pushed, namespace: flux-system}
spec:
  interval: 10m
  targetNamespace: dev-hello
  releaseName: pushed
  driftDetection: {mode: enabled}
  chartRef: {kind: OCIRepository, name: pushed}
  values: {suffix: '?'}
";

/// A site whose Flux has all its controllers, and fetches from its mirror.
struct Offline {
    _helm: HelmController,
    _flux: Controller,
    server: ApiServer,
    mirror: Mirror,
    site: Site,
    centre: Centre,
}

impl Offline {
    #[track_caller]
    fn new() -> Option<Self> {
        let helm = HelmController::available_or_skip()?;
        let programs = Controller::available_or_skip()?;
        let sources = Controller::sources_or_skip()?;
        let centre = Centre::new();
        let site = Site::new(&centre, "drone-7");
        let folder = site.folder.path().to_owned();
        let server = ApiServer::start_or_skip(&folder.join("server"))?.unwrap();
        let flux = Controller::start(&programs, &server, &folder.join("flux"), sources).unwrap();
        let helm = HelmController::start(&helm, &server, &folder.join("helm")).unwrap();
        let mirror = Mirror::start(&site.state()).unwrap();
        site.configure(&format!(
            "[kubernetes]\nkubeconfig = \"{}\"\nwait_s = 120\n[flux]\nmirror = \"{}\"\n",
            server.kubeconfig(ADMIN).display(),
            mirror.url
        ));
        Some(Self {
            _helm: helm,
            _flux: flux,
            server,
            mirror,
            site,
            centre,
        })
    }

    /// The two releases, with a chart of `version` that makes `name` with `content`.
    fn draft(&self, version: &str, name: &str, content: &str) -> Draft {
        let archive = self.archive(version, name, content);
        let load = Load::new("hello").file("reconciler.yaml", RELEASES);
        Draft::new([with_chart(load, version, &archive)]).reconciler("flux")
    }

    /// What `helm package` makes.
    fn archive(&self, version: &str, name: &str, content: &str) -> Vec<u8> {
        let folder = self.site.folder.path().join("chart");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("app/templates")).unwrap();
        let about = format!("apiVersion: v2\nname: app\nversion: {version}\n");
        fs::write(folder.join("app/Chart.yaml"), about).unwrap();
        fs::write(folder.join("app/values.yaml"), "suffix: none\n").unwrap();
        let map = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n\
             data: {{content: \"{content}{{{{ .Values.suffix }}}}\"}}\n"
        );
        fs::write(folder.join("app/templates/map.yaml"), map).unwrap();
        let archive = folder.join("app.tgz");
        let mut tar = Command::new("tar");
        tar.arg("-C").arg(&folder).args(["-czf"]).arg(&archive);
        run_expecting(tar.arg("app"), 0).unwrap();
        fs::read(archive).unwrap()
    }

    fn content(&self, name: &str) -> Option<String> {
        let found = self.server.get(&map(name)).unwrap()?;
        Some(found["data"]["content"].as_str().unwrap().to_owned())
    }

    fn contents(&self) -> [Option<String>; 2] {
        ["listed", "pushed"].map(|name| self.content(name))
    }

    /// Looks until `is_so`: what Flux found out is in its objects a moment after it was asked.
    #[track_caller]
    fn look_until(&self, is_so: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + Duration::from_secs(120);
        loop {
            assert_eq!(code(&self.site.run(&["run", "--once"])), 0);
            let status = self.site.status()["assignments"][0].clone();
            if is_so(&status) {
                return status;
            }
            assert!(Instant::now() < deadline, "{status}");
        }
    }
}

fn map(name: &str) -> String {
    format!("/api/v1/namespaces/dev-hello/configmaps/{name}")
}

fn both(content: &str) -> [Option<String>; 2] {
    ["!", "?"].map(|suffix| Some(format!("{content}{suffix}")))
}

/// A payload with a chart of `https://charts.example/stable`, and the same one as an artifact.
fn with_chart(load: Load, version: &str, archive: &[u8]) -> Load {
    let descriptor = |media_type: &str, bytes: &[u8]| {
        let digest = Digest::of(bytes).to_string();
        json!({ "mediaType": media_type, "digest": digest, "size": bytes.len() })
    };
    let config = json!({ "apiVersion": "v2", "name": "app", "version": version }).to_string();
    let mut blobs = vec![config.clone().into_bytes(), archive.to_vec()];
    let mut entries = Vec::new();
    for (name, annotations) in [
        ("ghcr.io/org/charts/app:newest".to_owned(), json!({})),
        (
            format!("charts.example/stable/index.yaml/app:{version}"),
            json!({
                "dev.outhaul.chart.repository": "https://charts.example/stable",
                "dev.outhaul.chart.path": format!("app-{version}.tgz"),
            }),
        ),
    ] {
        let manifest = json!({
            "schemaVersion": 2, "mediaType": MANIFEST, "config": descriptor(CONFIG, config.as_bytes()),
            "layers": [descriptor(ARCHIVE, archive)], "annotations": annotations,
        });
        let manifest = manifest.to_string().into_bytes();
        let mut entry = descriptor(MANIFEST, &manifest);
        entry["annotations"] = json!({ "org.opencontainers.image.ref.name": name });
        entries.push(entry);
        blobs.push(manifest);
    }
    let index = json!({ "schemaVersion": 2, "manifests": entries });
    let load = load
        .payload("images/oci-layout", r#"{"imageLayoutVersion":"1.0.0"}"#)
        .payload("images/index.json", index.to_string());
    blobs.into_iter().fold(load, |load, blob| {
        let path = format!("images/blobs/sha256/{}", Digest::of(&blob).hex());
        load.payload(&path, blob)
    })
}

#[test]
fn charts_are_installed_from_the_mirror_followed_looked_at_rolled_back_and_uninstalled() {
    let Some(offline) = Offline::new() else {
        return;
    };
    let (site, server, centre) = (&offline.site, &offline.server, &offline.centre);
    let named = "{{ .Release.Name }}";
    site.take(&centre.publish(&offline.draft("1.0.0", named, "one")));
    assert_eq!(offline.contents(), both("one"));
    let steps = newest(site, 1);
    let printed = said(&steps, "HelmRepository");
    let fetched = format!(
        "`https://charts.example/stable` is fetched from {}/charts.example/stable",
        offline.mirror.url
    );
    assert!(printed.contains(&fetched), "{printed}");
    let printed = said(
        &steps,
        "HelmRelease.helm.toolkit.fluxcd.io flux-system/listed",
    );
    assert!(
        printed.ends_with(
            "Helm install succeeded for release dev-hello/listed.v1 with chart app@1.0.0"
        ),
        "{printed}"
    );

    // Not a byte of the objects differs: a newer chart lies behind the range, and another one behind the tag.
    site.take(&centre.publish(&offline.draft("1.1.0", named, "two")));
    assert_eq!(offline.contents(), both("two"));

    // What someone changed in what a release installed is reported where Flux is to leave it, and put back by Flux otherwise.
    let spoilt = json!({"data": {"content": "spoilt"}});
    for name in ["listed", "pushed"] {
        server.patch(&map(name), "someone", &spoilt).unwrap();
    }
    let status = offline.look_until(|status| status["status"] == "drifted");
    let printed = status.to_string();
    assert!(
        printed.contains("DriftDetected: Cluster state of release dev-hello/listed.v2 has drifted"),
        "{printed}"
    );
    offline.look_until(|_| offline.content("pushed").as_deref() == Some("two?"));
    assert_eq!(offline.content("listed").as_deref(), Some("spoilt"));

    let back = site.ok(&["rollback", "--who", "ann"]);
    assert_eq!(back["active"], 1, "{back}");
    assert_eq!(offline.contents(), both("one"));
    assert_eq!(site.status()["assignments"][0]["status"], "compliant");

    // A chart that no cluster takes: helm-controller's own words, and the chart of the bundle before is there again.
    let broken = site.import(&centre.publish(&offline.draft("1.2.0", "Not_A_Name", "never")));
    assert_eq!(code(&broken), 1, "{}", stderr(&broken));
    let printed = stdout(&broken);
    assert!(
        printed.contains("Helm upgrade failed for release dev-hello/")
            && printed.contains("Not_A_Name"),
        "{printed}"
    );
    assert_eq!(site.active(), Some(1));
    assert_eq!(offline.contents(), both("one"));

    let release = "/apis/helm.toolkit.fluxcd.io/v2/namespaces/flux-system/helmreleases/listed";
    let suspend = |suspend: bool| {
        server
            .patch(release, "flux", &json!({"spec": {"suspend": suspend}}))
            .unwrap();
    };
    suspend(true);
    let status = offline.look_until(|status| status["status"] == "drifted");
    let printed = status.to_string();
    assert!(
        printed.contains("it was changed: .spec.suspend"),
        "{printed}"
    );
    let blocked = site.import(&centre.publish(&offline.draft("1.3.0", named, "three")));
    assert_reports(&blocked, 3, &["conflict with \"flux\"", ".spec.suspend"]);
    suspend(false);
    let template = "/apis/helm.toolkit.fluxcd.io/v2/namespaces/flux-system/helmreleases";
    let applied = site.run(&["apply"]);
    assert_eq!(
        code(&applied),
        0,
        "{}{}",
        stdout(&applied),
        stderr(&applied)
    );
    assert_eq!(offline.contents(), both("three"));

    let other = Load::new("other").file(
        "map.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other, namespace: default}\n",
    );
    let bundle = centre.publish(&Draft::new([other]).reconciler("flux"));
    assert_eq!(code(&site.import(&bundle)), 0);
    site.ok(&["approve", "5"]);
    assert_eq!(site.active(), Some(5));
    assert_eq!(offline.contents(), [None, None], "uninstalled");
    let left = |path: &str| {
        let all = server.get(path).unwrap().unwrap();
        all["items"].as_array().unwrap().len()
    };
    for plural in ["helmcharts", "helmrepositories", "ocirepositories"] {
        let path = format!("/apis/source.toolkit.fluxcd.io/v1/namespaces/flux-system/{plural}");
        assert_eq!(left(&path), 0, "{plural}");
    }
    assert_eq!(left(template), 0);
    // Helm's own record of the releases, and the mirror's authority.
    assert_eq!(left("/api/v1/namespaces/flux-system/secrets"), 0);
    assert_eq!(left("/api/v1/namespaces/dev-hello/secrets"), 0);
}
