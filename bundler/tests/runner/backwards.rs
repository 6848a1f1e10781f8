//! Promotion backwards, and in a clone: said, and refused without an explicit option.
//!
//! What comes in: a control plane that `outhaul init` wrote, with real commits, and a clone of it. What must come
//! out: a refusal that says what is older than what, and the move when that is meant.

use super::gate::GateFixture;
use super::repositories::git;

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
    let (_, _, err) = made.ends(1, promote);
    assert!(
        err.contains(&format!("{fix}, where `dev` is, is no part of ")),
        "{err}"
    );
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
