//! Drives the real `outhaul-hub` in a separate folder.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use outhaul_kit::durable;
use outhaul_tests::Checked as _;
pub use outhaul_tests::{code, stderr};
use serde_json::Value;

use outhaul_test_kit::Site;

/// A folder with a hub's state in it.
#[derive(Debug)]
pub struct Hub {
    pub folder: tempfile::TempDir,
}

/// A running server; stopped when dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    pub url: String,
    state: PathBuf,
}

pub fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_outhaul-hub"));
    command
        .env_remove("OUTHAUL_HUB_STATE")
        .env_remove("OUTHAUL_HUB_DATABASE")
        .env_remove("NOTIFY_SOCKET");
    command
}

impl Hub {
    pub fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A file that nobody else may read; its path.
    pub fn secret(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        durable::write(&path, text.as_bytes(), durable::SECRET_MODE).unwrap();
        path
    }

    pub fn state(&self) -> PathBuf {
        self.path("state")
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        command()
            .current_dir(self.folder.path())
            .args(arguments)
            .arg("--state")
            .arg(self.state())
            .checked()
            .unwrap()
    }

    /// Runs a command that must succeed, and returns its JSON.
    #[track_caller]
    pub fn json(&self, arguments: &[&str]) -> Value {
        let output = self.run(&[arguments, &["--output", "json"]].concat());
        let message = String::from_utf8_lossy(&output.stdout);
        assert_eq!(code(&output), 0, "{message}{}", stderr(&output));
        outhaul_tests::result(&String::from_utf8(output.stdout).unwrap())
    }

    #[track_caller]
    pub fn init(&self, root: &Path) {
        let root = root.to_str().unwrap();
        let database = outhaul_tests::postgres::database_of_run();
        let database = database.iter().flat_map(|address| ["--database", address]);
        let arguments = ["init", "--root", root, "--plain-key", "a test"];
        self.json(&arguments.into_iter().chain(database).collect::<Vec<_>>());
    }

    /// Approves the request in a file, by the fingerprint of its key.
    #[track_caller]
    pub fn add(&self, request: &Path, site: &Site) -> Value {
        let fingerprint = site.key.public().id();
        let add = ["site", "add", request.to_str().unwrap(), "--fingerprint"];
        self.json(&[&add[..], &[&fingerprint]].concat())
    }

    /// The gate's exit code and decision.
    pub fn gate(&self, environment: &str, commit: &str) -> (i32, Value) {
        let asked = [
            "gate",
            "--environment",
            environment,
            "--commit",
            commit,
            "--output",
            "json",
        ];
        let output = self.run(&asked);
        (
            code(&output),
            outhaul_tests::result(&String::from_utf8(output.stdout).unwrap()),
        )
    }

    /// Serves with open reading, as most tests look at more than at who may look.
    pub fn serve(&self, more: &[&str]) -> Server {
        self.serve_in(&[&["--open-reading"], more].concat(), &[])
    }

    /// The same, with its log in a file.
    pub fn serve_logged(&self, more: &[&str], log: &Path) -> Server {
        let log = Stdio::from(std::fs::File::create(log).unwrap());
        self.start(&[&["--open-reading"], more].concat(), &[], log)
    }

    pub fn serve_in(&self, more: &[&str], environment: &[(&str, &str)]) -> Server {
        self.start(more, environment, Stdio::null())
    }

    fn start(&self, more: &[&str], environment: &[(&str, &str)], log: Stdio) -> Server {
        let any: &[&str] = match more.contains(&"--listen") {
            true => &[],
            false => &["--listen", "127.0.0.1:0"],
        };
        let mut child = command()
            .envs(environment.iter().copied())
            .arg("serve")
            .args(any)
            .arg("--state")
            .arg(self.state())
            .args(more)
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        // It prints its address when it answers: no need to poll or to sleep.
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut url)
            .unwrap();
        Server {
            child,
            url: url.trim_end().to_owned(),
            state: self.state(),
        }
    }
}

impl Server {
    /// Host and port.
    pub fn address(&self) -> &str {
        self.url.split("//").nth(1).unwrap().trim_end_matches('/')
    }

    /// Its state folder.
    pub fn state(&self) -> &Path {
        &self.state
    }

    /// Waits until it ends by itself.
    pub fn wait(mut self) -> i32 {
        self.child.wait().unwrap().code().unwrap()
    }

    /// Sends SIGTERM and waits for the end.
    pub fn stop(mut self) -> i32 {
        let id = self.child.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-TERM", &id])
                .status()
                .unwrap()
                .success()
        );
        self.child.wait().unwrap().code().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
