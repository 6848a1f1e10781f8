//! A folder with git repositories, a fleet, a hub and sites, in which commands are typed.
//!
//! What comes in: commands as a user types them. What goes out: what they printed. Everything lies below
//! one temporary folder, git knows nothing of the user's own settings, and the hub ends with its test.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use outhaul_test_kit::folder;
use outhaul_tests::{Ran, program, run_expecting};

/// Options with which `outhaul bundle` signs with the fleet's keys, and writes onto the stick.
pub const TO_STICK: [&str; 6] = [
    "--fleet",
    "fleet",
    "--passphrase-file",
    "passphrase",
    "--out",
    "stick",
];

/// A folder for one test, and what its commands are given.
pub struct SystemFixture {
    folder: tempfile::TempDir,
    /// What every command gets that reads a control plane.
    pub sources: Vec<String>,
}

/// A hub that serves.
pub struct Hub {
    child: Child,
    /// Where it answers.
    pub url: String,
}

impl Drop for Hub {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl SystemFixture {
    pub fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            sources: Vec::new(),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A command with the settings of this folder alone.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.folder.path())
            .env("HOME", self.folder.path())
            .env("XDG_CACHE_HOME", self.path("cache"))
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_SYSTEM", "/dev/null");
        for (name, value) in [("NAME", "Test"), ("EMAIL", "test@example.org")] {
            command
                .env(format!("GIT_AUTHOR_{name}"), value)
                .env(format!("GIT_COMMITTER_{name}"), value);
        }
        command
    }

    pub fn run(&self, name: &str, code: i32, arguments: &[&str]) -> Ran {
        let mut command = self.command(&program(name).unwrap());
        run_expecting(command.args(arguments), code).unwrap()
    }

    pub fn git(&self, repository: &str, arguments: &[&str]) -> String {
        let mut command = self.command(Path::new("git"));
        command.arg("-C").arg(self.path(repository)).args(arguments);
        run_expecting(&mut command, 0)
            .unwrap()
            .stdout
            .trim()
            .to_owned()
    }

    /// A repository whose branches are the subfolders of `from`, with `main` checked out.
    pub fn repository(&self, from: &Path, name: &str) {
        fs::create_dir_all(self.path(name)).unwrap();
        self.git(name, &["init", "--quiet", "--initial-branch=main"]);
        for entry in fs::read_dir(from).unwrap() {
            let path = entry.unwrap().path();
            let branch = path.file_name().unwrap().to_str().unwrap();
            self.git(name, &["checkout", "--quiet", "--orphan", branch]);
            self.git(name, &["rm", "-rf", "--quiet", "--ignore-unmatch", "."]);
            folder::fill(&path, &self.path(name));
            self.commit(name);
        }
        self.git(name, &["checkout", "--quiet", "--detach"]);
    }

    /// Changes a branch: checks it out, lets `change` edit the files, commits, and lets go of it.
    pub fn on_branch(&self, repository: &str, branch: &str, change: impl FnOnce(&Path)) {
        self.git(repository, &["checkout", "--quiet", branch]);
        change(&self.path(repository));
        self.commit(repository);
        self.git(repository, &["checkout", "--quiet", "--detach"]);
    }

    fn commit(&self, repository: &str) {
        self.git(repository, &["add", "--all"]);
        self.git(
            repository,
            &["commit", "--quiet", "--allow-empty", "-m", "a change"],
        );
    }

    /// A fleet with keys, and a hub's store.
    pub fn fleet(&self) {
        fs::write(self.path("passphrase"), "a passphrase for tests\n").unwrap();
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        fs::set_permissions(self.path("passphrase"), private).unwrap();
        let init = [
            "key",
            "init",
            "--fleet",
            "fleet",
            "--passphrase-file",
            "passphrase",
        ];
        self.run("outhaul", 0, &init);
        let root = "fleet/metadata/1.root.json";
        self.run(
            "outhaul-hub",
            0,
            &[
                "--state",
                "hub",
                "init",
                "--root",
                root,
                "--plain-key",
                "a test",
            ],
        );
        let key = self
            .run("outhaul-hub", 0, &["--state", "hub", "key"])
            .stdout;
        fs::write(self.path("hub.pub"), key).unwrap();
        let url = "http://127.0.0.1:1";
        let set = [
            "key",
            "set-hub",
            "--fleet",
            "fleet",
            "--hub-key",
            "hub.pub",
            "--hub-url",
            url,
        ];
        self.run("outhaul", 0, &set);
        fs::create_dir(self.path("stick")).unwrap();
    }

    /// A site, enrolled and registered; returns the key to seal for.
    pub fn site(&self, name: &str, environment: &str, cluster_type: &str) -> String {
        let kit = format!("{name}.kit");
        let enrol = ["site", "enrol", name, "--fleet", "fleet", "--out", &kit];
        let stream = ["--environment", environment, "--cluster-type", cluster_type];
        // Without one the fleet must have shipped to the stream already.
        let plane: &[&str] = match self.path("control-plane").is_dir() {
            true => &["--control-plane", "control-plane"],
            false => &[],
        };
        let sources: Vec<&str> = self.sources.iter().flat_map(|s| ["--source", s]).collect();
        self.run(
            "outhaul",
            0,
            &[&enrol[..], &stream, plane, &sources].concat(),
        );
        let reported = self.agent(name, 0, &["--output", "json", "enrol", &kit]);
        let reported = outhaul_tests::result(&reported.stdout);
        let request = reported["request"].as_str().unwrap();
        let fingerprint = reported["fingerprint"].as_str().unwrap();
        let add = ["--state", "hub", "site", "add", request, "--fingerprint"];
        self.run("outhaul-hub", 0, &[&add[..], &[fingerprint]].concat());
        reported["seal_key"].as_str().unwrap().to_owned()
    }

    /// `outhaul-agent`, as the agent of `site`.
    pub fn agent(&self, site: &str, code: i32, arguments: &[&str]) -> Ran {
        let state = format!("sites/{site}");
        fs::create_dir_all(self.path("sites")).unwrap();
        self.run(
            "outhaul-agent",
            code,
            &[&["--state", &state][..], arguments].concat(),
        )
    }

    /// `outhaul COMMAND --environment … --control-plane …`, with the local folders of repositories.
    pub fn plane(&self, code: i32, command: &str, environment: &str, arguments: &[&str]) -> Ran {
        let at = [
            command,
            "--environment",
            environment,
            "--control-plane",
            "control-plane",
        ];
        let sources: Vec<&str> = self.sources.iter().flat_map(|s| ["--source", s]).collect();
        self.run("outhaul", code, &[&at[..], &sources, arguments].concat())
    }

    /// Bundles of an environment onto the stick, and to the hub.
    pub fn bundle(&self, environment: &str) -> Ran {
        let keys = [&KEYS[..], &["--out", "stick"]].concat();
        let made = self.plane(0, "bundle", environment, &keys);
        self.run("outhaul-hub", 0, &["--state", "hub", "import", "stick"]);
        made
    }

    /// The stick goes to a site and back, with the site's reports.
    pub fn carry(&self, site: &str) {
        self.agent(site, 0, &["import", "stick"]);
    }

    /// A site's reports come back.
    pub fn home(&self, site: &str) {
        self.agent(site, 0, &["export", "stick"]);
        self.run("outhaul-hub", 0, &["--state", "hub", "import", "stick"]);
    }

    /// What a site has applied for an assignment.
    pub fn applied(&self, site: &str, file: &str) -> String {
        let path = self.path(&format!("sites/{site}/applied/{file}"));
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// The hub, answering.
    pub fn serve(&self) -> Hub {
        self.serve_with(self.command(&program("outhaul-hub").unwrap()))
    }

    /// The hub, answering whoever has a token.
    pub fn serve_closed(&self) -> Hub {
        self.started(self.command(&program("outhaul-hub").unwrap()), &[])
    }

    /// The same by a command that starts the hub in some other way.
    pub fn serve_with(&self, command: Command) -> Hub {
        self.started(command, &["--open-reading"])
    }

    fn started(&self, mut command: Command, more: &[&str]) -> Hub {
        command.args(["--state", "hub", "serve", "--listen", "127.0.0.1:0"]);
        command.args(more);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut url = String::new();
        // It prints its address when it is ready, and nothing before.
        let out = child.stdout.take().unwrap();
        BufReader::new(out).read_line(&mut url).unwrap();
        let url = url.trim().to_owned();
        assert!(!url.is_empty(), "the hub does not serve");
        Hub { child, url }
    }
}

/// The commit of the base that tests without a repository name.
pub const BASE_COMMIT: &str = "1111111111111111111111111111111111111111";

/// What opens and locks with the fleet's keys, in the folder of a fixture.
pub const KEYS: [&str; 4] = ["--fleet", "fleet", "--passphrase-file", "passphrase"];

/// `COMMAND` over a control plane that lies in the folders `dev` and `main`, whose only team is in `lamp`.
pub fn in_folders<'a>(command: &'a str, environment: &'a str, commit: &'a str) -> [&'a str; 11] {
    [
        command,
        "--environment",
        environment,
        "--env-dir",
        "dev",
        "--base-dir",
        "main",
        "--base-commit",
        commit,
        "--source",
        "https://git.example/lamp=lamp",
    ]
}
