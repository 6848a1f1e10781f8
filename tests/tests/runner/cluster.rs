//! Plain Kubernetes manifests, from the control plane to a real API server and back.
//!
//! What comes in: `examples/cluster`, a real kube-apiserver with etcd, and no controller but what a test says.
//! What must come out: what was rendered is delivered on a stick, applied, observed, pruned and rolled back.

use std::fs;
use std::path::Path;

use outhaul_test_kit::folder::fill;
use outhaul_tests::kubernetes::{ADMIN, ApiServer};
use serde_json::{Value, json};

use super::system::SystemFixture;

/// A site with a cluster, and the control plane that it follows.
struct Store {
    fixture: SystemFixture,
    server: ApiServer,
}

pub const SITE: &str = "store-1";
const NAMESPACE: &str = "dev-store-stock-report-nightly";
const IMAGE: &str = "registry.store.example/stock-report";

/// The control plane of `examples/cluster` with its sources, and a site of its stream `dev/store`.
pub fn follow_the_example(fixture: &mut SystemFixture) {
    let example = outhaul_tests::workspace_root().join("examples/cluster");
    fixture.repository(&example.join("control-plane"), "control-plane");
    fill(
        &example.join("stock-report/source"),
        &fixture.path("from/main"),
    );
    fixture.repository(&fixture.path("from"), "stock-report");
    fixture.repository(&example.join("stock-report/manifests"), "manifests");
    for (url, folder) in [
        ("stock-report", "stock-report"),
        ("stock-report-manifests", "manifests"),
    ] {
        fixture
            .sources
            .push(format!("https://git.store.example/{url}={folder}"));
    }
    fixture.fleet();
    fixture.site(SITE, "dev", "store");
}

impl Store {
    #[track_caller]
    fn new() -> Option<Self> {
        let mut fixture = SystemFixture::new();
        let server = ApiServer::start_or_skip(&fixture.path("server"))?.unwrap();
        follow_the_example(&mut fixture);
        let kubeconfig = server.kubeconfig(ADMIN);
        let config = format!(
            "[kubernetes]\nkubeconfig = \"{}\"\nwait_s = 5\n",
            kubeconfig.display()
        );
        fs::write(fixture.path(&format!("sites/{SITE}/agent.toml")), config).unwrap();
        Some(Self { fixture, server })
    }

    fn agent(&self, code: i32, arguments: &[&str]) -> outhaul_tests::Ran {
        self.fixture.agent(SITE, code, arguments)
    }

    /// What is in the namespace below a path of the API.
    fn get(&self, path: &str) -> Option<Value> {
        let (root, rest) = path.rsplit_once('/').unwrap();
        let (root, plural) = root.rsplit_once('/').unwrap();
        self.server
            .get(&format!("{root}/namespaces/{NAMESPACE}/{plural}/{rest}"))
            .unwrap()
    }

    fn image(&self) -> Option<String> {
        let job = self.get("/apis/batch/v1/cronjobs/stock-report")?;
        let containers = &job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"];
        Some(containers[0]["image"].as_str()?.to_owned())
    }

    /// Another version of what the team wrote: another image, and its queries under another name.
    fn second_version(&self) {
        self.fixture.on_branch("manifests", "dev", |folder| {
            let path = folder.join("report.yaml");
            let text = fs::read_to_string(&path).unwrap();
            let text = text
                .replace("1.4.0", "1.5.0")
                .replace("name: queries\ndata", "name: questions\ndata");
            fs::write(
                path,
                text.replace(
                    "configMap: { name: queries }",
                    "configMap: { name: questions }",
                ),
            )
            .unwrap();
        });
    }
}

#[test]
fn manifests_are_rendered_delivered_applied_observed_pruned_and_rolled_back() {
    let Some(store) = Store::new() else { return };
    let (fixture, server) = (&store.fixture, &store.server);
    let rendered = fixture.plane(0, "render", "dev", &["--out", "rendered"]);
    let settings = fixture.path("rendered/store/stock-report-nightly/reconciler.yaml");
    let settings =
        fs::read_to_string(&settings).unwrap_or_else(|error| panic!("{error}: {rendered:?}"));
    assert!(
        settings.contains(&format!("namespace: \"{NAMESPACE}\"")),
        "{settings}"
    );

    fixture.bundle("dev");
    fixture.carry(SITE);
    assert_eq!(store.image().as_deref(), Some(&*format!("{IMAGE}:1.4.0")));
    let config = store.get("/api/v1/configmaps/platform-config").unwrap();
    assert_eq!(
        config["data"],
        json!({"CURRENCY": "EUR", "ENVIRONMENT": "dev"})
    );
    assert!(store.get("/api/v1/serviceaccounts/workload").is_some());
    let fields = config["metadata"]["managedFields"].as_array().unwrap();
    assert!(
        fields.iter().all(|entry| entry["manager"] == "outhaul"),
        "{fields:?}"
    );

    // The team's next version: what it dropped goes, what it added comes.
    store.second_version();
    fixture.bundle("dev");
    let plan = store.agent(0, &["plan", "stick/dev-store-2.outhaul"]);
    assert!(plan.stdout.contains("report.yaml"), "{plan:?}");
    fixture.carry(SITE);
    assert_eq!(store.image().as_deref(), Some(&*format!("{IMAGE}:1.5.0")));
    assert!(store.get("/api/v1/configmaps/questions").is_some());
    assert!(
        store.get("/api/v1/configmaps/queries").is_none(),
        "it is pruned"
    );

    // Someone changes it by hand: seen, put back, and reported to the hub.
    let job = format!("/apis/batch/v1/namespaces/{NAMESPACE}/cronjobs/stock-report");
    server
        .patch(&job, "kubectl-edit", &json!({"spec": {"suspend": true}}))
        .unwrap();
    server
        .delete(&format!(
            "/api/v1/namespaces/{NAMESPACE}/configmaps/questions"
        ))
        .unwrap();
    // The hub's address answers nobody; everything else of the round is done.
    store.agent(3, &["run", "--once"]);
    assert!(store.get("/api/v1/configmaps/questions").is_some());
    fixture.home(SITE);

    // A person goes back, and what was pruned is there again.
    let back = store.agent(0, &["rollback", "--who", "ann"]);
    assert!(back.everything().contains("bundle 1"), "{back:?}");
    assert_eq!(store.image().as_deref(), Some(&*format!("{IMAGE}:1.4.0")));
    assert!(store.get("/api/v1/configmaps/queries").is_some());
    assert!(store.get("/api/v1/configmaps/questions").is_none());
    fixture.home(SITE);
}

#[test]
fn a_version_that_the_server_refuses_leaves_the_one_before_it_running() {
    let Some(store) = Store::new() else { return };
    store.fixture.bundle("dev");
    store.fixture.carry(SITE);
    store
        .fixture
        .on_branch("manifests", "dev", |folder: &Path| {
            let path = folder.join("report.yaml");
            let text = fs::read_to_string(&path).unwrap();
            let text = text
                .replace("1.4.0", "1.5.0")
                .replace("0 3 * * *", "every night");
            fs::write(path, text).unwrap();
        });
    store.fixture.bundle("dev");
    let refused = store.agent(1, &["import", "stick"]);
    let reported = refused.everything();
    assert!(
        reported.contains("CronJob.batch \"stock-report\" is invalid: spec.schedule"),
        "{reported}"
    );
    assert_eq!(store.image().as_deref(), Some(&*format!("{IMAGE}:1.4.0")));
    store.fixture.home(SITE);
}

#[test]
fn a_site_that_lost_its_database_adopts_its_own_objects_and_prunes_what_the_next_bundle_drops() {
    let Some(store) = Store::new() else { return };
    let (fixture, server) = (&store.fixture, &store.server);
    fixture.bundle("dev");
    fixture.carry(SITE);
    let job = "/apis/batch/v1/cronjobs/stock-report";
    let before = store.get(job).unwrap();
    let foreign = json!({"metadata": {"name": "foreign"}, "data": {"a": "b"}});
    let maps = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
    server.create(&maps, &foreign).unwrap();
    for name in ["agent.db", "agent.db-wal", "agent.db-shm"] {
        let _ = fs::remove_file(fixture.path(&format!("sites/{SITE}/{name}")));
    }

    // Without its memory it touches nothing, and says what to do.
    store.second_version();
    fixture.bundle("dev");
    let lost = store.agent(3, &["import", "stick"]);
    assert!(lost.stderr.contains("outhaul site enrol"), "{lost:?}");
    assert_eq!(store.get(job).unwrap(), before);

    let enrol = [
        "site",
        "enrol",
        SITE,
        "--again",
        "--fleet",
        "fleet",
        "--out",
        "again.kit",
    ];
    let stream = ["--environment", "dev", "--cluster-type", "store"];
    fixture.run("outhaul", 0, &[&enrol[..], &stream].concat());
    store.agent(0, &["enrol", "again.kit"]);
    assert_eq!(store.get(job).unwrap(), before);
    store.agent(0, &["import", "stick"]);
    let after = store.get(job).unwrap();
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
    assert_eq!(store.image().as_deref(), Some(&*format!("{IMAGE}:1.5.0")));
    // What the new bundle leaves out is removed though nobody remembers it; what others made is not.
    assert!(store.get("/api/v1/configmaps/questions").is_some());
    assert!(store.get("/api/v1/configmaps/queries").is_none());
    assert!(store.get("/api/v1/configmaps/foreign").is_some());
    let namespace = server.get(&format!("/api/v1/namespaces/{NAMESPACE}"));
    assert!(namespace.unwrap().unwrap()["metadata"]["deletionTimestamp"].is_null());
}
