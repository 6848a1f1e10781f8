//! Defects in what leaves the machine: errors and their kinds, servers, branches.
//!
//! What comes in: a control plane with something broken around it. What must come out: an exit code
//! that says whose business it is, nothing half done, and no call that nobody needs.

use std::fs;
use std::net::TcpListener;

use super::{APP, ASSIGNMENT, DefectFixture, base_repo, config, seen};
use crate::runner::repositories::{commit, git};

#[test]
fn defect_18_one_repository_has_many_spellings_and_any_git_server_will_do() {
    let fixture = DefectFixture::new();
    for url in [
        "https://git.example.org/app",
        "https://GIT.example.org/app.git/",
    ] {
        let mapped = format!("{url}=app");
        let mut command = fixture.command(&["render", "--environment", "dev", "--env-dir", "dev"]);
        let more = ["--base-dir", "main", "--out", "out", "--source", &mapped];
        seen(command.args(more)).ok();
    }
    // A bare repository behind a plain URL, with `.git` at its end: fetched by git itself.
    fixture.repositories();
    git(
        &fixture.path(""),
        &["clone", "--quiet", "--bare", "app", "server.git"],
    );
    let url = format!("file://{}", fixture.path("server.git").display());
    fixture.change("main", |folder| {
        let path = folder.join("app.yaml");
        fs::write(&path, fs::read_to_string(&path).unwrap().replace(APP, &url)).unwrap();
    });
    let main = git(&fixture.path("control-plane"), &["rev-parse", "main"]);
    fixture.change("dev", |folder| {
        fs::write(folder.join("base-repo.yaml"), base_repo(&main)).unwrap();
    });
    // A team's URL reaches no folder of this machine, unless who runs it says so.
    fixture
        .run_repositories(&["render", "--out", "fetched"])
        .refused(1, "is a local folder");
    let mapped = format!("{url}=server.git");
    fixture
        .run_repositories(&["render", "--out", "fetched", "--source", &mapped])
        .ok();
    assert!(
        fixture
            .path(&format!("fetched/{ASSIGNMENT}/namespace.yaml"))
            .exists()
    );
}

#[test]
fn defect_23_what_may_pass_by_itself_is_distinguished_from_what_will_not() {
    let fixture = DefectFixture::new();
    fixture.repositories();
    // Not there yet, or no network: an error of the environment, worth another try.
    fixture.change("main", |folder| {
        let path = folder.join("app.yaml");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace(APP, "https://nowhere.invalid/app")).unwrap();
    });
    let main = git(&fixture.path("control-plane"), &["rev-parse", "main"]);
    fixture.change("dev", |folder| {
        fs::write(folder.join("base-repo.yaml"), base_repo(&main)).unwrap();
    });
    fixture
        .run_repositories(&["render", "--out", "out"])
        .refused(1, "cannot reach repository `https://nowhere.invalid/app`");
    // A branch that nobody has: an error of what is written, and trying again is no use.
    fixture.change("main", |folder| {
        let path = folder.join("app.yaml");
        let text = fs::read_to_string(&path).unwrap();
        let text = text
            .replace("https://nowhere.invalid/app", APP)
            .replace("branch: main", "branch: mian");
        fs::write(&path, text).unwrap();
    });
    let main = git(&fixture.path("control-plane"), &["rev-parse", "main"]);
    fixture.change("dev", |folder| {
        fs::write(folder.join("base-repo.yaml"), base_repo(&main)).unwrap();
    });
    fixture
        .run_repositories(&["render", "--out", "out"])
        .refused(1, "has no branch `mian`");
    // Whatever it was, the next run starts afresh.
    let first = git(
        &fixture.path("control-plane"),
        &["rev-list", "--max-parents=0", "main"],
    );
    fixture.change("dev", |folder| {
        fs::write(folder.join("base-repo.yaml"), base_repo(&first)).unwrap();
    });
    fixture.run_repositories(&["render", "--out", "out"]).ok();
}

#[test]
fn defect_24_a_render_of_what_is_here_calls_no_server() {
    let fixture = DefectFixture::new();
    fixture.repositories();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    server.set_nonblocking(true).unwrap();
    let address = format!("http://{}", server.local_addr().unwrap());
    for _ in 0..2 {
        let mut command = fixture.command(&["render", "--environment", "dev", "--out", "out"]);
        for name in [
            "http_proxy",
            "https_proxy",
            "HTTPS_PROXY",
            "ALL_PROXY",
            "GITHUB_API_URL",
        ] {
            command.env(name, &address);
        }
        let source = format!("{APP}=app");
        seen(command.args(["--control-plane", "control-plane", "--source", &source])).ok();
    }
    assert!(server.accept().is_err(), "someone called");
}

#[test]
fn defect_25_a_finding_goes_with_the_assignment_that_it_is_about() {
    let fixture = DefectFixture::new();
    fixture.edit("main/templates.yaml", ".Manifests.repo", ".Manifests.path");
    fixture.render().complains("hello-test");
    fs::remove_file(fixture.path("dev/policy.yaml")).unwrap();
    let seen = fixture.run(&["check"]);
    assert!(!seen.stdout.contains("Manifests"), "{}", seen.stdout);
}

/// A bare platform repository with a page of someone else, and the object that names it.
fn platform(fixture: &DefectFixture, path: &str) {
    let work = fixture.path("platform-work");
    fixture.write("platform-work/docs/page.md", "mine");
    git(&work, &["init", "--quiet", "--initial-branch=dev"]);
    commit(&work, "a page");
    git(
        &fixture.path(""),
        &[
            "clone",
            "--quiet",
            "--bare",
            "platform-work",
            "platform.git",
        ],
    );
    fixture.write(
        "dev/gitops.yaml",
        &format!(
            "apiVersion: scheduler.kalypso.io/v1alpha1\nkind: GitOpsRepo\nmetadata: {{name: dev}}\nspec:\n  \
             repo: https://git.example.org/platform\n  branch: dev\n  path: {path}\n"
        ),
    );
}

fn publish(fixture: &DefectFixture) -> super::Seen {
    fixture.run(&[
        "publish",
        "git",
        "--source",
        "https://git.example.org/platform=platform.git",
    ])
}

fn branches(fixture: &DefectFixture, repository: &str) -> String {
    git(
        &fixture.path(repository),
        &["for-each-ref", "--format=%(refname) %(objectname)"],
    )
}

#[test]
fn defect_17_only_what_is_ours_moves() {
    let fixture = DefectFixture::new();
    platform(&fixture, ".");
    git(
        &fixture.path("platform.git"),
        &["branch", "a-persons-work", "dev"],
    );
    let before = branches(&fixture, "platform.git");
    publish(&fixture).ok();
    let after = branches(&fixture, "platform.git");
    let line = |all: &str, name: &str| all.lines().find(|l| l.contains(name)).unwrap().to_owned();
    assert_ne!(line(&before, "heads/dev"), line(&after, "heads/dev"));
    assert_eq!(
        line(&before, "a-persons-work"),
        line(&after, "a-persons-work")
    );
    assert_eq!(before.lines().count(), after.lines().count(), "{after}");
}

#[test]
fn defect_16_the_path_of_a_git_ops_repo_counts() {
    let fixture = DefectFixture::new();
    platform(&fixture, "clusters/dev");
    publish(&fixture).ok();
    let there = git(
        &fixture.path("platform.git"),
        &["ls-tree", "-r", "--name-only", "dev"],
    );
    assert!(
        there.contains("clusters/dev/drone/hello-test/namespace.yaml"),
        "{there}"
    );
    assert!(
        !there.lines().any(|line| line.starts_with("drone/")),
        "{there}"
    );
}

#[test]
fn defect_15_a_branch_keeps_what_others_put_there() {
    let fixture = DefectFixture::new();
    platform(&fixture, ".");
    publish(&fixture).ok();
    let there = git(
        &fixture.path("platform.git"),
        &["ls-tree", "-r", "--name-only", "dev"],
    );
    assert!(
        there.contains("docs/page.md") && there.contains(ASSIGNMENT),
        "{there}"
    );
}

#[test]
fn defect_19_the_branch_itself_is_compared() {
    let fixture = DefectFixture::new();
    platform(&fixture, ".");
    let head = || git(&fixture.path("platform.git"), &["rev-parse", "dev"]);
    let first = head();
    publish(&fixture).ok();
    let published = head();
    publish(&fixture).ok();
    assert_eq!(head(), published, "nothing changed, no commit");
    // Someone took it back: the same content is published again.
    git(
        &fixture.path("platform.git"),
        &["update-ref", "refs/heads/dev", &first],
    );
    publish(&fixture).ok();
    let tree = |commit: &str| {
        git(
            &fixture.path("platform.git"),
            &["rev-parse", &format!("{commit}^{{tree}}")],
        )
    };
    assert_eq!(tree("dev"), tree(&published));
}

#[test]
fn defect_30_a_refused_push_leaves_nothing_behind() {
    let fixture = DefectFixture::new();
    platform(&fixture, ".");
    let hook = fixture.path("platform.git/hooks/pre-receive");
    fs::write(&hook, "#!/bin/sh\necho closed on Fridays >&2\nexit 1\n").unwrap();
    fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let before = branches(&fixture, "platform.git");
    let seen = publish(&fixture);
    assert_ne!(seen.code, 0, "{}", seen.stdout);
    assert!(seen.stderr.contains("closed on Fridays"), "{}", seen.stderr);
    assert_eq!(branches(&fixture, "platform.git"), before);
}

#[test]
fn defect_02_one_broken_assignment_is_reported_and_costs_nobody_their_last_good_files() {
    let fixture = DefectFixture::new();
    let second = fixture
        .read("dev/types.yaml")
        .replace("drone", "plane")
        .replace("east-us", "west-us");
    fixture.write("dev/second.yaml", &second);
    fixture.render().ok();
    let before = fixture.read(&format!("out/{ASSIGNMENT}/platform-config.yaml"));
    fixture.edit("dev/config.yaml", "East US", "\"{{ .ConfigData.nope }}\"");
    fixture.write(
        "dev/west.yaml",
        &config("west", "region: west-us", "  NEW: value\n"),
    );
    fixture
        .render()
        .complains("assignment `hello-test` on `drone`");
    assert_eq!(
        fixture.read(&format!("out/{ASSIGNMENT}/platform-config.yaml")),
        before
    );
    let other = fixture.read("out/plane/hello-test/platform-config.yaml");
    assert!(other.contains("NEW: value"), "the other one ships: {other}");
}
