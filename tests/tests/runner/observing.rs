//! A cluster that follows the platform repository directly, with a real Flux, from `publish git` to the gate.
//!
//! What comes in: `examples/cluster`, published to a branch and bundled for the hub alone; a real kube-apiserver and a
//! real kustomize-controller (the stand-in of `outhaul_tests::flux` fetches). What must come out: the gate opens on
//! what the cluster shows, and on nothing else; absence, suspension, another revision and silence have their names.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use outhaul_tests::flux::{Flux, Sources};
use outhaul_tests::kubernetes::{ADMIN, ApiServer};
use outhaul_tests::workspace_root;
use serde_json::{Value, json};

use super::cluster::{SITE, follow_the_example};
use super::system::SystemFixture;

/// The platform repository as the cluster has it.
pub(super) const PLATFORM: &str = "https://git.store.example/platform";
pub(super) const KUSTOMIZATIONS: &str =
    "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/flux-system/kustomizations";
const SOURCES: &str = "/apis/source.toolkit.fluxcd.io/v1/namespaces/flux-system/gitrepositories";
/// How long a controller may take on a busy machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);

/// Answers `/raw/COMMIT/PATH` with that file of the repository, as forges do. Ends with the test's process.
pub(super) fn forge(repository: PathBuf) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut line = String::new();
            let mut reader = BufReader::new(&stream);
            let _ = reader.read_line(&mut line);
            let mut header = String::new();
            while reader.read_line(&mut header).is_ok_and(|read| read > 2) {
                header.clear();
            }
            let path = line.split(' ').nth(1).unwrap_or_default();
            let found = path
                .strip_prefix("/raw/")
                .and_then(|path| path.split_once('/'))
                .map(|(commit, path)| show(&repository, commit, path));
            let (status, body) = match found {
                Some(Ok(body)) => ("200 OK", body),
                _ => ("404 Not Found", Vec::new()),
            };
            let head = format!(
                "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                body.len()
            );
            let _ = stream.write_all(head.as_bytes());
            let _ = stream.write_all(&body);
        }
    });
    url
}

fn show(repository: &Path, commit: &str, path: &str) -> Result<Vec<u8>, ()> {
    let git = Command::new("git")
        .arg("-C")
        .arg(repository)
        .args(["show", &format!("{commit}:{path}")])
        .output();
    git.ok()
        .filter(|done| done.status.success())
        .map(|done| done.stdout)
        .ok_or(())
}

/// A site with a cluster on which Flux works, which takes no bundles.
pub(super) struct Connected {
    pub(super) fixture: SystemFixture,
    pub(super) flux: Flux,
    pub(super) server: ApiServer,
    site: &'static str,
    cluster_type: &'static str,
}

impl Connected {
    #[track_caller]
    fn new() -> Option<Self> {
        Self::with(|_| ())
    }

    /// The same after a change of the fixture, before anything is published.
    #[track_caller]
    pub(super) fn with(change: impl FnOnce(&mut SystemFixture)) -> Option<Self> {
        Flux::available_or_skip()?;
        let mut fixture = SystemFixture::new();
        follow_the_example(&mut fixture);
        let templates = workspace_root().join("bundler/plane/templates");
        fixture.on_branch("control-plane", "main", |folder| {
            for name in ["flux-git.yaml", "namespace.yaml"] {
                fs::copy(templates.join(name), folder.join("templates").join(name)).unwrap();
            }
        });
        fixture.on_branch("control-plane", "dev", |folder| {
            let path = folder.join("cluster-types/store.yaml");
            let text = fs::read_to_string(&path).unwrap();
            let text = text.replace("reconciler: kubernetes", "reconciler: flux-git");
            fs::write(&path, text.replace("small-namespace", "namespace")).unwrap();
            let path = folder.join("delivery/cluster.yaml");
            let text = fs::read_to_string(&path).unwrap();
            fs::write(path, text.replace("delivery: bundle", "delivery: both")).unwrap();
        });
        let manifests = "https://git.store.example/stock-report-manifests";
        let sources = vec![(manifests.to_owned(), fixture.path("manifests"))];
        let mut this = Self::on(fixture, (SITE, "store"), sources)?;
        change(&mut this.fixture);
        this.publish();
        Some(this)
    }

    /// The site of that name and cluster type has a cluster, on which Flux fetches the platform repository and these.
    #[track_caller]
    pub(super) fn on(
        fixture: SystemFixture,
        (site, cluster_type): (&'static str, &'static str),
        mut sources: Vec<(String, PathBuf)>,
    ) -> Option<Self> {
        let programs = Flux::available_or_skip()?;
        let server = ApiServer::start_or_skip(&fixture.path("server"))?.unwrap();
        let platform = fixture.path("platform");
        fs::create_dir_all(&platform).unwrap();
        fixture.git("platform", &["init", "--quiet", "--bare"]);
        sources.push((PLATFORM.to_owned(), platform.clone()));
        let sources = Sources::Git(sources);
        let flux = Flux::start(&programs, &server, &fixture.path("flux"), sources).unwrap();
        let config = format!(
            "[kubernetes]\nkubeconfig = \"{}\"\n[observe]\nrepository = \"{PLATFORM}.git\"\nrecord = \
             \"{}/raw/{{commit}}/.outhaul/platform.json\"\n",
            server.kubeconfig(ADMIN).display(),
            forge(platform)
        );
        fs::write(fixture.path(&format!("sites/{site}/agent.toml")), config).unwrap();
        Some(Self {
            fixture,
            flux,
            server,
            site,
            cluster_type,
        })
    }

    /// The environment to the branch that the cluster follows, and as a bundle to the hub alone.
    pub(super) fn publish(&self) {
        let (to, branch) = (self.fixture.path("platform"), "dev");
        let arguments = ["--to", to.to_str().unwrap(), "--branch", branch];
        let at = ["publish", "git", "--environment", "dev"];
        let plane = ["--control-plane", "control-plane"];
        let sources: Vec<&str> = self
            .fixture
            .sources
            .iter()
            .flat_map(|s| ["--source", s])
            .collect();
        self.fixture.run(
            "outhaul",
            0,
            &[&at[..], &plane, &sources, &arguments].concat(),
        );
        self.fixture.bundle("dev");
    }

    /// The commit of the branch that the cluster follows.
    pub(super) fn tip(&self) -> String {
        self.fixture.git("platform", &["rev-parse", "dev"])
    }

    /// The base commit that it was rendered from.
    pub(super) fn base(&self) -> String {
        let path = "dev:.outhaul/platform.json";
        let record: Value =
            serde_json::from_str(&self.fixture.git("platform", &["show", path])).unwrap();
        record["snapshot"]["base"]["commit"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    /// What `observe` prints, and its exit code is `code`.
    #[track_caller]
    fn observe(&self, code: i32) -> Value {
        let seen = self
            .fixture
            .agent(self.site, code, &["--output", "json", "observe"]);
        outhaul_tests::result(&seen.stdout)
    }

    /// What `observe` prints once all is applied: between two looks Flux may be at work again.
    #[track_caller]
    pub(super) fn synced(&self) -> Value {
        let until = Instant::now() + PATIENCE;
        loop {
            let agent = outhaul_tests::program("outhaul-agent").unwrap();
            let state = format!("sites/{}", self.site);
            let mut command = self.fixture.command(&agent);
            command.args(["--state", &state, "--output", "json", "observe"]);
            let ran = outhaul_tests::run(&mut command).unwrap();
            let seen = outhaul_tests::result(&ran.stdout);
            if seen["state"] == "synced" {
                assert_eq!(ran.code, Some(0), "{}", ran.everything());
                return seen;
            }
            assert!(Instant::now() < until, "{seen}");
        }
    }

    /// The gate of `dev` for the base commit, after the reports came back.
    fn gate(&self, code: i32, base: &str) -> String {
        self.fixture.home(self.site);
        let asked = ["--state", "hub", "gate", "--environment", "dev", "--commit"];
        let decided = self
            .fixture
            .run("outhaul-hub", code, &[&asked[..], &[base]].concat());
        decided.everything()
    }

    pub(super) fn follow(&self) {
        let source = json!({"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
            "metadata": {"name": "platform"},
            "spec": {"interval": "30s", "url": PLATFORM, "ref": {"branch": "dev"}}});
        self.server.create(SOURCES, &source).unwrap();
        let follows = json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
            "metadata": {"name": "platform"},
            "spec": {"interval": "30s", "path": format!("./{}", self.cluster_type), "prune": true,
                "sourceRef": {"kind": "GitRepository", "name": "platform"}}});
        self.server.create(KUSTOMIZATIONS, &follows).unwrap();
    }

    /// Asks Flux to look now, and waits until it has applied `commit`.
    pub(super) fn until_applied(&self, commit: &str) {
        let ask = json!({"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": commit}}});
        let source = format!("{SOURCES}/platform");
        self.server.patch(&source, "test", &ask).unwrap();
        let until = Instant::now() + PATIENCE;
        loop {
            let path = format!("{KUSTOMIZATIONS}/platform");
            let found = self.server.get(&path).unwrap().unwrap();
            let applied = found["status"]["lastAppliedRevision"].as_str();
            let conditions = found["status"]["conditions"].as_array();
            let mut conditions = conditions.into_iter().flatten();
            let rests = conditions.all(|one| one["type"] == "Ready" && one["status"] == "True")
                && found["status"]["observedGeneration"] == found["metadata"]["generation"];
            if rests && applied.is_some_and(|applied| applied.ends_with(commit)) {
                return;
            }
            assert!(Instant::now() < until, "{found}");
            std::thread::yield_now();
        }
    }
}

#[test]
fn the_gate_opens_on_what_a_connected_cluster_shows_and_on_nothing_else() {
    let Some(mut store) = Connected::new() else {
        return;
    };
    let (first, base) = (store.tip(), store.base());
    // Nothing follows the repository yet: said, and no confirmation.
    let seen = store.observe(1);
    assert_eq!(seen["state"], "absent", "{seen}");
    assert!(
        store
            .gate(1, &base)
            .contains("`absent`: nothing on this cluster follows")
    );

    store.follow();
    store.until_applied(&first);
    let seen = store.synced();
    assert_eq!(
        (&seen["state"], &seen["commit"], &seen["reconciler"]),
        (&json!("synced"), &json!(first), &json!("flux"))
    );
    assert_eq!(seen["snapshot"]["base"]["commit"], base);
    assert_eq!(seen["assignments"][0]["status"], "compliant", "{seen}");
    let opened = store.gate(0, &base);
    assert!(opened.contains("open"), "{opened}");
    let sites = ["--state", "hub", "--output", "json", "sites"];
    let row = outhaul_tests::result(&store.fixture.run("outhaul-hub", 0, &sites).stdout)[0].clone();
    assert_eq!((&row["verdict"], &row["actual"]), (&json!("ok"), &json!(1)));
    let status = store.fixture.agent(SITE, 0, &["status"]).stdout;
    assert!(
        status.contains("the cluster is `synced` at commit"),
        "{status}"
    );

    // Suspended by a person: the commit is the same, and confirms nothing any more.
    let path = format!("{KUSTOMIZATIONS}/platform");
    let suspend = |suspended: bool| json!({"spec": {"suspend": suspended}});
    store.server.patch(&path, "ann", &suspend(true)).unwrap();
    assert_eq!(store.observe(1)["state"], "suspended");
    assert!(store.gate(1, &base).contains("is suspended with bundle 1"));
    store.server.patch(&path, "ann", &suspend(false)).unwrap();
    store.until_applied(&first);
    store.synced();

    // A newer commit is fetched while nobody applies: the cluster still shows the one before.
    store.flux.stop();
    store.fixture.on_branch("control-plane", "main", |folder| {
        let path = folder.join("configs/common.yaml");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, format!("{text}  OBSERVED: \"yes\"\n")).unwrap();
    });
    store.publish();
    let (second, new_base) = (store.tip(), store.base());
    assert_ne!((&first, &base), (&second, &new_base));
    let ask = json!({"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": "again"}}});
    let source = format!("{SOURCES}/platform");
    store.server.patch(&source, "test", &ask).unwrap();
    let until = Instant::now() + PATIENCE;
    while !store.server.get(&source).unwrap().unwrap()["status"]["artifact"]["revision"]
        .as_str()
        .is_some_and(|revision| revision.ends_with(&second))
    {
        assert!(Instant::now() < until);
        std::thread::yield_now();
    }
    let seen = store.observe(1);
    assert_eq!(
        (&seen["state"], &seen["commit"]),
        (&json!("other_revision"), &json!(first)),
        "{seen}"
    );
    assert!(
        store
            .gate(1, &new_base)
            .contains("runs bundle 1, 2 is needed")
    );
    store.flux.go_on().unwrap();
    store.until_applied(&second);
    assert_eq!(store.synced()["commit"], second.as_str());
    store.gate(0, &new_base);

    // An API server that does not answer is a report, too.
    let settings = store.fixture.path(&format!("sites/{SITE}/agent.toml"));
    let text = fs::read_to_string(&settings).unwrap();
    fs::write(&settings, text.replace("raw/{commit}", "none/{commit}")).unwrap();
    let seen = store.observe(3);
    assert_eq!(seen["state"], "unreachable");
    let closed = store.gate(1, &new_base);
    assert!(closed.contains("the record of commit"), "{closed}");
}
