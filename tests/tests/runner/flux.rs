//! Flux on site, from the control plane to a real kustomize-controller and home again.
//!
//! What comes in: `examples/cluster` for Flux, once with the templates that come with Outhaul and once with one
//! as Kalypso's tutorial has it; a real kube-apiserver and a real kustomize-controller. The archive of the team's
//! repository comes from a stand-in for source-controller. What must come out: what was rendered is delivered
//! on a stick, and Flux applies, prunes and goes back.

use std::fs;

use outhaul_tests::flux::{Flux, Sources};
use outhaul_tests::kubernetes::{ADMIN, ApiServer};
use outhaul_tests::workspace_root;
use serde_json::{Value, json};

use super::cluster::{SITE, follow_the_example};
use super::system::SystemFixture;

const NAMESPACE: &str = "dev-store-stock-report-nightly";
const IMAGE: &str = "registry.store.example/stock-report";

/// A template for Flux in Kalypso's group and language, for the Flux of its day.
const KALYPSO: &str = r#"apiVersion: scheduler.kalypso.io/v1alpha1
kind: Template
metadata:
  name: arc-flux
spec:
  type: reconciler
  manifests:
    - |
      apiVersion: source.toolkit.fluxcd.io/v1beta2
      kind: GitRepository
      metadata:
        name: "{{ .DeploymentTargetName}}"
        namespace: flux-system
      spec:
        interval: 30s
        url: "{{ .Manifests.repo}}"
        ref:
          branch: "{{ .Manifests.branch}}"
        secretRef:
            name: repo-secret
    - |
      apiVersion: kustomize.toolkit.fluxcd.io/v1beta2
      kind: Kustomization
      metadata:
        name: "{{ .DeploymentTargetName}}"
        namespace: flux-system
      spec:
        interval: 30s
        targetNamespace: "{{ .Namespace}}"
        sourceRef:
          kind: GitRepository
          name: "{{ .DeploymentTargetName}}"
        path: "{{ .Manifests.path}}"
        prune: true
"#;

/// A site with a cluster on which Flux works.
struct Store {
    fixture: SystemFixture,
    _flux: Flux,
    server: ApiServer,
}

impl Store {
    /// `reconciler` and `namespace`: the templates' names and texts.
    #[track_caller]
    fn new(reconciler: (&str, &str), namespace: (&str, &str)) -> Option<Self> {
        let programs = Flux::available_or_skip()?;
        let mut fixture = SystemFixture::new();
        let server = ApiServer::start_or_skip(&fixture.path("server"))?.unwrap();
        let sources = Sources::Git(vec![(
            "https://git.store.example/stock-report-manifests".to_owned(),
            fixture.path("manifests"),
        )]);
        let flux = Flux::start(&programs, &server, &fixture.path("flux"), sources).unwrap();
        follow_the_example(&mut fixture);
        fixture.on_branch("control-plane", "main", |folder| {
            for (name, text) in [reconciler, namespace] {
                fs::write(folder.join(format!("templates/{name}.yaml")), text).unwrap();
            }
        });
        fixture.on_branch("control-plane", "dev", |folder| {
            let path = folder.join("cluster-types/store.yaml");
            let text = fs::read_to_string(&path).unwrap();
            let text = text.replace(
                "reconciler: kubernetes",
                &format!("reconciler: {}", reconciler.0),
            );
            let text = text.replace("small-namespace", namespace.0);
            fs::write(path, text).unwrap();
        });
        let config = format!(
            "[kubernetes]\nkubeconfig = \"{}\"\nwait_s = 60\n",
            server.kubeconfig(ADMIN).display()
        );
        fs::write(fixture.path(&format!("sites/{SITE}/agent.toml")), config).unwrap();
        Some(Self {
            fixture,
            _flux: flux,
            server,
        })
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

    /// The team's next version on a separate branch: another image, and its queries under another name.
    fn second_version(&self) {
        let fixture = &self.fixture;
        fixture.git("manifests", &["branch", "next", "dev"]);
        fixture.on_branch("manifests", "next", |folder| {
            let path = folder.join("report.yaml");
            let text = fs::read_to_string(&path).unwrap();
            let text = text
                .replace("1.4.0", "1.5.0")
                .replace("queries\ndata", "questions\ndata");
            fs::write(
                path,
                text.replace("{ name: queries }", "{ name: questions }"),
            )
            .unwrap();
        });
        fixture.on_branch("stock-report", "main", |folder| {
            let path = folder.join("workload.yaml");
            let text = fs::read_to_string(&path).unwrap();
            fs::write(path, text.replace("branch: dev", "branch: next")).unwrap();
        });
    }

    /// What the hub says of the site, after its reports came back.
    fn at_the_hub(&self) -> Value {
        self.fixture.home(SITE);
        let sites = ["--state", "hub", "--output", "json", "sites"];
        outhaul_tests::result(&self.fixture.run("outhaul-hub", 0, &sites).stdout)[0].clone()
    }

    fn first_second_and_back(&self) {
        let fixture = &self.fixture;
        fixture.bundle("dev");
        fixture.carry(SITE);
        let version = |version: &str| Some(format!("{IMAGE}:{version}"));
        assert_eq!(self.image(), version("1.4.0"));
        let job = self.get("/apis/batch/v1/cronjobs/stock-report").unwrap();
        let fields = job["metadata"]["managedFields"].to_string();
        assert!(fields.contains("kustomize-controller"), "{fields}");
        assert!(!fields.contains("\"outhaul\""), "{fields}");
        assert_eq!(self.at_the_hub()["verdict"], "ok");

        self.second_version();
        fixture.bundle("dev");
        fixture.carry(SITE);
        assert_eq!(self.image(), version("1.5.0"));
        assert!(self.get("/api/v1/configmaps/questions").is_some());
        assert!(
            self.get("/api/v1/configmaps/queries").is_none(),
            "Flux has pruned it"
        );
        assert_eq!(self.at_the_hub()["verdict"], "ok");

        let back = fixture.agent(SITE, 0, &["rollback", "--who", "ann"]);
        assert!(back.everything().contains("bundle 1"), "{back:?}");
        assert_eq!(self.image(), version("1.4.0"));
        assert!(self.get("/api/v1/configmaps/queries").is_some());
        assert!(self.get("/api/v1/configmaps/questions").is_none());
    }
}

fn builtin(name: &str) -> String {
    let path = workspace_root().join(format!("bundler/plane/templates/{name}.yaml"));
    fs::read_to_string(path).unwrap()
}

#[test]
fn flux_works_as_the_teams_account_in_the_namespace_that_the_templates_make() {
    let (flux, namespace) = (builtin("flux-git"), builtin("namespace"));
    let Some(store) = Store::new(("flux-git", &flux), ("namespace", &namespace)) else {
        return;
    };
    store.first_second_and_back();
    for made in [
        "/api/v1/resourcequotas/namespace",
        "/api/v1/limitranges/namespace",
        "/apis/networking.k8s.io/v1/networkpolicies/default-deny",
        "/apis/networking.k8s.io/v1/networkpolicies/allow-dns",
        "/api/v1/serviceaccounts/inventory",
        "/apis/rbac.authorization.k8s.io/v1/roles/workspace",
        "/apis/rbac.authorization.k8s.io/v1/rolebindings/workspace",
    ] {
        assert!(store.get(made).is_some(), "{made}");
    }
    // Someone suspends Flux: seen, and put back, because the stream says so.
    let kustomization = format!(
        "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/{NAMESPACE}/kustomizations/stock-report-nightly"
    );
    let suspend = json!({"spec": {"suspend": true}});
    store
        .server
        .patch(&kustomization, "flux", &suspend)
        .unwrap();
    // The hub's address answers nobody; everything else of the round is done.
    store.fixture.agent(SITE, 3, &["run", "--once"]);
    let found = store.server.get(&kustomization).unwrap().unwrap();
    assert_eq!(found["spec"]["suspend"], false);

    // The team may not leave its namespace: Flux says so, and the site goes back.
    store.fixture.on_branch("manifests", "next", |folder| {
        let outside = "apiVersion: v1\nkind: Namespace\nmetadata: {name: outside}\n";
        fs::write(folder.join("outside.yaml"), outside).unwrap();
    });
    let settings = store.fixture.path(&format!("sites/{SITE}/agent.toml"));
    let text = fs::read_to_string(&settings).unwrap();
    fs::write(&settings, text.replace("wait_s = 60", "wait_s = 10")).unwrap();
    store.fixture.bundle("dev");
    let refused = store
        .fixture
        .agent(SITE, 1, &["import", "stick"])
        .everything();
    let words = "User \"system:serviceaccount:dev-store-stock-report-nightly:inventory\" cannot";
    assert!(refused.contains(words), "{refused}");
    assert_eq!(store.image(), Some(format!("{IMAGE}:1.4.0")));
}

#[test]
fn kalypsos_own_template_is_applied_by_todays_flux() {
    let namespace = builtin("namespace");
    let Some(store) = Store::new(("arc-flux", KALYPSO), ("namespace", &namespace)) else {
        return;
    };
    // What the template names is the cluster's own, where no mirror is set.
    let secret = json!({"metadata": {"name": "repo-secret"}, "stringData": {"username": "a", "password": "b"}});
    let secrets = "/api/v1/namespaces/flux-system/secrets";
    store.server.create(secrets, &secret).unwrap();
    store.first_second_and_back();
}

/// The workload that brings Flux: its definitions, from a repository of its own.
const FLUX: &str = "apiVersion: scheduler.kalypso.io/v1alpha1
kind: Workload
metadata:
  name: flux
spec:
  deploymentTargets:
    - name: system
      environment: dev
      labels:
        runs-in: stores
      manifests:
        storage: git
        repo: https://git.store.example/flux-manifests
        branch: dev
        path: .
";

/// Flux's repositories: the workload, and its manifests.
fn with_flux_as_a_workload(fixture: &mut SystemFixture, programs: &std::path::Path) {
    for (name, branch) in [("flux", "main"), ("flux-manifests", "dev")] {
        let folder = fixture.path(&format!("from-{name}/{branch}"));
        fs::create_dir_all(&folder).unwrap();
        if name == "flux" {
            fs::write(folder.join("workload.yaml"), FLUX).unwrap();
        } else {
            let system = "apiVersion: v1\nkind: Namespace\nmetadata: {name: flux-system}\n";
            fs::write(folder.join("namespace.yaml"), system).unwrap();
            outhaul_test_kit::folder::fill(&programs.join("crds"), &folder);
        }
        fixture.repository(&fixture.path(&format!("from-{name}")), name);
        let source = format!("https://git.store.example/{name}={name}");
        fixture.sources.push(source);
    }
}

#[test]
fn flux_itself_arrives_with_the_bundle_on_an_empty_cluster() {
    let Some(programs) = Flux::available_or_skip() else {
        return;
    };
    let mut fixture = SystemFixture::new();
    let Some(server) = ApiServer::start_or_skip(&fixture.path("server")) else {
        return;
    };
    let server = server.unwrap();
    follow_the_example(&mut fixture);
    with_flux_as_a_workload(&mut fixture, &programs);
    fixture.on_branch("control-plane", "main", |folder| {
        fs::write(folder.join("templates/flux-git.yaml"), builtin("flux-git")).unwrap();
        let path = folder.join("workloads/stock-report.yaml");
        let text = fs::read_to_string(path).unwrap();
        let text = text.replace("stock-report", "flux");
        fs::write(folder.join("workloads/flux.yaml"), text).unwrap();
    });
    fixture.on_branch("control-plane", "dev", |folder| {
        let path = folder.join("cluster-types/store.yaml");
        let text = fs::read_to_string(&path).unwrap();
        let text = text.replace("reconciler: kubernetes", "reconciler: flux-git");
        fs::write(path, text.replace("small-namespace", "namespace")).unwrap();
        let path = folder.join("delivery/cluster.yaml");
        let text = fs::read_to_string(&path).unwrap();
        let wrong = "  bootstrap: {targets: [flux-sistem], reconciler: flux-git}\n";
        let text = text.replace("delivery: bundle", "delivery: git");
        fs::write(path, text + wrong).unwrap();
    });
    fixture.on_branch("control-plane", "main", |folder| {
        let path = folder.join("templates/namespace.yaml");
        fs::write(path, builtin("namespace")).unwrap();
    });
    // What cannot be is named before anything is made.
    let refused = fixture.plane(1, "check", "dev", &[]).everything();
    for words in [
        "error[unknown-target]: there is no deployment target `flux-sistem`",
        "did you mean `flux-system`?",
        "error[bootstrap-template]: template `flux-git` is for `flux`",
        "error[bootstrap-git]: clusters of type `store` that follow the git branch by themselves",
    ] {
        assert!(refused.contains(words), "{refused}");
    }
    fixture.on_branch("control-plane", "dev", |folder| {
        let path = folder.join("delivery/cluster.yaml");
        let text = fs::read_to_string(&path).unwrap();
        let text = text.replace("flux-sistem", "flux-system");
        let text = text.replace("delivery: git", "delivery: bundle");
        fs::write(
            path,
            text.replace("reconciler: flux-git", "reconciler: kubernetes"),
        )
        .unwrap();
    });
    let config = format!(
        "[kubernetes]\nkubeconfig = \"{}\"\nwait_s = 60\n",
        server.kubeconfig(ADMIN).display()
    );
    fs::write(fixture.path(&format!("sites/{SITE}/agent.toml")), config).unwrap();
    fixture.bundle("dev");
    let inspected = fixture.run("outhaul", 0, &["inspect", "stick/dev-store-1.outhaul"]);
    assert!(
        inspected
            .stdout
            .contains("applied before the others by `kubernetes`"),
        "{inspected:?}"
    );
    let sources = Sources::Git(vec![(
        "https://git.store.example/stock-report-manifests".to_owned(),
        fixture.path("manifests"),
    )]);
    // The controller runs as soon as its kinds are there, as a cluster would start it.
    let kinds = "/apis/kustomize.toolkit.fluxcd.io/v1/kustomizations";
    let flux = std::thread::scope(|scope| {
        let starts = scope.spawn(|| {
            while server.ask("GET", kinds, None).unwrap().0 != 200 {
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
            Flux::start_defined(&programs, &server, &fixture.path("controller"), sources).unwrap()
        });
        fixture.carry(SITE);
        starts.join().unwrap()
    });
    let store = Store {
        fixture,
        _flux: flux,
        server,
    };
    assert_eq!(store.image(), Some(format!("{IMAGE}:1.4.0")));
    let definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/kustomizations.kustomize.toolkit.fluxcd.io";
    let found = store.server.get(definition).unwrap().unwrap();
    let by = found["metadata"]["annotations"]["outhaul.dev/assignment"].to_string();
    assert!(by.contains("flux-system"), "{by}");
    assert_eq!(store.at_the_hub()["verdict"], "ok");
}
