//! What the programs say that they left alone, in the situations that no story comes to: the sentence, the exit
//! code, and the whole state before and after.
//!
//! What comes in: a fleet with its control plane, hub and sites, as the programs made them, and a line that
//! someone types. What must come out: what the row says, and nothing changed (`outhaul_tests::run_compared`
//! compares it, and fails when nothing was compared). `tests/left-alone.txt` names these tests.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use outhaul_tests::{Ran, program, run_compared};

use super::system::SystemFixture;

mod approvals;
mod centre;
mod hub;
mod site;

/// A line that is typed: program, arguments, exit code, and what must be said.
type Row<'a> = (&'a str, &'a str, i32, &'a str);

const PLANE: &str = "--environment dev --control-plane control-plane";
const KEYS: &str = "--fleet fleet --passphrase-file passphrase";

struct World(SystemFixture);

impl World {
    /// A control plane with `dev` and `stage`, a fleet and a hub.
    fn new() -> Self {
        let fixture = SystemFixture::new();
        let init = ["init", "control-plane", "--environments", "dev,stage"];
        fixture.run("outhaul", 0, &init);
        fixture.fleet();
        Self(fixture)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
    }

    /// Does what changes something.
    #[track_caller]
    fn typed(&self, name: &str, line: &str) -> Ran {
        let words: Vec<&str> = line.split_whitespace().collect();
        self.0.run(name, 0, &words)
    }

    /// Types a line in a folder of the scene, and compares.
    #[track_caller]
    fn left_alone_in(&self, folder: &str, (name, line, code, says): Row<'_>) {
        let mut command = self.0.command(&program(name).unwrap());
        command.current_dir(self.path(folder));
        command.args(line.split_whitespace());
        if let Err(error) = run_compared(&mut command, code, &[says]) {
            panic!("{error}");
        }
    }

    #[track_caller]
    fn left_alone(&self, row: Row<'_>) {
        self.left_alone_in(".", row);
    }

    /// A machine that was enrolled with a kit: its request and the fingerprint of its key.
    fn machine(&self, state: &str, kit: &str) -> (String, String) {
        fs::create_dir_all(self.path(state).parent().unwrap()).unwrap();
        let line = format!("--state {state} --output json enrol {kit}");
        let reported = outhaul_tests::result(&self.typed("outhaul-agent", &line).stdout);
        let text = |key: &str| reported[key].as_str().unwrap().to_owned();
        (text("request"), text("fingerprint"))
    }

    /// A kit for a site of `dev/edge`.
    fn kit(&self, site: &str, fleet: &str) -> String {
        let kit = format!("{site}-of-{fleet}.kit");
        let line = format!(
            "site enrol {site} --fleet {fleet} {PLANE} --cluster-type edge --out {kit} --again"
        );
        self.typed("outhaul", &line);
        kit
    }
}
