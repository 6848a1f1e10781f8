//! A real Flux for tests: kustomize-controller on this host, beside a real API server, and a real source-controller or a stand-in.
//!
//! What comes in: a server, `OUTHAUL_FLUX`, which `.ci/programs/build cluster` builds, and `OUTHAUL_SOURCE_CONTROLLER`, of
//! `.ci/programs/build source`. What goes out: a controller that applies what `Kustomization`s say. Where a test is about fetching, the real
//! source-controller fetches. Where sources are to be folders, at once and under any URL, a stand-in takes its place: a thread that writes
//! `status.artifact` and serves the archive, as source-controller would. Whatever is applied, Flux applies.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::kubernetes::{ADMIN, ApiServer, Requests};
use crate::ports::free_port;
use crate::run_expecting;

/// Where sources are in the API.
const SOURCES: &str = "/apis/source.toolkit.fluxcd.io/v1";
/// How long the API may take to know Flux's kinds on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where sources come from.
#[derive(Debug, Clone)]
pub enum Sources {
    /// source-controller itself, the program of that path, fetches what each of them names.
    Controller(PathBuf),
    /// Every source is this folder.
    Folder(PathBuf),
    /// Each `GitRepository` is cloned from its `spec.url`, with the authority in its `secretRef`; of these URLs, from
    /// the folder that it is mapped to.
    Git(Vec<(String, PathBuf)>),
}

/// A controller, and who fetches its sources.
#[derive(Debug)]
pub struct Flux {
    folder: PathBuf,
    programs: PathBuf,
    kubeconfig: PathBuf,
    controller: Option<Child>,
    source_controller: Option<Child>,
    notification_controller: Option<Child>,
    /// Where kustomize-controller sends its events; empty for nowhere.
    events: String,
    stop: Arc<AtomicBool>,
    stand_in: Option<JoinHandle<()>>,
}

impl Drop for Flux {
    fn drop(&mut self) {
        self.stop();
        let others = [
            self.source_controller.take(),
            self.notification_controller.take(),
        ];
        for mut other in others.into_iter().flatten() {
            let _ = other.kill();
            let _ = other.wait();
        }
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.stand_in.take() {
            let _ = thread.join();
        }
    }
}

impl Flux {
    /// The folder with what `.ci/programs/build cluster` builds; `None` where it is missing, and the calling test is skipped.
    ///
    /// # Panics
    /// As [`crate::skipped`].
    #[track_caller]
    pub fn available_or_skip() -> Option<PathBuf> {
        let programs = std::env::var_os("OUTHAUL_FLUX").map(PathBuf::from);
        let found = programs.filter(|folder| folder.join("kustomize-controller").is_file());
        if found.is_none() {
            crate::skipped(
                "OUTHAUL_FLUX does not name a folder with kustomize-controller; `.ci/programs/build cluster` builds one",
            );
        }
        found
    }

    /// The source-controller that `.ci/programs/build source` builds; `None` where it is missing, and the calling test is skipped.
    ///
    /// # Panics
    /// As [`crate::skipped`].
    #[track_caller]
    pub fn sources_or_skip() -> Option<Sources> {
        let program = std::env::var_os("OUTHAUL_SOURCE_CONTROLLER").map(PathBuf::from);
        let found = program.filter(|program| program.is_file());
        if found.is_none() {
            crate::skipped(
                "OUTHAUL_SOURCE_CONTROLLER does not name a source-controller; `.ci/programs/build source` builds one",
            );
        }
        found.map(Sources::Controller)
    }

    /// Defines Flux's kinds on `server`, and starts controller and stand-in with their files in `folder`.
    ///
    /// # Errors
    /// When one of them does not come up.
    pub fn start(
        programs: &Path,
        server: &ApiServer,
        folder: &Path,
        sources: Sources,
    ) -> Result<Self> {
        let system = json!({"metadata": {"name": "flux-system"}});
        server.create("/api/v1/namespaces", &system)?;
        Self::define(programs, server)?;
        Self::start_defined(programs, server, folder, sources)
    }

    /// The same on a server that has Flux's kinds and namespace already.
    ///
    /// # Errors
    /// When one of them does not come up.
    pub fn start_defined(
        programs: &Path,
        server: &ApiServer,
        folder: &Path,
        sources: Sources,
    ) -> Result<Self> {
        fs::create_dir_all(folder)?;
        let mut this = Self {
            folder: folder.to_owned(),
            programs: programs.to_owned(),
            kubeconfig: server.kubeconfig(ADMIN),
            controller: None,
            source_controller: None,
            notification_controller: None,
            events: String::new(),
            stop: Arc::new(AtomicBool::new(false)),
            stand_in: None,
        };
        match &sources {
            Sources::Controller(program) => {
                this.source_controller = Some(this.start_source_controller(program)?);
            }
            Sources::Folder(_) | Sources::Git(_) => {
                let stop = Arc::clone(&this.stop);
                let stand_in = StandIn::start(server.requests(), folder, sources, stop)?;
                this.stand_in = Some(stand_in);
            }
        }
        this.go_on()?;
        Ok(this)
    }

    /// Defines Flux's kinds, and waits until the API has them.
    ///
    /// # Errors
    /// When the server refuses one.
    pub fn define(programs: &Path, server: &ApiServer) -> Result<()> {
        for entry in fs::read_dir(programs.join("crds"))? {
            let path = entry?.path();
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            let (group, plural) = name.split_once('_').context("GROUP_PLURAL.yaml")?;
            let definition =
                format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{plural}.{group}");
            server.apply_yaml(&definition, &fs::read_to_string(&path)?)?;
            let defined = server.get(&definition)?.unwrap_or_default();
            let versions = defined["spec"]["versions"].as_array();
            let mut versions = versions.into_iter().flatten();
            let stored = versions.find(|one| one["storage"] == true);
            let version = stored.and_then(|one| one["name"].as_str());
            let version = version.context("a stored version")?.to_owned();
            let until = Instant::now() + PATIENCE;
            while server
                .ask("GET", &format!("/apis/{group}/{version}/{plural}"), None)?
                .0
                != 200
            {
                ensure!(Instant::now() < until, "the API does not know {name}");
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        Ok(())
    }

    /// Starts the controller again.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn go_on(&mut self) -> Result<()> {
        let work = self.folder.join("work");
        fs::create_dir_all(&work)?;
        let controller = Command::new(self.programs.join("kustomize-controller"))
            .args([
                "--watch-all-namespaces=true",
                "--enable-leader-election=false",
            ])
            .arg(format!("--events-addr={}", self.events))
            .args(["--metrics-addr=0", "--health-addr=0"])
            .arg("--requeue-dependency=1s")
            .env("KUBECONFIG", &self.kubeconfig)
            .env("RUNTIME_NAMESPACE", "flux-system")
            .env("TMPDIR", &work)
            .stdout(Stdio::null())
            .stderr(fs::File::create(self.folder.join("controller.log"))?)
            .spawn()
            .context("cannot start kustomize-controller")?;
        self.controller = Some(controller);
        Ok(())
    }

    /// The folder with what `.ci/programs/build notification` builds; `None` where it is missing, and the calling test is skipped.
    ///
    /// # Panics
    /// As [`crate::skipped`].
    #[track_caller]
    pub fn notifications_or_skip() -> Option<PathBuf> {
        let programs = std::env::var_os("OUTHAUL_NOTIFICATION_CONTROLLER").map(PathBuf::from);
        let found = programs.filter(|folder| folder.join("notification-controller").is_file());
        if found.is_none() {
            crate::skipped(
                "OUTHAUL_NOTIFICATION_CONTROLLER does not name a folder with notification-controller; `.ci/programs/build \
                 notification` builds one",
            );
        }
        found
    }

    /// Starts notification-controller, of that folder, and sends it the events of kustomize-controller.
    ///
    /// # Errors
    /// When it does not come up.
    pub fn notify(&mut self, programs: &Path, server: &ApiServer) -> Result<()> {
        Self::define(programs, server)?;
        self.stop();
        let events = format!("127.0.0.1:{}", free_port()?);
        let controller = Command::new(programs.join("notification-controller"))
            .args([
                "--watch-all-namespaces=true",
                "--enable-leader-election=false",
            ])
            .args(["--metrics-addr=0", "--health-addr=0"])
            .arg(format!("--events-addr={events}"))
            .arg(format!("--receiverAddr=127.0.0.1:{}", free_port()?))
            .env("KUBECONFIG", &self.kubeconfig)
            .env("RUNTIME_NAMESPACE", "flux-system")
            .stdout(Stdio::null())
            .stderr(fs::File::create(self.folder.join("notifications.log"))?)
            .spawn()
            .context("cannot start notification-controller")?;
        self.notification_controller = Some(controller);
        let until = Instant::now() + PATIENCE;
        while TcpStream::connect(&events).is_err() {
            ensure!(
                Instant::now() < until,
                "notification-controller does not listen"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
        self.events = format!("http://{events}/");
        self.go_on()
    }

    fn start_source_controller(&self, program: &Path) -> Result<Child> {
        let storage = self.folder.join("storage");
        fs::create_dir_all(&storage)?;
        let port = free_port()?;
        let address = format!("127.0.0.1:{port}");
        Command::new(program)
            .args([
                "--watch-all-namespaces=true",
                "--enable-leader-election=false",
            ])
            .args(["--events-addr=", "--metrics-addr=0", "--health-addr=0"])
            .arg(format!("--storage-path={}", storage.display()))
            .arg(format!("--storage-addr={address}"))
            .arg(format!("--storage-adv-addr={address}"))
            .env("KUBECONFIG", &self.kubeconfig)
            .env("RUNTIME_NAMESPACE", "flux-system")
            .env("TMPDIR", &storage)
            .stdout(Stdio::null())
            .stderr(fs::File::create(self.folder.join("source-controller.log"))?)
            .spawn()
            .context("cannot start source-controller")
    }

    /// Ends the controller at once. Whoever fetches its sources goes on.
    pub fn stop(&mut self) {
        if let Some(mut controller) = self.controller.take() {
            let _ = controller.kill();
            let _ = controller.wait();
        }
    }
}

/// The stand-in for source-controller.
struct StandIn {
    requests: Requests,
    folder: PathBuf,
    sources: Sources,
    port: u16,
}

impl StandIn {
    fn start(
        requests: Requests,
        folder: &Path,
        sources: Sources,
        stop: Arc<AtomicBool>,
    ) -> Result<JoinHandle<()>> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let this = Self {
            requests,
            folder: folder.to_owned(),
            sources,
            port: listener.local_addr()?.port(),
        };
        Ok(std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                while let Ok((stream, _)) = listener.accept() {
                    let _ = this.answer(stream);
                }
                // A server that is down for a while answers nothing; it is asked again.
                let _ = this.look();
                std::thread::sleep(Duration::from_millis(50));
            }
        }))
    }

    /// Looks at every source that is new, was changed, or is asked to be looked at.
    fn look(&self) -> Result<()> {
        for plural in ["gitrepositories", "ocirepositories"] {
            let (_, all) = self
                .requests
                .ask("GET", &format!("{SOURCES}/{plural}"), None)?;
            for found in all["items"].as_array().into_iter().flatten() {
                let (metadata, status) = (&found["metadata"], &found["status"]);
                let requested = &metadata["annotations"]["reconcile.fluxcd.io/requestedAt"];
                let is_seen = status["observedGeneration"] == metadata["generation"]
                    && status["lastHandledReconcileAt"] == *requested;
                if is_seen || found["spec"]["suspend"] == true {
                    continue;
                }
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                let path = format!(
                    "{SOURCES}/namespaces/{}/{plural}/{}/status",
                    text(&metadata["namespace"]),
                    text(&metadata["name"])
                );
                let mut status = self.status(found);
                status["observedGeneration"] = metadata["generation"].clone();
                status["lastHandledReconcileAt"] = requested.clone();
                let change = json!({"status": status});
                let kind = "application/merge-patch+json";
                self.requests.ask("PATCH", &path, Some((kind, &change)))?;
            }
        }
        Ok(())
    }

    /// What source-controller would say.
    fn status(&self, found: &Value) -> Value {
        let condition = |status: &str, reason: &str, message: String| {
            json!([{"type": "Ready", "status": status, "reason": reason, "message": message,
                "lastTransitionTime": "2026-01-01T00:00:00Z",
                "observedGeneration": found["metadata"]["generation"]}])
        };
        match self.artifact(found) {
            Ok(artifact) => {
                let message = format!("stored artifact for revision '{}'", artifact["revision"]);
                let conditions = condition("True", "Succeeded", message.replace('"', ""));
                json!({"artifact": artifact, "conditions": conditions})
            }
            Err(error) => {
                let message = format!("failed to checkout and determine revision: {error:#}");
                json!({"conditions": condition("False", "GitOperationFailed", message)})
            }
        }
    }

    fn artifact(&self, found: &Value) -> Result<Value> {
        let branch = found["spec"]["ref"]["branch"].as_str().unwrap_or("main");
        let (tree, commit) = match &self.sources {
            Sources::Controller(_) => anyhow::bail!("source-controller fetches them itself"),
            Sources::Folder(tree) => (tree.clone(), None),
            Sources::Git(instead) => {
                let (tree, commit) = self.cloned(found, branch, instead)?;
                (tree, Some(commit))
            }
        };
        let archive = self.folder.join("archive.tar.gz");
        let mut tar = Command::new("tar");
        tar.arg("-C")
            .arg(&tree)
            .args(["--exclude=.git", "--sort=name", "--mtime=@0"]);
        tar.args(["--owner=0", "--group=0", "-czf"])
            .arg(&archive)
            .arg(".");
        run_expecting(&mut tar, 0)?;
        let sum = run_expecting(Command::new("sha256sum").arg(&archive), 0)?.stdout;
        let digest = sum.split(' ').next().unwrap_or_default();
        let name = format!("{digest}.tar.gz");
        let size = fs::metadata(&archive)?.len();
        fs::rename(&archive, self.folder.join(&name))?;
        let commit = commit.unwrap_or_else(|| digest.chars().take(40).collect());
        Ok(json!({
            "digest": format!("sha256:{digest}"), "size": size, "path": name,
            "revision": format!("{branch}@sha1:{commit}"),
            "lastUpdateTime": "2026-01-01T00:00:00Z",
            "url": format!("http://127.0.0.1:{}/{name}", self.port),
        }))
    }

    /// A clone of the source's repository, and its commit.
    fn cloned(
        &self,
        found: &Value,
        branch: &str,
        instead: &[(String, PathBuf)],
    ) -> Result<(PathBuf, String)> {
        let tree = self.folder.join("clone");
        let _ = fs::remove_dir_all(&tree);
        let url = found["spec"]["url"].as_str().context("no url")?;
        let mut git = Command::new("git");
        git.env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_SYSTEM", "/dev/null");
        for (url, folder) in instead {
            git.arg("-c")
                .arg(format!("url.file://{}.insteadOf={url}", folder.display()));
        }
        if let Some(secret) = found["spec"]["secretRef"]["name"].as_str() {
            let namespace = found["metadata"]["namespace"].as_str().unwrap_or_default();
            let path = format!("/api/v1/namespaces/{namespace}/secrets/{secret}");
            let (code, secret) = self.requests.ask("GET", &path, None)?;
            ensure!(code == 200, "{}", secret["message"]);
            if let Some(encoded) = secret["data"]["ca.crt"].as_str() {
                let (coded, authority) = (self.folder.join("ca.b64"), self.folder.join("ca.crt"));
                fs::write(&coded, encoded)?;
                let decoded = run_expecting(Command::new("base64").arg("-d").arg(&coded), 0)?;
                fs::write(&authority, decoded.stdout)?;
                // It is stronger than any setting, and may be set on the machine.
                git.env("GIT_SSL_CAINFO", &authority);
            }
        }
        git.args(["clone", "--quiet", "--depth=1", "--branch", branch, url])
            .arg(&tree);
        run_expecting(&mut git, 0)?;
        let mut head = Command::new("git");
        let head = head.arg("-C").arg(&tree).args(["rev-parse", "HEAD"]);
        Ok((tree, run_expecting(head, 0)?.stdout.trim().to_owned()))
    }

    /// Gives out one archive.
    fn answer(&self, mut stream: TcpStream) -> Result<()> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") && head.len() < 16_384 && stream.read(&mut byte)? == 1 {
            head.push(byte[0]);
        }
        let head = String::from_utf8_lossy(&head);
        let name = head
            .split(' ')
            .nth(1)
            .unwrap_or_default()
            .trim_start_matches('/');
        let found = fs::read(self.folder.join(name));
        let (state, body) = match found {
            Ok(body) if name.ends_with(".tar.gz") => ("200 OK", body),
            _ => ("404 Not Found", Vec::new()),
        };
        let length = body.len();
        write!(
            stream,
            "HTTP/1.1 {state}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
        )?;
        stream.write_all(&body)?;
        Ok(())
    }
}
