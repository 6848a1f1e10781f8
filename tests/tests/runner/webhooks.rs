//! A cluster on which no agent runs: a real Flux reports it to the hub by webhook, and one gate decides over it and a site of bundles.
//!
//! What comes in: `examples/cluster` with a second cluster type, of vans that take bundles; a real kube-apiserver, kustomize-controller
//! and notification-controller (the stand-in of `outhaul_tests::flux` fetches). What must come out: the gate opens once both confirm and
//! the rules let webhooks count, closes with Flux's own words when it fails, and opens again.

use std::fs;
use std::time::Instant;

use outhaul_tests::flux::Flux;
use outhaul_tests::workspace_root;
use serde_json::{Value, json};

use super::cluster::SITE;
use super::observing::{Connected, KUSTOMIZATIONS, PATIENCE, PLATFORM, forge};
use super::system::{Hub, SystemFixture};

const VAN: &str = "van-1";
const NOTIFICATIONS: &str = "/apis/notification.toolkit.fluxcd.io/v1beta3/namespaces/flux-system";
const COUNTS: &str = r#"{"webhook_evidence": true}"#;

/// A second cluster type whose sites take bundles, as files.
fn with_vans(fixture: &mut SystemFixture) {
    let templates = workspace_root().join("bundler/plane/templates");
    fixture.on_branch("control-plane", "main", |folder| {
        for name in ["folder.yaml", "folder-namespace.yaml", "env-file.yaml"] {
            fs::copy(templates.join(name), folder.join("templates").join(name)).unwrap();
        }
    });
    fixture.on_branch("control-plane", "dev", |folder| {
        let text = fs::read_to_string(folder.join("cluster-types/store.yaml")).unwrap();
        let text = text.replace("name: store", "name: van");
        let text = text.replace("reconciler: flux-git", "reconciler: folder");
        let text = text.replace(
            "namespaceService: namespace",
            "namespaceService: folder-namespace",
        );
        let text = text.replace("configType: config-map", "configType: env-file");
        fs::write(folder.join("cluster-types/van.yaml"), text).unwrap();
    });
    fixture.site(VAN, "dev", "van");
}

struct Observed {
    cluster: Connected,
    hub: Hub,
}

impl Observed {
    #[track_caller]
    fn new() -> Option<Self> {
        let notifications = Flux::notifications_or_skip()?;
        let mut cluster = Connected::with(with_vans)?;
        cluster
            .flux
            .notify(&notifications, &cluster.server)
            .unwrap();
        let hub = cluster.fixture.serve();
        let this = Self { cluster, hub };
        this.send_to_the_hub();
        Some(this)
    }

    /// Registers the site in the place of its agent, and has Flux send its events to the hub, as the documents say.
    fn send_to_the_hub(&self) {
        let fixture = &self.cluster.fixture;
        let record = forge(fixture.path("platform")) + "/raw/{commit}/.outhaul/platform.json";
        let register = [
            "--state",
            "hub",
            "--output",
            "json",
            "site",
            "webhook",
            SITE,
            "--replace",
            "--sender",
            "flux",
        ];
        let of = [
            "--environment",
            "dev",
            "--cluster-type",
            "store",
            "--repository",
            PLATFORM,
        ];
        let object = [
            "--record",
            &record,
            "--object",
            "Kustomization/flux-system/platform=store",
        ];
        let made = fixture.run("outhaul-hub", 0, &[&register[..], &of, &object].concat());
        let made: Value = outhaul_tests::result(&made.stdout);
        let address = format!(
            "{}{}",
            self.hub.url.trim_end_matches('/'),
            made["path"].as_str().unwrap()
        );
        let server = &self.cluster.server;
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "outhaul-webhook"},
            "stringData": {"token": made["secret"]}});
        server
            .create("/api/v1/namespaces/flux-system/secrets", &secret)
            .unwrap();
        let kind = |kind: &str, name: &str, spec: Value| json!({"apiVersion": "notification.toolkit.fluxcd.io/v1beta3", "kind": kind, "metadata": {"name": name}, "spec": spec});
        let provider = kind(
            "Provider",
            "outhaul",
            json!({"type": "generic-hmac", "address": address,
            "secretRef": {"name": "outhaul-webhook"}}),
        );
        server
            .create(&format!("{NOTIFICATIONS}/providers"), &provider)
            .unwrap();
        let alert = kind(
            "Alert",
            "outhaul",
            json!({"providerRef": {"name": "outhaul"}, "eventSeverity": "info",
            "eventSources": [{"kind": "Kustomization", "name": "*"}], "eventMetadata": {"site": SITE}}),
        );
        server
            .create(&format!("{NOTIFICATIONS}/alerts"), &alert)
            .unwrap();
    }

    /// Waits until the hub has a report of the cluster that is in this state, and returns its row.
    #[track_caller]
    fn until(&self, state: &str) -> Value {
        let until = Instant::now() + PATIENCE;
        loop {
            let sites = ["--state", "hub", "--output", "json", "sites"];
            let sites =
                outhaul_tests::result(&self.cluster.fixture.run("outhaul-hub", 0, &sites).stdout);
            let all = sites.as_array().unwrap();
            let row = all.iter().find(|row| row["site"] == SITE).unwrap();
            if row["state"] == state {
                return row.clone();
            }
            assert!(Instant::now() < until, "{row}");
            std::thread::sleep(std::time::Duration::from_millis(200));
        }
    }

    /// The gate of `dev` for a base commit by these rules, which go on record.
    #[track_caller]
    fn gate(&self, code: i32, base: &str, rules: &str) -> String {
        let asked = [
            "--state",
            "hub",
            "gate",
            "--environment",
            "dev",
            "--rules",
            rules,
            "--record",
            "--by",
            "ann",
            "--reason",
            "this cluster takes no agent",
            "--commit",
        ];
        let decided =
            self.cluster
                .fixture
                .run("outhaul-hub", code, &[&asked[..], &[base]].concat());
        decided.everything()
    }

    /// Lets the Kustomization apply this folder of the repository.
    fn apply(&self, path: &str) {
        let change = json!({"spec": {"path": path, "interval": "5s", "retryInterval": "2s"}});
        let place = format!("{KUSTOMIZATIONS}/platform");
        self.cluster.server.patch(&place, "test", &change).unwrap();
    }
}

#[test]
fn a_real_flux_reports_by_webhook_and_one_gate_decides_over_it_and_a_site_of_bundles() {
    let Some(both) = Observed::new() else {
        return;
    };
    let base = both.cluster.base();
    // The vans' site confirms by its bundle; of the cluster nothing came yet.
    both.cluster.fixture.carry(VAN);
    both.cluster.fixture.home(VAN);
    let closed = both.gate(1, &base, COUNTS);
    assert!(
        closed.contains("never-reported: site `store-1`"),
        "{closed}"
    );

    both.cluster.follow();
    let row = both.until("active");
    assert_eq!(
        (&row["webhook"], &row["actual"]),
        (&json!("flux"), &json!(1)),
        "{row}"
    );
    // Closed by default, with the reason and the way out.
    let closed = both.gate(1, &base, "{}");
    assert!(
        closed.contains("webhook-only: site `store-1` shows bundle 1 by webhook of flux alone"),
        "{closed}"
    );
    assert!(closed.contains("webhookEvidence: counts"), "{closed}");
    let open = both.gate(0, &base, COUNTS);
    assert!(open.contains("2 of 2 sites"), "{open}");
    assert!(open.contains("active, by webhook of flux alone"), "{open}");

    // It fails, in Flux's words, and is made good.
    both.apply("./nowhere");
    let row = both.until("failed");
    assert!(
        row["message"]
            .as_str()
            .unwrap()
            .contains("kustomization path not found"),
        "{row}"
    );
    let closed = both.gate(1, &base, COUNTS);
    assert!(closed.contains("failed: site `store-1`"), "{closed}");
    both.apply("./store");
    both.until("active");
    both.gate(0, &base, COUNTS);
}
