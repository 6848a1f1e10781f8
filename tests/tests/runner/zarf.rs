//! Zarf, from `outhaul init` to a real API server and back.
//!
//! What comes in: a control plane as `outhaul init --reconciler zarf` writes it, a real Zarf and a real API server. What must come out:
//! the package that is made on site of what the bundle brought, deployed, changed and rolled back, and nothing fetched.

use std::fs;

use outhaul_tests::kubernetes::{ADMIN, ApiServer};
use outhaul_tests::zarf;
use serde_json::{Value, json};

use super::system::SystemFixture;

const SITE: &str = "edge-1";
const NAMESPACE: &str = "dev-edge-hello-dev";

/// The team's own manifests say this.
fn greets(fixture: &SystemFixture, greeting: &str) {
    fixture.on_branch("control-plane", "hello", |folder| {
        let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "greeting"},
            "data": {"greeting": greeting}});
        fs::write(folder.join("manifests/dev/greeting.yaml"), manifest.to_string()).unwrap();
        let kustomization = "resources: [greeting.yaml]\nnamePrefix: hello-\n";
        fs::write(folder.join("manifests/dev/kustomization.yaml"), kustomization).unwrap();
    });
}

fn config_map(server: &ApiServer, name: &str) -> Option<Value> {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps/{name}");
    Some(server.get(&path).unwrap()?["data"].clone())
}

#[test]
fn what_init_writes_for_zarf_is_made_into_a_package_on_site_deployed_and_rolled_back() {
    let Some(program) = zarf::available_or_skip() else {
        return;
    };
    let fixture = SystemFixture::new();
    let Some(server) = ApiServer::start_or_skip(&fixture.path("server")) else {
        return;
    };
    let server = server.unwrap();
    zarf::make_believe_a_node(&server).unwrap();
    let init = [
        "init",
        "control-plane",
        "--environments",
        "dev",
        "--reconciler",
        "zarf",
    ];
    fixture.run("outhaul", 0, &init);
    greets(&fixture, "one");
    fixture.fleet();
    fixture.site(SITE, "dev", "edge");
    let config = format!(
        "[kubernetes]\nkubeconfig = {:?}\n[zarf]\nprogram = {program:?}\nwait_s = 10\n",
        server.kubeconfig(ADMIN)
    );
    fs::write(fixture.path(&format!("sites/{SITE}/agent.toml")), config).unwrap();

    fixture.bundle("dev");
    fixture.carry(SITE);
    let greeting = || config_map(&server, "hello-greeting").unwrap()["greeting"].clone();
    assert_eq!(greeting(), "one");
    let config = config_map(&server, "platform-config").unwrap();
    assert_eq!(config["ENVIRONMENT"], "dev", "{config}");

    greets(&fixture, "two");
    fixture.bundle("dev");
    fixture.carry(SITE);
    assert_eq!(greeting(), "two");
    fixture.agent(SITE, 0, &["rollback", "--who", "ann"]);
    assert_eq!(greeting(), "one");
    let status = fixture.agent(SITE, 0, &["status"]).stdout;
    assert!(status.contains("bundle 1 is active"), "{status}");
}
