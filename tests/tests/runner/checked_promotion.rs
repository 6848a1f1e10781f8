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
    token: String,
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
        let hub = fixture.serve();
        let promote = ["promote", "--control-plane", PLANE, "--to", "dev"];
        fixture.run("outhaul", 0, &promote);
        fixture.site("edge-1", "dev", "edge");
        fixture.bundle("dev");
        fixture.carry("edge-1");
        fixture.home("edge-1");
        let create = [
            "token", "create", "centre", "--scope", "check", "--state", "hub", "--output", "json",
        ];
        let made = fixture.run("outhaul-hub", 0, &create);
        let file = fixture.path("centre.token");
        fs::write(&file, result(&made.stdout)["token"].as_str().unwrap()).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        let token = file.to_str().unwrap().to_owned();
        Self {
            fixture,
            hub,
            token,
        }
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

    fn to_stage(&self, code: i32, has_token: bool) -> Ran {
        let mut command = self.fixture.command(&program("outhaul").unwrap());
        let promote = ["promote", "--control-plane", PLANE, "--to", "stage"];
        let hook = format!("scan={}", self.fixture.path("scan.sh").display());
        command
            .args(promote)
            .args(["--hub", &self.hub.url, "--hook", &hook]);
        if has_token {
            command.env("OUTHAUL_HUB_TOKEN_FILE", &self.token);
        }
        run_expecting(&mut command, code).unwrap()
    }

    fn stage(&self) -> String {
        self.fixture.git(PLANE, &["rev-parse", "stage"])
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
    // Without a token nobody stated it.
    made.scanner(0);
    let seen = made.to_stage(2, false).stderr;
    for words in [
        "hook `scan` passed, and its outcome was not put on record at the hub",
        "token of scope `check`",
        "`stage` stays where it is",
    ] {
        assert!(seen.contains(words), "{words}: {seen}");
    }
    assert_eq!(made.stage(), stage);
    assert!(!made.outcomes().contains("scan"), "{}", made.outcomes());
    // One that failed is on record, and keeps it.
    made.scanner(3);
    let seen = made.to_stage(1, true).stderr;
    assert!(seen.contains("hook `scan` failed"), "{seen}");
    assert_eq!(made.stage(), stage);
    let listed = made.outcomes();
    assert!(
        listed.contains("scan") && listed.contains("failed"),
        "{listed}"
    );
    // One that passed opens the gate, and was run once for it.
    made.scanner(0);
    fs::remove_file(made.fixture.path("scans")).unwrap();
    let seen = made.to_stage(0, true).stderr;
    assert!(
        seen.contains("`stage` moved to") && seen.contains("hook `scan` (before): passed"),
        "{seen}"
    );
    let scans = fs::read_to_string(made.fixture.path("scans")).unwrap();
    assert_eq!(scans.lines().count(), 1);
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
}
