//! `outhaul import kalypso`: what an existing installation would become, and why.
//!
//! What comes in: recorded pairs of control plane and platform repository, and small made-up ones in
//! which something is torn, foreign, left over or defective. What must come out: the verdict of each
//! folder, the number of its defect, the commit that it came from, and the exit code.

use std::fs;

use serde_json::Value;

use super::defects::{ASSIGNMENT, DefectFixture, Seen, base_repo, config};
use super::kalypso;
use super::repositories::{commit, git};

#[test]
fn every_recorded_pair_is_equal_folder_by_folder() {
    let Some(kalypso) = kalypso::folder() else {
        return;
    };
    let replay = kalypso.join("replay");
    let text = fs::read_to_string(replay.join("pairs.json")).unwrap();
    let pairs: Vec<Value> = serde_json::from_str(&text).unwrap();
    for pair in &pairs {
        let tree = |value: &Value| replay.join(value.as_str().unwrap()).display().to_string();
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_outhaul"));
        command.args(["import", "kalypso", "--output", "json"]);
        command.args(["--environment", pair["environment"].as_str().unwrap()]);
        command.args(["--env-dir", &tree(&pair["environment_tree"])]);
        command.args(["--base-dir", &tree(&pair["base_tree"])]);
        command.args(["--base-commit", pair["base_commit"].as_str().unwrap()]);
        command.args(["--gitops", &tree(&pair["expected_tree"])]);
        for workload in pair["workloads"].as_array().unwrap() {
            let source = format!(
                "{}={}",
                workload["repo"].as_str().unwrap(),
                tree(&workload["tree"])
            );
            command.args(["--source", &source]);
        }
        let message = super::defects::seen(&mut command).ok();
        let message = outhaul_tests::result(&message.stdout);
        let folders = message["environments"][0]["folders"].as_array().unwrap();
        assert!(!folders.is_empty(), "{pair}");
        let other = folders.iter().find(|folder| folder["verdict"] != "equal");
        assert!(other.is_none(), "{pair}: {other:?}");
    }
}

/// A scene with its repositories, and a platform repository as Kalypso writes it.
struct Installed {
    fixture: DefectFixture,
}

impl Installed {
    fn new(fixture: DefectFixture) -> Self {
        fixture.repositories();
        let made = Self { fixture };
        made.kalypso_renders();
        made
    }

    /// What Kalypso does: its bytes of the present commits, in the branch `dev`.
    fn kalypso_renders(&self) {
        let rendered = self
            .fixture
            .run_repositories(&["render", "--compat", "--out", "platform"]);
        assert!(matches!(rendered.code, 0 | 1), "{}", rendered.stderr);
        let platform = self.fixture.path("platform");
        if !platform.join(".git").exists() {
            git(&platform, &["init", "--quiet", "--initial-branch=dev"]);
        }
        commit(&platform, "Kalypso Scheduler commit");
    }

    /// Moves `main` on and pins `dev` to it.
    fn promote(&self, change: impl FnOnce(&std::path::Path)) -> String {
        let made = self.fixture.change("main", change);
        self.fixture.change("dev", |folder| {
            fs::write(folder.join("base-repo.yaml"), base_repo(&made)).unwrap();
        });
        made
    }

    /// Someone changes the platform repository by hand.
    fn by_hand(&self, path: &str, text: &str) {
        let platform = self.fixture.path("platform");
        self.fixture.write(&format!("platform/{path}"), text);
        if !platform.join(".git").exists() {
            git(&platform, &["init", "--quiet", "--initial-branch=dev"]);
        }
        commit(&self.fixture.path("platform"), "by hand");
    }

    fn import(&self, more: &[&str]) -> Seen {
        let words = [
            "import",
            "kalypso",
            "--control-plane",
            "control-plane",
            "--gitops",
            "platform",
        ];
        self.fixture
            .type_in(&[&words[..], &["--cache", "cache"], more].concat())
    }

    /// What was found of one folder.
    #[track_caller]
    fn folder(&self, path: &str, code: i32) -> Value {
        let message = self.import(&["--output", "json"]);
        assert_eq!(message.code, code, "{}{}", message.stdout, message.stderr);
        let message = outhaul_tests::result(&message.stdout);
        let folders = message["environments"][0]["folders"].as_array().unwrap();
        let found = folders.iter().find(|folder| folder["path"] == path);
        found.unwrap_or_else(|| panic!("{path}: {message}")).clone()
    }
}

fn reason(folder: &Value) -> String {
    folder["reasons"].to_string()
}

#[test]
fn an_equal_installation_needs_no_switch() {
    let installed = Installed::new(DefectFixture::new());
    let message = installed.import(&[]).ok().stdout;
    assert!(
        message.contains("  equal        drone/hello-test\n"),
        "{message}"
    );
    assert!(message.contains("2 folders: 2 equal\n"), "{message}");
    assert!(
        message.contains("takes over without an option"),
        "{message}"
    );
}

#[test]
fn a_torn_render_names_the_commit_that_its_content_is_of() {
    let installed = Installed::new(DefectFixture::new());
    let first = git(
        &installed.fixture.path("control-plane"),
        &["rev-parse", "main"],
    );
    let edit = |folder: &std::path::Path, from: &str, to: &str| {
        let path = folder.join("templates.yaml");
        fs::write(&path, fs::read_to_string(&path).unwrap().replace(from, to)).unwrap();
    };
    let next = installed.promote(|folder| edit(folder, "repository:", "source:"));
    // Kalypso records the new commit and leaves the content of the one before.
    installed.by_hand(".github/tracking/Promoted_Commit_Id", &next);
    let folder = installed.folder(ASSIGNMENT, 0);
    assert_eq!(
        (&folder["verdict"], &folder["commit"]),
        (&"torn".into(), &first.clone().into())
    );
    assert_eq!(
        folder["reasons"][0],
        format!(
            "its recorded commit is {}, its content is that of {}",
            &next[..8],
            &first[..8]
        )
    );
    assert_eq!(
        folder["diff"][1],
        "- repository: https://git.example.org/manifests"
    );
    // Had it recorded the commit that it is of, it would only be older.
    installed.by_hand(".github/tracking/Promoted_Commit_Id", &first);
    assert_eq!(installed.folder(ASSIGNMENT, 0)["verdict"], "older");
    // Looking nowhere, nothing is found.
    installed.by_hand(".github/tracking/Promoted_Commit_Id", &next);
    installed
        .import(&["--history", "0"])
        .refused(1, "unexplained  drone/hello-test");
}

#[test]
fn what_is_of_an_earlier_environment_is_older() {
    let installed = Installed::new(DefectFixture::new());
    let before = git(
        &installed.fixture.path("control-plane"),
        &["rev-parse", "dev"],
    );
    installed.fixture.change("dev", |folder| {
        fs::write(
            folder.join("more.yaml"),
            config("more", "", "  MORE: \"1\"\n"),
        )
        .unwrap();
    });
    let folder = installed.folder(ASSIGNMENT, 0);
    assert_eq!(
        (&folder["verdict"], &folder["commit"]),
        (&"older".into(), &before.into())
    );
}

#[test]
fn files_of_others_and_files_left_over_are_distinguished() {
    let installed = Installed::new(DefectFixture::new());
    installed.by_hand("docs/page.md", "mine");
    installed.by_hand("drone/notes/today.txt", "mine");
    installed.by_hand(".github/workflows/ci.yaml", "on: push");
    installed.by_hand(&format!("{ASSIGNMENT}/platform-config.configMap"), "old");
    for path in ["docs", "drone/notes", ".github"] {
        assert_eq!(installed.folder(path, 0)["verdict"], "foreign", "{path}");
    }
    let folder = installed.folder(ASSIGNMENT, 0);
    assert_eq!(
        (&folder["verdict"], &folder["defects"]),
        (&"differs".into(), &Value::from(vec![14]))
    );
}

#[test]
fn what_nobody_explains_is_shown_and_fails() {
    let installed = Installed::new(DefectFixture::new());
    installed.by_hand(
        &format!("{ASSIGNMENT}/namespace.yaml"),
        "namespace: by-hand\n",
    );
    installed.by_hand("drone/gone-test/reconciler.yaml", "a: 1\n");
    let message = installed
        .import(&[])
        .refused(1, "unexplained  drone/gone-test")
        .stdout;
    assert!(message.contains("- namespace: by-hand\n"), "{message}");
    assert!(
        message.contains("+ namespace: dev-drone-hello-test\n"),
        "{message}"
    );
    assert!(message.contains("2 without a reason"), "{message}");
}

#[test]
fn a_defect_is_named_by_its_trace() {
    type Case = (u8, &'static str, fn(&DefectFixture));
    let cases: [Case; 8] = [
        (5, "`R`", |fixture| {
            fixture.config_template("{{ toYaml .ConfigData }}");
            fixture.write(
                "dev/config.yaml",
                &config("a", "", "  R: \"[{p: 1}, {p: 2}]\"\n"),
            );
            fixture.write("dev/more.yaml", &config("b", "", "  R: \"[{h: 1}]\"\n"));
        }),
        (7, "`HOSTS`", |fixture| {
            fixture.data("  HOSTS: \"[a, b]\"\n");
        }),
        (8, "`Q`", |fixture| fixture.data("  Q: \"''x''\"\n")),
        (9, "`EXTRA` is set by `extra`", |fixture| {
            fixture.write(
                "dev/more.yaml",
                &config("extra", "tier: \"\"", "  EXTRA: \"1\"\n"),
            );
        }),
        (12, "`reconciler.yaml` holds `<no value>`", |fixture| {
            fixture.edit("main/templates.yaml", ".Manifests.repo", ".Manifests.path");
        }),
        (13, "`namespace.yaml`", |fixture| {
            let manifests =
                "    - |\n      namespace: {{ .Namespace }}\n      workspace: {{ .Workspace }}\n";
            fixture.edit(
                "main/templates.yaml",
                manifests,
                "    - 'a: 1'\n    - 'b: 2'\n",
            );
        }),
        (16, "`reconciler.yaml`", |fixture| {
            fixture.edit(
                "main/templates.yaml",
                "type: reconciler\n",
                "type: reconciler\n  contentType: sh\n",
            );
        }),
        (26, "characters", |fixture| {
            let target = "a-target-with-a-name-that-goes-on-and-on-until-no-cluster-takes-it";
            fixture.edit(
                "app/workload.yaml",
                "name: test",
                &format!("name: {target}"),
            );
        }),
    ];
    for (number, trace, change) in cases {
        let fixture = DefectFixture::new();
        change(&fixture);
        let installed = Installed::new(fixture);
        let message = installed.import(&["--output", "json"]).ok();
        let message = outhaul_tests::result(&message.stdout);
        let folders = message["environments"][0]["folders"].as_array().unwrap();
        let folder = folders.iter().find(|folder| folder["verdict"] == "differs");
        let folder = folder.unwrap_or_else(|| panic!("{number}: {message}"));
        assert_eq!(folder["defects"], Value::from(vec![number]), "{folder}");
        assert_eq!(folder["compat"], true, "{folder}");
        assert!(reason(folder).contains(trace), "{folder}");
        assert!(
            message["next"].to_string().contains("--compat"),
            "{message}"
        );
    }
}

#[test]
fn what_kalypso_could_not_write_is_missing() {
    let fixture = DefectFixture::new();
    fixture.data("  VERSION: \"11\"\n");
    fixture.write(
        "dev/schema.yaml",
        "apiVersion: scheduler.kalypso.io/v1alpha1\nkind: ConfigSchema\nmetadata: {name: s}\nspec:\n  schema: |\n    \
         {\"properties\": {\"VERSION\": {\"type\": \"string\"}}}\n",
    );
    fixture.repositories();
    let installed = Installed { fixture };
    installed.by_hand(
        "drone/README.md",
        "This folder contains deployment targets scheduled on the cluster type",
    );
    let folder = installed.folder(ASSIGNMENT, 0);
    assert_eq!(
        (&folder["verdict"], &folder["defects"]),
        (&"missing".into(), &Value::from(vec![6]))
    );
}

#[test]
fn namespaces_of_the_older_rule_are_reported_as_such() {
    let installed = Installed::new(DefectFixture::new());
    installed.by_hand(
        &format!("{ASSIGNMENT}/namespace.yaml"),
        "namespace: dev-team-hello-test\nworkspace: team\n",
    );
    let folder = installed.folder(ASSIGNMENT, 0);
    assert_eq!(folder["verdict"], "differs");
    assert!(
        reason(&folder).contains("the rule from before 2023-10-03"),
        "{folder}"
    );
    let message = installed.import(&[]).ok().stdout;
    assert!(message.contains("plan them as moves"), "{message}");
}

#[test]
fn a_control_plane_without_environments_says_what_to_give() {
    let fixture = DefectFixture::new();
    fixture.repositories();
    fixture.change("main", |folder| {
        fs::remove_file(folder.join(".environments/dev.yaml")).unwrap();
    });
    fixture.write("platform/a.txt", "");
    Installed { fixture }
        .import(&[])
        .refused(2, "declares no environment");
}
