//! `outhaul promote` where the promotion policy asks for a check, which a hook of the step states.
//!
//! What comes in: a control plane that `outhaul init` wrote, a real hub and a real site of `dev` that runs the commit. What must come out: no
//! move without the outcome on record, one with it, the outcome at the hub under the name of the token, and decisions that are recomputed.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use outhaul_tests::{Ran, program, result, run_expecting};

use super::system::{Hub, SystemFixture};

const PLANE: &str = "control-plane";
const POLICY: &str = "apiVersion: outhaul.dev/v1alpha1\nkind: PromotionPolicy\nmetadata: {name: to-stage}\nspec:\n  from: dev\n  to: stage\n  \
     checks:\n    - {name: scan, by: [centre]}\n  hooks:\n    before:\n      - {name: scan}\n";

struct Centre {
    fixture: SystemFixture,
    hub: Hub,
}

impl Centre {
    fn new() -> Self {
        let fixture = SystemFixture::new();
        let init = ["init", PLANE, "--environments", "dev,stage"];
        fixture.run("outhaul", 0, &init);
        fixture.fleet();
        fixture.on_branch(PLANE, "main", |folder| {
            fs::write(folder.join(".environments/policy.yaml"), POLICY).unwrap();
        });
        let hub = fixture.serve_closed();
        let promote = ["promote", "--control-plane", PLANE, "--to", "dev"];
        fixture.run("outhaul", 0, &promote);
        fixture.site("edge-1", "dev", "edge");
        fixture.bundle("dev");
        fixture.carry("edge-1");
        fixture.home("edge-1");
        Self { fixture, hub }
    }

    /// The file with a token of these scopes.
    fn token(&self, name: &str, scopes: &[&str]) -> String {
        let mut create = vec![
            "token", "create", name, "--state", "hub", "--output", "json",
        ];
        create.extend(scopes.iter().flat_map(|scope| ["--scope", *scope]));
        let made = self.fixture.run("outhaul-hub", 0, &create);
        let file = self.fixture.path(&format!("{name}.token"));
        fs::write(&file, result(&made.stdout)["token"].as_str().unwrap()).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        file.to_str().unwrap().to_owned()
    }

    /// A program of the hook that ends with this code.
    fn scanner(&self, code: u8) {
        let file = self.fixture.path("scan.sh");
        let text = format!(
            "#!/bin/sh\ncat > /dev/null\necho scanned >> scans\necho '3 images scanned' >&2\necho '3 images scanned'\nexit {code}\n"
        );
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn to_stage(&self, code: i32, token: &str, more: &[&str]) -> Ran {
        let mut command = self.fixture.command(&program("outhaul").unwrap());
        let promote = ["promote", "--control-plane", PLANE, "--to", "stage"];
        let hook = format!("scan={}", self.fixture.path("scan.sh").display());
        command
            .args(promote)
            .args(["--hub", &self.hub.url, "--hook", &hook]);
        command.args(more).env("OUTHAUL_HUB_TOKEN_FILE", token);
        run_expecting(&mut command, code).unwrap()
    }

    fn stage(&self) -> String {
        self.fixture.git(PLANE, &["rev-parse", "stage"])
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.fixture.path(name)
    }

    /// How often the hook was run.
    fn scans(&self) -> usize {
        let scans = fs::read_to_string(self.path("scans")).unwrap();
        scans.lines().count()
    }

    /// The outcomes on record, as the hub lists them.
    fn outcomes(&self) -> String {
        let list = ["--state", "hub", "approvals", "--all"];
        self.fixture.run("outhaul-hub", 0, &list).stdout
    }
}

#[test]
fn a_check_that_a_hook_of_the_step_states_opens_the_gate_and_is_on_record() {
    let made = Centre::new();
    let stage = made.stage();
    let centre = made.token("centre", &["record", "check"]);
    made.scanner(0);
    // A token of scope `check` alone asks no gate: nothing is run.
    let check = made.token("checker", &["check"]);
    let seen = made.to_stage(2, &check, &[]).stderr;
    assert!(
        seen.contains("this token may not read")
            && seen.contains("create NAME --scope record --scope check"),
        "{seen}"
    );
    assert!(!made.path("scans").exists());
    // One that may ask and not state: nobody stated it.
    let asks = made.token("asker", &["record"]);
    let seen = made.to_stage(2, &asks, &[]).stderr;
    for words in [
        "hook `scan` passed (3 images scanned), and its outcome was not put on record at the hub",
        "`--scope record --scope check`",
        "`stage` stays where it is",
        "needs the scopes `record` and `check`",
    ] {
        assert!(seen.contains(words), "{words}: {seen}");
    }
    assert_eq!(made.stage(), stage);
    assert!(!made.outcomes().contains("scan"), "{}", made.outcomes());
    // One that failed is on record, and keeps it.
    made.scanner(3);
    let seen = made.to_stage(1, &centre, &[]).stderr;
    assert!(
        seen.contains("hook `scan` failed")
            && seen.contains("; that outcome is on record at the hub; `stage` stays"),
        "{seen}"
    );
    assert_eq!(made.stage(), stage);
    let listed = made.outcomes();
    assert!(
        listed.contains("scan") && listed.contains("failed"),
        "{listed}"
    );
    // Of another token than the policy names it is on record, and does not count.
    made.scanner(0);
    let other = made.token("other", &["record", "check"]);
    let seen = made.to_stage(1, &other, &[]).stderr;
    assert!(
        seen.contains("of hook `scan` it is on record that it passed for this commit"),
        "{seen}"
    );
    assert_eq!(made.stage(), stage);
    // One that passed opens the gate, and was run once for it.
    fs::remove_file(made.path("scans")).unwrap();
    let seen = made.to_stage(0, &centre, &[]).stderr;
    assert!(
        seen.contains("`stage` moved to") && seen.contains("hook `scan` (before): passed"),
        "{seen}"
    );
    assert_eq!(made.scans(), 1);
    assert_ne!(made.stage(), stage);
    let listed = made.outcomes();
    assert!(
        listed.contains("passed") && listed.contains("centre"),
        "{listed}"
    );
    let message = made
        .fixture
        .git(PLANE, &["log", "-1", "--format=%B", "stage"]);
    assert!(
        message.contains("- edge-1: report ") && message.contains("- hook `scan` (before): passed"),
        "{message}"
    );
    // Back is refused before anything is run or stated for that commit.
    let stage = made.stage();
    let older = made.fixture.git(PLANE, &["rev-parse", "main~1"]);
    let outcomes = made.outcomes();
    let seen = made
        .to_stage(1, &centre, &["--commit", older.trim()])
        .stderr;
    assert!(seen.contains("this would promote backwards"), "{seen}");
    assert_eq!(made.scans(), 1);
    assert_eq!((made.stage(), made.outcomes()), (stage, outcomes));
}

#[test]
fn where_a_later_hook_cannot_be_started_the_outcome_of_an_earlier_one_is_on_record() {
    let made = Centre::new();
    made.fixture.on_branch(PLANE, "main", |folder| {
        let policy = format!("{POLICY}      - {{name: smoke}}\n");
        fs::write(folder.join(".environments/policy.yaml"), policy).unwrap();
    });
    let stage = made.stage();
    let centre = made.token("centre", &["record", "check"]);
    made.scanner(0);
    let smoke = ["--hook", "smoke=/nonexist"];
    let seen = made.to_stage(2, &centre, &smoke).stderr;
    for words in [
        "hook `smoke` was not run",
        "no outcome of this hook was put on record",
    ] {
        assert!(seen.contains(words), "{words}: {seen}");
    }
    let listed = made.outcomes();
    assert!(
        listed.contains("scan") && listed.contains("passed") && !listed.contains("smoke"),
        "{listed}"
    );
    assert_eq!(made.stage(), stage);
}
