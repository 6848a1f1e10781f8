//! A real Kubernetes API server for tests: etcd and kube-apiserver on this host, no kubelet, no container.
//!
//! What comes in: a folder, and `OUTHAUL_KUBE_APISERVER`, which `.ci/programs/build cluster` builds. What goes out: a
//! server with a separate certificate, static tokens, and requests to it by `curl`, as anybody else would
//! make them. It listens on loopback only and ends with its value.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::ports::free_port;
use crate::run_expecting;

/// How long a server may take to be ready on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Ports that are tried, one after the other.
const PORTS: u32 = 5;
/// Whoever may do everything.
pub const ADMIN: &str = "admin";
/// Someone with no right at all, until a role gives one.
pub const GUEST: &str = "guest";

/// An API server and its database.
#[derive(Debug)]
pub struct ApiServer {
    folder: PathBuf,
    program: PathBuf,
    flags: &'static [&'static str],
    etcd: Child,
    server: Option<Child>,
    etcd_port: u16,
    /// Where it answers, on 127.0.0.1.
    pub port: u16,
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.stop();
        let _ = self.etcd.kill();
        let _ = self.etcd.wait();
    }
}

fn openssl(folder: &Path, arguments: &[&str]) -> Result<()> {
    let mut command = Command::new("openssl");
    run_expecting(command.current_dir(folder).args(arguments), 0).map(drop)
}

fn wait_until(what: &str, mut ready: impl FnMut() -> Result<bool>) -> Result<()> {
    let until = Instant::now() + PATIENCE;
    while !ready()? {
        ensure!(Instant::now() < until, "{what} is not ready");
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

fn start_etcd(folder: &Path, etcd_port: u16, peer_port: u16) -> Result<Child> {
    let client = format!("http://127.0.0.1:{etcd_port}");
    let peer = format!("http://127.0.0.1:{peer_port}");
    Command::new("etcd")
        .args(["--name", "test", "--unsafe-no-fsync", "--data-dir"])
        .arg(folder.join("etcd"))
        .args([
            "--listen-client-urls",
            &client,
            "--advertise-client-urls",
            &client,
        ])
        .args([
            "--listen-peer-urls",
            &peer,
            "--initial-advertise-peer-urls",
            &peer,
        ])
        .args(["--initial-cluster", &format!("test={peer}")])
        .stdout(Stdio::null())
        .stderr(fs::File::create(folder.join("etcd.log"))?)
        .spawn()
        .context("cannot start etcd")
}

impl ApiServer {
    /// A server whose files lie in `folder`; `None` where there is none to start, and the calling test is
    /// skipped.
    ///
    /// # Errors
    /// When it does not come up.
    ///
    /// # Panics
    /// As [`crate::skipped`].
    #[track_caller]
    pub fn start_or_skip(folder: &Path) -> Option<Result<Self>> {
        Self::start_with_or_skip(folder, &[])
    }

    /// The same with more flags of kube-apiserver.
    ///
    /// # Errors
    /// When it does not come up.
    ///
    /// # Panics
    /// As [`crate::skipped`].
    #[track_caller]
    pub fn start_with_or_skip(
        folder: &Path,
        flags: &'static [&'static str],
    ) -> Option<Result<Self>> {
        let program = std::env::var_os("OUTHAUL_KUBE_APISERVER").map(PathBuf::from);
        let Some(program) = program.filter(|program| program.is_file()) else {
            crate::skipped(
                "OUTHAUL_KUBE_APISERVER does not name a kube-apiserver; `.ci/programs/build cluster` builds one",
            );
            return None;
        };
        for needed in ["etcd", "openssl", "curl"] {
            if !crate::available_or_skip(needed) {
                return None;
            }
        }
        Some(Self::start(folder, program, flags))
    }

    fn start(folder: &Path, program: PathBuf, flags: &'static [&'static str]) -> Result<Self> {
        fs::create_dir_all(folder)?;
        let key = [
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
        ];
        let authority = [
            "-x509",
            "-days",
            "3650",
            "-subj",
            "/CN=test-ca",
            "-keyout",
            "ca.key",
            "-out",
            "ca.crt",
        ];
        openssl(folder, &[&["req"], &key[..], &authority].concat())?;
        fs::write(
            folder.join("extensions"),
            "subjectAltName=IP:127.0.0.1,DNS:localhost\nextendedKeyUsage=serverAuth\n",
        )?;
        fs::write(
            folder.join("client-extensions"),
            "extendedKeyUsage=clientAuth\n",
        )?;
        let certificate = |name: &str, subject: &str, extensions: &str| -> Result<()> {
            let (secret, request, signed) = (
                format!("{name}.key"),
                format!("{name}.csr"),
                format!("{name}.crt"),
            );
            let ask = [
                "-new", "-subj", subject, "-keyout", &secret, "-out", &request,
            ];
            openssl(folder, &[&["req"], &key[..], &ask].concat())?;
            let sign = [
                "x509",
                "-req",
                "-in",
                &request,
                "-CA",
                "ca.crt",
                "-CAkey",
                "ca.key",
                "-CAcreateserial",
                "-days",
                "3650",
                "-extfile",
                extensions,
                "-out",
                &signed,
            ];
            openssl(folder, &sign)
        };
        certificate("server", "/CN=kube-apiserver", "extensions")?;
        certificate(
            "client",
            "/O=system:masters/CN=by-certificate",
            "client-extensions",
        )?;
        openssl(folder, &["genrsa", "-out", "accounts.key", "2048"])?;
        let tokens =
            format!("{ADMIN}-token,{ADMIN},1,\"system:masters\"\n{GUEST}-token,{GUEST},2\n");
        fs::write(folder.join("tokens.csv"), tokens)?;

        let (etcd_port, peer_port, port) = (free_port()?, free_port()?, free_port()?);
        let etcd = start_etcd(folder, etcd_port, peer_port)?;
        let mut this = Self {
            folder: folder.to_owned(),
            program,
            flags,
            etcd,
            server: None,
            etcd_port,
            port,
        };
        this.on_some_port()?;
        Ok(this)
    }

    /// Starts the server for the first time. A port that was free may be someone else's by now: other tests listen meanwhile.
    fn on_some_port(&mut self) -> Result<()> {
        let mut tries = 1;
        while let Err(error) = self.go_on() {
            let is_taken = error.to_string().contains("address already in use");
            ensure!(is_taken && tries < PORTS, error);
            self.stop();
            self.port = free_port()?;
            tries += 1;
        }
        Ok(())
    }

    /// Starts the server again, on the same port and with what it had.
    ///
    /// # Errors
    /// When it does not come up.
    pub fn go_on(&mut self) -> Result<()> {
        let at = |name: &str| self.folder.join(name).display().to_string();
        let mut command = Command::new(&self.program);
        command
            .arg(format!(
                "--etcd-servers=http://127.0.0.1:{}",
                self.etcd_port
            ))
            .args(["--bind-address=127.0.0.1", "--advertise-address=127.0.0.1"])
            .arg(format!("--secure-port={}", self.port))
            .arg(format!("--tls-cert-file={}", at("server.crt")))
            .arg(format!("--tls-private-key-file={}", at("server.key")))
            .arg(format!("--client-ca-file={}", at("ca.crt")))
            .arg("--service-account-issuer=https://kubernetes.default.svc")
            .arg(format!("--service-account-key-file={}", at("accounts.key")))
            .arg(format!(
                "--service-account-signing-key-file={}",
                at("accounts.key")
            ))
            .args([
                "--service-cluster-ip-range=10.96.0.0/24",
                "--authorization-mode=RBAC",
            ])
            .arg(format!("--token-auth-file={}", at("tokens.csv")))
            // No controller makes the account `default` here.
            .args([
                "--disable-admission-plugins=ServiceAccount",
                "--endpoint-reconciler-type=none",
            ])
            .arg("--runtime-config=api/all=true")
            .args(self.flags)
            .stdout(Stdio::null())
            .stderr(fs::File::create(self.folder.join("server.log"))?);
        self.server = Some(command.spawn().context("cannot start kube-apiserver")?);
        let server = &mut self.server;
        let ready = format!("https://127.0.0.1:{}/readyz", self.port);
        let folder = &self.folder;
        wait_until("kube-apiserver", || {
            if let Some(ended) = server.as_mut().map(Child::try_wait).transpose()?.flatten() {
                let log = fs::read_to_string(folder.join("server.log")).unwrap_or_default();
                anyhow::bail!("kube-apiserver ended with {ended}:\n{log}");
            }
            let asked = Command::new("curl")
                .current_dir(folder)
                .args([
                    "--silent",
                    "--fail",
                    "--max-time",
                    "5",
                    "--cacert",
                    "ca.crt",
                ])
                .args([
                    "--header",
                    &format!("Authorization: Bearer {ADMIN}-token"),
                    &ready,
                ])
                .output()?;
            Ok(asked.status.success())
        })
    }

    /// Ends the server at once, as a power cut does. The database goes on.
    pub fn stop(&mut self) {
        if let Some(mut server) = self.server.take() {
            let _ = server.kill();
            let _ = server.wait();
        }
    }

    /// A kubeconfig for the holder of a static token.
    pub fn kubeconfig(&self, user: &str) -> PathBuf {
        self.kubeconfig_with(user, &format!("token: {user}-token"))
    }

    /// A kubeconfig called `name`, whose user logs in by `login`.
    pub fn kubeconfig_with(&self, name: &str, login: &str) -> PathBuf {
        let path = self.folder.join(format!("{name}.kubeconfig"));
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: test\n\
             clusters: [{{name: test, cluster: {{server: 'https://127.0.0.1:{}', certificate-authority: ca.crt}}}}]\n\
             users: [{{name: test, user: {{{login}}}}}]\n\
             contexts: [{{name: test, context: {{cluster: test, user: test}}}}]\n",
            self.port
        );
        // An agent may read it at this moment. A failure shows itself at once: the file is not there.
        let new = self.folder.join(format!(".{name}.kubeconfig"));
        if fs::write(&new, text).is_ok() {
            let _ = fs::rename(&new, &path);
        }
        path
    }

    /// The certificate authority of the server.
    ///
    /// # Errors
    /// When it cannot be found.
    pub fn authority(&self) -> Result<PathBuf> {
        Ok(fs::canonicalize(self.folder.join("ca.crt"))?)
    }

    /// Requests for a separate thread.
    pub fn requests(&self) -> Requests {
        Requests {
            folder: self.folder.clone(),
            port: self.port,
        }
    }

    /// Sends a request as the administrator. Returns the status and the answer.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn ask(
        &self,
        method: &str,
        path: &str,
        body: Option<(&str, &Value)>,
    ) -> Result<(u16, Value)> {
        self.requests().ask(method, path, body)
    }

    /// The object at `path`, when it is there.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn get(&self, path: &str) -> Result<Option<Value>> {
        let (code, value) = self.ask("GET", path, None)?;
        Ok((code == 200).then_some(value))
    }

    /// Makes an object below `path`.
    ///
    /// # Errors
    /// When the server refuses.
    pub fn create(&self, path: &str, object: &Value) -> Result<Value> {
        let (code, value) = self.ask("POST", path, Some(("application/json", object)))?;
        ensure!((200..300).contains(&code), "{path}: {value}");
        Ok(value)
    }

    /// Applies the object in `text` at `path`, as someone with `kubectl`.
    ///
    /// # Errors
    /// When the server refuses.
    pub fn apply_yaml(&self, path: &str, text: &str) -> Result<()> {
        let file = self.folder.join("applied.yaml");
        fs::write(&file, text)?;
        let mut command = Command::new("curl");
        command.current_dir(&self.folder);
        command.args(["--silent", "--show-error", "--fail-with-body"]);
        command.args(["--cacert", "ca.crt"]);
        command.args(["--request", "PATCH", "--data-binary", "@applied.yaml"]);
        command.args(["--header", "Content-Type: application/apply-patch+yaml"]);
        command.args(["--header", &format!("Authorization: Bearer {ADMIN}-token")]);
        let query = "fieldManager=kubectl&force=true";
        command.arg(format!("https://127.0.0.1:{}{path}?{query}", self.port));
        run_expecting(&mut command, 0).map(drop)
    }

    /// Changes an object as someone else, called `manager`.
    ///
    /// # Errors
    /// When the server refuses.
    pub fn patch(&self, path: &str, manager: &str, change: &Value) -> Result<Value> {
        let path = format!("{path}?fieldManager={manager}");
        let (code, value) = self.ask(
            "PATCH",
            &path,
            Some(("application/merge-patch+json", change)),
        )?;
        ensure!((200..300).contains(&code), "{path}: {value}");
        Ok(value)
    }

    /// Deletes an object.
    ///
    /// # Errors
    /// When the server refuses.
    pub fn delete(&self, path: &str) -> Result<()> {
        let (code, value) = self.ask("DELETE", path, None)?;
        ensure!((200..300).contains(&code), "{path}: {value}");
        Ok(())
    }
}

/// Requests to a server as its administrator, for whoever outlives no server.
#[derive(Debug, Clone)]
pub struct Requests {
    folder: PathBuf,
    port: u16,
}

impl Requests {
    /// Sends a request as the administrator. Returns the status and the answer.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn ask(
        &self,
        method: &str,
        path: &str,
        body: Option<(&str, &Value)>,
    ) -> Result<(u16, Value)> {
        let mut command = Command::new("curl");
        command
            .current_dir(&self.folder)
            .args([
                "--silent",
                "--show-error",
                "--max-time",
                "60",
                "--cacert",
                "ca.crt",
            ])
            .args(["--write-out", "\n%{http_code}", "--request", method])
            .args(["--header", &format!("Authorization: Bearer {ADMIN}-token")]);
        if let Some((kind, value)) = body {
            command
                .args(["--header", &format!("Content-Type: {kind}")])
                .args(["--data-binary", &value.to_string()]);
        }
        command.arg(format!("https://127.0.0.1:{}{path}", self.port));
        let printed = run_expecting(&mut command, 0)?.stdout;
        let (answer, code) = printed
            .rsplit_once('\n')
            .context("curl printed no status")?;
        Ok((
            code.parse()?,
            serde_json::from_str(answer).unwrap_or_default(),
        ))
    }
}
