//! A real Argo CD for tests: its application controller, its `ApplicationSet` controller and its repository server on this
//! host, beside a real API server.
//!
//! What comes in: a server, and `OUTHAUL_ARGOCD`, which `.ci/programs/build argocd` builds; Debian's `redis-server`. What goes
//! out: an Argo CD that applies what `Application`s say, and fetches by itself. Nothing of it is a stand-in; of Kubernetes'
//! own controllers none runs: [`ArgoCd::collect_garbage`] does for applications what the garbage collector does. Its
//! programs end with their value.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::kubernetes::{ADMIN, ApiServer, Requests};
use crate::ports::free_port;

/// Where Argo CD looks for applications.
pub const NAMESPACE: &str = "argocd";
/// The name of the `ApplicationSet` controller.
const SETS: &str = "argocd-applicationset-controller";
/// How long the API may take to know Argo CD's kinds on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// An Argo CD and what it keeps its knowledge in.
#[derive(Debug)]
pub struct ArgoCd {
    folder: PathBuf,
    program: PathBuf,
    kubeconfig: PathBuf,
    redis: Child,
    redis_port: u16,
    repository_port: u16,
    running: Vec<(&'static str, Child)>,
}

impl Drop for ArgoCd {
    fn drop(&mut self) {
        self.stop();
        let _ = self.redis.kill();
        let _ = self.redis.wait();
    }
}

impl ArgoCd {
    /// The folder with what `.ci/programs/build argocd` builds; `None` where it or redis is missing, and the calling test is
    /// skipped.
    ///
    /// # Panics
    /// As [`crate::skipped`].
    #[track_caller]
    pub fn available_or_skip() -> Option<PathBuf> {
        let programs = std::env::var_os("OUTHAUL_ARGOCD").map(PathBuf::from);
        let found = programs.filter(|folder| folder.join("argocd").is_file());
        if found.is_none() {
            crate::skipped(
                "OUTHAUL_ARGOCD does not name a folder with argocd; `.ci/programs/build argocd` builds one",
            );
            return None;
        }
        if !crate::available_or_skip("redis-server") {
            return None;
        }
        found
    }

    /// Defines Argo CD's kinds on `server`, and starts it with its files in `folder`.
    ///
    /// # Errors
    /// When one of its programs cannot be started.
    pub fn start(programs: &Path, server: &ApiServer, folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder)?;
        Self::define(programs, server)?;
        let within = |path: &str, object: Value| {
            server.create(&path.replace("NAMESPACE", NAMESPACE), &object)
        };
        within(
            "/api/v1/namespaces",
            json!({"metadata": {"name": NAMESPACE}}),
        )?;
        let named = |name: &str| {
            json!({"name": name, "labels": {
                "app.kubernetes.io/part-of": "argocd", "app.kubernetes.io/name": name,
            }})
        };
        within(
            "/api/v1/namespaces/NAMESPACE/configmaps",
            json!({"metadata": named("argocd-cm"), "data": {}}),
        )?;
        within(
            "/api/v1/namespaces/NAMESPACE/secrets",
            json!({"metadata": named("argocd-secret"), "stringData": {"server.secretkey": "test-only"}}),
        )?;
        within(
            "/apis/argoproj.io/v1alpha1/namespaces/NAMESPACE/appprojects",
            json!({
                "apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject", "metadata": {"name": "default"},
                "spec": {
                    "sourceRepos": ["*"], "destinations": [{"namespace": "*", "server": "*"}],
                    "clusterResourceWhitelist": [{"group": "*", "kind": "*"}],
                },
            }),
        )?;
        let (redis_port, repository_port) = (free_port()?, free_port()?);
        let redis = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--port", &redis_port.to_string()])
            .args(["--save", "", "--appendonly", "no"])
            .current_dir(folder)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start redis-server")?;
        let mut this = Self {
            folder: folder.to_owned(),
            program: programs.join("argocd"),
            kubeconfig: server.kubeconfig(ADMIN),
            redis,
            redis_port,
            repository_port,
            running: Vec::new(),
        };
        this.go_on()?;
        Ok(this)
    }

    /// Defines Argo CD's kinds, and waits until the API has them.
    ///
    /// # Errors
    /// When the server refuses one.
    pub fn define(programs: &Path, server: &ApiServer) -> Result<()> {
        for (file, plural) in [
            ("application-crd.yaml", "applications"),
            ("appproject-crd.yaml", "appprojects"),
            ("applicationset-crd.yaml", "applicationsets"),
        ] {
            server.apply_yaml(
                &format!(
                    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{plural}.argoproj.io"
                ),
                &fs::read_to_string(programs.join("crds").join(file))?,
            )?;
            let until = Instant::now() + PATIENCE;
            let path = format!("/apis/argoproj.io/v1alpha1/{plural}");
            // It answers for a kind some time before it lists it, which is how an agent knows of it.
            let is_listed = || -> Result<bool> {
                let kinds = server
                    .get("/apis/argoproj.io/v1alpha1")?
                    .unwrap_or_default();
                let mut kinds = kinds["resources"].as_array().into_iter().flatten();
                Ok(kinds.any(|kind| kind["name"] == plural))
            };
            while server.ask("GET", &path, None)?.0 != 200 || !is_listed()? {
                ensure!(Instant::now() < until, "the API does not know {plural}");
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        Ok(())
    }

    /// Where the certificate authority of the server `host` lies that Argo CD is to trust, as `argocd-tls-certs-cm`
    /// is mounted on a cluster.
    pub fn authority_of(&self, host: &str) -> PathBuf {
        self.folder.join("tls").join(host)
    }

    /// Deletes, as Kubernetes' garbage collector would, the applications whose `ApplicationSet` is not there any more.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn collect_garbage(server: &Requests) -> Result<()> {
        let of = |plural: &str| {
            let path = format!("/apis/argoproj.io/v1alpha1/namespaces/{NAMESPACE}/{plural}");
            let (code, list) = server.ask("GET", &path, None)?;
            ensure!(code == 200, "{plural}: {list}");
            Ok(list["items"].as_array().cloned().unwrap_or_default())
        };
        let applications = of("applications")?;
        // Read after them: a set may have made one meanwhile.
        let sets = of("applicationsets")?;
        for application in applications {
            let owner = &application["metadata"]["ownerReferences"][0]["uid"];
            let is_there = sets.iter().any(|set| set["metadata"]["uid"] == *owner);
            let going = !application["metadata"]["deletionTimestamp"].is_null();
            if owner.is_null() || is_there || going {
                continue;
            }
            let name = application["metadata"]["name"].as_str().unwrap_or_default();
            let path =
                format!("/apis/argoproj.io/v1alpha1/namespaces/{NAMESPACE}/applications/{name}");
            server.ask("DELETE", &path, None)?;
        }
        Ok(())
    }

    /// Starts the controllers and the repository server again.
    ///
    /// # Errors
    /// When one cannot be started.
    pub fn go_on(&mut self) -> Result<()> {
        for folder in ["gnupg", "tls", "ssh", "plugins", "tmp"] {
            fs::create_dir_all(self.folder.join(folder))?;
        }
        let hosts = self.folder.join("ssh/ssh_known_hosts");
        if !hosts.exists() {
            fs::write(&hosts, "")?;
        }
        let redis = format!("127.0.0.1:{}", self.redis_port);
        let port = self.repository_port.to_string();
        let metrics = [free_port()?.to_string(), free_port()?.to_string()];
        let repository = [
            "--address",
            "127.0.0.1",
            "--port",
            &port,
            "--redis",
            &redis,
            "--disable-tls",
            "--metrics-address",
            "127.0.0.1",
            "--metrics-port",
            &metrics[0],
        ];
        self.run("argocd-repo-server", &repository)?;
        let (config, address) = (
            self.kubeconfig.display().to_string(),
            format!("127.0.0.1:{port}"),
        );
        let controller = [
            "--kubeconfig",
            &config,
            "--namespace",
            NAMESPACE,
            "--redis",
            &redis,
            "--repo-server",
            &address,
            "--repo-server-plaintext",
            "--metrics-port",
            &metrics[1],
        ];
        self.run("argocd-application-controller", &controller)?;
        self.start_sets()
    }

    /// Starts the `ApplicationSet` controller.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start_sets(&mut self) -> Result<()> {
        let config = self.kubeconfig.display().to_string();
        let repository = format!("127.0.0.1:{}", self.repository_port);
        let metrics = format!("127.0.0.1:{}", free_port()?);
        let webhooks = format!("127.0.0.1:{}", free_port()?);
        let sets = [
            "--kubeconfig",
            &config,
            "--namespace",
            NAMESPACE,
            "--argocd-repo-server",
            &repository,
            "--repo-server-plaintext",
            "--metrics-addr",
            &metrics,
            "--probe-addr",
            "0",
            "--webhook-addr",
            &webhooks,
        ];
        self.run(SETS, &sets)
    }

    /// Ends the `ApplicationSet` controller alone.
    pub fn stop_sets(&mut self) {
        for (name, child) in &mut self.running {
            if *name == SETS {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
        self.running.retain(|(name, _)| *name != SETS);
    }

    fn run(&mut self, name: &'static str, arguments: &[&str]) -> Result<()> {
        let at = |name: &str| self.folder.join(name);
        let log = fs::File::create(at(&format!("{name}.log")))?;
        let child = Command::new(&self.program)
            // As their images start it; the API server keeps it as who set a field.
            .arg0(name)
            .args(arguments)
            // `https://kubernetes.default.svc` is the cluster of the kubeconfig.
            .env("ARGOCD_FAKE_IN_CLUSTER", "true")
            .env("KUBECONFIG", &self.kubeconfig)
            .env("ARGOCD_GPG_ENABLED", "false")
            .env("ARGOCD_GNUPGHOME", at("gnupg"))
            .env("ARGOCD_TLS_DATA_PATH", at("tls"))
            .env("ARGOCD_SSH_DATA_PATH", at("ssh"))
            .env("ARGOCD_PLUGINSOCKFILEPATH", at("plugins"))
            .env("ARGOCD_CONTROLLER_REPLICAS", "1")
            .env(
                "ARGOCD_APPLICATION_CONTROLLER_NAME",
                "argocd-application-controller",
            )
            .env("TMPDIR", at("tmp"))
            // It would be stronger than the authorities that Argo CD is given, and may be set on the machine.
            .env_remove("GIT_SSL_CAINFO")
            .env_remove("SSL_CERT_FILE")
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        self.running.push((name, child));
        Ok(())
    }

    /// Ends the controllers and the repository server at once.
    pub fn stop(&mut self) {
        for (_, mut child) in self.running.drain(..) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
