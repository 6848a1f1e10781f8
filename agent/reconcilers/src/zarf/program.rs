//! The command `zarf`, as it is started.
//!
//! What comes in: what is to be done with which package, and the site's settings. What goes out: what it made or printed, or in its own
//! words why not. It gets the kubeconfig of the site's owner, a folder of its own, and no other environment; it ends with the agent.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use outhaul_kit::durable;
use outhaul_kit::heartbeat::Heartbeat;
use outhaul_kit::program::PATH;

use crate::error::ApplyError;
use crate::hook;
use crate::outcome::Stop;
use crate::settings::ZarfConfig;
use crate::watched::{self, RunEnd, RunError, RunLimits, output_tail};

/// Bytes kept of what it prints: the manifests of a chart are among it.
const MAX_OUTPUT_BYTES: usize = 16 * 1024 * 1024;
/// What the system says of a full disk.
const NO_SPACE: &str = "no space left on device";

/// The command, with the site's settings.
#[derive(Debug)]
pub struct Zarf {
    config: ZarfConfig,
    kubeconfig: Option<PathBuf>,
    folder: PathBuf,
}

impl Zarf {
    /// The command; what it writes for itself lies in `folder`.
    pub fn new(config: &ZarfConfig, kubeconfig: Option<&Path>, folder: PathBuf) -> Self {
        Self {
            config: config.clone(),
            kubeconfig: kubeconfig.map(Path::to_owned),
            folder,
        }
    }

    /// Its own folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether it is installed, and nobody else may change it.
    pub fn is_there(&self) -> Result<(), ApplyError> {
        self.file().map(drop)
    }

    /// The file that is started.
    fn file(&self) -> Result<PathBuf, ApplyError> {
        hook::startable(&self.config.program, Some(PATH))?
            .ok_or_else(|| self.gone("it is not installed"))
    }

    /// Waits until nothing that an earlier agent started is at work any more, and sees that it is Zarf which is started.
    pub fn waits_and_is_zarf(&self, heartbeat: &Heartbeat) -> Result<(), Stop> {
        let printed = self.run_bare(&["version"], &self.folder, heartbeat);
        match printed {
            Ok(text) if text.chars().any(|letter| letter.is_ascii_digit()) => Ok(()),
            Ok(_) | Err(Stop::Assignment(..)) => Err(self
                .gone("`version` prints no version: it is not Zarf")
                .into()),
            Err(site) => Err(site),
        }
    }

    /// Makes a package of the definition in `folder`.
    pub fn create(&self, folder: &Path, heartbeat: &Heartbeat) -> Result<PathBuf, Stop> {
        let out = folder.join(".out");
        durable::make_folder(&out)?;
        let shown = [".", "--confirm", "--skip-sbom", "--output", ".out"];
        let arguments = [&["package", "create"][..], &shown].concat();
        self.run(&arguments, folder, folder, heartbeat)
            .map_err(|stop| while_running("`zarf package create`", stop))?;
        let made = durable::list(&out)?;
        let mut made = made.into_iter().filter(|path| path.is_file());
        match (made.next(), made.next()) {
            (Some(one), None) => Ok(one),
            _ => Err(Stop::failed(
                "`zarf package create` ended well and did not make one package",
            )),
        }
    }

    /// Deploys a package, and waits for it. It is unpacked in `scratch`. With `force`, fields that someone else has set since are
    /// taken back.
    pub fn deploy(
        &self,
        package: &Path,
        scratch: &Path,
        force: bool,
        heartbeat: &Heartbeat,
    ) -> Result<(), Stop> {
        let file = package.display().to_string();
        let mut arguments = vec!["package", "deploy", file.as_str(), "--confirm"];
        let wait = format!("{}s", self.config.wait_s);
        arguments.extend(["--timeout", wait.as_str()]);
        if self.config.connected {
            arguments.push("--connected");
        }
        if force {
            arguments.push("--force-conflicts");
        }
        self.run(&arguments, &self.folder, scratch, heartbeat)
            .map(|_| ())
            .map_err(|stop| while_running("`zarf package deploy`", stop))
    }

    /// Removes a deployed package by its name.
    pub fn remove(&self, name: &str, heartbeat: &Heartbeat) -> Result<(), Stop> {
        let arguments = ["package", "remove", name, "--confirm"];
        self.run(&arguments, &self.folder, &self.folder, heartbeat)
            .map(|_| ())
            .map_err(|stop| while_running("`zarf package remove`", stop))
    }

    /// The definition in a package file.
    pub fn definition(&self, package: &Path, heartbeat: &Heartbeat) -> Result<String, Stop> {
        let file = package.display().to_string();
        let arguments = ["package", "inspect", "definition", file.as_str()];
        self.run(&arguments, &self.folder, &self.folder, heartbeat)
            .map_err(|stop| while_running("`zarf package inspect definition`", stop))
    }

    /// The manifests that a chart was installed with.
    pub fn manifests(
        &self,
        release: &str,
        namespace: &str,
        heartbeat: &Heartbeat,
    ) -> Result<String, Stop> {
        let arguments = ["tools", "helm", "get", "manifest", release, "-n", namespace];
        self.run_bare(&arguments, &self.folder, heartbeat)
            .map_err(|stop| while_running("`zarf tools helm get manifest`", stop))
    }

    /// The releases in a namespace on which something was begun and not ended, as JSON.
    pub fn pending(&self, namespace: &str, heartbeat: &Heartbeat) -> Result<String, Stop> {
        let list = ["tools", "helm", "list", "--pending", "-n", namespace];
        let arguments = [&list[..], &["--output", "json"]].concat();
        self.run_bare(&arguments, &self.folder, heartbeat)
            .map_err(|stop| while_running("`zarf tools helm list`", stop))
    }

    /// One of its package commands: these know more options than its tools.
    fn run(
        &self,
        arguments: &[&str],
        folder: &Path,
        scratch: &Path,
        heartbeat: &Heartbeat,
    ) -> Result<String, Stop> {
        let temporary = scratch.join(".tmp");
        // What a run that was cut off left there.
        durable::remove_tree(&temporary)?;
        durable::make_folder(&temporary)?;
        let (temporary, cache) = (
            temporary.display().to_string(),
            self.folder.join("cache").display().to_string(),
        );
        let bounds = ["--no-color", "--log-level", "info"];
        let own = ["--tmpdir", temporary.as_str(), "--cache", cache.as_str()];
        self.run_bare(&[arguments, &bounds, &own].concat(), folder, heartbeat)
    }

    fn run_bare(
        &self,
        arguments: &[&str],
        folder: &Path,
        heartbeat: &Heartbeat,
    ) -> Result<String, Stop> {
        // Each time: what was looked at when the bundle came may be another program by now.
        let program = self.file()?;
        durable::make_folder(&self.folder)?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(folder)
            .env_clear()
            .env("PATH", PATH)
            .env("HOME", &self.folder)
            .env("LC_ALL", "C.UTF-8");
        if let Some(kubeconfig) = &self.kubeconfig {
            command.env("KUBECONFIG", kubeconfig);
        } else {
            // A pod's service account is found by these.
            for name in ["KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"] {
                command.envs(std::env::var_os(name).map(|value| (name, value)));
            }
        }
        let lock = self.folder.join(".running");
        let bounds = RunLimits {
            input: b"",
            lock: &lock,
            timeout: Duration::from_secs(self.config.timeout_s),
            kept: MAX_OUTPUT_BYTES,
            no_more: false,
            whole: true,
        };
        let ran = watched::run(command, &bounds, heartbeat).map_err(|lost| match lost {
            RunError::File(error) => error.into(),
            RunError::Program(error) => self.gone(&error.to_string()),
        })?;
        match ran.end {
            RunEnd::Exited(status) if status.success() => {
                Ok(String::from_utf8_lossy(&ran.stdout).into_owned())
            }
            RunEnd::Stopped => Err(ApplyError::Stopped.into()),
            RunEnd::Busy => Err(ApplyError::Busy {
                program: self.config.program.display().to_string(),
            }
            .into()),
            RunEnd::TooLong | RunEnd::TooMuch => Err(Stop::failed(format!(
                "stopped after {} s, its time limit",
                self.config.timeout_s
            ))),
            RunEnd::Exited(status) if status.code().is_none() => {
                Err(self.gone(&format!("it was ended: {status}")).into())
            }
            RunEnd::Exited(status) => match words(&ran.stderr) {
                words if words.contains(NO_SPACE) => Err(ApplyError::Cluster {
                    problem: format!("Zarf: {words}"),
                    help: "free some space on that file system (`df -h` shows it); the agent tries again".into(),
                }
                .into()),
                words if words.is_empty() => {
                    Err(Stop::failed(format!("it ended with {status}")))
                }
                words => Err(Stop::failed(words)),
            },
        }
    }

    fn gone(&self, problem: &str) -> ApplyError {
        ApplyError::Program {
            program: self.config.program.display().to_string(),
            problem: problem.to_owned(),
            help: "install Zarf on this host, or set `program` under `[zarf]` in agent.toml; then repeat the command".into(),
        }
    }
}

fn while_running(what: &str, stop: Stop) -> Stop {
    match stop {
        Stop::Assignment(steps, why) => Stop::Assignment(steps, format!("{what}: {why}")),
        site @ Stop::Site(_) => site,
    }
}

/// Its errors, and what it printed beside its log, such as a table of what is wrong in a definition; without either the last lines.
fn words(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let is_log = |line: &&str| {
        [" INF ", " WRN ", " DBG "]
            .iter()
            .any(|level| line.contains(level))
    };
    let mut errors = Vec::new();
    let mut others = Vec::new();
    for line in text.lines().filter(|line| !is_log(line)) {
        match line.split_once(" ERR ") {
            Some((_, error)) => errors.push(error.trim()),
            None if line.trim().is_empty() => {}
            None => others.push(line),
        }
    }
    if errors.is_empty() {
        return output_tail(stderr);
    }
    let others = output_tail(others.join("\n").as_bytes());
    let all = errors.join("; ").replace(|c: char| c.is_control(), " ");
    match others.is_empty() {
        true => all,
        false => format!("{all}; {others}"),
    }
}
