//! `outhaul serve` on real repositories: rounds, restarts, and the running server.
//!
//! What comes in: a control plane in git with two environments, a fleet, a platform repository. What
//! must come out: bundles and commits for what changed and nothing for what did not, also after a
//! restart; one environment's trouble is its own; and a webhook that does not know the secret wakes nobody.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use outhaul_tests::Checked as _;
use serde_json::Value;

use super::cli::PlaneFixture;
use super::repositories::{git, on_branch, repository};

const SECRET: &str = "It's a Secret to Everybody";
const BODY: &str = "Hello, World!";
/// HMAC-SHA256 of the body, as GitHub's documentation has it.
const SIGNATURE: &str = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";

pub struct Centre {
    pub fixture: PlaneFixture,
}

impl Centre {
    pub fn new() -> Self {
        let fixture = PlaneFixture::new();
        let mut targets = String::new();
        for name in ["dev", "stage"] {
            targets += &format!(
                "    - name: {name}\n      environment: {name}\n      labels:\n        purpose: test\n      \
                 manifests:\n        repo: https://git.example.org/manifests\n"
            );
        }
        let workload = "apiVersion: scheduler.kalypso.io/v1alpha1\nkind: Workload\nmetadata:\n  name: hello\n\
                        spec:\n  deploymentTargets:\n";
        fixture.write("app/workload.yaml", &format!("{workload}{targets}"));
        fixture.write("manifests/deployment.yaml", "kind: Deployment\n");
        let mut list = String::new();
        for name in ["dev", "stage"] {
            list += &format!(
                "apiVersion: scheduler.kalypso.io/v1alpha1\nkind: Environment\nmetadata:\n  name: {name}\nspec:\n  \
                 controlPlane:\n    repo: https://git.example.org/plane\n    branch: {name}\n    path: .\n---\n"
            );
        }
        fixture.write("main/.environments/all.yaml", &list);
        let root = fixture.folder.path();
        let branches = root.join("branches");
        for (from, to) in [("main", "main"), ("dev", "dev"), ("dev", "stage")] {
            outhaul_test_kit::folder::fill(&root.join(from), &branches.join(to));
        }
        let plane = root.join("plane");
        repository(&branches, &plane);
        let pin = git(&plane, &["rev-parse", "main"]);
        for name in ["dev", "stage"] {
            on_branch(&plane, name, |copy| {
                let base = format!(
                    "apiVersion: scheduler.kalypso.io/v1alpha1\nkind: BaseRepo\nmetadata:\n  name: main\nspec:\n  \
                     repo: https://git.example.org/plane\n  branch: main\n  path: .\n  commit: {pin}\n"
                );
                fs::write(copy.join("base-repo.yaml"), base).unwrap();
            });
        }
        git(&plane, &["checkout", "--quiet", "main"]);
        git(root, &["init", "--quiet", "--bare", "platform.git"]);
        fixture.write("passphrase", "a passphrase for tests\n");
        fixture.write("hook", &format!("{SECRET}\n"));
        fs::set_permissions(root.join("passphrase"), fs::Permissions::from_mode(0o600)).unwrap();
        let bundle = "bundle = { fleet = \"fleet\", passphrase_file = \"passphrase\", out = \"bundles\", \
                      publish = \"published\" }\n";
        fixture.write(
            "serve.toml",
            &format!(
                "state = \"state\"\ncontrol_plane = \"plane\"\ninterval = \"1h\"\nlisten = \"127.0.0.1:0\"\n\
                 webhook_secret_file = \"hook\"\nsources = [\"https://git.example.org/app=app\", \
                 \"https://git.example.org/plane=plane\", \"https://git.example.org/manifests=manifests\"]\n\
                 [[environment]]\nname = \"dev\"\n{bundle}git = {{ to = \"platform.git\" }}\n\
                 [[environment]]\nname = \"stage\"\n{bundle}git = {{ to = \"platform.git\" }}\n"
            ),
        );
        let centre = Self { fixture };
        let made = centre.outhaul("key init --fleet fleet --passphrase-file passphrase");
        assert_eq!(made.0, 0, "{}", made.1);
        // `stage` begins where it is: no gate was asked for its first base.
        let made = centre.outhaul(&format!(
            "promote --control-plane plane --to stage --commit {pin} --override-gate begins --override-by tests \
             --source https://git.example.org/app=app --source https://git.example.org/manifests=manifests"
        ));
        assert_eq!(made.0, 0, "{}", made.1);
        centre
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.fixture.folder.path().join(path)
    }

    fn command(&self, words: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_outhaul"));
        command
            .args(words.split_whitespace())
            .current_dir(self.fixture.folder.path())
            .env("GIT_CONFIG_GLOBAL", "/dev/null");
        command
    }

    pub fn outhaul(&self, words: &str) -> (i32, String) {
        let output = self.command(words).checked().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code().unwrap(), said)
    }

    /// One round of a new process.
    pub fn once(&self) -> (i32, String) {
        self.outhaul("serve --config serve.toml --once")
    }

    pub fn edit(&self, branch: &str, file: &str, from: &str, to: &str) {
        on_branch(&self.path("plane"), branch, |copy| {
            let path = copy.join(file);
            let text = fs::read_to_string(&path).unwrap();
            assert!(text.contains(from), "{text}");
            fs::write(path, text.replace(from, to)).unwrap();
        });
        git(&self.path("plane"), &["checkout", "--quiet", "main"]);
    }

    /// How many bundles there are, and how many commits on each branch.
    fn made(&self) -> (usize, [String; 2]) {
        let bundles = fs::read_dir(self.path("bundles")).unwrap();
        let count = |branch| git(&self.path("platform.git"), &["rev-list", "--count", branch]);
        (bundles.count(), ["dev", "stage"].map(count))
    }

    fn published(&self, branch: &str) -> String {
        let file = format!("{branch}:drone/hello-{branch}/platform-config.yaml");
        git(&self.path("platform.git"), &["show", &file])
    }
}

fn counts(bundles: usize, dev: &str, stage: &str) -> (usize, [String; 2]) {
    (bundles, [dev.to_owned(), stage.to_owned()])
}

#[test]
fn a_round_does_what_changed_and_a_restart_does_nothing_twice() {
    let centre = Centre::new();
    let (code, said) = centre.once();
    assert_eq!(code, 0, "{said}");
    assert!(
        said.contains("dev: drone: number 1, 1 assignment"),
        "{said}"
    );
    assert!(
        said.contains("stage: branch `stage` of platform.git"),
        "{said}"
    );
    assert_eq!(centre.made(), counts(2, "1", "1"));
    assert!(centre.path("published").is_dir());

    let (code, said) = centre.once();
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("dev: up to date with snapshot"), "{said}");
    assert_eq!(said.lines().count(), 2, "{said}");
    assert_eq!(centre.made(), counts(2, "1", "1"));

    centre.edit("dev", "config.yaml", "East US", "Far East");
    let (code, said) = centre.once();
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("dev: drone: number 2"), "{said}");
    assert!(said.contains("stage: up to date"), "{said}");
    assert_eq!(centre.made(), counts(3, "2", "1"));
    assert!(centre.published("dev").contains("Far East"));

    // A payload is not a part of the snapshot, and is shipped all the same.
    centre
        .fixture
        .write("manifests/deployment.yaml", "kind: Deployment\n# more\n");
    assert_eq!(centre.once().0, 0);
    assert_eq!(centre.made(), counts(5, "2", "1"));

    // A revocation does not wait for a change of something else.
    centre.outhaul(
        "site enrol drone-1 --fleet fleet --environment stage --cluster-type drone --out drone-1.kit",
    );
    assert_eq!(centre.once().0, 0);
    assert_eq!(centre.made(), counts(5, "2", "1"));
    let (code, said) = centre.outhaul("site revoke drone-1 --fleet fleet");
    assert_eq!(code, 0, "{said}");
    let (code, said) = centre.once();
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("stage: drone: number 3"), "{said}");
    assert_eq!(centre.made(), counts(6, "2", "1"));

    // Without its memory it looks at everything, and still does nothing twice.
    fs::remove_file(centre.path("state/serve.json")).unwrap();
    let (code, said) = centre.once();
    assert_eq!(code, 0, "{said}");
    assert_eq!(centre.made(), counts(6, "2", "1"));
}

#[test]
fn an_image_that_no_bundle_brings_is_named_with_each_new_bundle() {
    let centre = Centre::new();
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n    - name: a\n      image: \
               registry.example.org/a:1\n";
    centre.fixture.write("manifests/deployment.yaml", pod);
    let named = "no bundle brings the image `registry.example.org/a:1` to the sites of `drone`";
    let (code, said) = centre.once();
    assert_eq!(code, 0, "{said}");
    assert!(said.contains(named), "{said}");
    // Nothing is made, and nothing is said again.
    let (code, said) = centre.once();
    assert_eq!(code, 0, "{said}");
    assert!(!said.contains(named), "{said}");
}

#[test]
fn what_is_broken_keeps_its_last_good_state_and_the_others_go_on() {
    let centre = Centre::new();
    assert_eq!(centre.once().0, 0);
    let good = centre.published("dev");
    // A value that a template of `dev` needs is gone; `stage` changes.
    centre.edit(
        "dev",
        "config.yaml",
        "  REGION: East US",
        "  OTHER: East US",
    );
    centre.edit("stage", "config.yaml", "East US", "Far East");
    let (code, said) = centre.once();
    assert_eq!(code, 1, "{said}");
    assert!(
        said.contains("kept: drone/hello-dev stays as snapshot"),
        "{said}"
    );
    assert_eq!(centre.published("dev"), good);
    assert!(centre.published("stage").contains("Far East"));
    // It stays wrong, and nothing more is made of it.
    let made = centre.made();
    let (code, said) = centre.once();
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("kept: drone/hello-dev"), "{said}");
    assert_eq!(centre.made(), made);

    // A control plane that cannot be read at all.
    centre.edit("dev", "config.yaml", "kind: ConfigMap", "kind: [ConfigMap");
    centre.edit("stage", "config.yaml", "Far East", "West");
    let (code, said) = centre.once();
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("config.yaml:"), "{said}");
    assert_eq!(centre.published("dev"), good);
    assert!(centre.published("stage").contains("West"));
    let state = fs::read(centre.path("state/serve.json")).unwrap();
    let state: Value = serde_json::from_slice(&state).unwrap();
    let dev = &state["environments"]["dev"];
    assert!(
        dev["trouble"]["text"]
            .as_str()
            .unwrap()
            .contains("config.yaml")
    );
    assert!(dev["done"]["snapshot"].is_string(), "{dev}");

    // Mended.
    centre.edit("dev", "config.yaml", "kind: [ConfigMap", "kind: ConfigMap");
    centre.edit("dev", "config.yaml", "  OTHER: East US", "  REGION: North");
    let (code, said) = centre.once();
    assert_eq!(code, 0, "{said}");
    assert!(centre.published("dev").contains("North"));
}

#[test]
fn what_cannot_be_reached_is_another_exit_code_and_an_unknown_word_has_its_place() {
    let centre = Centre::new();
    centre.fixture.edit(
        "serve.toml",
        "control_plane = \"plane\"",
        "control_plane = \"file:///nowhere/plane.git\"",
    );
    let (code, said) = centre.once();
    assert_eq!(code, 3, "{said}");
    centre.fixture.edit("serve.toml", "interval", "intervall");
    let (code, said) = centre.once();
    assert_eq!(code, 2, "{said}");
    assert!(
        said.contains("serve.toml:3:1: unknown field `intervall`"),
        "{said}"
    );
}

#[test]
fn bundles_go_to_no_folder_that_is_read_and_to_no_stick_that_is_not_there() {
    let centre = Centre::new();
    for (out, words) in [
        ("plane/bundles", "in the control plane"),
        (
            "/mnt/no-such-stick/bundles",
            "see that the stick is mounted",
        ),
    ] {
        let before = fs::read_to_string(centre.path("serve.toml")).unwrap();
        centre.fixture.edit(
            "serve.toml",
            "out = \"bundles\"",
            &format!("out = \"{out}\""),
        );
        let (code, said) = centre.once();
        assert_eq!(code, 1, "{said}");
        assert!(said.contains(words), "{said}");
        assert!(!centre.path(out).exists());
        fs::write(centre.path("serve.toml"), before).unwrap();
    }
}

struct Running {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStderr>>,
    address: String,
}

impl Running {
    fn start(centre: &Centre) -> Self {
        let mut command = centre.command("serve --config serve.toml");
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = lines.find_map(|line| {
            let line = line.unwrap();
            line.strip_prefix("listening on http://").map(str::to_owned)
        });
        Self {
            child,
            lines,
            address: address.unwrap(),
        }
    }

    fn ask(&self, request: &str, headers: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let length = body.len();
        write!(
            stream,
            "{request} HTTP/1.1\r\nhost: here\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (
            head.split(' ').nth(1).unwrap().parse().unwrap(),
            body.to_owned(),
        )
    }

    fn status(&self) -> Value {
        let (code, body) = self.ask("GET /status", "", "");
        assert_eq!(code, 200);
        serde_json::from_str(&body).unwrap()
    }

    /// Asks until that many rounds are over.
    fn after(&self, rounds: u64) -> Value {
        loop {
            let status = self.status();
            if status["rounds"].as_u64().unwrap() >= rounds {
                return status;
            }
            std::thread::yield_now();
        }
    }
}

#[test]
fn the_server_begins_a_round_for_who_knows_the_secret_and_ends_when_asked() {
    let centre = Centre::new();
    let mut running = Running::start(&centre);
    let first = running.after(1);
    assert_eq!(centre.made(), counts(2, "1", "1"));
    assert_eq!(running.ask("GET /healthz", "", "").0, 200);
    let dev = &first["environments"]["dev"];
    assert!(
        dev["last_success"].is_string() && dev["next_run"].is_string(),
        "{dev}"
    );
    assert_eq!(dev["last_error"], Value::Null);

    centre.edit("dev", "config.yaml", "East US", "Far East");
    let wrong = format!(
        "x-hub-signature-256: sha256={}\r\n",
        SIGNATURE.replace('7', "8")
    );
    assert_eq!(running.ask("POST /hook", &wrong, BODY).0, 401);
    assert_eq!(running.ask("POST /hook", "", BODY).0, 401);
    let right = format!("x-hub-signature-256: sha256={SIGNATURE}\r\n");
    assert_eq!(running.ask("POST /hook", &right, BODY).0, 202);
    let second = running.after(2);
    assert_eq!(
        second["rounds"], 2,
        "the wrong ones began no round: {second}"
    );
    let snapshot = |status: &Value| status["environments"]["dev"]["last_snapshot"].clone();
    assert_ne!(snapshot(&first), snapshot(&second));
    assert_eq!(centre.made(), counts(3, "2", "1"));

    let large = "x".repeat(1024 * 1024 + 1);
    assert_eq!(running.ask("POST /hook", &right, &large).0, 413);
    // Another one with the same state would do everything twice.
    let (code, said) = centre.once();
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("runs with `state` already"), "{said}");

    let pid = running.child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-TERM", &pid])
            .status()
            .unwrap()
            .success()
    );
    let status = running.child.wait().unwrap();
    let said: Vec<_> = running.lines.map(Result::unwrap).collect();
    assert_eq!(status.code(), Some(0), "{said:?}");
    assert!(
        said.iter().any(|line| line.starts_with("stopping")),
        "{said:?}"
    );

    // A new process goes on where this one ended.
    let (code, said) = centre.once();
    assert_eq!(code, 0, "{said}");
    assert_eq!(centre.made(), counts(3, "2", "1"));
}

#[test]
fn a_second_signal_ends_the_server_at_once_with_what_it_started() {
    let centre = Centre::new();
    let (hangs, number) = (centre.path("hangs"), centre.path("number"));
    let script = format!("#!/bin/sh\necho $$ >{}\nexec sleep 600\n", number.display());
    fs::write(&hangs, script).unwrap();
    fs::set_permissions(&hangs, fs::Permissions::from_mode(0o755)).unwrap();
    on_branch(&centre.path("plane"), "dev", |copy| {
        let policy = "apiVersion: outhaul.dev/v1alpha1\nkind: SchedulingPolicy\nmetadata: {name: hangs}\nspec:\n  \
                      deploymentTargetSelector: {labelSelector: {matchLabels: {purpose: test}}}\n  \
                      clusterTypeSelector: {labelSelector: {}}\n  scheduler: hangs\n";
        fs::write(copy.join("hangs.yaml"), policy).unwrap();
    });
    let file = centre.path("serve.toml");
    let text = fs::read_to_string(&file).unwrap();
    let named = format!("schedulers = [\"hangs={}\"]\n", hangs.display());
    fs::write(
        &file,
        text.replacen("state = ", &format!("{named}state = "), 1),
    )
    .unwrap();
    let mut running = Running::start(&centre);
    let begun = std::time::Instant::now();
    while !fs::read_to_string(&number).is_ok_and(|text| text.ends_with('\n')) {
        assert!(
            begun.elapsed().as_secs() < 60,
            "the scheduler was never asked"
        );
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let pid = running.child.id().to_string();
    let terminate = || {
        let mut kill = Command::new("kill");
        assert!(kill.args(["-TERM", &pid]).status().unwrap().success());
    };
    terminate();
    let first = running.lines.by_ref().map(Result::unwrap);
    let said = first
        .take_while(|line| !line.starts_with("stopping after"))
        .count();
    assert!(
        running.child.try_wait().unwrap().is_none(),
        "{said} lines before"
    );
    terminate();
    let status = running.child.wait().unwrap();
    assert_eq!(status.code(), Some(143));
    assert!(begun.elapsed().as_secs() < 60);
    let number = fs::read_to_string(number).unwrap();
    let command = format!("/proc/{}/cmdline", number.trim());
    // It was killed; when it is gone is up to the machine.
    while fs::read_to_string(&command).is_ok_and(|text| !text.is_empty()) {
        assert!(
            begun.elapsed().as_secs() < 60,
            "the scheduler is still at work"
        );
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}
