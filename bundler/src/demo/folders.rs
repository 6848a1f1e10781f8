//! The stage: control plane as git, keys, hub, two sites, all below one folder.
//!
//! What comes in: an empty folder and the programs. What goes out: a [`DemoFolders`] in which every command
//! of the transcript can be typed. The hub that it starts ends with it.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::{DemoError, Programs, example, typed::Typed};

/// The connected site, of environment `dev`.
pub const BENCH: SiteOf = SiteOf {
    name: "bench-1",
    environment: "dev",
    cluster_type: "bench",
};
/// The air-gapped site, of environment `stage`.
pub const PRESS: SiteOf = SiteOf {
    name: "press-7",
    environment: "stage",
    cluster_type: "press",
};

/// One site of the demo.
#[derive(Debug, Clone, Copy)]
pub struct SiteOf {
    /// Its name.
    pub name: &'static str,
    /// Its environment.
    pub environment: &'static str,
    /// Its cluster type.
    pub cluster_type: &'static str,
}

/// Everything that the transcript needs.
#[derive(Debug)]
pub struct DemoFolders {
    folder: PathBuf,
    programs: Programs,
    /// Whether the sites apply with Ansible.
    pub ansible: bool,
    hub: Hub,
}

/// The hub, running.
#[derive(Debug)]
struct Hub {
    child: Child,
    url: String,
}

impl Drop for Hub {
    fn drop(&mut self) {
        // It may have ended by itself; there is nothing to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What every command needs to find the repositories without a network.
pub const SOURCES: [&str; 2] = [
    "https://git.factory.example/label-printer=label-printer",
    "https://git.factory.example/label-printer-manifests=label-printer-manifests",
];

impl DemoFolders {
    /// Sets the stage.
    pub fn set(folder: &Path, programs: Programs, ansible: bool) -> Result<Self, DemoError> {
        write_example(folder, ansible)?;
        make_repositories(folder)?;
        let fleet = |arguments: &[&str]| {
            Typed::new(&programs.outhaul, folder)
                .args(arguments)
                .args(["--fleet", "fleet", "--passphrase-file", "passphrase"])
                .run()
        };
        write(&folder.join("passphrase"), b"for this demo only\n", 0o600)?;
        fleet(&["key", "init"])?;
        Typed::new(&programs.hub, folder)
            .args([
                "init",
                "--state",
                "hub",
                "--root",
                "fleet/metadata/1.root.json",
                "--plain-key",
                "a demo on one machine",
            ])
            .run()?;
        let key = Typed::new(&programs.hub, folder)
            .args(["key", "--state", "hub"])
            .run()?;
        write(&folder.join("hub.pub"), key.as_bytes(), 0o644)?;
        make(&folder.join("published"))?;
        make(&folder.join("stick"))?;
        let hub = start_hub(&programs, folder)?;
        Typed::new(&programs.outhaul, folder)
            .args([
                "key",
                "set-hub",
                "--fleet",
                "fleet",
                "--hub-key",
                "hub.pub",
                "--hub-url",
                &hub.url,
            ])
            .run()?;
        let folders = Self {
            folder: folder.to_owned(),
            programs,
            ansible,
            hub,
        };
        for site in [BENCH, PRESS] {
            folders.enrol(site)?;
        }
        Ok(folders)
    }

    /// `outhaul`, in the demo's folder.
    pub fn outhaul(&self) -> Typed {
        Typed::new(&self.programs.outhaul, &self.folder)
    }

    /// `outhaul-hub`, on the demo's hub.
    pub fn hub(&self) -> Typed {
        Typed::new(&self.programs.hub, &self.folder).args(["--state", "hub"])
    }

    /// `outhaul-agent`, as the agent of `site`.
    pub fn agent(&self, site: SiteOf) -> Typed {
        Typed::new(&self.programs.agent, &self.folder)
            .args(["--state", &format!("{}/state", site.name)])
    }

    /// `git`, in the control plane's working copy.
    pub fn git(&self) -> Typed {
        git_in(&self.folder.join("control-plane"))
    }

    /// The demo's folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder of the programs.
    pub fn programs_folder(&self) -> &Path {
        self.programs.outhaul.parent().unwrap_or(Path::new("."))
    }

    /// Where the hub's page is.
    pub fn hub_url(&self) -> &str {
        &self.hub.url
    }

    /// Writes what every command that is typed next has in common.
    pub fn write_project(&self) -> Result<(), DemoError> {
        let hub = self.hub_url().trim_end_matches('/');
        let mut text = format!(
            "control_plane = \"control-plane\"\nfleet = \"fleet\"\nhub = \"{hub}\"\nbundles = \"bundles\"\n\n[sources]\n"
        );
        for (url, folder) in SOURCES.iter().filter_map(|one| one.split_once('=')) {
            text.push_str(&format!("\"{url}\" = \"{folder}\"\n"));
        }
        let path = self.folder.join(crate::project::FILE);
        write(&path, text.as_bytes(), 0o644)
    }

    /// Waits until the hub ends.
    pub fn wait_for_hub(&mut self) -> Result<(), DemoError> {
        let path = self.folder.clone();
        self.hub
            .child
            .wait()
            .map(drop)
            .map_err(|error| DemoError::Io {
                doing: "wait for the hub in",
                path,
                error,
            })
    }

    fn enrol(&self, site: SiteOf) -> Result<(), DemoError> {
        let kit = format!("{}.kit", site.name);
        let made = self
            .outhaul()
            .args([
                "site", "enrol", site.name, "--fleet", "fleet", "--output", "json",
            ])
            .args(["--control-plane", "control-plane"])
            .args(SOURCES.iter().flat_map(|source| ["--source", *source]))
            .args([
                "--environment",
                site.environment,
                "--cluster-type",
                site.cluster_type,
            ])
            .args(["--out", &kit])
            .json()?;
        let kit_id = made["kit_id"].as_str().unwrap_or_default().to_owned();
        self.hub()
            .args(["site", "expect", site.name, "--kit", &kit_id])
            .run()?;
        let root = self.folder.join(site.name);
        make(&root.join("state"))?;
        let mut config = format!(
            "# The agent of {}. Everything else has its default.\n\
             [folder]\ntarget = {:?}\n\n[ansible]\nvars = {{ site_root = {:?} }}\n",
            site.name,
            root.join("root"),
            root.join("root")
        );
        if site.name == BENCH.name {
            config.push_str(&format!(
                "\n[repository]\nurl = \"{}repository/\"\n\n[hub]\nsend_s = 5\n",
                self.hub.url
            ));
        }
        write(&root.join("state/agent.toml"), config.as_bytes(), 0o600)?;
        let enrolled = self
            .agent(site)
            .args(["--output", "json", "enrol", &kit])
            .json()?;
        let request = enrolled["request"].as_str().unwrap_or_default().to_owned();
        // The request of the air-gapped site comes on the stick, with its first reports.
        if site.name == BENCH.name {
            self.hub().args(["import", &request]).run()?;
        }
        Ok(())
    }
}

/// The first line of `ansible-playbook --version`, where it is installed.
pub fn ansible_version() -> Option<String> {
    let output = Command::new("ansible-playbook")
        .arg("--version")
        .stdin(Stdio::null())
        .output();
    let output = output.ok().filter(|output| output.status.success())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().next().map(str::to_owned)
}

fn write_example(folder: &Path, ansible: bool) -> Result<(), DemoError> {
    for (path, text) in example::FILES {
        // `control-plane/main/…` is the working copy; the other branches are made from their folders.
        let text = if ansible {
            (*text).to_owned()
        } else {
            text.replace("reconciler: ansible-host", "reconciler: watched-folder")
                .replace(
                    "namespaceService: ansible-namespace",
                    "namespaceService: folder-namespace",
                )
        };
        let executable = path.ends_with("print-label.sh");
        let target = folder.join("from-the-example").join(path);
        make(target.parent().unwrap_or(folder))?;
        write(
            &target,
            text.as_bytes(),
            if executable { 0o755 } else { 0o644 },
        )?;
    }
    Ok(())
}

/// Each repository with its branches, from the example's folders.
fn make_repositories(folder: &Path) -> Result<(), DemoError> {
    let from = folder.join("from-the-example");
    let repositories: [(&str, &[(&str, &str)]); 3] = [
        (
            "control-plane",
            &[
                ("dev", "control-plane/dev"),
                ("stage", "control-plane/stage"),
                ("main", "control-plane/main"),
            ],
        ),
        ("label-printer", &[("main", "label-printer/source")]),
        (
            "label-printer-manifests",
            &[
                ("stage", "label-printer/manifests/stage"),
                ("dev", "label-printer/manifests/dev"),
            ],
        ),
    ];
    for (name, branches) in repositories {
        let repository = folder.join(name);
        make(&repository)?;
        for (at, (branch, source)) in branches.iter().enumerate() {
            let git = || git_in(&repository);
            if at == 0 {
                git()
                    .args(["init", "--quiet", "--initial-branch", branch])
                    .run()?;
            } else {
                git()
                    .args(["switch", "--quiet", "--orphan", branch])
                    .run()?;
            }
            let work_tree = from.join(source);
            let stage = git_in(&work_tree).args(["--work-tree", ".", "--git-dir"]);
            stage
                .args([repository.join(".git")])
                .args(["add", "--all", "."])
                .run()?;
            git()
                .args([
                    "commit",
                    "--quiet",
                    "--message",
                    "The factory, as in the example",
                ])
                .run()?;
            git().args(["reset", "--quiet", "--hard"]).run()?;
        }
    }
    std::fs::remove_dir_all(&from).map_err(|error| DemoError::Io {
        doing: "remove",
        path: from,
        error,
    })
}

fn git_in(folder: &Path) -> Typed {
    let mut typed = Typed::git(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1");
    for who in ["AUTHOR", "COMMITTER"] {
        typed = typed
            .env(&format!("GIT_{who}_NAME"), "Platform team")
            .env(&format!("GIT_{who}_EMAIL"), "platform@factory.example");
    }
    typed
}

/// Starts the hub on a port that is free now, so that the sites' kits can name it.
fn start_hub(programs: &Programs, folder: &Path) -> Result<Hub, DemoError> {
    let io = |error| DemoError::Io {
        doing: "start the hub in",
        path: folder.to_owned(),
        error,
    };
    let port = TcpListener::bind("127.0.0.1:0")
        .and_then(|l| l.local_addr())
        .map_err(io)?
        .port();
    let typed = Typed::new(&programs.hub, folder)
        .args(["--state", "hub", "serve"])
        .args([
            "--listen",
            &format!("127.0.0.1:{port}"),
            "--repository",
            "published",
            "--open-reading",
        ]);
    let shown = typed.shown();
    let log = std::fs::File::create(folder.join("hub.log")).map_err(io)?;
    let mut child = typed
        .into_command()
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .map_err(io)?;
    let mut url = String::new();
    if let Some(stdout) = child.stdout.take() {
        // It prints its address when it is ready, and nothing before.
        BufReader::new(stdout).read_line(&mut url).map_err(io)?;
    }
    let url = url.trim().to_owned();
    if url.is_empty() {
        let _ = child.wait();
        let said = std::fs::read_to_string(folder.join("hub.log")).unwrap_or_default();
        return Err(DemoError::Command {
            command: shown,
            code: "no address".to_owned(),
            said,
        });
    }
    Ok(Hub { child, url })
}

fn make(folder: &Path) -> Result<(), DemoError> {
    std::fs::create_dir_all(folder).map_err(|error| DemoError::Io {
        doing: "create",
        path: folder.to_owned(),
        error,
    })
}

/// Writes a file of the folders; nothing of it need survive a power cut.
pub fn write(path: &Path, bytes: &[u8], mode: u32) -> Result<(), DemoError> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let fill = || -> std::io::Result<()> {
        let mut options = std::fs::OpenOptions::new();
        let mut file = options
            .write(true)
            .create(true)
            .truncate(true)
            .mode(mode)
            .open(path)?;
        file.write_all(bytes)
    };
    fill().map_err(|error| DemoError::Io {
        doing: "write",
        path: path.to_owned(),
        error,
    })
}
