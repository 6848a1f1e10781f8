//! A promotion policy that would have no effect, a label that names no environment, a clone that is not whole: nothing moves.
//!
//! What comes in: a control plane that `outhaul init` wrote, with one mistake in what it says about promotion, and `FakeHub` with every gate
//! open. What must come out: a refusal that names the place, the same of `outhaul check`, once, and branches as they were.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use super::gate::GateFixture;
use super::repositories::{commit, git};

const CHECK: &str = "check --control-plane cp --environment stage";

fn policy(from: &str, to: &str) -> String {
    format!(
        "apiVersion: outhaul.dev/v1alpha1\nkind: PromotionPolicy\nmetadata:\n  name: careful\nspec:\n  from: {from}\n  to: {to}\n  \
         approvals: {{needed: 1, by: [ann]}}\n"
    )
}

/// A fixture whose gates are open, with the control plane changed.
fn changed(file: &str, text: &str) -> GateFixture {
    let made = GateFixture::new();
    made.opens(&["dev", "stage"]);
    made.ok("promote --control-plane cp --to dev");
    let path = made.path("cp").join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    commit(&made.path("cp"), "a mistake");
    made
}

/// What `promote --to stage` says, which refuses and moves nothing.
#[track_caller]
fn refused(made: &GateFixture, says: &str) {
    let stage = made.at("stage");
    let hub = made.hub();
    let promote = format!("promote --control-plane cp --to stage --hub {hub}");
    let watch = format!("promote --control-plane cp --watch --interval 0 --hub {hub}");
    for command in [promote, watch] {
        let (code, _, err) = made.run(&command.split(' ').collect::<Vec<_>>());
        assert_ne!(code, 0, "{command}\n{err}");
        assert!(err.contains(says), "{command}\n{err}");
    }
    assert_eq!(made.at("stage"), stage);
}

/// What `promote --to stage` ends with: its exit code, standard output and standard error.
fn promoted(made: &GateFixture) -> (i32, String, String) {
    let promote = format!("promote --control-plane cp --to stage --hub {}", made.hub());
    made.run(&promote.split(' ').collect::<Vec<_>>())
}

/// How often `check` says it.
fn checked(made: &GateFixture, says: &str) -> usize {
    let (code, out, err) = made.run(&CHECK.split(' ').collect::<Vec<_>>());
    assert_eq!(code, 1, "{out}{err}");
    format!("{out}{err}").matches(says).count()
}

#[test]
fn attack_a_policy_with_a_mistyped_environment_does_not_leave_the_step_to_the_default_rules() {
    for (text, says) in [
        (policy("dev", "stagee"), "leads to `stagee`, and"),
        (policy("devv", "stage"), "leads from `devv`, and"),
    ] {
        let made = changed(".environments/careful.yaml", &text);
        refused(&made, says);
        refused(&made, ".environments/careful.yaml:");
        assert_eq!(checked(&made, says), 1);
        let bundle = "bundle --environment stage --control-plane cp --fleet fleet --passphrase-file passphrase --out stick";
        let (code, _, err) = made.run(&bundle.split(' ').collect::<Vec<_>>());
        assert!(code != 0 && err.contains(says), "{err}");
        assert!(!made.path("stick").exists());
    }
}

#[test]
fn a_policy_that_does_not_read_is_an_error_of_check_as_it_refuses_each_promotion() {
    let broken = policy("dev", "stage").replace("to: stage", "two: stage");
    let made = changed(".environments/careful.yaml", &broken);
    let says = "unknown field `two`";
    refused(&made, says);
    assert_eq!(checked(&made, says), 1);
}

#[test]
fn attack_a_policy_in_another_place_does_not_leave_the_step_to_the_default_rules() {
    let elsewhere = "`careful` does not lie beside the environments: it has no effect";
    for file in [
        "policies/careful.yaml",
        "careful.yml",
        ".github/careful.yaml",
    ] {
        let made = changed(file, &policy("dev", "stage"));
        match file.starts_with(".github") {
            // What a control plane never reads may hold anything.
            true => {
                let hub = made.hub();
                made.ok(&format!(
                    "promote --control-plane cp --to stage --hub {hub}"
                ));
            }
            false => {
                refused(&made, elsewhere);
                assert_eq!(checked(&made, elsewhere), 1, "{file}");
            }
        }
    }
    let ending = "`careful` is not read: the name of its file does not end in `.yaml` or `.yml`";
    for file in ["careful.YAML", "careful.yaml.txt", "careful"] {
        let made = changed(&format!(".environments/{file}"), &policy("dev", "stage"));
        refused(&made, ending);
        assert_eq!(checked(&made, ending), 1, "{file}");
    }
    // A comment in Latin-1.
    let made = changed(".environments/careful.yaml", "");
    let mut bytes = b"# Pr\xfcfung\n".to_vec();
    bytes.extend(policy("dev", "stage").as_bytes());
    fs::write(made.path("cp/.environments/careful.yaml"), bytes).unwrap();
    commit(&made.path("cp"), "a comment");
    refused(&made, "is not UTF-8 text: it is not read");
}

#[test]
fn attack_a_policy_on_the_branch_of_an_environment_does_not_leave_the_step_to_the_default_rules() {
    let own = "`careful` is an environment's own: it has no effect";
    for (branch, file) in [
        ("dev", "scheduling/careful.yaml"),
        ("stage", ".environments/careful.yaml.txt"),
    ] {
        let made = changed("note.txt", "");
        let cp = made.path("cp");
        git(&cp, &["checkout", "-q", branch]);
        let path = cp.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, policy("dev", "stage")).unwrap();
        commit(&cp, "a mistake");
        git(&cp, &["checkout", "-q", "main"]);
        refused(&made, own);
        let check = format!("check --control-plane cp --environment {branch}");
        let (code, out, err) = made.run(&check.split(' ').collect::<Vec<_>>());
        assert_eq!(
            (code, format!("{out}{err}").matches(own).count()),
            (1, 1),
            "{branch}"
        );
    }
}

#[test]
fn a_mistyped_environment_is_named_with_the_one_that_is_meant() {
    let made = changed("note.txt", "");
    let stage = made.at("stage");
    for options in ["--from deev --to stage", "--to deev"] {
        let (_, _, err) = made.ends(2, &format!("promote --control-plane cp {options}"));
        for part in [
            "there is no environment `deev`; there are `dev`, `prod`, `stage`",
            "help: did you mean `dev`?",
        ] {
            assert!(err.contains(part), "{options}: `{part}` is not in:\n{err}");
        }
    }
    assert_eq!(made.at("stage"), stage);
    let hub = made.hub();
    let (_, _, err) = made.ends(
        2,
        &format!("promote --control-plane cp --watch --interval 0 --hub {hub}"),
    );
    assert!(
        err.contains("`.environments/` has no PromotionPolicy"),
        "{err}"
    );
}

/// A hub that takes the question and keeps the answer to itself.
#[test]
fn of_a_hub_that_does_not_answer_it_is_said_that_it_is_waited_for() {
    let made = changed("note.txt", "");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let mut child = Command::new(env!("CARGO_BIN_EXE_outhaul"))
        .current_dir(made.path(""))
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("OUTHAUL_PROJECT", "none")
        .args([
            "promote",
            "--control-plane",
            "cp",
            "--to",
            "stage",
            "--hub",
            &url,
        ])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (stream, _) = listener.accept().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let says = format!("waiting for the hub `{url}`: no answer yet; it is given up after 60 s");
    let mut read = String::new();
    loop {
        let line = lines.next().unwrap_or_else(|| panic!("{read}")).unwrap();
        if line.contains(&says) {
            break;
        }
        read.push_str(&line);
    }
    drop(stream);
    drop(listener);
    assert_eq!(child.wait().unwrap().code(), Some(3));
}

#[test]
fn a_label_that_names_an_environment_off_the_list_is_named() {
    let made = changed("note.txt", "");
    let folder = made.path("cp/.environments");
    let files = fs::read_dir(&folder).unwrap();
    let repo = git(&made.path("cp"), &["show", "stage:base-repo.yaml"]);
    let (_, repo) = repo.split_once("repo: ").unwrap();
    let repo = repo.lines().next().unwrap();
    for file in files {
        fs::remove_file(file.unwrap().path()).unwrap();
    }
    let text = format!(
        "apiVersion: scheduler.kalypso.io/v1alpha1\nkind: Environment\nmetadata:\n  name: stage\n  labels:\n    outhaul.dev/after: dev\nspec:\n  \
         controlPlane:\n    repo: {repo}\n    branch: stage\n    path: .\n"
    );
    fs::write(folder.join("stage.yaml"), &text).unwrap();
    commit(&made.path("cp"), "dev off the list");
    let says =
        "environment `stage` comes after `dev`, and `.environments/` lists no such environment";
    let stage = made.at("stage");
    let (code, _, err) = promoted(&made);
    assert!(
        code != 0 && err.contains(says) && err.contains("stage.yaml:6:"),
        "{err}"
    );
    assert_eq!(made.at("stage"), stage);
    assert_eq!(checked(&made, says), 1);
    // One environment twice: which of the two is meant is not chosen in silence.
    fs::write(
        folder.join("again.yaml"),
        text.replace("branch: stage", "branch: dev"),
    )
    .unwrap();
    commit(&made.path("cp"), "twice");
    let twice = "environment `stage` is listed twice";
    let (code, _, err) = promoted(&made);
    assert!(code != 0 && err.contains(twice), "{err}");
    assert_eq!(checked(&made, twice), 1);
}

#[test]
fn of_a_shallow_clone_it_is_said_that_it_is_shallow() {
    let made = changed("configs/more.txt", "one");
    let hub = made.hub();
    made.ok(&format!(
        "promote --control-plane cp --to stage --hub {hub}"
    ));
    let old = made.base("stage");
    for text in ["two", "three"] {
        fs::write(made.path("cp/configs/more.txt"), text).unwrap();
        commit(&made.path("cp"), text);
    }
    let newest = git(&made.path("cp"), &["rev-parse", "main"]);
    let stage = made.at("stage");
    // Both commits are here, and what is between them is not.
    fs::write(made.path("cp/.git/shallow"), format!("{newest}\n")).unwrap();
    let promote = format!("promote --control-plane cp --to stage --commit {newest} --hub {hub}");
    let (code, _, err) = made.ends(3, &promote);
    assert!(
        code == 3
            && err.contains(&format!(
                "whether {newest} contains {old}, where `stage` is, is not known"
            ))
            && err.contains("git fetch --unshallow")
            && !err.contains("is not part of"),
        "{err}"
    );
    let absent = "0123456789012345678901234567890123456789";
    let promote = format!("promote --control-plane cp --to stage --commit {absent} --hub {hub}");
    let (_, _, err) = made.ends(3, &promote);
    assert!(
        err.contains("which is shallow") && err.contains("git fetch --unshallow"),
        "{err}"
    );
    assert_eq!(made.at("stage"), stage);
}
