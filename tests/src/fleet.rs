//! A real Rancher Fleet for tests: its controller and its agent on this host, beside a real API server.
//!
//! What comes in: a server, and `OUTHAUL_FLEET`: a folder with `fleetcontroller`, `fleetagent` and `crds.yaml`. No package registry
//! has these programs: they are built by hand from their public repository, and a test that needs them is skipped where they are
//! not there, in CI too. What goes out: a Fleet whose one cluster is the server itself, called `local`. What its third program,
//! which needs pods, would do once is done here: the cluster is registered, and the agent has its kubeconfig.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::kubernetes::{ADMIN, ApiServer};

/// Where bundles for the cluster itself are.
pub const NAMESPACE: &str = "fleet-local";
/// Where they are in the API.
pub const API: &str = "/apis/fleet.cattle.io/v1alpha1";
/// Where Fleet deploys what is for the cluster `local`.
const DEPLOYMENTS: &str = "cluster-fleet-local-local";
const CONTROLLER: &str = "cattle-fleet-system";
const AGENT: &str = "cattle-fleet-local-system";
/// How long the API may take to know Fleet's kinds on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Fleet's agent watches without a version, which an API server with a cache refuses beside the etcd of Debian 12.
pub const SERVER_FLAGS: &[&str] = &["--watch-cache=false"];

/// A controller and an agent.
#[derive(Debug)]
pub struct Fleet {
    folder: PathBuf,
    programs: PathBuf,
    kubeconfig: PathBuf,
    running: Vec<Child>,
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Fleet {
    /// The folder with the programs; `None` where they are missing, and the calling test is skipped.
    #[track_caller]
    pub fn available_or_skip() -> Option<PathBuf> {
        let programs = std::env::var_os("OUTHAUL_FLEET").map(PathBuf::from);
        let found = programs.filter(|folder| folder.join("fleetagent").is_file());
        if found.is_none() {
            crate::skipped_unless_by_hand(
                "OUTHAUL_FLEET does not name a folder with fleetcontroller, fleetagent and crds.yaml; no package registry \
                 has them: build them from https://github.com/rancher/fleet",
            );
        }
        found
    }

    /// Defines Fleet's kinds on `server`, and starts the programs with their files in `folder`.
    ///
    /// # Errors
    /// When one of them does not come up.
    pub fn start(programs: &Path, server: &ApiServer, folder: &Path) -> Result<Self> {
        Self::define(programs, server)?;
        register(server)?;
        fs::create_dir_all(folder)?;
        let mut this = Self {
            folder: folder.to_owned(),
            programs: programs.to_owned(),
            kubeconfig: server.kubeconfig(ADMIN),
            running: Vec::new(),
        };
        this.go_on()?;
        Ok(this)
    }

    /// Defines Fleet's kinds, and waits until the API has them.
    ///
    /// # Errors
    /// When the server refuses one.
    pub fn define(programs: &Path, server: &ApiServer) -> Result<()> {
        let all = fs::read_to_string(programs.join("crds.yaml"))?;
        for one in all.split("\n---\n") {
            let mut lines = one.lines();
            let Some(name) = lines.find_map(|line| line.strip_prefix("  name: ")) else {
                continue;
            };
            let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
            server.apply_yaml(&path, one)?;
        }
        let until = Instant::now() + PATIENCE;
        for plural in ["bundles", "clusters", "clustergroups", "gitrepos"] {
            while server.ask("GET", &format!("{API}/{plural}"), None)?.0 != 200 {
                ensure!(Instant::now() < until, "the API does not know {plural}");
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        Ok(())
    }

    /// Starts both programs again.
    ///
    /// # Errors
    /// When one cannot be started.
    pub fn go_on(&mut self) -> Result<()> {
        for (program, namespace) in [("fleetcontroller", CONTROLLER), ("fleetagent", AGENT)] {
            let mut command = Command::new(self.programs.join(program));
            command.args(["--leader-elect=false", "--namespace", namespace]);
            match program {
                "fleetagent" => command.args(["--agent-scope", namespace]),
                _ => command.arg("--disable-metrics"),
            };
            for (name, value) in [
                ("FLEET_HEALTHPROBE_BIND_ADDRESS", "0"),
                ("FLEET_AGENT_METRICS_BIND_ADDRESS", "0"),
                ("FLEET_AGENT_PROBE_BIND_ADDRESS", "0"),
                ("CATTLE_ELECTION_LEASE_DURATION", "15s"),
                ("CATTLE_ELECTION_RETRY_PERIOD", "2s"),
                ("CATTLE_ELECTION_RENEW_DEADLINE", "10s"),
            ] {
                command.env(name, value);
            }
            let log = self.folder.join(format!("{program}.log"));
            let child = command
                .env("KUBECONFIG", &self.kubeconfig)
                .env("HOME", &self.folder)
                .env("TMPDIR", &self.folder)
                .stdout(Stdio::null())
                .stderr(fs::File::create(log)?)
                .spawn()
                .with_context(|| format!("cannot start {program}"))?;
            self.running.push(child);
        }
        Ok(())
    }

    /// Ends both programs at once.
    pub fn stop(&mut self) {
        for mut child in self.running.drain(..) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// What an installation does once: the cluster itself is one of Fleet's, and its agent knows where to look.
fn register(server: &ApiServer) -> Result<()> {
    for name in [CONTROLLER, AGENT, NAMESPACE, DEPLOYMENTS] {
        server.create("/api/v1/namespaces", &json!({"metadata": {"name": name}}))?;
    }
    let create = |path: String, name: &str, rest: Value| -> Result<()> {
        let mut object = json!({"metadata": {"name": name, "labels": {"name": name}}});
        for (field, value) in rest.as_object().into_iter().flatten() {
            object[field] = value.clone();
        }
        server.create(&path, &object).map(drop)
    };
    let config = json!({"data": {"config": "{}"}});
    for (namespace, name) in [(CONTROLLER, "fleet-controller"), (AGENT, "fleet-agent")] {
        create(
            format!("/api/v1/namespaces/{namespace}/configmaps"),
            name,
            config.clone(),
        )?;
    }
    let kind = |kind: &str, spec: Value| json!({"apiVersion": "fleet.cattle.io/v1alpha1", "kind": kind, "spec": spec});
    let cluster = kind("Cluster", json!({"agentNamespace": AGENT}));
    create(
        format!("{API}/namespaces/{NAMESPACE}/clusters"),
        "local",
        cluster,
    )?;
    let group = kind(
        "ClusterGroup",
        json!({"selector": {"matchLabels": {"name": "local"}}}),
    );
    create(
        format!("{API}/namespaces/{NAMESPACE}/clustergroups"),
        "default",
        group,
    )?;
    let status = format!("{API}/namespaces/{NAMESPACE}/clusters/local/status");
    server.patch(
        &status,
        "tests",
        &json!({"status": {"namespace": DEPLOYMENTS}}),
    )?;
    let kubeconfig = fs::read_to_string(server.kubeconfig(ADMIN))?;
    let authority = server.authority()?;
    let kubeconfig = kubeconfig
        .replace(
            "certificate-authority: ca.crt",
            &format!("certificate-authority: {}", authority.display()),
        )
        .replace(
            "user: test}}]",
            &format!("user: test, namespace: {DEPLOYMENTS}}}}}]"),
        );
    let secret = json!({"stringData": {
        "kubeconfig": kubeconfig, "deploymentNamespace": DEPLOYMENTS, "clusterNamespace": NAMESPACE, "clusterName": "local",
    }});
    create(
        format!("/api/v1/namespaces/{AGENT}/secrets"),
        "fleet-agent",
        secret,
    )
}
