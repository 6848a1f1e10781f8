//! Content of the base that no site ran, at a commit that the sites of the environment before confirm.
//!
//! What comes in: a control plane that `outhaul init` wrote, with its content in `alt/` and other content in `good/`, a real hub and a real
//! site of `dev`, and ordinary commits of someone who may push to the environments' branches. What must come out: a refusal that names
//! the site, the bundle and both paths, no moved branch, and the way out that it states. What the hub decided is recomputed from an export.

use std::fs;
use std::path::Path;

use outhaul_tests::Ran;

use super::system::{Hub, SystemFixture};

const PLANE: &str = "control-plane";
const POLICY: &str = "apiVersion: outhaul.dev/v1alpha1\nkind: PromotionPolicy\nmetadata: {name: to-stage}\nspec:\n  from: dev\n  to: stage\n";
const CONTENT: [&str; 4] = ["configs", "schemas", "templates", "workloads"];

/// `dev` and `stage` based on `alt/`; the site of `dev` runs its bundle.
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
            for name in CONTENT.iter().filter(|name| folder.join(name).is_dir()) {
                for to in ["alt", "good"] {
                    fs::create_dir_all(folder.join(to)).unwrap();
                    let from = folder.join(name);
                    let copy = ["-r", from.to_str().unwrap(), to];
                    let copied = fixture
                        .command(Path::new("cp"))
                        .current_dir(folder)
                        .args(copy)
                        .status();
                    assert!(copied.unwrap().success());
                }
                fs::remove_dir_all(folder.join(name)).unwrap();
            }
            let path = folder.join("good/configs/common.yaml");
            let text = fs::read_to_string(&path).unwrap();
            fs::write(&path, text.replace("Hello", "EVIL")).unwrap();
            fs::write(folder.join(".environments/policy.yaml"), POLICY).unwrap();
        });
        for branch in ["dev", "stage"] {
            path_of_base(&fixture, branch, "path: .", "path: alt");
        }
        let made = Self {
            hub: fixture.serve(),
            fixture,
        };
        made.promote(0, &["--to", "dev"]);
        for (site, environment) in [("edge-1", "dev"), ("edge-2", "stage")] {
            made.fixture.site(site, environment, "edge");
        }
        made.ship();
        made
    }

    fn promote(&self, code: i32, more: &[&str]) -> Ran {
        let promote = ["promote", "--control-plane", PLANE];
        self.fixture
            .run("outhaul", code, &[&promote[..], more].concat())
    }

    fn to_stage(&self, code: i32) -> Ran {
        self.promote(code, &["--to", "stage", "--hub", &self.hub.url])
    }

    /// A bundle of `dev`, and what its site reports of it.
    fn ship(&self) {
        self.fixture.bundle("dev");
        self.fixture.carry("edge-1");
        self.fixture.home("edge-1");
    }

    /// Refused with these words, typed and watched, and nothing moved.
    #[track_caller]
    fn refuses(&self, words: &[&str]) {
        let stage = || self.fixture.git(PLANE, &["rev-parse", "stage"]);
        let before = stage();
        let typed = self.to_stage(1).stderr;
        eprintln!("{typed}");
        let watch = ["--watch", "--interval", "0", "--hub", &self.hub.url];
        let watched = self.promote(1, &watch).everything();
        for word in words {
            assert!(typed.contains(word), "{word}: {typed}");
            assert!(watched.contains(word), "{word}: {watched}");
        }
        assert!(typed.contains("nothing was changed"), "{typed}");
        assert_eq!(stage(), before);
    }

    /// Every decision of the hub, made again from what it exports.
    fn recomputed(&self) {
        let run = |name: &str, words: &[&str]| self.fixture.run(name, 0, words);
        let _ = fs::remove_file(self.fixture.path("gates.audit"));
        run(
            "outhaul-hub",
            &["--state", "hub", "audit", "export", "gates.audit"],
        );
        let root = [
            "--root",
            "fleet/metadata/1.root.json",
            "--hub-key",
            "hub.pub",
        ];
        let verify = [&["verify", "gates.audit"][..], &root].concat();
        let said = run("outhaul-audit", &verify).everything();
        eprintln!("{said}");
    }
}

fn path_of_base(fixture: &SystemFixture, branch: &str, from: &str, to: &str) {
    fixture.on_branch(PLANE, branch, |folder| {
        let path = folder.join("base-repo.yaml");
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{text}");
        fs::write(&path, text.replace(from, to)).unwrap();
    });
}

#[test]
fn attack_a_path_that_is_set_after_the_sites_confirmed_is_not_promoted() {
    let made = Centre::new();
    // Whoever may push to the branches sets the path of both, and no bundle of `dev` has it.
    for branch in ["dev", "stage"] {
        path_of_base(&made.fixture, branch, "path: alt", "path: good");
    }
    let words = [
        "site `edge-1` of `dev` confirms the commit with bundle 1, which was made from path `alt`",
        "`stage` has path `good`",
    ];
    made.refuses(&words);
    // The way out that it states: then the sites of `dev` run what is there, and their people see it first.
    made.ship();
    made.to_stage(0);
    made.fixture.bundle("stage");
    made.fixture.carry("edge-2");
    made.recomputed();
}

#[test]
fn attack_a_path_that_was_promoted_once_lets_nothing_in_that_no_site_ran() {
    let made = Centre::new();
    for branch in ["dev", "stage"] {
        path_of_base(&made.fixture, branch, "path: alt", "path: good");
    }
    made.ship();
    made.to_stage(0);
    // `dev` leaves the path, and what is there changes with the next commit.
    path_of_base(&made.fixture, "dev", "path: good", "path: alt");
    made.fixture.on_branch(PLANE, "main", |folder| {
        let path = folder.join("good/configs/common.yaml");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace("EVIL", "WORSE")).unwrap();
    });
    made.promote(0, &["--to", "dev"]);
    made.ship();
    made.refuses(&["has the path `good`", "where that of `dev` has `alt`"]);
    // Written back on `dev` without a bundle, it is no way around.
    path_of_base(&made.fixture, "dev", "path: alt", "path: good");
    made.refuses(&["which was made from path `alt`"]);
    made.recomputed();
}

#[test]
fn attack_a_commit_that_sites_passed_is_promoted_with_the_path_that_they_had_then_only() {
    let made = Centre::new();
    let first = made.fixture.git(PLANE, &["rev-parse", "main"]);
    // `dev` goes on to a later commit, whose `good` is well, with that path.
    made.fixture.on_branch(PLANE, "main", |folder| {
        let path = folder.join("good/configs/common.yaml");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace("EVIL", "Hello")).unwrap();
    });
    for branch in ["dev", "stage"] {
        path_of_base(&made.fixture, branch, "path: alt", "path: good");
    }
    made.promote(0, &["--to", "dev"]);
    made.ship();
    let stage = ["--to", "stage", "--hub", &made.hub.url, "--commit", &first];
    let refused = made.promote(1, &stage).stderr;
    eprintln!("{refused}");
    assert!(
        refused.contains("which was made from path `alt`")
            && refused.contains("nothing was changed"),
        "{refused}"
    );
    // The later one it runs.
    made.to_stage(0);
    made.recomputed();
}
