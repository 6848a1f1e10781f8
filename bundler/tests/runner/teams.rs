//! One team is one team: what it writes reaches neither this machine nor another team.
//!
//! What comes in: a fleet with two workloads of two teams, of which one writes what it should not, or
//! whose repository is broken. What must come out: the other team's assignments as they are now, the
//! broken ones as they were, the reasons, exit code 1; and nothing of this machine in any bundle.

use std::fs;
use std::net::TcpListener;

use super::cli::PlaneFixture;
use super::kept::{Fleet, of};
use super::repositories::{commit, git};

/// The second team's registration, in a separate repository.
fn two_teams(fleet: &Fleet) {
    let fixture = &fleet.fixture;
    let wave = fs::read_to_string(fleet.path("app/wave.yaml")).unwrap();
    fs::remove_file(fleet.path("app/wave.yaml")).unwrap();
    fixture.write("wave/workload.yaml", &wave);
    git(&fleet.path("wave"), &["init", "--quiet"]);
    commit(&fleet.path("wave"), "first");
    let registration = fs::read_to_string(fleet.path("main/app.yaml")).unwrap();
    let other = registration
        .replace("name: app", "name: wave")
        .replace("workspace: team", "workspace: surfers")
        .replace("git.example.org/app", "git.example.org/wave");
    fixture.write("main/wave.yaml", &other);
    fixture.edit("dev/policy.yaml", "    workspace: team\n", "");
}

const WAVE: &[&str] = &["--source", "https://git.example.org/wave=wave"];

#[test]
fn what_a_team_names_as_its_manifests_opens_nothing_of_this_machine() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    server.set_nonblocking(true).unwrap();
    let port = server.local_addr().unwrap().port();
    let fleet = Fleet::new();
    let folder = fleet.path("fleet").display().to_string();
    let mut before = "https://git.example.org/manifests".to_owned();
    for repo in [
        folder.clone(),
        "fleet".to_owned(),
        "./fleet".to_owned(),
        format!("file://{folder}"),
        format!("FILE://{folder}"),
        fleet.path("manifests").display().to_string(),
        format!("http://127.0.0.1:{port}/x"),
        format!("HTTPS://LOCALHOST:{port}/x"),
        format!("git://127.1:{port}/x"),
        format!("https://2130706433:{port}/x"),
        format!("ssh://git@127.0.0.1:{port}/x"),
        "https://169.254.169.254/latest/meta-data".to_owned(),
        format!("ext::sh -c touch% {folder}/mark"),
        "--upload-pack=touch mark".to_owned(),
    ] {
        let quoted = format!("repo: \"{repo}\"");
        fleet
            .fixture
            .edit("app/workload.yaml", &format!("repo: {before}"), &quoted);
        before = format!("\"{repo}\"");
        let seen = fleet.bundle(&[]);
        assert!(seen.starts_with("exit code 1"), "{repo}: {seen}");
        // What nobody may open is refused before anything is collected.
        let is_address = !repo.starts_with("ext::") && !repo.starts_with('-');
        let code = match is_address {
            true => "error[not-collected]",
            false => "error[forbidden-source]",
        };
        assert!(seen.contains(code), "{repo}: {seen}");
        assert!(
            seen.contains("left out: drone/hello-test"),
            "{repo}: {seen}"
        );
        let checked = fleet.fixture.run(&["check"]);
        assert!(checked.contains(code), "{repo}: {checked}");
    }
    assert!(!fleet.path("fleet/mark").exists() && !fleet.path("mark").exists());
    assert!(server.accept().is_err(), "someone called");
    let names = fleet.last()["stream"]["assignments"]
        .as_object()
        .unwrap()
        .clone();
    assert_eq!(names.len(), 4, "the others are in the bundle");

    // The same server, and the same folder, when who runs outhaul says so.
    let allowed = format!("127.0.0.1:{port}");
    let repo = format!("http://127.0.0.1:{port}/x");
    fleet
        .fixture
        .edit("app/workload.yaml", &before, &format!("\"{repo}\""));
    let asked = std::thread::spawn(move || {
        server.set_nonblocking(false).unwrap();
        server.accept().is_ok()
    });
    let seen = fleet.bundle(&["--allow-host", &allowed]);
    assert!(seen.contains("cannot reach repository"), "{seen}");
    assert!(asked.join().unwrap());
    let mapped = format!("{repo}=manifests");
    let seen = fleet.bundle(&["--source", &mapped]);
    assert!(seen.starts_with("exit code 0"), "{seen}");
}

#[test]
fn a_password_in_the_url_of_a_workload_is_published_by_no_command() {
    let fleet = Fleet::new();
    let seen = fleet.bundle(&[]);
    assert!(seen.starts_with("exit code 0"), "{seen}");
    let repo = "https://u:hunter2@git.example.org/manifests";
    let old = "repo: https://git.example.org/manifests\n        path: here";
    fleet.fixture.edit(
        "app/wave.yaml",
        old,
        &old.replace("https://git.example.org/manifests", repo),
    );
    let mapped = format!("{repo}=manifests");
    git(&fleet.path(""), &["init", "--quiet", "--bare", "gitops"]);
    for words in [
        &["render", "--out", "tree"][..],
        &["publish", "git", "--to", "gitops", "--branch", "dev"],
    ] {
        let seen = fleet.fixture.run(words);
        assert!(seen.starts_with("exit code 1"), "{seen}");
        assert!(seen.contains("error[forbidden-source]"), "{seen}");
        assert!(!seen.contains("hunter2"), "{seen}");
    }
    let seen = fleet.bundle(&["--source", &mapped]);
    assert!(seen.starts_with("exit code 1"), "{seen}");
    assert!(seen.contains("error[forbidden-source]"), "{seen}");
    assert!(!seen.contains("hunter2"), "{seen}");
}

#[test]
fn a_registration_is_no_way_to_this_machine_either() {
    let fixture = PlaneFixture::new();
    let app = fixture.folder.path().join("app").display().to_string();
    for repo in [app.clone(), format!("file://{app}"), "app".to_owned()] {
        let text = fs::read_to_string(fixture.folder.path().join("main/app.yaml")).unwrap();
        let old = text.lines().find(|line| line.contains("repo:")).unwrap();
        fixture.edit("main/app.yaml", old, &format!("    repo: {repo}"));
        let seen = fixture.run(&["render", "--out", "out"]);
        assert!(seen.starts_with("exit code 1"), "{repo}: {seen}");
        assert!(seen.contains("error[forbidden-source]"), "{repo}: {seen}");
    }
}

#[test]
fn attack_a_password_in_the_url_of_a_registration_is_refused_though_a_local_copy_is_mapped() {
    let fixture = PlaneFixture::new();
    let text = fs::read_to_string(fixture.folder.path().join("main/app.yaml")).unwrap();
    let old = text.lines().find(|line| line.contains("repo:")).unwrap();
    let repo = "https://bob:hunter2@git.example.org/app";
    fixture.edit("main/app.yaml", old, &format!("    repo: {repo}"));
    let mapped = format!("{repo}=app");
    for words in [
        &["render", "--out", "out"][..],
        &["check"],
        &["explain", "--whole", "--output", "json"],
    ] {
        let seen = fixture.run(&[words, &["--source", &mapped]].concat());
        assert!(seen.starts_with("exit code 1"), "{words:?}: {seen}");
        assert!(seen.contains("forbidden-source"), "{words:?}: {seen}");
        assert!(!seen.contains("hunter2"), "{words:?}: {seen}");
    }
    for path in ["out", "out.outhaul.json"] {
        let text = fs::read_to_string(fixture.folder.path().join(path)).unwrap_or_default();
        assert!(!text.contains("hunter2"), "{path}");
    }
}

#[test]
fn a_broken_repository_of_one_team_keeps_what_it_ran_and_stops_nobody() {
    let sound = |fleet: &Fleet| fs::read_to_string(fleet.path("wave/workload.yaml")).unwrap();
    for (what, code) in [
        ("bad YAML", "error["),
        ("no branch", "error[no-such-reference]"),
        ("unreachable", "error[unreachable]"),
        ("the name of another team's", "error[duplicate-name]"),
    ] {
        let fleet = Fleet::new();
        two_teams(&fleet);
        let seen = fleet.bundle(WAVE);
        assert!(seen.starts_with("exit code 0"), "{what}: {seen}");
        let first = fleet.last();
        let rendered = |fleet: &Fleet| {
            let mut words = vec!["render", "--out", "tree"];
            words.extend(WAVE);
            fleet.fixture.run(&words)
        };
        rendered(&fleet);

        let text = sound(&fleet);
        let mut sources = WAVE.to_vec();
        match what {
            "bad YAML" => {
                fleet.fixture.write("wave/workload.yaml", "kind: [Workload");
                commit(&fleet.path("wave"), "oops");
            }
            "no branch" => {
                git(&fleet.path("wave"), &["branch", "-m", "gone"]);
            }
            "unreachable" => sources.clear(),
            _ => {
                let other = fs::read_to_string(fleet.path("app/workload.yaml")).unwrap();
                fleet.fixture.write("wave/second.yaml", &other);
                commit(&fleet.path("wave"), "mine");
            }
        }
        fleet.fixture.edit("dev/config.yaml", "East US", "Far East");
        let seen = fleet.bundle(&sources);
        assert!(seen.starts_with("exit code 1"), "{what}: {seen}");
        assert!(seen.contains(code), "{what}: {seen}");
        assert!(
            seen.contains("dev/drone: number 2, 5 assignments"),
            "{what}: {seen}"
        );
        assert!(seen.contains("kept: drone/wave-0"), "{what}: {seen}");
        let second = fleet.last();
        assert_eq!(of(&second, "wave-0"), of(&first, "wave-0"), "{what}");
        if what.starts_with("the name") {
            // Nothing says whose it is: both stay as they were.
            assert_eq!(of(&second, "hello-test"), of(&first, "hello-test"));
        } else {
            assert_ne!(
                of(&second, "hello-test"),
                of(&first, "hello-test"),
                "{what}"
            );
        }
        let mut words = vec!["check"];
        words.extend(&sources);
        let seen = fleet.fixture.run(&words);
        assert!(!seen.starts_with("exit code 0"), "{what}: {seen}");
        assert!(seen.contains(code), "{what}: {seen}");

        let mut words = vec!["render", "--out", "tree"];
        words.extend(&sources);
        let seen = fleet.fixture.run(&words);
        assert!(seen.starts_with("exit code 1"), "{what}: {seen}");
        assert!(seen.contains("kept: drone/wave-3"), "{what}: {seen}");
        assert!(fleet.path("tree/drone/wave-3/reconciler.yaml").exists());
        let strict = fleet.bundle(&[&sources[..], &["--strict"]].concat());
        assert!(strict.starts_with("exit code 1"), "{what}: {strict}");
        assert!(!fleet.path("out/dev-drone-3.outhaul").exists(), "{what}");

        // Mended: nothing is kept any more.
        match what {
            "bad YAML" => fleet.fixture.write("wave/workload.yaml", &text),
            "no branch" => drop(git(&fleet.path("wave"), &["branch", "-m", "main"])),
            "unreachable" => {}
            _ => fs::remove_file(fleet.path("wave/second.yaml")).unwrap(),
        }
        commit(&fleet.path("wave"), "mended");
        let seen = fleet.bundle(WAVE);
        assert!(seen.starts_with("exit code 0"), "{what}: {seen}");
    }
}

#[test]
fn a_workload_that_is_called_as_its_registration_keeps_its_name() {
    let fleet = Fleet::new();
    two_teams(&fleet);
    fleet
        .fixture
        .edit("main/app.yaml", "name: app", "name: hello");
    let seen = fleet.bundle(WAVE);
    assert!(seen.starts_with("exit code 0"), "{seen}");
    let first = fleet.last();
    let other = fs::read_to_string(fleet.path("app/workload.yaml")).unwrap();
    // By its own name, and by that of one of its targets.
    let longer = other.replace("name: hello", "name: hello-a");
    for (text, what) in [
        (other.clone(), "Workload `hello`"),
        (longer, "deployment target `hello-a-b`"),
    ] {
        fleet.fixture.write(
            "wave/second.yaml",
            &text.replace("- name: test", "- name: b"),
        );
        let own = match what {
            "Workload `hello`" => other.clone(),
            _ => other.replace("- name: test", "- name: a-b"),
        };
        fleet.fixture.write("app/workload.yaml", &own);
        commit(&fleet.path("wave"), what);
        let mut words = vec!["check"];
        words.extend(WAVE);
        let seen = fleet.fixture.run(&words);
        assert!(
            seen.contains(&format!(
                "error[duplicate-name]: the {what} is that of registration `hello`"
            )),
            "{seen}"
        );
    }
    fleet.fixture.write("wave/second.yaml", &other);
    fleet.fixture.write("app/workload.yaml", &other);
    commit(&fleet.path("wave"), "mine");
    fleet.fixture.edit("dev/config.yaml", "East US", "Far East");
    let seen = fleet.bundle(WAVE);
    assert!(seen.starts_with("exit code 1"), "{seen}");
    assert!(seen.contains("kept: drone/wave-0"), "{seen}");
    assert!(!seen.contains("kept: drone/hello-test"), "{seen}");
    let second = fleet.last();
    assert_eq!(of(&second, "wave-0"), of(&first, "wave-0"));
    assert_ne!(of(&second, "hello-test"), of(&first, "hello-test"));
    // Nor does it where its own repository cannot be read.
    fleet.fixture.write("app/workload.yaml", "kind: [Workload");
    let seen = fleet.bundle(WAVE);
    assert!(seen.contains("kept: drone/hello-test"), "{seen}");
    assert!(seen.contains("kept: drone/wave-0"), "{seen}");
    let third = fleet.last();
    assert_eq!(of(&third, "hello-test"), of(&second, "hello-test"));
}

#[test]
fn one_payload_that_cannot_be_collected_is_one_payload() {
    let fleet = Fleet::new();
    let seen = fleet.bundle(&[]);
    assert!(seen.starts_with("exit code 0"), "{seen}");
    let first = fleet.last();
    // Of five only the one that reads a separate branch.
    fleet.fixture.edit(
        "app/workload.yaml",
        "        repo: https://git.example.org/manifests",
        "        repo: https://git.example.org/manifests\n        branch: gone",
    );
    fleet.fixture.edit("dev/config.yaml", "East US", "Far East");
    let seen = fleet.bundle(&[]);
    assert!(seen.starts_with("exit code 1"), "{seen}");
    assert!(seen.contains("has no branch `gone`"), "{seen}");
    assert!(seen.contains("kept: drone/hello-test"), "{seen}");
    assert!(
        seen.contains("dev/drone: number 2, 5 assignments"),
        "{seen}"
    );
    let second = fleet.last();
    assert_eq!(of(&second, "hello-test"), of(&first, "hello-test"));
    assert_ne!(of(&second, "wave-1"), of(&first, "wave-1"));
    // What a bundle would leave out is reported before.
    let seen = fleet.fixture.run(&[
        "check",
        "--source",
        "https://git.example.org/manifests=manifests",
    ]);
    assert!(seen.contains("has no branch `gone`"), "{seen}");
    assert!(seen.starts_with("exit code 1"), "{seen}");
}

#[test]
fn payload_files_that_differ_only_in_case_are_one_assignments_failure() {
    let fleet = Fleet::new();
    let manifests = fleet.path("manifests");
    git(&manifests, &["checkout", "--quiet", "-b", "alike"]);
    fleet.fixture.write("manifests/here/README", "one\n");
    fleet.fixture.write("manifests/here/readme", "two\n");
    commit(&manifests, "two files that are one on a stick");
    git(&manifests, &["checkout", "--quiet", "-"]);
    fleet.fixture.edit(
        "app/workload.yaml",
        "        repo: https://git.example.org/manifests",
        "        repo: https://git.example.org/manifests\n        branch: alike",
    );
    let seen = fleet.bundle(&[]);
    assert!(seen.starts_with("exit code 1"), "{seen}");
    assert!(
        seen.contains("`here/README` and `here/readme`") || seen.contains("README` and `"),
        "{seen}"
    );
    assert!(seen.contains("left out: drone/hello-test"), "{seen}");
    assert!(
        seen.contains("dev/drone: number 1, 4 assignments"),
        "{seen}"
    );
}

#[test]
fn a_teams_repository_brings_workloads_and_nothing_else() {
    let fleet = Fleet::new();
    for (path, text) in [
        ("dev/policy.yaml", "app/policy.yaml"),
        ("main/templates.yaml", "app/templates.yaml"),
        ("dev/types.yaml", "app/types.yaml"),
    ] {
        fs::copy(fleet.path(path), fleet.path(text)).unwrap();
    }
    fleet.fixture.write(
        "app/base.yaml",
        "apiVersion: scheduler.kalypso.io/v1alpha1\nkind: BaseRepo\nmetadata: {name: mine}\nspec: {repo: \
         /etc, branch: main, path: .}\n",
    );
    let seen = fleet.bundle(&[]);
    assert!(seen.starts_with("exit code 0"), "{seen}");
    for kind in [
        "SchedulingPolicy `everywhere`",
        "Template `flux`",
        "BaseRepo `mine`",
    ] {
        assert!(
            seen.contains(&format!("{kind} is ignored")),
            "{kind}: {seen}"
        );
    }
}

#[test]
fn a_name_or_a_message_steers_no_terminal_and_shows_no_password() {
    let fixture = PlaneFixture::new();
    fixture.write("app/\u{1b}]0;owned\u{7}\r.yaml", "kind: [\u{1b}[31m");
    fixture.edit(
        "app/workload.yaml",
        "https://git.example.org/manifests",
        "https://me:hunter2@git.example.org/manifests",
    );
    for words in [
        &["check"][..],
        &["check", "--output", "json"],
        &["render", "--out", "out"],
        &["schedule"],
    ] {
        let seen = fixture.run(words);
        let steers = |c: char| c.is_control() && c != '\n' && c != '\t';
        assert!(!seen.contains(steers), "{words:?}: {seen:?}");
        assert!(!seen.contains("hunter2"), "{words:?}: {seen}");
    }
}
