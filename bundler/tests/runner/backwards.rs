//! Promotion backwards, to another history, round in a circle, and in a clone: said, and refused without an explicit option; and what is
//! not promoted yet.
//!
//! What comes in: a control plane that `outhaul init` wrote, with real commits, and a clone of it. What must come
//! out: a refusal that says what is older than what, and the move when that is meant; `check` names what it did not look at.

use super::gate::GateFixture;
use super::repositories::{commit, git};

#[test]
fn a_commit_that_is_older_than_the_one_there_moves_only_when_that_is_meant() {
    let made = GateFixture::new();
    let first = made.base("dev");
    let second = made.change();
    let promote = "promote --control-plane cp --to dev";
    made.ok(promote);
    assert_eq!(made.base("dev"), second);
    let before = made.at("dev");
    let (_, _, err) = made.ends(1, &format!("{promote} --commit {first}"));
    let message =
        format!("{first} is older than {second}, where `dev` is: this would promote backwards");
    assert!(
        err.contains(&message) && err.contains("--backwards"),
        "{err}"
    );
    assert_eq!(made.at("dev"), before);
    made.ok(&format!("{promote} --commit {first} --backwards"));
    assert_eq!(made.base("dev"), first);
    // Forwards again needs nothing.
    made.ok(&format!("{promote} --commit {second}"));
}

#[test]
fn a_commit_without_what_is_there_moves_only_when_that_is_meant() {
    let made = GateFixture::new();
    let first = made.base("dev");
    let fix = made.change();
    let promote = "promote --control-plane cp --to dev";
    made.ok(promote);
    // Another history of the base branch, as after a forced push.
    let base = made.path("cp");
    git(&base, &["reset", "--quiet", "--hard", &first]);
    git(
        &base,
        &["commit", "--quiet", "--allow-empty", "--message", "other"],
    );
    let before = made.at("dev");
    let watch = "promote --control-plane cp --watch --first dev --interval 0";
    // Nor does anybody keep what was there, as in a clone that was made after that.
    git(&base, &["reflog", "expire", "--expire=now", "--all"]);
    git(&base, &["gc", "--quiet", "--prune=now"]);
    git(&base, &["worktree", "prune"]);
    assert!(!git(&base, &["rev-list", "--all"]).contains(&fix), "{fix}");
    for line in [promote, watch] {
        let (_, out, err) = made.ends(1, line);
        assert!(
            format!("{out}{err}").contains(&format!("{fix}, where `dev` is, is not part of ")),
            "{out}{err}"
        );
        assert_eq!(made.at("dev"), before);
    }
    let (_, _, err) = made.ends(1, promote);
    assert!(err.contains("give `--backwards`"), "{err}");
    assert_eq!(made.at("dev"), before);
    made.ok(&format!("{promote} --backwards"));
    assert_ne!(made.base("dev"), fix);
}

#[test]
fn an_environment_is_not_promoted_into_one_before_it() {
    let made = GateFixture::new();
    made.opens(&["prod"]);
    let before = made.at("dev");
    let hub = made.hub();
    let back = format!("promote --control-plane cp --from prod --to dev --hub {hub}");
    let (_, _, err) = made.ends(1, &back);
    assert!(
        err.contains("`prod` comes after `dev` in the chain: this would promote backwards"),
        "{err}"
    );
    assert_eq!(made.at("dev"), before);
    made.ok(&format!("{back} --backwards"));
}

#[test]
fn a_clone_without_the_branch_gets_the_command_that_makes_it() {
    let made = GateFixture::new();
    made.change();
    git(&made.path("."), &["clone", "--quiet", "cp", "clone"]);
    let promote = "promote --control-plane clone --to dev";
    let (_, _, err) = made.ends(2, promote);
    assert!(
        err.contains("has no branch `dev` of its own") && !err.contains("moved meanwhile"),
        "{err}"
    );
    git(&made.path("clone"), &["branch", "dev", "origin/dev"]);
    made.ok(promote);
}

#[test]
fn along_a_circle_nothing_is_promoted_and_the_circle_is_named() {
    let made = GateFixture::new();
    let policy = |name: &str, from: &str, to: &str| {
        made.ok(&format!(
            "new promotion-policy {name} --from {from} --to {to} --in cp"
        ));
    };
    policy("forth", "stage", "prod");
    policy("back", "prod", "stage");
    super::repositories::commit(&made.path("cp"), "a circle");
    made.opens(&["stage", "prod"]);
    let before = (made.at("stage"), made.at("prod"));
    for to in ["stage", "prod"] {
        for more in ["", " --backwards"] {
            let hub = made.hub();
            let line = format!("promote --control-plane cp --to {to} --hub {hub}{more}");
            let (_, _, err) = made.ends(2, &line);
            assert!(
                err.contains("error[promotion-circle]: the promotion chain is a circle"),
                "{err}"
            );
        }
    }
    assert_eq!((made.at("stage"), made.at("prod")), before);
}

#[test]
fn what_is_not_promoted_is_said_not_to_be_checked() {
    let made = GateFixture::new();
    let check = "check --control-plane cp --environment dev";
    let (_, _, err) = made.ok(check);
    assert!(!err.contains("not promoted"), "{err}");
    let first = made.base("dev");
    let second = made.change();
    let (_, _, err) = made.ok(check);
    let short = |commit: &str| commit[..12].to_owned();
    let said = format!(
        "dev: not checked: commit {} of the base, where branch `main` is: `dev` is at {}, until it is promoted",
        short(&second),
        short(&first)
    );
    assert!(err.contains(&said), "{err}");
    made.ok("promote --control-plane cp --to dev");
    let (_, _, err) = made.ok(check);
    assert!(!err.contains("not promoted"), "{err}");
}

#[test]
fn check_asks_no_server_for_the_branch_of_the_base_unless_it_may_use_the_network() {
    let made = GateFixture::new();
    let url = "http://127.0.0.1:9/base";
    // The promoted commit was fetched before.
    let cache = outhaul_git::source::Cache::at(made.path("cache"));
    let there = cache.repository(url);
    let (cp, there) = (made.path("cp"), there.to_str().unwrap().to_owned());
    git(&cp, &["clone", "--quiet", "--bare", ".", &there]);
    git(&cp, &["checkout", "--quiet", "dev"]);
    let file = made.path("cp/base-repo.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    let old = text.lines().find(|line| line.contains("repo:")).unwrap();
    std::fs::write(&file, text.replace(old, &format!("  repo: {url}"))).unwrap();
    commit(&cp, "a base on a server");
    git(&cp, &["checkout", "--quiet", "main"]);
    let check = "check --control-plane cp --environment dev --cache cache --allow-host 127.0.0.1:9";
    let (_, out, err) = made.ok(check);
    assert!(
        err.contains("dev: not checked: whether branch `main` of the base has more than is promoted: it is on a server"),
        "{out}{err}"
    );
    let (_, out, err) = made.ok(&format!("{check} --network"));
    assert!(err.contains("cannot reach"), "{out}{err}");
}
