//! What a person mistypes, and what `outhaul` says of it: the place, the cause, one finding for each cause,
//! and the word that was meant.
//!
//! What comes in: a sound control plane with one mistake in it, or a command with one. What must come out: the
//! message's parts, no more findings than causes, and the exit code.

use std::fs;

use outhaul_tests::Checked as _;

use super::cli::PlaneFixture;

/// One mistake in one file: what of it becomes what, what must be said, and how many findings that is.
type Mistake = (
    &'static str,
    &'static str,
    &'static str,
    &'static [&'static str],
);

const ONE_FINDING: &[Mistake] = &[
    (
        "dev/policy.yaml",
        "kind: SchedulingPolicy",
        "kind: SchedulngPolicy",
        &["dev/policy.yaml:2:7", "did you mean `SchedulingPolicy`?"],
    ),
    (
        "dev/policy.yaml",
        "  clusterTypeSelector:",
        "  clusterTypeSelectr:",
        &[
            "unknown field `clusterTypeSelectr`",
            "did you mean `clusterTypeSelector`?",
        ],
    ),
    (
        "dev/policy.yaml",
        "  clusterTypeSelector:",
        "  siteSelector: {}\n  clusterTypeSelector:",
        &[
            "unknown field `siteSelector`",
            "policies of `apiVersion: outhaul.dev/v1alpha1` have `siteSelector`",
        ],
    ),
    (
        "dev/types.yaml",
        "  reconciler: flux",
        "  reconciler flux",
        &[
            "there is no `key: value` in this line",
            "dev/types.yaml:8:3",
        ],
    ),
    (
        "dev/types.yaml",
        "  reconciler: flux",
        "  reconciler:flux",
        &["there is no `key: value`", "dev/types.yaml:8:3"],
    ),
    (
        "dev/types.yaml",
        "metadata:",
        "metadata",
        &["there is no `key: value`", "dev/types.yaml:3:1"],
    ),
    (
        "dev/types.yaml",
        "  reconciler: flux",
        "   reconciler: flux",
        &[
            "indented by 2, and the one before it by 3",
            "dev/types.yaml:9:",
        ],
    ),
    (
        "dev/types.yaml",
        "  reconciler: flux",
        "\treconciler: flux",
        &["a tab indents this line", "replace the tab"],
    ),
    (
        "dev/types.yaml",
        "spec:",
        "apiVersion: scheduler.kalypso.io/v1alpha1\nspec:",
        &[
            "`apiVersion` is written twice",
            "write `---` on a separate line",
        ],
    ),
    (
        "dev/types.yaml",
        "  reconciler: flux",
        "  reconciler: flux\n  reconciler: flux",
        &["`reconciler` is written twice", "keep one of the two"],
    ),
    (
        "dev/types.yaml",
        "  reconciler: flux",
        "  reconciler: flx",
        &["no reconciler template `flx`", "did you mean `flux`?"],
    ),
    (
        "dev/types.yaml",
        "configType: configmap",
        "configType: flux",
        &[
            "template `flux` is a reconciler template",
            "a config template is needed here",
        ],
    ),
    (
        "dev/types.yaml",
        "    region: east-us",
        "    region: true",
        &[
            "`ClusterType.metadata.labels.region` must be text",
            "quote it",
        ],
    ),
    (
        "dev/policy.yaml",
        "      matchLabels:\n        purpose: test",
        "      matchExpressions:\n        - {key: purpose, operator: In, values: test}",
        &["values` must be a list", "this is text"],
    ),
    (
        "dev/policy.yaml",
        "purpose: test",
        "purpose: tset",
        &["selects no deployment target", "did you mean `test`?"],
    ),
    (
        "main/templates.yaml",
        "toYaml .ConfigData",
        "toYaml .ConfigDta",
        &["did you mean `ConfigData`?", "main/templates.yaml:"],
    ),
    (
        "main/templates.yaml",
        "namespace: {{ Namespace }}",
        "namespace: {{ Namespace }",
        &["two braces on each side", "main/templates.yaml:"],
    ),
    (
        "app/workload.yaml",
        "  deploymentTargets:",
        "  deploymenttargets:",
        &["app/workload.yaml:", "did you mean `deploymentTargets`?"],
    ),
    (
        "app/workload.yaml",
        "        repo: https",
        "        storage: gti\n        repo: https",
        &["lie in storage `gti`", "did you mean `git`?"],
    ),
    (
        "app/workload.yaml",
        "        repo: https",
        "        storage: git\n        repo: https",
        &[
            "app/workload.yaml:12:18",
            "are in git, and `branch` is missing",
        ],
    ),
    (
        "app/workload.yaml",
        "        repo: https",
        "        brach: main\n        repo: https",
        &[
            "app/workload.yaml:12:9",
            "unknown field `brach`",
            "not a field of `Workload.spec.deploymentTargets[0].manifests`",
            "did you mean `branch`?",
        ],
    ),
    (
        "app/workload.yaml",
        "        repo: https",
        "        rpeo: https",
        &["unknown field `rpeo`", "did you mean `repo`?"],
    ),
    (
        "app/workload.yaml",
        "        repo: https",
        "        pth: here\n        repo: https",
        &["unknown field `pth`", "did you mean `path`?"],
    ),
];

fn findings(seen: &str) -> usize {
    seen.matches("error[").count() + seen.matches("warning[").count()
}

#[test]
fn one_mistake_is_one_finding_at_its_place() {
    for (path, from, to, parts) in ONE_FINDING {
        let fixture = PlaneFixture::new();
        fixture.edit(path, from, to);
        let seen = fixture.run(&["check"]);
        for part in *parts {
            assert!(seen.contains(part), "{part}: {to}\n{seen}");
        }
        assert_eq!(findings(&seen), 1, "{to}\n{seen}");
        let code = i32::from(seen.contains("error["));
        assert!(seen.starts_with(&format!("exit code {code}\n")), "{seen}");
    }
}

#[test]
fn an_ending_of_lines_or_a_mark_at_the_beginning_is_no_mistake() {
    let fixture = PlaneFixture::new();
    let path = fixture.folder.path().join("dev/types.yaml");
    let text = fs::read_to_string(&path).unwrap();
    for other in [text.replace('\n', "\r\n"), format!("\u{feff}{text}")] {
        fs::write(&path, other).unwrap();
        let seen = fixture.run(&["check"]);
        assert!(seen.contains("dev: no findings"), "{seen}");
    }
}

/// It would render an environment that does not exist, and say that this went well.
#[test]
fn an_environment_that_the_control_plane_does_not_list_is_refused_everywhere() {
    let fixture = PlaneFixture::new();
    fixture.write(
        "main/.environments/dev.yaml",
        "apiVersion: scheduler.kalypso.io/v1alpha1\nkind: Environment\nmetadata: {name: devl}\nspec:\n  \
         controlPlane: {repo: https://git.example.org/cp, branch: dev, path: .}\n",
    );
    for command in [
        &["check"][..],
        &["schedule"],
        &["render", "--out", "out"],
        &["explain", "hello-test"],
    ] {
        let seen = fixture.run(command);
        assert!(
            seen.contains("lists no environment `dev`"),
            "{command:?}: {seen}"
        );
        assert!(seen.contains("did you mean `devl`?"), "{seen}");
        assert!(!seen.starts_with("exit code 0"), "{seen}");
    }
    assert!(!fixture.folder.path().join("out").exists());
    fixture.edit("main/.environments/dev.yaml", "devl", "dev");
    fixture.edit("app/workload.yaml", "environment: dev", "environment: dve");
    let seen = fixture.run(&["check"]);
    assert!(
        seen.contains("is for environment `dve`, which does not exist"),
        "{seen}"
    );
    assert!(seen.contains("app/workload.yaml:"), "{seen}");
}

/// Runs `outhaul` in the scene's folder, with nothing added.
fn typed(fixture: &PlaneFixture, line: &[&str]) -> String {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_outhaul"))
        .args(line)
        .current_dir(fixture.folder.path())
        .checked()
        .unwrap();
    let code = output.status.code().unwrap();
    let said = [output.stdout, output.stderr].concat();
    format!("exit code {code}\n{}", String::from_utf8_lossy(&said))
}

#[test]
fn a_command_with_a_slip_says_what_was_meant() {
    let fixture = PlaneFixture::new();
    let source = |text: &'static str| {
        let folders = [
            "check",
            "--environment",
            "dev",
            "--env-dir",
            "dev",
            "--base-dir",
            "main",
        ];
        [&folders[..], &["--source", text]].concat()
    };
    for (line, code, parts) in [
        (
            source("app=https://git.example.org/app"),
            2,
            [
                "has the URL behind the `=`",
                "--source https://git.example.org/app=app",
            ],
        ),
        (
            source("https://git.example.org/app=ap"),
            2,
            ["there is no folder `ap`", "did you mean `app`?"],
        ),
        (
            source("https://git.example.org/ap=app"),
            3,
            [
                "cannot reach repository `https://git.example.org/app`",
                "did you mean `https://git.example.org/ap`, which `--source` maps?",
            ],
        ),
    ] {
        let seen = typed(&fixture, &line);
        for part in parts {
            assert!(seen.contains(part), "{part}: {line:?}\n{seen}");
        }
        assert!(seen.starts_with(&format!("exit code {code}\n")), "{seen}");
    }
    let seen = fixture.run(&["explain", "drone", "hello-test"]);
    assert!(
        seen.contains("`drone` is a cluster type; the target comes first"),
        "{seen}"
    );
    fs::write(fixture.folder.path().join("out"), "").unwrap();
    let seen = fixture.run(&["render", "--out", "out"]);
    assert!(seen.starts_with("exit code 2\n"), "{seen}");
    assert!(seen.contains("`out` is a file"), "{seen}");
}

#[test]
fn branches_that_lie_as_folders_are_distinguished_from_a_repository() {
    let fixture = PlaneFixture::new();
    fixture.write("cp/main/.environments/dev.yaml", "# nothing yet\n");
    fixture.write("cp/dev/types.yaml", super::cli::CLUSTER_TYPE);
    let seen = typed(
        &fixture,
        &["check", "--environment", "dev", "--control-plane", "cp"],
    );
    assert!(
        seen.contains("give them with `--env-dir cp/dev --base-dir cp/main`"),
        "{seen}"
    );
}
