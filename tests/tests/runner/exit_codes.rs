//! Every situation of the table of exit codes in `docs/command-line.md`, with the real programs.
//!
//! What comes in: the table. What must come out: the code of the row. A situation that is not driven here
//! fails the test, and so does one that is driven here and stands in no row.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use outhaul_test_kit::folder;
use outhaul_tests::{Ran, program, run, workspace_root};

use super::system::SystemFixture;

/// Code and situation of each row.
fn situations() -> Vec<(i32, String)> {
    let page = fs::read_to_string(workspace_root().join("docs/command-line.md")).unwrap();
    let table = page.split("## Exit codes").nth(1).unwrap();
    let rows = table
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| code"));
    let mut found = Vec::new();
    for row in rows.filter(|row| !row.starts_with("| ---")) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let code = cells[0].split(',').next().unwrap().parse().unwrap();
        found.extend(
            cells[2]
                .split("; ")
                .map(|situation| (code, situation.to_owned())),
        );
    }
    found
}

const PLANE: &str = "--environment dev --control-plane control-plane";

struct World(SystemFixture);

impl World {
    fn new() -> Self {
        let fixture = SystemFixture::new();
        fixture.run(
            "outhaul",
            0,
            &["init", "control-plane", "--environments", "dev"],
        );
        fixture.fleet();
        for site in ["edge-1", "edge-2"] {
            fixture.site(site, "dev", "edge");
        }
        fixture.bundle("dev");
        let world = Self(fixture);
        world.copy("control-plane", "broken");
        world.0.on_branch("broken", "dev", |folder| {
            fs::write(folder.join("cluster-types/x.yaml"), "kind: [").unwrap();
        });
        world
            .0
            .git("control-plane", &["branch", "--quiet", "changed", "dev"]);
        world.0.on_branch("control-plane", "changed", |folder| {
            let config = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: extra\n  labels:\n    \
                          platform-config: \"true\"\ndata:\n  EXTRA: \"1\"\n";
            fs::write(folder.join("configs/extra.yaml"), config).unwrap();
        });
        fs::create_dir(world.0.path("empty")).unwrap();
        fs::write(world.0.path("file"), "").unwrap();
        fs::create_dir(world.0.path("changed")).unwrap();
        fs::write(world.0.path("changed/dev-edge-1.outhaul"), world.changed()).unwrap();
        fs::write(world.0.path("wrong"), "another passphrase of the tests\n").unwrap();
        let private = fs::Permissions::from_mode(0o600);
        fs::set_permissions(world.0.path("wrong"), private).unwrap();
        world
    }

    /// A bundle in which one digit of a signature is another one.
    fn changed(&self) -> Vec<u8> {
        let mut bytes = fs::read(self.0.path("stick/dev-edge-1.outhaul")).unwrap();
        let mark = b"\"sig\":\"";
        let at = bytes
            .windows(mark.len())
            .position(|part| part == mark)
            .unwrap()
            + mark.len();
        bytes[at] = if bytes[at] == b'0' { b'1' } else { b'0' };
        bytes
    }

    fn copy(&self, from: &str, to: &str) {
        folder::copy(&self.0.path(from), &self.0.path(to));
    }

    fn typed(&self, name: &str, line: &str) -> Ran {
        let mut command = self.0.command(&program(name).unwrap());
        run(command.args(line.split_whitespace())).unwrap()
    }

    fn agent(&self, site: &str, line: &str) -> Ran {
        self.typed("outhaul-agent", &format!("--state sites/{site} {line}"))
    }

    fn hub(&self, line: &str) -> Ran {
        self.typed("outhaul-hub", &format!("--state hub {line}"))
    }

    fn signer(&self, line: &str) -> Ran {
        self.typed(
            "outhaul-signer",
            &format!("--passphrase-file passphrase {line}"),
        )
    }

    fn gate(&self, commit: &str) -> Ran {
        self.hub(&format!("gate --environment dev --commit {commit}"))
    }

    fn drive(&self, situation: &str) -> Ran {
        match situation {
            "`outhaul check` has no finding" => self.typed("outhaul", &format!("check {PLANE}")),
            "`outhaul diff` finds no difference" => {
                self.typed("outhaul", "diff dev dev --control-plane control-plane")
            }
            "`outhaul-agent import` takes a bundle" => self.agent("edge-1", "import stick"),
            "a bundle waits for approval" => {
                let config = self.0.path("sites/edge-2/agent.toml");
                fs::write(&config, "approval = \"always\"\n").unwrap();
                self.agent("edge-2", "import stick")
            }
            "`outhaul-agent plan` says what an import would do" => {
                self.agent("edge-2", "plan stick")
            }
            "`outhaul-hub gate` is open" => {
                self.agent("edge-1", "export stick");
                self.hub("import stick");
                self.hub("site revoke edge-2");
                self.gate(&self.0.git("control-plane", &["rev-parse", "main"]))
            }
            "`outhaul-signer status`" => self.signer("status fleet"),
            "`outhaul check` finds an error" => {
                self.typed("outhaul", "check --environment dev --control-plane broken")
            }
            "`outhaul diff` finds a difference" => self.typed(
                "outhaul",
                "diff dev changed --environment dev --control-plane control-plane",
            ),
            "`outhaul-agent import` finds nothing for this site" => {
                self.agent("edge-1", "import empty")
            }
            "`outhaul-agent rollback` has no bundle to go back to" => {
                self.agent("edge-1", "rollback")
            }
            "`outhaul-hub gate` is closed" => self.gate(&"0".repeat(40)),
            "`outhaul-signer` waits for another signature" => {
                self.signer("init other");
                self.signer("key vault");
                self.signer("root other add-key vault.pub");
                self.signer("root other threshold 2")
            }
            "an option that does not exist" => self.typed("outhaul-signer", "--no-such-option"),
            "a control plane that does not load" => self.typed(
                "outhaul",
                "render --environment dev --control-plane broken --out out",
            ),
            "`outhaul-agent` on a machine that is not enrolled" => self.agent("nowhere", "status"),
            "a wrong line in `agent.toml`" => {
                let config = self.0.path("sites/edge-2/agent.toml");
                fs::write(&config, "no_such_setting = 1\n").unwrap();
                let ran = self.agent("edge-2", "status");
                fs::remove_file(config).unwrap();
                ran
            }
            "`outhaul-hub` without a hub in its folder" => {
                self.typed("outhaul-hub", "--state nowhere sites")
            }
            "`outhaul-signer` without a fleet in its folder" => self.signer("status empty"),
            "`outhaul render` into a folder that cannot be written" => {
                self.typed("outhaul", &format!("render {PLANE} --out file/below"))
            }
            "`outhaul-agent import` of a path that is missing" => {
                self.agent("edge-1", "import missing")
            }
            "`outhaul-signer` with a missing key file" => {
                self.signer("countersign missing --root fleet/metadata/1.root.json --key missing")
            }
            "standard output on a full disk" => {
                let full = File::options().write(true).open("/dev/full").unwrap();
                let mut command = self.0.command(&program("outhaul").unwrap());
                let output = command.arg("schema").stdout(full).stderr(Stdio::piped());
                run_with(output)
            }
            "`outhaul-agent import` of a changed bundle" => self.agent("edge-1", "import changed"),
            "`outhaul-agent plan` of a changed bundle" => self.agent("edge-1", "plan changed"),
            "`outhaul-hub import` of a changed bundle" => {
                self.hub("import changed/dev-edge-1.outhaul --no-acks")
            }
            "`outhaul-signer` with a wrong passphrase" => self.typed(
                "outhaul-signer",
                "--passphrase-file wrong rotate fleet online",
            ),
            "`outhaul-agent` finds a value in its database that no agent wrote" => {
                self.copy("sites/edge-1", "sites/edge-3");
                let database = self.0.path("sites/edge-3/agent.db");
                let database = rusqlite::Connection::open(database).unwrap();
                let changed =
                    database.execute("UPDATE meta SET value = '{' WHERE name = 'site'", []);
                assert_eq!(changed.unwrap(), 1);
                drop(database);
                self.agent("edge-3", "status")
            }
            "`outhaul render` that is interrupted" => {
                let mut command = self.0.command(&program("outhaul").unwrap());
                let line = format!("render {PLANE} --out interrupted");
                command.args(line.split(' ')).env("OUTHAUL_INTERRUPT", "1");
                run(&mut command).unwrap()
            }
            other => panic!("no test drives a program into this situation: {other}"),
        }
    }
}

fn run_with(command: &mut std::process::Command) -> Ran {
    let output = command.spawn().unwrap().wait_with_output().unwrap();
    Ran {
        code: output.status.code(),
        stdout: String::new(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

#[test]
fn every_situation_of_the_table_ends_with_its_code() {
    let world = World::new();
    let situations = situations();
    assert!(situations.len() > 25, "{situations:?}");
    for (code, situation) in situations {
        let ran = world.drive(&situation);
        assert_eq!(ran.code, Some(code), "{situation}\n{}", ran.everything());
    }
}
