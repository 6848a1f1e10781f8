//! An environment whose gate is gone from the list of environments: it stays where its promotion brought it.
//!
//! What comes in: a control plane that `outhaul init` wrote, whose `stage` was promoted through the gate of `dev`, and a commit on `main`
//! that takes `dev` off the list. What must come out: bundles of what was promoted, a warning of `check`, and a refusal of every other
//! commit and path, with the way out; whoever goes past it is on record.

use std::fs;

use super::gate::GateFixture;
use super::repositories::{commit, git};

const PLANE: &str = "--environment stage --control-plane cp";
const BUNDLE: &str = "bundle --environment stage --control-plane cp --fleet fleet --passphrase-file passphrase --out stick";
const PAST: [&str; 4] = ["--override-gate", "line 3", "--override-by", "Jo"];

/// `stage` came to its commit through the gate of `dev`.
fn promoted() -> GateFixture {
    let made = GateFixture::new();
    made.opens(&["dev"]);
    made.ok("promote --control-plane cp --to dev");
    made.ok(&format!(
        "promote --control-plane cp --to stage --hub {}",
        made.hub()
    ));
    made.ok(BUNDLE);
    made
}

/// Every environment but `stage`, and every policy, off the list.
fn remove_dev(made: &GateFixture) {
    let folder = made.path("cp/.environments");
    for file in fs::read_dir(&folder).unwrap() {
        fs::remove_file(file.unwrap().path()).unwrap();
    }
    let text = "apiVersion: scheduler.kalypso.io/v1alpha1\nkind: Environment\nmetadata: {name: stage}\nspec:\n  controlPlane:\n    \
                repo: REPO\n    branch: stage\n    path: .\n";
    let base = git(&made.path("cp"), &["show", "stage:base-repo.yaml"]);
    let (_, repo) = base.split_once("repo: ").unwrap();
    let repo = repo.lines().next().unwrap();
    fs::write(folder.join("stage.yaml"), text.replace("REPO", repo)).unwrap();
    commit(&made.path("cp"), "Only stage");
}

/// An ordinary commit of `stage`.
fn edit(made: &GateFixture, from: &str, to: &str) {
    let cp = made.path("cp");
    git(&cp, &["checkout", "--quiet", "stage"]);
    let path = cp.join("base-repo.yaml");
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{text}");
    fs::write(path, text.replace(from, to)).unwrap();
    commit(&cp, "an ordinary commit");
    git(&cp, &["checkout", "--quiet", "main"]);
}

#[test]
fn attack_an_environment_whose_gate_is_taken_off_the_list_ships_only_what_was_promoted() {
    let made = promoted();
    let base = made.base("stage");
    remove_dev(&made);
    let (_, _, _) = made.ok(BUNDLE);
    let (_, out, _) = made.ok(&format!("check {PLANE} --output lines"));
    eprintln!("{out}");
    assert!(
        out.contains("warning[gate-gone]") && out.contains("through the gate of `dev`"),
        "{out}"
    );
    let new = made.change();
    let stage = made.at("stage");
    // `promote` does not move it either, typed or as the first that follows its base.
    let (_, _, err) = made.ends(1, "promote --control-plane cp --to stage");
    eprintln!("{err}");
    assert!(
        err.contains("it is not moved without that gate") && err.contains("nothing was changed"),
        "{err}"
    );
    let (_, _, err) = made.ends(
        1,
        "promote --control-plane cp --watch --first stage --interval 0",
    );
    assert!(err.contains("it is not moved without that gate"), "{err}");
    assert_eq!(made.at("stage"), stage);
    let refuses = |says: &str| {
        let before = fs::read_dir(made.path("stick")).unwrap().count();
        let (_, _, err) = made.ends(1, BUNDLE);
        eprintln!("{err}");
        assert!(
            err.contains("`stage` is the first one now")
                && err.contains("through the gate of `dev`")
                && err.contains(says)
                && err.contains("nothing was written"),
            "{err}"
        );
        assert_eq!(fs::read_dir(made.path("stick")).unwrap().count(), before);
    };
    edit(&made, &base, &new);
    refuses("moved it there from");
    edit(&made, &new, &base);
    refuses("moved it there from");
    git(
        &made.path("cp"),
        &["update-ref", "refs/heads/stage", &stage],
    );
    // Past the gate it is on record, and stays there.
    git(
        &made.path("cp"),
        &["update-ref", "refs/heads/stage", &stage],
    );
    let promote = "promote --control-plane cp --to stage";
    let words: Vec<&str> = promote.split(' ').chain(PAST).collect();
    assert_eq!(made.run(&words).0, 0);
    assert_eq!(made.base("stage"), new);
    made.ok(BUNDLE);
    let (_, out, _) = made.ok(&format!("check {PLANE} --output lines"));
    assert!(out.contains("past a gate"), "{out}");
}

#[test]
fn attack_an_environment_under_another_name_or_after_another_one_has_the_gate_that_it_had() {
    let made = promoted();
    let (base, stage) = (made.base("stage"), made.at("stage"));
    remove_dev(&made);
    let list = made.path("cp/.environments/stage.yaml");
    let text = fs::read_to_string(&list).unwrap();
    fs::write(&list, text.replace("{name: stage}", "{name: uat}")).unwrap();
    commit(&made.path("cp"), "Under another name");
    let bundle = BUNDLE.replace("--environment stage", "--environment uat");
    let new = made.change();
    edit(&made, &base, &new);
    let (_, _, err) = made.ends(1, &bundle);
    assert!(err.contains("through the gate of `dev`"), "{err}");
    git(
        &made.path("cp"),
        &["update-ref", "refs/heads/stage", &stage],
    );
    made.ok(&bundle);
}

#[test]
fn attack_an_environment_whose_name_moved_to_a_copy_of_its_branch_has_the_gate_that_it_had() {
    let made = promoted();
    remove_dev(&made);
    git(&made.path("cp"), &["branch", "copy", "stage"]);
    let list = made.path("cp/.environments/stage.yaml");
    let text = fs::read_to_string(&list).unwrap();
    let first = text.replace("{name: stage}", "{name: uat}");
    fs::write(made.path("cp/.environments/uat.yaml"), first).unwrap();
    let named = "{name: stage, labels: {outhaul.dev/after: uat}}";
    let copy = text.replace("{name: stage}", named);
    fs::write(&list, copy.replace("branch: stage", "branch: copy")).unwrap();
    commit(&made.path("cp"), "The name on a copy");
    made.change();
    let stage = made.at("stage");
    let (_, _, err) = made.ends(1, "promote --control-plane cp --to uat");
    assert!(err.contains("it is not moved without that gate"), "{err}");
    assert_eq!(made.at("stage"), stage);
}

#[test]
fn attack_an_environment_of_which_only_the_last_commits_are_here_is_not_moved_as_the_first() {
    let made = promoted();
    let base = made.base("stage");
    remove_dev(&made);
    let new = made.change();
    edit(&made, &base, &new);
    let stage = made.at("stage");
    fs::write(made.path("cp/.git/shallow"), format!("{stage}\n")).unwrap();
    let newest = made.change();
    let promote = format!("promote --control-plane cp --to stage --commit {newest}");
    for command in [promote.as_str(), BUNDLE] {
        let (code, _, err) = made.run(&command.split(' ').collect::<Vec<_>>());
        assert_ne!(code, 0, "{command}");
        assert!(
            err.contains("whether it was promoted through a gate before is not known")
                && err.contains(&format!("ends at commit {stage:.12}"))
                && err.contains("nothing was changed"),
            "{err}"
        );
    }
    assert_eq!(made.at("stage"), stage);
}

#[test]
fn attack_a_commit_of_the_environment_that_is_not_known_opens_nothing() {
    let made = promoted();
    made.change();
    made.ok("promote --control-plane cp --to dev");
    let stage = made.at("stage");
    let promote = format!("promote --control-plane cp --to stage --hub {}", made.hub());
    for (ran, why) in [
        (
            "ran: none",
            "the hub names no commit of the branch of `dev` for it",
        ),
        (
            "ran: 4242424242424242424242424242424242424242",
            "cannot be read",
        ),
        ("ran: --upload-pack=x", "which is not a commit but a folder"),
    ] {
        made.closes();
        made.opens(&["dev", ran]);
        let (_, _, err) = made.ends(1, &promote);
        eprintln!("{err}");
        assert!(
            err.contains("which path of the base that was made from is not known")
                && err.contains(why)
                && err.contains("nothing was changed"),
            "{err}"
        );
        assert_eq!(made.at("stage"), stage);
    }
    made.closes();
    made.opens(&["dev"]);
    made.ok(&promote);
}
