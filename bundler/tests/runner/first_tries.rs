//! What people in a hurry do to a centre on their first day, and what they must read then.
//!
//! What comes in: a fleet or a control plane that works, and a slip of the pen, a wrong folder or a wrong file. What
//! must come out: a refusal at its place with what to do next, no bundle that takes files from a site, and nothing
//! written where nothing may be.

use std::fs;

use super::cli::PlaneFixture;
use super::kept::{Fleet, of};
use super::repositories::{commit, git};

/// A first bundle is shipped; then `hello-test` gets `storage: git` without a branch, and the others a new file.
#[test]
fn a_key_that_is_missing_or_misspelt_takes_no_file_from_a_site() {
    let fleet = Fleet::new();
    assert!(fleet.bundle(&[]).starts_with("exit code 0"));
    let first = fleet.last();
    let good = fs::read_to_string(fleet.path("app/workload.yaml")).unwrap();
    for (mistake, reported) in [
        ("storage: git", "`branch` is missing"),
        ("brach: main", "unknown field `brach`"),
    ] {
        let written = format!("        {mistake}\n        repo: https");
        let broken = good.replace("        repo: https", &written);
        fleet.fixture.write("app/workload.yaml", &broken);
        for command in [&["check"][..], &["render", "--out", "rendered"]] {
            let mut command = command.to_vec();
            command.extend(["--source", "https://git.example.org/manifests=manifests"]);
            let seen = fleet.fixture.run(&command);
            assert!(seen.starts_with("exit code 1"), "{command:?} {seen}");
            assert!(seen.contains(reported), "{command:?} {seen}");
        }
        let seen = fleet.bundle(&[]);
        assert!(seen.starts_with("exit code 1"), "{seen}");
        assert!(seen.contains(reported), "{seen}");
        assert!(seen.contains("kept: drone/hello-test stays as"), "{seen}");
        let last = fleet.last();
        assert_eq!(of(&last, "hello-test"), of(&first, "hello-test"));
    }
}

#[test]
fn a_payload_without_a_file_breaks_its_assignment_alone() {
    let fleet = Fleet::new();
    assert!(fleet.bundle(&[]).starts_with("exit code 0"));
    let first = fleet.last();
    fs::create_dir_all(fleet.path("nothing")).unwrap();
    git(&fleet.path("nothing"), &["init", "--quiet"]);
    git(
        &fleet.path("nothing"),
        &["commit", "--quiet", "--allow-empty", "-m", "empty"],
    );
    let old = "repo: https://git.example.org/manifests";
    let new = "repo: https://git.example.org/nothing";
    fleet.fixture.edit("app/workload.yaml", old, new);
    let source = ["--source", "https://git.example.org/nothing=nothing"];
    for seen in [
        fleet.bundle(&source),
        fleet.fixture.run(&[&["check"][..], &source].concat()),
    ] {
        assert!(seen.starts_with("exit code 1"), "{seen}");
        let reported = "there is no file in `.` of `https://git.example.org/nothing`";
        assert!(seen.contains(reported), "{seen}");
    }
    let now = fleet.last();
    assert_eq!(of(&now, "hello-test"), of(&first, "hello-test"));
    let all = now["stream"]["assignments"].as_object().unwrap();
    assert_eq!(all.len(), 5);
}

/// A control plane in a repository, whose environments `dev` and `stage` are on the branches that are given.
fn plane(branches: [&str; 2]) -> PlaneFixture {
    let fixture = PlaneFixture::new();
    let folder = fixture.folder.path().join("plane");
    for (name, after, branch) in [("dev", "", branches[0]), ("stage", "dev", branches[1])] {
        fixture.write(
            &format!("plane/.environments/{name}.yaml"),
            &format!(
                "apiVersion: scheduler.kalypso.io/v1alpha1\nkind: Environment\nmetadata:\n  name: {name}\n  labels:\n    \
                 outhaul.dev/after: \"{after}\"\nspec:\n  controlPlane:\n    repo: https://git.example.org/plane\n    \
                 branch: {branch}\n    path: .\n"
            ),
        );
    }
    git(&folder, &["init", "--quiet", "--initial-branch=main"]);
    commit(&folder, "first");
    let first = git(&folder, &["rev-parse", "HEAD"]);
    for name in ["dev", "stage"] {
        git(&folder, &["checkout", "--quiet", "-b", name, "main"]);
        fixture.write(
            "plane/base.yaml",
            &format!(
                "apiVersion: scheduler.kalypso.io/v1alpha1\nkind: BaseRepo\nmetadata:\n  name: main\nspec:\n  \
                 repo: https://git.example.org/plane\n  branch: main\n  path: .\n  commit: {first}\n"
            ),
        );
        commit(&folder, name);
    }
    git(&folder, &["checkout", "--quiet", "main"]);
    fixture.write("plane/later.yaml", "# later\n");
    commit(&folder, "later");
    fixture
}

#[test]
fn nothing_is_promoted_into_an_environment_that_shares_its_branch() {
    let fixture = plane(["dev", "dev"]);
    let folder = fixture.folder.path().join("plane");
    let before = git(&folder, &["rev-parse", "dev"]);
    for environment in ["dev", "stage"] {
        let command = ["promote", "--control-plane", "plane", "--to", environment];
        let seen = fixture.run_only(&command);
        assert!(seen.starts_with("exit code 2"), "{seen}");
        assert!(seen.contains("are on one branch, `dev`"), "{seen}");
        assert!(seen.contains("stage.yaml:10:13"), "{seen}");
        assert!(
            seen.contains("give each environment its own branch"),
            "{seen}"
        );
    }
    assert_eq!(git(&folder, &["rev-parse", "dev"]), before);
}

#[test]
fn one_bad_environment_file_hides_no_finding_of_the_others() {
    let fixture = plane(["dev", "stage"]);
    let folder = fixture.folder.path().join("plane");
    let check = ["check", "--control-plane", "plane", "--output", "lines"];
    fixture.edit(
        "plane/.environments/stage.yaml",
        "branch: stage",
        "brnch: stage",
    );
    fixture.write(
        "plane/templates.yaml",
        "apiVersion: scheduler.kalypso.io/v1alpha1\nkind: Templte\n",
    );
    commit(&folder, "two mistakes");
    git(&folder, &["checkout", "--quiet", "dev"]);
    fixture.write("plane/types.yaml", super::cli::CLUSTER_TYPE);
    fixture.edit("plane/types.yaml", "reconciler: flux", "reconcilr: flux");
    commit(&folder, "a third");
    git(&folder, &["checkout", "--quiet", "main"]);
    let seen = fixture.run_only(&check);
    assert!(seen.starts_with("exit code 1"), "{seen}");
    for part in [
        "error[unknown-field]: unknown field `brnch`",
        "error[unknown-field]: unknown field `reconcilr`",
    ] {
        assert_eq!(seen.matches(part).count(), 1, "{part}: {seen}");
    }
    assert!(!seen.contains("warning[unknown-field]"), "{seen}");
    // An environment that is asked for is not stopped by another one's file, which is named.
    let seen = fixture.run_only(&[&check[..], &["--environment", "dev"]].concat());
    assert!(
        seen.contains("warning[unknown-field]: unknown field `brnch`"),
        "{seen}"
    );
    assert!(
        seen.contains("error[unknown-field]: unknown field `reconcilr`"),
        "{seen}"
    );
}

/// The workload's playbook is imported by the rendered one: without it each site fails.
#[test]
fn a_playbook_that_is_not_there_is_found_before_a_site_runs_it() {
    let fleet = Fleet::new();
    fleet.fixture.edit(
        "main/templates.yaml",
        "apiVersion: scheduler.kalypso.io/v1alpha1\nkind: Template\nmetadata:\n  name: flux\nspec:\n  type: reconciler\n",
        "apiVersion: outhaul.dev/v1alpha1\nkind: Template\nmetadata:\n  name: flux\nspec:\n  type: reconciler\n  \
         reconciler: ansible\n",
    );
    fleet.fixture.edit(
        "main/templates.yaml",
        "      repository: {{ .Manifests.repo }}\n",
        "      - name: a\n        ansible.builtin.import_playbook: \
         \"{% raw %}{{ outhaul_payload }}{% endraw %}/site.yaml\"\n",
    );
    let source = ["--source", "https://git.example.org/manifests=manifests"];
    let missing = "runs the playbook `site.yaml` of its manifests, and `";
    let check = [&["check"][..], &source].concat();
    for seen in [fleet.fixture.run(&check), fleet.bundle(&[])] {
        assert!(seen.starts_with("exit code 1"), "{seen}");
        assert!(seen.contains(missing), "{seen}");
    }
    for folder in ["manifests", "manifests/here"] {
        fleet
            .fixture
            .write(&format!("{folder}/site.yaml"), "- hosts: localhost\n");
    }
    commit(&fleet.path("manifests"), "playbooks");
    let seen = fleet.fixture.run(&check);
    assert!(!seen.contains("playbook"), "{seen}");
    // Without manifests at all `render` finds it, too.
    fleet.fixture.edit(
        "app/workload.yaml",
        "      manifests:\n        repo: https://git.example.org/manifests\n",
        "",
    );
    let render = [&["render", "--out", "out"][..], &source].concat();
    for command in [&check, &render] {
        let seen = fleet.fixture.run(command);
        assert!(seen.starts_with("exit code 1"), "{seen}");
        let reported = "and it names no repository of manifests";
        assert!(seen.contains(reported), "{seen}");
    }
}

#[test]
fn a_submodule_and_a_link_are_named_and_not_read_as_empty() {
    let fleet = Fleet::new();
    let manifests = fleet.path("manifests");
    fs::create_dir_all(fleet.path("other")).unwrap();
    fleet.fixture.write("other/a.yaml", "a: 1\n");
    git(&fleet.path("other"), &["init", "--quiet"]);
    commit(&fleet.path("other"), "first");
    git(
        &manifests,
        &[
            "-c",
            "protocol.file.allow=always",
            "submodule",
            "--quiet",
            "add",
            "../other",
            "part",
        ],
    );
    std::os::unix::fs::symlink("here", manifests.join("link")).unwrap();
    commit(&manifests, "a submodule and a link");
    let good = fs::read_to_string(fleet.path("app/workload.yaml")).unwrap();
    for (path, link) in [("part", "part"), ("part/deep", "part"), ("link", "link")] {
        let repo = "repo: https://git.example.org/manifests";
        let written = good.replace(repo, &format!("{repo}\n        path: {path}"));
        fleet.fixture.write("app/workload.yaml", &written);
        for more in [&[][..], &["--working-copy"]] {
            let mut command = vec!["check"];
            command.extend(["--source", "https://git.example.org/manifests=manifests"]);
            command.extend(more);
            let seen = fleet.fixture.run(&command);
            assert!(seen.starts_with("exit code 1"), "{seen}");
            let named = format!("`{link}` of `https://git.example.org/manifests` at ");
            assert!(seen.contains(&named), "{path} {more:?}: {seen}");
            assert!(seen.contains("is a symbolic link or a submodule"), "{seen}");
        }
    }
}

#[test]
fn a_new_object_is_not_written_into_a_bare_repository() {
    let fixture = plane(["dev", "stage"]);
    git(
        fixture.folder.path(),
        &["clone", "--quiet", "--bare", "plane", "plane.git"],
    );
    let seen = fixture.run_only(&[
        "new",
        "site",
        "press-7",
        "--in",
        "plane.git",
        "--cluster-type",
        "press",
    ]);
    assert!(seen.starts_with("exit code 2"), "{seen}");
    assert!(seen.contains("`plane.git` is a bare repository"), "{seen}");
    assert!(seen.contains("git clone plane.git plane"), "{seen}");
}

#[test]
fn nothing_is_written_where_nothing_of_outhaul_belongs() {
    let fleet = Fleet::new();
    assert!(fleet.bundle(&[]).starts_with("exit code 0"));
    fleet
        .fixture
        .write("plane/.environments/dev.yaml", "# nothing yet\n");
    fs::create_dir_all(fleet.path("real")).unwrap();
    std::os::unix::fs::symlink("real", fleet.path("link")).unwrap();
    for (folder, why) in [
        ("/", "is the whole file system"),
        ("plane/out", "is in the control plane in `"),
        (
            "manifests/.git/out",
            "is in the `.git` folder of a repository",
        ),
        ("link", "is a symbolic link to `"),
        ("link/", "is a symbolic link to `"),
    ] {
        let render = fleet.fixture.run(&["render", "--out", folder]);
        let copy = ["copy", "--fleet", "fleet", "--to", folder];
        for seen in [render, fleet.fixture.run_only(&copy)] {
            assert!(seen.starts_with("exit code 2"), "{folder}: {seen}");
            assert!(seen.contains(why), "{folder}: {seen}");
        }
    }
    for (folder, what) in [
        ("app", "a local copy of a repository (`--source`)"),
        ("app/out", "in the local copy `app` of a repository"),
        ("main/out", "in the control plane's folder `main`"),
        ("dev", "the control plane's own folder"),
    ] {
        let seen = fleet.fixture.run(&["render", "--out", folder]);
        assert!(seen.starts_with("exit code 2"), "{folder}: {seen}");
        assert!(seen.contains("from which the rendering is made"), "{seen}");
        assert!(seen.contains(what), "{folder}: {seen}");
    }
    assert_eq!(fs::read_dir(fleet.path("real")).unwrap().count(), 0);
    assert!(!fleet.path("app/out").exists() && !fleet.path("plane/out").exists());
}

#[test]
fn an_environment_is_not_rendered_over_another_one() {
    let fixture = PlaneFixture::new();
    assert!(
        fixture
            .run(&["render", "--out", "out"])
            .starts_with("exit code 0")
    );
    let record = fixture.folder.path().join("out.outhaul.json");
    let before = fs::read(&record).unwrap();
    fixture.edit(
        "app/workload.yaml",
        "environment: dev",
        "environment: stage",
    );
    let folders = ["--env-dir", "dev", "--base-dir", "main", "--cache", "cache"];
    let mut command = vec!["render", "--out", "out", "--environment", "stage"];
    command.extend(folders);
    command.extend(["--source", "https://git.example.org/app=app"]);
    let seen = fixture.run_only(&command);
    assert!(seen.starts_with("exit code 2"), "{seen}");
    assert!(
        seen.contains("holds the rendering of environment `dev`"),
        "{seen}"
    );
    assert_eq!(fs::read(&record).unwrap(), before);
}

#[test]
fn a_schedule_without_a_team_that_cannot_be_read_is_not_a_success() {
    let fixture = PlaneFixture::new();
    fixture.edit("app/workload.yaml", "deploymentTargets", "deploymntTargets");
    for command in [&["schedule"][..], &["render", "--out", "out"]] {
        let seen = fixture.run(command);
        assert!(seen.starts_with("exit code 1"), "{command:?} {seen}");
        assert!(seen.contains("unknown field `deploymntTargets`"), "{seen}");
    }
}

#[test]
fn a_misspelt_stream_gets_the_name_that_was_meant() {
    let fleet = Fleet::new();
    assert!(fleet.bundle(&[]).starts_with("exit code 0"));
    let seen = fleet.bundle(&["--cluster-type", "dron"]);
    assert!(seen.starts_with("exit code 2"), "{seen}");
    assert!(seen.contains("did you mean `drone`?"), "{seen}");
    fs::create_dir_all(fleet.path("stick")).unwrap();
    let copy = ["copy", "--fleet", "fleet", "--to", "stick"];
    for (more, meant) in [
        (&["--environment", "dve"][..], "dev"),
        (&["--cluster-type", "dorne"], "drone"),
        (&["--environment", "dve", "--cluster-type", "drone"], "dev"),
    ] {
        let seen = fleet.fixture.run_only(&[&copy[..], more].concat());
        assert!(seen.starts_with("exit code 2"), "{seen}");
        assert!(seen.contains(&format!("did you mean `{meant}`?")), "{seen}");
    }
    // One that fits is written whole, and a size that is not one is explained.
    let seen = fleet
        .fixture
        .run_only(&[&copy[..], &["--volume-size", "1M"]].concat());
    assert!(seen.starts_with("exit code 0"), "{seen}");
    assert!(fleet.path("stick/dev-drone-1.outhaul").is_file(), "{seen}");
    let seen = fleet
        .fixture
        .run_only(&[&copy[..], &["--volume-size", "3900Mo"]].concat());
    assert!(seen.starts_with("exit code 2"), "{seen}");
    assert!(seen.contains("K, M, G, T (powers of 1024)"), "{seen}");
}

#[test]
fn a_second_kit_of_a_site_is_written_when_that_is_meant() {
    let fleet = Fleet::new();
    assert!(fleet.bundle(&[]).starts_with("exit code 0"));
    let mut enrol = vec![
        "site",
        "enrol",
        "press-7",
        "--fleet",
        "fleet",
        "--environment",
        "dev",
    ];
    enrol.extend(["--cluster-type", "drone", "--out"]);
    let write = |more: &[&str]| fleet.fixture.run_only(&[&enrol[..], more].concat());
    let seen = write(&["first.kit"]);
    assert!(seen.starts_with("exit code 0"), "{seen}");
    assert!(seen.contains("warning: this fleet names no hub"), "{seen}");
    let record = fs::read(fleet.path("fleet/sites/press-7.json")).unwrap();
    let seen = write(&["second.kit"]);
    assert!(seen.starts_with("exit code 1"), "{seen}");
    let void =
        "`press-7` has a kit already, for dev/drone; another one invalidates: its previous kit";
    assert!(seen.contains(void) && seen.contains("`--again`"), "{seen}");
    assert!(!fleet.path("second.kit").exists());
    assert_eq!(
        fs::read(fleet.path("fleet/sites/press-7.json")).unwrap(),
        record
    );
    let seen = write(&["second.kit", "--again"]);
    assert!(seen.starts_with("exit code 0"), "{seen}");
    assert_ne!(
        fs::read(fleet.path("fleet/sites/press-7.json")).unwrap(),
        record
    );
}

#[test]
fn what_is_given_as_root_and_is_none_is_named() {
    let fleet = Fleet::new();
    assert!(fleet.bundle(&[]).starts_with("exit code 0"));
    let other = Fleet::new();
    let verify = |root: &str| {
        fleet
            .fixture
            .run_only(&["verify", "out/dev-drone-1.outhaul", "--root", root])
    };
    let theirs = other.path("fleet/metadata/1.root.json");
    fs::copy(theirs, fleet.path("other.root.json")).unwrap();
    fleet
        .fixture
        .run_only(&["secret", "keygen", "--out", "k.age"]);
    for (root, code, what) in [
        (
            "out/dev-drone-1.outhaul",
            2,
            "is not root metadata: it is a bundle",
        ),
        ("k.age", 2, "is not root metadata: it is a key"),
        ("app/workload.yaml", 2, "is not root metadata: it is a text"),
        (
            "other.root.json",
            4,
            "is of another fleet: `other.root.json`, given with `--root`",
        ),
        ("fleet/metadata/1.root.json", 0, "signatures hold"),
    ] {
        let seen = verify(root);
        assert!(
            seen.starts_with(&format!("exit code {code}\n")),
            "{root}: {seen}"
        );
        assert!(seen.contains(what), "{root}: {seen}");
        assert!(!seen.contains("get the bundle again"), "{root}: {seen}");
    }
}

#[test]
fn a_file_that_is_not_a_bundle_is_called_what_it_is() {
    let fleet = Fleet::new();
    fleet
        .fixture
        .write("notes.txt", "carry the stick to press 7\n");
    let kit = "{\"token\": \"x\"}";
    fleet.fixture.write("press-7.kit", kit);
    for (file, what) in [("notes.txt", "a text"), ("press-7.kit", "a kit of a site")] {
        for command in [
            &["inspect", file][..],
            &["verify", file, "--fleet", "fleet"],
        ] {
            let seen = fleet.fixture.run_only(command);
            assert!(seen.starts_with("exit code 4"), "{seen}");
            let named = format!("`{file}` is not a bundle: it is {what}");
            assert!(seen.contains(&named), "{seen}");
        }
    }
}

#[test]
fn a_registration_is_written_into_a_control_plane_alone() {
    let fixture = PlaneFixture::new();
    fs::create_dir_all(fixture.folder.path().join("plain")).unwrap();
    let mut command = vec!["new", "registration", "app", "--workspace", "team"];
    command.extend(["--repo", "https://git.example.org/app", "--in"]);
    let seen = fixture.run_only(&[&command[..], &["plain"]].concat());
    assert!(seen.starts_with("exit code 2"), "{seen}");
    assert!(seen.contains("`plain` is not a control plane"), "{seen}");
    let plain = fs::read_dir(fixture.folder.path().join("plain")).unwrap();
    assert_eq!(plain.count(), 0);
}
