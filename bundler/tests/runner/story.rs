//! The story of Microsoft's tutorial, step by step, with local git repositories in the place of GitHub.
//!
//! What comes in: the tutorial's repositories and what each step changes. What must come out of the
//! program after each step: what the story says is then true.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use outhaul_test_kit::folder::files;
use outhaul_test_kit::folder::fill;
use outhaul_tests::Checked as _;
use serde_json::Value;

use super::kalypso;
use super::repositories::{git, on_branch, repository};

struct Tutorial {
    folder: tempfile::TempDir,
    steps: PathBuf,
}

impl Tutorial {
    fn new(kalypso: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let tutorial = kalypso.join("tutorial");
        for name in [
            "kalypso-control-plane",
            "kalypso-app-src",
            "kalypso-svc-src",
        ] {
            repository(&tutorial.join(name), &folder.path().join(name));
        }
        Self {
            folder,
            steps: tutorial.join("story"),
        }
    }

    fn control_plane(&self) -> PathBuf {
        self.folder.path().join("kalypso-control-plane")
    }

    /// Puts a step's files into a folder of a branch.
    fn step(&self, branch: &str, step: &str, into: &str) -> String {
        on_branch(&self.control_plane(), branch, |copy_of| {
            fill(&self.steps.join(step), &copy_of.join(into));
        })
    }

    /// Moves an environment to the newest commit of `main`.
    fn promote(&self, environment: &str) {
        let commit = git(&self.control_plane(), &["rev-parse", "main"]);
        on_branch(&self.control_plane(), environment, |copy_of| {
            let path = copy_of.join("base-repo.yaml");
            let text = fs::read_to_string(&path).unwrap();
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            for line in &mut lines {
                if let Some(at) = line.find("commit:") {
                    *line = format!("{}commit: {commit}", &line[..at]);
                }
            }
            fs::write(path, lines.join("\n") + "\n").unwrap();
        });
    }

    fn outhaul(
        &self,
        environment: &str,
        command: &str,
        arguments: &[&str],
    ) -> (i32, String, String) {
        let mut run = Command::new(env!("CARGO_BIN_EXE_outhaul"));
        run.args([command, "--environment", environment, "--control-plane"])
            .arg(self.control_plane())
            .args(["--cache"])
            .arg(self.folder.path().join("cache"));
        for name in ["kalypso-app-src", "kalypso-svc-src"] {
            let dir = self.folder.path().join(name);
            run.args([
                "--source",
                &format!("https://github.com/microsoft/{name}={}", dir.display()),
            ]);
        }
        let output = run.args(arguments).checked().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (
            output.status.code().unwrap(),
            text(output.stdout),
            text(output.stderr),
        )
    }

    /// `<cluster type>/<target>` of every assignment of the application.
    fn assigned(&self, environment: &str) -> BTreeSet<String> {
        let (code, out, err) = self.outhaul(environment, "schedule", &["--output", "json"]);
        assert_eq!(code, 0, "{err}");
        let schedule = outhaul_tests::result(&out);
        let text = |v: &Value| v.as_str().unwrap().to_owned();
        let all = schedule["assignments"].as_array().unwrap();
        all.iter()
            .map(|a| format!("{}/{}", text(&a["cluster_type"]), text(&a["target"])))
            .filter(|pair| pair.contains("hello-world-app"))
            .collect()
    }

    fn render(&self, environment: &str, out: &str) -> PathBuf {
        let out = self.folder.path().join(out);
        let (code, _, err) = self.outhaul(environment, "render", &["--out", out.to_str().unwrap()]);
        assert_eq!(code, 0, "{err}");
        out
    }
}

fn set<const N: usize>(pairs: [&str; N]) -> BTreeSet<String> {
    pairs.map(str::to_owned).into()
}

fn yaml_documents(bytes: &[u8]) -> Vec<serde_json::Value> {
    let text = std::str::from_utf8(bytes).unwrap();
    text.split("\n---\n")
        .map(|document| {
            let value =
                outhaul_gocompat::decode_yaml(document, outhaul_gocompat::Decoder::V3).unwrap();
            outhaul_plane::compose::schema::to_json(&value)
        })
        .collect()
}

#[test]
fn the_tutorial_comes_out_as_its_story_says() {
    let Some(kalypso) = kalypso::folder() else {
        return;
    };
    let tutorial = Tutorial::new(&kalypso);

    // 1: registered, and nothing selects it; who asks why is informed.
    tutorial.step("main", "1-onboard", "workloads");
    tutorial.promote("dev");
    assert_eq!(tutorial.assigned("dev"), set([]));
    let (code, out, err) = tutorial.outhaul(
        "dev",
        "explain",
        &["hello-world-app-functional-test", "drone"],
    );
    assert_eq!(code, 0, "{err}");
    assert!(
        out.contains("not assigned") && out.contains("observability-policy"),
        "{out}"
    );
    assert!(out.contains("workspace = platform-team"), "{out}");

    // 2: two policies.
    tutorial.step("dev", "2-schedule-dev", "scheduling");
    let expected = set([
        "drone/hello-world-app-functional-test",
        "large/hello-world-app-performance-test",
    ]);
    assert_eq!(tutorial.assigned("dev"), expected);
    let out = files(&tutorial.render("dev", "dev"));
    for empty in ["command-center", "small"] {
        let of: Vec<_> = out.keys().filter(|path| path.starts_with(empty)).collect();
        assert_eq!(of, [&format!("{empty}/README.md")], "it gets nothing");
    }
    let story = files(&tutorial.steps.join("expected/dev"));
    assert_eq!(story.len(), 3);
    for (path, bytes) in &story {
        assert_eq!(yaml_documents(bytes), yaml_documents(&out[path]), "{path}");
    }
    let main = git(&tutorial.control_plane(), &["rev-parse", "main"]);
    assert_eq!(out[".github/tracking/Promoted_Commit_Id"], main.as_bytes());

    // 3: the next environment, once its gate let the commit through.
    tutorial.step("stage", "3-promote-to-stage", "scheduling");
    tutorial.promote("stage");
    let both = set([
        "drone/hello-world-app-uat-test",
        "large/hello-world-app-uat-test",
    ]);
    assert_eq!(tutorial.assigned("stage"), both);
    let before = files(&tutorial.render("stage", "stage"));

    // 5: another database for one region changes one value in one file.
    tutorial.step("stage", "5-configure", "cluster-types/west-us");
    let after = files(&tutorial.render("stage", "stage"));
    let changed: Vec<_> = after
        .iter()
        .filter(|(path, bytes)| before.get(*path) != Some(bytes))
        .collect();
    let [(path, bytes)] = changed.as_slice() else {
        panic!("{changed:?}")
    };
    assert_eq!(
        path.as_str(),
        "large/hello-world-app-uat-test/platform-config.yaml"
    );
    let lines = |bytes: &[u8]| {
        String::from_utf8(bytes.to_vec())
            .unwrap()
            .lines()
            .map(str::to_owned)
            .collect::<BTreeSet<_>>()
    };
    let new: Vec<_> = lines(bytes)
        .difference(&lines(&before[*path]))
        .cloned()
        .collect();
    assert_eq!(new, ["  DATABASE_URL: mysql://west-stage:8806/mysql2"]);

    // 6: a new cluster type gets what its labels say, though it has no site.
    tutorial.step("stage", "6-add-cluster-type", "cluster-types/west-us/small");
    let three = set([
        "drone/hello-world-app-uat-test",
        "large/hello-world-app-uat-test",
        "small/hello-world-app-uat-test",
    ]);
    assert_eq!(tutorial.assigned("stage"), three);
    let out = files(&tutorial.render("stage", "stage"));
    let config =
        String::from_utf8(out["small/hello-world-app-uat-test/platform-config.yaml"].clone())
            .unwrap();
    assert!(
        config.contains("REGION: West US") && config.contains("ENVIRONMENT: stage"),
        "{config}"
    );
}
